/*
 * src/fetch: a repository is to be fetched.
 */

-- It sets a search_path of its own after it has settled what the caller's transaction still has to do.
CREATE FUNCTION atproto.resync(did @extschema@.did, target name DEFAULT 'atproto', force boolean DEFAULT false) RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_resync';
COMMENT ON FUNCTION atproto.resync(@extschema@.did, name, boolean) IS 'have a repository fetched, as soon as may be: afterwards the tables have the records that it has; force: also when its server has an older revision of it';
CREATE FUNCTION atproto.backfill_repo(did @extschema@.did, target name DEFAULT 'atproto') RETURNS void
    LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp AS 'SELECT atproto.resync($1, $2)';
COMMENT ON FUNCTION atproto.backfill_repo(@extschema@.did, name) IS 'the same, of one of which nothing is there';
REVOKE ALL ON FUNCTION atproto.resync(@extschema@.did, name, boolean), atproto.backfill_repo(@extschema@.did, name) FROM PUBLIC;
