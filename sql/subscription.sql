-- What may stand in a subscription: what kind of stream it is, by its URL and its format.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;

CREATE FUNCTION subscription_fault(url text, columns text DEFAULT '', vals text DEFAULT '') RETURNS text LANGUAGE plpgsql AS $$
DECLARE message text; detail text; hint text; found record;
BEGIN
	EXECUTE format('INSERT INTO atproto.subscription (name, url, enabled%s) VALUES (''one'', %L, false%s)', columns, url, vals);
	SELECT * INTO found FROM atproto.subscription WHERE name = 'one';
	DELETE FROM atproto.subscription;
	RETURN format('%s, by_repo %s, %s', found.endpoint, found.by_repo, found.verify);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', message, nullif(detail, ''), nullif(hint, ''));
END $$;

-- by the URL
SELECT url, subscription_fault(url) FROM unnest('{wss://a.example, wss://a.example/xrpc/com.atproto.sync.subscribeRepos, wss://a.example/xrpc/com.atproto.label.subscribeLabels, wss://a.example/xrpc/org.example.stream, wss://a.example/, wss://a.example/xrpc/subscribe, wss://a.example/other, wss://a.example/xrpc/org.example.stream/subscribe}'::text[]) u (url);

-- by the format
SELECT format, subscription_fault('wss://a.example', ', format', ', ' || quote_nullable(format)) FROM unnest('{dag-cbor, cbor, "", NULL}'::text[]) f (format);

-- a level is taken from what is possible
SELECT level, subscription_fault('wss://a.example', ', verify', ', ' || quote_nullable(level)) FROM unnest('{hash, chain, NULL}'::text[]) l (level);

-- Jetstream, and JSON
SELECT url, format, subscription_fault(url, ', format', ', ' || quote_nullable(format)) FROM (VALUES
	('wss://a.example/subscribe', NULL), ('wss://a.example/subscribe', 'jetstream'), ('wss://a.example/subscribe', 'json'), ('wss://a.example/subscribe', 'dag-cbor'),
	('wss://a.example/js/subscribe', NULL),
	('wss://a.example/xrpc/network.bsky.jetstream.subscribeEvents', NULL), ('wss://a.example/xrpc/network.bsky.jetstream.subscribeEvents', 'json'),
	('wss://a.example/xrpc/org.example.stream', 'json'), ('wss://a.example/xrpc/org.example.stream', 'jetstream')) u (url, format);
SELECT level, subscription_fault('wss://a.example/subscribe', ', verify', ', ' || quote_nullable(level)) FROM unnest('{hash, chain, full, NULL}'::text[]) l (level);
SELECT subscription_fault('wss://a.example/subscribe', ', links, validate, backfill, slice, workers', ', ''all'', ''flag'', ''seen'', ''1/2'', 2');

-- a dictionary is for streams that can be compressed
INSERT INTO atproto.subscription (name, url, enabled) VALUES ('one', 'wss://a.example', false);
SELECT atproto.set_zstd_dictionary('one', NULL);
SELECT atproto.set_zstd_dictionary(NULL, NULL);
SELECT atproto.set_zstd_dictionary('two', NULL);
SELECT filtered_by_server, filtered_here, compressed FROM atproto.stat_subscription;
DELETE FROM atproto.subscription;

-- who fills the tables of another subscription with something else is told: what the one has processed is old for the other
\set VERBOSITY terse
INSERT INTO atproto.subscription (name, url, enabled) VALUES ('neighbour', 'wss://a.example', false);
INSERT INTO atproto.subscription (name, url, enabled, events) VALUES ('other', 'wss://b.example', false, 'keep');
UPDATE atproto.subscription SET events = 'none' WHERE name = 'other';
UPDATE atproto.subscription SET keep_raw = true WHERE name = 'other';
UPDATE atproto.subscription SET keep_raw = false, count_collections = true WHERE name = 'other';
UPDATE atproto.subscription SET count_collections = false, verify = 'hash' WHERE name = 'other';
UPDATE atproto.subscription SET verify = 'chain' WHERE name = 'other';
DELETE FROM atproto.subscription WHERE name IN ('neighbour', 'other');
\set VERBOSITY default
