-- AT URIs from what people paste (A-42), and from addresses of web pages (A-43).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
\pset null '(null)'
\set VERBOSITY default

-- Candidate forms; the type refuses them, and nothing prints them
SELECT t, aturi_from(t), try_aturi(t)
FROM unnest(ARRAY['at:///did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3jwdwj2ctlk26', 'at:did:plc:44ybard66vv44zksje25o7dz',
	'at://did%3Aplc%3A44ybard66vv44zksje25o7dz/app.bsky.feed.post', E' AT://Foo.com/ \n', 'at://foo.com/a.b.c/x?y#/z']) t;
SELECT 'at:///did:plc:44ybard66vv44zksje25o7dz'::aturi;
SELECT 'at:did:plc:44ybard66vv44zksje25o7dz'::aturi;
-- The general syntax accepts this text, as an authority of no kind (A-11); no Lexicon does.
SELECT aturi_authority_kind(u), aturi_is_lexicon(u) FROM (SELECT 'at://did%3Aplc%3A44ybard66vv44zksje25o7dz'::aturi) v (u);
SELECT 'at://did%3Aplc%3A44ybard66vv44zksje25o7dz'::aturi(lexicon);

-- NULL for what is not known: no error, no guess
SELECT t, aturi_from(t)
FROM unnest(ARRAY['', 'at:', 'at:///foo.com', 'at:foo.com', 'at://foo', 'at://did%253Aplc%253Aabc', 'at://did%3Aweb%3Alocalhost%3A3000',
	'at://did%3Aplc%3A%', 'did:plc:44ybard66vv44zksje25o7dz', 'foo.com', '@foo.com', 'https://bsky.app/profile/foo.com', NULL]) t;
SELECT aturi_from(repeat('%3A', 1000000)), aturi_from('at:///did:plc:' || repeat('a', 1000000)), aturi_from(repeat(' ', 1000000) || 'at:did:plc:abc');

-- A pattern of web addresses
SELECT t, aturi_from(t, 'https://example.com/u/{authority}/{rkey}', 'at://{authority}/com.example.record/{rkey}')
FROM unnest(ARRAY['https://example.com/u/foo.com/1', 'http://EXAMPLE.com/u/did%3Aplc%3Aabc/%7E1/?x#y', 'https://example.com/u/did%253Aplc%253Aabc/1',
	'https://example.com/u/foo.com', 'https://example.com:80/u/foo.com/1', 'https://foo@example.com/u/foo.com/1', 'at://foo.com/com.example.record/1', '%']) t;
SELECT aturi_from('', 'http://example.com/{authority}', 'at://{authority}');
SELECT aturi_from('', 'https://example.com/{did}', 'at://{authority}');
SELECT aturi_from('', 'https://example.com/{authority}', 'at://{authority}/example');
SELECT aturi_from('', 'https://example.com/{authority}/{rkey}', 'at://{authority}');
SELECT aturi_from('', 'https://example.com/', 'at://foo.com');
SELECT aturi_from(NULL, 'x', 'y') AS strict;

-- Addresses of well-known applications
SELECT t, atproto.aturi_from_web(t)
FROM unnest(ARRAY['https://bsky.app/profile/foo.com', 'https://bsky.app/profile/did:plc:44ybard66vv44zksje25o7dz/post/3jwdwj2ctlk26',
	'https://bsky.app/profile/foo.com/feed/aaa', 'https://bsky.app/profile/foo.com/lists/3jwdwj2ctlk26', 'https://bsky.app/starter-pack/foo.com/3jwdwj2ctlk26',
	'https://blacksky.community/profile/foo.com/post/3jwdwj2ctlk26', 'https://pdsls.dev/at://did:plc:44ybard66vv44zksje25o7dz/a.b.c/self', 'https://pdsls.dev/at://foo.com',
	'at:did:plc:abc', 'https://bsky.app/', 'https://bsky.app/profile/foo', 'https://bsky.app/settings', 'https://foo.com', NULL]) t;
-- Each pattern that comes with the extension gives back the URI of a page made of it.
SELECT count(*) > 0 AS some, bool_and(aturi_from(page, pattern, uri)::text = expected) AS all_read, bool_and(atproto.aturi_from_web(page)::text = expected) AS all_known
FROM atproto.known_web_address, LATERAL (SELECT replace(replace(replace(pattern, '{authority}', 'foo.com'), '{collection}', 'a.b.c'), '{rkey}', 'self'),
	replace(replace(replace(uri, '{authority}', 'foo.com'), '{collection}', 'a.b.c'), '{rkey}', 'self')) p (page, expected);

-- Rows of users: invalid patterns are refused, a row goes before the extension's, and contradictions give NULL.
BEGIN;
INSERT INTO atproto.web_address VALUES ('https://example.com/{authority}', 'at://{authority}/com.example.page/self'), ('https://bsky.app/profile/{authority}', 'at://{authority}/app.bsky.actor.profile/self');
SELECT * FROM atproto.known_web_address WHERE pattern LIKE '%/{authority}' ORDER BY pattern COLLATE "C";
SELECT atproto.aturi_from_web('https://example.com/foo.com'), atproto.aturi_from_web('https://bsky.app/profile/foo.com');
INSERT INTO atproto.web_address VALUES ('https://example.com/foo.com', 'at://bar.com'), ('https://bsky.app/profile/foo.com/post/{rkey}', 'at://bar.com/app.bsky.feed.post/{rkey}');
SELECT atproto.aturi_from_web('https://example.com/foo.com') AS contradiction, atproto.aturi_from_web('https://example.com/bar.com') AS clear, atproto.aturi_from_web('https://bsky.app/profile/foo.com/post/1') AS own_first;
SAVEPOINT s;
INSERT INTO atproto.web_address VALUES ('https://example.com/{authority}/', 'at://{authority}');
ROLLBACK TO s;
INSERT INTO atproto.web_address VALUES ('https://example.com/x/{authority}', 'https://{authority}');
ROLLBACK TO s;
UPDATE atproto.web_address SET uri = 'at://{authority}/{rkey}';
ROLLBACK;
-- Every role may read them, and none but those with a grant may write them.
CREATE ROLE regress_reader;
SET ROLE regress_reader;
SELECT atproto.aturi_from_web('https://bsky.app/profile/foo.com');
INSERT INTO atproto.web_address VALUES ('https://example.com/{authority}', 'at://{authority}');
RESET ROLE;
DROP ROLE regress_reader;
-- The volatilities that the page of the types names
SELECT proname, pronargs, provolatile, proisstrict, proparallel FROM pg_proc WHERE proname LIKE 'aturi\_from%' ORDER BY 1, 2;
