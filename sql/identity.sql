-- Identities, as far as no network is needed: nobody reads a document here.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
\set VERBOSITY terse

-- What is asked for is requested once, however often; the row is made by whoever has the answer.
SELECT * FROM atproto.resolve('did:plc:ewvi7nxzyoun6zhxrhs64oiz');
SELECT state FROM atproto.resolve('did:plc:ewvi7nxzyoun6zhxrhs64oiz');
SELECT atproto.identity_refresh('did:web:example.com'), state FROM atproto.resolve('did:web:example.com');
SELECT did, refresh, priority, web, failed, next_try <= now() AS due, role = current_user::regrole FROM atproto.identity_request ORDER BY did, refresh;
SELECT count(*) FROM atproto.identity;

-- W-01: three answers are distinct.
SELECT * FROM atproto.resolve('did:plc');
SELECT * FROM atproto.resolve('did:key:zQ3sh');
SELECT * FROM atproto.resolve('did:plc:short');
SELECT * FROM atproto.resolve('did:web:example.com:path');
SELECT * FROM atproto.resolve('did:web:example.com%3A8443');
SELECT * FROM atproto.resolve('did:web:intranet.local');
SELECT * FROM atproto.resolve('did:web:10.0.0.1');
SELECT atproto.identity_refresh('did:key:zQ3sh');
SELECT * FROM atproto.resolve(NULL);

DELETE FROM atproto.identity_request;

-- What is known and fresh is not asked for; the handle is shown when it is verified.  Keys are Multikeys.
INSERT INTO atproto.identity (did, state, key, label_key, pds, handle_claimed, resolved_at, asked_at) VALUES
	('did:web:good.example.com', 'good', '\xe70102a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90',
		'\x802403ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff', 'pds.example.com', 'good.example.com', now(), now()),
	('did:web:stale.example.com', 'good', '\xe70102a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90', NULL, 'pds.example.com:8443', 'stale.example.com', now() - interval '25 hours', now() - interval '25 hours');
INSERT INTO atproto.identity (did, state, asked_at, next_try, tries, error) VALUES
	('did:web:gone.example.com', 'gone', now(), now() + interval '1 hour', 1, 'https://gone.example.com: 404'),
	('did:web:again.example.com', 'invalid', now() - interval '2 hours', now() - interval '1 hour', 1, 'https://again.example.com: no JSON');
SELECT key, label_key, pds, handle, state, stale, error FROM atproto.resolve('did:web:good.example.com');
UPDATE atproto.identity SET handle_state = 'valid' WHERE state = 'good';
SELECT handle, pds FROM atproto.resolve('did:web:good.example.com');
SELECT (atproto.resolve(did)).state FROM atproto.identity ORDER BY did;
SELECT did, refresh FROM atproto.identity_request ORDER BY did;
SELECT did, state, tries, error FROM atproto.identity_problem ORDER BY did;
SELECT requests, due, failed, unreachable, gone, invalid, incomplete FROM atproto.stat_identity;
-- What an #identity event was about, is.
DELETE FROM atproto.identity_request;
UPDATE atproto.identity SET stale = true;
SELECT (atproto.resolve(did)).stale FROM atproto.identity ORDER BY did;
SELECT did, refresh FROM atproto.identity_request ORDER BY did;

-- A transaction that may not write, asks nobody; one that is rolled back, neither.
DELETE FROM atproto.identity_request;
BEGIN READ ONLY;
SELECT state FROM atproto.resolve('did:web:readonly.example.com');
COMMIT;
BEGIN;
SELECT state FROM atproto.resolve('did:web:undone.example.com');
ROLLBACK;
SELECT count(*) FROM atproto.identity_request;

-- await() commits what it asks; where nothing is to be asked it returns at once.
CALL atproto.await('did:web:gone.example.com', '0');
SELECT did, refresh FROM atproto.identity_request;
UPDATE atproto.identity SET stale = false;
DELETE FROM atproto.identity_request;
CALL atproto.await('did:web:gone.example.com');
CALL atproto.await('did:web:good.example.com', '0');
CALL atproto.await('did:web:again.example.com', '0 s');
CALL atproto.await('did:web:again.example.com', NULL);
CALL atproto.await('did:key:zQ3sh');
BEGIN;
CALL atproto.await('did:web:good.example.com');
ROLLBACK;
SELECT did FROM atproto.identity_request;

-- What a table must not hold.
INSERT INTO atproto.identity (did, state) VALUES ('did:web:a.example.com', 'good');
INSERT INTO atproto.identity (did, state, key) VALUES ('did:web:a.example.com', 'no_pds', '\x00');
INSERT INTO atproto.identity (did, state) VALUES ('did:web:a.example.com', 'unknown');

-- Neither is for everybody.
SET client_min_messages = error;
DROP ROLE IF EXISTS regress_reader;
RESET client_min_messages;
CREATE ROLE regress_reader;
SET ROLE regress_reader;
SELECT * FROM atproto.resolve('did:web:good.example.com');
CALL atproto.await('did:web:good.example.com');
SELECT * FROM atproto.identity;
RESET ROLE;
GRANT USAGE ON SCHEMA atproto TO regress_reader;
GRANT EXECUTE ON FUNCTION atproto.resolve(did), atproto.identity_refresh(did) TO regress_reader;
SET ROLE regress_reader;
SELECT state FROM atproto.resolve('did:web:reader.example.com');
SELECT atproto.identity_refresh('did:web:good.example.com');
SELECT * FROM atproto.identity_request;
RESET ROLE;
SELECT did, refresh, role::regrole FROM atproto.identity_request WHERE role = 'regress_reader'::regrole ORDER BY did;
GRANT SELECT ON atproto.identity TO regress_reader;
SET ROLE regress_reader;
SELECT did, state FROM atproto.identity ORDER BY did;
RESET ROLE;
DELETE FROM atproto.identity;
DELETE FROM atproto.identity_request;
REVOKE ALL ON SCHEMA atproto FROM regress_reader;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA atproto FROM regress_reader;
REVOKE ALL ON ALL TABLES IN SCHEMA atproto FROM regress_reader;
DROP ROLE regress_reader;
