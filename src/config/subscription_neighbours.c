/*
 * subscription_neighbours.c
 *		Messages about subscriptions that fill the same tables, but differ in what they store.
 *
 * Such subscriptions are allowed.  The user gets a message, because each subscription ignores the commits processed by a
 * neighbour.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "config/subscription_neighbours.h"

/* Columns that determine which parts of a commit a subscription stores, and where. */
static const struct
{
	const char *name;
	Oid			type;
}			selecting[] = {
	{"target", NAMEOID}, {"collections", TEXTARRAYOID}, {"actions", TEXTARRAYOID}, {"keep_records", BOOLOID}, {"links", TEXTOID}, {"validate", TEXTOID},
	{"events", TEXTOID}, {"keep_raw", BOOLOID}, {"count_collections", BOOLOID}
};

/* The column that determines how a commit is verified. */
#define LEVEL	"verify"

/* Did an update leave the columns in selecting, and verify, unchanged? */
static bool
same_selection(AtpTuple a, AtpTuple b)
{
	const char *x,
			   *y;

	for (int i = 0; i < lengthof(selecting); i++)
	{
		x = atp_get_text_or_null(a, selecting[i].name);
		y = atp_get_text_or_null(b, selecting[i].name);

		if (x == NULL || y == NULL ? x != y : strcmp(x, y) != 0)
			return false;
	}
	x = atp_get_text_or_null(a, LEVEL);
	y = atp_get_text_or_null(b, LEVEL);
	return x == NULL || y == NULL ? x == y : strcmp(x, y) == 0;
}

/* Notify of neighbours at a different level: the tables' contents are only as trustworthy as the lowest level. */
static void
warn_of_levels(AtpTuple row)
{
	AtpResult	neighbour = atp_query("SELECT name, verify FROM atproto.subscription WHERE name <> $1 AND target = $2 AND by_repo AND verify <> $3"
									  " ORDER BY name LIMIT 1",
									  ATP_ARGS(atp_get_arg(row, "name", TEXTOID), atp_get_arg(row, "target", NAMEOID), atp_get_arg(row, LEVEL, TEXTOID)));

	if (neighbour.n > 0)
		ereport(NOTICE,
				(errmsg("subscriptions \"%s\" and \"%s\" fill the same tables at different levels: \"%s\" and \"%s\"",
						atp_get_text(row, "name"), atp_get_text(atp_result_row(neighbour, 0), "name"),
						atp_get_text(row, LEVEL), atp_get_text(atp_result_row(neighbour, 0), LEVEL)),
				 errdetail("What the one of the lower level has stored is checked no further.")));
}

/*
 * Warn of a subscription that fills the same tables with different filters.  A commit that one subscription
 * has processed is old for the others (F-03), so rows which its filter left out would be missing.
 */
static void
warn_of_neighbour(AtpTuple row)
{
	AtpArg		args[1 + lengthof(selecting)];
	AtpResult	neighbour;

	args[0] = atp_get_arg(row, "name", TEXTOID);
	for (int i = 0; i < lengthof(selecting); i++)
		args[i + 1] = atp_get_arg(row, selecting[i].name, selecting[i].type);
	SPI_connect();
	neighbour = atp_query("SELECT name FROM atproto.subscription WHERE name <> $1 AND target = $2"
						  " AND by_repo"
						  " AND (collections, actions, keep_records, links, validate, events, keep_raw, count_collections)"
						  "  IS DISTINCT FROM ($3, $4, $5, $6, $7, $8, $9, $10)"
						  " ORDER BY name LIMIT 1", args, lengthof(args));
	if (neighbour.n > 0)
		ereport(WARNING,
				(errmsg("subscriptions \"%s\" and \"%s\" fill the same tables with different filters",
						atp_get_text(row, "name"), atp_get_text(atp_result_row(neighbour, 0), "name")),
				 errdetail("When one of them has processed a commit, the other one ignores it, and with it what the first one does not store: other records, links, events, copies or counts."),
				 errhint("Give one of them a target of its own.")));
	warn_of_levels(row);
	SPI_finish();
}

void
atp_neighbours_warn(const AtpTuple *old, AtpTuple row)
{
	if (old == NULL || !same_selection(*old, row))
		warn_of_neighbour(row);
}
