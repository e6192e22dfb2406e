-- Records kept as dagcbor: the functions on records give what they give for jsonb, and more where jsonb cannot hold the
-- record; views, links, audits, exports and checks of a target whose column value is a dagcbor.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
SET TimeZone = 'UTC';

CREATE TEMP TABLE rec AS SELECT row_number() OVER () AS n, j, j::dagcbor AS v FROM (VALUES
	('{"$type": "app.bsky.feed.post", "text": "hello #Cats", "createdAt": "2023-05-22T01:02:03.456Z", "langs": ["en", "ja", 7], "tags": ["Art", "#b", "b", 1], "n": -7, "big": 9007199254740993, "t": true, "z": null, "": "nameless", "a.b": {"": "x"},
	  "reply": {"root": {"cid": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a", "uri": "at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3jwdwj2ctlk26"}},
	  "ref": {"$link": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"}, "b": {"$bytes": "++//AA"}, "dids": ["did:web:a.b", "x", "did:plc:44ybard66vv44zksje25o7dz"],
	  "facets": [{"features": [{"$type": "app.bsky.richtext.facet#mention", "did": "did:web:c.d"}, {"$type": "app.bsky.richtext.facet#tag", "tag": "Cats"}]}, {"features": 1}, 2]}'::jsonb),
	('[{"a": "did:web:a.b"}, "did:web:c.d"]'), ('"did:web:a.b"'), ('5'), ('null'), ('{}'), ('[]'), ('{"$link": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"}'),
	('{"facets": 1, "tags": {"a": "b"}}'), ('{"facets": [], "tags": []}')) r (j);

-- The same for both types.
SELECT path, record_text(v, path) AS text, record_text(v, path) IS NOT DISTINCT FROM record_text(j, path) AS same
FROM rec, unnest('{text,createdAt,n,t,z,%,a%2Eb.%,reply.root.uri,reply.root.cid,reply.root,ref,ref.$link,b.$bytes,b.$link,nothing,text.x,"",.}'::text[]) WITH ORDINALITY p (path, o) WHERE n = 1 ORDER BY o;
SELECT bool_and(record_text(v, path) IS NOT DISTINCT FROM record_text(j, path)) AS texts, bool_and(record_text(v, path, m) IS NOT DISTINCT FROM record_text(j, path, m)) AS within, count(record_text(v, path)) AS found
FROM rec, unnest('{text,a,$link,facets,tags.a,reply.root.uri}'::text[]) path, unnest('{-1,0,10,11,12,2147483647}'::int[]) m;
SELECT n, record_hashtags(v) AS hashtags, record_mentions(v) AS mentions, record_hashtags(v) = record_hashtags(j) AND record_mentions(v) = record_mentions(j) AS same FROM rec ORDER BY n;
SELECT pg_typeof(record_hashtags(v)), pg_typeof(record_mentions(v)), record_hashtags(NULL::dagcbor), record_mentions(NULL::dagcbor), record_text(NULL::dagcbor, 'a'), record_text(v, NULL) FROM rec WHERE n = 6;
SELECT n, path, target FROM rec, record_links(v) ORDER BY n, path;
SELECT count(*) AS links, count(*) FILTER (WHERE a.target = b.target) AS same
FROM (SELECT n, l.* FROM rec, record_links(v) l) a FULL JOIN (SELECT n, l.* FROM rec, record_links(j) l) b USING (n, path, target);

CREATE FUNCTION pg_temp.fields(v dagcbor, j jsonb, path text[]) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT t FROM (VALUES
		('text', atproto.record_field(v, path, NULL::text)::text, atproto.record_field(j, path, NULL::text)::text), ('bigint', atproto.record_field(v, path, NULL::bigint)::text, atproto.record_field(j, path, NULL::bigint)::text),
		('boolean', atproto.record_field(v, path, NULL::boolean)::text, atproto.record_field(j, path, NULL::boolean)::text), ('timestamptz', atproto.record_field(v, path, NULL::timestamptz)::text, atproto.record_field(j, path, NULL::timestamptz)::text),
		('jsonb', atproto.record_field(v, path, NULL::jsonb)::text, atproto.record_field(j, path, NULL::jsonb)::text), ('aturi', atproto.record_field(v, path, NULL::aturi)::text, atproto.record_field(j, path, NULL::aturi)::text),
		('cidlink', atproto.record_field(v, path, NULL::cidlink)::text, atproto.record_field(j, path, NULL::cidlink)::text), ('text[]', atproto.record_field(v, path, NULL::text[])::text, atproto.record_field(j, path, NULL::text[])::text),
		('did[]', atproto.record_field(v, path, NULL::did[])::text, atproto.record_field(j, path, NULL::did[])::text), ('bigint[]', atproto.record_field(v, path, NULL::bigint[])::text, atproto.record_field(j, path, NULL::bigint[])::text)) f (type, a, b),
		LATERAL (SELECT format('%s: %s', type, CASE WHEN a IS NOT DISTINCT FROM b THEN left(a, 60) ELSE format('%s, not %s', a, b) END) AS t) s WHERE a IS NOT NULL OR b IS NOT NULL
$$;
SELECT p.path, f FROM rec, (VALUES (1, '{text}'::text[]), (2, '{createdAt}'), (3, '{langs}'), (4, '{n}'), (5, '{big}'), (6, '{t}'), (7, '{z}'), (8, '{""}'), (9, '{reply,root,uri}'), (10, '{reply,root,cid}'), (11, '{reply}'), (12, '{ref}'),
	(13, '{ref,$link}'), (14, '{b}'), (15, '{dids}'), (16, '{}'), (17, '{nothing}'), (18, '{text,x}'), (19, '{a.b,""}')) p (o, path), pg_temp.fields(v, j, p.path) f WHERE n = 1 ORDER BY o, f COLLATE "C";
SELECT atproto.record_field(NULL::dagcbor, '{a}', NULL::text), atproto.record_field(v, NULL, NULL::text), atproto.record_field(v, '{NULL}', NULL::text) FROM rec WHERE n = 1;

-- A record that jsonb cannot hold: all of it but what has U+0000.
CREATE TEMP TABLE odd AS SELECT '{"$type": "app.bsky.feed.post", "text": "x\u0000", "title": "y", "uri": "at://did:web:a.b/c.d.e/f", "tags": ["q"], "facets": [{"features": [{"$type": "app.bsky.richtext.facet#tag", "tag": "r\u0000"}]}], "deep": {"a": "\u0000"}}'::dagcbor AS v;
SELECT v::jsonb IS NULL AS no_jsonb, record_text(v, 'text') IS NULL AS text, record_text(v, 'title') AS title, record_hashtags(v) AS hashtags, record_mentions(v) AS mentions,
	atproto.record_field(v, '{text}', NULL::text) IS NULL AS field, atproto.record_field(v, '{title}', NULL::text) AS title, atproto.record_field(v, '{deep}', NULL::jsonb) IS NULL AS deep, atproto.record_field(v, '{tags}', NULL::text[]) AS tags FROM odd;
SELECT path, target FROM odd, record_links(v);

-- A literal, and a parameter without a type, is JSON.
SELECT record_text('{"a": "x"}', 'a'), record_text('{"a": "x"}', 'a', 1), record_hashtags('{"tags": ["q"]}'), record_mentions('{}'), atproto.record_field('{"a": "x"}', '{a}', NULL::text), (SELECT count(*) FROM record_links('{"a": "did:web:a.b"}')) AS links;
PREPARE untyped AS SELECT record_text($1, 'a'), (SELECT target FROM record_links($1)) AS link;
EXECUTE untyped ('{"a": "did:web:a.b"}');

-- A target with dagcbor: the functions, and an index on one.
SET client_min_messages = warning;
CREATE SCHEMA packed;
SELECT atproto.create_tables('packed', value => 'dagcbor');
RESET client_min_messages;
INSERT INTO packed.record (did, collection, rkey, rev, value, cid)
SELECT 'did:web:a.test', 'app.bsky.feed.post', i::text::recordkey, '3aaaaaaaaaa22', v, cidlink_of(v::bytea)
FROM generate_series(1, 300) i, LATERAL (SELECT format('{"$type": "app.bsky.feed.post", "text": "%s%s", "createdAt": "2023-05-22T01:02:03.456Z", "langs": ["en"], "reply": {"parent": {"uri": "at://did:web:b.test/app.bsky.feed.post/%1$s", "cid": "%s"}}}',
	i, CASE WHEN i % 100 = 0 THEN '\u0000' END, cidlink_of(convert_to(i::text, 'UTF8')))::dagcbor AS v) r;
INSERT INTO packed.repo (did, rev, data) SELECT did, '3aaaaaaaaaa22', atproto.repo_root(collection::text || '/' || rkey::text, cid ORDER BY collection::text || '/' || rkey::text COLLATE "C") FROM packed.record GROUP BY did;
CREATE INDEX ON packed.record (try_aturi(record_text(value, 'reply.parent.uri', 1000)));
ANALYZE packed.record;
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT rkey FROM packed.record WHERE try_aturi(record_text(value, 'reply.parent.uri', 1000)) = 'at://did:web:b.test/app.bsky.feed.post/100';
SELECT rkey, value->'langs' AS langs FROM packed.record WHERE try_aturi(record_text(value, 'reply.parent.uri', 1000)) = 'at://did:web:b.test/app.bsky.feed.post/100';
RESET enable_seqscan;

-- Views: a record with U+0000 has its other fields.
SELECT atproto.create_view('app.bsky.feed.post', target => 'packed');
SELECT rkey, text, created_at, langs, reply_parent_uri FROM packed.app_bsky_feed_post WHERE rkey IN ('7', '100') ORDER BY rkey;
SELECT atproto.create_view('app.bsky.feed.post', target => 'packed');
SELECT atproto.create_view('app.bsky.feed.post', target => 'packed', active => true);
SELECT count(*), count(text) AS texts, count(value->>'text') AS same FROM packed.app_bsky_feed_post p JOIN packed.visible_record USING (did, rkey);

-- Audits: all of it, one spoilt byte, a damaged value, a row in the place of another.
CREATE FUNCTION pg_temp.forged(bytea) RETURNS dagcbor LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE FUNCTION pg_temp.stored(dagcbor) RETURNS bytea LANGUAGE internal IMMUTABLE STRICT AS 'byteasend';
CREATE VIEW pg_temp.audits AS SELECT deep, a.equal, a.reason, a.records FROM (VALUES (false), (true)) d (deep), LATERAL atproto.audit('did:web:a.test', 'packed', deep) a;
SELECT * FROM pg_temp.audits ORDER BY deep;
BEGIN;
UPDATE packed.record SET value = '{"$type": "app.bsky.feed.post", "text": "another"}' WHERE rkey = '7';
SELECT * FROM pg_temp.audits ORDER BY deep;
SELECT what, object, detail, mend FROM atproto.check('packed') WHERE what <> 'link is missing';
ROLLBACK;
-- an index would read the damaged value
DROP INDEX packed.record_try_aturi_idx;
BEGIN;
UPDATE packed.record SET value = pg_temp.forged(substr(pg_temp.stored(value), 1, 40)) WHERE rkey = '8';
UPDATE packed.record SET value = NULL WHERE rkey = '9';
UPDATE packed.record SET raw = '\xa0' WHERE rkey = '10';
SELECT * FROM pg_temp.audits ORDER BY deep;
SELECT what, object, detail, mend FROM atproto.check('packed') WHERE what <> 'link is missing' ORDER BY what, object;
ROLLBACK;
SELECT v.equal, v.records FROM atproto.audit('did:web:a.test', 'packed', true) v;
CREATE SCHEMA viewed_packed;
CREATE VIEW viewed_packed.record AS SELECT * FROM packed.record;
CREATE VIEW viewed_packed.repo AS SELECT * FROM packed.repo;
SELECT v.equal, v.records FROM atproto.audit('did:web:a.test', 'viewed_packed', true) v;
SELECT atproto.record_fits(cid, value, NULL) AS value, atproto.record_fits(cid, value, value::bytea) AS both, atproto.record_fits(cid, value, '\xa0') AS raw, atproto.record_fits(cid, '{}'::dagcbor, NULL) AS other,
	atproto.record_fits(cid, pg_temp.forged('\x01'), NULL) AS damaged, atproto.record_fits(NULL, value, NULL) AS unknown, atproto.record_fits(cid, NULL::dagcbor, NULL) AS nothing FROM packed.record WHERE rkey = '100';

-- Events, and types that differ.
INSERT INTO packed.record_event (subscription, action, did, collection, rkey, rev, cid, value) SELECT 's', 'create', did, collection, rkey, rev, cid, value FROM packed.record WHERE rkey IN ('1', '2');
SELECT what, object, detail FROM atproto.check('packed', deep => true);
BEGIN;
UPDATE packed.record_event SET value = pg_temp.forged('\x01') WHERE rkey = '2';
UPDATE packed.record_event SET old_value = '{}', old_cid = cid WHERE rkey = '1';
SELECT what, object, detail, mend FROM atproto.check('packed', deep => true) ORDER BY what, object;
ROLLBACK;
BEGIN;
ALTER TABLE packed.record_event ALTER value TYPE jsonb;
SELECT what, object, detail, mend FROM atproto.check('packed') ORDER BY what, object;
ROLLBACK;
-- a domain is of the type below it
BEGIN;
CREATE DOMAIN packed.kept AS dagcbor;
CREATE DOMAIN packed.own AS packed.kept CHECK (VALUE->'x' IS NULL);
ALTER TABLE packed.record_event ALTER value TYPE packed.own;
SELECT what, object, detail, mend FROM atproto.check('packed') ORDER BY what, object;
ROLLBACK;

-- Links: from the packed values.
INSERT INTO atproto.subscription (name, url, target, enabled, links) VALUES ('packed', 'wss://example.com/xrpc/com.atproto.sync.subscribeRepos', 'packed', false, 'all');
SELECT what, count(*) FROM atproto.check('packed') GROUP BY what ORDER BY what;
SELECT * FROM atproto.rebuild_links('packed');
SELECT * FROM atproto.rebuild_links('packed');
SELECT what, object, detail FROM atproto.check('packed');
SELECT * FROM atproto.link_problems('packed');
SELECT * FROM atproto.backlinks('at://did:web:b.test/app.bsky.feed.post/100', 'app.bsky.feed.post:reply.parent.uri', tables => 'packed');

-- Faults of old records: validated but where jsonb cannot hold the record.
UPDATE atproto.subscription SET validate = 'flag' WHERE name = 'packed';
UPDATE packed.record SET value = value || '{"text": 7}'::jsonb WHERE rkey = '3';
CALL atproto.revalidate('packed');
SELECT fault, count(*), count(*) FILTER (WHERE value::jsonb IS NULL) AS odd FROM packed.record WHERE fault IS NOT NULL GROUP BY fault;

-- A published Lexicon, from a packed record.
INSERT INTO packed.record (did, collection, rkey, rev, value, cid)
SELECT 'did:web:lex.test', 'com.atproto.lexicon.schema', 'com.example.packed', '3aaaaaaaaaa22', v, cidlink_of(v::bytea)
FROM (SELECT '{"$type": "com.atproto.lexicon.schema", "lexicon": 1, "id": "com.example.packed", "defs": {"main": {"type": "record", "key": "any", "record": {"type": "object", "properties": {"a": {"type": "string"}}}}}}'::dagcbor AS v) r;
SELECT * FROM atproto.load_published('did:web:lex.test', 'com.example.*', 'packed');
SELECT atproto.unload_lexicon('com.example.packed');

SET client_min_messages = warning;
DELETE FROM atproto.subscription WHERE name = 'packed';
DROP SCHEMA packed, viewed_packed CASCADE;
