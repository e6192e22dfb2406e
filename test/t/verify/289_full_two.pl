# 289_full_two.pl
#		Runs 289_full_network.pl with two subscriptions that fill the same tables, one with three workers,
#		while consumers, workers and the fetcher are killed.  One subscription is removed while events of
#		both are held, and the number of workers of the remaining subscription changes.  R-30, R-32, R-35.
#
#		ATPROTO_SEED is the seed of the run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Levels;
use Test::More;

my $seed  = seed();
my $epoch = 80;

# held events are released in the order of rev: a late commit that is held counts as in time, unlike for the
# oracle
my $faults = 'lost,twice,cut,bare,altered,omitted,future,stranger,other,high,before,fork,sync';
my $full = begin_full('full_two', events => 2 * $epoch, epoch => $epoch, accounts => 30, history => 16, seed => $seed, percent => 8, faults => $faults, rate => 100);
my ($preload, $network) = @$full{qw(preload network)};
$full->{clock} = AtprotoTest::Clock->new($full->{node});
my $second = AtprotoTest::Server->start("$full->{spoilt}/frames", '--rate', 150, map { ('--hold-at', $_) } @{ $full->{stops} });

sub kill_one
{
	my ($type) = @_;
	my $pid = try_query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto $type' ORDER BY random() LIMIT 1");
	kill 'TERM', $pid if $pid;
	return;
}

# No event is held any more; a directory without an answer may rest meanwhile.
sub settle
{
	my ($seq) = @_;
	my $since = time;

	wait_until(
		sub {
			my $there = try_query("SELECT (SELECT bool_and(seq >= $seq) FROM atproto.stat_subscription), (SELECT count(*) FROM atproto.held_event), (SELECT count(*) FROM atproto.repo WHERE hold IS NOT NULL)") // '';
			return 1 if $there eq 't|0|0';
			if (time > $since)
			{
				$preload->step(35);
				$full->{clock}->advance(70);
				$since = time;
				kill_one((qw(consumer fetcher), 'apply worker')[ rand 3 ]) if rand() < 0.3;
			}
			return 0;
		},
		"event $seq, and nothing that waits");
	return;
}

query(subscribe_sql('full', $full->{server}, cursor => 0, workers => 3, verify => "'full'", events => "'keep'"));
query(subscribe_sql('second', $second, cursor => 0, verify => "'full'", events => "'keep'"));
while (@{ $full->{stops} } > 1)
{
	begin_epoch($full, \&settle);
	$second->release;
}
settle($full->{stops}[0] - 1);
my $away = $network->fault({ host => 'plc.example.com', reset => 0 });
query('UPDATE atproto.identity SET stale = true, said_by = ARRAY[10::oid], doubted_by = ARRAY[10::oid] WHERE did IN (SELECT did FROM atproto.repo ORDER BY did LIMIT 8)');
begin_epoch($full, sub { });
$second->release;
wait_for("SELECT bool_and(seq >= $full->{last}) FROM atproto.stat_subscription");
wait_for('SELECT count(DISTINCT subscription) = 2 FROM atproto.held_event');
# which of the two has a dead letter is chance, and unsubscribe() marks the repositories of its letters (356_repo_owners)
query("DELETE FROM atproto.dead_letter WHERE subscription = 'second'; SELECT atproto.unsubscribe('second'); UPDATE atproto.subscription SET workers = 2");
wait_for('SELECT count(*) > 0 AND count(DISTINCT subscription) = 1 FROM atproto.held_event');
$network->unfault($away);
settle($full->{last});
full_matches($full, files => [ 'record', 'repo' ]);
is(query('SELECT count(*) - count(DISTINCT (did, collection, rkey, rev, action)) FROM atproto.record_event'), '0', 'R-30: each change is told once');

$full->{node}->stop;
done_testing();
