# 231_dump.pl
#		pg_dump of a database with subscriptions, restored into a new database of the same server, keeps
#		settings, cursor, headers, dead letters, gaps, the tables with their users' indexes and triggers,
#		Lexicons, views of collections, and columns of every type.  A restored subscription waits for
#		resume(), and then continues at the event where the dump was made.  E-43.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds    = capture('pds.frames.gz');
my $held   = 800;
my $node   = make_node('dump', databases => 'postgres, copy, custom', conf => "max_worker_processes = 16\n");
my $server = AtprotoTest::Server->start($pds, '--hold-at', $held);
my $dir    = PostgreSQL::Test::Utils::tempdir();

# --- what there is ---

query(<<'SQL');
CREATE SCHEMA "My ""tables""";
SELECT atproto.create_tables('My "tables"');
CREATE INDEX text_of_posts ON "My ""tables""".record ((value ->> 'text')) WHERE collection = 'app.bsky.feed.post';
CREATE TABLE public.seen (collection nsid PRIMARY KEY, n bigint NOT NULL);
CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.seen SELECT collection, count(*) FROM new_rows GROUP BY 1
	ON CONFLICT (collection) DO UPDATE SET n = seen.n + excluded.n;
	RETURN NULL;
END $$;
CREATE TRIGGER see AFTER INSERT ON "My ""tables""".record_event REFERENCING NEW TABLE AS new_rows
	FOR EACH STATEMENT EXECUTE FUNCTION public.see();
SQL
query(slurp_file(test_dir() . '/lib/every_type.sql'));
query(subscribe_sql('held', $server, cursor => 0, target => q('My "tables"'), events => "'keep'",
		headers => q('{"Authorization": "Bearer secret"}')));
query(subscribe_sql('paused', $server, cursor => 5, collections => "ARRAY['app.bsky.*']",
		dids => "ARRAY['did:plc:ewvi7nxzyoun6zhxrhs64oiz']::did[]", actions => "ARRAY['delete']", keep_raw => 'true', format => "'dag-cbor'"));
query("SELECT atproto.pause('paused')");
query(<<'SQL');
INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason) VALUES ('held', 'x', 1, 2, 'OutdatedCursor');
INSERT INTO atproto.zstd_dictionary (subscription, endpoint, dictionary, changed_at, due_at) VALUES ('held', 'x', '\x37a430ec', '2020-01-01', '2020-01-01');
INSERT INTO atproto.history (subscription, endpoint, phase, tip, passes, blocks) VALUES ('held', 'x', 'rows', 77, 2, 3);
INSERT INTO atproto.blocked_account VALUES ('did:plc:aaaaaaaaaaaaaaaaaaaaaaaa', 'My "tables"'), ('did:plc:aaaaaaaaaaaaaaaaaaaaaaab', NULL);
INSERT INTO atproto.proof_sample (target, seed, share, asked_at) VALUES ('My "tables"', 5, 0.5, '2020-01-01');
INSERT INTO atproto.proof_result (target, did, subscription, proved_set, state, equal, records, missing, at)
	VALUES ('My "tables"', 'did:plc:44ybard66vv44zksje25o7dz', 'held', -1, 'done', false, 2, 1, '2020-01-01');
INSERT INTO "My ""tables""".sweep_deletion (did, path, rev) VALUES ('did:plc:44ybard66vv44zksje25o7dz', 'com.example.a/1', '3jwdwj2ctlk26');
INSERT INTO atproto.request_header VALUES ('held', 'Authorization', 'Bearer other', true);
INSERT INTO atproto.dead_frame VALUES ('held', sha256('\x00'), '\x00');
INSERT INTO atproto.dead_letter (subscription, seq, stage, sqlstate, message, digest)
	VALUES ('held', 3, 'frame', '22P03', 'no frame', sha256('\x00'));
INSERT INTO atproto.web_address VALUES ('https://example.com/{authority}/{rkey}', 'at://{authority}/com.example.record/{rkey}');
SQL
# a Lexicon that replaces a bundled one, and views, one with a column of an earlier revision
my $without = q{jsonb_set(doc, '{defs,main,record,properties}', (doc #> '{defs,main,record,properties}') - 'tags')};
query(<<"SQL");
SELECT atproto.create_view('app.bsky.feed.post', target => 'My "tables"');
SELECT atproto.load_lexicon($without, replace => true) FROM atproto.lexicon WHERE id = 'app.bsky.feed.post';
SELECT atproto.load_lexicon('{"lexicon": 1, "id": "org.example.own", "defs": {"main": {"type": "record", "key": "any", "record": {"type": "object", "properties": {"end\\"": {"type": "string"}}}}}}');
SELECT atproto.create_view('org.example.own', target => 'My "tables"', schema => 'public', view => 'My "own"');
CREATE VIEW public.on_it AS SELECT uri, text, reply_parent_uri, tags FROM "My ""tables""".app_bsky_feed_post;
SQL
wait_for_seq($node, 'held', $held - 1);
is(query(q{SELECT atproto.hide(did, 'My "tables"') FROM "My ""tables""".repo ORDER BY did LIMIT 1}), 't', 'an account is hidden');
# the contents of a view, computed by PostgreSQL's own functions
is(query(<<'SQL'), 't|0', 'a view has what the records have');
SELECT count(*) > 50, count(*) FILTER (WHERE (p.text, p.created_at, p.langs, p.reply_parent_uri::text, p.embed) IS DISTINCT FROM
	(value->>'text', (value->>'createdAt')::timestamptz, CASE WHEN value ? 'langs' THEN ARRAY(SELECT jsonb_array_elements_text(value->'langs')) END,
	value #>> '{reply,parent,uri}', value->'embed'))
FROM "My ""tables""".app_bsky_feed_post p JOIN "My ""tables""".record r USING (did, rkey) WHERE collection = 'app.bsky.feed.post' AND value IS NOT NULL;
SQL
my ($requests) = scalar(() = $server->cursors);

# The contents of one database, except whether a subscription runs and who owns its target: resume() finds that
# out.
sub contents
{
	my ($database) = @_;
	return query(<<'SQL', database => $database);
SELECT 's', to_jsonb(s) - 'stopped' - 'stopped_at' - 'target_owner' FROM atproto.subscription s ORDER BY name;
SELECT 'c', to_jsonb(c) - 'updated_at' - 'seq' - 'events' - 'record_ops' - 'event_time' - 'settings_after', CASE WHEN subscription = 'held' THEN seq END FROM atproto.cursor c ORDER BY subscription;
SELECT 'h', to_jsonb(h) FROM atproto.request_header h ORDER BY subscription, name, archive;
SELECT 'd', to_jsonb(d), to_jsonb(f) FROM atproto.dead_letter d JOIN atproto.dead_frame f USING (subscription, digest) ORDER BY id;
SELECT 'g', to_jsonb(g) FROM atproto.gap g ORDER BY id;
SELECT 'y', to_jsonb(y) FROM atproto.history y;
SELECT 'z', to_jsonb(z) FROM atproto.zstd_dictionary z;
SELECT 'n', seen FROM public.seen ORDER BY collection;
SELECT 'e', every.contents();
SELECT 'f', every.found();
SELECT 'l', to_jsonb(l) FROM atproto.lexicon_loaded l ORDER BY id;
SELECT 'a', to_jsonb(a) FROM atproto.known_web_address a ORDER BY pattern;
SELECT 'v', count(text) > 0, md5(string_agg(v::text, ' ' ORDER BY uri)) FROM public.on_it v;
SELECT 'q', to_jsonb(q) FROM atproto.proved_set q ORDER BY target, id;
SELECT 'k', to_jsonb(k) FROM atproto.blocked_account k;
SELECT 'o', did, hidden_at FROM "My ""tables""".repo WHERE hidden_at IS NOT NULL;
SELECT 'p', to_jsonb(p), to_jsonb(r) FROM atproto.proof_sample p JOIN atproto.proof_result r USING (target);
SELECT 'x', to_jsonb(x) FROM "My ""tables""".sweep_deletion x;
SELECT 'w', count(*), obj_description('public."My ""own"""'::regclass) FROM public."My ""own""";
SELECT 'i', indexdef FROM pg_indexes WHERE schemaname = 'My "tables"' ORDER BY 2;
SELECT 't', pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid::regclass::text LIKE '"My ""tables""".%' AND NOT tgisinternal ORDER BY 2;
SQL
}

# The definitions of objects with columns of the types.
sub definitions
{
	my ($database) = @_;
	my ($out, $err) = run_command([ 'pg_dump', '--host', $node->host, '--port', $node->port, '--schema-only', '--schema', 'every', $database ]);

	BAIL_OUT("no definitions: $err") if $err ne '';
	$out =~ s/^\\(un)?restrict .*\n//mg;
	return $out;
}

my $before = contents('postgres');
like($before, qr/Bearer secret/, 'there is something to compare');

# --- plain text through psql, and the custom format through pg_restore ---

my @at = ('--host', $node->host, '--port', $node->port, '--username', getpwuid($<) // 'postgres');
query('CREATE DATABASE copy TEMPLATE template0');
query('CREATE DATABASE custom TEMPLATE template0');
$node->command_ok([ 'pg_dump', @at, '--file', "$dir/plain", 'postgres' ], 'pg_dump');
$node->command_ok([ 'psql', @at, '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', "$dir/plain", 'copy' ], 'psql');
$node->command_ok([ 'pg_dump', @at, '--format=custom', '--file', "$dir/custom", 'postgres' ], 'pg_dump --format=custom');
$node->command_ok([ 'pg_restore', @at, '--exit-on-error', '--dbname', 'custom', "$dir/custom" ], 'pg_restore');

foreach my $database ('copy', 'custom')
{
	is(contents($database), $before, "$database: everything is there");
	is(definitions($database), definitions('postgres'), "$database: everything is defined as it was");
	is(query(q{SELECT source FROM atproto.lexicon WHERE id IN ('app.bsky.feed.like', 'app.bsky.feed.post', 'org.example.own') ORDER BY id}, database => $database),
		"bundled\nloaded\nloaded", "$database: each Lexicon is there once");
	query(q{SELECT atproto.create_view('app.bsky.feed.post', target => 'My "tables"')}, database => $database);
	query(q{SELECT atproto.create_view('org.example.own', '{"lexicon": 1, "id": "org.example.own", "defs": {"main": {"type": "record", "key": "any", "record": {"type": "object", "properties": {"end\"": {"type": "string"}, "end": {"type": "string"}}}}}}',
			'My "tables"', 'public', 'My "own"')}, database => $database);
	is(query(q{SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'public."My ""own"""'::regclass AND attnum > 5}, database => $database),
		'end_ end__2', "$database: a view gets a column that is new");
	is(query('SELECT DISTINCT stopped FROM atproto.subscription', database => $database),
		'restored, or inserted by hand; atproto.resume() starts it', "$database: and waits");
	is(query('SELECT DISTINCT target_owner FROM atproto.subscription', database => $database), '0', "$database: the owner of a schema is none that the dump names");
	tables_match($node, $pds, "$database: the tables are as they were", database => $database, schema => '"My ""tables"""',
		modes => [ 'record', 'repo', 'event' ], args => [ '--last', $held - 1 ]);
	is(query(q{INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message)
			SELECT 'held', 'beyond', sqlstate, message FROM atproto.dead_letter RETURNING id}, database => $database),
		'2', "$database: new dead letters have new numbers");
	query('DELETE FROM atproto.dead_letter WHERE id = 2', database => $database);
}

# The copy has a manager, which leaves the restored subscriptions alone.
$node->poll_query_until('postgres', "SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'atproto manager' AND datname IN ('copy', 'custom') AND state = 'idle'");
is(query("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND datname <> 'postgres'"), '0', 'nothing consumes there');
is(scalar(() = $server->cursors), $requests, 'nothing connected');

# --- resumed ---

query("SELECT atproto.resume('held')", database => 'copy');
my @log = $server->wait_for_log(request => $requests + 1);
is($log[-1]{cursor}, $held - 1, 'resume(): it asks for what comes after the dump');
my %headers = map { lc $_->[0] => $_->[1] } @{ $log[-1]{headers} };
is($headers{authorization}, 'Bearer secret', 'with its headers');
$server->release;
wait_for_seq($node, 'held', $PDS_LAST, $_) foreach 'postgres', 'copy';
foreach my $database ('postgres', 'copy')
{
	tables_match($node, $pds, "$database: all is as the oracle says", database => $database, schema => '"My ""tables"""',
		modes => [ 'record', 'repo', 'event' ]);
	is(query("SELECT events FROM atproto.cursor WHERE subscription = 'held'", database => $database), $PDS_LAST, "$database: each event was processed once");
	is(query('SELECT sum(n) = (SELECT count(*) FROM "My ""tables""".record_event) FROM public.seen', database => $database), 't', "$database: so says the trigger");
}
is(query("SELECT seq FROM atproto.cursor WHERE subscription = 'held'", database => 'custom'), $held - 1, 'the other copy still waits');
is(query("SELECT string_agg(name || ' ' || state, ', ' ORDER BY name) FROM atproto.stat_subscription", database => 'copy'), 'held streaming, paused stopped', 'as does the other subscription');

$node->stop;
done_testing();
