/*
 * link_rows.c
 *		The links of records in the table link, which is derived from the table record.
 *
 * When a record is put or removed, the links of the old record are removed, whatever the
 * subscription's settings are by now, and the links of the new record are inserted; links in both
 * stay.  New links go directly into the table where direct_open.c allows that, sorted by key.
 * Under Citus, links lie on the server of the linked account, while the lock on the repository's
 * row is on another server.
 *
 * A source that link_source lacks has to be added first, and a process that adds the same source at
 * the same time has to be waited for.  Waiting with other locks held could be a deadlock.  So the
 * transaction ends with ATP_ERRCODE_PREPARE, apply.c has the sources added in transactions of their own,
 * and applies the batch again.  That is rare: the sources of a network hardly change.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/nsid.h"
#include "common/compat.h"
#include "data/dagcbor_value.h"
#include "data/links.h"
#include "lib/qunique.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "tables/base/derived.h"
#include "tables/direct/direct.h"
#include "tables/records/link_count.h"
#include "tables/records/table_link.h"
#include "tables/records/link_ids.h"
#include "tables/base/rows.h"
#include "types/types.h"
#include "utils/memutils.h"

/*
 * Links, and bytes of their targets, that go to the table in one step.  The links of a single record are not divided,
 * so a step may exceed the limits.
 */
#define STEP_LINKS	16384
#define STEP_BYTES	(4 * 1024 * 1024)

/* Sources looked up in a step; a single record may exceed the limit. */
#define STEP_PLACES	4096

typedef struct Link
{
	struct varlena *target;
	AtpLinkSource *place;
	const AtpRecordRow *row;
	bool		old;			/* a link of the old record */
} Link;

/* State of a step. */
typedef struct Links
{
	AtpApply   *apply;
	AtpLinkIds *ids;
	AtpLinkWalk walk;
	const AtpRecordRow *row;	/* the record whose links are being collected */
	bool		old;
	Link	   *links;
	int			n;
	int			max;
	Size		bytes;
	uint64		record;			/* number of the record, counted by this process */
	int			nplaces;		/* number of the record's distinct sources so far */
} Links;

/*
 * rebuild_links() locks the table exclusively against writers.  The lock is taken before sources are looked up, so
 * that this process does not wait for rebuild_links() while it holds locks on sources.
 */
static void
lock_links(AtpApply *a)
{
	Oid			relid = atp_target_table(a->statements, atp_link_table.name);

	if (OidIsValid(relid))
		LockRelationOid(relid, RowExclusiveLock);
}

static Links *
begin_step(AtpApply *a)
{
	Links	   *l = palloc(sizeof(Links));

	l->apply = a;
	l->ids = atp_link_ids_begin(a);
	l->n = 0;
	l->max = 1024;
	l->links = palloc(sizeof(Link) * l->max);
	l->bytes = 0;
	return l;
}

/* ------------------------------------------------------------------------
 * Links in a record
 * ------------------------------------------------------------------------
 */
static bool
wants_link(const AtpSettings *settings, const struct varlena *collection, AtpSpan path)
{
	AtpSpan		name;

	if (settings->nlinks < 0)
		return true;
	name = atp_nsid_span(collection);
	for (int i = 0; i < settings->nlinks; i++)
	{
		const AtpLinkFilter *filter = &settings->links[i];

		if (atp_nsid_matches(name.ptr, name.len, filter->collection, strlen(filter->collection)) &&
			(filter->path == NULL || atp_span_is(path, filter->path)))
			return true;
	}
	return false;
}

static AtpSpan
path_of(const AtpLinkWalk *walk)
{
	return (AtpSpan) {walk->path.text, walk->path.len};
}

/*
 * Does the subscription keep links from this source?  All links of the old record count, since earlier settings may
 * have kept them.
 */
static bool
is_kept(const Links *l)
{
	return l->old || wants_link(&l->apply->sub->settings, l->row->collection, path_of(&l->walk));
}

static void
found_link(AtpLinkWalk *walk, AtpSpan text, const AtpUri *uri)
{
	Links	   *l = walk->arg;
	struct varlena *target;

	if (!is_kept(l))
		return;
	target = atp_aturi_make_parsed(uri, text.ptr, text.len);
	if (!atp_link_fits(target, l->row->rkey, l->row->did))
	{
		if (!l->old)
			l->apply->skips[ATP_SKIP_LINK_TARGET]++;
		pfree(target);
		return;
	}
	if (l->n == l->max)
		l->links = repalloc_huge(l->links, sizeof(Link) * (l->max *= 2));
	l->links[l->n++] = (Link) {target, atp_link_ids_source(l->ids, l->row->collection, path_of(walk)), l->row, l->old};
	l->bytes += VARSIZE(target);
}

/*
 * A user may have written any bytes into raw.  A fault ends the walk; dagcbor_links() in SQL finds the same links up to the
 * fault.
 */
static void
walk_dagcbor(AtpLinkWalk *walk, AtpBytes cbor)
{
	size_t		at;

	(void) atp_link_walk_dagcbor(walk, cbor.ptr, cbor.len, &at);
}

/* A damaged old value has no links, too: an ERROR would come again at each start, and no event could replace the value. */
static void
walk_packed(AtpLinkWalk *walk, AtpBytes stored)
{
	AtpBytes	cbor;

	if (!atp_dagcbor_try_unpack(stored, &cbor))
		return;
	walk_dagcbor(walk, cbor);
	pfree(unconstify(uint8_t *, cbor.ptr));
}

/* Find all links of a record: in the value or, where jsonb cannot hold the record, in its DAG-CBOR. */
static void
find_links(Links *l, void (*found) (AtpLinkWalk *walk, AtpSpan text, const AtpUri *uri),
		   const AtpRecordRow *row, struct varlena *value, struct varlena *raw, bool old)
{
	struct varlena *plain = value == NULL && raw == NULL ? NULL : PG_DETOAST_DATUM(PointerGetDatum(value != NULL ? value : raw));
	AtpBytes	bytes = plain == NULL ? (AtpBytes) {NULL, 0} : (AtpBytes) {(const uint8_t *) VARDATA_ANY(plain), VARSIZE_ANY_EXHDR(plain)};

	l->row = row;
	l->old = old;
	atp_link_walk_begin(&l->walk, found, l);
	if (value != NULL && (old ? atp_values_are_packed(l->apply->statements) : l->apply->sub->settings.packs))
		walk_packed(&l->walk, bytes);
	else if (value != NULL)
		atp_link_walk_jsonb(&l->walk, &((Jsonb *) plain)->root);
	else if (raw != NULL)
		walk_dagcbor(&l->walk, bytes);
	if (!old)
		l->apply->skips[ATP_SKIP_LINK_PATH] += (int64) l->walk.deeper;
	if (plain != value && plain != raw)
		pfree(plain);
}

static void
look_at_new(Links *l, void (*found) (AtpLinkWalk *walk, AtpSpan text, const AtpUri *uri), const AtpRecordRow *row)
{
	if (row->action != ATP_DELETE)
		find_links(l, found, row, row->value, row->raw, false);
}

/* ------------------------------------------------------------------------
 * Sources
 * ------------------------------------------------------------------------
 */
static void
found_place(AtpLinkWalk *walk, AtpSpan text, const AtpUri *uri)
{
	Links	   *l = walk->arg;

	if (is_kept(l))
		(void) atp_link_ids_source(l->ids, l->row->collection, path_of(walk));
}

/*
 * Only the first ATP_LINK_SOURCES_NEW distinct places of a record may become sources, counting the places that are
 * sources already.  So two processes that read the same record ask for the same sources.
 */
static void
ask_for_place(AtpLinkWalk *walk, AtpSpan text, const AtpUri *uri)
{
	Links	   *l = walk->arg;
	AtpLinkSource *place;

	if (!is_kept(l))
		return;
	place = atp_link_ids_source(l->ids, l->row->collection, path_of(walk));
	if (place->record != l->record)
	{
		place->record = l->record;
		l->nplaces++;
	}
	if (place->id == 0 && l->nplaces <= ATP_LINK_SOURCES_NEW)
		place->asked = true;
}

/* Add the sources of the batch's rows from row "from" on, up to STEP_PLACES; returns the next row. */
static int
bring_some(AtpApply *a, int from)
{
	static uint64 records = 0;
	Links	   *l = begin_step(a);
	AtpRow	   *rows = a->batch->rows;
	int			to = from;

	for (; to < a->batch->nrows && atp_link_ids_unknown(l->ids) < STEP_PLACES; to++)
		look_at_new(l, found_place, &rows[to].record);
	if (atp_link_ids_find(l->ids) == 0)
		return to;
	for (int i = from; i < to; i++)
	{
		l->record = ++records;
		l->nplaces = 0;
		look_at_new(l, ask_for_place, &rows[i].record);
	}
	atp_link_ids_add(l->ids, false);
	return to;
}

/* Does the setting name a single source?  Such a source gets an id, however many sources records have brought. */
static bool
is_named(const AtpLinkFilter *filter)
{
	return filter->path != NULL && strchr(filter->collection, '*') == NULL;
}

/* Add the sources that the subscription's settings name. */
static void
add_named_sources(AtpApply *a)
{
	const AtpSettings *settings = &a->sub->settings;
	AtpLinkIds *ids;

	lock_links(a);
	ids = atp_link_ids_begin(a);
	for (int i = 0; i < settings->nlinks; i++)
	{
		const AtpLinkFilter *filter = &settings->links[i];

		if (is_named(filter))
			atp_link_ids_source(ids, atp_nsid_make(filter->collection, strlen(filter->collection)),
								(AtpSpan) {filter->path, strlen(filter->path)})->asked = true;
	}
	(void) atp_link_ids_find(ids);
	atp_link_ids_add(ids, true);
}

/* Add the sources that the rows of the batch bring, as far as there is room. */
static void
add_brought_sources(AtpApply *a)
{
	int64		skips[ATP_SKIP_COUNT];
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto sources", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);

	lock_links(a);
	/* skipped links are counted later, when the links are written */
	memcpy(skips, a->skips, sizeof(skips));
	for (int from = 0; from < a->batch->nrows;)
	{
		CHECK_FOR_INTERRUPTS();
		from = bring_some(a, from);
		MemoryContextReset(cxt);
	}
	memcpy(a->skips, skips, sizeof(skips));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/*
 * Two steps: a process that waits for an id which one of these transactions has inserted holds nothing that the
 * transaction wants next.
 */
static void (*const prepare_steps[]) (AtpApply *a) =
{
	add_named_sources, add_brought_sources
};

static void
prepare_links(AtpApply *a, int step)
{
	prepare_steps[step] (a);
}

/* May an attempt to add this source succeed?  False after prepare_links() has tried. */
static bool
may_be_added(const Links *l, const AtpLinkSource *place)
{
	const AtpSettings *settings = &l->apply->sub->settings;

	if (l->apply->prepared)
		return false;
	if (!atp_link_ids_full(l->ids))
		return true;
	for (int i = 0; i < settings->nlinks; i++)
		if (is_named(&settings->links[i]) && atp_span_is(place->path, settings->links[i].path) &&
			atp_span_is(atp_nsid_span(place->collection), settings->links[i].collection))
			return true;
	return false;
}

/*
 * Look up the ids of all sources; links without a source are left out.  ERROR ATP_ERRCODE_PREPARE if the source may
 * be added.
 */
static void
find_sources(Links *l)
{
	int			n = 0;

	if (atp_link_ids_find(l->ids) == 0)
		return;
	for (int i = 0; i < l->n; i++)
	{
		const Link *link = &l->links[i];

		if (link->place->id != 0)
			l->links[n++] = *link;
		else if (!link->old && may_be_added(l, link->place))
			ereport(ERROR,
					(errcode(ATP_ERRCODE_PREPARE),
					 errmsg("a source of links is to be added to table \"%s.%s\"", atp_target(l->apply->statements), atp_link_source_table.name)));
		else if (!link->old)
			l->apply->skips[ATP_SKIP_LINK_SOURCE]++;
	}
	l->n = n;
}

/* ------------------------------------------------------------------------
 * Rows
 * ------------------------------------------------------------------------
 */

/* The order of the table's primary key: links with neighbouring keys share pages. */
static int
compare_links(const void *a, const void *b)
{
	const Link *x = a;
	const Link *y = b;
	int			cmp = atp_uri_cmp((const uint8_t *) VARDATA(x->target), VARSIZE(x->target) - VARHDRSZ,
								  (const uint8_t *) VARDATA(y->target), VARSIZE(y->target) - VARHDRSZ);

	if (cmp == 0)
		cmp = (x->place->id > y->place->id) - (x->place->id < y->place->id);
	if (cmp == 0 && x->row != y->row)
		cmp = atp_rkey_cmp((const uint8_t *) VARDATA_ANY(x->row->rkey), VARSIZE_ANY_EXHDR(x->row->rkey),
						   (const uint8_t *) VARDATA_ANY(y->row->rkey), VARSIZE_ANY_EXHDR(y->row->rkey));
	if (cmp == 0 && x->row != y->row)
		cmp = atp_compare_dids(x->row->did, y->row->did);
	return cmp;
}

static void
put_link_row(AtpRows *rows, const Link *link)
{
	atp_put_ref(rows, link->target);
	atp_put(rows, Int32GetDatum(link->place->id), false);
	atp_put_ref(rows, link->row->rkey);
	atp_put_ref(rows, link->row->did);
}

/* Returns the number of rows that the statement has written. */
static int64
execute_on_links(AtpApply *a, AtpLinkStatement statement, const AtpRows *rows)
{
	Datum		args[ATP_STATEMENT_ARGS];

	if (rows->n == 0)
		return 0;
	atp_rows_bind(rows, args);
	return (int64) atp_execute(a->statements, &atp_link_table.statements[statement], args, NULL);
}

/* ------------------------------------------------------------------------
 * Rows and counts
 * ------------------------------------------------------------------------
 */

typedef struct Counted
{
	int32	   *ids;			/* in order */
	int			n;
} Counted;

static int
compare_ids(const void *a, const void *b)
{
	int32		x = *(const int32 *) a;
	int32		y = *(const int32 *) b;

	return (x > y) - (x < y);
}

/*
 * The ids of the counted sources among the links of the step; NULL: none.  The owner of link_source may have written any id, so
 * an id is no index of an array.
 */
static Counted *
counted_sources(const Links *l)
{
	Counted    *counted = palloc(sizeof(Counted));
	const AtpLinkSource *last = NULL;

	counted->ids = palloc(sizeof(int32) * Max(l->n, 1));
	counted->n = 0;
	for (int i = 0; i < l->n; i++)
	{
		if (l->links[i].place != last && l->links[i].place->counted)
			counted->ids[counted->n++] = l->links[i].place->id;
		last = l->links[i].place;
	}
	if (counted->n == 0)
		return NULL;
	qsort(counted->ids, counted->n, sizeof(int32), compare_ids);
	counted->n = (int) qunique(counted->ids, counted->n, sizeof(int32), compare_ids);
	return counted;
}

static bool
is_counted(const Counted *counted, int32 id)
{
	return bsearch(&id, counted->ids, counted->n, sizeof(int32), compare_ids) != NULL;
}

/* Run a statement that returns the links which the statement has added (n = 1) or removed (n = -1), note them, and return their number. */
static int64
execute_and_count(AtpApply *a, AtpLinkStatement told, const AtpRows *rows, const Counted *counted, int n)
{
	int64		nrows = execute_on_links(a, told, rows);

	for (int64 i = 0; i < nrows; i++)
	{
		Datum		v[2];
		bool		null[2];

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, v, null);
		/* without NOT NULL, which a user may have dropped */
		if (!null[0] && !null[1] && is_counted(counted, DatumGetInt32(v[1])))
			atp_link_count_note(a, PG_DETOAST_DATUM_PACKED(v[0]), DatumGetInt32(v[1]), n);
	}
	if (rows->n > 0)
		SPI_freetuptable(SPI_tuptable);
	return nrows;
}

static void
delete_links(AtpApply *a, const AtpRows *rows, const Counted *counted)
{
	a->links_removed += counted == NULL ? execute_on_links(a, ATP_DELETE_LINKS, rows)
		: execute_and_count(a, ATP_DELETE_LINKS_TOLD, rows, counted, -1);
}

static void
put_links(AtpApply *a, const AtpRows *rows, const Counted *counted)
{
	if (counted == NULL)
		(void) execute_on_links(a, ATP_PUT_LINKS, rows);
	else
		(void) execute_and_count(a, ATP_PUT_LINKS_TOLD, rows, counted, 1);
}

/* The rows are in the order of the key, so equal targets are neighbours. */
static void
count_inserted(AtpApply *a, const AtpRows *rows, const Counted *counted)
{
	const Datum *targets = rows->values;
	const Datum *sources = rows->values + rows->max;

	for (int i = 0, end; i < rows->n; i = end)
	{
		const struct varlena *target = (const struct varlena *) DatumGetPointer(targets[i]);

		for (end = i + 1; end < rows->n && sources[end] == sources[i] &&
			 atp_same_bytes((const struct varlena *) DatumGetPointer(targets[end]), target); end++)
			;
		if (is_counted(counted, DatumGetInt32(sources[i])))
			atp_link_count_note(a, target, DatumGetInt32(sources[i]), end - i);
	}
}

static void
insert_links(AtpApply *a, const AtpRows *rows, const Counted *counted)
{
	AtpDirect  *direct = a->direct && rows->n > 0 ? atp_direct_open(a->statements, &atp_link_table) : NULL;

	if (direct == NULL)
	{
		put_links(a, rows, counted);
		return;
	}
	atp_direct_insert(direct, rows);
	atp_direct_close(direct);
	if (counted != NULL)
		count_inserted(a, rows, counted);
}

static void
write_links(Links *l)
{
	AtpApply   *a = l->apply;
	AtpRows    *gone = atp_rows_of(a->statements, &atp_link_table, l->n);
	AtpRows    *kept = atp_rows_of(a->statements, &atp_link_table, l->n);
	AtpRows    *come = atp_rows_of(a->statements, &atp_link_table, l->n);
	const Counted *counted = counted_sources(l);

	qsort(l->links, l->n, sizeof(Link), compare_links);
	for (int i = 0, end; i < l->n; i = end)
	{
		const Link *link = &l->links[i];
		bool		was = false;
		bool		is = false;

		for (end = i; end < l->n && (end == i || compare_links(link, &l->links[end]) == 0); end++)
			*(l->links[end].old ? &was : &is) = true;
		/* The link is in both records; the table may lack the link, since earlier settings may not have kept it. */
		put_link_row(!is ? gone : was ? kept : come, link);
	}
	/*
	 * Under Citus, a transaction before this one may have put a link that the other node has prepared and does not
	 * yet know to be committed.  The DELETE cannot see such a link, which would stay for ever.  So the link is
	 * inserted first: the key makes the INSERT wait for the prepared transaction.
	 */
	if (atp_target_is_distributed(a->statements, &atp_link_table))
		(void) execute_on_links(a, ATP_PUT_LINKS, gone);
	delete_links(a, gone, counted);
	put_links(a, kept, counted);
	insert_links(a, come, counted);
	atp_link_counts_limit(a);
}

/* Collect and write the links of changes from "from" on, until a limit is reached; returns the next change. */
static int
flush_some(AtpApply *a, const AtpChange *changes, int from, int n)
{
	Links	   *l = begin_step(a);

	for (; from < n && l->n < STEP_LINKS && l->bytes < STEP_BYTES; from++)
	{
		const AtpChange *change = &changes[from];

		/* the table has a newer record, which was not overwritten */
		if (change->found && change->old_rev > change->row->rev && !a->force)
			continue;
		if (change->found)
			find_links(l, found_link, change->row, change->old_value, change->old_raw, true);
		look_at_new(l, found_link, change->row);
	}
	find_sources(l);
	if (l->n > 0)
		write_links(l);
	return from;
}

static void
flush_links(AtpApply *a, const AtpChange *changes, int n)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto links", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);

	lock_links(a);
	for (int from = 0; from < n;)
	{
		from = flush_some(a, changes, from, n);
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

static bool
wants_links(const AtpSubscription *sub)
{
	return sub->settings.has_links;
}

const AtpDerived atp_link_derived = {
	.use = ATP_USE_LINKS, .wanted = wants_links, .flush = flush_links, .prepare = prepare_links, .nsteps = lengthof(prepare_steps)
};
