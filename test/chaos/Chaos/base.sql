-- base.sql
--		Once for a database: what watches all seeds.  cursor_log has each move of a
--		cursor with the settings that it was made under; setting has their words.

CREATE EXTENSION atproto;
GRANT EXECUTE ON FUNCTION atproto.subscribe, atproto.unsubscribe, atproto.pause, atproto.resume,
    atproto.set_cursor, atproto.retry, atproto.create_tables, atproto.audit TO owner;
GRANT SELECT, INSERT, UPDATE, DELETE ON atproto.subscription, atproto.request_header, atproto.cursor,
    atproto.dead_letter, atproto.dead_frame, atproto.gap TO owner;

CREATE SCHEMA chaos;
CREATE TABLE chaos.flushed (n integer);
CREATE TABLE chaos.setting (
    digest bytea PRIMARY KEY,
    collections text[],
    dids text[],
    actions text[],
    keep_records boolean,
    events text,
    slice text,
    count_collections boolean);
CREATE TABLE chaos.cursor_log (
    id bigint GENERATED ALWAYS AS IDENTITY,
    subscription text,
    shard integer,
    shards bigint,          -- rows of the cursor at that moment
    after bigint,
    upto bigint,
    settings bytea,
    by text,
    xid xid8 DEFAULT pg_current_xact_id());

CREATE FUNCTION chaos.note_setting() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO chaos.setting
    SELECT pg_catalog.sha256(convert_to(ROW(target, collections, dids, slice, actions, keep_records, events, keep_raw, verify, host_is_pds, count_collections, links, validate)::text, 'UTF8')),
        collections, dids::text[], actions, keep_records, events, slice, count_collections FROM atproto.subscription WHERE name = NEW.name
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER note_setting AFTER INSERT OR UPDATE ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION chaos.note_setting();

CREATE FUNCTION chaos.note_cursor() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO chaos.cursor_log (subscription, shard, shards, after, upto, settings, by)
    SELECT NEW.subscription, NEW.shard, (SELECT count(*) FROM atproto.cursor WHERE subscription = NEW.subscription),
        OLD.seq, NEW.seq, NEW.settings, (SELECT backend_type FROM pg_stat_activity WHERE pid = pg_backend_pid());
    RETURN NULL;
END $$;
CREATE TRIGGER note_cursor AFTER UPDATE ON atproto.cursor
    FOR EACH ROW WHEN (NEW.seq IS DISTINCT FROM OLD.seq) EXECUTE FUNCTION chaos.note_cursor();

-- Statement triggers with transition tables, as doc/ has them: rows of record by collection.
CREATE FUNCTION chaos.tally() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        EXECUTE format('INSERT INTO %I.tally AS t SELECT collection::text, count(*) FROM rows GROUP BY 1'
            ' ON CONFLICT (collection) DO UPDATE SET n = t.n + excluded.n', TG_TABLE_SCHEMA);
    ELSE
        EXECUTE format('UPDATE %I.tally t SET n = t.n - r.n'
            ' FROM (SELECT collection::text, count(*) AS n FROM rows GROUP BY 1) r'
            ' WHERE r.collection = t.collection', TG_TABLE_SCHEMA);
    END IF;
    RETURN NULL;
END $$;

-- What events => 'hand' hands over.
CREATE FUNCTION chaos.handed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('INSERT INTO %I.handed VALUES ($1.seq, $1.action, $1.did::text, $1.collection::text,'
        ' $1.rkey::text, $1.rev::text, $1.cid::text, $1.value, $1.old_cid::text)', TG_TABLE_SCHEMA) USING OLD;
    RETURN NULL;
END $$;

CREATE FUNCTION chaos.nothing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RETURN NEW;
END $$;

-- Takes away whatever advisory lock a user's trigger can.
CREATE FUNCTION chaos.unlock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_unlock_all();
    RETURN NULL;
END $$;

-- Refuses a part of the records, by their keys.
CREATE FUNCTION chaos.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF hashtext(coalesce(NEW.rkey, OLD.rkey)::text) % 5 = 0 THEN
        RAISE EXCEPTION 'refused by chaos';
    END IF;
    RETURN coalesce(NEW, OLD);
END $$;

-- Calls what is not there: not the rows' fault.
CREATE FUNCTION chaos.broken() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM chaos.is_not_there();
    RETURN NEW;
END $$;
GRANT USAGE ON SCHEMA chaos TO owner;
