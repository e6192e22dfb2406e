-- Views of collections, with a column for each field that a Lexicon describes.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
SET TimeZone = 'UTC';
CREATE SCHEMA lexicon_view;
SELECT atproto.create_tables('lexicon_view');
SET search_path = lexicon_view, public;
CREATE FUNCTION put(collection nsid, rkey recordkey, value jsonb) RETURNS void LANGUAGE sql AS
	$$INSERT INTO record (did, collection, rkey, cid, rev, value) VALUES ('did:plc:44ybard66vv44zksje25o7dz', $1, $2, cidlink_of('\xa0'), '2222222222222', $3)$$;
CREATE FUNCTION columns(view regclass) RETURNS text LANGUAGE sql AS
	$$SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = $1 AND attnum > 5$$;
-- An error, within its bounds: what is said of it
CREATE FUNCTION refusal(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE detail text; hint text;
BEGIN
	EXECUTE statement;
	RETURN 'none';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(' / ', SQLSTATE, left(SQLERRM, 150), nullif(left(detail, 100), ''), nullif(hint, ''));
END $$;
CREATE FUNCTION lexicon(id text, properties jsonb, more jsonb DEFAULT '{}') RETURNS jsonb LANGUAGE sql AS
	$$SELECT jsonb_build_object('lexicon', 1, 'id', id, 'defs', more || jsonb_build_object('main', jsonb_build_object('type', 'record', 'key', 'any',
		'record', jsonb_build_object('type', 'object', 'properties', properties))))$$;

-- --- fields ---

-- What is such a value, what is none, and what is not there
SELECT v, atproto.record_field(v, '{a}', NULL::text) AS text, atproto.record_field(v, '{a}', NULL::bigint) AS int, atproto.record_field(v, '{a}', NULL::boolean) AS bool,
	atproto.record_field(v, '{a}', NULL::jsonb) AS jsonb, atproto.record_field(v, '{a}', NULL::text[]) AS texts, atproto.record_field(v, '{a,b}', NULL::text) AS inner
FROM (VALUES ('{"a": "x"}'::jsonb), ('{"a": 1}'), ('{"a": 1.0}'), ('{"a": 1.5}'), ('{"a": 9223372036854775807}'), ('{"a": -9223372036854775808}'), ('{"a": 9223372036854775808}'), ('{"a": 1e30}'), ('{"a": true}'), ('{"a": null}'), ('{"a": []}'), ('{"a": ["x", 1, null, ["y"], {"b": "z"}]}'), ('{"a": {"b": "z"}}'), ('{"a": {"b": null}}'), ('{"a": "true"}'), ('{"a": ""}'), ('{}'), ('[]'), ('["a"]'), ('"a"'), ('1'), ('null'), ('{"b": "x"}')) t (v);
SELECT v->'a' AS a, atproto.record_field(v, '{a}', NULL::timestamptz) AS time, atproto.record_field(v, '{a}', NULL::aturi) AS uri, atproto.record_field(v, '{a}', NULL::did) AS did,
	atproto.record_field(v, '{a}', NULL::handle) AS handle, atproto.record_field(v, '{a}', NULL::nsid) AS nsid, atproto.record_field(v, '{a}', NULL::recordkey) AS rkey,
	atproto.record_field(v, '{a}', NULL::atproto.tid) AS tid, right(atproto.record_field(v, '{a}', NULL::cidlink)::text, 4) AS cid, atproto.record_field(v, '{a}', NULL::noshuri) AS nosh
FROM (VALUES ('"2026-01-02T03:04:05.678Z"'), ('"now"'), ('"infinity"'), ('"2026-01-02"'), ('"at://did:plc:abc/a.b.c/x"'), ('"did:plc:abc"'), ('"A.example"'), ('"a.b.c"'),
	('"2222222222222"'), ('"bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"'), ('{"$link": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"}'),
	('{"$link": "x"}'), ('{"$link": 1}'), ('{"$link": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a", "y": 1}'), ('"nosh://1"'), ('7')) t (t), LATERAL (SELECT jsonb_build_object('a', t::jsonb) AS v) x;
-- Bad elements are NULL; no array is NULL, an empty one is empty
SELECT atproto.record_field(v, '{a}', NULL::timestamptz[]) AS times, atproto.record_field(v, '{a}', NULL::did[]) AS dids, atproto.record_field(v, '{a}', NULL::bigint[]) AS ints,
	atproto.record_field(v, '{a}', NULL::boolean[]) AS bools, atproto.record_field(v, '{a}', NULL::atproto.tid[]) AS tids
FROM (VALUES ('{"a": ["2026-01-02T03:04:05Z", "did:plc:abc", 7, true, "2222222222222", null, [], {}]}'::jsonb), ('{"a": []}'), ('{"a": {}}'), ('{"a": [[]]}')) t (v);
SELECT array_length(atproto.record_field(v, '{a}', NULL::did[]), 1) FROM (SELECT jsonb_build_object('a', jsonb_agg('did:plc:' || n)) AS v FROM generate_series(1, 100000) n) x;
-- Paths
SELECT atproto.record_field(NULL, '{a}', NULL::text), atproto.record_field('{"a": "x"}', NULL, NULL::text), atproto.record_field('{"a": "x"}', '{}', NULL::text),
	atproto.record_field('{"a": "x"}', '{NULL}', NULL::text), atproto.record_field('{"a": {"b": {"c": "x"}}}', '{{a,b},{c,c}}', NULL::text), atproto.record_field('{"a": {"b": {"c": "x"}}}', '{a,b,c}', NULL::text);
SELECT atproto.record_field('{"é\"": "x"}', ARRAY['é"'], NULL::text), atproto.record_field(jsonb_build_object(repeat('x', 1000), 'y'), ARRAY[repeat('x', 1000)], NULL::text);
SELECT refusal($$SELECT atproto.record_field('{}', '{a}', NULL::point)$$), refusal($$SELECT atproto.record_field('{}', '{a}', NULL::int4range[])$$);

-- --- views ---

SELECT atproto.create_view('app.bsky.feed.post', target => 'lexicon_view');
SELECT attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum) FROM pg_attribute WHERE attrelid = 'app_bsky_feed_post'::regclass ORDER BY attnum;
SELECT obj_description('app_bsky_feed_post'::regclass);
SELECT put('app.bsky.feed.post', 'good', '{"$type": "app.bsky.feed.post", "text": "hello", "createdAt": "2026-01-02T03:04:05Z", "langs": ["en", "de"],
	"reply": {"root": {"uri": "at://did:plc:abc/app.bsky.feed.post/1", "cid": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"}, "parent": {"uri": "at://did:plc:abc/app.bsky.feed.post/2"}}}'),
	put('app.bsky.feed.post', 'bad', '{"text": ["hello"], "createdAt": "now", "langs": ["en", 7, null], "tags": "x", "reply": {"root": "at://x", "parent": {"uri": "http://x", "cid": "x"}}, "embed": 1, "facets": null}'),
	put('app.bsky.feed.post', 'worse', '[1]'), put('app.bsky.feed.post', 'none', NULL), put('app.bsky.feed.like', 'other', '{}');
SELECT rkey, uri, right(cid::text, 4) AS cid, text, created_at, langs, tags, embed, facets, reply_root_uri, right(reply_root_cid::text, 4) AS root_cid, reply_parent_uri, reply_parent_cid AS parent_cid
FROM app_bsky_feed_post ORDER BY rkey;

-- Every Lexicon that comes with the extension
SELECT count(columns(atproto.create_view(id, target => 'lexicon_view'))) FROM atproto.lexicon WHERE doc #>> '{defs,main,type}' = 'record';
SELECT columns('app_bsky_graph_starterpack'), columns('app_bsky_labeler_service'), columns('app_bsky_feed_generator') \gx

-- A newer revision adds columns; views on it, rights, and what somebody else wrote on the columns stay
SELECT columns(atproto.create_view('org.example.note', lexicon('org.example.note', '{"body": {"type": "string", "description": "what it''s about"}, "stars": {"type": "integer"}, "gone": {"type": "boolean"}}'), 'lexicon_view'));
CREATE VIEW on_it AS SELECT body, stars FROM org_example_note;
GRANT SELECT ON org_example_note TO PUBLIC;
SELECT columns(atproto.create_view('org.example.note', lexicon('org.example.note', '{"at": {"type": "string", "format": "datetime"}, "body": {"type": "string"}, "stars": {"type": "string"}}'), 'lexicon_view'));
SELECT columns(atproto.create_view('org.example.note', lexicon('org.example.note', '{"at": {"type": "string", "format": "datetime"}, "body": {"type": "string"}, "stars": {"type": "integer"}}'), 'lexicon_view'));
SELECT put('org.example.note', 'x', '{"body": "b", "stars": "*", "at": "2026-01-02T03:04:05Z", "gone": true}');
SELECT body, stars, stars_2, at, gone FROM org_example_note;
SELECT relacl IS NOT NULL AS granted FROM pg_class WHERE oid = 'org_example_note'::regclass;
SELECT attname, col_description(attrelid, attnum) FROM pg_attribute WHERE attrelid = 'org_example_note'::regclass AND attnum > 5 ORDER BY attnum;

-- Names: collisions, words of SQL, what is no name, what is too long
SELECT columns(atproto.create_view('org.example.names', lexicon('org.example.names', jsonb_build_object('uri', s, 'did', s, 'DID', s, 'indexedAt', s, 'order', s, 'select', s, 'left', s, 'value', s,
	'postURL', s, 'URLPath', s, 'aB', s, 'a_b', s, 'a"b', s, 'a;b', s, '2nd', s, '', s, 'é', s, '_', s, repeat('x', 70), s, repeat('x', 71), s, 'ref', '{"type": "object", "properties": {"uri": {"type": "string", "format": "at-uri"}}}'::jsonb)), 'lexicon_view'))
FROM (SELECT '{"type": "string"}'::jsonb AS s) x;
SELECT right(columns(atproto.create_view('org.example.names', lexicon('org.example.names', '{"ab": {"type": "string"}, "uri": {"type": "string"}, "a/b": {"type": "string"}}'), 'lexicon_view')), 80);
SELECT put('org.example.names', 'x', '{"uri": "1", "did": "2", "a\"b": "3", "a;b": "4", "order": "5", "é": "6", "": "7"}');
SELECT rkey, uri_2, did_2, order_ FROM org_example_names;

-- References: into this document, others, nowhere, in a circle; scalars and arrays behind them; one level of objects
SELECT columns(atproto.create_view('org.example.refs', lexicon('org.example.refs', '{
	"here": {"type": "ref", "ref": "#thing"}, "self": {"type": "ref", "ref": "org.example.refs#thing"}, "there": {"type": "ref", "ref": "app.bsky.embed.defs#aspectRatio"},
	"purpose": {"type": "ref", "ref": "app.bsky.graph.defs#listPurpose"}, "nowhere": {"type": "ref", "ref": "org.example.absent"}, "never": {"type": "ref", "ref": "#absent"},
	"circle": {"type": "ref", "ref": "#circle"}, "chain": {"type": "ref", "ref": "#chain"}, "empty": {"type": "ref", "ref": ""}, "hash": {"type": "ref", "ref": "#"}, "number": {"type": "ref", "ref": 7},
	"times": {"type": "array", "items": {"type": "ref", "ref": "#time"}}, "list": {"type": "array", "items": {"type": "ref", "ref": "#thing"}}, "strong": {"type": "ref", "ref": "com.atproto.repo.strongRef"},
	"nil": {"type": "object"}, "none": {"type": "object", "properties": {}}, "blob": {"type": "blob"}, "bytes": {"type": "bytes"}, "link": {"type": "cid-link"}, "any": {"type": "unknown"}, "strange": {"type": "strange"}, "bad": 7, "arr": {"type": "array"}}',
	'{"thing": {"type": "object", "required": ["b"], "properties": {"a": {"type": "string"}, "b": {"type": "boolean"}, "deep": {"type": "object", "properties": {"c": {"type": "string"}}}, "strong": {"type": "ref", "ref": "com.atproto.repo.strongRef#main"}}},
	"circle": {"type": "object", "properties": {"circle": {"type": "ref", "ref": "#circle"}}}, "chain": {"type": "ref", "ref": "#chain"}, "time": {"type": "string", "format": "datetime"}}'), 'lexicon_view'));

-- Elsewhere, under another name, of active repositories only
CREATE SCHEMA lexicon_view_2;
SELECT atproto.create_view('app.bsky.feed.post', target => 'lexicon_view', schema => 'lexicon_view_2', view => 'My "posts"');
SELECT count(*) FROM lexicon_view_2."My ""posts""";
SELECT atproto.create_view('app.bsky.feed.post', target => 'lexicon_view', schema => 'lexicon_view_2', view => 'My "posts"', active => true);
SELECT count(*) FROM lexicon_view_2."My ""posts""";
INSERT INTO repo (did) VALUES ('did:plc:44ybard66vv44zksje25o7dz');
SELECT count(*) FROM lexicon_view_2."My ""posts""";

-- Of a table that is put into partitions afterwards, of which only that of the collection is read; and with an index on a field
CREATE SCHEMA lexicon_view_3;
SELECT atproto.create_tables('lexicon_view_3');
INSERT INTO lexicon_view_3.record SELECT * FROM record;
SELECT atproto.create_view('app.bsky.feed.post', target => 'lexicon_view_3');
CREATE INDEX post_created_at ON lexicon_view_3.record (atproto.record_field(value, '{createdAt}', NULL::timestamptz));
SELECT count(*) > 0 AS done FROM atproto.partition('lexicon_view_3', 'collection', '{app.bsky.feed.post}');
SELECT relkind, (SELECT reloptions FROM pg_class WHERE oid = 'lexicon_view_3.app_bsky_feed_post'::regclass) FROM pg_class WHERE oid = 'lexicon_view_3.record'::regclass;
SELECT atproto.create_view('app.bsky.feed.post', target => 'lexicon_view_3');
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP RETURN NEXT line; END LOOP;
END $$;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FILTER (WHERE line ~ 'Scan') AS scans, bool_or(line ~ 'Index Cond: .atproto.record_field') AS by_index FROM plan($$SELECT text FROM lexicon_view_3.app_bsky_feed_post WHERE created_at > '2026-01-01 UTC'$$) line;
RESET enable_seqscan;
RESET enable_bitmapscan;
SELECT text FROM lexicon_view_3.app_bsky_feed_post WHERE created_at > '2026-01-01 UTC';

-- What is no view of ours is not touched
CREATE TABLE org_example_table (x int);
CREATE VIEW org_example_view AS SELECT did FROM record WHERE collection = 'org.example.view';
CREATE VIEW org_example_more AS SELECT *, 1 AS more FROM lexicon_view_2."My ""posts""";
SELECT refusal(format($$SELECT atproto.create_view(%L, lexicon(%L, '{}'), 'lexicon_view')$$, id, id)) FROM unnest('{org.example.table,org.example.view,org.example.more,app.bsky.feedPost}'::text[]) id;
SELECT columns(atproto.create_view('org.example.nothing', lexicon('org.example.nothing', '{}'), 'lexicon_view'));
-- nor what looks like one: all but such records, some of them, an order, and other functions of that name
CREATE FUNCTION atproto.record_field(int, int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
CREATE FUNCTION atproto.record_field(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';
SELECT view, refusal(format('CREATE VIEW org_example_like AS SELECT aturi(did, collection, rkey) AS uri, did, rkey, cid, indexed_at%s', view)),
	refusal($$SELECT atproto.create_view('org.example.like', lexicon('org.example.like', '{}'), 'lexicon_view')$$), refusal('DROP VIEW org_example_like')
FROM unnest(ARRAY[$$ FROM record WHERE collection <> 'org.example.like'$$, $$ FROM record WHERE collection = 'org.example.like' LIMIT 2$$,
	$$ FROM record WHERE collection = 'org.example.like' ORDER BY indexed_at$$, $$, count(*) OVER () FROM record WHERE collection = 'org.example.like'$$,
	$$ FROM record WHERE collection = 'org.example.like' GROUP BY 1, 2, 3, 4, 5$$, $$ FROM (SELECT * FROM record) r WHERE collection = 'org.example.like'$$, $$ FROM record, (SELECT) none WHERE collection = 'org.example.like'$$,
	$$, atproto.record_field(1, 12345) AS x FROM record WHERE collection = 'org.example.like'$$,
	$$, atproto.record_field(1) AS x FROM record WHERE collection = 'org.example.like'$$, $$ FROM record WHERE collection = 'org.example.like'$$]) view;
DROP FUNCTION atproto.record_field(int, int), atproto.record_field(int);

-- One of active repositories stays one until somebody says otherwise
CREATE FUNCTION shows(active boolean) RETURNS text LANGUAGE plpgsql AS $$
DECLARE view regclass := atproto.create_view('org.example.active', lexicon('org.example.active', '{}'), 'lexicon_view', active => active);
BEGIN
	RETURN substring(pg_get_viewdef(view) FROM 'FROM (\w+)');
END $$;
SELECT active, shows(active) FROM unnest(ARRAY[NULL, true, NULL, false, NULL]) active;

-- Columns may be renamed, and keep their names then
CREATE FUNCTION renamed(view regclass) RETURNS text LANGUAGE sql AS
	$$SELECT string_agg(attname, ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = $1$$;
SELECT renamed(atproto.create_view('org.example.renamed', lexicon('org.example.renamed', '{"text": {"type": "string"}}'), 'lexicon_view'));
ALTER VIEW org_example_renamed RENAME COLUMN text TO body;
ALTER VIEW org_example_renamed RENAME COLUMN uri TO "Link";
SELECT renamed(atproto.create_view('org.example.renamed', lexicon('org.example.renamed', '{"text": {"type": "string"}, "body": {"type": "string"}, "uri": {"type": "string"}, "link": {"type": "string"}}'), 'lexicon_view'));
SELECT renamed(atproto.create_view('org.example.renamed', lexicon('org.example.renamed', '{"more": {"type": "string"}}'), 'lexicon_view'));

-- A number of few bytes may have many digits
SELECT cardinality(array_remove(atproto.record_field(v, '{a}', NULL::bigint[]), NULL)) AS n
FROM (SELECT jsonb_build_object('a', jsonb_agg('1e131071'::numeric) || '1') AS v FROM generate_series(1, 30)) x;

-- Lexicons that cannot be used, and hostile ones
SELECT refusal($$SELECT atproto.create_view('org.example.unknown', target => 'lexicon_view')$$);
SELECT refusal($$SELECT atproto.create_view('app.bsky.richtext.facet', target => 'lexicon_view')$$);
SELECT refusal($$SELECT atproto.create_view('a.b.c', '[]', 'lexicon_view')$$);
SELECT refusal($$SELECT atproto.create_view('a.b.c', lexicon('a.b.d', '{}'), 'lexicon_view')$$);
SELECT refusal($$SELECT atproto.create_view('a.b.c', lexicon('a.b.c', '{}'), 'lexicon_view_2')$$);
SELECT refusal($$SELECT atproto.create_view('a.b.c', lexicon('a.b.c', '{}'), 'lexicon_nowhere')$$);
SELECT refusal($$SELECT atproto.create_view('a.b.c', lexicon('a.b.c', '{}'), 'lexicon_view', 'lexicon_nowhere')$$);
SELECT refusal(format($$SELECT atproto.create_view(%L, lexicon(%L, '{}'), 'lexicon_view')$$, n, n)) FROM (SELECT 'a.' || repeat('b', 63) || '.c' AS n) x;
SELECT refusal($$SELECT atproto.create_view('a.b.c', lexicon('a.b.c', (SELECT jsonb_object_agg('p' || n, '{"type": "string"}'::jsonb) FROM generate_series(1, 10000) n)), 'lexicon_view')$$);
SELECT refusal($$SELECT atproto.create_view('a.b.c', lexicon('a.b.c', jsonb_build_object(repeat('x', 1000000), '{}'::jsonb)), 'lexicon_view')$$);
SELECT refusal($$SELECT atproto.create_view('a.b.c', lexicon('a.b.c', (SELECT jsonb_object_agg('p' || n, '{"type": "ref", "ref": "#big"}'::jsonb) FROM generate_series(1, 1500) n),
	jsonb_build_object('big', jsonb_build_object('type', 'object', 'required', (SELECT jsonb_agg('q' || n) FROM generate_series(1, 1500) n), 'properties', (SELECT jsonb_object_agg('p' || n, 7) FROM generate_series(1, 1500) n)))), 'lexicon_view')$$);
SELECT refusal($$SELECT atproto.create_view('a.b.c', lexicon('a.b.c', jsonb_build_object('deep', (repeat('{"type": "object", "properties": {"x": ', 5000) || '1' || repeat('}}', 5000))::jsonb)), 'lexicon_view')$$);
SELECT columns('a_b_c');
SELECT array_length(string_to_array(columns(atproto.create_view('a.b.many', lexicon('a.b.many', (SELECT jsonb_object_agg(repeat('_', n), '{"type": "string"}'::jsonb) FROM generate_series(1, 500) n)), 'lexicon_view')), ','), 1);
SELECT attname, col_description(attrelid, attnum) = repeat('_', attnum - 5) AS its FROM pg_attribute WHERE attrelid = 'a_b_many'::regclass AND attnum IN (6, 7, 68, 69, 505) ORDER BY attnum;

-- Rights: of who asks for the view, and then of who reads it
CREATE ROLE regress_lexicon_view;
GRANT USAGE, CREATE ON SCHEMA lexicon_view_2 TO regress_lexicon_view;
GRANT USAGE ON SCHEMA lexicon_view TO regress_lexicon_view;
GRANT SELECT ON lexicon_view_2."My ""posts""" TO regress_lexicon_view;
SET ROLE regress_lexicon_view;
SELECT refusal($$SELECT atproto.create_view('app.bsky.feed.post', target => 'lexicon_view', schema => 'lexicon_view_2')$$);
SELECT refusal($$SELECT FROM lexicon_view_2."My ""posts"""$$);
RESET ROLE;
GRANT EXECUTE ON FUNCTION atproto.create_view TO regress_lexicon_view;
GRANT SELECT ON record, visible_record TO regress_lexicon_view;
SET ROLE regress_lexicon_view;
SELECT refusal($$SELECT atproto.create_view('app.bsky.feed.post', target => 'lexicon_view')$$), refusal($$SELECT atproto.create_view('app.bsky.feed.like', target => 'lexicon_view')$$);
SELECT atproto.create_view('app.bsky.feed.post', target => 'lexicon_view', schema => 'lexicon_view_2');
SELECT count(*) FROM lexicon_view_2.app_bsky_feed_post;
SELECT count(*) FROM lexicon_view_2."My ""posts""";
RESET ROLE;
SET client_min_messages = warning;
DROP SCHEMA lexicon_view_3, lexicon_view_2, lexicon_view CASCADE;
DROP OWNED BY regress_lexicon_view;
DROP ROLE regress_lexicon_view;
