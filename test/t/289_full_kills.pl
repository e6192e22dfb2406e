# 289_full_kills.pl
#		289_full_network.pl with two workers, while the server, the workers and the fetcher are
#		killed at random moments: what waits is lost by none of it, and taken once.  V-47,
#		R-30, R-32.
#
#		ATPROTO_SEED repeats a run; ATPROTO_KILLS are how many.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

use AtprotoTest;
use AtprotoTest::Levels;
use Test::More;
use Time::HiRes qw(usleep);

my $kills = $ENV{ATPROTO_KILLS} || 8;
my $seed  = $ENV{ATPROTO_SEED} // int rand 2**31;
my $epoch = 120;
srand $seed;
note("ATPROTO_SEED=$seed");

my $full = begin_full('full_kills',
	events => 2 * $epoch, epoch => $epoch, accounts => 40, history => 16, seed => $seed, percent => 8, rate => 100, conf => "synchronous_commit = off\n");
my ($node, $preload) = @$full{qw(node preload)};

sub value
{
	my ($sql) = @_;
	my $value;
	wait_until(sub { defined($value = try_query($sql)) }, $sql);
	return $value;
}

sub pid_of
{
	my ($type) = @_;
	return try_query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto $type' ORDER BY random() LIMIT 1");
}

sub kill_one
{
	my ($signal, $type) = @_;
	my $pid = pid_of($type);
	kill $signal, $pid if $pid;
	return;
}

sub restart
{
	my ($how) = @_;
	my @orphans = split /\n/, value('SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()');

	$how->();
	wait_until(sub { !kill 0, @orphans }, 'the end of the server');
	$preload->start($node);
	return;
}

my @kinds = (
	(map { my $type = $_; [ "kill -9 of a $type", sub { kill_one('KILL', $type) } ], [ "a $type ends", sub { kill_one('TERM', $type) } ] } 'consumer', 'apply worker', 'fetcher'),
	[ 'kill -9 of the server', sub { restart(sub { $node->kill9 }) } ],
	[ 'immediate restart', sub { restart(sub { $node->stop('immediate') }) } ],
	[ 'another number of workers', sub { try_query("UPDATE atproto.subscription SET workers = 1 + workers % 3") } ]);

# Nothing waits any more.
sub settle
{
	my ($seq) = @_;
	my $deadline = time + 4 * $AtprotoTest::TIMEOUT;

	for (;;)
	{
		my $there = try_query("SELECT (SELECT seq >= $seq FROM atproto.stat_subscription WHERE name = 'full'), (SELECT count(*) FROM atproto.held_event), (SELECT count(*) FROM atproto.repo WHERE hold IS NOT NULL)") // '';
		last if $there eq 't|0|0';
		BAIL_OUT("event $seq: $there") if time > $deadline;
		if ($kills > 0 && rand() < 0.5)
		{
			my $kind = $kinds[ rand @kinds ];
			note("$there: $kind->[0]");
			$kind->[1]->();
			$kills--;
		}
		$preload->step(15) if $there =~ /^t/;
		usleep(rand 300_000);
	}
	return;
}

query('SET synchronous_commit = on; ' . subscribe_sql('full', $full->{server}, cursor => 0, workers => 2, verify => "'full'"));
follow_full($full, \&settle);
# what a process counted before it was killed is not all known
full_matches($full, files => [ 'record', 'repo', 'dead' ]);

$node->stop;
done_testing();
