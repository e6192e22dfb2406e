/*
 * sparse_levels.c
 *		Which nodes a sparse fetch lacks: each round walks over the present nodes (core/repo/sparse_walk.h), and fills requests with
 *		the absent ones.  At the end, or where the whole repository is cheaper, the rounds end (P-03, P-15, P-30).
 */
#include "postgres.h"

#include "fetch/engine/host.h"
#include "fetch/repositories/sparse_private.h"

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
#define BUDGET_SHARE	4			/* parts may take one in so many of the requests that the host still answers */

static void
begin_round(AtpSparseFetch *f)
{
	AtpExportSource source = atp_export_nodes(f->export);
	size_t		at;
	AtpErr		err = atp_sparse_begin(&f->walk, &source, atp_export_head(f->export)->data, &at);

	if (err != ATP_OK && err != ATP_E_MST_END)
	{
		atp_export_refuse(f->export, &f->walk.walk, err, at);
		atp_sparse_fail_export(f);
	}
	f->walk.pause_after = LEVELS_STEP;
	f->in_round = f->walking = true;
	f->named = f->judged = false;
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
		atp_sparse_begin_blocks(f, r, ATP_GET_BLOCKS_NODE_MAX);
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
		atp_sparse_fail_export(f);
	}
}

/* P-60: would so many requests be more than a quarter of those that the host still answers?  The whole takes one. */
static bool
is_over_budget(const AtpSparseFetch *f, uint64 requests)
{
	int64		remaining = atp_host_remaining(atp_http_host_of(f->ask.server), atp_now());

	return remaining >= 0 && requests > (uint64) remaining / BUDGET_SHARE;
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
	if (f->walk.top <= LOW_ROOT || requests > REQUESTS_FREE + whole_mb / MB_OF_REQUEST ||
		is_over_budget(f, requests) || estimate.in_ranges > estimate.records / 2)
		atp_sparse_fail(f, ATP_SPARSE_CHEAPER_WHOLE, "the whole repository is cheaper than the collections alone", NULL);
}

/* Fill requests with absent nodes; after a round without any, the nodes are complete. */
void
atp_sparse_move_levels(AtpSparseFetch *f)
{
	AtpSparseRequest *r;

	if (!f->in_round)
		begin_round(f);
	while (!f->failed && (f->walking || f->left) && (r = f->paused != NULL ? f->paused : atp_sparse_find_idle(f)) != NULL)
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
	if (!atp_sparse_is_idle(f))
		return;
	f->in_round = false;
	if (!f->named)
		f->phase = ATP_SPARSE_CHECK;
}

/* P-15: a step of the walk that proves which records the repository has in the ranges. */
void
atp_sparse_check_nodes(AtpSparseFetch *f)
{
	switch (atp_export_check(f->export, CHECK_STEP))
	{
		case ATP_EXPORT_MORE:
			break;
		case ATP_EXPORT_DONE:
			f->phase = ATP_SPARSE_COMPLETE;
			break;
		case ATP_EXPORT_BAD:
			atp_sparse_fail_export(f);
	}
}
