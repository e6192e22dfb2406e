# 282_full_held.pl
#		Held events at level full: floods and limits, other refusals in the same batch, and what becomes of
#		held events when their subscription, its level, or the accounts change.  As in 282_full.pl no fetcher
#		runs.  V-12, V-42, V-48, W-30, R-30 to R-35.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Lookups;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('held_full', databases => '', conf => "max_worker_processes = 16\natproto.reconnect_delay = 50ms");
my %who = accounts_of('full.py', 'rotations');

# --- floods: only held events are stored, and no identity is requested twice ---

my $server = AtprotoTest::Server->start(make_capture('full.py', 'flood', 60, 100));
begin_again();
query('CREATE SCHEMA flood');
query(subscribe_sql('flood', $server, cursor => 0, target => "'flood'", verify => "'full'"));
wait_for_seq($node, 'flood', 160);
is(query('SELECT count(*), count(DISTINCT did) FROM atproto.identity_request'), '101|101', 'W-34: one request for each account');
is(query('SELECT count(*) FROM flood.repo WHERE rev IS NOT NULL OR sync <> $$partial$$'), '0', 'V-11: no state of any');
query('CREATE TABLE forged AS SELECT did FROM atproto.identity_request');
my $most = query('SELECT did FROM atproto.held_event GROUP BY did ORDER BY count(*) DESC LIMIT 1');
is(query("SELECT count(*) FROM atproto.held_event WHERE did = '$most'"), '60', 'R-34: they wait');
query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at) SELECT did, 'good', '\\x$who{gone}{first}', 'pds.example.com', now(), now() FROM atproto.identity_request");
looked_up('', 'true');
is(query("SELECT why, count(*) FROM atproto.held_event GROUP BY why ORDER BY why"), "order|59\nsignature|101", 'V-41: none is by the key that is known now; once more, the first of each, and what waits behind it');
is(query('SELECT count(*), count(DISTINCT did) FROM atproto.identity_request'), '101|101', 'V-41: again one request for each account');
# further repositories: a DELETE from repo reads none of them; triggers note how many rows its scans of the whole table read
query(<<'SQL');
INSERT INTO flood.repo (did, rev) SELECT ('did:plc:' || lpad(translate(n::text, '0189', 'abcd'), 24, 'z'))::did, '3khuwc44dlywo' FROM generate_series(1, 2000) n;
ANALYZE flood.repo;
CREATE TABLE reads (n bigint);
CREATE FUNCTION note_reads() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.reads VALUES (pg_stat_get_xact_tuples_returned(tg_relid) * CASE tg_when WHEN 'AFTER' THEN 1 ELSE -1 END);
	RETURN NULL;
END $$;
CREATE TRIGGER first BEFORE DELETE ON flood.repo FOR EACH STATEMENT EXECUTE FUNCTION note_reads();
CREATE TRIGGER last AFTER DELETE ON flood.repo FOR EACH STATEMENT EXECUTE FUNCTION note_reads();
SQL
looked_up('', 'true');
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(query('SELECT count(*), sum(attempts) FROM atproto.dead_letter'), '101|160', 'V-48: one letter for each account and key, which counts the others');
is(query('SELECT count(*) FROM flood.repo WHERE rev IS NULL'), '0', 'V-48: and of none is there a row');
is(query('SELECT count(*) > 1, sum(n) FROM reads'), 't|0', 'each row that goes is looked up by its key');
query("SELECT atproto.unsubscribe('flood')");

# no room
$server = AtprotoTest::Server->start(make_capture('full.py', 'flood', 60, 10));
begin_again();
query('CREATE SCHEMA room');
query(subscribe_sql('room', $server, cursor => 0, target => "'room'", verify => "'full'") . "; UPDATE atproto.subscription SET max_held_events = 25 WHERE name = 'room'");
wait_for_seq($node, 'room', 70);
cmp_ok(query("SELECT count(*) FROM atproto.held_event WHERE did = '$most'"), '<=', 25, 'R-34: a repository has no more than its share');
is(query("SELECT count(DISTINCT did) FROM atproto.held_event WHERE did <> '$most'"), '10', 'R-34: and others theirs');
like(skips('room'), qr/held_dropped \d+/, 'R-34: what was dropped is counted');
is(query('SELECT count(*) FROM room.repo WHERE rev IS NOT NULL OR sync <> $$partial$$'), '0', 'R-34: nothing follows from it');

# no room at all
query("SELECT atproto.unsubscribe('room')");
begin_again();
query('CREATE SCHEMA none');
query(subscribe_sql('none', $server, cursor => 0, target => "'none'", verify => "'full'") . "; UPDATE atproto.subscription SET max_held_events = 0 WHERE name = 'none'");
wait_for_seq($node, 'none', 70);
is(query('SELECT count(*) FROM atproto.held_event'), '0', 'R-34: all is dropped');
is(query('SELECT count(*) FROM none.repo WHERE hold IS NOT NULL'), '0', 'R-34: a repository of which everything was dropped waits for nothing');

# --- no room while repositories are fetched: the exports may lack the dropped events ---

sub begin_fetched
{
	my ($name, $server) = @_;

	query("CREATE SCHEMA $name; SELECT atproto.create_tables('$name')");
	query("INSERT INTO $name.repo (did, sync, hold) SELECT did, 'resyncing', 'resync' FROM forged");
	query('BEGIN; ' . subscribe_sql($name, $server, cursor => 0, target => "'$name'", verify => "'full'", backfill => "'repair'")
		. "; INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, state) SELECT '$name', did, '$name', 1, 'break', 'running' FROM forged; COMMIT");
	return;
}

# the limit becomes the present amount
sub fill
{
	my ($name) = @_;

	query("UPDATE atproto.subscription SET max_held_bytes = (SELECT sum(octet_length(bytes)) FROM atproto.held_event) WHERE name = '$name'");
	return;
}

query("SELECT atproto.unsubscribe('none')");
$server = AtprotoTest::Server->start(make_capture('full.py', 'flood', 1, 100), '--hold-at', 81);
begin_again();
begin_fetched('fetched', $server);
wait_for_seq($node, 'fetched', 80);
is(query('SELECT DISTINCT why FROM atproto.held_event'), 'resync', 'F-11, R-30: they wait for what is fetched');
fill('fetched');
$server->release;
wait_for_seq($node, 'fetched', 101);
like(skips('fetched'), qr/held_dropped \d+/, 'R-34: there is no room for all');
is(query("SELECT count(*) FROM fetched.repo r WHERE sync <> 'desynchronized' AND NOT EXISTS (SELECT FROM atproto.held_event h WHERE h.did = r.did)"),
	'0', 'R-34: of which something was dropped is to be fetched once more');
is(query("SELECT count(*) FROM fetched.repo r WHERE sync = 'resyncing'"), query('SELECT count(DISTINCT did) FROM atproto.held_event'), 'R-34: and no other');
query("SELECT atproto.unsubscribe('fetched')");

# an account with many names below one domain does not push out an account with one name
$server = AtprotoTest::Server->start(make_capture('full.py', 'flood', 1, 100), '--hold-at', 81);
begin_again();
begin_fetched('names', $server);
wait_for_seq($node, 'names', 80);
query("INSERT INTO names.repo (did, hold) SELECT ('did:web:n' || n || '.many.example.com')::did, 'identity' FROM generate_series(1, 500) n");
query("INSERT INTO atproto.held_event (target, subscription, kind, did, rev, seq, why, shard_key, bytes)"
	. " SELECT 'names', 'names', 'repo', ('did:web:n' || n || '.many.example.com')::did, h.rev, n, 'identity', 0, repeat('x', 100)::bytea"
	. " FROM generate_series(1, 500) n, (SELECT rev FROM atproto.held_event LIMIT 1) h");
fill('names');
$server->release;
wait_for_seq($node, 'names', 101);
cmp_ok(query(q{SELECT count(*) FROM atproto.held_event WHERE did::text LIKE 'did:web:%'}), '<', 500, 'R-34: what has no room is of who has most');
is(query(q{SELECT count(*) FROM atproto.held_event WHERE did::text NOT LIKE 'did:web:%' AND seq <= 80}), '80', 'R-34: all his names together, small as each is');
my $ended = q{FROM names.repo r WHERE hold IS NOT NULL AND NOT EXISTS (SELECT FROM atproto.held_event h WHERE h.did = r.did)};
is(query("SELECT count(*) $ended"), '0', 'R-34: names of which everything was dropped wait for nothing');

# The rows above are no messages: a release removes the rows, and the last row of a repository ends its wait.  An event that
# waited for a missing commit is lost then.
sub spoilt
{
	my ($name, $why, @revs) = @_;
	my $did = "did:web:$name.spoilt.example.com";
	my $rows = join ', ', map { "('names', 'names', 'repo', '$did', '$_', 1, '$why', 0, 'x')" } @revs;

	return "INSERT INTO names.repo (did, hold) VALUES ('$did', '$why'); INSERT INTO atproto.held_event (target, subscription, kind, did, rev, seq, why, shard_key, bytes) VALUES $rows;";
}
query('BEGIN; ' . spoilt('gap', 'gap', '3jzfcijpj2z2a') . spoilt('one', 'identity', '3jzfcijpj2z2a') . spoilt('two', 'identity', '3jzfcijpj2z2a', '3jzfcijpj2z2b')
	. "INSERT INTO atproto.held_release (target, kind, did, subscription, shard_key) SELECT target, kind, did, subscription, shard_key FROM atproto.held_event WHERE did::text LIKE 'did:web:%'; COMMIT");
wait_for(q{SELECT count(*) = 0 FROM atproto.held_event WHERE did::text LIKE 'did:web:%'});
is(query("SELECT count(*) $ended"), '0', 'R-32: a release that meets rows which are no messages ends the wait of their repositories');
is(query("SELECT did, sync, hold FROM names.repo WHERE did::text LIKE '%.spoilt.example.com'"), 'did:web:gap.spoilt.example.com|desynchronized|',
	'F-08: the event behind a missing commit is lost, which the repository says; V-48: of the others, of which nothing is known, there is no row');
query("SELECT atproto.unsubscribe('names')");

# --- held events go with their subscription; afterwards no repository waits for them ---

$server = AtprotoTest::Server->start(make_capture('full.py', 'flood', 60, 10));
begin_again();
query(subscribe_sql('room', $server, cursor => 0, target => "'room'", verify => "'full'"));
wait_for_seq($node, 'room', 70);

query("SELECT atproto.unsubscribe('room')");
is(query('SELECT count(*) FROM atproto.held_event'), '0', 'R-35: unsubscribe() removes it');
is(query('SELECT count(*) FROM room.repo WHERE hold IS NOT NULL'), '0', 'R-35: and no repository waits for it');
$server = AtprotoTest::Server->start(make_capture('full.py', 'flood', 1, 10));
query(subscribe_sql('again', $server, cursor => 0, target => "'room'", verify => "'chain'"));
wait_for_seq($node, 'again', 11);
wait_for('SELECT count(*) = 0 FROM room.repo WHERE hold IS NOT NULL');
is(query('SELECT count(*), bool_or(verified) FROM room.repo WHERE rev IS NOT NULL'), '11|f', 'V-37: what comes is taken, at another level');
query("SELECT atproto.unsubscribe('again')");

# --- a lower level judges held events by its own rules ---

$server = AtprotoTest::Server->start(make_capture('full.py', 'flood', 3, 3));
begin_again();
query('CREATE SCHEMA lower');
query(subscribe_sql('lower', $server, cursor => 0, target => "'lower'", verify => "'full'"));
wait_for_seq($node, 'lower', 6);
is(query('SELECT count(*) FROM atproto.held_event'), '6', 'V-40: all wait');
query("UPDATE atproto.subscription SET verify = 'chain' WHERE name = 'lower'");
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(query('SELECT count(*) FROM lower.record'), '6', 'V-03: at level chain nobody has to sign');
query("SELECT atproto.unsubscribe('lower')");

# --- invalid levels ---

my (undef, undef, $out) = $node->psql('postgres', subscribe_sql('labels', $server, nsid => 'com.example.subscribeOther', verify => "'full'"));
like($out, qr/cannot be verified by their signatures/, 'V-01: messages of other streams');

# --- a refused row in the same batch as a held event ---

my ($unknown, $known) = @who{qw(unknown rotated)};
my $refusing = AtprotoTest::Server->start(make_capture('full.py', 'refused'), '--hold-at', 2, '--hold-at', 5);
begin_again();
know($known->{did}, $known->{first});
query('CREATE SCHEMA pieces');
query(subscribe_sql('pieces', $refusing, cursor => 0, target => "'pieces'", verify => "'full'"));
wait_for_seq($node, 'pieces', 1);
query("ALTER TABLE pieces.record ADD CHECK (rkey::text <> '20')");
$refusing->release;
wait_for_seq($node, 'pieces', 4);
is(query('SELECT stage, did FROM atproto.dead_letter'), "apply|$known->{did}", 'a record is refused');
is(query("SELECT hold FROM pieces.repo WHERE did = '$unknown->{did}'"), 'identity', 'V-42: an event of another account waits, and its row says so, whatever comes after it');
know($unknown->{did}, $unknown->{first});
query("UPDATE atproto.identity SET asked_at = NULL");
$refusing->release;
wait_for_seq($node, 'pieces', 5);
is(query('SELECT why FROM atproto.held_event ORDER BY rev'), "identity\norder", 'V-42: so that the next one waits behind it');
looked_up('', 'true');
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM pieces.record WHERE did = '$unknown->{did}'"), '10,30', 'R-32: and both are taken');

# --- a subscription that now follows different accounts ---

$server = AtprotoTest::Server->start(make_capture('full.py', 'flood', 3, 3));
begin_again();
query('CREATE SCHEMA narrow');
query(subscribe_sql('narrow', $server, cursor => 0, target => "'narrow'", verify => "'full'"));
wait_for_seq($node, 'narrow', 6);
query("UPDATE atproto.subscription SET dids = '{$unknown->{did}}' WHERE name = 'narrow'");
wait_for("SELECT count(*) = 0 FROM atproto.held_release");
foreach (1 .. 2)
{
	query("SELECT atproto.pause('narrow')");
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
	query("SELECT atproto.resume('narrow')");
	wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'narrow'});
}
is(query('SELECT count(*) FROM atproto.held_event'), '6', 'what waits goes on waiting');
# a row that the consumer takes goes at once; a row without a taker would stay
wait_for('SELECT count(*) = 0 FROM atproto.held_release');
pass('and is not named each time by somebody who does not take it');
query("SELECT atproto.unsubscribe('narrow')");

# --- a key that was read long ago; an account without a working identity ---

$server = AtprotoTest::Server->start(make_capture('full.py', 'refused'), '--hold-at', 5);
begin_again();
know($known->{did}, $known->{first});
query("UPDATE atproto.identity SET resolved_at = now() - interval '7 days'; UPDATE atproto.identity SET asked_at = resolved_at");
query("INSERT INTO atproto.identity (did, state, asked_at, next_try) VALUES ('$unknown->{did}', 'gone', now(), now() + interval '1 h')");
query('CREATE SCHEMA aged');
query(subscribe_sql('aged', $server, cursor => 0, target => "'aged'", verify => "'full'"));
wait_for_seq($node, 'aged', 4);
is(query("SELECT DISTINCT why FROM atproto.held_event WHERE did = '$known->{did}'"), "identity\norder", 'W-30: after 7 days a key is not believed');
query("UPDATE aged.repo SET status_at = NULL, status = NULL WHERE did = '$unknown->{did}'; DELETE FROM aged.repo WHERE did = '$unknown->{did}'");
$server->release;
wait_for_seq($node, 'aged', 5);
is(query("SELECT count(*) FROM aged.repo WHERE did = '$unknown->{did}'"), '0', 'V-43: of an account that is gone there is no row');
query("SELECT atproto.unsubscribe('aged')");

$node->stop;
done_testing();
