-- What release/try-image runs in a database with the extension: a few statements for each part.  A statement that
-- does not give what it should ends psql.  psql's variable version is the version that the library must have.
\set ON_ERROR_STOP on
\set QUIET on
SET client_min_messages = warning;
SELECT set_config('try.version', :'version', false) \g /dev/null
CREATE EXTENSION IF NOT EXISTS atproto;

DO $$
DECLARE
	state text;
BEGIN
	ASSERT (SELECT extversion FROM pg_extension WHERE extname = 'atproto') = current_setting('try.version'), 'the version of the extension';
	-- types
	ASSERT aturi_did('at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3k43tv4rft22g') = 'did:plc:z72i7hdynmk6r22z27h6tvur'::did, 'types';
	ASSERT tid_timestamp('3k43tv4rft22g') BETWEEN '2023-01-01' AND '2024-01-01', 'tid';
	ASSERT try_did('nothing') IS NULL, 'try_did';
	ASSERT dagcbor_to_jsonb(jsonb_to_dagcbor('{"a": [1, "b"]}')) = '{"a": [1, "b"]}', 'DAG-CBOR';
	-- a signature by secp256k1, which a library without libsecp256k1 cannot verify
	ASSERT (SELECT bool_and(atproto.verify_label(jsonb_build_object('hello', 'world', 'sig', jsonb_build_object('$bytes', sig)), key)) FROM (VALUES
		('did:key:zDnaembgSGUhZULN2Caob4HLJPaxBh92N7rtH21TErzqf8HQo', '2vZNsG3UKvvO/CDlrdvyZRISOFylinBh0Jupc6KcWoJWExHptCfduPleDbG3rko3YZnn9Lw0IjpixVmexJDegg'),
		('did:key:zQ3shqwJEJyMBsBXCWyCBpUBMqxcon9oHB7mCvx4sSpMdLJwc', '5WpdIuEUUfVUYaozsi8G0B3cWO09cgZbIIwg1t2YKdUn/FEznOndsz/qgiYb89zwxYCbB71f7yQK5Lr7NasfoA')) v (key, sig)), 'signatures';
	ASSERT atproto.lexicon_valid('{"$type": "app.bsky.feed.post", "text": "x", "createdAt": "2026-01-01T00:00:00Z"}', 'app.bsky.feed.post') IS NULL, 'lexicons';
	ASSERT atproto.lexicon_valid('{"$type": "app.bsky.feed.post", "text": 1}', 'app.bsky.feed.post') IS NOT NULL, 'lexicons: a bad record';
END
$$;

-- A consumer: the stream's server is not there, and the view says so.
SELECT atproto.subscribe('try', 'ws://127.0.0.1:9') \g /dev/null
DO $$
BEGIN
	FOR i IN 1 .. 600 LOOP
		IF (SELECT last_error IS NOT NULL FROM atproto.stat_subscription WHERE name = 'try') THEN RETURN; END IF;
		COMMIT;
		PERFORM pg_sleep(0.1);
	END LOOP;
	RAISE 'no consumer has started: %', (SELECT to_jsonb(s) FROM atproto.stat_subscription s);
END
$$;
SELECT atproto.unsubscribe('try') \g /dev/null
