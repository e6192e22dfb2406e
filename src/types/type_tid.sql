-- atproto.tid: timestamp identifiers (type_tid.c, tid_generate.c)
--
-- pg_catalog.tid always comes first in the search path, so the name is qualified everywhere.
-- PostgreSQL's own tid has operator classes called tid_ops, so these have other names.

CREATE TYPE atproto.tid;

CREATE FUNCTION tid_in(cstring) RETURNS atproto.tid
	AS 'MODULE_PATHNAME', 'atp_pg_tid_in' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_in(cstring) IS 'I/O';

CREATE FUNCTION tid_out(atproto.tid) RETURNS cstring
	AS 'MODULE_PATHNAME', 'atp_pg_tid_out' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_out(atproto.tid) IS 'I/O';

CREATE FUNCTION tid_recv(internal) RETURNS atproto.tid
	AS 'MODULE_PATHNAME', 'atp_pg_tid_recv' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_recv(internal) IS 'I/O';

CREATE FUNCTION tid_send(atproto.tid) RETURNS bytea
	AS 'MODULE_PATHNAME', 'atp_pg_tid_send' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_send(atproto.tid) IS 'I/O';

CREATE TYPE atproto.tid (
	INPUT = tid_in,
	OUTPUT = tid_out,
	RECEIVE = tid_recv,
	SEND = tid_send,
	LIKE = pg_catalog.int8
);
COMMENT ON TYPE atproto.tid IS 'AT Protocol: timestamp identifier (not the tid of pg_catalog)';

-- Order and equality.

CREATE FUNCTION tid_eq(atproto.tid, atproto.tid) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_tid_eq' LANGUAGE C
	IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION tid_eq(atproto.tid, atproto.tid) IS 'implementation of = operator';

CREATE FUNCTION tid_ne(atproto.tid, atproto.tid) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_tid_ne' LANGUAGE C
	IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION tid_ne(atproto.tid, atproto.tid) IS 'implementation of <> operator';

CREATE FUNCTION tid_lt(atproto.tid, atproto.tid) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_tid_lt' LANGUAGE C
	IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION tid_lt(atproto.tid, atproto.tid) IS 'implementation of < operator';

CREATE FUNCTION tid_le(atproto.tid, atproto.tid) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_tid_le' LANGUAGE C
	IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION tid_le(atproto.tid, atproto.tid) IS 'implementation of <= operator';

CREATE FUNCTION tid_ge(atproto.tid, atproto.tid) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_tid_ge' LANGUAGE C
	IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION tid_ge(atproto.tid, atproto.tid) IS 'implementation of >= operator';

CREATE FUNCTION tid_gt(atproto.tid, atproto.tid) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_tid_gt' LANGUAGE C
	IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION tid_gt(atproto.tid, atproto.tid) IS 'implementation of > operator';

CREATE FUNCTION tid_cmp(atproto.tid, atproto.tid) RETURNS int4
	AS 'MODULE_PATHNAME', 'atp_pg_tid_cmp' LANGUAGE C
	IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION tid_cmp(atproto.tid, atproto.tid) IS 'less-equal-greater, for btree';

CREATE FUNCTION tid_hash(atproto.tid) RETURNS int4
	AS 'MODULE_PATHNAME', 'atp_pg_tid_hash' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_hash(atproto.tid) IS 'hash';

CREATE FUNCTION tid_hash_extended(atproto.tid, int8) RETURNS int8
	AS 'MODULE_PATHNAME', 'atp_pg_tid_hash_extended' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_hash_extended(atproto.tid, int8) IS 'hash';

CREATE FUNCTION tid_sortsupport(internal) RETURNS void
	AS 'MODULE_PATHNAME', 'atp_pg_tid_sortsupport' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_sortsupport(internal) IS 'sort support';

CREATE FUNCTION tid_in_range(atproto.tid, atproto.tid, interval, boolean, boolean) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_tid_in_range' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_in_range(atproto.tid, atproto.tid, interval, boolean, boolean) IS 'window RANGE support';

CREATE FUNCTION tid_brin_distance(internal, internal) RETURNS float8
	AS 'MODULE_PATHNAME', 'atp_pg_tid_brin_distance' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_brin_distance(internal, internal) IS 'BRIN minmax-multi support';

CREATE FUNCTION tid_smaller(atproto.tid, atproto.tid) RETURNS atproto.tid
	AS 'MODULE_PATHNAME', 'atp_pg_tid_smaller' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_smaller(atproto.tid, atproto.tid) IS 'the smaller of two';

CREATE FUNCTION tid_larger(atproto.tid, atproto.tid) RETURNS atproto.tid
	AS 'MODULE_PATHNAME', 'atp_pg_tid_larger' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_larger(atproto.tid, atproto.tid) IS 'the larger of two';

--@include operators.sql.in TYPE=atproto.tid PREFIX=tid CLASS=atproto_tid EQUALIMAGE=btequalimage
--@include text_casts.sql.in TYPE=atproto.tid

ALTER OPERATOR FAMILY atproto_tid_ops USING btree ADD
	FUNCTION 3 (atproto.tid, interval) tid_in_range(atproto.tid, atproto.tid, interval, boolean, boolean);

-- Since PostgreSQL 18 a btree scan can skip over the values of a leading column.
DO $skip$
BEGIN
	IF pg_catalog.current_setting('server_version_num')::int OPERATOR(pg_catalog.>=) 180000 THEN
		CREATE FUNCTION tid_skipsupport(internal) RETURNS void
			AS 'MODULE_PATHNAME', 'atp_pg_tid_skipsupport' LANGUAGE C
			IMMUTABLE STRICT PARALLEL SAFE;
		COMMENT ON FUNCTION tid_skipsupport(internal) IS 'skip support';
		ALTER OPERATOR FAMILY atproto_tid_ops USING btree ADD
			FUNCTION 6 (atproto.tid, atproto.tid) tid_skipsupport(internal);
	END IF;
END
$skip$;

CREATE OPERATOR CLASS atproto_tid_minmax_multi_ops
	FOR TYPE atproto.tid USING brin AS
	OPERATOR 1 <,
	OPERATOR 2 <=,
	OPERATOR 3 =,
	OPERATOR 4 >=,
	OPERATOR 5 >,
	FUNCTION 1 brin_minmax_multi_opcinfo(internal),
	FUNCTION 2 brin_minmax_multi_add_value(internal, internal, internal, internal),
	FUNCTION 3 brin_minmax_multi_consistent(internal, internal, internal, int4),
	FUNCTION 4 brin_minmax_multi_union(internal, internal, internal),
	FUNCTION 5 brin_minmax_multi_options(internal),
	FUNCTION 11 tid_brin_distance(internal, internal);
COMMENT ON OPERATOR CLASS atproto_tid_minmax_multi_ops USING brin IS 'block ranges of atproto.tid by several intervals';
COMMENT ON OPERATOR FAMILY atproto_tid_minmax_multi_ops USING brin IS 'block ranges of atproto.tid by several intervals';

-- Parts and construction.

CREATE FUNCTION tid_timestamp(atproto.tid) RETURNS timestamptz
	AS 'MODULE_PATHNAME', 'atp_pg_tid_timestamp' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_timestamp(atproto.tid) IS 'the time in the TID, as claimed by its author';

CREATE FUNCTION tid_micros(atproto.tid) RETURNS bigint
	AS 'MODULE_PATHNAME', 'atp_pg_tid_micros' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_micros(atproto.tid) IS 'the time in microseconds since 1970';

CREATE FUNCTION tid_clock_id(atproto.tid) RETURNS int4
	AS 'MODULE_PATHNAME', 'atp_pg_tid_clock_id' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_clock_id(atproto.tid) IS 'the clock id, 0 to 1023';

CREATE FUNCTION tid_is_canonical(atproto.tid) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_tid_is_canonical' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_is_canonical(atproto.tid) IS 'is the top bit zero, as generators must leave it?';

CREATE FUNCTION tid_floor(timestamptz) RETURNS atproto.tid
	AS 'MODULE_PATHNAME', 'atp_pg_tid_floor' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_floor(timestamptz) IS 'the first TID of a microsecond; the least or greatest TID for a time outside the range of TIDs';

CREATE FUNCTION tid_ceil(timestamptz) RETURNS atproto.tid
	AS 'MODULE_PATHNAME', 'atp_pg_tid_ceil' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_ceil(timestamptz) IS 'the last TID of a microsecond; the least or greatest TID for a time outside the range of TIDs';

CREATE FUNCTION atproto.tid(timestamptz, clock_id int4) RETURNS atproto.tid
	AS 'MODULE_PATHNAME', 'atp_pg_tid_make' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION atproto.tid(timestamptz, int4) IS 'the TID of a time and a clock id';

CREATE FUNCTION tid_generate() RETURNS atproto.tid
	AS 'MODULE_PATHNAME', 'atp_pg_tid_generate' LANGUAGE C
	VOLATILE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_generate() IS 'a new TID: greater than all TIDs that this server generated before';

-- Casts.

CREATE FUNCTION tid_to_bigint(atproto.tid) RETURNS bigint
	AS 'MODULE_PATHNAME', 'atp_pg_tid_to_bigint' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_to_bigint(atproto.tid) IS 'the TID as a number; fails when the top bit is set';

CREATE FUNCTION tid_of_bigint(bigint) RETURNS atproto.tid
	AS 'MODULE_PATHNAME', 'atp_pg_tid_of_bigint' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tid_of_bigint(bigint) IS 'the TID of a number, 0 or greater';

CREATE CAST (atproto.tid AS bigint) WITH FUNCTION tid_to_bigint(atproto.tid);
COMMENT ON CAST (atproto.tid AS bigint) IS 'the TID as a number';

CREATE CAST (bigint AS atproto.tid) WITH FUNCTION tid_of_bigint(bigint);
COMMENT ON CAST (bigint AS atproto.tid) IS 'the TID of a number';

