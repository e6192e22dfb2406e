# 289_full_outage.pl
#		The directory is away for ten minutes, slow, or busy, while a stream goes on at level full.  Events
#		of known accounts are applied, events of unknown accounts are held, and in the end no event is lost
#		and all are in their order.  The test's clocks make the minutes pass.  V-40 to V-42, W-30 to W-35,
#		R-21, R-30, R-32.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Identities;
use AtprotoTest::Keys;
use PostgreSQL::Test::Utils;
use Test::More;

my $node    = begin_identities('outage', "max_worker_processes = 16\natproto.reconnect_delay = 50ms\n");
my $capture = make_capture('full.py', 'outage');
my @ends    = (3, 13, 17, 20, 23, 26);
my $server  = AtprotoTest::Server->start($capture, map { ('--hold-at', $_ + 1) } @ends[ 0 .. 4 ]);
my $plc     = 'plc.example.com';
my $looks   = 0;
my (@dids, %keys);

foreach (split /\n/, slurp_file(make_capture('full.py', 'outage', '--keys')))
{
	my ($did, $key) = split /\t/;
	push @dids, $did;
	$keys{$did} = AtprotoTest::Keys::text_of(pack 'H*', $key);
}
$network->documents({ map { $_ => $good->($_, key => $keys{$_}) } @dids });

# The records of some accounts, and how many events of each are held.
sub records
{
	my ($did) = map { $dids[$_] } @_;
	return query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM atproto.record WHERE did = '$did'");
}

sub waiting
{
	return query('SELECT string_agg(n::text, $$,$$ ORDER BY did) FROM (SELECT did, count(*) AS n FROM atproto.held_event GROUP BY did) h');
}

# Moves the time of day and the clock of waiting processes forward by the same time.
sub pass_time
{
	my ($seconds) = @_;
	$AtprotoTest::Identities::ahead += $seconds;
	$clock->both($AtprotoTest::Identities::ahead, $seconds);
	return;
}

# Waits until the fetcher has looked for work again.
sub has_looked
{
	my $name = 'did:web:' . ('a' .. 'z')[ $looks++ ] . '.example.net';
	$network->documents({ $name => $good->($name) });
	query("SELECT atproto.identity_refresh('$name')");
	wait_for("SELECT state = 'good' FROM atproto.identity WHERE did = '$name'", gone => 1);
	return;
}

my $nothing_waits = "SELECT count(*) = 0 FROM atproto.held_event";

query(subscribe_sql('s', $server, cursor => 0, verify => "'full'", events => "'keep'"));
wait_for_seq($node, 's', $ends[0]);
sooner_or_later($nothing_waits);
is(query('SELECT count(*) FROM atproto.identity WHERE state = $$good$$'), '3', 'three accounts are known');

# --- it is away ---

my $fault = $network->fault({ host => $plc, reset => 0 });
$server->release;
wait_for_seq($node, 's', $ends[1]);
is(records(0) . ' ' . records(2), '10,20 10,20', 'W-30: accounts that are known go on');
is(waiting(), '1,3,2,1', 'V-40, V-42: of others all waits, and of one that says that it has changed');
my $since = $AtprotoTest::Identities::ahead;
my $asked = () = $network->log(host => $plc);
later(60) foreach 1 .. 10;
sooner_or_later("SELECT count(*) = 0 FROM atproto.held_event WHERE did = '$dids[1]'");
is(records(1), '10,20', 'V-41: without an answer the key that is known counts');
sooner_or_later("SELECT count(*) = 3 FROM atproto.identity WHERE state = 'wanted' AND error IS NOT NULL");
is(waiting(), '3,2,1', 'V-40: after ten minutes the others still wait');
is(query("SELECT count(*) FROM atproto.dead_letter") . query("SELECT count(*) FROM atproto.identity WHERE state NOT IN ('good', 'wanted')"), '00', 'W-32: nobody has said that there is no such account');
is(query("SELECT COALESCE((skips->>'held_dropped')::integer, 0) FROM atproto.stat_subscription"), '0', 'R-34: and nothing was dropped');
my %requests;
$requests{ $_->{path} }++ foreach $network->log(host => $plc, since => $asked);
my $most = ($AtprotoTest::Identities::ahead - $since) / 60 + 5;
is(join(',', grep { $requests{$_} > $most } keys %requests), '', 'W-32: none was asked for more than once a minute');

# --- the directory is back, and slow ---

$network->unfault($fault);
$fault = $network->fault({ host => $plc, delay => 5 });
$server->release;
wait_for_seq($node, 's', $ends[2]);
is(records(0) . ' ' . records(1), '10,20,30 10,20,30', 'W-30: nobody who is known waits for that');
sooner_or_later($nothing_waits);
is(join(' ', map { records($_) } 3 .. 6), '10,20,30 10,20 10 10,20', 'R-32: all that waited is taken');
$network->unfault($fault);

# --- the directory is busy, with or without a time for the next request ---

foreach my $case ([ 7, 3000 ], [ 8, undef ])
{
	my ($account, $rest) = @$case;
	my $name = $rest ? 'Retry-After' : 'no header';
	my $did  = $dids[$account];

	$network->fault({ host => $plc, did => $did, times => 1, status => 429, body => '<html>busy</html>',
			headers => { 'Content-Type' => 'text/html', $rest ? ('Retry-After' => $rest) : () } });
	$server->release;
	wait_for_seq($node, 's', $ends[ $account - 4 ]);
	wait_for("SELECT error IS NOT NULL FROM atproto.identity WHERE did = '$did'", gone => 1);
	is(query("SELECT state, tries FROM atproto.identity WHERE did = '$did'"), 'wanted|0', "R-21: 429, $name: no failure of the account");
	like(records(0), qr/,@{[ 10 * $account - 30 ]}$/, "W-30: 429, $name: who is known does not wait for that");
	if ($rest)
	{
		# a third of the time is left for a slow machine
		pass_time(2 * $rest / 3);
		has_looked();
		is(requests(path => "/$did"), 1, 'R-21: the directory is left alone for as long as it says');
		is(records($account) . waiting(), '2', 'V-40: and two events wait');
	}
	sooner_or_later($nothing_waits, step => 300);
	is(records($account), '10,20', "R-32: 429, $name: they are taken in the end");
}

# --- in the end ---

$server->release;
wait_for_seq($node, 's', $ends[5]);
sooner_or_later($nothing_waits);
tables_match($node, $capture, 'nothing is lost', modes => [ 'record', 'repo', 'event' ]);
is(query("SELECT count(*), count(hold), bool_and(verified), min(sync), max(sync) FROM atproto.repo"), '9|0|t|synchronized|synchronized', 'V-31: and each follows the one before it');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nobody complains');

$node->stop;
$network->stop;
done_testing();
