# 280_union_ends.pl
#		A commit waits for a missing earlier commit that no source brings.  The wait ends after a time, when
#		no source remains that could bring or release the commit, when limits are reached, or when the
#		account ends.  Then the repository is marked with a break: nothing is lost silently.  F-05, F-08,
#		F-15, R-30, R-32, R-34, R-35.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Points;
use AtprotoTest::Union;
use PostgreSQL::Test::Utils;
use Test::More;

my $node  = make_node('union_ends', conf => "max_worker_processes = 20\natproto.reconnect_delay = 50ms\natproto.multi_source_wait = 5min");
my $union = AtprotoTest::Union->new($node);
my ($one, $two) = $union->repositories;

sub wait_at_most
{
	my ($time) = @_;

	query("ALTER SYSTEM SET atproto.multi_source_wait = '$time'");
	query('SELECT pg_reload_conf()');
	return;
}

sub state_of
{
	my ($schema) = @_;
	return query("SELECT string_agg(did::text, ' ' ORDER BY did) FROM $schema.repo WHERE sync = 'desynchronized'");
}

# Begins two sources; the first lacks a commit of one repository, so that later commits are held; the second
# stops before that commit.
sub begin_two
{
	my ($schema, $second, %more) = @_;
	my @servers = (AtprotoTest::Server->start($union->without($one->[3])), AtprotoTest::Server->start($second, '--hold-at', $one->[3]));

	$union->follow($schema, [ 'chain', 'chain' ], \@servers, %more);
	wait_for_seq($node, "${schema}0", $PDS_LAST);
	is(query("SELECT count(*), count(DISTINCT did), bool_or(did = '$one->[0]') FROM atproto.held_event"), (@$one - 4) . '|1|t', "$schema: what comes after it waits");
	return $servers[1];
}

# --- both sources lack the commit ---

my $last = begin_two('neither', $union->without($one->[3]));
$last->release;
wait_for_seq($node, 'neither1', $PDS_LAST);
is(query('SELECT count(*) FROM atproto.held_event'), 2 * (@$one - 4), 'neither: it waits');
is(state_of('neither'), '', 'neither: nobody knows yet');
wait_at_most('1s');
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(state_of('neither'), $one->[0], 'F-08: neither: it is a break, in time, with no event that comes');
is(query('SELECT sum(breaks) FROM atproto.stat_subscription'), '1', 'F-08: and one');
is(query("SELECT count(*) FROM neither.repo WHERE hold IS NOT NULL"), '0', 'nothing waits any more');
tables_match($node, capture('pds.frames.gz'), 'what came after it was taken', schema => 'neither', modes => ['repo']);
$union->forget;

# --- there is no second source: the repository is marked at once ---

wait_at_most('5min');
my $server = AtprotoTest::Server->start($union->without($one->[3]));
my $other = AtprotoTest::Server->start($union->without());
query('CREATE SCHEMA alone');
query(subscribe_sql('other', $other, cursor => 0, target => "'alone'") . "; SELECT atproto.pause('other')");
query(subscribe_sql('elsewhere', $other, cursor => 0, target => "'alone'", dids => "'{$two->[0]}'", events => "'keep'"));
query(subscribe_sql('alone', $server, cursor => 0, target => "'alone'", events => "'keep'"));
wait_for_seq($node, 'alone', $PDS_LAST);
is(query("SELECT breaks, skips ? 'held' FROM atproto.stat_subscription WHERE name = 'alone'"), '1|f', 'F-08: who is paused, and who does not follow the account, brings nothing');
is(state_of('alone'), $one->[0], 'F-08: and it is marked at once');
$union->forget;

# --- the subscription that holds the commit is paused: the second takes it ---

$last = begin_two('paused', $union->without());
query("SELECT atproto.pause('paused0')");
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
$last->release;
$union->at_end;
$union->matches('paused', 'paused');
$union->forget;

# --- the subscription that holds the commit is removed: the second takes it over; then both are removed ---

$last = begin_two('removed', $union->without(@$one[ 3 .. $#$one ]));
query("SELECT atproto.unsubscribe('removed0')");
is(query('SELECT subscription, count(*) FROM atproto.held_event GROUP BY 1'), 'removed1|' . (@$one - 4), 'R-32: what it held is the other one\'s, which may take it');
query("SELECT atproto.unsubscribe('removed1')");
is(query('SELECT count(*) FROM atproto.held_event'), '0', 'R-35: what nobody may take goes with its subscription');
is(state_of('removed'), $one->[0], 'R-35: and the repository is marked, in that transaction');
is(query('SELECT count(*) FROM removed.repo WHERE hold IS NOT NULL'), '0', 'R-35: and waits for nothing');
is(query('SELECT subscription, target, sum(events) FROM atproto.gap GROUP BY 1, 2'), '|removed|' . (@$one - 4), 'R-35: a row says how many events went');
$union->forget;

# --- no room for held events ---

$server = AtprotoTest::Server->start($union->without($one->[3]));
$other = AtprotoTest::Server->start($union->without(), '--hold-at', $one->[3]);
query('CREATE SCHEMA room');
query(subscribe_sql('room1', $other, cursor => 0, target => "'room'", events => "'keep'"));
query('BEGIN; ' . subscribe_sql('room0', $server, cursor => 0, target => "'room'", events => "'keep'") . "; UPDATE atproto.subscription SET max_held_events = 2 WHERE name = 'room0'; COMMIT");
wait_for_seq($node, 'room0', $PDS_LAST);
is(state_of('room'), $one->[0], 'R-34: what has no room is dropped, and the repository marked');
cmp_ok(query('SELECT count(*) FROM atproto.held_event'), '<=', '2', 'R-34: no more than that is held');
$other->release;
$union->at_end;
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(state_of('room'), $one->[0], 'R-34: and stays so, whatever the other one brings');
$union->forget;

# --- two subscriptions of level hash may take each other's events; of these, a third of level chain holds an older one ---

wait_at_most('5min');
my @steps = read_capture(make_capture('steps.py', 'a 1 +p', 'a 2 +q', 'a 3 +r', 'a 4 +s', 'c 1 +p', 'c 2 +q', 'c 3 +r', 'b 1 +x'));
my $dir = PostgreSQL::Test::Utils::tempdir();
# the peer holds an event of another account, so it looks for events that have waited
my %has = (taker => [ 0, 2, 4, 7 ], low => [ 0, 3, 4, 7 ], peer => [ 0, 4, 6, 7 ]);
my $points = AtprotoTest::Points->new($node);
my @sources;
query('CREATE SCHEMA three');
foreach my $name (qw(peer low taker))
{
	push @sources, AtprotoTest::Server->start(write_capture("$dir/$name", @steps[ @{ $has{$name} } ]), '--hold-at', 2);
	query(subscribe_sql($name, $sources[-1], cursor => 0, target => "'three'", verify => $name eq 'taker' ? "'chain'" : "'hash'"));
	wait_for_seq($node, $name, 1);
}
$_->release foreach @sources;
wait_for_seq($node, $_, 8) foreach keys %has;
is(query("SELECT string_agg(concat_ws(' ', subscription, seq, why), ', ' ORDER BY seq) FROM atproto.held_event"), 'taker 3 gap, low 4 gap, peer 7 gap', 'three: all wait for commits before them');
$points->hold('held events read', 'atproto taker');
wait_at_most(0);
$points->wait('held events read', 'atproto taker');
wait_for(q{SELECT clock_timestamp() > pg_conf_load_time() + interval '3 s'});
is(query("SELECT count(*) FROM atproto.held_event WHERE did = '" . did('a') . q{'}), '2', 'R-32: three: neither of the others applies the newer event first');
$points->release('held events read', 'atproto taker');
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(query("SELECT string_agg(rkey::text, ' ' ORDER BY rkey) FROM three.record WHERE did = '" . did('a') . q{'}), 'p r s', 'R-32: three: nothing of what waited is lost');
$union->forget;

# --- an event is left to the subscription of level chain; what was in front of the event goes, and then that subscription is paused ---

wait_at_most('5min');
@steps = read_capture(make_capture('steps.py', 'a 1 +p', 'a 2 +q', 'a 3 +r', 'a 4 +s', 'a 5 +t', 'a 6 +u', 'a 7 +v', 'b 1 +x'));
%has = (taker => [ 0, 2, 7 ], peer => [ 0, 3, 4, 6, 7 ], low => [ 0, 5, 7 ]);
query('CREATE SCHEMA left_to');
foreach my $name (qw(peer low taker))
{
	push @sources, AtprotoTest::Server->start(write_capture("$dir/left_$name", @steps[ @{ $has{$name} } ]), '--hold-at', 2, $name eq 'peer' ? ('--hold-at', 7) : ());
	query('BEGIN; ' . subscribe_sql($name, $sources[-1], cursor => 0, target => "'left_to'", verify => $name eq 'taker' ? "'chain'" : "'hash'")
		. "; UPDATE atproto.subscription SET max_held_events = 2 WHERE name = 'peer'; COMMIT");
	wait_for_seq($node, $name, 1);
}
foreach my $step ([ -3, 'peer', 5 ], [ -2, 'low', 8 ], [ -1, 'taker', 8 ], [ -3, 'peer', 8 ])
{
	$sources[ $step->[0] ]->release;
	wait_for_seq($node, @$step[ 1, 2 ]);
}
is(query("SELECT string_agg(concat_ws(' ', subscription, seq, why), ', ' ORDER BY seq) FROM atproto.held_event"), 'taker 3 gap, low 6 order', 'left: an event waits behind that of the taker');
wait_for(q{SELECT count(*) = 0 FROM atproto.held_release WHERE subscription = 'low'});
query("SELECT atproto.pause('taker')");
wait_for(q{SELECT why = 'gap' FROM atproto.held_event WHERE subscription = 'low'});
pass('R-32: left: without the taker, the event waits for a commit, and no longer than such events do');
$union->forget;

$node->stop;
done_testing();
