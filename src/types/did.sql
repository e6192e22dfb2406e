-- did: decentralized identifiers (did.c)

CREATE TYPE did;

CREATE FUNCTION did_in(cstring, oid, int4) RETURNS did
	AS 'MODULE_PATHNAME', 'atp_pg_did_in' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION did_in(cstring, oid, int4) IS 'I/O';

CREATE FUNCTION did_out(did) RETURNS cstring
	AS 'MODULE_PATHNAME', 'atp_pg_did_out' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION did_out(did) IS 'I/O';

CREATE FUNCTION did_recv(internal, oid, int4) RETURNS did
	AS 'MODULE_PATHNAME', 'atp_pg_did_recv' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION did_recv(internal, oid, int4) IS 'I/O';

CREATE FUNCTION did_send(did) RETURNS bytea
	AS 'MODULE_PATHNAME', 'atp_pg_did_send' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION did_send(did) IS 'I/O';

CREATE FUNCTION did_typmod_in(cstring[]) RETURNS int4
	AS 'MODULE_PATHNAME', 'atp_pg_did_typmod_in' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION did_typmod_in(cstring[]) IS 'I/O typmod';

CREATE FUNCTION did_typmod_out(int4) RETURNS cstring
	AS 'MODULE_PATHNAME', 'atp_pg_did_typmod_out' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION did_typmod_out(int4) IS 'I/O typmod';

CREATE TYPE did (
	INPUT = did_in,
	OUTPUT = did_out,
	RECEIVE = did_recv,
	SEND = did_send,
	TYPMOD_IN = did_typmod_in,
	TYPMOD_OUT = did_typmod_out,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = main
);
COMMENT ON TYPE did IS 'AT Protocol: decentralized identifier';

CREATE FUNCTION did(did, int4) RETURNS did
	AS 'MODULE_PATHNAME', 'atp_pg_did_cast' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION did(did, int4) IS 'apply a type modifier';

CREATE CAST (did AS did) WITH FUNCTION did(did, int4) AS IMPLICIT;
COMMENT ON CAST (did AS did) IS 'apply a type modifier';

-- Order and equality: see compare.c.

--@include order_own.sql.in did did
--@include operators.sql.in did

-- Parts and normal form.

CREATE FUNCTION did_method(did) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_did_method' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION did_method(did) IS 'the method: plc, web, ...';

CREATE FUNCTION did_identifier(did) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_did_identifier' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION did_identifier(did) IS 'what follows the method';

CREATE FUNCTION did_is_blessed(did) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_did_is_blessed' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION did_is_blessed(did) IS 'is the method one that the AT Protocol supports (plc, web)?';

CREATE FUNCTION did_normalize(did) RETURNS did
	AS 'MODULE_PATHNAME', 'atp_pg_did_normalize' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION did_normalize(did) IS 'normal form: did:plc and did:web in lower case';

