# 282_full_owners.pl
#		A held event belongs to its receiving subscription.  A second subscription to the same tables
#		releases the event only at the same level or a higher one, and with the same rights; limits count by
#		subscription; a released event is judged by its place in the stream; unsubscribe() drops the events
#		of the subscription, and records the loss.  As in 282_full.pl no fetcher runs.  Section H of R-31,
#		R-32, R-34.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Lookups;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('full_owners', databases => '', conf => "max_worker_processes = 16\natproto.reconnect_delay = 50ms");
my %who = accounts_of('full.py', 'rotations');
my ($did, $key) = @{ $who{unknown} }{qw(did first)};
my $flood = make_capture('full.py', 'flood', 3, 3);
my ($other) = $who{old}{did};

sub idle
{
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
	return;
}

sub clean
{
	query('SELECT atproto.unsubscribe(name) FROM atproto.subscription; DELETE FROM atproto.gap');
	idle();
	begin_again();
	return;
}

# A second subscription to the same tables, which has looked at all held events: it has applied an event of its
# own after that.
sub follow_also
{
	my ($name, $target, %o) = @_;
	my $server = AtprotoTest::Server->start(make_capture('steps.py', 'z 1 +x', 'z 2 +y'), '--hold-at', 2);

	query(subscribe_sql($name, $server, cursor => 0, target => "'$target'", %o));
	wait_for_seq($node, $name, 1);
	$server->release;
	wait_for_seq($node, $name, 2);
	return;
}

my $stranger = did('z');

# --- levels: subscriptions at hash and chain release no events that full holds ---

my $server = AtprotoTest::Server->start($flood);
query('CREATE SCHEMA lvl; ' . subscribe_sql('a', $server, cursor => 0, target => "'lvl'", verify => "'full'"));
wait_for_seq($node, 'a', 6);
is(query("SELECT count(*) FROM atproto.held_event WHERE subscription = 'a' AND verify = 'full' AND format = 'dag-cbor'"), '6', 'V-40: six events wait, and their level and format stand there');
foreach my $level ('hash', 'chain')
{
	follow_also("b$level", 'lvl', verify => "'$level'");
	is(query("SELECT count(*) FROM lvl.record WHERE did <> '$stranger'"), '0', "R-32: a subscription at level $level takes none");
	is(query("SELECT count(*) FROM atproto.held_event WHERE subscription = 'a'"), '6', 'R-32: they go on waiting');
	is(query("SELECT count(*) FROM lvl.record WHERE did = '$stranger'"), '2', 'R-32: and its own events do not wait behind them');
	query("SELECT atproto.unsubscribe('b$level'); TRUNCATE lvl.record; DELETE FROM lvl.repo WHERE did = '$stranger'");
}
follow_also('hash', 'lvl', verify => "'hash'");
query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at) SELECT DISTINCT did, 'good', '\\x$who{gone}{first}'::bytea, 'pds.example.com', now(), now() FROM atproto.held_event");
looked_up('', 'true');
wait_for("SELECT bool_and(why = 'signature') FROM (SELECT DISTINCT ON (did) why FROM atproto.held_event ORDER BY did, rev) first");
is(query('SELECT count(*) FROM atproto.held_event'), '6', 'V-41: once more, the first of each account, and what waits behind it');
looked_up('', 'true');
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(query("SELECT count(*) FROM lvl.record WHERE did <> '$stranger'"), '0', 'V-41: nothing is stored that nobody has signed');
is(query('SELECT subscription, sum(attempts) FROM atproto.dead_letter GROUP BY 1'), 'a|6', 'R-32: its letters are those of the subscription that received them');
clean();

# --- rights and limits: a role that may write the tables, but not act as the owner of the first subscription ---

$server = AtprotoTest::Server->start($flood);
query('CREATE SCHEMA own; ' . subscribe_sql('a', $server, cursor => 0, target => "'own'", verify => "'full'"));
wait_for_seq($node, 'a', 6);
query('CREATE ROLE m LOGIN; GRANT USAGE ON SCHEMA own, atproto TO m; GRANT ALL ON ALL TABLES IN SCHEMA own TO m; GRANT EXECUTE ON FUNCTION atproto.subscribe TO m;'
	. ' GRANT SELECT, INSERT, UPDATE, DELETE ON atproto.subscription, atproto.request_header, atproto.cursor, atproto.dead_frame TO m;'
	. ' GRANT SELECT, INSERT, UPDATE, DELETE ON atproto.dead_letter, atproto.gap TO m');
$server = AtprotoTest::Server->start($flood);
query('BEGIN; SET LOCAL ROLE m; ' . subscribe_sql('m', $server, cursor => 0, target => "'own'", verify => "'full'")
	. "; UPDATE atproto.subscription SET max_held_events = 0 WHERE name = 'm'; COMMIT");
wait_for_seq($node, 'm', 6);
is(query("SELECT subscription, count(*) FROM atproto.held_event GROUP BY 1"), 'a|6', 'R-34: a limit drops only what its own subscription holds');
is(query("SELECT subscription, events, after_seq, before_seq, reason FROM atproto.gap"), 'm|6|0|7|held events dropped', 'R-34: and a row says what is missing');
query("UPDATE atproto.subscription SET max_held_events = 100 WHERE name = 'm'; SELECT atproto.set_cursor('m', 0)");
wait_for("SELECT count(*) = 6 FROM atproto.held_event WHERE subscription = 'm'");
# the owner of a is a superuser, and takes both
query("SELECT atproto.pause('a')");
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at) SELECT DISTINCT did, 'good', '\\x$who{gone}{first}'::bytea, 'pds.example.com', now(), now() FROM atproto.held_event");
foreach (1 .. 2)
{
	query("UPDATE atproto.identity SET asked_at = clock_timestamp(); INSERT INTO atproto.held_release (target, did, subscription, shard_key) SELECT DISTINCT target, did, subscription, shard_key FROM atproto.held_event");
	wait_for("SELECT count(*) = 0 FROM atproto.held_release WHERE subscription = 'm'");
}
is(query('SELECT subscription, count(*) FROM atproto.held_event GROUP BY 1'), 'a|6', 'R-32: a role takes only what its own subscription, or that of a role it is a member of, has received');
is(query('SELECT DISTINCT subscription FROM atproto.dead_letter'), 'm', 'R-32: its own');
query('SELECT atproto.unsubscribe(name) FROM atproto.subscription; DROP OWNED BY m');
clean();

# --- the account's status: as at each event's place in the stream ---

foreach my $workers (1, 3)
{
	my $name = "ordered$workers";
	$server = AtprotoTest::Server->start(make_capture('full.py', 'order'), '--hold-at', 7);
	query("CREATE SCHEMA $name; " . subscribe_sql($name, $server, cursor => 0, target => "'$name'", verify => "'full'", workers => $workers));
	wait_for_seq($node, $name, 6);
	is(query('SELECT count(*), count(DISTINCT did) FROM atproto.held_event'), '3|1', 'three events wait; that of the account that was deleted has gone');
	know($did, $key);
	know($who{gone}{did}, $who{gone}{first});
	looked_up('', 'true');
	wait_for('SELECT count(*) = 0 FROM atproto.held_event');
	is(query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM $name.record"), '10,20,30', "R-31: $workers: what came before a deactivation is taken, what came before a deletion is not");
	is(query("SELECT count(*) FROM $name.visible_record"), '0', "F-05: $workers: and hidden");
	$server->release;
	wait_for_seq($node, $name, 8);
	is(query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM $name.visible_record"), '10,20,30,40', "R-31: $workers: it is there when the account is active again");
	is(query("SELECT sync, hold FROM $name.repo WHERE did = '$did'"), 'synchronized|', "R-31: $workers: and nothing is missing");
	clean();
}

# --- a subscription is removed while its events wait ---

sub with_held
{
	my ($name, $target, %o) = @_;
	my $first = AtprotoTest::Server->start(make_capture('full.py', 'order'), '--hold-at', 7);

	know($did, $key);
	query("CREATE SCHEMA IF NOT EXISTS $target; " . subscribe_sql($name, $first, cursor => 0, target => "'$target'", verify => "'full'", %o));
	wait_for_seq($node, $name, 6);
	return $first;
}

# some records are stored; the later events wait
$server = AtprotoTest::Server->start(make_capture('full.py', 'rotations'), '--hold-at', 10);
query('CREATE SCHEMA goes');
know($did, $key);
query(subscribe_sql('goes', $server, cursor => 0, target => "'goes'", verify => "'full'", dids => "'{$did}'"));
wait_for_seq($node, 'goes', 9);
query('DELETE FROM atproto.identity');
$server->release;
wait_for_seq($node, 'goes', 20);
is(query('SELECT count(*) FROM atproto.held_event'), '2', 'two events of a repository wait that is known');
query("SELECT atproto.unsubscribe('goes')");
is(query("SELECT sync, hold FROM goes.repo WHERE did = '$did'"), 'desynchronized|', 'R-32: they go with their subscription, and their repository is marked at once');
is(query('SELECT subscription, target, events, reason FROM atproto.gap'), '|goes|2|held events dropped', 'R-32: and a row outlives it');
clean();

# a second subscription may take the events, if it stores and counts what the first one would
foreach (
	[ same   => 'takes them over', verify => "'full'" ],
	[ chain  => 'gets nothing',    verify => "'chain'" ],
	[ counts => 'gets nothing',    verify => "'full'", count_collections => 'true' ])
{
	my ($heir, $gets, %settings) = @$_;
	$server = AtprotoTest::Server->start(make_capture('full.py', 'order'), '--hold-at', 7);
	query("CREATE SCHEMA heir$heir; " . subscribe_sql('first', $server, cursor => 0, target => "'heir$heir'", verify => "'full'"));
	wait_for_seq($node, 'first', 6);
	follow_also('second', "heir$heir", %settings);
	my ($first, $own) = map { query("SELECT count(*) FROM atproto.held_event WHERE subscription = '$_'") } 'first', 'second';
	my $lost = 'SELECT COALESCE(sum(events), 0) FROM atproto.gap';
	my $deleted = query($lost);
	query("SELECT atproto.unsubscribe('first')");
	is(query("SELECT count(*) FROM atproto.held_event WHERE subscription = 'second'") - $own, $heir eq 'same' ? $first : 0, "R-32: $heir: a second subscription $gets");
	is(query($lost) - $deleted, $heir eq 'same' ? 0 : $first, 'R-32: and nothing goes without a row');
	clean();
}

# --- held events of a replaced stream keep their format ---

$server = AtprotoTest::Server->start(make_capture('full.py', 'order'), '--hold-at', 5);
query('CREATE SCHEMA moves; ' . subscribe_sql('moves', $server, cursor => 0, target => "'moves'", verify => "'full'"));
wait_for_seq($node, 'moves', 4);
query("UPDATE atproto.subscription SET url = 'ws://127.0.0.1:1/subscribe', verify = 'hash'");
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(query('SELECT count(*) FROM moves.record') . ' ' . query('SELECT count(*) FROM atproto.dead_letter'), '4 0', 'R-32: the messages of a relay stay what they are when a Jetstream follows');
clean();

# an event of an older dump has no level and format
$server = AtprotoTest::Server->start(make_capture('full.py', 'order'), '--hold-at', 5);
query('CREATE SCHEMA old; ' . subscribe_sql('old', $server, cursor => 0, target => "'old'", verify => "'full'"));
wait_for_seq($node, 'old', 4);
query("CREATE TABLE kept AS SELECT * FROM atproto.held_event; DELETE FROM atproto.held_event;"
	. " INSERT INTO atproto.held_event (target, did, rev, subscription, seq, why, asked_at, shard_key, bytes, kind) SELECT target, did, rev, subscription, seq, why, asked_at, shard_key, bytes, kind FROM kept");
is(query('SELECT DISTINCT verify, format, endpoint = (SELECT endpoint FROM atproto.subscription) FROM atproto.held_event'), 'full|dag-cbor|t', 'a row of an older dump gets its subscription\'s level, format and endpoint');

query('DROP TABLE kept');

# --- a consumer names the held events once at its start ---

my $points = AtprotoTest::Points->new($node);
$points->hold('held events read', 'atproto old');
foreach (1 .. 3)
{
	query("SELECT atproto.pause('old')");
	wait_for(q{SELECT count(*) = 0 OR bool_and(pg_terminate_backend(pid)) IS NULL FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
	query("SELECT atproto.resume('old')");
	$points->wait('held events read', 'atproto old');
}
is(query("SELECT count(*) FROM atproto.held_release"), '2', 'each repository is named once, however often a consumer starts');
$points->release('held events read', 'atproto old');
clean();

# --- letters keep their format, too ---

$server = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a 2 +bad', 'a 3 +y'));
query("CREATE SCHEMA letters; SELECT atproto.create_tables('letters'); ALTER TABLE letters.record ADD CONSTRAINT none CHECK (rkey::text <> 'bad')");
query(subscribe_sql('letters', $server, cursor => 0, target => "'letters'"));
wait_for_seq($node, 'letters', 3);
query("ALTER TABLE letters.record DROP CONSTRAINT none; UPDATE atproto.subscription SET url = 'ws://127.0.0.1:1/subscribe', verify = 'hash'");
is(query('SELECT f.format, atproto.retry(d.id) FROM atproto.dead_letter d JOIN atproto.dead_frame f USING (subscription, digest)'), 'dag-cbor|applied', 'a letter of a relay can be applied when a Jetstream follows');
clean();

# --- two roles, with tables of their own, hear of the same identities; a deferred trigger of one role does not end ---

my $names = keys %who;
know($who{$_}{did}, $who{$_}{first}) foreach keys %who;
query('CREATE ROLE hostile LOGIN SUPERUSER; CREATE SCHEMA endless; CREATE SCHEMA goes_on');
my ($endless, $goes_on) = map { AtprotoTest::Server->start(make_capture('full.py', 'rotations'), map { ('--hold-at', $names + $_) } 1, 6) } 1, 2;
query('SET SESSION AUTHORIZATION hostile; ' . subscribe_sql('endless', $endless, cursor => 0, target => "'endless'", verify => "'full'"));
query(subscribe_sql('goes_on', $goes_on, cursor => 0, target => "'goes_on'", verify => "'full'"));
wait_for_seq($node, $_, $names) foreach 'endless', 'goes_on';
query(<<'SQL');
CREATE FUNCTION endless.waits() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock(1234567); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER waits AFTER UPDATE ON endless.repo DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION endless.waits();
SQL
my $waits = $node->background_psql('postgres');
$waits->query_safe('SELECT pg_advisory_lock(1234567)');
$endless->release;
wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'atproto endless' AND wait_event = 'advisory'});
$goes_on->release;
wait_for_seq($node, 'goes_on', $names + 5);
is(query(q{SELECT wait_event FROM pg_stat_activity WHERE application_name = 'atproto endless'}), 'advisory', 'W-31: a trigger of one role keeps no other role from its events');
$waits->query_safe('SELECT pg_advisory_unlock(1234567)');
$waits->quit;
wait_for_seq($node, 'endless', $names + 5);
is(query("SELECT bool_and(cardinality(doubted_by) = 2) FROM atproto.identity WHERE doubted_by <> '{}'"), 't', 'W-31: and both doubt the keys');
clean();

$node->stop;
done_testing();
