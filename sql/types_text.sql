-- Texts where a type of ours is wanted.  What a driver declares as text or varchar is read
-- by the type's input, uses indexes as a literal does, and gives no expression two readings.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;

CREATE TABLE item (did did, collection nsid, rkey recordkey, cid cidlink, uri aturi, nosh noshuri, handle handle, created atproto.tid, note text, label varchar(80))
	WITH (autovacuum_enabled = off);
INSERT INTO item SELECT d, CASE n % 2 WHEN 0 THEN 'a.b.c' ELSE 'a.b.d' END, t, cidlink_of(d::text::bytea), aturi(d, 'a.b.c', t), 'nosh://1/a.b.c/' || t::text, 'H' || n || '.example.com', t, d, d
FROM generate_series(1, 2000) n, LATERAL (SELECT ('did:web:w' || n || '.x')::did AS d, (1700000000000000000 + n)::atproto.tid AS t) v;
CREATE INDEX ON item (did);
CREATE INDEX ON item (collection);
CREATE INDEX ON item (rkey);
CREATE INDEX ON item (cid);
CREATE INDEX ON item (uri);
CREATE INDEX ON item (nosh);
CREATE INDEX ON item (handle);
CREATE INDEX ON item (created);
CREATE INDEX ON item (note);
ANALYZE item;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET plan_cache_mode = force_generic_plan;

-- Each type, each comparison, either side, with a parameter of either type: a plan for
-- any value has the index, and finds what the literal finds.
CREATE FUNCTION pg_temp.compare(col text, op text, type text, swap boolean, OUT indexed boolean, OUT same boolean) LANGUAGE plpgsql AS $$
DECLARE
	shape text := CASE WHEN swap THEN 'SELECT count(*) FROM item WHERE %3$s %2$s %1$I' ELSE 'SELECT count(*) FROM item WHERE %1$I %2$s %3$s' END;
	value text;
	plan json;
	literal bigint;
	found bigint;
BEGIN
	EXECUTE format('SELECT %I FROM item WHERE note = $t$did:web:w1000.x$t$', col) INTO value;
	EXECUTE format(shape, col, op, quote_literal(value)) INTO literal;
	EXECUTE format('PREPARE q (%s) AS ', type) || format(shape, col, op, '$1');
	EXECUTE format('EXPLAIN (FORMAT json) EXECUTE q (%L)', value) INTO plan;
	EXECUTE format('EXECUTE q (%L)', value) INTO found;
	DEALLOCATE q;
	indexed := (plan -> 0 -> 'Plan' -> 'Plans' -> 0 ->> 'Index Cond') ~ format('^\(%s .*\$1', col);
	same := found = literal AND found > 0;
END $$;
SELECT col, count(*) AS combinations, bool_and(indexed) AS indexed, bool_and(same) AS same
FROM unnest('{did,collection,rkey,cid,uri,nosh,handle,created}'::text[]) col, unnest('{=,<=,>=,<,>}'::text[]) op, unnest('{text,varchar}'::text[]) type, unnest('{f,t}'::boolean[]) swap,
	pg_temp.compare(col, op, type, swap)
WHERE NOT (col = 'collection' AND op IN ('<', '>'))
GROUP BY col ORDER BY col;

-- The forms that drivers make: lists and arrays, of literals and of texts.
PREPARE any_text (text[]) AS SELECT count(*) FROM item WHERE did = ANY ($1);
PREPARE any_varchar (varchar[]) AS SELECT count(*) FROM item WHERE did = ANY ($1);
PREPARE any_did (did[]) AS SELECT count(*) FROM item WHERE did = ANY ($1);
PREPARE in_texts (text, varchar) AS SELECT count(*) FROM item WHERE did IN ($1, $2);
PREPARE of_row (text, text, varchar) AS SELECT count(*) FROM item WHERE (did, collection, rkey) = ($1, $2, $3);
EXPLAIN (COSTS OFF) EXECUTE any_text ('{did:web:w1.x,did:web:w2.x}');
EXECUTE any_text ('{did:web:w1.x,did:web:w2.x}');
EXPLAIN (COSTS OFF) EXECUTE any_varchar ('{did:web:w1.x,did:web:w2.x}');
EXECUTE any_varchar ('{did:web:w1.x,did:web:w2.x}');
EXECUTE any_did ('{did:web:w1.x,did:web:w2.x}');
EXECUTE in_texts ('did:web:w1.x', 'did:web:w2.x');
SELECT rkey AS key FROM item WHERE did = 'did:web:w2.x' \gset
EXECUTE of_row ('did:web:w2.x', 'a.b.c', :'key');
EXPLAIN (COSTS OFF) SELECT count(*) FROM item WHERE did = 'did:web:w1.x';
EXPLAIN (COSTS OFF) SELECT count(*) FROM item WHERE did = 'did:web:w1.x'::text;
EXPLAIN (COSTS OFF) SELECT count(*) FROM item WHERE did = ANY (ARRAY['did:web:w1.x', 'did:web:w2.x']);
EXPLAIN (COSTS OFF) SELECT count(*) FROM item WHERE did IN ('did:web:w1.x', 'did:web:w2.x');
EXPLAIN (COSTS OFF) SELECT count(*) FROM item WHERE did <> ALL (ARRAY['did:web:w1.x', 'did:web:w2.x']);
SELECT count(*) FROM item WHERE did = ANY (ARRAY['did:web:w1.x', 'did:web:w2.x']) AND did <> ALL (ARRAY['did:web:w1.x']);

-- Joins are those of equal types: all three kinds.
RESET enable_seqscan;
SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_nestloop = off; SET enable_mergejoin = off; SET max_parallel_workers_per_gather = 0;
EXPLAIN (COSTS OFF) SELECT count(*) FROM item a JOIN item b ON a.did = b.did;
EXPLAIN (COSTS OFF) SELECT count(*) FROM item a JOIN item b ON a.did = b.note;
SELECT count(*) FROM item a JOIN item b ON a.did = b.note AND b.label = a.did AND a.rkey = b.created;
SET enable_hashjoin = off; SET enable_mergejoin = on;
EXPLAIN (COSTS OFF) SELECT count(*) FROM item a JOIN item b ON a.did = b.did;
EXPLAIN (COSTS OFF) SELECT count(*) FROM item a JOIN item b ON a.did = b.note;
SET enable_mergejoin = off; SET enable_nestloop = on; SET enable_seqscan = off; SET enable_indexscan = on; SET enable_indexonlyscan = on; SET enable_material = off; SET enable_memoize = off;
EXPLAIN (COSTS OFF) SELECT count(*) FROM (VALUES ('did:web:w1.x'::text), ('did:web:w2.x')) v (d) JOIN item ON did = d;
RESET enable_hashjoin; RESET enable_mergejoin; RESET enable_material; RESET enable_memoize; RESET enable_indexscan; RESET enable_seqscan;

-- Partitions are pruned, when planned and when executed.
CREATE TABLE part (did did, n int) PARTITION BY HASH (did);
CREATE TABLE part_0 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE part_1 PARTITION OF part FOR VALUES WITH (MODULUS 2, REMAINDER 1);
SELECT did_slice('did:web:w2.x', 2), did_slice('did:web:w2.x'::text, 2);
EXPLAIN (COSTS OFF) SELECT FROM part WHERE did = 'did:web:w2.x'::varchar;
PREPARE pruned (text) AS SELECT FROM part WHERE did = $1;
EXPLAIN (COSTS OFF) EXECUTE pruned ('did:web:w2.x');
CREATE TABLE bycoll (collection nsid) PARTITION BY LIST (collection);
CREATE TABLE bycoll_post PARTITION OF bycoll FOR VALUES IN ('app.bsky.feed.post');
CREATE TABLE bycoll_rest PARTITION OF bycoll DEFAULT;
EXPLAIN (COSTS OFF) SELECT FROM bycoll WHERE collection = 'app.bsky.feed.post'::text;
DROP TABLE part, bycoll;

-- Row security: the index is used as with a literal.
SET enable_seqscan = off;
CREATE ROLE regress_reader;
ALTER TABLE item ENABLE ROW LEVEL SECURITY;
CREATE POLICY hide ON item USING (aturi_tid(uri) IS NOT NULL);
GRANT SELECT ON item TO regress_reader;
SET ROLE regress_reader;
PREPARE guarded (text) AS SELECT FROM item WHERE did = $1;
EXPLAIN (COSTS OFF) EXECUTE guarded ('did:web:w2.x');
RESET ROLE;
ALTER TABLE item DISABLE ROW LEVEL SECURITY;
DROP POLICY hide ON item;
REVOKE SELECT ON item FROM regress_reader;
DROP ROLE regress_reader;

-- TIDs and record keys: a range of the index on the key.
EXPLAIN (COSTS OFF) SELECT count(*) FROM item WHERE rkey >= tid_floor('2022-08-01+00') AND rkey <= tid_ceil('2022-09-01+00');
SELECT count(*) FROM item WHERE rkey >= tid_floor('2022-08-01+00') AND rkey <= tid_ceil('2022-09-01+00');
EXPLAIN (COSTS OFF) SELECT count(*) FROM item WHERE rkey = '3jwdwj2ctlk26'::atproto.tid;
SELECT 'self'::recordkey > tid_floor('infinity') AS other_keys_are_beyond, recordkey_matches('3jwdwj2ctlk26'::atproto.tid, 'tid') AS as_argument;

-- Text columns stay text columns, with their own operators and indexes.
EXPLAIN (COSTS OFF) SELECT count(*) FROM item WHERE note = 'did:web:w1.x';
SET enable_seqscan = on;
RESET enable_seqscan;
EXPLAIN (COSTS OFF) SELECT count(*) FROM item WHERE note = label;
SELECT pg_typeof(min(label)), pg_typeof(max(note)), pg_typeof(min(did)) FROM item;
SELECT 'x'::varchar = 'X'::varchar AS varchar, 'x'::varchar <> 'X'::text AS text, 'x'::varchar = 'x' AS literal, 'x'::name = 'X'::text AS name, 'x'::char(3) = 'x'::varchar AS char;

-- Storing, with modifiers checked; arguments of functions.
CREATE TABLE kept (did did(blessed), dids did[], uri aturi(record), rkey recordkey, at atproto.tid);
INSERT INTO kept VALUES ('did:web:a.b'::varchar, '{did:web:c.d}'::text[], 'at://did:web:a.b/a.b.c/self'::text, '3jwdwj2ctlk26'::atproto.tid, '3jwdwj2ctlk26'::text);
INSERT INTO kept (did) VALUES ('did:key:zQ3sh'::text);
INSERT INTO kept (did) VALUES ('nonsense'::text);
UPDATE kept SET did = 'did:web:e.f'::text, dids = array_append(dids, 'did:web:g.h'::did);
SELECT * FROM kept WHERE did = 'nonsense'::text;
SELECT did, dids, uri, rkey, at FROM kept WHERE 'did:web:c.d'::text = ANY (dids);
SELECT aturi('did:web:a.b'::text, 'a.b.c'::text, 'self'::text), aturi('did:web:a.b'::varchar, 'a.b.c'::varchar, 'self'::varchar), aturi('Foo.com', 'a.b.c', 'self'),
	aturi('did:web:a.b'::did, 'a.b.c'::text, '3jwdwj2ctlk26'::atproto.tid), aturi('Foo.com'::text, 'a.b.c'::text), did_method('did:web:a.b'::text), tid_timestamp('3jwdwj2ctlk26'::varchar) IS NOT NULL AS tid;
-- What could be a URI or a DID is neither; a modifier is none of the cast's.
\set VERBOSITY terse
SELECT count(*) FROM item WHERE uri <@ 'did:web:w1.x'::text;
\set VERBOSITY default
-- Functions of one name: a text is nearer to text than to any of our types, and no nearer to others.
CREATE FUNCTION pg_temp.kind(anyelement) RETURNS text LANGUAGE sql AS $$SELECT 'anyelement'$$;
CREATE FUNCTION pg_temp.kind(did) RETURNS text LANGUAGE sql AS $$SELECT 'did'$$;
SELECT pg_temp.kind('did:web:a.b'::did), pg_temp.kind(1);
\set VERBOSITY terse
SELECT pg_temp.kind('did:web:a.b'::text);
\set VERBOSITY default
CREATE FUNCTION pg_temp.kind(text) RETURNS text LANGUAGE sql AS $$SELECT 'text'$$;
SELECT pg_temp.kind('did:web:a.b'::did), pg_temp.kind(1), pg_temp.kind('did:web:a.b'::text), pg_temp.kind('did:web:a.b'::varchar), pg_temp.kind('did:web:a.b');
-- Nothing becomes a text by itself.
\set VERBOSITY terse
SELECT lower('did:web:a.b'::did);
\set VERBOSITY default
-- What may be anything: read by try_did, an error of nobody.
SELECT try_did('nonsense') = 'did:web:a.b'::text;
DROP TABLE item, kept;
