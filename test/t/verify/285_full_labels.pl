# 285_full_labels.pl
#		At level full, only signed labels of a labeler become rows of the table label.  Labels whose
#		signature no known key made wait, those of each labeler separately.  As in 282_full.pl, the test
#		writes the rows of identities, and no manager runs.  V-49, with V-40 to V-43, V-48 and R-30 to R-35
#		for labelers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Lookups;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

my $nsid   = 'com.atproto.label.subscribeLabels';
my $node   = make_node('full_labels', databases => '', conf => "max_worker_processes = 12\natproto.reconnect_delay = 50ms");
my $points = AtprotoTest::Points->new($node);

my %who = accounts_of('full_labels.py', 'cases');

# The account's own key differs from the key for labels, and signs no label.
sub know_labels
{
	my ($name, $key) = @_;

	know($who{$name}{did}, $who{gone}{second}, label_key => $key);
	return;
}

sub know_all
{
	know_labels($_, $who{$_}{first}) foreach qw(known forged rotated other);
	know_labels('keyless', undef);
	know_gone($who{gone}{did});
	return;
}

sub values_of
{
	my ($schema, $name) = @_;

	return query("SELECT string_agg(val, ',' ORDER BY val) FROM $schema.label WHERE src = '$who{$name}{did}' AND verified");
}

sub held_of
{
	my ($name) = @_;

	return query("SELECT string_agg(seq || ' ' || why, ', ' ORDER BY rev) FROM atproto.held_event WHERE did = '$who{$name}{did}' AND kind = 'label'");
}

# Subscribes at level full, into a schema of the same name.  Messages before hold_at are in separate batches.
sub follow
{
	my ($name, $capture, $last, %o) = @_;
	my $hold_at = delete $o{hold_at};
	my $server = AtprotoTest::Server->start($capture, $hold_at ? ('--hold-at', $hold_at) : ());

	query("CREATE SCHEMA IF NOT EXISTS $name; " . subscribe_sql($name, $server, nsid => $nsid, cursor => 0, target => "'$name'", verify => "'full'", %o));
	if ($hold_at)
	{
		wait_for_seq($node, $name, $hold_at - 1);
		$server->release;
	}
	wait_for_seq($node, $name, $last);
	return $server;
}

# --- known, unknown, forged, rotated, none ---

my $cases = make_capture('full_labels.py', 'cases');
my $n     = () = read_capture($cases);

begin_again();
know_all();
# the eighth message comes in a later batch than the labels in front of it
follow('cases', $cases, $n, hold_at => 8);
is(values_of('cases', 'known'), 'a1,a2,a5,a6', 'F-32, V-49: what its key has signed is taken, with $type or without');
is(values_of('cases', 'other'), 'g1', 'V-49: with another one in the same message');
is(query('SELECT count(*) FROM cases.label'), '5', 'V-49: and nothing else');
is(held_of('unknown'), '2 identity, 7 order', 'V-40: labels of who is not known wait, in their order');
is(held_of('forged'), '3 signature, 8 order, 11 order', 'V-41: those that are not by the key that is known wait, and others behind them');
is(held_of('rotated'), '4 signature, 10 order', 'V-41: likewise those by a key that nobody has told of');
is(held_of('keyless'), '5 identity', 'V-41: whose document names no key for labels may have one by now');
is(held_of('gone'), '', 'V-43: of who is gone nothing waits');
is(query("SELECT string_agg(did || ' ' || refresh, ', ' ORDER BY did) FROM atproto.identity_request"),
	join(', ', sort "$who{unknown}{did} false", map { "$who{$_}{did} true" } qw(forged rotated keyless)), 'V-40, V-41: their identities are asked for');
is(query("SELECT string_agg(concat_ws(':', seq, path, stage, attempts), ' ' ORDER BY stage, seq) FROM atproto.dead_letter"),
	'7:labels/2:record:1 9:labels/0:signature:2', 'V-49: without a signature of 64 bytes it is nobody\'s; one letter counts them');
like(query("SELECT message FROM atproto.dead_letter WHERE stage = 'signature'"), qr/is not signed\.$/, 'V-49: which says so');
is(query("SELECT skips - 'invalid' FROM atproto.stat_subscription WHERE name = 'cases'"),
	'{"held": 8, "verified": 5, "no_identity": 1, "bad_signature": 2}', 'what was counted');

looked_up(', resolved_at = now()', "did = '$who{keyless}{did}'");
wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE did = '$who{keyless}{did}'");
wait_for("SELECT (skips->'no_identity')::int = 2 FROM atproto.stat_subscription WHERE name = 'cases'");
is(values_of('cases', 'keyless'), '', 'V-49: read since, it names none: they are nobody\'s');

looked_up(", label_key = '\\x$who{rotated}{second}', resolved_at = now()", "did = '$who{rotated}{did}'");
wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE did = '$who{rotated}{did}'");
is(values_of('cases', 'rotated'), 'd1,d2', 'V-41: the new key has signed them');
is(query("SELECT neg, seq FROM cases.label WHERE val = 'd1'"), 't|10', 'R-32: the last one counts');
looked_up(", resolved_at = now()", "did = '$who{forged}{did}'");
wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE did = '$who{forged}{did}'");
is(values_of('cases', 'forged'), 'c2', 'V-41: they were none of its labels; the one between them is');
is(query("SELECT stage, path, attempts, seq FROM atproto.dead_letter WHERE did = '$who{forged}{did}'"), 'signature|labels/0|2|11', 'V-48: one letter for each labeler and key');
is(query("SELECT count(*) FROM cases.label WHERE val IN ('c1', 'c3', 'c4')"), '0', 'V-49: nothing of it is a row');
know_labels('unknown', $who{unknown}{first});
looked_up('', "did = '$who{unknown}{did}'");
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(values_of('cases', 'unknown'), 'b1,b2', 'R-32: all that waited, when its key is known');
is(query("SELECT count(*), bool_and(verified) FROM cases.label"), '10|t', 'V-49: every row is verified');
is(query('SELECT count(*) FROM atproto.dead_letter'), '3', 'what was said once is not said again');

# --- letters once more ---

my $id = query("SELECT id FROM atproto.dead_letter WHERE did = '$who{forged}{did}'");
like(query("SELECT atproto.retry($id)"), qr/not signed by/, 'V-41: tried again, it stays');
like(query("SELECT atproto.retry(id) FROM atproto.dead_letter WHERE did = '$who{known}{did}'"), qr/not signed by/, 'V-49: likewise');
is(query("SELECT count(*) FROM cases.label WHERE val IN ('c1', 'a3')"), '0', 'and no row');
query("SELECT atproto.unsubscribe('cases')");

# Labels that the tables refuse are tried again under their signature.
begin_again();
know_all();
query('CREATE SCHEMA refused');
query("SELECT atproto.create_tables('refused'); ALTER TABLE refused.label ADD CONSTRAINT no CHECK (val NOT IN ('a1', 'd2'))");
follow('refused', $cases, $n);
looked_up(", label_key = '\\x$who{rotated}{second}', resolved_at = now()", "did = '$who{rotated}{did}'");
wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE did = '$who{rotated}{did}'");
is(query("SELECT string_agg(seq || path, ', ' ORDER BY seq) FROM atproto.dead_letter WHERE stage = 'apply'"), '1labels/0, 10labels/0', 'E-50: labels that the table refuses are letters, also after they have waited');
is(values_of('refused', 'known') . ' ' . values_of('refused', 'rotated'), 'a2,a5,a6 d1', 'E-50: the others are taken');
is(held_of('forged') . query('SELECT count(*) FROM refused.label WHERE NOT verified IS TRUE'), '3 signature, 8 order, 11 order0', 'V-49: and what is not signed still is not');
query('ALTER TABLE refused.label DROP CONSTRAINT no');
query("UPDATE atproto.identity SET label_key = '\\x$who{known}{second}' WHERE did = '$who{known}{did}'");
my ($a1) = split /\n/, query("SELECT id FROM atproto.dead_letter WHERE stage = 'apply' AND seq = 1");
like(query("SELECT atproto.retry($a1)"), qr/not signed by/, 'V-49: tried again, it has to be signed by the key of now');
query("UPDATE atproto.identity SET label_key = '\\x$who{known}{first}' WHERE did = '$who{known}{did}'");
is(query("SELECT atproto.retry($a1)"), 'applied', 'V-49: then it is taken');
is(values_of('refused', 'known'), 'a1,a2,a5,a6', 'V-49: as verified');
query("SELECT atproto.unsubscribe('refused')");

# --- an old document without a key for labels ---

begin_again();
know_all();
query("UPDATE atproto.identity SET resolved_at = now() - interval '2 h' WHERE did = '$who{keyless}{did}'");
follow('keyless', $cases, $n);
is(held_of('keyless'), '5 identity', 'V-49: it may have one by now');
is(query("SELECT refresh FROM atproto.identity_request WHERE did = '$who{keyless}{did}'"), 't', 'V-49: it is read again');
looked_up(", label_key = '\\x$who{keyless}{first}', resolved_at = now()", "did = '$who{keyless}{did}'");
is(values_of('keyless', 'keyless'), 'e1', 'V-49: it had');

# --- a lower level, and then full ---

query("UPDATE atproto.subscription SET verify = 'hash' WHERE name = 'keyless'");
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(query("SELECT string_agg(val, ',' ORDER BY val) FROM keyless.label WHERE verified IS NULL"), 'b1,b2,c1,c2,c4,d1,d2', 'V-49: at another level nobody has to sign what waits');
know_labels('unknown', $who{unknown}{first});
query("UPDATE atproto.subscription SET verify = 'full' WHERE name = 'keyless'; SELECT atproto.set_cursor('keyless', 0)");
wait_for("SELECT verified FROM keyless.label WHERE val = 'b2'");
is(query("SELECT string_agg(val, ',' ORDER BY val) FROM keyless.label WHERE verified IS NULL"), 'c1,c2,c4,d1,d2', 'V-49: a replay at level full says what is true');
query("SELECT atproto.unsubscribe('keyless')");

# --- labels behind labels that a second subscription released meanwhile ---

begin_again();
follow('behind', make_capture('full_labels.py', 'flood', 3), 3);
query("UPDATE atproto.held_event SET why = 'order'");
know_labels('unknown', $who{unknown}{first});
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(values_of('behind', 'unknown'), 'x0,x1,x2', 'V-49: labels that wait behind nothing are taken, although nobody names their labeler');
query("SELECT atproto.unsubscribe('behind')");

# --- the end between holding and taking ---

begin_again();
follow('crash', make_capture('full_labels.py', 'flood', 3), 3);
is(held_of('unknown'), '1 identity, 2 order, 3 order', 'three wait');
$points->hold('held events next', 'atproto crash');
know_labels('unknown', $who{unknown}{first});
query('INSERT INTO atproto.held_release (target, kind, did, subscription, shard_key) SELECT target, kind, did, subscription, shard_key FROM atproto.held_event LIMIT 1');
$points->wait('held events next', 'atproto crash');
my $pid = query("SELECT pid FROM pg_stat_activity WHERE application_name = 'atproto crash'");
kill 'KILL', $pid;
$points = undef;
wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid", gone => 1);
is(query('SELECT count(*) FROM atproto.held_event') . query('SELECT count(*) FROM crash.label'), '30', 'R-30: nothing is done when the server dies');
query("SELECT atproto.resume('crash')");
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(values_of('crash', 'unknown'), 'x0,x1,x2', 'R-32: then all of it');
query("SELECT atproto.unsubscribe('crash')");

# --- many labelers ---

begin_again();
my $many = make_capture('full_labels.py', 'many', 500);
follow('many', $many, 1);
is(query('SELECT count(*), count(DISTINCT did) FROM atproto.held_event'), '500|500', 'V-49: each labeler of a message waits by itself');
cmp_ok(query('SELECT sum(octet_length(bytes)) FROM atproto.held_event'), '<', 2 * -s $many, 'V-49: with its own labels alone');
query("SELECT atproto.unsubscribe('many')");

# --- an account with held commits and labels, for the same tables ---

begin_again();
my %accounts = accounts_of('full.py', 'rotations');
my ($did, $key) = @{ $accounts{unknown} }{qw(did first)};
query(subscribe_sql('repos', AtprotoTest::Server->start(make_capture('full.py', 'rotations')), cursor => 0, verify => "'full'", dids => "'{$did}'"));
follow('beside', make_capture('full_labels.py', 'of', $did), 1, target => "'atproto'");
wait_for("SELECT count(*) FILTER (WHERE kind = 'repo') = 3 AND count(*) FILTER (WHERE kind = 'label') = 1 FROM atproto.held_event WHERE did = '$did'");
know($did, $key, label_key => $key);
looked_up('', "did = '$did'");
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(query('SELECT (SELECT count(*) FROM atproto.record), (SELECT count(*) FROM atproto.label WHERE verified)'), '3|1', 'V-49: each goes where it came from');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'and nobody complains');

# --- options that do not apply to labels ---

my (undef, undef, $out) = $node->psql('postgres', subscribe_sql('pds', AtprotoTest::Server->start($many), nsid => $nsid, verify => "'full'", host_is_pds => 'true'));
like($out, qr/cannot have "host_is_pds"/, 'V-44: is about repositories');

# --- no room: a stream of one labeler waits for its key; otherwise a row records the dropped labels ---

my $sixty = make_capture("full_labels.py", "flood", 60);

begin_again();
query("ALTER SYSTEM SET atproto.label_wait = '1h'; SELECT pg_reload_conf(); DELETE FROM atproto.gap; CREATE SCHEMA still");
my $server = AtprotoTest::Server->start(make_capture('full_labels.py', 'flood', 62), map { ('--hold-at', $_) } 31, 61, 62);
query('BEGIN; ' . subscribe_sql('still', $server, nsid => $nsid, cursor => 0, target => "'still'", verify => "'full'")
	. "; UPDATE atproto.subscription SET max_held_events = 25 WHERE name = 'still'; COMMIT");
wait_for_seq($node, 'still', 30);
is(query('SELECT count(*) FROM atproto.held_event'), '30', 'R-34: the labels of the only labeler are kept, also those beyond the limit');
query('CREATE TABLE no_room AS SELECT * FROM atproto.held_event ORDER BY seq LIMIT 26');
$server->release;
know_labels('unknown', $who{unknown}{first});
looked_up('', "did = '$who{unknown}{did}'");
wait_for_seq($node, 'still', 60);
wait_for('SELECT count(*) = 60 FROM still.label');
is(query('SELECT count(*) FROM atproto.gap'), '0', 'R-34: the stream goes on when its key is known, and nothing is lost');
# from now on there is no room, but no label is to be held
query("UPDATE no_room SET did = '$who{keyless}{did}'; INSERT INTO atproto.held_event SELECT * FROM no_room");
foreach my $seq (61, 62)
{
	$server->release;
	wait_for_seq($node, 'still', $seq);
}
is(query('SELECT count(*) FROM still.label'), '62', 'R-34: a stream that once stood still does not stand still for batches of which nothing is held');
query("SELECT atproto.unsubscribe('still'); DELETE FROM atproto.gap");

begin_again();
query("ALTER SYSTEM SET atproto.label_wait = '1ms'; SELECT pg_reload_conf(); CREATE SCHEMA given");
$server = AtprotoTest::Server->start($sixty, "--hold-at", 31);
query('BEGIN; ' . subscribe_sql('given', $server, nsid => $nsid, cursor => 0, target => "'given'", verify => "'full'")
	. "; UPDATE atproto.subscription SET max_held_events = 25 WHERE name = 'given'; COMMIT");
wait_for_seq($node, 'given', 30);
$server->release;
wait_for_seq($node, 'given', 60);
is(query('SELECT subscription, did, events, after_seq, before_seq, reason FROM atproto.gap'), "given|$who{unknown}{did}|60|0|61|held events dropped",
	'R-34: after some time they are given up, with a row that names the labeler, and its first and last label');
query("SELECT atproto.unsubscribe('given'); DELETE FROM atproto.gap");

# After a wait in vain, the stream stands still a second time once held labels have been released.
begin_again();
query('CREATE SCHEMA later');
$server = AtprotoTest::Server->start($sixty, map { ('--hold-at', $_) } 31, 32, 33, 58, 59);
query('BEGIN; ' . subscribe_sql('later', $server, nsid => $nsid, cursor => 0, target => "'later'", verify => "'full'")
	. "; UPDATE atproto.subscription SET max_held_events = 25 WHERE name = 'later'; COMMIT");
wait_for_seq($node, 'later', 30);
foreach my $seq (31, 32)
{
	$server->release;
	wait_for_seq($node, 'later', $seq);
}
my $lost = query('SELECT sum(events) FROM atproto.gap');
cmp_ok($lost, '>', 25, 'R-34: labels were given up');
know_labels('unknown', $who{unknown}{first});
looked_up('', "did = '$who{unknown}{did}'");
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
query("DELETE FROM atproto.identity WHERE did = '$who{unknown}{did}'");
foreach my $seq (57, 58)
{
	$server->release;
	wait_for_seq($node, 'later', $seq);
}
is(query('SELECT count(*) FROM atproto.held_event') . ' ' . query('SELECT sum(events) FROM atproto.gap'), "26 $lost", 'R-34: later labels beyond the limit are kept again');
query("SELECT atproto.unsubscribe('later'); DELETE FROM atproto.gap; ALTER SYSTEM RESET atproto.label_wait; SELECT pg_reload_conf()");

begin_again();
query('CREATE SCHEMA several');
$server = AtprotoTest::Server->start($cases);
query('BEGIN; ' . subscribe_sql('several', $server, nsid => $nsid, cursor => 0, target => "'several'", verify => "'full'")
	. "; UPDATE atproto.subscription SET max_held_events = 1 WHERE name = 'several'; COMMIT");
wait_for_seq($node, 'several', $n);
cmp_ok(query('SELECT count(did), count(*) FROM atproto.gap') , 'ne', '0|0', 'R-34: of several labelers one does not keep the others waiting');
is(query('SELECT count(*) FROM atproto.gap WHERE did IS NULL'), '0', 'R-34: and each has a row of its own');
is(query("SELECT (SELECT sum(events) FROM atproto.gap) = (skips->>'held_dropped')::bigint FROM atproto.stat_subscription WHERE name = 'several'"), 't', 'R-34: which count all that was dropped');
query("SELECT atproto.unsubscribe('several'); DELETE FROM atproto.gap");

# a stream may name any number of labelers
begin_again();
query('CREATE SCHEMA crowd');
$server = AtprotoTest::Server->start($cases);
query('BEGIN; ' . subscribe_sql('crowd', $server, nsid => $nsid, cursor => 0, target => "'crowd'", verify => "'full'")
	. "; UPDATE atproto.subscription SET max_held_events = 1 WHERE name = 'crowd'"
	. "; INSERT INTO atproto.gap (subscription, endpoint, target, did, events, after_seq, before_seq, reason)"
	. " SELECT 'crowd', endpoint, 'crowd', ('did:web:labeler' || n || '.example.com')::did, 1, 0, 2, 'held events dropped' FROM atproto.subscription, generate_series(1, 1000) n WHERE name = 'crowd'; COMMIT");
wait_for_seq($node, 'crowd', $n);
is(query('SELECT count(did), count(*) FILTER (WHERE did IS NULL) FROM atproto.gap'), '1000|1', 'R-34: a thousand labelers have rows of their own, all others share a row');
is(query("SELECT (SELECT sum(events) FROM atproto.gap WHERE did IS NULL) = (skips->>'held_dropped')::bigint FROM atproto.stat_subscription WHERE name = 'crowd'"), 't', 'R-34: which counts all that was dropped');

$node->stop;
done_testing();
