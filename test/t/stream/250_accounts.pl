# 250_accounts.pl
#		Accounts are deactivated, come back, or are deleted.  The many records of a deleted account are
#		removed in bounded steps, through kills, and the removal does not delay the stream.  F-03, F-05,
#		F-12, F-15, D29.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $STEP = 10000;    # PURGE_MAX of src/tables/records/record.c
my $MANY = 23000;

my $dir     = PostgreSQL::Test::Utils::tempdir();
my $capture = "$dir/frames";
my $python  = $ENV{PYTHON} || '/usr/bin/python3';
my ($marks, $err) = ('', '');
IPC::Run::run([ $python, '-B', test_dir() . '/oracle/accounts.py', $capture ], '<', \undef, '>', \$marks, '2>', \$err)
  or BAIL_OUT($err);
my %at = map { split /\t/ } split /\n/, $marks;

# The lock of a prepared transaction outlives the server's crashes.
my $node = make_node(
	'accounts', conf => <<'CONF');
synchronous_commit = on
max_prepared_transactions = 2
atproto.reconnect_delay = 100ms
CONF
my @stops  = map { $at{$_} } 'deactivated', 'first sync', 'same data', 'other data', 'many', 'deleted', 'goes on';
my $server = AtprotoTest::Server->start($capture, map { ('--hold-at', $_ + 1) } @stops);

sub at
{
	my ($name) = @_;
	wait_for_seq($node, 's', $at{$name});
	return;
}

# Kills the consumer, and with it the server, which starts again.
sub kill_consumer
{
	my $pid = query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
	kill 'KILL', $pid;
	wait_until(sub { !kill 0, $pid }, 'the end of the process');
	return;
}

my ($comes, $syncs, $many, $other) = map { "'" . did($_) . "'" } 'a' .. 'd';

# --- deactivated, and back ---

query(subscribe_sql('s', $server, cursor => 0, verify => "'hash'"));
at('deactivated');
is(query("SELECT active, status, status_at = '2026-01-01 00:00:01Z', host FROM atproto.repo"), 'f|deactivated|t|127.0.0.1',
	'F-15: the state of a deactivated account, with its time and who said so');
is(query('SELECT string_agg(rkey::text, $$,$$) FROM atproto.record'), 'before', 'F-05: its records stay, its commits are ignored');
is(query('SELECT count(*) FROM atproto.visible_record'), '0', 'but are hidden');
is(query(q{SELECT skips FROM atproto.stat_subscription}), '{"inactive": 2}', 'what was ignored is counted');
$server->release;
at('first sync');
is(query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM atproto.visible_record"), 'after,before', 'active again: its records are back');
is(query("SELECT active, status FROM atproto.repo WHERE did = $comes"), 't|', 'F-15: as the last event says');

# --- F-12 ---

is(query("SELECT sync FROM atproto.repo WHERE did = $syncs"), 'partial', 'F-12: #sync of a repository never seen');
$server->release;
at('same data');
is(query("SELECT sync FROM atproto.repo WHERE did = $syncs"), 'partial', 'F-12: #sync with the same data, #sync that is old');
tables_match($node, $capture, 'F-12: the revisions', modes => ['repo'], args => [ '--last', $at{'same data'} ]);
$server->release;
at('other data');
is(query("SELECT sync FROM atproto.repo WHERE did = $syncs"), 'desynchronized', 'F-12: #sync with other data');
is(query("SELECT count(*) FROM atproto.visible_record WHERE did = $syncs"), '2', 'its records stay');
$server->release;

# --- deleted, with many records ---

query(<<'SQL');
CREATE TABLE public.fails (x int);
CREATE TABLE public.step (n bigint);
CREATE TABLE public.gate (x int);
INSERT INTO public.fails VALUES (1);
CREATE FUNCTION public.before_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	IF EXISTS (SELECT FROM atproto.repo WHERE purge_rev IS NOT NULL) AND EXISTS (SELECT FROM public.fails) THEN
		RAISE EXCEPTION 'not now';
	END IF;
	IF (SELECT count(*) FROM public.step) >= 2 THEN
		PERFORM FROM public.gate;
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER before_delete BEFORE DELETE ON atproto.record FOR EACH STATEMENT EXECUTE FUNCTION public.before_delete();
CREATE FUNCTION public.after_delete() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.step SELECT count(*) FROM gone HAVING count(*) > 0;
	RETURN NULL;
END $$;
CREATE TRIGGER after_delete AFTER DELETE ON atproto.record REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION public.after_delete();
SQL
at('many');
is(query("SELECT count(*) FROM atproto.visible_record WHERE did = $many"), $MANY, 'many records');
my $log = -s $node->logfile;
$server->release;
at('deleted');
$node->wait_for_log(qr/records of deleted accounts stay, not visible, for atproto subscription "s": not now/, $log);
is(query("SELECT count(*), (SELECT string_agg(n::text, ',') FROM public.step) FROM atproto.record WHERE did = $many"),
	$MANY - $STEP . "|$STEP", 'F-15: the first step is made with the event');
is(query("SELECT count(*) FROM atproto.visible_record WHERE did = $many"), '0', 'F-15: none is visible any more');
is(query("SELECT active, status, purge_rev IS NOT NULL FROM atproto.repo WHERE did = $many"), 'f|deleted|t', 'its state says so');
$server->release;
at('goes on');
is(query("SELECT count(*) FROM atproto.visible_record WHERE did = $other"), '2', 'an error in the next step does not hold up the stream');
is(query("SELECT reconnects, count(d.id) FROM atproto.stat_subscription LEFT JOIN atproto.dead_letter d ON true GROUP BY 1"), '0|0', 'nor is it anything else');

# The next process makes the second step, and waits before the third.
query("DELETE FROM public.fails; BEGIN; LOCK TABLE public.gate IN ACCESS EXCLUSIVE MODE; PREPARE TRANSACTION 'gate'");
kill_consumer();
wait_for("SELECT count(*) = 1 FROM pg_locks WHERE relation = 'public.gate'::regclass AND NOT granted", gone => 1);
is(query('SELECT count(*) FROM atproto.record WHERE did = ' . $many), $MANY - 2 * $STEP, 'the next process goes on with it');
kill_consumer();
wait_for("SELECT count(*) = 1 FROM pg_locks WHERE relation = 'public.gate'::regclass AND NOT granted", gone => 1);
is(query('SELECT count(*) FROM atproto.record WHERE did = ' . $many), $MANY - 2 * $STEP, 'killed between two steps: what was done is done');

# The account is back before all old records are removed: old records stay hidden, and are removed.
is(query("SELECT count(*), count(purge_rev) FROM atproto.repo WHERE did = $many AND NOT active"), '1|1', 'still to do');
query("ROLLBACK PREPARED 'gate'");
wait_for("SELECT count(*) = 0 FROM atproto.repo WHERE purge_rev IS NOT NULL");
is(query("SELECT count(*) FROM atproto.record WHERE did = $many"), '0', 'all are gone');
is(query('SELECT string_agg(n::text, $$,$$) FROM public.step'), join(',', $STEP, $STEP, $MANY - 2 * $STEP), 'in steps of bounded size');

# The server of the stream starts again without holds.
$server->restart;
at('new');
is(query("SELECT string_agg(rkey::text, ',') FROM atproto.visible_record WHERE did = $many"), 'new', 'an account that is created again has its new record');
tables_match($node, $capture, 'all is as the oracle says', modes => [ 'record', 'repo' ]);
is(query('SELECT events FROM atproto.cursor'), $at{new}, 'each event was processed once');

# A replay of the deletion must not remove later records, and does not count again.
my $state = "SELECT did, rev, active, status, status_at FROM atproto.repo ORDER BY did";
my $before = query($state);
query("SELECT atproto.set_cursor('s', 0)");
wait_for("SELECT events = 2 * $at{new} FROM atproto.cursor");
tables_match($node, $capture, 'F-03: a replay changes nothing', modes => [ 'record', 'repo' ]);
is(query($state), $before, 'F-15: nor the states of the accounts');
is(query('SELECT sum(n) FROM public.step'), $MANY, 'nothing was removed once more');

$node->stop;
done_testing();
