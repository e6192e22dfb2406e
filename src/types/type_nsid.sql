-- nsid: namespaced identifiers (type_nsid.c)

--@include type_plain.sql.in TYPE=nsid
COMMENT ON TYPE nsid IS 'AT Protocol: namespaced identifier, the name of a collection or lexicon';

-- Order: see compare.c.  Equality: see type_nsid.c.

--@include order_own.sql.in TYPE=nsid ORDER=nsid
--@include equality.sql.in TYPE=nsid EQUAL=nsid
CREATE FUNCTION nsid_equalimage(oid) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_nsid_equalimage' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION nsid_equalimage(oid) IS 'false: equal values may be stored differently, so no deduplication';

--@include operators.sql.in TYPE=nsid PREFIX=nsid CLASS=nsid EQUALIMAGE=nsid_equalimage
--@include text_casts.sql.in TYPE=nsid

-- Parts, normal form, patterns.

CREATE FUNCTION nsid_authority(nsid) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_nsid_authority' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION nsid_authority(nsid) IS 'the authority as a domain name, in DNS order';

CREATE FUNCTION nsid_name(nsid) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_nsid_name' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION nsid_name(nsid) IS 'the last segment';

CREATE FUNCTION nsid_authority_is_resolvable(nsid) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_nsid_authority_is_resolvable' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION nsid_authority_is_resolvable(nsid) IS 'is the authority short enough for DNS (253 bytes)?';

CREATE FUNCTION nsid_normalize(nsid) RETURNS nsid
	AS 'MODULE_PATHNAME', 'atp_pg_nsid_normalize' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION nsid_normalize(nsid) IS 'normal form: all but the name in lower case';

CREATE FUNCTION nsid_matches(nsid, pattern text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_nsid_matches' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION nsid_matches(nsid, text) IS 'does the NSID match the pattern: an NSID, app.bsky.* or *?';

