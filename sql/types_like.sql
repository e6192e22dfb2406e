-- What all types can do because their texts can: LIKE, length(), ||.  It is inlined, so that indexes on
-- the text serve, and nothing that worked with texts and with literals of no type does otherwise.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;

CREATE TEMP TABLE every AS
SELECT 'did:web:Example.com'::did AS did, 'Jay.Example.com'::handle AS handle, 'com.Example.fooBar'::nsid AS nsid, 'self'::recordkey AS rkey, '3jwdwj2ctlk26'::atproto.tid AS tid,
	'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a'::cidlink AS cid, 'at://did:web:a.b/a.b.c/d'::aturi AS uri, 'nosh://1673/a.b.c/x'::noshuri AS nosh;
SELECT did LIKE 'did:web:%' AS did, handle LIKE 'jay.%' AS handle, nsid LIKE '%.fooBar' AS nsid, rkey LIKE 's__f' AS rkey, tid LIKE '3%' AS tid, cid LIKE 'bafyrei%' AS cid, uri LIKE '%/a.b.c/_' AS uri, nosh LIKE 'nosh://%' AS nosh FROM every;
SELECT did NOT LIKE 'did:plc:%' AS did, handle NOT LIKE 'Jay.%' AS handle, nsid NOT LIKE '%.foobar' AS nsid, rkey NOT LIKE 's_f' AS rkey, tid NOT LIKE '2%' AS tid, cid NOT LIKE 'bafkrei%' AS cid, uri NOT LIKE '%#%' AS uri, nosh NOT LIKE 'at://%' AS nosh FROM every;
SELECT did ILIKE '%EXAMPLE%' AS did, handle ILIKE 'JAY.%' AS handle, nsid ILIKE 'COM.%' AS nsid, rkey ILIKE 'SELF' AS rkey, tid ILIKE '3J%' AS tid, cid ILIKE 'BAFY%' AS cid, uri ILIKE 'AT:%' AS uri, nosh ILIKE 'NOSH:%' AS nosh FROM every;
SELECT did NOT ILIKE '%EXAMPLE' AS did, handle NOT ILIKE 'JAY' AS handle, nsid NOT ILIKE 'COM' AS nsid, rkey NOT ILIKE 'SEL' AS rkey, tid NOT ILIKE '3J' AS tid, cid NOT ILIKE 'BAFY' AS cid, uri NOT ILIKE 'AT:' AS uri, nosh NOT ILIKE 'NOSH:' AS nosh FROM every;
SELECT length(did) AS did, length(handle) AS handle, length(nsid) AS nsid, length(rkey) AS rkey, length(tid) AS tid, length(cid) AS cid, length(uri) AS uri, length(nosh) AS nosh FROM every;
SELECT did || '' AS did, handle || '' AS handle, nsid || '/' || rkey AS path, '<' || tid || '>' AS tid, left(cid || '', 7) AS cid, uri || '#' AS uri, nosh || '' AS nosh FROM every;
-- NULL, escapes, patterns that are columns, lists of them
SELECT NULL::did LIKE 'x', did LIKE NULL, length(NULL::did), did LIKE 'did!:%' ESCAPE '!' AS escape, did LIKE p AS column, did LIKE ANY ('{did:plc:%,did:web:%}') AS any, did LIKE ALL ('{did:plc:%,did:web:%}') AS all
FROM every, (VALUES ('did:%')) v (p);
SELECT did LIKE E'did\\' FROM every;

-- Literals and parameters of no type are texts, as before
SELECT length('did:web:a') AS length, 'did:web:a' LIKE 'did:%' AS like, length(NULL) AS null, 'x'::varchar LIKE 'x' AS varchar, length('x '::char(5)) AS char, length('\x00'::bytea) AS bytea, length('a b'::tsvector) AS tsvector, 'x'::name LIKE 'x' AS name;
PREPARE untyped AS SELECT length($1), $2 LIKE $3, $4 || 'x';
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'untyped';
PREPARE typed AS SELECT did FROM every WHERE did LIKE $1 AND did = $2;
SELECT parameter_types FROM pg_prepared_statements WHERE name = 'typed';
DEALLOCATE ALL;

-- What there is not says what to do
\set VERBOSITY terse
SELECT upper(did) FROM every;
SELECT did ~ '^did:web' FROM every;
\set VERBOSITY default

-- Indexes on the text serve
CREATE TEMP TABLE indexed (did did, uri aturi);
CREATE INDEX indexed_text ON indexed ((did::text) text_pattern_ops);
CREATE INDEX indexed_length ON indexed (length(uri));
SET enable_seqscan = off; SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT FROM indexed WHERE did LIKE 'did:web:%';
EXPLAIN (COSTS OFF) SELECT FROM indexed WHERE length(uri) > 1000;
EXPLAIN (COSTS OFF) SELECT FROM indexed WHERE length(uri::text) > 1000;
RESET enable_seqscan;
EXPLAIN (COSTS OFF) SELECT FROM indexed WHERE NOT did LIKE 'did:web:%';
