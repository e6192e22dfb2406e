/*
 * partition_make.c
 *		Finds missing partitions, and makes them with their rows of the default partition.
 *
 * Partitions are recognized by name (table_2026_01, table_rest), so partitions made by hand are
 * recognized, too.
 */
#include "postgres.h"

#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "common/cryptohash.h"
#include "common/md5.h"
#include "common/command_progress.h"
#include "config/spi.h"
#include "tables/commands/partition_move.h"
#include "tables/commands/partition_private.h"
#include "tables/commands/partition_swap.h"
#include "tables/base/table.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

const AtpCut atp_cut_record_collection = {"record", "LIST (collection)", "collection", false, NULL, "@.nsid"};
const AtpCut atp_cut_record_month = {
	"record", "RANGE (rkey)", "rkey", true, "r.rkey::text COLLATE \"C\"", "@.recordkey", "@.tid_floor(m AT TIME ZONE 'UTC')::text"
};
const AtpCut atp_cut_event_month = {
	"record_event", "RANGE (received_at)", "received_at", true, "r.received_at", "timestamptz", "(m AT TIME ZONE 'UTC')"
};

/* ------------------------------------------------------------------------
 * Missing partitions
 * ------------------------------------------------------------------------
 */

/* Name of the collection's partition. */
static char *
name_for(const char *collection)
{
	char	   *name = psprintf("record_%s", collection);
	bool		alike = false;	/* a different collection could have the same name */

	for (char *c = name; *c != '\0'; c++)
	{
		alike |= *c == '-' || (*c >= 'A' && *c <= 'Z');
		*c = *c == '.' || *c == '-' ? '_' : pg_tolower((unsigned char) *c);
	}
	if (alike || strlen(name) >= NAMEDATALEN)
	{
		char		hash[33];
		const char *error;

		if (!pg_md5_hash(collection, strlen(collection), hash, &error))
			elog(ERROR, "%s", error);
		name = psprintf("%.*s_%.8s", NAMEDATALEN - 10, name, hash);
	}
	return name;
}

/*
 * Does the partition exist, at any depth?  ERROR if a relation with this name is not a partition of
 * the table: rows would go to the default partition unnoticed, or an unrelated table would be searched
 * as the default partition.
 */
static bool
partition_exists(AtpParting *w, const char *part)
{
	Oid			relid = atp_parting_relid(w, part);

	if (OidIsValid(relid) &&
		!(get_rel_relispartition(relid) && list_member_oid(get_partition_ancestors(relid), atp_parting_relid(w, w->cut->table))))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("cannot make partition %s", quote_qualified_identifier(w->schema, part)),
				 errdetail("There is a relation of that name, which is no partition of the table."),
				 errhint("Rename it.")));
	return OidIsValid(relid);
}

/* Add the partition if missing, in memory that outlives the step. */
static List *
add_missing(AtpParting *w, List *parts, const char *name, const char *values, const char *condition)
{
	MemoryContext old;
	AtpPart    *part;

	if (partition_exists(w, name))
		return parts;
	old = MemoryContextSwitchTo(w->cxt);
	part = palloc(sizeof(AtpPart));
	*part = (AtpPart) {pstrdup(name), pstrdup(values), pstrdup(condition)};
	parts = lappend(parts, part);
	MemoryContextSwitchTo(old);
	return parts;
}

List *
atp_missing_collections(AtpParting *w, char **collections, int n)
{
	List	   *parts = NIL;

	for (int i = 0; i < n; i++)
	{
		char	   *literal = quote_literal_cstr(collections[i]);

		parts = add_missing(w, parts, name_for(collections[i]), psprintf("IN (%s)", literal),
							atp_expand_sql(psprintf("r.collection OPERATOR(@.=) %s", literal), w->schema));
	}
	return parts;
}

/* Months m, from a first month to the months ahead. */
#define MONTHS \
	"SELECT to_char(m, 'YYYY_MM') AS name, quote_literal((%s)::text) AS lower," \
	" (SELECT quote_literal((%s)::text) FROM (SELECT m + interval '1 month') n (m)) AS upper" \
	" FROM generate_series(%s, date_trunc('month', now() AT TIME ZONE 'UTC') + interval '%d months', interval '1 month') g (m)"

/* Months with rows in the table, and all months from the present one on, by a single scan. */
#define WITH_ROWS \
	"WITH months AS (%s), bounds AS (SELECT array_agg(%s ORDER BY name) AS b FROM months)" \
	" SELECT m.* FROM (SELECT *, row_number() OVER (ORDER BY name) AS n FROM months) m" \
	" WHERE m.name >= to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM')" \
	"  OR m.n IN (SELECT DISTINCT width_bucket(%s, b) FROM %s r, bounds) ORDER BY n"

static char *
months_sql(AtpParting *w, int ahead, const char *rows_of, const char *keep)
{
	const char *first = "date_trunc('month', now() AT TIME ZONE 'UTC')";

	if (rows_of != NULL && keep != NULL)
		first = psprintf("greatest(timestamp '" ATP_FIRST_MONTH "', date_trunc('month', now() AT TIME ZONE 'UTC' - interval %s))", quote_literal_cstr(keep));
	else if (rows_of != NULL)
		first = "timestamp '" ATP_FIRST_MONTH "'";
	return atp_expand_sql(psprintf(MONTHS, w->cut->bound, w->cut->bound, first, ahead), w->schema);
}

List *
atp_missing_months(AtpParting *w, int ahead, const char *rows_of, const char *keep)
{
	char	   *sql = months_sql(w, ahead, rows_of, keep);
	AtpResult	result;
	List	   *parts = NIL;

	if (rows_of != NULL)
		sql = psprintf(WITH_ROWS, sql, w->cut == &atp_cut_record_month ? "btrim(lower, '''') COLLATE \"C\"" : "btrim(lower, '''')::timestamptz",
					   w->cut->order, rows_of);
	result = atp_query(sql, ATP_NO_ARGS);
	for (uint64 i = 0; i < result.n; i++)
	{
		AtpTuple	row = atp_result_row(result, i);
		char	   *lower = atp_get_text(row, "lower");
		char	   *upper = atp_get_text(row, "upper");
		const char *ops = w->cut == &atp_cut_record_month ? "@" : "pg_catalog";
		char	   *condition = psprintf("r.%s OPERATOR(%s.>=) %s::%s AND r.%s OPERATOR(%s.<) %s::%s",
										 w->cut->column, ops, lower, w->cut->type, w->cut->column, ops, upper, w->cut->type);

		parts = add_missing(w, parts, psprintf("%s_%s", w->cut->table, atp_get_text(row, "name")),
							psprintf("FROM (%s) TO (%s)", lower, upper), atp_expand_sql(condition, w->schema));
	}
	atp_result_free(result);
	return parts;
}

/* ------------------------------------------------------------------------
 * Making partitions
 * ------------------------------------------------------------------------
 */
void
atp_make_part(AtpParting *w, const AtpPart *part)
{
	char	   *name = quote_qualified_identifier(w->schema, part->name);
	char	   *rest = quote_qualified_identifier(w->schema, atp_parting_rest(w));
	Oid			table = atp_parting_relid(w, w->cut->table);
	uint64		moved = 0;

	/* a session may have made the partition since */
	if (partition_exists(w, part->name))
		return;
	if (atp_parting_ask(psprintf("SELECT 'yes' AS v FROM %s r WHERE %s LIMIT 1", rest, part->condition)) == NULL)
		atp_run(psprintf("CREATE TABLE %s PARTITION OF %s FOR VALUES %s%s", name, w->name, part->values, w->options), ATP_NO_ARGS);
	else
	{
		atp_move_check(table, atp_parting_relid(w, atp_parting_rest(w)));
		name = atp_swap_create_part(w->schema, w->cut->table, part->name, w->options);
		atp_progress_phase(psprintf("moving rows of %s into %s", rest, name), -1);
		moved = atp_move_rows(table, atp_parting_relid(w, atp_parting_rest(w)), atp_parting_relid(w, part->name), part->condition);
		atp_run(psprintf("ALTER TABLE %s ATTACH PARTITION %s FOR VALUES %s", w->name, name, part->values), ATP_NO_ARGS);
	}
	atp_swap_like(atp_parting_relid(w, part->name), table);
	atp_parting_say(w, moved > 0 ? psprintf("made %s, with " UINT64_FORMAT " rows of %s", name, moved, rest) : psprintf("made %s", name));
}

void
atp_make_rest(AtpParting *w)
{
	char	   *rest = atp_parting_rest(w);

	if (partition_exists(w, rest))
		return;
	atp_run(psprintf("CREATE TABLE %s PARTITION OF %s DEFAULT%s",
					 quote_qualified_identifier(w->schema, rest), w->name, w->options), ATP_NO_ARGS);
	atp_swap_like(atp_parting_relid(w, rest), atp_parting_relid(w, w->cut->table));
	atp_parting_say(w, psprintf("made %s", quote_qualified_identifier(w->schema, rest)));
}
