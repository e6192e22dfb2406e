-- recordkey: record keys (type_recordkey.c)

--@include type_modified.sql.in TYPE=recordkey STORAGE=main
COMMENT ON TYPE recordkey IS 'AT Protocol: record key';

-- Order and equality: see compare.c.

--@include order_own.sql.in TYPE=recordkey ORDER=recordkey
--@include equality.sql.in TYPE=recordkey EQUAL=bytes
--@include operators.sql.in TYPE=recordkey PREFIX=recordkey CLASS=recordkey EQUALIMAGE=btequalimage
--@include text_casts.sql.in TYPE=recordkey

-- Key types.

CREATE FUNCTION recordkey_matches(recordkey, type text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_matches' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION recordkey_matches(recordkey, text) IS 'has the key this type: any, tid, nsid or literal:...?';

CREATE FUNCTION recordkey_tid(recordkey) RETURNS atproto.tid
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_tid' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION recordkey_tid(recordkey) IS 'the key as a TID; NULL if it is none';

CREATE FUNCTION recordkey_timestamp(recordkey) RETURNS timestamptz
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	RETURN tid_timestamp(recordkey_tid($1));
COMMENT ON FUNCTION recordkey_timestamp(recordkey) IS 'the time in a key that is a TID; else NULL';

-- Casts: every TID and every NSID is a record key.

CREATE FUNCTION recordkey(atproto.tid) RETURNS recordkey
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_of_tid' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION recordkey(atproto.tid) IS 'a TID as record key';

CREATE FUNCTION recordkey(nsid) RETURNS recordkey
	AS 'MODULE_PATHNAME', 'atp_pg_recordkey_of_nsid' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION recordkey(nsid) IS 'an NSID as record key';

-- Implicit, so that rkey >= tid_floor(...) can use an index on the key.
CREATE CAST (atproto.tid AS recordkey) WITH FUNCTION recordkey(atproto.tid) AS IMPLICIT;
COMMENT ON CAST (atproto.tid AS recordkey) IS 'a TID as record key';

CREATE CAST (nsid AS recordkey) WITH FUNCTION recordkey(nsid) AS ASSIGNMENT;
COMMENT ON CAST (nsid AS recordkey) IS 'an NSID as record key';

