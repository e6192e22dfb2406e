# 385_citus_restore.pl
#		A node of Citus comes back with the data of an hour ago: first one node is restored alone, then the
#		asynchronous standby of another node is promoted while the consumer runs and processes are killed.
#		The test runs the statements of doc/operate/citus.md as they stand.  Afterwards the tables must have
#		the records of the network.  R-52, R-64.
#
#		Needs Citus: see test/citus/build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Backfill;
use AtprotoTest::Citus;
use File::Path qw(remove_tree);
use PostgreSQL::Test::RecursiveCopy;
use PostgreSQL::Test::Utils;
use Test::More;

if (my $why = AtprotoTest::Citus::missing())
{
	plan skip_all => $why;
}

my $simulated = AtprotoTest::Backfill->begin(accounts => 16);
my ($node, @servers) = make_citus('citus_restore', start => $simulated->preload, conf => $simulated->settings);
my $server = AtprotoTest::Server->start($simulated->capture, '--hold-at', $simulated->half + 1);
my ($behind, $primary) = @servers;

sub finish
{
	my ($seq) = @_;

	wait_for_seq($node, 'network', $seq);
	wait_until(
		sub {
			$simulated->hurry;
			return (try_query(q{SELECT NOT EXISTS (SELECT FROM atproto.repo_job) AND NOT EXISTS (SELECT FROM atproto.held_event)}) // '') eq 't';
		},
		'all jobs');
	return;
}

query('SELECT atproto.distribute()');
$simulated->serve(1, $server);
query($simulated->subscribe_sql('network', cursor => 0, backfill => "'network'", links => "'all'"));
finish($simulated->half);

# A copy of one node, and a standby of a second node: both are behind when they replace the nodes.
$behind->stop;
$behind->backup_fs_cold('before');
$behind->start;
my $standby = add_standby($primary, 'standby');
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('write'));
$standby->append_conf('postgresql.conf', q{primary_conninfo = ''});
$standby->reload;
wait_for('SELECT count(*) = 0 FROM pg_stat_wal_receiver', node => $standby);
wait_for('SELECT count(*) >= 0 FROM atproto.repo', gone => 1);
$simulated->serve(2, $server);
$server->release;
finish($simulated->last);
is($simulated->difference, '', 'the rows are those that the network has');
my $links = 'SELECT count(*) FROM atproto.link_problems()';
is(query($links), '0', 'and so are the links');
query(q{SELECT atproto.pause('network')});
wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
$behind->stop;
remove_tree($behind->data_dir);
PostgreSQL::Test::RecursiveCopy::copypath($behind->backup_dir . '/before', $behind->data_dir);
chmod 0700, $behind->data_dir;
$behind->start;
wait_for('SELECT count(*) >= 0 FROM atproto.repo', gone => 1);
isnt($simulated->difference, '', 'with the old data of one server rows are wrong');
isnt(query($links), '0', 'and links');

# --- it is noticed ---

sub group_of
{
	my ($server) = @_;
	return query('SELECT groupid FROM pg_dist_node WHERE nodeport = ' . $server->port);
}

my $group = group_of($behind);
wait_for('SELECT count(*) = 0 FROM pg_dist_transaction WHERE groupid = ' . $group);
is(query(q{SELECT count(*) FROM atproto.node_written WHERE writer ~ ' -1$' AND number > 0}), scalar @servers, 'the fetcher has marked each node');
# nothing was fetched in the second half: as if the last fetch were missing
query("UPDATE atproto.node_written SET number = number + 1 WHERE node = $group AND writer ~ ' -1\$'");
my $found = query(q{SELECT object FROM atproto.check('atproto') WHERE what = 'node is behind'});
like($found, qr/^node $group, writer \S+ 0$/m, 'check() names the node while the subscription is paused: the consumer has written there');
like($found, qr/^node $group, writer \S+ -1$/m, 'and so is a mark of the fetcher');
unlike($found, qr/node (?!$group,)/, 'and no other node');

# --- the statements of the page ---

my ($section) = slurp_file(test_dir() . '/../doc/operate/citus.md') =~ /^### A node that is behind\n(.*?)^## /ms;
my ($repair) = $section =~ /^```sql\n(.*?)^```/ms;
my ($before, $after) = split /^-- wait.*\n/m, $repair;

my $marked = q{SELECT count(*) FROM (SELECT did, sync FROM atproto.repo) r WHERE sync = 'desynchronized'};

# The steps of the page for an operator after a consumer has noticed the node.
sub mend
{
	finish($simulated->last);
	is(query($marked), '0', 'R-64: the jobs have brought the marked repositories');
	query($after);
	is($simulated->difference, '', 'R-52, R-64: repaired: the rows are those that the network has');
	is(query($links), '0', 'and so are the links');
	is(query(q{SELECT string_agg(what, ', ') FROM atproto.check('atproto') WHERE what ~ 'node'}), '', 'check() has nothing more to say of nodes');
	return;
}

query($before);
wait_for(q{SELECT count(*) > 0 FROM atproto.subscription_log WHERE event = 'node behind' AND subscription = 'network'});
like(query(q{SELECT object FROM atproto.check('atproto') WHERE what LIKE 'links of a node %'}), qr/^node $group$/, 'links are marked');
mend();

# --- a standby with old data is promoted while the consumer runs ---

$group = group_of($primary);
$primary->stop('immediate');
$standby->promote;
$standby->poll_query_until('postgres', 'SELECT NOT pg_is_in_recovery()');
wait_until(sub { try_query("SELECT citus_update_node(nodeid, '127.0.0.1', @{[ $standby->port ]}) IS NOT NULL FROM pg_dist_node WHERE groupid = $group") }, 'the standby in its place');
my $pid = try_query(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
kill 'KILL', $pid if $pid;
wait_for("SELECT bool_or(behind_since IS NOT NULL) FROM atproto.node_written WHERE node = $group", gone => 1);
$node->stop('immediate');
$simulated->preload->start($node);
wait_for('SELECT count(*) >= 0 FROM atproto.repo', gone => 1);
$pid = try_query(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'});
kill 'KILL', $pid if $pid;
wait_for('SELECT count(*) >= 0 FROM atproto.repo', gone => 1);
wait_until(sub { try_query("$before\nSELECT 1") }, 'the repair');
mend();

stop_citus();
done_testing();
