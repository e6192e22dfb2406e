/*
 * role_limits.c
 *		What the subscriptions of a role may take together: see role_limits.h.
 *
 * Two sessions at the same moment do not see each other's rows, and together may exceed a limit by as much as one
 * of them takes.
 */
#include "postgres.h"

#include <limits.h>

#include "config/owner.h"
#include "config/role_limits.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/guc.h"

int			atp_max_role_processes;
int			atp_max_role_mb;

void
atp_role_limits_init(void)
{
	DefineCustomIntVariable("atproto.max_role_processes",
							"Number of processes that the subscriptions of a role may take: one each, and the workers.",
							"Zero: no limit. Superusers have no limit. Experimental.", &atp_max_role_processes, 64, 0, INT_MAX,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.max_role_bytes",
							"Upper limit of the sum of max_held_bytes and max_dead_letter_bytes of a role's subscriptions.",
							"Zero: no limit. Superusers have no limit. Experimental.", &atp_max_role_mb, 100 * 1024, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MB, NULL, NULL, NULL);
}

typedef struct Taken
{
	int64		processes;
	int64		bytes;
} Taken;

static int64
int_column(AtpTuple row, const char *column)
{
	bool		isnull;
	Datum		value = atp_get(row, column, INT4OID, &isnull);

	return isnull ? 0 : DatumGetInt32(value);
}

static int64
bigint_column(AtpTuple row, const char *column)
{
	bool		isnull;
	Datum		value = atp_get(row, column, INT8OID, &isnull);

	return isnull ? 0 : Max(DatumGetInt64(value), 0);
}

/* Two bounds of a row may be any numbers. */
static int64
add_bounded(int64 a, int64 b)
{
	return a > PG_INT64_MAX - b ? PG_INT64_MAX : a + b;
}

static Taken
taken_by(AtpTuple row)
{
	int64		workers = int_column(row, "workers");

	return (Taken) {workers > 1 ? workers + 1 : 1, add_bounded(bigint_column(row, "max_held_bytes"), bigint_column(row, "max_dead_letter_bytes"))};
}

static Oid
owner_of(AtpTuple row)
{
	return DatumGetObjectId(atp_get_arg(row, "owner", OIDOID).value);
}

/* What the other subscriptions of the row's owner take. */
static Taken
taken_by_others(const AtpTuple *old, AtpTuple row, Oid reader)
{
	AtpCaller	caller;
	AtpResult	found;
	AtpTuple	sums;
	Taken		taken;

	SPI_connect();
	caller = atp_owner_begin(reader);
	found = atp_query("SELECT COALESCE(sum(CASE WHEN workers > 1 THEN workers + 1 ELSE 1 END), 0)::int8 AS processes,"
								  " LEAST(COALESCE(sum(max_held_bytes::numeric + max_dead_letter_bytes), 0), 9223372036854775807)::int8 AS bytes"
								  " FROM atproto.subscription WHERE owner::oid = $1 AND name <> $2",
								  ATP_ARGS((AtpArg) {ObjectIdGetDatum(owner_of(row)), OIDOID}, atp_text_arg(atp_get_text(old != NULL ? *old : row, "name"))));
	sums = atp_result_row(found, 0);
	taken = (Taken) {atp_get_int8(sums, "processes"), atp_get_int8(sums, "bytes")};
	atp_result_free(found);
	atp_owner_end(caller);
	SPI_finish();
	return taken;
}

void
atp_role_limits_check(const AtpTuple *old, AtpTuple row, Oid reader)
{
	Taken		own = taken_by(row);
	Taken		before = old != NULL && owner_of(*old) == owner_of(row) ? taken_by(*old) : (Taken) {0, 0};
	Taken		others;

	if (atp_max_role_processes == 0 && atp_max_role_mb == 0)
		return;
	/* pg_restore bypasses row security */
	if (has_bypassrls_privilege(GetUserId()) || superuser_arg(owner_of(row)) || (own.processes <= before.processes && own.bytes <= before.bytes))
		return;
	others = taken_by_others(old, row, reader);
	if (atp_max_role_processes > 0 && own.processes > before.processes && others.processes + own.processes > atp_max_role_processes)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("the subscriptions of role \"%s\" would take " INT64_FORMAT " processes", GetUserNameFromId(owner_of(row), true), others.processes + own.processes),
				 errdetail("\"%s\" allows %d.", "atproto.max_role_processes", atp_max_role_processes),
				 errhint("Remove a subscription, or let a superuser raise the setting.")));
	if (atp_max_role_mb > 0 && own.bytes > before.bytes && add_bounded(others.bytes, own.bytes) / (1024 * 1024) > atp_max_role_mb)
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("the subscriptions of role \"%s\" could keep " INT64_FORMAT " MB of events that wait and of dead letters", GetUserNameFromId(owner_of(row), true), add_bounded(others.bytes, own.bytes) / (1024 * 1024)),
				 errdetail("\"%s\" allows %d MB.", "atproto.max_role_bytes", atp_max_role_mb),
				 errhint("Set a smaller \"%s\" or \"%s\", or let a superuser raise the setting.", "max_held_bytes", "max_dead_letter_bytes")));
}
