/*
 * src/tables/base: dead letters, gaps, automatic audits, and functions on the data tables.
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
COMMENT ON TABLE atproto.dead_frame IS 'messages that dead letters are about, each stored once; deleted with the last dead letter about the message';
COMMENT ON COLUMN atproto.dead_frame.digest IS 'SHA-256 of the column bytes';
COMMENT ON COLUMN atproto.dead_frame.bytes IS 'the whole WebSocket message';
COMMENT ON COLUMN atproto.dead_frame.subscription IS 'subscription that received the message';
COMMENT ON COLUMN atproto.dead_frame.format IS 'how the message is encoded, as in subscription.format; NULL: in the present format of the subscription''s stream';
COMMENT ON COLUMN atproto.dead_frame.endpoint IS 'stream that the message came from, as in atproto.cursor; NULL: the subscription''s present stream';

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
-- did alone: an index entry of did and path could exceed the maximal size of an entry
CREATE INDEX dead_letter_did ON atproto.dead_letter (did);
CREATE UNIQUE INDEX dead_letter_beyond ON atproto.dead_letter (subscription, did) WHERE stage = 'beyond';
COMMENT ON TABLE atproto.dead_letter IS 'events and records that could not be processed, with the reason; the message is in atproto.dead_frame';
COMMENT ON COLUMN atproto.dead_letter.seq IS 'sequence number of the event; for stage frame: of the last event before the frame';
COMMENT ON COLUMN atproto.dead_letter.stage IS 'frame: the message is no event-stream frame (the connection is dropped); message: a known message with wrong fields; commit: the blocks of the commit do not check; record: one record is invalid; apply: the database refused the event or record; signature: the account has not signed the event, one dead letter for each repository (or labeler) and key; beyond: the repository has used up its share of dead letters, further refusals are counted and not kept';
COMMENT ON COLUMN atproto.dead_letter.did IS 'the repository, where known';
COMMENT ON COLUMN atproto.dead_letter.path IS 'the record within the commit; #identity or #account for such an event; empty for every other whole event';
COMMENT ON COLUMN atproto.dead_letter.digest IS 'digest of the message in atproto.dead_frame';
COMMENT ON COLUMN atproto.dead_letter.attempts IS 'number of attempts; for stage beyond: number of further refusals';
COMMENT ON COLUMN atproto.dead_letter.id IS 'number of the dead letter, the argument of atproto.retry()';
COMMENT ON COLUMN atproto.dead_letter.subscription IS 'subscription that received the event';
COMMENT ON COLUMN atproto.dead_letter.sqlstate IS 'SQLSTATE of the error';
COMMENT ON COLUMN atproto.dead_letter.message IS 'the reason';
COMMENT ON COLUMN atproto.dead_letter.first_at IS 'time of the first attempt';
COMMENT ON COLUMN atproto.dead_letter.last_at IS 'time of the last attempt';
COMMENT ON COLUMN atproto.dead_letter.superseded_rev IS 'a commit of this revision removed the record, or an export of this revision was loaded, by any subscription of the target, or an audit has found the repository synchronized at this revision: retry() applies nothing up to this revision; also the newer revision that the repository had when the letter was written';

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
COMMENT ON TABLE atproto.gap IS 'stretches of a stream that the subscription missed';
COMMENT ON COLUMN atproto.gap.after_seq IS 'last event processed before the gap';
COMMENT ON COLUMN atproto.gap.before_seq IS 'first event that was received, or would be received, after the gap; NULL: unknown';
COMMENT ON COLUMN atproto.gap.reason IS 'OutdatedCursor: the server no longer had the events after after_seq; set_cursor: the operator jumped ahead, or subscribe() began in the middle of a directory''s log; archive: the stream had left out rows that its archive has, or its server has other rows than before; held events dropped: events between these two waited in atproto.held_event and were dropped, and no row of a repository records the loss; dead letters dropped: the subscription with dead letters was removed or got another target, and the repositories could not be marked; Citus node behind: a node has come back with older rows, and the events between these two may be missing there';
COMMENT ON COLUMN atproto.gap.did IS 'only events of this labeler are missing; NULL: events of all accounts';
COMMENT ON COLUMN atproto.gap.events IS 'number of missing events, or of dead letters; NULL: unknown';
COMMENT ON COLUMN atproto.gap.again_since IS 'since when the events of the gap are read again; infinity: the cursor is set to the server''s oldest event, which has not come yet; NULL: the events are not being read again';
COMMENT ON COLUMN atproto.gap.closed_at IS 'when the gap was closed, after its events had been read again or by atproto.close_gap(); NULL: the gap is open';
COMMENT ON COLUMN atproto.gap.closed_how IS 'read again, or the text given to atproto.close_gap()';
COMMENT ON COLUMN atproto.gap.id IS 'number of the gap';
COMMENT ON COLUMN atproto.gap.subscription IS 'subscription whose stream has the gap; NULL: a subscription that was removed while events waited, or with dead letters';
COMMENT ON COLUMN atproto.gap.target IS 'schema of the tables that lack the events, when subscription is NULL';
COMMENT ON COLUMN atproto.gap.endpoint IS 'the stream, as in atproto.cursor';
COMMENT ON COLUMN atproto.gap.detected_at IS 'when the gap was noticed; held events dropped: when the last event was dropped';

SELECT pg_catalog.pg_extension_config_dump('atproto.dead_frame', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.dead_letter', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.dead_letter_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.gap', '');
SELECT pg_catalog.pg_extension_config_dump('atproto.gap_id_seq', '');

-- A role sees the rows of the subscriptions that the role sees.
ALTER TABLE atproto.dead_frame ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.dead_frame
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
ALTER TABLE atproto.dead_letter ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.dead_letter
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
ALTER TABLE atproto.gap ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.gap
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
-- A row of a removed subscription is visible to every role that may use the schema of the tables.
CREATE POLICY target ON atproto.gap FOR SELECT USING (subscription IS NULL
    AND EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = target AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')));

-- A message is deleted with the last dead letter about it.
CREATE FUNCTION atproto_internal.dead_letter_removed() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_dead_letter_removed';
COMMENT ON FUNCTION atproto_internal.dead_letter_removed() IS 'trigger: deletes messages that no dead letter is about any more';
CREATE TRIGGER dead_letter_removed AFTER DELETE ON atproto.dead_letter
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION atproto_internal.dead_letter_removed();
CREATE TRIGGER dead_letter_truncated AFTER TRUNCATE ON atproto.dead_letter
    FOR EACH STATEMENT EXECUTE FUNCTION atproto_internal.dead_letter_removed();

-- retry(), refill() and load_car() have no SET search_path here: they first fire the caller's pending
-- deferred triggers, which have to see the caller's search_path, and then set their own.
CREATE FUNCTION atproto.create_tables(target name, value text DEFAULT NULL) RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_create_tables_sql';
COMMENT ON FUNCTION atproto.create_tables(name, text) IS 'make the data tables that the schema lacks, and add columns that existing data tables lack; subscribe() calls this function; value: type of the values of records, jsonb or dagcbor; NULL: the type that the table record has, jsonb for new tables. Experimental: value.';
CREATE FUNCTION atproto.distribute(target name DEFAULT 'atproto', shards integer DEFAULT NULL) RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_distribute';
COMMENT ON FUNCTION atproto.distribute(name, integer) IS 'have Citus distribute the rows of a schema''s data tables, including the existing rows, among the nodes; returns nothing and reports the steps as notices; shards NULL: 4 for each node';
CREATE FUNCTION atproto.partition(
    target name DEFAULT 'atproto', by text DEFAULT NULL, collections @extschema@.nsid[] DEFAULT NULL,
    ahead integer DEFAULT 3, keep interval DEFAULT NULL, keep_events interval DEFAULT NULL
) RETURNS SETOF text
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_partition';
COMMENT ON FUNCTION atproto.partition(name, text, @extschema@.nsid[], integer, interval, interval) IS 'divide the table record into partitions, by collection or by month, and record_event by month; make the partitions of the months ahead and of further collections; drop months of records (keep) and of events (keep_events) that are over; returns one row for each step';
CREATE PROCEDURE atproto.maintain_partitions(
    target name DEFAULT 'atproto', collections @extschema@.nsid[] DEFAULT NULL,
    ahead integer DEFAULT 3, keep interval DEFAULT NULL, keep_events interval DEFAULT NULL
)
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_maintain_partitions';
COMMENT ON PROCEDURE atproto.maintain_partitions(name, @extschema@.nsid[], integer, interval, interval) IS 'monthly maintenance of partitioned data tables: makes the months ahead and the months with rows in the default partition, adds collections, and drops months of records (keep) and of events (keep_events) that are over; uses transactions of its own';
CREATE FUNCTION atproto.refill(name text, dids @extschema@.did[] DEFAULT NULL, seq bigint DEFAULT 0) RETURNS bigint
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_refill';
COMMENT ON FUNCTION atproto.refill(text, @extschema@.did[], bigint) IS 'read the events after seq again, of these repositories or of all, and fill in rows that the tables lack; returns the number of repositories';
CREATE FUNCTION atproto.retry(id bigint) RETURNS text
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_retry';
COMMENT ON FUNCTION atproto.retry(bigint) IS 'process a dead letter again, as the subscription''s owner: "applied" and "obsolete" remove the dead letter, any other text says why the dead letter stays';

CREATE FUNCTION atproto.audit(
    did @extschema@.did, target name DEFAULT 'atproto', deep boolean DEFAULT false,
    OUT equal boolean, OUT reason text, OUT records bigint,
    OUT root @extschema@.cidlink, OUT data @extschema@.cidlink, OUT rev atproto.tid
) RETURNS record
    LANGUAGE c STABLE STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_audit';
COMMENT ON FUNCTION atproto.audit(@extschema@.did, name, boolean) IS 'compare the repository''s records in the tables with the last commit: is root, computed over all the records, equal to the signed data; deep: check each value against its CID, too';
CREATE PROCEDURE atproto.audit_all(target name DEFAULT 'atproto')
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_audit_all';
COMMENT ON PROCEDURE atproto.audit_all(name) IS 'audit every repository and write the outcome into repo.sync; commits now and then';

CREATE PROCEDURE atproto.revalidate(target name DEFAULT 'atproto', collection @extschema@.nsid DEFAULT NULL)
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_revalidate';
COMMENT ON PROCEDURE atproto.revalidate(name, @extschema@.nsid) IS 'bring record.fault up to date after a change of a subscription''s option validate, or of a Lexicon, as the owner of the table record; collection NULL: of all records; commits now and then';

CREATE FUNCTION atproto.load_car(
    did @extschema@.did, car bytea, target name DEFAULT 'atproto', key text DEFAULT NULL,
    OUT rev atproto.tid, OUT created bigint, OUT updated bigint, OUT deleted bigint, OUT same bigint, OUT refused bigint
) RETURNS record
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_load_car';
COMMENT ON FUNCTION atproto.load_car(@extschema@.did, bytea, name, text) IS 'load a repository''s export (a CAR file) into the tables of a subscription, as the subscription''s owner: afterwards the tables have the records of the export; key: public key of the account, to verify the export with';

-- The fetcher reads this table to find work.  It reads the data tables only as their owner.
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
COMMENT ON TABLE atproto.audit_state IS 'automatic audits of unproven repositories; one row for each target that ever had an unproven repository';
COMMENT ON COLUMN atproto.audit_state.next_at IS 'when the next audits are due; NULL: no repository is unproven, or no subscription of the target allows audits of the unproven ones';
COMMENT ON COLUMN atproto.audit_state.tries IS 'failures in a row; each failure doubles the wait';
COMMENT ON COLUMN atproto.audit_state.audited IS 'number of repositories audited so far';
COMMENT ON COLUMN atproto.audit_state.different IS 'number of audited repositories whose records differed from the signed commit: they are marked desynchronized';
COMMENT ON COLUMN atproto.audit_state.different_at IS 'when the last difference was found';
COMMENT ON COLUMN atproto.audit_state.rate IS 'approximate number of repositories audited per second, over the minute before audited_at';
COMMENT ON COLUMN atproto.audit_state.error IS 'why the last audits failed; NULL: no failure';
COMMENT ON COLUMN atproto.audit_state.target IS 'schema of the tables';
COMMENT ON COLUMN atproto.audit_state.audited_at IS 'when the last repository was audited';
ALTER TABLE atproto.audit_state ENABLE ROW LEVEL SECURITY;
CREATE POLICY target ON atproto.audit_state FOR SELECT USING (pg_catalog.pg_has_role('pg_monitor', 'USAGE')
    OR EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = target AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')));
GRANT SELECT ON atproto.audit_state TO pg_monitor;
SELECT pg_catalog.pg_extension_config_dump('atproto.audit_state', '');
CREATE FUNCTION atproto_internal.subscription_audits() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_subscription_audits';
COMMENT ON FUNCTION atproto_internal.subscription_audits() IS 'trigger: audits that no subscription of a target allowed are due again when a subscription changes';
CREATE TRIGGER subscription_audits AFTER INSERT OR DELETE OR UPDATE OF target, url, format, owner, collections, actions, keep_records ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION atproto_internal.subscription_audits();
ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_audits;
REVOKE ALL ON FUNCTION atproto_internal.subscription_audits() FROM PUBLIC;

REVOKE ALL ON PROCEDURE atproto.audit_all(name), atproto.revalidate(name, @extschema@.nsid), atproto.maintain_partitions(name, @extschema@.nsid[], integer, interval, interval) FROM PUBLIC;
REVOKE ALL ON FUNCTION
    atproto.audit(@extschema@.did, name, boolean), atproto_internal.dead_letter_removed(), atproto.create_tables(name, text), atproto.distribute(name, integer), atproto.retry(bigint),
    atproto.partition(name, text, @extschema@.nsid[], integer, interval, interval),
    atproto.refill(text, @extschema@.did[], bigint), atproto.load_car(@extschema@.did, bytea, name, text)
    FROM PUBLIC;

-- How far long commands are, as pg_stat_progress_create_index and its siblings
CREATE FUNCTION atproto_internal.progress(
    OUT pid integer, OUT command text, OUT target text, OUT phase text, OUT done bigint, OUT total bigint,
    OUT started_at timestamptz, OUT phase_at timestamptz
) RETURNS SETOF record
    LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'atp_progress';
COMMENT ON FUNCTION atproto_internal.progress() IS 'commands that run in this database, of the caller''s roles; members of pg_monitor see all';
CREATE VIEW atproto.stat_progress AS
    SELECT p.pid, p.command, p.target, p.phase, p.done, p.total,
        CASE WHEN p.total > 0 THEN pg_catalog.round(100.0 * p.done / p.total, 1) END AS percent,
        p.started_at, p.phase_at,
        CASE WHEN p.total > 0 AND p.done > 0 THEN p.phase_at + (pg_catalog.clock_timestamp() - p.phase_at) * (p.total::double precision / p.done) END AS phase_ends_at
    FROM atproto_internal.progress() p;
COMMENT ON VIEW atproto.stat_progress IS 'one row for each call of audit_all(), partition(), maintain_partitions(), rebuild_links(), count_links(), revalidate() and erase() that runs now: how far the call is; empty if the library is not preloaded';
COMMENT ON COLUMN atproto.stat_progress.pid IS 'pid of the session';
COMMENT ON COLUMN atproto.stat_progress.command IS 'audit_all, partition, maintain_partitions, rebuild_links, count_links, revalidate or erase';
COMMENT ON COLUMN atproto.stat_progress.target IS 'schema of the tables; of erase(), empty: all';
COMMENT ON COLUMN atproto.stat_progress.phase IS 'what is done now; a command has several phases';
COMMENT ON COLUMN atproto.stat_progress.done IS 'rows read, rows moved, records validated, or repositories audited, in this phase';
COMMENT ON COLUMN atproto.stat_progress.total IS 'of about so many, by the last VACUUM or ANALYZE; NULL: not known';
COMMENT ON COLUMN atproto.stat_progress.percent IS 'the part of the phase that is done; NULL: not known';
COMMENT ON COLUMN atproto.stat_progress.started_at IS 'when the command began';
COMMENT ON COLUMN atproto.stat_progress.phase_at IS 'when the phase began';
COMMENT ON COLUMN atproto.stat_progress.phase_ends_at IS 'when the phase will be done, at its rate so far; NULL: not known';
GRANT SELECT ON atproto.stat_progress TO pg_monitor;
