-- What make demo prints at its end.  ECHO shows each query before its result.
\set ECHO queries
\pset footer off

\echo
\echo '== Records by collection'
SELECT collection, count(*) AS records, count(DISTINCT did) AS accounts
FROM atproto.record
GROUP BY collection
ORDER BY records DESC, collection;

\echo '== The newest posts, by the time in their record keys (the type is always written atproto.tid)'
SELECT recordkey_tid(rkey) AS tid, recordkey_timestamp(rkey) AS time,
       did, left(value->>'text', 40) AS text
FROM atproto.record
WHERE collection = 'app.bsky.feed.post' AND recordkey_matches(rkey, 'tid')
ORDER BY recordkey_tid(rkey) DESC
LIMIT 5;

\echo '== The same from a view, with a typed column for each field that posts have'
SELECT atproto.create_view('app.bsky.feed.post', schema => 'public');

SELECT text FROM app_bsky_feed_post WHERE length(text) BETWEEN 20 AND 60 ORDER BY created_at DESC LIMIT 5;

SELECT unnest(langs) AS language, count(*) AS posts, count(reply_parent_uri) AS replies
FROM app_bsky_feed_post GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 5;

\echo '== The graph: what links from where, and who likes the post that most like'
SELECT s.collection, s.path, count(*) AS links
FROM atproto.link l JOIN atproto.link_source s ON s.id = l.source
GROUP BY s.collection, s.path ORDER BY links DESC, s.collection, s.path LIMIT 6;

\set ECHO none
SELECT (SELECT target FROM atproto.visible_link WHERE collection = 'app.bsky.feed.like' AND path = 'subject.uri'
	GROUP BY target ORDER BY count(*) DESC, target LIMIT 1) AS target \gset
\set ECHO queries
\if :{?target}
SELECT atproto.backlink_count(:'target', 'app.bsky.feed.like:subject.uri') AS likes;

SELECT did, rkey FROM atproto.backlinks(:'target', 'app.bsky.feed.like:subject.uri', 3);
\endif

\echo '== One account: its repository, and its posts by their URIs'
\set ECHO none
SELECT did FROM atproto.record WHERE collection = 'app.bsky.feed.post'
GROUP BY did ORDER BY count(*) DESC, did LIMIT 1 \gset
SELECT 'at://' || :'did' || '/app.bsky.feed.post' AS posts \gset
\set ECHO queries
SELECT did, handle, active, rev, data FROM atproto.repo WHERE did = :'did';

SELECT aturi(did, collection, rkey) AS uri, left(value->>'text', 40) AS text
FROM atproto.record
WHERE aturi(did, collection, rkey) <@ :'posts'
ORDER BY aturi(did, collection, rkey)
LIMIT 5;

\echo '== Accounts that their server does not serve'
SELECT status, count(*) FROM atproto.repo WHERE NOT active GROUP BY status ORDER BY status;

\echo '== What jsonb cannot hold is kept as it came; what is invalid is kept apart, with the reason'
SELECT count(*) FILTER (WHERE value IS NULL) AS kept_raw, count(*) AS records FROM atproto.record;

SELECT stage, sqlstate, message, count(*) FROM atproto.dead_letter GROUP BY 1, 2, 3;

\echo '== The consumer'
SELECT name, state, seq, events, record_ops, batches, reconnects, pg_size_pretty(bytes) AS received
FROM atproto.stat_subscription;
