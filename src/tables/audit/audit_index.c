/*
 * audit_index.c
 *		Reads the records of a repository in the tree's order, by the primary key of an ordinary
 *		table.
 *
 * Within a collection the index on (did, collection, rkey) has the tree's order.  Between
 * collections the orders differ: the tree compares names followed by '/', and '-' and '.' sort
 * before '/'.  So a collection's turn comes after all collections "inside" it, whose names begin
 * with its name, followed by '-' or '.'.  These are contiguous in the index.  Before a collection
 * is read, a scan looks for a collection inside; if any exists, the collection is put off.  The
 * collections put off are prefixes of a single name, so memory is bounded, and each collection
 * costs a few descents of the index, whatever names strangers choose.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "common/compat.h"
#include "config/extension.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/tid.h"
#include "miscadmin.h"
#include "tables/audit/audit_index.h"
#include "types/types.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

/* Rows after which memory is reset, and interrupts are checked. */
#define MANY	1000

enum
{
	DID, COLLECTION, RKEY, CID, REV, VALUE, RAW, NCOLUMNS
};

/* Bounds of the scans. */
enum
{
	FROM, INSIDE_FROM, INSIDE_TO, NBOUNDS
};

static const char *const names[NCOLUMNS] = {"did", "collection", "rkey", "cid", "rev", "value", "raw"};

struct AtpAuditIndex
{
	Relation	rel;
	Relation	index;
	AttrNumber	attnums[NCOLUMNS];	/* attnums of value and raw are 0 if not wanted */
	IndexScanDesc scan;			/* the rows, from a collection on */
	IndexScanDesc look;			/* looks for collections inside a collection */
	ScanKeyData keys[2];		/* did =, collection >= */
	ScanKeyData inside[3];		/* did =, collection >=, collection < */
	struct varlena *bounds[NBOUNDS];
	TupleTableSlot *slot;		/* the current row of scan ... */
	TupleTableSlot *found;
	bool		there;			/* ... valid ... */
	bool		told;			/* ... and already returned */
	AtpSpan		at;				/* the row's collection */
	MemoryContext cxt;			/* for detoasted values of rows */
	int			rows;			/* rows since cxt was reset */
	uint64		purge_rev;
	bool		purged;			/* rows up to purge_rev are skipped */
	bool		packed;			/* the column value is of type dagcbor */
	/* the current collection */
	bool		done;
	bool		last;			/* put off earlier: the collections inside have been read */
	size_t		len;			/* length of the current collection's name */
	char		name[ATP_NSID_MAX];
	int			noff;
	size_t		off[ATP_NSID_MAX];	/* lengths of the names put off: each is a prefix of name */
	char		path[ATP_NSID_MAX + 1 + ATP_RKEY_MAX];
};

/* No policy, child table or table access method that only a statement would handle. */
static bool
is_plain_table(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_RELATION && !rel->rd_rel->relhassubclass &&
		rel->rd_tableam == GetHeapamTableAmRoutine() &&
		check_enable_rls(RelationGetRelid(rel), InvalidOid, true) != RLS_ENABLED;
}

/* False: a column has a different type than created by us. */
static bool
find_columns(AtpAuditIndex *x, bool with_values)
{
	const Oid	types[NCOLUMNS] = {
		atp_type("did"), atp_type("nsid"), atp_type("recordkey"), atp_type("cidlink"), atp_type("tid"), JSONBOID, BYTEAOID
	};

	for (int i = 0; i < (with_values ? NCOLUMNS : VALUE); i++)
	{
		Form_pg_attribute att;

		x->attnums[i] = get_attnum(RelationGetRelid(x->rel), names[i]);
		if (x->attnums[i] <= 0)
			return false;
		att = TupleDescAttr(RelationGetDescr(x->rel), x->attnums[i] - 1);
		if (i == VALUE)
			x->packed = att->atttypid == atp_type("dagcbor");
		if ((att->atttypid != types[i] && !(i == VALUE && x->packed)) || (i <= RKEY && !att->attnotnull))
			return false;
	}
	return true;
}

/*
 * Does the index have all rows that the snapshot sees?  With indcheckxmin, rows may be missing for
 * snapshots older than the index.
 */
static bool
is_complete(Relation index)
{
	return index->rd_index->indisvalid && RelationGetIndexPredicate(index) == NIL &&
		(!index->rd_index->indcheckxmin ||
		 TransactionIdPrecedes(HeapTupleHeaderGetXmin(index->rd_indextuple->t_data), TransactionXmin));
}

/* Is the index's order (did, collection, rkey)? */
static bool
is_in_order(const AtpAuditIndex *x, Relation index)
{
	if (index->rd_rel->relam != BTREE_AM_OID || index->rd_index->indnkeyatts < RKEY + 1)
		return false;
	for (int i = DID; i <= RKEY; i++)
	{
		Oid			type = TupleDescAttr(RelationGetDescr(x->rel), x->attnums[i] - 1)->atttypid;

		if (index->rd_index->indkey.values[i] != x->attnums[i] || index->rd_indoption[i] != 0 ||
			index->rd_opfamily[i] != get_opclass_family(GetDefaultOpClass(type, BTREE_AM_OID)))
			return false;
	}
	return true;
}

/* The opened index; NULL: no suitable index. */
static Relation
find_index(const AtpAuditIndex *x)
{
	ListCell   *lc;

	foreach(lc, RelationGetIndexList(x->rel))
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);

		if (is_complete(index) && is_in_order(x, index))
			return index;
		index_close(index, AccessShareLock);
	}
	return NULL;
}

static void
init_key(const AtpAuditIndex *x, ScanKey key, int column, StrategyNumber strategy)
{
	Oid			type = TupleDescAttr(RelationGetDescr(x->rel), x->attnums[column] - 1)->atttypid;
	Oid			operator = get_opfamily_member(x->index->rd_opfamily[column], type, type, strategy);

	ScanKeyEntryInitialize(key, 0, column + 1, strategy, InvalidOid, x->index->rd_indcollation[column],
						   get_opcode(operator), (Datum) 0);
}

AtpAuditIndex *
atp_audit_index_open(Oid relid, bool with_values)
{
	AtpAuditIndex *x = palloc0(sizeof(AtpAuditIndex));

	x->rel = table_open(relid, AccessShareLock);
	if (is_plain_table(x->rel) && find_columns(x, with_values))
		x->index = find_index(x);
	if (x->index == NULL)
	{
		atp_audit_index_close(x);
		return NULL;
	}
	init_key(x, &x->keys[0], DID, BTEqualStrategyNumber);
	init_key(x, &x->keys[1], COLLECTION, BTGreaterEqualStrategyNumber);
	memcpy(x->inside, x->keys, sizeof(x->keys));
	init_key(x, &x->inside[2], COLLECTION, BTLessStrategyNumber);
	x->scan = atp_index_beginscan(x->rel, x->index, GetActiveSnapshot(), lengthof(x->keys));
	x->look = atp_index_beginscan(x->rel, x->index, GetActiveSnapshot(), lengthof(x->inside));
	for (int i = 0; i < NBOUNDS; i++)
		x->bounds[i] = palloc(VARHDRSZ + ATP_NSID_MAX + 1);
	x->slot = table_slot_create(x->rel, NULL);
	x->found = table_slot_create(x->rel, NULL);
	x->cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto audited rows", ALLOCSET_DEFAULT_SIZES);
	x->done = true;
	return x;
}

void
atp_audit_index_close(AtpAuditIndex *x)
{
	if (x->index != NULL)
	{
		ExecDropSingleTupleTableSlot(x->slot);
		ExecDropSingleTupleTableSlot(x->found);
		index_endscan(x->scan);
		index_endscan(x->look);
		index_close(x->index, AccessShareLock);
		MemoryContextDelete(x->cxt);
	}
	/* the lock is kept until the transaction ends, as for a statement */
	table_close(x->rel, NoLock);
	pfree(x);
}

static Datum
get_attribute(AtpAuditIndex *x, int column, bool *isnull)
{
	return slot_getattr(x->slot, x->attnums[column], isnull);
}

/* A column's value, detoasted into cxt if needed; NULL: the column is null. */
static const struct varlena *
get_value(AtpAuditIndex *x, int column)
{
	bool		isnull;
	Datum		value = get_attribute(x, column, &isnull);
	struct varlena *bytes;
	MemoryContext old;

	if (isnull)
		return NULL;
	bytes = (struct varlena *) DatumGetPointer(value);
	if (VARATT_IS_COMPRESSED(bytes) || VARATT_IS_EXTERNAL(bytes))
	{
		old = MemoryContextSwitchTo(x->cxt);
		bytes = PG_DETOAST_DATUM_PACKED(value);
		MemoryContextSwitchTo(old);
	}
	return bytes;
}

/* A column's bytes; ptr NULL: the column is null. */
static AtpBytes
get_bytes(AtpAuditIndex *x, int column)
{
	const struct varlena *value = get_value(x, column);

	if (value == NULL)
		return (AtpBytes) {NULL, 0};
	return (AtpBytes) {(const uint8_t *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)};
}

static AtpSpan
get_collection(AtpAuditIndex *x)
{
	const struct varlena *value = get_value(x, COLLECTION);

	return value == NULL ? (AtpSpan) {NULL, 0} : atp_nsid_span(value);
}

/* Move to the next row of the index. */
static void
next_tuple(AtpAuditIndex *x)
{
	if (++x->rows >= MANY)
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextReset(x->cxt);
		x->rows = 0;
	}
	x->told = false;
	x->there = index_getnext_slot(x->scan, ForwardScanDirection, x->slot);
	if (x->there)
		x->at = get_collection(x);
}

/* Set a bound to the first len bytes of the name, followed by these characters: an nsid as text, which need not be valid. */
static Datum
set_bound(AtpAuditIndex *x, int bound, size_t len, const char *more)
{
	struct varlena *v = x->bounds[bound];

	memcpy(VARDATA(v), x->name, len);
	memcpy(VARDATA(v) + len, more, strlen(more));
	SET_VARSIZE(v, VARHDRSZ + len + strlen(more));
	return PointerGetDatum(v);
}

/* Move to the first row whose collection is not before this bound. */
static void
seek_collection(AtpAuditIndex *x, size_t len, const char *more)
{
	x->keys[1].sk_argument = set_bound(x, FROM, len, more);
	index_rescan(x->scan, x->keys, lengthof(x->keys), NULL, 0);
	next_tuple(x);
}

/* Does the repository have a collection inside this collection? */
static bool
has_inside(AtpAuditIndex *x, size_t len)
{
	bool		has;

	x->inside[1].sk_argument = set_bound(x, INSIDE_FROM, len, "-");
	x->inside[2].sk_argument = set_bound(x, INSIDE_TO, len, "/");
	index_rescan(x->look, x->inside, lengthof(x->inside), NULL, 0);
	has = index_getnext_slot(x->look, ForwardScanDirection, x->found);
	ExecClearTuple(x->found);
	return has;
}

static bool
begins_with_name(const AtpAuditIndex *x, size_t len)
{
	return x->at.len >= len && memcmp(x->at.ptr, x->name, len) == 0;
}

/* Is the current row's collection inside the collection that was put off last? */
static bool
is_inside(const AtpAuditIndex *x)
{
	size_t		len = x->off[x->noff - 1];

	return x->there && x->at.len > len && begins_with_name(x, len) && (x->at.ptr[len] == '-' || x->at.ptr[len] == '.');
}

static void
take_turn(AtpAuditIndex *x, size_t len, bool last)
{
	x->len = len;
	x->last = last;
	memcpy(x->path, x->name, len);
	x->path[len] = '/';
}

/*
 * The scan is at the first row of a collection that had no turn yet, or at the end: choose the next
 * collection.
 */
static void
next_turn(AtpAuditIndex *x)
{
	while (x->noff == 0 || is_inside(x))
	{
		if (!x->there)
		{
			x->done = true;
			return;
		}
		memcpy(x->name, x->at.ptr, x->at.len);
		if (!has_inside(x, x->at.len))
		{
			take_turn(x, x->at.len, false);
			return;
		}
		x->off[x->noff++] = x->at.len;
		seek_collection(x, x->at.len, "-");
	}
	take_turn(x, x->off[--x->noff], true);
	seek_collection(x, x->len, "");
}

void
atp_audit_index_of(AtpAuditIndex *x, Datum did, AtpArg purge_rev)
{
	x->keys[0].sk_argument = x->inside[0].sk_argument = did;
	x->purged = !purge_rev.isnull;
	x->purge_rev = DatumGetAtpTid(purge_rev.value);
	x->done = false;
	x->noff = 0;
	seek_collection(x, 0, "");
	next_turn(x);
}

static bool
is_purged(AtpAuditIndex *x)
{
	bool		isnull;
	uint64		rev;

	if (!x->purged)
		return false;
	rev = DatumGetAtpTid(get_attribute(x, REV, &isnull));
	return isnull || rev <= x->purge_rev;
}

static void
return_row(AtpAuditIndex *x, AtpAuditRow *row)
{
	const struct varlena *rkey = get_value(x, RKEY);
	bool		isnull = true;

	row->path = (AtpBytes) {NULL, 0};
	/* from PostgreSQL 18 on, a NOT NULL may be NOT VALID */
	if (rkey != NULL)
		row->path = (AtpBytes) {(uint8_t *) x->path, x->len + 1 + atp_rkey_copy(rkey, x->path + x->len + 1)};
	row->cid = get_bytes(x, CID);
	row->packed = x->packed;
	row->value = x->attnums[VALUE] == 0 ? (Datum) 0 : get_attribute(x, VALUE, &isnull);
	row->has_value = !isnull;
	isnull = true;
	row->raw = x->attnums[RAW] == 0 ? (Datum) 0 : get_attribute(x, RAW, &isnull);
	row->has_raw = !isnull;
}

bool
atp_audit_index_next(AtpAuditIndex *x, AtpAuditRow *row)
{
	while (!x->done)
	{
		if (x->told)
			next_tuple(x);
		if (x->there && x->at.len == x->len && begins_with_name(x, x->len))
		{
			x->told = true;
			if (!is_purged(x))
			{
				return_row(x, row);
				return true;
			}
			continue;
		}
		/*
		 * the rows that follow in the index belong to collections inside, which were read before:
		 * skip these
		 */
		if (x->last)
			seek_collection(x, x->len, "/");
		next_turn(x);
	}
	return false;
}
