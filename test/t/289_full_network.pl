# 289_full_network.pl
#		A simulated network at level full, with a directory of its own: keys of both
#		curves that are replaced, accounts that move, commits that are forged, lost,
#		late, incomplete.  In the end tables, states, dead letters and counters are what
#		test/oracle/levels.py says.  V-05 to V-08, V-11, V-13 to V-15, V-40 to V-43, W-31.
#
#		ATPROTO_MINUTES=60 ATPROTO_RATE=50 is the long form (test/simulator/hour), as the
#		clock goes; ATPROTO_SEED, ATPROTO_PERCENT (of faults) make another one.

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

my $minutes = $ENV{ATPROTO_MINUTES};
my $rate    = $ENV{ATPROTO_RATE} || 50;
my $seed    = $ENV{ATPROTO_SEED} || 1;
my $percent = $ENV{ATPROTO_PERCENT} || ($minutes ? 1 : 8);
my $epoch   = $minutes ? 60 * $rate : 250;
my $events  = $minutes ? $minutes * $epoch : 3 * $epoch;

my $spoilt = spoil(
	[
		'--events' => $events, '--accounts' => $minutes ? 1000 : 60, '--seed' => $seed, '--history' => $minutes ? 200 : 16, '--batches' => 3,
		'--p256' => 30, '--epoch' => $epoch, '--rotations' => 8, '--migrations' => 2,
		'--mix' => 'delete=4,update=2,account=0.5,identity=0.5,sync=0.2'
	],
	[ '--percent' => $percent, '--seed' => $seed, '--sure' ]);
my @documents = map { decode_json($_) } split /\n/, slurp_file("$spoilt/documents");
my @changes   = changes($spoilt);
my $last      = last_seq($spoilt);
my %faults;
$faults{ $_->[2] }++ foreach truth($spoilt);
note("$last events, faults: ", join ', ', map { "$_ $faults{$_}" } sort keys %faults);

my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
my $node = make_node('full_network', start => $preload, conf => "max_worker_processes = 12\natproto.reconnect_delay = 50ms\n" . $network->settings);
my $server = AtprotoTest::Server->start("$spoilt/frames", (map { ('--hold-at', $_) } grep { $_ > 1 && $_ <= $last } @changes),
	$minutes ? ('--rate', $rate) : ());

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

change_directory(1);
query(subscribe_sql('full', $server, cursor => 0, verify => "'full'"));
foreach my $seq (grep { $_ > 1 && $_ <= $last } @changes)
{
	settle($seq - 1);
	change_directory($seq);
	$server->release;
}
settle($last);
level_matches('full', $spoilt, 'full');
is(query("SELECT string_agg(did || coalesce(reason, ''), ',') FROM (SELECT p.did, a.reason FROM atproto.repo p, LATERAL atproto.audit(p.did) a"
		. " WHERE p.sync = 'synchronized' AND a.equal IS NOT TRUE AND p.status IS DISTINCT FROM 'deleted') x"),
	'', 'V-46: an audit of what is synchronized says the same');
query('CALL atproto.audit_all()');
level_matches('full', $spoilt, 'full', files => ['audited'], name => 'V-45: what audits find of all');

# G, V-41: an account is not asked for more than once a minute, and once more after an #identity.
my %asked;
$asked{ $_->{path} }++ foreach $network->log(host => 'plc.example.com');
note('requests: ', scalar(map { ($_) x $asked{$_} } keys %asked));

$node->stop;
done_testing();
