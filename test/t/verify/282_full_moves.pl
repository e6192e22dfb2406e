# 282_full_moves.pl
#		Events are held at level full, and then their subscription stops following the account, or gets
#		another target.  No event waits for ever, also where an event is held behind a released one.  As in
#		282_full.pl, no fetcher runs.  R-30, R-32, R-35, V-41.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Lookups;
use Test::More;

my $node    = make_node('moves', databases => '', conf => "max_worker_processes = 12\natproto.reconnect_delay = 50ms");
my %who     = accounts_of('full.py', 'rotations');
my $names   = keys %who;
my $capture = make_capture('full.py', 'rotations');
my ($did, $key, $other) = ($who{unknown}{did}, $who{unknown}{first}, $who{old}{did});

# Streams all events up to the point where three events of one account wait.
sub with_held
{
	my ($name, %o) = @_;
	my $server = AtprotoTest::Server->start($capture, '--hold-at', $names + 16);

	query("DELETE FROM atproto.subscription; CREATE SCHEMA IF NOT EXISTS $name");
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
	begin_again();
	query(subscribe_sql($name, $server, cursor => 0, target => "'$name'", verify => "'full'", events => "'keep'", %o));
	wait_for_seq($node, $name, $names + 15);
	is(held($name), 3, "$name: three events wait");
	return $server;
}

sub held
{
	my ($target) = @_;
	return query("SELECT count(*) FROM atproto.held_event WHERE did = '$did' AND target = '$target'");
}

sub look_up
{
	know($did, $key);
	query("INSERT INTO atproto.held_release (target, kind, did, subscription, shard_key) SELECT DISTINCT target, kind, did, subscription, shard_key FROM atproto.held_event WHERE did = '$did'");
	return;
}

sub is_taken
{
	my ($target, $why) = @_;

	wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE did = '$did'");
	wait_for("SELECT count(*) = 0 FROM atproto.held_release WHERE did = '$did'");
	is(query("SELECT string_agg(rkey::text, ',' ORDER BY rev, seq), count(*) FROM $target.record_event WHERE did = '$did'"), '10,20,30|3', $why);
	is(query("SELECT sync, hold FROM $target.repo WHERE did = '$did'"), 'synchronized|', "$why: nothing is left");
	return;
}

# --- a filter that excludes the account ---

foreach my $workers (1, 3)
{
	with_held("narrow$workers", workers => $workers);
	query("UPDATE atproto.subscription SET dids = '{$other}'");
	wait_for("SELECT bool_and(settings_after IS NOT NULL) FROM atproto.cursor");
	look_up();
	is_taken("narrow$workers", "R-32: $workers: what came before a filter changed is taken");
}

# Two subscriptions, neither of which follows the account any more.
my $server = with_held('shared');
my $second = AtprotoTest::Server->start($capture, '--hold-at', $names + 16);
query(subscribe_sql('second', $second, cursor => 0, target => "'shared'", verify => "'full'", events => "'keep'"));
wait_for_seq($node, 'second', $names + 15);
is(held('shared'), 6, 'each has its own');
query("UPDATE atproto.subscription SET dids = '{$other}'");
wait_for('SELECT count(settings_after) = 2 FROM atproto.cursor');
look_up();
is_taken('shared', 'R-32: two subscriptions');
query("INSERT INTO atproto.status_request (target, did, subscription, why, requested_at) VALUES ('shared', '$did', 'second', 'deleted', now()); SELECT atproto.unsubscribe('second')");
is(query("SELECT subscription FROM atproto.status_request WHERE did = '$did'"), 'shared', 'V-47: what one asks for the other one goes on to ask for');
query("SELECT atproto.unsubscribe('shared')");
is(query('SELECT count(*) FROM atproto.status_request'), '0', 'V-47: until nobody is left');

# --- other tables ---

with_held('former');
query("CREATE SCHEMA came; SELECT atproto.create_tables('came'); UPDATE atproto.subscription SET target = 'came'");
wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE target = 'former'");
pass('R-35: what waits goes with the tables that it was for');
query("SELECT atproto.set_cursor('former', 0)");
wait_for_seq($node, 'former', $names + 15);
wait_for("SELECT count(*) = 3 FROM atproto.held_event WHERE did = '$did' AND target = 'came'");
look_up();
is_taken('came', 'R-32: and other tables have it, when it comes again');

with_held('kind');
my $labels = AtprotoTest::Server->start(make_capture('full_labels.py', 'flood', 3));
query("UPDATE atproto.subscription SET url = '" . $labels->url(nsid => 'com.atproto.label.subscribeLabels') . "'");
wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE kind = 'repo'");
pass('R-35: likewise of another kind of stream');

# --- behind an event that is valid by the key that a lagging directory still has ---

my %others = accounts_of('full.py', 'again');
my ($turned, $first, $next) = @{ $others{turned} }{qw(did first second)};
query('DELETE FROM atproto.subscription; CREATE SCHEMA lags');
begin_again();
query(subscribe_sql('lags', AtprotoTest::Server->start(make_capture('full.py', 'again')), cursor => 0, target => "'lags'", verify => "'full'", dids => "'{$turned}'"));
wait_for_seq($node, 'lags', 10);
is(query("SELECT string_agg(why, ' ' ORDER BY rev) FROM atproto.held_event"), 'identity order order order', 'four events wait, three of them behind the first');
know($turned, $first);
looked_up('', "did = '$turned'");
wait_for("SELECT string_agg(why, ' ' ORDER BY rev) = 'signature order order' FROM atproto.held_event");
is(query("SELECT string_agg(rkey::text, ',') FROM lags.record") . query('SELECT count(*) FROM atproto.dead_letter'), '100',
	'V-41: what is not by the key of the first answer waits for another one, also behind what is');
looked_up(", key = '\\x$next', resolved_at = now()", "did = '$turned'");
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM lags.record"), '10,20,30,40', 'V-41: which brings its key');

$node->stop;
done_testing();
