-- See out.sh.
SET client_min_messages = warning;
CREATE EXTENSION atproto;
CREATE SCHEMA made;
CREATE SCHEMA export;
CREATE SCHEMA scattered;
\o /dev/null
SELECT atproto.create_tables(s::name) FROM unnest('{export,scattered}'::text[]) s;
\o

-- As in audit.sql, but each record has the CID of its value.
CREATE FUNCTION made.collection(i bigint) RETURNS nsid LANGUAGE sql IMMUTABLE AS $$
	SELECT (ARRAY['app.bsky.feed.like', 'app.bsky.feed.like', 'app.bsky.feed.like', 'app.bsky.feed.like', 'app.bsky.feed.like',
		'app.bsky.feed.post', 'app.bsky.feed.post', 'app.bsky.graph.follow', 'app.bsky.graph.follow', 'app.bsky.feed.repost',
		'app.bsky.graph.block', 'app.bsky.graph.listitem', 'chat.bsky.actor.declaration'])[i % 13 + 1]::nsid $$;
CREATE UNLOGGED TABLE made.record AS
SELECT did, collection, rkey, cidlink_of(jsonb_to_dagcbor(value)) AS cid, value
FROM (SELECT a.did::did, made.collection(i) AS collection, ((i::bigint * 1000000 + 1700000000000000) * 1024)::atproto.tid::recordkey AS rkey,
		jsonb_build_object('$type', made.collection(i), 'createdAt', '2026-11-22T12:00:00.000Z', 'n', i, 'text', repeat('text ', 20 + (i % 20)::int)) AS value
	FROM (VALUES ('did:web:large.example', :records), ('did:web:middle.example', 100000)) a (did, n), generate_series(1, a.n) i) m;

INSERT INTO export.record (did, collection, rkey, rev, cid, value)
SELECT did, collection, rkey, '3mzzzzzzzzz22', cid, value FROM made.record ORDER BY did, collection, rkey;
INSERT INTO scattered.record (did, collection, rkey, rev, cid, value)
SELECT did, collection, rkey, '3mzzzzzzzzz22', cid, value FROM made.record ORDER BY hashtext(rkey::text || did::text);
INSERT INTO export.repo (did, rev, data, sig)
SELECT did, '3mzzzzzzzzz22', atproto.repo_root(collection::text || '/' || rkey::text, cid ORDER BY collection::text || '/' || rkey::text COLLATE "C"), decode(repeat('01', 64), 'hex')
FROM made.record GROUP BY did;
UPDATE export.repo SET commit = cidlink_of(atproto.commit_block(did, rev, data, sig, NULL));
INSERT INTO scattered.repo (did, rev, data, sig, commit) SELECT did, rev, data, sig, commit FROM export.repo;
VACUUM (FREEZE, ANALYZE) export.record, export.repo, scattered.record, scattered.repo;

CREATE FUNCTION made.cpu() RETURNS float8 LANGUAGE sql VOLATILE AS $$
	SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1e9 $$;
CREATE TABLE made.time (what text, layout text, seconds float8, rows bigint);

CREATE PROCEDURE made.measure(layout name) LANGUAGE plpgsql AS $$
DECLARE
	began float8 := made.cpu();
	n bigint;
	large did := 'did:web:large.example';
	middle did := 'did:web:middle.example';
BEGIN
	PERFORM length(atproto.repo_car(large, layout));
	INSERT INTO made.time SELECT 'car', layout, made.cpu() - began, count(*) FROM made.record WHERE did = large;
	began := made.cpu();
	PERFORM sum(length(c)) FROM atproto.repo_car_chunks(large, layout) c;
	INSERT INTO made.time SELECT 'chunks', layout, made.cpu() - began, count(*) FROM made.record WHERE did = large;
	began := made.cpu();
	SELECT records INTO n FROM atproto.audit(large, layout);
	INSERT INTO made.time VALUES ('audit', layout, made.cpu() - began, n);
	began := made.cpu();
	FOR i IN 1..10 LOOP
		PERFORM length(atproto.record_proof(middle, 'app.bsky.feed.post', ((i::bigint * 1000000 + 1700000000000000) * 1024)::atproto.tid::recordkey, layout));
	END LOOP;
	INSERT INTO made.time VALUES ('proof', layout, made.cpu() - began, 10);
END $$;
SELECT format('CALL made.measure(%L)', layout) FROM generate_series(0, :runs), unnest('{export,scattered}'::text[]) layout \gexec

-- the first run only brings the rows into memory
WITH m AS (
	SELECT what, layout, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS seconds, max(rows) AS rows
	FROM (SELECT *, row_number() OVER (PARTITION BY what, layout ORDER BY ctid) AS run FROM made.time) t WHERE run > 1 GROUP BY 1, 2)
SELECT format('| %s | %s | %s | %s | %s |',
	CASE layout WHEN 'export' THEN 'rows as an export leaves them' ELSE 'rows scattered' END,
	to_char(max(rows / seconds) FILTER (WHERE what = 'car'), 'FM999,999,999'), to_char(max(rows / seconds) FILTER (WHERE what = 'chunks'), 'FM999,999,999'),
	to_char(max(rows / seconds) FILTER (WHERE what = 'audit'), 'FM999,999,999'), to_char(max(seconds / rows) FILTER (WHERE what = 'proof') * 1000, 'FM990.0'))
FROM m GROUP BY layout ORDER BY layout;
