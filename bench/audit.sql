-- See audit.sh.
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
CREATE UNLOGGED TABLE made.record AS
SELECT r.did, made.collection(i) AS collection, ((i::bigint * 1000000 + 1700000000000000) * 1024)::atproto.tid::recordkey AS rkey,
	('\x01711220' || sha256(decode(lpad(to_hex(i), 16, '0'), 'hex')))::cidlink AS cid,
	jsonb_build_object('$type', made.collection(i), 'createdAt', '2026-11-22T12:00:00.000Z', 'text', repeat('text ', 20 + (i % 20)::int)) AS value
FROM (SELECT ('did:plc:' || rpad(translate(md5(n::text), '0189', 'wxyz'), 24, 'a'))::did AS did, n FROM generate_series(0, :repos) n) r,
	generate_series(1, CASE r.n WHEN 0 THEN :records ELSE 430 END) i;
CREATE TABLE made.large AS SELECT did FROM made.record GROUP BY did ORDER BY count(*) DESC LIMIT 1;

INSERT INTO export.record (did, collection, rkey, rev, cid, value)
SELECT did, collection, rkey, '3mzzzzzzzzz22', cid, value FROM made.record ORDER BY did, collection, rkey;
INSERT INTO scattered.record (did, collection, rkey, rev, cid, value)
SELECT did, collection, rkey, '3mzzzzzzzzz22', cid, value FROM made.record ORDER BY hashtext(rkey::text || did::text);
INSERT INTO export.repo (did, rev, data) SELECT DISTINCT did, '3mzzzzzzzzz22'::atproto.tid, ('\x01711220' || sha256(''))::cidlink FROM made.record;
-- the roots are as they are: what is measured is how long it takes to know that
UPDATE export.repo p SET data = (atproto.audit(p.did, 'export')).root;
INSERT INTO scattered.repo (did, rev, data) SELECT did, rev, data FROM export.repo;
VACUUM (FREEZE, ANALYZE) export.record, export.repo, scattered.record, scattered.repo;

CREATE FUNCTION made.cpu() RETURNS float8 LANGUAGE sql VOLATILE AS $$
	SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1e9 $$;
CREATE TABLE made.time (what text, layout text, seconds float8, rows bigint);

CREATE PROCEDURE made.measure(layout text) LANGUAGE plpgsql AS $$
DECLARE
	began float8;
	n bigint;
	equal boolean;
	large did := (SELECT did FROM made.large);
BEGIN
	-- the small ones are audited together, as they come; the large one is not there
	began := made.cpu();
	SELECT sum(a.records), bool_and(a.equal) INTO n, equal FROM made.large, LATERAL atproto.audit(did, layout) a;
	INSERT INTO made.time VALUES ('one audit', layout, made.cpu() - began, n);
	IF NOT equal THEN RAISE 'not equal'; END IF;
	began := made.cpu();
	EXECUTE format('SELECT count(cid) FROM %I.record WHERE did = $1', layout) INTO n USING large;
	INSERT INTO made.time VALUES ('one count', layout, made.cpu() - began, n);
	EXECUTE format('UPDATE %I.repo SET sync = ''partial''', layout);
	began := made.cpu();
	EXECUTE format('CALL atproto.audit_all(%L)', layout);
	EXECUTE format('SELECT count(*) FROM %I.record', layout) INTO n;
	INSERT INTO made.time VALUES ('all audit', layout, made.cpu() - began, n);
	EXECUTE format('SELECT bool_and(sync = ''synchronized'') FROM %I.repo', layout) INTO equal;
	IF NOT equal THEN RAISE 'not synchronized'; END IF;
	began := made.cpu();
	EXECUTE format('SELECT count(cid) FROM %I.record', layout) INTO n;
	INSERT INTO made.time VALUES ('all count', layout, made.cpu() - began, n);
END $$;
SELECT format('CALL made.measure(%L)', layout) FROM generate_series(0, :runs), unnest('{export,scattered}'::text[]) layout \gexec

-- the first run only brings the rows into memory
WITH m AS (
	SELECT what, layout, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS seconds, max(rows) AS rows
	FROM (SELECT *, row_number() OVER (PARTITION BY what, layout ORDER BY ctid) AS run FROM made.time) t WHERE run > 1 GROUP BY 1, 2)
SELECT format('| %s, %s | %s | %s | %s | %s |',
	CASE w WHEN 'one' THEN 'one repository, `audit()`' ELSE 'all, `audit_all()`' END,
	CASE a.layout WHEN 'export' THEN 'rows as an export leaves them' ELSE 'rows scattered' END,
	to_char(a.rows, 'FM999,999,999'), to_char(a.rows / a.seconds, 'FM999,999,999'), to_char(c.rows / c.seconds, 'FM999,999,999'),
	to_char(c.seconds / a.seconds, 'FM990.00'))
FROM unnest('{one,all}'::text[]) w JOIN m a ON a.what = w || ' audit' JOIN m c ON c.what = w || ' count' AND c.layout = a.layout
ORDER BY w DESC, a.layout;
