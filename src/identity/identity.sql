/*
 * src/identity: what is known of accounts, by their DID documents, and what is to be asked.
 * The documents themselves are not kept (W-16).
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
    handle_next timestamptz NOT NULL DEFAULT '-infinity',
    handle_tries integer NOT NULL DEFAULT 0
        CHECK (handle_tries >= 0),
    handle_error text
        CHECK (octet_length(handle_error) <= 1000),
    resolved_at timestamptz,
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
COMMENT ON TABLE atproto.identity IS 'what the DID documents of accounts said when they were read last: a cache, which may be emptied and is in no dump';
COMMENT ON COLUMN atproto.identity.state IS 'wanted: not read yet; good: has a key and a server; gone: there is no such account any more; invalid: what was read is no document of this DID; no_key, no_pds: the document has none; unreachable: the last answer is too old to be believed, and no other comes';
COMMENT ON COLUMN atproto.identity.key IS 'key that signs the account''s commits (#atproto): the bytes of its Multikey';
COMMENT ON COLUMN atproto.identity.label_key IS 'key that signs its labels (#atproto_label)';
COMMENT ON COLUMN atproto.identity.pds IS 'the account''s server: host, host:port when that is not 443, http://host:port when it is plain';
COMMENT ON COLUMN atproto.identity.handle_claimed IS 'the handle that the document claims';
COMMENT ON COLUMN atproto.identity.handle_state IS 'valid: the handle''s domain names this account; invalid: it names another one, or none; unreachable: it does not answer; unknown: it was not asked';
COMMENT ON COLUMN atproto.identity.handle IS 'the account''s handle: the one that is claimed, where it is valid';
COMMENT ON COLUMN atproto.identity.handle_checked_at IS 'when its domain answered last';
COMMENT ON COLUMN atproto.identity.handle_next IS 'where a subscription says handles => ''verify'': asked again from then on';
COMMENT ON COLUMN atproto.identity.handle_tries IS 'how often in a row it was not valid';
COMMENT ON COLUMN atproto.identity.handle_error IS 'what the last check found instead; NULL: the handle was valid';
COMMENT ON COLUMN atproto.identity.resolved_at IS 'when a document was read last';
COMMENT ON COLUMN atproto.identity.asked_at IS 'when a look-up ended last, whatever came of it: the next one is a minute after it, at the soonest';
COMMENT ON COLUMN atproto.identity.stale IS 'an #identity event came after the document was read';
COMMENT ON COLUMN atproto.identity.denied_at IS 'when it was first said that what was good is so no more, or that a host has no document: a second answer is waited for';
COMMENT ON COLUMN atproto.identity.said_by IS 'owners of the subscriptions that brought an #identity event since the last look-up began';
COMMENT ON COLUMN atproto.identity.doubted_by IS 'owners of the subscriptions that brought an #identity event, when no look-up has ended that began after it: at level full, events of these owners'' subscriptions wait for one; those of other roles'' do not';
COMMENT ON COLUMN atproto.identity.next_try IS 'after a failure: not asked again before';
COMMENT ON COLUMN atproto.identity.tries IS 'failures in a row';
COMMENT ON COLUMN atproto.identity.error IS 'what the last look-up failed with; NULL: it did not';
COMMENT ON COLUMN atproto.identity.did IS 'the account';

-- Rows of their own for each role, and for each kind: nobody waits for what somebody else's
-- transaction asks, and a session changes no row that is there.
CREATE TABLE atproto.identity_wish (
    did @extschema@.did NOT NULL,
    role oid NOT NULL DEFAULT 0,
    refresh boolean NOT NULL DEFAULT false,
    priority smallint NOT NULL DEFAULT 2
        CHECK (priority BETWEEN 0 AND 2),
    wished_at timestamptz NOT NULL DEFAULT now(),
    web boolean NOT NULL,
    failed boolean NOT NULL DEFAULT false,
    next_try timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (did, role, refresh)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX identity_wish_due ON atproto.identity_wish (web, failed, priority, next_try);
CREATE INDEX identity_wish_role ON atproto.identity_wish (role) WHERE role <> 0;
COMMENT ON TABLE atproto.identity_wish IS 'accounts whose DID document is to be read; only the fetcher removes a row';
COMMENT ON COLUMN atproto.identity_wish.refresh IS 'although the one that was read is not old';
COMMENT ON COLUMN atproto.identity_wish.priority IS '0: somebody waits for it; 1: events are held for it; 2: others';
COMMENT ON COLUMN atproto.identity_wish.role IS 'who asked by atproto.resolve() or its siblings: atproto.queue_limit counts these; 0: a consumer';
COMMENT ON COLUMN atproto.identity_wish.web IS 'did:web, asked of a host that anybody can name; the others are asked of the directory';
COMMENT ON COLUMN atproto.identity_wish.failed IS 'asked once, without an answer: comes after those that were not';
COMMENT ON COLUMN atproto.identity_wish.next_try IS 'not before; what cannot be asked now is put off, so that it is in nobody''s way';
COMMENT ON COLUMN atproto.identity_wish.did IS 'the account';
COMMENT ON COLUMN atproto.identity_wish.wished_at IS 'since when that is wished for';

CREATE TABLE atproto.handle_wish (
    did @extschema@.did NOT NULL,
    role oid NOT NULL,
    wished_at timestamptz NOT NULL DEFAULT now(),
    next_try timestamptz NOT NULL DEFAULT '-infinity',
    PRIMARY KEY (did, role)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX handle_wish_role ON atproto.handle_wish (role);
COMMENT ON TABLE atproto.handle_wish IS 'accounts whose handle is to be verified; only the fetcher removes a row';
COMMENT ON COLUMN atproto.handle_wish.next_try IS 'not before: its host may not be asked now, and others are not to wait behind it';
COMMENT ON COLUMN atproto.handle_wish.role IS 'who asked by atproto.check_handle(): atproto.queue_limit counts these';
COMMENT ON COLUMN atproto.handle_wish.did IS 'the account';
COMMENT ON COLUMN atproto.handle_wish.wished_at IS 'since when that is wished for';

-- no more than what the network says of itself; who reads it needs a grant all the same
ALTER TABLE atproto.identity ENABLE ROW LEVEL SECURITY;
CREATE POLICY readers ON atproto.identity FOR SELECT USING (true);
ALTER TABLE atproto.identity_wish ENABLE ROW LEVEL SECURITY;
ALTER TABLE atproto.handle_wish ENABLE ROW LEVEL SECURITY;

CREATE FUNCTION atproto.check_handle(did @extschema@.did) RETURNS void
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_check_handle';
COMMENT ON FUNCTION atproto.check_handle(@extschema@.did) IS 'have the fetcher ask the domain of the account''s handle whether it names this account; what it says will be in atproto.identity';
REVOKE ALL ON FUNCTION atproto.check_handle(@extschema@.did) FROM PUBLIC;
