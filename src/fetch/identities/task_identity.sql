/*
 * src/fetch: asking for identities, and what operators see of them.
 */

-- As subscribe(): who may call these has the server open connections.
CREATE FUNCTION atproto.resolve(
    INOUT did @extschema@.did,
    OUT state text, OUT key text, OUT label_key text, OUT pds text, OUT handle @extschema@.handle,
    OUT resolved_at timestamptz, OUT stale boolean, OUT error text
) RETURNS record
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_resolve';
COMMENT ON FUNCTION atproto.resolve(@extschema@.did) IS 'what is known of an account by its DID document, as the columns of atproto.identity, keys as Multikeys, the handle if it was verified; where nothing is known, or it is old, it is asked for: at once, nobody waits';
CREATE FUNCTION atproto.identity_refresh(did @extschema@.did) RETURNS void
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_identity_refresh';
COMMENT ON FUNCTION atproto.identity_refresh(@extschema@.did) IS 'read an account''s DID document again, although it is not old; at most once a minute';
CREATE PROCEDURE atproto.await(did @extschema@.did, timeout interval DEFAULT '10 s')
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_await';
COMMENT ON PROCEDURE atproto.await(@extschema@.did, interval) IS 'commit, then wait until what is asked of an account is answered; an ERROR after this time';

REVOKE ALL ON PROCEDURE atproto.await(@extschema@.did, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION atproto.resolve(@extschema@.did), atproto.identity_refresh(@extschema@.did) FROM PUBLIC;

CREATE VIEW atproto.identity_problem WITH (security_barrier) AS
    SELECT did, state, pds, resolved_at, asked_at, next_try, tries, left(error, 400) AS error
    FROM atproto.identity
    WHERE error IS NOT NULL;
COMMENT ON VIEW atproto.identity_problem IS 'accounts whose DID document could not be read, or does not say what it should, with the reason';

CREATE VIEW atproto.stat_identity WITH (security_barrier) AS
    SELECT w.wishes, w.due, w.failed, w.oldest, p.unreachable, p.gone, p.invalid, p.incomplete
    FROM (SELECT count(*) AS wishes, count(*) FILTER (WHERE next_try <= now()) AS due,
            count(*) FILTER (WHERE failed) AS failed, min(wished_at) FILTER (WHERE NOT failed AND next_try <= now()) AS oldest
        FROM atproto.identity_wish) w,
        (SELECT count(*) FILTER (WHERE state NOT IN ('gone', 'invalid', 'no_key', 'no_pds')) AS unreachable,
            count(*) FILTER (WHERE state = 'gone') AS gone, count(*) FILTER (WHERE state = 'invalid') AS invalid,
            count(*) FILTER (WHERE state IN ('no_key', 'no_pds')) AS incomplete
        FROM atproto.identity WHERE error IS NOT NULL) p;
COMMENT ON VIEW atproto.stat_identity IS 'look-ups of identities: wishes, how many of them are due and how many have failed once, the oldest that is due and has not; and accounts whose last look-up had no answer, or one that they do not function';
COMMENT ON COLUMN atproto.stat_identity.wishes IS 'accounts whose document is to be read';
COMMENT ON COLUMN atproto.stat_identity.due IS 'wishes whose time has come';
COMMENT ON COLUMN atproto.stat_identity.failed IS 'wishes that were asked for once, in vain';
COMMENT ON COLUMN atproto.stat_identity.oldest IS 'since when the oldest of those waits that are due and have not failed';
COMMENT ON COLUMN atproto.stat_identity.unreachable IS 'accounts whose last look-up had no answer';
COMMENT ON COLUMN atproto.stat_identity.gone IS 'accounts that the directory has no more';
COMMENT ON COLUMN atproto.stat_identity.invalid IS 'accounts whose document is none of theirs';
COMMENT ON COLUMN atproto.stat_identity.incomplete IS 'accounts whose document has no key, or no server';
GRANT SELECT ON atproto.identity_problem, atproto.stat_identity TO pg_monitor;
