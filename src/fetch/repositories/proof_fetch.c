/*
 * proof_fetch.c
 *		Fetches what a proof compares with the rows: see proof_fetch.h.
 */
#include "postgres.h"

#include "fetch/engine/host.h"
#include "fetch/repositories/proof_fetch.h"
#include "fetch/repositories/repo_request.h"
#include "lib/ilist.h"
#include "utils/memutils.h"

#define WHOLES_MAX		4		/* whole repositories at a time */
#define INDEX_BYTES		(1024 * 1024)	/* of fetches with a larger index, one goes on at a time */
#define CHECK_STEP		5000	/* records checked in a step */

struct AtpProofFetch
{
	dlist_node	node;			/* in the list of fetches of whole repositories, while http is not NULL */
	MemoryContext cxt;
	AtpSparseAsk ask;
	bool		only_parts;
	AtpSparseFetch *parts;		/* NULL: the whole is fetched */
	char	   *parts_failed;	/* why parts were given up; NULL: they were not */
	bool		host_failed;	/* P-61: ... by the host: if the whole is good, the host is remembered */
	AtpExport  *export;			/* of the whole */
	AtpHttp    *http;			/* the request for the whole; NULL: not begun */
	bool		ended;			/* ... has ended */
	bool		checking;
	int64		bytes;			/* of the whole */
	bool		waits;			/* until a whole repository of another fetch has come */
	AtpSparseFault fault;
	const char *reason;			/* P-52: of the parts' fault; then of the fault */
};

static dlist_head wholes = DLIST_STATIC_INIT(wholes);
static int	nwholes;
static int	nwaiting;

static void
set_waits(AtpProofFetch *f, bool waits)
{
	nwaiting += waits - f->waits;
	f->waits = waits;
}

bool
atp_proof_fetch_waits(const AtpProofFetch *f)
{
	return f->waits;
}

bool
atp_proof_fetch_any_waits(void)
{
	return nwaiting > 0;
}

/* ------------------------------------------------------------------------
 * Beginning and end
 * ------------------------------------------------------------------------
 */
static void
begin_whole(AtpProofFetch *f)
{
	f->parts = NULL;
	f->export = atp_export_create(f->cxt, (AtpSpan) {f->ask.did, strlen(f->ask.did)}, true);
}

AtpProofFetch *
atp_proof_fetch_create(MemoryContext parent, const AtpSparseAsk *ask, bool only_parts)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "atproto fetch for a proof", ALLOCSET_DEFAULT_SIZES);
	AtpProofFetch *f = MemoryContextAllocZero(cxt, sizeof(AtpProofFetch));
	char	   *host = atp_http_host_of(ask->server);

	f->cxt = cxt;
	f->ask = *ask;
	f->ask.server = MemoryContextStrdup(cxt, ask->server);
	f->ask.did = MemoryContextStrdup(cxt, ask->did);
	f->only_parts = only_parts;
	if (only_parts || host == NULL || atp_host_has_parts(host, atp_now()))
		f->parts = atp_sparse_fetch_create(cxt, ask);
	else
		begin_whole(f);
	return f;
}

/* The request's place is free for another whole repository. */
static void
end_request(AtpProofFetch *f)
{
	if (f->http == NULL)
		return;
	dlist_delete(&f->node);
	nwholes--;
	atp_fetch_free(f->http);
	f->http = NULL;
}

void
atp_proof_fetch_free(AtpProofFetch *f)
{
	set_waits(f, false);
	end_request(f);
	if (f->parts != NULL)
		atp_sparse_fetch_free(f->parts);
	if (f->export != NULL)
		atp_export_free(f->export);
	MemoryContextDelete(f->cxt);
}

bool
atp_proof_fetch_ended(AtpProofFetch *f, const AtpHttp *http)
{
	if (f->parts != NULL)
		return atp_sparse_fetch_ended(f->parts, http);
	if (f->http == NULL || f->http != http)
		return false;
	f->ended = true;
	return true;
}

const AtpSparseFault *
atp_proof_fetch_fault(const AtpProofFetch *f)
{
	return &f->fault;
}

AtpExport *
atp_proof_fetch_export(const AtpProofFetch *f)
{
	return f->parts != NULL ? atp_sparse_fetch_export(f->parts) : f->export;
}

bool
atp_proof_fetch_is_of_parts(const AtpProofFetch *f)
{
	return f->parts != NULL;
}

bool
atp_proof_fetch_is_running(const AtpProofFetch *f)
{
	return f->parts != NULL ? atp_sparse_fetch_running(f->parts) > 0 : f->http != NULL;
}

int64
atp_proof_fetch_bytes(const AtpProofFetch *f)
{
	return f->parts != NULL ? atp_sparse_fetch_bytes(f->parts) : f->bytes;
}

/* ------------------------------------------------------------------------
 * The whole
 * ------------------------------------------------------------------------
 */

/* P-61: the error tells why the parts have failed, too. */
static void
set_text(AtpProofFetch *f, const char *text)
{
	char	   *both = f->parts_failed == NULL ? pstrdup(text) : psprintf("%s; of its collections alone: %s", text, f->parts_failed);

	f->fault.text = MemoryContextStrdup(f->cxt, both);
}

/* answer: NULL: the repository itself is wrong. */
static AtpSparseState
fail_whole(AtpProofFetch *f, AtpSparseFaultKind kind, const char *text, const AtpHttpAnswer *answer)
{
	f->fault = (AtpSparseFault) {kind, NULL, answer};
	set_text(f, text);
	f->reason = MemoryContextStrdup(f->cxt, atp_sparse_fault_reason(&f->fault));
	return ATP_SPARSE_FAILED;
}

AtpSparseState
atp_proof_fetch_give_up(AtpProofFetch *f)
{
	static const char rests[] = "its server has failed for other accounts, and rests";

	f->fault.kind = ATP_SPARSE_UNREACHED;
	set_text(f, rests);
	if (f->reason == NULL)
		f->reason = rests;
	return ATP_SPARSE_FAILED;
}

const char *
atp_proof_fetch_reason(const AtpProofFetch *f)
{
	return f->reason;
}

static AtpSparseState
fail_export(AtpProofFetch *f)
{
	bool		too_large = atp_export_fault(f->export)->sqlstate == ERRCODE_PROGRAM_LIMIT_EXCEEDED;

	return fail_whole(f, too_large ? ATP_SPARSE_TOO_LARGE : ATP_SPARSE_WRONG, atp_repo_request_fault(f->export), NULL);
}

/* the index of an export grows with the data that a stranger sends: the first fetch with a large index goes on. */
static bool
waits_for_memory(const AtpProofFetch *f)
{
	dlist_iter	iter;

	if (atp_export_index(f->export) < INDEX_BYTES)
		return false;
	dlist_foreach(iter, &wholes)
	{
		const AtpProofFetch *other = dlist_container(AtpProofFetch, node, iter.cur);

		if (atp_export_index(other->export) >= INDEX_BYTES)
			return other != f;
	}
	return false;
}

static AtpSparseState
start_whole(AtpProofFetch *f, long *wait_ms)
{
	set_waits(f, nwholes == WHOLES_MAX);
	if (f->waits)
		return ATP_SPARSE_WAITS;
	f->http = atp_repo_request(f->ask.owner, f->ask.server, f->ask.did, wait_ms);
	f->ended = false;
	if (f->http != NULL)
	{
		dlist_push_tail(&wholes, &f->node);
		nwholes++;
	}
	return ATP_SPARSE_WAITS;
}

static AtpSparseState
read_whole(AtpProofFetch *f)
{
	const AtpHttpAnswer *answer;

	set_waits(f, waits_for_memory(f));
	if (f->waits)
		return ATP_SPARSE_WAITS;
	switch (atp_repo_request_read(f->http, f->ended, f->export, &f->bytes))
	{
		case ATP_REPO_READ_WAITS:
			return ATP_SPARSE_WAITS;
		case ATP_REPO_READ_MORE:
			return ATP_SPARSE_MORE;
		case ATP_REPO_READ_DONE:
			f->checking = true;
			return ATP_SPARSE_MORE;
		case ATP_REPO_READ_INVALID:
			return fail_export(f);
		case ATP_REPO_READ_NO_EXPORT:
			break;
	}
	answer = atp_http_answer(f->http);
	return fail_whole(f, atp_sparse_answer_kind(answer), atp_repo_request_error(answer), answer);
}

static AtpSparseState
check_whole(AtpProofFetch *f)
{
	switch (atp_export_check(f->export, CHECK_STEP))
	{
		case ATP_EXPORT_MORE:
			return ATP_SPARSE_MORE;
		case ATP_EXPORT_BAD:
			return fail_export(f);
		case ATP_EXPORT_DONE:
			break;
	}
	if (f->host_failed)
		atp_host_refuses_parts(atp_http_host_of(f->ask.server), f->parts_failed, atp_now());
	return ATP_SPARSE_NODES;
}

/* P-61: as for fetches of repositories (repo_parts.c). */
static void
turn_to_whole(AtpProofFetch *f, const AtpSparseFault *fault)
{
	f->parts_failed = MemoryContextStrdup(f->cxt, fault->text);
	f->reason = MemoryContextStrdup(f->cxt, atp_sparse_fault_reason(fault));
	f->host_failed = atp_sparse_fault_is_of_host(fault->kind);
	if (fault->kind == ATP_SPARSE_UNABLE)
		atp_host_refuses_parts(atp_http_host_of(f->ask.server), fault->text, atp_now());
	atp_sparse_fetch_free(f->parts);
	begin_whole(f);
}

AtpSparseState
atp_proof_fetch_step(AtpProofFetch *f, long *wait_ms)
{
	const AtpSparseFault *fault;
	AtpSparseState state;

	*wait_ms = -1;
	if (f->parts == NULL)
		return f->checking ? check_whole(f) : f->http == NULL ? start_whole(f, wait_ms) : read_whole(f);
	state = atp_sparse_fetch_step(f->parts, wait_ms);
	if (state != ATP_SPARSE_FAILED)
		return state;
	fault = atp_sparse_fetch_fault(f->parts);
	if (f->only_parts || !atp_sparse_fault_allows_whole(fault->kind))
	{
		f->fault = *fault;
		f->reason = MemoryContextStrdup(f->cxt, atp_sparse_fault_reason(fault));
		return ATP_SPARSE_FAILED;
	}
	turn_to_whole(f, fault);
	return ATP_SPARSE_MORE;
}
