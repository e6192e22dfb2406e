# 502_plc_kills.pl
#		Consumer, server and connection are killed at random moments while a did:plc directory is read, by pages and by the
#		stream.  In the end each operation is in the tables once, in its place (M-10), for a subscription with one process and
#		for a subscription with two workers.
#
#		ATPROTO_SEED is the seed of the run, ATPROTO_KILLS the number of kills.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Kills;
use AtprotoTest::Network;
use AtprotoTest::Plc;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed    = seed();
my $kills   = $ENV{ATPROTO_KILLS} || 8;
my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
my $node    = make_node(
	'plc_kills', start => $preload,
	conf => $network->settings . <<'CONF');
max_worker_processes = 20
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
synchronous_commit = off
CONF
my $log     = plc_export(operations => 1200, wrong => 60, seed => $seed);
# not decoded: Perl's JSON refuses some of the forged texts
my @entries = map { { seq => 0 + (/"seq": ?(\d+)/)[0] } } split /\n/, slurp_file($log);
my $wanted  = () = plc_rows('operation', $log) =~ /\n/g;
my $told    = 0;

# The directory grows while the consumer is killed; the stream reaches back to the last entries only.
sub publish
{
	my ($upto) = @_;

	$told = $upto > $#entries ? $#entries : $upto;
	$network->directories({ $PLC => { do => { publish => $entries[$told]{seq}, set => { oldest => $entries[ $told > 40 ? $told - 40 : 0 ]{seq} } } } });
	return;
}

$network->directories({ $PLC => { log => $log, upto => $entries[0]{seq}, page => 30 } });
foreach my $workers (1, 2)
{
	my $name = "p$workers";
	query("SET synchronous_commit = on; CREATE SCHEMA $name; SELECT atproto.subscribe('$name', 'ws://$PLC/export/stream', target => '$name', allow_insecure => true, workers => $workers)");
}
my $killer = AtprotoTest::Kills->new($node, $preload, [ 'the directory grows', sub { publish($told + 100) } ]);
$killer->settle($kills, sub { publish($told + 60); try_query('SELECT least((SELECT count(*) FROM p1.plc_operation), (SELECT count(*) FROM p2.plc_operation))') }, $wanted, sub { });

my @want = map { join ' ', (split /\t/)[ 0 .. 2 ] } split /\n/, plc_rows('operation', $log);
my %refused;
$refused{ join ' ', (split /\t/)[ 0, 3 ] }++ foreach split /\n/, plc_rows('refused', $log);
foreach my $name ('p1', 'p2')
{
	is_deeply([ sort split /\n/, query("SELECT concat_ws(' ', did, n, cid) FROM $name.plc_operation") ], [ sort @want ], "M-10: $name: each operation once, in its place");
	wait_for("SELECT min(seq) = $entries[-1]{seq} FROM atproto.cursor WHERE subscription = '$name'");
	is_deeply([ sort split /\n/, query("SELECT seq || ' ' || reason FROM $name.plc_refused") ], [ sort keys %refused ], "M-10: $name: what is refused, once");
	is(query("SELECT stopped IS NULL FROM atproto.subscription WHERE name = '$name'"), 't', "$name did not stop");
	is(query("SELECT count(*) FROM (SELECT DISTINCT did FROM $name.plc_operation) d, LATERAL atproto.plc_audit(d.did, '$name') a"), '0', "M-51: $name: all stored operations hold");
	is(query("SELECT count(*) FROM $name.plc_text t JOIN $name.plc_text u ON t.text = u.text AND t.id <> u.id"), '0', "M-20: $name: each text has one id");
}

$node->stop;
$network->stop;
done_testing();
