/*
 * blocked.c
 *		Blocked accounts: rows of atproto.blocked_account, of which no process makes a row in the target again.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "commands/trigger.h"
#include "common/compat.h"
#include "config/extension.h"
#include "config/target.h"
#include "config/watch.h"
#include "core/syntax/did.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "tables/base/blocked.h"
#include "types/types.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(atp_blocks_changed);

typedef struct BlockedAccount
{
	struct varlena *did;
	char		target[NAMEDATALEN];	/* empty: all targets */
} BlockedAccount;

static MemoryContext cxt;		/* of the list */
static BlockedAccount *blocks;			/* in the order of the DIDs */
static int	nblocks;
static bool fresh;				/* no change since the list was read */
static Oid	watched = InvalidOid;

static void
forget_blocks(Oid relid)
{
	if (!OidIsValid(relid) || relid == watched)
		fresh = false;
}

static int
compare_blocks(const void *a, const void *b)
{
	return atp_compare_dids(((const BlockedAccount *) a)->did, ((const BlockedAccount *) b)->did);
}

static void
add_block(Relation rel, HeapTuple tuple)
{
	static int	max;
	bool		is_null;
	Datum		did = heap_getattr(tuple, 1, RelationGetDescr(rel), &is_null);
	Datum		target;

	if (is_null)
		return;
	if (nblocks == 0)
		max = 0;
	if (nblocks == max)
	{
		max = Max(2 * max, 16);
		blocks = blocks == NULL ? palloc(sizeof(BlockedAccount) * max) : repalloc_huge(blocks, sizeof(BlockedAccount) * max);
	}
	blocks[nblocks].did = PG_DETOAST_DATUM_COPY(did);
	target = heap_getattr(tuple, 2, RelationGetDescr(rel), &is_null);
	strlcpy(blocks[nblocks].target, is_null ? "" : NameStr(*DatumGetName(target)), NAMEDATALEN);
	nblocks++;
}

/*
 * Read the table with a snapshot of this moment, whatever the isolation of the transaction is: a row that was committed
 * after the transaction's own snapshot counts, too.
 */
static void
read_blocks(void)
{
	MemoryContext old;
	Relation	rel;
	Snapshot	snapshot;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (fresh)
		return;
	atp_watch_relations(forget_blocks);
	watched = atp_relation("blocked_account");
	if (cxt == NULL)
		cxt = AllocSetContextCreate(TopMemoryContext, "atproto blocked accounts", ALLOCSET_SMALL_SIZES);
	MemoryContextReset(cxt);
	blocks = NULL;
	nblocks = 0;
	/* a change during the scan makes the list old */
	fresh = true;
	old = MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		rel = table_open(watched, AccessShareLock);
		snapshot = RegisterSnapshot(GetLatestSnapshot());
		scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, NULL);
		while (HeapTupleIsValid(tuple = systable_getnext(scan)))
			add_block(rel, tuple);
		systable_endscan(scan);
		UnregisterSnapshot(snapshot);
		table_close(rel, NoLock);
	}
	PG_CATCH();
	{
		fresh = false;
		PG_RE_THROW();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(old);
	if (nblocks > 1)
		qsort(blocks, nblocks, sizeof(BlockedAccount), compare_blocks);
}

bool
atp_blocks_any(void)
{
	read_blocks();
	return nblocks > 0;
}

/* The first block of the account or behind it. */
static int
find_first(const struct varlena *did)
{
	int			lo = 0;
	int			hi = nblocks;

	while (lo < hi)
	{
		int			mid = lo + (hi - lo) / 2;

		if (atp_compare_dids(blocks[mid].did, did) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

bool
atp_is_blocked(const char *target, const struct varlena *did)
{
	read_blocks();
	if (nblocks == 0 || did == NULL)
		return false;
	for (int i = find_first(did); i < nblocks && atp_compare_dids(blocks[i].did, did) == 0; i++)
		if (blocks[i].target[0] == '\0' || strcmp(blocks[i].target, target) == 0)
			return true;
	return false;
}

bool
atp_subject_is_blocked(const char *target, const text *subject)
{
	static const char scheme[] = "at://";
	const char *ptr = VARDATA_ANY(subject);
	size_t		len = VARSIZE_ANY_EXHDR(subject);
	const char *end;
	struct varlena *did;
	bool		blocked;

	if (!atp_blocks_any())
		return false;
	if (len >= sizeof(scheme) - 1 && memcmp(ptr, scheme, sizeof(scheme) - 1) == 0)
	{
		ptr += sizeof(scheme) - 1;
		len -= sizeof(scheme) - 1;
	}
	for (end = ptr; end < ptr + len && *end != '/' && *end != '#' && *end != '?'; end++)
		;
	if (atp_did_check(ptr, end - ptr, NULL) != ATP_OK)
		return false;
	did = atp_did_make(ptr, end - ptr);
	blocked = atp_is_blocked(target, did);
	pfree(did);
	return blocked;
}

/* ------------------------------------------------------------------------
 * A batch
 * ------------------------------------------------------------------------
 */
static void
lock_as_writer(const char *target, const char *table)
{
	Oid			relid = atp_target_relid(target, table);

	if (OidIsValid(relid))
		LockRelationOid(relid, RowExclusiveLock);
}

bool
atp_is_blocked_now(const char *target, const struct varlena *did)
{
	lock_as_writer(target, "repo");
	return atp_is_blocked(target, did);
}

static void
pass_over_event(AtpApply *a, AtpEvent *event)
{
	if (event->ignored || event->did == NULL || !atp_is_blocked(a->sub->target, event->did))
		return;
	event->ignored = true;
	a->batch->skips[ATP_SKIP_BLOCKED]++;
}

static void
pass_over_labels(AtpApply *a, const AtpEvent *event)
{
	for (int r = event->first_row; r < event->first_row + event->nrows; r++)
	{
		AtpLabelRow *row = &a->batch->rows[r].label;

		if (row->blocked || !(atp_is_blocked(a->sub->target, row->src) || atp_subject_is_blocked(a->sub->target, row->uri)))
			continue;
		row->blocked = true;
		a->batch->skips[ATP_SKIP_BLOCKED]++;
	}
}

/*
 * Pass over the dead letters, before the events: an event with invalid records is counted with the events, and only what is not
 * applied anyway is counted here.  The letter was counted as invalid when its event was decoded.
 */
static void
pass_over_letters(AtpApply *a, bool labels)
{
	ListCell   *lc;

	foreach(lc, a->batch->letters)
	{
		AtpDeadLetter *letter = lfirst(lc);

		if (letter->did == NULL || !atp_is_blocked(a->sub->target, letter->did))
			continue;
		if (labels || letter->event == NULL || letter->event->ignored)
			a->batch->skips[ATP_SKIP_BLOCKED]++;
		a->batch->skips[ATP_SKIP_INVALID]--;
		a->batch->letters = foreach_delete_current(a->batch->letters, lc);
	}
}

void
atp_blocks_apply(AtpApply *a)
{
	bool		labels = (a->sink->uses & ATP_USE_LABELS) != 0;

	if (!labels && (a->sink->uses & ATP_USE_REPOS) == 0)
		return;
	lock_as_writer(a->sub->target, labels ? "label" : "repo");
	if (!atp_blocks_any())
		return;
	pass_over_letters(a, labels);
	for (int i = a->lo; i < a->batch->nevents; i++)
	{
		if (labels)
			pass_over_labels(a, &a->batch->events[i]);
		else
			pass_over_event(a, &a->batch->events[i]);
	}
}

/* SQL: atproto_internal.blocks_changed(), AFTER INSERT, UPDATE, DELETE or TRUNCATE for each statement */
Datum
atp_blocks_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired after the statement", "blocks_changed")));
	CacheInvalidateRelcache(((TriggerData *) fcinfo->context)->tg_relation);
	return PointerGetDatum(NULL);
}
