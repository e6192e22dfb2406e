-- What a record says, whoever wrote it: record_text(), record_hashtags(), record_mentions().
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
SET TimeZone = 'UTC';

-- --- record_text: the notation of record_links() ---

-- What is a text, what is none, what is not there
SELECT v, record_text(v, 'a') AS a, record_text(v, 'a.b') AS b, record_text(v, 'a.b.c') AS c
FROM (VALUES ('{"a": "x"}'::jsonb), ('{"a": {"b": "x"}}'), ('{"a": {"b": {"c": "x"}}}'), ('{"a": ""}'), ('{"a": 1}'), ('{"a": true}'), ('{"a": null}'), ('{"a": ["x"]}'), ('{"a": [{"b": "x"}]}'),
	('{"a.b": "x"}'), ('{}'), ('[]'), ('["a"]'), ('[{"a": "x"}]'), ('"a"'), ('1'), ('null')) t (v);
-- Each name is written as record_links() writes it; what is written otherwise is no path, and finds nothing
SELECT name, path, record_text(jsonb_build_object(name, jsonb_build_object(name, 'did:a:b')), path) AS text
FROM (SELECT name, (SELECT path FROM record_links(jsonb_build_object(name, jsonb_build_object(name, 'did:a:b')))) AS path
	FROM unnest(ARRAY['subject', '$x', 'a.b', 'a%2Eb', '%', '', ' ', '[]', 'a[]', 'é', '"', '\', '😀']) name) n;
SELECT path, record_text('{"a": "x", "b[]": "y", "c%zz": "z", "é": "w", "": "v", "d": {"": "u"}, "a%": "t", "e": {"%": "s"}}', path) AS text
FROM unnest(ARRAY['a', '', '.', '.a', 'a.', 'a..', '..', 'b[]', 'b%5b%5d', 'b%5B%5D', 'c%zz', 'c%25zz', 'é', '%C3%A9', '%', '%.', 'd.%', 'd.', 'd.%%', 'a%', 'a%25', '%61', 'e.%25', '%0', 'a%00']) path;
-- What a path says need not be UTF-8
SELECT record_text('{"a": "x"}', '%FF%FE.%80') IS NULL AS nothing;
-- NULL for NULL; no path is too long, no value too deep, no text too large
SELECT record_text(NULL, 'a'), record_text('{"a": "x"}', NULL), record_text('{"a": "x"}', 'a', NULL);
SELECT record_text(jsonb_build_object(repeat('x', 100000), 'y'), repeat('x', 100000)) AS long_name, record_text('{"a": "x"}', repeat('a.', 1000000) || 'a') AS long_path,
	length(record_text(jsonb_build_object('a', repeat('å', 1000000)), 'a')) AS long_text, record_text((repeat('{"a":', 3000) || '"x"' || repeat('}', 3000))::jsonb, repeat('a.', 2999) || 'a') AS deep;
-- At most so many bytes
SELECT n, record_text('{"a": {"b": "åb"}}', 'a.b', n) AS text FROM unnest('{-2147483648,-1,0,1,2,3,4,2147483647}'::int[]) n;
SELECT record_text('{"a": ""}', 'a', 0) = '' AS empty, record_text('{"a": 1}', 'a', 10), record_text('{"a": "x"}', 'a.', 10);

-- --- facets ---

CREATE FUNCTION pg_temp.features(VARIADIC jsonb[]) RETURNS jsonb LANGUAGE sql AS
	$$SELECT jsonb_build_object('index', '{"byteStart": 0, "byteEnd": 1}'::jsonb, 'features', to_jsonb($1))$$;
CREATE FUNCTION pg_temp.facets(VARIADIC jsonb[]) RETURNS jsonb LANGUAGE sql AS
	$$SELECT jsonb_build_object('$type', 'app.bsky.feed.post', 'text', '', 'facets', to_jsonb($1))$$;
CREATE FUNCTION pg_temp.tag(text) RETURNS jsonb LANGUAGE sql AS $$SELECT jsonb_build_object('$type', 'app.bsky.richtext.facet#tag', 'tag', $1)$$;
CREATE FUNCTION pg_temp.mention(text) RETURNS jsonb LANGUAGE sql AS $$SELECT jsonb_build_object('$type', 'app.bsky.richtext.facet#mention', 'did', $1)$$;

-- Once each, in the order of the record: facets first, then tags
SELECT record_hashtags(v || '{"tags": ["Art", "b", "#c", "b"]}') AS hashtags, record_mentions(v) AS mentions
FROM pg_temp.facets(pg_temp.features(pg_temp.tag('Cats')), pg_temp.features(pg_temp.mention('did:web:b.example'), '{"$type": "app.bsky.richtext.facet#link", "uri": "https://a.example"}', pg_temp.tag('b')),
	pg_temp.features(pg_temp.tag('CATS'), pg_temp.mention('did:plc:44ybard66vv44zksje25o7dz'), pg_temp.mention('did:web:b.example'))) v;
SELECT record_hashtags('{"text": "hello #no"}') AS none, record_mentions('{}') AS nobody, record_hashtags(NULL) AS null, record_mentions(NULL) AS null;
-- A tag is the same however it is written: lower case, as lower() has it, and without the sign before it
SELECT t AS tag, record_hashtags(jsonb_build_object('tags', jsonb_build_array(t))) AS hashtags, record_hashtags(pg_temp.facets(pg_temp.features(pg_temp.tag(t)))) = record_hashtags(jsonb_build_object('tags', jsonb_build_array(t))) AS alike
FROM unnest(ARRAY['cats', 'CATS', '#cats', '##Cats', '＃cats', '#＃#', '#', '', ' ', 'hot dogs', 'c#', '猫', '"{,}\', '#' || chr(1)]) t;
SELECT bool_and(record_hashtags(jsonb_build_object('tags', jsonb_build_array(t))) = ARRAY[lower(t)]) AS as_lower FROM unnest('{ÄRGER,КОШКИ,Ⱥ,İ}'::text[]) t;
SELECT n, cardinality(record_hashtags(jsonb_build_object('tags', jsonb_build_array(repeat('x', n)))))  AS tags, cardinality(record_hashtags(jsonb_build_object('tags', jsonb_build_array('#' || repeat('å', n / 2))))) AS tags
FROM unnest('{639,640,641,1000000}'::int[]) n;

-- Whatever stands there instead
SELECT v, record_hashtags(v) AS hashtags, record_mentions(v) AS mentions
FROM (VALUES ('null'::jsonb), ('1'), ('"facets"'), ('[]'), ('["facets", "tags"]'), ('[{"tags": ["a"]}]'), ('{"facets": null, "tags": null}'), ('{"facets": {}, "tags": {"0": "a"}}'), ('{"facets": "a", "tags": "a"}'),
	('{"facets": [null, 1, "a", [], {}], "tags": [null, 1, true, ["a"], {"tag": "a"}, "ok"]}'), ('{"facets": [{"features": null}, {"features": {}}, {"features": "x"}, {"features": []}, {"features": [null, 1, "a", [], {}]}]}'),
	('{"facets": [[{"features": [{"$type": "app.bsky.richtext.facet#tag", "tag": "a"}]}]]}'),
	('{"facets": [{"features": {"$type": "app.bsky.richtext.facet#tag", "tag": "a"}}]}')) t (v);
SELECT f AS feature, record_hashtags(pg_temp.facets(pg_temp.features(f))) AS hashtags, record_mentions(pg_temp.facets(pg_temp.features(f))) AS mentions
FROM (VALUES ('{"tag": "a", "did": "did:a:b"}'::jsonb), ('{"$type": "app.bsky.richtext.facet", "tag": "a", "did": "did:a:b"}'), ('{"$type": ["app.bsky.richtext.facet#tag"], "tag": "a"}'), ('{"$type": "app.bsky.richtext.facet#tags", "tag": "a"}'),
	('{"$type": "app.bsky.richtext.facet#tag"}'), ('{"$type": "app.bsky.richtext.facet#tag", "tag": null}'), ('{"$type": "app.bsky.richtext.facet#tag", "tag": 1}'), ('{"$type": "app.bsky.richtext.facet#tag", "tag": ["a"]}'),
	('{"$type": "app.bsky.richtext.facet#tag", "did": "did:a:b"}'), ('{"$type": "app.bsky.richtext.facet#mention", "tag": "a"}'), ('{"$type": "app.bsky.richtext.facet#mention", "did": "a.example"}'), ('{"$type": "app.bsky.richtext.facet#mention", "did": ""}'),
	('{"$type": "app.bsky.richtext.facet#mention", "did": {"$link": "x"}}'), ('{"$type": "app.bsky.richtext.facet#mention", "did": "at://did:a:b"}'), ('{"$type": "app.bsky.richtext.facet#mention", "did": "did:plc:44ybard66vv44zksje25o7dz"}')) t (f);
-- The first 256 count, equal ones too; any number of them in any number of facets
SELECT cardinality(h) AS n, h[1] AS first, h[128] AS last, cardinality(m) AS n, m[1] AS first, m[128] AS last
FROM (SELECT record_hashtags(v) AS h, record_mentions(v) AS m
	FROM (SELECT jsonb_build_object('facets', jsonb_agg(pg_temp.features(pg_temp.tag('X' || n), pg_temp.tag(''), pg_temp.mention('did:web:m' || n), pg_temp.mention('nobody'), pg_temp.tag('#x' || n), pg_temp.mention('did:web:m' || n)) ORDER BY n),
		'tags', '["late"]'::jsonb) AS v FROM generate_series(1, 2000) n) r) x;
SELECT cardinality(record_hashtags(v)), (record_hashtags(v))[256], cardinality(record_mentions(v)) FROM (SELECT jsonb_build_object('tags', jsonb_agg('t' || n ORDER BY n), 'facets', jsonb_build_array(pg_temp.features(VARIADIC array_agg(pg_temp.mention('did:web:same'))))) AS v FROM generate_series(1, 100000) n) r;
SELECT record_hashtags(jsonb_build_object('tags', jsonb_agg('same'::text) || '["late"]')) AS hashtags FROM generate_series(1, 256);
-- The types of the results
SELECT pg_typeof(record_hashtags('{}')), pg_typeof(record_mentions('{}'));

-- --- indexes: whatever a record holds, it is no reason to refuse it ---

CREATE SCHEMA data_values;
SET search_path = data_values, public;
SELECT atproto.create_tables('data_values');
CREATE INDEX hashtags ON record USING gin (record_hashtags(value));
CREATE INDEX mentions ON record USING gin (record_mentions(value));
CREATE INDEX subject ON record (try_aturi(record_text(value, 'subject.uri', 1000)));
CREATE INDEX any_subject ON record USING hash (try_aturi(record_text(value, 'subject.uri')));
CREATE INDEX parent ON record (try_did(record_text(value, 'did')));
CREATE INDEX lang ON record (record_text(value, 'lang', 100));
CREATE INDEX made ON record (recordkey_timestamp(rkey));
CREATE FUNCTION put(rkey recordkey, value jsonb) RETURNS void LANGUAGE sql SET search_path = '' AS
	$$INSERT INTO data_values.record (did, collection, rkey, cid, rev, value) VALUES ('did:plc:44ybard66vv44zksje25o7dz', 'app.bsky.feed.post', $1, public.cidlink_of('\xa0'), '2222222222222', $2)$$;
-- noise, which cannot be compressed
CREATE FUNCTION noise(n int) RETURNS text LANGUAGE sql AS $$SELECT left(string_agg(md5(i::text), '' ORDER BY i), n) FROM generate_series(1, n / 32 + 1) i$$;
SELECT put('good', pg_temp.facets(pg_temp.features(pg_temp.tag('Cats'), pg_temp.mention('did:web:b.example'))) || '{"subject": {"uri": "at://did:a:b/c.d.e/f"}, "did": "did:a:b", "lang": "en"}'),
	put('3jzfcijpj2z2a', '{}'), put('7777777777777', 'null'), put('jzzzzzzzzzzzz', '[]'), put('none', NULL),
	put('text', jsonb_build_object('lang', noise(500000), 'tags', jsonb_build_array(noise(500000), noise(640)))),
	put('uri', jsonb_build_object('subject', jsonb_build_object('uri', 'at://' || noise(8187)))), put('no-uri', jsonb_build_object('subject', jsonb_build_object('uri', 'at://' || noise(8188)))),
	put('did', jsonb_build_object('did', 'did:web:' || noise(2040)) || pg_temp.facets(pg_temp.features(pg_temp.mention('did:web:' || noise(2040))))),
	put('many', (SELECT jsonb_build_object('tags', jsonb_agg(n || noise(600))) FROM generate_series(1, 1000) n)),
	put('mentions', pg_temp.facets((SELECT pg_temp.features(VARIADIC array_agg(pg_temp.mention('did:web:' || n || noise(2000)))) FROM generate_series(1, 1000) n)));
INSERT INTO record (did, collection, rkey, cid, rev, value)
SELECT 'did:web:a.example', 'app.bsky.feed.post', ('k' || n)::recordkey, cidlink_of('\xa0'), '2222222222222', jsonb_build_object('tags', jsonb_build_array('t' || n), 'subject', jsonb_build_object('uri', 'at://did:web:x' || n))
FROM generate_series(1, 2000) n;
ANALYZE record;
SET enable_seqscan = off; SET enable_bitmapscan = off;
CREATE FUNCTION plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$BEGIN RETURN QUERY EXECUTE 'EXPLAIN (COSTS OFF) ' || query; END$$;
SELECT rkey FROM record WHERE try_aturi(record_text(value, 'subject.uri', 1000)) = 'at://did:a:b/c.d.e/f';
SELECT substring(l FROM 'Index .*') FROM plan($$SELECT FROM record WHERE try_aturi(record_text(value, 'subject.uri', 1000)) = 'at://did:a:b/c.d.e/f'$$) l WHERE l ~ 'Index';
SELECT rkey FROM record WHERE try_aturi(record_text(value, 'subject.uri', 1000)) <@ 'did:a:b'::did;
SELECT substring(l FROM 'Index .*') FROM plan($$SELECT FROM record WHERE try_aturi(record_text(value, 'subject.uri', 1000)) <@ 'did:a:b'::did$$) l WHERE l ~ 'Index';
SELECT rkey FROM record WHERE try_aturi(record_text(value, 'subject.uri')) = ('at://' || noise(8187))::aturi;
SELECT substring(l FROM 'Index .*') FROM plan($$SELECT FROM record WHERE try_aturi(record_text(value, 'subject.uri')) = 'at://did:a:b/c.d.e/f'$$) l WHERE l ~ 'Index';
SELECT rkey FROM record WHERE try_did(record_text(value, 'did')) = 'did:a:b';
SELECT substring(l FROM 'Index .*') FROM plan($$SELECT FROM record WHERE try_did(record_text(value, 'did')) = 'did:a:b'$$) l WHERE l ~ 'Index';
SELECT rkey FROM record WHERE record_text(value, 'lang', 100) = 'en';
SELECT substring(l FROM 'Index .*') FROM plan($$SELECT FROM record WHERE record_text(value, 'lang', 100) = 'en'$$) l WHERE l ~ 'Index';
-- The time of a key, and the same in two steps, are one index
SELECT rkey, recordkey_timestamp(rkey) FROM record WHERE recordkey_timestamp(rkey) > '2000-01-01Z' ORDER BY recordkey_timestamp(rkey);
SELECT substring(l FROM 'Index .*') FROM plan($$SELECT FROM record WHERE recordkey_timestamp(rkey) > '2000-01-01Z'$$) l WHERE l ~ 'Index';
SELECT substring(l FROM 'Index .*') FROM plan($$SELECT FROM record WHERE tid_timestamp(recordkey_tid(rkey)) > '2000-01-01Z'$$) l WHERE l ~ 'Index';
SET enable_bitmapscan = on;
SELECT rkey FROM record WHERE record_hashtags(value) @> ARRAY['cats'];
SELECT substring(l FROM 'Index .*') FROM plan($$SELECT FROM record WHERE record_hashtags(value) @> ARRAY['cats']$$) l WHERE l ~ 'Index';
SELECT rkey FROM record WHERE record_hashtags(value) && '{t7,dogs}';
SELECT rkey FROM record WHERE record_mentions(value) @> '{did:web:b.example}';
SELECT substring(l FROM 'Index .*') FROM plan($$SELECT FROM record WHERE record_mentions(value) @> '{did:web:b.example}'$$) l WHERE l ~ 'Index';
SET client_min_messages = warning;
DROP SCHEMA data_values CASCADE;
