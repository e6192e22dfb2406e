# 130_control.pl
#		The SQL functions for the control of consumers: effects, refused arguments, and roles without the
#		right to call.  E-01, E-44.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds = capture('pds.frames.gz');

# Only the change itself may wake the manager; without a wake-up it reads the table once a minute, so the test
# must see the change sooner.
my $node = make_node(
	'control', conf => <<'EOF');
atproto.ping_interval = 0
atproto.idle_timeout = 0
EOF
$AtprotoTest::TIMEOUT = 40;
my $server = AtprotoTest::Server->start($pds, '--hold-at', 300);
my $url    = $server->url;

# The SQLSTATE and message of an error, or '' without an error.
sub error_of
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	return $err =~ /ERROR:\s+(\w+: [^\n]*)/ ? $1 : '';
}

my $nobody = "NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'atproto consumer')";

# --- subscribe ---

is(query(subscribe_sql('s', $server, cursor => 0)), '', 'subscribe returns nothing');
is(query('SELECT name, url, endpoint, owner = current_user::regrole, enabled, allow_insecure, ca_file, stopped FROM atproto.subscription'),
	"s|$url|$url|t|t|f||", 'it makes a subscription');
wait_for('SELECT seq = 299 FROM atproto.cursor');
is(query("BEGIN; SELECT atproto.subscribe('undone', '$url'); ROLLBACK; SELECT count(*) FROM atproto.subscription"),
	"\n1", 'it is part of the transaction');

my $path = '/xrpc/com.atproto.sync.subscribeRepos';
foreach (
	[ q{NULL, 'wss://a.test'},             qr/^22004: /, 'no name' ],
	[ q{'x', NULL},                        qr/^22004: /, 'no URL' ],
	[ q{'x', 'wss://a.test', allow_insecure => NULL}, qr/^22004: /, 'neither secure nor insecure' ],
	[ "'s', '$url'",                       qr/^42710: /, 'a name that is taken' ],
	[ q{'', 'wss://a.test'},               qr/^22023: /, 'an empty name' ],
	[ q{repeat('x', 64), 'wss://a.test'},  qr/^22023: /, 'a name that is too long' ],
	[ q{'x', 'wss://a.test', -1},          qr/^22023: /, 'a negative cursor' ],
	[ q{'x', 'wss://a.test', 1::int8<<53}, qr/^22023: /, 'a cursor of 2^53' ],
	[ q{'x', ''},                          qr/^22023: /, 'an empty URL' ],
	[ q{'x', 'a.test'},                    qr/^22023: /, 'a URL without a scheme' ],
	[ "'x', 'https://a.test$path'",        qr/^22023: /, 'another scheme' ],
	[ "'x', 'wss://$path'",                qr/^22023: /, 'a URL without a host' ],
	[ "'x', 'wss://me:secret\@a.test$path'", qr/^22023: /, 'a password in the URL' ],
	[ "'x', 'wss://a.test:99999$path'",    qr/^22023: /, 'a port that is none' ],
	[ q{'x', 'wss://a.test/xrpc/x'},       qr/^22023: /, 'a path without an NSID' ],
	[ q{'x', 'wss://a.test/other/'},       qr/^22023: /, 'another path' ],
	[ "'x', E'wss://a.test$path?a=b\\r\\nX: y'", qr/^22023: /, 'a line break in the URL' ],
	[ "'x', 'ws://a.test$path'",           qr/^22023: .*encrypted/, 'an unencrypted URL of another host' ],
	[ "'x', 'ws://127.0.0.1.a.test$path'", qr/^22023: .*encrypted/, 'one that looks like this host' ],
	[ "'x', 'ws://[::2]$path'",            qr/^22023: .*encrypted/, 'another address' ])
{
	my ($args, $error, $name) = @$_;
	like(error_of("SELECT atproto.subscribe($args)"), $error, "subscribe refuses $name");
}
is(query('SELECT count(*) FROM atproto.subscription'), '1', 'and makes nothing');
foreach my $good ('ws://localhost', 'ws://LOCALHOST:80', 'ws://[::1]:3000', 'ws://127.9.9.9', 'wss://a.test', "wss://a.test:99$path?a=b&cursor=5")
{
	is(error_of("BEGIN; SELECT atproto.subscribe('x', '$good'); ROLLBACK"), '', "subscribe takes $good");
}
is(error_of("BEGIN; SELECT atproto.subscribe('x', 'ws://a.test', allow_insecure => true); ROLLBACK"),
	'', 'and an unencrypted one when told so');

# --- the others ---

foreach my $f ("unsubscribe('x')", "pause('x')", "resume('x')", "set_cursor('x', 1)", "set_cursor('x', NULL)")
{
	like(error_of("SELECT atproto.$f"), qr/^42704: subscription "x" does not exist/, "$f: no such subscription");
}
like(error_of('SELECT atproto.set_cursor(NULL, 1)'), qr/^22004: /, 'set_cursor: no name');
like(error_of("SELECT atproto.set_cursor('s', -1)"), qr/^22023: /, 'set_cursor: a negative cursor');
is(query('SELECT atproto.pause(NULL), atproto.resume(NULL), atproto.unsubscribe(NULL)'), '||', 'NULL is no name');
is(query('SELECT count(*) FROM atproto.subscription WHERE enabled'), '1', 'and does nothing');

foreach my $i (1 .. 10)
{
	query("SELECT atproto.pause('s')");
	wait_for("SELECT $nobody");
	is(query('SELECT state, pid, seq FROM atproto.stat_subscription'), 'paused||299', 'paused') if $i == 1;
	query("SELECT atproto.resume('s')");
	wait_for("SELECT state = 'streaming' AND pid IS NOT NULL FROM atproto.stat_subscription");
}
pass('pause and resume are heard at once, every time');
is(join(' ', $server->cursors), join(' ', 0, (299) x 10), 'the cursor stays');

query("SELECT atproto.set_cursor('s', 100)");
$server->wait_for_log(request => 12);
is(($server->cursors)[-1], '100', 'set_cursor: the consumer continues there');
wait_for('SELECT seq = 299 FROM atproto.cursor');
query("BEGIN; SELECT atproto.set_cursor('s', NULL); COMMIT");
$server->wait_for_log(request => 13);
is(($server->cursors)[-1], undef, 'set_cursor to NULL: without a cursor');

query(q{INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason) VALUES ('s', 'x', 1, 2, 'x');
	INSERT INTO atproto.dead_frame VALUES ('s', 'x', 'x');
	INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, digest) VALUES ('s', 'frame', 'x', 'x', 'x')});
my $records = query('SELECT count(*) FROM atproto.record');
query("SELECT atproto.unsubscribe('s')");
wait_for("SELECT $nobody");
is(query("SELECT (SELECT count(*) FROM atproto.$_)"), '0', "unsubscribe empties $_")
  foreach 'subscription', 'cursor', 'gap', 'dead_letter', 'dead_frame';
is(query('SELECT count(*) FROM atproto.record'), $records, 'records stay');
wait_for('SELECT count(*) = 0 FROM atproto_internal.stream_status()');
pass('its status goes');

# --- who may ---

query('CREATE ROLE plain; CREATE ROLE other LOGIN; CREATE ROLE streamer LOGIN');
is( query(q{SELECT coalesce(string_agg(p.oid::regprocedure::text, ', '), 'none') FROM pg_proc p
		WHERE pronamespace IN ('atproto'::regnamespace, 'atproto_internal'::regnamespace)
		AND has_schema_privilege('plain', pronamespace, 'USAGE') AND has_function_privilege('plain', p.oid, 'EXECUTE')
		AND proname IN ('subscribe', 'unsubscribe', 'pause', 'resume', 'set_cursor', 'retry', 'wake', 'stream_status')}),
	'none', 'a plain role may call nothing of the consumer');
is( query(q{SELECT coalesce(string_agg(c.oid::regclass::text, ', '), 'none') FROM pg_class c
		WHERE relnamespace = 'atproto'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S')
		AND (relkind <> 'S' AND relname !~ '^lexicon|web_address$' AND has_any_column_privilege('plain', c.oid, 'SELECT')
			OR relkind <> 'S' AND has_any_column_privilege('plain', c.oid, 'INSERT, UPDATE')
			OR relkind <> 'S' AND has_table_privilege('plain', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
			OR relkind = 'S' AND has_sequence_privilege('plain', c.oid, 'USAGE, SELECT, UPDATE'))}),
	'none', 'and read no table but Lexicons and web addresses, nor write any');
like(error_of("SET ROLE plain; SELECT atproto.subscribe('x', '$url')"), qr/^42501: /, 'it cannot subscribe');
like(error_of('SET ROLE plain; SELECT * FROM atproto.stat_subscription'), qr/^42501: /, 'nor see what others do');
is(error_of('SET ROLE pg_monitor; SELECT * FROM atproto.stat_subscription'), '', 'pg_monitor can');

query("GRANT USAGE ON SCHEMA atproto TO $_; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA atproto TO $_;
	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA atproto TO $_") foreach 'streamer', 'other';
query('REVOKE INSERT ON atproto.record FROM streamer');
$server->restart;
my $lacks = 'role "streamer" may not fill schema "atproto": the role lacks INSERT on table atproto.record';
my $subscribe = subscribe_sql('mine', $server, cursor => 0);
like(error_of("SET ROLE streamer; $subscribe"), qr/^42501: $lacks/, 'who may not write the tables cannot subscribe');
query("GRANT INSERT ON atproto.record TO streamer; BEGIN; SET LOCAL ROLE streamer; $subscribe; RESET ROLE; REVOKE INSERT ON atproto.record FROM streamer; COMMIT");
wait_for("SELECT stopped = '$lacks' FROM atproto.subscription");
is(query('SELECT coalesce(seq, 0), events FROM atproto.cursor'), '0|0', 'a consumer has the rights of its owner only');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'a missing right condemns no record');
query("GRANT INSERT ON atproto.record TO streamer; SELECT atproto.resume('mine')");
wait_for("SELECT usename = 'streamer' FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
wait_for("SELECT seq = $PDS_LAST FROM atproto.cursor");
tables_match($node, $pds, 'with the right, all arrives');

like(error_of("SET ROLE other; SELECT atproto.$_"), qr/^42704: subscription "mine" does not exist/, "another role cannot $_")
  foreach "pause('mine')", "resume('mine')", "set_cursor('mine', 0)", "unsubscribe('mine')";
is(query('SET ROLE other; SELECT (SELECT count(*) FROM atproto.subscription), (SELECT count(*) FROM atproto.cursor)'),
	"0|0", 'nor see it');
like(error_of("SET ROLE streamer; UPDATE atproto.subscription SET owner = '$_'"), qr/^42501: must be a member/,
	"the owner cannot become $_")
  foreach 'other', 'postgres';
like(error_of("SET ROLE streamer; INSERT INTO atproto.subscription (name, url, endpoint, owner) VALUES ('x', '$url', '', 'postgres')"),
	qr/^42501: must be a member/, 'nor does a row by hand lend the rights of another');
query('GRANT other TO streamer');
is(error_of("SET ROLE streamer; UPDATE atproto.subscription SET owner = 'other'"), '', 'but a role that it is a member of');
wait_for("SELECT usename = 'other' FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
pass('and the consumer runs as that one');

$node->stop;
done_testing();
