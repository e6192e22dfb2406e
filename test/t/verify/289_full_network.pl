# 289_full_network.pl
#		A simulated network at level full, with a directory of its own: replaced keys of both curves, moving
#		accounts, commits forged, lost, late, incomplete.  In the end tables, states, dead letters and
#		counters must equal the results of test/oracle/levels.py.  V-05 to V-08, V-11, V-13 to V-15, V-40 to
#		V-43, V-47, W-31.
#
#		ATPROTO_MINUTES=60 ATPROTO_RATE=50 is the long form (test/simulator/hour), at the speed of
#		the clock; ATPROTO_SEED, ATPROTO_PERCENT (of faults) make a different network.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Levels;
use Test::More;
use Time::HiRes qw(usleep);

my $minutes = $ENV{ATPROTO_MINUTES};
my $rate    = $ENV{ATPROTO_RATE} || 50;
my $seed    = seed();
my $percent = $ENV{ATPROTO_PERCENT} || ($minutes ? 1 : 8);
my $epoch   = $minutes ? 60 * $rate : 250;
my $events  = $minutes ? $minutes * $epoch : 3 * $epoch;

my $full = begin_full('full_network',
	events => $events, epoch => $epoch, accounts => $minutes ? 1000 : 60, history => $minutes ? 200 : 16,
	seed => $seed, percent => $percent, $minutes ? (rate => $rate) : ());
my ($node, $preload) = @$full{qw(node preload)};

# Nothing waits any more.  Look-ups of an account are a minute apart: in the short form the clock is put forward.
sub settle
{
	my ($seq) = @_;
	my $deadline = time + 4 * $AtprotoTest::TIMEOUT;
	my $since = time;
	my $was = '';

	wait_for_seq($node, 'full', $seq);
	while ((my $waiting = query('SELECT (SELECT count(*) FROM atproto.held_event), (SELECT count(*) FROM atproto.repo WHERE hold IS NOT NULL)')) ne '0|0')
	{
		BAIL_OUT("after event $seq, $waiting events and repositories wait") if time > $deadline;
		($was, $since) = ($waiting, time) if $waiting ne $was;
		if (!$minutes && time - $since >= 1)
		{
			$preload->step(35);
			$since = time;
		}
		usleep(100_000);
	}
	return;
}

query(subscribe_sql('full', $full->{server}, cursor => 0, verify => "'full'"));
follow_full($full, \&settle);
full_matches($full);

# G, V-41: an account is not asked for more than once a minute, and once more after an #identity.
my %asked;
$asked{ $_->{path} }++ foreach $full->{network}->log(host => 'plc.example.com');
note('requests: ', scalar(map { ($_) x $asked{$_} } keys %asked));

$node->stop;
done_testing();
