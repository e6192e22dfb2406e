-- Links between records: record_links().
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;

CREATE FUNCTION links(value jsonb) RETURNS TABLE (path text, target text) LANGUAGE sql
	AS $$ SELECT path, target::text FROM record_links(value) ORDER BY path COLLATE "C", target::text COLLATE "C" $$;

-- a like, a reply, a post with facets and an embedded record, a follow
SELECT * FROM links('{"$type": "app.bsky.feed.like", "subject": {"cid": "bafyreihmn4xx5wsuhdgkfoxxqfwqv4hpnhlkwaqsjqqhh5hzzq6edzgwzy", "uri": "at://did:plc:ewvi7nxzyoun6zhxrhs64oiz/app.bsky.feed.post/3jwdwj2ctlk26"}, "createdAt": "2026-01-01T00:00:00Z"}');
SELECT * FROM links('{"reply": {"root": {"uri": "at://did:plc:ewvi7nxzyoun6zhxrhs64oiz/app.bsky.feed.post/3jwdwj2ctlk26"}, "parent": {"uri": "at://alice.example.com/app.bsky.feed.post/3jwdwj2ctlk27"}}, "text": "see at://did:plc:ewvi7nxzyoun6zhxrhs64oiz"}');
SELECT * FROM links('{"facets": [{"index": {"byteEnd": 3}, "features": [{"$type": "app.bsky.richtext.facet#mention", "did": "did:plc:ewvi7nxzyoun6zhxrhs64oiz"}, {"$type": "app.bsky.richtext.facet#link", "uri": "https://example.com"}]}],
	"embed": {"$type": "app.bsky.embed.record", "record": {"uri": "at://did:web:example.com/app.bsky.feed.post/self"}}}');
SELECT * FROM links('{"subject": "did:web:example.com"}');

-- arrays of texts, of arrays, of elements with and without a type; one that is no text
SELECT * FROM links('{"a": ["did:web:a.example", "x", 1, null, "at://did:web:b.example"], "b": [[["did:web:c.example"]]], "c": [{"d": "did:web:d.example"}, {"$type": "t", "d": "did:web:e.example"}, {"$type": 1, "d": "did:web:f.example"}]}');
-- names and types that would be read as something else
SELECT * FROM links('{"a.b": "did:web:a.example", "a": {"b": "did:web:b.example"}, "[]": "did:web:c.example", "": {"b": "did:web:d.example"}, "ä%": "did:web:e.example", "x": [{"$type": "]. [", "y": "did:web:f.example"}], "$a_-Z9": "did:web:g.example"}');
-- what the model has under names of its own is no link
SELECT * FROM links('{"$type": "did:web:a.example", "blob": {"ref": {"$link": "did:web:b.example"}}, "b": {"$bytes": "did:web:c.example"}, "t": {"$type": ["did:web:d.example"]}}');
-- only whole texts that are valid
SELECT * FROM links('{"a": "at://", "b": "at:/did:web:a.example", "c": "did:", "d": "did:web:", "e": " did:web:a.example", "f": "at://did:web:a.example ", "g": "AT://did:web:a.example", "h": "https://example.com", "i": "at://did:web:a.example/x#/z", "j": "did:web:a.example#key"}');
-- other values than objects
SELECT * FROM links('"did:web:a.example"');
SELECT * FROM links('["did:web:a.example"]');
SELECT * FROM links('{}');
SELECT * FROM links('null');
SELECT count(*) FROM record_links(NULL);
-- each place is one row
SELECT * FROM links('{"a": ["did:web:a.example", "did:web:a.example"]}');
-- paths have an end; what is beside it is found
SELECT octet_length(path), target FROM links(jsonb_build_object(repeat('x', 256), 'did:web:a.example', repeat('x', 257), 'did:web:b.example', repeat('ä', 100000), 'did:web:c.example', 'y', jsonb_build_object(repeat('x', 254), 'did:web:d.example', repeat('x', 255), 'did:web:e.example', 'z', 'did:web:f.example')));
-- and depth
SELECT left(path, 20), octet_length(path), target FROM links((repeat('[', 120) || '"did:web:a.example"' || repeat(']', 120))::jsonb);
SELECT count(*) FROM links((repeat('[', 3000) || '"did:web:a.example"' || repeat(']', 3000))::jsonb);

-- who is linked to is found by the URI's own order
SELECT source, path FROM (VALUES (1, '{"subject": "did:web:a.example"}'::jsonb), (2, '{"subject": {"uri": "at://did:web:a.example/app.bsky.feed.post/1"}}'), (3, '{"subject": {"uri": "at://did:web:a.example.com/app.bsky.feed.post/1"}}')) v (source, value),
	record_links(value) WHERE target <@ 'at://did:web:a.example' ORDER BY source;

-- the same in DAG-CBOR
SELECT count(path) AS links, count(there) AS same, count(*)
FROM (VALUES ('{"facets": [{"index": {"byteEnd": 3}, "features": [{"$type": "app.bsky.richtext.facet#mention", "did": "did:plc:ewvi7nxzyoun6zhxrhs64oiz"}, {"tag": "did:web:a.example"}]}]}'::jsonb),
		('{"a.b": "did:web:a.example", "": {"b": "did:web:d.example"}, "x": [{"a": [{"$type": "n", "b": "at://did:web:e.example"}], "$type": "]. [", "y": "did:web:f.example"}], "t": {"$type": ["did:web:d.example"]}}')) v (value),
	LATERAL (SELECT r.path, d.path AS there FROM record_links(value) r FULL JOIN dagcbor_links(jsonb_to_dagcbor(value)) d USING (path, target)) l (path, there);
SELECT path, target FROM dagcbor_links('\xa163646964a0');
-- many elements, each with a type of its own behind what is under it
SELECT count(l.r), count(l.d), count(DISTINCT l.d)
FROM (SELECT jsonb_build_object('x', jsonb_agg(jsonb_build_object('$type', 'com.example.t' || n, 'a', jsonb_build_array('did:web:a' || n || '.example')))) FROM generate_series(1, 1000) n) v (value),
	LATERAL (SELECT r.path, d.path FROM record_links(value) r FULL JOIN dagcbor_links(jsonb_to_dagcbor(value)) d USING (path, target)) l (r, d);
-- what jsonb cannot hold, and what is none
SELECT path, target FROM dagcbor_links('\xa2616141006162756469643a7765623a612e6578616d706c652e636f6d');
SELECT path, target FROM dagcbor_links('\xa26161614061626b6469643a7765623a612e62');
SELECT path, target FROM dagcbor_links('\xa261616100');
SELECT path, target FROM dagcbor_links('\xa0a0');

DROP FUNCTION links(jsonb);
