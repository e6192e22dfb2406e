# 264_renames.pl
#		A subscription or its target schema is renamed: held events, jobs, requests, audits, limits, gaps
#		and refills stay with the subscription, and a new subscription or schema under the old name inherits
#		nothing. sync.md, H: names.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

# no directory answers requests for keys
my $node = make_node('renames', conf => "atproto.plc_url = 'https://127.0.0.1:1'\natproto.reconnect_delay = 20ms\natproto.reconnect_max_delay = 100ms\n");
my $pds    = capture('pds.frames.gz');
my $signed = AtprotoTest::Server->start($pds);
my $steps  = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a 2 +y', 'a 3 +z'));
my $did    = did('a');

sub paused
{
	my ($name) = @_;
	query("SELECT atproto.pause('$name')");
	wait_for("SELECT pid IS NULL FROM atproto.stat_subscription WHERE name = '$name'");
	return;
}

# A consumer that starts judges all that waits.  An event that was held early may be applied or dropped then, because
# more is known by the end of the stream; the consumer before may have done that or not.  So the number of held events
# tells nothing: the queue does, which has every account before the start and none when all are judged.
sub judged_anew
{
	my ($name) = @_;

	paused($name);
	query('INSERT INTO atproto.held_release (target, did, shard_key, kind, subscription) SELECT DISTINCT target, did, shard_key, kind, subscription FROM atproto.held_event');
	query("SELECT atproto.resume('$name')");
	wait_for("SELECT count(*) = 0 AND (SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = '$name') FROM atproto.held_release");
	return;
}

# --- a schema ---

query('CREATE ROLE renamer; CREATE SCHEMA old AUTHORIZATION renamer; GRANT CREATE ON DATABASE postgres TO renamer');
query(subscribe_sql('full', $signed, cursor => 0, target => "'old'", verify => "'full'"));
wait_for_seq($node, 'full', $PDS_LAST);
judged_anew('full');
my $waits = query("SELECT count(*) FROM atproto.held_event");
cmp_ok($waits, '>', 10, 'events wait for keys');
query(<<"SQL");
INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, state, next_try) VALUES ('old', '$did', 'full', 1, 'test', 'running', 'infinity');
INSERT INTO atproto.repo_fetched VALUES ('old', '$did', '{now}'), ('new', '$did', '{now,now}');
INSERT INTO atproto.status_request (target, did, subscription, why, requested_at, next_try) VALUES ('old', '$did', 'full', 'rev', now(), 'infinity');
INSERT INTO atproto.audit_state (target, audited) VALUES ('old', 7), ('new', 8);
INSERT INTO atproto.proof_sample (target, seed, share) VALUES ('old', 7, 1), ('new', 8, 1);
INSERT INTO atproto.proof_result (target, did, subscription, proved_set, next_try) VALUES ('old', '$did', 'full', 0, 'infinity');
INSERT INTO atproto.proved_set (target, id, collections) VALUES ('new', 0, '{*}');
INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason, again_since) SELECT name, endpoint, 1000001, 1000003, 'test', now() FROM atproto.subscription;
INSERT INTO atproto.gap (target, endpoint, after_seq, reason) VALUES ('old', 'x', 1, 'held events dropped'), ('elsewhere', 'x', 1, 'held events dropped');
SQL
my $cursor = query("SELECT seq, settings_after, read_from FROM atproto.cursor WHERE subscription = 'full'");
is(query("SET ROLE renamer; ALTER SCHEMA old RENAME TO new"), '', 'whoever may rename a schema renames a target');
my $all = "SELECT (SELECT string_agg(target, ',') FROM atproto.subscription), (SELECT string_agg(DISTINCT target, ',') || count(*) FROM atproto.held_event),
	(SELECT string_agg(target || state, ',') FROM atproto.repo_job), (SELECT string_agg(target || cardinality(at), ',') FROM atproto.repo_fetched),
	(SELECT string_agg(target, ',') FROM atproto.status_request WHERE why = 'rev'), (SELECT string_agg(target || audited, ',') FROM atproto.audit_state),
	(SELECT string_agg(target || seed, ',') FROM atproto.proof_sample), (SELECT string_agg(target, ',') FROM atproto.proof_result), (SELECT string_agg(target || id, ',') FROM atproto.proved_set)";
is(query($all), "new|new$waits|newqueued|new1|new|new7|new7|new|new0", 'all that belongs to the target goes with it');
wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'full'");
is(query("SELECT seq, settings_after, read_from FROM atproto.cursor WHERE subscription = 'full'"), $cursor, 'that is no other setting');
is(query("SELECT string_agg(target, ',' ORDER BY target) FROM atproto.gap WHERE subscription IS NULL"), 'elsewhere,new', 'gaps of subscriptions that were removed go with the tables');
query('CREATE SCHEMA old AUTHORIZATION renamer; CREATE ROLE reader; GRANT SELECT ON atproto.gap, atproto.subscription TO reader; GRANT USAGE ON SCHEMA old TO reader');
is(query('SET ROLE reader; SELECT count(*) FROM atproto.gap'), '0', 'and are not for the users of another schema of the old name');
query('DROP SCHEMA old; DELETE FROM atproto.gap WHERE subscription IS NULL');
is(query("SELECT again_since IS NOT NULL, closed_at IS NULL FROM atproto.gap WHERE reason = 'test'"), 't|t', 'a gap is being read again as before');
is(query($all), "new|new$waits|newqueued|new1|new|new7|new7|new|new0", 'the consumer drops nothing of it');
is(query("BEGIN; ALTER SCHEMA new RENAME TO newer; ROLLBACK; $all"), "new|new$waits|newqueued|new1|new|new7|new7|new|new0", 'a rename that is rolled back was none');
query('ALTER SCHEMA new RENAME TO "Odd ""name"');
is(query('SELECT target FROM atproto.subscription'), 'Odd "name', 'any name');
wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'full'");
query("ALTER SCHEMA \"Odd \"\"name\" RENAME TO again; CREATE SCHEMA unrelated; ALTER SCHEMA unrelated RENAME TO other; ALTER SCHEMA other OWNER TO renamer");
wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'full'");
is(query("SELECT count(*) FROM atproto.held_event WHERE target = 'again'"), $waits, 'twice, beside other schemas');

# a batch that is being written under the old name
query("SELECT atproto.unsubscribe('full')");
query("ALTER SCHEMA again RENAME TO old; TRUNCATE old.repo");
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; LOCK TABLE old.repo IN EXCLUSIVE MODE');
query(subscribe_sql('full', $signed, cursor => 0, target => "'old'", verify => "'full'"));
wait_for("SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND relation = 'old.repo'::regclass");
$session->query_safe('ALTER SCHEMA old RENAME TO new; COMMIT');
$session->quit;
wait_for_seq($node, 'full', $PDS_LAST);
judged_anew('full');
is(query("SELECT string_agg(DISTINCT target, ','), count(*) FROM atproto.held_event"), "new|$waits", 'what is written meanwhile stands under the new name');
is(query('SELECT stopped FROM atproto.subscription'), '', 'and nothing stops');

# A schema that another role has made under the name of a dropped one: its renaming changes nothing of the subscription.
query('SET client_min_messages = error; CREATE SCHEMA gone; GRANT CREATE ON DATABASE postgres TO renamer');
query(subscribe_sql('gone', $steps, cursor => 0, target => "'gone'", backfill => "'repair'"));
wait_for_seq($node, 'gone', 3);
paused('gone');
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try) VALUES ('gone', 'did:web:gone.example.com', 'gone', 1, 'test', 'infinity')");
query('SET client_min_messages = error; DROP SCHEMA gone CASCADE; SET SESSION AUTHORIZATION renamer; CREATE SCHEMA gone; ALTER SCHEMA gone RENAME TO mine');
my $of_gone = q{SELECT s.target, j.target FROM atproto.subscription s JOIN atproto.repo_job j ON j.subscription = s.name WHERE s.name = 'gone'};
is(query($of_gone), 'gone|gone', 'a schema of the same name takes along no subscription of another role, and no job');
query('ALTER SCHEMA mine RENAME TO gone; ALTER SCHEMA gone RENAME TO theirs');
is(query($of_gone), 'theirs|theirs', 'unless who renames it may act as the owner of the subscription');
query("SELECT atproto.unsubscribe('gone'); DROP SCHEMA theirs");

# --- a subscription ---

query(subscribe_sql('s', $steps, cursor => 0));
wait_for_seq($node, 's', 3);
paused('s');
query("DELETE FROM atproto.record; SELECT atproto.refill('s')");
isnt(query('SELECT refill_by FROM atproto.repo'), 's', 'a refill belongs to a subscription, not to a name');
query("UPDATE atproto.subscription SET name = 't' WHERE name = 's'; SELECT atproto.resume('t')");
wait_for_seq($node, 't', 3);
wait_for("SELECT count(*) = 0 FROM atproto.repo WHERE refill_by IS NOT NULL");
is(query('SELECT count(*) FROM atproto.record'), '3', 'with another name it reads on');
paused('t');
query("DELETE FROM atproto.record; SELECT atproto.refill('t'); UPDATE atproto.repo SET sync = 'unproven', refill_sync = 'synchronized'; SELECT atproto.unsubscribe('t')");
is(query('SELECT count(*) FROM atproto.repo WHERE refill_by IS NOT NULL OR refill_sync IS NOT NULL'), '0', 'V-31: without its subscription a refill ends');
is(query('SELECT next_at IS NOT NULL FROM atproto.audit_state WHERE target = $$atproto$$'), 't', 'and what the refill has left unproven will be audited');
query(subscribe_sql('t', $steps, cursor => 0));
wait_for_seq($node, 't', 3);
is(query('SELECT count(*) FROM atproto.record'), '0', 'another subscription of the same name has nothing of it');

# The table may have many millions of rows.  A table of an earlier version has no index repo_refill; create_tables() makes the index.
paused('t');
query("INSERT INTO atproto.repo (did) SELECT 'did:web:many' || n || '.example' FROM generate_series(1, 20000) n; SELECT atproto.refill('t', dids => ARRAY['$did']::did[]); ANALYZE atproto.repo");
my $end  = q{SELECT atproto.unsubscribe('t'); SELECT seq_tup_read FROM pg_stat_xact_user_tables WHERE relid = 'atproto.repo'::regclass};
my $left = q{SELECT count(*) FROM atproto.repo WHERE refill_by IS NOT NULL};
is(query("BEGIN; $end; $left; ROLLBACK"), "\n0\n0", 'the end of a refill reads only the repositories of the refill');
query('DROP INDEX atproto.repo_refill');
like(query("BEGIN; $end; $left; ROLLBACK"), qr/^\n40\d+\n0$/, 'without the index it reads all, once to lock and once to change, and ends the refill');
query("SELECT atproto.create_tables('atproto')");
is(query("BEGIN; $end; $left; ROLLBACK"), "\n0\n0", 'create_tables() makes the index that a table of an earlier version lacks');
query("DELETE FROM atproto.repo WHERE did::text LIKE 'did:web:many%'; UPDATE atproto.repo SET refill_by = NULL, refill_rev = NULL, refill_to = NULL, refill_at = NULL; SELECT atproto.resume('t')");

# Records loaded in parts have no tree for an audit to compare.
paused('t');
query("UPDATE atproto.repo SET sync = 'partial', data = NULL; SELECT atproto.refill('t'); UPDATE atproto.repo SET refill_rev = rev; SELECT atproto.unsubscribe('t')");
is(query('SELECT DISTINCT sync FROM atproto.repo'), 'desynchronized', 'V-31: a repository without a tree, of which a refill has read something, is marked');
query(subscribe_sql('t', $steps, cursor => 0));
wait_for_seq($node, 't', 3);
paused('t');
query("UPDATE atproto.repo SET sync = 'partial', data = NULL; SELECT atproto.refill('t'); SELECT atproto.unsubscribe('t')");
is(query('SELECT DISTINCT sync FROM atproto.repo'), 'partial', 'V-31: a repository of which the refill has read nothing stays as it was');
query(subscribe_sql('t', $steps, cursor => 0));
wait_for_seq($node, 't', 3);
paused('t');
query("SELECT atproto.refill('t'); UPDATE atproto.repo SET sync = 'unproven', refill_sync = 'synchronized'; ALTER TABLE atproto.repo DROP COLUMN refill_first");
is(query("SELECT atproto.unsubscribe('t'); SELECT count(*) FROM atproto.repo WHERE refill_by IS NOT NULL OR refill_sync IS NOT NULL; SELECT atproto.create_tables('atproto')"), "\n0\n",
	'V-31: a refill ends also in a table of an earlier version, which lacks a column of refills');
query(subscribe_sql('t', $steps, cursor => 0));
wait_for_seq($node, 't', 3);
like(($node->psql('postgres', "UPDATE atproto.subscription SET id = gen_random_uuid()"))[2], qr/the id of a subscription cannot be changed/, 'the id stays');

# --- a batch is at its end meanwhile: the consumer has found that a repository misses a commit, and is about to request a fetch ---

my $points = AtprotoTest::Points->new($node);
my @messages = read_capture(make_capture('steps.py', 'a 1 +x', 'a 2 +y', 'a 3 +z'));
my $lacking = write_capture(PostgreSQL::Test::Utils::tempdir('lacking') . '/second', @messages[ 0, 2 ]);

query('ALTER SYSTEM SET atproto.multi_source_wait = 0');
query('SELECT pg_reload_conf(), atproto.unsubscribe(name) FROM atproto.subscription; SELECT 1');
foreach my $case (
	[ 'its schema gets another name', 'ALTER SCHEMA m1 RENAME TO m3', 'm3', 'm3' ],
	# the cursor's row still has the settings from before: only its layout changes
	[ 'its schema gets another name after another setting', q{UPDATE atproto.subscription SET keep_raw = true; ALTER SCHEMA m1 RENAME TO m3}, 'm3', 'm3' ],
	[ 'another schema gets its name', q{ALTER SCHEMA m1 RENAME TO m3; ALTER SCHEMA m2 RENAME TO m1; UPDATE atproto.subscription SET target = 'm1'}, 'm1', '' ],
	[ 'another schema is the target', q{UPDATE atproto.subscription SET target = 'm2'}, 'm2', '' ])
{
	my ($what, $sql, $target, $queued) = @$case;
	my $stream = AtprotoTest::Server->start($lacking, '--hold-at', 2);

	query(q{CREATE SCHEMA m1; CREATE SCHEMA m2; SELECT atproto.create_tables('m2')});
	query(subscribe_sql('m', $stream, cursor => 0, target => "'m1'", verify => "'chain'", backfill => "'repair'"));
	wait_for_seq($node, 'm', 1);
	query("INSERT INTO atproto.status_request (target, did, subscription, why, requested_at, next_try) VALUES ('m1', 'did:web:asked.example.com', 'm', 'rev', now(), 'infinity')");
	$points->hold('cursor next', 'atproto m');
	$stream->release;
	$points->wait('cursor next', 'atproto m');
	query("BEGIN; $sql; COMMIT");
	$points->release('cursor next', 'atproto m');
	wait_for_seq($node, 'm', 3);
	is(query("SELECT string_agg(target, ' ') FROM atproto.repo_job"), $queued, "R-02: $what: no job names a target that the subscription does not fill");
	is(query("SELECT string_agg(target, ' ') FROM atproto.status_request WHERE did = 'did:web:asked.example.com'"), $queued, "V-39: $what: nor does a request");
	is(query("SELECT count(*) FROM $target.record WHERE rkey = 'z'"), '1', "F-08: $what: the batch is in the tables of the target");
	query(q{SELECT atproto.unsubscribe('m'); DROP SCHEMA IF EXISTS m1, m2, m3 CASCADE});
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'atproto m'});
}

# The session waits for the lock of a cursor, as for a batch before its commit; the consumer has read another batch.
{
	my $stream = AtprotoTest::Server->start($lacking, '--hold-at', 2);

	query(q{CREATE SCHEMA m1; CREATE SCHEMA m2; SELECT atproto.create_tables('m2')});
	query(subscribe_sql('m', $stream, cursor => 0, target => "'m1'"));
	wait_for_seq($node, 'm', 1);
	$points->hold('cursor next', 'atproto m');
	$stream->release;
	$points->wait('cursor next', 'atproto m');
	my $mover = $node->background_psql('postgres');
	$mover->query_safe('BEGIN; UPDATE atproto.cursor SET updated_at = now()');
	my $leaves = $points->session('leaves', q{UPDATE atproto.subscription SET target = 'm2'});
	$points->blocked('leaves');
	$mover->query_safe('COMMIT');
	$mover->quit;
	$leaves->finish;
	$points->release('cursor next', 'atproto m');
	wait_for_seq($node, 'm', 3);
	is(query(q{SELECT (SELECT string_agg(rkey::text, ' ') FROM m1.record), (SELECT string_agg(rkey::text, ' ') FROM m2.record)}), 'x|z', 'F-08: the target changes after a batch: the consumer reads the next batch again');
	query(q{SELECT atproto.unsubscribe('m'); DROP SCHEMA m1, m2 CASCADE});
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'atproto m'});
}

# Two subscriptions that were made together have the same position, and exchange their names; the process of one ends.
query('CREATE SCHEMA m1; CREATE SCHEMA m2');
my $together = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a 2 +y'), '--hold-at', 2);
query('BEGIN; ' . join('; ', map { subscribe_sql("m$_", $together, cursor => 0, target => "'m$_'") } 1, 2) . '; COMMIT');
wait_for_seq($node, "m$_", 1) foreach 1, 2;
$points->hold('cursor next', "atproto m$_") foreach 1, 2;
$together->release;
$points->wait('cursor next', "atproto m$_") foreach 1, 2;
query(q{BEGIN; UPDATE atproto.subscription SET name = 'm' WHERE name = 'm1'; UPDATE atproto.subscription SET name = 'm1' WHERE name = 'm2';
	UPDATE atproto.subscription SET name = 'm2' WHERE name = 'm'; COMMIT; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'atproto m2'});
$points->release('cursor next', "atproto m$_") foreach 1, 2;
wait_for_seq($node, "m$_", 2) foreach 1, 2;
is(query('SELECT (SELECT count(*) FROM m1.record), (SELECT count(*) FROM m2.record)'), '2|2', 'F-08: a batch does not move the cursor of the subscription that has the name now');
query(q{SELECT atproto.unsubscribe('m1'), atproto.unsubscribe('m2'); DROP SCHEMA m1, m2 CASCADE});

# Two subscriptions with equal settings and the same tables exchange their names: only their ids differ, and only m1 has fetches.
{
	my $stream = AtprotoTest::Server->start($lacking, '--hold-at', 2);

	query('CREATE SCHEMA m1');
	query(subscribe_sql("m$_", $stream, cursor => 0, target => "'m1'", verify => "'chain'", $_ == 1 ? (backfill => "'repair'") : ())) foreach 1, 2;
	wait_for_seq($node, "m$_", 1) foreach 1, 2;
	paused('m2');
	$points->hold('cursor next', 'atproto m1');
	$stream->release;
	$points->wait('cursor next', 'atproto m1');
	query(q{BEGIN; UPDATE atproto.subscription SET name = 'm' WHERE name = 'm1'; UPDATE atproto.subscription SET name = 'm1' WHERE name = 'm2';
		UPDATE atproto.subscription SET name = 'm2' WHERE name = 'm'; COMMIT});
	$points->release('cursor next', 'atproto m1');
	wait_for_seq($node, 'm2', 3);
	is(query(q{SELECT (SELECT string_agg(subscription, ' ') FROM atproto.repo_job), (SELECT seq FROM atproto.cursor WHERE subscription = 'm1')}), 'm2|1', 'R-02: a batch requests no fetch for the subscription that has the name now');
	query(q{SELECT atproto.unsubscribe('m1'), atproto.unsubscribe('m2'); DROP SCHEMA m1 CASCADE});
}

# --- a running subscription whose process ends late, because it waits for its workers ---

query('CREATE SCHEMA w; ' . subscribe_sql('parted', $signed, cursor => 0, target => "'w'", workers => 2));
wait_for_seq($node, 'parted', $PDS_LAST);
foreach my $name ('moved', 'parted')
{
	my $old = query("SELECT pid FROM atproto.stat_subscription WHERE name ~ '^(moved|parted)\$'");

	query("UPDATE atproto.subscription SET name = '$name' WHERE target = 'w'");
	wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $old");
	wait_for("SELECT state <> 'starting' FROM atproto.stat_subscription WHERE name = '$name'");
	is(query("SELECT state IN ('connecting', 'streaming', 'waiting') FROM atproto.stat_subscription WHERE name = '$name'"), 't', 'the process of the new name has its state');
}
query(q{SELECT atproto.unsubscribe('parted'); DROP SCHEMA w CASCADE});

# The batch of another subscription has requested a fetch, and not yet committed.
query('CREATE SCHEMA m1; CREATE SCHEMA m2; ' . subscribe_sql('fetches', $steps, cursor => 0, target => "'m1'", backfill => "'repair'"));
my $other = $node->background_psql('postgres');
$other->query_safe(qq{BEGIN; SELECT atproto.resync('$did', 'm1')});
my $leaves = $points->session('leaves', q{UPDATE atproto.subscription SET target = 'm2' WHERE name = 'fetches'});
$points->blocked('leaves');
$other->query_safe('COMMIT');
$other->quit;
$leaves->finish;
is(query('SELECT count(*) FROM atproto.repo_job j JOIN atproto.subscription s ON s.name = j.subscription WHERE j.target <> s.target'), '0', 'R-02: a change of the target waits for transactions that request fetches');

# A change of backfill waits for such a batch, too: subscription later gets the job.
query(subscribe_sql('later', $steps, cursor => 0, target => "'m2'", backfill => "'repair'"));
$other = $node->background_psql('postgres');
$other->query_safe(qq{BEGIN; SELECT atproto.resync('$did', 'm2')});
my $ends = $points->session('ends', q{UPDATE atproto.subscription SET backfill = 'none' WHERE name = 'fetches'});
$points->blocked('ends');
$other->query_safe('COMMIT');
$other->quit;
$ends->finish;
is(query("SELECT subscription FROM atproto.repo_job WHERE did = '$did' AND target = 'm2'"), 'later', 'R-02: a job that was requested meanwhile goes to the subscription that still fetches');

$node->stop;
done_testing();
