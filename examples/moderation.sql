-- Which accounts should a moderator look at first?  A view with the reasons, from three public sources: the same text
-- again and again, blocks by many accounts, and the labels of a labeler.
--     psql -d mydb -f moderation.sql        then, as often as needed:  SELECT * FROM moderation.queue LIMIT 20;
\set ON_ERROR_STOP on
\set stream `echo "${STREAM-wss://jetstream2.us-east.bsky.network/subscribe}"`
\set labeler `echo "${LABELER-wss://mod.bsky.app/xrpc/com.atproto.label.subscribeLabels}"`
BEGIN;
CREATE EXTENSION IF NOT EXISTS atproto;
CREATE SCHEMA moderation;
SELECT atproto.subscribe('moderation', :'stream', target => 'moderation',
    collections => '{app.bsky.feed.post,app.bsky.graph.block}', links => '{app.bsky.graph.block:subject}');
SELECT atproto.subscribe('labels', :'labeler', target => 'moderation');
CREATE INDEX ON moderation.record (rkey) WHERE collection = 'app.bsky.feed.post';
CREATE INDEX ON moderation.link (source, rkey);

CREATE VIEW moderation.queue AS
WITH said AS (          -- the text that an account has posted most often in the last hour
    SELECT DISTINCT ON (did) did, text, count(*) AS times
    FROM (SELECT did, left(record_text(value, 'text'), 300) AS text
          FROM moderation.visible_record
          WHERE collection = 'app.bsky.feed.post' AND rkey >= tid_floor(now() - interval '1 hour') AND rkey <= tid_ceil(now())) p
    WHERE text <> ''
    GROUP BY did, text HAVING count(*) >= 3
    ORDER BY did, times DESC, text
), blocked AS (         -- how many accounts have blocked it in the last day; an account counts once
    SELECT aturi_did(target) AS did, count(DISTINCT did) AS times
    FROM moderation.visible_link
    WHERE source = (SELECT id FROM moderation.link_source WHERE (collection, path) = ('app.bsky.graph.block', 'subject'))
        AND rkey >= tid_floor(now() - interval '1 day') AND rkey <= tid_ceil(now())
    GROUP BY aturi_did(target) HAVING count(DISTINCT did) >= 3
), labelled AS (        -- labels of the account and of its records that hold
    SELECT did, array_agg(DISTINCT val ORDER BY val) AS labels
    FROM (SELECT coalesce(try_did(uri), aturi_did(try_aturi(uri))) AS did, val FROM moderation.current_label
          WHERE val IN ('spam', 'impersonation', 'threat', 'intolerant')) l
    GROUP BY did
)
SELECT did, r.handle, coalesce(s.times, 0) AS same_text, coalesce(b.times, 0) AS blocked_by, l.labels, s.text
FROM said s FULL JOIN blocked b USING (did) FULL JOIN labelled l USING (did) JOIN moderation.repo r USING (did)
WHERE r.active IS NOT FALSE AND r.hidden_at IS NULL
ORDER BY coalesce(s.times, 0) + coalesce(b.times, 0) + 10 * coalesce(cardinality(l.labels), 0) DESC, did;
COMMIT;
