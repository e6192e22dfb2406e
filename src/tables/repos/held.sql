/*
 * src/tables: events that wait until they can be judged.
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
-- DAG-CBOR of hashes and signatures does not become smaller
ALTER TABLE atproto.held_event ALTER bytes SET STORAGE EXTERNAL;
CREATE INDEX held_event_subscription ON atproto.held_event (subscription);
CREATE INDEX held_event_did ON atproto.held_event (did);
CREATE INDEX held_event_gap ON atproto.held_event (target, held_at) WHERE why = 'gap';
COMMENT ON TABLE atproto.held_event IS 'events that wait until they can be judged: they take their places in the tables then, in the order of rev';
COMMENT ON COLUMN atproto.held_event.target IS 'schema of the tables that they are for';
COMMENT ON COLUMN atproto.held_event.subscription IS 'the subscription that received the event; another one takes it only if its owner may act as this one''s, its level is not lower, and it makes the same rows';
COMMENT ON COLUMN atproto.held_event.verify IS 'level at which the event is judged: the subscription''s when it received the event, or a lower one that it has by now; filled by a trigger when it is NULL';
COMMENT ON COLUMN atproto.held_event.format IS 'how the message is written, as in subscription.format; filled by a trigger when it is NULL';
COMMENT ON COLUMN atproto.held_event.endpoint IS 'stream that it came from, as in atproto.cursor: another one may use the same numbers; filled by a trigger when it is NULL';
COMMENT ON COLUMN atproto.held_event.why IS 'identity: the account''s key is not known, or may be another by now; signature: it is not that of the key which is known; order: others of the repository wait; resync: the repository is being fetched; gap: a commit before it is missing, which another subscription may bring';
COMMENT ON COLUMN atproto.held_event.asked_at IS 'when the account''s identity had been asked for last, as the event came: it waits for another look-up';
COMMENT ON COLUMN atproto.held_event.shard_key IS 'which of a subscription''s workers has the repository';
COMMENT ON COLUMN atproto.held_event.bytes IS 'the whole WebSocket message; of labels, one with those of this labeler alone';
COMMENT ON COLUMN atproto.held_event.rev IS 'the order in which they are taken; of labels seq, as a revision';
COMMENT ON COLUMN atproto.held_event.kind IS 'repo: an event of the account''s repository; label: labels that it has given';
COMMENT ON COLUMN atproto.held_event.did IS 'account whose event it is';
COMMENT ON COLUMN atproto.held_event.seq IS 'its number in the stream';
COMMENT ON COLUMN atproto.held_event.held_at IS 'since when it waits';

-- What a dump from before these columns has, and what somebody inserts by hand.
CREATE FUNCTION atproto.held_event_fill() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_held_event_fill';
COMMENT ON FUNCTION atproto.held_event_fill() IS 'trigger: a held event without a level, format or endpoint gets its subscription''s';
CREATE TRIGGER held_event_fill BEFORE INSERT ON atproto.held_event
    FOR EACH ROW WHEN (NEW.verify IS NULL OR NEW.format IS NULL OR NEW.endpoint IS NULL) EXECUTE FUNCTION atproto.held_event_fill();
CREATE FUNCTION atproto.subscription_held() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_subscription_held';
COMMENT ON FUNCTION atproto.subscription_held() IS 'trigger: what a subscription holds that is removed, or gets another target, goes to one that may take it; or it is dropped, its repositories are marked, and atproto.gap has a row. A key that was doubtful for the owner is doubtful for the next owner of what waits';
CREATE TRIGGER subscription_held BEFORE DELETE OR UPDATE OF target, url, format, owner ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION atproto.subscription_held();
REVOKE ALL ON FUNCTION atproto.held_event_fill(), atproto.subscription_held() FROM PUBLIC;

-- One row for each time, so that nobody who says so waits for one who is at it.
CREATE TABLE atproto.held_release (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    target name NOT NULL,
    did @extschema@.did NOT NULL,
    shard_key bigint NOT NULL,
    kind text NOT NULL DEFAULT 'repo',
    subscription text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE atproto.held_release IS 'repositories whose held events are to be judged again; consumers take the rows';
COMMENT ON COLUMN atproto.held_release.id IS 'in the order of which they are taken';
COMMENT ON COLUMN atproto.held_release.target IS 'schema of the tables';
COMMENT ON COLUMN atproto.held_release.did IS 'the account';
COMMENT ON COLUMN atproto.held_release.shard_key IS 'which of a subscriptions workers has the repository';
COMMENT ON COLUMN atproto.held_release.kind IS 'as in atproto.held_event';
COMMENT ON COLUMN atproto.held_release.subscription IS 'whose held events are meant; without a foreign key: whoever writes the row may have repositories locked, for which unsubscribe() waits';

-- a consumer that starts looks at all that is held
SELECT pg_catalog.pg_extension_config_dump('atproto.held_event', '');

-- seen by whom the subscription is
ALTER TABLE atproto.held_event ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.held_event
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
ALTER TABLE atproto.held_release ENABLE ROW LEVEL SECURITY;
