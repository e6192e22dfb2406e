-- recordkey: record keys (recordkey.c)

CREATE TYPE recordkey;

CREATE FUNCTION recordkey_in(cstring, oid, int4) RETURNS recordkey
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_in' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION recordkey_in(cstring, oid, int4) IS 'I/O';

CREATE FUNCTION recordkey_out(recordkey) RETURNS cstring
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_out' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION recordkey_out(recordkey) IS 'I/O';

CREATE FUNCTION recordkey_recv(internal, oid, int4) RETURNS recordkey
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_recv' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION recordkey_recv(internal, oid, int4) IS 'I/O';

CREATE FUNCTION recordkey_send(recordkey) RETURNS bytea
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_send' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION recordkey_send(recordkey) IS 'I/O';

CREATE FUNCTION recordkey_typmod_in(cstring[]) RETURNS int4
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_typmod_in' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION recordkey_typmod_in(cstring[]) IS 'I/O typmod';

CREATE FUNCTION recordkey_typmod_out(int4) RETURNS cstring
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_typmod_out' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION recordkey_typmod_out(int4) IS 'I/O typmod';

CREATE TYPE recordkey (
	INPUT = recordkey_in,
	OUTPUT = recordkey_out,
	RECEIVE = recordkey_recv,
	SEND = recordkey_send,
	TYPMOD_IN = recordkey_typmod_in,
	TYPMOD_OUT = recordkey_typmod_out,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = main
);
COMMENT ON TYPE recordkey IS 'AT Protocol: record key';

CREATE FUNCTION recordkey(recordkey, int4) RETURNS recordkey
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_cast' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION recordkey(recordkey, int4) IS 'apply a type modifier';

CREATE CAST (recordkey AS recordkey) WITH FUNCTION recordkey(recordkey, int4) AS IMPLICIT;
COMMENT ON CAST (recordkey AS recordkey) IS 'apply a type modifier';

-- Order and equality: see compare.c.

--@include order_own.sql.in recordkey recordkey
--@include operators.sql.in recordkey

-- Key types.

CREATE FUNCTION recordkey_matches(recordkey, type text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_matches' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION recordkey_matches(recordkey, text) IS 'is it a key of this type: any, tid, nsid or literal:...?';

CREATE FUNCTION recordkey_tid(recordkey) RETURNS atproto.tid
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_tid' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION recordkey_tid(recordkey) IS 'the TID that the key is, or NULL';

-- Casts: every TID and every NSID is a record key.

CREATE FUNCTION recordkey(atproto.tid) RETURNS recordkey
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_of_tid' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION recordkey(atproto.tid) IS 'a TID as record key';

CREATE FUNCTION recordkey(nsid) RETURNS recordkey
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_of_nsid' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION recordkey(nsid) IS 'an NSID as record key';

CREATE CAST (atproto.tid AS recordkey) WITH FUNCTION recordkey(atproto.tid) AS ASSIGNMENT;
COMMENT ON CAST (atproto.tid AS recordkey) IS 'a TID as record key';

CREATE CAST (nsid AS recordkey) WITH FUNCTION recordkey(nsid) AS ASSIGNMENT;
COMMENT ON CAST (nsid AS recordkey) IS 'an NSID as record key';

