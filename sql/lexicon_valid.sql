-- Lexicon documents and records by them: what the suite's cases leave out.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
SET search_path = public, atproto;

-- What comes with the extension is valid
SELECT id, lexicon_check(doc) FROM lexicon WHERE lexicon_check(doc) IS NOT NULL;

-- Documents: the whole, with each in turn in the place of one of its values
CREATE TEMP TABLE fault (place text[], value jsonb);
INSERT INTO fault VALUES
('{}', '[]'), ('{}', 'null'), ('{}', '{}'),
('{lexicon}', '2'), ('{lexicon}', '1.5'), ('{id}', '"a.b"'), ('{description}', '1'), ('{defs}', '{}'), ('{defs}', '[]'),	-- L-01
('{defs,main}', '1'), ('{defs,main}', '{}'), ('{defs,main,type}', '"recrod"'), ('{defs,main,type}', '"object"'),
('{defs,main,key}', '"uuid"'), ('{defs,main,key}', 'null'), ('{defs,main,record,type}', '"ref"'),	-- L-03
('{defs,main,record,description}', '{}'), ('{defs,main,record,properties}', '[]'),
('{defs,main,record,required}', '["b"]'), ('{defs,main,record,nullable}', '["b"]'), ('{defs,main,record,required}', '[1]'),	-- L-04
('{defs,main,record,properties,a}', '{"type": "token"}'), ('{defs,main,record,properties,a}', '{"type": "params", "properties": {}}'),	-- L-02
('{defs,main,record,properties,a}', '{"type": "string", "format": "uuid"}'), ('{defs,main,record,properties,a}', '{"type": "string", "maxLength": "9"}'),
('{defs,main,record,properties,a}', '{"type": "string", "maxLength": -1}'), ('{defs,main,record,properties,a}', '{"type": "string", "minLength": 3, "maxLength": 2}'),	-- L-05
('{defs,main,record,properties,a}', '{"type": "string", "maxGraphemes": 1e100}'), ('{defs,main,record,properties,a}', '{"type": "string", "enum": "x"}'),
('{defs,main,record,properties,a}', '{"type": "string", "knownValues": [null]}'), ('{defs,main,record,properties,a}', '{"type": "string", "const": "x", "default": "x"}'),
('{defs,main,record,properties,a}', '{"type": "integer", "minimum": 2, "maximum": 1}'), ('{defs,main,record,properties,a}', '{"type": "integer", "enum": ["1"]}'),
('{defs,main,record,properties,a}', '{"type": "boolean", "const": 1}'), ('{defs,main,record,properties,a}', '{"type": "blob", "maxSize": -1}'),
('{defs,main,record,properties,a}', '{"type": "blob", "accept": "image/png"}'), ('{defs,main,record,properties,a}', '{"type": "bytes", "minLength": true}'),
('{defs,main,record,properties,a}', '{"type": "array"}'), ('{defs,main,record,properties,a}', '{"type": "array", "items": {"type": "record"}}'),
('{defs,main,record,properties,a}', '{"type": "ref"}'), ('{defs,main,record,properties,a}', '{"type": "ref", "ref": "#nowhere"}'),
('{defs,main,record,properties,a}', '{"type": "ref", "ref": ""}'), ('{defs,main,record,properties,a}', '{"type": "ref", "ref": "#"}'),	-- L-06
('{defs,main,record,properties,a}', '{"type": "ref", "ref": "a.b#c"}'), ('{defs,main,record,properties,a}', '{"type": "union"}'),	-- L-06
('{defs,main,record,properties,a}', '{"type": "union", "refs": [], "closed": true}'), ('{defs,main,record,properties,a}', '{"type": "union", "refs": ["x"]}'),
('{defs,main,record,properties,a}', '{"type": "union", "refs": [], "closed": "no"}'),
('{defs,main}', '{"type": "query", "parameters": {"type": "object", "properties": {}}}'),	-- L-07
('{defs,main}', '{"type": "query", "parameters": {"type": "params", "properties": {"a": {"type": "object", "properties": {}}}}}'),
('{defs,main}', '{"type": "query", "parameters": {"type": "params", "properties": {"a": {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}}}}'),
('{defs,main}', '{"type": "query", "output": {"schema": {"type": "object", "properties": {}}}}'),	-- L-07
('{defs,main}', '{"type": "procedure", "input": {"encoding": "application/json", "schema": {"type": "string"}}}'),
('{defs,main}', '{"type": "query", "errors": [{"description": "it has no name"}]}'), ('{defs,main}', '{"type": "query", "errors": {}}'),
('{defs,main}', '{"type": "subscription", "message": {"schema": {"type": "object", "properties": {}}}}'), ('{defs,main}', '{"type": "subscription", "message": {}}'),	-- L-07
('{defs,main}', '{"type": "permission-set"}'), ('{defs,main}', '{"type": "permission-set", "permissions": [{"type": "permission"}]}'),	-- L-08
('{defs,main}', '{"type": "permission-set", "permissions": [{"type": "permission", "resource": "repo", "collection": {}}]}'),
('{defs,main}', '{"type": "permission-set", "permissions": [], "title:lang": {"EN_US": "x"}}'),
('{defs,other}', '{"type": "union", "refs": []}'), ('{defs,other}', '{"type": "query"}'),	-- L-02
('{defs,a/b~c}', '{"type": "nothing"}');
SELECT place, left(value::text, 100) AS value, lexicon_check(CASE place WHEN '{}' THEN value ELSE jsonb_set(doc, place, value) END)
FROM fault, (VALUES ('{"lexicon": 1, "id": "org.example.a", "defs": {"main": {"type": "record", "key": "tid",
	"record": {"type": "object", "required": ["a"], "nullable": ["a"], "properties": {"a": {"type": "integer"}}}}}}'::jsonb)) w (doc);

-- Nesting, and size, have an end
SELECT lexicon_check(format('{"lexicon": 1, "id": "org.example.a", "defs": {"main": %s{"type": "null"}%s}}', repeat('{"type": "array", "items": ', 63), repeat('}', 63))::jsonb) IS NULL;
SELECT right(lexicon_check(format('{"lexicon": 1, "id": "org.example.a", "defs": {"main": %s{"type": "null"}%s}}', repeat('{"type": "array", "items": ', 1000), repeat('}', 1000))::jsonb), 20);
SELECT lexicon_check(jsonb_build_object('lexicon', 1, 'id', 'org.example.a', 'description', repeat('x', 2200000), 'defs', '{"main": {"type": "token"}}'::jsonb));
SELECT lexicon_check(jsonb_build_object('lexicon', 1, 'id', 'org.example.a', 'defs', (SELECT jsonb_object_agg('n' || i, '{"type": "null"}'::jsonb) FROM generate_series(1, 20000) i))) IS NULL AS many;

-- Records, by documents that are given: each value as the property "v" of this type
CREATE FUNCTION pg_temp.judge(type jsonb, value text) RETURNS text LANGUAGE sql AS $$
	SELECT lexicon_valid(CASE WHEN value IS NULL THEN '{}' ELSE jsonb_build_object('v', value::jsonb) END || '{"$type": "org.example.a"}', 'org.example.a', NULL,
		jsonb_build_array(
			jsonb_build_object('lexicon', 1, 'id', 'org.example.a', 'defs', jsonb_build_object(
				'main', jsonb_build_object('type', 'record', 'key', 'any', 'record', jsonb_build_object('type', 'object', 'properties', jsonb_build_object('v', type))),
				'list', '{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}, "next": {"type": "ref", "ref": "#list"}}}'::jsonb,
				'token', '{"type": "token"}'::jsonb)),
			'{"lexicon": 1, "id": "org.example.b", "defs": {"main": {"type": "object", "properties": {"x": {"type": "boolean"}}},
				"part": {"type": "object", "nullable": ["y"], "properties": {"y": {"type": "null"}, "z": {"type": "ref", "ref": "org.example.a#list"}}}}}'::jsonb,
			'{"lexicon": 1, "id": "org.example.q", "defs": {"main": {"type": "query"}}}'::jsonb,
			'{"lexicon": 1, "id": "org.example.faulty", "defs": {"main": {"type": "ref", "ref": "#main"}}}'::jsonb)) $$;
-- (versions of psql do not agree on how wide a family is)
\pset format unaligned
SELECT type, value, pg_temp.judge(type, value) FROM (VALUES
('{"type": "integer"}'::jsonb, '1.0'), ('{"type": "integer"}', '1.5'), ('{"type": "integer"}', '9223372036854775807'), ('{"type": "integer"}', '9223372036854775808'),	-- L-22
('{"type": "integer"}', 'null'), ('{"type": "integer", "const": 3, "enum": [3, 4]}', '3'), ('{"type": "integer", "const": 3}', '4'),
('{"type": "integer", "minimum": -5}', '-6'), ('{"type": "integer", "default": 1}', NULL),
('{"type": "boolean", "const": false}', 'true'), ('{"type": "boolean", "const": true}', 'true'), ('{"type": "boolean"}', '0'),	-- L-21
('{"type": "string", "const": "a"}', '"b"'), ('{"type": "string", "enum": []}', '"b"'), ('{"type": "string", "knownValues": ["a"]}', '"b"'),
('{"type": "string", "maxLength": 2}', '"é"'), ('{"type": "string", "maxLength": 1}', '"é"'), ('{"type": "string", "maxGraphemes": 1}', '"👩‍👩‍👧‍👦"'),	-- L-23
('{"type": "string", "maxGraphemes": 2}', '"e\u0301e\u0301e\u0301"'), ('{"type": "string", "minGraphemes": 2, "maxGraphemes": 2}', '"\r\n"'),
('{"type": "string", "format": "uri"}', '"https://example.com/ä"'), ('{"type": "string", "format": "language"}', '"en_US"'),
('{"type": "string", "format": "datetime"}', '"2026-11-23"'), ('{"type": "string", "format": "cid"}', '"bananabread"'),
('{"type": "bytes", "maxLength": 2}', '{"$bytes": "AAA="}'), ('{"type": "bytes", "maxLength": 2}', '{"$bytes": "AAAA"}'), ('{"type": "bytes"}', '{"$bytes": "A"}'),	-- L-24
('{"type": "bytes"}', '{"$bytes": "AAAA", "x": 1}'), ('{"type": "bytes"}', '{"$bytes": 1}'), ('{"type": "cid-link"}', '{"$link": "bafy"}'),
('{"type": "cid-link"}', '{"$link": "bafyreiclp443lavogvhj3d2ob2cxbfuscni2k5jk7bebjzg7khl3esabwq"}'),	-- L-25
('{"type": "blob"}', '{"cid": "bafkreiclp443lavogvhj3d2ob2cxbfuscni2k5jk7bebjzg7khl3esabwq", "mimeType": "image/png"}'),	-- L-26
('{"type": "blob"}', '{"$type": "blob", "ref": "x", "size": 1, "mimeType": "image/png"}'),
('{"type": "blob"}', '{"$type": "blob", "ref": {"$link": "bafkreiclp443lavogvhj3d2ob2cxbfuscni2k5jk7bebjzg7khl3esabwq"}, "size": 0, "mimeType": "image/png"}'),
('{"type": "blob"}', '{"$type": "blob", "ref": {"$link": "bafkreiclp443lavogvhj3d2ob2cxbfuscni2k5jk7bebjzg7khl3esabwq"}, "size": 1, "mimeType": ""}'),
('{"type": "blob"}', '{"$type": "blob", "ref": {"$link": "bafkreiclp443lavogvhj3d2ob2cxbfuscni2k5jk7bebjzg7khl3esabwq"}, "size": 1, "mimeType": "image/png", "alt": "x"}'),
('{"type": "blob", "accept": ["text/*", "image/PNG"], "maxSize": 1}', '{"$type": "blob", "ref": {"$link": "bafkreiclp443lavogvhj3d2ob2cxbfuscni2k5jk7bebjzg7khl3esabwq"}, "size": 1, "mimeType": "image/png"}'),
('{"type": "blob", "accept": []}', '{"$type": "blob", "ref": {"$link": "bafkreiclp443lavogvhj3d2ob2cxbfuscni2k5jk7bebjzg7khl3esabwq"}, "size": 1, "mimeType": "image/png"}'),
('{"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}', '[[1], [], [2, "3"]]'), ('{"type": "array", "items": {"type": "integer"}}', '{}'),	-- L-27
('{"type": "object", "properties": {}}', '{"$link": "bafyreiclp443lavogvhj3d2ob2cxbfuscni2k5jk7bebjzg7khl3esabwq"}'),
('{"type": "object", "nullable": ["a"], "required": ["a"], "properties": {"a": {"type": "integer"}}}', '{"a": null}'),
('{"type": "object", "nullable": ["a"], "required": ["a"], "properties": {"a": {"type": "integer"}}}', '{}'),	-- L-28
('{"type": "object", "properties": {"a/b": {"type": "object", "properties": {"~": {"type": "integer"}}}}}', '{"a/b": {"~": null}}'),
('{"type": "unknown"}', '{"a": 1.5}'), ('{"type": "unknown"}', '[]'), ('{"type": "unknown"}', '{"$bytes": "AAAA"}'), ('{"type": "unknown"}', '{"$type": "blob"}'),	-- L-32
('{"type": "ref", "ref": "#list"}', '{"n": 1, "next": {"n": 2, "next": {"n": "3"}}}'), ('{"type": "ref", "ref": "org.example.b#part"}', '{"y": null, "z": {}}'),
('{"type": "ref", "ref": "org.example.b#part"}', '{"y": 1}'), ('{"type": "ref", "ref": "#token"}', '"org.example.a#token"'), ('{"type": "ref", "ref": "#token"}', '"org.example.a"'),	-- L-29
('{"type": "ref", "ref": "org.example.a"}', '{"v": {"v": {"v": 1}}}'), ('{"type": "ref", "ref": "org.example.b#main"}', '{"x": 1}'),
('{"type": "union", "refs": ["org.example.b", "#list"]}', '{"$type": "org.example.b", "x": 1}'), ('{"type": "union", "refs": ["org.example.b", "#list"]}', '{"$type": "org.example.b#main", "x": 1}'),	-- L-30, L-31
('{"type": "union", "refs": ["org.example.b", "#list"]}', '{"$type": "org.example.a#list", "n": 1}'), ('{"type": "union", "refs": ["org.example.b", "#list"]}', '{"$type": "#list", "n": "1"}'),
('{"type": "union", "refs": ["org.example.b#main"], "closed": true}', '{"$type": "org.example.b", "x": 1}'), ('{"type": "union", "refs": ["org.example.b"], "closed": true}', '{"$type": "org.example.a#list"}'),	-- L-30, L-31
('{"type": "union", "refs": []}', '{"$type": ""}'), ('{"type": "union", "refs": []}', '{"$type": "a"}'), ('{"type": "union", "refs": ["org.example.unknown"]}', '{"$type": "a"}'),
('{"type": "null"}', 'null'), ('{"type": "null"}', '0'), ('{"type": "null"}', NULL)) v (type, value);
\pset format aligned
-- lists may be long, in any order, and say things twice: each of them is found, and nothing between
SELECT type->>'type' AS type, count(*) FILTER (WHERE pg_temp.judge(type, value) IS NULL) AS valid, count(*) FILTER (WHERE pg_temp.judge(type, value) IS NOT NULL) AS faults
FROM (SELECT jsonb_agg('x' || i * 7 % 50 ORDER BY i) AS texts, jsonb_agg(i * 7 % 50 - 25 ORDER BY i) AS integers,
		jsonb_agg('org.example.b#x' || i * 7 % 50 ORDER BY i) || '["org.example.b#part", "org.example.b", "#list", "org.example.b#part"]' AS refs FROM generate_series(0, 99, 2) i) l,
	LATERAL (SELECT jsonb_build_object('type', 'string', 'enum', texts), to_jsonb('x' || i)::text FROM generate_series(-2, 60) i
		UNION ALL SELECT jsonb_build_object('type', 'integer', 'enum', integers), i::text FROM generate_series(-40, 40) i
		UNION ALL SELECT jsonb_build_object('type', 'union', 'closed', true, 'refs', refs), jsonb_build_object('$type', t)::text
			FROM unnest(ARRAY['org.example.b', 'org.example.b#part', 'org.example.b#part#', 'org.example.b#', 'org.example.b#main', 'org.example.a', '#', '#list', 'x']) t
		UNION ALL SELECT jsonb_build_object('type', 'object', 'properties', (SELECT jsonb_object_agg('x' || i * 7 % 50, '{"type": "null"}'::jsonb) FROM generate_series(0, 99, 2) i),
			'required', texts || '["x0", "x0"]'), ((SELECT jsonb_object_agg('x' || k, null) FROM generate_series(0, 60) k) - ('x' || i))::text FROM generate_series(-2, 60) i) v (type, value)
GROUP BY 1 ORDER BY 1;
SELECT n, lexicon_check(jsonb_build_object('lexicon', 1, 'id', 'org.example.a', 'defs', jsonb_build_object('a', jsonb_build_object('type', 'blob', 'accept',
	(SELECT jsonb_agg('a/' || i) FROM generate_series(1, n) i))))) FROM unnest('{1000,1001}'::int[]) n;
-- the record itself (L-20)
SELECT lexicon_valid('[]', 'app.bsky.feed.like'), lexicon_valid('{}', 'app.bsky.feed.like'), lexicon_valid('{"$type": 1}', 'app.bsky.feed.like'),
	lexicon_valid(NULL, 'app.bsky.feed.like'), lexicon_valid('{}', NULL);
-- what keeps from telling
SELECT pg_temp.judge('{"type": "ref", "ref": "org.example.unknown"}', '{}');
SELECT pg_temp.judge('{"type": "ref", "ref": "org.example.b#nothing"}', '{}');
SELECT pg_temp.judge('{"type": "ref", "ref": "org.example.q"}', '{}');
SELECT pg_temp.judge('{"type": "ref", "ref": "org.example.faulty"}', '{}');
SELECT pg_temp.judge('{"type": "nothing"}', '{}');
SELECT lexicon_valid('{}', 'app.bsky.unknown');
SELECT lexicon_valid('{"$type": "com.atproto.repo.strongRef"}', 'com.atproto.repo.strongRef');

-- Records by the table's: a like, with keys that fit and that do not (L-33), and what others may make of one
CREATE TEMP VIEW good AS SELECT '{"$type": "app.bsky.feed.like", "createdAt": "2026-11-23T02:00:00.000Z",
	"subject": {"cid": "bafyreiclp443lavogvhj3d2ob2cxbfuscni2k5jk7bebjzg7khl3esabwq", "uri": "at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3jwdwj2ctlk26"}}'::jsonb AS v;
SELECT lexicon_valid(v, 'app.bsky.feed.like'), lexicon_valid(v, 'app.bsky.feed.like', '3jwdwj2ctlk26'), lexicon_valid(v, 'app.bsky.feed.like', 'self'),
	lexicon_valid(v, 'app.bsky.feed.repost'), lexicon_valid(v - 'subject', 'app.bsky.feed.like'),
	lexicon_valid(jsonb_set(v, '{subject,uri}', '"at://x"'), 'app.bsky.feed.like') FROM good;

-- What is loaded, replaced, rolled back, unloaded counts at once, and no longer than it lasts
SELECT lexicon_valid('{"$type": "org.example.note", "n": 5}', 'org.example.note');
BEGIN;
SELECT load_lexicon('{"lexicon": 1, "id": "org.example.note", "defs": {"main": {"type": "record", "key": "any", "record": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 4}}}}}}');
SELECT lexicon_valid('{"$type": "org.example.note", "n": 5}', 'org.example.note');
SAVEPOINT s;
SELECT load_lexicon('{"lexicon": 1, "id": "org.example.note", "defs": {"main": {"type": "record", "key": "any", "record": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 3}}}}}}', true);
SELECT lexicon_valid('{"$type": "org.example.note", "n": 5}', 'org.example.note');
ROLLBACK TO s;
SELECT lexicon_valid('{"$type": "org.example.note", "n": 5}', 'org.example.note');
DELETE FROM lexicon_loaded WHERE id = 'org.example.note';
SAVEPOINT s;
SELECT lexicon_valid('{"$type": "org.example.note", "n": 5}', 'org.example.note');
ROLLBACK TO s;
INSERT INTO lexicon_loaded VALUES ('org.example.note', '{"lexicon": 1, "id": "org.example.note", "defs": {"main": {"type": "ref", "ref": "#main"}}}');
SELECT lexicon_valid('{"$type": "org.example.note", "n": 5}', 'org.example.note');
ROLLBACK;
SELECT lexicon_valid('{"$type": "org.example.note", "n": 5}', 'org.example.note');

-- Others may judge, too; in parallel
CREATE ROLE atproto_test_reader;
SET ROLE atproto_test_reader;
SELECT atproto.lexicon_valid('{"$type": "app.bsky.graph.follow"}', 'app.bsky.graph.follow');
RESET ROLE;
DROP ROLE atproto_test_reader;
CREATE TABLE likes AS SELECT v FROM good, generate_series(1, 1000);
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SELECT count(*), count(lexicon_valid(v, 'app.bsky.feed.like')) FROM likes;
DROP TABLE likes;
