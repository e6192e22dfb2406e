# 231_dump_plc.pl
#		A database that follows the log of a did:plc directory with identities (M-30): pg_dump, restored into a second
#		database while commits wait for the log, and the promotion of a standby. The copied log is believed, and decides the
#		waiting commits; new operations go on at the cursor, with numbers of texts behind the restored numbers.

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

my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
# the operations are at most 50 minutes old: the log is fresh whenever the stream is connected
my $node = make_node(
	'dump_plc', databases => 'postgres, copy', start => $preload, init => { allows_streaming => 1 },
	conf => $network->settings . <<'CONF');
max_worker_processes = 30
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
atproto.plc_lag = 1h
CONF
my $now = time . '000';
my %who = map { my ($name, $did, @keys) = split /\t/; $name => { did => $did, keys => \@keys } } split /\n/, slurp_file(make_capture('plc_full.py', 'names', $now));
my $server = AtprotoTest::Server->start(make_capture('plc_full.py', 'stream', $now), map { ('--hold-at', $_) } 8, 14);

sub publish
{
	my ($seq, @databases) = @_;

	$network->directories({ $PLC => { do => { publish => $seq } } });
	wait_for("SELECT seq >= $seq FROM atproto.cursor WHERE subscription = 'plc'", database => $_, gone => 1) foreach @databases;
	return;
}

sub identity
{
	my ($name, $database) = @_;
	my ($state, $key, $log) = split /\|/, query("SELECT state, encode(key, 'hex'), log_time IS NOT NULL FROM atproto.identity WHERE did = '$who{$name}{did}'", database => $database), -1;
	my ($n) = grep { $who{$name}{keys}[$_] eq ($key // '') } 0, 1;
	return defined $state ? join ' ', $state, defined $n ? 'key' . ($n + 1) : 'no key', $log : '';
}

sub lookups { return scalar grep { $_->{path} =~ m{^/did:plc:} } $network->log(host => $PLC) }

sub held
{
	my ($database) = @_;
	return query('SELECT string_agg(why, $$ $$ ORDER BY why) FROM atproto.held_event', database => $database);
}

sub log_rows
{
	my ($database) = @_;
	return query(q{SELECT o FROM plc.plc_operation o ORDER BY did, n; TABLE plc.plc_text ORDER BY id; SELECT r FROM plc.plc_refused r; TABLE plc.plc_history ORDER BY did, n;
		SELECT d.did, a.n, a.problem FROM (SELECT DISTINCT did FROM plc.plc_operation) d, LATERAL atproto.plc_audit(d.did, 'plc') a}, database => $database);
}

# --- a log that answers, and commits that wait for the next operations ---

$network->directories({ $PLC => { log => make_capture('plc_full.py', 'log', $now), upto => 90 } });
query("CREATE SCHEMA plc; SELECT atproto.subscribe('plc', 'ws://$PLC/export/stream', target => 'plc', allow_insecure => true, identities => true)");
publish(90, 'postgres');
wait_for('SELECT fresh AND believed FROM atproto.stat_directory');
query(subscribe_sql('full', $server, cursor => 0, verify => "'full'"));
wait_for_seq($node, 'full', 7);
publish(120, 'postgres');
$server->release;
wait_for_seq($node, 'full', 13);
is(held('postgres'), 'identity signature', 'commits wait for the log');

# --- restored ---

my $file = $node->basedir . '/dump';
my @at = ('--host', $node->host, '--port', $node->port, '--username', getpwuid($<) // 'postgres');
query('CREATE DATABASE copy TEMPLATE template0');
$node->command_ok([ 'pg_dump', @at, '--format=custom', '--file', $file, 'postgres' ], 'pg_dump');
$node->command_ok([ 'pg_restore', @at, '--exit-on-error', '--dbname', 'copy', $file ], 'pg_restore');
is(log_rows('copy'), log_rows('postgres'), 'M-20: the log is there, its texts have their numbers, and the audit finds nothing');
is(held('copy'), held('postgres'), 'and what waits for it');
is(query('SELECT name, whole, believed, fresh FROM atproto.stat_directory', database => 'copy'), 'plc|t|t|f', 'M-30: the log is believed, and not fresh before resume()');
is(query('SELECT count(*) FROM atproto.identity', database => 'copy'), '0', 'M-30: identities are not dumped');
is(query('SELECT string_agg(what, $$ $$) FROM atproto.check(deep => true)', database => 'copy'), '', 'check(): nothing');

query("SELECT atproto.resume('plc')", database => 'copy');
wait_for('SELECT fresh FROM atproto.stat_directory', database => 'copy');
is(lookups(), 0, 'M-31: no document was asked for');
query("SELECT atproto.resume('full'); CALL atproto.await('$who{rotated}{did}')", database => 'copy');
is(identity('rotated', 'copy'), 'good key2 t', 'M-31: the restored log answers');
publish(140, 'postgres', 'copy');
wait_for('SELECT count(*) = 0 FROM atproto.held_event', database => $_) foreach 'postgres', 'copy';
is(query("SELECT string_agg(rkey::text, ' ' ORDER BY rkey) FROM atproto.record WHERE did = '$who{early}{did}'", database => $_), '10 20', "M-30: $_: the operation comes, and the commit that waited is the account's")
  foreach 'postgres', 'copy';
is(log_rows('copy'), log_rows('postgres'), 'M-10: operations after the dump');
is(lookups(), 0, 'M-31: still no document was asked for');

# --- promoted ---

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('promoted');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$preload->start($standby);
$node->wait_for_catchup($standby, 'replay');
is(query('SELECT believed, fresh FROM atproto.stat_directory', node => $standby), 't|f', 'M-30: on a standby nothing is followed');
$node->stop('immediate');
$network->directories({ $PLC => { do => { publish => 160 } } });
$standby->promote;
ask_from_now_on($standby);
publish(160, 'postgres', 'copy');
wait_for("SELECT log_time IS NOT NULL AND state = 'gone' FROM atproto.identity WHERE did = '$who{dead}{did}'");
is(identity('back', 'postgres'), 'good key1 t', 'M-30: identities follow on the promoted standby');
is(log_rows('copy'), log_rows('postgres'), 'M-10: operations after the promotion');
is(query('SELECT string_agg(what, $$ $$) FROM atproto.check(deep => true)', database => $_), '', "$_: check(): nothing") foreach 'postgres', 'copy';
is(lookups(), 0, 'M-31: no document was asked for');

$standby->stop;
$network->stop;
done_testing();
