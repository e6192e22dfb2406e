-- What bench/types.sh measures.  Prints the rows of a Markdown table.
SET client_min_messages = warning;

\ir took.sql

-- A row of the table from two statements, run in turn; prepare is run before each.
CREATE PROCEDURE compare(what text, ours text, other text, wanted text, runs int,
						 prepare text DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
	a float8[];
	b float8[];
	am float8;
	bm float8;
BEGIN
	FOR i IN 0..runs LOOP
		IF prepare IS NOT NULL THEN EXECUTE prepare; END IF;
		a := a || took(ours);
		IF prepare IS NOT NULL THEN EXECUTE prepare; END IF;
		b := b || took(other);
		IF i = 0 THEN a := NULL; b := NULL; END IF; -- warm up
	END LOOP;
	am := (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM unnest(a) x);
	bm := (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM unnest(b) x);
	INSERT INTO result (line) VALUES (
		format('| %s | %s | %s | %s | %s |', what, round(am::numeric, 1), round(bm::numeric, 1),
			   round((am / nullif(bm, 0))::numeric, 3), wanted));
END $$;

CREATE TABLE result (n int GENERATED ALWAYS AS IDENTITY, line text);

INSERT INTO result (line)
SELECT format('| %s, bytes stored | %s | %s | %s | %s |', what, ours, other,
			  round(ours::numeric / other, 3), wanted)
FROM one, LATERAL (VALUES
	('typical record URI', pg_column_size(uri), 1 + length(uri::text), 'at most 45 bytes'),
	('`did:plc`', pg_column_size(did), 1 + length(did::text), 'at most 17 bytes'),
	('`recordkey` that is a TID', pg_column_size(rkey), 1 + length(rkey::text), 'at most 10 bytes'),
	('`cidlink`', pg_column_size(cid), 1 + length(cid::text), 'at most 38 bytes')) v (what, ours, other, wanted);

CALL compare('btree build on record URIs: `aturi`, `text COLLATE "C"`',
	'CREATE INDEX uri_aturi_i ON uri_aturi (uri)', 'CREATE INDEX uri_text_i ON uri_text (uri)', 'at most 0.8', :runs,
	'DROP INDEX IF EXISTS uri_aturi_i, uri_text_i');
DROP INDEX IF EXISTS uri_aturi_i, uri_text_i;
CREATE INDEX uri_aturi_i ON uri_aturi (uri);
CREATE INDEX uri_text_i ON uri_text (uri);
INSERT INTO result (line)
SELECT format('| size of that index, MB | %s | %s | %s | at most 0.65 |', round(a / 1e6, 1), round(b / 1e6, 1), round(a / b, 3))
FROM (SELECT pg_relation_size('uri_aturi_i')::numeric a, pg_relation_size('uri_text_i')::numeric b) s;
INSERT INTO result (line)
SELECT format('| size of the table, MB | %s | %s | %s | |', round(a / 1e6, 1), round(b / 1e6, 1), round(a / b, 3))
FROM (SELECT pg_relation_size('uri_aturi')::numeric a, pg_relation_size('uri_text')::numeric b) s;
VACUUM ANALYZE uri_aturi, uri_text;

CALL compare('`ORDER BY` without index',
	'SELECT count(*) FROM (SELECT uri FROM uri_aturi ORDER BY uri OFFSET 0) s',
	'SELECT count(*) FROM (SELECT uri FROM uri_text ORDER BY uri OFFSET 0) s', 'at most 1', :runs,
	'SET enable_indexonlyscan = off; SET enable_indexscan = off');
CALL compare('`ORDER BY` of DIDs, 50 of each',
	'SELECT count(*) FROM (SELECT did FROM did_did ORDER BY did OFFSET 0) s',
	'SELECT count(*) FROM (SELECT did FROM did_text ORDER BY did OFFSET 0) s', '', :runs);
CALL compare('`ORDER BY` of record keys that are TIDs',
	'SELECT count(*) FROM (SELECT rkey FROM rkey_rkey ORDER BY rkey OFFSET 0) s',
	'SELECT count(*) FROM (SELECT rkey FROM rkey_text ORDER BY rkey OFFSET 0) s', '', :runs);
RESET enable_indexonlyscan; RESET enable_indexscan;

SET enable_sort = off; SET enable_seqscan = off; SET enable_bitmapscan = off;
CALL compare('sorted scan: index only, in order',
	'SELECT count(*) FROM (SELECT uri FROM uri_aturi ORDER BY uri OFFSET 0) s',
	'SELECT count(*) FROM (SELECT uri FROM uri_text ORDER BY uri OFFSET 0) s', 'at most 1', :runs);
RESET enable_sort; RESET enable_seqscan;

SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_memoize = off;
CALL compare('100,000 point lookups',
	'SELECT count(*) FROM point_aturi p JOIN uri_aturi u ON u.uri = p.uri',
	'SELECT count(*) FROM point_text p JOIN uri_text u ON u.uri = p.uri', 'at most 1', :runs);
RESET enable_hashjoin; RESET enable_mergejoin;

SET enable_hashjoin = off; SET enable_nestloop = off; SET enable_material = off;
CALL compare('merge join of two indexes',
	'SELECT count(*) FROM uri_aturi a JOIN uri_aturi b ON a.uri = b.uri',
	'SELECT count(*) FROM uri_text a JOIN uri_text b ON a.uri = b.uri', 'at most 1', :runs);
RESET enable_hashjoin; RESET enable_nestloop; RESET enable_material;

SET enable_mergejoin = off; SET enable_nestloop = off;
CALL compare('hash join on DIDs: `did`, `text COLLATE "C"`',
	'SELECT count(*) FROM did_did a JOIN repo_did b ON a.did = b.did',
	'SELECT count(*) FROM did_text a JOIN repo_text b ON a.did = b.did', 'at most 1', :runs);
RESET enable_mergejoin; RESET enable_nestloop;

SET enable_sort = off;
CALL compare('`GROUP BY` on DIDs',
	'SELECT count(*) FROM (SELECT did, count(*) FROM did_did GROUP BY did) s',
	'SELECT count(*) FROM (SELECT did, count(*) FROM did_text GROUP BY did) s', 'at most 1', :runs);
RESET enable_sort;

CALL compare('input: `t::aturi` of record URIs, `u::uuid`',
	'SELECT count(t::aturi) FROM source', 'SELECT count(u::uuid) FROM source', 'at most 3', :runs);

-- What people write in a CHECK today: the published expression of the reference
-- implementation (without names of groups and with "-" last in a class, as
-- PostgreSQL wants it), and the one that is made of the published ones of each part.
CALL compare('input: `t::aturi`, and a loose regular expression for AT URIs',
	'SELECT count(t::aturi) FROM source',
	$q$SELECT count(*) FROM source WHERE t ~ '^at:\/\/([a-zA-Z0-9._:%-]+)(\/([a-zA-Z0-9.-]+)(\/([a-zA-Z0-9._~:@!$&%'')(*+,;=-]+))?)?(#(\/[a-zA-Z0-9._~:@!$&%'')(*+,;=\-[\]/\\]*))?$'$q$,
	'at most 0.05', :runs);
CREATE TABLE few AS SELECT t FROM source LIMIT 100000;
CALL compare('input of 100,000: `t::aturi`, and the published regular expressions of DID, NSID and record key',
	'SELECT count(t::aturi) FROM few',
	$q$SELECT count(*) FROM few WHERE t ~ '^at://did:[a-z]+:[a-zA-Z0-9._:%-]*[a-zA-Z0-9._-]/[a-zA-Z]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)+(\.[a-zA-Z]([a-zA-Z0-9]{0,62})?)/[a-zA-Z0-9_~.:-]+$'$q$,
	'at most 0.05', :runs);

CALL compare('10,000 collections read with `<@`, and with two comparisons; constants',
	$q$DO $d$ DECLARE b record; BEGIN FOR b IN SELECT * FROM base LOOP
		EXECUTE format('SELECT count(*) FROM uri_aturi WHERE uri <@ %L', b.uri); END LOOP; END $d$ $q$,
	$q$DO $d$ DECLARE b record; BEGIN FOR b IN SELECT * FROM base LOOP
		EXECUTE format('SELECT count(*) FROM uri_aturi WHERE uri >= %L AND uri < %L', b.uri, b.bound); END LOOP; END $d$ $q$,
	'at most 1.2', :runs);
SET enable_seqscan = off; SET enable_material = off;
CALL compare('the same as a join',
	'SELECT count(*) FROM base b JOIN uri_aturi u ON u.uri <@ b.uri',
	'SELECT count(*) FROM base b JOIN uri_aturi u ON u.uri >= b.uri AND u.uri < b.bound', 'at most 1.2', :runs);

SELECT line FROM result ORDER BY n;
