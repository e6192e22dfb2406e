# 263_foreign_hints.pl
#		#identity events are not signed, so a role's stream could forge one.  An #identity by a subscription
#		of one role makes the fetcher look the account up again, but makes no event of other roles'
#		subscriptions wait.  As in 282_full.pl no fetcher runs.  Section H (identity) of sync.md; V-41,
#		W-31.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Lookups;
use Test::More;

my $node  = make_node('foreign_hints', databases => '', conf => "max_worker_processes = 16\natproto.reconnect_delay = 50ms");
my %who   = accounts_of('full.py', 'rotations');
my $names = keys %who;
my ($announced, $former) = map { $who{$_}{did} } qw(announced former);

# Held events of an account and subscription, by reason.
sub waiting
{
	my ($name, $did) = @_;
	return query("SELECT string_agg(why, ',' ORDER BY rev) FROM atproto.held_event WHERE subscription = '$name' AND did = '$did'");
}

query('CREATE ROLE m SUPERUSER LOGIN; CREATE SCHEMA m; CREATE SCHEMA a');
my $whole = AtprotoTest::Server->start(make_capture('full.py', 'rotations'));
my $first = AtprotoTest::Server->start(make_capture('full.py', 'rotations'), map { ('--hold-at', $_ + 1) } $names, $names + 5);
know($who{$_}{did}, $who{$_}{first}) foreach keys %who;

query('SET SESSION AUTHORIZATION m; ' . subscribe_sql('m', $whole, cursor => 0, target => "'m'", verify => "'hash'"));
wait_for("SELECT count(*) = 2 FROM atproto.identity WHERE did IN ('$announced', '$former') AND stale AND doubted_by = ARRAY['m'::regrole::oid]");
pass('W-31: an #identity at level hash makes the identities stale');

query(subscribe_sql('a', $first, cursor => 0, target => "'a'", verify => "'full'"));
wait_for_seq($node, 'a', $names);
is(query("SELECT count(*) FROM atproto.held_event WHERE subscription = 'a'"), '0', 'nothing waits for another role, while the known key verifies it');
is(query("SELECT count(*) FROM a.record WHERE did IN ('$announced', '$former')"), '2', 'it is stored');
is(query("SELECT bool_and(refresh) FROM atproto.identity_request WHERE did IN ('$announced', '$former')"), 't', 'W-31: the hint costs one look-up');

$first->release;
wait_for_seq($node, 'a', $names + 5);
is(waiting('a', $announced), 'identity', 'W-31: after an #identity of its own stream an event waits');
is(query("SELECT doubted_by = ARRAY['m'::regrole::oid, 10::oid] FROM atproto.identity WHERE did = '$announced'"), 't', 'W-31: the second owner is noted beside the first one');

# The events go to other owners before any look-up.
sub quiet
{
	my ($name) = @_;
	query("SELECT atproto.pause('$name')");
	wait_for("SELECT atproto_internal.consumer_pid('$name') IS NULL");
	return;
}
sub judged_by
{
	my ($name) = @_;
	query("SELECT atproto.resume('$name')");
	wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = '$name'");
	return;
}
query('CREATE ROLE n SUPERUSER LOGIN; CREATE ROLE h SUPERUSER LOGIN');
quiet('a');
query("UPDATE atproto.subscription SET owner = 'n' WHERE name = 'a'");
judged_by('a');
is(waiting('a', $announced), 'identity', 'W-31: what waits goes on waiting when its subscription gets another owner');
is(query("SELECT 'n'::regrole = ANY (doubted_by) FROM atproto.identity WHERE did = '$announced'"), 't', 'W-31: to this owner the key is doubtful, too');
my $heirs = AtprotoTest::Server->start(make_capture('full.py', 'rotations'), '--hold-at', $names + 5);
query('SET SESSION AUTHORIZATION h; ' . subscribe_sql('h', $heirs, target => "'a'", verify => "'full'"));
quiet('h');
quiet('a');
query("SELECT atproto.unsubscribe('a')");
judged_by('h');
is(waiting('h', $announced), 'identity', 'W-31: or when another subscription takes it');
is(query("SELECT 'h'::regrole = ANY (doubted_by) FROM atproto.identity WHERE did = '$announced'"), 't', 'W-31: whose owner doubts the key as well');

# A look-up begins; meanwhile the second role's stream repeats the #identity; the look-up ends.
query("UPDATE atproto.identity SET stale = false, said_by = '{}' WHERE did = '$announced'");
query("SELECT atproto.set_cursor('m', 0)");
wait_for("SELECT said_by = ARRAY['m'::regrole::oid] FROM atproto.identity WHERE did = '$announced'");
looked_up(", key = '\\x$who{announced}{second}', doubted_by = said_by, tries = 0, error = NULL, resolved_at = now()", "did = '$announced'");
wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE subscription = 'h' AND did = '$announced'");
is(query("SELECT count(*) FROM a.record WHERE did = '$announced'"), '2', 'W-31: and for one look-up only, whatever other roles say meanwhile');

$node->stop;
done_testing();
