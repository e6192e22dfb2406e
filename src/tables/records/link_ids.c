/*
 * link_ids.c
 *		The sources of links, and their ids, as a cache of this process.
 *
 * The cache keeps sources that the table link_source has.  It is dropped when the table is altered
 * or truncated, when count_links() has changed which sources are counted, and when a transaction or subtransaction is rolled back, because the rollback may
 * have removed sources that are in the cache.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "common/secret_hash.h"
#include "config/watch.h"
#include "storage/lmgr.h"
#include "tables/records/table_link.h"
#include "tables/records/link_ids.h"
#include "tables/base/rows.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/memutils.h"

/*
 * So many times other processes may take the ids at the same moment, before the attempt is given up: more would be no
 * accident.
 */
#define ADD_TRIES	100

typedef struct SourceSlot
{
	AtpLinkSource *place;
	uint32		hash;
	char		status;
} SourceSlot;

static bool
same_place(const AtpLinkSource *a, const AtpLinkSource *b)
{
	return a->path.len == b->path.len && memcmp(a->path.ptr, b->path.ptr, a->path.len) == 0 &&
		VARSIZE_ANY_EXHDR(a->collection) == VARSIZE_ANY_EXHDR(b->collection) &&
		memcmp(VARDATA_ANY(a->collection), VARDATA_ANY(b->collection), VARSIZE_ANY_EXHDR(a->collection)) == 0;
}

#define SH_PREFIX places
#define SH_ELEMENT_TYPE SourceSlot
#define SH_KEY_TYPE AtpLinkSource *
#define SH_KEY place
#define SH_HASH_KEY(tb, key) (key)->hash
#define SH_EQUAL(tb, a, b) same_place(a, b)
#define SH_STORE_HASH
#define SH_GET_HASH(tb, slot) (slot)->hash
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

struct AtpLinkIds
{
	AtpApply   *apply;
	MemoryContext cxt;
	places_hash *places;		/* sources that were not in the cache */
	AtpLinkSource **unknown;	/* sources of places without an id yet, in the order in which they came */
	int			nunknown;
	int			max;
};

/* The cache, for one table. */
static struct
{
	MemoryContext cxt;			/* NULL: the cache is empty */
	Oid			relid;
	bool		stale;
	bool		full;
	places_hash *places;
}			known;

static void
relation_changed(Oid relid)
{
	if (relid == InvalidOid || relid == known.relid)
		known.stale = true;
}

/* A prepared transaction may be rolled back by another session, which this process would not notice. */
static void
xact_callback(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE)
		known.stale = true;
}

static void
subxact_callback(SubXactEvent event, SubTransactionId id, SubTransactionId parent, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		known.stale = true;
}

static void
forget_table(Oid relid)
{
	static bool registered = false;

	if (!registered)
	{
		atp_watch_relations(relation_changed);
		RegisterXactCallback(xact_callback, NULL);
		RegisterSubXactCallback(subxact_callback, NULL);
		registered = true;
	}
	if (known.cxt != NULL)
		MemoryContextDelete(known.cxt);
	known.cxt = AllocSetContextCreate(TopMemoryContext, "atproto sources of links", ALLOCSET_DEFAULT_SIZES);
	known.places = places_create(known.cxt, 128, NULL);
	known.relid = relid;
	known.stale = known.full = false;
}

AtpLinkIds *
atp_link_ids_begin(AtpApply *a)
{
	AtpLinkIds *ids = palloc0(sizeof(AtpLinkIds));
	Oid			relid = atp_target_table(a->statements, atp_link_source_table.name);

	if (known.cxt == NULL || known.stale || known.relid != relid)
		forget_table(relid);
	ids->apply = a;
	ids->cxt = CurrentMemoryContext;
	ids->places = places_create(ids->cxt, 128, NULL);
	ids->max = 128;
	ids->unknown = palloc(sizeof(AtpLinkSource *) * ids->max);
	return ids;
}

AtpLinkSource *
atp_link_ids_source(AtpLinkIds *ids, const struct varlena *collection, AtpSpan path)
{
	AtpLinkSource key = {.collection = collection, .path = path};
	AtpLinkSource *place;
	SourceSlot *slot;
	bool		found;
	MemoryContext old;

	/* accounts choose collection and path: without a secret, an account could choose colliding values */
	key.hash = (uint32) atp_secret_hash(path.ptr, path.len, atp_secret_hash(VARDATA_ANY(collection), VARSIZE_ANY_EXHDR(collection), 0));
	slot = places_lookup(known.places, &key);
	if (slot != NULL)
		return slot->place;
	slot = places_insert(ids->places, &key, &found);
	if (found)
		return slot->place;
	old = MemoryContextSwitchTo(ids->cxt);
	place = palloc(sizeof(AtpLinkSource) + path.len);
	*place = key;
	place->path.ptr = memcpy(place + 1, path.ptr, path.len);
	slot->place = place;
	if (ids->nunknown == ids->max)
		ids->unknown = repalloc_huge(ids->unknown, sizeof(AtpLinkSource *) * (ids->max *= 2));
	ids->unknown[ids->nunknown++] = place;
	MemoryContextSwitchTo(old);
	return place;
}

int
atp_link_ids_unknown(const AtpLinkIds *ids)
{
	return ids->nunknown;
}

bool
atp_link_ids_full(const AtpLinkIds *ids)
{
	return known.full;
}

/* Copy a source of the table into the cache. */
static void
remember_source(const AtpLinkSource *place)
{
	MemoryContext old = MemoryContextSwitchTo(known.cxt);
	AtpLinkSource *copy = palloc(sizeof(AtpLinkSource) + place->path.len);
	bool		found;

	*copy = *place;
	copy->path.ptr = memcpy(copy + 1, place->path.ptr, place->path.len);
	copy->collection = (struct varlena *) DatumGetPointer(datumCopy(PointerGetDatum(place->collection), false, -1));
	places_insert(known.places, copy, &found)->place = copy;
	MemoryContextSwitchTo(old);
}

/* Make the arguments of a statement: all sources without an id, or (asked) only the sources marked for adding. */
static int
bind_sources(const AtpLinkIds *ids, bool asked, Datum *args)
{
	static const AtpType types[] = {ATP_TYPE_NSID, ATP_TYPE_TEXT, ATP_TYPE_INT4, ATP_TYPE_END};
	AtpRows    *rows = atp_rows_create(ids->apply->statements, types, ids->nunknown);

	for (int i = 0; i < ids->nunknown; i++)
	{
		const AtpLinkSource *place = ids->unknown[i];

		if (asked && !place->asked)
			continue;
		atp_put_ref(rows, place->collection);
		atp_put_ref(rows, cstring_to_text_with_len(place->path.ptr, place->path.len));
		atp_put(rows, Int32GetDatum(i), false);
	}
	if (rows->n > 0)
		atp_rows_bind(rows, args);
	return rows->n;
}

int
atp_link_ids_find(AtpLinkIds *ids)
{
	/* the transaction's snapshot may be older than count_links(), which has committed before this process could lock link */
	AtpLinkSourceStatement find = IsolationUsesXactSnapshot() ? ATP_LOCK_SOURCES : ATP_FIND_SOURCES;
	Datum		args[3];
	int			left = 0;
	uint64		n;

	if (bind_sources(ids, false, args) == 0)
		return 0;
	n = atp_execute(ids->apply->statements, &atp_link_source_table.statements[find], args, NULL);
	for (uint64 i = 0; i < n; i++)
	{
		Datum		v[3];
		bool		null[3];
		AtpLinkSource *place;

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, v, null);
		/* without its primary key, which a user may have dropped, the id may be null */
		if (null[1])
			continue;
		place = ids->unknown[DatumGetInt32(v[0])];
		place->id = DatumGetInt32(v[1]);
		place->counted = !null[2] && DatumGetBool(v[2]);
		remember_source(place);
	}
	SPI_freetuptable(SPI_tuptable);
	for (int i = 0; i < ids->nunknown; i++)
		if (ids->unknown[i]->id == 0)
			ids->unknown[left++] = ids->unknown[i];
	ids->nunknown = left;
	return left;
}

/* Have records used up the ids that are reserved for sources from records? */
static bool
is_full(const AtpLinkIds *ids)
{
	bool		isnull;
	Datum		last;

	(void) atp_execute(ids->apply->statements, &atp_link_source_table.statements[ATP_LAST_SOURCE], NULL, NULL);
	last = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	known.full = DatumGetInt32(last) >= ATP_LINK_SOURCES_MAX;
	SPI_freetuptable(SPI_tuptable);
	return known.full;
}

void
atp_link_ids_add(AtpLinkIds *ids, bool named)
{
	const AtpStatement *add = &atp_link_source_table.statements[named ? ATP_NAME_SOURCES : ATP_ADD_SOURCES];
	Datum		args[3];

	if (bind_sources(ids, true, args) == 0)
		return;
	/*
	 * Sources are added by one process at a time: a place that another process is about to add would use up an id for
	 * nothing.
	 */
	LockRelationOid(atp_target_table(ids->apply->statements, atp_link_source_table.name), ShareUpdateExclusiveLock);
	(void) atp_link_ids_find(ids);
	for (int i = 0; i < ADD_TRIES && bind_sources(ids, true, args) > 0; i++)
	{
		(void) atp_execute(ids->apply->statements, add, args, NULL);
		(void) atp_link_ids_find(ids);
		if (!named && is_full(ids))
			break;
	}
}
