/*
 * repo_parts.c
 *		A transfer that fetches only the subscription's collections: see repo_parts.h.
 */
#include "postgres.h"

#include "fetch/engine/host.h"
#include "fetch/repositories/repo_parts.h"
#include "fetch/repositories/repo_request.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#define NAME_US		(500 * 1000)	/* duration of a transaction that compares records with rows */
#define NAME_LOOK	256			/* records compared between two looks at the clock */
#define NAME_TRIES	10			/* tries of such a transaction */
#define NAME_BACKOFF_MS	100		/* pause after the first failed try, doubled each time */
#define START_MS	60000		/* the request for the whole must start within this time ... */
#define START_LOOK_MS	200		/* ... and is tried again so often */

static bool
is_forced(const AtpTransfer *t)
{
	return t->sub->settings.fetch_as == ATP_FETCH_SPARSE;
}

bool
atp_parts_start(AtpTransfer *t, long *wait_ms)
{
	const AtpSettings *settings = &t->sub->settings;

	t->parts = atp_sparse_fetch_create(t->cxt, &(AtpSparseAsk) {
									   .owner = t->owner, .server = t->job.server, .did = t->job.did_text,
									   .ncollections = settings->ncollections, .collections = settings->collections,
									   .expects_none = t->job.expects_none, .judges = !is_forced(t)
									   });
	t->export = atp_sparse_fetch_export(t->parts);
	(void) atp_sparse_fetch_step(t->parts, wait_ms);
	return atp_sparse_fetch_running(t->parts) > 0;
}

/* ------------------------------------------------------------------------
 * From parts to the whole
 * ------------------------------------------------------------------------
 */
bool
atp_parts_start_whole(AtpTransfer *t)
{
	long		wait_ms = -1;
	AtpTime		now = atp_now();

	t->http = atp_repo_request(t->owner, t->job.server, t->job.did_text, &wait_ms);
	if (t->http != NULL)
		return false;
	if (atp_remaining(now, t->whole_since, START_MS) == 0)
		atp_transfer_fail(t, "the limits of the host leave no request for the whole repository", ATP_REPO_LATER);
	else
		t->backoff_until = now + (AtpTime) (wait_ms < 0 ? START_LOOK_MS : Min(wait_ms, START_LOOK_MS)) * 1000;
	return false;
}

void
atp_parts_whole_is_good(const AtpTransfer *t)
{
	if (t->host_failed)
		atp_host_refuses_parts(atp_http_host_of(t->job.server), t->parts_failed, atp_now());
}

/*
 * P-61: fetch the whole repository instead.  A host without requests for parts is remembered at once.  A host that has
 * refused a part is remembered only if the whole is good, because a whole that fails says that the repository is wrong,
 * or that the host is at fault in any case.  Limits that one account exceeds say nothing about its host.
 */
static bool
turn_to_whole(AtpTransfer *t, const AtpSparseFault *fault)
{
	t->job.whole = true;
	t->parts_failed = fault->kind == ATP_SPARSE_CHEAPER_WHOLE ? NULL : MemoryContextStrdup(t->cxt, fault->text);
	t->host_failed = atp_sparse_fault_is_of_host(fault->kind);
	if (fault->kind == ATP_SPARSE_UNABLE)
		atp_host_refuses_parts(atp_http_host_of(t->job.server), fault->text, atp_now());
	atp_sparse_fetch_free(t->parts);
	t->parts = NULL;
	t->naming = NULL;
	t->export = atp_export_create(t->cxt, (AtpSpan) {t->job.did_text, strlen(t->job.did_text)}, true);
	t->whole_since = atp_now();
	return atp_parts_start_whole(t);
}

static bool
end_parts(AtpTransfer *t)
{
	const AtpSparseFault *fault = atp_sparse_fetch_fault(t->parts);

	if (atp_sparse_fault_allows_whole(fault->kind) && !is_forced(t))
		return turn_to_whole(t, fault);
	/* a host that allows too few requests for parts is asked for the whole, which is one request */
	if (fault->kind == ATP_SPARSE_LATER)
		t->job.whole = !is_forced(t) && atp_sparse_fetch_has_head(t->parts);
	if (fault->answer != NULL)
		atp_transfer_fail_answer(t, fault->answer, fault->text);
	else
		atp_transfer_fail(t, fault->text, fault->kind == ATP_SPARSE_CHEAPER_WHOLE ? ATP_REPO_LATER : ATP_REPO_FAULT);
	return false;
}

/* ------------------------------------------------------------------------
 * Records
 * ------------------------------------------------------------------------
 */

typedef struct Naming
{
	AtpTransfer *t;
	MemoryContext cxt;
	AtpRefusal	refusal;
	char	   *why;			/* NULL: the export may be written */
} Naming;

/* Begin to compare, at the first record. */
static void
begin_naming(AtpTransfer *t)
{
	if (t->naming_cxt != NULL)
		MemoryContextDelete(t->naming_cxt);
	t->naming_cxt = AllocSetContextCreate(t->cxt, "atproto naming", ALLOCSET_DEFAULT_SIZES);
	t->naming = MemoryContextAlloc(t->naming_cxt, sizeof(AtpMergeCompare));
	atp_compare_begin(t->naming, t->naming_cxt, t->statements, &t->sub->settings, t->export, t->job.did);
	t->named = false;
}

/* P-22: is the value of the current record needed? */
static bool
needs_value(const AtpTransfer *t, AtpCompared where, const AtpStoredRow *row)
{
	const bool *actions = t->sub->settings.actions;

	return where == ATP_COMPARED_TREE ? actions[ATP_CREATE] :
		where == ATP_COMPARED_BOTH && actions[ATP_UPDATE] && !atp_compare_is_same(t->naming, row);
}

/* Name records until the fetch takes no more; called as the owner. */
static void
name_some(void *arg)
{
	Naming	   *n = arg;
	AtpTransfer *t = n->t;
	AtpTime		until = atp_now() + NAME_US;
	const AtpStoredRow *row;
	AtpCompared where;

	n->refusal = atp_transfer_look(t, n->cxt, &n->why);
	if (n->why != NULL)
		return;
	if (t->naming == NULL)
		begin_naming(t);
	for (int i = 1; (where = atp_compare_look(t->naming, &row)) != ATP_COMPARED_END; i++)
	{
		if (needs_value(t, where, row) && !atp_sparse_fetch_want(t->parts, t->naming->record.cid))
			break;
		atp_compare_next(t->naming, where);
		if (i % NAME_LOOK != 0)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (atp_now() >= until)
			break;
	}
	t->named = where == ATP_COMPARED_END;
	atp_compare_rest(t->naming);
}

/* Name the next records.  As atp_transfer_move_on(). */
static bool
name_records(AtpTransfer *t)
{
	Naming		n = {t, CurrentMemoryContext, ATP_REFUSED_NOT, NULL};
	AtpRunResult bounded = atp_transfer_act(t, "looking for records that are missing", name_some, &n, &n.why);

	if (bounded != ATP_RUN_DONE)
		t->naming = NULL;
	if (bounded == ATP_RUN_LATE && t->tries < NAME_TRIES)
	{
		t->backoff_until = atp_now() + (AtpTime) NAME_BACKOFF_MS * 1000 * (1 << t->tries++);
		return false;
	}
	if (n.why != NULL)
	{
		atp_transfer_fail(t, n.why, bounded == ATP_RUN_DONE ? atp_transfer_fault_of(t, n.refusal, true) : ATP_REPO_FAULT);
		return false;
	}
	t->tries = 0;
	return true;
}

bool
atp_parts_read(AtpTransfer *t)
{
	AtpSparseState state = atp_sparse_fetch_step(t->parts, &t->wait_ms);

	t->bytes = atp_sparse_fetch_bytes(t->parts);
	switch (state)
	{
		case ATP_SPARSE_WAITS:
			return false;
		case ATP_SPARSE_MORE:
			return true;
		case ATP_SPARSE_FAILED:
			return end_parts(t);
		case ATP_SPARSE_NODES:
			/* P-11: the commit itself was checked when it came */
			if (!atp_transfer_is_signed(t))
				return false;
			t->naming = NULL;
			return name_records(t);
		case ATP_SPARSE_RECORDS:
			if (t->naming == NULL || !t->named)
				return name_records(t);
			t->phase = ATP_TRANSFER_MERGING;
			return true;
	}
	return false;
}
