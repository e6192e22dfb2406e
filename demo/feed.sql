-- The feed of make demo: the posts in the order in which they come, and how many likes each of them has.  Triggers
-- keep both, in the transaction that brings the records.
SELECT atproto.create_tables('atproto') \g /dev/null

CREATE TABLE feed (n bigint GENERATED ALWAYS AS IDENTITY, post aturi PRIMARY KEY);
CREATE TABLE likes (post aturi PRIMARY KEY, n bigint NOT NULL);
CREATE INDEX ON feed (n);

CREATE FUNCTION keep_feed() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO feed (post)
        SELECT aturi(did, collection, rkey) FROM new_rows WHERE collection = 'app.bsky.feed.post' ORDER BY rkey
        ON CONFLICT DO NOTHING;
    ELSE
        DELETE FROM feed USING old_rows WHERE collection = 'app.bsky.feed.post' AND post = aturi(did, collection, rkey);
    END IF;
    RETURN NULL;
END $$;

-- Of records that anybody may write: what names no post is no like.
CREATE FUNCTION liked(collection nsid, value jsonb) RETURNS aturi IMMUTABLE SET search_path = public
RETURN CASE WHEN collection = 'app.bsky.feed.like' THEN try_aturi(record_text(value, 'subject.uri', 1000)) END;

CREATE FUNCTION keep_likes() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO likes AS l
        SELECT liked(collection, value) AS post, count(*) FROM new_rows WHERE liked(collection, value) IS NOT NULL
        GROUP BY 1 ORDER BY 1 ON CONFLICT (post) DO UPDATE SET n = l.n + excluded.n;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO likes AS l
        SELECT liked(collection, value) AS post, -count(*) FROM old_rows WHERE liked(collection, value) IS NOT NULL
        GROUP BY 1 ORDER BY 1 ON CONFLICT (post) DO UPDATE SET n = l.n + excluded.n;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER new_posts AFTER INSERT ON atproto.record
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION keep_feed();
CREATE TRIGGER lost_posts AFTER DELETE ON atproto.record
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION keep_feed();
CREATE TRIGGER new_likes AFTER INSERT ON atproto.record
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION keep_likes();
CREATE TRIGGER other_likes AFTER UPDATE ON atproto.record
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION keep_likes();
CREATE TRIGGER lost_likes AFTER DELETE ON atproto.record
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION keep_likes();

-- What the screen shows of a post: its author, and a line without what a terminal obeys.
CREATE VIEW shown AS
SELECT f.n, f.post, '@' || coalesce(nullif(p.handle::text, ''), left(r.did::text, 20) || '…') AS author,
    CASE WHEN r.value ? 'reply' THEN '↳ ' ELSE '' END
        || left(t.text, 60) || CASE WHEN length(t.text) > 60 THEN '…' ELSE '' END
        || CASE record_text(r.value, 'embed.$type')
            WHEN 'app.bsky.embed.images' THEN ' [pictures]'
            WHEN 'app.bsky.embed.external' THEN ' [page]'
            WHEN 'app.bsky.embed.record' THEN ' [quotes]'
            WHEN 'app.bsky.embed.recordWithMedia' THEN ' [quotes, pictures]'
            ELSE '' END AS line
FROM feed f
JOIN atproto.record r ON (r.did, r.collection, r.rkey) = (aturi_did(f.post), aturi_collection(f.post), aturi_rkey(f.post))
JOIN atproto.repo p ON p.did = r.did,
LATERAL (SELECT regexp_replace(coalesce(record_text(r.value, 'text'), ''), '[[:cntrl:][:space:]]+', ' ', 'g') AS text) t;

-- With how many likes a post was shown; only the screen needs it.
CREATE TABLE told (post aturi PRIMARY KEY, n bigint NOT NULL);
