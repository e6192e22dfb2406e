-- The type dagcbor: input and output, casts, operators, and how PostgreSQL resolves jsonb's operators and functions for it.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
CREATE FUNCTION dagcbor_fault(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE detail text;
BEGIN
	EXECUTE statement;
	RETURN 'none';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN sqlstate || ': ' || sqlerrm || ': ' || detail;
END $$;

-- Each kind of value: text, binary, jsonb and JSON, all back to the same bytes.
CREATE TEMP TABLE kind AS SELECT n, decode(hex, 'hex') AS cbor, decode(hex, 'hex')::dagcbor AS v
FROM unnest(ARRAY['00', '1818', '1b7fffffffffffffff', '1bffffffffffffffff', '20', '3b7fffffffffffffff', '3bffffffffffffffff',
	'60', '6161', '64f09f9880', '6a22005c080c0a0d091f7f', '40', '4100', '420001', '43fbefbe', '80', '83010203', '82f68101', 'a0', 'a1616101', 'a26161016162a16163f5', 'a16000',
	'f4', 'f5', 'f6', 'd82a450001550000', 'd82a582500017112200000000000000000000000000000000000000000000000000000000000000000',
	'fb3ff8000000000000', 'fb7e37e43c8800759c', 'a165246c696e6b05', 'a166246279746573a0', '81a16161fb4000000000000000', '626100', 'a161610a']) WITH ORDINALITY u (hex, n);
SELECT v, v::jsonb AS jsonb, v::json AS json FROM kind ORDER BY n;
SELECT bool_and(v::bytea = cbor) AS bytes, bool_and(v::text::dagcbor = v) AS text, bool_and(dagcbor_send(v) = cbor) AS binary,
	bool_and(v::jsonb IS NULL OR v::jsonb::dagcbor::bytea = cbor) AS jsonb, bool_and(v::json::text = coalesce(v::jsonb::text, v::json::text)) AS layout, count(*) FROM kind;

-- The published fixtures and a record: CID and bytes survive.
SELECT cidlink_of(v::bytea) = cidlink_of(jsonb_to_dagcbor(j)) AS cid, v::jsonb = j AS same, v
FROM (SELECT j, j::dagcbor AS v FROM (VALUES ('{"$type": "app.bsky.feed.like", "subject": {"cid": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a", "uri": "at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3jwdwj2ctlk26"}, "createdAt": "2023-05-22T01:02:03.456Z"}'::jsonb)) r (j)) s;

-- Wrong input of each kind.
SELECT left(input, 90) AS input, dagcbor_fault(format('SELECT %L::dagcbor', input)) AS fault
FROM unnest(ARRAY['', ' ', 'x', '{', '{"a": 1} x', '{"a": 1, "a": 2}', '1.5', '18446744073709551616', '"\ud800"', '{"$link": "b"}', '{"$link": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a", "a": 1}', '{"$bytes": "!"}',
	'\x', '\x0', '\xzz', '\x00zz', '\x0000', '\x1801', '\x9f', '\xa2616201616102', '\xa2616101616102', '\xf97e00', '\xfb7ff8000000000000', '\xc100', '\xd82a4100', '\x61ff', '\xa10101', '\x6261', '\X00', repeat('[', 200), '\x' || repeat('81', 200) || '00']) WITH ORDINALITY u (input, n) ORDER BY n;
SELECT dagcbor_fault('SELECT ''\x1801''::bytea::dagcbor') AS bytea, dagcbor_fault('SELECT ''1.5''::jsonb::dagcbor') AS jsonb, dagcbor_fault('SELECT ''\x0000''::bytea::dagcbor') AS behind;

-- Parts: the same as jsonb's.
CREATE TEMP TABLE rec AS SELECT j, j::dagcbor AS v FROM (VALUES
	('{"text": "hello", "$type": "app.bsky.feed.post", "langs": ["en", "ja"], "n": -7, "t": true, "z": null, "": 1, "reply": {"root": {"cid": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a", "uri": "at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3jwdwj2ctlk26"}}, "createdAt": "2023-05-22T01:02:03.456Z", "ref": {"$link": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"}, "b": {"$bytes": "++//AA"}, "deep": [[1, [2, {"k": "v"}]]]}'::jsonb),
	('[1, "two", [3], {"four": 4}]'), ('"text"'), ('5'), ('null'), ('{}'), ('[]'), ('{"$link": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"}')) r (j);
SELECT k, (j->k)::text IS NOT DISTINCT FROM (v->k)::text AS part, (j->>k) IS NOT DISTINCT FROM (v->>k) AS text, left(v->>k, 40) AS value
FROM rec, unnest('{text,$type,langs,n,t,z,"",reply,createdAt,ref,b,deep,nothing,1,$link,$bytes}'::text[]) WITH ORDINALITY u (k, o) WHERE j ? 'reply' ORDER BY o;
SELECT bool_and((j->k)::text IS NOT DISTINCT FROM (v->k)::text AND (j->>k) IS NOT DISTINCT FROM (v->>k)) AS same, count(v->k) AS found, count(*)
FROM rec, unnest('{text,$type,langs,$link,$bytes,four,0,""}'::text[]) k;
SELECT bool_and((j->i)::text IS NOT DISTINCT FROM (v->i)::text AND (j->>i) IS NOT DISTINCT FROM (v->>i)) AS same, count(v->i) AS found, count(*)
FROM rec, unnest('{-2147483648,-5,-4,-1,0,1,3,4,2147483647}'::int[]) i WHERE jsonb_typeof(j) <> 'string' AND jsonb_typeof(j) <> 'number' AND jsonb_typeof(j) <> 'null';
SELECT p, (j#>p)::text IS NOT DISTINCT FROM (v#>p)::text AS part, (j#>>p) IS NOT DISTINCT FROM (v#>>p) AS text, left(v#>>p, 40) AS value
FROM rec, LATERAL (VALUES (1, '{}'::text[]), (2, '{reply,root,uri}'), (3, '{reply,root,cid}'), (4, '{langs,1}'), (5, '{langs,-1}'), (6, '{langs,+0}'), (7, '{langs,2}'), (8, '{langs,x}'), (9, '{langs,1x}'), (10, '{langs,99999999999}'), (11, '{text,0}'),
	(12, '{deep,0,1,1,k}'), (13, '{ref,$link}'), (14, '{b,$bytes}'), (15, '{ref,$bytes}'), (16, ARRAY['reply', NULL]), (17, '{reply,root,uri,x}'), (18, '{z}'), (19, '{z,a}'), (20, '{langs,""}')) p (o, p)
WHERE j ? 'reply' ORDER BY o;
SELECT ('{"a": {"b": [1, {"c": "x"}]}}'::dagcbor->'a'->'b'->1->>'c') AS chained, pg_typeof('{"a": 1}'::dagcbor->'a') AS type;

-- A text with U+0000, a float and an object with the key $link: jsonb has none, ->> and JSON tell what can be told.
CREATE TEMP TABLE odd AS SELECT v::dagcbor AS v FROM unnest(ARRAY['{"a": "x\u0000", "b": "y"}', '\xa26161fb3ff80000000000006162617a', '\xa26161a165246c696e6b05616201']) v;
SELECT v, v::jsonb IS NULL AS no_jsonb, v->>'a' AS a, v->>'b' AS b, v->'a' AS part, v::json FROM odd;
SELECT count(*), count(v @> '{"b": "y"}') AS judged FROM odd;
SELECT row_to_json(odd) FROM odd;
SELECT dagcbor_fault('SELECT to_jsonb(v) FROM odd') AS to_jsonb;

-- How operators and functions of jsonb resolve: through the implicit cast, never through the text.
SELECT v @> '{"n": -7}' AS contains, '{"n": -7}' <@ v AS contained, v ? 'text' AS has, v ?| '{x,text}' AS any, v ?& '{x,text}' AS all, v @? '$.langs[*]' AS exists, v @@ '$.n < 0' AS predicate,
	(v - 'reply' - 'text'::text) ? 'n' AS minus, (v - '{text,n}'::text[]) ? 'n' AS without, (v #- '{langs,0}')->'langs' AS removed FROM rec WHERE j ? 'reply';
SELECT v || '{"more": 1}' = j || '{"more": 1}' AS literal, '{"more": 1}' || v = '{"more": 1}' || j AS before, v || '{"more": 1}'::jsonb = j || '{"more": 1}' AS right, '{"more": 1}'::jsonb || v = '{"more": 1}' || j AS left,
	v || v = j || j AS both, pg_typeof(v || '{}') AS type, pg_typeof(v || v) AS of_both, pg_typeof('{}' || v) AS of_left FROM rec WHERE j ? 'reply';
SELECT v = '{}' AS literal, v = j AS jsonb, j = v AS other, v <> j AS not, v IN ('{}', '[]') AS in, v = ANY ('{"{}"}'::dagcbor[]) AS any, pg_typeof(coalesce(v, '{}')) AS type, pg_typeof(coalesce(v, j)) AS mixed FROM rec;
SELECT jsonb_typeof(v), jsonb_path_exists(v, '$.langs[*]') AS path, jsonb_pretty(v->'langs') AS pretty, jsonb_array_length(v->'langs') AS length, (v::jsonb)['langs'][0] AS subscript, to_jsonb(v) = j AS to_jsonb, to_json(v)::text = j::text AS to_json,
	jsonb_build_object('v', v->'n') AS built, jsonb_set(v, '{n}', '8')->'n' AS set, record_text(v, 'reply.root.uri') AS record_text, atproto.record_field(v, '{createdAt}', NULL::timestamptz) IS NOT NULL AS field
FROM rec WHERE j ? 'reply';
SELECT * FROM jsonb_to_record('{"a": 1, "b": "x"}'::dagcbor) AS r (a int, b text);
SELECT path, target FROM rec, record_links(v) WHERE j ? 'reply';
SELECT dagcbor_fault('SELECT v FROM rec ORDER BY v') AS order, dagcbor_fault('SELECT v LIKE ''%a%'' FROM rec') AS like, dagcbor_fault('SELECT upper(v) FROM rec') AS upper;

-- Without the schema of the extension in the search_path, PostgreSQL takes jsonb's operators through the cast, and || of texts.
BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp;
SELECT pg_typeof(v || '{"more": 1}') AS concatenated, pg_typeof(v->'n') AS part, v = v AS equal FROM rec WHERE j ? 'reply';
SELECT v->>'b' AS of_record, v = v AS equal, v <> v AS different FROM odd;
ROLLBACK;

-- What literals meant before this type, they mean with it.
SELECT '{"a": 1}' ? 'a' AS has, '{"a": 1}' || '{"b": 2}' AS texts, '{"a": 1}'::jsonb || '{"b": 2}' AS jsonb, record_text('{"a": "x"}', 'a') AS record_text, dagcbor_to_jsonb('\xa0') AS of_bytea, jsonb_to_dagcbor('{}') AS to_bytea,
	jsonb_typeof('{}') AS type, jsonb('{}') AS called, pg_typeof('{}'::jsonb || '[]') AS both;
SELECT dagcbor('{"a": 1}'), dagcbor('{"a": 1}'::jsonb), dagcbor('\xa0'::bytea);

-- Assignment in both directions.
CREATE TEMP TABLE assigned (v dagcbor, j jsonb, o json, b bytea);
INSERT INTO assigned (v) VALUES ('{"a": 1}'::jsonb), ('{"b": "\u0000"}');
UPDATE assigned SET j = v, o = v, b = v;
SELECT * FROM assigned;
SELECT dagcbor_fault('INSERT INTO assigned (v) VALUES (''\xa0''::bytea)') AS explicit_only;

-- Equality and hash: DISTINCT, GROUP BY, UNION, EXCEPT, hash joins and indexes, hash partitions.
SELECT count(DISTINCT v::text) AS texts, (SELECT count(*) FROM (SELECT DISTINCT v FROM (SELECT v FROM kind UNION ALL SELECT v::text::dagcbor FROM kind) u) d) AS values, count(*) FROM kind;
SELECT count(*) FROM (SELECT v FROM kind EXCEPT SELECT v::text::dagcbor FROM kind) e;
SELECT v->>'k' AS k, count(*) FROM (SELECT format('{"k": %s}', i % 3)::dagcbor AS v FROM generate_series(1, 10) i) s GROUP BY v ORDER BY 1;
CREATE TEMP TABLE many AS SELECT i, format('{"$type": "app.bsky.feed.post", "text": "%s"}', i)::dagcbor AS v FROM generate_series(1, 1000) i;
CREATE INDEX ON many USING hash (v);
CREATE INDEX ON many USING gin ((v::jsonb) jsonb_path_ops);
ANALYZE many;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT i FROM many WHERE v = '{"text": "7", "$type": "app.bsky.feed.post"}';
SELECT i FROM many WHERE v = '{"text": "7", "$type": "app.bsky.feed.post"}';
SET enable_indexscan = off;
EXPLAIN (COSTS OFF) SELECT i FROM many WHERE v @> '{"text": "8"}';
SELECT i FROM many WHERE v @> '{"text": "8"}';
RESET enable_seqscan;
RESET enable_indexscan;
SET enable_mergejoin = off;
SET enable_nestloop = off;
SELECT count(*) FROM many a JOIN many b USING (v);
RESET enable_mergejoin;
RESET enable_nestloop;
CREATE TABLE dagcbor_part (v dagcbor) PARTITION BY HASH (v);
CREATE TABLE dagcbor_part_0 PARTITION OF dagcbor_part FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE dagcbor_part_1 PARTITION OF dagcbor_part FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO dagcbor_part SELECT v FROM many;
SELECT count(*) BETWEEN 400 AND 600 AS even FROM dagcbor_part_0;
DROP TABLE dagcbor_part;

-- ANALYZE: the statistics of the text, where the sample is the whole table.
CREATE TEMP TABLE stat AS SELECT v, t, w, u, v::text AS v_text, t::text AS t_text, w::text AS w_text, u::text AS u_text, m
FROM (SELECT format('{"i": %s}', i)::dagcbor AS v, CASE WHEN i % 10 > 0 THEN format('["%s"]', sqrt(i % 10)::int)::dagcbor END AS t, CASE i % 4 WHEN 0 THEN format('"%s"', repeat(i::text, 400))::dagcbor WHEN 1 THEN '"a"' END AS w, CASE WHEN i % 4 = 0 THEN format('[%s]', i)::dagcbor END AS u, CASE WHEN i <= 400 THEN format('%s', i / 5) WHEN i <= 460 THEN format('[%s]', i) ELSE '"frequent"' END::dagcbor AS m FROM generate_series(1, 1000) i) s;
ANALYZE stat;
SELECT attname, null_frac, n_distinct, most_common_vals, most_common_freqs FROM pg_stats WHERE tablename = 'stat' AND attname IN ('m', 't', 'u', 'v', 'w') ORDER BY attname;
SELECT count(*) AS same FROM pg_stats a JOIN pg_stats b ON b.tablename = a.tablename AND b.attname = a.attname || '_text'
WHERE a.tablename = 'stat' AND a.null_frac = b.null_frac AND a.n_distinct = b.n_distinct AND a.most_common_vals::text::text[] IS NOT DISTINCT FROM b.most_common_vals::text::text[];
TRUNCATE stat;
INSERT INTO stat (v, v_text) SELECT CASE WHEN i % 4 > 0 THEN format('{"i": %s}', CASE WHEN i % 4 > 1 THEN i % 7 * 100 ELSE i END)::dagcbor END, CASE WHEN i % 4 > 0 THEN format('{"i": %s}', CASE WHEN i % 4 > 1 THEN i % 7 * 100 ELSE i END) END FROM generate_series(1, 4000) i;
ANALYZE stat;
SELECT a.null_frac = b.null_frac AS nulls, a.n_distinct = b.n_distinct AS n_distinct, (a.n_distinct < -0.1) AS many, (SELECT array_agg(v ORDER BY v) FROM unnest(a.most_common_vals::text::text[]) v) = (SELECT array_agg(v ORDER BY v) FROM unnest(b.most_common_vals::text::text[]) v) AS values, cardinality(a.most_common_freqs)
FROM pg_stats a JOIN pg_stats b ON a.tablename = 'stat' AND b.tablename = 'stat' AND a.attname = 'v' AND b.attname = 'v_text';

-- Out of line and compressed values.
CREATE TEMP TABLE big AS SELECT n, jsonb_build_object('text', string_agg(md5(i::text || n), ''), 'list', jsonb_agg(i)) AS j FROM generate_series(1, 5) n, generate_series(1, 1000 * n) i GROUP BY n;
ALTER TABLE big ADD v dagcbor;
UPDATE big SET v = j;
SELECT bool_and(v::jsonb = j) AS same, bool_and(v->>'text' = j->>'text') AS text, bool_and(v->'list'->-1 = j->'list'->-1) AS last, min(pg_column_size(v)) > 2000 AS large FROM big;
SELECT length((v->>'list')) = length(j->>'list') AS list FROM big WHERE n = 5;

-- Bytes of a stored value, fewer than jsonb's and DAG-CBOR's.
SELECT pg_column_size(v) < pg_column_size(jsonb_to_dagcbor(j)) AND pg_column_size(v) < pg_column_size(j) AS smaller FROM rec WHERE j ? 'reply';

-- Damaged values, and a value of an edition of the future: an error, never a wrong value.
CREATE FUNCTION forged(bytea) RETURNS dagcbor LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE FUNCTION stored(dagcbor) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE FUNCTION dagcbor_hint(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE hint text;
BEGIN
	EXECUTE statement;
	RETURN 'none';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS hint = PG_EXCEPTION_HINT;
	RETURN sqlstate || ': ' || sqlerrm || ': ' || hint;
END $$;
SELECT what, dagcbor_hint(format('SELECT %s FROM forged(''\xff00'') v', what)) AS newer
FROM unnest(ARRAY['v::text', 'v::jsonb', 'v->''a''', 'v->>0', 'v = ''{}''', 'dagcbor_hash(v)', 'dagcbor_send(v)']) what;
SELECT bytes, what, dagcbor_hint(format('SELECT %s FROM forged(%L) v', what, bytes)) AS damaged
FROM unnest('{"\\x","\\x00","\\x00ff","\\x01"}'::bytea[]) bytes, unnest(ARRAY['v::text', 'v->''a''']) what;
SELECT what, string_agg(DISTINCT left(fault, 5), ' ' ORDER BY left(fault, 5)) AS states
FROM (SELECT stored(v) AS b FROM rec WHERE j ? 'reply') s, generate_series(0, length(b) - 1) i, unnest(ARRAY['v::text', 'v::jsonb', 'dagcbor_hash(v)']) what,
	LATERAL dagcbor_hint(format('SELECT %s FROM forged(%L) v', what, substr(b, 1, i))) fault GROUP BY what ORDER BY what;
SELECT bool_and(left(fault, 5) IN ('none', 'XX001', '0A000')) AS known
FROM (SELECT stored(v) AS b FROM rec WHERE j ? 'reply') s, generate_series(0, length(b) - 1) i, unnest(ARRAY[1, 16, 127, 128]) flip,
	unnest(ARRAY['v::text', 'v::jsonb', 'v#>>''{reply,root,uri}''', 'v->''deep''->-1', 'dagcbor_hash(v)', 'v = ''{}''']) what,
	LATERAL dagcbor_hint(format('SELECT %s FROM forged(%L) v', what, set_byte(b, i, get_byte(b, i) # flip))) fault;
SELECT what, dagcbor_hint(format('SELECT %s FROM forged(''\x015a07010002616261ff'') v', what)) AS no_text
FROM unnest(ARRAY['v->>''ab''', 'v#>>''{ab}''', 'record_text(v, ''ab'')', 'atproto.record_field(v, ''{ab}'', NULL::text)', 'v::text']) what;

CREATE TEMP TABLE spoilt AS SELECT forged('\x01') AS v FROM generate_series(1, 10) UNION ALL SELECT forged('\xff00') FROM generate_series(1, 10);
INSERT INTO spoilt SELECT forged('\x') UNION ALL SELECT forged('\x0159');
ANALYZE spoilt;

SELECT what, bool_or(dagcbor_is_intact(forged(b))) AS intact FROM (SELECT stored(v) AS b FROM rec WHERE j ? 'reply') s (v),
	LATERAL (VALUES ('cut', substr(v, 1, length(v) - 1)), ('longer', v || '\x00'), ('empty', '\x'), ('no CBOR', '\x00ff'), ('not packed', '\x00a161616178')) f (what, b) GROUP BY what ORDER BY what;
SELECT count(*) AS spoilt, count(*) FILTER (WHERE dagcbor_is_intact(forged(b))) AS intact, bool_and(NOT dagcbor_is_intact(forged(b)) OR forged(b)::bytea::dagcbor = forged(b)) AS known
FROM (SELECT stored(v) AS b FROM rec WHERE j ? 'reply') s (v), generate_series(1, length(v) - 1) i, LATERAL set_byte(v, i, get_byte(v, i) # 1) b;
SELECT bool_and(dagcbor_is_intact(v)) AS intact, count(*) FROM (SELECT v FROM rec UNION ALL SELECT v FROM kind UNION ALL SELECT v FROM big) a;
SELECT dagcbor_hint('SELECT dagcbor_is_intact(forged(''\xff00''))') AS newer;

-- One value in two editions is one value.
SELECT p = v AS equal, p <> v AS different, dagcbor_hash(p) = dagcbor_hash(v) AS hash, dagcbor_hash_extended(p, 1) = dagcbor_hash_extended(v, 1) AS extended, stored(p) = stored(v) AS stored
FROM rec, LATERAL forged('\x00'::bytea || v::bytea) p WHERE j ? 'reply';
SELECT p->>'text' AS text, p->'langs' = v->'langs' AS part, p::jsonb = j AS jsonb FROM rec, LATERAL forged('\x00'::bytea || v::bytea) p WHERE j ? 'reply';
DROP FUNCTION forged, stored, dagcbor_hint, dagcbor_fault;
