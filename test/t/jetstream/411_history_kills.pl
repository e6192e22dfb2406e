# 411_history_kills.pl
#		Consumer, workers, server and connections are killed at random moments, from the first plan of an
#		archive to the last event of the stream.  In the end each row must have been applied once (H-40).
#
#		ATPROTO_SEED is the seed of the run, ATPROTO_KILLS the number of kills, ATPROTO_WORKERS the number
#		of workers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Archive;
use AtprotoTest::Jetstream;
use AtprotoTest::Kills;
use Test::More;

my $kills   = $ENV{ATPROTO_KILLS} || 25;
my $seed    = seed();
my $workers = $ENV{ATPROTO_WORKERS} || 1 + $seed % 2;
my $archive = AtprotoTest::Archive->begin('--events' => 2500, '--accounts' => 60);
my $last    = $archive->last_seq;
my $preload = $archive->preload;
my $node    = make_node('kills', start => $preload, conf => $archive->settings . "synchronous_commit = off\natproto.history_interval = 1s\n");
my $options = { block_rows => 10, segment_blocks => 8, page => 20, whole => 1.1, generous => 0 };

$archive->serve($options);
query('CREATE SCHEMA whole; CREATE SCHEMA k');
query($archive->subscription_sql('whole', history => "'none'", cursor => 0, target => "'whole'", events => "'keep'", links => "'all'"));
$archive->wait_for_end('whole');
query("SELECT atproto.unsubscribe('whole')");

# Two thirds of the rows come from the archive, so slowly that the kills meet it; then the stream, as slowly.
my @rate = ('--rate' => 1 + int($last / (0.6 * $kills)));
$archive->serve($options, seal => int($last / 80 * 2 / 3), stream => \@rate);
$archive->network->fault({ host => $AtprotoTest::Archive::HOST, path => 'getBlock', delay => 0.2 * $kills / ($last / 10) });
query('SET synchronous_commit = on; ' . $archive->subscription_sql('k', target => "'k'", workers => $workers, events => "'keep'", links => "'all'"));

my $killer = AtprotoTest::Kills->new($node, $preload, [ 'the connection is cut', sub { $archive->{stream}->restart(@rate) } ]);
my %met;
$killer->settle($kills, sub { try_query(q{SELECT coalesce(min(seq), 0) FROM atproto.cursor WHERE subscription = 'k'}) }, $last,
	sub { $met{ try_query(q{SELECT phase FROM atproto.history WHERE subscription = 'k'}) // '' }++ });

note(join ', ', map { "$_: $met{$_}" } sort keys %met);
same_rows('k', 'whole', 'H-40: each row was applied once', tables => [qw(record repo record_event link)]);
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');
is(query('SELECT stopped IS NULL FROM atproto.subscription WHERE name = $$k$$'), 't', 'the subscription did not stop');
is(query(q{SELECT phase IN ('seam', 'live') AND again_until = 0 FROM atproto.history}), 't', 'nothing had to be read again');

done_testing();
