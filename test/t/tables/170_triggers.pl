# 170_triggers.pl
#		What the database may do with the consumer's statements: triggers of users run in the same
#		transaction, rows are refused, locks and lock time-outs delay the consumer, a user runs TRUNCATE.
#		No event is lost, and the stream never stands still for ever.  E-43, B-29.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node(
	'triggers', conf => <<'EOF');
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
EOF
my $server = AtprotoTest::Server->start($pds);

# The whole stream once more, into empty tables.
sub follow
{
	my (@options) = @_;

	start_over();
	$server->restart(@options);
	query(subscribe_sql('s', $server, cursor => 0));
	return;
}

# --- statement-level triggers with transition tables, through a crash ---

query(<<'SQL');
CREATE TABLE counter (collection text PRIMARY KEY, n bigint);
CREATE TABLE seen (xid xid8);
CREATE FUNCTION count_rows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF TG_OP = 'INSERT' THEN
		INSERT INTO public.counter AS c SELECT collection::text, count(*) FROM rows GROUP BY 1
			ON CONFLICT (collection) DO UPDATE SET n = c.n + excluded.n;
	ELSE
		UPDATE public.counter c SET n = c.n - r.n
			FROM (SELECT collection::text, count(*) AS n FROM rows GROUP BY 1) r WHERE r.collection = c.collection;
	END IF;
	INSERT INTO public.seen VALUES (pg_current_xact_id());
	RETURN NULL;
END $$;
CREATE TRIGGER inserted AFTER INSERT ON atproto.record REFERENCING NEW TABLE AS rows
	FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
CREATE TRIGGER deleted AFTER DELETE ON atproto.record REFERENCING OLD TABLE AS rows
	FOR EACH STATEMENT EXECUTE FUNCTION count_rows();
SQL
follow('--hold-at', 700);
wait_for('SELECT seq = 699 FROM atproto.cursor');
kill 'KILL', query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
$server->wait_for_log(request => 2);
$server->release;
wait_for("SELECT seq = $PDS_LAST FROM atproto.cursor");
tables_match($node, $pds, 'statement-level triggers: the tables are what the oracle says');
is(query('SELECT count(*) FROM (SELECT collection::text, count(*) AS n FROM atproto.record GROUP BY 1) r
	FULL JOIN (SELECT * FROM counter WHERE n <> 0) c USING (collection) WHERE c.n IS DISTINCT FROM r.n'),
	'0', 'what they derive is exact, too');
cmp_ok(query('SELECT count(*) FROM seen'), '>', 1, 'they fired');
is(query('SELECT count(*) FROM atproto.record WHERE xmin::text::bigint NOT IN (SELECT xid::text::bigint FROM seen)'),
	'0', 'in the same transaction');
query('DROP TRIGGER inserted ON atproto.record; DROP TRIGGER deleted ON atproto.record; DROP TABLE counter, seen');

# --- a trigger with some failures ---

query(<<'SQL');
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'no likes' USING ERRCODE = 'check_violation', DETAIL = NEW.rkey::text;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON atproto.record FOR EACH ROW
	WHEN (NEW.collection::text = 'app.bsky.feed.like') EXECUTE FUNCTION refuse();
SQL
follow();
wait_for("SELECT seq = $PDS_LAST FROM atproto.cursor");
my ($expected) = oracle('', 'record', $pds);
my ($likes)    = scalar(() = $expected =~ /^\S+\tapp\.bsky\.feed\.like\t/mg);
cmp_ok($likes, '>', 0, 'there are likes');
is(query('SELECT events, drops FROM atproto.stat_subscription'), "$PDS_LAST|{}", 'a failing trigger: the stream goes on');
is(query("SELECT count(*) FROM atproto.record WHERE collection = 'app.bsky.feed.like'"), '0', 'what it refuses is not there');
my @others = grep { !/^\S+\tapp\.bsky\.feed\.like\t/ } split /\n/, $expected;
is(query('SELECT count(*) FROM atproto.record'), scalar(@others), 'the rest is');
tables_match($node, $pds, 'a failing trigger: the repositories are what the oracle says', modes => ['repo']);
like(query('SELECT DISTINCT stage, sqlstate, message FROM atproto.dead_letter'), qr/^apply\|23514\|no likes$/,
	'it is in dead letters, with the reason');
is(query("SELECT count(*) FROM atproto.dead_letter LEFT JOIN atproto.dead_frame f USING (subscription, digest) WHERE path NOT LIKE 'app.bsky.feed.like/%' OR digest IS DISTINCT FROM sha256(bytes)"),
	'0', 'and nothing else is');
cmp_ok(query('SELECT count(*) FROM atproto.dead_letter'), '>=', $likes, 'all of them');

# A subscription whose rows are all refused.
query("DROP TRIGGER refuse ON atproto.record; CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON atproto.record
	FOR EACH STATEMENT EXECUTE FUNCTION refuse()");
query('CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION $x$nothing$x$; END $$');
follow();
wait_for("SELECT state = 'stopped' FROM atproto.stat_subscription");
like(query('SELECT last_error FROM atproto.stat_subscription'), qr/^the database refused all of the last \d{3} events: nothing$/,
	'a trigger that always fails: the subscription stops');
is(query('SELECT (SELECT count(*) FROM atproto.record), count(DISTINCT seq) < 100, bool_and(seq <= (SELECT seq FROM atproto.cursor)) FROM atproto.dead_letter'),
	'0|t|t', 'a trigger that always fails: what was refused until then are dead letters');
query("DROP TRIGGER refuse ON atproto.record; SELECT atproto.resume('s')");
wait_for("SELECT seq = $PDS_LAST FROM atproto.cursor");
query('SELECT atproto.retry(id) FROM (SELECT id FROM atproto.dead_letter ORDER BY seq, id) d');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'a trigger that is gone: they can be tried again');
tables_match($node, $pds, 'a trigger that is gone: the tables are what the oracle says');

# Deletes that are refused, when the consumer starts and later.
query('CREATE TRIGGER refuse BEFORE DELETE ON atproto.record FOR EACH STATEMENT EXECUTE FUNCTION refuse()');
follow();
wait_for("SELECT seq = $PDS_LAST FROM atproto.cursor");
is(query('SELECT events, drops FROM atproto.stat_subscription'), "$PDS_LAST|{}", 'refused deletes: the stream goes on');
cmp_ok(query('SELECT count(*) FROM atproto.record'), '>', scalar(split /\n/, $expected), 'refused deletes: the records stay');
tables_match($node, $pds, 'refused deletes: the repositories are what the oracle says', modes => ['repo']);
query('DROP TRIGGER refuse ON atproto.record');

# --- locks ---

my $waits = "count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND wait_event_type = 'Lock'";

follow('--hold-at', 300);
wait_for('SELECT seq = 299 FROM atproto.cursor');
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; LOCK TABLE atproto.record IN ACCESS EXCLUSIVE MODE');
$server->release;
wait_for("SELECT $waits");
cmp_ok(consumer_memory($node), '<', $MEMORY_MAX, 'a locked table: memory stays small');
is(query('SELECT seq FROM atproto.cursor'), '299', 'the cursor waits with the rows');
my $terminated = query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
query("SELECT pg_terminate_backend($terminated)");
wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $terminated");
pass('a consumer that waits for a lock can be terminated');
wait_for("SELECT $waits");
query("SELECT atproto.pause('s')");
$session->query_safe('COMMIT');
wait_for("SELECT state = 'paused' AND pid IS NULL FROM atproto.stat_subscription");
pass('a pause that came meanwhile is heard afterwards');
query("SELECT atproto.resume('s')");
wait_for("SELECT seq = $PDS_LAST FROM atproto.cursor");
is(query('SELECT events FROM atproto.cursor'), $PDS_LAST, 'every event was applied once');
tables_match($node, $pds, 'a locked table: the tables are what the oracle says');

# A time limit of the role is no reason to condemn a row.
query("ALTER ROLE CURRENT_USER SET lock_timeout = '100ms'");
follow('--hold-at', 300);
wait_for('SELECT seq = 299 FROM atproto.cursor');
$session->query_safe('BEGIN; LOCK TABLE atproto.repo IN ACCESS EXCLUSIVE MODE');
$server->release;
wait_until(sub { slurp_file($node->logfile) =~ /canceling statement due to lock timeout/ }, 'the lock timeout');
$session->query_safe('COMMIT');
$session->quit;
wait_for("SELECT seq = $PDS_LAST FROM atproto.cursor");
is(query('SELECT events, (SELECT count(*) FROM atproto.dead_letter) FROM atproto.cursor'), "$PDS_LAST|0",
	'a lock timeout: every event was applied once, none refused');
tables_match($node, $pds, 'a lock timeout: the tables are what the oracle says');
like(slurp_file($node->logfile), qr/lock timeout\n.*CONTEXT:.*applying events \d+ to \d+ of subscription "s"/s,
	'the error has a context');
query('ALTER ROLE CURRENT_USER RESET lock_timeout');

# --- TRUNCATE ---

follow('--hold-at', 800);
wait_for('SELECT seq = 799 FROM atproto.cursor');
query('TRUNCATE atproto.record, atproto.repo');
$server->release;
wait_for("SELECT seq = $PDS_LAST FROM atproto.cursor");
tables_match($node, $pds, 'TRUNCATE: what comes after it is there', modes => ['record'], args => [ '--first', 800 ]);

$node->stop;
done_testing();
