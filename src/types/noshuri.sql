-- noshuri: NOSH URIs (uri.c, noshuri.c, uri_support.c)

CREATE TYPE noshuri;

CREATE FUNCTION noshuri_in(cstring, oid, int4) RETURNS noshuri
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_in' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION noshuri_in(cstring, oid, int4) IS 'I/O';

CREATE FUNCTION noshuri_out(noshuri) RETURNS cstring
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_out' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION noshuri_out(noshuri) IS 'I/O';

CREATE FUNCTION noshuri_recv(internal, oid, int4) RETURNS noshuri
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_recv' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION noshuri_recv(internal, oid, int4) IS 'I/O';

CREATE FUNCTION noshuri_send(noshuri) RETURNS bytea
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_send' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION noshuri_send(noshuri) IS 'I/O';

CREATE FUNCTION noshuri_typmod_in(cstring[]) RETURNS int4
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_typmod_in' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION noshuri_typmod_in(cstring[]) IS 'I/O typmod';

CREATE FUNCTION noshuri_typmod_out(int4) RETURNS cstring
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_typmod_out' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION noshuri_typmod_out(int4) IS 'I/O typmod';

CREATE TYPE noshuri (
	INPUT = noshuri_in,
	OUTPUT = noshuri_out,
	RECEIVE = noshuri_recv,
	SEND = noshuri_send,
	TYPMOD_IN = noshuri_typmod_in,
	TYPMOD_OUT = noshuri_typmod_out,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = extended
);
COMMENT ON TYPE noshuri IS 'NOSH URI';

CREATE FUNCTION noshuri(noshuri, int4) RETURNS noshuri
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_cast' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION noshuri(noshuri, int4) IS 'apply a type modifier';

CREATE CAST (noshuri AS noshuri) WITH FUNCTION noshuri(noshuri, int4) AS IMPLICIT;
COMMENT ON CAST (noshuri AS noshuri) IS 'apply a type modifier';

-- Order and equality: see compare.c.

--@include order_own.sql.in noshuri uri
--@include operators.sql.in noshuri

-- Parts; NULL when absent, or not of the type.

CREATE FUNCTION noshuri_authority(noshuri) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_authority' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_authority(noshuri) IS 'the authority';

CREATE FUNCTION noshuri_authority_kind(noshuri) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_authority_kind' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_authority_kind(noshuri) IS 'what the authority is: address, agent, name';

CREATE FUNCTION noshuri_path(noshuri) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_path' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_path(noshuri) IS 'the path, with its leading slash';

CREATE FUNCTION noshuri_query(noshuri) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_query' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_query(noshuri) IS 'the query, without "?"';

CREATE FUNCTION noshuri_fragment(noshuri) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_fragment' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_fragment(noshuri) IS 'the fragment, without "#"';

CREATE FUNCTION noshuri_segments(noshuri) RETURNS text[]
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_segments' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_segments(noshuri) IS 'the segments of the path';

CREATE FUNCTION noshuri_pointer(noshuri) RETURNS text[]
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_pointer' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_pointer(noshuri) IS 'the fragment as the decoded tokens of a JSON Pointer';

CREATE FUNCTION noshuri_collection(noshuri) RETURNS nsid
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_collection' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_collection(noshuri) IS 'the collection';

CREATE FUNCTION noshuri_rkey(noshuri) RETURNS recordkey
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_rkey' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_rkey(noshuri) IS 'the record key';

CREATE FUNCTION noshuri_tid(noshuri) RETURNS atproto.tid
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_tid' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_tid(noshuri) IS 'the TID that the record key is';

CREATE FUNCTION noshuri_strip(noshuri) RETURNS noshuri
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_strip' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_strip(noshuri) IS 'the URI without query and fragment';

CREATE FUNCTION noshuri_repo(noshuri) RETURNS noshuri
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_repo' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_repo(noshuri) IS 'the URI of the repository: only the authority';

CREATE FUNCTION noshuri_kind(noshuri) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_kind' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_kind(noshuri) IS 'what the URI names: repo, collection, record';

-- Levels of validity.

CREATE FUNCTION noshuri_is_lexicon(noshuri) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_is_lexicon' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_is_lexicon(noshuri) IS 'is it valid in lexicons?';

CREATE FUNCTION noshuri_is_strict(noshuri) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_is_strict' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION noshuri_is_strict(noshuri) IS 'is it valid in the strictest reading: normalized as well?';

CREATE FUNCTION noshuri_is_record(noshuri) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_is_record' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_is_record(noshuri) IS 'does it name a record: stable authority, collection and record key?';

-- Normal form.

CREATE FUNCTION noshuri_normalize(noshuri) RETURNS noshuri
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_normalize' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION noshuri_normalize(noshuri) IS 'the normal form';

CREATE FUNCTION noshuri_normalize(text) RETURNS noshuri
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_normalize_text' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION noshuri_normalize(text) IS 'the normal form of liberal text: NOSH://..., doubled or trailing slashes';

CREATE FUNCTION noshuri_equivalent(noshuri, noshuri) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_equivalent' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION noshuri_equivalent(noshuri, noshuri) IS 'implementation of ~= operator';

CREATE OPERATOR ~ (
	FUNCTION = noshuri_normalize,
	RIGHTARG = noshuri
);
COMMENT ON OPERATOR ~ (NONE, noshuri) IS 'the normal form';

CREATE OPERATOR ~= (
	FUNCTION = noshuri_equivalent,
	LEFTARG = noshuri,
	RIGHTARG = noshuri,
	COMMUTATOR = ~=,
	RESTRICT = eqsel,
	JOIN = eqjoinsel
);
COMMENT ON OPERATOR ~= (noshuri, noshuri) IS 'equal after normalization';

-- Authorities of this scheme.

CREATE FUNCTION noshuri_address(noshuri) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_address' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_address(noshuri) IS 'the authority when it is an address';

CREATE FUNCTION noshuri_agent(noshuri) RETURNS numeric
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_agent' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_agent(noshuri) IS 'the authority when it is an agent identifier';

CREATE FUNCTION noshuri_name(noshuri) RETURNS handle
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_name' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_name(noshuri) IS 'the authority when it is a name';

-- What lies inside what: see uri_support.c.

CREATE FUNCTION noshuri_upper_bound(noshuri) RETURNS noshuri
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_upper_bound' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION noshuri_upper_bound(noshuri) IS 'a bound that no URI inside this one exceeds';

CREATE FUNCTION noshuri_inside_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_inside_support' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION noshuri_inside_support(internal) IS 'planner support: an index range for <@ and @>';

CREATE FUNCTION noshuri_inside_sel(internal, oid, internal, int4) RETURNS float8
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_inside_sel' LANGUAGE C
	STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION noshuri_inside_sel(internal, oid, internal, int4) IS 'restriction selectivity of <@ and @>';

CREATE FUNCTION noshuri_inside(noshuri, noshuri) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_uri_inside' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE SUPPORT noshuri_inside_support;
COMMENT ON FUNCTION noshuri_inside(noshuri, noshuri) IS 'implementation of <@ operator';

CREATE FUNCTION noshuri_contains(noshuri, noshuri) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_uri_contains' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE SUPPORT noshuri_inside_support;
COMMENT ON FUNCTION noshuri_contains(noshuri, noshuri) IS 'implementation of @> operator';

CREATE OPERATOR <@ (
	FUNCTION = noshuri_inside,
	LEFTARG = noshuri,
	RIGHTARG = noshuri,
	COMMUTATOR = @>,
	RESTRICT = noshuri_inside_sel,
	JOIN = contjoinsel
);
COMMENT ON OPERATOR <@ (noshuri, noshuri) IS 'is it, or is inside it';

CREATE OPERATOR @> (
	FUNCTION = noshuri_contains,
	LEFTARG = noshuri,
	RIGHTARG = noshuri,
	COMMUTATOR = <@,
	RESTRICT = noshuri_inside_sel,
	JOIN = contjoinsel
);
COMMENT ON OPERATOR @> (noshuri, noshuri) IS 'is it, or contains it';

