/*
 * spi.c
 *		Runs SQL statements with parameters, and reads their rows.
 */
#include "postgres.h"

#include "access/tupconvert.h"
#include "common/clock.h"
#include "common/hashfn.h"
#include "common/compat.h"
#include "config/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "parser/parse_coerce.h"
#include "parser/parser.h"
#include "postmaster/bgworker.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

AtpArg
atp_text_arg(const char *value)
{
	return (AtpArg) {value == NULL ? (Datum) 0 : CStringGetTextDatum(value), TEXTOID, value == NULL};
}

AtpArg
atp_int4_arg(int32 value)
{
	return (AtpArg) {Int32GetDatum(value), INT4OID, false};
}

AtpArg
atp_int8_arg(int64 value)
{
	return (AtpArg) {Int64GetDatum(value), INT8OID, false};
}

AtpArg
atp_bool_arg(bool value)
{
	return (AtpArg) {BoolGetDatum(value), BOOLOID, false};
}

AtpArg
atp_time_arg(TimestampTz value)
{
	return (AtpArg) {TimestampTzGetDatum(value), TIMESTAMPTZOID, false};
}

AtpArg
atp_array_arg(Oid element, Datum *values, bool *nulls, int n)
{
	int16		len;
	bool		byval;
	char		align;
	int			lbound = 1;

	get_typlenbyvalalign(element, &len, &byval, &align);
	return (AtpArg) {
		PointerGetDatum(construct_md_array(values, nulls, 1, &n, &lbound, element, len, byval, align)),
		get_array_type(element), false
	};
}

/* ------------------------------------------------------------------------
 * Plans
 * ------------------------------------------------------------------------
 */

/*
 * Background workers run the same statements again and again, and parsing and planning take several times as
 * long as execution.  So they cache the plans of their latest statements as prepared statements do:
 * PostgreSQL replans when tables, functions, schemas or the search_path change, and checks privileges on
 * tables and functions at each execution.
 *
 * The privilege to use a schema is checked only when a statement is parsed, so a cached plan serves a single
 * role.  The sizes of tables count only at planning, so a plan is dropped after a second.
 */
#define PLANS_MAX	128
#define PLAN_MS		1000

typedef struct KeptPlan
{
	MemoryContext cxt;			/* NULL: the entry is unused */
	uint32		hash;			/* of the statement's text */
	const char *sql;
	Oid			role;
	int			nargs;
	const Oid  *types;
	SPIPlanPtr	plan;
	AtpTime		made;
	uint64		used;			/* number of the last statement that used this plan */
} KeptPlan;

static KeptPlan plans[PLANS_MAX];
static uint64 nstatements;
static bool running;			/* a cached plan is being executed */

static void
forget_plan(KeptPlan *p)
{
	MemoryContext cxt = p->cxt;

	/* mark the entry unused first, in case the following fails */
	p->cxt = NULL;
	if (p->plan != NULL)
		SPI_freeplan(p->plan);
	MemoryContextDelete(cxt);
}

static void
make_plan(KeptPlan *p, uint32 hash, const char *sql, const Oid *types, int nargs)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto plan", ALLOCSET_SMALL_SIZES);
	SPIPlanPtr	plan;

	*p = (KeptPlan) {
		.cxt = cxt, .hash = hash, .sql = MemoryContextStrdup(cxt, sql), .role = GetUserId(), .nargs = nargs,
		.types = memcpy(MemoryContextAlloc(cxt, sizeof(Oid) * Max(nargs, 1)), types, sizeof(Oid) * nargs), .made = atp_now()
	};
	plan = SPI_prepare(sql, nargs, unconstify(Oid *, types));
	if (plan == NULL || SPI_keepplan(plan) != 0)
		elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
	p->plan = plan;
}

/*
 * The cached plan of a statement, made if missing.  Entries that are too old, or whose planning failed, are
 * dropped.
 */
static SPIPlanPtr
plan_of(const char *sql, const Oid *types, int nargs)
{
	uint32		hash = hash_bytes((const unsigned char *) sql, strlen(sql));
	AtpTime		now = atp_now();
	KeptPlan   *oldest = &plans[0];

	for (int i = 0; i < PLANS_MAX; i++)
	{
		KeptPlan   *p = &plans[i];

		if (p->cxt != NULL && (p->plan == NULL || atp_remaining(now, p->made, PLAN_MS) == 0))
			forget_plan(p);
		if (p->cxt != NULL && p->hash == hash && p->role == GetUserId() && p->nargs == nargs &&
			memcmp(p->types, types, sizeof(Oid) * nargs) == 0 && strcmp(p->sql, sql) == 0)
		{
			p->used = ++nstatements;
			return p->plan;
		}
		if (oldest->cxt != NULL && (p->cxt == NULL || p->used < oldest->used))
			oldest = p;
	}
	if (oldest->cxt != NULL)
		forget_plan(oldest);
	make_plan(oldest, hash, sql, types, nargs);
	oldest->used = ++nstatements;
	return oldest->plan;
}

/* ------------------------------------------------------------------------
 * Running
 * ------------------------------------------------------------------------
 */

/*
 * Execute a statement with a new snapshot, so that it sees all rows written before.  A nested call, as from a
 * trigger's function, does not use the cache: otherwise it might drop the plan of the outer statement during
 * its execution.
 */
static int
execute_plan(const char *sql, Oid *types, Datum *values, const char *nulls, int nargs)
{
	int			rc;

	if (MyBgworkerEntry == NULL || running || nargs == 0)
		return SPI_execute_with_args(sql, nargs, types, values, nulls, false, 0);
	running = true;
	PG_TRY();
	{
		rc = SPI_execute_plan(plan_of(sql, types, nargs), values, nulls, false, 0);
	}
	PG_FINALLY();
	{
		running = false;
	}
	PG_END_TRY();
	return rc;
}

/* Parameters in the form for SPI. */
typedef struct Bound
{
	Oid		   *types;
	Datum	   *values;
	char	   *nulls;
} Bound;

static Bound
bind_args(const AtpArg *args, int nargs)
{
	Bound		b = {
		palloc(sizeof(Oid) * Max(nargs, 1)), palloc(sizeof(Datum) * Max(nargs, 1)), palloc(Max(nargs, 1))
	};

	for (int i = 0; i < nargs; i++)
	{
		b.types[i] = args[i].type;
		b.values[i] = args[i].value;
		b.nulls[i] = args[i].isnull ? 'n' : ' ';
	}
	return b;
}

AtpResult
atp_query(const char *sql, const AtpArg *args, int nargs)
{
	MemoryContext old = CurrentMemoryContext;
	Bound		b = bind_args(args, nargs);
	int			rc;

	rc = execute_plan(sql, b.types, b.values, b.nulls, nargs);
	/* SPI changes the current memory context */
	MemoryContextSwitchTo(old);
	if (rc < 0)
		elog(ERROR, "\"%s\" failed: %s", sql, SPI_result_code_string(rc));
	if (rc == SPI_OK_REWRITTEN)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rules make a statement into another one"),
				 errdetail_internal("\"%s\"", sql)));
	pfree(b.types);
	pfree(b.values);
	pfree(b.nulls);
	return (AtpResult) {SPI_processed, SPI_tuptable};
}

uint64
atp_run(const char *sql, const AtpArg *args, int nargs)
{
	AtpResult	result = atp_query(sql, args, nargs);

	atp_result_free(result);
	return result.n;
}

/* The context of an ERROR without the line that shows this statement; NULL: no other line. */
static char *
context_without(char *context, const char *sql)
{
	char	   *at = context == NULL ? NULL : strstr(context, sql);

	if (at == NULL)
		return context;
	while (at > context && at[-1] != '\n')
		at--;
	if (at == context)
		return NULL;
	at[-1] = '\0';
	return context;
}

uint64
atp_run_unnamed(const char *sql, const AtpArg *args, int nargs)
{
	MemoryContext old = CurrentMemoryContext;
	volatile uint64 n = 0;

	PG_TRY();
	{
		n = atp_run(sql, args, nargs);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(old);
		error = CopyErrorData();
		FlushErrorState();
		/* rethrow; the caller's context lines are added again on the way */
		error->context = context_without(error->context, sql);
		ThrowErrorData(error);
	}
	PG_END_TRY();
	return n;
}

void
atp_run_each(const char *sql)
{
	ListCell   *lc;

	foreach(lc, raw_parser(sql, RAW_PARSE_DEFAULT))
	{
		const RawStmt *command = lfirst_node(RawStmt, lc);
		const char *from = sql + Max(command->stmt_location, 0);

		(void) atp_run(pnstrdup(from, command->stmt_len > 0 ? command->stmt_len : strlen(from)), ATP_NO_ARGS);
	}
}

int
atp_planning_begin(void)
{
	int			nest;

	if (plan_cache_mode == PLAN_CACHE_MODE_AUTO)
		return 0;
	nest = NewGUCNestLevel();
	(void) set_config_option("plan_cache_mode", "auto", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return nest;
}

void
atp_planning_end(int nest)
{
	if (nest > 0)
		AtEOXact_GUC(false, nest);
}

/* ------------------------------------------------------------------------
 * Rows of functions
 * ------------------------------------------------------------------------
 */
#define RETURN_ROWS	1000		/* at a time */
#define SESSION_PLANS	16		/* statements; their plans are cached until the session ends */

typedef struct SessionPlan
{
	char	   *sql;
	int			nargs;
	Oid		   *types;
	SPIPlanPtr	plan;
} SessionPlan;

static SessionPlan session_plans[SESSION_PLANS];
static int	nsession_plans;

/* Cached plans are never freed, because an outer call may be executing the same plan. */
static SPIPlanPtr
session_plan(const char *sql, const Bound *b, int nargs)
{
	MemoryContext old;
	SPIPlanPtr	plan;

	for (int i = 0; i < nsession_plans; i++)
		if (session_plans[i].nargs == nargs && strcmp(session_plans[i].sql, sql) == 0 &&
			memcmp(session_plans[i].types, b->types, sizeof(Oid) * nargs) == 0)
			return session_plans[i].plan;
	plan = SPI_prepare(sql, nargs, b->types);
	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
	if (nsession_plans == SESSION_PLANS)
		return plan;
	old = MemoryContextSwitchTo(TopMemoryContext);
	session_plans[nsession_plans] = (SessionPlan) {
		pstrdup(sql), nargs, memcpy(palloc(sizeof(Oid) * Max(nargs, 1)), b->types, sizeof(Oid) * nargs), plan
	};
	MemoryContextSwitchTo(old);
	SPI_keepplan(plan);
	nsession_plans++;
	return plan;
}

AtpResult
atp_query_kept(const char *sql, const AtpArg *args, int nargs)
{
	MemoryContext old = CurrentMemoryContext;
	Bound		b = bind_args(args, nargs);
	int			nest = atp_planning_begin();
	int			rc = SPI_execute_plan(session_plan(sql, &b, nargs), b.values, b.nulls, true, 0);

	/* SPI changes the current memory context */
	MemoryContextSwitchTo(old);
	atp_planning_end(nest);
	if (rc != SPI_OK_SELECT)
		elog(ERROR, "\"%s\" failed: %s", sql, SPI_result_code_string(rc));
	return (AtpResult) {SPI_processed, SPI_tuptable};
}

void
atp_return_query(FunctionCallInfo fcinfo, const char *sql, const AtpArg *args, int nargs, bool keep_plan)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Bound		b = bind_args(args, nargs);
	int			nest = atp_planning_begin();
	Portal		portal;

	/* the expected descriptor covers functions that return rows and functions that return values */
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	SPI_connect();
	if (keep_plan)
		portal = SPI_cursor_open(NULL, session_plan(sql, &b, nargs), b.values, b.nulls, true);
	else
		portal = SPI_cursor_open_with_args(NULL, sql, nargs, b.types, b.values, b.nulls, true, 0);
	atp_planning_end(nest);
	/* a table's owner may have changed its column types, so check the types */
	(void) convert_tuples_by_position(portal->tupDesc, result->setDesc,
									  gettext_noop("the columns of a table are not of the types that they should have"));
	for (SPI_cursor_fetch(portal, true, RETURN_ROWS); SPI_processed > 0; SPI_cursor_fetch(portal, true, RETURN_ROWS))
	{
		for (uint64 i = 0; i < SPI_processed; i++)
			tuplestore_puttuple(result->setResult, SPI_tuptable->vals[i]);
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_cursor_close(portal);
	SPI_finish();
}

AtpTuple
atp_result_row(AtpResult result, uint64 i)
{
	Assert(i < result.n);
	return (AtpTuple) {result.table->vals[i], result.table->tupdesc};
}

void
atp_result_free(AtpResult result)
{
	SPI_freetuptable(result.table);
}

/* ------------------------------------------------------------------------
 * Reading
 * ------------------------------------------------------------------------
 */

int
atp_column(AtpTuple row, const char *column)
{
	int			number = SPI_fnumber(row.desc, column);

	if (number <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN), errmsg("column \"%s\" does not exist", column)));
	return number;
}

Oid
atp_column_type(AtpTuple row, const char *column)
{
	return SPI_gettypeid(row.desc, atp_column(row, column));
}

Datum
atp_get(AtpTuple row, const char *column, Oid type, bool *isnull)
{
	int			number = atp_column(row, column);
	Oid			given = SPI_gettypeid(row.desc, number);

	if (!IsBinaryCoercible(given, type))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" is of type %s, not %s",
						column, format_type_be(given), format_type_be(type))));
	return SPI_getbinval(row.tuple, row.desc, number, isnull);
}

pg_noreturn static void
unexpected_null(const char *column)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("column \"%s\" is null", column)));
}

static Datum
get_value(AtpTuple row, const char *column, Oid type)
{
	bool		isnull;
	Datum		value = atp_get(row, column, type, &isnull);

	if (isnull)
		unexpected_null(column);
	return value;
}

struct varlena *
atp_get_copy(AtpTuple row, const char *column, Oid type)
{
	return PG_DETOAST_DATUM_COPY(get_value(row, column, type));
}

bool
atp_get_bool(AtpTuple row, const char *column)
{
	return DatumGetBool(get_value(row, column, BOOLOID));
}

bool
atp_is_true(AtpTuple row, const char *column)
{
	bool		isnull;
	Datum		value = atp_get(row, column, BOOLOID, &isnull);

	return !isnull && DatumGetBool(value);
}

int32
atp_get_int4(AtpTuple row, const char *column)
{
	return DatumGetInt32(get_value(row, column, INT4OID));
}

int64
atp_get_int8(AtpTuple row, const char *column)
{
	return DatumGetInt64(get_value(row, column, INT8OID));
}

char *
atp_get_text_or_null(AtpTuple row, const char *column)
{
	return SPI_getvalue(row.tuple, row.desc, atp_column(row, column));
}

char *
atp_get_text(AtpTuple row, const char *column)
{
	char	   *text = atp_get_text_or_null(row, column);

	if (text == NULL)
		unexpected_null(column);
	return text;
}

int
atp_get_array(AtpTuple row, const char *column, Oid element, Datum **values, bool **nulls)
{
	bool		isnull;
	Datum		d = atp_get(row, column, get_array_type(element), &isnull);
	int16		len;
	bool		byval;
	char		align;
	int			n;

	if (isnull)
		return -1;
	get_typlenbyvalalign(element, &len, &byval, &align);
	deconstruct_array(DatumGetArrayTypePCopy(d), element, len, byval, align, values, nulls, &n);
	return n;
}

AtpArg
atp_get_arg(AtpTuple row, const char *column, Oid type)
{
	AtpArg		arg = {.type = type};

	arg.value = atp_get(row, column, type, &arg.isnull);
	return arg;
}

bool
atp_call_is_atomic(FunctionCallInfo fcinfo)
{
	return fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) || ((CallContext *) fcinfo->context)->atomic;
}
