/*
 * held_by.c
 *		Which subscriptions' held events a subscription may take, and behind which its own events wait.
 *
 * This file reads only atproto.subscription, not the held events.  Invariant: no role gains rights by a taken event.
 */
#include "postgres.h"

#include "config/spi.h"
#include "config/target.h"
#include "identity/identity.h"
#include "source.h"
#include "tables/repos/held_by.h"
#include "utils/acl.h"
#include "utils/builtins.h"

bool
atp_held_may_take(const AtpSubscription *taker, const AtpSubscription *receiver)
{
	return OidIsValid(taker->owner) && OidIsValid(receiver->owner) && strcmp(taker->target, receiver->target) == 0 &&
		taker->source->sink == receiver->source->sink && taker->settings.verify >= receiver->settings.verify &&
		has_privs_of_role(taker->owner, receiver->owner) && atp_subscription_same_contents(taker, receiver) &&
		/* an owner who has lost the right to fill the target must not fill it by way of a second subscription */
		atp_role_may_fill(taker->owner, taker->target, taker->target_owner) &&
		atp_role_may_fill(receiver->owner, receiver->target, receiver->target_owner);
}

/* All subscriptions of the target except a->sub, including those that are paused or stopped. */
static List *
others_of(const AtpApply *a)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	rows = atp_query("SELECT name FROM atproto.subscription WHERE target = $1::name AND name <> $2 ORDER BY name",
								 ATP_ARGS(atp_text_arg(a->sub->target), atp_text_arg(a->sub->name)));
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

static void
add_taken(AtpHeldBy *by, const AtpSubscription *sub)
{
	by->takes[by->ntakes] = CStringGetTextDatum(sub->name);
	by->owners[by->ntakes++] = sub->owner;
}

AtpHeldBy
atp_held_by(const AtpApply *a)
{
	List	   *others = others_of(a);
	int			max = 1 + list_length(others);
	AtpHeldBy	by = {
		.takes = palloc(sizeof(Datum) * max), .owners = palloc(sizeof(Oid) * max), .takers = palloc(sizeof(Datum) * max)
	};
	ListCell   *lc;

	add_taken(&by, a->sub);
	foreach(lc, others)
	{
		const AtpSubscription *other = lfirst(lc);

		if (atp_held_may_take(a->sub, other))
			add_taken(&by, other);
		else if (other->runnable && atp_held_may_take(other, a->sub))
			by.takers[by.ntakers++] = CStringGetTextDatum(other->name);
	}
	return by;
}
