# 381_citus_kills.pl
#		Exactly once across servers.  A consumer fills tables of Citus while coordinator, workers and
#		consumer are killed at random, a node is away, shards move, and a node is added.  Prepared
#		transactions left open by a crash are settled, and the tables equal the result of the simulator.
#		E-43, E-48.
#
#		ATPROTO_KILLS=300 is the long form; ATPROTO_SEED repeats a run; ATPROTO_WORKERS are
#		the subscription's, by default one to three.
#		Needs Citus: see test/citus/build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Citus;
use List::Util qw(shuffle);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

if (my $why = AtprotoTest::Citus::missing())
{
	plan skip_all => $why;
}

my $kills = $ENV{ATPROTO_KILLS} || 12;
my $seed  = seed();
my $apply_workers = $ENV{ATPROTO_WORKERS} || 1 + int rand 3;
note("workers => $apply_workers");

my $last = 1000 * $kills > 20_000 ? 1000 * $kills : 20_000;
my ($capture, $expect) = simulate(
	'--events' => $last, '--accounts' => int($last / 40), '--seed' => 1 + $seed % 1000, '--history' => 300, '--batches' => 3,
	'--mix' => 'delete=8,update=3,profile=2,account=1.5,identity=1,sync=1,other=1');
my ($node, @workers) = make_citus('kills', conf => <<'EOC');
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
max_worker_processes = 20
EOC
query(q{SELECT atproto.distribute('atproto', 4)});
my $server = AtprotoTest::Server->start($capture, '--rate', int($last / $kills) || 1);

sub wait_for_value
{
	my ($sql) = @_;
	my $value;
	wait_until(sub { defined($value = try_query($sql)) }, $sql);
	return $value;
}

# Waits until all workers of the subscription have committed up to seq.
sub wait_for_commit
{
	my ($seq) = @_;
	wait_for("SELECT min(seq) >= $seq FROM atproto.cursor", gone => 1);
	return;
}

sub kill_process
{
	my ($type) = @_;
	kill 'KILL', wait_for_value("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto $type' ORDER BY random() LIMIT 1");
	return;
}

# All processes of the node must end before a new start.
sub kill_node
{
	my ($which, $how) = @_;
	my $pids;

	wait_until(sub { defined($pids = try_query('SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()', node => $which)) }, 'the server');
	my @pids = split /\n/, $pids;
	$how eq 'kill' ? $which->kill9 : $which->stop($how);
	wait_until(sub { !kill 0, @pids }, 'the end of the server');
	return;
}

sub restart_node
{
	my ($which, $how) = @_;
	kill_node($which, $how);
	$which->start;
	return;
}

# The consumer fails, waits, and goes on by itself.
sub leave
{
	my ($worker) = @_;
	kill_node($worker, 'immediate');
	wait_for(q{SELECT last_error IS NOT NULL OR state <> 'streaming' FROM atproto.stat_subscription}, gone => 1);
	usleep(rand 500_000);
	$worker->start;
	return;
}

sub move_shard
{
	wait_until(
		sub {
			my ($shard, $from, $to) = split /\|/, wait_for_value(<<'EOQ');
SELECT s.shardid, s.nodeport, n.nodeport FROM citus_shards s, pg_dist_node n
WHERE s.table_name = 'atproto.repo'::regclass AND n.shouldhaveshards AND n.nodeport <> s.nodeport ORDER BY random() LIMIT 1
EOQ
			return try_query("SELECT citus_move_shard_placement($shard, '127.0.0.1', $from, '127.0.0.1', $to, 'block_writes') IS NOT NULL");
		},
		'a shard to be moved');
	return;
}

my %kinds = (
	'kill -9 of the consumer'           => sub { kill_process('consumer') },
	'kill -9 of the coordinator'        => sub { restart_node($node, 'kill') },
	'immediate stop of the coordinator' => sub { restart_node($node, 'immediate') },
	'kill -9 of a worker'               => sub { restart_node($workers[ rand @workers ], 'kill') },
	'immediate stop of a worker'        => sub { restart_node($workers[ rand @workers ], 'immediate') },
	'fast restart of a worker'          => sub { restart_node($workers[ rand @workers ], 'fast') },
	'a worker is away'                  => sub { leave($workers[ rand @workers ]) },
	'a shard moves'                     => \&move_shard);
$kinds{'kill -9 of an apply worker'} = sub { kill_process('apply worker') } if $apply_workers > 1;

my @todo  = map { (sort keys %kinds)[ $_ % keys %kinds ] } shuffle 0 .. $kills - 1;
my @times = sort { $a <=> $b } map { 1 + int rand($last * 0.95) } @todo;
my $new   = int(@todo / 2);

query(subscribe_sql('s', $server, cursor => 0, events => q{'keep'}, links => q{'all'}, workers => $apply_workers));
foreach my $i (0 .. $#todo)
{
	wait_for_commit($times[$i]);
	if ($i == $new)
	{
		push @workers, add_worker($node, 'kills_w3');
		wait_until(sub { try_query('SELECT rebalance_table_shards(shard_transfer_mode => $$block_writes$$) IS NOT NULL') }, 'shards on the new node');
		note('a node was added');
	}
	usleep(rand 100_000);    # in the middle of a transaction, perhaps
	note("$todo[$i] after event " . (try_query('SELECT min(seq) FROM atproto.cursor') // '?'));
	$kinds{ $todo[$i] }->();
}
wait_for_commit($last);

# --- nothing lost, nothing twice ---

wait_until(sub { defined try_query('SELECT recover_prepared_transactions()') }, 'the settlement');
foreach my $each ($node, @workers)
{
	is(query('SELECT count(*) FROM pg_prepared_xacts', node => $each), '0', $each->name . ': nothing is undecided');
}

sub expected
{
	my ($mode) = @_;
	return slurp_file("$expect/$mode");
}

my $ops = operations($capture);
foreach my $mode ('record', 'repo')
{
	my ($found) = oracle(table_copy($node, $mode), 'canon');
	ok($found eq expected($mode), "$mode: the table is what the simulator says");
}
is(query('SELECT min(seq), sum(events), sum(record_ops) FROM atproto.cursor'), "$last|$last|$ops", 'every event was applied exactly once');
tables_match($node, $capture, 'and so was every operation', modes => ['event']);
is(query('SELECT count(*) > 0 FROM atproto.link'), 't', 'there are links');
query("CREATE SCHEMA plain; BEGIN; " . subscribe_sql('plain', $server, target => q{'plain'}, links => q{'all'}) . q{; SELECT atproto.pause('plain'); COMMIT});
my %columns = (record => '*', repo => '*', link_source => '*', link => 'target, source, rkey, did');
query("INSERT INTO plain.$_ SELECT $columns{$_} FROM atproto.$_") foreach sort keys %columns;
is(query(qq{SELECT count(*) FROM atproto.link_problems('$_')}), '0', "$_: and they are those of the records") foreach 'atproto', 'plain';
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');
is(query('SELECT count(*) FROM atproto.gap'),         '0', 'nothing was missed');
is(query('SELECT bool_and(stopped IS NULL) FROM atproto.subscription'), 't', 'it did not stop');
cmp_ok(query(q{SELECT count(DISTINCT nodeport) FROM citus_shards WHERE table_name = 'atproto.record'::regclass}), '>=', 2, 'the shards are on several nodes');

stop_citus();
done_testing();
