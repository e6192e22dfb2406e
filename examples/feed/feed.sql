-- The database of the feed generator: the posts with the hashtags of each feed.  The database does not store the network,
-- but only what the feeds need: the subscription hands each operation on a post to a trigger, and keeps no records.
--     psql -d mydb -f feed.sql        STREAM=... in front of it chooses another stream
\set ON_ERROR_STOP on
\set stream `echo "${STREAM-wss://jetstream2.us-east.bsky.network/subscribe}"`
BEGIN;
CREATE EXTENSION IF NOT EXISTS atproto;
CREATE SCHEMA feed;
SELECT atproto.create_tables('feed');

CREATE TABLE feed.topic (feed text, tag text, PRIMARY KEY (feed, tag));
INSERT INTO feed.topic VALUES ('databases', 'databases'), ('databases', 'postgresql'), ('databases', 'sql'),
    ('reading', 'books'), ('reading', 'bücher'), ('reading', 'livros'), ('reading', 'libros');

CREATE TABLE feed.post (feed text, rkey recordkey, did did, PRIMARY KEY (feed, rkey, did));
CREATE INDEX ON feed.post (did, rkey);

-- Anybody can write anything: record_hashtags() gives no hashtags for a record that is no post, and never an error.
CREATE FUNCTION feed.keep() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    IF NEW.action <> 'create' THEN
        DELETE FROM feed.post WHERE (did, rkey) = (NEW.did, NEW.rkey);
    END IF;
    IF NEW.action <> 'delete' THEN
        INSERT INTO feed.post
        SELECT DISTINCT feed, NEW.rkey, NEW.did FROM feed.topic WHERE tag = ANY (record_hashtags(NEW.value))
        ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER keep AFTER INSERT ON feed.record_event FOR EACH ROW EXECUTE FUNCTION feed.keep();

SELECT atproto.subscribe('feed', :'stream', target => 'feed', collections => '{app.bsky.feed.post}',
    keep_records => false, events => 'hand');

-- A page of a feed, the newest posts first, of active accounts.  A key from the future is not the newest post.
-- "after" is the last post of the page before: the pages do not shift when posts come or go.
CREATE FUNCTION feed.skeleton(name text, after aturi, max integer) RETURNS TABLE (post aturi)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = public, pg_temp AS $$
    SELECT aturi(p.did, 'app.bsky.feed.post', p.rkey)
    FROM feed.post p LEFT JOIN feed.repo r ON r.did = p.did
    WHERE p.feed = name AND r.active IS NOT FALSE AND r.hidden_at IS NULL
        AND (p.rkey, p.did) < (coalesce(aturi_rkey(after), tid_ceil(now())::text::recordkey), coalesce(aturi_did(after), 'did:zzz:z'))
    ORDER BY p.rkey DESC, p.did DESC LIMIT max;
$$;
COMMIT;
