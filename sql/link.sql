-- The tables link and link_source: what they should be, by the table record.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
\set SHOW_CONTEXT never
CREATE SCHEMA graph;
SELECT atproto.create_tables('graph');

CREATE VIEW graph.shown AS SELECT s.collection, s.path, l.rkey, l.did, l.target FROM graph.link l LEFT JOIN graph.link_source s ON s.id = l.source;

INSERT INTO graph.repo (did, rev, active) VALUES ('did:web:a.example', '3jwdwj2ctlk26', true), ('did:web:b.example', '3jwdwj2ctlk26', false);
INSERT INTO graph.record (did, collection, rkey, cid, rev, value)
SELECT did::did, collection::nsid, rkey::recordkey, 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a', '3jwdwj2ctlk26', value::jsonb
FROM (VALUES
	('did:web:a.example', 'app.bsky.feed.like', '1', '{"subject": {"uri": "at://did:web:b.example/app.bsky.feed.post/1"}}'),
	('did:web:b.example', 'app.bsky.feed.like', '2', '{"subject": {"uri": "at://did:web:b.example/app.bsky.feed.post/1"}}'),
	('did:web:b.example', 'app.bsky.graph.follow', '1', '{"subject": "did:web:a.example"}'),
	('did:web:a.example', 'app.bsky.feed.post', '1', '{"x": ["did:web:a.example", "did:web:a.example"], "text": "at://did:web:a.example "}')) v (did, collection, rkey, value);
-- one that jsonb cannot hold
INSERT INTO graph.record (did, collection, rkey, cid, rev, raw)
VALUES ('did:web:a.example', 'app.bsky.feed.post', '2', 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a', '3jwdwj2ctlk26', '\xa2616161006162716469643a7765623a612e6578616d706c65');
-- and some whose links are too long for a page of an index, or just not
INSERT INTO graph.record (did, collection, rkey, cid, rev, value)
SELECT 'did:web:a.example', 'com.example.long', n::text::recordkey, 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a', '3jwdwj2ctlk26',
	jsonb_build_object('long', 'at://did:web:b.example/' || (SELECT string_agg(md5(i::text), '') FROM generate_series(1, n) i))
FROM generate_series(70, 90) n;

-- without sources nothing is a link, and so nothing is missing
SELECT * FROM atproto.link_problems('graph');
SELECT * FROM atproto.rebuild_links('graph');
SELECT * FROM graph.link_source ORDER BY id;
SELECT collection, path, rkey, did, left(target::text, 50), octet_length(target::text) FROM graph.shown
WHERE collection <> 'com.example.long' OR rkey = (SELECT rkey FROM graph.shown WHERE collection = 'com.example.long' ORDER BY rkey DESC LIMIT 1) ORDER BY 1, 2, 3, 4;
SELECT * FROM atproto.link_problems('graph');
SELECT * FROM atproto.rebuild_links('graph');

-- what differs is found, and mended
UPDATE graph.record SET value = '{"subject": "did:web:c.example"}' WHERE collection = 'app.bsky.graph.follow';
DELETE FROM graph.record WHERE collection = 'app.bsky.feed.post' AND rkey = '1';
UPDATE graph.link SET source = 77 WHERE source = (SELECT id FROM graph.link_source WHERE collection = 'app.bsky.feed.like') AND did = 'did:web:a.example';
SELECT problem, target, source, rkey, did FROM atproto.link_problems('graph') ORDER BY 1, 2, 3, 4, 5;
SELECT * FROM atproto.rebuild_links('graph');
SELECT * FROM atproto.link_problems('graph');

-- what is not of an active repository is hidden, and what is of one that was deleted until it is gone
SELECT collection, path, rkey, did, target FROM graph.visible_link WHERE collection <> 'com.example.long' ORDER BY 1, 2, 3, 4;
UPDATE graph.repo SET active = true, purge_rev = '3jwdwj2ctlk26';
SELECT count(*) FROM graph.visible_link;

-- there is room for so many sources of those that records bring, and those that are named have another: first come those that many have
INSERT INTO graph.link_source SELECT n, 'com.example.other', n::text FROM generate_series((SELECT max(id) + 1 FROM graph.link_source), 9998) n;
INSERT INTO graph.link_source SELECT greatest(max(id), 10000) + 1, 'com.example.named', 'x' FROM graph.link_source;
INSERT INTO graph.record (did, collection, rkey, cid, rev, value)
SELECT 'did:web:a.example', 'com.example.new', n::text::recordkey, 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a', '3jwdwj2ctlk26',
	(SELECT jsonb_object_agg('f' || i, 'did:web:a.example') FROM generate_series(1, n) i)
FROM generate_series(1, 5) n;
SELECT * FROM atproto.rebuild_links('graph');
SELECT * FROM graph.link_source WHERE id > 9998 ORDER BY id;
SELECT * FROM atproto.link_problems('graph');
SELECT * FROM atproto.rebuild_links('graph');

-- whether a link fits
SELECT max(n) FROM generate_series(1, 4000) n WHERE atproto.link_fits(('at://did:web:a.example/' || repeat('a', n))::aturi, 'self', 'did:web:a.example');

-- the isolation level, the tables, and rights
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT atproto.rebuild_links('graph');
ROLLBACK;
SELECT atproto.rebuild_links('no such schema');
SELECT atproto.rebuild_links('pg_catalog');
SELECT atproto.rebuild_links(NULL);
CREATE ROLE regress_link;
GRANT USAGE ON SCHEMA graph, atproto TO regress_link;
SET ROLE regress_link;
SELECT atproto.rebuild_links('graph');
RESET ROLE;
GRANT EXECUTE ON FUNCTION atproto.rebuild_links, atproto.link_problems TO regress_link;
SET ROLE regress_link;
SELECT atproto.rebuild_links('graph');
SELECT atproto.link_problems('graph');
RESET ROLE;
-- as the table's owner: who calls it lends him nothing
CREATE FUNCTION graph.who() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'as %', current_user; RETURN NULL; END $$;
CREATE TRIGGER who AFTER INSERT ON graph.link FOR EACH STATEMENT EXECUTE FUNCTION graph.who();
ALTER TABLE graph.link OWNER TO regress_link;
SELECT atproto.rebuild_links('graph');
GRANT SELECT ON graph.record TO regress_link;
GRANT SELECT, INSERT ON graph.link_source TO regress_link;
GRANT SELECT, INSERT, UPDATE, DELETE ON graph.link_count TO regress_link;
DELETE FROM graph.link WHERE target = 'at://did:web:c.example';
SELECT * FROM atproto.rebuild_links('graph');
SET ROLE regress_link;
SELECT * FROM atproto.rebuild_links('graph');
SELECT * FROM atproto.link_problems('graph');
RESET ROLE;
-- and a table of other types is no crash
DROP VIEW graph.shown, graph.visible_link;
ALTER TABLE graph.link ALTER source TYPE bigint;
-- (the DETAIL is another one since PostgreSQL 18)
\set VERBOSITY terse
SELECT * FROM atproto.link_problems('graph');
\set VERBOSITY default

SET client_min_messages = warning;
DROP SCHEMA graph CASCADE;
REVOKE ALL ON SCHEMA atproto FROM regress_link;
REVOKE ALL ON FUNCTION atproto.rebuild_links, atproto.link_problems FROM regress_link;
DROP ROLE regress_link;
