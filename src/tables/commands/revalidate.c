/*
 * revalidate.c
 *		SQL: CALL atproto.revalidate(): brings record.fault up to date after a change of a
 *		subscription's option validate, or of a Lexicon.
 *
 * The procedure reads the records in the order of their key, and writes only faults that differ, in
 * short transactions.  A consumer validates the records that it writes itself, so a record that a
 * consumer has locked, or has changed since it was read, is left to the consumer.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "common/clock.h"
#include "common/command_progress.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "core/syntax/recordkey.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "lexicon/judge.h"
#include "miscadmin.h"
#include "tables/apply/validate.h"
#include "tables/base/distributed.h"
#include "tables/base/table.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(atp_revalidate);

#define ROWS		2000		/* in a transaction */
#define NOTICE_MS	5000		/* between two progress notices */

#define KEYS	3				/* columns of the key: did, collection, rkey */

static const char *const key_columns[KEYS] = {"did", "collection", "rkey"};
static const char *const key_types[KEYS] = {"did", "nsid", "recordkey"};

typedef struct Revalidation
{
	const char *target;
	AtpArg		collection;
	MemoryContext cxt;			/* outlives transactions */
	MemoryContext row;			/* of one record: 2000 values can be gigabytes */
	List	   *subscriptions;	/* AtpSubscription, which fill the target */
	Datum		last[KEYS];		/* the key read last; 0: none */
	int64		validated;		/* records with a Lexicon check */
	int64		faulty;
	int64		changed;
	int64		left;			/* differences that were not written */
} Revalidation;

/* A piece: the rows whose fault differs. */
typedef struct Differences
{
	int			n;
	Datum		keys[KEYS][ROWS];
	Datum		cids[ROWS];
	Datum		faults[ROWS];
	bool		no_fault[ROWS];
} Differences;

static void
read_subscriptions(Revalidation *r)
{
	/* also subscriptions that the caller does not see: their consumers validate the records, too */
	AtpCaller	caller = atp_as_table_owner("subscription");
	List	   *names = atp_subscriptions_filling(r->target, "keep_records AND by_repo", "name");
	ListCell   *cell;

	foreach(cell, names)
	{
		AtpSubscription *sub = atp_subscription_get(lfirst(cell), r->cxt);

		if (sub != NULL)
		{
			MemoryContext old = MemoryContextSwitchTo(r->cxt);

			r->subscriptions = lappend(r->subscriptions, sub);
			MemoryContextSwitchTo(old);
		}
	}
	atp_owner_end(caller);
}

static bool
is_validated(const Revalidation *r, AtpSpan collection)
{
	ListCell   *cell;

	foreach(cell, r->subscriptions)
		if (atp_validate_how(&((const AtpSubscription *) lfirst(cell))->settings, collection) != ATP_VALIDATE_NONE)
			return true;
	return false;
}

/* The fault of a record; NULL: no fault, or the record is not checked. */
static char *
fault_of(Revalidation *r, const struct varlena *collection, const struct varlena *rkey, Jsonb *value)
{
	AtpSpan		name = {VARDATA_ANY(collection), VARSIZE_ANY_EXHDR(collection)};
	char		text[ATP_RKEY_MAX];
	size_t		len;
	char	   *why;

	if (value == NULL || !is_validated(r, name))
		return NULL;
	r->validated++;
	len = atp_rkey_text((const uint8_t *) VARDATA_ANY(rkey), VARSIZE_ANY_EXHDR(rkey), text);
	if (atp_lexicon_judge(atp_lexicons_known(), value, name, (AtpSpan) {text, len}, &why) != ATP_LEX_INVALID)
		return NULL;
	r->faulty++;
	return why;
}

/* Is the fault of a record different from the table's?  In the memory of this record. */
static bool
is_different(Revalidation *r, AtpTuple row, const Datum *key, char **fault)
{
	bool		isnull;
	Datum		value = atp_get(row, "value", JSONBOID, &isnull);
	char	   *old = atp_get_text_or_null(row, "fault");

	*fault = fault_of(r, (struct varlena *) PG_DETOAST_DATUM_PACKED(key[1]), (struct varlena *) PG_DETOAST_DATUM_PACKED(key[2]),
					  isnull ? NULL : DatumGetJsonbP(value));
	return *fault == NULL ? old != NULL : old == NULL || strcmp(*fault, old) != 0;
}

static void
judge_row(Revalidation *r, AtpTuple row, Differences *d)
{
	Datum		key[KEYS];
	bool		isnull,
				different;
	char	   *fault;
	MemoryContext old;

	for (int i = 0; i < KEYS; i++)
	{
		bool		no_key;

		key[i] = atp_get(row, key_columns[i], atp_type(key_types[i]), &no_key);
	}
	old = MemoryContextSwitchTo(r->row);
	different = is_different(r, row, key, &fault);
	MemoryContextSwitchTo(old);
	if (!different)
		return;
	for (int i = 0; i < KEYS; i++)
		d->keys[i][d->n] = key[i];
	d->cids[d->n] = atp_get(row, "cid", atp_type("cidlink"), &isnull);
	d->no_fault[d->n] = fault == NULL;
	d->faults[d->n] = fault == NULL ? (Datum) 0 : CStringGetTextDatum(fault);
	d->n++;
}

#define DIFFERENT	"unnest($1, $2, $3, $4, $5) u (did, collection, rkey, cid, fault)"
#define SAME(a, b) \
	a ".did OPERATOR(@.=) " b ".did AND " a ".collection OPERATOR(@.=) " b ".collection AND " a ".rkey OPERATOR(@.=) " b ".rkey"

/* Citus cannot SELECT ... FOR UPDATE across nodes. */
static void
write_differences(Revalidation *r, Differences *d)
{
	const char *sql = atp_is_distributed(atp_table_in(r->target, "record"))
	? "UPDATE #.record r SET fault = u.fault FROM " DIFFERENT " WHERE " SAME("r", "u") " AND r.cid OPERATOR(@.=) u.cid"
	: "WITH free AS (SELECT r.did, r.collection, r.rkey, u.fault FROM " DIFFERENT
	"  JOIN #.record r ON " SAME("r", "u") " AND r.cid OPERATOR(@.=) u.cid FOR NO KEY UPDATE OF r SKIP LOCKED)"
	" UPDATE #.record r SET fault = f.fault FROM free f WHERE " SAME("r", "f");
	uint64		changed;

	if (d->n == 0)
		return;
	changed = atp_run(atp_expand_sql(sql, r->target),
					  ATP_ARGS(atp_array_arg(atp_type("did"), d->keys[0], NULL, d->n), atp_array_arg(atp_type("nsid"), d->keys[1], NULL, d->n),
							   atp_array_arg(atp_type("recordkey"), d->keys[2], NULL, d->n), atp_array_arg(atp_type("cidlink"), d->cids, NULL, d->n),
							   atp_array_arg(TEXTOID, d->faults, d->no_fault, d->n)));
	r->changed += changed;
	r->left += d->n - changed;
}

#define AFTER	" AND (did, collection, rkey) OPERATOR(@.>) ($2, $3, $4)"
#define NEXT_ROWS(after) \
	"SELECT did, collection, rkey, cid, value, fault FROM #.record WHERE ($1 IS NULL OR collection OPERATOR(@.=) $1)" after \
	" ORDER BY did USING OPERATOR(@.<), collection USING OPERATOR(@.<), rkey USING OPERATOR(@.<) LIMIT " CppAsString2(ROWS)

static AtpResult
next_rows(Revalidation *r)
{
	AtpArg		args[1 + KEYS] = {r->collection};

	for (int i = 0; i < KEYS; i++)
		args[1 + i] = (AtpArg) {r->last[i], atp_type(key_types[i]), r->last[i] == (Datum) 0};
	return atp_query(atp_expand_sql(r->last[0] == (Datum) 0 ? NEXT_ROWS("") : NEXT_ROWS(AFTER), r->target), args, r->last[0] == (Datum) 0 ? 1 : 1 + KEYS);
}

/* The next piece of the table; returns the number of rows. */
static uint64
walk_on(Revalidation *r)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto faults", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	Differences *d = palloc(sizeof(Differences));
	AtpResult	rows = next_rows(r);
	uint64		n = rows.n;

	d->n = 0;
	r->row = AllocSetContextCreate(cxt, "atproto record", ALLOCSET_DEFAULT_SIZES);
	for (uint64 i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		judge_row(r, atp_result_row(rows, i), d);
		MemoryContextReset(r->row);
	}
	write_differences(r, d);
	if (n > 0)
	{
		MemoryContextSwitchTo(r->cxt);
		for (int i = 0; i < KEYS; i++)
		{
			bool		isnull;

			if (r->last[i] != (Datum) 0)
				pfree(DatumGetPointer(r->last[i]));
			r->last[i] = PointerGetDatum(PG_DETOAST_DATUM_COPY(atp_get(atp_result_row(rows, n - 1), key_columns[i], atp_type(key_types[i]), &isnull)));
		}
	}
	atp_result_free(rows);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	return n;
}

/* walk_on() as the owner of the table, in a transaction. */
static uint64
take_step(Revalidation *r, bool atomic)
{
	int			nest = atp_caller_begin();
	AtpCaller	caller = atp_owner_begin(atp_owner_of_table(r->target, "record"));
	uint64		n = walk_on(r);

	atp_owner_end(caller);
	atp_caller_end(nest);
	if (!atomic)
		SPI_commit();
	MemoryContextSwitchTo(r->cxt);
	return n;
}

/* SQL: CALL atproto.revalidate(target, collection) */
Datum
atp_revalidate(PG_FUNCTION_ARGS)
{
	bool		atomic = atp_call_is_atomic(fcinfo);
	Revalidation r = {0};
	AtpTime		told = atp_now();
	MemoryContext old;
	int64		read = 0;
	uint64		n;

	if (PG_ARGISNULL(0))
		atp_argument_is_null("target");
	SPI_connect_ext(atomic ? 0 : SPI_OPT_NONATOMIC);
	r.cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto revalidation", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(r.cxt);
	r.target = pstrdup(NameStr(*PG_GETARG_NAME(0)));
	r.collection = (AtpArg) {PG_ARGISNULL(1) ? (Datum) 0 : PointerGetDatum(PG_DETOAST_DATUM_COPY(PG_GETARG_DATUM(1))), atp_type("nsid"), PG_ARGISNULL(1)};
	(void) atp_owner_of_table(r.target, "record");
	read_subscriptions(&r);
	atp_progress_begin("revalidate", r.target);
	atp_progress_phase("validating records", r.collection.isnull ? atp_progress_rows_of(atp_table_in(r.target, "record")) : -1);
	while ((n = take_step(&r, atomic)) > 0)
	{
		read += n;
		atp_progress_to(read);
		if (atp_remaining(atp_now(), told, NOTICE_MS) > 0)
			continue;
		told = atp_now();
		ereport(NOTICE,
				(errmsg("validated so far: " INT64_FORMAT " records, " INT64_FORMAT " have a fault", r.validated, r.faulty)));
	}
	atp_progress_end();
	ereport(NOTICE,
			(errmsg(INT64_FORMAT " records were validated, " INT64_FORMAT " have a fault", r.validated, r.faulty),
			 errdetail(INT64_FORMAT " faults were changed.", r.changed),
			 r.left > 0 ? errhint(INT64_FORMAT " records were left, because others had locked or changed them. Call the procedure again.", r.left) : 0));
	MemoryContextSwitchTo(old);
	SPI_finish();
	PG_RETURN_VOID();
}
