/*
 * type_tid.c
 *		The type atproto.tid, rules T-01 to T-12: 64 bits by value, compared
 *		unsigned (D3).
 *
 * Times are UTC and exact.  Arithmetic with intervals does not use the
 * session's time zone, so all functions here are immutable.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "datatype/timestamp.h"
#include "libpq/pqformat.h"
#include "utils/builtins.h"
#include "utils/sortsupport.h"
#include "utils/timestamp.h"

#include "types/glue.h"

#include "core/syntax/tid.h"

#define PG_GETARG_TID(n)	DatumGetAtpTid(PG_GETARG_DATUM(n))
#define PG_RETURN_TID(x)	return AtpTidGetDatum(x)

static uint64_t
parse_input(const AtpInputContext *source, const char *s, size_t n)
{
	uint64_t	tid;
	size_t		at;
	AtpErr		err = atp_tid_parse(s, n, &tid, &at);

	if (err != ATP_OK)
	{
		atp_type_error(source, s, n, err, at);
		return 0;
	}
	return tid;
}

PG_FUNCTION_INFO_V1(atp_pg_tid_in);
Datum
atp_pg_tid_in(PG_FUNCTION_ARGS)
{
	const char *s = PG_GETARG_CSTRING(0);
	AtpInputContext source = {"atproto.tid", false, fcinfo->context};

	PG_RETURN_TID(parse_input(&source, s, strlen(s)));
}

PG_FUNCTION_INFO_V1(atp_pg_tid_out);
Datum
atp_pg_tid_out(PG_FUNCTION_ARGS)
{
	char	   *text = palloc(ATP_TID_TEXT + 1);

	atp_tid_format(PG_GETARG_TID(0), text);
	text[ATP_TID_TEXT] = '\0';
	PG_RETURN_CSTRING(text);
}

PG_FUNCTION_INFO_V1(atp_pg_tid_recv);
Datum
atp_pg_tid_recv(PG_FUNCTION_ARGS)
{
	/* D3: every 64-bit value is a valid TID. */
	PG_RETURN_TID((uint64) pq_getmsgint64((StringInfo) PG_GETARG_POINTER(0)));
}

PG_FUNCTION_INFO_V1(atp_pg_tid_send);
Datum
atp_pg_tid_send(PG_FUNCTION_ARGS)
{
	StringInfoData buf;

	pq_begintypsend(&buf);
	pq_sendint64(&buf, PG_GETARG_TID(0));
	PG_RETURN_BYTEA_P(pq_endtypsend(&buf));
}

#define COMPARISON(name, operator) \
	PG_FUNCTION_INFO_V1(atp_pg_tid_##name); \
	Datum \
	atp_pg_tid_##name(PG_FUNCTION_ARGS) \
	{ \
		PG_RETURN_BOOL(PG_GETARG_TID(0) operator PG_GETARG_TID(1)); \
	}

COMPARISON(eq, ==)
COMPARISON(ne, !=)
COMPARISON(lt, <)
COMPARISON(le, <=)
COMPARISON(ge, >=)
COMPARISON(gt, >)

PG_FUNCTION_INFO_V1(atp_pg_tid_cmp);
Datum
atp_pg_tid_cmp(PG_FUNCTION_ARGS)
{
	uint64		a = PG_GETARG_TID(0);
	uint64		b = PG_GETARG_TID(1);

	PG_RETURN_INT32((a > b) - (a < b));
}

PG_FUNCTION_INFO_V1(atp_pg_tid_smaller);
Datum
atp_pg_tid_smaller(PG_FUNCTION_ARGS)
{
	PG_RETURN_TID(Min(PG_GETARG_TID(0), PG_GETARG_TID(1)));
}

PG_FUNCTION_INFO_V1(atp_pg_tid_larger);
Datum
atp_pg_tid_larger(PG_FUNCTION_ARGS)
{
	PG_RETURN_TID(Max(PG_GETARG_TID(0), PG_GETARG_TID(1)));
}

#ifndef USE_FLOAT8_BYVAL
/* For servers that pass 64 bits by reference. */
static int
tid_fastcmp(Datum x, Datum y, SortSupport ssup)
{
	uint64		a = DatumGetAtpTid(x);
	uint64		b = DatumGetAtpTid(y);

	return (a > b) - (a < b);
}
#endif

PG_FUNCTION_INFO_V1(atp_pg_tid_sortsupport);
Datum
atp_pg_tid_sortsupport(PG_FUNCTION_ARGS)
{
	SortSupport ssup = (SortSupport) PG_GETARG_POINTER(0);

#ifdef USE_FLOAT8_BYVAL
	ssup->comparator = ssup_datum_unsigned_cmp;
#else
	ssup->comparator = tid_fastcmp;
#endif
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(atp_pg_tid_hash);
Datum
atp_pg_tid_hash(PG_FUNCTION_ARGS)
{
	uint64		tid = PG_GETARG_TID(0);

	return hash_any((const unsigned char *) &tid, sizeof(tid));
}

PG_FUNCTION_INFO_V1(atp_pg_tid_hash_extended);
Datum
atp_pg_tid_hash_extended(PG_FUNCTION_ARGS)
{
	uint64		tid = PG_GETARG_TID(0);

	return hash_any_extended((const unsigned char *) &tid, sizeof(tid), PG_GETARG_INT64(1));
}

/* BRIN minmax_multi: the distance between two values. */
PG_FUNCTION_INFO_V1(atp_pg_tid_brin_distance);
Datum
atp_pg_tid_brin_distance(PG_FUNCTION_ARGS)
{
	uint64		a = PG_GETARG_TID(0);
	uint64		b = PG_GETARG_TID(1);

	Assert(a <= b);
	PG_RETURN_FLOAT8((double) (b - a));
}

#ifdef ATP_HAS_SKIP_SUPPORT
static Datum
tid_decrement(Relation rel, Datum existing, bool *underflow)
{
	uint64		tid = DatumGetAtpTid(existing);

	*underflow = tid == 0;
	return AtpTidGetDatum(tid - 1);
}

static Datum
tid_increment(Relation rel, Datum existing, bool *overflow)
{
	uint64		tid = DatumGetAtpTid(existing);

	*overflow = tid == PG_UINT64_MAX;
	return AtpTidGetDatum(tid + 1);
}

PG_FUNCTION_INFO_V1(atp_pg_tid_skipsupport);
Datum
atp_pg_tid_skipsupport(PG_FUNCTION_ARGS)
{
	SkipSupport sksup = (SkipSupport) PG_GETARG_POINTER(0);

	sksup->decrement = tid_decrement;
	sksup->increment = tid_increment;
	sksup->low_elem = AtpTidGetDatum(0);
	sksup->high_elem = AtpTidGetDatum(PG_UINT64_MAX);
	PG_RETURN_VOID();
}
#endif

/*
 * Window frames RANGE BETWEEN interval PRECEDING AND ...: compares TIDs by
 * their microsecond; the clock id does not matter.
 */
PG_FUNCTION_INFO_V1(atp_pg_tid_in_range);
Datum
atp_pg_tid_in_range(PG_FUNCTION_ARGS)
{
	/* The order must agree with "<": use the time including the top bit. */
	Timestamp	val = (Timestamp) atp_tid_micros(PG_GETARG_TID(0)) - ATP_UNIX_TO_POSTGRES;
	Timestamp	base = (Timestamp) atp_tid_micros(PG_GETARG_TID(1)) - ATP_UNIX_TO_POSTGRES;
	Interval   *offset = PG_GETARG_INTERVAL_P(2);
	bool		sub = PG_GETARG_BOOL(3);
	bool		less = PG_GETARG_BOOL(4);
	Interval	zero = {0};
	Timestamp	bound;

	if (DatumGetBool(DirectFunctionCall2(interval_lt, IntervalPGetDatum(offset),
										 IntervalPGetDatum(&zero))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PRECEDING_OR_FOLLOWING_SIZE),
				 errmsg("invalid preceding or following size in window function")));

	bound = DatumGetTimestamp(DirectFunctionCall2(sub ? timestamp_mi_interval : timestamp_pl_interval,
												  TimestampGetDatum(base),
												  IntervalPGetDatum(offset)));
	PG_RETURN_BOOL(less ? val <= bound : val >= bound);
}

/* T-03: the 53 bits of the time, without the top bit. */
static int64
layout_micros(uint64 tid)
{
	return (int64) (atp_tid_micros(tid) & ATP_TID_MAX_MICROS);
}

PG_FUNCTION_INFO_V1(atp_pg_tid_timestamp);
Datum
atp_pg_tid_timestamp(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(layout_micros(PG_GETARG_TID(0)) - ATP_UNIX_TO_POSTGRES);
}

PG_FUNCTION_INFO_V1(atp_pg_tid_micros);
Datum
atp_pg_tid_micros(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(layout_micros(PG_GETARG_TID(0)));
}

PG_FUNCTION_INFO_V1(atp_pg_tid_clock_id);
Datum
atp_pg_tid_clock_id(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32((int32) atp_tid_clock(PG_GETARG_TID(0)));
}

PG_FUNCTION_INFO_V1(atp_pg_tid_is_canonical);
Datum
atp_pg_tid_is_canonical(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(PG_GETARG_TID(0) <= ATP_TID_MAX_CANONICAL);
}

/* The times that a TID can represent (T-08). */
#define FIRST_TIME	((TimestampTz) -ATP_UNIX_TO_POSTGRES)
#define LAST_TIME	((TimestampTz) ATP_TID_MAX_MICROS - ATP_UNIX_TO_POSTGRES)

/* atproto.tid(timestamptz, int) */
PG_FUNCTION_INFO_V1(atp_pg_tid_make);
Datum
atp_pg_tid_make(PG_FUNCTION_ARGS)
{
	TimestampTz time = PG_GETARG_TIMESTAMPTZ(0);
	int32		clock = PG_GETARG_INT32(1);

	if (clock < 0 || clock > ATP_TID_MAX_CLOCK)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("clock id %d is out of range", clock),
				 errdetail("A clock id is between 0 and %d.", ATP_TID_MAX_CLOCK)));
	if (time < FIRST_TIME || time > LAST_TIME)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp out of range for type %s", "atproto.tid"),
				 errdetail("A TID holds times from 1970-01-01 to 2255-06-05 23:47:34.740991 UTC.")));
	PG_RETURN_TID(atp_tid_make((uint64) (time - FIRST_TIME), clock));
}

/*
 * Bounds for range conditions: the first and the last TID of a microsecond.  A
 * time outside the range of TIDs, also an infinite one, gives the least or the
 * greatest TID.  So a condition with such a time is true or false, not an
 * error.
 */
static uint64
bound_of(TimestampTz time, unsigned clock)
{
	if (time < FIRST_TIME)
		return 0;
	if (time > LAST_TIME)
		return PG_UINT64_MAX;
	return atp_tid_make((uint64) (time - FIRST_TIME), clock);
}

PG_FUNCTION_INFO_V1(atp_pg_tid_floor);
Datum
atp_pg_tid_floor(PG_FUNCTION_ARGS)
{
	PG_RETURN_TID(bound_of(PG_GETARG_TIMESTAMPTZ(0), 0));
}

PG_FUNCTION_INFO_V1(atp_pg_tid_ceil);
Datum
atp_pg_tid_ceil(PG_FUNCTION_ARGS)
{
	PG_RETURN_TID(bound_of(PG_GETARG_TIMESTAMPTZ(0), ATP_TID_MAX_CLOCK));
}

PG_FUNCTION_INFO_V1(atp_pg_tid_to_bigint);
Datum
atp_pg_tid_to_bigint(PG_FUNCTION_ARGS)
{
	uint64		tid = PG_GETARG_TID(0);

	if (tid > ATP_TID_MAX_CANONICAL)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("bigint out of range"),
				 errdetail("The top bit of the TID is set.")));
	PG_RETURN_INT64((int64) tid);
}

PG_FUNCTION_INFO_V1(atp_pg_tid_of_bigint);
Datum
atp_pg_tid_of_bigint(PG_FUNCTION_ARGS)
{
	int64		value = PG_GETARG_INT64(0);

	if (value < 0)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("value out of range for type %s", "atproto.tid"),
				 errdetail("A TID is not negative.")));
	PG_RETURN_TID((uint64) value);
}
