# 289_full_kills.pl
#		289_full_network.pl with two workers, while the server, the workers and the fetcher are
#		killed at random moments: what waits is lost by none of it, and taken once.  R-30, R-32.
#
#		ATPROTO_SEED repeats a run; ATPROTO_KILLS are how many.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

use AtprotoTest;
use AtprotoTest::Levels;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $kills = $ENV{ATPROTO_KILLS} || 8;
my $seed  = $ENV{ATPROTO_SEED} // int rand 2**31;
my $epoch = 120;
my $events = 2 * $epoch;
srand $seed;
note("ATPROTO_SEED=$seed");

my $spoilt = spoil(
	[
		'--events' => $events, '--accounts' => 40, '--seed' => $seed, '--history' => 16, '--batches' => 3,
		'--p256' => 30, '--epoch' => $epoch, '--rotations' => 8, '--migrations' => 2,
		'--mix' => 'delete=4,update=2,account=0.5,identity=0.5,sync=0.2'
	],
	[ '--percent' => 8, '--seed' => $seed, '--sure' ]);
my @documents = map { decode_json($_) } split /\n/, slurp_file("$spoilt/documents");
my @changes   = changes($spoilt);
my $last      = last_seq($spoilt);
my %faults;
$faults{ $_->[2] }++ foreach truth($spoilt);
note("$last events, faults: ", join ', ', map { "$_ $faults{$_}" } sort keys %faults);

my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
my $node = make_node('full_kills', start => $preload, conf => "max_worker_processes = 20\natproto.reconnect_delay = 50ms\nsynchronous_commit = off\n" . $network->settings);
my $server = AtprotoTest::Server->start("$spoilt/frames", (map { ('--hold-at', $_) } grep { $_ > 1 && $_ <= $last } @changes), '--rate', 100);

# What the directory says from a seq on.  One that lags tells the first who asks what was before.
my %now;

sub change_directory
{
	my ($seq) = @_;
	my @new = grep { $_->{seq} == $seq } @documents;

	foreach my $d (grep { $_->{lags} } @new)
	{
		$network->fault({ host => 'plc.example.com', did => $d->{did}, times => 1, body => encode_json($now{ $d->{did} }) });
	}
	$now{ $_->{did} } = $_->{document} foreach @new;
	$network->documents({ map { $_->{did} => $_->{document} } @new });
	return;
}

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

change_directory(1);
query('SET synchronous_commit = on; ' . subscribe_sql('full', $server, cursor => 0, workers => 2, verify => "'full'"));
foreach my $seq (grep { $_ > 1 && $_ <= $last } @changes)
{
	settle($seq - 1);
	change_directory($seq);
	$server->release;
}
settle($last);
# what a process counted before it was killed is not all known
level_matches('full', $spoilt, 'full', files => [ 'record', 'repo', 'dead' ]);
is(query("SELECT string_agg(did || coalesce(reason, ''), ',') FROM (SELECT p.did, a.reason FROM atproto.repo p, LATERAL atproto.audit(p.did) a"
		. " WHERE p.sync = 'synchronized' AND a.equal IS NOT TRUE AND p.status IS DISTINCT FROM 'deleted') x"),
	'', 'V-46: an audit of what is synchronized says the same');
query('CALL atproto.audit_all()');
level_matches('full', $spoilt, 'full', files => ['audited'], name => 'V-45: what audits find of all');

$node->stop;
done_testing();
