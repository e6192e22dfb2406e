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

#include "core/repo/sparse_walk.h"
#include "core/wire/repo_status.h"
#include "fetch/repositories/sparse_request.h"
#include "utils/memutils.h"

#define REQUESTS_MAX	4			/* P-03: requests at a time */
#define WHOLE_MS		(60 * 60 * 1000)	/* P-14: time limit of a fetch */
#define PROOF_MS		(2 * 60 * 1000)	/* ... of a request for a proof, or for a commit's CID */
#define BLOCKS_MS		(10 * 60 * 1000)	/* ... of a request for blocks */
#define PROOF_MAX		(8 * 1024 * 1024)	/* bytes of a proof */
#define EXTRA_MAX		(64 * 1024) /* bytes of an answer besides its blocks */
#define MOVES_MAX		5			/* P-05 */
#define CHECK_STEP		5000		/* records walked over in a step */

/* Keys walked over in a step while absent nodes are looked for; for tests, few enough for their repositories. */
#ifdef ATP_INJECTION_POINTS
#define LEVELS_STEP		7
#else
#define LEVELS_STEP		50000
#endif

/* P-30: where parts are cheaper. */
#define LOW_ROOT		2			/* height of the root of a repository that one request brings */
#define REQUESTS_FREE	20			/* parts may take so many requests ... */
#define MB_OF_REQUEST	2			/* ... and one for each so many megabytes of the whole */
#define RECORD_BYTES	600			/* of the whole, for each record */

typedef enum SparsePhase
{
	SPARSE_PROOFS,				/* getRecord of both ends */
	SPARSE_LATEST,				/* a server without proofs: getLatestCommit ... */
	SPARSE_COMMIT,				/* ... and the commit's block */
	SPARSE_LEVELS,
	SPARSE_CHECK,				/* the records' nodes are walked once more (P-15) */
	SPARSE_COMPLETE				/* the nodes are there; the caller names records */
} SparsePhase;

struct AtpSparseFetch
{
	MemoryContext cxt;
	AtpSparseAsk ask;
	size_t		nranges;
	AtpKeyRange *ranges;
	size_t		url_len;		/* of a request for blocks, without their CIDs */
	AtpExport  *export;
	SparsePhase phase;
	AtpSparseRequest requests[REQUESTS_MAX];
	AtpSparseRequest *reading;	/* the request whose answer is read: one at a time, because each needs a buffer */
	AtpHttp    *latest;			/* getLatestCommit */
	bool		latest_ended;
	bool		without_proofs; /* the server has answered RecordNotFound */
	bool		has_head;
	uint8_t		head[ATP_CID_BLESSED_LEN];
	AtpSparseWalk walk;
	bool		in_round;
	bool		walking;		/* the round has not named all absent nodes */
	bool		named;			/* ... but at least one */
	bool		judged;
	bool		left;			/* a node that was named, and no request had room for */
	uint8_t		left_cid[ATP_CID_BLESSED_LEN];
	bool		told;			/* the caller knows that the nodes are complete */
	AtpSparseRequest *paused;	/* half filled with absent nodes, in the middle of a walk; NULL: none */
	AtpSparseRequest *filling;	/* for records that the caller names; NULL: none */
	unsigned	window;			/* P-04: blocks of a request: halved while the server refuses */
	int			moves;
	AtpTime		until;
	int64		bytes;
	int			count;			/* requests */
	bool		failed;
	AtpSparseFault fault;
};

/* ------------------------------------------------------------------------
 * Faults
 * ------------------------------------------------------------------------
 */
static void
fail_fetch(AtpSparseFetch *f, AtpSparseFaultKind kind, const char *text, const AtpHttpAnswer *answer)
{
	if (f->failed)
		return;
	f->failed = true;
	f->fault = (AtpSparseFault) {kind, MemoryContextStrdup(f->cxt, text), answer};
}

/* The export has a fault: of the account's repository, or a limit that it exceeds. */
static void
fail_export(AtpSparseFetch *f)
{
	const AtpExportFault *fault = atp_export_fault(f->export);

	fail_fetch(f, fault->sqlstate == ERRCODE_PROGRAM_LIMIT_EXCEEDED ? ATP_SPARSE_TOO_LARGE : ATP_SPARSE_WRONG,
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

static void
fail_answer(AtpSparseFetch *f, const AtpHttpAnswer *answer)
{
	fail_fetch(f, atp_sparse_answer_kind(answer), error_of(answer), answer);
}

static bool
keep_block(void *ctx, AtpBytes cid, AtpBytes block)
{
	AtpSparseFetch *f = ctx;

	if (!atp_export_add(f->export, cid, block))
		fail_export(f);
	return !f->failed;
}

/* ------------------------------------------------------------------------
 * Beginning and end
 * ------------------------------------------------------------------------
 */
static StringInfoData
begin_url(const AtpSparseFetch *f, const char *what)
{
	StringInfoData url;

	initStringInfo(&url);
	appendStringInfo(&url, "%s/xrpc/com.atproto.sync.%s?did=", f->ask.server, what);
	atp_fetch_append_escaped(&url, f->ask.did);
	return url;
}

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

/* P-02: a key just above the lowest bound, and, if records are expected, one of the highest. */
static void
begin_proofs(AtpSparseFetch *f)
{
	for (int i = 0; i < REQUESTS_MAX; i++)
		atp_sparse_request_clear(&f->requests[i]);
	f->reading = NULL;
	f->filling = f->paused = NULL;
	f->in_round = f->walking = f->left = f->told = f->has_head = false;
	f->phase = f->without_proofs ? SPARSE_LATEST : SPARSE_PROOFS;
	for (int i = 0; f->phase == SPARSE_PROOFS && i < (f->ask.expects_none ? 1 : 2); i++)
	{
		f->requests[i].is_proof = true;
		f->requests[i].state = ATP_SPARSE_FILLED;
	}
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
	f->url_len = begin_url(f, "getBlocks").len;
	f->export = atp_export_create_parts(cxt, (AtpSpan) {f->ask.did, strlen(f->ask.did)}, f->ranges, f->nranges);
	for (int i = 0; i < REQUESTS_MAX; i++)
		atp_sparse_request_init(&f->requests[i], cxt, keep_block, f);
	begin_proofs(f);
	MemoryContextSwitchTo(old);
	return f;
}

void
atp_sparse_fetch_free(AtpSparseFetch *f)
{
	for (int i = 0; i < REQUESTS_MAX; i++)
		atp_sparse_request_clear(&f->requests[i]);
	atp_fetch_free(f->latest);
	atp_export_free(f->export);
	MemoryContextDelete(f->cxt);
}

bool
atp_sparse_fetch_ended(AtpSparseFetch *f, const AtpHttp *http)
{
	for (int i = 0; i < REQUESTS_MAX; i++)
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

static int
count_state(const AtpSparseFetch *f, AtpSparseRequestState state)
{
	int			n = 0;

	for (int i = 0; i < REQUESTS_MAX; i++)
		n += f->requests[i].state == state;
	return n;
}

int
atp_sparse_fetch_running(const AtpSparseFetch *f)
{
	return count_state(f, ATP_SPARSE_RUNNING) + (f->latest != NULL);
}

static bool
all_idle(const AtpSparseFetch *f)
{
	return count_state(f, ATP_SPARSE_IDLE) == REQUESTS_MAX;
}

/* ------------------------------------------------------------------------
 * Sending
 * ------------------------------------------------------------------------
 */
static char *
url_of_proof(const AtpSparseFetch *f, bool first)
{
	StringInfoData url = begin_url(f, "getRecord");
	AtpKeyProbe probe;

	if (first)
		atp_key_probe_first(&f->ranges[0], &probe);
	else
		atp_key_probe_last(&f->ranges[f->nranges - 1], &probe);
	appendStringInfoString(&url, "&collection=");
	appendBinaryStringInfo(&url, probe.collection, (int) probe.collection_len);
	appendStringInfoString(&url, "&rkey=");
	appendBinaryStringInfo(&url, probe.rkey.ptr, (int) probe.rkey.len);
	return url.data;
}

/* A body of one byte more than is allowed is still read, so that the limit that was exceeded has its own name. */
static int64
limit_body(const AtpSparseFetch *f, int64 most)
{
	return Min(most, Max((int64) atp_max_repo_kb * 1024 - f->bytes, 0) + 1);
}

static bool
send_request(AtpSparseFetch *f, AtpSparseRequest *r, long *wait_ms)
{
	StringInfoData url;

	if (r->is_proof)
		return atp_sparse_request_send(r, f->ask.owner, url_of_proof(f, r == &f->requests[0]), limit_body(f, PROOF_MAX), PROOF_MS, wait_ms);
	url = begin_url(f, "getBlocks");
	atp_sparse_request_blocks(r, &url, f->window);
	return atp_sparse_request_send(r, f->ask.owner, url.data, limit_body(f, (int64) r->asked * r->ask.block_max + EXTRA_MAX), BLOCKS_MS, wait_ms);
}

static void
send_latest(AtpSparseFetch *f, long *wait_ms)
{
	StringInfoData url = begin_url(f, "getLatestCommit");

	f->latest = atp_fetch_start(&(AtpHttpRequest) {
								.owner = f->ask.owner, .shared = true, .url = url.data, .accept = "application/json", .redirects = 3, .whole_ms = PROOF_MS, .gzip = true
								}, NULL, wait_ms);
	f->latest_ended = false;
	f->count += f->latest != NULL;
}

/* P-04: which commit is the latest, if a block was missing, is asked when no request runs. */
static bool
needs_latest(const AtpSparseFetch *f)
{
	return f->phase == SPARSE_LATEST || count_state(f, ATP_SPARSE_LACKING) > 0;
}

static void
send_requests(AtpSparseFetch *f, long *wait_ms)
{
	f->filling = NULL;
	if (needs_latest(f))
	{
		if (f->latest == NULL && count_state(f, ATP_SPARSE_RUNNING) == 0)
			send_latest(f, wait_ms);
		return;
	}
	for (int i = 0; i < REQUESTS_MAX; i++)
	{
		AtpSparseRequest *r = &f->requests[i];

		if (r->state != ATP_SPARSE_FILLED)
			continue;
		if (!send_request(f, r, wait_ms))
			return;
		f->count++;
	}
}

/* ------------------------------------------------------------------------
 * Answers
 * ------------------------------------------------------------------------
 */
static const char *
why_wrong(const AtpSparseRequest *r)
{
	return psprintf("invalid CAR file at byte %zu: %s", atp_byte_number(r->err_at), atp_err_text(r->err));
}

static AtpSparseRequestState
take_proof(AtpSparseFetch *f, AtpSparseRequest *r, const AtpHttpAnswer *answer)
{
	const char *body = answer->body != NULL ? answer->body : "";
	bool		refused = answer->outcome == ATP_HTTP_OK && answer->status >= 400 && answer->status <= 499;

	if (!r->has_root && refused && atp_answer_error_is(body, strlen(body), "RecordNotFound"))
		f->without_proofs = true;
	else if (!r->has_root)
		fail_answer(f, answer);
	return ATP_SPARSE_ANSWERED;
}

static AtpSparseRequestState
take_blocks(AtpSparseFetch *f, AtpSparseRequest *r, const AtpHttpAnswer *answer)
{
	if (r->has_root ? r->missing - r->ask.missing < r->asked : atp_sparse_answer_lacks(answer))
		return ATP_SPARSE_LACKING;
	if (!r->has_root)
		fail_answer(f, answer);
	return r->ask.missing > 0 ? ATP_SPARSE_FILLED : ATP_SPARSE_IDLE;
}

/* The answer has ended, and all its bytes are read; or a block is wrong. */
static void
take_end(AtpSparseFetch *f, AtpSparseRequest *r)
{
	const AtpHttpAnswer *answer;
	AtpSparseRequestState next;

	if (!r->wrong)
		r->has_root = atp_sparse_request_is_good(r);
	if (r->wrong)
	{
		/* P-10: the first wrong block ends the fetch */
		fail_fetch(f, ATP_SPARSE_REFUSED, why_wrong(r), NULL);
		return;
	}
	answer = atp_http_answer(r->http);
	next = r->is_proof ? take_proof(f, r, answer) : take_blocks(f, r, answer);
	/* after a fault, the answer stays for the caller */
	if (f->failed)
		return;
	atp_sparse_request_finish(r);
	r->state = next;
}

/* Read some bytes of the answers.  True: there are more. */
static bool
read_answers(AtpSparseFetch *f)
{
	Size		n;

	for (int i = 0; f->reading == NULL && i < REQUESTS_MAX; i++)
		if (f->requests[i].state == ATP_SPARSE_RUNNING && (f->requests[i].ended || atp_http_status(f->requests[i].http) == 200))
			f->reading = &f->requests[i];
	if (f->reading == NULL)
		return false;
	n = atp_sparse_request_read(f->reading);
	f->bytes += n;
	if (n > 0 && !f->failed && !f->reading->wrong)
		return true;
	if (!f->reading->ended && !f->reading->wrong)
		return false;
	if (!f->failed)
		take_end(f, f->reading);
	f->reading = NULL;
	return true;
}

/* ------------------------------------------------------------------------
 * The commit
 * ------------------------------------------------------------------------
 */
static void
set_head(AtpSparseFetch *f, const uint8_t *cid)
{
	memcpy(f->head, cid, sizeof(f->head));
	f->has_head = true;
	f->phase = SPARSE_LEVELS;
	if (!atp_export_set_head(f->export, (AtpBytes) {f->head, sizeof(f->head)}))
		fail_export(f);
}

/* P-02: of two different commits, the later one counts. */
static void
choose_head(AtpSparseFetch *f)
{
	uint64		rev = 0;
	uint8_t		first[ATP_CID_BLESSED_LEN];

	for (int i = 0; i < REQUESTS_MAX && !f->failed; i++)
	{
		AtpSparseRequest *r = &f->requests[i];
		bool		had_head = f->has_head;

		if (r->state != ATP_SPARSE_ANSWERED)
			continue;
		r->state = ATP_SPARSE_IDLE;
		r->is_proof = false;
		if (!r->has_root || (had_head && memcmp(f->head, r->root, sizeof(f->head)) == 0))
			continue;
		memcpy(first, f->head, sizeof(first));
		set_head(f, r->root);
		if (had_head && !f->failed && atp_export_head(f->export)->rev < rev)
			set_head(f, first);
		rev = f->failed ? 0 : atp_export_head(f->export)->rev;
	}
	if (!f->has_head)
		f->phase = SPARSE_LATEST;
}

static void
begin_blocks(AtpSparseFetch *f, AtpSparseRequest *r, size_t block_max)
{
	r->is_proof = false;
	atp_get_blocks_begin(&r->ask, f->url_len, block_max);
	r->state = ATP_SPARSE_FILLED;
}

static void
ask_for_commit(AtpSparseFetch *f, const uint8_t *cid)
{
	AtpSparseRequest *r = &f->requests[0];

	memcpy(f->head, cid, sizeof(f->head));
	f->has_head = true;
	f->phase = SPARSE_COMMIT;
	begin_blocks(f, r, ATP_GET_BLOCKS_NODE_MAX);
	(void) atp_get_blocks_add(&r->ask, (AtpBytes) {cid, ATP_CID_BLESSED_LEN});
}

/* P-04: the same commit: halve the requests, to find the block that the server refuses. */
static void
halve_requests(AtpSparseFetch *f)
{
	for (int i = 0; i < REQUESTS_MAX; i++)
	{
		AtpSparseRequest *r = &f->requests[i];

		if (r->state != ATP_SPARSE_LACKING)
			continue;
		r->state = ATP_SPARSE_FILLED;
		for (unsigned j = 0; r->asked == 1 && j < r->ask.n; j++)
			if (!r->ask.came[j])
			{
				char		text[ATP_CID_TEXT_MAX];
				int			len = (int) atp_cid_format(r->ask.cid[j], ATP_CID_BLESSED_LEN, text);

				fail_fetch(f, ATP_SPARSE_REFUSED, psprintf("the server refuses block %.*s of its latest commit", len, text), NULL);
				return;
			}
		f->window = Min(f->window, Max(r->asked / 2, 1));
	}
}

static void
take_latest(AtpSparseFetch *f)
{
	const AtpHttpAnswer *answer = atp_http_answer(f->latest);
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	uint64		rev;
	size_t		at;
	AtpErr		err;

	if (answer->outcome != ATP_HTTP_OK || answer->status != 200)
	{
		fail_answer(f, answer);
		return;
	}
	err = atp_latest_commit_parse(answer->body, answer->body_len, cid, &rev, &at);
	atp_fetch_free(f->latest);
	f->latest = NULL;
	if (err != ATP_OK)
		fail_fetch(f, ATP_SPARSE_REFUSED, psprintf("invalid answer of getLatestCommit: %s", atp_err_text(err)), NULL);
	else if (f->phase == SPARSE_LATEST)
		ask_for_commit(f, cid);
	else if (memcmp(cid, f->head, sizeof(cid)) == 0)
		halve_requests(f);
	else if (f->moves++ == MOVES_MAX)
		fail_fetch(f, ATP_SPARSE_CHEAPER_WHOLE, "the repository has moved on more than 5 times during a fetch of parts", NULL);
	else
		begin_proofs(f);
}

/* ------------------------------------------------------------------------
 * Levels
 * ------------------------------------------------------------------------
 */
static void
begin_round(AtpSparseFetch *f)
{
	AtpExportSource source = atp_export_nodes(f->export);
	size_t		at;
	AtpErr		err = atp_sparse_begin(&f->walk, &source, atp_export_head(f->export)->data, &at);

	if (err != ATP_OK && err != ATP_E_MST_END)
	{
		atp_export_refuse(f->export, &f->walk.walk, err, at);
		fail_export(f);
	}
	f->walk.pause_after = LEVELS_STEP;
	f->in_round = f->walking = true;
	f->named = f->judged = false;
}

static AtpSparseRequest *
find_idle(AtpSparseFetch *f)
{
	for (int i = 0; i < REQUESTS_MAX; i++)
		if (f->requests[i].state == ATP_SPARSE_IDLE)
			return &f->requests[i];
	return NULL;
}

/*
 * Fill a request with the next absent nodes.  A repository of many keys needs several steps: the fetcher has other work, too.
 */
static void
fill_request(AtpSparseFetch *f, AtpSparseRequest *r)
{
	AtpErr		err = ATP_OK;
	AtpBytes	cid = {f->left_cid, sizeof(f->left_cid)};
	size_t		at;

	if (r != f->paused)
		begin_blocks(f, r, ATP_GET_BLOCKS_NODE_MAX);
	f->paused = NULL;
	if (f->left)
		(void) atp_get_blocks_add(&r->ask, cid);
	f->left = false;
	while (f->walking && r->ask.n < f->window && (err = atp_sparse_next(&f->walk, &cid, &at)) == ATP_OK)
	{
		if (cid.ptr == NULL)
		{
			f->paused = r;
			r->state = ATP_SPARSE_IDLE;
			return;
		}
		f->named = true;
		err = atp_get_blocks_add(&r->ask, cid);
		f->left = err == ATP_E_FETCH_FULL;
		if (f->left)
			memcpy(f->left_cid, cid.ptr, sizeof(f->left_cid));
		if (err != ATP_OK)
			break;
	}
	r->state = r->ask.n == 0 ? ATP_SPARSE_IDLE : ATP_SPARSE_FILLED;
	if (err == ATP_E_MST_END)
		f->walking = false;
	else if (err != ATP_OK && err != ATP_E_FETCH_FULL)
	{
		atp_export_refuse(f->export, &f->walk.walk, err, at);
		fail_export(f);
	}
}

/* P-30: is the whole repository cheaper than what is missing? */
static void
judge_cost(AtpSparseFetch *f)
{
	AtpSparseEstimate estimate = atp_sparse_estimate(&f->walk);
	uint64		whole_mb = estimate.records / (1024 * 1024 / RECORD_BYTES);
	uint64		requests = f->walk.highest + (estimate.in_ranges + estimate.in_ranges / 3) / f->window;

	if (!f->ask.judges || f->walk.top_keys == 0)
		return;
	if (f->walk.top <= LOW_ROOT || requests > REQUESTS_FREE + whole_mb / MB_OF_REQUEST || estimate.in_ranges > estimate.records / 2)
		fail_fetch(f, ATP_SPARSE_CHEAPER_WHOLE, "the whole repository is cheaper than the collections alone", NULL);
}

/* Fill requests with absent nodes; after a round without any, the nodes are complete. */
static void
move_levels(AtpSparseFetch *f)
{
	AtpSparseRequest *r;

	if (!f->in_round)
		begin_round(f);
	while (!f->failed && (f->walking || f->left) && (r = f->paused != NULL ? f->paused : find_idle(f)) != NULL)
	{
		fill_request(f, r);
		if (f->paused != NULL)
			return;
	}
	if (f->failed || f->walking || f->left)
		return;
	if (f->named && !f->judged)
		judge_cost(f);
	f->judged = true;
	if (!all_idle(f))
		return;
	f->in_round = false;
	if (!f->named)
		f->phase = SPARSE_CHECK;
}

/* P-15: the walk that proves that the records of the ranges are these. */
static void
check_nodes(AtpSparseFetch *f)
{
	switch (atp_export_check(f->export, CHECK_STEP))
	{
		case ATP_EXPORT_MORE:
			break;
		case ATP_EXPORT_DONE:
			f->phase = SPARSE_COMPLETE;
			break;
		case ATP_EXPORT_BAD:
			fail_export(f);
	}
}

bool
atp_sparse_fetch_want(AtpSparseFetch *f, AtpBytes cid)
{
	AtpSparseRequest *r = f->filling;
	AtpErr		err;

	if (atp_export_has(f->export, cid))
		return true;
	if (r != NULL && (err = atp_get_blocks_add(&r->ask, cid)) == ATP_OK)
		return true;
	if ((r = find_idle(f)) == NULL)
		return false;
	begin_blocks(f, r, ATP_GET_BLOCKS_RECORD_MAX);
	f->filling = r;
	if (atp_get_blocks_add(&r->ask, cid) != ATP_OK)
		fail_fetch(f, ATP_SPARSE_WRONG, "the CID of a record is not that of DAG-CBOR with SHA-256", NULL);
	return true;
}

/* ------------------------------------------------------------------------
 * Steps
 * ------------------------------------------------------------------------
 */
static void
move_phase(AtpSparseFetch *f)
{
	switch (f->phase)
	{
		case SPARSE_PROOFS:
			if (count_state(f, ATP_SPARSE_FILLED) == 0 && count_state(f, ATP_SPARSE_RUNNING) == 0)
				choose_head(f);
			break;
		case SPARSE_COMMIT:
			if (all_idle(f))
				set_head(f, f->head);
			break;
		case SPARSE_LEVELS:
			move_levels(f);
			break;
		case SPARSE_CHECK:
			check_nodes(f);
			break;
		case SPARSE_LATEST:
		case SPARSE_COMPLETE:
			break;
	}
}

AtpSparseState
atp_sparse_fetch_step(AtpSparseFetch *f, long *wait_ms)
{
	SparsePhase before = f->phase;
	bool		news = false;

	*wait_ms = -1;
	if (!f->failed && atp_now() >= f->until)
		fail_fetch(f, ATP_SPARSE_TOO_LARGE, "the fetch of parts takes longer than an hour", NULL);
	if (!f->failed && f->latest_ended)
	{
		f->latest_ended = false;
		take_latest(f);
		news = true;
	}
	else if (!f->failed)
		news = read_answers(f);
	if (!f->failed && !news)
		move_phase(f);
	if (f->failed)
		return ATP_SPARSE_FAILED;
	if (news || f->phase != before || f->phase == SPARSE_CHECK)
		return ATP_SPARSE_MORE;
	if (f->phase == SPARSE_COMPLETE && all_idle(f))
	{
		bool		told = f->told;

		f->told = true;
		return told ? ATP_SPARSE_RECORDS : ATP_SPARSE_NODES;
	}
	send_requests(f, wait_ms);
	return f->phase == SPARSE_LEVELS && (!f->in_round || f->paused != NULL) ? ATP_SPARSE_MORE : ATP_SPARSE_WAITS;
}
