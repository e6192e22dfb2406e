# 502_plc_kills.pl
#		Consumer, server and connection are killed at random moments while a did:plc directory is read, by pages and by the
#		stream.  In the end each operation is in the tables once, in its place (M-10).
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
query("SET synchronous_commit = on; CREATE SCHEMA p; SELECT atproto.subscribe('p', 'ws://$PLC/export/stream', target => 'p', allow_insecure => true)");
my $killer = AtprotoTest::Kills->new($node, $preload, [ 'the directory grows', sub { publish($told + 100) } ]);
$killer->settle($kills, sub { publish($told + 60); try_query('SELECT count(*) FROM p.plc_operation') }, $wanted, sub { });

my @want = map { join ' ', (split /\t/)[ 0 .. 2 ] } split /\n/, plc_rows('operation', $log);
is_deeply([ sort split /\n/, query("SELECT concat_ws(' ', did, n, cid) FROM p.plc_operation") ], [ sort @want ], 'M-10: each operation once, in its place');
my %refused;
$refused{ join ' ', (split /\t/)[ 0, 3 ] }++ foreach split /\n/, plc_rows('refused', $log);
wait_for("SELECT seq = $entries[-1]{seq} FROM atproto.cursor WHERE subscription = 'p'");
is_deeply([ sort split /\n/, query("SELECT seq || ' ' || reason FROM p.plc_refused") ], [ sort keys %refused ], 'M-10: what is refused, once');
is(query("SELECT stopped IS NULL FROM atproto.subscription WHERE name = 'p'"), 't', 'it did not stop');

$node->stop;
$network->stop;
done_testing();
