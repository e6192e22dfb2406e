# 243_clock_behind.pl
#		Events carry times in the future.  If all events do, this machine's clock is behind: the consumer
#		waits, says so, and condemns no event.  If a single event does, only this event becomes a dead
#		letter.  A revision that lies beyond the allowed future is never stored.  F-03.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use PostgreSQL::Test::Utils;
use Test::More;

my $node  = make_node('clock_behind', conf => "atproto.reconnect_delay = 20ms\natproto.reconnect_max_delay = 100ms");
my $clock = AtprotoTest::Clock->new($node);

# To so many seconds after the moment at which the events of steps.py happen.
sub set_clock
{
	my ($seconds) = @_;
	$clock->time_of_day(1767225600 + $seconds - time);
	return;
}

# Waits until the consumer has dropped so many connections; its delays grow.
sub wait_for_drops
{
	my ($n) = @_;
	wait_until(
		sub {
			$clock->advance(1);
			return query("SELECT (drops->>'clock')::int >= $n FROM atproto.stat_subscription") eq 't';
		},
		"$n drops");
	return;
}

my @steps   = ('a 1 +x', 'b 1 +x', 'a 2 +y', 'c deactivated', 'b 2 =x');
my $capture = make_capture('steps.py', @steps);
my $last    = @steps;

foreach my $workers (1, 2)
{
	my $server = AtprotoTest::Server->start($capture);

	start_over();
	set_clock(-1200);
	query(subscribe_sql('s', $server, cursor => 0, workers => $workers));
	wait_for_drops(2);
	is(query('SELECT count(*), (SELECT count(*) FROM atproto.repo), (SELECT coalesce(seq, 0) FROM atproto.stat_subscription) FROM atproto.dead_letter'),
		'0|0|0', "$workers: with a clock that is behind, nothing is condemned, nothing is passed over");
	like(query("SELECT state || ' ' || last_error FROM atproto.stat_subscription"),
		qr/^(waiting|connecting|streaming) this machine's clock is at least (19|20) minutes behind the stream's$/, "$workers: it says so, and tries again");
	set_clock(10);
	wait_for_seq($node, 's', $last);
	tables_match($node, $capture, "$workers: with the right time all of it arrives");
	is(query('SELECT events, (SELECT count(*) FROM atproto.dead_letter) FROM atproto.stat_subscription'), "$last|0", "$workers: each event once");
}

# --- one account ---

# Microseconds after the epoch of these captures; the last two, from 2^53 on, have the top bit of a TID.
my @odd_revs = ('3155760000000000', '9007199254740992', '9007199254741992');
my $later   = '@2126-01-01T00:00:00Z';
foreach my $workers (1, 2)
{
	foreach my $rev (@odd_revs)
	{
		my @odd     = ('b 1 +x', "a $rev +w", 'b 2 +z', "a $rev $later +x", 'b 3 =x', 'a 1 +y', "a sync $rev", 'b 4 +y', 'a 2 +z');
		my $server = AtprotoTest::Server->start(make_capture('steps.py', @odd));

		start_over();
		query(subscribe_sql('s', $server, cursor => 0, workers => $workers));
		wait_for_seq($node, 's', scalar @odd);
		is(query('SELECT string_agg(seq || stage, $$ $$ ORDER BY seq) FROM atproto.dead_letter'), '2commit 4commit 7commit',
			"$workers, $rev: one event that is ahead is condemned, whatever time it carries");
		is(query("SELECT string_agg(value->>'text', ', ' ORDER BY did, rkey) FROM atproto.record"), 'y 1, z 2, x 3, y 4, z 2',
			"$workers, $rev: what comes after it is taken");
		is(query('SELECT count(*) FROM atproto.repo WHERE rev > $$3zzzzzzzzzzzz$$'), '0', "$workers, $rev: its revision is not");
		is(query('SELECT count(*) FROM atproto.dead_letter WHERE atproto.retry(id) IN ($$applied$$, $$obsolete$$)'), '0',
			"$workers, $rev: nor is it when it is tried again");
	}
}

# Events one by one: the next event decides also when it comes later.
my @slow = ('b 1 +x', "a $odd_revs[0] $later +x", map { "b $_ +y$_" } 2 .. 5);
foreach my $workers (1, 2)
{
	my $server = AtprotoTest::Server->start(make_capture('steps.py', @slow), '--rate', 10);

	start_over();
	query(subscribe_sql('s', $server, cursor => 0, workers => $workers));
	wait_for_seq($node, 's', scalar @slow);
	is(query('SELECT (SELECT string_agg(seq || stage, $$ $$) FROM atproto.dead_letter), drops, count FROM atproto.stat_subscription, (SELECT count(*) FROM atproto.record) r'),
		'2commit|{}|5', "$workers: one account cannot stop a stream whose events come one by one");
}

# The last event of a stream proves nothing about the clock: the consumer waits for the next event.
my $server = AtprotoTest::Server->start(make_capture('steps.py', 'b 1 +x', "a $odd_revs[0] $later +x", 'b 2 +y'), '--hold-at', 3);
start_over();
query(subscribe_sql('s', $server, cursor => 0));
wait_for_drops(2);
is(query('SELECT seq, (SELECT count(*) FROM atproto.dead_letter) FROM atproto.stat_subscription'), '1|0', 'the last event, alone ahead, waits');
$node->poll_query_until('postgres', "SELECT state = 'streaming' FROM atproto.stat_subscription");
my $drops = query("SELECT drops->>'clock' FROM atproto.stat_subscription");
query("UPDATE atproto.subscription SET keep_raw = true");
$node->poll_query_until('postgres', "SELECT (drops->>'clock')::int > $drops FROM atproto.stat_subscription");
$server->release;
wait_for_seq($node, 's', 3);
is(query('SELECT string_agg(seq || stage, $$ $$) FROM atproto.dead_letter'), '2commit', 'until the next one tells');

# --- labels: the creation time of a label is a claim like a revision ---

my @nsid = (nsid => 'com.atproto.label.subscribeLabels', cursor => 0);
my $labels = make_capture('streams.py', 'ahead');

start_over();
query(subscribe_sql('s', AtprotoTest::Server->start($labels), @nsid));
wait_for_seq($node, 's', 5);
is(query("SELECT string_agg(concat_ws(' ', seq, path, stage), ', ' ORDER BY seq) FROM atproto.dead_letter WHERE message LIKE '%lies in the future%'"),
	'2 labels/0 record, 4 labels/0 record', 'F-33: a label of 2999 is a letter');
is(query("SELECT string_agg(concat_ws(' ', val, neg, seq), ', ' ORDER BY val) FROM atproto.label"), 'beside t 4, poison t 3, true t 5',
	'F-33: so its labeler can take the label back');
is(query('SELECT count(*) FROM atproto.dead_letter WHERE atproto.retry(id) IN ($$applied$$, $$obsolete$$)'), '0', 'F-33: nor is it stored when it is tried again');

# With a clock that is behind, labels wait, too; and the last label of a stream proves nothing.
start_over();
set_clock(-1200);
query('TRUNCATE atproto.label');
$server = AtprotoTest::Server->start(make_capture('streams.py', 'labels'));
query(subscribe_sql('s', $server, @nsid));
wait_for_drops(2);
is(query('SELECT (SELECT count(*) FROM atproto.dead_letter), (SELECT count(*) FROM atproto.label), coalesce(seq, 0) FROM atproto.stat_subscription'), '0|0|0',
	'labels: with a clock that is behind, nothing is condemned');
set_clock(10);
wait_for_seq($node, 's', scalar(() = read_capture(make_capture('streams.py', 'labels'))));
is(query("SELECT count(*) FROM atproto.dead_letter WHERE message LIKE '%future%'"), '0', 'labels: with the right time all of them arrive');

$node->stop;
done_testing();
