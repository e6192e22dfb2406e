# 354_repo_meanwhile.pl
#		An account is deleted while its repository is fetched: between two slices, within a slice, after the
#		fetcher has ended, or as only the second source of a union says.  No event waits any more, no record
#		of the export stays, and none comes back when the account begins a new repository.  In a union, a
#		commit is missing after the fetch: when the second source brings the commit, it does not wait.  F-08,
#		F-15, R-04, R-32, V-35.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use AtprotoTest::Points;
use Test::More;

my ($network, $node, $files) = begin_exports('repo_meanwhile', <<"EOF");
atproto.fetch_retry = '1s'
atproto.fetch_allow = 'http://$HOST'
atproto.reconnect_delay = 50ms
atproto.multi_source_wait = 10min
atproto.test_merge_slice = 200
EOF
my $points  = AtprotoTest::Points->new($node);
my @slice   = ('slice next', 'atproto fetcher');
my $did     = did('a');
my $capture = make_capture('steps.py', 'a 1 +x', 'a 20 +y', 'a deleted', 'b 1 +x', 'a active', 'a 60 +z', 'b 2 +x');
my $server;

$network->repos({ $HOST => { $did => { car => "$files/first.car" } } });

# active, status, sync, hold; records, events that wait, jobs
sub state_of
{
	my ($s) = @_;
	return query("SELECT active, status, sync, hold, (SELECT count(*) FROM $s.record r WHERE r.did = p.did), (SELECT count(*) FROM atproto.held_event), (SELECT count(*) FROM atproto.repo_job)"
		. " FROM $s.repo p WHERE did = '$did'");
}

# One slice of an export of revision 10 is in the tables, the fetcher is before the next slice, and an event waits.
sub begin
{
	my ($s, $events, $waits) = @_;

	$waits //= 2;
	$server = AtprotoTest::Server->start($events // $capture, map { ('--hold-at', $_) } $waits, $waits + 1, 5);
	$network->hosts({ $HOST => { stream => $server->port } });
	query("CREATE SCHEMA $s; SELECT atproto.subscribe('$s', 'ws://$HOST', allow_insecure => true, cursor => 0, target => '$s', backfill => 'repair')");
	wait_for_seq($node, $s, 1);
	$points->hold(@slice);
	query("SELECT atproto.resync('$did', '$s')");
	$points->wait(@slice);
	$server->release;
	wait_for_seq($node, $s, $waits);
	is(state_of($s), 't||resyncing|resync|201|1|1', "R-04: $s: an event waits for the fetch");
	return;
}

sub deleted
{
	my ($s) = @_;

	$server->release;
	wait_for_seq($node, $s, 4);
	is(state_of($s), 'f|deleted|resyncing|resync|0|0|0', "F-15: $s: the event, the job and the records of the export go with the account; the fetcher has not seen this yet");
	return;
}

sub returned
{
	my ($s) = @_;

	$server->release;
	wait_for_seq($node, $s, 7);
	return;
}

sub ends
{
	my ($s) = @_;

	wait_for("SELECT hold IS NULL AND NOT EXISTS (SELECT FROM atproto.held_event) FROM $s.repo WHERE did = '$did'");
	is(state_of($s), 't||synchronized||1|0|0', "V-35: $s: the new repository has its first commit, and nothing else");
	is(query("SELECT equal FROM atproto.audit('$did', '$s', deep => true)"), 't', "V-35: $s: an audit says so");
	query("SELECT atproto.unsubscribe(name) FROM atproto.subscription");
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
	return;
}

# --- between two slices ---

begin('between');
deleted('between');
$points->release(@slice);
wait_for("SELECT hold IS NULL FROM between.repo WHERE did = '$did'");
is(state_of('between'), 'f|deleted|desynchronized||0|0|0', 'F-15: between: nothing waits, and the export is given up');
returned('between');
ends('between');

# --- the account is deleted and begins again before the fetcher looks ---

begin('again');
deleted('again');
returned('again');
is(state_of('again'), 't||resyncing|resync|0|1|0', 'R-04: again: an event of the new repository waits');
$points->release(@slice);
ends('again');

# --- within a slice ---

begin('within');
query("CREATE FUNCTION within.stop() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN IF NEW.did::text = '$did' THEN PERFORM pg_advisory_xact_lock(1); END IF; RETURN NEW; END \$\$;
	CREATE TRIGGER stop BEFORE INSERT ON within.record FOR EACH ROW EXECUTE FUNCTION within.stop()");
my $session = $node->background_psql('postgres');
$session->query_safe('SELECT pg_advisory_lock(1)');
$points->release(@slice);
wait_for(q{SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND NOT granted AND application_name = 'atproto fetcher')});
deleted('within');
returned('within');
$session->query_safe('SELECT pg_advisory_unlock(1)');
$session->quit;
ends('within');

# --- the fetcher has ended, and cannot go on ---

begin('ended');
$network->fault({ path => 'getRepo\\b', did => $did, hold => 'gate' });
my $fetcher = query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'");
query("SELECT pg_terminate_backend($fetcher)");
$points->release(@slice);
wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $fetcher) AND (SELECT state = 'queued' FROM atproto.repo_job)");
deleted('ended');
# a consumer looks for such repositories when it starts, and every five minutes
query("SELECT atproto.pause('ended')");
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
query("SELECT atproto.resume('ended')");
wait_for("SELECT hold IS NULL FROM ended.repo WHERE did = '$did'");
returned('ended');
ends('ended');
go_on();

# --- a second source of a lower level says so: its subscription may not take the event that waits ---

begin('first');
my @judges = ('held events read', 'atproto first');
$points->hold(@judges);
# A consumer that starts looks for fetches that do not run, before its first batch or, if the events come at once, after it: the
# account is deleted after this look, which would end the wait for the fetch.
my $second = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a deleted', 'b 1 +x'), '--hold-at', 2);
query(subscribe_sql('second', $second, cursor => 0, target => "'first'", verify => "'hash'"));
wait_for_seq($node, 'second', 1);
$second->release;
wait_for_seq($node, 'second', 3);
is(state_of('first'), 'f|deleted|resyncing|resync|0|1|0', 'R-32: first: the event is left to its own subscription');
$points->release(@judges);
$points->release(@slice);
wait_for("SELECT hold IS NULL AND NOT EXISTS (SELECT FROM atproto.held_event) FROM first.repo WHERE did = '$did'");
is(state_of('first'), 'f|deleted|desynchronized||0|0|0', 'F-15: first: which does not bring it back');
$server->release;
wait_for_seq($node, 'first', 4);
returned('first');
ends('first');

# --- the first fetch of a repository has ended with its subscription; later, another one follows the account ---

foreach my $case ([ 'later', 'a 1 +x', 'a 60 +z' ], [ 'anew', 'a deleted', 'a 60 +z' ])
{
	my ($s, $before, $commit) = @$case;
	my @steps = read_capture(make_capture('steps.py', 'b 1 +x', $before, $commit, 'b 2 +x'));

	$server = AtprotoTest::Server->start(write_capture("$files/$s", @steps[ 0, 2, 3 ]), '--hold-at', 2);
	$network->hosts({ $HOST => { stream => $server->port } });
	query("CREATE SCHEMA $s; SELECT atproto.subscribe('$s', 'ws://$HOST', allow_insecure => true, target => '$s', backfill => 'repair')");
	$points->hold(@slice);
	query("SELECT atproto.resync('$did', '$s')");
	$points->wait(@slice);
	$fetcher = query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'");
	query("SELECT atproto.unsubscribe('$s'); SELECT pg_terminate_backend($fetcher)");
	$points->release(@slice);
	wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $fetcher)");
	query(subscribe_sql($s, $server, cursor => 0, target => "'$s'"));
	wait_for_seq($node, $s, 1);
	wait_for("SELECT hold IS NULL FROM $s.repo WHERE did = '$did'");
	is(query("SELECT sync FROM $s.repo WHERE did = '$did'"), 'desynchronized', "R-05: $s: its records may be out of date");
	$server->release;
	wait_for_seq($node, $s, 4);
	is(query("SELECT sync FROM $s.repo WHERE did = '$did'"), 'desynchronized', "V-35: $s: also after a commit");
	query("SELECT atproto.unsubscribe('$s')");
}

# --- events that waited for the fetch wait for a missing commit after it ---

my @steps = read_capture(make_capture('steps.py', 'a 1 +x', 'a 11 +p', 'a 12 +q', 'a 13 +r', 'b 1 +x'));
begin('gap', write_capture("$files/lacks", @steps[ 0, 2, 3, 4 ]), 3);
$second = AtprotoTest::Server->start(write_capture("$files/all", @steps), '--hold-at', 2);
query(subscribe_sql('second', $second, cursor => 0, target => "'gap'"));
wait_for_seq($node, 'second', 1);
$server->release;
wait_for_seq($node, 'gap', 4);
$points->release(@slice);
wait_for(q{SELECT string_agg(seq::text || ' ' || why, ', ' ORDER BY seq) ~ '^3 gap, 4 ' FROM atproto.held_event});
$second->release;
wait_for_seq($node, 'second', 5);
wait_for("SELECT count(*) = 3 FROM gap.record WHERE did = '$did' AND rkey::text IN ('p', 'q', 'r')");
pass('F-08: gap: the missing commit is applied, and then what waited for it');

# --- after the fetch, an event is left to a subscription of a higher level, whose consumer is slow ---

@steps = read_capture(make_capture('steps.py', 'a 1 +x', 'a 11 +p', 'a 12 +q', 'a 13 +r', 'b 1 +x'));
$server = AtprotoTest::Server->start(write_capture("$files/low", @steps[ 0, 3, 4 ]), '--hold-at', 2);
$network->hosts({ $HOST => { stream => $server->port } });
query("SELECT atproto.unsubscribe(name) FROM atproto.subscription");
query("CREATE SCHEMA slow; SELECT atproto.subscribe('low', 'ws://$HOST', allow_insecure => true, cursor => 0, target => 'slow', verify => 'hash', backfill => 'repair')");
wait_for_seq($node, 'low', 1);
query(subscribe_sql('taker', AtprotoTest::Server->start(write_capture("$files/taker", @steps[ 0, 2, 4 ])), cursor => 0, target => "'slow'"));
wait_for_seq($node, 'taker', 5);
$points->hold(@slice);
query("SELECT atproto.resync('$did', 'slow')");
$points->wait(@slice);
$server->release;
wait_for_seq($node, 'low', 5);
is(query("SELECT string_agg(concat_ws(' ', subscription, seq, why), ', ' ORDER BY seq) FROM atproto.held_event"), 'taker 3 gap, low 4 resync', 'R-32: slow: one event waited before the fetch, one waits for the fetch');
$points->hold('held events read', 'atproto taker');
$points->release(@slice);
$points->wait('held events read', 'atproto taker');
is(query("SELECT hold FROM slow.repo WHERE did = '$did'"), 'release', 'R-32: slow: both are to be judged again');
my $until = query("SELECT clock_timestamp() + interval '3 s'");
my %began;
wait_until(
	sub {
		my ($over, $began) = split /\|/, query("SELECT clock_timestamp() > '$until', (SELECT xact_start FROM pg_stat_activity WHERE application_name = 'atproto low')");
		$began{$began} = 1 if $began;
		return $over eq 't';
	},
	'three seconds');
cmp_ok(scalar keys %began, '<', 10, 'R-32: slow: the consumer that leaves its event looks each second, not again and again');
$points->release('held events read', 'atproto taker');

# --- an account is deactivated while its repository is fetched, and the fetcher ends before it looks ---

query("SELECT atproto.unsubscribe(name) FROM atproto.subscription");
begin('suspended', make_capture('steps.py', 'a 1 +x', 'a 20 +y', 'a deactivated', 'b 1 +x'));
$server->release;
wait_for_seq($node, 'suspended', 4);
is(state_of('suspended'), 'f|deactivated|resyncing|resync|201|1|1', 'R-04: suspended: an event waits for a fetch that goes on');
$fetcher = query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'");
query("SELECT pg_terminate_backend($fetcher)");
$points->release(@slice);
wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $fetcher)");
query("SELECT atproto.pause('suspended')");
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
query("SELECT atproto.resume('suspended')");
wait_for("SELECT hold IS NULL FROM suspended.repo WHERE did = '$did'");
is(state_of('suspended'), 'f|deactivated|desynchronized||202|0|1', 'R-05: suspended: what waited for it does not wait for the account');
query("SELECT atproto.unsubscribe('suspended')");

# --- a fetch ends after a slice, and the next export is older ---

$network->repos({ $HOST => { $did => { car => "$files/second.car" } } });
$server = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x'));
$network->hosts({ $HOST => { stream => $server->port } });
query("CREATE SCHEMA older; SELECT atproto.subscribe('older', 'ws://$HOST', allow_insecure => true, cursor => 0, target => 'older', backfill => 'repair')");
wait_for_seq($node, 'older', 1);
$points->hold(@slice);
query("SELECT atproto.resync('$did', 'older')");
$points->wait(@slice);
$fetcher = query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'");
query('ALTER SYSTEM SET atproto.test_merge_slice = 0');
query("SELECT pg_reload_conf(), pg_terminate_backend($fetcher)");
$network->repos({ $HOST => { $did => { car => "$files/first.car" } } });
$points->release(@slice);
wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $fetcher)");
query("SELECT atproto.resync('$did', 'older')");
wait_for("SELECT sync = 'synchronized' FROM older.repo WHERE did = '$did'");
is(query("SELECT equal, records FROM atproto.audit('$did', 'older')"), 't|537', 'R-52: older: nothing stays of the newer export, which was given up');
is(query("SELECT count(*) FROM older.record r JOIN older.repo p USING (did) WHERE r.rev > p.rev"), '0', 'R-53: older: and no record has its revision');
query("SELECT atproto.unsubscribe('older')");

# --- a commit is ignored while the account is not active ---

$server = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a deactivated', 'a 2 +y', 'b 1 +x', 'a active', 'b 2 +y'), '--hold-at', 5);
$network->hosts({ $HOST => { stream => $server->port } });
query("CREATE SCHEMA missed; SELECT atproto.subscribe('missed', 'ws://$HOST', allow_insecure => true, cursor => 0, target => 'missed', backfill => 'repair')");
wait_for_seq($node, 'missed', 4);
is(state_of('missed'), 'f|deactivated|desynchronized||1|0|0', 'V-38: missed: the commit leaves a mark');
$server->release;
wait_for_seq($node, 'missed', 6);
wait_for("SELECT sync = 'synchronized' FROM missed.repo WHERE did = '$did'");
is(query("SELECT equal, records FROM atproto.audit('$did', 'missed')"), 't|537', 'V-38: missed: it is fetched as soon as the account is active again');

$node->stop;
done_testing();
