/*
 * sparse_fetch.c
 *		Fetches some collections of an account's repository with proof: see sparse_fetch.h.
 *
 * The fetch begins with proofs by getRecord of a key at either end of the ranges: they bring the commit, and the nodes on
 * the way to these keys.  Then each round walks over the present nodes (core/repo/sparse_walk.h), and asks for the absent
 * ones, four requests at a time.  A server gives all blocks of a request or none, and has only the blocks of its present
 * commit: where a block is missing, getLatestCommit tells whether the repository has moved on.
 *
 * Memory: a few requests, the nodes of a path through the tree, and a block store that spills to a temporary file.
 * There is no list of nodes or records.
 */
#include "postgres.h"

#include "fetch/repositories/sparse_private.h"
#include "utils/memutils.h"

#define WHOLE_MS		(60 * 60 * 1000)	/* P-14: time limit of a fetch */

/* ------------------------------------------------------------------------
 * Faults
 * ------------------------------------------------------------------------
 */
void
atp_sparse_fail(AtpSparseFetch *f, AtpSparseFaultKind kind, const char *text, const AtpHttpAnswer *answer)
{
	if (f->failed)
		return;
	f->failed = true;
	f->fault = (AtpSparseFault) {kind, MemoryContextStrdup(f->cxt, text), answer};
}

/* The export has a fault: of the account's repository, or a limit that it exceeds. */
void
atp_sparse_fail_export(AtpSparseFetch *f)
{
	const AtpExportFault *fault = atp_export_fault(f->export);

	atp_sparse_fail(f, fault->sqlstate == ERRCODE_PROGRAM_LIMIT_EXCEEDED ? ATP_SPARSE_TOO_LARGE : ATP_SPARSE_WRONG,
		 fault->detail == NULL ? fault->text : psprintf("%s: %s", fault->text, fault->detail), NULL);
}

/* The error of an answer, with the first of many CIDs of its URL: the reason, which comes last, must have room in a row. */
static const char *
error_of(const AtpHttpAnswer *answer)
{
	const char *first = answer->error == NULL ? NULL : strstr(answer->error, "&cids=");
	const char *second = first == NULL ? NULL : strchr(first + 1, '&');
	const char *end = second == NULL ? NULL : strstr(second, ": ");

	if (end != NULL)
		return psprintf("%.*s...%s", (int) (second - answer->error), answer->error, end);
	return answer->error != NULL ? answer->error : "the answer is not of status 200";
}

void
atp_sparse_fail_answer(AtpSparseFetch *f, const AtpHttpAnswer *answer)
{
	atp_sparse_fail(f, atp_sparse_answer_kind(answer), error_of(answer), answer);
}

static bool
keep_block(void *ctx, AtpBytes cid, AtpBytes block)
{
	AtpSparseFetch *f = ctx;

	if (!atp_export_add(f->export, cid, block))
		atp_sparse_fail_export(f);
	return !f->failed;
}

/* ------------------------------------------------------------------------
 * Beginning and end
 * ------------------------------------------------------------------------
 */
static int
compare_ranges(const void *a, const void *b)
{
	return atp_key_range_compare(a, b);
}

static void
make_ranges(AtpSparseFetch *f)
{
	f->ranges = palloc(sizeof(AtpKeyRange) * f->ask.ncollections);
	for (int i = 0; i < f->ask.ncollections; i++)
	{
		char	   *pattern = pstrdup(f->ask.collections[i]);

		f->ranges[i] = atp_key_range((AtpSpan) {pattern, strlen(pattern)});
	}
	qsort(f->ranges, f->ask.ncollections, sizeof(AtpKeyRange), compare_ranges);
	f->nranges = atp_key_ranges_join(f->ranges, f->ask.ncollections);
}

AtpSparseFetch *
atp_sparse_fetch_create(MemoryContext parent, const AtpSparseAsk *ask)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "atproto sparse fetch", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	AtpSparseFetch *f = palloc0(sizeof(AtpSparseFetch));

	Assert(ask->ncollections > 0);
	f->cxt = cxt;
	f->ask = *ask;
	f->ask.server = pstrdup(ask->server);
	f->ask.did = pstrdup(ask->did);
	f->window = ATP_GET_BLOCKS_MAX;
	f->until = atp_now() + (AtpTime) WHOLE_MS * 1000;
	make_ranges(f);
	f->url_len = atp_sparse_url(f, "getBlocks").len;
	f->export = atp_export_create_parts(cxt, (AtpSpan) {f->ask.did, strlen(f->ask.did)}, f->ranges, f->nranges);
	for (int i = 0; i < ATP_SPARSE_REQUESTS; i++)
		atp_sparse_request_init(&f->requests[i], cxt, keep_block, f);
	atp_sparse_begin_proofs(f);
	MemoryContextSwitchTo(old);
	return f;
}

void
atp_sparse_fetch_free(AtpSparseFetch *f)
{
	for (int i = 0; i < ATP_SPARSE_REQUESTS; i++)
		atp_sparse_request_clear(&f->requests[i]);
	atp_fetch_free(f->latest);
	atp_export_free(f->export);
	MemoryContextDelete(f->cxt);
}

bool
atp_sparse_fetch_ended(AtpSparseFetch *f, const AtpHttp *http)
{
	for (int i = 0; i < ATP_SPARSE_REQUESTS; i++)
		if (f->requests[i].http == http)
			return f->requests[i].ended = true;
	f->latest_ended |= f->latest == http;
	return f->latest == http;
}

const AtpSparseFault *
atp_sparse_fetch_fault(const AtpSparseFetch *f)
{
	return &f->fault;
}

AtpExport *
atp_sparse_fetch_export(const AtpSparseFetch *f)
{
	return f->export;
}

bool
atp_sparse_fetch_has_head(const AtpSparseFetch *f)
{
	return f->has_head;
}

int64
atp_sparse_fetch_bytes(const AtpSparseFetch *f)
{
	return f->bytes;
}

int
atp_sparse_fetch_requests(const AtpSparseFetch *f)
{
	return f->count;
}

int
atp_sparse_fetch_running(const AtpSparseFetch *f)
{
	return atp_sparse_count(f, ATP_SPARSE_RUNNING) + (f->latest != NULL);
}

/* ------------------------------------------------------------------------
 * Steps
 * ------------------------------------------------------------------------
 */
bool
atp_sparse_fetch_want(AtpSparseFetch *f, AtpBytes cid)
{
	AtpSparseRequest *r = f->filling;
	AtpErr		err;

	if (atp_export_has(f->export, cid))
		return true;
	if (r != NULL && (err = atp_get_blocks_add(&r->ask, cid)) == ATP_OK)
		return true;
	if ((r = atp_sparse_find_idle(f)) == NULL)
		return false;
	atp_sparse_begin_blocks(f, r, ATP_GET_BLOCKS_RECORD_MAX);
	f->filling = r;
	if (atp_get_blocks_add(&r->ask, cid) != ATP_OK)
		atp_sparse_fail(f, ATP_SPARSE_WRONG, "the CID of a record is not that of DAG-CBOR with SHA-256", NULL);
	return true;
}

static void
move_phase(AtpSparseFetch *f)
{
	switch (f->phase)
	{
		case ATP_SPARSE_PROOFS:
			if (atp_sparse_count(f, ATP_SPARSE_FILLED) == 0 && atp_sparse_count(f, ATP_SPARSE_RUNNING) == 0)
				atp_sparse_choose_head(f);
			break;
		case ATP_SPARSE_COMMIT:
			if (atp_sparse_is_idle(f))
				atp_sparse_set_head(f, f->head);
			break;
		case ATP_SPARSE_LEVELS:
			atp_sparse_move_levels(f);
			break;
		case ATP_SPARSE_CHECK:
			atp_sparse_check_nodes(f);
			break;
		case ATP_SPARSE_LATEST:
		case ATP_SPARSE_COMPLETE:
			break;
	}
}

AtpSparseState
atp_sparse_fetch_step(AtpSparseFetch *f, long *wait_ms)
{
	AtpSparsePhase before = f->phase;
	bool		news = false;

	*wait_ms = -1;
	if (!f->failed && atp_now() >= f->until)
		atp_sparse_fail(f, ATP_SPARSE_TOO_LARGE, "the fetch of parts takes longer than an hour", NULL);
	if (!f->failed && f->latest_ended)
	{
		f->latest_ended = false;
		atp_sparse_take_latest(f);
		news = true;
	}
	else if (!f->failed)
		news = atp_sparse_take(f);
	if (!f->failed && !news)
		move_phase(f);
	if (f->failed)
		return ATP_SPARSE_FAILED;
	if (news || f->phase != before || f->phase == ATP_SPARSE_CHECK)
		return ATP_SPARSE_MORE;
	if (f->phase == ATP_SPARSE_COMPLETE && atp_sparse_is_idle(f))
	{
		bool		told = f->told;

		f->told = true;
		return told ? ATP_SPARSE_RECORDS : ATP_SPARSE_NODES;
	}
	atp_sparse_send(f, wait_ms);
	return f->phase == ATP_SPARSE_LEVELS && (!f->in_round || f->paused != NULL) ? ATP_SPARSE_MORE : ATP_SPARSE_WAITS;
}
