/*
 * proof_compare.c
 *		Compares the records of an account's commit with the rows of the table record, and changes nothing (P-50).
 *
 * Only keys and CIDs are compared, so that no record has to be fetched.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "config/extension.h"
#include "config/spi.h"
#include "common/sha256.h"
#include "core/archive/archive_message.h"
#include "core/codec/cid.h"
#include "core/syntax/printable.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "tables/export/merge_compare.h"
#include "tables/export/proof_compare.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* Paths compared between two looks at the clock. */
#define LOOK		256

/* Letters of an account that are read. */
#define LETTERS_MAX	"100000"

struct AtpProofCompare
{
	MemoryContext cxt;
	MemoryContext paths;		/* of a look */
	AtpMergeCompare both;
	const char *target;
	struct varlena *did;
	char	  **letters;		/* sorted paths of dead letters */
	int			nletters;
	AtpProofCounts counts;
};

static int
compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* P-44: the paths of the account's dead letters, of all subscriptions of the target. */
static void
read_letters(AtpProofCompare *p)
{
	AtpCaller	caller = atp_as_table_owner("dead_letter");
	AtpResult	found = atp_query(atp_identity_sql("SELECT DISTINCT d.path FROM atproto.dead_letter d JOIN atproto.subscription s ON s.name = d.subscription"
												   " WHERE s.target = $1::name AND d.did OPERATOR(@.=) $2 AND d.path LIKE '%/%' LIMIT " LETTERS_MAX),
								  ATP_ARGS(atp_text_arg(p->target), (AtpArg) {PointerGetDatum(p->did), atp_type("did"), false}));
	MemoryContext old = MemoryContextSwitchTo(p->cxt);

	p->letters = palloc(sizeof(char *) * Max(found.n, 1));
	for (uint64 i = 0; i < found.n; i++)
		p->letters[p->nletters++] = pstrdup(atp_get_text(atp_result_row(found, i), "path"));
	qsort(p->letters, p->nletters, sizeof(char *), compare_texts);
	MemoryContextSwitchTo(old);
	atp_result_free(found);
	atp_owner_end(caller);
}

static bool
contains_bytes(AtpBytes in, const void *what, size_t n)
{
	const uint8_t *end = in.ptr + in.len;

	for (const uint8_t *at = in.ptr; at != NULL && (size_t) (end - at) >= n; at++)
	{
		at = memchr(at, *(const uint8_t *) what, end - at - n + 1);
		if (at == NULL)
			return false;
		if (memcmp(at, what, n) == 0)
			return true;
	}
	return false;
}

static bool
is_cid_of(AtpBytes record, AtpBytes cid)
{
	uint8_t		own[ATP_CID_BLESSED_LEN];

	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, record.ptr, record.len, atp_sha256, NULL, own);
	return cid.len == sizeof(own) && memcmp(own, cid.ptr, sizeof(own)) == 0;
}

/*
 * Is the message of a letter about the record with this CID?  Messages of streams name the CID, as bytes or as text; a row of an archive
 * and a letter of an export have only the record.
 */
static bool
is_about(AtpBytes message, AtpBytes cid)
{
	char		text[ATP_CID_TEXT_MAX];
	AtpArchiveRow row;

	if (contains_bytes(message, cid.ptr, cid.len) || is_cid_of(message, cid))
		return true;
	if (cid.len == ATP_CID_BLESSED_LEN && contains_bytes(message, text, atp_cid_format(cid.ptr, cid.len, text)))
		return true;
	return atp_archive_message_read(message, &row) == ATP_OK && is_cid_of(row.payload, cid);
}

/*
 * P-44: does a letter say that this record cannot be stored?  A letter about an older value of the record, which the account has replaced
 * since, explains nothing.
 */
static bool
has_letter(const AtpProofCompare *p, char *path, AtpBytes cid)
{
	AtpCaller	caller;
	AtpResult	found;
	bool		has = false;

	if (bsearch(&path, p->letters, p->nletters, sizeof(char *), compare_texts) == NULL)
		return false;
	caller = atp_as_table_owner("dead_letter");
	found = atp_query(atp_identity_sql("SELECT f.bytes FROM atproto.dead_letter d JOIN atproto.dead_frame f ON f.subscription = d.subscription AND f.digest = d.digest"
									   " JOIN atproto.subscription s ON s.name = d.subscription WHERE s.target = $1::name AND d.did OPERATOR(@.=) $2 AND d.path = $3"),
					  ATP_ARGS(atp_text_arg(p->target), (AtpArg) {PointerGetDatum(p->did), atp_type("did"), false}, atp_text_arg(path)));
	for (uint64 i = 0; i < found.n && !has; i++)
	{
		bool		isnull;
		bytea	   *bytes = PG_DETOAST_DATUM_PACKED(atp_get(atp_result_row(found, i), "bytes", BYTEAOID, &isnull));

		has = is_about((AtpBytes) {(const uint8_t *) VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)}, cid);
	}
	atp_result_free(found);
	atp_owner_end(caller);
	return has;
}

AtpProofCompare *
atp_proof_begin(MemoryContext parent, AtpStatements *set, const AtpSettings *settings, AtpExport *export, struct varlena *did)
{
	AtpProofCompare *p = MemoryContextAllocZero(parent, sizeof(AtpProofCompare));

	p->cxt = AllocSetContextCreate(parent, "atproto proof", ALLOCSET_DEFAULT_SIZES);
	p->paths = AllocSetContextCreate(p->cxt, "atproto paths of a proof", ALLOCSET_DEFAULT_SIZES);
	p->target = atp_target(set);
	p->did = did;
	read_letters(p);
	atp_compare_begin(&p->both, p->cxt, set, settings, export, did);
	return p;
}

void
atp_proof_free(AtpProofCompare *p)
{
	MemoryContextDelete(p->cxt);
	pfree(p);
}

const AtpProofCounts *
atp_proof_counts(const AtpProofCompare *p)
{
	return &p->counts;
}

/* A path as text: an account may choose any bytes. */
static char *
text_of(AtpBytes path)
{
	char	   *text = palloc(path.len + 1);

	memcpy(text, path.ptr, path.len);
	atp_make_printable(text, path.len);
	text[path.len] = '\0';
	return text;
}

static void
note_path(AtpProofCompare *p, const char *how, const char *path)
{
	if (p->counts.npaths < ATP_PROOF_PATHS)
	{
		MemoryContext old = MemoryContextSwitchTo(p->cxt);

		p->counts.paths[p->counts.npaths++] = psprintf("%s %s", how, path);
		MemoryContextSwitchTo(old);
	}
}

static void
take_missing(AtpProofCompare *p, AtpBytes path, AtpBytes cid)
{
	char	   *text = text_of(path);

	if (has_letter(p, text, cid))
	{
		p->counts.letters++;
		return;
	}
	p->counts.missing++;
	note_path(p, "missing", text);
}

/* Compare the next path of tree and table; false: both are at their ends. */
static bool
compare_one(AtpProofCompare *p)
{
	const AtpStoredRow *row;
	AtpCompared where = atp_compare_look(&p->both, &row);
	const AtpExportRecord *record = &p->both.record;
	AtpBytes	path = {(const uint8_t *) record->path.ptr, record->path.len};

	p->counts.records += where == ATP_COMPARED_TREE || where == ATP_COMPARED_BOTH;
	switch (where)
	{
		case ATP_COMPARED_END:
			return false;
		case ATP_COMPARED_INVALID:
		case ATP_COMPARED_UNWANTED:
			break;
		case ATP_COMPARED_TREE:
			take_missing(p, path, record->cid);
			break;
		case ATP_COMPARED_TABLE:
			p->counts.extra++;
			note_path(p, "extra", text_of(row->path));
			break;
		case ATP_COMPARED_BOTH:
			/* the revision of a row says nothing: a row of an archive has only an upper bound */
			if (row->cid.len == record->cid.len && memcmp(row->cid.ptr, record->cid.ptr, row->cid.len) == 0)
				break;
			p->counts.other++;
			note_path(p, "other", text_of(path));
			break;
	}
	atp_compare_next(&p->both, where);
	return true;
}

bool
atp_proof_some(AtpProofCompare *p, AtpTime until)
{
	MemoryContext old = MemoryContextSwitchTo(p->paths);
	bool		more = true;

	for (int i = 1; more; i++)
	{
		more = compare_one(p);
		if (i % LOOK != 0)
			continue;
		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(p->paths);
		if (atp_now() >= until)
			break;
	}
	MemoryContextSwitchTo(old);
	atp_compare_rest(&p->both);
	return more;
}
