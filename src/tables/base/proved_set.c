/*
 * proved_set.c
 *		Sets of collections: what a repository's row means by "proved" (P-40).
 *
 * This file computes with sets, and checks rows of atproto.proved_set.  proved_claim.c decides which set a repository
 * gets, proved_filter.c what a change of a filter does to the claims of a target.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/sha256.h"
#include "config/claim.h"
#include "config/row_trigger.h"
#include "config/spi.h"
#include "core/syntax/nsid.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "tables/base/proved_set.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(atp_proved_set_check);

/* Fourth field of the lock's tag: not 1 or 2, which SQL functions use, and not the number of claims (claim.c). */
#define LOCK_CLASS	62

#define ALL		"*"

/* ------------------------------------------------------------------------
 * Sets
 * ------------------------------------------------------------------------
 */
static bool
is_within(const char *pattern, const char *other)
{
	return atp_nsid_matches(pattern, strlen(pattern), other, strlen(other));
}

static int
compare_patterns(const void *a, const void *b)
{
	return strcmp(*(const char *const *) a, *(const char *const *) b);
}

/* Sort the patterns, and leave out patterns within a second pattern. */
static AtpProvedSet
make_set(const char **patterns, int n)
{
	AtpProvedSet set = {0, palloc(sizeof(char *) * Max(n, 1))};

	qsort(patterns, n, sizeof(char *), compare_patterns);
	for (int i = 0; i < n; i++)
	{
		bool		needed = true;

		for (int k = 0; k < n && needed; k++)
			needed = k == i || !is_within(patterns[i], patterns[k]) || (k > i && strcmp(patterns[k], patterns[i]) == 0);
		if (needed)
			set.patterns[set.n++] = patterns[i];
	}
	return set;
}

AtpProvedSet
atp_proved_set(int n, char *const *patterns)
{
	const char **copy = palloc(sizeof(char *) * Max(n, 1));

	copy[0] = ALL;
	for (int i = 0; i < n; i++)
		copy[i] = patterns[i];
	return make_set(copy, n < 0 ? 1 : n);
}

AtpProvedSet
atp_proved_set_read(AtpTuple row)
{
	Datum	   *values;
	bool	   *nulls;
	int			n = atp_get_array(row, "collections", TEXTOID, &values, &nulls);
	char	  **patterns = palloc(sizeof(char *) * Max(n, 1));

	for (int i = 0; i < n; i++)
		patterns[i] = TextDatumGetCString(values[i]);
	return atp_proved_set(n, patterns);
}

static bool
has_pattern(const AtpProvedSet *set, const char *pattern)
{
	for (int i = 0; i < set->n; i++)
		if (is_within(pattern, set->patterns[i]))
			return true;
	return false;
}

bool
atp_proved_covers(const AtpProvedSet *set, const AtpProvedSet *other)
{
	for (int i = 0; i < other->n; i++)
		if (!has_pattern(set, other->patterns[i]))
			return false;
	return true;
}

AtpProvedSet
atp_proved_common(const AtpProvedSet *a, const AtpProvedSet *b)
{
	const char **both = palloc(sizeof(char *) * (a->n + b->n + 1));
	int			n = 0;

	/* two patterns without a common collection have no part here; otherwise the longer pattern is within the shorter */
	for (int i = 0; i < a->n; i++)
		if (has_pattern(b, a->patterns[i]))
			both[n++] = a->patterns[i];
	for (int i = 0; i < b->n; i++)
		if (has_pattern(a, b->patterns[i]))
			both[n++] = b->patterns[i];
	return make_set(both, n);
}

int64
atp_proved_id(const AtpProvedSet *set)
{
	StringInfoData text;
	uint8_t		digest[32];
	uint64		number = 0;

	if (set->n == 0)
		return ATP_PROVED_NONE;
	if (set->n == 1 && strcmp(set->patterns[0], ALL) == 0)
		return ATP_PROVED_ALL;
	initStringInfo(&text);
	for (int i = 0; i < set->n; i++)
		appendStringInfo(&text, "%s\n", set->patterns[i]);
	atp_sha256(NULL, (const uint8_t *) text.data, text.len, digest);
	for (int i = 0; i < 8; i++)
		number = number << 8 | digest[i];
	/* positive, and never the number of all collections */
	return (int64) Max(number >> 1, 1);
}

AtpProvedSet
atp_proved_kept(const AtpSettings *settings)
{
	bool		all = settings->keep_records && settings->actions[0] && settings->actions[1] && settings->actions[2];

	return atp_proved_set(all ? settings->ncollections : 0, settings->collections);
}

void
atp_proved_lock(const char *target, bool exclusive)
{
	uint64		number = atp_claim_number(target);
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, (uint32) (number >> 32), (uint32) number, LOCK_CLASS);
	(void) LockAcquire(&tag, exclusive ? ExclusiveLock : ShareLock, false, false);
}

/* ------------------------------------------------------------------------
 * Rows of atproto.proved_set
 * ------------------------------------------------------------------------
 */

void
atp_proved_note(const char *target, const AtpProvedSet *set)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(set->n, 1));
	AtpCaller	caller;

	for (int i = 0; i < set->n; i++)
		values[i] = CStringGetTextDatum(set->patterns[i]);
	caller = atp_as_table_owner("proved_set");
	atp_run("INSERT INTO atproto.proved_set (target, id, collections) VALUES ($1::name, $2, $3) ON CONFLICT DO NOTHING",
			ATP_ARGS(atp_text_arg(target), atp_int8_arg(atp_proved_id(set)), atp_array_arg(TEXTOID, values, NULL, set->n)));
	atp_owner_end(caller);
}

/* Does the row's number follow from the row's list (atp_proved_id())? */
static bool
is_right(AtpTuple row)
{
	Datum	   *values;
	bool	   *nulls;
	char	  **patterns;
	AtpProvedSet set;
	int			n = atp_get_array(row, "collections", TEXTOID, &values, &nulls);

	if (n < 0)
		return false;
	patterns = palloc(sizeof(char *) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		size_t		at;

		if (nulls[i])
			return false;
		patterns[i] = TextDatumGetCString(values[i]);
		if (atp_nsid_pattern_check(patterns[i], strlen(patterns[i]), &at) != ATP_OK)
			return false;
	}
	set = atp_proved_set(n, patterns);
	for (int i = 0; i < n; i++)
		if (set.n != n || strcmp(set.patterns[i], patterns[i]) != 0)
			return false;
	return atp_proved_id(&set) == atp_get_int8(row, "id");
}

/*
 * SQL: atproto_internal.proved_set_check(), BEFORE INSERT or UPDATE, for each row.  A restored row may be there already:
 * the row of a subscription that was restored before has made its set.
 */
Datum
atp_proved_set_check(PG_FUNCTION_ARGS)
{
	AtpRowTrigger call = atp_row_trigger(fcinfo, "proved_set_check", ATP_BEFORE_ROW, ATP_ON_ALL);
	AtpTuple	row = call.row;
	AtpResult	found;
	bool		is_there;

	SPI_connect();
	if (!is_right(row))
		ereport(ERROR,
				(errcode(ERRCODE_CHECK_VIOLATION),
				 errmsg("\"%s\" is not the number of these collections", "id"),
				 errhint("The extension writes this table when a subscription gets a filter.")));
	found = atp_query("SELECT FROM atproto.proved_set WHERE target = $1 AND id = $2",
					  ATP_ARGS(atp_get_arg(row, "target", NAMEOID), atp_get_arg(row, "id", INT8OID)));
	is_there = found.n > 0 && !call.updated;
	SPI_finish();
	return PointerGetDatum(is_there ? NULL : row.tuple);
}
