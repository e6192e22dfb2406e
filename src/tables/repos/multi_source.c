/*
 * multi_source.c
 *		Several sources of the same tables.
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

/* So long nobody looks again whether there is one now that may bring what is missing. */
#define ALONE_MS	1000

int			atp_union_wait_ms;

static const AtpRunning *running = NULL;

/* When this process found no source of whole commits of its tables, and which tables these are. */
static TimestampTz alone_at;
static char alone_with[NAMEDATALEN];

void
atp_union_init(void)
{
	DefineCustomIntVariable("atproto.union_wait",
							"Longest time that an event waits for what another subscription of the same tables may bring, before it or with it.",
							"Zero: none waits.", &atp_union_wait_ms, 30000, 0, 3600000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
}

void
atp_union_ask(const AtpRunning *who)
{
	running = who;
}

bool
atp_union_is_shared(const AtpStatements *set)
{
	return running != NULL && running->is_shared(atp_target(set));
}

/* By the clock that has written it; where that was set back, nobody waits for it to come there again. */
bool
atp_union_goes_on(TimestampTz since)
{
	TimestampTz now = GetCurrentTransactionStartTimestamp();

	return since <= now && !TimestampDifferenceExceeds(since, now, atp_union_wait_ms);
}

/* The subscriptions of these tables, but those that are paused or stopped: their owners are no business of this one's. */
static List *
subscriptions(const AtpApply *a)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	rows = atp_query("SELECT name FROM atproto.subscription WHERE target = $1::name AND enabled AND stopped IS NULL"
								 " AND atproto.role_may_fill(owner, target, target_owner)",
								 ATP_ARGS(atp_text_arg(atp_target(a->statements))));
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

/* A Jetstream that nobody accompanies asks for each of its events. */
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
atp_union_has_other(const AtpApply *a, List **others, const AtpEvent *event)
{
	const char *mine = event->held != NULL ? text_to_cstring(event->held->subscription) : a->sub->name;
	ListCell   *lc;

	if (running == NULL || atp_union_wait_ms == 0 || is_alone(a))
		return false;
	/* this one is among them, unless it has just been paused */
	if (*others == NIL)
	{
		*others = subscriptions(a);
		note_alone(a, *others);
	}
	foreach(lc, *others)
	{
		const AtpSubscription *other = lfirst(lc);

		if (strcmp(other->name, mine) != 0 && other->source != NULL && other->source->has_chain &&
			atp_wants_did(&other->settings, event->did) && running->is_connected(other->name, atp_union_wait_ms))
			return true;
	}
	return false;
}
