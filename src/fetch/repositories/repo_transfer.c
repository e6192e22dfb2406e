/*
 * repo_transfer.c
 *		A transfer: fetches the export of a repository and writes the export's records into the
 *		tables.
 *
 * A transfer proceeds in short steps: read some bytes, check some records, write some rows.  So a
 * large repository does not block transfers and tasks that share the process.
 */
#include "postgres.h"

#include "access/xact.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/target.h"
#include "config/transaction.h"
#include "core/wire/repo_status.h"
#include "fetch/engine/owner_backoff.h"
#include "fetch/repositories/repo_limits.h"
#include "fetch/repositories/repo_parts.h"
#include "fetch/repositories/repo_request.h"
#include "fetch/repositories/repo_statements.h"
#include "fetch/repositories/repo_transfer.h"
#include "common/injection.h"
#include "tables/base/blocked.h"
#include "tables/base/derived.h"
#include "tables/base/error_class.h"
#include "tables/repos/dead_letter.h"
#include "tables/base/node_mark.h"
#include "tables/base/table_locks.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#define STATE_MS		2000	/* time limit for reading and writing the repository's row in the
								 * owner's table */
#define CHECK_STEP		5000	/* records checked in a step */
#define MERGE_ROWS		10000	/* rows written in a step */
#define MERGE_US		(500 * 1000)
#define MERGE_MAX_MS	10000	/* time limit of a step that writes rows: triggers of the owner may
								 * be slow */
#define MERGE_TRIES		10		/* tries of a chunk of rows */
#define MERGE_BACKOFF_MS	100 /* pause after the first failed try, doubled each time */

int			atp_transfers;

void
atp_transfer_free(AtpTransfer *t)
{
	dlist_delete(&t->node);
	atp_transfers--;
	atp_fetch_free(t->http);
	if (t->parts != NULL)
		atp_sparse_fetch_free(t->parts);
	else if (t->export != NULL)
		atp_export_free(t->export);
	if (t->statements != NULL)
		atp_repo_statements_put(t->statements, t->spoilt);
	MemoryContextDelete(t->cxt);
}

typedef struct Act
{
	AtpTransfer *t;
	void		(*work) (void *arg);
	void	   *arg;
} Act;

/* In the owner's tables. */
static void
run_in_tables(void *arg)
{
	const Act  *a = arg;
	const AtpSubscription *sub = a->t->sub;

	atp_target_hold(sub->owner, sub->target, sub->target_owner);
	a->work(a->arg);
	atp_nodes_mark(a->t->statements, a->t->sub);
}

AtpRunResult
atp_transfer_act(AtpTransfer *t, const char *activity, void (*work) (void *), void *arg, char **why)
{
	Act			a = {t, work, arg};
	AtpRunResult bounded = atp_run_as_owner(t->sub->owner, activity, STATE_MS, run_in_tables, &a, why);

	t->spoilt |= bounded != ATP_RUN_DONE;
	if (bounded == ATP_RUN_LATE)
		atp_owner_backoff_begin(t->sub->owner);
	return bounded;
}

/* Release the held events; called as the owner. */
static void
let_go(void *arg)
{
	AtpTransfer *t = arg;

	atp_repo_job_release(&t->job, t->sub, t->statements, t->touched ? atp_export_head(t->export)->rev : 0);
}

/*
 * End a transfer that failed.  If releasing the events fails in the owner's tables, the events stay
 * held until a later fetch of the job ends or the job is removed.
 */
void
atp_transfer_fail(AtpTransfer *t, const char *why, AtpRepoFault fault)
{
	/* P-61: both reasons are visible in the job's row */
	char	   *text = t->parts_failed == NULL ? pstrdup(why) : psprintf("%s; of its collections alone: %s", why, t->parts_failed);
	char	   *refused;

	if (t->began)
		(void) atp_transfer_act(t, "letting go of a repository", let_go, t, &refused);
	atp_begin("giving up a repository");
	atp_repo_job_failed(&t->job, text, fault);
	atp_commit();
	atp_transfer_free(t);
}

void
atp_transfer_cancel(AtpTransfer *t)
{
	atp_transfer_fail(t, "", ATP_REPO_NOTED);
}

void
atp_transfer_give_up(AtpTransfer *t, const char *why)
{
	atp_transfer_fail(t, why, ATP_REPO_FAULT);
}

static void
fail_export(AtpTransfer *t)
{
	atp_transfer_fail(t, atp_repo_request_fault(t->export), ATP_REPO_FAULT);
}

/* ------------------------------------------------------------------------
 * Reading
 * ------------------------------------------------------------------------
 */

typedef struct Inactive
{
	AtpTransfer *t;
	const char *status;
	const char *host;
	bool		taken;
} Inactive;

/* Write the status; called as the owner. */
static void
say_inactive(void *arg)
{
	Inactive   *i = arg;

	i->taken = atp_repo_job_inactive(&i->t->job, i->t->sub, i->t->statements, i->status, i->host);
}

/*
 * The server says that the account is not active.  True: the status is written, and the job is
 * suspended; false: the stream has a newer status.
 */
static bool
is_inactive(AtpTransfer *t, const char *status, const char *host)
{
	Inactive	inactive = {t, status, host, false};
	char	   *refused;

	(void) atp_transfer_act(t, "writing an account's status", say_inactive, &inactive, &refused);
	if (inactive.taken)
		atp_transfer_free(t);
	return inactive.taken;
}

/* end a transfer whose answer is no export, as the answer's error says. */
void
atp_transfer_fail_answer(AtpTransfer *t, const AtpHttpAnswer *answer, const char *why)
{
	bool		refused = answer->outcome == ATP_HTTP_OK && answer->status >= 400 && answer->status <= 499 && answer->status != 429;
	AtpRepoRefusal refusal = refused ? atp_repo_refusal(answer->body, strlen(answer->body)) : ATP_REPO_REFUSED;
	const char *status = atp_repo_refusal_status(refusal);
	AtpRepoFault fault = ATP_REPO_FAULT;

	if (atp_http_is_later(answer))
		fault = ATP_REPO_LATER;
	else if (refusal == ATP_REPO_NOT_FOUND && t->job.at_pds)
		fault = ATP_REPO_DOUBTED;
	if (status == NULL || !is_inactive(t, status, answer->host))
		atp_transfer_fail(t, why, fault);
}

bool
atp_transfer_is_signed(AtpTransfer *t)
{
	const char *why;

	if (t->sub->settings.verify != ATP_VERIFY_FULL)
		return true;
	why = atp_repo_signer(t->export, t->job.did, t->job.server, &t->signer);
	if (why != NULL)
		atp_transfer_fail(t, why, ATP_REPO_DOUBTED);
	return why == NULL;
}

/* Read bytes of the export.  False: no bytes are available now, or the transfer has ended. */
static bool
read_some(AtpTransfer *t)
{
	switch (atp_repo_request_read(t->http, t->ended, t->export, &t->bytes))
	{
		case ATP_REPO_READ_WAITS:
			return false;
		case ATP_REPO_READ_MORE:
			return true;
		case ATP_REPO_READ_INVALID:
			fail_export(t);
			return false;
		case ATP_REPO_READ_NO_EXPORT:
			atp_transfer_fail_answer(t, atp_http_answer(t->http), atp_repo_request_error(atp_http_answer(t->http)));
			return false;
		case ATP_REPO_READ_DONE:
			break;
	}
	if (!atp_transfer_is_signed(t))
		return false;
	t->phase = ATP_TRANSFER_CHECKING;
	return true;
}

static bool
read_any(AtpTransfer *t)
{
	t->wait_ms = -1;
	return t->parts != NULL ? atp_parts_read(t) : t->http == NULL ? atp_parts_start_whole(t) : read_some(t);
}

static bool
check_some(AtpTransfer *t)
{
	switch (atp_export_check(t->export, CHECK_STEP))
	{
		case ATP_EXPORT_MORE:
			return true;
		case ATP_EXPORT_DONE:
			t->phase = ATP_TRANSFER_MERGING;
			atp_parts_whole_is_good(t);
			return true;
		default:
			fail_export(t);
			return false;
	}
}

/* ------------------------------------------------------------------------
 * Merging
 * ------------------------------------------------------------------------
 */

/* Does the subscription still want the rows that the merge has written? */
static bool
settings_hold(const AtpTransfer *t)
{
	const AtpSubscription *sub = atp_subscription_get(t->sub->name, CurrentMemoryContext);

	return sub != NULL && (sub->version == t->sub->version || atp_subscription_same_rows(sub, t->sub));
}

/* a lock of a session is not awaited for longer, until the section of the owner's rights ends. */
static void
wait_shortly(void)
{
	(void) set_config_option("lock_timeout", "1s", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* The last locks of the transaction: a consumer with such a lock waits for no other one. */
static void
write_counts(AtpTransfer *t)
{
	AtpCaller	caller = atp_target_begin(t->sub);

	wait_shortly();
	atp_merge_counts(t->merge);
	atp_owner_end(caller);
}

/*
 * Write rows until the step's time or row limit, and after the last row the repository's state.
 * NULL: the caller commits, and *more says whether rows are left; else the reason to roll back.
 */
static const char *
merge_slice(AtpTransfer *t, bool *more, AtpRefusal *refusal)
{
	AtpApply	a = {.sub = t->sub, .sink = &atp_repos_sink, .statements = t->statements};
	const AtpCommit *commit = atp_export_head(t->export);
	AtpCaller	caller = atp_target_begin(t->sub);
	const char *why = NULL;
	bool		whole = true;

	wait_shortly();
	/* check constraints now: at commit an error could no longer be attributed to this repository */
	atp_run("SET CONSTRAINTS ALL IMMEDIATE", ATP_NO_ARGS);
	atp_tables_lock_waiting(t->statements, a.sink->uses | atp_derived_uses(t->sub));
	/* a further try needs the subscription's settings anew */
	if (atp_statements_pack(t->statements) != t->sub->settings.packs)
	{
		atp_owner_end(caller);
		*refusal = ATP_REFUSED_CHANGED;
		return "the type of the values was changed while the repository was fetched";
	}
	atp_require_values(t->statements, &t->sub->settings, a.sink->uses | atp_derived_uses(t->sub));
	if (t->merge == NULL)
	{
		atp_dead_letters_forget_repo(&a, t->job.did);
		t->merge = atp_merge_begin(t->cxt, t->sub, t->statements, t->export, t->job.did);
		t->touched = true;
	}
	if (t->rows == 0)
		t->rows = ATP_MERGE_ROWS;
	*more = atp_merge_some(t->merge, t->rows, MERGE_ROWS, atp_now() + MERGE_US);
	if (!*more)
	{
		AtpRepoExport *repo = atp_repo_export_begin(&a, t->job.did);

		*refusal = atp_repo_export_refused(repo, commit, t->job.force, true, &why);
		if (*refusal == ATP_REFUSED_NOT)
			whole = atp_repo_export_end(repo, t->export, t->sub->settings.verify == ATP_VERIFY_FULL,
										t->signer.is_former ? t->signer.key : NULL);
	}
	atp_nodes_mark(t->statements, t->sub);
	atp_owner_end(caller);
	if (why == NULL && (atp_is_blocked(t->job.target, t->job.did) || !atp_repo_job_lock(&t->job)))
	{
		*refusal = ATP_REFUSED_REMOVED;
		return "the repository is not to be fetched any more";
	}
	if (why == NULL)
		write_counts(t);
	if (*more || why != NULL)
		return why;
	/*
	 * the session that changed the subscription asked for the missing rows, and found this job
	 * queued: so the job must run again, with the new settings
	 */
	if (!settings_hold(t))
	{
		*refusal = ATP_REFUSED_CHANGED;
		return "the subscription was changed while the repository was fetched";
	}
	/* a repository whose events are lost during each fetch would be fetched for ever */
	if (t->job.broke || (t->job.by_itself && !whole))
		atp_repo_fetched(&t->job);
	if (whole)
	{
		AtpMerged	merged = atp_merge_done(t->merge);

		atp_repo_job_done(&t->job, merged.created + merged.updated + merged.same, t->bytes);
	}
	else
		atp_repo_job_failed(&t->job, "events of the repository were lost while it was fetched", ATP_REPO_LATER);
	return NULL;
}

typedef struct Look
{
	AtpTransfer *t;
	MemoryContext cxt;
	AtpRefusal	refusal;
	char	   *why;			/* NULL: the export may be written */
} Look;

AtpRefusal
atp_transfer_look(AtpTransfer *t, MemoryContext cxt, char **why)
{
	const char *text;
	AtpRefusal	refusal = atp_repo_job_look(&t->job, t->sub, t->statements, atp_export_head(t->export), &text);

	if (refusal != ATP_REFUSED_NOT)
		*why = MemoryContextStrdup(cxt, text);
	return refusal;
}

/* Called before the first row, and between two transactions. */
static void
look_at_state(void *arg)
{
	Look	   *look = arg;

	look->refusal = atp_transfer_look(look->t, look->cxt, &look->why);
}

/*
 * begin the chunk that failed again after a pause, from the first record of the export on;
 * records that are stored already are passed quickly.  False: too many tries.
 */
static bool
pause_chunk(AtpTransfer *t)
{
	if (t->tries == MERGE_TRIES)
		return false;
	if (t->merge != NULL)
		atp_merge_free(t->merge);
	t->merge = NULL;
	t->backoff_until = atp_now() + (AtpTime) MERGE_BACKOFF_MS * 1000 * (1 << t->tries++);
	return true;
}

AtpRepoFault
atp_transfer_fault_of(const AtpTransfer *t, AtpRefusal refusal, bool before)
{
	switch (refusal)
	{
		case ATP_REFUSED_INACTIVE:
			/*
			 * refused with the last rows: the job is not suspended yet; the next try suspends the
			 * job before the first row
			 */
			return before ? ATP_REPO_NOTED : ATP_REPO_LATER;
		case ATP_REFUSED_OLD:
			/* W-36: a server that the account has left still sends the old repository */
			return t->job.at_pds ? ATP_REPO_DOUBTED : ATP_REPO_FAULT;
		case ATP_REFUSED_REMOVED:
			/* a row that is there again is a new job */
			return ATP_REPO_NOTED;
		case ATP_REFUSED_CHANGED:
		case ATP_REFUSED_BEHIND:
			return ATP_REPO_LATER;
		default:
			return ATP_REPO_FAULT;
	}
}

static bool
merge_some(AtpTransfer *t)
{
	MemoryContext cxt = CurrentMemoryContext;
	Look		look = {t, cxt, ATP_REFUSED_NOT, NULL};
	AtpRunResult bounded;
	AtpRefusal	refusal;
	const char *why;
	bool		more = false;

	if (t->merge != NULL)
		ATP_INJECTION_POINT("slice next");
	bounded = atp_transfer_act(t, "looking at the state of a repository", look_at_state, &look, &look.why);
	if (bounded == ATP_RUN_LATE && pause_chunk(t))
		return false;
	if (bounded != ATP_RUN_DONE)
		look.refusal = ATP_REFUSED_WAITING;
	refusal = look.refusal;
	why = look.why;
	if (why == NULL)
	{
		atp_begin("bringing an export into the tables");
		atp_limit_begin(t->sub->owner, MERGE_MAX_MS);
		why = merge_slice(t, &more, &refusal);
		atp_limit_end();
		why = why == NULL ? NULL : MemoryContextStrdup(cxt, why);
		if (why == NULL)
			atp_commit();
		else
			atp_abort();
	}
	MemoryContextSwitchTo(cxt);
	if (why != NULL)
		atp_transfer_fail(t, why, atp_transfer_fault_of(t, refusal, look.why != NULL));
	else if (!more)
		atp_transfer_free(t);
	else
		t->tries = 0;
	return why == NULL && more;
}

/*
 * After an ERROR: true: the chunk will be tried again, with fewer rows if the time limit was
 * exceeded.  False: the transfer is to be given up.
 */
static bool
try_again(AtpTransfer *t, const ErrorData *error)
{
	if (t->phase != ATP_TRANSFER_MERGING || atp_error_class(error->sqlerrcode) != ATP_ERROR_PASSING)
		return false;
	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED)
		t->rows = Max(t->rows / 8, 1);
	if (error->sqlerrcode == ERRCODE_QUERY_CANCELED || error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE)
		atp_owner_backoff_begin(t->sub->owner);
	return pause_chunk(t);
}

long
atp_transfer_backoff_ms(const AtpTransfer *t, AtpTime now)
{
	return t->backoff_until <= now ? 0 : (long) ((t->backoff_until - now + 999) / 1000);
}

bool
atp_transfer_move_on(AtpTransfer *t)
{
	MemoryContext cxt = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;
	volatile bool more = false;

	PG_TRY();
	{
		more = t->phase == ATP_TRANSFER_READING ? read_any(t) : t->phase == ATP_TRANSFER_CHECKING ? check_some(t) : merge_some(t);
	}
	PG_CATCH();
	{
		atp_limit_end();
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		MemoryContextSwitchTo(cxt);
	}
	PG_END_TRY();
	if (error == NULL)
		return more;
	t->spoilt = true;
	if (!try_again(t, error))
		atp_transfer_fail(t, atp_error_text(error), ATP_REPO_FAULT);
	return false;
}
