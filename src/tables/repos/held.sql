/*
 * src/tables/repos: held events, which wait until they can be judged.
 */

CREATE TABLE atproto.held_event (
    target name NOT NULL,
    did @extschema@.did NOT NULL,
    rev atproto.tid NOT NULL,
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    seq bigint NOT NULL,
    why text NOT NULL
        CHECK (why IN ('identity', 'signature', 'order', 'resync', 'gap')),
    asked_at timestamptz,
    held_at timestamptz NOT NULL DEFAULT now(),
    shard_key bigint NOT NULL,
    bytes bytea NOT NULL,
    kind text NOT NULL DEFAULT 'repo'
        CHECK (kind IN ('repo', 'label')),
    verify text
        CHECK (verify IN ('hash', 'chain', 'full')),
    format text,
    endpoint text NOT NULL,
    PRIMARY KEY (target, did, rev, subscription, endpoint, seq)
);
-- EXTERNAL: compression would be in vain, because hashes and signatures do not compress
ALTER TABLE atproto.held_event ALTER bytes SET STORAGE EXTERNAL;
CREATE INDEX held_event_subscription ON atproto.held_event (subscription);
CREATE INDEX held_event_did ON atproto.held_event (did);
CREATE INDEX held_event_gap ON atproto.held_event (target, held_at) WHERE why = 'gap';
COMMENT ON TABLE atproto.held_event IS 'events that wait until they can be judged; then they are applied in the order of rev';
COMMENT ON COLUMN atproto.held_event.target IS 'schema of the tables that the event will change';
COMMENT ON COLUMN atproto.held_event.subscription IS 'the subscription that received the event; a second subscription applies the event only if its owner may act as the receiver''s owner, its level is not lower, and both make the same rows';
COMMENT ON COLUMN atproto.held_event.verify IS 'level at which the event is judged: the subscription''s level at receipt, or its present level if that is lower; a trigger fills in NULL';
COMMENT ON COLUMN atproto.held_event.format IS 'format of the message, as in subscription.format; a trigger fills in NULL';
COMMENT ON COLUMN atproto.held_event.endpoint IS 'stream that the event came from, as in atproto.cursor: different streams may use the same sequence numbers; a trigger fills in NULL';
COMMENT ON COLUMN atproto.held_event.why IS 'identity: the account''s key is unknown or may have changed; signature: the signature does not fit the known key; order: earlier events of the repository wait; resync: the repository is being fetched; gap: an earlier commit is missing, which a second subscription may bring';
COMMENT ON COLUMN atproto.held_event.asked_at IS 'when the last look-up of the account''s identity had ended when the event came: the event waits for a newer look-up';
COMMENT ON COLUMN atproto.held_event.shard_key IS 'the subscription''s worker for the repository: this number modulo the number of workers';
COMMENT ON COLUMN atproto.held_event.bytes IS 'the whole WebSocket message; for labels, a message with only this labeler''s labels';
COMMENT ON COLUMN atproto.held_event.rev IS 'revision, which is the order in which events are applied; for labels, seq in the form of a revision';
COMMENT ON COLUMN atproto.held_event.kind IS 'repo: an event of the account''s repository; label: labels that the account has issued';
COMMENT ON COLUMN atproto.held_event.did IS 'account of the event; for labels, the labeler';
COMMENT ON COLUMN atproto.held_event.seq IS 'sequence number of the event in the stream';
COMMENT ON COLUMN atproto.held_event.held_at IS 'when the event began to wait';

-- Completes rows from dumps that are older than these columns, and rows that a user inserts.
CREATE FUNCTION atproto_internal.held_event_fill() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_held_event_fill';
COMMENT ON FUNCTION atproto_internal.held_event_fill() IS 'trigger: a held event without a level, format or endpoint gets its subscription''s';
CREATE TRIGGER held_event_fill BEFORE INSERT ON atproto.held_event
    FOR EACH ROW WHEN (NEW.verify IS NULL OR NEW.format IS NULL OR NEW.endpoint IS NULL) EXECUTE FUNCTION atproto_internal.held_event_fill();
CREATE FUNCTION atproto_internal.subscription_held() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_subscription_held';
COMMENT ON FUNCTION atproto_internal.subscription_held() IS 'trigger: when a subscription is removed or gets a different target, its held events go to a subscription that may take them; otherwise they are dropped, their repositories are marked, and atproto.gap gets a row. A key that was doubtful for the former owner stays doubtful for the next owner of the held events';
CREATE TRIGGER subscription_held BEFORE DELETE OR UPDATE OF target, url, format, owner ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION atproto_internal.subscription_held();
REVOKE ALL ON FUNCTION atproto_internal.held_event_fill(), atproto_internal.subscription_held() FROM PUBLIC;

-- Each request inserts a new row: updating a shared row would make sessions wait for each other.
CREATE TABLE atproto.held_release (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target name NOT NULL,
    did @extschema@.did NOT NULL,
    shard_key bigint NOT NULL,
    kind text NOT NULL DEFAULT 'repo',
    subscription text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE atproto.held_release IS 'repositories whose held events are to be judged again; consumers take the rows';
COMMENT ON COLUMN atproto.held_release.id IS 'consumers take the rows in this order';
COMMENT ON COLUMN atproto.held_release.target IS 'schema of the tables that the events will change';
COMMENT ON COLUMN atproto.held_release.did IS 'account whose held events are to be judged again';
COMMENT ON COLUMN atproto.held_release.shard_key IS 'the subscription''s worker for the repository, as in atproto.held_event';
COMMENT ON COLUMN atproto.held_release.kind IS 'as in atproto.held_event';
COMMENT ON COLUMN atproto.held_release.subscription IS 'the subscription that received the events; no foreign key: its check would wait for unsubscribe(), which may wait for repositories that the writer of the row has locked';

-- R-35.  held_release needs no dump: a consumer queues all its held events when it starts
SELECT pg_catalog.pg_extension_config_dump('atproto.held_event', '');

-- a role sees the rows of the subscriptions that it sees
ALTER TABLE atproto.held_event ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.held_event
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
ALTER TABLE atproto.held_release ENABLE ROW LEVEL SECURITY;
