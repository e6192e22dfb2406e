/*
 * src/lexicon: is a record what its Lexicon says, and a Lexicon what the language says?
 */
CREATE FUNCTION atproto.lexicon_check(doc jsonb) RETURNS text
    LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE COST 1000 AS 'MODULE_PATHNAME', 'atp_lexicon_check';
COMMENT ON FUNCTION atproto.lexicon_check(jsonb) IS
    'the first fault of a Lexicon document: one sentence that begins with a JSON pointer to the fault; NULL: valid';
CREATE FUNCTION atproto.lexicon_valid(record jsonb, collection @extschema@.nsid, rkey @extschema@.recordkey DEFAULT NULL) RETURNS text
    LANGUAGE c STABLE PARALLEL SAFE COST 20 AS 'MODULE_PATHNAME', 'atp_lexicon_valid';
COMMENT ON FUNCTION atproto.lexicon_valid(jsonb, @extschema@.nsid, @extschema@.recordkey) IS
    'the first fault of a record by its collection''s Lexicon: one sentence that begins with a JSON pointer to the fault; NULL: valid; an error when atproto.lexicon lacks a Lexicon';
CREATE FUNCTION atproto.lexicon_valid(record jsonb, collection @extschema@.nsid, rkey @extschema@.recordkey, lexicons jsonb) RETURNS text
    LANGUAGE c IMMUTABLE PARALLEL SAFE COST 1000 AS 'MODULE_PATHNAME', 'atp_lexicon_valid_given';
COMMENT ON FUNCTION atproto.lexicon_valid(jsonb, @extschema@.nsid, @extschema@.recordkey, jsonb) IS
    'as lexicon_valid() with three arguments, but by the given Lexicons: a document, or an array of documents';

-- Each process keeps compiled Lexicons: a change makes all processes read the tables again.
CREATE FUNCTION atproto_internal.lexicon_changed() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_lexicon_changed';
COMMENT ON FUNCTION atproto_internal.lexicon_changed() IS 'trigger: makes all processes read the Lexicons again';
REVOKE ALL ON FUNCTION atproto_internal.lexicon_changed() FROM PUBLIC;
-- For each row, because the apply worker of logical replication fires no statement trigger but for TRUNCATE and
-- the initial copy.
CREATE TRIGGER lexicon_changed AFTER INSERT OR UPDATE OR DELETE ON atproto.lexicon_bundled
    FOR EACH ROW EXECUTE FUNCTION atproto_internal.lexicon_changed();
CREATE TRIGGER lexicon_changed AFTER INSERT OR UPDATE OR DELETE ON atproto.lexicon_loaded
    FOR EACH ROW EXECUTE FUNCTION atproto_internal.lexicon_changed();
CREATE TRIGGER lexicon_truncated AFTER TRUNCATE ON atproto.lexicon_bundled
    FOR EACH STATEMENT EXECUTE FUNCTION atproto_internal.lexicon_changed();
CREATE TRIGGER lexicon_truncated AFTER TRUNCATE ON atproto.lexicon_loaded
    FOR EACH STATEMENT EXECUTE FUNCTION atproto_internal.lexicon_changed();
-- ALWAYS: also with session_replication_role = replica, and in the workers of logical replication.
ALTER TABLE atproto.lexicon_bundled ENABLE ALWAYS TRIGGER lexicon_changed;
ALTER TABLE atproto.lexicon_loaded ENABLE ALWAYS TRIGGER lexicon_changed;
ALTER TABLE atproto.lexicon_bundled ENABLE ALWAYS TRIGGER lexicon_truncated;
ALTER TABLE atproto.lexicon_loaded ENABLE ALWAYS TRIGGER lexicon_truncated;
