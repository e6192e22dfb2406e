/*
 * src/tables: links between records.
 */

CREATE FUNCTION atproto.link_fits(target @extschema@.aturi, rkey @extschema@.recordkey, did @extschema@.did) RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'atp_link_fits_sql';
COMMENT ON FUNCTION atproto.link_fits(@extschema@.aturi, @extschema@.recordkey, @extschema@.did) IS 'can a link of this record to this target be a row of the table link, whose key has them all? Longer ones are left out';

CREATE FUNCTION atproto.link_problems(
    target name DEFAULT 'atproto',
    OUT problem text, OUT target @extschema@.aturi, OUT source integer, OUT rkey @extschema@.recordkey, OUT did @extschema@.did
) RETURNS SETOF record
    LANGUAGE c STABLE STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_link_problems';
COMMENT ON FUNCTION atproto.link_problems(name) IS 'how the table link differs from what the table record says: links that are missing, extra (no record has them), or unwanted (by what the subscriptions that fill the table have as links); reads both tables';
CREATE FUNCTION atproto.rebuild_links(
    target name DEFAULT 'atproto', OUT added bigint, OUT removed bigint
) RETURNS record
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_rebuild_links';
COMMENT ON FUNCTION atproto.rebuild_links(name) IS 'make the table link what the table record says, as its owner; who writes links waits meanwhile, who reads them does not';

-- Who links to something: with the caller's rights on the tables.
CREATE FUNCTION atproto.backlinks(
    target @extschema@.aturi, source text, max integer DEFAULT 50, after @extschema@.aturi DEFAULT NULL, tables name DEFAULT 'atproto',
    OUT uri @extschema@.aturi, OUT did @extschema@.did, OUT rkey @extschema@.recordkey
) RETURNS SETOF record
    LANGUAGE c STABLE ROWS 50 SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_backlinks';
COMMENT ON FUNCTION atproto.backlinks(@extschema@.aturi, text, integer, @extschema@.aturi, name) IS 'records that link to target from source, "collection:path", the newest record key first; after: the last one of the page before; tables: the schema of the table link';
CREATE FUNCTION atproto.backlink_count(
    target @extschema@.aturi, source text, tables name DEFAULT 'atproto'
) RETURNS bigint
    LANGUAGE c STABLE SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_backlink_count';
COMMENT ON FUNCTION atproto.backlink_count(@extschema@.aturi, text, name) IS 'how many records link to target from source, "collection:path"';
CREATE FUNCTION atproto.backlink_dids(
    target @extschema@.aturi, source text, max integer DEFAULT 50, after @extschema@.did DEFAULT NULL, tables name DEFAULT 'atproto',
    OUT did @extschema@.did
) RETURNS SETOF @extschema@.did
    LANGUAGE c STABLE ROWS 50 SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_backlink_dids';
COMMENT ON FUNCTION atproto.backlink_dids(@extschema@.aturi, text, integer, @extschema@.did, name) IS 'accounts that link to target from source, "collection:path", each once, in the order of their DIDs; after: the last one of the page before';

REVOKE ALL ON FUNCTION
    atproto.link_problems(name), atproto.rebuild_links(name),
    atproto.backlinks(@extschema@.aturi, text, integer, @extschema@.aturi, name), atproto.backlink_count(@extschema@.aturi, text, name),
    atproto.backlink_dids(@extschema@.aturi, text, integer, @extschema@.did, name)
    FROM PUBLIC;
