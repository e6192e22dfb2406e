/*
 * src/tables/base: how far the reading of an archive is.  The position is in atproto.cursor, as the stream's is.
 */

CREATE TABLE atproto.history (
    subscription text PRIMARY KEY
        REFERENCES atproto.subscription (name) ON UPDATE CASCADE ON DELETE CASCADE,
    endpoint text NOT NULL,
    phase text NOT NULL DEFAULT 'plan'
        CHECK (phase IN ('plan', 'rows', 'markers', 'seam', 'live')),
    tip bigint
        CHECK (tip BETWEEN 1 AND 999999999999999),
    passes integer
        CHECK (passes IN (1, 2)),
    began_after bigint NOT NULL DEFAULT 0
        CHECK (began_after BETWEEN 0 AND 999999999999999),
    markers_after @extschema@.did,
    filtered_here text[],
    settled bigint NOT NULL DEFAULT 0
        CHECK (settled BETWEEN 0 AND 999999999999999),
    seams int8multirange NOT NULL DEFAULT '{}',
    again_until bigint NOT NULL DEFAULT 0
        CHECK (again_until BETWEEN 0 AND 999999999999999),
    anchor bigint
        CHECK (anchor BETWEEN 1 AND 999999999999999),
    anchor_row bigint
        CHECK ((anchor_row IS NULL) = (anchor IS NULL)),
    cycles integer NOT NULL DEFAULT 0
        CHECK (cycles >= 0),
    seam_missing bigint NOT NULL DEFAULT 0
        CHECK (seam_missing >= 0),
    planned_blocks bigint
        CHECK (planned_blocks >= 0),
    blocks bigint NOT NULL DEFAULT 0
        CHECK (blocks >= 0),
    planned_bytes bigint
        CHECK (planned_bytes >= 0),
    bytes bigint NOT NULL DEFAULT 0
        CHECK (bytes >= 0),
    rows bigint NOT NULL DEFAULT 0
        CHECK (rows >= 0),
    error text,
    next_try timestamptz,
    started_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    sweep_since timestamptz NOT NULL DEFAULT now(),
    incomplete text
        CHECK (incomplete IN ('number', 'age', 'behind', 'joined')),
    incomplete_at timestamptz
);
COMMENT ON TABLE atproto.history IS 'archives that are read before a stream (option history): one row for each subscription. The position is in atproto.cursor. Experimental.';
COMMENT ON COLUMN atproto.history.subscription IS 'the subscription';
COMMENT ON COLUMN atproto.history.endpoint IS 'the stream whose archive is read, as in atproto.cursor';
COMMENT ON COLUMN atproto.history.phase IS 'plan: the server is asked what to read; rows: rows up to tip are read; markers: then changes of accounts, if they are read apart; seam: the stream has begun, and the rows around its beginning are still to be compared with the archive; live: all is done';
COMMENT ON COLUMN atproto.history.tip IS 'the last sequence number of the archive when this cycle began: rows up to it are read; NULL: not known yet';
COMMENT ON COLUMN atproto.history.passes IS '2: records are read first, and changes of accounts afterwards; 1: all in one pass; NULL: not decided yet';
COMMENT ON COLUMN atproto.history.began_after IS 'the position at which this cycle began';
COMMENT ON COLUMN atproto.history.markers_after IS 'accounts are read in groups, each from began_after on: those up to this one were read; NULL: none yet';
COMMENT ON COLUMN atproto.history.filtered_here IS 'filters that the server was not asked to apply, so that blocks without a wanted row are read, too: slice; collections or dids, when the server refuses the list, or the list has more than 100 collections; NULL: none';
COMMENT ON COLUMN atproto.history.settled IS 'rows up to this sequence number were read from the archive, or compared with it: no crash of the server changes them any more';
COMMENT ON COLUMN atproto.history.seams IS 'sequence numbers at which the stream has left out rows, or may have: the archive is to be asked';
COMMENT ON COLUMN atproto.history.again_until IS 'rows up to this sequence number are read again';
COMMENT ON COLUMN atproto.history.anchor IS 'sequence number of a row of the archive that compaction never removes: before each cycle, the archive must have the row, or it is another archive; NULL: none was seen yet';
COMMENT ON COLUMN atproto.history.anchor_row IS 'digest of the row at anchor';
COMMENT ON COLUMN atproto.history.cycles IS 'how often the archive was read up to its tip';
COMMENT ON COLUMN atproto.history.seam_missing IS 'rows that the stream had left out, and the archive has brought';
COMMENT ON COLUMN atproto.history.planned_blocks IS 'blocks of this cycle that have to be read, as planned so far';
COMMENT ON COLUMN atproto.history.blocks IS 'blocks that were read in this cycle';
COMMENT ON COLUMN atproto.history.planned_bytes IS 'bytes of this cycle, as estimated from the blocks that were read';
COMMENT ON COLUMN atproto.history.bytes IS 'bytes that were received in this cycle';
COMMENT ON COLUMN atproto.history.rows IS 'rows of the archive that passed the filters, of all cycles';
COMMENT ON COLUMN atproto.history.error IS 'what the reading waits for; NULL: nothing';
COMMENT ON COLUMN atproto.history.next_try IS 'when the next try is due';
COMMENT ON COLUMN atproto.history.started_at IS 'when the reading began';
COMMENT ON COLUMN atproto.history.finished_at IS 'when the phase became live last';
COMMENT ON COLUMN atproto.history.sweep_since IS 'when the phase was live last, or the reading began: deletions by other subscriptions of the target are kept since then';
COMMENT ON COLUMN atproto.history.incomplete IS 'why records that another subscription of the target has deleted may have come back; number: too many deletions were kept (atproto.sweep_max_deletions); age: they were kept for too long (atproto.sweep_max_age); behind: the end has waited for a subscription for too long; joined: a subscription was added, or moved to the target, after the reading had begun; NULL: they have not';
COMMENT ON COLUMN atproto.history.incomplete_at IS 'when incomplete was set';
SELECT pg_catalog.pg_extension_config_dump('atproto.history', '');

CREATE FUNCTION atproto_internal.history_changed() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_history_changed';
COMMENT ON FUNCTION atproto_internal.history_changed() IS 'trigger: all processes ask again whether an archive is being read';
CREATE TRIGGER history_changed AFTER INSERT OR DELETE ON atproto.history
    FOR EACH ROW EXECUTE FUNCTION atproto_internal.history_changed();
CREATE TRIGGER history_phase AFTER UPDATE OF phase ON atproto.history
    FOR EACH ROW WHEN (OLD.phase <> NEW.phase) EXECUTE FUNCTION atproto_internal.history_changed();
CREATE TRIGGER history_none AFTER TRUNCATE ON atproto.history
    FOR EACH STATEMENT EXECUTE FUNCTION atproto_internal.history_changed();
ALTER TABLE atproto.history ENABLE ALWAYS TRIGGER history_changed;
ALTER TABLE atproto.history ENABLE ALWAYS TRIGGER history_phase;
ALTER TABLE atproto.history ENABLE ALWAYS TRIGGER history_none;
REVOKE ALL ON FUNCTION atproto_internal.history_changed() FROM PUBLIC;

CREATE FUNCTION atproto_internal.sweep_joined() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_sweep_joined';
COMMENT ON FUNCTION atproto_internal.sweep_joined() IS 'trigger: of a subscription that fills a target while an archive is read into the target, the deletions before were not kept';
CREATE TRIGGER sweep_joined AFTER INSERT OR UPDATE OF target ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION atproto_internal.sweep_joined();
ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER sweep_joined;
REVOKE ALL ON FUNCTION atproto_internal.sweep_joined() FROM PUBLIC;

-- a role sees the rows of the subscriptions that the role sees
ALTER TABLE atproto.history ENABLE ROW LEVEL SECURITY;
CREATE POLICY owner ON atproto.history
    USING (EXISTS (SELECT FROM atproto.subscription s WHERE s.name = subscription));
