/*
 * node_mark.c
 *		Each transaction's number, on the nodes of Citus that the transaction writes to.
 *
 * Citus does not tell which nodes a transaction writes to.  An INSERT of arrays goes to the shards of its
 * rows, which follow from the hash of the column by which the table is distributed.  Any other statement
 * that changes rows is sent to all shards.  A node that the transaction does not write to gets no number: it
 * would become a participant of the commit.
 *
 * The number is in a row of node_mark that lies on the node: its key is a made-up DID, chosen so that its hash
 * falls into a shard there.  Each writer (a worker of a subscription, the fetcher for a subscription) has rows of
 * its own, so that writers do not wait for each other.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "config/extension.h"
#include "config/spi.h"
#include "config/target.h"
#include "executor/spi.h"
#include "tables/base/distributed.h"
#include "tables/base/node_mark.h"
#include "types/types.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

/* A DID that falls into one of n shards is found after n tries on average. */
#define KEY_TRIES	1000000

/* A shard, and a node with a placement of the shard. */
typedef struct Shard
{
	int32		min;			/* hash values, both included */
	int32		max;
	int			node;			/* pg_dist_node.groupid */
} Shard;

typedef struct ShardMap
{
	Oid			relid;
	Shard	   *shards;
	int			n;
	List	   *nodes;			/* the nodes of all shards */
} ShardMap;

/* What this transaction knows and has done; in its memory. */
typedef struct Touched
{
	List	   *maps;
	List	   *nodes;			/* to which the transaction writes */
	const AtpStatements *asked; /* whose target was looked at last ... */
	bool		has_marks;		/* ... and has the tables */
} Touched;

static Touched *touched = NULL;

static const AtpStatement shards_of = {
	"SELECT COALESCE(s.shardminvalue::int4, -2147483648) AS min, COALESCE(s.shardmaxvalue::int4, 2147483647) AS max, p.groupid"
	" FROM pg_catalog.pg_dist_shard s JOIN pg_catalog.pg_dist_placement p ON p.shardid = s.shardid"
	" WHERE s.logicalrelid::oid = $1 ORDER BY s.shardid",
	SPI_OK_SELECT, {ATP_TYPE_OID}, {ATP_TYPE_INT4, ATP_TYPE_INT4, ATP_TYPE_INT4}
};

static const AtpStatement numbers_of = {
	"SELECT node, did, number FROM #.node_written WHERE writer = $1",
	SPI_OK_SELECT, {ATP_TYPE_TEXT}, {ATP_TYPE_INT4, ATP_TYPE_DID, ATP_TYPE_INT8}
};

/* node, writer, did, number, the subscription's id, table repo; the rows of a DID are where its shard of repo is */
static const AtpStatement put_written = {
	"INSERT INTO #.node_written (node, writer, did, number, seq, hashes) VALUES ($1, $2, $3, $4,"
	" (SELECT min(c.seq) FROM atproto.subscription s JOIN atproto.cursor c ON c.subscription = s.name AND c.endpoint = s.endpoint WHERE s.id::text = $5),"
	" (SELECT range_agg(int8range(s.shardminvalue::int8, s.shardmaxvalue::int8, '[]')) FROM pg_catalog.pg_dist_shard s"
	"  JOIN pg_catalog.pg_dist_placement p ON p.shardid = s.shardid WHERE s.logicalrelid::oid = $6 AND p.groupid = $1))"
	" ON CONFLICT (node, writer) DO UPDATE SET did = excluded.did, number = excluded.number, seq = excluded.seq, hashes = excluded.hashes"
	" RETURNING seq",
	SPI_OK_INSERT_RETURNING, {ATP_TYPE_INT4, ATP_TYPE_TEXT, ATP_TYPE_DID, ATP_TYPE_INT8, ATP_TYPE_TEXT, ATP_TYPE_OID}, {ATP_TYPE_INT8}
};

/* did, writer, number, seq */
#define MARK_ARGS	ATP_TYPE_DID, ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_TYPE_INT8

static const AtpStatement put_mark = {
	"INSERT INTO #.node_mark (did, writer, number, seq) VALUES ($1, $2, $3, $4)"
	" ON CONFLICT (did, writer) DO UPDATE SET number = excluded.number, seq = excluded.seq",
	SPI_OK_INSERT, {MARK_ARGS}, {0}, NULL, ATP_PLANNED_ANEW
};

/* The node has to have what the coordinator knows to be there.  A higher number: the shard was on another node. */
static const AtpStatement move_mark = {
	"UPDATE #.node_mark SET number = $3, seq = $4 WHERE did OPERATOR(@.=) $1 AND writer = $2 AND number >= $5",
	SPI_OK_UPDATE, {MARK_ARGS, ATP_TYPE_INT8}, {0}, NULL, ATP_PLANNED_ANEW
};

bool
atp_has_node_marks(const char *target)
{
	Oid			mark = atp_target_relid(target, "node_mark");

	return OidIsValid(mark) && OidIsValid(atp_target_relid(target, "node_written")) && atp_is_distributed(mark);
}

/* ------------------------------------------------------------------------
 * Which nodes
 * ------------------------------------------------------------------------
 */
static void
forget_nodes(void *arg)
{
	touched = NULL;
}

static Touched *
touched_now(void)
{
	if (touched == NULL)
	{
		MemoryContextCallback *callback = MemoryContextAlloc(TopTransactionContext, sizeof(MemoryContextCallback));

		touched = MemoryContextAllocZero(TopTransactionContext, sizeof(Touched));
		callback->func = forget_nodes;
		callback->arg = NULL;
		MemoryContextRegisterResetCallback(TopTransactionContext, callback);
	}
	return touched;
}

static int32
int4_of(int row, int column)
{
	bool		isnull;

	return DatumGetInt32(SPI_getbinval(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column, &isnull));
}

/* The present shards of a table.  A shard can move, unless this transaction has written to the shard. */
static const ShardMap *
map_of(AtpStatements *set, Oid relid)
{
	Touched    *t = touched_now();
	Datum		arg = ObjectIdGetDatum(relid);
	MemoryContext old;
	ShardMap   *map;
	ListCell   *lc;

	foreach(lc, t->maps)
		if (((ShardMap *) lfirst(lc))->relid == relid)
			return lfirst(lc);
	map = MemoryContextAllocZero(TopTransactionContext, sizeof(ShardMap));
	map->relid = relid;
	map->n = atp_execute(set, &shards_of, &arg, NULL);
	old = MemoryContextSwitchTo(TopTransactionContext);
	map->shards = palloc(sizeof(Shard) * Max(map->n, 1));
	for (int i = 0; i < map->n; i++)
	{
		map->shards[i] = (Shard) {int4_of(i, 1), int4_of(i, 2), int4_of(i, 3)};
		map->nodes = list_append_unique_int(map->nodes, map->shards[i].node);
	}
	t->maps = lappend(t->maps, map);
	MemoryContextSwitchTo(old);
	SPI_freetuptable(SPI_tuptable);
	return map;
}

static int32
hash_of(Oid type, Datum value)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_HASH_PROC_FINFO);

	return DatumGetInt32(FunctionCall1Coll(&entry->hash_proc_finfo, entry->typcollation, value));
}

static void
touch_all(const ShardMap *map)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

	touched->nodes = list_concat_unique_int(touched->nodes, map->nodes);
	MemoryContextSwitchTo(old);
}

static void
touch_hash(const ShardMap *map, int32 hash)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);

	for (int i = 0; i < map->n; i++)
		if (map->shards[i].min <= hash && hash <= map->shards[i].max)
			touched->nodes = list_append_unique_int(touched->nodes, map->shards[i].node);
	MemoryContextSwitchTo(old);
}

static bool
is_all_touched(const ShardMap *map)
{
	ListCell   *lc;

	foreach(lc, map->nodes)
		if (!list_member_int(touched->nodes, lfirst_int(lc)))
			return false;
	return true;
}

/* The parameter with the values by which an INSERT's rows go to their shards; -1: the statement goes to all of them. */
static int
routing_arg(const AtpStatement *statement)
{
	const AtpTable *table = statement->table;
	const char *column = table->routed_by != NULL ? table->routed_by : table->shard_by;
	const AtpColumn **columns;
	int			ncolumns;
	int			n = 0;

	/* without such a column the table is on the coordinator, or whole on each node, and may be in Citus' metadata */
	if (column == NULL || (statement->result != SPI_OK_INSERT && statement->result != SPI_OK_INSERT_RETURNING))
		return -1;
	for (; statement->args[n] != ATP_TYPE_END; n++)
		if (statement->args[n] == ATP_ARRAY(ATP_TYPE_DID) && strcmp(column, "did") == 0)
			return n;
	if (!(statement->flags & ATP_ROWS_IN))
		return -1;
	columns = atp_row_columns(table, &ncolumns);
	for (int i = 0; i < ncolumns; i++)
		if (strcmp(columns[i]->name, column) == 0)
			return n + i;
	return -1;
}

static bool
changes_rows(const AtpStatement *statement)
{
	return statement->result != SPI_OK_SELECT;
}

static void
touch_values(const AtpTable *table, const ShardMap *map, ArrayType *array)
{
	Oid			type = ARR_ELEMTYPE(array);
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int16		len;
	bool		byval;
	char		align;

	get_typlenbyvalalign(type, &len, &byval, &align);
	deconstruct_array(array, type, len, byval, align, &values, &nulls, &n);
	/* with few nodes, the first values name all of them */
	for (int i = 0; i < n && !is_all_touched(map); i++)
	{
		if (nulls[i])
			continue;
		if (table->route != NULL)
			values[i] = PointerGetDatum(table->route(PG_DETOAST_DATUM_PACKED(values[i])));
		touch_hash(map, hash_of(type, values[i]));
	}
}

static bool
has_marks(const AtpStatements *set)
{
	Touched    *t = touched_now();

	if (t->asked != set)
		t->has_marks = atp_has_node_marks(atp_target(set));
	t->asked = set;
	return t->has_marks;
}

void
atp_nodes_touch(AtpStatements *set, const AtpStatement *statement, const Datum *values)
{
	const ShardMap *map;
	int			arg;

	if (!changes_rows(statement) || !has_marks(set))
		return;
	map = map_of(set, atp_target_table(set, statement->table->name));
	arg = routing_arg(statement);
	if (arg < 0)
		touch_all(map);
	else
		touch_values(statement->table, map, DatumGetArrayTypeP(values[arg]));
}

/* ------------------------------------------------------------------------
 * Marks
 * ------------------------------------------------------------------------
 */

/* A row of node_written. */
typedef struct Written
{
	int			node;
	struct varlena *did;
	int64		number;
} Written;

static struct varlena *
made_up_did(int n)
{
	const char *text = psprintf("did:web:node-mark-%d.invalid", n);

	return atp_did_make(text, strlen(text));
}

/* A made-up DID whose row of node_mark lies on this node; NULL: none was found, or the node has no shard. */
static struct varlena *
key_on(AtpStatements *set, const ShardMap *map, int node)
{
	int			s = 0;

	while (s < map->n && map->shards[s].node != node)
		s++;
	for (int i = 0; s < map->n && i < KEY_TRIES; i++)
	{
		struct varlena *did = made_up_did(i);
		int32		hash = hash_of(atp_element(set, ATP_TYPE_DID), PointerGetDatum(did));

		if (map->shards[s].min <= hash && hash <= map->shards[s].max)
			return did;
		pfree(did);
	}
	return NULL;
}

static Written *
read_written(AtpStatements *set, Datum writer, int *n)
{
	Written    *written;

	*n = atp_execute(set, &numbers_of, &writer, NULL);
	written = palloc(sizeof(Written) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
	{
		HeapTuple	row = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		bool		isnull;

		written[i].node = int4_of(i, 1);
		written[i].did = PG_DETOAST_DATUM_COPY(SPI_getbinval(row, desc, 2, &isnull));
		written[i].number = DatumGetInt64(SPI_getbinval(row, desc, 3, &isnull));
	}
	SPI_freetuptable(SPI_tuptable);
	return written;
}

/* What the coordinator knows of the row of node_mark with this key on this node; NULL: nothing. */
static const Written *
written_there(const Written *written, int n, int node, struct varlena *did)
{
	for (int i = 0; i < n; i++)
		if (written[i].node == node && atp_compare_dids(written[i].did, did) == 0)
			return &written[i];
	return NULL;
}

/* The coordinator's row first: whoever has it locked comes to the node's row next. */
static void
mark_node(AtpStatements *set, const AtpSubscription *sub, Datum writer, int node, struct varlena *did, int64 number, const Written *before)
{
	Datum		args[6] = {
		Int32GetDatum(node), writer, PointerGetDatum(did), Int64GetDatum(number), CStringGetTextDatum(sub->id),
		ObjectIdGetDatum(atp_target_table(set, atp_repo_table.name))
	};
	Datum		mark[5] = {PointerGetDatum(did), writer, Int64GetDatum(number), (Datum) 0, (Datum) 0};
	char		nulls[6] = "     ";
	bool		isnull;

	/* Citus executes the statement if the table is in the metadata of Citus */
	if (atp_execute(set, &put_written, args, NULL) != 1)
		elog(ERROR, "the number of a transaction on node %d was not written", node);
	mark[3] = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull);
	nulls[3] = isnull ? 'n' : ' ';
	if (before == NULL)
	{
		(void) atp_execute(set, &put_mark, mark, nulls);
		return;
	}
	mark[4] = Int64GetDatum(before->number);
	if (atp_execute(set, &move_mark, mark, nulls) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("node %d of Citus has come back with rows that are older than what is known of them", node),
				 errdetail("Transaction " INT64_FORMAT " of writer \"%s\" is missing there.", before->number, TextDatumGetCString(writer)),
				 errhint("A consumer of schema \"%s\" marks its repositories when the consumer starts.", atp_target(set))));
}

void
atp_nodes_mark(AtpStatements *set, const AtpSubscription *sub)
{
	Datum		writer;
	const ShardMap *map;
	Written    *written;
	int64		number = 1;
	int			n;
	ListCell   *lc;

	if (touched == NULL || touched->nodes == NIL)
		return;
	writer = CStringGetTextDatum(psprintf("%s %d", sub->id, atp_writer(set)));
	map = map_of(set, atp_target_table(set, "node_mark"));
	written = read_written(set, writer, &n);
	for (int i = 0; i < n; i++)
		number = Max(number, written[i].number + 1);
	/* in one order */
	list_sort(touched->nodes, list_int_cmp);
	foreach(lc, touched->nodes)
	{
		struct varlena *did = key_on(set, map, lfirst_int(lc));

		if (did != NULL)
			mark_node(set, sub, writer, lfirst_int(lc), did, number, written_there(written, n, lfirst_int(lc), did));
	}
	touched->nodes = NIL;
}
