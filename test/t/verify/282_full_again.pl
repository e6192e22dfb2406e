# 282_full_again.pl
#		At level full, events that are read again (atproto.refill()) or tried again (atproto.retry()) are
#		verified with the keys that are known then; held events of a refill are released in the order of
#		revisions, whatever the order of the stream was.  As in 282_full.pl no fetcher runs.  V-13, V-40 to
#		V-43, V-48, R-30 to R-32.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Lookups;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('full_again', databases => '', conf => "max_worker_processes = 16\natproto.reconnect_delay = 50ms");
my %who = accounts_of('full.py', 'again');

# The account's records, and the reasons why its revisions wait.
sub of
{
	my ($name, $schema) = @_;
	return query("SELECT (SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM $schema.record WHERE did = '$who{$name}{did}')"
		. ", (SELECT string_agg(why, ',' ORDER BY rev) FROM atproto.held_event WHERE did = '$who{$name}{did}')");
}

sub none_waits
{
	my ($name) = @_;
	wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE did = '$who{$name}{did}'");
	return;
}

foreach my $workers (1, 3)
{
	my $s = "again$workers";
	my $capture = make_capture('full.py', 'again');
	my $server = AtprotoTest::Server->start($capture, map { ('--hold-at', $_ + 1) } 7, 9, 10);

	begin_again();
	know($who{$_}{did}, $who{$_}{first}) foreach 'same', 'turned';
	query("CREATE SCHEMA $s");
	query(subscribe_sql($s, $server, cursor => 0, target => "'$s'", workers => $workers, verify => "'full'", events => "'keep'"));
	wait_for_seq($node, $s, 7);

	# --- revisions in a different order than in the stream ---

	is(of('late', $s), '|identity,order,order', "V-40: $workers: three wait");
	know($who{late}{did}, $who{late}{first});
	looked_up('', "did = '$who{late}{did}'");
	none_waits('late');
	is(of('late', $s), '10,20,30|', "R-32: $workers: the last of the stream is not the newest: none is old");
	is(query("SELECT string_agg(rkey::text, ',' ORDER BY id) FROM (SELECT row_number() OVER () AS id, rkey FROM $s.record_event WHERE did = '$who{late}{did}') e"),
		'10,20,30', "R-32: $workers: and they are taken by their revisions");
	is(query("SELECT sync, hold, verified FROM $s.repo WHERE did = '$who{late}{did}'"), 'synchronized||t', "V-31: $workers: one continues the other");
	is(query("SELECT count(*) FROM atproto.cursor c, $s.repo WHERE subscription = '$s' AND hold IS NOT NULL AND did <> '$who{turned}{did}'"), '0', "$workers: nobody else waits");
	looked_up(", key = '\\x$who{turned}{second}', resolved_at = now()", "did = '$who{turned}{did}'");
	none_waits('turned');
	is(of('turned', $s), '10,20|', "V-41: $workers: its key was replaced");

	# --- read again: missing events come, judged by the present keys ---

	query("DELETE FROM $s.record; DELETE FROM atproto.identity WHERE did IN ('$who{same}{did}', '$who{late}{did}')");
	is(query("SELECT atproto.refill('$s')"), '3', "$workers: three repositories are read again");
	wait_for("SELECT count(*) = 7 FROM atproto.held_event WHERE target = '$s'");
	is(of('same', $s), '|identity,order', "V-40: $workers: read again, what nobody knows the key of waits");
	is(of('late', $s), '|identity,order,order', "V-40: $workers: likewise");
	is(of('turned', $s), '|signature,order', "V-42: $workers: what the former key has signed waits, and the next one behind it");
	is(query("SELECT string_agg(sync, ',') FROM $s.repo WHERE did <> '$who{late}{did}'"), 'synchronized,synchronized', "V-11: $workers: nothing follows from that");
	$server->release;
	wait_for_seq($node, $s, 9);
	is(of('same', $s), '|identity,order,order', "V-42: $workers: what is new waits behind it");
	is(of('turned', $s), '|signature,order,order', "V-42: $workers: also where its key would fit");
	know($who{$_}{did}, $who{$_}{first}) foreach 'same', 'late';
	looked_up('', "did IN ('$who{same}{did}', '$who{late}{did}')");
	none_waits($_) foreach 'same', 'late';
	is(of('same', $s), '10,20,30|', "R-32: $workers: then all of it is taken, and what waited behind it");
	is(of('late', $s), '10,20,30|', "R-32: $workers: in any order");
	if ($workers == 3)
	{
		looked_up(", key = '\\x$who{turned}{first}', resolved_at = now()", "did = '$who{turned}{did}'");
		none_waits('turned');
		is(of('turned', $s), '10|', "V-41: $workers: if that is its key, what it has signed is taken, although a newer one is known");
		is(query("SELECT stage, attempts FROM atproto.dead_letter WHERE did = '$who{turned}{did}'"), 'signature|2', "V-48: $workers: and those behind it are not");
		know($who{turned}{did}, $who{late}{second});
		$server->release;
		wait_for_seq($node, $s, 10);
		looked_up(', resolved_at = now()', "did = '$who{turned}{did}'");
		none_waits('turned');
		is(query("SELECT attempts FROM atproto.dead_letter WHERE did = '$who{turned}{did}' ORDER BY id"), "2\n1", "V-48: $workers: what is not signed by another key is another letter");
		query("SELECT atproto.unsubscribe('$s')");
		next;
	}
	looked_up(', resolved_at = now()', "did = '$who{turned}{did}'");
	none_waits('turned');
	is(of('turned', $s), '20,30|', "V-48: $workers: what the present key has not signed is not taken again");
	is(query("SELECT stage, attempts FROM atproto.dead_letter WHERE did = '$who{turned}{did}'"), 'signature|1', "V-48: $workers: and is a letter");
	is(query("SELECT string_agg(DISTINCT sync, ','), count(*) FILTER (WHERE hold IS NOT NULL OR refill_by IS NOT NULL) FROM $s.repo"), 'synchronized|0',
		"V-11: $workers: states are what they were, and the refill is at its end");

	# --- tried again ---

	my $letter = query("SELECT id FROM atproto.dead_letter WHERE stage = 'signature'");
	like(query("SELECT atproto.retry($letter)"), qr/^it is not signed by the account's key/, "V-41: $workers: tried again, it is what it was");
	query("UPDATE atproto.identity SET key = '\\x$who{turned}{first}' WHERE did = '$who{turned}{did}'");
	like(query("SELECT atproto.retry($letter)"), qr/^newer commits were applied: 1 of its records/, "V-41: $workers: by its key it is late");
	query("DELETE FROM atproto.identity WHERE did = '$who{turned}{did}'");
	like(query("SELECT atproto.retry($letter)"), qr/^the account's key is not known/, "V-40: $workers: without a key nobody says so");
	know_gone($who{turned}{did});
	like(query("SELECT atproto.retry($letter)"), qr/^the account's identity does not function/, "V-43: $workers: nor where there is none any more");
	is(query('SELECT attempts, count(*) OVER () FROM atproto.dead_letter'), '5|1', "$workers: it stays, and counts");
	is(of('turned', $s), '20,30|', "$workers: no record comes of it");

	# a retry of the newest revision; meanwhile further revisions are held
	query("DELETE FROM atproto.dead_letter; ALTER TABLE $s.record ADD CONSTRAINT no CHECK (rkey::text <> '40')");
	know($who{turned}{did}, $who{turned}{second});
	$server->release;
	wait_for_seq($node, $s, 10);
	$letter = query("SELECT id FROM atproto.dead_letter WHERE did = '$who{turned}{did}' AND stage = 'apply'");
	like($letter, qr/^\d+$/, "E-50: $workers: the table refuses one that is signed");
	query("ALTER TABLE $s.record DROP CONSTRAINT no");
	know($who{turned}{did}, $who{turned}{first});
	like(query("SELECT atproto.retry($letter)"), qr/^it is not signed by the account's key/, "V-41: $workers: tried again, it has to be signed by the key of now");
	is(of('turned', $s), '20,30|', "V-41: $workers: no record comes of it");
	know($who{turned}{did}, $who{turned}{second});
	is(query("SELECT atproto.retry($letter)"), 'applied', "V-41: $workers: then it is taken");
	is(of('turned', $s), '20,30,40|', "$workers: and its record is there");
	is(query('SELECT count(*) FROM atproto.dead_letter'), '0', "$workers: no letter is left");
	query("SELECT atproto.unsubscribe('$s')");
}

# --- also below level full, while a repository is being fetched (R-04) ---

my $server = AtprotoTest::Server->start(make_capture('full.py', 'again'));
my $did    = $who{same}{did};
query('CREATE SCHEMA fetched');
query(subscribe_sql('fetched', $server, cursor => 0, target => "'fetched'", backfill => "'repair'"));
wait_for_seq($node, 'fetched', 10);
# the rows as the fetcher leaves them while it waits for the answer
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, state) VALUES ('fetched', '$did', 'fetched', 1, 'break', 'running');"
	. " UPDATE fetched.repo SET hold = 'resync', sync = 'resyncing' WHERE did = '$did'; DELETE FROM fetched.record WHERE did = '$did'");
is(query("SELECT atproto.refill('fetched', dids => ARRAY['$did']::did[])"), '1', 'a repository is read again while it is being fetched');
wait_for("SELECT count(*) = 3 FROM atproto.held_event WHERE target = 'fetched'");
is(of('same', 'fetched'), '|resync,resync,resync', 'R-04: that waits, too');
query("DELETE FROM atproto.repo_job; UPDATE fetched.repo SET hold = 'release', sync = 'desynchronized' WHERE did = '$did';"
	. " INSERT INTO atproto.held_release (target, kind, did, subscription, shard_key) SELECT DISTINCT target, kind, did, subscription, shard_key FROM atproto.held_event");
none_waits('same');
is(of('same', 'fetched'), '10,20,30|', 'R-32: until nobody fetches it any more');
is(query("SELECT count(*) FROM fetched.repo WHERE hold IS NOT NULL OR refill_by IS NOT NULL"), '0', 'and nothing is left of it');

# --- two subscriptions fill the same tables: events that one reads again may be released by the second ---

begin_again();
know($did, $who{same}{first});
query('CREATE SCHEMA shared');
# a further account's event of the second subscription waits: so the second looks for events to release
my %dids = (one => $did, two => "$did,$who{late}{did}");
query(subscribe_sql($_, $server, cursor => 0, target => "'shared'", verify => "'full'", dids => "'{$dids{$_}}'")) foreach 'one', 'two';
wait_for_seq($node, $_, 10) foreach 'one', 'two';
is(of('late', 'shared'), '|identity,order,order', 'events of another account wait');
query("DELETE FROM shared.record; DELETE FROM atproto.identity");
query("SELECT atproto.refill('one')");
wait_for("SELECT count(*) = 3 FROM atproto.held_event WHERE subscription = 'one'");
query("SELECT atproto.pause('one')");
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
know($did, $who{same}{first});
looked_up('', "did = '$did'");
none_waits('same');
is(of('same', 'shared'), '10,20,30|', 'R-32: what waits of a refill is taken as such, whoever takes it');
is(query("SELECT hold, refill_by FROM shared.repo WHERE did = '$did'"), '|', 'and the refill is at its end');

# --- the cursor jumps while an event of a refill waits: no later event would end the refill ---

begin_again();
know($did, $who{same}{first});
my $jumps = AtprotoTest::Server->start(make_capture('full.py', 'again'));
query('CREATE SCHEMA jumped');
query(subscribe_sql('jumped', $jumps, cursor => 0, target => "'jumped'", verify => "'full'", dids => "'{$did}'"));
wait_for_seq($node, 'jumped', 10);
query("SELECT atproto.pause('jumped')");
wait_for('SELECT pid IS NULL FROM atproto.stat_subscription');
$jumps->restart('--hold-at', 8);
query("DELETE FROM atproto.identity; SELECT atproto.refill('jumped'), atproto.resume('jumped')");
wait_for_seq($node, 'jumped', 7);
is(of('same', 'jumped'), '10,20,30|identity,order', 'two events of a refill wait');
query("SELECT atproto.set_cursor('jumped', 10)");
know($did, $who{same}{first});
looked_up('', "did = '$did'");
none_waits('same');
is(query('SELECT sync, refill_by, refill_sync FROM jumped.repo'), 'synchronized||', 'V-31: a cursor that jumps ends the refill of these events');

# --- an account signs a commit while it is not active, and nobody knows its key ---

begin_again();
know($who{$_}{did}, $who{$_}{first}) foreach 'late', 'turned';
$server = AtprotoTest::Server->start(make_capture('full.py', 'ignored'), '--hold-at', 5);
query('CREATE SCHEMA ignored');
query(subscribe_sql('ignored', $server, cursor => 0, target => "'ignored'", verify => "'full'"));
wait_for_seq($node, 'ignored', 4);
query('DELETE FROM atproto.identity');
$server->release;
wait_for_seq($node, 'ignored', 7);
is(join(' ', map { of($_, 'ignored') } 'late', 'turned'), '10|identity 10|identity', 'V-38: nobody can tell yet whether the accounts made them: they wait');
is(query('SELECT count(*) FROM atproto.status_request'), '0', 'V-39: so nobody is asked');
know($who{$_}{did}, $who{$_}{first}) foreach 'late', 'turned';
looked_up('', 'true');
none_waits($_) foreach 'late', 'turned';
is(of('late', 'ignored') . ' ' . query("SELECT sync FROM ignored.repo WHERE did = '$who{late}{did}'"), '10,20| synchronized', 'V-38: of the one that is active again, nothing is missed');
is(of('turned', 'ignored') . ' ' . query("SELECT sync FROM ignored.repo WHERE did = '$who{turned}{did}'"), '10| desynchronized', 'V-38: the other one is ignored, and leaves a mark');
is(query('SELECT did, why FROM atproto.status_request'), "$who{turned}{did}|inactive", 'V-39: and its server is asked');
query("SELECT atproto.unsubscribe('ignored')");

# --- a look-up that began before an #identity ends; a commit that the new key has signed waits behind a forged one ---

begin_again();
know($who{late}{did}, $who{late}{first});
$server = AtprotoTest::Server->start(make_capture('full.py', 'behind'), '--hold-at', 2);
query('CREATE SCHEMA behind');
query(subscribe_sql('behind', $server, cursor => 0, target => "'behind'", verify => "'full'"));
wait_for_seq($node, 'behind', 1);
$server->release;
wait_for_seq($node, 'behind', 3);
is(of('late', 'behind'), '|signature,order', 'V-42: it waits behind the forged one');
# said_by and doubted_by have the owner: the #identity came after the look-up had begun
looked_up(", error = 'no answer'", "did = '$who{late}{did}'");
is(of('late', 'behind'), '|signature,order', 'V-41: a look-up that failed proves nothing of the forged one');
looked_up(', error = NULL', "did = '$who{late}{did}'");
wait_for('SELECT count(*) = 1 FROM atproto.held_event');
is(of('late', 'behind'), '|signature', 'W-31: its own second look-up counts, not that of the forged one');
looked_up(", key = '\\x$who{late}{second}', resolved_at = now(), stale = false, said_by = '{}', doubted_by = '{}'", "did = '$who{late}{did}'");
none_waits('late');
is(of('late', 'behind') . query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'behind'"), '20|1', 'V-41: and it is applied');

$node->stop;
done_testing();
