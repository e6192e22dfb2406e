/*
 * src/lexicon: what records of a collection are made of, as its Lexicon document says.
 */

-- What comes with the extension stands apart from what was loaded: an update of the
-- extension replaces the one, a dump has the other, and what was loaded counts.
CREATE TABLE atproto.lexicon_bundled (
    id @extschema@.nsid PRIMARY KEY,
    doc jsonb NOT NULL
);
COMMENT ON TABLE atproto.lexicon_bundled IS 'Lexicons that come with the extension; atproto.lexicon has them and those that were loaded';
COMMENT ON COLUMN atproto.lexicon_bundled.id IS 'its NSID';
COMMENT ON COLUMN atproto.lexicon_bundled.doc IS 'the document';
CREATE TABLE atproto.lexicon_loaded (
    id @extschema@.nsid PRIMARY KEY,
    doc jsonb NOT NULL
        CHECK (doc ->> 'id' = id::text),
    did @extschema@.did,
    cid @extschema@.cidlink,
    indexed_at timestamptz,
    loaded_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE atproto.lexicon_loaded IS 'Lexicons that were loaded; atproto.load_lexicon() and its siblings write it';
COMMENT ON COLUMN atproto.lexicon_loaded.did IS 'the account that published it; NULL: the document was given';
COMMENT ON COLUMN atproto.lexicon_loaded.cid IS 'of that account''s record';
COMMENT ON COLUMN atproto.lexicon_loaded.indexed_at IS 'of that record';
COMMENT ON COLUMN atproto.lexicon_loaded.id IS 'its NSID';
COMMENT ON COLUMN atproto.lexicon_loaded.doc IS 'the document';
COMMENT ON COLUMN atproto.lexicon_loaded.loaded_at IS 'when it was loaded';
SELECT pg_catalog.pg_extension_config_dump('atproto.lexicon_loaded', '');

CREATE VIEW atproto.lexicon AS
    SELECT id, doc, CASE WHEN did IS NULL THEN 'loaded' ELSE 'published' END AS source, did, cid, indexed_at
    FROM atproto.lexicon_loaded
    UNION ALL
    SELECT id, doc, 'bundled', NULL, NULL, NULL
    FROM atproto.lexicon_bundled b
    WHERE NOT EXISTS (SELECT FROM atproto.lexicon_loaded l WHERE l.id OPERATOR(@extschema@.=) b.id);
COMMENT ON VIEW atproto.lexicon IS 'the Lexicons that are known, each once: that which was loaded, else that which comes with the extension';
COMMENT ON COLUMN atproto.lexicon.source IS 'bundled: comes with the extension; loaded: the document was given; published: a record of the account did';

-- Lexicons are public; who is granted writing may write.
ALTER TABLE atproto.lexicon_bundled ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON atproto.lexicon_bundled USING (true);
ALTER TABLE atproto.lexicon_loaded ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON atproto.lexicon_loaded USING (true);
GRANT SELECT ON atproto.lexicon_bundled, atproto.lexicon_loaded, atproto.lexicon TO PUBLIC;

CREATE FUNCTION atproto.load_lexicon(doc jsonb, replace boolean DEFAULT false) RETURNS @extschema@.nsid
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_load_lexicon';
COMMENT ON FUNCTION atproto.load_lexicon(jsonb, boolean) IS 'take a Lexicon document into atproto.lexicon; replace: also in the place of another one of this id';
CREATE FUNCTION atproto.unload_lexicon(id @extschema@.nsid) RETURNS void
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_unload_lexicon';
COMMENT ON FUNCTION atproto.unload_lexicon(@extschema@.nsid) IS 'forget a Lexicon that was loaded: the one that comes with the extension, if there is one, counts again';
CREATE FUNCTION atproto.load_published(
    did @extschema@.did, pattern text, target name DEFAULT 'atproto', replace boolean DEFAULT false,
    OUT id @extschema@.nsid, OUT outcome text
) RETURNS SETOF record
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_load_published';
COMMENT ON FUNCTION atproto.load_published(@extschema@.did, text, name, boolean) IS 'take the Lexicons that an account has published, of names that match, out of a target''s records; that it may speak for them is for the caller to know. outcome: new, replaced, same, or why it was refused; replace: also in the place of those that others published, were given, or come with the extension';
REVOKE ALL ON FUNCTION atproto.load_lexicon(jsonb, boolean), atproto.unload_lexicon(@extschema@.nsid),
    atproto.load_published(@extschema@.did, text, name, boolean) FROM PUBLIC;

-- The type is named by a null of it, so that one function serves all.
CREATE FUNCTION atproto.record_field(value jsonb, path text[], type anyelement) RETURNS anyelement
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'atp_record_field';
COMMENT ON FUNCTION atproto.record_field(jsonb, text[], anyelement) IS 'what stands in a record under these names, as a value of the type of the third argument; NULL where it is none, in arrays element by element';

CREATE FUNCTION atproto.create_view(
    collection @extschema@.nsid, lexicon jsonb DEFAULT NULL, target name DEFAULT 'atproto', schema name DEFAULT NULL, view name DEFAULT NULL,
    active boolean DEFAULT NULL
) RETURNS regclass
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_create_view';
COMMENT ON FUNCTION atproto.create_view(@extschema@.nsid, jsonb, name, name, name, boolean) IS 'make a view of a target''s records of a collection, with a column for each field that its Lexicon describes, or add columns to it; schema: of the view, NULL: the target''s; active: only of active repositories, NULL: as it is, false when it is new';
REVOKE ALL ON FUNCTION atproto.create_view(@extschema@.nsid, jsonb, name, name, name, boolean) FROM PUBLIC;
