/*
 * sparse_request.c
 *		One request of a sparse fetch at a time: see sparse_request.h.
 */
#include "postgres.h"

#include "common/sha256.h"
#include "fetch/repositories/sparse_request.h"

#define READ_BYTES	(64 * 1024)
#define READ_STEP	(1024 * 1024)	/* bytes read in a step */
#define REDIRECTS	3			/* W-53 */
#define SLOW_BYTES	1024
#define SLOW_S		30

static uint8_t *
section_room(void *ctx, size_t n)
{
	AtpSparseRequest *r = ctx;

	if (r->section_room < n)
	{
		if (r->section != NULL)
			pfree(r->section);
		r->section = NULL;
		r->section = MemoryContextAlloc(r->cxt, n);
		r->section_room = n;
	}
	return r->section;
}

/*
 * P-02: of a proof, all nodes are taken: their number is limited by the size of the answer.  P-10: of any other answer,
 * the blocks that were asked for.
 */
static AtpErr
take_block(void *ctx, const AtpCarBlock *block)
{
	AtpSparseRequest *r = ctx;
	bool		taken = r->is_proof && atp_cid_is_node(block->cid);

	if (!r->is_proof)
	{
		AtpErr		err = atp_get_blocks_take(&r->ask, block, &taken);

		if (err != ATP_OK)
			return err;
	}
	r->stopped = taken && !r->take(r->take_ctx, block->cid, block->data);
	return r->stopped ? ATP_E_FETCH_FULL : ATP_OK;
}

void
atp_sparse_request_init(AtpSparseRequest *r, MemoryContext cxt, AtpSparseTake take, void *ctx)
{
	*r = (AtpSparseRequest) {.cxt = cxt, .take = take, .take_ctx = ctx};
}

void
atp_sparse_request_blocks(AtpSparseRequest *r, StringInfo url, unsigned window)
{
	AtpGetBlocks part;
	char		query[ATP_GET_BLOCKS_QUERY_MAX];

	atp_get_blocks_begin(&part, url->len, r->ask.block_max);
	for (unsigned i = 0; i < r->ask.n && part.n < window; i++)
		if (!r->ask.came[i] && atp_get_blocks_add(&part, (AtpBytes) {r->ask.cid[i], ATP_CID_BLESSED_LEN}) != ATP_OK)
			break;
	r->missing = r->ask.missing;
	r->asked = part.n;
	appendBinaryStringInfo(url, query, (int) atp_get_blocks_query(&part, query));
}

bool
atp_sparse_request_send(AtpSparseRequest *r, const void *owner, const char *url, int64 body_max, int whole_ms, long *wait_ms)
{
	AtpCarTaker taker = {section_room, take_block, r, atp_sha256, NULL};

	r->http = atp_fetch_start(&(AtpHttpRequest) {
							  .owner = owner, .shared = true, .bulk = true, .url = url, .accept = "application/vnd.ipld.car", .redirects = REDIRECTS,
							  .whole_ms = whole_ms, .gzip = true, .stream = true, .body_max = body_max,
							  .slow_bytes = SLOW_BYTES, .slow_s = SLOW_S
							  }, NULL, wait_ms);
	if (r->http == NULL)
		return false;
	r->state = ATP_SPARSE_RUNNING;
	r->ended = r->stopped = r->wrong = r->has_root = false;
	atp_car_push_begin(&r->push, &taker);
	return true;
}

Size
atp_sparse_request_read(AtpSparseRequest *r)
{
	uint8_t    *buf;
	Size		bytes = 0;
	size_t		n;

	if (atp_http_status(r->http) != 200)
		return 0;
	buf = palloc(READ_BYTES);
	while (!r->wrong && !r->stopped && bytes < READ_STEP && (n = atp_http_read(r->http, buf, READ_BYTES)) > 0)
	{
		bytes += n;
		r->err = atp_car_push(&r->push, buf, n, &r->err_at);
		r->wrong = r->err != ATP_OK && !r->stopped;
	}
	pfree(buf);
	return bytes;
}

bool
atp_sparse_request_is_good(AtpSparseRequest *r)
{
	const AtpHttpAnswer *answer = atp_http_answer(r->http);

	if (r->wrong || answer->outcome != ATP_HTTP_OK || answer->status != 200)
		return false;
	r->err = atp_car_push_end(&r->push, &r->err_at);
	r->wrong = r->err != ATP_OK;
	if (r->wrong)
		return false;
	memcpy(r->root, r->push.root, sizeof(r->root));
	r->has_root = true;
	return true;
}

void
atp_sparse_request_finish(AtpSparseRequest *r)
{
	atp_fetch_free(r->http);
	r->http = NULL;
	if (r->section != NULL)
		pfree(r->section);
	r->section = NULL;
	r->section_room = 0;
	r->ended = false;
}

void
atp_sparse_request_clear(AtpSparseRequest *r)
{
	atp_sparse_request_finish(r);
	r->is_proof = false;
	r->state = ATP_SPARSE_IDLE;
}
