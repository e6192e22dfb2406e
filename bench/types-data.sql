-- The data of bench/types.sh: record URIs in random order, about 50 to a
-- repository, as text and as aturi; their DIDs; UUIDs.
SET client_min_messages = warning;
CREATE EXTENSION atproto;
SELECT setseed(0.42);

-- 24 random base32 characters: the last 12 of two TIDs.
CREATE FUNCTION random_tid() RETURNS text LANGUAGE sql VOLATILE
	AS $$ SELECT ((random() * 9.2e18)::bigint)::atproto.tid::text $$;

CREATE TABLE repo AS
SELECT i, 'did:plc:' || right(random_tid(), 12) || right(random_tid(), 12) AS t
FROM generate_series(0, :rows / 50 - 1) i;
ALTER TABLE repo ADD d did;
UPDATE repo SET d = t::did;

CREATE TABLE source AS
SELECT n, r.t AS did,
	   'at://' || r.t || '/app.bsky.feed.post/' ||
	   tid_floor('2023-01-01Z'::timestamptz + random() * interval '1000 days')::text AS t,
	   gen_random_uuid()::text AS u
FROM generate_series(1, :rows) n
	 JOIN repo r ON r.i = (n * 7919::bigint) % (:rows / 50)
ORDER BY random();

CREATE TABLE uri_text (uri text COLLATE "C");
INSERT INTO uri_text SELECT t FROM source;
CREATE TABLE uri_aturi (uri aturi);
INSERT INTO uri_aturi SELECT t::aturi FROM source;

CREATE TABLE did_text (did text COLLATE "C");
INSERT INTO did_text SELECT did FROM source;
CREATE TABLE did_did (did did);
INSERT INTO did_did SELECT did::did FROM source;

CREATE TABLE rkey_text (rkey text COLLATE "C");
INSERT INTO rkey_text SELECT right(t, 13) FROM source;
CREATE TABLE rkey_rkey (rkey recordkey);
INSERT INTO rkey_rkey SELECT right(t, 13)::recordkey FROM source;

CREATE TABLE repo_text AS SELECT t COLLATE "C" AS did FROM repo;
CREATE TABLE repo_did AS SELECT d AS did FROM repo;

-- Points to look up, and repositories to read.
CREATE TABLE point_text AS SELECT t COLLATE "C" AS uri FROM source LIMIT 100000;
CREATE TABLE point_aturi AS SELECT uri::aturi FROM point_text;
CREATE TABLE base AS
SELECT aturi(d, 'app.bsky.feed.post'::nsid) AS uri,
	   aturi_upper_bound(aturi(d, 'app.bsky.feed.post'::nsid)) AS bound
FROM repo ORDER BY random() LIMIT 10000;

-- One value of each type, as rows store it.
CREATE TABLE one (uri aturi, did did, rkey recordkey, cid cidlink);
INSERT INTO one VALUES
	('at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3jwdwj2ctlk26',
	 'did:plc:44ybard66vv44zksje25o7dz', '3jwdwj2ctlk26',
	 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a');

VACUUM ANALYZE;
CHECKPOINT;
