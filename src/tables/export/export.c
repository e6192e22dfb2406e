/*
 * export.c
 *		Reads and checks the export of an account's repository, a CAR file.
 *
 * Blocks come in any order.  Each block is hashed when it comes, and stored (block_store.c).  When
 * all blocks have come, a walk from the commit checks that the blocks form a complete tree.
 */
#include "postgres.h"

#include <limits.h>

#include "core/repo/car_push.h"
#include "core/repo/commit.h"
#include "core/syntax/printable.h"
#include "core/syntax/tid.h"
#include "data/commit_keep.h"
#include "data/signed.h"
#include "common/sha256.h"
#include "stream/stream_time.h"
#include "stream/unknown.h"
#include "tables/export/block_store.h"
#include "tables/export/export.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/* Bytes of an export's blocks in memory. */
#define KEPT_MAX	(4 * 1024 * 1024)

/*
 * The index of an export's blocks may have this many times atproto.fetch_memory: more than the
 * blocks of any large repository need.
 */
#define INDEX_SHARE	4

/*
 * The buffer of a larger node is freed when the walk reads the next node at the same level or
 * above.
 */
#define NODE_KEPT	(32 * 1024)

int			atp_fetch_memory_kb;
int			atp_max_repo_kb;
int			atp_max_repo_records;

struct AtpExport
{
	MemoryContext cxt;
	AtpSpan		did;
	AtpBlockStore *blocks;
	AtpCarPush	push;
	AtpBlockBuffer section;		/* buffer of a section that comes in pieces */
	AtpBytes	root;			/* block of the commit */
	const AtpKeyRange *ranges;	/* P-13: of some collections; NULL: of the whole repository */
	size_t		nranges;
	uint64		added;			/* bytes of the blocks of some collections */
	bool		refused;		/* the commit came first, and was refused at once ... */
	size_t		refused_at;		/* ... because of its byte at this offset */
	AtpCommit	commit;
	AtpExportWalk walk;
	AtpBlockBuffer nodes[ATP_MST_LEVELS_MAX];
	uint8_t		node[ATP_CID_BLESSED_LEN];	/* CID of the node read last, for error messages */
	AtpBlockBuffer record;
	bool		checking;		/* the walk of the check has begun ... */
	bool		checked;		/* ... and found the whole tree */
	AtpExportFault fault;
};

void
atp_export_init(void)
{
	DefineCustomIntVariable("atproto.fetch_memory",
							"Memory for the repositories that are being fetched.",
							"What is read of them goes through temporary files beyond that. The index of one may have four times as much.",
							&atp_fetch_memory_kb, 64 * 1024, 1024, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.max_repo_bytes",
							"Largest export of one repository that is read.",
							"Uncompressed.", &atp_max_repo_kb, 2 * 1024 * 1024, 1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.max_repo_records",
							"Most records of one repository that are read from an export.",
							NULL, &atp_max_repo_records, 20000000, 1, INT_MAX,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* ------------------------------------------------------------------------
 * Faults of an export
 * ------------------------------------------------------------------------
 */
static bool
refuse_export(AtpExport *e, int sqlstate, const char *text, const char *detail)
{
	e->fault = (AtpExportFault) {sqlstate, text, detail};
	return false;
}

static bool
refuse_limit(AtpExport *e, const char *setting, const char *value)
{
	MemoryContext old = MemoryContextSwitchTo(e->cxt);

	(void) refuse_export(e, ERRCODE_PROGRAM_LIMIT_EXCEEDED, psprintf("the export exceeds \"%s\"", setting),
						 psprintf("It is %s.", value));
	MemoryContextSwitchTo(old);
	return false;
}

static bool
refuse_blocks(AtpExport *e)
{
	MemoryContext old = MemoryContextSwitchTo(e->cxt);

	(void) refuse_export(e, ERRCODE_PROGRAM_LIMIT_EXCEEDED, "the export exceeds what \"atproto.fetch_memory\" allows",
						 psprintf("The index of its blocks takes more than %d times %s.", INDEX_SHARE,
								  GetConfigOption("atproto.fetch_memory", false, false)));
	MemoryContextSwitchTo(old);
	return false;
}

static bool
refuse_bytes(AtpExport *e, AtpErr err, size_t at)
{
	MemoryContext old = MemoryContextSwitchTo(e->cxt);

	(void) refuse_export(e, ERRCODE_INVALID_BINARY_REPRESENTATION,
						 psprintf("invalid CAR file at byte %zu", atp_byte_number(at)), atp_err_text(err));
	MemoryContextSwitchTo(old);
	return false;
}

/* The path before the fault, made printable, since strangers choose paths; len 0: no path. */
static AtpSpan
last_path(const AtpExportWalk *walk)
{
	char	   *copy = palloc(walk->mst.last_len + 1);

	/* a path may have any bytes, zeros too: so no pstrdup */
	memcpy(copy, walk->mst.last, walk->mst.last_len);
	atp_make_printable(copy, walk->mst.last_len);
	return (AtpSpan) {copy, walk->mst.last_len};
}

/*
 * A fault in the tree is reported with the block's CID: the block's position in the file is not
 * stored.
 */
void
atp_export_refuse(AtpExport *e, const AtpExportWalk *walk, AtpErr err, size_t at)
{
	MemoryContext old = MemoryContextSwitchTo(e->cxt);
	char		cid[ATP_CID_TEXT_MAX];
	int			len = (int) atp_cid_format(e->node, sizeof(e->node), cid);
	AtpSpan		path = last_path(walk);

	if (err == ATP_E_EXPORT_RECORDS)
		(void) refuse_limit(e, "atproto.max_repo_records", psprintf("%d", atp_max_repo_records));
	else if (err == ATP_E_EXPORT_NODES)
		(void) refuse_export(e, ERRCODE_PROGRAM_LIMIT_EXCEEDED, atp_err_text(err), NULL);
	else
		(void) refuse_export(e, ERRCODE_INVALID_BINARY_REPRESENTATION,
							 psprintf("invalid repository, at byte %zu of block %.*s%s", atp_byte_number(at), len, cid,
									  path.len == 0 ? "" : psprintf(", after path \"%.*s\"", (int) path.len, path.ptr)),
							 atp_err_text(err));
	MemoryContextSwitchTo(old);
}

static AtpExportState
refuse_tree(AtpExport *e, AtpErr err, size_t at)
{
	atp_export_refuse(e, &e->walk, err, at);
	return ATP_EXPORT_BAD;
}

const AtpExportFault *
atp_export_fault(const AtpExport *e)
{
	return &e->fault;
}

void
atp_export_error(const AtpExport *e)
{
	ereport(ERROR,
			(errcode(e->fault.sqlstate),
			 errmsg("%s", e->fault.text),
			 e->fault.detail != NULL ? errdetail("%s", e->fault.detail) : 0));
}

/* ------------------------------------------------------------------------
 * Bytes
 * ------------------------------------------------------------------------
 */
static void
need_bytes(AtpExport *e, AtpBlockBuffer *buffer, Size n)
{
	if (buffer->room >= n)
		return;
	if (buffer->bytes != NULL)
		pfree(buffer->bytes);
	*buffer = (AtpBlockBuffer) {.bytes = NULL};
	buffer->bytes = MemoryContextAlloc(e->cxt, n);
	buffer->room = n;
}

static uint8_t *
section_room(void *ctx, size_t n)
{
	AtpExport  *e = ctx;

	need_bytes(e, &e->section, n);
	return e->section.bytes;
}

static AtpErr
check_commit(AtpExport *e, AtpBytes block, size_t *at)
{
	AtpErr		err = atp_export_commit(block, e->did, &e->commit, at);

	memcpy(e->node, e->push.root, sizeof(e->node));
	if (err != ATP_OK)
		return err;
	*at = 0;
	/* S-10: an export of a space, whose tree of records looks like a repository's */
	if (atp_unknown_in_commit(block))
		return ATP_E_COMMIT_QUALIFIED;
	/* V-14: a revision in the future is not accepted */
	return atp_is_ahead(atp_tid_micros(e->commit.rev)) ? ATP_E_REV_FUTURE : ATP_OK;
}

/*
 * Servers send the commit first, then the tree in its order.  A commit that is not acceptable ends the transfer before
 * the rest of the file comes.  In any other order of blocks, atp_export_finish() finds the fault.
 */
static AtpErr
take_block(void *ctx, const AtpCarBlock *block)
{
	AtpExport  *e = ctx;

	if (e->push.blocks == 0 && block->cid.len == sizeof(e->push.root) && memcmp(block->cid.ptr, e->push.root, sizeof(e->push.root)) == 0)
	{
		AtpErr		err = check_commit(e, block->data, &e->refused_at);

		e->refused = err != ATP_OK;
		if (e->refused)
			return err;
	}
	atp_blocks_add(e->blocks, block->cid, block->data);
	return ATP_OK;
}

AtpExport *
atp_export_create(MemoryContext parent, AtpSpan did, bool across)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "atproto export", ALLOCSET_DEFAULT_SIZES);
	AtpExport  *e = MemoryContextAllocZero(cxt, sizeof(AtpExport));
	AtpCarTaker taker = {section_room, take_block, e, atp_sha256, NULL};

	e->cxt = cxt;
	e->did = (AtpSpan) {MemoryContextStrdup(cxt, pnstrdup(did.ptr, did.len)), did.len};
	e->blocks = atp_blocks_create(cxt, KEPT_MAX, across);
	atp_car_push_begin(&e->push, &taker);
	return e;
}

AtpExport *
atp_export_create_parts(MemoryContext parent, AtpSpan did, const AtpKeyRange *ranges, size_t nranges)
{
	AtpExport  *e = atp_export_create(parent, did, true);

	e->ranges = ranges;
	e->nranges = nranges;
	return e;
}

void
atp_export_free(AtpExport *e)
{
	atp_blocks_free(e->blocks);
	MemoryContextDelete(e->cxt);
}

Size
atp_export_memory(const AtpExport *e)
{
	Size		n = atp_blocks_memory(e->blocks) + e->section.room + e->record.room;

	for (int i = 0; i < ATP_MST_LEVELS_MAX; i++)
		n += e->nodes[i].room;
	return n;
}

Size
atp_export_index(const AtpExport *e)
{
	return atp_blocks_index(e->blocks);
}

static bool
is_too_large(AtpExport *e, uint64 bytes)
{
	return bytes > (uint64) atp_max_repo_kb * 1024 &&
		!refuse_limit(e, "atproto.max_repo_bytes", GetConfigOption("atproto.max_repo_bytes", false, false));
}

static bool
has_large_index(AtpExport *e)
{
	return atp_blocks_index(e->blocks) / 1024 > (Size) atp_fetch_memory_kb * INDEX_SHARE && !refuse_blocks(e);
}

bool
atp_export_take(AtpExport *e, const uint8_t *data, Size n)
{
	size_t		at;
	AtpErr		err;

	if (is_too_large(e, e->push.bytes + n))
		return false;
	err = atp_car_push(&e->push, data, n, &at);
	if (e->refused)
		return refuse_tree(e, err, e->refused_at) != ATP_EXPORT_BAD;
	if (err != ATP_OK)
		return refuse_bytes(e, err, at);
	return !has_large_index(e);
}

bool
atp_export_add(AtpExport *e, AtpBytes cid, AtpBytes block)
{
	atp_blocks_add(e->blocks, cid, block);
	e->added += block.len;
	return !is_too_large(e, e->added) && !has_large_index(e);
}

bool
atp_export_has(const AtpExport *e, AtpBytes cid)
{
	return atp_blocks_has(e->blocks, cid);
}

bool
atp_export_set_head(AtpExport *e, AtpBytes cid)
{
	AtpBlockBuffer buffer = {.bytes = NULL};
	AtpBytes	block;
	MemoryContext old;
	size_t		at;
	AtpErr		err;

	e->checking = e->checked = false;
	memcpy(e->push.root, cid.ptr, sizeof(e->push.root));
	if (!atp_blocks_read(e->blocks, cid, &buffer, &block))
		return refuse_bytes(e, ATP_E_COMMIT_MISSING, 0);
	/* a copy, because blocks are added later */
	if (e->root.ptr != NULL)
		pfree(unconstify(uint8_t *, e->root.ptr));
	old = MemoryContextSwitchTo(e->cxt);
	e->root = (AtpBytes) {memcpy(palloc(block.len), block.ptr, block.len), block.len};
	MemoryContextSwitchTo(old);
	if (buffer.bytes != NULL)
		pfree(buffer.bytes);
	err = check_commit(e, e->root, &at);
	return err == ATP_OK || refuse_tree(e, err, at) != ATP_EXPORT_BAD;
}

bool
atp_export_finish(AtpExport *e)
{
	AtpBlockBuffer buffer = {.bytes = NULL};
	AtpBytes	root = {e->push.root, ATP_CID_BLESSED_LEN};
	size_t		at;
	AtpErr		err = atp_car_push_end(&e->push, &at);

	if (err != ATP_OK)
		return refuse_bytes(e, err, at);
	if (e->section.bytes != NULL)
		pfree(e->section.bytes);
	e->section = (AtpBlockBuffer) {.bytes = NULL};
	if (!atp_blocks_read(e->blocks, root, &buffer, &e->root))
		return refuse_bytes(e, ATP_E_COMMIT_MISSING, e->push.bytes);
	err = check_commit(e, e->root, &at);
	return err == ATP_OK || refuse_tree(e, err, at) != ATP_EXPORT_BAD;
}

const AtpCommit *
atp_export_head(const AtpExport *e)
{
	return &e->commit;
}

AtpBytes
atp_export_head_cid(const AtpExport *e)
{
	return (AtpBytes) {e->push.root, ATP_CID_BLESSED_LEN};
}

bytea *
atp_export_head_keep(const AtpExport *e, bytea **block)
{
	return atp_commit_keep(e->commit.sig, e->root, e->commit.plain, block);
}

bool
atp_export_is_signed(const AtpExport *e, const uint8_t key[])
{
	return atp_is_signed(key, e->root, false);
}

/* ------------------------------------------------------------------------
 * The tree
 * ------------------------------------------------------------------------
 */
static bool
read_node(void *ctx, unsigned level, AtpBytes cid, AtpBytes *node)
{
	AtpExport  *e = ctx;

	/* nodes at this level and below are not needed any more */
	for (unsigned i = level; i < ATP_MST_LEVELS_MAX; i++)
		if (e->nodes[i].room > NODE_KEPT)
		{
			pfree(e->nodes[i].bytes);
			e->nodes[i] = (AtpBlockBuffer) {.bytes = NULL};
		}
	if (!atp_blocks_read(e->blocks, cid, &e->nodes[level], node))
		return false;
	memcpy(e->node, cid.ptr, sizeof(e->node));
	return true;
}

/* As read_node(), but the node stays when blocks are added: the store moves the blocks that it has in memory. */
static bool
copy_node(void *ctx, unsigned level, AtpBytes cid, AtpBytes *node)
{
	AtpExport  *e = ctx;

	if (!read_node(ctx, level, cid, node))
		return false;
	if (e->nodes[level].bytes != NULL && node->ptr >= e->nodes[level].bytes && node->ptr < e->nodes[level].bytes + e->nodes[level].room)
		return true;
	need_bytes(e, &e->nodes[level], Max(node->len, 1));
	memcpy(e->nodes[level].bytes, node->ptr, node->len);
	node->ptr = e->nodes[level].bytes;
	return true;
}

static bool
has_block(void *ctx, AtpBytes cid)
{
	return atp_blocks_has(((AtpExport *) ctx)->blocks, cid);
}

bool
atp_export_rewind(AtpExport *e)
{
	/* P-22: of some collections, only records are there whose values are needed */
	AtpExportSource source = {
		.read = e->ranges != NULL ? copy_node : read_node, .has = e->checked || e->ranges != NULL ? NULL : has_block, .ctx = e, .blocks = atp_blocks_count(e->blocks),
		.max_records = atp_max_repo_records, .sha256 = atp_sha256, .ranges = e->ranges, .nranges = e->nranges
	};
	size_t		at;
	AtpErr		err = atp_export_begin(&e->walk, &source, e->commit.data, &at);

	return err == ATP_OK || refuse_tree(e, err, at) != ATP_EXPORT_BAD;
}

AtpExportSource
atp_export_nodes(AtpExport *e)
{
	return (AtpExportSource) {
		.read = copy_node, .ctx = e, .max_records = atp_max_repo_records, .sha256 = atp_sha256,
		.ranges = e->ranges, .nranges = e->nranges
	};
}

AtpExportState
atp_export_fetch(AtpExport *e, AtpExportRecord *record)
{
	size_t		at;
	AtpErr		err = atp_export_next(&e->walk, record, &at);

	return err == ATP_OK ? ATP_EXPORT_MORE : err == ATP_E_MST_END ? ATP_EXPORT_DONE : refuse_tree(e, err, at);
}

AtpExportState
atp_export_check(AtpExport *e, int records)
{
	AtpExportState state = ATP_EXPORT_MORE;
	AtpExportRecord record;

	if (!e->checking && !atp_export_rewind(e))
		return ATP_EXPORT_BAD;
	e->checking = true;
	for (int i = 0; state == ATP_EXPORT_MORE && i < records; i++)
		state = atp_export_fetch(e, &record);
	e->checked = state == ATP_EXPORT_DONE;
	return state;
}

bool
atp_export_block(AtpExport *e, AtpBytes cid, AtpBytes *block)
{
	return atp_blocks_read(e->blocks, cid, &e->record, block) ||
		refuse_tree(e, ATP_E_RECORD_MISSING, 0) != ATP_EXPORT_BAD;
}
