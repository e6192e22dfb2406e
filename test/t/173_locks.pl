# 173_locks.pl
#		What operators do in one transaction while a batch is being applied: it is
#		the consumer that makes room, and neither waits for the other for ever.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $held = 400;
my $node = make_node('locks', conf => "max_worker_processes = 20\ndeadlock_timeout = 200ms\natproto.reconnect_delay = 50ms\n");

my $applying = q{FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker') AND wait_event_type = 'Lock'};

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
	# now it comes to the cursor, which is on its way out
	$locks->query_safe('COMMIT');
	wait_for("SELECT count(*) > 0 $applying AND wait_event = 'transactionid'");
	ok(eval { $operator->query_safe('DROP SCHEMA target CASCADE; COMMIT'); 1 }, "$name: BEGIN; unsubscribe; DROP SCHEMA; COMMIT") or diag($@);
	is(query(q{SELECT count(*) FROM pg_namespace WHERE nspname = 'target'}), '0', "$name: it is gone");
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
	unlike(slurp_file($node->logfile), qr/deadlock detected/, "$name: nobody was its victim");
	$_->quit foreach $locks, $operator;
}

# Whichever table an operator has, and whichever he takes next: who waits for one has none.
{
	my @tables  = map { "target.$_" } qw(record repo record_event link link_source collection_count);
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
	query(q{SET client_min_messages = warning; SELECT atproto.unsubscribe('s'); DROP SCHEMA target CASCADE});
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
}

# Undone, nothing was lost by it.
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

# A trigger that unsubscribes takes the cursor away from its own batch: there is nobody to wait for.
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

# Two who make the tables of one schema: the second finds the column that the first has added.
query(q{CREATE SCHEMA target; SELECT atproto.create_tables('target'); ALTER TABLE target.message DROP COLUMN raw});
my ($first, $second) = map { $node->background_psql('postgres') } 1 .. 2;
$first->query_safe(q{BEGIN; SELECT atproto.create_tables('target')});
$second->query_until(qr/begun/, "\\echo begun\nSELECT atproto.create_tables('target');\n");
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE query ~ 'create_tables' AND wait_event_type = 'Lock'});
$first->query_safe('COMMIT');
ok(eval { $second->query('SELECT 1'); $second->quit }, 'both have made the tables') or diag($@);
$first->quit;

$node->stop;
done_testing();
