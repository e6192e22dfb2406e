# 173_locks.pl
#		While a consumer applies a batch, operators lock or drop its tables, in one transaction
#		or in several: the consumer gives way, no session is the victim of a deadlock, and
#		neither the operator nor the consumer waits for ever.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $held = 400;
my $node = make_node('locks', conf => "max_worker_processes = 20\ndeadlock_timeout = 200ms\natproto.reconnect_delay = 50ms\n");

my $applying = q{FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker') AND wait_event_type = 'Lock'};

# With its target.
sub forget
{
	my ($name) = @_;

	query("SET client_min_messages = warning; SELECT atproto.unsubscribe('$name'); DROP SCHEMA target CASCADE");
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
	return;
}

foreach my $case ([ 1, 0 ], [ 1, 1 ], [ 2, 0 ], [ 2, 1 ])
{
	my ($workers, $letters) = @$case;
	my $name     = "$workers worker" . ($workers > 1 ? 's' : '') . ($letters ? ', with dead letters' : '');
	my $server   = AtprotoTest::Server->start($pds, '--hold-at', $held);
	my $locks    = $node->background_psql('postgres');
	my $operator = $node->background_psql('postgres');

	query("CREATE SCHEMA target; SELECT atproto.create_tables('target')");
	# dead letters refer to the subscription
	query(<<'SQL') if $letters;
CREATE FUNCTION target.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '22000'; END$$;
CREATE TRIGGER refuse BEFORE INSERT ON target.record FOR EACH ROW WHEN (NEW.rkey::text LIKE '%2k') EXECUTE FUNCTION target.refuse();
SQL
	query(subscribe_sql('s', $server, cursor => 0, workers => $workers, target => "'target'"));
	wait_for_seq($node, 's', $held - 1);

	# In the middle of a batch: repositories are written, records wait for $locks.
	$locks->query_safe('BEGIN; LOCK TABLE target.record IN SHARE MODE');
	$server->release;
	wait_for("SELECT count(*) > 0 $applying AND wait_event = 'relation'");
	$operator->query_safe(q{SET client_min_messages = warning; BEGIN; SELECT atproto.unsubscribe('s')});
	# now the session comes to the cursor, which is being deleted
	$locks->query_safe('COMMIT');
	wait_for("SELECT count(*) > 0 $applying AND wait_event = 'transactionid'");
	ok(eval { $operator->query_safe('DROP SCHEMA target CASCADE; COMMIT'); 1 }, "$name: BEGIN; unsubscribe; DROP SCHEMA; COMMIT") or diag($@);
	is(query(q{SELECT count(*) FROM pg_namespace WHERE nspname = 'target'}), '0', "$name: it is gone");
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
	unlike(slurp_file($node->logfile), qr/deadlock detected/, "$name: nobody was its victim");
	$_->quit foreach $locks, $operator;
}

# An operator locks any table and then any second table: a consumer that waits for a table holds no lock.
{
	my @tables  = map { "target.$_" } qw(record repo record_event link link_count link_source collection_count);
	my @holds   = map { 500 + 120 * $_ } 1 .. @tables + 1;
	my $server  = AtprotoTest::Server->start($pds, map { ('--hold-at', $_) } @holds);

	query("CREATE SCHEMA target; SELECT atproto.create_tables('target'); SELECT atproto.partition('target', by => 'collection', collections => '{app.bsky.feed.like}')");
	my @parts = split /\n/, query(q{SELECT relid FROM pg_partition_tree('target.record') WHERE isleaf});
	cmp_ok(@parts, '>', 1, 'there are partitions');
	query(subscribe_sql('s', $server, cursor => 0, target => "'target'", links => "'all'", events => "'keep'", count_collections => 'true'));
	foreach my $table (@tables, $parts[0])
	{
		my $hold     = shift @holds;
		my $operator = $node->background_psql('postgres');
		my $all      = join ', ', @tables, @parts;

		wait_for_seq($node, 's', $hold - 1);
		$operator->query_safe("BEGIN; LOCK TABLE ONLY $table IN ACCESS EXCLUSIVE MODE");
		$server->release;
		wait_for("SELECT count(*) > 0 $applying AND wait_event = 'relation'");
		ok(eval { $operator->query_safe("LOCK TABLE $all IN ACCESS EXCLUSIVE MODE NOWAIT; COMMIT"); 1 }, "who waits for $table has no other") or diag($@);
		eval { $operator->quit };
	}
	wait_for_seq($node, 's', $PDS_LAST);
	is(query(q{SELECT count(*) FROM atproto.subscription_log WHERE event = 'stopped'}), '0', 'and goes on');
	forget('s');
}

# Two sessions lock a table in turns, so that it is always locked: the consumer gets its turn, too.
{
	my $hold   = 1000;
	my $server = AtprotoTest::Server->start($pds, '--hold-at', $hold);
	my ($one, $other) = map { $node->background_psql('postgres') } 1, 2;

	query('CREATE SCHEMA target');
	query(subscribe_sql('s', $server, cursor => 0, target => "'target'"));
	wait_for_seq($node, 's', $hold - 1);
	$one->query_safe('BEGIN; LOCK TABLE target.record IN SHARE MODE');
	$server->release;
	wait_for("SELECT count(*) > 0 $applying AND wait_event = 'relation'");
	$other->query_until(qr/begun/, "\\echo begun\nBEGIN; LOCK TABLE target.record IN SHARE MODE;\n");
	wait_for(q{SELECT count(*) = 1 FROM pg_locks WHERE mode = 'ShareLock' AND NOT granted});
	$one->query_safe('COMMIT');
	cmp_ok($other->query_safe('SELECT seq FROM atproto.cursor'), '>=', $hold, 'who has waited for a table writes into it before the next one has it');
	$_->quit foreach $one, $other;
	wait_for_seq($node, 's', $PDS_LAST);
	forget('s');
}

# Two tables, of which one is always locked: the consumer cannot get both at the same time.
{
	my $hold     = 1200;
	my $server   = AtprotoTest::Server->start($pds, '--hold-at', $hold);
	my @tables   = qw(target.record target.link);
	my @sessions = map { $node->background_psql('postgres') } @tables;
	my $held     = "FROM pg_locks JOIN pg_stat_activity a USING (pid) WHERE a.backend_type = 'atproto consumer' AND mode = 'RowExclusiveLock'";
	my $rounds   = 0;

	query('CREATE SCHEMA target');
	query(subscribe_sql('s', $server, cursor => 0, target => "'target'", links => "'all'"));
	wait_for_seq($node, 's', $hold - 1);
	$sessions[0]->query_safe("BEGIN; LOCK TABLE ONLY $tables[0] IN SHARE MODE");
	$server->release;
	for (my $i = 0; $rounds < 50; $rounds++)
	{
		wait_for("SELECT count(*) = 1 $held AND NOT granted AND relation = '$tables[$i]'::regclass");
		$i = 1 - $i;
		last if query("SELECT count(*) > 0 $held AND granted AND relation = '$tables[$i]'::regclass") eq 't';
		$sessions[$i]->query_safe("BEGIN; LOCK TABLE ONLY $tables[$i] IN SHARE MODE");
		$sessions[ 1 - $i ]->query_safe('COMMIT');
	}
	cmp_ok($rounds, '<', 50, 'then the consumer waits for one after the other');
	$_->quit foreach @sessions;
	wait_for_seq($node, 's', $PDS_LAST);
	forget('s');
}

# The same before sources of links are added.
{
	my $server   = AtprotoTest::Server->start($pds);
	my $points   = AtprotoTest::Points->new($node);
	my $operator = $node->background_psql('postgres');

	query('CREATE SCHEMA target');
	$points->hold('preparation next', 'atproto s');
	query(subscribe_sql('s', $server, cursor => 0, target => "'target'", links => "'all'"));
	$points->wait('preparation next', 'atproto s');
	$operator->query_safe('BEGIN; LOCK TABLE target.link_source');
	$points->release('preparation next', 'atproto s');
	$points->blocked('atproto s');
	ok(eval { $operator->query_safe('LOCK TABLE target.link_source, target.link, target.record IN ACCESS EXCLUSIVE MODE NOWAIT; COMMIT'); 1 },
		'who is about to add sources of links, and waits, has no table') or diag($@);
	eval { $operator->quit };
	wait_for_seq($node, 's', $PDS_LAST);
	forget('s');
}

# Sessions deadlock with each other, and one of them waits for the table that the consumer waits for: the
# consumer must not take this for a deadlock of its own.
{
	my $hold     = 1200;
	my $server   = AtprotoTest::Server->start($pds, '--hold-at', $hold);
	my @sessions = map { $node->background_psql('postgres') } 1, 2;
	my $waits    = q{FROM pg_locks JOIN pg_stat_activity a USING (pid) WHERE NOT granted AND a.backend_type =};

	query("ALTER SYSTEM SET deadlock_timeout = '2s'");
	query('SELECT pg_reload_conf()');
	query('CREATE SCHEMA target');
	query(subscribe_sql('s', $server, cursor => 0, target => "'target'"));
	wait_for_seq($node, 's', $hold - 1);
	my $pid = query(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
	$sessions[0]->query_safe("SET deadlock_timeout = '1h'; BEGIN; LOCK TABLE target.record");
	$sessions[1]->query_safe("SET deadlock_timeout = '1h'; BEGIN; LOCK TABLE target.message");
	$server->release;
	wait_for("SELECT count(*) = 1 $waits 'atproto consumer'");
	my $since = query("SELECT waitstart $waits 'atproto consumer'");
	$sessions[1]->query_until(qr/begun/, "\\echo begun\nLOCK TABLE target.record;\n");
	wait_for("SELECT count(*) = 1 $waits 'client backend'");
	$sessions[0]->query_until(qr/begun/, "\\echo begun\nLOCK TABLE target.message;\n");
	# the server looks for a deadlock once, and finds one if all of them wait by then
	wait_for("SELECT count(*) = 1 AND bool_and(waitstart <> '$since' OR waitstart < now() - interval '4s') $waits 'atproto consumer'");
	query(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query ~ '^LOCK TABLE target.record'});
	$sessions[0]->query_safe('COMMIT');
	$sessions[1]->{run}->finish;
	$sessions[0]->quit;
	wait_for_seq($node, 's', $PDS_LAST);
	is(query(q{SELECT count(*) FROM atproto.subscription_log WHERE event = 'failed'}), '0', 'a deadlock of sessions is not its affair');
	is(query(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'}), $pid, 'and it has not ended');
	query('ALTER SYSTEM RESET deadlock_timeout');
	query('SELECT pg_reload_conf()');
	forget('s');
}

# A lock costs room in the server's table of locks: of partitions of partitions, too, only some are locked beforehand.
{
	my $hold    = 1200;
	my $server  = AtprotoTest::Server->start($pds, '--hold-at', $hold);
	my $session = $node->background_psql('postgres');

	query('CREATE SCHEMA target; CREATE TABLE target.record (LIKE atproto.record INCLUDING ALL) PARTITION BY LIST (collection)');
	foreach my $part ([ 'likes', q{FOR VALUES IN ('app.bsky.feed.like')} ], [ 'rest', 'DEFAULT' ])
	{
		query("CREATE TABLE target.$part->[0] PARTITION OF target.record $part->[1] PARTITION BY HASH (did)");
		query(join ';', map { "CREATE TABLE target.$part->[0]_$_ PARTITION OF target.$part->[0] FOR VALUES WITH (MODULUS 40, REMAINDER $_)" } 0 .. 39);
	}
	query(subscribe_sql('s', $server, cursor => 0, target => "'target'"));
	wait_for_seq($node, 's', $hold - 1);
	$session->query_safe('BEGIN; SELECT FROM target.repo FOR UPDATE');
	$server->release;
	wait_for("SELECT count(*) > 0 $applying AND wait_event = 'transactionid'");
	my $locked = query(q{SELECT count(*) FROM pg_locks JOIN pg_stat_activity a USING (pid) WHERE a.backend_type = 'atproto consumer' AND mode = 'RowExclusiveLock'
		AND relation IN (SELECT relid FROM pg_partition_tree('target.record') WHERE level > 0)});
	cmp_ok($locked, '>=', 42, 'partitions of partitions are locked ...');
	cmp_ok($locked, '<=', 64, '... as far as there is room');
	$session->query_safe('COMMIT');
	$session->quit;
	wait_for_seq($node, 's', $PDS_LAST);
	forget('s');
}

# After a rollback, no event is lost.
my $server = AtprotoTest::Server->start($pds, '--hold-at', $held);
query(subscribe_sql('s', $server, cursor => 0));
wait_for_seq($node, 's', $held - 1);
my $operator = $node->background_psql('postgres');
$operator->query_safe(q{BEGIN; SELECT atproto.unsubscribe('s')});
$server->release;
wait_for("SELECT count(*) > 0 $applying AND wait_event = 'transactionid'");
is(query("SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
	WHERE a.backend_type = 'atproto consumer' AND l.relation = 'atproto.record'::regclass AND l.mode = 'RowExclusiveLock'"),
	'0', 'who waits for it holds no table of records');
$operator->query_safe('ROLLBACK');
$operator->quit;
wait_for_seq($node, 's', $PDS_LAST);
is(query('SELECT events FROM atproto.cursor'), $PDS_LAST, 'undone: every event was applied once');
tables_match($node, $pds, 'undone: the tables are what the oracle says');

# A trigger that unsubscribes deletes the cursor of its own batch: the consumer has no session to wait for.
query(q{SELECT atproto.unsubscribe('s'); TRUNCATE atproto.record, atproto.repo});
query(<<'SQL');
CREATE FUNCTION public.give_up() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN DELETE FROM atproto.subscription; RETURN NULL; END$$;
CREATE TRIGGER give_up AFTER INSERT ON atproto.record FOR EACH STATEMENT EXECUTE FUNCTION public.give_up();
SQL
my $offset = -s $node->logfile;
query(subscribe_sql('s', $server, cursor => 0));
$node->wait_for_log(qr/consumer of subscription "s" ends: its cursor was set.*consumer of subscription "s" ends: its cursor was set/s, $offset);
query('DROP TRIGGER give_up ON atproto.record');
wait_for_seq($node, 's', $PDS_LAST);
tables_match($node, $pds, 'a trigger that unsubscribes: its consumer comes back later, and later');

# Two sessions make the tables of one schema: the second finds the column that the first has added.
query(q{CREATE SCHEMA target; SELECT atproto.create_tables('target'); ALTER TABLE target.message DROP COLUMN raw});
my ($first, $second) = map { $node->background_psql('postgres') } 1 .. 2;
$first->query_safe(q{BEGIN; SELECT atproto.create_tables('target')});
$second->query_until(qr/begun/, "\\echo begun\nSELECT atproto.create_tables('target');\n");
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query ~ 'create_tables' AND wait_event_type = 'Lock'});
$first->query_safe('COMMIT');
ok(eval { $second->query('SELECT 1'); $second->quit }, 'both have made the tables') or diag($@);
$first->quit;

# DROP EXTENSION locks the extension's tables: a consumer that has waited for one of them gives way.
query(q{SELECT atproto.unsubscribe('s'); SET client_min_messages = warning; DROP SCHEMA target CASCADE; TRUNCATE atproto.record, atproto.repo});
$server = AtprotoTest::Server->start($pds, '--hold-at', $held);
query(subscribe_sql('s', $server, cursor => 0));
wait_for_seq($node, 's', $held - 1);
my $waits = "FROM pg_locks JOIN pg_stat_activity a USING (pid) WHERE relation = 'atproto.record'::regclass AND NOT granted";
my $reader  = $node->background_psql('postgres');
my $dropper = $node->background_psql('postgres');
$reader->query_safe('BEGIN; LOCK TABLE atproto.record IN SHARE MODE');
$server->release;
wait_for("SELECT count(*) = 1 $waits AND a.backend_type = 'atproto consumer'");
$dropper->query_until(qr/begun/, "\\echo begun\nSET client_min_messages = warning; DROP EXTENSION atproto CASCADE;\n");
wait_for("SELECT count(*) = 1 $waits AND a.backend_type = 'client backend'");
$reader->query_safe('COMMIT');
ok(eval { $dropper->query_safe('SELECT 1'); 1 }, 'DROP EXTENSION while the consumer waits for a table') or diag($@);
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
unlike(slurp_file($node->logfile), qr/deadlock detected/, 'and nobody was the victim of a deadlock');
eval { $_->quit } foreach $reader, $dropper;

$node->stop;
done_testing();
