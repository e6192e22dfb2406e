-- cidlink: content identifiers (type_cidlink.c)

CREATE TYPE cidlink;

CREATE FUNCTION cidlink_in(cstring, oid, int4) RETURNS cidlink
	AS 'MODULE_PATHNAME', 'atp_pg_cidlink_in' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION cidlink_in(cstring, oid, int4) IS 'I/O';

CREATE FUNCTION cidlink_out(cidlink) RETURNS cstring
	AS 'MODULE_PATHNAME', 'atp_pg_cidlink_out' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION cidlink_out(cidlink) IS 'I/O';

CREATE FUNCTION cidlink_recv(internal, oid, int4) RETURNS cidlink
	AS 'MODULE_PATHNAME', 'atp_pg_cidlink_recv' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION cidlink_recv(internal, oid, int4) IS 'I/O';

CREATE FUNCTION cidlink_send(cidlink) RETURNS bytea
	AS 'byteasend' LANGUAGE internal
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION cidlink_send(cidlink) IS 'I/O';

CREATE FUNCTION cidlink_typmod_in(cstring[]) RETURNS int4
	AS 'MODULE_PATHNAME', 'atp_pg_cidlink_typmod_in' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION cidlink_typmod_in(cstring[]) IS 'I/O typmod';

CREATE FUNCTION cidlink_typmod_out(int4) RETURNS cstring
	AS 'MODULE_PATHNAME', 'atp_pg_cidlink_typmod_out' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION cidlink_typmod_out(int4) IS 'I/O typmod';

CREATE TYPE cidlink (
	INPUT = cidlink_in,
	OUTPUT = cidlink_out,
	RECEIVE = cidlink_recv,
	SEND = cidlink_send,
	TYPMOD_IN = cidlink_typmod_in,
	TYPMOD_OUT = cidlink_typmod_out,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = main
);
COMMENT ON TYPE cidlink IS 'AT Protocol: content identifier (CIDv1)';

CREATE FUNCTION cidlink(cidlink, int4) RETURNS cidlink
	AS 'MODULE_PATHNAME', 'atp_pg_cidlink_cast' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION cidlink(cidlink, int4) IS 'apply a type modifier';

CREATE CAST (cidlink AS cidlink) WITH FUNCTION cidlink(cidlink, int4) AS IMPLICIT;
COMMENT ON CAST (cidlink AS cidlink) IS 'apply a type modifier';

-- Order and equality: see compare.c.

--@include order_bytes.sql.in TYPE=cidlink
--@include equality.sql.in TYPE=cidlink EQUAL=bytes
--@include operators.sql.in TYPE=cidlink PREFIX=cidlink CLASS=cidlink EQUALIMAGE=btequalimage
--@include text_casts.sql.in TYPE=cidlink

-- Construction and parts.

CREATE FUNCTION cidlink_of(bytea, codec text DEFAULT 'dag-cbor') RETURNS cidlink
	AS 'MODULE_PATHNAME', 'atp_pg_cidlink_of' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION cidlink_of(bytea, text) IS 'the CID of a block';

CREATE FUNCTION cidlink_codec(cidlink) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_cidlink_codec' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION cidlink_codec(cidlink) IS 'the codec by name: dag-cbor, raw, ...';

CREATE FUNCTION cidlink_digest(cidlink) RETURNS bytea
	AS 'MODULE_PATHNAME', 'atp_pg_cidlink_digest' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION cidlink_digest(cidlink) IS 'the bytes of the hash';

CREATE FUNCTION cidlink_is_blessed(cidlink) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_cidlink_is_blessed' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION cidlink_is_blessed(cidlink) IS 'has the CID the form that the AT Protocol prescribes?';

CREATE FUNCTION is_cid_syntax(text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_is_cid_syntax' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION is_cid_syntax(text) IS 'does the text look like a CID (loose rule of the Lexicon format "cid")?';

-- Casts: the value is the binary CID.

CREATE FUNCTION cidlink(bytea) RETURNS cidlink
	AS 'MODULE_PATHNAME', 'atp_pg_cidlink_of_bytea' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION cidlink(bytea) IS 'the bytes as a CID';

CREATE CAST (cidlink AS bytea) WITHOUT FUNCTION AS ASSIGNMENT;
COMMENT ON CAST (cidlink AS bytea) IS 'the binary CID';

CREATE CAST (bytea AS cidlink) WITH FUNCTION cidlink(bytea);
COMMENT ON CAST (bytea AS cidlink) IS 'the bytes as a CID';

