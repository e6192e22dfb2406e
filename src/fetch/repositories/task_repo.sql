/*
 * src/fetch: repositories are to be fetched.
 */

-- It sets a search_path of its own after it has settled what the caller's transaction still has to do.
CREATE FUNCTION atproto.resync(did @extschema@.did, target name DEFAULT 'atproto', force boolean DEFAULT false) RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_resync';
COMMENT ON FUNCTION atproto.resync(@extschema@.did, name, boolean) IS 'have a repository fetched, as soon as may be: afterwards the tables have the records that it has; force: also when its server has an older revision of it';
CREATE FUNCTION atproto.backfill_repo(did @extschema@.did, target name DEFAULT 'atproto') RETURNS void
    LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp AS 'SELECT atproto.resync($1, $2)';
COMMENT ON FUNCTION atproto.backfill_repo(@extschema@.did, name) IS 'the same, of one of which nothing is there';
CREATE FUNCTION atproto.resync_all(target name DEFAULT 'atproto') RETURNS bigint
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_resync_all';
COMMENT ON FUNCTION atproto.resync_all(name) IS 'have all repositories of a schema fetched that are active, after all others; how many are new in atproto.repo_job';
CREATE FUNCTION atproto.recheck(subscription text) RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_recheck';
COMMENT ON FUNCTION atproto.recheck(text) IS 'have the list of a subscription''s server read, and those repositories fetched of which it has a newer revision than the tables';
REVOKE ALL ON FUNCTION atproto.resync(@extschema@.did, name, boolean), atproto.backfill_repo(@extschema@.did, name),
    atproto.resync_all(name), atproto.recheck(text) FROM PUBLIC;
