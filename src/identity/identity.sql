/*
 * src/identity: keys, servers and handles of accounts, from their DID documents, and the requests for
 * look-ups.  The documents themselves are not stored (W-16).  These tables are in no dump, so that no call of
 * pg_extension_config_dump() names them (W-37).
 */

CREATE TABLE atproto.identity (
    did @extschema@.did PRIMARY KEY,
    state text NOT NULL
        CHECK (state IN ('wanted', 'good', 'gone', 'invalid', 'no_key', 'no_pds', 'unreachable')),
    key bytea
        CHECK (octet_length(key) = 35),
    label_key bytea
        CHECK (octet_length(label_key) = 35),
    pds text
        CHECK (octet_length(pds) <= 300),
    handle_claimed @extschema@.handle,
    handle_state text NOT NULL DEFAULT 'unknown'
        CHECK (handle_state IN ('unknown', 'valid', 'invalid', 'unreachable')),
    handle @extschema@.handle GENERATED ALWAYS AS (CASE WHEN handle_state = 'valid' THEN handle_claimed END) STORED,
    handle_checked_at timestamptz,
    handle_next timestamptz NOT NULL DEFAULT 'epoch',
    handle_tries integer NOT NULL DEFAULT 0
        CHECK (handle_tries >= 0),
    handle_error text
        CHECK (octet_length(handle_error) <= 1000),
    resolved_at timestamptz,
    log_time timestamptz,
    asked_at timestamptz,
    stale boolean NOT NULL DEFAULT false,
    said_by oid[] NOT NULL DEFAULT '{}',
    doubted_by oid[] NOT NULL DEFAULT '{}',
    denied_at timestamptz,
    next_try timestamptz,
    tries integer NOT NULL DEFAULT 0
        CHECK (tries >= 0),
    error text
        CHECK (octet_length(error) <= 1000),
    CHECK (state <> 'good' OR (key IS NOT NULL AND pds IS NOT NULL))
) WITH (fillfactor = 90);
CREATE INDEX identity_failed ON atproto.identity (state) WHERE error IS NOT NULL;
CREATE INDEX identity_handle_next ON atproto.identity (handle_next) WHERE handle_claimed IS NOT NULL;
CREATE INDEX identity_unreachable ON atproto.identity (handle_next) WHERE handle_state = 'unreachable';
COMMENT ON TABLE atproto.identity IS 'keys, servers and handles from the DID documents of accounts, as read last: a cache, which may be emptied and is in no dump';
COMMENT ON COLUMN atproto.identity.state IS 'wanted: not read yet; good: has a key and a server; gone: the account does not exist any more; invalid: the answer was no document of this DID; no_key, no_pds: the document has no key, no server; unreachable: the last good answer is too old to be trusted, and later look-ups failed';
COMMENT ON COLUMN atproto.identity.key IS 'the key that signs the account''s commits (#atproto): the bytes of its Multikey';
COMMENT ON COLUMN atproto.identity.label_key IS 'the key that signs the account''s labels (#atproto_label)';
COMMENT ON COLUMN atproto.identity.pds IS 'the account''s server: host; host:port when the port is not 443; http://host:port when the server has no TLS';
COMMENT ON COLUMN atproto.identity.handle_claimed IS 'the handle claimed by the document';
COMMENT ON COLUMN atproto.identity.handle_state IS 'valid: the handle''s domain names this account; invalid: the domain names a different account or no account; unreachable: the domain does not answer; unknown: not checked';
COMMENT ON COLUMN atproto.identity.handle IS 'the account''s handle: the claimed handle, if valid';
COMMENT ON COLUMN atproto.identity.handle_checked_at IS 'when the handle''s domain answered last';
COMMENT ON COLUMN atproto.identity.handle_next IS 'where a subscription has handles => ''verify'': when the next check is due';
COMMENT ON COLUMN atproto.identity.handle_tries IS 'number of checks in a row, up to the last, without the result valid';
COMMENT ON COLUMN atproto.identity.handle_error IS 'why the last check did not find the handle valid; NULL: valid, or not checked';
COMMENT ON COLUMN atproto.identity.resolved_at IS 'when a document was read last';
COMMENT ON COLUMN atproto.identity.log_time IS 'time of the operation from which the row was filled, in the log of a directory that a subscription with identities follows; NULL: filled from a document';
COMMENT ON COLUMN atproto.identity.asked_at IS 'when the last look-up ended, with whatever result: the next look-up begins a minute later at the earliest';
COMMENT ON COLUMN atproto.identity.stale IS 'an #identity event came, and no look-up has begun since';
COMMENT ON COLUMN atproto.identity.denied_at IS 'when a look-up first found no valid document of an account that was good, is new, or is a did:web: a second look-up has to confirm this';
COMMENT ON COLUMN atproto.identity.said_by IS 'owners of the subscriptions that brought an #identity event since the last look-up began';
COMMENT ON COLUMN atproto.identity.doubted_by IS 'owners of the subscriptions that brought an #identity event, when no look-up that began after the event has ended: at level full, events of the subscriptions of these owners wait for the look-up; events of other roles'' subscriptions do not wait';
COMMENT ON COLUMN atproto.identity.next_try IS 'after a failure: no look-up before this time';
COMMENT ON COLUMN atproto.identity.tries IS 'failures in a row';
COMMENT ON COLUMN atproto.identity.error IS 'why the last look-up failed; NULL: success';
COMMENT ON COLUMN atproto.identity.did IS 'the account';

CREATE FUNCTION atproto.did_key(key bytea) RETURNS text
    LANGUAGE c IMMUTABLE STRICT AS 'MODULE_PATHNAME', 'atp_did_key';
COMMENT ON FUNCTION atproto.did_key(bytea) IS 'a key of atproto.identity as did:key; NULL: no key of k256 or p256';

-- The role and the kind of request are part of the key: so no transaction waits for a row that the
-- transaction of a different role has inserted, and a session changes no existing row.  The owner is part of
-- the key, too: the row of one owner, with many more rows before this row, stands for no request of another owner.
CREATE TABLE atproto.identity_request (
    did @extschema@.did NOT NULL,
    role oid NOT NULL DEFAULT 0,
    owner oid NOT NULL DEFAULT 0,
    refresh boolean NOT NULL DEFAULT false,
    priority smallint NOT NULL DEFAULT 2
        CHECK (priority BETWEEN 0 AND 2),
    requested_at timestamptz NOT NULL DEFAULT now(),
    web boolean NOT NULL,
    failed boolean NOT NULL DEFAULT false,
    next_try timestamptz NOT NULL DEFAULT 'epoch',
    PRIMARY KEY (did, role, owner, refresh)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX identity_request_due ON atproto.identity_request (web, failed, priority, owner, next_try);
CREATE INDEX identity_request_role ON atproto.identity_request (role) WHERE role <> 0;
COMMENT ON TABLE atproto.identity_request IS 'requests for look-ups: accounts whose DID document the fetcher is to read; only the fetcher removes a row';
COMMENT ON COLUMN atproto.identity_request.refresh IS 'read again, although the document read last is not old';
COMMENT ON COLUMN atproto.identity_request.priority IS '0: a user waits for the result; 1: events are held until the result; 2: all other requests';
COMMENT ON COLUMN atproto.identity_request.role IS 'the role that called atproto.resolve() or a similar function: atproto.queue_limit limits the rows of a role; 0: a consumer';
COMMENT ON COLUMN atproto.identity_request.owner IS 'owner of the subscription that needs the identity, or the role that asked: look-ups are taken in turn from the owners';
COMMENT ON COLUMN atproto.identity_request.web IS 'a did:web, looked up at the host in its name, which anybody can choose; all other DIDs are looked up in the directory';
COMMENT ON COLUMN atproto.identity_request.failed IS 'looked up once without an answer: comes after requests not tried yet';
COMMENT ON COLUMN atproto.identity_request.next_try IS 'no look-up before this time: a request whose host may not be asked now is put off, so that no other request waits behind this row';
COMMENT ON COLUMN atproto.identity_request.did IS 'the account';
COMMENT ON COLUMN atproto.identity_request.requested_at IS 'when the request was made';

CREATE TABLE atproto.handle_request (
    did @extschema@.did NOT NULL,
    role oid NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT now(),
    next_try timestamptz NOT NULL DEFAULT 'epoch',
    PRIMARY KEY (did, role)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX handle_request_role ON atproto.handle_request (role);
COMMENT ON TABLE atproto.handle_request IS 'requests for checks: accounts whose handle the fetcher is to verify; only the fetcher removes a row';
COMMENT ON COLUMN atproto.handle_request.next_try IS 'no check before this time: a check whose host may not be asked now is put off, so that no other check waits behind this row';
COMMENT ON COLUMN atproto.handle_request.role IS 'the role that called atproto.check_handle(): atproto.queue_limit limits the rows of a role';
COMMENT ON COLUMN atproto.handle_request.did IS 'the account';
COMMENT ON COLUMN atproto.handle_request.requested_at IS 'when the request was made';

CREATE TABLE atproto.handle_lookup (
    handle @extschema@.handle NOT NULL,
    role oid NOT NULL,
    requested_at timestamptz NOT NULL DEFAULT now(),
    next_try timestamptz NOT NULL DEFAULT 'epoch',
    answered_at timestamptz,
    did @extschema@.did,
    error text
        CHECK (octet_length(error) <= 1000),
    PRIMARY KEY (handle, role)
);
CREATE INDEX handle_lookup_role ON atproto.handle_lookup (role) WHERE answered_at IS NULL;
COMMENT ON TABLE atproto.handle_lookup IS 'look-ups of resolve_handle(): which account the domain of a handle names; the fetcher removes a row after an hour';
COMMENT ON COLUMN atproto.handle_lookup.handle IS 'the handle';
COMMENT ON COLUMN atproto.handle_lookup.role IS 'the role that called atproto.resolve_handle(): atproto.queue_limit limits the open rows of a role';
COMMENT ON COLUMN atproto.handle_lookup.requested_at IS 'when the procedure was called';
COMMENT ON COLUMN atproto.handle_lookup.next_try IS 'no look-up before this time: a look-up whose host may not be asked now is put off';
COMMENT ON COLUMN atproto.handle_lookup.answered_at IS 'when the domain answered; NULL: no answer yet';
COMMENT ON COLUMN atproto.handle_lookup.did IS 'the account that the domain names; whether the account claims the handle, the procedure asks the account''s document';
COMMENT ON COLUMN atproto.handle_lookup.error IS 'why no account is named';

-- All rows are visible to every reader, because they contain only public facts of the network; but
-- a reader needs a GRANT.
ALTER TABLE atproto.identity ENABLE ROW LEVEL SECURITY;
CREATE POLICY readers ON atproto.identity FOR SELECT USING (true);
ALTER TABLE atproto.identity_request ENABLE ROW LEVEL SECURITY;
ALTER TABLE atproto.handle_request ENABLE ROW LEVEL SECURITY;
ALTER TABLE atproto.handle_lookup ENABLE ROW LEVEL SECURITY;

CREATE FUNCTION atproto.check_handle(did @extschema@.did) RETURNS void
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_check_handle';
COMMENT ON FUNCTION atproto.check_handle(@extschema@.did) IS 'request a check whether the domain of the account''s handle names this account; the fetcher writes the result into atproto.identity';
REVOKE ALL ON FUNCTION atproto.check_handle(@extschema@.did) FROM PUBLIC;
