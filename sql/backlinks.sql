-- Who links to something: backlinks(), backlink_count(), backlink_dids(), and plain SQL.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
\set SHOW_CONTEXT never
CREATE SCHEMA backlinks;
SELECT atproto.create_tables('backlinks');

-- a post with 1,000 likes of 500 accounts, others with a few, and follows; a tenth of the accounts is not active
INSERT INTO backlinks.repo (did, active) SELECT ('did:web:u' || n || '.example')::did, n % 10 > 0 FROM generate_series(0, 499) n;
INSERT INTO backlinks.record (did, collection, rkey, cid, rev, value)
SELECT ('did:web:u' || n % 500 || '.example')::did, 'app.bsky.feed.like'::nsid, (10000 + n)::text::recordkey, 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a'::cidlink, '3jwdwj2ctlk26'::atproto.tid,
	jsonb_build_object('subject', jsonb_build_object('uri', CASE WHEN n < 1000 THEN 'at://did:web:me.example/app.bsky.feed.post/popular' ELSE 'at://did:web:o' || n % 300 || '.example/app.bsky.feed.post/1' END))
FROM generate_series(0, 1999) n
UNION ALL
SELECT ('did:web:u' || n || '.example')::did, 'app.bsky.graph.follow', 'same', 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a', '3jwdwj2ctlk26',
	jsonb_build_object('subject', CASE WHEN n % 2 = 0 THEN 'did:web:me.example' ELSE 'did:web:other.example' END)
FROM generate_series(0, 499) n;
SELECT * FROM atproto.rebuild_links('backlinks');
VACUUM (ANALYZE) backlinks.link, backlinks.link_source, backlinks.repo;

SELECT * FROM atproto.backlinks('at://did:web:me.example/app.bsky.feed.post/popular', 'app.bsky.feed.like:subject.uri', 3, tables => 'backlinks');
SELECT * FROM atproto.backlinks('at://did:web:me.example/app.bsky.feed.post/popular', 'app.bsky.feed.like:subject.uri', 3, 'at://did:web:u497.example/app.bsky.feed.like/10997', 'backlinks');
SELECT count(*), count(DISTINCT uri) FROM atproto.backlinks('at://did:web:me.example/app.bsky.feed.post/popular', 'app.bsky.feed.like:subject.uri', tables => 'backlinks');
SELECT count(*) FROM atproto.backlinks('at://did:web:me.example/app.bsky.feed.post/popular', 'app.bsky.feed.like:subject.uri', NULL, tables => 'backlinks');
SELECT count(*) FROM atproto.backlinks('at://did:web:me.example/app.bsky.feed.post/popular', 'app.bsky.feed.like:subject.uri', 0, tables => 'backlinks');
SELECT atproto.backlink_count('at://did:web:me.example/app.bsky.feed.post/popular', 'app.bsky.feed.like:subject.uri', 'backlinks');
SELECT * FROM atproto.backlink_dids('at://did:web:me.example/app.bsky.feed.post/popular', 'app.bsky.feed.like:subject.uri', 3, tables => 'backlinks');
SELECT did FROM atproto.backlink_dids('at://did:web:me.example/app.bsky.feed.post/popular', 'app.bsky.feed.like:subject.uri', 3, 'did:web:u100.example', 'backlinks');
SELECT count(*) FROM atproto.backlink_dids('at://did:web:me.example/app.bsky.feed.post/popular', 'app.bsky.feed.like:subject.uri', NULL, tables => 'backlinks');

-- page by page, all of them, each once; also where all keys are the same
CREATE FUNCTION pg_temp.pages(target aturi, source text, max integer) RETURNS TABLE (n bigint, different bigint, pages integer) LANGUAGE plpgsql AS $$
DECLARE
	last aturi;
	page aturi[];
	found aturi[] = '{}';
BEGIN
	pages = 0;
	LOOP
		page = ARRAY(SELECT uri FROM atproto.backlinks(target, source, max, last, 'backlinks'));
		EXIT WHEN page = '{}';
		pages = pages + 1;
		found = found || page;
		last = page[array_upper(page, 1)];
	END LOOP;
	RETURN QUERY SELECT count(*), count(DISTINCT u), pages FROM unnest(found) u;
END $$;
SELECT * FROM pg_temp.pages('at://did:web:me.example/app.bsky.feed.post/popular', 'app.bsky.feed.like:subject.uri', 7);
SELECT * FROM pg_temp.pages('at://did:web:me.example', 'app.bsky.graph.follow:subject', 100);

-- nothing that links
SELECT * FROM atproto.backlinks('at://did:web:nobody.example', 'app.bsky.graph.follow:subject', tables => 'backlinks');
SELECT atproto.backlink_count('at://did:web:me.example', 'app.bsky.graph.follow:no.such.path', 'backlinks');
-- wrong ones
SELECT atproto.backlinks('at://did:web:me.example', 'app.bsky.graph.follow', tables => 'backlinks');
SELECT atproto.backlinks('at://did:web:me.example', ':subject', tables => 'backlinks');
SELECT atproto.backlinks('at://did:web:me.example', 'app.bsky.graph.follow:', tables => 'backlinks');
SELECT atproto.backlink_count('at://did:web:me.example', 'app.bsky.graph.follow: subject', 'backlinks');
SELECT atproto.backlink_dids('at://did:web:me.example', 'app.bsky.graph.follow:' || repeat('s', 257), tables => 'backlinks');
SELECT atproto.backlinks('at://did:web:me.example', 'app.bsky.graph.follow:subject', tables => 'pg_catalog');
SELECT atproto.backlink_count('at://did:web:me.example', 'app.bsky.graph.follow:subject', tables => 'pg_catalog');
SELECT atproto.backlink_dids('at://did:web:me.example', 'app.bsky.graph.follow:subject', tables => 'pg_catalog');
SELECT atproto.link_problems('pg_catalog');
SELECT atproto.backlink_count('at://did:web:me.example', 'follow:subject', 'backlinks');
SELECT atproto.backlink_dids('at://did:web:me.example', '', tables => 'backlinks');
SELECT atproto.backlinks('at://did:web:me.example', 'app.bsky.graph.follow:subject', -1, tables => 'backlinks');
SELECT atproto.backlinks('at://did:web:me.example', 'app.bsky.graph.follow:subject', after => 'at://did:web:u1.example/app.bsky.feed.like/1', tables => 'backlinks');
SELECT atproto.backlinks('at://did:web:me.example', 'app.bsky.graph.follow:subject', after => 'at://did:web:u1.example/app.bsky.graph.fellow/1', tables => 'backlinks');
SELECT atproto.backlinks('at://did:web:me.example', 'app.bsky.graph.follow:subject', after => 'at://did:web:u1.example', tables => 'backlinks');
SELECT atproto.backlinks('at://did:web:me.example', 'app.bsky.graph.follow:subject', after => 'at://u1.example/app.bsky.graph.follow/1', tables => 'backlinks');
SELECT atproto.backlinks(NULL, 'app.bsky.graph.follow:subject');
SELECT atproto.backlink_count('at://did:web:me.example', NULL);
SELECT atproto.backlink_dids('at://did:web:me.example', 'app.bsky.graph.follow:subject', tables => NULL);
SELECT atproto.backlink_count('at://did:web:me.example', 'app.bsky.graph.follow:subject', 'no such schema');

-- only who may read the tables
CREATE ROLE regress_backlinks;
GRANT USAGE ON SCHEMA atproto, backlinks TO regress_backlinks;
SET ROLE regress_backlinks;
SELECT atproto.backlink_count('at://did:web:me.example', 'app.bsky.graph.follow:subject', 'backlinks');
RESET ROLE;
GRANT EXECUTE ON FUNCTION atproto.backlinks, atproto.backlink_count, atproto.backlink_dids TO regress_backlinks;
SET ROLE regress_backlinks;
SELECT atproto.backlink_count('at://did:web:me.example', 'app.bsky.graph.follow:subject', 'backlinks');
SELECT * FROM atproto.backlinks('at://did:web:me.example', 'app.bsky.graph.follow:subject', 1, tables => 'backlinks');
RESET ROLE;
GRANT SELECT ON backlinks.link, backlinks.link_source, backlinks.link_count TO regress_backlinks;
SET ROLE regress_backlinks;
SELECT atproto.backlink_count('at://did:web:me.example', 'app.bsky.graph.follow:subject', 'backlinks');
RESET ROLE;
-- whatever names mean to the caller
CREATE SCHEMA decoy;
CREATE FUNCTION decoy.no(did, did) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR decoy.= (LEFTARG = did, RIGHTARG = did, FUNCTION = decoy.no);
CREATE FUNCTION decoy.no(integer, integer) RETURNS boolean LANGUAGE sql AS 'SELECT false';
CREATE OPERATOR decoy.= (LEFTARG = integer, RIGHTARG = integer, FUNCTION = decoy.no);
SET search_path = decoy, pg_catalog, public;
SELECT 1 = 1 AS decoyed, atproto.backlink_count('at://did:web:me.example', 'app.bsky.graph.follow:subject', 'backlinks');
RESET search_path;

-- The session keeps plans: they follow what becomes of the tables, and there are not too many
DO $$
BEGIN
	FOR i IN 1..20 LOOP
		EXECUTE format('ALTER SCHEMA backlinks RENAME TO backlinks_%s', i);
		PERFORM atproto.backlinks('at://did:web:me.example', 'app.bsky.graph.follow:subject', 3, tables => ('backlinks_' || i)::name);
		EXECUTE format('ALTER SCHEMA backlinks_%s RENAME TO backlinks', i);
	END LOOP;
END $$;
BEGIN;
ALTER TABLE backlinks.link RENAME TO aside;
CREATE TABLE backlinks.link (LIKE backlinks.aside INCLUDING ALL);
SELECT count(*) FROM atproto.backlinks('at://did:web:me.example', 'app.bsky.graph.follow:subject', tables => 'backlinks');
ROLLBACK;
BEGIN;
DROP VIEW backlinks.visible_link;
ALTER TABLE backlinks.link ALTER did TYPE text;
\set VERBOSITY terse
SELECT count(*) FROM atproto.backlinks('at://did:web:me.example', 'app.bsky.graph.follow:subject', tables => 'backlinks');
\set VERBOSITY default
ROLLBACK;
SELECT count(*) FROM atproto.backlinks('at://did:web:me.example', 'app.bsky.graph.follow:subject', tables => 'backlinks');

-- The plans: each is one range of the key.
CREATE FUNCTION pg_temp.plan(query text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	-- as all versions of PostgreSQL write it
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		RETURN NEXT regexp_replace(replace(replace(line, ' (returns $0)', ''), 'InitPlan expr_1', 'InitPlan 1'), '\$0|\(InitPlan 1\)\.col1', 'id');
	END LOOP;
END $$;
-- the newest ones, from the first on and after one of them
SELECT pg_temp.plan($$ SELECT l.did, l.rkey FROM backlinks.link l
WHERE target = 'at://did:web:me.example/app.bsky.feed.post/popular'
	AND source = (SELECT id FROM backlinks.link_source WHERE collection = 'app.bsky.feed.like' AND path = 'subject.uri')
ORDER BY rkey DESC, did DESC LIMIT 50 $$);
SELECT pg_temp.plan($$ SELECT l.did, l.rkey FROM backlinks.link l
WHERE target = 'at://did:web:me.example/app.bsky.feed.post/popular'
	AND source = (SELECT id FROM backlinks.link_source WHERE collection = 'app.bsky.feed.like' AND path = 'subject.uri')
	AND (rkey, did) < ('10997', 'did:web:u497.example')
ORDER BY rkey DESC, did DESC LIMIT 50 $$);
-- how many
SELECT pg_temp.plan($$ SELECT count(*) FROM backlinks.link l
WHERE target = 'at://did:web:me.example/app.bsky.feed.post/popular'
	AND source = (SELECT id FROM backlinks.link_source WHERE collection = 'app.bsky.feed.like' AND path = 'subject.uri') $$);
-- all that points at what somebody owns
SELECT pg_temp.plan($$ SELECT source, rkey, did FROM backlinks.link WHERE target <@ 'at://did:web:o7.example' $$);
SELECT s.collection, s.path, count(*) FROM backlinks.link l JOIN backlinks.link_source s ON s.id = l.source WHERE target <@ 'at://did:web:me.example' GROUP BY 1, 2 ORDER BY 1;
-- without those that are not active
SELECT count(*) FROM backlinks.visible_link WHERE target = 'at://did:web:me.example' AND collection = 'app.bsky.graph.follow' AND path = 'subject';

SELECT p AS plan FROM pg_temp.plan($$ SELECT did, rkey FROM backlinks.visible_link
WHERE target = 'at://did:web:me.example/app.bsky.feed.post/popular'
	AND source = (SELECT id FROM backlinks.link_source WHERE collection = 'app.bsky.feed.like' AND path = 'subject.uri')
ORDER BY rkey DESC, did DESC LIMIT 50 $$) p WHERE p ~ 'Sort|Scan.* l$';

SET client_min_messages = warning;
DROP SCHEMA backlinks, decoy CASCADE;
REVOKE ALL ON SCHEMA atproto FROM regress_backlinks;
REVOKE ALL ON FUNCTION atproto.backlinks, atproto.backlink_count, atproto.backlink_dids FROM regress_backlinks;
DROP OWNED BY regress_backlinks;
DROP ROLE regress_backlinks;
