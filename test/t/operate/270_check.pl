# 270_check.pl
#		atproto.check() returns no row for tables that consumers have filled.  The test breaks each invariant once, and
#		exactly the row of this invariant comes.  check() names what the caller may not read, checks a share of the
#		repositories, returns at most 1,000 rows of a kind, takes only ACCESS SHARE locks, and can be cancelled.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node   = make_node('check', conf => "max_worker_processes = 20\n");
my $server = AtprotoTest::Server->start(capture('pds.frames.gz'));
query(subscribe_sql('s', $server, cursor => 0, events => "'keep'", count_collections => 'true', links => "'all'"));
wait_for_seq($node, 's', $PDS_LAST);

# --- a healthy database ---

is(query('SELECT * FROM atproto.check()'), '', 'beside a running consumer, nothing is wrong');
query(q{SELECT atproto.pause('s')});
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
is(query('SELECT * FROM atproto.check(deep => true)'), '', 'nor is anything by a deep look');
is(query(q{SELECT * FROM atproto.check('atproto', share => 0.5)}), '', 'or by half a look');

# --- each invariant is broken once ---

my $did  = query(q{SELECT did FROM atproto.repo WHERE sync = 'synchronized' ORDER BY did LIMIT 1});
my $of   = "did = '$did'";
my $held = "INSERT INTO atproto.held_event (target, did, rev, subscription, seq, why, shard_key, bytes, format, endpoint)"
  . " SELECT 'atproto', '$did', '3zzzzzzzzzz2z', 's', 1, 'identity', 0, '\\x00', 'dag-cbor', 'e'";
my $letter = q{INSERT INTO atproto.dead_frame VALUES ('s', sha256('\x00'), '\x00');
	INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, digest) VALUES ('s', 'commit', '22000', 'bad', sha256('\x00'));};
my $job = "INSERT INTO atproto.repo_job (target, did, subscription, priority, reason) VALUES ('atproto', '$did', 's', 1, 'break');";

my $counted = q{SELECT atproto.count_links((SELECT array_agg(collection || ':' || path) FROM atproto.link_source));};

my $plc = 'did:plc:' . 'p' x 24;

# The kind of the finding, the damage that causes it, and the expected rows: target, did, object, detail.
my @cases = (
	[ 'record without repository', "DELETE FROM atproto.repo WHERE $of", qr/^atproto\|$did\|\|\d+ records$/ ],
	[ 'record of a deleted repository',
		"UPDATE atproto.repo SET deleted_rev = rev WHERE $of", qr/^atproto\|$did\|[^|]+\|revision \w+, deleted up to \w+$/, many => 1 ],
	[ 'record newer than its repository',
		"UPDATE atproto.record SET rev = '3zzzzzzzzzz2z' WHERE $of AND rkey = (SELECT min(rkey) FROM atproto.record WHERE $of)",
		qr/\|revision 3zzzzzzzzzz2z, / ],
	[ 'repository that cannot be', "UPDATE atproto.repo SET sync = 'fine' WHERE $of",                          qr/unknown value of sync$/ ],
	[ 'repository that cannot be', "UPDATE atproto.repo SET hold = 'fine' WHERE $of",                          qr/unknown value of hold$/ ],
	[ 'repository that cannot be', "UPDATE atproto.repo SET sync = 'resyncing' WHERE $of",                     qr/its events are not held$/ ],
	[ 'repository that cannot be', "UPDATE atproto.repo SET deleted_rev = '3zzzzzzzzzz2z', purge_rev = '3zzzzzzzzzz2z' WHERE $of", qr/deleted_rev is newer/ ],
	[ 'record that was deleted', "INSERT INTO atproto.sweep_deletion (did, path, rev) SELECT did, collection || '/' || rkey, '3zzzzzzzzzz2z' FROM atproto.record
		WHERE $of AND rkey = (SELECT min(rkey) FROM atproto.record WHERE $of); UPDATE atproto.repo SET sync = 'partial', proved = NULL, proved_rev = NULL WHERE $of",
		qr/^atproto\|$did\|[^|]+\|revision \w+, deleted at 3zzzzzzzzzz2z$/ ],
	[ 'record that was deleted', "INSERT INTO atproto.sweep_deletion (did, path, rev) VALUES ('$did', '#account', '3zzzzzzzzzz2z'); UPDATE atproto.repo SET sync = 'partial', proved = NULL, proved_rev = NULL WHERE $of",
		qr/^atproto\|$did\|[^|]+\|revision \w+, deleted at 3zzzzzzzzzz2z$/, many => 1 ],
	[ 'deletion kept without a sweep', "INSERT INTO atproto.sweep_deletion (did, path, rev, kept_at) VALUES ('$did', 'a.b.c/d', '3zzzzzzzzzz2z', now() - interval '2 h')", qr/^atproto\|$did\|a\.b\.c\/d\|kept at/ ],
	[ 'repository that cannot be', "UPDATE atproto.repo SET refill_rev = rev WHERE $of",                       qr/refill_rev without refill_by$/ ],
	[ 'repository that cannot be', "UPDATE atproto.repo SET refill_first = rev WHERE $of",                     qr/refill_first without refill_rev$/ ],
	[ 'repository that cannot be', "UPDATE atproto.repo SET rev_paths = '\\x00' WHERE $of",                    qr/no hashes$/ ],
	[ 'repository that cannot be', "INSERT INTO atproto.repo (did, sync) VALUES ('did:web:a.b', 'synchronized')", qr/without a revision$/ ],
	[ 'commit without its signature', "UPDATE atproto.repo SET sig = NULL WHERE $of", qr/^atproto\|$did\|repo\|commit \w+ has no signature$/ ],
	[ 'commit without its signature', "UPDATE atproto.repo SET sig = '\\x00' WHERE $of", qr/a signature of 1 bytes$/ ],
	[ 'commit differs from its CID', "UPDATE atproto.repo SET sig = set_byte(sig, 5, get_byte(sig, 5) # 1) WHERE $of", qr/^atproto\|$did\|repo\|the columns make a commit \w+$/ ],
	[ 'proof that cannot be', "UPDATE atproto.repo SET proved_rev = NULL WHERE $of", qr/without its collections/ ],
	[ 'proof that cannot be', "UPDATE atproto.repo SET proved_rev = '2222222222222' WHERE $of", qr/synchronized, but proven up to 2222222222222$/ ],
	[ 'proof that cannot be', "UPDATE atproto.repo SET sync = 'partial', proved_rev = '3zzzzzzzzzz2z' WHERE $of", qr/newer than rev$/ ],
	[ 'proof of an unknown set', "UPDATE atproto.repo SET proved = 5 WHERE $of", qr/^atproto\|$did\|repo\|no set of collections has the number 5$/ ],
	[ 'synchronized without a collection', "UPDATE atproto.subscription SET enabled = true; INSERT INTO atproto.proved_set VALUES ('atproto', 5, '{app.bsky.feed.*}');
		UPDATE atproto.repo SET proved = 5 WHERE $of", qr/^atproto\|$did\|s\|/ ],
	[ 'records differ from the tree', "UPDATE atproto.repo SET data = (SELECT cid FROM atproto.record LIMIT 1) WHERE $of", qr/^atproto\|$did\|\|other records$/, deep => 1, also => ['commit differs from its CID'] ],
	[ 'link is missing',
		'DELETE FROM atproto.link WHERE (target, source, rkey, did) = (SELECT target, source, rkey, did FROM atproto.link LIMIT 1)',
		qr/^atproto\|did:\S+\|[\w.]+:\S+ at:\S+\|record key \w+$/ ],
	[ 'link of no record', q{INSERT INTO atproto.link SELECT 'at://did:web:a.b', source, rkey, did FROM atproto.link LIMIT 1}, qr/ at:\/\/did:web:a\.b\|record key/ ],
	[ 'link of no record', q{INSERT INTO atproto.link SELECT target, source, 'nothing', did FROM atproto.link LIMIT 1}, qr/record key nothing$/ ],
	[ 'link that is not wanted', q{UPDATE atproto.subscription SET links = (SELECT '{' || collection || ':' || path || '}' FROM atproto.link_source WHERE id = 1)}, qr/\d+ links$/, many => 1 ],
	[ 'link without a source', 'INSERT INTO atproto.link SELECT target, 9999, rkey, did FROM atproto.link LIMIT 1', qr/\|source 9999\|/ ],
	[ 'count of links is wrong', "$counted UPDATE atproto.link_count SET n = n + 1 WHERE (target, source) = (SELECT target, source FROM atproto.link_count LIMIT 1)", qr/^atproto\|\|source \d+, at:\S+\|the count is \d+, the table link has \d+$/ ],
	[ 'count of links is wrong', "$counted INSERT INTO atproto.link_count SELECT target, 9999, 1 FROM atproto.link_count LIMIT 1", qr/\|source 9999, at:\S+\|the count is 1, the table link has no counted source$/ ],
	[ 'links without their count', "$counted DELETE FROM atproto.link_count WHERE (target, source) = (SELECT target, source FROM atproto.link_count LIMIT 1)", qr/^atproto\|\|[\w.]+:\S+ at:\S+\|link_count has no row$/ ],
	[ 'record differs from its last event', "UPDATE atproto.record SET cid = (SELECT data FROM atproto.repo WHERE data IS NOT NULL LIMIT 1)
		WHERE $of AND rkey = (SELECT min(rkey) FROM atproto.record WHERE $of)", qr/the last event's is/, deep => 1, also => [ 'records differ from the tree' ] ],
	[ 'counts differ from events', q{UPDATE atproto.collection_count SET creates = creates + 1 WHERE collection = 'app.bsky.feed.post'}, qr/ are events$/, deep => 1, many => 1 ],
	[ 'hold without events',     "UPDATE atproto.repo SET hold = 'identity' WHERE $of", qr/^atproto\|$did\|identity\|/ ],
	[ 'held event without hold', $held,                                                 qr/^atproto\|$did\|\|1 events wait/ ],
	[ 'release that does not happen', "$held; UPDATE atproto.subscription SET enabled = true; UPDATE atproto.repo SET hold = 'release', updated_at = now() - interval '1 h' WHERE $of", qr/^atproto\|$did\|release\|since/ ],
	[ 'fetched without a job', "UPDATE atproto.repo SET hold = 'resync', updated_at = now() - interval '1 h' WHERE $of", qr/^atproto\|$did\|resync\|since/ ],
	[ 'suspended job of an active account', "$job UPDATE atproto.repo_job SET state = 'suspended'", qr/^atproto\|$did\|atproto.repo_job\|/ ],
	[ 'deletion that nobody confirms', "UPDATE atproto.subscription SET verify = 'full'; UPDATE atproto.repo SET active = false, status = 'deleted' WHERE $of", qr/^atproto\|$did\|\|/ ],
	[ 'refill of nobody', "UPDATE atproto.repo SET refill_by = 'x' WHERE $of", qr/^atproto\|$did\|refill_by\|no subscription of this target is x$/ ],
	[ 'audit that nobody makes', "UPDATE atproto.repo SET sync = 'unproven' WHERE $of", qr/\|1 repositories are unproven$/ ],
	[ 'held event of another target', "CREATE SCHEMA other; $held; UPDATE atproto.held_event SET target = 'other'", qr/^other\|$did\|/ ],
	[ 'job of another target', "CREATE SCHEMA other; $job UPDATE atproto.repo_job SET target = 'other'", qr/^other\|$did\|/ ],
	[ 'status request of another target', "CREATE SCHEMA other; INSERT INTO atproto.status_request (target, did, subscription, why, requested_at) VALUES ('other', '$did', 's', 'rev', now())", qr/^other\|$did\|/ ],
	[ 'log that nobody asks for', "UPDATE atproto.subscription SET enabled = true; INSERT INTO atproto.plc_log_request (subscription, did, why, requested_at, next_try) VALUES ('s', '$did', 'prev', now(), now() - interval '2 d')", qr/^atproto\|$did\|atproto.plc_log_request\|due since/ ],
	[ 'log that nobody stores', "UPDATE atproto.subscription SET enabled = true; INSERT INTO atproto.plc_log_request (subscription, did, why, requested_at, answered_at, answer) VALUES ('s', '$did', 'prev', now(), now() - interval '1 h', '')", qr/^atproto\|$did\|atproto.plc_log_request\|answered at/ ],
	[ 'log that was not read', "INSERT INTO atproto.plc_log_request (subscription, did, why, requested_at, error) VALUES ('s', '$did', 'dids', now(), 'HTTP status 404')", qr/^atproto\|$did\|atproto.plc_log_request\|HTTP status 404$/ ],
	[ 'request for an account that is not named', "UPDATE atproto.subscription SET enabled = true, dids = '{did:web:a.b}'; INSERT INTO atproto.plc_log_request (subscription, did, why, requested_at) VALUES ('s', '$did', 'prev', now() - interval '2 d')", qr/^atproto\|$did\|atproto.plc_log_request\|subscription s names accounts/ ],
	[ 'job that cannot be', "$job UPDATE atproto.repo_job SET next_try = 'infinity'", qr/for ever$/ ],
	[ 'no such schema', q{INSERT INTO atproto.audit_state (target) VALUES ('other')}, qr/^other\|\|atproto.audit_state\|1 rows$/ ],
	[ 'subscription that cannot be', q{ALTER TABLE atproto.subscription DISABLE TRIGGER USER; UPDATE atproto.subscription SET stopped_at = now()}, qr/^atproto\|\|s\|/ ],
	[ 'subscription that cannot be', q{ALTER TABLE atproto.subscription DISABLE TRIGGER USER; UPDATE atproto.subscription SET owner = 4}, qr/is no role$/ ],
	[ 'cursor without all its shards', 'UPDATE atproto.cursor SET shard = 1', qr/^atproto\|\|s\|endpoint \S+ has shards 1 / ],
	[ 'cursor whose settings hold from later on', 'UPDATE atproto.cursor SET read_from = seq + 1', qr/^atproto\|\|s\|/ ],
	[ 'gap that cannot be', q{INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason) VALUES ('s', 'e', 2, 1, 'x')}, qr/after 2, before 1/ ],
	[ 'list that cannot be', q{INSERT INTO atproto.enumeration (subscription, source, started_at, seen, queued) VALUES ('s', 'x', now(), 1, 2)}, qr/x: 2 of 1 entries queued/ ],
	[ 'frame without a letter', q{INSERT INTO atproto.dead_frame VALUES ('s', '\x00', '\x00')}, qr/digest \\x00$/ ],
	[ 'letter without a frame', "$letter DELETE FROM atproto.dead_frame", qr/letter \d+\|its message is not there/ ],
	[ 'letter that cannot be', "$letter UPDATE atproto.dead_letter SET attempts = 0", qr/letter \d+\|0 attempts/ ],
	[ 'message of an unknown format', "$letter UPDATE atproto.dead_frame SET format = 'xml', endpoint = 'e'", qr/^atproto\|\|s\|digest \S+: format xml, endpoint e$/ ],
	[ 'message of an unknown format', "$letter UPDATE atproto.dead_frame SET format = 'json'", qr/: format json, endpoint $/ ],
	[ 'message of an unknown format', "$held; UPDATE atproto.repo SET hold = 'identity' WHERE $of; UPDATE atproto.held_event SET format = 'xml'", qr/^atproto\|$did\|atproto.held_event\|format xml, endpoint e$/ ],
	[ 'frame was changed', "$letter UPDATE atproto.dead_frame SET bytes = '\\x01'", qr/its bytes have/, deep => 1 ],
	[ 'identity that cannot be', "INSERT INTO atproto.identity (did, state, handle_state) VALUES ('$did', 'gone', 'valid')", qr/^\|$did\|atproto.identity\|/ ],
	[ 'log with a gap', "INSERT INTO atproto.plc_operation VALUES ('$plc', cidlink_of('\\x00'), 1, NULL, NULL, now(), 1, '\\x00'), ('$plc', cidlink_of('\\x01'), 3, 1, NULL, now(), 3, '\\x00')", qr/^atproto\|$plc\|\|2 operations, but the last has the number 3$/ ],
	[ 'operation without the one before', "INSERT INTO atproto.plc_operation VALUES ('$plc', cidlink_of('\\x00'), 1, 1, NULL, now(), 1, '\\x00')", qr/^atproto\|$plc\|1\|it follows number 1$/ ],
	[ 'operation that nothing nullified', "INSERT INTO atproto.plc_operation VALUES ('$plc', cidlink_of('\\x00'), 1, NULL, 2, now(), 1, '\\x00')", qr/^atproto\|$plc\|1\|nullified by number 2$/ ],
	[ 'operation accepted and refused', "INSERT INTO atproto.plc_operation VALUES ('$plc', cidlink_of('\\x00'), 1, NULL, NULL, now(), 1, '\\x00');
		INSERT INTO atproto.plc_refused (did, digest, reason, detail, subscription) VALUES ('$plc', sha256('\\x00'), 'late', 'x', 's')", qr/^atproto\|$plc\|1\|refused as late$/ ],
	[ 'packed operation without a text', "INSERT INTO atproto.plc_operation VALUES ('$plc', cidlink_of('\\x01'), 1, NULL, NULL, now(), 1, '\\x008007')", qr/^atproto\|$plc\|1\|plc_text has no row with the id 7$/, deep => 1, also => ['operation differs from its CID'] ],
	[ 'operation differs from its CID', "INSERT INTO atproto.plc_operation VALUES ('$plc', cidlink_of('\\x01'), 1, NULL, NULL, now(), 1, '\\x000000')", qr/^atproto\|$plc\|1\|the CID is /, deep => 1 ],
	[ 'unlogged table', 'ALTER TABLE atproto.label SET UNLOGGED', qr/^atproto\|\|label\|/ ],
	[ 'number that is taken', q{INSERT INTO atproto.message (id, subscription, endpoint, type) OVERRIDING SYSTEM VALUE VALUES (5, 's', 'e', '#x')}, qr/^atproto\|\|message.id\|the next number is 1, but there is 5$/ ],
	[ 'number that is taken', q{INSERT INTO atproto.gap (id, subscription, endpoint, after_seq, reason) OVERRIDING SYSTEM VALUE VALUES (900, 's', 'e', 1, 'x')}, qr/\|atproto.gap.id\|/ ],
	[ 'month without a partition', q{SELECT atproto.partition('atproto', 'month', ahead => 0); INSERT INTO atproto.record
		SELECT did, collection, tid_floor('2023-05-05 12:00+00')::text::recordkey, cid, rev FROM atproto.record LIMIT 1}, qr/^atproto\|\|record_2023_05\|1 rows/, ],
);

# The rows of check() in a transaction that is rolled back.
sub broken
{
	my ($damage, %o) = @_;
	my $deep = $o{deep} ? 'true' : 'false';

	# neither keys nor triggers are in the way
	return query("BEGIN; SET LOCAL session_replication_role = replica; SET LOCAL client_min_messages = warning;
		DO \$damage\$ BEGIN EXECUTE \$sql\$$damage\$sql\$; END \$damage\$;
		SELECT what, target, did, object, detail FROM atproto.check(deep => $deep); ROLLBACK");
}

foreach my $case (@cases)
{
	my ($what, $damage, $row, %o) = @$case;
	my %also = map { $_ => 1 } @{ $o{also} // [] };
	my @rows = grep { !/^([^|]*)\|/ || !$also{$1} } split /\n/, broken($damage, %o);
	my @fit  = grep { /^\Q$what\E\|(.*)$/ && $1 =~ $row } @rows;

	ok(@fit == @rows && @fit > 0 && (@fit == 1 || $o{many}), "$what: $damage") or diag(join "\n", @rows);
}

# No finding: the fetcher does not audit a repository without a tree, or of a deleted account.
is(broken("UPDATE atproto.repo SET sync = 'unproven', $_ WHERE $of; DELETE FROM atproto.record WHERE $of; DELETE FROM atproto.link WHERE $of"), '', "no audit is missed: $_")
  foreach 'data = NULL', 'active = false, deleted_rev = rev';

# No finding: an event of a paused subscription of a higher level waits for this subscription.
my $release = "INSERT INTO atproto.subscription (name, url, target, enabled, verify, by_repo) VALUES ('p', 'wss://p.example.com', 'atproto', false, 'full', true);"
  . " $held; UPDATE atproto.subscription SET enabled = true WHERE name = 's';"
  . " UPDATE atproto.repo SET hold = 'release', updated_at = now() - interval '1 h' WHERE $of; UPDATE atproto.held_event SET subscription = 'p'";
unlike(broken($release), qr/^release/m, 'R-32: a lower level cannot release the event of a paused higher level');
like(broken("$release; UPDATE atproto.subscription SET verify = 'hash' WHERE name = 'p'"), qr/^release that does not happen\|atproto\|$did\|release\|since/m,
	'R-32: it can release the event of a paused lower level');

# In a database without a manager, nothing goes on by itself.
query('CREATE DATABASE alone TEMPLATE template0');
my %alone = (database => 'alone');
query("CREATE EXTENSION atproto; SELECT atproto.create_tables('atproto'); SET client_min_messages = error;
	SELECT atproto.subscribe('s', 'wss://example.com'); SELECT atproto.pause('s'); $job", %alone);
is(query('SELECT * FROM atproto.check()', %alone), '', 'of a queued job nothing is said');
query(q{UPDATE atproto.repo_job SET state = 'running'}, %alone);
like(query('SELECT what, did FROM atproto.check()', %alone), qr/^running job without a fetcher\|$did$/, 'of one that is running, but not');
expect_check('running job without a fetcher');

# --- limits of the number of rows, and of the part that is checked ---

my $many = query(q{SELECT count(*) FROM atproto.record});
is(query("BEGIN; TRUNCATE atproto.repo; SELECT count(*) FROM atproto.check() WHERE what = 'record without repository'; ROLLBACK"),
	query('SELECT count(DISTINCT did) FROM atproto.record'), 'each is named');
is( query(q{BEGIN; INSERT INTO atproto.repo (did, sync) SELECT 'did:web:x' || i || '.com', 'fine' FROM generate_series(1, 1007) i;
	SELECT count(*) FILTER (WHERE did IS NOT NULL), max(detail) FILTER (WHERE did IS NULL) FROM atproto.check(); ROLLBACK}),
	'1000|and 7 more', 'at most 1,000 of a kind, and how many more');
is( query(q{BEGIN; UPDATE atproto.repo SET sync = 'fine'; SELECT count(*) < (SELECT count(*) FROM atproto.repo) FROM atproto.check(share => 0.000001); ROLLBACK}),
	't', 'of a share less is seen');
is( query(q{BEGIN; SELECT count(*) FROM atproto.check(deep => true); SELECT DISTINCT mode FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' ; ROLLBACK}),
	"0\nAccessShareLock", 'it takes no stronger lock');
is(query(q{SELECT count(*) FROM atproto.check('atproto')}), '0', 'one target');
foreach (
	[ q{SELECT atproto.check('nowhere')},         qr/schema "nowhere" does not exist/ ],
	[ 'SELECT atproto.check(deep => NULL)',       qr/deep must not be null/ ],
	[ 'SELECT atproto.check(share => 0)',         qr/share must be more than 0, and 1 at most/ ],
	[ q{SELECT atproto.check(share => 'NaN')},    qr/share must be more than 0, and 1 at most/ ])
{
	my ($sql, $error) = @$_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	like($err, $error, $sql);
}

# Foreign tables with our names are left alone; a table of an earlier version is checked without the missing
# columns.
is( query(q{BEGIN; CREATE SCHEMA own; CREATE TABLE own.repo (did text, rev int, hold text); CREATE TABLE own.record (x int); CREATE VIEW own.link AS SELECT 1;
	SELECT count(*) FROM atproto.check('own'); SELECT count(*) FROM atproto.check(); ROLLBACK}),
	"0\n0", 'tables of others');
is( query(q{BEGIN; SET LOCAL client_min_messages = warning; ALTER TABLE atproto.repo DROP COLUMN hold; ALTER TABLE atproto.record DROP COLUMN fault CASCADE;
	SELECT what, object FROM atproto.check() WHERE what <> 'not checked' ORDER BY 2; ROLLBACK}),
	"column is missing|record.fault\ncolumn is missing|repo.hold", 'a column that is missing');

# A query of check() fails: check() reports the unchecked invariant.
foreach (
	[ 'hold without events', 'ALTER TABLE atproto.repo DROP COLUMN hold CASCADE', qr/column p\.hold does not exist/ ],
	[ 'record newer than its repository', 'ALTER TABLE atproto.repo ALTER rev TYPE integer USING 1', qr/operator does not exist/ ])
{
	my ($what, $sql, $reason) = @$_;
	my $not = query("BEGIN; SET LOCAL client_min_messages = error; DROP VIEW atproto.visible_record, atproto.visible_link; $sql; SELECT object, detail FROM atproto.check() WHERE what = 'not checked' ORDER BY 1; ROLLBACK");
	my ($row) = grep { /^\Q$what\E\|/ } split /\n/, $not;

	like($row // '', $reason, "$sql: it is said that '$what' was not checked");
}

# A table with a column of another type does not look like ours any more: no query reads it, and that is said, too.
is( query(q{BEGIN; SET LOCAL client_min_messages = error; DROP VIEW atproto.visible_link; ALTER TABLE atproto.link DROP CONSTRAINT link_pkey;
	ALTER TABLE atproto.link ALTER rkey TYPE integer USING 1; SELECT what, object, detail FROM atproto.check(); ROLLBACK}),
	'column has another type|link.rkey|integer; what needs type recordkey was not checked', 'a column of another type');

# --- rights ---

query(q{CREATE ROLE reader; GRANT USAGE ON SCHEMA atproto TO reader; GRANT EXECUTE ON FUNCTION atproto.check TO reader});
my $as_reader = 'SELECT what, object FROM atproto.check() ORDER BY 2';
my $rows = query("SET ROLE reader; $as_reader");
like($rows, qr/^not readable\|atproto\.$_$/m, "$_ cannot be read, and that is said") foreach qw(record repo held_event subscription dead_letter);
unlike($rows, qr/^(?!not readable\|)/m, 'and nothing else');
query('GRANT SELECT ON ALL TABLES IN SCHEMA atproto TO reader');
# events of another role's subscription are hidden
$rows = query("BEGIN; $held; UPDATE atproto.repo SET hold = 'identity' WHERE $of; SET LOCAL ROLE reader; $as_reader; ROLLBACK");
like($rows, qr/^not readable\|atproto\.held_event$/m, 'what row security hides is no finding');
unlike($rows, qr/^(?!not readable\|)/m, 'but said');
is(query("BEGIN; $held; UPDATE atproto.repo SET hold = 'identity' WHERE $of; $as_reader; ROLLBACK"), '', 'to who sees everything, all is well');
query('GRANT SELECT ON ALL TABLES IN SCHEMA atproto TO reader; ALTER ROLE reader BYPASSRLS');
is(query("SET ROLE reader; $as_reader"), '', 'with SELECT, and all rows, it is so to another role');

# --- the owner of a target can lock its tables for ever ---

query("CREATE SCHEMA $_; SELECT atproto.create_tables('$_')") foreach 'first', 'locked';
my $session = $node->background_psql('postgres');
$session->query_safe("BEGIN; LOCK TABLE locked.repo");
my $locked = "SET statement_timeout = '60s'; SELECT what, target, count(*) FROM atproto.check() GROUP BY 1, 2; SHOW lock_timeout";
is(($node->psql('postgres', $locked))[1], "not readable|locked|1\n0", 'a locked table: its target is named, after a while, and the others are checked');
$session->quit;

# --- check() can be cancelled ---

my ($rc, $out, $err) = $node->psql('postgres', q{SET statement_timeout = '1ms'; SELECT * FROM atproto.check(deep => true)});
like($err, qr/canceling statement due to statement timeout/, 'a statement timeout ends it');

done_testing();
