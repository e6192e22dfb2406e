-- aturi: AT URIs (uri.c, aturi.c, uri_support.c)

CREATE TYPE aturi;

CREATE FUNCTION aturi_in(cstring, oid, int4) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_in' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION aturi_in(cstring, oid, int4) IS 'I/O';

CREATE FUNCTION aturi_out(aturi) RETURNS cstring
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_out' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION aturi_out(aturi) IS 'I/O';

CREATE FUNCTION aturi_recv(internal, oid, int4) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_recv' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION aturi_recv(internal, oid, int4) IS 'I/O';

CREATE FUNCTION aturi_send(aturi) RETURNS bytea
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_send' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION aturi_send(aturi) IS 'I/O';

CREATE FUNCTION aturi_typmod_in(cstring[]) RETURNS int4
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_typmod_in' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION aturi_typmod_in(cstring[]) IS 'I/O typmod';

CREATE FUNCTION aturi_typmod_out(int4) RETURNS cstring
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_typmod_out' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION aturi_typmod_out(int4) IS 'I/O typmod';

CREATE TYPE aturi (
	INPUT = aturi_in,
	OUTPUT = aturi_out,
	RECEIVE = aturi_recv,
	SEND = aturi_send,
	TYPMOD_IN = aturi_typmod_in,
	TYPMOD_OUT = aturi_typmod_out,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = extended
);
COMMENT ON TYPE aturi IS 'AT URI';

CREATE FUNCTION aturi(aturi, int4) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_cast' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION aturi(aturi, int4) IS 'apply a type modifier';

CREATE CAST (aturi AS aturi) WITH FUNCTION aturi(aturi, int4) AS IMPLICIT;
COMMENT ON CAST (aturi AS aturi) IS 'apply a type modifier';

-- Order and equality: see compare.c.

--@include order_own.sql.in aturi uri
--@include operators.sql.in aturi

-- Parts; NULL when absent, or not of the type.

CREATE FUNCTION aturi_authority(aturi) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_authority' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_authority(aturi) IS 'the authority';

CREATE FUNCTION aturi_authority_kind(aturi) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_authority_kind' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_authority_kind(aturi) IS 'what the authority is: did, handle';

CREATE FUNCTION aturi_path(aturi) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_path' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_path(aturi) IS 'the path, with its leading slash';

CREATE FUNCTION aturi_query(aturi) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_query' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_query(aturi) IS 'the query, without "?"';

CREATE FUNCTION aturi_fragment(aturi) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_fragment' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_fragment(aturi) IS 'the fragment, without "#"';

CREATE FUNCTION aturi_segments(aturi) RETURNS text[]
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_segments' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_segments(aturi) IS 'the segments of the path';

CREATE FUNCTION aturi_pointer(aturi) RETURNS text[]
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_pointer' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_pointer(aturi) IS 'the fragment as the decoded tokens of a JSON Pointer';

CREATE FUNCTION aturi_collection(aturi) RETURNS nsid
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_collection' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_collection(aturi) IS 'the collection';

CREATE FUNCTION aturi_rkey(aturi) RETURNS recordkey
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_rkey' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_rkey(aturi) IS 'the record key';

CREATE FUNCTION aturi_tid(aturi) RETURNS atproto.tid
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_tid' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_tid(aturi) IS 'the TID that the record key is';

CREATE FUNCTION aturi_strip(aturi) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_strip' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_strip(aturi) IS 'the URI without query and fragment';

CREATE FUNCTION aturi_repo(aturi) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_repo' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_repo(aturi) IS 'the URI of the repository: only the authority';

CREATE FUNCTION aturi_kind(aturi) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_kind' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_kind(aturi) IS 'what the URI names: repo, collection, record';

-- Levels of validity.

CREATE FUNCTION aturi_is_lexicon(aturi) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_is_lexicon' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_is_lexicon(aturi) IS 'is it valid in lexicons?';

CREATE FUNCTION aturi_is_strict(aturi) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_is_strict' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION aturi_is_strict(aturi) IS 'is it valid in the strictest reading: normalized as well?';

CREATE FUNCTION aturi_is_record(aturi) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_is_record' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_is_record(aturi) IS 'does it name a record: stable authority, collection and record key?';

-- Normal form.

CREATE FUNCTION aturi_normalize(aturi) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_normalize' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION aturi_normalize(aturi) IS 'the normal form';

CREATE FUNCTION aturi_normalize(text) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_normalize_text' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION aturi_normalize(text) IS 'the normal form of liberal text: AT://..., doubled or trailing slashes';

CREATE FUNCTION aturi_equivalent(aturi, aturi) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_equivalent' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION aturi_equivalent(aturi, aturi) IS 'implementation of ~= operator';

CREATE OPERATOR ~ (
	FUNCTION = aturi_normalize,
	RIGHTARG = aturi
);
COMMENT ON OPERATOR ~ (NONE, aturi) IS 'the normal form';

CREATE OPERATOR ~= (
	FUNCTION = aturi_equivalent,
	LEFTARG = aturi,
	RIGHTARG = aturi,
	COMMUTATOR = ~=,
	RESTRICT = eqsel,
	JOIN = eqjoinsel
);
COMMENT ON OPERATOR ~= (aturi, aturi) IS 'equal after normalization';

-- Parts of this scheme, and construction.

CREATE FUNCTION aturi_did(aturi) RETURNS did
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_did' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION aturi_did(aturi) IS 'the authority when it is a DID';

CREATE FUNCTION aturi_handle(aturi) RETURNS handle
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_handle' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_handle(aturi) IS 'the authority when it is a handle';

CREATE FUNCTION aturi(did) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_of_did' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION aturi(did) IS 'the URI of a repository';

CREATE FUNCTION aturi(did, nsid) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_of_did' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION aturi(did, nsid) IS 'the URI of a collection';

CREATE FUNCTION aturi(did, nsid, recordkey) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_of_did' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION aturi(did, nsid, recordkey) IS 'the URI of a record';

CREATE CAST (did AS aturi) WITH FUNCTION aturi(did) AS ASSIGNMENT;
COMMENT ON CAST (did AS aturi) IS 'the URI of the repository';

CREATE FUNCTION aturi(handle) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_of_handle' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION aturi(handle) IS 'the URI of a repository';

CREATE FUNCTION aturi(handle, nsid) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_of_handle' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION aturi(handle, nsid) IS 'the URI of a collection';

CREATE FUNCTION aturi(handle, nsid, recordkey) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_of_handle' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION aturi(handle, nsid, recordkey) IS 'the URI of a record';

CREATE CAST (handle AS aturi) WITH FUNCTION aturi(handle) AS ASSIGNMENT;
COMMENT ON CAST (handle AS aturi) IS 'the URI of the repository';

-- What lies inside what: see uri_support.c.

CREATE FUNCTION aturi_upper_bound(aturi) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_upper_bound' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION aturi_upper_bound(aturi) IS 'a bound that no URI inside this one exceeds';

CREATE FUNCTION aturi_inside_support(internal) RETURNS internal
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_inside_support' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION aturi_inside_support(internal) IS 'planner support: an index range for <@ and @>';

CREATE FUNCTION aturi_inside_sel(internal, oid, internal, int4) RETURNS float8
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_inside_sel' LANGUAGE C
	STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION aturi_inside_sel(internal, oid, internal, int4) IS 'restriction selectivity of <@ and @>';

CREATE FUNCTION aturi_inside(aturi, aturi) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_uri_inside' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE SUPPORT aturi_inside_support;
COMMENT ON FUNCTION aturi_inside(aturi, aturi) IS 'implementation of <@ operator';

CREATE FUNCTION aturi_contains(aturi, aturi) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_uri_contains' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE SUPPORT aturi_inside_support;
COMMENT ON FUNCTION aturi_contains(aturi, aturi) IS 'implementation of @> operator';

CREATE OPERATOR <@ (
	FUNCTION = aturi_inside,
	LEFTARG = aturi,
	RIGHTARG = aturi,
	COMMUTATOR = @>,
	RESTRICT = aturi_inside_sel,
	JOIN = contjoinsel
);
COMMENT ON OPERATOR <@ (aturi, aturi) IS 'is it, or is inside it';

CREATE OPERATOR @> (
	FUNCTION = aturi_contains,
	LEFTARG = aturi,
	RIGHTARG = aturi,
	COMMUTATOR = <@,
	RESTRICT = aturi_inside_sel,
	JOIN = contjoinsel
);
COMMENT ON OPERATOR @> (aturi, aturi) IS 'is it, or contains it';

CREATE FUNCTION aturi_inside(aturi, did) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_uri_inside' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE SUPPORT aturi_inside_support;
COMMENT ON FUNCTION aturi_inside(aturi, did) IS 'implementation of <@ operator';

CREATE FUNCTION aturi_contains(did, aturi) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_uri_contains' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE SUPPORT aturi_inside_support;
COMMENT ON FUNCTION aturi_contains(did, aturi) IS 'implementation of @> operator';

CREATE OPERATOR <@ (
	FUNCTION = aturi_inside,
	LEFTARG = aturi,
	RIGHTARG = did,
	COMMUTATOR = @>,
	RESTRICT = aturi_inside_sel,
	JOIN = contjoinsel
);
COMMENT ON OPERATOR <@ (aturi, did) IS 'is it, or is inside it';

CREATE OPERATOR @> (
	FUNCTION = aturi_contains,
	LEFTARG = did,
	RIGHTARG = aturi,
	COMMUTATOR = <@,
	RESTRICT = aturi_inside_sel,
	JOIN = contjoinsel
);
COMMENT ON OPERATOR @> (did, aturi) IS 'is it, or contains it';

-- A reference to one version of a record (A-41).

CREATE TYPE strongref AS (uri aturi, cid cidlink);
COMMENT ON TYPE strongref IS 'AT Protocol: a record in one version';
COMMENT ON COLUMN strongref.uri IS 'the record';
COMMENT ON COLUMN strongref.cid IS 'the version: its content identifier';

