/*
 * audit.c
 *		SQL: atproto.audit() and atproto.audit_all(): are the records in the tables
 *		those that the account has signed? (V-45, V-46)
 *
 * The tree over all rows of a repository is built and its root compared with that
 * of the last commit.  Only what is read in one snapshot is compared; nothing is
 * taken from the network.  The caller's rights on the tables are what counts.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "core/cid.h"
#include "core/mst_root.h"
#include "data/jsonb_read.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "sha256.h"
#include "tables/table.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(atp_audit);
PG_FUNCTION_INFO_V1(atp_audit_all);

#define FETCH	1000			/* rows at a time */
#define STEP	100				/* repositories in a transaction of audit_all(), at most ... */
#define STEP_RECORDS	10000	/* ... and records, unless one has more */

/* What was found; the values live as long as the memory that the audit was made in. */
typedef struct Audit
{
	bool		judged;
	bool		equal;			/* judged, and so it is */
	const char *reason;			/* NULL: equal */
	int64		records;
	struct varlena *root;		/* NULL: no tree was built */
	struct varlena *data;
	bool		has_rev;
	uint64		rev;
	char	   *sync;			/* NULL: no such repository, or null */
} Audit;

/* The repository, as its row has it. */
typedef struct Repo
{
	AtpArg		did;
	AtpArg		purge_rev;		/* records up to here are about to go */
	bool		deleted;		/* and since then nothing came */
} Repo;

/* Rows in the snapshot that is active; like atp_query(), which takes a new one. */
static AtpResult
look(const char *sql, AtpArg arg)
{
	MemoryContext old = CurrentMemoryContext;
	char		null = arg.isnull ? 'n' : ' ';
	int			rc = SPI_execute_with_args(sql, 1, &arg.type, &arg.value, &null, true, 0);

	/* SPI leaves its own behind */
	MemoryContextSwitchTo(old);
	if (rc != SPI_OK_SELECT)
		elog(ERROR, "\"%s\" failed: %s", sql, SPI_result_code_string(rc));
	return (AtpResult) {SPI_processed, SPI_tuptable};
}

/*
 * Does a subscription leave out some of the records of its repositories?  Whoever
 * asks: he need not see the subscription.
 */
static bool
is_filtered(const char *target)
{
	HeapTuple	rel = SearchSysCache1(RELOID, ObjectIdGetDatum(atp_relation("subscription")));
	AtpCaller	caller;
	AtpResult	found;

	if (!HeapTupleIsValid(rel))
		elog(ERROR, "table \"atproto.subscription\" has vanished");
	caller = atp_owner_begin(((Form_pg_class) GETSTRUCT(rel))->relowner);
	ReleaseSysCache(rel);
	found = look("SELECT FROM atproto.subscription WHERE target = $1::name"
				 " AND endpoint LIKE '%/xrpc/com.atproto.sync.subscribeRepos'"
				 " AND (collections IS NOT NULL OR actions IS NOT NULL OR NOT keep_records) LIMIT 1",
				 atp_text_arg(target));
	atp_owner_end(caller);
	atp_result_free(found);
	return found.n > 0;
}

static struct varlena *
copy_of(AtpTuple row, const char *column, Oid type)
{
	bool		isnull;
	Datum		value = atp_get(row, column, type, &isnull);

	return isnull ? NULL : PG_DETOAST_DATUM_COPY(value);
}

/* False: there is no such repository. */
static bool
read_repo(const char *target, Repo *repo, Audit *audit)
{
	AtpResult	found = look(atp_expand_sql("SELECT rev, data, sync, purge_rev,"
											" COALESCE(deleted_rev OPERATOR(@.=) rev, false) AS deleted"
											" FROM #.repo WHERE did OPERATOR(@.=) $1", target), repo->did);
	AtpTuple	row;
	bool		isnull;

	if (found.n == 0)
		return false;
	row = atp_result_row(found, 0);
	audit->rev = DatumGetAtpTid(atp_get(row, "rev", atp_type("tid"), &isnull));
	audit->has_rev = !isnull;
	audit->data = copy_of(row, "data", atp_type("cidlink"));
	audit->sync = atp_get_text_or_null(row, "sync");
	repo->deleted = atp_get_bool(row, "deleted");
	repo->purge_rev = atp_get_arg(row, "purge_rev", atp_type("tid"));
	atp_result_free(found);
	return true;
}

/* V-46: do the bytes of a record have this CID? */
static bool
is_of(const bytea *bytes, const struct varlena *cid)
{
	uint8_t		binary[ATP_CID_BLESSED_LEN] = {1, ATP_CID_CODEC_DAG_CBOR, ATP_CID_SHA2_256, 32};

	atp_sha256(NULL, (const uint8_t *) VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes), binary + 4);
	return VARSIZE_ANY_EXHDR(cid) == sizeof(binary) && memcmp(VARDATA_ANY(cid), binary, sizeof(binary)) == 0;
}

static bool
value_fits(AtpTuple row, const struct varlena *cid)
{
	bool		no_value;
	bool		no_raw;
	Datum		value = atp_get(row, "value", JSONBOID, &no_value);
	Datum		raw = atp_get(row, "raw", BYTEAOID, &no_raw);
	bytea	   *bytes;

	if (!no_raw && !is_of(DatumGetByteaPP(raw), cid))
		return false;
	if (no_value)
		return !no_raw;
	return atp_dagcbor_of_jsonb(DatumGetJsonbP(value), &bytes) == ATP_OK && is_of(bytes, cid);
}

/* One row into the tree.  False: it is not what the account has signed, whatever the tree is. */
static bool
add_row(AtpMstBuilder *tree, AtpTuple row, bool deep)
{
	bool		no_path;
	bool		no_cid;
	Datum		path = atp_get(row, "path", TEXTOID, &no_path);
	Datum		cid = atp_get(row, "cid", atp_type("cidlink"), &no_cid);
	text	   *key;
	struct varlena *value;
	AtpBytes	k;

	/* a user may have dropped the constraints */
	if (no_path || no_cid)
		return false;
	key = DatumGetTextPP(path);
	value = PG_DETOAST_DATUM_PACKED(cid);
	if (deep && !value_fits(row, value))
		return false;
	k = (AtpBytes) {(const uint8_t *) VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key)};
	if (tree->room - tree->len < ATP_MST_ROOT_SPARE)
	{
		tree->room *= 2;
		tree->buf = repalloc_huge(tree->buf, tree->room);
	}
	atp_mst_root_leaf(tree, k, (AtpBytes) {(const uint8_t *) VARDATA_ANY(value), VARSIZE_ANY_EXHDR(value)},
					  atp_mst_height(k.ptr, k.len, atp_sha256, NULL));
	return tree->err == ATP_OK;
}

/* All rows of the repository, in the order of their paths.  False: one of them is wrong. */
static bool
add_rows(AtpMstBuilder *tree, const char *target, const Repo *repo, bool deep, int64 *records)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto audit", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = CurrentMemoryContext;
	/* the columns are ordered otherwise, where one collection's name begins with another's */
	char	   *sql = psprintf("SELECT r.path, r.cid%s FROM (SELECT collection::pg_catalog.text OPERATOR(pg_catalog.||) '/'"
							   " OPERATOR(pg_catalog.||) rkey::pg_catalog.text AS path, * FROM #.record) r"
							   " WHERE r.did OPERATOR(@.=) $1 AND ($2 IS NULL OR r.rev OPERATOR(@.>) $2)"
							   " ORDER BY r.path COLLATE pg_catalog.\"C\"", deep ? ", r.value, r.raw" : "");
	Oid			types[] = {repo->did.type, repo->purge_rev.type};
	Datum		values[] = {repo->did.value, repo->purge_rev.value};
	char		nulls[] = {' ', repo->purge_rev.isnull ? 'n' : ' '};
	Portal		portal = SPI_cursor_open_with_args(NULL, atp_expand_sql(sql, target), 2, types, values, nulls, true, 0);
	bool		fit = true;

	do
	{
		SPI_cursor_fetch(portal, true, FETCH);
		MemoryContextSwitchTo(cxt);
		for (uint64 i = 0; i < SPI_processed; i++)
			fit = add_row(tree, (AtpTuple) {SPI_tuptable->vals[i], SPI_tuptable->tupdesc}, deep) && fit;
		MemoryContextReset(cxt);
		*records += SPI_processed;
		SPI_freetuptable(SPI_tuptable);
	} while (SPI_processed > 0);
	SPI_cursor_close(portal);
	/* not what SPI leaves behind */
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return fit;
}

/* Built only where it can be compared. */
static void
compare(const char *target, const Repo *repo, bool deep, Audit *audit)
{
	AtpMstBuilder *tree = palloc(sizeof(AtpMstBuilder));
	uint8_t		root[ATP_CID_BLESSED_LEN];
	bool		fit;

	atp_mst_root_begin(tree, palloc(4 * ATP_MST_ROOT_SPARE), 4 * ATP_MST_ROOT_SPARE, atp_sha256, NULL);
	fit = add_rows(tree, target, repo, deep, &audit->records);
	audit->judged = true;
	if (atp_mst_root_end(tree, root) == ATP_OK)
		audit->root = atp_cidlink_make(root, sizeof(root));
	audit->equal = fit && audit->root != NULL && VARSIZE_ANY_EXHDR(audit->data) == sizeof(root) &&
		memcmp(VARDATA_ANY(audit->data), root, sizeof(root)) == 0;
	audit->reason = audit->equal ? NULL : fit ? "other records" : "invalid rows";
	pfree(tree->buf);
	pfree(tree);
}

/* With SPI connected, and a snapshot active. */
static Audit
judge(const char *target, AtpArg did, bool deep)
{
	Audit		audit = {.reason = NULL};
	Repo		repo = {.did = did};

	if (!read_repo(target, &repo, &audit) || audit.data == NULL)
		audit.reason = "unknown";
	else if (repo.deleted)
		audit.reason = "deleted";
	else if (is_filtered(target))
		audit.reason = "filtered";
	else
		compare(target, &repo, deep, &audit);
	return audit;
}

/* SQL: atproto.audit(did, target, deep) */
Datum
atp_audit(PG_FUNCTION_ARGS)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	TupleDesc	desc;
	Audit		audit;
	Datum		values[6] = {0};
	bool		nulls[6] = {0};
	HeapTuple	tuple;
	MemoryContext old;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(desc);
	SPI_connect();
	audit = judge(NameStr(*PG_GETARG_NAME(1)), ATP_FUNCTION_ARG(0, atp_type("did")), PG_GETARG_BOOL(2));
	old = MemoryContextSwitchTo(caller_cxt);
	values[0] = BoolGetDatum(audit.equal);
	nulls[0] = !audit.judged;
	nulls[1] = audit.reason == NULL;
	values[1] = nulls[1] ? (Datum) 0 : CStringGetTextDatum(audit.reason);
	values[2] = Int64GetDatum(audit.records);
	nulls[2] = !audit.judged;
	values[3] = PointerGetDatum(audit.root);
	nulls[3] = audit.root == NULL;
	values[4] = PointerGetDatum(audit.data);
	nulls[4] = audit.data == NULL;
	values[5] = AtpTidGetDatum(audit.rev);
	nulls[5] = !audit.has_rev;
	tuple = heap_form_tuple(desc, values, nulls);
	MemoryContextSwitchTo(old);
	SPI_finish();
	return HeapTupleGetDatum(tuple);
}

/* ------------------------------------------------------------------------
 * All of them
 * ------------------------------------------------------------------------
 */
typedef struct Walk
{
	const char *target;
	bool		atomic;			/* in a transaction of the caller's, which is not ended */
	int			nest;			/* of settings: names mean the same whatever the search_path is */
	MemoryContext cxt;			/* for what outlives a transaction */
	int64		records;		/* in this transaction */
	int64		repos;
	int64		synchronized;
	int64		desynchronized;
} Walk;

static void
begin_step(Walk *walk)
{
	walk->nest = NewGUCNestLevel();
	(void) set_config_option("search_path", "", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	walk->records = 0;
}

static void
end_step(Walk *walk)
{
	AtEOXact_GUC(false, walk->nest);
	if (!walk->atomic)
		SPI_commit();
}

/* False: the repository has moved since it was read. */
static bool
settle(const Walk *walk, AtpArg did, const Audit *audit)
{
	const char *sync = audit->equal ? "synchronized" : "desynchronized";
	AtpArg		rev = {AtpTidGetDatum(audit->rev), atp_type("tid"), !audit->has_rev};
	AtpArg		data = {PointerGetDatum(audit->data), atp_type("cidlink"), false};

	if (audit->sync != NULL && strcmp(audit->sync, sync) == 0)
		return true;
	return atp_run(atp_expand_sql("UPDATE #.repo SET sync = $2, updated_at = now() WHERE did OPERATOR(@.=) $1"
								  " AND rev OPERATOR(@.=) $3 AND data OPERATOR(@.=) $4", walk->target),
				   ATP_ARGS(did, atp_text_arg(sync), rev, data)) > 0;
}

/* What is found is written down; a second time with the repository locked, for one that is never at rest. */
static void
audit_one(Walk *walk, AtpArg did)
{
	bool		settled = false;

	for (int i = 0; i < 2 && !settled; i++)
	{
		Audit		audit;

		if (i > 0)
			atp_run(atp_expand_sql("SELECT FROM #.repo WHERE did OPERATOR(@.=) $1 FOR NO KEY UPDATE", walk->target),
					ATP_ARGS(did));
		PushActiveSnapshot(GetTransactionSnapshot());
		audit = judge(walk->target, did, false);
		PopActiveSnapshot();
		settled = !audit.judged || settle(walk, did, &audit);
		walk->records += audit.records;
		if (settled && audit.judged)
			*(audit.equal ? &walk->synchronized : &walk->desynchronized) += 1;
	}
	walk->repos++;
}

/* The next repositories in the order of their DIDs, in memory that lasts. */
static int
next_dids(const Walk *walk, AtpArg last, AtpArg *dids)
{
	AtpResult	found = atp_query(atp_expand_sql(psprintf("SELECT did FROM #.repo WHERE $1 IS NULL OR did OPERATOR(@.>) $1"
														  " ORDER BY did USING OPERATOR(@.<) LIMIT %d", STEP), walk->target),
								  ATP_ARGS(last));
	MemoryContext old = MemoryContextSwitchTo(walk->cxt);
	int			n = found.n;

	for (int i = 0; i < n; i++)
		dids[i] = (AtpArg) {PointerGetDatum(copy_of(atp_result_row(found, i), "did", atp_type("did"))), atp_type("did"), false};
	MemoryContextSwitchTo(old);
	atp_result_free(found);
	return n;
}

/* Repositories after the last one, and that is the last one of them; false: there are none. */
static bool
walk_on(Walk *walk, AtpArg *last)
{
	AtpArg		dids[STEP];
	int			n;

	begin_step(walk);
	n = next_dids(walk, *last, dids);
	for (int i = 0; i < n; i++)
	{
		MemoryContext cxt = AllocSetContextCreate(walk->cxt, "atproto audit of a repository", ALLOCSET_DEFAULT_SIZES);
		MemoryContext old;

		CHECK_FOR_INTERRUPTS();
		if (walk->records >= STEP_RECORDS)
		{
			end_step(walk);
			begin_step(walk);
		}
		old = MemoryContextSwitchTo(cxt);
		audit_one(walk, dids[i]);
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
		*last = dids[i];
	}
	end_step(walk);
	if (n > 0 && walk->repos % (100 * STEP) == 0)
		ereport(NOTICE, (errmsg(INT64_FORMAT " repositories were audited", walk->repos)));
	return n > 0;
}

/* SQL: CALL atproto.audit_all(target) */
Datum
atp_audit_all(PG_FUNCTION_ARGS)
{
	CallContext *context = fcinfo->context != NULL && IsA(fcinfo->context, CallContext) ? (CallContext *) fcinfo->context : NULL;
	Walk		walk = {.atomic = context == NULL || context->atomic};
	AtpArg		last;

	SPI_connect_ext(walk.atomic ? 0 : SPI_OPT_NONATOMIC);
	walk.cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto audits", ALLOCSET_DEFAULT_SIZES);
	walk.target = MemoryContextStrdup(walk.cxt, NameStr(*PG_GETARG_NAME(0)));
	last = (AtpArg) {(Datum) 0, atp_type("did"), true};
	while (walk_on(&walk, &last))
		;
	ereport(NOTICE,
			(errmsg(INT64_FORMAT " repositories were audited", walk.repos),
			 errdetail(INT64_FORMAT " are synchronized, " INT64_FORMAT " desynchronized; " INT64_FORMAT " cannot be judged.",
					   walk.synchronized, walk.desynchronized,
					   walk.repos - walk.synchronized - walk.desynchronized)));
	SPI_finish();
	PG_RETURN_VOID();
}
