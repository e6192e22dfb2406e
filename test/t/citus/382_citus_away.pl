# 382_citus_away.pl
#		A node of Citus is away while events come.  The consumer commits nothing that this node would lack,
#		shows the reason in last_error, keeps trying, and goes on without an operator when the node is back;
#		with one process and with several, and through a crash of the coordinator meanwhile.  E-43, E-48.
#
#		ATPROTO_AWAY=60 is the long form: so many seconds; without it, until some
#		attempts have failed.
#		Needs Citus: see test/citus/build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Citus;
use Test::More;

if (my $why = AtprotoTest::Citus::missing())
{
	plan skip_all => $why;
}

my $seconds = $ENV{ATPROTO_AWAY} // 0;
my $pds     = capture('pds.frames.gz');
my $ops     = operations($pds);
my ($node, @servers) = make_citus('away', conf => <<'EOC');
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
max_worker_processes = 20
EOC

# Waits until the consumer has failed once more.
sub wait_for_failure
{
	my ($s) = @_;
	my $last = query("SELECT COALESCE(max(last_error_at), '-infinity') FROM atproto.stat_subscription WHERE name = '$s'");

	wait_for("SELECT last_error_at > '$last' AND last_error IS NOT NULL FROM atproto.stat_subscription WHERE name = '$s'");
	return;
}

# A shard cannot be moved while a server is away, and can be moved afterwards.
sub move_shard
{
	my ($s) = @_;
	my ($shard, $from, $to) = split /\|/, query(<<"EOQ");
SELECT s.shardid, s.nodeport, n.nodeport FROM citus_shards s, pg_dist_node n
WHERE s.table_name = '$s.repo'::regclass AND n.shouldhaveshards AND n.nodeport <> s.nodeport ORDER BY s.shardid LIMIT 1
EOQ
	return ($node->psql('postgres', "SELECT citus_move_shard_placement($shard, '127.0.0.1', $from, '127.0.0.1', $to, 'block_writes')"))[0] == 0;
}

foreach my $workers (1, 3)
{
	my $s      = "by$workers";
	my $name   = "workers => $workers";
	my $server = AtprotoTest::Server->start($pds, '--hold-at', 500);
	my $away   = $servers[ $workers % @servers ];

	query("CREATE SCHEMA $s; SELECT atproto.create_tables('$s'); SELECT atproto.distribute('$s', 4)");
	query(subscribe_sql($s, $server, cursor => 0, target => "'$s'", events => q{'keep'}, workers => $workers));
	wait_for_seq($node, $s, 499);
	$away->stop('immediate');
	$server->release;
	my $since = time;
	wait_for_failure($s);
	like(query("SELECT last_error FROM atproto.stat_subscription WHERE name = '$s'"), qr/connection .*127\.0\.0\.1:\d+|server closed the connection/,
		"$name: it says that a server cannot be reached");
	$node->restart;
	wait_for_failure($s);
	ok(!move_shard($s), "$name: a shard cannot be moved meanwhile");
	wait_until(sub { wait_for_failure($s); time - $since >= $seconds }, 'the end of the outage');
	is(query("SELECT stopped FROM atproto.subscription WHERE name = '$s'"), '', "$name: it has not stopped");
	cmp_ok(query("SELECT min(seq) FROM atproto.cursor WHERE subscription = '$s'"), '<', $PDS_LAST, "$name: what came meanwhile is not committed");
	is(query('SELECT count(*) FROM atproto.dead_letter'), '0', "$name: it is nobody's fault");
	$away->start;
	wait_for_seq($node, $s, $PDS_LAST);
	tables_match($node, $pds, "$name: all is there when it is back", modes => [ 'record', 'repo', 'count', 'event' ], schema => $s);
	is(query("SELECT sum(events), sum(record_ops) FROM atproto.cursor WHERE subscription = '$s'"), "$PDS_LAST|$ops", "$name: every event once");
	ok(move_shard($s), "$name: a shard can be moved");
	tables_match($node, $pds, "$name: and has its rows", schema => $s);
	query('SELECT recover_prepared_transactions()');
	is(query('SELECT count(*) FROM pg_prepared_xacts', node => $_), '0', "$name: nothing is undecided") foreach ($node, @servers);
	query("SELECT atproto.unsubscribe('$s')");
}

stop_citus();
done_testing();
