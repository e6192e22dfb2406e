/*
 * sparse_send.c
 *		The requests of a sparse fetch, and their answers: which request is sent when, and what its blocks are for.
 */
#include "postgres.h"

#include "core/wire/repo_status.h"
#include "fetch/repositories/sparse_private.h"

#define PROOF_MS		(2 * 60 * 1000)	/* time limit of a request for a proof, or for a commit's CID */
#define BLOCKS_MS		(10 * 60 * 1000)	/* ... of a request for blocks */
#define PROOF_MAX		(8 * 1024 * 1024)	/* bytes of a proof */
#define EXTRA_MAX		(64 * 1024) /* bytes of an answer besides its blocks */

AtpSparseRequest *
atp_sparse_find_idle(AtpSparseFetch *f)
{
	for (int i = 0; i < ATP_SPARSE_REQUESTS; i++)
		if (f->requests[i].state == ATP_SPARSE_IDLE)
			return &f->requests[i];
	return NULL;
}

int
atp_sparse_count(const AtpSparseFetch *f, AtpSparseRequestState state)
{
	int			n = 0;

	for (int i = 0; i < ATP_SPARSE_REQUESTS; i++)
		n += f->requests[i].state == state;
	return n;
}

bool
atp_sparse_is_idle(const AtpSparseFetch *f)
{
	return atp_sparse_count(f, ATP_SPARSE_IDLE) == ATP_SPARSE_REQUESTS;
}

void
atp_sparse_begin_blocks(AtpSparseFetch *f, AtpSparseRequest *r, size_t block_max)
{
	r->is_proof = false;
	atp_get_blocks_begin(&r->ask, f->url_len, block_max);
	r->state = ATP_SPARSE_FILLED;
}

StringInfoData
atp_sparse_url(const AtpSparseFetch *f, const char *what)
{
	StringInfoData url;

	initStringInfo(&url);
	appendStringInfo(&url, "%s/xrpc/com.atproto.sync.%s?did=", f->ask.server, what);
	atp_fetch_append_escaped(&url, f->ask.did);
	return url;
}

/* ------------------------------------------------------------------------
 * Sending
 * ------------------------------------------------------------------------
 */
static char *
url_of_proof(const AtpSparseFetch *f, bool first)
{
	StringInfoData url = atp_sparse_url(f, "getRecord");
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
	url = atp_sparse_url(f, "getBlocks");
	atp_sparse_request_blocks(r, &url, f->window);
	return atp_sparse_request_send(r, f->ask.owner, url.data, limit_body(f, (int64) r->asked * r->ask.block_max + EXTRA_MAX), BLOCKS_MS, wait_ms);
}

static void
send_latest(AtpSparseFetch *f, long *wait_ms)
{
	StringInfoData url = atp_sparse_url(f, "getLatestCommit");

	f->latest = atp_fetch_start(&(AtpHttpRequest) {
								.owner = f->ask.owner, .shared = true, .bulk = true, .url = url.data, .accept = "application/json", .redirects = 3, .whole_ms = PROOF_MS, .gzip = true
								}, NULL, wait_ms);
	f->latest_ended = false;
	f->count += f->latest != NULL;
}

/* P-04: which commit is the latest, if a block was missing, is asked when no request runs. */
static bool
needs_latest(const AtpSparseFetch *f)
{
	return f->phase == ATP_SPARSE_LATEST || atp_sparse_count(f, ATP_SPARSE_LACKING) > 0;
}

void
atp_sparse_send(AtpSparseFetch *f, long *wait_ms)
{
	f->filling = NULL;
	if (needs_latest(f))
	{
		if (f->latest == NULL && atp_sparse_count(f, ATP_SPARSE_RUNNING) == 0)
			send_latest(f, wait_ms);
		return;
	}
	for (int i = 0; i < ATP_SPARSE_REQUESTS; i++)
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
		atp_sparse_fail_answer(f, answer);
	return ATP_SPARSE_ANSWERED;
}

static AtpSparseRequestState
take_blocks(AtpSparseFetch *f, AtpSparseRequest *r, const AtpHttpAnswer *answer)
{
	if (r->has_root ? r->missing - r->ask.missing < r->asked : atp_sparse_answer_lacks(answer))
		return ATP_SPARSE_LACKING;
	if (!r->has_root)
		atp_sparse_fail_answer(f, answer);
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
		atp_sparse_fail(f, ATP_SPARSE_REFUSED, why_wrong(r), NULL);
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
bool
atp_sparse_take(AtpSparseFetch *f)
{
	Size		n;

	for (int i = 0; f->reading == NULL && i < ATP_SPARSE_REQUESTS; i++)
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
