-- What make demo prints at its end.  ECHO shows each query before its result.
\set ECHO queries
\pset footer off

\echo
\echo '== Records by collection'
SELECT collection, count(*) AS records, count(DISTINCT did) AS accounts
FROM atproto.record
GROUP BY collection
ORDER BY records DESC, collection;

\echo '== The posts with most likes: as a trigger keeps the numbers, and counted now from the links of the records'
SELECT n AS likes, atproto.backlink_count(post, 'app.bsky.feed.like:subject.uri') AS counted,
       left(value->>'text', 60) AS text
FROM (SELECT post, likes.n FROM likes JOIN feed USING (post) ORDER BY likes.n DESC, post LIMIT 5) top
JOIN atproto.record ON (did, collection, rkey) = (aturi_did(post), aturi_collection(post), aturi_rkey(post))
ORDER BY n DESC, post;

\echo '== A thread: the post with most answers'
\set ECHO none
SELECT target AS root FROM atproto.visible_link WHERE collection = 'app.bsky.feed.post' AND path = 'reply.root.uri'
GROUP BY target ORDER BY count(*) DESC, target LIMIT 1 \gset
\set ECHO queries
\if :{?root}
WITH RECURSIVE thread AS (
    SELECT :'root'::aturi AS uri, 0 AS depth, ARRAY[]::text[] AS place
    UNION ALL
    SELECT l.uri, depth + 1, place || l.rkey::text
    FROM thread, atproto.backlinks(thread.uri, 'app.bsky.feed.post:reply.parent.uri', 20) l
    WHERE depth < 6
)
SELECT coalesce('@' || handle, did::text) AS author, repeat('  ', depth) || left(value->>'text', 60) AS text
FROM thread
JOIN atproto.record ON (did, collection, rkey) = (aturi_did(uri), aturi_collection(uri), aturi_rkey(uri))
JOIN atproto.repo USING (did)
ORDER BY place LIMIT 12;
\endif

\echo '== Who has most followers'
SELECT value->>'displayName' AS name, followers
FROM (SELECT target, count(*) AS followers
      FROM atproto.visible_link JOIN atproto.repo ON repo.did = aturi_did(target) AND active AND hidden_at IS NULL
      WHERE collection = 'app.bsky.graph.follow' AND path = 'subject'
      GROUP BY target ORDER BY followers DESC, target LIMIT 5) top
LEFT JOIN atproto.record ON (did, collection, rkey) = (aturi_did(target), 'app.bsky.actor.profile', 'self')
ORDER BY followers DESC, target;

\echo '== Hashtags'
SELECT tag, count(*) AS posts
FROM atproto.record, unnest(record_hashtags(value)) AS tag
WHERE collection = 'app.bsky.feed.post'
GROUP BY tag ORDER BY posts DESC, tag LIMIT 5;

\echo '== A view with a typed column for each field of posts'
SELECT atproto.create_view('app.bsky.feed.post', schema => 'public');

SELECT unnest(langs) AS language, count(*) AS posts, count(reply_parent_uri) AS replies
FROM app_bsky_feed_post GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 6;

\echo '== The newest posts, by the time in their record keys; not those that claim a time to come'
SELECT recordkey_timestamp(rkey) AS time, left(value->>'text', 60) AS text
FROM atproto.record
WHERE collection = 'app.bsky.feed.post' AND rkey <= tid_ceil(now())
ORDER BY rkey DESC
LIMIT 3;

\echo '== The consumer'
SELECT name, state, seq, events, record_ops, lag_seconds, pg_size_pretty(bytes) AS received
FROM atproto.stat_subscription;
