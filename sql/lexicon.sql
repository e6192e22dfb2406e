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
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "org.example.note", "defs": {}}');
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "org.example.note", "defs": {}}');
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
	'{"lexicon": 1, "id": "a.b.c", "defs": {"' || repeat('x', 1048576) || '": {}}}']) doc;

-- All may read, few may write
CREATE ROLE regress_lexicon;
SET ROLE regress_lexicon;
SELECT count(*) > 30 AS read FROM atproto.lexicon;
SELECT pg_temp.refusal('{"lexicon": 1, "id": "org.example.other", "defs": {}}');
ROLLBACK;
