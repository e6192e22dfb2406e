# 385_citus_restore.pl
#		A server of Citus' comes back with the data of an hour ago, as an asynchronous standby
#		that is promoted, or a restore of this server alone: what doc/citus.md says about
#		that is run as it stands, and afterwards the tables are what the network has.  R-52, R-64.
#
#		Needs Citus: see test/citus/build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

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
my $behind = $servers[0];

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

# A copy of one server, which is behind when it takes its place.
$behind->stop;
$behind->backup_fs_cold('before');
$behind->start;
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

my $group = query('SELECT groupid FROM pg_dist_node WHERE nodeport = ' . $behind->port);
wait_for('SELECT count(*) = 0 FROM pg_dist_transaction WHERE groupid = ' . $group);
like(query(q{SELECT object FROM atproto.check('atproto') WHERE what = 'node is behind'}), qr/^node $group, writer \S+ -?\d+$/m, 'check() names the node while the subscription is paused');
unlike(query(q{SELECT object FROM atproto.check('atproto') WHERE what = 'node is behind'}), qr/node (?!$group,)/, 'and no other');

# --- what the page says ---

my ($section) = slurp_file(test_dir() . '/../doc/citus.md') =~ /^### A node that is behind\n(.*?)^## /ms;
my ($repair) = $section =~ /^```sql\n(.*?)^```/ms;
my ($before, $after) = split /^-- wait.*\n/m, $repair;
query($before);
wait_for(q{SELECT count(*) > 0 FROM atproto.subscription_log WHERE event = 'node behind' AND subscription = 'network'});
like(query(q{SELECT object FROM atproto.check('atproto') WHERE what LIKE 'links of a node %'}), qr/^node $group$/, 'links are marked');
finish($simulated->last);
query($after);
is($simulated->difference, '', 'R-52, R-64: repaired: the rows are those that the network has');
is(query($links), '0', 'and so are the links');
is(query(q{SELECT string_agg(what, ', ') FROM atproto.check('atproto') WHERE what ~ 'node'}), '', 'check() has nothing more to say of nodes');

stop_citus();
done_testing();
