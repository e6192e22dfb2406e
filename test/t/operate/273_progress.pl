# 273_progress.pl
#		The view stat_progress shows the progress of long commands to the roles of the commands and to pg_monitor. No row
#		stays after the end of a command, also after a caught error.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('progress', conf => "jit = off\n");
my $ROWS = 5000;

# A command in a session of its own.
sub begin
{
	my ($sql) = @_;
	my ($out, $err) = ('', '');
	my $session = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', $node->connstr('postgres'), '-c', $sql ], '<', \undef, '>', \$out, '2>', \$err);

	return sub { $session->finish; return "$out$err" };
}

sub progress { return query('SELECT command, target, phase, done, total, percent, phase_ends_at IS NULL FROM atproto.stat_progress') }
sub nothing_runs { return query('SELECT count(*) FROM atproto.stat_progress') eq '0' }

query(<<"EOSQL");
CREATE SCHEMA filled; SELECT atproto.create_tables('filled');
INSERT INTO atproto.subscription (name, url, target, enabled, links) VALUES ('s', 'wss://localhost', 'filled', false, 'all');
INSERT INTO filled.repo (did, rev, sync) VALUES ('did:web:a.example.com', '3jzfcijpj2z2a', 'unproven');
-- the copy of the row 'stop' waits for the lock of a session
CREATE FUNCTION filled.waits(rkey text) RETURNS boolean LANGUAGE plpgsql AS \$\$ BEGIN IF rkey = 'stop' THEN PERFORM pg_advisory_xact_lock_shared(61); END IF; RETURN true; END \$\$;
INSERT INTO filled.record (did, collection, rkey, cid, value, rev, indexed_at)
	SELECT 'did:web:a.example.com', 'app.bsky.feed.post', CASE WHEN n = $ROWS / 2 THEN 'stop' ELSE n::text END, 'bafyreie5cvv4h45feadgeuwhbcutmh6t2ceseocckahdoe6uat64zmz454', '{}', '3jzfcijpj2z2a', now()
	FROM generate_series(1, $ROWS) n;
ALTER TABLE filled.record ADD CONSTRAINT waits CHECK (filled.waits(rkey::text));
ANALYZE filled.record, filled.repo;
CREATE ROLE anybody; CREATE ROLE monitor; GRANT pg_monitor TO monitor; GRANT USAGE ON SCHEMA atproto TO anybody, monitor; GRANT SELECT ON atproto.stat_progress TO anybody;
EOSQL
my $gate = $node->background_psql('postgres');

# --- partition(): rows that a statement has read ---

$gate->query_safe('SELECT pg_advisory_lock(61)');
my $partition = begin("SELECT atproto.partition('filled', 'collection')");
wait_for("SELECT done = $ROWS / 2 FROM atproto.stat_progress WHERE phase ~ 'copying'");
is(progress(), "partition|filled|copying the rows of filled.record|@{[ $ROWS / 2 ]}|$ROWS|50.0|f", 'partition(): the phase and its progress');
is(query('SELECT started_at <= phase_at AND phase_ends_at > clock_timestamp() FROM atproto.stat_progress'), 't', 'the estimated end of the phase');
is($node->safe_psql('postgres', "SET ROLE anybody; SELECT count(*) FROM atproto.stat_progress"), '0', 'a different role sees no row');
is($node->safe_psql('postgres', "SET ROLE monitor; SELECT count(*) FROM atproto.stat_progress"), '1', 'a monitor sees all');
query("SELECT pg_cancel_backend(pid) FROM atproto.stat_progress");
like($partition->(), qr/canceling statement/, 'partition() is cancelled');
ok(nothing_runs(), 'no row after the cancellation');

# a caught error
$partition = begin(q{DO $$ BEGIN PERFORM atproto.partition('filled', 'collection'); EXCEPTION WHEN query_canceled THEN PERFORM pg_advisory_lock(62); END $$});
wait_for("SELECT done > 0 FROM atproto.stat_progress WHERE phase ~ 'copying'");
$gate->query_safe('SELECT pg_advisory_lock(62)');
query('SELECT pg_cancel_backend(pid) FROM atproto.stat_progress');
wait_for("SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 62 AND NOT granted");
ok(nothing_runs(), 'a caught error ends the command');
$gate->query_safe('SELECT pg_advisory_unlock(62)');
$partition->();
$partition = begin("SELECT atproto.partition('filled', 'collection')");
wait_for("SELECT done > 0 FROM atproto.stat_progress WHERE phase ~ 'copying'");
$gate->query_safe('SELECT pg_advisory_unlock(61)');
like($partition->(), qr/moved $ROWS rows of filled\.record/, 'partition() ends');
ok(nothing_runs(), 'no row after the end of partition()');

# --- rebuild_links(), in partitions ---

$gate->query_safe('BEGIN; LOCK TABLE filled.link IN ACCESS SHARE MODE; LOCK TABLE filled.link_source IN ACCESS EXCLUSIVE MODE');
my $rebuild = begin("SELECT * FROM atproto.rebuild_links('filled')");
wait_for("SELECT phase = 'looking for sources of links' FROM atproto.stat_progress");
is(query('SELECT command, target, done, total FROM atproto.stat_progress'), "rebuild_links|filled|0|$ROWS", 'rebuild_links(): the rows of all partitions');
$gate->query_safe('ROLLBACK');
is($rebuild->(), "0|0\n", 'rebuild_links() ends');

# --- statements and commands of triggers ---

# The first cursor is closed before a FETCH, so the memory of its executor is free when the second cursor runs.  Their texts
# are about as long, so that the executor describes both at the same address.
my $scans = join(' UNION ALL ', map { "SELECT count(*) FROM filled.link l$_ WHERE rkey::text = 'x$_'" } 1 .. 900);
my $long = 'x' x 60000;
query(<<"EOSQL");
CREATE FUNCTION filled.reads() RETURNS trigger LANGUAGE plpgsql AS \$\$
DECLARE scans refcursor; other refcursor; n int;
BEGIN
	OPEN scans FOR $scans; CLOSE scans;
	OPEN other FOR SELECT 1 /* $long */ FROM pg_class; FETCH other INTO n; CLOSE other;
	PERFORM atproto.rebuild_links('empty') WHERE to_regclass('empty.link') IS NOT NULL;
	RAISE NOTICE 'progress: %', (SELECT concat_ws('|', target, phase, done) FROM atproto.stat_progress);
	RETURN NULL;
END \$\$;
CREATE SCHEMA empty; SELECT atproto.create_tables('empty');
CREATE TRIGGER reads AFTER DELETE ON filled.link FOR EACH ROW EXECUTE FUNCTION filled.reads();
INSERT INTO filled.link_source VALUES (1, 'app.bsky.feed.like', 'subject');
EOSQL
my $link = "INSERT INTO filled.link VALUES ('at://did:web:a.example.com/app.bsky.feed.post/1', 1, 'x', 'did:web:a.example.com')";
my ($rc, $out, $err) = $node->psql('postgres', "$link; DELETE FROM filled.link; $link; DELETE FROM filled.link; $link; SELECT * FROM atproto.rebuild_links('filled')");
is($out, '0|1', 'a trigger reads the table that a command counts');
like($err, qr/NOTICE:  progress: filled\|removing links that no record has\|1$/m, 'the progress is that of the command, not of its trigger');
ok(nothing_runs(), 'no row after the end');

# --- audit_all() ---

$gate->query_safe('BEGIN; LOCK TABLE filled.repo IN ACCESS EXCLUSIVE MODE');
my $audit = begin("CALL atproto.audit_all('filled')");
wait_for("SELECT command = 'audit_all' FROM atproto.stat_progress");
is(progress(), 'audit_all|filled|auditing repositories|0|1|0.0|t', 'audit_all()');
$gate->query_safe('ROLLBACK');
like($audit->(), qr/1 repositories were audited/, 'audit_all() ends');
ok(nothing_runs(), 'no row after the end of audit_all()');
$gate->quit;

$node->stop;
done_testing();
