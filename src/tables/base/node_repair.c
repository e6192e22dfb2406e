/*
 * node_repair.c
 *		Repairs the tables after a node of Citus has come back with older rows, for instance from a backup.
 *
 * The rows of a repository are on one node, and the node has them as of one moment.  So the repositories of the node become
 * desynchronized, and subscriptions that fetch repositories fetch these again.  A link is on the node of the link's target: the
 * rows of the repositories do not tell which links the node lacks, so an operator has to call rebuild_links().  No process fetches
 * labels: a row of atproto.gap says which part of the stream the node lacks.
 *
 * Order of locks.  A writer's transaction locks the table repo, then rows of repositories, then the writer's row of
 * node_written, then the writer's row of node_mark (node_mark.c).  find_behind() reads a number of node_mark by locking the row,
 * so find_behind() reads in a subtransaction and rolls the subtransaction back: without this, the process would wait for the table
 * repo and for rows of repositories while holding locks that come later in the order.  mark_repos() marks rows of repositories in
 * any order, so the table repo is locked against writers first.  Writers of labels do not lock the table repo, so write_numbers()
 * locks rows of node_written before rows of node_mark, as writers do.
 */
#include "postgres.h"

#include "access/xact.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "tables/base/job.h"
#include "tables/base/node_mark.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

/* The number of repositories for which one step of fetch_marked() requests jobs. */
#define SOME	"1000"

#define IS_THERE(hashes)	"multirange_contains_elem(" hashes "::int8multirange, @.did_hash(did)::int8)"

static AtpResult
query_in(const char *target, const char *sql, const AtpArg *args, int nargs)
{
	return atp_query(atp_expand_sql(sql, target), args, nargs);
}

/*
 * The number in the node's row of node_mark; 0: the node lacks the row.  An INSERT instead of a SELECT, because the INSERT waits
 * for a transaction that the node has prepared and not committed yet.
 */
static int64
number_there(const char *target, AtpTuple written, AtpArg *seq)
{
	AtpResult	mark = query_in(target, "INSERT INTO #.node_mark AS m (did, writer, number) VALUES ($1, $2, 0)"
								" ON CONFLICT (did, writer) DO UPDATE SET number = m.number RETURNING number, seq",
								ATP_ARGS(atp_get_arg(written, "did", atp_type("did")), atp_get_arg(written, "writer", TEXTOID)));

	*seq = atp_get_arg(atp_result_row(mark, 0), "seq", INT8OID);
	return atp_get_int8(atp_result_row(mark, 0), "number");
}

/* A writer whose last number a node lacks: the node lacks at least the rows of this transaction of the writer. */
typedef struct Behind
{
	int			node;
	const char *writer;
	AtpArg		after;			/* sequence number up to which the node has the writer's rows ... */
	AtpArg		seq;			/* ... and up to which the writer has written */
} Behind;

/* Write a gap if the writer's subscription is of a stream whose rows no fetch of repositories restores, such as labels. */
static void
write_gap(const char *target, const Behind *behind)
{
	AtpCaller	caller = atp_as_table_owner("gap");

	atp_run("INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason)"
			" SELECT s.name, s.endpoint, COALESCE($2, 0), $3 + 1, 'Citus node behind' FROM atproto.subscription s"
			" WHERE s.id::text = split_part($1, ' ', 1) AND s.target = $4::name AND NOT s.by_repo AND $3 > COALESCE($2, 0)",
			ATP_ARGS(atp_text_arg(behind->writer), behind->after, behind->seq, atp_text_arg(target)));
	atp_owner_end(caller);
}

/* A list of Behind, in memory cxt: the writers whose last number a node lacks. */
static List *
list_behind(const char *target, AtpResult all, MemoryContext cxt)
{
	List	   *behind = NIL;

	for (uint64 i = 0; i < all.n; i++)
	{
		AtpTuple	row = atp_result_row(all, i);
		AtpArg		seq;
		Behind	   *b;

		if (number_there(target, row, &seq) >= atp_get_int8(row, "number"))
			continue;
		MemoryContextSwitchTo(cxt);
		b = palloc(sizeof(Behind));
		*b = (Behind) {
			atp_get_int4(row, "node"), atp_get_text(row, "writer"), seq, atp_get_arg(row, "seq", INT8OID)
		};
		behind = lappend(behind, b);
	}
	return behind;
}

/* The list of list_behind(), whose INSERTs and locks are rolled back.  After an ERROR, too, the subtransaction has ended. */
static List *
find_behind(const char *target)
{
	AtpResult	all = query_in(target, "SELECT node, writer, did, number, seq FROM #.node_written ORDER BY node, writer", ATP_NO_ARGS);
	List	   *volatile behind = NIL;
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		behind = list_behind(target, all, cxt);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	RollbackAndReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	if (error != NULL)
		ReThrowError(error);
	return behind;
}

static AtpArg
nodes_of(const List *behind)
{
	Datum	   *nodes = palloc(sizeof(Datum) * list_length(behind));
	int			n = 0;
	ListCell   *lc;

	foreach(lc, behind)
		nodes[n++] = Int32GetDatum(((const Behind *) lfirst(lc))->node);
	return atp_array_arg(INT4OID, nodes, NULL, n);
}

/* link_source is a reference table: the copy on a node that has come back lacks later rows. */
static void
bring_sources(const char *target)
{
	AtpResult	all = query_in(target, "SELECT array_agg(id) AS ids, array_agg(collection) AS collections, array_agg(path) AS paths FROM #.link_source",
							   ATP_NO_ARGS);
	AtpTuple	row = atp_result_row(all, 0);
	AtpArg		ids = atp_get_arg(row, "ids", INT4ARRAYOID);

	if (!ids.isnull)
		(void) atp_run(atp_expand_sql("INSERT INTO #.link_source (id, collection, path) SELECT * FROM unnest($1, $2, $3) ON CONFLICT DO NOTHING", target),
					   ATP_ARGS(ids, atp_get_arg(row, "collections", get_array_type(atp_type("nsid"))), atp_get_arg(row, "paths", TEXTARRAYOID)));
	atp_result_free(all);
}

/* Request jobs for the marked repositories, SOME repositories in each step. */
static void
fetch_marked(const char *target, AtpArg hashes)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto marked repositories", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = CurrentMemoryContext;
	AtpArg		last = {(Datum) 0, atp_type("did"), true};
	AtpResult	found;

	while ((found = query_in(target, "SELECT did FROM #.repo WHERE active AND sync = 'desynchronized' AND " IS_THERE("$1")
							 " AND ($2 IS NULL OR did OPERATOR(@.>) $2) ORDER BY did LIMIT " SOME, ATP_ARGS(hashes, last))).n > 0)
	{
		struct varlena **dids = MemoryContextAlloc(cxt, sizeof(struct varlena *) * found.n);

		for (uint64 i = 0; i < found.n; i++)
			dids[i] = (struct varlena *) DatumGetPointer(atp_get_arg(atp_result_row(found, i), "did", atp_type("did")).value);
		atp_jobs_repair(target, dids, found.n, ATP_JOB_LISTED, "its node came back with older rows");
		last = atp_did_arg(PG_DETOAST_DATUM_COPY(PointerGetDatum(dids[found.n - 1])));
		atp_result_free(found);
		MemoryContextSwitchTo(old);
		MemoryContextReset(cxt);
		CHECK_FOR_INTERRUPTS();
	}
	MemoryContextDelete(cxt);
}

static uint64
mark_repos(const char *target, AtpArg nodes)
{
	AtpResult	found = query_in(target, "SELECT range_agg(r)::text AS hashes FROM #.node_written w, unnest(w.hashes) r WHERE w.node = ANY ($1)",
								 ATP_ARGS(nodes));
	AtpArg		hashes = atp_get_arg(atp_result_row(found, 0), "hashes", TEXTOID);
	uint64		n;

	if (hashes.isnull)
		return 0;
	n = atp_run(atp_expand_sql("UPDATE #.repo SET sync = 'desynchronized', updated_at = now() WHERE sync <> 'desynchronized' AND " IS_THERE("$1"), target),
				ATP_ARGS(hashes));
	fetch_marked(target, hashes);
	return n;
}

/* Write the coordinator's numbers to the nodes: from now on the nodes count as complete. */
static void
write_numbers(const char *target, AtpArg nodes)
{
	AtpResult	all = query_in(target, "SELECT did, writer, number, seq FROM #.node_written WHERE node = ANY ($1) ORDER BY node, writer FOR NO KEY UPDATE",
							   ATP_ARGS(nodes));

	for (uint64 i = 0; i < all.n; i++)
	{
		AtpTuple	row = atp_result_row(all, i);

		/* the node may lack the row */
		(void) atp_run(atp_expand_sql("INSERT INTO #.node_mark AS m (did, writer, number, seq) VALUES ($1, $2, $3, $4)"
									  " ON CONFLICT (did, writer) DO UPDATE SET number = excluded.number, seq = excluded.seq WHERE m.number < excluded.number", target),
					   ATP_ARGS(atp_get_arg(row, "did", atp_type("did")), atp_get_arg(row, "writer", TEXTOID),
								atp_get_arg(row, "number", INT8OID), atp_get_arg(row, "seq", INT8OID)));
	}
	atp_result_free(all);
	(void) atp_run(atp_expand_sql("UPDATE #.node_written SET behind_since = now() WHERE node = ANY ($1)", target), ATP_ARGS(nodes));
}

char *
atp_nodes_repair(const AtpSubscription *sub)
{
	int			nest;
	AtpArg		nodes;
	List	   *behind;
	ListCell   *lc;
	uint64		n;
	char	   *found;

	if (!atp_has_node_marks(sub->target))
		return NULL;
	nest = NewGUCNestLevel();
	/* bring_sources() writes a reference table after distributed tables: Citus allows this in one transaction only in sequential mode */
	(void) set_config_option("citus.multi_shard_modify_mode", "sequential", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	/* only one process repairs at a time: a second process waits here, and then finds the numbers that the first process has written */
	(void) atp_run(atp_expand_sql("LOCK TABLE #.node_written IN SHARE UPDATE EXCLUSIVE MODE", sub->target), ATP_NO_ARGS);
	behind = find_behind(sub->target);
	if (behind == NIL)
	{
		AtEOXact_GUC(true, nest);
		return NULL;
	}
	nodes = nodes_of(behind);
	(void) atp_run(atp_expand_sql("LOCK TABLE #.repo IN SHARE ROW EXCLUSIVE MODE", sub->target), ATP_NO_ARGS);
	n = mark_repos(sub->target, nodes);
	bring_sources(sub->target);
	write_numbers(sub->target, nodes);
	foreach(lc, behind)
		write_gap(sub->target, lfirst(lc));
	AtEOXact_GUC(true, nest);
	found = psprintf("a node of Citus has come back with rows that are older than what is known of them: " UINT64_FORMAT " repositories of schema \"%s\" are marked",
					 n, sub->target);
	ereport(LOG,
			(errmsg("atproto subscription \"%s\": %s", sub->name, found),
			 errdetail("Subscriptions that fetch repositories fetch these. Links of the node, and repositories that only the node knew, may be missing."),
			 errhint("SELECT * FROM atproto.rebuild_links(%s); and see \"Standbys and restores\" in doc/operate/citus.md.", quote_literal_cstr(sub->target))));
	return found;
}
