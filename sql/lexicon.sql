-- Lexicons: those that come with the extension, and those that are loaded.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
BEGIN;

-- What records refer to is there, too: references (also in unions) that lead nowhere
WITH RECURSIVE node (id, v) AS (
	SELECT id::text, doc->'defs' FROM atproto.lexicon
	UNION ALL
	SELECT id, x.value FROM node, LATERAL (
		SELECT value FROM jsonb_each(CASE jsonb_typeof(v) WHEN 'object' THEN v END)
		UNION ALL SELECT value FROM jsonb_array_elements(CASE jsonb_typeof(v) WHEN 'array' THEN v END)) x
), reference (id, ref) AS (
	SELECT id, v->>'ref' FROM node WHERE v->>'type' = 'ref'
	UNION SELECT id, jsonb_array_elements_text(v->'refs') FROM node WHERE v->>'type' = 'union'
)
SELECT r.id, ref, count(*) OVER () FROM reference r
WHERE NOT EXISTS (SELECT FROM atproto.lexicon l
	WHERE l.id::text = coalesce(nullif(split_part(ref, '#', 1), ''), r.id)
		AND doc->'defs' ? coalesce(nullif(split_part(ref, '#', 2), ''), 'main'));
SELECT count(*) FILTER (WHERE doc #>> '{defs,main,type}' = 'record') AS records, count(*) > 30 AS more, bool_and(source = 'bundled') FROM atproto.lexicon;
SELECT doc #> '{defs,main}' AS doc FROM atproto.lexicon WHERE id = 'app.bsky.feed.like';

-- One that is new; the same once more; another one in its place, on request only
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "org.example.note", "defs": {"a": {"type": "token"}}}');
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "org.example.note", "defs": {"a": {"type": "token"}}}');
SAVEPOINT s;
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "org.example.note", "defs": {"main": {"type": "token"}}}');
ROLLBACK TO s;
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "org.example.note", "defs": {"main": {"type": "token"}}}', replace => true);
SELECT source, did, doc FROM atproto.lexicon WHERE id = 'org.example.note';
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "app.bsky.feed.like", "defs": {"main": {"type": "token"}}}');
ROLLBACK TO s;
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "app.bsky.feed.like", "defs": {"main": {"type": "token"}}}', replace => true);
SELECT source, doc FROM atproto.lexicon WHERE id = 'app.bsky.feed.like';
SELECT atproto.unload_lexicon('app.bsky.feed.like');
SELECT source, doc #>> '{defs,main,type}' FROM atproto.lexicon WHERE id = 'app.bsky.feed.like';
SAVEPOINT s;
SELECT atproto.unload_lexicon('app.bsky.feed.like');
ROLLBACK TO s;

-- What is known already is not loaded
SELECT atproto.load_lexicon(doc) FROM atproto.lexicon WHERE id = 'app.bsky.feed.like';
SELECT source FROM atproto.lexicon WHERE id = 'app.bsky.feed.like';

-- What is none
CREATE FUNCTION pg_temp.refusal(doc jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE detail text;
BEGIN
	PERFORM atproto.load_lexicon(doc);
	RETURN 'taken';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || SQLERRM || coalesce(': ' || left(detail, 60), '');
END $$;
SELECT left(doc, 60) AS doc, pg_temp.refusal(doc::jsonb) FROM unnest(ARRAY['1', '[]', '{}', '{"lexicon": "1"}', '{"lexicon": 2, "id": "a.b.c", "defs": {}}',
	'{"lexicon": 1, "id": "a.b.c"}', '{"lexicon": 1, "id": "a.b.c", "defs": []}', '{"lexicon": 1, "id": "a.b", "defs": {}}',
	'{"lexicon": 1, "id": 7, "defs": {}}', '{"lexicon": 1, "defs": {}}',
	'{"lexicon": 1, "id": "a.b.c", "defs": {"main": {"type": "token", "description": "' || repeat('x', 2097152) || '"}}}']) doc;

-- Those that accounts have published: who speaks for a name is said by who calls
CREATE SCHEMA lexicon_net;
SELECT atproto.create_tables('lexicon_net');
CREATE FUNCTION pg_temp.publish(did did, rkey recordkey, value jsonb, n int DEFAULT 1) RETURNS void LANGUAGE sql AS $$
	INSERT INTO lexicon_net.record AS r (did, collection, rkey, cid, rev, indexed_at, value) VALUES ($1, 'com.atproto.lexicon.schema', $2, cidlink_of(int4send(n)), '2222222222222', '2026-01-01 UTC', $3)
	ON CONFLICT (did, collection, rkey) DO UPDATE SET cid = excluded.cid, value = excluded.value $$;
CREATE FUNCTION pg_temp.lexicon(id text, n int DEFAULT 1) RETURNS jsonb LANGUAGE sql AS
	$$ SELECT format('{"$type": "com.atproto.lexicon.schema", "lexicon": 1, "id": "%s", "defs": {"main": {"type": "token"}, "n%s": {"type": "token"}}}', id, n)::jsonb $$;
SELECT count(pg_temp.publish(did, id, pg_temp.lexicon(id::text))) FROM unnest('{did:plc:owner,did:plc:stranger}'::did[]) did, unnest('{org.example.one,org.example.two,org.other.one,app.bsky.feed.post}'::recordkey[]) id;
SELECT count(pg_temp.publish('did:plc:owner', rkey, value)) FROM (VALUES ('org.example.array'::recordkey, '[]'::jsonb), ('org.example.null', NULL), ('org.example.else', pg_temp.lexicon('org.example.one')), ('self', pg_temp.lexicon('org.example.self')),
	('org.example.none', '{"lexicon": 1, "id": "org.example.none"}'), ('org.example.large', pg_temp.lexicon('org.example.large') || jsonb_build_object('description', repeat('x', 2097152)))) v (rkey, value);
SELECT * FROM atproto.load_published('did:plc:owner', 'org.example.*', 'lexicon_net');
SELECT * FROM atproto.load_published('did:plc:owner', 'org.example.one', 'lexicon_net');
SELECT id, source, did, cid = cidlink_of(int4send(1)) AS cid, indexed_at AT TIME ZONE 'UTC' AS indexed_at, doc FROM atproto.lexicon WHERE id IN ('org.example.one', 'org.other.one');
-- a newer one of the same account, and what a stranger says
SELECT count(pg_temp.publish('did:plc:owner', 'org.example.one', pg_temp.lexicon('org.example.one', 2), 2));
SELECT * FROM atproto.load_published('did:plc:stranger', 'org.example.one', 'lexicon_net');
SELECT * FROM atproto.load_published('did:plc:owner', 'org.example.one', 'lexicon_net');
SELECT did, cid = cidlink_of(int4send(2)) AS new, doc->'defs' ? 'n2' AS doc FROM atproto.lexicon WHERE id = 'org.example.one';
-- nobody takes the place of what comes with the extension, or was given, by himself
SELECT * FROM atproto.load_published('did:plc:stranger', '*', 'lexicon_net');
SELECT source FROM atproto.lexicon WHERE id = 'app.bsky.feed.post';
SELECT * FROM atproto.load_published('did:plc:owner', 'app.bsky.feed.post', 'lexicon_net', replace => true);
SELECT source, did FROM atproto.lexicon WHERE id = 'app.bsky.feed.post';
SELECT atproto.load_lexicon(pg_temp.lexicon('org.other.one', 3) - '$type', replace => true);
SELECT * FROM atproto.load_published('did:plc:stranger', 'org.other.one', 'lexicon_net');
SELECT source, did FROM atproto.lexicon WHERE id = 'org.other.one';
-- bounds, and what is no pattern, no target
SELECT count(pg_temp.publish('did:plc:many', ('a.b.c' || n)::recordkey, '{}')) FROM generate_series(1, 1001) n;
SELECT count(*) FROM atproto.load_published('did:plc:many', 'a.b.c1', 'lexicon_net');
SAVEPOINT s;
SELECT * FROM atproto.load_published('did:plc:many', 'a.b.*', 'lexicon_net');
ROLLBACK TO s;
SELECT * FROM atproto.load_published('did:plc:owner', 'org.', 'lexicon_net');
ROLLBACK TO s;
SELECT * FROM atproto.load_published('did:plc:owner', 'org.example.*', 'lexicon_nowhere');
ROLLBACK TO s;
SELECT * FROM atproto.load_published('did:plc:owner', 'org.example.*', 'pg_catalog');
ROLLBACK TO s;
SELECT count(*) FROM atproto.load_published('did:plc:nobody', '*', 'lexicon_net');

-- All may read, few may write
CREATE ROLE regress_lexicon;
SET ROLE regress_lexicon;
SELECT count(*) > 30 AS read FROM atproto.lexicon;
SELECT pg_temp.refusal('{"lexicon": 1, "id": "org.example.other", "defs": {}}');
ROLLBACK;

-- S-04: what describes spaces, or is of a type that does not exist yet, is kept and not checked; no record is judged by it.
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "com.example.forum", "defs": {"main": {"type": "space", "key": "any", "name": "Forum", "collections": ["com.example.post"]}}}');
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "com.example.new", "defs": {"main": {"type": "new-kind", "record": 1}, "other": {"type": "newer", "description": []}, "a": {"type": "token"}}}');
SELECT atproto.lexicon_check(doc), doc->'defs'->'main'->>'type' AS type FROM atproto.lexicon_loaded WHERE id IN ('com.example.forum', 'com.example.new') ORDER BY id;
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "com.example.field", "defs": {"main": {"type": "record", "key": "any", "record": {"type": "object", "properties": {"a": {"type": "new-kind"}}}}}}');
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "com.example.field", "defs": {"main": {"type": "object", "properties": {}}, "forum": {"type": "space"}}}');
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "com.example.field", "defs": {"main": {"type": "record", "key": "any", "record": {"type": "object", "properties": {"a": {"type": "ref", "ref": "com.example.new"}}}}}}');
SELECT atproto.lexicon_valid('{"$type": "com.example.forum"}', 'com.example.forum');
SELECT atproto.lexicon_valid('{"$type": "com.example.new"}', 'com.example.new');
SELECT atproto.lexicon_valid('{"$type": "com.example.field", "a": 1}', 'com.example.field');
SELECT atproto.unload_lexicon(id) FROM (VALUES ('com.example.forum'::nsid), ('com.example.new'), ('com.example.field')) l (id);
