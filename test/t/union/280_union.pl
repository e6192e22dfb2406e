# 280_union.pl
#		Several streams of the same repositories fill the same tables, and each source lacks different
#		commits.  The tables must have the operations of all sources together, each applied once.  F-03,
#		F-08, R-30, R-32.
#
#		ATPROTO_SEED is the seed of the run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Points;
use AtprotoTest::Union;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = seed();

my $node  = make_node('union', conf => "max_worker_processes = 20\natproto.reconnect_delay = 50ms\natproto.multi_source_wait = 5min");
my $union = AtprotoTest::Union->new($node);
cmp_ok(scalar($union->commits), '>', 500, 'there are commits that a source may lack');

# --- two sources; the first is ahead, then the second ---

my @captures = $union->lossy(2, 30);
my @servers = (
	AtprotoTest::Server->start($captures[0], '--hold-at', 900, '--rate', 2000),
	AtprotoTest::Server->start($captures[1], '--hold-at', 500, '--hold-at', 1300, '--rate', 2000));
$union->follow('two', [ 'chain', 'chain' ], \@servers);
# the first source is held, and the second has not yet sent the missing commits
wait_for("SELECT bool_and(seq >= CASE name WHEN 'two0' THEN 880 ELSE 400 END) FROM atproto.stat_subscription");
cmp_ok(query("SELECT count(*) FROM atproto.held_event WHERE why = 'gap'"), '>', 0, 'F-08: commits wait for others before them');
is(query("SELECT count(*) FROM two.repo r WHERE (hold IS NOT DISTINCT FROM 'gap') <> EXISTS (SELECT FROM atproto.held_event h WHERE h.did = r.did)"), '0', 'R-30: and their repositories say so');
$servers[1]->release;
wait_for("SELECT seq > 1200 FROM atproto.stat_subscription WHERE name = 'two1'");
is(query("SELECT name, behind = 0 FROM atproto.stat_subscription ORDER BY name"), "two0|f\ntwo1|t", 'the one that stands still is behind');
$servers[0]->release;
wait_for_seq($node, 'two0', $PDS_LAST);
# through a restart
$node->restart;
$servers[1]->release;
$union->at_end;
$union->matches('two', 'two');
is(query("SELECT count(*) FROM atproto.cursor WHERE record_ops > 0"), '2', 'each has brought something');
# notes of the sources about each other hold only as long as the rows that they describe
query("BEGIN; TRUNCATE two.record, two.repo, two.record_event; SELECT atproto.set_cursor(name, 0) FROM atproto.subscription; COMMIT");
$union->at_end;
$union->matches('two', 'once more, into empty tables');
$union->forget;

# Two sources lack two adjacent commits of one repository, one each.
my ($one) = $union->repositories;
@servers = map { AtprotoTest::Server->start($union->without($one->[$_])) } 3, 4;
$union->follow('crossed', [ 'chain', 'chain' ], \@servers);
$union->at_end;
$union->matches('crossed', 'one lacks the second, the other the third');
$union->forget;

# One source lacks a #sync, which names no previous commit: the commit after the #sync waits for it.
my @steps = read_capture(make_capture('steps.py', 'a 1 +x', 'a sync 2', 'a 3 +y', 'b 1 +x'));
my $dir = PostgreSQL::Test::Utils::tempdir();
@servers = (
	AtprotoTest::Server->start(write_capture("$dir/lacks", @steps[ 0, 2, 3 ])),
	AtprotoTest::Server->start(write_capture("$dir/all", @steps), '--hold-at', 2));
$union->follow('synced', [ 'chain', 'chain' ], \@servers);
wait_for_seq($node, 'synced0', 4);
is(query('SELECT count(*), min(why) FROM atproto.held_event'), '1|gap', 'F-08: a commit waits for the #sync before it');
$servers[1]->release;
wait_for_seq($node, 'synced1', 4);
is(query("SELECT string_agg(rkey::text, ' ' ORDER BY rkey) FROM synced.record WHERE did = '" . did('a') . q{'}), 'x y', 'F-08: the #sync does not wait behind it');
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
$union->forget;

# Events whose wait is over, but which wait on because their repository is being fetched, are before no other repository's events.
@steps = read_capture(make_capture('steps.py', 'a 1 +x', 'b 1 +x', 'a sync 2', 'b sync 2', 'a 3 +y', 'b 3 +y'));
@servers = (
	AtprotoTest::Server->start(write_capture("$dir/lacks", @steps[ 0, 1, 4, 5 ]), '--hold-at', 6),
	AtprotoTest::Server->start(write_capture("$dir/all", @steps), '--hold-at', 3));
$union->follow('stuck', [ 'chain', 'chain' ], \@servers);
wait_for_seq($node, 'stuck0', 5);
query(<<"SQL");
UPDATE atproto.subscription SET backfill = 'repair' WHERE name = 'stuck0';
INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try) SELECT target, did, subscription, 1, 'break', 'infinity' FROM atproto.held_event;
INSERT INTO atproto.held_event (target, subscription, kind, verify, format, endpoint, did, rev, seq, why, held_at, shard_key, bytes)
	SELECT target, subscription, kind, verify, format, endpoint, did, rev, seq + n, why, now() - interval '1 hour', shard_key, bytes FROM atproto.held_event, generate_series(1, 100) n;
UPDATE stuck.repo SET hold = 'resync', sync = 'resyncing' WHERE hold = 'gap';
ALTER SYSTEM SET atproto.multi_source_wait = '2s';
SELECT pg_reload_conf();
SQL
$servers[0]->release;
wait_for("SELECT string_agg(rkey::text, ' ' ORDER BY rkey) = 'x y' FROM stuck.record WHERE did = '" . did('b') . q{'});
is(query("SELECT count(*) FROM atproto.held_event WHERE why = 'gap' AND did = '" . did('a') . q{'}), '101', 'F-08: the end of a wait is noticed beside a hundred events that wait on');
query('DELETE FROM atproto.held_event; DELETE FROM atproto.repo_job; ALTER SYSTEM RESET atproto.multi_source_wait; SELECT pg_reload_conf()');
$union->forget;

# --- one consumer has read that no event waits, and the second comes in between (doc/develop/races.md) ---

my $points = AtprotoTest::Points->new($node);

foreach my $stopped (0, 1)
{
	my $name = "race$stopped";
	@servers = (
		AtprotoTest::Server->start($union->without($one->[3]), '--hold-at', $one->[4] + 1),
		AtprotoTest::Server->start($union->without(), '--hold-at', $one->[3] + 1));
	$union->follow($name, [ 'chain', 'chain' ], \@servers);
	wait_for_seq($node, "${name}0", $one->[4]);
	wait_for_seq($node, "${name}1", $one->[3]);
	$points->hold('states read', "atproto $name$stopped");
	$servers[$stopped]->release;
	$points->wait('states read', "atproto $name$stopped");
	$servers[ 1 - $stopped ]->release;
	# no wait is necessary where the rows are read directly
	my $goes_on = $name . (1 - $stopped);
	wait_for("SELECT (SELECT seq >= $PDS_LAST FROM atproto.stat_subscription WHERE name = '$goes_on') OR EXISTS (SELECT FROM pg_stat_activity"
		  . " WHERE application_name = 'atproto $goes_on' AND wait_event_type = 'Lock')");
	$points->release('states read', "atproto $name$stopped");
	$union->at_end;
	$union->matches($name, $stopped ? 'what is missing comes while it is missed' : 'it is missed while it comes');
	$union->forget;
}

# --- three at once, with several workers, of different levels, and cut ---

@captures = $union->lossy(3, 40);
@servers = map { AtprotoTest::Server->start($captures[$_], '--rate', 500 + 300 * $_, '--cut-after', 200 + 100 * $_) } 0 .. 2;
$union->follow('three', [ 'chain', 'hash', 'chain' ], \@servers, workers => 3);
$union->at_end;
$union->matches('three', 'three');
is(query("SELECT count(*) FROM atproto.stat_subscription WHERE skips ? 'break'"), '0', 'F-08: no break');
$union->forget;

$node->stop;
done_testing();
