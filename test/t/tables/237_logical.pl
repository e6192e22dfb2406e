# 237_logical.pl
#		Logical replication: every type, as text and binary, and keys of our types as replica identity; the
#		tables that a consumer fills on the publisher; and the table of subscriptions: on the subscriber no
#		replicated subscription starts until resume() moves the consumer there. The log of a did:plc directory moves
#		likewise, and is believed on the subscriber (M-30).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Plc;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds    = capture('pds.frames.gz');
my $held   = 800;
my $server = AtprotoTest::Server->start($pds, '--hold-at', $held);
my @copies = ('as_text', 'as_binary');
my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
# the log's operations are at most 50 minutes old
my $conf   = $network->settings . "atproto.plc_lag = 1h\natproto.reconnect_delay = 50ms\natproto.reconnect_max_delay = 200ms\n";
my $pub    = make_node('publisher', init => { allows_streaming => 'logical' }, start => $preload, conf => "${conf}max_connections = 30\nmax_worker_processes = 16\n");
my $sub    = make_node('subscriber', databases => join(', ', @copies), create => 0, start => $preload,
	conf => "${conf}max_worker_processes = 30\nmax_logical_replication_workers = 12\nmax_sync_workers_per_subscription = 3\n");

sub on_pub
{
	my ($sql) = @_;
	return $pub->safe_psql('postgres', $sql);
}

# Waits until both copies have everything committed on the publisher.
sub catch_up
{
	$pub->wait_for_catchup($_) foreach @copies;
	return;
}

sub contents
{
	my ($node, $database) = @_;
	return join "\n", map { $node->safe_psql($database, $_) } 'REFRESH MATERIALIZED VIEW every.newest', 'SELECT every.contents()', 'SELECT every.found()',
	  'TABLE atproto.request_header', 'TABLE atproto.dead_letter', 'TABLE atproto.dead_frame', 'TABLE atproto.gap', 'SELECT c FROM atproto.cursor c ORDER BY subscription',
	  'SELECT o FROM plc.plc_operation o ORDER BY did, n', 'TABLE plc.plc_text ORDER BY id', 'TABLE atproto.identity';
}

sub states
{
	return map { $sub->safe_psql($_, "SELECT string_agg(state || ': ' || last_error, ', ') FROM atproto.stat_subscription WHERE name = 's'") } @copies;
}

# --- the publisher ---

on_pub(slurp_file(test_dir() . '/lib/every_type.sql'));
on_pub(subscribe_sql('s', $server, cursor => 0, events => "'hand'", headers => q('{"Authorization": "Bearer secret"}')));
my $now = time . '000';
my ($did) = map { /^rotated\t([^\t]*)/ } split /\n/, slurp_file(make_capture('plc_full.py', 'names', $now));
$network->directories({ $PLC => { log => make_capture('plc_full.py', 'log', $now), upto => 90 } });
on_pub("CREATE SCHEMA plc; SELECT atproto.subscribe('plc', 'ws://$PLC/export/stream', target => 'plc', allow_insecure => true, identities => true)");
$pub->poll_query_until('postgres', 'SELECT fresh FROM atproto.stat_directory') or BAIL_OUT('the log is not fresh');
on_pub("CALL atproto.await('$did')");
on_pub(<<'SQL');
INSERT INTO atproto.gap (subscription, endpoint, after_seq, reason) VALUES ('s', 'x', 1, 'OutdatedCursor');
INSERT INTO atproto.dead_frame VALUES ('s', '\x', '\x');
INSERT INTO atproto.message (subscription, endpoint, seq, type) VALUES ('s', 'x', 1, '#x');
INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, digest) VALUES ('s', 'frame', '22P03', 'no frame', '\x');
CREATE PUBLICATION everything FOR ALL TABLES;
SQL

# --- the subscriber: definitions, then data ---

my ($definitions, $err) = run_command([ 'pg_dump', '--host', $pub->host, '--port', $pub->port, '--schema-only', '--schema', 'every', 'postgres' ]);
BAIL_OUT("no definitions: $err") if $err ne '';
foreach my $copy (@copies)
{
	my $binary = $copy eq 'as_binary' ? 'true' : 'false';

	$sub->safe_psql('postgres', "CREATE DATABASE $copy");
	$sub->safe_psql($copy, q{CREATE EXTENSION atproto; CREATE SCHEMA plc; SELECT atproto.create_tables('atproto'), atproto.create_tables('plc')});
	$sub->safe_psql($copy, $definitions);
	# the bundled Lexicons come with the publication, too
	$sub->safe_psql($copy, 'TRUNCATE atproto.lexicon_bundled');
	$sub->safe_psql($copy, "CREATE SUBSCRIPTION $copy CONNECTION '" . $pub->connstr . " dbname=postgres' PUBLICATION everything WITH (binary = $binary)");
}
foreach my $copy (@copies)
{
	$sub->poll_query_until($copy, "SELECT count(*) > 20 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel")
	  or BAIL_OUT('the tables were not copied');
}

# --- changes ---

wait_for_seq($pub, 's', $held - 1);
on_pub(<<'SQL');
INSERT INTO every.plain (n, tid, uri) VALUES (1000, '3jwdwj2ctlk26', 'at://a.b');
UPDATE every.plain SET uri = ~ uri, tids = tids || tid, ref = NULL, did = 'did:web:a.b' WHERE n % 7 = 0;
DELETE FROM every.plain WHERE n % 11 = 0;
UPDATE every.modified SET records = '{}' WHERE n % 3 = 0;
UPDATE every.by_uri SET cid = cidlink_of(uri::text::bytea) WHERE cid < (SELECT cid FROM every.plain WHERE n = 100);
UPDATE every.by_uri SET uri = (uri::text || 'x')::aturi WHERE aturi_rkey(uri) = 'self';
DELETE FROM every.by_parts WHERE did > 'did:plc:m';
UPDATE every.by_parts SET rkey = (rkey::text || 'x')::recordkey, tid = NULL WHERE did < 'did:plc:b';
UPDATE every.without_key SET uris = uris || uris WHERE did >= 'did:plc:m';
DELETE FROM every.without_key WHERE did < 'did:plc:b';
UPDATE every.ranged SET uri = 'at://a.b' WHERE uri = (SELECT min(uri) FROM every.ranged_plc);
UPDATE every.by_uri SET cid = cidlink_of(cid::bytea) WHERE aturi_rkey(uri) <> 'self';
SQL
catch_up();
foreach my $copy (@copies)
{
	is(contents($sub, $copy), contents($pub, 'postgres'), "$copy: the same");
	tables_match($sub, $pds, "$copy: what the consumer wrote", database => $copy, args => [ '--last', $held - 1 ]);
}

# --- Lexicons: sessions on the subscriber keep compiled ones ---

my $like    = 'app.bsky.feed.like';
my $verdict = "SELECT coalesce(atproto.lexicon_valid('{\"\$type\": \"$like\"}', '$like'), 'valid')";
my %session = map { ($_ => $sub->background_psql($_)) } @copies;

foreach my $change ("'before'",
	(map { qq[atproto.load_lexicon('{"lexicon": 1, "id": "$like", "defs": {"main": {"type": "record", "key": "any", "record": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": [$_]}}}}', true)] } '', '"n"'),
	"atproto.unload_lexicon('$like')")
{
	on_pub("SELECT $change");
	catch_up();
	my $expected = on_pub($verdict);
	is($session{$_}->query_safe($verdict), $expected, "$_: a session that judged before judges as the publisher: $expected") foreach @copies;
}
$_->quit foreach values %session;

# --- subscriptions on the subscriber ---

my $stopped = 'stopped: restored, or inserted by hand; atproto.resume() starts it';
is_deeply([ states() ], [ $stopped, $stopped ], 'a replicated subscription is stopped');
my $cursors = scalar(() = $server->cursors);
on_pub("SELECT atproto.pause('s')");
# a consumer that saw pause() and resume() at once would keep its connection
$pub->poll_query_until('postgres', "SELECT pid IS NULL FROM atproto.stat_subscription WHERE name = 's'") or BAIL_OUT('the publisher does not pause');
on_pub("SELECT atproto.resume('s')");
$pub->poll_query_until('postgres', "SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 's'");
catch_up();
is_deeply([ states() ], [ $stopped, $stopped ], 'and stays so when it is paused and resumed on the publisher');
is($sub->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'atproto consumer'"), '0', 'nothing consumes there');
is(scalar(() = $server->cursors), $cursors + 1, 'and nobody but the publisher connects');

# --- the consumer moves ---

on_pub("SELECT atproto.pause(name) FROM atproto.subscription");
$pub->poll_query_until('postgres', 'SELECT bool_and(pid IS NULL) FROM atproto.stat_subscription');
catch_up();
is($sub->safe_psql('as_binary', 'SELECT believed, fresh FROM atproto.stat_directory'), 't|f', 'M-30: the log is believed on the subscriber, and not followed yet');
$sub->safe_psql('as_binary', $_) foreach 'DROP SUBSCRIPTION as_binary',
  (map { "SELECT setval('atproto.${_}_id_seq', max(id)) FROM atproto.$_" } qw(dead_letter gap held_release message)),
  q{SELECT atproto.resume(name) FROM atproto.subscription};
$sub->poll_query_until('as_binary', "SELECT bool_and(state = 'streaming') FROM atproto.stat_subscription")
  or BAIL_OUT('the subscriber does not consume');
is(($server->cursors)[-1], $held - 1, 'resume() on the subscriber: it goes on where the publisher stopped');
$server->release;
wait_for_seq($sub, 's', $PDS_LAST, 'as_binary');
tables_match($sub, $pds, 'all is as the oracle says', database => 'as_binary');
is($sub->safe_psql('as_binary', q{SELECT events FROM atproto.cursor WHERE subscription = 's'}), $PDS_LAST, 'each event was processed once, here or there');
is($sub->safe_psql('as_binary', q{INSERT INTO atproto.gap (subscription, endpoint, after_seq, reason) VALUES ('s', 'x', 2, 'x') RETURNING id}), '2', 'numbers go on');

is($sub->safe_psql('as_binary', q{SELECT c FROM atproto.check() c WHERE c::text ~ 'number that is taken'}), '', 'of every table');

# --- the log of the directory goes on ---

$network->directories({ $PLC => { do => { publish => 120 } } });
$sub->poll_query_until('as_binary', "SELECT seq >= 120 FROM atproto.cursor WHERE subscription = 'plc'") or BAIL_OUT('the log is not read');
is($sub->safe_psql('as_binary', "SELECT fresh, i.log_time = max(o.created_at), atproto.did_key(i.key) = atproto.plc_key(i.did, NULL, 'plc') FROM atproto.stat_directory, atproto.identity i JOIN plc.plc_operation o USING (did)"
		. " WHERE did = '$did' AND o.n = 2 GROUP BY fresh, i.did"), 't|t|t', 'M-30: the identity follows the log there');
is($sub->safe_psql('as_binary', q{SELECT count(*) FROM (SELECT DISTINCT did FROM plc.plc_operation) d, LATERAL atproto.plc_audit(d.did, 'plc') a}), '0', 'M-51: the audit finds nothing');
is(scalar(grep { $_->{path} =~ m{^/did:plc:} } $network->log(host => $PLC)), 0, 'M-31: no document was asked for');

# sequences do not replicate, and the test has not set those of the other copy (operations.md)
expect_check('number that is taken', qr/\|(atproto\.(gap|dead_letter)|message)\.id\|/);
$sub->stop;
$pub->stop;
$network->stop;
done_testing();
