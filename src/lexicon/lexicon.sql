/*
 * src/lexicon: what records of a collection are made of, as its Lexicon document says.
 */

-- Bundled and loaded Lexicons have separate tables: an update of the extension replaces the bundled
-- ones, and a dump contains only the loaded ones.  A loaded Lexicon takes precedence.
CREATE TABLE atproto.lexicon_bundled (
    id @extschema@.nsid PRIMARY KEY,
    doc jsonb NOT NULL
);
COMMENT ON TABLE atproto.lexicon_bundled IS 'Lexicons that come with the extension; the view atproto.lexicon also has the loaded Lexicons';
COMMENT ON COLUMN atproto.lexicon_bundled.id IS 'NSID of the Lexicon';
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
COMMENT ON TABLE atproto.lexicon_loaded IS 'loaded Lexicons; written by atproto.load_lexicon(), load_published() and unload_lexicon()';
COMMENT ON COLUMN atproto.lexicon_loaded.did IS 'the account that published the Lexicon; NULL: the document was given to load_lexicon()';
COMMENT ON COLUMN atproto.lexicon_loaded.cid IS 'CID of the account''s record';
COMMENT ON COLUMN atproto.lexicon_loaded.indexed_at IS 'indexed_at of the account''s record';
COMMENT ON COLUMN atproto.lexicon_loaded.id IS 'NSID of the Lexicon';
COMMENT ON COLUMN atproto.lexicon_loaded.doc IS 'the document';
COMMENT ON COLUMN atproto.lexicon_loaded.loaded_at IS 'when the Lexicon was loaded';
SELECT pg_catalog.pg_extension_config_dump('atproto.lexicon_loaded', '');

CREATE VIEW atproto.lexicon AS
    SELECT id, doc, CASE WHEN did IS NULL THEN 'loaded' ELSE 'published' END AS source, did, cid, indexed_at
    FROM atproto.lexicon_loaded
    UNION ALL
    SELECT id, doc, 'bundled', NULL, NULL, NULL
    FROM atproto.lexicon_bundled b
    WHERE NOT EXISTS (SELECT FROM atproto.lexicon_loaded l WHERE l.id OPERATOR(@extschema@.=) b.id);
COMMENT ON VIEW atproto.lexicon IS 'the known Lexicons, each once: the loaded document, or else the document that comes with the extension';
COMMENT ON COLUMN atproto.lexicon.source IS 'bundled: comes with the extension; loaded: given to load_lexicon(); published: loaded from a record of the account';

-- Lexicons are public: every role may read them.  A role needs a grant to write them.
ALTER TABLE atproto.lexicon_bundled ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON atproto.lexicon_bundled USING (true);
ALTER TABLE atproto.lexicon_loaded ENABLE ROW LEVEL SECURITY;
CREATE POLICY everybody ON atproto.lexicon_loaded USING (true);
GRANT SELECT ON atproto.lexicon_bundled, atproto.lexicon_loaded, atproto.lexicon TO PUBLIC;

CREATE FUNCTION atproto.load_lexicon(doc jsonb, replace boolean DEFAULT false) RETURNS @extschema@.nsid
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_load_lexicon';
COMMENT ON FUNCTION atproto.load_lexicon(jsonb, boolean) IS 'load a Lexicon document into atproto.lexicon; replace: also if another document with this id is known';
CREATE FUNCTION atproto.unload_lexicon(id @extschema@.nsid) RETURNS void
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_unload_lexicon';
COMMENT ON FUNCTION atproto.unload_lexicon(@extschema@.nsid) IS 'remove a loaded Lexicon; a Lexicon of this name that comes with the extension takes effect again';
CREATE FUNCTION atproto.load_published(
    did @extschema@.did, pattern text, target name DEFAULT 'atproto', replace boolean DEFAULT false,
    OUT id @extschema@.nsid, OUT outcome text
) RETURNS SETOF record
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_load_published';
COMMENT ON FUNCTION atproto.load_published(@extschema@.did, text, name, boolean) IS 'load the Lexicons that an account has published under matching names, from a target''s records; the caller must make sure that the account may define these names. outcome: new, replaced, same, or why the Lexicon was refused; replace: also if the known Lexicon is another account''s, was given, or comes with the extension';
REVOKE ALL ON FUNCTION atproto.load_lexicon(jsonb, boolean), atproto.unload_lexicon(@extschema@.nsid),
    atproto.load_published(@extschema@.did, text, name, boolean) FROM PUBLIC;

-- The third argument, a null, names the type, so that one function serves all types.
CREATE FUNCTION atproto.record_field(value jsonb, path text[], type anyelement) RETURNS anyelement
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'atp_record_field';
COMMENT ON FUNCTION atproto.record_field(jsonb, text[], anyelement) IS 'the value under these names in a record, as the type of the third argument; NULL if the value does not fit this type, in arrays element by element';
CREATE FUNCTION atproto.record_field(value @extschema@.dagcbor, path text[], type anyelement) RETURNS anyelement
    LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'atp_record_field_packed';
COMMENT ON FUNCTION atproto.record_field(@extschema@.dagcbor, text[], anyelement) IS 'as record_field(jsonb, text[], anyelement); NULL also if jsonb cannot hold the value';
CREATE FUNCTION atproto.record_field(value text, path text[], type anyelement) RETURNS anyelement
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
    AS 'SELECT atproto.record_field($1::jsonb, $2, $3)';
COMMENT ON FUNCTION atproto.record_field(text, text[], anyelement) IS 'as record_field(jsonb, text[], anyelement), of a record as JSON: a literal, and a parameter without a type, is a text here';

CREATE FUNCTION atproto.create_view(
    collection @extschema@.nsid, lexicon jsonb DEFAULT NULL, target name DEFAULT 'atproto', schema name DEFAULT NULL, view name DEFAULT NULL,
    active boolean DEFAULT NULL
) RETURNS regclass
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_create_view';
COMMENT ON FUNCTION atproto.create_view(@extschema@.nsid, jsonb, name, name, name, boolean) IS 'make a view of a target''s records of a collection, with a column for each field that the collection''s Lexicon describes, or add columns to an existing view; schema: of the view, NULL: the target''s; active: only of active repositories, NULL: unchanged, false for a new view';
REVOKE ALL ON FUNCTION atproto.create_view(@extschema@.nsid, jsonb, name, name, name, boolean) FROM PUBLIC;
