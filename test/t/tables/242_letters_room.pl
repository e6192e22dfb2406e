# 242_letters_room.pl
#		An account sends as many invalid records as possible.  The account gets a share of the dead letters;
#		the rest becomes a single letter and a mark on the repository.  Further accounts keep room for
#		letters, the stream goes on, and memory stays small.  B-29.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('letters_room');
my $a    = did('a');
my $b    = did('b');

sub letters
{
	my ($did) = @_;
	return query("SELECT count(*) FILTER (WHERE stage = 'record'), count(*) FILTER (WHERE stage = 'beyond'), sum(attempts)
		FROM atproto.dead_letter WHERE did = '$did'");
}

foreach my $workers (1, 2)
{
	my $commits = 12;
	my $server  = AtprotoTest::Server->start(make_capture('synth.py', 'bad', $commits), '--hold-at', $commits + 1);

	start_over();
	query(subscribe_sql('s', $server, cursor => 0, workers => $workers));
	wait_for_seq($node, 's', $commits);
	my $all = 200 * $commits;
	my $kept = 10000 / 20;
	is(letters($a), "$kept|1|$all", "$workers: an account has a twentieth of the room, and one letter for the rest");
	is(query("SELECT sync FROM atproto.repo WHERE did = '$a'"), 'desynchronized', "$workers: its repository is marked");
	is(query("SELECT count(*) FROM atproto.dead_frame"), '3', "$workers: the bytes of three commits are there, each once");
	cmp_ok(AtprotoTest::private_memory($_), '<', 2 * $MEMORY_MAX, "$workers: memory stays small")
	  foreach split /\n/, query("SELECT pid FROM pg_stat_activity WHERE backend_type LIKE 'atproto %er' AND backend_type <> 'atproto manager'");
	$server->release;
	wait_for_seq($node, 's', $commits + 2);
	is(letters($b), '1|0|1', "$workers: another one has its letter");
	is(query("SELECT did = '$b', sync FROM atproto.repo JOIN atproto.record USING (did)"), 't|unproven', "$workers: and its records");
	is(query('SELECT state FROM atproto.stat_subscription'), 'streaming', "$workers: the stream goes on");
}

my $beyond = query("SELECT id FROM atproto.dead_letter WHERE stage = 'beyond'");
like(query("SELECT atproto.retry($beyond)"), qr/^it is beyond the repository's share/, 'what is not kept cannot be tried again');
is(query("SELECT count(*) FROM atproto.dead_letter WHERE id = $beyond"), '1', 'but stays in sight');

# Bytes have a separate limit: one message, at least.
my $server = AtprotoTest::Server->start(make_capture('synth.py', 'bad', 3), '--hold-at', 1);
start_over();
query(subscribe_sql('s', $server, cursor => 0));
query('UPDATE atproto.subscription SET max_dead_letter_bytes = 6000000');
$server->release;
wait_for_seq($node, 's', 5);
is(letters($a), '200|1|600', 'one message is beyond a share of the bytes: the first is kept, and no other although there is room');
is(letters($b), '1|0|1', 'and another account has its letter');

$node->stop;
done_testing();
