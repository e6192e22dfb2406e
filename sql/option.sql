-- Wrong values of a subscription's options: each is refused with a sentence, and no check of the table, which
-- would print the whole row, passwords included, and no values.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
-- a file that cannot be read is a warning: mistakes.sql
SET client_min_messages = error;

CREATE FUNCTION fault(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE state text; message text; detail text; hint text;
BEGIN
	EXECUTE statement;
	RAISE SQLSTATE 'OK000';
EXCEPTION WHEN SQLSTATE 'OK000' THEN RETURN 'accepted';
WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', state || ': ' || message, nullif(detail, ''), nullif(hint, ''));
END $$;

INSERT INTO atproto.subscription (name, url, enabled) VALUES ('one', 'wss://a.example', false);

-- words
SELECT option, value, fault(format('UPDATE atproto.subscription SET %I = %L', option, value)) FROM (VALUES
	('events', 'all'), ('events', 'Keep'), ('events', ''), ('events', NULL),
	('verify', 'signature'), ('verify', 'FULL'), ('verify', NULL),
	('backfill', 'all'), ('backfill', 'Network'), ('backfill', NULL),
	('handles', 'none '), ('handles', NULL), ('format', 'cbor'), ('format', 'JSON'), ('format', NULL),
	('actions', '{create,merge}'), ('actions', '{Create}'), ('actions', '{NULL}'), ('actions', '{create,NULL}'), ('actions', '{}'), ('actions', NULL),
	('links', 'some'), ('links', 'ALL'), ('links', NULL), ('validate', 'strict'), ('validate', '{app.bsky.*=no}'), ('validate', NULL)) v (option, value);

-- a null in an array, which would match nothing
SELECT option, value, fault(format('UPDATE atproto.subscription SET %I = %L', option, value)) FROM (VALUES
	('collections', '{NULL}'), ('collections', '{app.bsky.feed.post,NULL}'), ('collections', '{"NULL"}'), ('collections', '{}'),
	('dids', '{NULL}'), ('dids', '{did:plc:z72i7hdynmk6r22z27h6tvur,NULL}'), ('dids', '{{NULL}}'), ('dids', '{}'),
	('links', '{NULL}'), ('links', '{app.bsky.feed.like,NULL}'), ('validate', '{NULL}'), ('validate', '{app.bsky.*=flag,NULL}')) v (option, value);

-- numbers
SELECT option, value, fault(format('UPDATE atproto.subscription SET %I = %L', option, value)) FROM (VALUES
	('workers', '0'), ('workers', '33'), ('workers', '-1'), ('workers', NULL), ('max_dead_letters', '-1'), ('max_dead_letters', NULL),
	('max_dead_letter_bytes', '-9223372036854775808'), ('max_held_events', '-2147483648'), ('max_held_bytes', '-1')) v (option, value);

-- servers and names
SELECT option, left(value, 40) AS value, fault(format('UPDATE atproto.subscription SET %I = %L', option, value)) FROM (VALUES
	('list_source', 'bsky.network'), ('list_source', 'https://'), ('list_source', 'https://a.example/path'), ('list_source', 'https://user@a.example'),
	('list_source', 'HTTPS://a.example'), ('list_source', E'https://a\n.example'), ('list_source', 'https://a.example:8443'),
	('fetch_as', 'parts'), ('fetch_as', NULL), ('fetch_as', 'sparse'), ('history', 'all'), ('history', NULL), ('history', 'archive'), ('archive_source', 'a.example'), ('archive_source', 'https://a.example/x'), ('archive_source', 'https://a.example'),
	('repo_source', 'relay'), ('repo_source', 'PDS'), ('repo_source', 'https://a.example/?x'), ('repo_source', 'upstream'),
	('slice', '4/4'), ('collections', '{app.*.feed}'), ('proxy', 'gopher://a'),
	('name', ''), ('name', repeat('x', 64)), ('name', NULL), ('target', NULL), ('url', NULL), ('url', 'wss://a.example/' || repeat('x', 8192))) v (option, value);

-- Every column, with values of no sense: what is accepted or refused, no check and no NOT NULL of the table speaks.
SELECT attname, value FROM pg_attribute,
	unnest('{"", x, ALL, -1, 0, "2147483647", "9223372036854775807", "{}", "{x}", "{NULL}", "https://", NULL}'::text[]) v (value)
WHERE attrelid = 'atproto.subscription'::regclass AND attnum > 0 AND NOT attisdropped
	AND fault(format('UPDATE atproto.subscription SET %I = %L', attname, value)) ~ '(check|not-null) constraint'
ORDER BY attname, value;

-- Long values are not repeated whole.
SELECT attname, left(value, 10) AS value FROM pg_attribute,
	unnest(ARRAY[repeat('é', 100000), '{' || repeat('é', 100000) || '}', '{' || repeat('é', 100000) || '=flag}', 'https://a/' || repeat('é', 100000), 'ws:' || repeat('é', 4000)]) v (value)
WHERE attrelid = 'atproto.subscription'::regclass AND atttypid IN ('text'::regtype, 'text[]'::regtype, 'did[]'::regtype) AND NOT attisdropped
	AND length(fault(format('UPDATE atproto.subscription SET %I = %L', attname, value))) > 500
	AND fault(format('UPDATE atproto.subscription SET %I = %L', attname, value)) !~ 'malformed array literal'
ORDER BY attname, value;
SELECT fault('UPDATE atproto.subscription SET slice = repeat(''é'', 100)');
SELECT fault('INSERT INTO atproto.request_header VALUES (''one'', repeat(''é'', 100), ''secret'')');
SELECT fault('SELECT atproto.pause(repeat(''é'', 100))');

-- The words that are accepted are those that the table's checks name.
SELECT a.attname, w.word FROM pg_constraint c JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1],
	LATERAL (SELECT m[1] AS word FROM regexp_matches(pg_get_constraintdef(c.oid), '''([a-z-]+)''::text', 'g') m) w
WHERE c.conrelid = 'atproto.subscription'::regclass AND c.contype = 'c' AND a.attname IN ('events', 'verify', 'backfill', 'fetch_as', 'handles')
	AND fault(format('UPDATE atproto.subscription SET %I = %L', a.attname, w.word)) ~ 'invalid value';

-- of subscribe()
SELECT args, fault(format('SELECT atproto.subscribe(''two'', ''wss://a.example'', %s)', args)) FROM unnest(ARRAY[
	'events => ''all''', 'events => NULL', 'workers => 0', 'workers => NULL', 'target => NULL', 'host_is_pds => NULL', 'verify => ''none''',
	'"cursor" => -1', '"cursor" => 9007199254740992', 'target => ''nowhere''',
	'headers => ''[]''', 'headers => ''{"A B": "secret"}''', 'headers => ''{"": "secret"}''', 'headers => ''{"Host": "secret"}''',
	'headers => ''{"SEC-WebSocket-Key": "secret"}''', 'headers => ''{"A": null}''', 'headers => ''{"A": "secret\n"}''',
	'headers => ''{"A": "sécret"}''']) a (args);
SELECT fault(format('INSERT INTO atproto.request_header VALUES (''one'', %L, %L)', name, value)) FROM (VALUES
	(repeat('n', 65), 'secret'), (NULL, 'secret'), ('A', repeat('s', 4097)), ('A', NULL), ('A', '')) h (name, value);
INSERT INTO atproto.request_header VALUES ('one', 'A', 'secret');
SELECT fault('UPDATE atproto.request_header SET name = ''upgrade''');
SELECT fault('UPDATE atproto.request_header SET subscription = NULL');
SELECT atproto_internal.request_header_check();

-- of set_cursor()
SELECT seq, fault(format('SELECT atproto.set_cursor(''one'', %s)', seq)) FROM unnest('{-1, 9007199254740992, 9223372036854775807, -9223372036854775808}'::bigint[]) s (seq);

-- What a client sees names none of the statements that these functions run, but what has called them, and what has failed in a trigger.
SELECT atproto.subscribe('two', 'wss://a.example', verify => 'none');
SELECT atproto.subscribe('two', 'wss://a.example', headers => '{"Host": "secret"}');
DO $$ BEGIN PERFORM atproto.subscribe('two', 'wss://a.example', dids => '{NULL}'); END $$;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$;
CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON atproto.subscription FOR EACH ROW EXECUTE FUNCTION refuse();
SELECT atproto.subscribe('two', 'wss://a.example');
DO $$ BEGIN PERFORM atproto.pause('one'); END $$;
UPDATE atproto.subscription SET enabled = false;
DROP TRIGGER refuse ON atproto.subscription;
DROP FUNCTION refuse();

CREATE ROLE regress_atproto_option;
GRANT USAGE ON SCHEMA atproto TO regress_atproto_option;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA atproto TO regress_atproto_option;
SET ROLE regress_atproto_option;
SELECT atproto.subscribe('two', 'wss://a.example');
SELECT atproto.unsubscribe('one');
SELECT atproto.pause('one');
SELECT atproto.resume('one');
SELECT atproto.set_cursor('one', 1);
SELECT atproto.close_gap(1);
RESET ROLE;
CREATE SCHEMA regress_not_his;
GRANT ALL ON ALL TABLES IN SCHEMA atproto TO regress_atproto_option;
SET ROLE regress_atproto_option;
SELECT atproto.subscribe('two', 'wss://a.example', target => 'regress_not_his');
RESET ROLE;
DROP SCHEMA regress_not_his;
DROP OWNED BY regress_atproto_option;
DROP ROLE regress_atproto_option;

-- An archive is a Jetstream's of version 2; a fold of its rows needs the deletions.
SELECT left(options, 60) AS options, fault(format('SELECT atproto.subscribe(''archive'', %s, history => ''archive'')', options)) FROM (VALUES
	('''wss://bsky.network'''), ('''wss://a.example/subscribe'''),
	('''wss://a.example/xrpc/network.bsky.jetstream.subscribeEvents'', actions => ''{create,update}'''),
	('''wss://a.example/xrpc/network.bsky.jetstream.subscribeEvents'', host_is_pds => true'),
	('''wss://a.example/xrpc/network.bsky.jetstream.subscribeEvents'', archive_source => ''http://a.example'''),
	('''wss://a.example/xrpc/network.bsky.jetstream.subscribeEvents'', cursor => 1700000000000000'),
	('''wss://a.example/xrpc/network.bsky.jetstream.subscribeEvents'', archive_token => E''secret\n''')) v (options);

DELETE FROM atproto.subscription;
DROP FUNCTION fault(text);
