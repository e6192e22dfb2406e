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
#include "changes/untold.h"
#include "common/command_progress.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "config/target.h"
#include "core/syntax/recordkey.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "lexicon/judge.h"
#include "miscadmin.h"
#include "tables/apply/validate.h"
#include "tables/base/distributed.h"
#include "tables/base/table.h"
#include "tables/commands/update_effects.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(atp_revalidate);

#define ROWS		2000		/* in a transaction */
#define FETCH		100			/* rows in memory at a time: a value of a megabyte comes whole from a node of Citus */
#define NOTICE_MS	5000		/* between two progress notices */

#define KEYS	3				/* columns of the key: did, collection, rkey */

static const char *const key_columns[KEYS] = {"did", "collection", "rkey"};
static const char *const key_types[KEYS] = {"did", "nsid", "recordkey"};

typedef struct Revalidation
{
	const char *target;
	AtpArg		collection;
	MemoryContext cxt;			/* outlives transactions */
	MemoryContext row;			/* of one record: values can be megabytes */
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
	AtpSpan		name = atp_nsid_span(collection);
	char		text[ATP_RKEY_MAX];
	size_t		len;
	char	   *why;

	if (value == NULL || !is_validated(r, name))
		return NULL;
	r->validated++;
	len = atp_rkey_copy(rkey, text);
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

/* The key of a row, copied into the current memory. */
static void
copy_key(AtpTuple row, Datum *key)
{
	for (int i = 0; i < KEYS; i++)
		key[i] = PointerGetDatum(atp_get_copy(row, key_columns[i], atp_type(key_types[i])));
}

static void
judge_row(Revalidation *r, AtpTuple row, Differences *d)
{
	Datum		key[KEYS];
	bool		different;
	char	   *fault;
	MemoryContext old = MemoryContextSwitchTo(r->row);

	copy_key(row, key);
	different = is_different(r, row, key, &fault);
	MemoryContextSwitchTo(old);
	if (!different)
		return;
	copy_key(row, key);
	for (int i = 0; i < KEYS; i++)
		d->keys[i][d->n] = key[i];
	d->cids[d->n] = PointerGetDatum(atp_get_copy(row, "cid", atp_type("cidlink")));
	d->no_fault[d->n] = fault == NULL;
	d->faults[d->n] = fault == NULL ? (Datum) 0 : CStringGetTextDatum(fault);
	d->n++;
}

#define DIFFERENT	"unnest($1, $2, $3, $4, $5) u (did, collection, rkey, cid, fault)"
#define SAME(a, b) \
	a ".did OPERATOR(@.=) " b ".did AND " a ".collection OPERATOR(@.=) " b ".collection AND " a ".rkey OPERATOR(@.=) " b ".rkey"

/* Arguments and result of write_faults(). */
typedef struct Writing
{
	Revalidation *r;
	Differences *d;
	uint64		changed;
} Writing;

/* Citus cannot SELECT ... FOR UPDATE across nodes. */
static void
write_faults(void *arg)
{
	Writing    *w = arg;
	Differences *d = w->d;
	const char *target = w->r->target;
	const char *sql = atp_is_distributed(atp_table_in(target, "record"))
	? "UPDATE #.record r SET fault = u.fault FROM " DIFFERENT " WHERE " SAME("r", "u") " AND r.cid OPERATOR(@.=) u.cid"
	: "WITH free AS (SELECT r.did, r.collection, r.rkey, u.fault FROM " DIFFERENT
	"  JOIN #.record r ON " SAME("r", "u") " AND r.cid OPERATOR(@.=) u.cid FOR NO KEY UPDATE OF r SKIP LOCKED)"
	" UPDATE #.record r SET fault = f.fault FROM free f WHERE " SAME("r", "f");

	w->changed = atp_run(atp_expand_sql(sql, target),
						 ATP_ARGS(atp_array_arg(atp_type("did"), d->keys[0], NULL, d->n), atp_array_arg(atp_type("nsid"), d->keys[1], NULL, d->n),
								  atp_array_arg(atp_type("recordkey"), d->keys[2], NULL, d->n), atp_array_arg(atp_type("cidlink"), d->cids, NULL, d->n),
								  atp_array_arg(TEXTOID, d->faults, d->no_fault, d->n)));
}

/*
 * An update of the column fault changes no record, so readers of logical replication slots are not told of the update
 * (changes/untold.h), unless this would also hide effects of the update from the readers (update_effects.h).
 */
static void
write_differences(Revalidation *r, Differences *d)
{
	Writing		w = {r, d};

	if (d->n == 0)
		return;
	if (atp_update_has_effects(atp_table_in(r->target, "record")))
		write_faults(&w);
	else
		atp_write_untold(write_faults, &w);
	r->changed += w.changed;
	r->left += d->n - w.changed;
	d->n = 0;
}

#define KEY			"(did, collection, rkey)"
#define VALUE		"value::pg_catalog.jsonb"
/* A damaged value is judged as one that jsonb cannot hold: an error would keep the records behind from being judged. */
#define INTACT		"CASE WHEN @.dagcbor_is_intact(value) THEN " VALUE " END"
#define OF_COLLECTION	" FROM #.record WHERE ($1 IS NULL OR collection OPERATOR(@.=) $1)"
#define NEXT_KEYS(after) \
	"SELECT did, collection, rkey" OF_COLLECTION after \
	" ORDER BY did USING OPERATOR(@.<), collection USING OPERATOR(@.<), rkey USING OPERATOR(@.<) LIMIT " CppAsString2(ROWS)
#define AFTER		" AND " KEY " OPERATOR(@.>) ($2, $3, $4)"
#define RANGE(value) \
	"SELECT did, collection, rkey, cid, " value " AS value, fault" OF_COLLECTION \
	" AND " KEY " OPERATOR(@.>=) ($2, $3, $4) AND " KEY " OPERATOR(@.<=) ($5, $6, $7)"

static AtpArg
key_arg(Datum value, int i)
{
	return (AtpArg) {value, atp_type(key_types[i]), false};
}

static AtpResult
next_keys(Revalidation *r)
{
	AtpArg		args[1 + KEYS] = {r->collection};

	if (r->last[0] == (Datum) 0)
		return atp_query(atp_expand_sql(NEXT_KEYS(""), r->target), args, 1);
	for (int i = 0; i < KEYS; i++)
		args[1 + i] = key_arg(r->last[i], i);
	return atp_query(atp_expand_sql(NEXT_KEYS(AFTER), r->target), args, lengthof(args));
}

/* A cursor for the rows from a key to another. */
static Portal
open_range(Revalidation *r, const Datum *first, const Datum *last)
{
	Oid			types[1 + 2 * KEYS] = {r->collection.type};
	Datum		values[1 + 2 * KEYS] = {r->collection.value};
	char		nulls[] = {r->collection.isnull ? 'n' : ' ', ' ', ' ', ' ', ' ', ' ', ' '};

	for (int i = 0; i < KEYS; i++)
	{
		types[1 + i] = types[1 + KEYS + i] = atp_type(key_types[i]);
		values[1 + i] = first[i];
		values[1 + KEYS + i] = last[i];
	}
	return SPI_cursor_open_with_args(NULL, atp_expand_sql(atp_target_packs(r->target) ? RANGE(INTACT) : RANGE(VALUE), r->target), lengthof(types), types, values, nulls, false, 0);
}

/* Rows that were added to the range since its keys were read make more than ROWS. */
static void
judge_range(Revalidation *r, Portal portal, Differences *d)
{
	MemoryContext cxt = CurrentMemoryContext;
	AtpResult	rows;

	do
	{
		SPI_cursor_fetch(portal, true, FETCH);
		/* SPI has changed the current memory context */
		MemoryContextSwitchTo(cxt);
		rows = (AtpResult) {SPI_processed, SPI_tuptable};
		for (uint64 i = 0; i < rows.n; i++)
		{
			CHECK_FOR_INTERRUPTS();
			if (d->n == ROWS)
				write_differences(r, d);
			judge_row(r, atp_result_row(rows, i), d);
			MemoryContextReset(r->row);
		}
		atp_result_free(rows);
	} while (rows.n > 0);
}

/*
 * The next piece of the table; returns the number of rows.  The keys come first: Citus sends LIMIT to each shard,
 * and would fetch 2000 whole values from each.
 */
static uint64
walk_on(Revalidation *r)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto faults", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	AtpResult	keys = next_keys(r);
	uint64		n = keys.n;

	if (n > 0)
	{
		Differences *d = palloc(sizeof(Differences));
		Datum		first[KEYS];
		Portal		portal;

		d->n = 0;
		copy_key(atp_result_row(keys, 0), first);
		MemoryContextSwitchTo(r->cxt);
		for (int i = 0; i < KEYS && r->last[i] != (Datum) 0; i++)
			pfree(DatumGetPointer(r->last[i]));
		copy_key(atp_result_row(keys, n - 1), r->last);
		MemoryContextSwitchTo(cxt);
		r->row = AllocSetContextCreate(cxt, "atproto record", ALLOCSET_DEFAULT_SIZES);
		portal = open_range(r, first, r->last);
		judge_range(r, portal, d);
		SPI_cursor_close(portal);
		write_differences(r, d);
	}
	atp_result_free(keys);
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
