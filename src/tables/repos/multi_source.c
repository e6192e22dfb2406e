/*
 * multi_source.c
 *		Is a second subscription of the same target running that may bring a missing commit?
 *
 * This file only answers that question; admission.c holds the events, and release.c releases them.
 */
#include "postgres.h"

#include "config/owner.h"
#include "config/spi.h"
#include "identity/identity.h"
#include "source.h"
#include "stream/format.h"
#include "tables/repos/multi_source.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

/* How long this process relies on having found no subscription with whole commits. */
#define ALONE_MS	1000

int			atp_multi_source_wait_ms;

static const AtpRunning *running = NULL;

/* When this process last found that no subscription with whole commits fills a target, and the target's name. */
static TimestampTz alone_at;
static char alone_with[NAMEDATALEN];

void
atp_multi_source_init(void)
{
	DefineCustomIntVariable("atproto.multi_source_wait",
							"Longest time that an event waits for what another subscription of the same tables may bring, before it or with it.",
							"Zero: none waits.", &atp_multi_source_wait_ms, 30000, 0, 3600000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
}

void
atp_multi_source_set_running(const AtpRunning *who)
{
	running = who;
}

bool
atp_multi_source_is_shared(const AtpStatements *set)
{
	return running != NULL && running->is_shared(atp_target(set));
}

/*
 * since is a time that this database's clock gave.  If the clock was set back afterwards, the wait ends at once:
 * otherwise the event would wait until the clock reaches since again.
 */
bool
atp_multi_source_may_wait(TimestampTz since)
{
	TimestampTz now = GetCurrentTransactionStartTimestamp();

	return since <= now && !TimestampDifferenceExceeds(since, now, atp_multi_source_wait_ms);
}

/*
 * The query runs as the table's owner: row level security would hide the subscriptions of foreign owners from this
 * subscription's owner.
 */
List *
atp_running_subscriptions(const char *target)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	rows = atp_query("SELECT name FROM atproto.subscription WHERE target = $1::name AND enabled AND stopped IS NULL"
								 " AND atproto.role_may_fill(owner, target, target_owner)",
								 ATP_ARGS(atp_text_arg(target)));
	List	   *list = NIL;

	for (uint64 i = 0; i < rows.n; i++)
	{
		AtpSubscription *sub = atp_subscription_get(atp_get_text(atp_result_row(rows, i), "name"), CurrentMemoryContext);

		if (sub != NULL)
			list = lappend(list, sub);
	}
	atp_result_free(rows);
	atp_owner_end(caller);
	return list;
}

bool
atp_multi_source_is_filled(const AtpApply *a)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	uint64		n = atp_run("SELECT FROM atproto.subscription WHERE target = $1::name AND name <> $2"
							" AND atproto.role_may_fill(owner, target, target_owner) LIMIT 1",
							ATP_ARGS(atp_text_arg(atp_target(a->statements)), atp_text_arg(a->sub->name)));

	atp_owner_end(caller);
	return n > 0;
}

/*
 * Has this process just found no subscription with whole commits?  A consumer of a Jetstream that fills its target
 * alone would otherwise read atproto.subscription for each of its events.
 */
static bool
is_alone(const AtpApply *a)
{
	TimestampTz now = GetCurrentTransactionStartTimestamp();

	return alone_at <= now && !TimestampDifferenceExceeds(alone_at, now, ALONE_MS) && strcmp(alone_with, atp_target(a->statements)) == 0;
}

static void
note_alone(const AtpApply *a, const List *subs)
{
	const ListCell *lc;

	foreach(lc, subs)
	{
		const AtpSubscription *sub = lfirst(lc);

		if (sub->source != NULL && sub->source->has_chain)
			return;
	}
	alone_at = GetCurrentTransactionStartTimestamp();
	strlcpy(alone_with, atp_target(a->statements), NAMEDATALEN);
}

bool
atp_multi_source_has_other(const AtpApply *a, List **others, const AtpEvent *event)
{
	const char *mine = event->held != NULL ? text_to_cstring(event->held->subscription) : a->sub->name;
	ListCell   *lc;

	if (running == NULL || atp_multi_source_wait_ms == 0 || is_alone(a))
		return false;
	/* the list contains this subscription (unless just paused), so an empty list means: not read yet */
	if (*others == NIL)
	{
		*others = atp_running_subscriptions(atp_target(a->statements));
		note_alone(a, *others);
	}
	foreach(lc, *others)
	{
		const AtpSubscription *other = lfirst(lc);

		if (strcmp(other->name, mine) != 0 && other->source != NULL && other->source->has_chain &&
			atp_wants_did(&other->settings, event->did) && running->is_connected(other->name, atp_multi_source_wait_ms))
			return true;
	}
	return false;
}
