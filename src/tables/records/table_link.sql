/*
 * src/tables/records: links between records.
 */

CREATE FUNCTION atproto.link_fits(target @extschema@.aturi, rkey @extschema@.recordkey, did @extschema@.did) RETURNS boolean
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME', 'atp_link_fits_sql';
COMMENT ON FUNCTION atproto.link_fits(@extschema@.aturi, @extschema@.recordkey, @extschema@.did) IS 'can a link from this record to this target be a row of the table link, whose primary key has all three values? Links that are too long are left out';

CREATE FUNCTION atproto.stored_links(value jsonb, did @extschema@.did, collection @extschema@.nsid, rkey @extschema@.recordkey, OUT path text, OUT target @extschema@.aturi) RETURNS SETOF record
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE ROWS 2 AS 'MODULE_PATHNAME', 'atp_pg_record_links';
COMMENT ON FUNCTION atproto.stored_links(jsonb, @extschema@.did, @extschema@.nsid, @extschema@.recordkey) IS 'as record_links(), of the value of a row of the table record with this key';
CREATE FUNCTION atproto.stored_links(value @extschema@.dagcbor, did @extschema@.did, collection @extschema@.nsid, rkey @extschema@.recordkey, OUT path text, OUT target @extschema@.aturi) RETURNS SETOF record
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE ROWS 2 AS 'MODULE_PATHNAME', 'atp_pg_stored_links_packed';
COMMENT ON FUNCTION atproto.stored_links(@extschema@.dagcbor, @extschema@.did, @extschema@.nsid, @extschema@.recordkey) IS 'as record_links(), of the value of a row of the table record with this key; a damaged value is a warning with the key, and has no links';
CREATE FUNCTION atproto.stored_links(raw bytea, did @extschema@.did, collection @extschema@.nsid, rkey @extschema@.recordkey, OUT path text, OUT target @extschema@.aturi) RETURNS SETOF record
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE ROWS 2 AS 'MODULE_PATHNAME', 'atp_pg_stored_links_raw';
COMMENT ON FUNCTION atproto.stored_links(bytea, @extschema@.did, @extschema@.nsid, @extschema@.recordkey) IS 'as dagcbor_links(), of the column raw of a row of the table record with this key; bytes that are no DAG-CBOR are a warning with the key, and have the links before the fault';

CREATE FUNCTION atproto.link_problems(
    target name DEFAULT 'atproto',
    OUT problem text, OUT target @extschema@.aturi, OUT source integer, OUT rkey @extschema@.recordkey, OUT did @extschema@.did
) RETURNS SETOF record
    LANGUAGE c STABLE STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_link_problems';
COMMENT ON FUNCTION atproto.link_problems(name) IS 'differences between the table link and the table record: links that are missing, extra (no record has the link), or unwanted (outside of the links option of all subscriptions that fill the table); reads both tables';
CREATE FUNCTION atproto.rebuild_links(
    target name DEFAULT 'atproto', OUT added bigint, OUT removed bigint
) RETURNS record
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_rebuild_links';
COMMENT ON FUNCTION atproto.rebuild_links(name) IS 'make the table link agree with the table record, as the owner of the table; sessions that write links wait meanwhile, sessions that read links do not';

CREATE FUNCTION atproto.count_links(
    sources text[], target name DEFAULT 'atproto'
) RETURNS void
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_count_links';
COMMENT ON FUNCTION atproto.count_links(text[], name) IS 'keep the number of links to each target in the table link_count, for these sources ("collection:path") and no others; the links that exist are counted at once, as the owner of the table link; sessions that write links wait meanwhile, sessions that read links do not. Experimental.';

-- Look-ups of backlinks.  The functions run with the caller's privileges on the tables.
CREATE FUNCTION atproto.backlinks(
    target @extschema@.aturi, source text, max integer DEFAULT 50, after @extschema@.aturi DEFAULT NULL, tables name DEFAULT 'atproto',
    OUT uri @extschema@.aturi, OUT did @extschema@.did, OUT rkey @extschema@.recordkey
) RETURNS SETOF record
    LANGUAGE c STABLE ROWS 50 SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_backlinks';
COMMENT ON FUNCTION atproto.backlinks(@extschema@.aturi, text, integer, @extschema@.aturi, name) IS 'records that link to target from source ("collection:path"), the newest record key first; after: the last record of the previous page; tables: the schema of the table link';
CREATE FUNCTION atproto.backlink_count(
    target @extschema@.aturi, source text, tables name DEFAULT 'atproto'
) RETURNS bigint
    LANGUAGE c STABLE SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_backlink_count';
COMMENT ON FUNCTION atproto.backlink_count(@extschema@.aturi, text, name) IS 'number of records that link to target from source ("collection:path"); for a source of count_links() without reading the links';
CREATE FUNCTION atproto.backlink_dids(
    target @extschema@.aturi, source text, max integer DEFAULT 50, after @extschema@.did DEFAULT NULL, tables name DEFAULT 'atproto',
    OUT did @extschema@.did
) RETURNS SETOF @extschema@.did
    LANGUAGE c STABLE ROWS 50 SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_backlink_dids';
COMMENT ON FUNCTION atproto.backlink_dids(@extschema@.aturi, text, integer, @extschema@.did, name) IS 'accounts that link to target from source ("collection:path"), each account once, in the order of the DIDs; after: the last account of the previous page';

REVOKE ALL ON FUNCTION
    atproto.link_problems(name), atproto.rebuild_links(name), atproto.count_links(text[], name),
    atproto.backlinks(@extschema@.aturi, text, integer, @extschema@.aturi, name), atproto.backlink_count(@extschema@.aturi, text, name),
    atproto.backlink_dids(@extschema@.aturi, text, integer, @extschema@.did, name)
    FROM PUBLIC;
