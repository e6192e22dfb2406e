# 282_full_keys.pl
#		Keys change, at level full.  Events whose signature no known key made wait in atproto.held_event,
#		and are released in their order when the right key is known.  The test itself writes the rows of
#		identities and the results of look-ups: no manager runs, and so no fetcher.  With one process and
#		with several.  V-13, V-15, V-38 to V-43, V-47, V-48, R-30 to R-32.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Lookups;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('full_keys', databases => '', conf => "max_worker_processes = 16\natproto.reconnect_delay = 50ms");

# --- keys that change ---

my %who   = accounts_of('full.py', 'rotations');
my $names = keys %who;

sub of
{
	my ($name, $schema) = @_;
	return query("SELECT (SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM $schema.record WHERE did = '$who{$name}{did}')"
		. ", (SELECT string_agg(why, ',' ORDER BY rev) FROM atproto.held_event WHERE did = '$who{$name}{did}')");
}

foreach my $workers (1, 3)
{
	my $s      = "keys$workers";
	my $server = AtprotoTest::Server->start(make_capture('full.py', 'rotations'),
		map { ('--hold-at', $_ + 1) } $names, $names + 5, $names + 10);

	begin_again();
	know($who{$_}{did}, $who{$_}{first}) foreach grep { $_ ne 'unknown' } keys %who;
	query("CREATE SCHEMA $s");
	query(subscribe_sql($s, $server, cursor => 0, target => "'$s'", workers => $workers, verify => "'full'", events => "'keep'"));
	wait_for_seq($node, $s, $names);
	is(query("SELECT did, refresh FROM atproto.identity_request"), "$who{unknown}{did}|f", "V-40: $workers: an identity is wanted");
	is(of('unknown', $s), '|identity', "V-40: $workers: the event waits for it");
	is(query("SELECT rev, sync, hold, verified FROM $s.repo WHERE did = '$who{unknown}{did}'"), '|partial|identity|f', "V-37: $workers: its row says no more than that");
	$server->release;
	wait_for_seq($node, $s, $names + 5);
	is(of('unknown', $s), '|identity,order', "V-42: $workers: and others behind it");
	is(of('rotated', $s), '10|signature', "V-41: $workers: a key that nobody has told of");
	is(of('announced', $s), '10|identity', "V-41: $workers: one that was announced");
	is(of('former', $s), '10|', "W-31: $workers: nothing is asked for because of an #identity alone");
	is(query("SELECT count(*) FROM atproto.identity_request WHERE did = '$who{former}{did}'"), '0', "W-31: $workers: nor requested");
	is(query("SELECT stale AND doubted_by = ARRAY[10::oid] FROM atproto.identity WHERE did = '$who{former}{did}'"), 't', "W-31: $workers: but it is known to be stale");
	query("UPDATE atproto.identity SET state = 'gone', next_try = now() + '1 h' WHERE did = '$who{gone}{did}'");
	$server->release;
	wait_for_seq($node, $s, $names + 10);
	is(of('former', $s), '10|identity', "V-41: $workers: after an #identity a former key is not believed");
	is(of('gone', $s), '10|', "V-43: $workers: nothing of an account that is gone");
	is(query("SELECT sync, verified FROM $s.repo WHERE did = '$who{forked}{did}'"), 'desynchronized|t', "V-15: $workers: two commits of one revision");

	# results of the look-ups: nothing and the second key; nothing; the first key
	looked_up(", tries = 1, error = 'no answer'", "did = '$who{rotated}{did}'");
	like(of('rotated', $s), qr/^10\|signature,\w+$/, "V-41: $workers: a look-up without an answer does not say that the account has not signed it");
	looked_up(", key = '\\x$who{rotated}{second}', tries = 0, error = NULL, resolved_at = now()", "did = '$who{rotated}{did}'");
	wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE did = '$who{rotated}{did}'");
	is(of('rotated', $s), '10,20,30|', "V-41: $workers: the new key has signed it, and what waited behind it");
	looked_up(", doubted_by = '{}', tries = 1, error = 'no answer'", "did = '$who{announced}{did}'");
	is(of('announced', $s), '10|signature', "V-41: $workers: without an answer the old key has not");
	looked_up(", key = '\\x$who{announced}{second}', stale = false, said_by = '{}', doubted_by = '{}', tries = 0, error = NULL, resolved_at = now()", "did = '$who{announced}{did}'");
	is(of('announced', $s), '10,20|', "V-41: $workers: with one it is the new one's");
	query("INSERT INTO atproto.identity (did, state, asked_at, denied_at, next_try, error) VALUES ('$who{unknown}{did}', 'gone', now(), now(), now() + '1 min', 'HTTP status 404')");
	looked_up('', "did = '$who{unknown}{did}'");
	is(of('unknown', $s), '|identity,order,order', "W-33: $workers: of whom the directory has not heard yet, events wait");
	is(query("SELECT refresh FROM atproto.identity_request WHERE did = '$who{unknown}{did}'"), 't', "W-33: $workers: until it has been asked again");
	know($who{unknown}{did}, $who{unknown}{first});
	looked_up(', denied_at = NULL', "did = '$who{unknown}{did}'");
	is(of('unknown', $s), '10,20,30|', "R-32: $workers: all that waited, in its order");
	is(query("SELECT string_agg(rkey::text, ',' ORDER BY rev, seq) FROM $s.record_event WHERE did = '$who{unknown}{did}'"), '10,20,30', "R-32: $workers: each once");
	is(query("SELECT sync, hold, verified FROM $s.repo WHERE did = '$who{unknown}{did}'"), 'synchronized||t', "V-35: $workers: its first commit is proven");

	# an #identity, and the directory has the new key: a commit by the former key is not valid
	looked_up(", key = '\\x$who{former}{second}', stale = false, said_by = '{}', doubted_by = '{}', resolved_at = now()", "did = '$who{former}{did}'");
	is(of('former', $s), '10|signature', "V-41: $workers: the directory may lag behind: once more");
	is(query("SELECT refresh FROM atproto.identity_request WHERE did = '$who{former}{did}'"), 't', "V-41: $workers: that is asked for");
	looked_up(', resolved_at = now()', "did = '$who{former}{did}'");
	is(of('former', $s), '10|', "V-41: $workers: it was not the directory");
	is(query("SELECT stage, attempts FROM atproto.dead_letter WHERE did = '$who{former}{did}'"), 'signature|1', "V-48: $workers: the account has not signed it, by what is known");
	$server->release;
	wait_for_seq($node, $s, $names + 15);
	is(of('former', $s), '10,30|', "V-48: $workers: the next one is the account's");
	is(query("SELECT sync, verified FROM $s.repo WHERE did = '$who{former}{did}'"), 'desynchronized|t', "V-48: $workers: and tells that something is missing");
	is(query("SELECT count(*) FROM atproto.held_event WHERE did = '$who{old}{did}'"), '0', "V-13: $workers: what is old does not wait");
	is(query("SELECT sync FROM $s.repo WHERE did = '$who{old}{did}'"), 'synchronized', "V-13: $workers: nor does anything follow from it");
	is(of('deleted', $s), '10|signature', "V-47: $workers: records of an account that is deleted stay while nobody else says so");
	is(query("SELECT count(*) FROM $s.visible_record WHERE did = '$who{deleted}{did}'"), '0', "V-47: $workers: but are hidden");
	looked_up(", key = '\\x$who{deleted}{second}', resolved_at = now()", "did = '$who{deleted}{did}'");
	is(of('deleted', $s), '10,20|', "R-31: $workers: what came before that, and waited, comes as it would have then");
	is(query("SELECT count(*) FROM $s.visible_record WHERE did = '$who{deleted}{did}'"), '0', "V-47: $workers: and is hidden, too");
	is(query("SELECT count(*) FROM $s.repo WHERE hold IS NOT NULL"), '0', "$workers: nobody waits any more");
	my $counted = skips($s);
	like($counted, qr/\bbad_signature 1, .*\bforked 1, .*\bno_identity 1, .*\bverified \d+/, "$workers: what was counted");
	if ($workers == 1)
	{
		# a commit by the former key, which an operator declares valid by hand
		my $id = query("SELECT id FROM atproto.dead_letter WHERE stage = 'signature'");
		like(query("SELECT atproto.retry($id)"), qr/not signed/, 'V-41: tried again, it is what it was');
		query("UPDATE atproto.identity SET key = '\\x$who{former}{first}' WHERE did = '$who{former}{did}'");
		like(query("SELECT atproto.retry($id)"), qr/newer commits were applied/, 'V-41: or the account\'s, but late');
	}
	query("SELECT atproto.unsubscribe('$s')");
}

# --- a look-up that was running when #identity came ---

my $server = AtprotoTest::Server->start(make_capture('full.py', 'rotations'), '--hold-at', $names + 1, '--hold-at', $names + 11);
begin_again();
know($who{$_}{did}, $who{$_}{first}) foreach keys %who;
query('CREATE SCHEMA under_way');
query(subscribe_sql('under_way', $server, cursor => 0, target => "'under_way'", verify => "'full'"));
wait_for_seq($node, 'under_way', $names);
$server->release;
wait_for_seq($node, 'under_way', $names + 10);
is(of('former', 'under_way'), '10|identity', 'W-31: after an #identity events wait for a look-up');
looked_up(', resolved_at = now()', "did = '$who{former}{did}'");
is(of('former', 'under_way'), '10|signature', 'W-31: one that ends, but began before it, says nothing');
is(query("SELECT refresh FROM atproto.identity_request WHERE did = '$who{former}{did}'"), 't', 'W-31: another one is asked for');
looked_up(", key = '\\x$who{former}{second}', resolved_at = now()", "did = '$who{former}{did}'");
is(of('former', 'under_way'), '10|', 'W-31: the second one decides, however often #identity comes');
is(query("SELECT stage FROM atproto.dead_letter WHERE did = '$who{former}{did}'"), 'signature', 'W-31: it was a former key');

$node->stop;
done_testing();
