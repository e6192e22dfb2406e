/*
 * removals.c
 *		Which removals of an account's records a batch needs, while an archive is read: see removals.h.
 *
 * H-31: a removal, by a #sync or by the deletion of an account, reads all records of the account, since no index has their revisions.
 * An archive keeps all such rows for ever, and an account can make any number of them.  So of a batch only the last removals read
 * the records.  A later removal of the same or a later revision also removes what the rows between have put and the former removal
 * would have kept out: the tables are the same at the end of the transaction.
 */
#include "postgres.h"

#include "tables/apply/removals.h"
#include "tables/repos/repo_state.h"
#include "types/types.h"

typedef struct Removal
{
	const AtpEvent *event;
	AtpEffect  *effect;
} Removal;

/* By account, the last event first. */
static int
compare_removals(const void *a, const void *b)
{
	const Removal *x = a;
	const Removal *y = b;
	int			cmp = atp_compare_dids(x->event->did, y->event->did);

	return cmp != 0 ? cmp : (x->event < y->event) - (x->event > y->event);
}

/* Up to which revision are records removed?  As erase_in_sweep() and replace_records() do. */
static uint64
bound_of(const Removal *r)
{
	uint64		rev = r->effect->rev;

	if (!atp_is_deletion(r->event))
		return rev;
	return r->event->archived || !r->effect->has_rev ? atp_repo_event_bound(r->event) : Max(atp_repo_event_bound(r->event), rev);
}

/* Does the effect remove the records up to a certain revision, and no others? */
static bool
is_bounded(const AtpApply *a, const AtpEvent *event, const AtpEffect *effect)
{
	if (event->ignored || !(effect->erase || effect->replace))
		return false;
	if (effect->replace)
		return true;
	if (atp_is_deletion(event))
		return event->archived || a->sweep == ATP_SWEEP_SHARED;
	return event->archived && effect->has_rev && !effect->beyond;
}

/* The removals of one account, the last one first.  An erasure is of all collections, a replacement of those in the filter. */
static void
join_of_account(Removal *list, int n)
{
	uint64		erased = 0;
	uint64		replaced = 0;

	for (int i = 0; i < n; i++)
	{
		AtpEffect  *effect = list[i].effect;
		uint64		bound = bound_of(&list[i]);
		bool		is_erasure = effect->erase;

		if (bound <= (is_erasure ? erased : Max(erased, replaced)))
			effect->erase = effect->replace = false;
		if (is_erasure)
			erased = Max(erased, bound);
		else
			replaced = Max(replaced, bound);
	}
}

void
atp_removals_join(const AtpApply *a, AtpEffect *effects, int lo, int hi)
{
	const AtpEvent *events = a->batch->events;
	Removal    *list = palloc(sizeof(Removal) * Max(hi - lo, 1));
	int			n = 0;
	int			from = 0;

	for (int i = lo; i < hi; i++)
		if (is_bounded(a, &events[i], &effects[i - lo]))
			list[n++] = (Removal) {&events[i], &effects[i - lo]};
	qsort(list, n, sizeof(Removal), compare_removals);
	for (int i = 1; i <= n; i++)
		if (i == n || atp_compare_dids(list[i].event->did, list[from].event->did) != 0)
		{
			join_of_account(list + from, i - from);
			from = i;
		}
	pfree(list);
}
