# 388_citus_plc.pl
#		The log of a did:plc directory beside distributed tables: the log's tables stay on the coordinator, in the same
#		schema, identities follow the log (M-30), and level full asks no directory (M-31) while rows go to the nodes.
#
#		Needs Citus: see test/citus/build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Citus;
use AtprotoTest::Network;
use AtprotoTest::Plc;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;

if (my $why = AtprotoTest::Citus::missing())
{
	plan skip_all => $why;
}

my $network = AtprotoTest::Network->start;
# the operations are at most 50 minutes old: the log is fresh whenever the stream is connected
my ($node) = make_citus(
	'citus_plc', workers => 1, start => AtprotoTest::Preload->make(network => $network),
	conf => $network->settings . <<'CONF');
max_worker_processes = 30
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
atproto.plc_lag = 1h
CONF
my $now = time . '000';
my %who = map { my ($name, $did) = split /\t/; $name => $did } split /\n/, slurp_file(make_capture('plc_full.py', 'names', $now));
my $server = AtprotoTest::Server->start(make_capture('plc_full.py', 'stream', $now), map { ('--hold-at', $_) } 8, 14, 17);

sub publish
{
	my ($seq) = @_;
	$network->directories({ $PLC => { do => { publish => $seq } } });
	wait_for("SELECT seq >= $seq FROM atproto.cursor WHERE subscription = 'plc'");
	return;
}

sub rkeys
{
	my ($name) = @_;
	return query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM atproto.record WHERE did = '$who{$name}'");
}

$network->directories({ $PLC => { log => make_capture('plc_full.py', 'log', $now), upto => 90 } });
query(q{SELECT atproto.distribute('atproto')});
query("SELECT atproto.subscribe('plc', 'ws://$PLC/export/stream', allow_insecure => true, identities => true)");
wait_for("SELECT seq >= 90 FROM atproto.cursor WHERE subscription = 'plc'", gone => 1);
is(query(q{SELECT believed FROM atproto.stat_directory}), 't', 'M-30: the log is believed');
wait_for('SELECT fresh FROM atproto.stat_directory');
query(q{SELECT atproto.distribute('atproto')});
is(query(q{SELECT string_agg(table_name::text, ' ') FROM citus_tables WHERE table_name::text ~ '(plc_|identity)'}), '', 'no table of the log is distributed, whichever is first');

query(subscribe_sql('full', $server, cursor => 0, verify => "'full'"));
wait_for_seq($node, 'full', 7);
is(rkeys($_), '10', "M-31: $_: the key comes from the log") foreach qw(steady rotated early announced misused dead back);
publish(120);
$server->release;
wait_for_seq($node, 'full', 13);
is(rkeys('rotated'), '10,20', 'M-30: a commit by the new key');
is(query(q{SELECT count(DISTINCT why) FROM atproto.held_event}), '2', 'commits wait for the log: a key, and an account');
publish(140);
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(rkeys('early'), '10,20', 'M-30: the operation comes, and the waiting commit is written to its node');
publish(160);
$server->release;
wait_for_seq($node, 'full', 16);
is(rkeys('back'), '10,20,30', 'M-30: the key that a recovery has brought back');
is(scalar(grep { $_->{path} =~ m{^/did:plc:} } $network->log(host => $PLC)), 0, 'M-31: the directory was asked for no document');
is(query("SELECT count(*) FROM plc_history h JOIN atproto.repo r USING (did) WHERE h.until IS NULL" =~ s/plc_history/atproto.plc_history/r),
	query('SELECT count(*) FROM atproto.repo'), 'the history is joined with tables on the nodes');
is(query(q{SELECT count(*) FROM (SELECT DISTINCT did FROM atproto.plc_operation) d, LATERAL atproto.plc_audit(d.did) a}), '0', 'M-51: the audit of all logs finds nothing');

stop_citus();
$network->stop;
done_testing();
