# 132_claims.pl
#		Without shared_preload_libraries, one consumer at most runs for a subscription: even if triggers
#		release advisory locks, and if resume() is called while the old consumer is ending.  The consumer
#		ends when its database is dropped.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds    = capture('pds.frames.gz');
my $node   = make_node('claims', preload => 0, conf => "max_worker_processes = 20\n");
my $server = AtprotoTest::Server->start($pds, '--rate', 400);
my $count  = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'atproto consumer'};

# --- locks of triggers ---

# Some transactions fail, and constraints are deferred.
query(<<'SQL');
CREATE FUNCTION public.unlock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_catalog.pg_advisory_lock(1);
	PERFORM pg_catalog.pg_advisory_unlock_all();
	IF TG_NAME = 'unlock' THEN
		IF NEW.rkey::text LIKE '%k2o' THEN
			RAISE EXCEPTION 'no' USING ERRCODE = '22000';
		END IF;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER unlock AFTER INSERT ON atproto.record FOR EACH ROW EXECUTE FUNCTION public.unlock();
CREATE CONSTRAINT TRIGGER unlock_late AFTER INSERT OR UPDATE ON atproto.repo DEFERRABLE INITIALLY DEFERRED
	FOR EACH ROW EXECUTE FUNCTION public.unlock();
SQL
query(subscribe_sql('s', $server, cursor => 0));
foreach my $seq (1 .. 4)
{
	wait_for('SELECT seq > ' . 100 * $seq . ' FROM atproto.cursor');
	wait_for(q{SELECT atproto_internal.consumer_pid('s') IN (SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer')});
	query(q{SELECT atproto.resume('s')});
}
query('DROP TRIGGER unlock ON atproto.record; DROP TRIGGER unlock_late ON atproto.repo');
wait_for("SELECT seq = $PDS_LAST FROM atproto.cursor");
wait_for("SELECT ($count) = 1");
is(query(q{SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 61}), '1', 'one claim, whatever triggers unlock');
is(query('SELECT events FROM atproto.cursor'), $PDS_LAST, 'and every event once');
cmp_ok(query('SELECT count(*) FROM atproto.dead_letter'), '>', 10, 'some transactions failed');
# each transaction takes the lock over from the session, and a missing lock would raise a warning
unlike(slurp_file($node->logfile), qr/you don't own a lock/, 'also between one that failed and the next');

# --- resume() while the consumer ends ---

# The consumer finds that it is paused when resume() comes too late, or before the transaction of resume() has
# committed.
query(q{SELECT atproto.pause('s')});
wait_for("SELECT ($count) = 0");
query('TRUNCATE atproto.record, atproto.repo; UPDATE atproto.subscription SET workers = 2');
query(q{SELECT atproto.set_cursor('s', 0)});
my $locks  = $node->background_psql('postgres');
my $resume = $node->background_psql('postgres');
$locks->query_safe('BEGIN; LOCK TABLE atproto.record IN SHARE MODE');
query(q{SELECT atproto.resume('s')});
wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'atproto apply worker' AND wait_event_type = 'Lock'});
my $before = query(q{SELECT atproto_internal.consumer_pid('s')});
query(q{SELECT atproto.pause('s')});
$resume->query_safe(q{BEGIN; SELECT atproto.resume('s')});
$locks->query_safe('COMMIT');
wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $before");
$resume->query_safe('COMMIT');
$_->quit foreach $locks, $resume;
wait_for("SELECT min(seq) = $PDS_LAST FROM atproto.cursor");
tables_match($node, $pds, 'resumed while it ended, it goes on');
foreach my $round (1 .. 10)
{
	query(q{SELECT atproto.pause('s')});
	query(q{SELECT atproto.resume('s')});
}
wait_for(qq{SELECT atproto_internal.consumer_pid('s') IS NOT NULL AND ($count) = 1});
pass('paused and resumed in a row, one of it runs');

# --- the consumer's database is dropped ---

query('CREATE DATABASE gone');
query('CREATE EXTENSION atproto', database => 'gone');
query(subscribe_sql('g', $server, cursor => 0), database => 'gone');
wait_for(q{SELECT seq > 10 FROM atproto.cursor}, database => 'gone');
my $log = -s $node->logfile;
query('DROP DATABASE gone WITH (FORCE)');
$node->wait_for_log(qr/FATAL:  database \d+ does not exist/, $log);
$log = -s $node->logfile;
# a second process that ends and comes back serves as clock: the server waits 5 seconds for both
foreach my $round (1 .. 2)
{
	$before = query(q{SELECT atproto_internal.consumer_pid('s')});
	query("SELECT pg_terminate_backend($before)");
	wait_for("SELECT atproto_internal.consumer_pid('s') <> $before");
}
unlike(slurp_file($node->logfile, $log), qr/database \d+ does not exist/, 'DROP DATABASE: its consumer is not started again for ever');

$node->stop;
done_testing();
