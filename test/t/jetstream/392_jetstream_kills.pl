# 392_jetstream_kills.pl
#		Consumer, workers, server and connection are killed at random moments while Jetstream's first
#		version sends.  Its cursors are times, which several events may share and which may go back; so each
#		connection begins some seconds before the end of the last connection.  In the end each operation
#		must have been applied once.
#
#		ATPROTO_SEED is the seed of the run, ATPROTO_KILLS the number of kills, ATPROTO_WORKERS the number
#		of workers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use AtprotoTest::Kills;
use PostgreSQL::Test::Utils;
use Test::More;

my $kills   = $ENV{ATPROTO_KILLS}   || 12;
my $workers = $ENV{ATPROTO_WORKERS} || 1;
my $seed    = seed();

my ($capture) = simulate(
	'--events' => 3000, '--accounts' => 60, '--history' => 0, '--batches' => 25, '--seed' => 1 + $seed % 1000,
	'--mix' => 'account=4,delete=8,update=6,sync=0,identity=3,like=40,post=30,profile=3');
# 10 seconds are some 300 events
my $texts = texts('v1', $capture, '--spread' => 30_000, '--ties' => 20, '--back' => 300_000, '--seed' => $seed);
my @rate  = ('--rate' => 1 + int(text_count($texts) / (0.4 * $kills)));
my $node  = make_node(
	'kills', conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
synchronous_commit = off
EOF
my $relay  = AtprotoTest::Server->start($capture);
my $server = AtprotoTest::Server->start($texts, @rate);

query("CREATE SCHEMA relay; " . subscribe_sql('relay', $relay, cursor => 0, target => "'relay'", events => "'keep'", links => "'all'", verify => "'hash'"));
wait_for_seq($node, 'relay', scalar(() = read_capture($capture)));
query("SELECT atproto.unsubscribe('relay')");

# A kill may lose the last commits, but not the subscription itself.
query('SET synchronous_commit = on; CREATE SCHEMA j; '
	  . subscribe_sql('j', $server, cursor => 0, target => "'j'", workers => $workers, events => "'keep'", links => "'all'", count_collections => 'true'));
my $wanted = query('SELECT count(*) FROM relay.record_event');
my $killer = AtprotoTest::Kills->new($node, undef, [ 'the connection is cut', sub { $server->restart(@rate) } ]);
$killer->settle($kills, sub { try_query('SELECT count(*) FROM j.record_event') }, $wanted, sub { });

same_rows('j', 'relay', 'each operation was applied once');
counts_match($node, 'what is counted by collection are the events that are kept', schema => 'j');
is(query('SELECT count(*) FROM atproto.link_problems($$j$$)'), '0', 'links are those of the records');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');
is(query('SELECT stopped IS NULL FROM atproto.subscription WHERE name = $$j$$'), 't', 'it did not stop');

$node->stop;
done_testing();
