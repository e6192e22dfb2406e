/*
 * consumer_plan.c
 *		What the consumer asks an archive for: collections, accounts, kinds of rows (H-26, H-27).
 *
 * The consumer asks the server to apply as much of the filter as the server's lists take, and filters the rest itself.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/transaction.h"
#include "core/syntax/did.h"
#include "lib/stringinfo.h"
#include "process/consumer/consumer_private.h"
#include "types/types.h"
#include "utils/memutils.h"

#define ACCOUNTS_MIN	16			/* fewer accounts than these are not asked for, but filtered here */
#define MORE_BLOCKS	4			/* H-26: two passes, if all kinds of rows need so many times the blocks of the commits ... */
#define MORE_BLOCKS_MIN	50		/* ... and so many more */

static AtpSpan
did_text(const struct varlena *did)
{
	char		text[ATP_DID_MAX];
	size_t		len = atp_did_copy(did, text);

	return (AtpSpan) {memcpy(palloc(len), text, len), len};
}

/* H-27: the filters that the server is not asked to apply, for people. */
static const char *
filtered_here(const Consumer *c)
{
	const AtpSettings *settings = &c->sub->settings;
	StringInfoData names;

	initStringInfo(&names);
	if (settings->slice.of > 1)
		appendStringInfoString(&names, ",slice");
	if (settings->ncollections > 0 && (!c->ask_collections || settings->ncollections > ATP_PLAN_COLLECTIONS_MAX))
		appendStringInfoString(&names, ",collections");
	if (settings->ndids > 0 && !c->ask_dids)
		appendStringInfoString(&names, ",dids");
	return names.len > 0 ? names.data + 1 : "";
}

void
atp_consumer_note_filtered(Consumer *c)
{
	const char *filters = filtered_here(c);

	atp_begin("noting what the archive is not asked for");
	if (atp_consumer_locks_history(c))
		atp_history_filtered(c->name, filters);
	atp_commit();
	atp_consumer_report(c);
}

static void
ask_for_dids(const Consumer *c, AtpPlanRequest *request, struct varlena *const *dids, int n)
{
	AtpSpan    *spans;

	if (!c->ask_dids || n <= 0)
		return;
	request->dids = spans = palloc(sizeof(AtpSpan) * n);
	request->ndids = n;
	for (int i = 0; i < n; i++)
		spans[i] = did_text(dids[i]);
}

/* Spans of the filter's collections and DIDs, for the server. */
AtpPlanRequest
atp_consumer_plan_filter(Consumer *c)
{
	const AtpSettings *settings = &c->sub->settings;
	AtpPlanRequest request = {0};
	AtpSpan    *spans;

	/* an empty filter lets nothing through; the archive is read all the same, and the position moves */
	if (c->ask_collections && settings->ncollections > 0 && settings->ncollections <= ATP_PLAN_COLLECTIONS_MAX)
	{
		request.collections = spans = palloc(sizeof(AtpSpan) * settings->ncollections);
		request.ncollections = settings->ncollections;
		for (int i = 0; i < settings->ncollections; i++)
			spans[i] = (AtpSpan) {settings->collections[i], strlen(settings->collections[i])};
	}
	if (settings->ndids <= c->group)
		ask_for_dids(c, &request, settings->dids, settings->ndids);
	return request;
}

/* In phase markers: the next accounts with records. */
static void
find_accounts(Consumer *c)
{
	c->accounts = palloc(sizeof(struct varlena *) * c->group);
	atp_begin("finding the accounts with records");
	MemoryContextSwitchTo(c->filter_cxt);
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		c->naccounts = atp_history_accounts(c->sub->target, atp_history_read_up_to(c->name), c->accounts, c->group);
	atp_commit();
	MemoryContextSwitchTo(c->filter_cxt);
	c->more_accounts = c->naccounts == c->group;
	/* which of the accounts have had a marker, a process that goes on does not know */
	c->applied_again = palloc0(sizeof(bool) * Max(c->naccounts, 1));
	if (c->cursor > c->history.began_after)
		memset(c->applied_again, true, sizeof(bool) * c->naccounts);
}

/* H-27: the filter has more accounts than a request: the next of them, which are sorted. */
static void
take_accounts(Consumer *c)
{
	const AtpSettings *settings = &c->sub->settings;
	const struct varlena *after = NULL;
	int			first = 0;

	atp_begin("finding the next accounts");
	MemoryContextSwitchTo(c->filter_cxt);
	if (atp_extension_lock() == ATP_EXTENSION_READY && c->history.phase == ATP_HISTORY_ROWS)
		after = atp_history_read_up_to(c->name);
	atp_commit();
	MemoryContextSwitchTo(c->filter_cxt);
	while (after != NULL && first < settings->ndids && atp_compare_dids(settings->dids[first], after) <= 0)
		first++;
	c->accounts = settings->dids + first;
	c->naccounts = Min(settings->ndids - first, c->group);
	c->more_accounts = first + c->naccounts < settings->ndids;
}

/* The filter of this phase. */
void
atp_consumer_set_filter(Consumer *c)
{
	MemoryContext old = MemoryContextSwitchTo(c->filter_cxt);

	c->filter = atp_consumer_plan_filter(c);
	c->accounts = NULL;
	c->applied_again = NULL;
	c->naccounts = 0;
	c->more_accounts = false;
	/* also in phase plan, if changes of accounts are still to be read */
	if (c->history.phase <= ATP_HISTORY_ROWS && c->history.passes == 2)
		c->filter.kinds = ATP_PLAN_COMMIT;
	if (c->history.phase == ATP_HISTORY_MARKERS)
		find_accounts(c);
	else if (c->ask_dids && c->sub->settings.ndids > c->group)
		take_accounts(c);
	ask_for_dids(c, &c->filter, c->accounts, c->naccounts);
	MemoryContextSwitchTo(old);
	atp_archive_filter(c->archive, &c->filter);
}

/*
 * H-27: the limits of the server's lists are its operator's, and the server does not say which list is too long.  A refused request is made
 * smaller: fewer accounts, then no collections, then no accounts; the consumer filters by lists that were left out.  False: the request
 * had no list.
 */
bool
atp_consumer_ask_for_less(Consumer *c)
{
	if (c->filter.ndids > ACCOUNTS_MIN)
		c->group = (int) c->filter.ndids / 2;
	else if (c->filter.ndids > 0)
	{
		/* without collections, too, so many accounts are refused: the collections may be accepted */
		if (c->filter.ncollections == 0)
			c->ask_dids = false;
		c->ask_collections = c->filter.ncollections == 0;
		c->group = ATP_PLAN_DIDS_MAX;
	}
	else if (c->filter.ncollections > 0)
		c->ask_collections = false;
	else
		return false;
	return true;
}

/*
 * H-26: may the rows be read in two passes?  The second pass reads operations again, which record_event and
 * collection_count would have twice.
 */
static bool
may_divide(const Consumer *c)
{
	const AtpSettings *settings = &c->sub->settings;

	return c->filter.ncollections > 0 && settings->ndids < 0 && settings->events == ATP_EVENTS_NONE && !settings->count_collections;
}

/*
 * The first page of a cycle has come.  Two plans are compared: of all kinds of rows, and of commits only.  Planning transfers no block.
 * True: the number of passes is decided, and the page is of the first pass.
 */
bool
atp_consumer_decide_passes(Consumer *c, const AtpPlan *plan, int *passes)
{
	bool		two;

	*passes = Max(c->history.passes, 1);
	if (*passes == 2 || c->decided || !may_divide(c))
		return true;
	if (c->filter.kinds == 0)
	{
		c->blocks_of_all = (int64) plan->blocks_matched;
		if (c->blocks_of_all < MORE_BLOCKS_MIN)
			return true;
		c->filter.kinds = ATP_PLAN_COMMIT;
	}
	else
	{
		two = c->blocks_of_all > MORE_BLOCKS * (int64) plan->blocks_matched && c->blocks_of_all > (int64) plan->blocks_matched + MORE_BLOCKS_MIN;
		if (two)
		{
			*passes = 2;
			return true;
		}
		c->filter.kinds = 0;
		c->decided = true;
	}
	atp_archive_filter(c->archive, &c->filter);
	return false;
}
