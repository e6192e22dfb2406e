/*
 * src/fetch: functions that look up identities, and views of the look-ups for operators.
 */

-- No EXECUTE for PUBLIC, as for subscribe(): a caller makes the server open connections.
CREATE FUNCTION atproto.resolve(
    INOUT did @extschema@.did,
    OUT state text, OUT key text, OUT label_key text, OUT pds text, OUT handle @extschema@.handle,
    OUT resolved_at timestamptz, OUT stale boolean, OUT error text
) RETURNS record
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_resolve';
COMMENT ON FUNCTION atproto.resolve(@extschema@.did) IS 'what the DID document of an account says, as the columns of atproto.identity: keys as Multikeys, the handle if it was verified. If nothing is known, or the document was read long ago, a look-up is queued; the function does not wait for the look-up';
CREATE FUNCTION atproto.identity_refresh(did @extschema@.did) RETURNS void
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_identity_refresh';
COMMENT ON FUNCTION atproto.identity_refresh(@extschema@.did) IS 'read an account''s DID document again, although it is not old; at most once a minute';
CREATE PROCEDURE atproto.await(did @extschema@.did, timeout interval DEFAULT '10 s')
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_await';
COMMENT ON PROCEDURE atproto.await(@extschema@.did, interval) IS 'commit, then wait until the caller''s look-ups of the account have an answer; an ERROR after this time, a WARNING if the account has no usable document';

CREATE PROCEDURE atproto.resolve_handle(handle @extschema@.handle, INOUT did @extschema@.did DEFAULT NULL, timeout interval DEFAULT '10 s')
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_resolve_handle';
COMMENT ON PROCEDURE atproto.resolve_handle(@extschema@.handle, @extschema@.did, interval) IS 'the account of a handle, verified both ways: the domain of the handle names the account, and the document of the account claims the handle; an ERROR if not, or if no answer comes in time';

REVOKE ALL ON PROCEDURE atproto.await(@extschema@.did, interval), atproto.resolve_handle(@extschema@.handle, @extschema@.did, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION atproto.resolve(@extschema@.did), atproto.identity_refresh(@extschema@.did) FROM PUBLIC;

CREATE VIEW atproto.identity_problem WITH (security_barrier) AS
    SELECT did, state, pds, resolved_at, asked_at, next_try, tries, left(error, 400) AS error
    FROM atproto.identity
    WHERE error IS NOT NULL;
COMMENT ON VIEW atproto.identity_problem IS 'accounts whose DID document could not be read, or lacks a key or server, with the reason';

CREATE VIEW atproto.stat_identity WITH (security_barrier) AS
    SELECT w.requests, w.due, w.failed, w.oldest, p.unreachable, p.gone, p.invalid, p.incomplete
    FROM (SELECT count(*) AS requests, count(*) FILTER (WHERE next_try <= now()) AS due,
            count(*) FILTER (WHERE failed) AS failed, min(requested_at) FILTER (WHERE NOT failed AND next_try <= now()) AS oldest
        FROM atproto.identity_request) w,
        (SELECT count(*) FILTER (WHERE state NOT IN ('gone', 'invalid', 'no_key', 'no_pds')) AS unreachable,
            count(*) FILTER (WHERE state = 'gone') AS gone, count(*) FILTER (WHERE state = 'invalid') AS invalid,
            count(*) FILTER (WHERE state IN ('no_key', 'no_pds')) AS incomplete
        FROM atproto.identity WHERE error IS NOT NULL) p;
COMMENT ON VIEW atproto.stat_identity IS 'look-ups of identities: how many are queued, due and failed, and since when the oldest that is due waits; and how many accounts had no answer, or a document that does not function, at the last look-up';
COMMENT ON COLUMN atproto.stat_identity.requests IS 'queued look-ups';
COMMENT ON COLUMN atproto.stat_identity.due IS 'queued look-ups whose time has come';
COMMENT ON COLUMN atproto.stat_identity.failed IS 'queued look-ups that failed before';
COMMENT ON COLUMN atproto.stat_identity.oldest IS 'since when the oldest look-up waits that is due and has not failed';
COMMENT ON COLUMN atproto.stat_identity.unreachable IS 'accounts whose last look-up had no answer';
COMMENT ON COLUMN atproto.stat_identity.gone IS 'accounts whose document the directory does not have any more';
COMMENT ON COLUMN atproto.stat_identity.invalid IS 'accounts whose document is not valid for their DID';
COMMENT ON COLUMN atproto.stat_identity.incomplete IS 'accounts whose document has no key, or no server';
GRANT SELECT ON atproto.identity_problem, atproto.stat_identity TO pg_monitor;
