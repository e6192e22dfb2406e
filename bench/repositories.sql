-- For audit.sql and out.sql: records of repositories, laid out as an export leaves them, and scattered over the table.
SET client_min_messages = warning;
CREATE EXTENSION atproto;
CREATE SCHEMA made;
CREATE SCHEMA export;
CREATE SCHEMA scattered;
\o /dev/null
SELECT atproto.create_tables(s::name) FROM unnest('{export,scattered}'::text[]) s;
\o

-- Names of collections as accounts have them, most records in a few of them.
CREATE FUNCTION made.collection(i bigint) RETURNS nsid LANGUAGE sql IMMUTABLE AS $$
	SELECT (ARRAY['app.bsky.feed.like', 'app.bsky.feed.like', 'app.bsky.feed.like', 'app.bsky.feed.like', 'app.bsky.feed.like',
		'app.bsky.feed.post', 'app.bsky.feed.post', 'app.bsky.graph.follow', 'app.bsky.graph.follow', 'app.bsky.feed.repost',
		'app.bsky.graph.block', 'app.bsky.graph.listitem', 'chat.bsky.actor.declaration'])[i % 13 + 1]::nsid $$;
CREATE FUNCTION made.rkey(i bigint) RETURNS recordkey LANGUAGE sql IMMUTABLE AS $$
	SELECT ((i * 1000000 + 1700000000000000) * 1024)::atproto.tid::recordkey $$;
CREATE FUNCTION made.value(i bigint) RETURNS jsonb LANGUAGE sql STABLE AS $$
	SELECT jsonb_build_object('$type', made.collection(i), 'createdAt', '2026-11-22T12:00:00.000Z', 'n', i, 'text', repeat('text ', 20 + (i % 20)::int)) $$;

-- The rows of made.record, which the caller has made, in both layouts.
CREATE PROCEDURE made.lay_out() LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO export.record (did, collection, rkey, rev, cid, value)
	SELECT did, collection, rkey, '3mzzzzzzzzz22', cid, value FROM made.record ORDER BY did, collection, rkey;
	INSERT INTO scattered.record (did, collection, rkey, rev, cid, value)
	SELECT did, collection, rkey, '3mzzzzzzzzz22', cid, value FROM made.record ORDER BY hashtext(rkey::text || did::text);
END $$;

-- Seconds that this process has spent on a processor.
CREATE FUNCTION made.cpu() RETURNS float8 LANGUAGE sql VOLATILE AS $$
	SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1e9 $$;
CREATE TABLE made.time (what text, layout text, seconds float8, rows bigint);
-- the first run only brings the rows into memory
CREATE VIEW made.median AS
	SELECT what, layout, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS seconds, max(rows) AS rows
	FROM (SELECT *, row_number() OVER (PARTITION BY what, layout ORDER BY ctid) AS run FROM made.time) t WHERE run > 1 GROUP BY 1, 2;
