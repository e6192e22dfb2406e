/*
 * sparse_head.c
 *		Which commit a sparse fetch proves: that of the proofs, or of getLatestCommit, where a server has no proofs or a block is
 *		missing (P-02, P-04).
 */
#include "postgres.h"

#include "core/wire/repo_status.h"
#include "fetch/repositories/sparse_private.h"

#define MOVES_MAX		5			/* P-05 */

/* P-02: a key just above the lowest bound, and, if records are expected, one of the highest. */
void
atp_sparse_begin_proofs(AtpSparseFetch *f)
{
	for (int i = 0; i < ATP_SPARSE_REQUESTS; i++)
		atp_sparse_request_clear(&f->requests[i]);
	f->reading = NULL;
	f->filling = f->paused = NULL;
	f->in_round = f->walking = f->left = f->told = f->has_head = false;
	f->phase = f->without_proofs ? ATP_SPARSE_LATEST : ATP_SPARSE_PROOFS;
	for (int i = 0; f->phase == ATP_SPARSE_PROOFS && i < (f->ask.expects_none ? 1 : 2); i++)
	{
		f->requests[i].is_proof = true;
		f->requests[i].state = ATP_SPARSE_FILLED;
	}
}

void
atp_sparse_set_head(AtpSparseFetch *f, const uint8_t *cid)
{
	memcpy(f->head, cid, sizeof(f->head));
	f->has_head = true;
	f->phase = ATP_SPARSE_LEVELS;
	if (!atp_export_set_head(f->export, (AtpBytes) {f->head, sizeof(f->head)}))
		atp_sparse_fail_export(f);
}

/* P-02: of two different commits, the later one counts. */
void
atp_sparse_choose_head(AtpSparseFetch *f)
{
	uint64		rev = 0;
	uint8_t		first[ATP_CID_BLESSED_LEN];

	for (int i = 0; i < ATP_SPARSE_REQUESTS && !f->failed; i++)
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
		atp_sparse_set_head(f, r->root);
		if (had_head && !f->failed && atp_export_head(f->export)->rev < rev)
			atp_sparse_set_head(f, first);
		rev = f->failed ? 0 : atp_export_head(f->export)->rev;
	}
	if (!f->has_head)
		f->phase = ATP_SPARSE_LATEST;
}

static void
ask_for_commit(AtpSparseFetch *f, const uint8_t *cid)
{
	AtpSparseRequest *r = &f->requests[0];

	memcpy(f->head, cid, sizeof(f->head));
	f->has_head = true;
	f->phase = ATP_SPARSE_COMMIT;
	atp_sparse_begin_blocks(f, r, ATP_GET_BLOCKS_NODE_MAX);
	(void) atp_get_blocks_add(&r->ask, (AtpBytes) {cid, ATP_CID_BLESSED_LEN});
}

/* P-04: the same commit: halve the requests, to find the block that the server refuses. */
static void
halve_requests(AtpSparseFetch *f)
{
	for (int i = 0; i < ATP_SPARSE_REQUESTS; i++)
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

				atp_sparse_fail(f, ATP_SPARSE_REFUSED, psprintf("the server refuses block %.*s of its latest commit", len, text), NULL);
				return;
			}
		f->window = Min(f->window, Max(r->asked / 2, 1));
	}
}

void
atp_sparse_take_latest(AtpSparseFetch *f)
{
	const AtpHttpAnswer *answer = atp_http_answer(f->latest);
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	uint64		rev;
	size_t		at;
	AtpErr		err;

	if (answer->outcome != ATP_HTTP_OK || answer->status != 200)
	{
		atp_sparse_fail_answer(f, answer);
		return;
	}
	err = atp_latest_commit_parse(answer->body, answer->body_len, cid, &rev, &at);
	atp_fetch_free(f->latest);
	f->latest = NULL;
	if (err != ATP_OK)
		atp_sparse_fail(f, ATP_SPARSE_REFUSED, psprintf("invalid answer of getLatestCommit: %s", atp_err_text(err)), NULL);
	else if (f->phase == ATP_SPARSE_LATEST)
		ask_for_commit(f, cid);
	else if (memcmp(cid, f->head, sizeof(cid)) == 0)
		halve_requests(f);
	else if (f->moves++ == MOVES_MAX)
		atp_sparse_fail(f, ATP_SPARSE_CHEAPER_WHOLE, "the repository has moved on more than 5 times during a fetch of parts", NULL);
	else
		atp_sparse_begin_proofs(f);
}
