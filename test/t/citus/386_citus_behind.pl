# 386_citus_behind.pl
#		A node of Citus comes back with older rows while a consumer runs: the numbers that each
#		transaction writes into node_mark and node_written differ then.  The consumer marks only the
#		repositories of this node, records a gap in the stream of labels, from which the labels come
#		again, and gives the node its rows of link_source back.  A transaction writes numbers only for
#		the nodes that it writes to.  A consumer compares the numbers once a minute, and before each
#		connection, also if distribute() made the tables of numbers while the consumer ran.
#
#		Needs Citus: see test/citus/build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Citus;
use AtprotoTest::Points;
use File::Path qw(remove_tree);
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;

if (my $why = AtprotoTest::Citus::missing())
{
	plan skip_all => $why;
}

my $LABELS_LAST = 433;
my $pds = capture('pds.frames.gz');
my ($node, @servers) = make_citus('behind', conf => "atproto.reconnect_delay = 50ms\natproto.reconnect_max_delay = 200ms\n");
my $behind = $servers[0];
my $group  = query('SELECT groupid FROM pg_dist_node WHERE nodeport = ' . $behind->port);

sub back_up
{
	my ($name) = @_;
	$behind->stop;
	$behind->backup_fs_cold($name);
	$behind->start;
	wait_for('SELECT count(*) >= 0 FROM atproto.repo', gone => 1);
	return;
}

sub bring_back
{
	my ($name) = @_;
	$behind->stop;
	remove_tree($behind->data_dir);
	PostgreSQL::Test::RecursiveCopy::copypath($behind->backup_dir . "/$name", $behind->data_dir);
	chmod 0700, $behind->data_dir;
	$behind->start;
	return;
}

# The DIDs of a schema's repositories on a server, as an array.
sub dids_on
{
	my ($schema, $server) = @_;
	my $dids = query("SELECT array_agg(did) FROM $schema.repo");

	return "'" . query(<<"SQL") . "'::did[]";
SELECT COALESCE(array_agg(d), '{}') FROM unnest('$dids'::did[]) d
WHERE get_shard_id_for_distribution_column('$schema.repo', d) IN (SELECT shardid FROM pg_dist_placement WHERE groupid = $server)
SQL
}

# --- a transaction writes its number on each node with writes ---

query(q{CREATE SCHEMA one; SELECT atproto.create_tables('one'); SELECT atproto.distribute('one')});
my ($alone) = simulate('--events' => 50, '--accounts' => 1, '--history' => 0, '--mix' => 'delete=0,update=0,account=0,identity=0,sync=0,other=0');
my $single = AtprotoTest::Server->start($alone);
query(subscribe_sql('one', $single, cursor => 0, target => q{'one'}));
wait_for_seq($node, 'one', 50);
is(query('SELECT count(DISTINCT did), count(*) > 1 FROM (SELECT did FROM one.record) r'), '1|t', 'one repository, which has records');
# the purge of deleted accounts, at the consumer's start, wrote to all nodes
my $last = 'number = (SELECT max(number) FROM one.node_written)';
my $node_of_last = query("SELECT string_agg(node::text, ' ') FROM one.node_written WHERE $last");
like($node_of_last, qr/^\d+$/, 'the last transaction has its number on one server');
unlike(dids_on('one', $node_of_last), qr/\{\}/, 'which has the repository');
is(query('SELECT bool_and(w.number = m.number) FROM (SELECT did, number FROM one.node_mark) m JOIN one.node_written w USING (did)'), 't', 'they are the same on both sides');
query(q{SELECT atproto.unsubscribe('one')});

# --- while the consumer runs ---

query(q{SELECT atproto.distribute()});
my $server = AtprotoTest::Server->start($pds, '--hold-at', 500);
query(subscribe_sql('s', $server, cursor => 0, links => q{'all'}));
my $labels  = capture('labels.frames.gz');
my $labeler = AtprotoTest::Server->start($labels, '--hold-at', 200);
query(subscribe_sql('l', $labeler, nsid => 'com.atproto.label.subscribeLabels', cursor => 0));
wait_for_seq($node, 's', 499);
wait_for_seq($node, 'l', 199);
back_up('half');
$server->release;
$labeler->release;
wait_for_seq($node, 's', $PDS_LAST);
wait_for_seq($node, 'l', $LABELS_LAST);
tables_match($node, $labels, 'before', modes => ['label']);
my $label_count = query('SELECT count(*) FROM atproto.label');
tables_match($node, $pds, 'before');
is(query('SELECT count(DISTINCT node) FROM atproto.node_written'), scalar @servers, 'each server has a number');
wait_for('SELECT count(*) = 0 FROM pg_dist_transaction');
is(query(q{SELECT count(*) FROM atproto.check('atproto') WHERE what ~ 'node'}), '0', 'none is behind');
my $synchronized = query(q{SELECT count(*) FROM atproto.repo WHERE sync <> 'desynchronized'});
cmp_ok($synchronized, '>', 0, 'repositories are in step');
query(q{SELECT atproto.pause('s'), atproto.pause('l')});
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
my $dids = dids_on('atproto', $group);
bring_back('half');
wait_for('SELECT count(*) >= 0 FROM atproto.repo', gone => 1);
my ($shard, $port) = (query(q{SELECT max(shardid) FROM citus_shards WHERE table_name = 'atproto.repo'::regclass AND nodeport = } . $behind->port), $servers[1]->port);
ok(try_query("SELECT citus_move_shard_placement($shard, '127.0.0.1', @{[ $behind->port ]}, '127.0.0.1', $port, 'block_writes') IS NOT NULL"), 'a shard leaves the node before anybody has noticed');
cmp_ok(query('SELECT count(*) FROM atproto.label'), '<', $label_count, 'labels are missing');
my $sources = query('SELECT count(*) FROM atproto.link_source');
my $copy = 'atproto.link_source_' . query(q{SELECT shardid FROM pg_dist_shard WHERE logicalrelid = 'atproto.link_source'::regclass});
query("SET citus.enable_manual_changes_to_shards = on; DELETE FROM $copy WHERE id = (SELECT max(id) FROM $copy)", node => $behind);
query(q{SELECT atproto.resume('s')});
wait_for(q{SELECT count(*) > 0 FROM atproto.subscription_log WHERE event = 'node behind'}, gone => 1);
is(query(qq{SELECT count(*) FROM (SELECT did, sync FROM atproto.repo) r WHERE sync <> 'desynchronized' AND did = ANY ($dids)}), '0', 'its repositories are marked, also those of a shard that was moved');
is(query(qq{SELECT count(*) FROM (SELECT did, sync FROM atproto.repo) r WHERE sync = 'desynchronized' AND did <> ALL ($dids)}), '0', 'those of other servers are not');
is(query("SELECT count(*) FROM $copy", node => $behind), $sources, 'the node has all rows of link_source again');
like(query(q{SELECT last_error FROM atproto.stat_subscription WHERE name = 's'}), qr/a node of Citus has come back with rows that are older .* repositories of schema "atproto" are marked/, 'last_error says so');
is(query(q{SELECT string_agg(what || ': ' || object, ', ') FROM atproto.check('atproto') WHERE what ~ 'node'}), "links of a node are missing: node $group", 'check() has the links');
query('SELECT * FROM atproto.rebuild_links()');
is(query(q{SELECT count(*) FROM atproto.check('atproto') WHERE what ~ 'node'}), '0', 'until they are rebuilt');
my ($gap, $from, $to) = split /\|/, query(q{SELECT string_agg(subscription, ','), min(after_seq), max(before_seq) FROM atproto.gap WHERE reason = 'Citus node behind'});
is($gap, 'l', 'the stream of labels has a gap, that of repositories has none');
cmp_ok($from, '<=', 199, 'the gap begins before what the node lacks');
is($to, $LABELS_LAST + 1, 'and ends behind it');
query("SELECT atproto.set_cursor('l', $from); SELECT atproto.resume('l')");
wait_for(q{SELECT count(*) = 0 FROM atproto.gap WHERE reason = 'Citus node behind' AND closed_at IS NULL});
tables_match($node, $labels, 'the labels have come again', modes => ['label']);
query(q{SELECT atproto.unsubscribe('l')});
my $times = query(q{SELECT sum(times) FROM atproto.subscription_log WHERE event = 'node behind'});
query(q{SELECT atproto.pause('s'); SELECT atproto.resume('s')});
wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription});
is(query(q{SELECT sum(times) FROM atproto.subscription_log WHERE event = 'node behind'}), $times, 'it is told once');

# --- a transaction finds the difference before it commits ---

query(q{SELECT atproto.unsubscribe('s')});
query(q{CREATE SCHEMA two; SELECT atproto.create_tables('two'); SELECT atproto.distribute('two')});
my $other = AtprotoTest::Server->start($pds, '--hold-at', 500);
query(subscribe_sql('two', $other, cursor => 0, target => q{'two'}));
wait_for_seq($node, 'two', 499);
# as if the node lacked the last transaction
query(qq{UPDATE two.node_written SET number = number + 1 WHERE node = $group});
my $log = -s $node->logfile;
$other->release;
wait_for_seq($node, 'two', $PDS_LAST);
like(slurp_file($node->logfile, $log), qr/node $group of Citus has come back with rows that are older than what is known of them/, 'the transaction does not commit');
is(query(q{SELECT count(*) > 0 FROM atproto.subscription_log WHERE event = 'node behind' AND subscription = 'two'}), 't', 'the next consumer marks what is there');

# --- no transaction touches the node: the consumer compares by itself ---

query(q{SELECT atproto.unsubscribe('two')});
query(q{CREATE SCHEMA three; SELECT atproto.create_tables('three')});
my $quiet = AtprotoTest::Server->start($pds, '--hold-at', 500);
query(subscribe_sql('three', $quiet, cursor => 0, target => q{'three'}));
wait_for_seq($node, 'three', 499);
my $consumer = query(q{SELECT atproto_internal.consumer_pid('three')});
query(q{SELECT atproto.distribute('three')});
$quiet->release;
wait_for_seq($node, 'three', $PDS_LAST);
# a number of an unknown writer, so that no transaction of the consumer finds the difference first
my $missing = "INSERT INTO three.node_written AS w (node, writer, did, number) SELECT node, 'nobody 0', did, 1 FROM three.node_written WHERE node = $group LIMIT 1"
  . ' ON CONFLICT (node, writer) DO UPDATE SET number = w.number + 1';
my $noticed = 'SELECT COALESCE(max(behind_since), $$-infinity$$) FROM three.node_written';
query($missing);
wait_for("SELECT ($noticed) > '-infinity'");
is(query(q{SELECT atproto_internal.consumer_pid('three')}), $consumer, 'once a minute, also where distribute() was called while the consumer ran');
my $minute = query($noticed);
query($missing);
$quiet->restart;
wait_for("SELECT ($noticed) > '$minute'");
is(query("SELECT ($noticed) < '$minute'::timestamptz + interval '1 minute'"), 't', 'and before each connection');
is(query(q{SELECT atproto_internal.consumer_pid('three')}), $consumer, 'by the same consumer');

# --- while another subscription applies a batch: no deadlock (doc/develop/races.md, 36) ---

query(q{SELECT atproto.unsubscribe('three')});
query(q{CREATE SCHEMA four; SELECT atproto.create_tables('four'); SELECT atproto.distribute('four')});
my $batches = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'b 1 +x', 'a 2 +y', 'b 2 +y'), '--hold-at', 3);
query(subscribe_sql('w', $batches, cursor => 0, target => q{'four'}));
wait_for_seq($node, 'w', 2);
my $points = AtprotoTest::Points->new($node);
$points->hold('cursor next', 'atproto w');
$batches->release;
$points->wait('cursor next', 'atproto w');
query(q{INSERT INTO four.node_written (node, writer, did, number) SELECT DISTINCT ON (node) node, 'nobody 0', did, 1 FROM four.node_written});
$log = -s $node->logfile;
query(subscribe_sql('x', AtprotoTest::Server->start(make_capture('steps.py', 'z 1 +x'), '--hold-at', 1), cursor => 0, target => q{'four'}));
# for a lock here, or on a server of the nodes
wait_until(
	sub {
		query(q{SELECT count(*) FROM pg_stat_activity WHERE application_name = 'atproto x' AND wait_event_type = 'Lock'})
		  + eval { my $n = 0; $n += query(q{SELECT count(*) FROM pg_locks WHERE NOT granted}, node => $_) foreach @servers; $n } > 0;
	},
	'the consumer that has found the node waits for the batch');
$points->release('cursor next', 'atproto w');
wait_for_seq($node, 'w', 4);
wait_for(q{SELECT count(*) > 0 FROM atproto.subscription_log WHERE event = 'node behind' AND subscription = 'x'}, gone => 1);
unlike(slurp_file($node->logfile, $log), qr/deadlock/, 'neither is ended by a deadlock');
is(query(q{SELECT count(*), min(sync) FROM (SELECT sync FROM four.repo) r WHERE sync = 'desynchronized'}), '2|desynchronized', 'and the repositories of the batch are marked, too');
is(query(q{SELECT count(*) FROM atproto.check('four') WHERE what = 'node is behind'}), '0', 'no node is behind any more');

expect_check('links of a node are missing', undef, maybe => 1);
stop_citus();
done_testing();
