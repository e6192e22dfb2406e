/*
 * src/tables: what could not be processed, and functions for the data tables.
 */

CREATE TABLE atproto.dead_frame (
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    digest bytea NOT NULL,
    bytes bytea NOT NULL,
    format text,
    endpoint text,
    PRIMARY KEY (subscription, digest)
);
COMMENT ON TABLE atproto.dead_frame IS 'messages that dead letters are about, each once; one goes with its last letter';
COMMENT ON COLUMN atproto.dead_frame.digest IS 'SHA-256 of bytes';
COMMENT ON COLUMN atproto.dead_frame.bytes IS 'the whole WebSocket message';
COMMENT ON COLUMN atproto.dead_frame.subscription IS 'that received it';
COMMENT ON COLUMN atproto.dead_frame.format IS 'how the message is written, as in subscription.format; NULL: as the subscription''s stream is now';
COMMENT ON COLUMN atproto.dead_frame.endpoint IS 'stream that it came from, as in atproto.cursor; NULL: the subscription''s present one';

CREATE TABLE atproto.dead_letter (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription text NOT NULL
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    seq bigint,
    stage text NOT NULL CHECK (stage IN ('frame', 'message', 'commit', 'record', 'apply', 'signature', 'beyond')),
    sqlstate text NOT NULL,
    message text NOT NULL,
    did @extschema@.did,
    path text NOT NULL DEFAULT '',
    digest bytea CHECK (digest IS NOT NULL OR stage = 'beyond'),
    attempts bigint NOT NULL DEFAULT 1,
    first_at timestamptz NOT NULL DEFAULT now(),
    last_at timestamptz NOT NULL DEFAULT now(),
    superseded_rev atproto.tid,
    UNIQUE (subscription, digest, path),
    FOREIGN KEY (subscription, digest) REFERENCES atproto.dead_frame ON UPDATE CASCADE ON DELETE CASCADE
);
-- did alone: with the path, an index entry could become too long
CREATE INDEX dead_letter_did ON atproto.dead_letter (did);
CREATE UNIQUE INDEX dead_letter_beyond ON atproto.dead_letter (subscription, did) WHERE stage = 'beyond';
COMMENT ON TABLE atproto.dead_letter IS 'what could not be processed, with the reason; its bytes are in atproto.dead_frame';
COMMENT ON COLUMN atproto.dead_letter.seq IS 'sequence number of the event; for stage frame: of the last event before it';
COMMENT ON COLUMN atproto.dead_letter.stage IS 'frame: not an event-stream frame (the connection is dropped); message: a known message with wrong fields; commit: its blocks do not check; record: one record is invalid; apply: the database refused it; signature: the account has not signed it, one for each repository (or labeler) and key; beyond: the repository has its share of letters, what else of it was refused is not kept';
COMMENT ON COLUMN atproto.dead_letter.did IS 'the repository, where that is known';
COMMENT ON COLUMN atproto.dead_letter.path IS 'the record within the commit; #identity or #account for such an event; empty for any other whole event';
COMMENT ON COLUMN atproto.dead_letter.digest IS 'of its message in atproto.dead_frame';
COMMENT ON COLUMN atproto.dead_letter.attempts IS 'how often it was tried; for stage beyond: how many there were';
COMMENT ON COLUMN atproto.dead_letter.id IS 'what atproto.retry() takes';
COMMENT ON COLUMN atproto.dead_letter.subscription IS 'that received it';
COMMENT ON COLUMN atproto.dead_letter.sqlstate IS 'of the error, as PostgreSQL has it';
COMMENT ON COLUMN atproto.dead_letter.message IS 'the reason';
COMMENT ON COLUMN atproto.dead_letter.first_at IS 'when it was tried first';
COMMENT ON COLUMN atproto.dead_letter.last_at IS 'when it was tried last';
COMMENT ON COLUMN atproto.dead_letter.superseded_rev IS 'retry() applies no commit up to this revision: a newer commit removed the record, or an export of this revision came into the tables, by any subscription of the target; or the repository had a newer revision when the letter was written';

CREATE TABLE atproto.gap (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    subscription text
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    endpoint text NOT NULL,
    after_seq bigint NOT NULL,
    before_seq bigint,
    reason text NOT NULL,
    detected_at timestamptz NOT NULL DEFAULT now(),
    again_since timestamptz,
    closed_at timestamptz,
    closed_how text,
    did @extschema@.did,
    events bigint,
    target name
);
CREATE INDEX gap_subscription ON atproto.gap (subscription);
COMMENT ON TABLE atproto.gap IS 'stretches of a stream that were missed';
COMMENT ON COLUMN atproto.gap.after_seq IS 'last event processed before the gap';
COMMENT ON COLUMN atproto.gap.before_seq IS 'first event that was, or would be, received after it; NULL: unknown';
COMMENT ON COLUMN atproto.gap.reason IS 'OutdatedCursor: the server no longer had what follows after_seq; set_cursor: the operator jumped ahead; held events dropped: events between these two waited in atproto.held_event and had to go, and no row of a repository says so; Citus node behind: a node has come back with older rows, and the events between these two may be missing there';
COMMENT ON COLUMN atproto.gap.did IS 'only events of this labeler are missing; NULL: of all accounts';
COMMENT ON COLUMN atproto.gap.events IS 'how many are missing; NULL: unknown';
COMMENT ON COLUMN atproto.gap.again_since IS 'since when its events are read again; infinity: not yet, as the oldest event of the server has not come; NULL: they are not';
COMMENT ON COLUMN atproto.gap.closed_at IS 'when it was closed: by itself, its events having been read again, or by atproto.close_gap(); NULL: it is open';
COMMENT ON COLUMN atproto.gap.closed_how IS 'read again, or what atproto.close_gap() was told';
COMMENT ON COLUMN atproto.gap.id IS 'a number of its own';
COMMENT ON COLUMN atproto.gap.subscription IS 'whose stream it was; NULL: that of a subscription which was removed while events of it waited';
COMMENT ON COLUMN atproto.gap.target IS 'schema of the tables that lack the events, where subscription does not tell';
COMMENT ON COLUMN atproto.gap.endpoint IS 'stream, as in atproto.cursor';
COMMENT ON COLUMN atproto.gap.detected_at IS 'when it was seen';

SELECT pg_catalog.pg_extension_config_dump('atproto.dead_frame', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.dead_letter', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.dead_letter_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.gap', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.gap_id_seq', '');

-- seen by whom the subscription is
ALTER TABLE atproto.dead_frame ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.dead_frame
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
ALTER TABLE atproto.dead_letter ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.dead_letter
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
ALTER TABLE atproto.gap ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.gap
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
-- a row that no subscription has any more is for whoever reads the tables
CREATE POLICY target ON atproto.gap FOR SELECT USING (subscription IS NULL
    AND EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = target AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')));

-- The bytes go with the last letter about them.
CREATE FUNCTION atproto.dead_letter_removed() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_dead_letter_removed';
COMMENT ON FUNCTION atproto.dead_letter_removed() IS 'trigger: removes messages that no dead letter is about any more';
CREATE TRIGGER dead_letter_removed AFTER DELETE ON atproto.dead_letter
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION atproto.dead_letter_removed();
CREATE TRIGGER dead_letter_truncated AFTER TRUNCATE ON atproto.dead_letter
    FOR EACH STATEMENT EXECUTE FUNCTION atproto.dead_letter_removed();

-- retry(), refill() and load_car() set a search_path of their own after they have settled what the
-- caller's transaction still has to do.
CREATE FUNCTION atproto.create_tables(target name) RETURNS void
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_create_tables_sql';
COMMENT ON FUNCTION atproto.create_tables(name) IS 'make the tables that subscriptions fill, those that the schema does not have yet, and add columns that its tables lack; subscribe() does it by itself';
CREATE FUNCTION atproto.distribute(target name DEFAULT 'atproto', shards integer DEFAULT NULL) RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_distribute';
COMMENT ON FUNCTION atproto.distribute(name, integer) IS 'have Citus keep the rows of a schema''s data tables on its nodes, with what they have, and say how; shards NULL: 4 for each node';
CREATE FUNCTION atproto.partition(
    target name DEFAULT 'atproto', by text DEFAULT NULL, collections @extschema@.nsid[] DEFAULT NULL,
    ahead integer DEFAULT 3, keep interval DEFAULT NULL, keep_events interval DEFAULT NULL
) RETURNS SETOF text
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_partition';
COMMENT ON FUNCTION atproto.partition(name, text, @extschema@.nsid[], integer, interval, interval) IS 'put the table record into partitions, by collection or by month, and record_event, by month; make those of the months ahead, and of more collections; drop months of records (keep) and events (keep_events) that are over; returns what it did';
CREATE PROCEDURE atproto.maintain_partitions(
    target name DEFAULT 'atproto', collections @extschema@.nsid[] DEFAULT NULL,
    ahead integer DEFAULT 3, keep interval DEFAULT NULL, keep_events interval DEFAULT NULL
)
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_maintain_partitions';
COMMENT ON PROCEDURE atproto.maintain_partitions(name, @extschema@.nsid[], integer, interval, interval) IS 'what tables that are in partitions need once a month: the months ahead and those of which the default partition has rows, more collections, and the end of months of records (keep) and events (keep_events) that are over; in transactions of its own';
CREATE FUNCTION atproto.refill(name text, dids @extschema@.did[] DEFAULT NULL, seq bigint DEFAULT 0) RETURNS bigint
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_refill';
COMMENT ON FUNCTION atproto.refill(text, @extschema@.did[], bigint) IS 'read the events after seq again, of these repositories or of all: what the tables lack is filled in; returns how many repositories';
CREATE FUNCTION atproto.retry(id bigint) RETURNS text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_retry';
COMMENT ON FUNCTION atproto.retry(bigint) IS 'process a dead letter again, as the subscription''s owner: "applied" or "obsolete" remove it, anything else is why it stays';

CREATE FUNCTION atproto.audit(
    did @extschema@.did, target name DEFAULT 'atproto', deep boolean DEFAULT false,
    OUT equal boolean, OUT reason text, OUT records bigint,
    OUT root @extschema@.cidlink, OUT data @extschema@.cidlink, OUT rev atproto.tid
) RETURNS record
    LANGUAGE c STABLE STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_audit';
COMMENT ON FUNCTION atproto.audit(@extschema@.did, name, boolean) IS 'are the repository''s records in the tables those of its last commit: is root, of the tree over all of them, the signed data; deep: and is each value what its CID says';
CREATE PROCEDURE atproto.audit_all(target name DEFAULT 'atproto')
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_audit_all';
COMMENT ON PROCEDURE atproto.audit_all(name) IS 'audit every repository and write the outcome into repo.sync; commits now and then';

CREATE FUNCTION atproto.load_car(
    did @extschema@.did, car bytea, target name DEFAULT 'atproto', key text DEFAULT NULL,
    OUT rev atproto.tid, OUT created bigint, OUT updated bigint, OUT deleted bigint, OUT same bigint, OUT refused bigint
) RETURNS record
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_load_car';
COMMENT ON FUNCTION atproto.load_car(@extschema@.did, bytea, name, text) IS 'bring a repository''s export, a CAR file, into the tables of a subscription, as its owner: afterwards they have the records that it has; key: of the account, to verify it with';

-- The fetcher looks here for work: what it does in the tables themselves, it does as their owner.
CREATE TABLE atproto.audit_state (
    target name PRIMARY KEY,
    next_at timestamptz,
    tries integer NOT NULL DEFAULT 0
        CHECK (tries >= 0),
    audited bigint NOT NULL DEFAULT 0
        CHECK (audited >= 0),
    different bigint NOT NULL DEFAULT 0
        CHECK (different >= 0),
    different_at timestamptz,
    rate double precision NOT NULL DEFAULT 0,
    audited_at timestamptz NOT NULL DEFAULT now(),
    error text
        CHECK (octet_length(error) <= 1000)
) WITH (fillfactor = 70);
COMMENT ON TABLE atproto.audit_state IS 'audits that are made by themselves, of repositories that are unproven; one row for each target that had such';
COMMENT ON COLUMN atproto.audit_state.next_at IS 'when the next ones are due; NULL: nothing is unproven';
COMMENT ON COLUMN atproto.audit_state.tries IS 'failures in a row; each doubles the wait';
COMMENT ON COLUMN atproto.audit_state.audited IS 'repositories so far';
COMMENT ON COLUMN atproto.audit_state.different IS 'how many of them had other records than their account signed: they are desynchronized';
COMMENT ON COLUMN atproto.audit_state.different_at IS 'when the last one was found';
COMMENT ON COLUMN atproto.audit_state.rate IS 'repositories a second, about, over the minute before audited_at';
COMMENT ON COLUMN atproto.audit_state.error IS 'why the last audits failed; NULL: they did not';
COMMENT ON COLUMN atproto.audit_state.target IS 'schema of the tables';
COMMENT ON COLUMN atproto.audit_state.audited_at IS 'when the last one was audited';
ALTER TABLE atproto.audit_state ENABLE ROW LEVEL SECURITY;
CREATE POLICY target ON atproto.audit_state FOR SELECT USING (pg_catalog.pg_has_role('pg_monitor', 'USAGE')
    OR EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = target AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')));
GRANT SELECT ON atproto.audit_state TO pg_monitor;
SELECT pg_catalog.pg_extension_config_dump('atproto.audit_state', '');

REVOKE ALL ON PROCEDURE atproto.audit_all(name), atproto.maintain_partitions(name, @extschema@.nsid[], integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION
    atproto.audit(@extschema@.did, name, boolean), atproto.dead_letter_removed(), atproto.create_tables(name), atproto.distribute(name, integer), atproto.retry(bigint),
    atproto.partition(name, text, @extschema@.nsid[], integer, interval, interval),
    atproto.refill(text, @extschema@.did[], bigint), atproto.load_car(@extschema@.did, bytea, name, text)
    FROM PUBLIC;
