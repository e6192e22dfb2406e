-- aturi: AT URIs (type_uri.c, type_aturi.c, uri_support.c)

--@include type_modified.sql.in TYPE=aturi STORAGE=extended
COMMENT ON TYPE aturi IS 'AT URI';

-- Order and equality: see compare.c.

--@include order_own.sql.in TYPE=aturi ORDER=uri
--@include equality.sql.in TYPE=aturi EQUAL=bytes
--@include operators.sql.in TYPE=aturi PREFIX=aturi CLASS=aturi EQUALIMAGE=btequalimage
--@include text_casts.sql.in TYPE=aturi

--@include type_uri.sql.in TYPE=aturi SCHEME=AT

-- Parts of this scheme.

CREATE FUNCTION aturi_authority_kind(aturi) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_authority_kind' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_authority_kind(aturi) IS 'the kind of the authority: did, handle';

CREATE FUNCTION aturi_did(aturi) RETURNS did
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_did' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION aturi_did(aturi) IS 'the authority when it is a DID';

CREATE FUNCTION aturi_handle(aturi) RETURNS handle
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_handle' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_handle(aturi) IS 'the authority when it is a handle';

COMMENT ON FUNCTION aturi_kind(aturi) IS 'the kind of thing that the URI names: repo, collection, record, space, space record';

-- Parts of the URIs of spaces.

CREATE FUNCTION aturi_space(aturi) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_space' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_space(aturi) IS 'the URI of the space, when the URI is of a space (permissioned data) or of a record in one';

CREATE FUNCTION aturi_space_type(aturi) RETURNS nsid
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_space_type' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_space_type(aturi) IS 'the type of the space, when the URI is of a space or of a record in one';

CREATE FUNCTION aturi_space_skey(aturi) RETURNS recordkey
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_space_skey' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_space_skey(aturi) IS 'the key of the space, when the URI is of a space or of a record in one';

CREATE FUNCTION aturi_space_author(aturi) RETURNS did
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_space_author' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_space_author(aturi) IS 'the author, when the URI is of a record in a space';

CREATE FUNCTION aturi_space_collection(aturi) RETURNS nsid
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_space_collection' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_space_collection(aturi) IS 'the collection, when the URI is of a record in a space';

CREATE FUNCTION aturi_space_rkey(aturi) RETURNS recordkey
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_space_rkey' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION aturi_space_rkey(aturi) IS 'the record key, when the URI is of a record in a space';

-- Construction.

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

-- A literal could be a DID or a handle: functions of text accept both.

CREATE FUNCTION aturi(authority text, nsid) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_of_text' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION aturi(text, nsid) IS 'the URI of a collection';

-- (Two literals need this function: aturi(aturi, int4), the cast of the type modifier, also matches them.)
CREATE FUNCTION aturi(authority text, collection text) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_of_texts' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION aturi(text, text) IS 'the URI of a collection';

CREATE FUNCTION aturi(authority text, nsid, recordkey) RETURNS aturi
	AS 'MODULE_PATHNAME', 'atp_pg_aturi_of_text' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION aturi(text, nsid, recordkey) IS 'the URI of a record';

-- What lies inside a repository: see uri_support.c.

CREATE FUNCTION aturi_inside(aturi, did) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_uri_inside' LANGUAGE C
	IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE SUPPORT aturi_inside_support;
COMMENT ON FUNCTION aturi_inside(aturi, did) IS 'is the URI in the repository of the account? The operator <@';

CREATE FUNCTION aturi_contains(did, aturi) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_uri_contains' LANGUAGE C
	IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE SUPPORT aturi_inside_support;
COMMENT ON FUNCTION aturi_contains(did, aturi) IS 'is the URI in the repository of the account? The operator @>';

CREATE OPERATOR <@ (
	FUNCTION = aturi_inside,
	LEFTARG = aturi,
	RIGHTARG = did,
	COMMUTATOR = @>,
	RESTRICT = aturi_inside_sel,
	JOIN = contjoinsel
);
COMMENT ON OPERATOR <@ (aturi, did) IS 'is the URI the account''s repository, or inside it';

CREATE OPERATOR @> (
	FUNCTION = aturi_contains,
	LEFTARG = did,
	RIGHTARG = aturi,
	COMMUTATOR = <@,
	RESTRICT = aturi_inside_sel,
	JOIN = contjoinsel
);
COMMENT ON OPERATOR @> (did, aturi) IS 'is the URI the account''s repository, or inside it';

-- A reference to one version of a record (A-41).

CREATE TYPE strongref AS (uri aturi, cid cidlink);
COMMENT ON TYPE strongref IS 'AT Protocol: a record in one version';
COMMENT ON COLUMN strongref.uri IS 'the record';
COMMENT ON COLUMN strongref.cid IS 'the version: the record''s content identifier';

