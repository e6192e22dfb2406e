# 352_repo_restore.pl
#		A backfill of a simulated network with live traffic continues after a change of the server: on a
#		promoted standby, after point-in-time recovery, and in a database restored from a dump.  Each change
#		comes in the middle of the backfill, with exports on their way and held events that wait for them.
#		In the end the tables are those of the network, and audits agree.  R-04, R-05, R-25, R-30, R-35.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Backfill;
use PostgreSQL::Test::Utils;
use Test::More;

my $simulated = AtprotoTest::Backfill->begin(seed => 20);
my $network   = $simulated->network;
my $preload   = $simulated->preload;
my $half      = $simulated->half;
my $node      = make_node(
	'primary',
	init  => { allows_streaming => 1, has_archiving => 1 },
	start => $preload,
	conf  => $simulated->settings . "atproto.databases = 'postgres, copy'\n");
my $server = AtprotoTest::Server->start($simulated->capture, '--hold-at', 50, '--hold-at', $half + 1);
my $dump   = PostgreSQL::Test::Utils::tempdir() . '/dump';

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$preload->start($standby);

# --- the middle of the backfill: half of the exports are loaded, half are on their way ---

my @dids = $simulated->dids;
my @slow = @dids[ grep { $_ % 2 } 0 .. $#dids ];
my @gates = map { $network->fault({ host => $simulated->pds($_), path => 'getRepo', did => $_, hold => 'gate' }) } @slow;
$simulated->serve(1, $server);
query($simulated->subscribe_sql('s', cursor => 0, verify => "'full'", events => "'keep'", backfill => "'network'"));
wait_for(q{SELECT count(*) >= 3 FROM atproto.repo_job WHERE state = 'running'});
wait_for(q{SELECT count(*) >= 3 FROM atproto.repo WHERE sync = 'synchronized'});
$server->release;
wait_for_seq($node, 's', $half);
cmp_ok(query(q{SELECT count(DISTINCT did) FROM atproto.held_event JOIN atproto.repo USING (did) WHERE hold = 'resync'}), '>=', 1, 'in the middle events wait for exports');
cmp_ok(query(q{SELECT count(*) FROM atproto.repo WHERE sync = 'resyncing'}), '>=', 3, 'that are on their way');

# Nothing is outstanding, and the tables are the network's.
sub finished
{
	my ($name, %where) = @_;

	$simulated->finish('s', %where);
	is($simulated->difference(%where), '', "R-05, R-30: $name: the tables are the network's");
	is(query('SELECT count(*) FROM (SELECT did, collection, rkey, rev, action, count(*) FROM atproto.record_event WHERE seq IS NOT NULL GROUP BY 1, 2, 3, 4, 5 HAVING count(*) > 1) x', %where),
		'0', "R-30: $name: no event of the stream is there twice");
	return;
}

# --- the primary is lost ---

$node->command_ok([ 'pg_dump', '--host', $node->host, '--port', $node->port, '--file', $dump, 'postgres' ], 'pg_dump');
query("SELECT pg_create_restore_point('middle')");
# wait for the file ended by the switch: processes may write into the file after it at once
my $ended = query('SELECT pg_walfile_name(pg_switch_wal())');
wait_for("SELECT last_archived_wal >= '$ended' FROM pg_stat_archiver", gone => 1);
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$node->stop('immediate');
$network->unfault($_) foreach @gates;
$simulated->serve(2, $server);
$server->release;
$standby->promote;
finished('promoted', node => $standby);
$standby->stop;

# --- restored from backup and log to the moment in the middle ---

my $restored = PostgreSQL::Test::Cluster->new('restored');
$restored->init_from_backup($node, 'base', has_restoring => 1);
$restored->append_conf('postgresql.conf', "recovery_target_name = 'middle'\nrecovery_target_action = 'promote'\n");
$preload->start($restored);
wait_for('SELECT NOT pg_is_in_recovery()', node => $restored, gone => 1);
finished('recovered to a point in time', node => $restored);

# --- and restored from the dump, in a second database ---

$restored->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE template0');
$restored->command_ok([ 'psql', '--host', $restored->host, '--port', $restored->port, '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, 'copy' ], 'psql');
my %copy = (node => $restored, database => 'copy');
# the fetcher of the second database may have put running jobs back into the queue
like(slurp_file($dump), qr/^COPY atproto\.repo_job [^;]*;\n(?:[^\n]*\n)*?[^\n]*\trunning\t/m, 'the dump has jobs that are being carried out');
is(query(q{SELECT count(*) > 0 FROM atproto.repo_job}, %copy), 't', 'jobs are restored');
query(q{SELECT atproto.resume('s')}, %copy);
finished('restored from a dump', %copy);

$restored->stop;
done_testing();
