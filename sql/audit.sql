-- V-45, V-46: are the records in the tables those that the account signed?  The roots were
-- computed by another program (test/oracle/synth.py).
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
CREATE SCHEMA audited;
SELECT atproto.create_tables('audited');

-- Names of which one begins with another: the order of paths is not that of the columns.
INSERT INTO audited.record (did, collection, rkey, rev, value, cid)
SELECT 'did:web:a.test', (ARRAY['app.bsky.feed', 'app.bsky.feed.like', 'app.bsky-x.feed', 'app.bsky.feedx'])[i % 4 + 1]::nsid,
	i::text::recordkey, '3aaaaaaaaaa22', v, ('\x01711220' || sha256(jsonb_to_dagcbor(v)))::cidlink
FROM generate_series(1, 300) i, jsonb_build_object('$type', 'a.b.c', 'n', i, 'text', repeat('x', i % 7)) v;
INSERT INTO audited.repo (did, rev, data) VALUES
	('did:web:a.test', '3aaaaaaaaaa22', 'bafyreick7g2qxds3p6ue6l7u77axjrptfckvuad3txz63xuygsemetsypa'),
	('did:web:empty.test', '3aaaaaaaaaa22', 'bafyreie5737gdxlw5i64vzichcalba3z2v5n6icifvx5xytvske7mr3hpm');
INSERT INTO audited.repo (did, handle) VALUES ('did:web:named.test', 'named.test');

CREATE VIEW audits AS SELECT did, a.equal, a.reason, a.records, a.root = a.data AS root, a.rev, p.sync
FROM audited.repo p, LATERAL atproto.audit(p.did, 'audited') a;
SELECT * FROM audits ORDER BY did;
SELECT * FROM atproto.audit('did:web:nobody.test', 'audited');
CALL atproto.audit_all('audited');
SELECT did, sync FROM audited.repo ORDER BY did;

-- Collections that an older library stored as texts, because it had no code for them.
CREATE CAST (bytea AS nsid) WITHOUT FUNCTION;
BEGIN;
UPDATE audited.record SET collection = convert_to(collection::text, 'UTF8')::nsid WHERE collection = 'app.bsky.feed.like' AND rkey::text ~ '[15]$';
SELECT count(DISTINCT pg_column_size(collection)) AS forms FROM audited.record WHERE collection = 'app.bsky.feed.like';
SELECT * FROM audits WHERE did = 'did:web:a.test';
ROLLBACK;
DROP CAST (bytea AS nsid);

-- A record less, one more, another one; one that is a letter of its path away.
BEGIN;
DELETE FROM audited.record WHERE rkey = '7';
SELECT * FROM audits WHERE did = 'did:web:a.test';
ROLLBACK;
BEGIN;
UPDATE audited.record SET did = 'did:web:empty.test' WHERE rkey = '7';
SELECT * FROM audits ORDER BY did;
CALL atproto.audit_all('audited');
SELECT did, sync FROM audited.repo ORDER BY did;
ROLLBACK;
BEGIN;
UPDATE audited.record SET cid = (SELECT cid FROM audited.record WHERE rkey = '8') WHERE rkey = '7';
SELECT * FROM audits WHERE did = 'did:web:a.test';
ROLLBACK;
BEGIN;
UPDATE audited.record SET rkey = '7_' WHERE rkey = '7';
SELECT * FROM audits WHERE did = 'did:web:a.test';
ROLLBACK;
SELECT sync FROM audited.repo WHERE did = 'did:web:a.test';

-- The index's order and that of a statement come to the same tree: names inside names, many
-- of them, and the cost is a few descents of the index for each.
INSERT INTO audited.record (did, collection, rkey, rev, cid)
SELECT 'did:web:names.test', collection, rkey, '3aaaaaaaaaa22', ('\x01711220' || sha256(convert_to(collection::text || rkey::text, 'UTF8')))::cidlink
FROM (SELECT DISTINCT (array_to_string((ARRAY['a', 'b', 'a-b', 'a-c', 'aa', 'b-a'])[1 + (h >> 4) % 6] || ARRAY['x']
		|| (ARRAY['a', 'a-a', 'b', 'aa', 'a0'])[1 + (h >> 7) % 5]
		|| (ARRAY['a', 'a-a', 'a-a-b', 'b', 'aa', 'c'])[1 + (h >> 10) % 6 : (h >> 13) % 7]
		|| (ARRAY['a', 'b', 'ab', 'a', 'a0'])[1 + (h >> 16) % 5 : (h >> 19) % 7] || (ARRAY['a', 'aa', 'b'])[1 + (h >> 22) % 3], '.'))::nsid AS collection
	FROM (SELECT abs(hashint4(i)) AS h FROM generate_series(1, 3000) i) h) n,
	LATERAL (SELECT unnest(ARRAY['self', '3aaaaaaaaaa22', '-', '0', collection::text]) AS k) r, LATERAL (SELECT k::recordkey AS rkey) k
WHERE hashtext(collection::text || k) % 3 <> 0;
INSERT INTO audited.repo (did, rev, data) SELECT 'did:web:names.test', '3aaaaaaaaaa22', data FROM audited.repo WHERE did = 'did:web:a.test';
CREATE SCHEMA viewed;
CREATE VIEW viewed.record AS SELECT * FROM audited.record;
CREATE VIEW viewed.repo AS SELECT * FROM audited.repo;
BEGIN;
SELECT x.records, v.records = x.records AS records, v.root = x.root AS root FROM atproto.audit('did:web:names.test', 'audited') x, atproto.audit('did:web:names.test', 'viewed') v;
SELECT count(*) > 500 AS names FROM (SELECT DISTINCT collection FROM audited.record WHERE did = 'did:web:names.test') c;
COMMIT;
SELECT v.root = x.root AS root FROM atproto.audit('did:web:a.test', 'audited') x, atproto.audit('did:web:a.test', 'viewed') v;
CREATE FUNCTION pg_temp.scans() RETURNS bigint LANGUAGE sql VOLATILE AS
	$$SELECT idx_scan FROM pg_stat_xact_all_tables WHERE relid = 'audited.record'::regclass$$;
CREATE FUNCTION pg_temp.scans_of(d did) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE before bigint := pg_temp.scans();
BEGIN
	PERFORM atproto.audit(d, 'audited');
	RETURN pg_temp.scans() - before;
END $$;
SELECT pg_temp.scans_of('did:web:names.test') BETWEEN n AND 4 * n AS a_few, n > 500 AS for_many
FROM (SELECT count(DISTINCT collection) AS n FROM audited.record WHERE did = 'did:web:names.test') c;
-- what is left out here is left out there
BEGIN;
UPDATE audited.record SET rev = '3aaaaaaaaaa23' WHERE did = 'did:web:names.test' AND hashtext(rkey::text || collection::text) % 2 = 0;
UPDATE audited.repo SET purge_rev = rev, rev = '3aaaaaaaaaa23' WHERE did = 'did:web:names.test';
SELECT x.records = (SELECT count(*) FROM audited.record WHERE did = 'did:web:names.test' AND rev = '3aaaaaaaaaa23') AS new,
	v.records = x.records AS records, v.root = x.root AS root FROM atproto.audit('did:web:names.test', 'audited') x, atproto.audit('did:web:names.test', 'viewed') v;
ROLLBACK;
-- Row security, and partitions, are what a statement makes of them.
BEGIN;
CREATE ROLE seer;
GRANT USAGE ON SCHEMA audited, atproto TO seer;
GRANT EXECUTE ON FUNCTION atproto.audit TO seer;
GRANT SELECT ON audited.record, audited.repo TO seer;
ALTER TABLE audited.record ENABLE ROW LEVEL SECURITY;
CREATE POLICY few ON audited.record USING (rkey::text < '2');
SET LOCAL ROLE seer;
SELECT equal, records FROM atproto.audit('did:web:a.test', 'audited');
RESET ROLE;
SELECT equal, records FROM atproto.audit('did:web:a.test', 'audited');
ROLLBACK;
BEGIN;
ALTER TABLE audited.record RENAME TO whole;
CREATE TABLE audited.record (LIKE audited.whole) PARTITION BY LIST (collection);
CREATE TABLE audited.record_a PARTITION OF audited.record FOR VALUES IN ('app.bsky.feed', 'app.bsky-x.feed');
CREATE TABLE audited.record_b PARTITION OF audited.record DEFAULT;
INSERT INTO audited.record SELECT * FROM audited.whole;
SELECT equal, records FROM atproto.audit('did:web:a.test', 'audited');
ROLLBACK;
-- Another index in its place, or none.
BEGIN;
ALTER TABLE audited.record DROP CONSTRAINT record_pkey;
SELECT equal, records FROM atproto.audit('did:web:a.test', 'audited');
CREATE INDEX ON audited.record (did, collection DESC, rkey);
CREATE INDEX ON audited.record (did, rkey, collection);
CREATE INDEX ON audited.record (did, collection, rkey) WHERE rkey <> '7';
SELECT equal, records FROM atproto.audit('did:web:a.test', 'audited');
CREATE INDEX ON audited.record (did, collection, rkey, rev);
SELECT equal, records FROM atproto.audit('did:web:a.test', 'audited');
ROLLBACK;
DROP SCHEMA viewed CASCADE;
DELETE FROM audited.repo WHERE did = 'did:web:names.test';
DELETE FROM audited.record WHERE did = 'did:web:names.test';

-- deep: the values, too
SELECT equal, reason FROM atproto.audit('did:web:a.test', 'audited', deep => true);
BEGIN;
UPDATE audited.record SET value = jsonb_set(value, '{n}', '0') WHERE rkey = '7';
SELECT equal, reason FROM atproto.audit('did:web:a.test', 'audited');
SELECT equal, reason, root = data AS root FROM atproto.audit('did:web:a.test', 'audited', deep => true);
ROLLBACK;
BEGIN;
UPDATE audited.record SET value = jsonb_set(value, '{n}', '0.5') WHERE rkey = '7';
SELECT equal, reason FROM atproto.audit('did:web:a.test', 'audited', deep => true);
ROLLBACK;
BEGIN;
UPDATE audited.record SET value = NULL WHERE rkey = '7';
SELECT equal, reason FROM atproto.audit('did:web:a.test', 'audited', deep => true);
UPDATE audited.record SET raw = jsonb_to_dagcbor('{"$type": "a.b.c", "n": 7, "text": ""}') WHERE rkey = '7';
SELECT equal, reason FROM atproto.audit('did:web:a.test', 'audited', deep => true);
UPDATE audited.record SET raw = raw || '\x00' WHERE rkey = '7';
SELECT equal, reason FROM atproto.audit('did:web:a.test', 'audited', deep => true);
ROLLBACK;

-- The same by an aggregate, from any table: the root, and whether values fit.
SELECT p.did, r.root = p.data AS root, r.root IS NOT DISTINCT FROM (atproto.audit(p.did, 'audited')).root AS same, r.fit
FROM audited.repo p, LATERAL (
	SELECT atproto.repo_root(path, cid ORDER BY path COLLATE "C") AS root, bool_and(atproto.record_fits(cid, value, raw)) AS fit
	FROM (SELECT collection || '/' || rkey AS path, * FROM audited.record) x WHERE x.did = p.did) r
WHERE p.data IS NOT NULL ORDER BY p.did;
SELECT did, atproto.repo_root(path, cid ORDER BY path COLLATE "C") = (SELECT data FROM audited.repo p WHERE p.did = r.did) AS root
FROM (SELECT collection || '/' || rkey AS path, * FROM audited.record) r GROUP BY did;
CREATE TEMP TABLE leaf AS SELECT path, cid FROM (VALUES ('a/1'), ('a/2'), ('a-b/1'), ('b/1')) p (path), LATERAL (SELECT ('\x01711220' || sha256(path::bytea))::cidlink) c (cid);
CREATE FUNCTION pg_temp.root_of(VARIADIC paths text[]) RETURNS cidlink LANGUAGE sql AS
	$$SELECT atproto.repo_root(path, '\x01550000'::bytea::cidlink ORDER BY n) FROM unnest(paths) WITH ORDINALITY u (path, n)$$;
-- of nothing: the empty tree; a record less is another one
SELECT atproto.repo_root(path, cid ORDER BY path COLLATE "C") FROM leaf WHERE false;
SELECT pg_temp.root_of('a/1') <> pg_temp.root_of('a/2') AS other, pg_temp.root_of('a/1', 'a/2') <> pg_temp.root_of('a/1') AS more, pg_temp.root_of('a/1') = pg_temp.root_of('a/1') AS same;
-- another order is a mistake: that of the columns, too
SELECT pg_temp.root_of('a-b/1', 'a/1', 'a/2') IS NOT NULL AS root;
SELECT pg_temp.root_of('a/1', 'a-b/1', 'a/2');
SELECT pg_temp.root_of('a/1', 'a');
-- no repository's: twice, NULL, an empty path, one that is too long (B-65)
SELECT pg_temp.root_of('a/1', 'a/1') AS twice, pg_temp.root_of('a/1', NULL) AS path, pg_temp.root_of('') AS empty,
	pg_temp.root_of('a/1', 'b/' || repeat('x', 1023)) AS long, pg_temp.root_of('a/1', 'b/' || repeat('x', 1022)) IS NOT NULL AS longest;
SELECT atproto.repo_root(path, CASE WHEN path <> 'a/2' THEN cid END ORDER BY path COLLATE "C") AS cid FROM leaf;
-- what is wrong in one group is so in that one; a filter; within a window it cannot be known
SELECT left(path, 1) AS g, atproto.repo_root(path, CASE WHEN path <> 'b/1' THEN cid END ORDER BY path COLLATE "C") IS NOT NULL AS root FROM leaf GROUP BY 1 ORDER BY 1;
SELECT atproto.repo_root(path, cid ORDER BY path COLLATE "C") FILTER (WHERE path < 'b' COLLATE "C") = (SELECT atproto.repo_root(path, cid ORDER BY path COLLATE "C") FROM leaf WHERE path <> 'b/1') AS filtered FROM leaf;
SELECT atproto.repo_root(path, cid) OVER (ORDER BY path COLLATE "C") FROM leaf;
-- one node with all records: the room that a tree takes grows
SELECT atproto.repo_root(path, '\x01550000'::bytea::cidlink ORDER BY path COLLATE "C") IS NOT NULL AS root FROM (SELECT path FROM generate_series(1, 3000) i, LATERAL (SELECT i || repeat('x', 900)) p (path)
	WHERE get_byte(sha256(path::bytea), 0) > 63) p;
SELECT atproto.record_fits(cid, v, NULL) AS value, atproto.record_fits(cid, NULL::jsonb, raw) AS raw, atproto.record_fits(cid, v, raw) AS both,
	atproto.record_fits(cid, v, raw || '\x00') AS bytes, atproto.record_fits(cid, '{}'::jsonb, raw) AS other, atproto.record_fits(cid, '0.5'::jsonb, NULL) AS no_data,
	atproto.record_fits(cid, NULL::jsonb, NULL) AS neither, atproto.record_fits(NULL, v, raw) AS unknown
FROM (SELECT v, raw, ('\x01711220' || sha256(raw))::cidlink AS cid FROM (SELECT '{"a": 1}'::jsonb AS v, jsonb_to_dagcbor('{"a": 1}') AS raw) v) c;

-- What users may do to the tables.
BEGIN;
ALTER TABLE audited.record DROP CONSTRAINT record_pkey;
INSERT INTO audited.record SELECT * FROM audited.record WHERE rkey = '7';
SELECT * FROM audits WHERE did = 'did:web:a.test';
ROLLBACK;
BEGIN;
ALTER TABLE audited.record ALTER cid DROP NOT NULL;
UPDATE audited.record SET cid = NULL WHERE rkey = '7';
SELECT * FROM audits WHERE did = 'did:web:a.test';
ROLLBACK;
BEGIN;
UPDATE audited.record SET cid = ('\x01551220' || sha256('odd'))::cidlink WHERE rkey = '7';
SELECT * FROM audits WHERE did = 'did:web:a.test';
ROLLBACK;

-- Records that are about to go with their account count no more, and those of a new beginning do.
BEGIN;
UPDATE audited.repo SET deleted_rev = rev, purge_rev = rev WHERE did = 'did:web:a.test';
SELECT * FROM audits WHERE did = 'did:web:a.test';
UPDATE audited.repo SET rev = '3aaaaaaaaaa23', data = 'bafyreie5737gdxlw5i64vzichcalba3z2v5n6icifvx5xytvske7mr3hpm' WHERE did = 'did:web:a.test';
SELECT * FROM audits WHERE did = 'did:web:a.test';
ROLLBACK;

-- The caller's rights on the tables are what counts; it only reads.
CREATE ROLE auditor;
GRANT USAGE ON SCHEMA audited, atproto TO auditor;
GRANT EXECUTE ON FUNCTION atproto.audit TO auditor;
SET ROLE auditor;
SELECT * FROM atproto.audit('did:web:a.test', 'audited');
RESET ROLE;
GRANT SELECT ON audited.record, audited.repo TO auditor;
SET ROLE auditor;
SELECT equal, records FROM atproto.audit('did:web:a.test', 'audited');
CALL atproto.audit_all('audited');
RESET ROLE;
BEGIN READ ONLY;
SELECT equal, records FROM atproto.audit('did:web:a.test', 'audited');
ROLLBACK;

-- Whatever the search_path is.
CREATE SCHEMA decoy;
CREATE FUNCTION decoy.no(text, text) RETURNS text LANGUAGE sql AS $$SELECT 'no'$$;
CREATE OPERATOR decoy.|| (LEFTARG = text, RIGHTARG = text, FUNCTION = decoy.no);
UPDATE audited.repo SET sync = 'partial';
SET search_path = decoy, pg_catalog, public;
SELECT equal, records FROM atproto.audit('did:web:a.test', 'audited');
CALL atproto.audit_all('audited');
SHOW search_path;
RESET search_path;
SELECT did, sync FROM audited.repo ORDER BY did;

-- A table that a filter made is a part: nobody can tell.
INSERT INTO atproto.subscription (name, url, target, collections) VALUES
	('part', 'wss://relay.test/xrpc/com.atproto.sync.subscribeRepos', 'audited', '{app.bsky.*}');
SELECT * FROM audits ORDER BY did;
SET ROLE auditor;
SELECT equal, reason FROM atproto.audit('did:web:a.test', 'audited');
RESET ROLE;
CALL atproto.audit_all('audited');
CALL atproto.audit_all(NULL);
UPDATE atproto.subscription SET collections = NULL, dids = '{did:web:a.test}';
SELECT * FROM audits ORDER BY did;
DELETE FROM atproto.subscription;

-- whatever tables there are
SET client_min_messages = warning;
DROP SCHEMA audited, decoy CASCADE;
REVOKE ALL ON SCHEMA atproto FROM auditor;
REVOKE ALL ON FUNCTION atproto.audit FROM auditor;
DROP ROLE auditor;
