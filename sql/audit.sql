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
UPDATE atproto.subscription SET collections = NULL, dids = '{did:web:a.test}';
SELECT * FROM audits ORDER BY did;
DELETE FROM atproto.subscription;

DROP SCHEMA audited, decoy CASCADE;
REVOKE ALL ON SCHEMA atproto FROM auditor;
REVOKE ALL ON FUNCTION atproto.audit FROM auditor;
DROP ROLE auditor;
