# 289_full_kills.pl
#		Runs 289_full_network.pl with two workers, while the server, the workers and the fetcher are killed
#		at random moments: no held event is lost, and each is released once.  V-47, R-30, R-32.
#
#		ATPROTO_SEED repeats a run; ATPROTO_KILLS is the number of kills.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Kills;
use AtprotoTest::Levels;
use Test::More;

my $kills = $ENV{ATPROTO_KILLS} || 8;
my $seed  = seed();
my $epoch = 120;

my $full = begin_full('full_kills',
	events => 2 * $epoch, epoch => $epoch, accounts => 40, history => 16, seed => $seed, percent => 8, rate => 100, conf => "synchronous_commit = off\n");
my ($node, $preload) = @$full{qw(node preload)};

my $killer = AtprotoTest::Kills->new($node, $preload,
	[ 'another number of workers', sub { try_query("UPDATE atproto.subscription SET workers = 1 + workers % 3") } ]);

my $stops = 1 + @{ $full->{stops} };

# Nothing waits any more; the kills are spread over the stops.
sub settle
{
	my ($seq) = @_;
	my $n = int $kills / $stops--;

	$kills -= $n;
	$killer->settle(
		$n,
		sub { try_query("SELECT (SELECT seq >= $seq FROM atproto.stat_subscription WHERE name = 'full'), (SELECT count(*) FROM atproto.held_event), (SELECT count(*) FROM atproto.repo WHERE hold IS NOT NULL)") },
		't|0|0',
		sub { $preload->step(15) if $_[0] =~ /^t/ });
	return;
}

query('SET synchronous_commit = on; ' . subscribe_sql('full', $full->{server}, cursor => 0, workers => 2, verify => "'full'"));
follow_full($full, \&settle);
# some counts of a killed process are lost
full_matches($full, files => [ 'record', 'repo', 'dead' ]);

$node->stop;
done_testing();
