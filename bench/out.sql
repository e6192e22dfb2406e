-- See out.sh.
\ir repositories.sql

-- each record has the CID of its value
CREATE UNLOGGED TABLE made.record AS
SELECT did, collection, rkey, cidlink_of(jsonb_to_dagcbor(value)) AS cid, value
FROM (SELECT a.did::did, made.collection(i) AS collection, made.rkey(i) AS rkey, made.value(i) AS value
	FROM (VALUES ('did:web:large.example', :records), ('did:web:middle.example', 100000)) a (did, n), generate_series(1, a.n) i) m;

CALL made.lay_out();
INSERT INTO export.repo (did, rev, data, sig)
SELECT did, '3mzzzzzzzzz22', atproto.repo_root(collection::text || '/' || rkey::text, cid ORDER BY collection::text || '/' || rkey::text COLLATE "C"), decode(repeat('01', 64), 'hex')
FROM made.record GROUP BY did;
UPDATE export.repo SET commit = cidlink_of(atproto.commit_block(did, rev, data, sig, NULL));
INSERT INTO scattered.repo (did, rev, data, sig, commit) SELECT did, rev, data, sig, commit FROM export.repo;
VACUUM (FREEZE, ANALYZE) export.record, export.repo, scattered.record, scattered.repo;

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
		PERFORM length(atproto.record_proof(middle, 'app.bsky.feed.post', made.rkey(i), layout));
	END LOOP;
	INSERT INTO made.time VALUES ('proof', layout, made.cpu() - began, 10);
END $$;
SELECT format('CALL made.measure(%L)', layout) FROM generate_series(0, :runs), unnest('{export,scattered}'::text[]) layout \gexec

SELECT format('| %s | %s | %s | %s | %s |',
	CASE layout WHEN 'export' THEN 'rows as an export leaves them' ELSE 'rows scattered' END,
	to_char(max(rows / seconds) FILTER (WHERE what = 'car'), 'FM999,999,999'), to_char(max(rows / seconds) FILTER (WHERE what = 'chunks'), 'FM999,999,999'),
	to_char(max(rows / seconds) FILTER (WHERE what = 'audit'), 'FM999,999,999'), to_char(max(seconds / rows) FILTER (WHERE what = 'proof') * 1000, 'FM990.0'))
FROM made.median GROUP BY layout ORDER BY layout;
