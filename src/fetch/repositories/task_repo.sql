/*
 * src/fetch: functions that queue repositories for the fetcher.
 */

-- No SET search_path: the function sets its own, after deferred triggers of the caller's transaction have run with the caller's.
CREATE FUNCTION atproto.resync(did @extschema@.did, target name DEFAULT 'atproto', force boolean DEFAULT false) RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_resync';
COMMENT ON FUNCTION atproto.resync(@extschema@.did, name, boolean) IS 'have a repository fetched as soon as possible: afterwards the tables have the records of the server''s export. force: even if the server''s revision is older than the stored revision';
CREATE FUNCTION atproto.backfill_repo(did @extschema@.did, target name DEFAULT 'atproto') RETURNS void
    LANGUAGE sql STRICT SET search_path = pg_catalog, pg_temp AS 'SELECT atproto.resync($1, $2)';
COMMENT ON FUNCTION atproto.backfill_repo(@extschema@.did, name) IS 'have a repository fetched that is not stored yet; does the same as atproto.resync()';
CREATE FUNCTION atproto.resync_all(target name DEFAULT 'atproto') RETURNS bigint
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_resync_all';
COMMENT ON FUNCTION atproto.resync_all(name) IS 'have all active repositories of a schema fetched, after all queued repositories; returns the number of new rows in atproto.repo_job';
CREATE FUNCTION atproto.recheck(subscription text) RETURNS void
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_recheck';
COMMENT ON FUNCTION atproto.recheck(text) IS 'read the list of a subscription''s server, and have those repositories fetched that have a newer revision on the server than in the tables';
CREATE FUNCTION atproto.read_lists(subscription text, again boolean DEFAULT false) RETURNS bigint
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_read_lists';
COMMENT ON FUNCTION atproto.read_lists(text, boolean) IS 'have the lists of a subscription''s backfill read at once that were put off after a failure, or given up; again: also the lists that were read to their end, from the first page on; returns how many lists are to be read now';
REVOKE ALL ON FUNCTION atproto.resync(@extschema@.did, name, boolean), atproto.backfill_repo(@extschema@.did, name),
    atproto.resync_all(name), atproto.recheck(text), atproto.read_lists(text, boolean) FROM PUBLIC;
