-- count_links(): which sources of links are counted, and the counts.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;

CREATE SCHEMA counts;
SELECT atproto.create_tables('counts');
INSERT INTO counts.record (did, collection, rkey, cid, rev, value)
SELECT 'did:web:user' || u || '.example', 'app.bsky.feed.like', p::text, cidlink_of('\xa0'), '2222222222222',
	jsonb_build_object('subject', jsonb_build_object('uri', 'at://did:web:me.example/app.bsky.feed.post/' || p))
FROM generate_series(1, 3) p, generate_series(1, p) u;
INSERT INTO counts.record (did, collection, rkey, cid, rev, value)
SELECT 'did:web:user' || u || '.example', 'app.bsky.graph.follow', 'f', cidlink_of('\xa0'), '2222222222222', '{"subject": "did:web:me.example"}'
FROM generate_series(1, 5) u;
SELECT * FROM atproto.rebuild_links('counts');
CREATE VIEW counts.shown AS SELECT c.target, s.collection || ':' || s.path AS source, c.n FROM counts.link_count c LEFT JOIN counts.link_source s ON s.id = c.source;
CREATE FUNCTION counts.asked() RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(atproto.backlink_count('at://did:web:me.example/app.bsky.feed.post/' || p, 'app.bsky.feed.like:subject.uri', 'counts')::text, ' ' ORDER BY p)
		|| ', ' || atproto.backlink_count('at://did:web:me.example', 'app.bsky.graph.follow:subject', 'counts')
	FROM generate_series(1, 4) p $$;
SELECT counts.asked();

-- one source, two, another one, none
SELECT atproto.count_links('{app.bsky.feed.like:subject.uri}', 'counts');
SELECT * FROM counts.shown ORDER BY 1, 2;
SELECT counts.asked();
SELECT atproto.count_links('{app.bsky.feed.like:subject.uri,app.bsky.graph.follow:subject,app.bsky.graph.follow:subject}', 'counts');
SELECT * FROM counts.shown ORDER BY 1, 2;
SELECT counts.asked();
SELECT atproto.count_links('{com.example.new:a.b}', target => 'counts');
SELECT * FROM counts.shown ORDER BY 1, 2;
SELECT * FROM counts.link_source ORDER BY id;
SELECT counts.asked();
SELECT atproto.count_links('{}', 'counts');
SELECT id FROM counts.link_source WHERE counted;

-- rebuilt with the links
SELECT atproto.count_links('{app.bsky.feed.like:subject.uri,app.bsky.graph.follow:subject}', 'counts');
DELETE FROM counts.record WHERE did = 'did:web:user1.example';
UPDATE counts.link_count SET n = 17 WHERE target = 'at://did:web:me.example';
INSERT INTO counts.link_count VALUES ('at://did:web:nobody.example', 1, 1), ('at://did:web:me.example', 9999, 5);
SELECT what, object, detail FROM atproto.check('counts') WHERE what ~ 'count' ORDER BY 1, 2;
SELECT * FROM atproto.rebuild_links('counts');
SELECT * FROM counts.shown ORDER BY 1, 2;
SELECT what, object, detail FROM atproto.check('counts') WHERE what ~ 'count' ORDER BY 1, 2;
-- without NOT NULL, which a user may have dropped
ALTER TABLE counts.link_count ALTER n DROP NOT NULL;
UPDATE counts.link_count SET n = NULL WHERE target = 'at://did:web:me.example';
SELECT what, object, detail FROM atproto.check('counts') WHERE what ~ 'count' ORDER BY 1, 2;
SELECT * FROM atproto.rebuild_links('counts');
SELECT * FROM counts.shown WHERE target = 'at://did:web:me.example';
-- the number of rows does not matter
EXPLAIN (COSTS OFF) SELECT n FROM counts.link_count WHERE target = 'at://did:web:me.example' AND source = 2;

-- mistakes
SELECT atproto.count_links(NULL);
SELECT atproto.count_links('{}', NULL);
SELECT atproto.count_links('{app.bsky.feed.like:subject.uri,NULL}', 'counts');
SELECT atproto.count_links('{app.bsky.feed.like}', 'counts');
SELECT atproto.count_links('{app.bsky.*:subject.uri}', 'counts');
SELECT atproto.count_links('{app.bsky.feed.like:}', 'counts');
SELECT atproto.count_links('{}', 'pg_catalog');
SELECT atproto.count_links('{}', 'no such schema');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT atproto.count_links('{}', 'counts');
ROLLBACK;
-- only the owner of the links
CREATE ROLE regress_counts;
GRANT USAGE ON SCHEMA atproto, counts TO regress_counts;
SET ROLE regress_counts;
SELECT atproto.count_links('{}', 'counts');
RESET ROLE;
GRANT EXECUTE ON FUNCTION atproto.count_links TO regress_counts;
GRANT ALL ON ALL TABLES IN SCHEMA counts TO regress_counts;
SET ROLE regress_counts;
SELECT atproto.count_links('{}', 'counts');
RESET ROLE;
SELECT count(*) FROM counts.link_source WHERE counted;

SET client_min_messages = warning;
DROP SCHEMA counts CASCADE;
REVOKE ALL ON SCHEMA atproto FROM regress_counts;
REVOKE ALL ON FUNCTION atproto.count_links FROM regress_counts;
DROP ROLE regress_counts;
