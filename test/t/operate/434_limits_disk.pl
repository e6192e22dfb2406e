# 434_limits_disk.pl
#		Consumers and the fetcher stop before a volume of the server is full (atproto.min_free_disk): the
#		cursor stays, operators see why, and all goes on by itself when there is room again.  A preloaded
#		library says how much is free.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds     = capture('pds.frames.gz');
my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
my $node    = make_node('disk', start => $preload, init => { allows_streaming => 1 }, conf => $network->settings . <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
atproto.fetch_host_rate = 1000
EOF
my $clock  = AtprotoTest::Clock->new($node);
my $server = AtprotoTest::Server->start($pds, '--hold-at', 500);

# The subscription waits, since so many MB are free on the volume of something.
sub wait_for_rest
{
	my ($name, $mb, $what) = @_;

	wait_for("SELECT state = 'waiting' AND last_error = 'only $mb MB are free on the volume of $what: \"atproto.min_free_disk\" is 1024 MB' FROM atproto.stat_subscription WHERE name = '$name'");
	return;
}

sub follow
{
	my ($name, %o) = @_;

	$server->restart('--hold-at', 500);
	query(subscribe_sql($name, $server, cursor => 0, %o));
	wait_for('SELECT min(seq) = 499 FROM atproto.cursor');
	return;
}

# --- a consumer ---

follow('s');
$preload->disks(pg_wal => 1023);
wait_for_rest('s', 1023, 'WAL (pg_wal)');
is(query('SELECT seq, connected_at IS NULL, drops FROM atproto.stat_subscription'), '499|t|{"limit": 1}', 'a consumer stops before the volume of WAL is full, and the cursor stays');
like(query('SELECT state, error FROM atproto.status'), qr/^waiting\|only 1023 MB are free on the volume of WAL \(pg_wal\)/, 'the view for people says why');
wait_for("SELECT EXISTS (SELECT FROM atproto.subscription_log WHERE detail LIKE 'only 1023 MB%')");
is(query("SELECT event, seq, times FROM atproto.subscription_log WHERE detail LIKE 'only 1023 MB%'"), 'dropped|499|1', 'the history has it, once');
$server->release;
# a consumer that has not stopped goes on with less room than a consumer that has stopped
$preload->disks(pg_wal => 1100);
query('CREATE SCHEMA other');
query(subscribe_sql('other', $server, cursor => 0, target => "'other'"));
wait_for_seq($node, 'other', $PDS_LAST);
$clock->advance(2);
is(query("SELECT state, seq FROM atproto.stat_subscription WHERE name = 's'"), 'waiting|499', 'a little more than the setting is not enough to go on');
$preload->disks(pg_wal => 1127);
wait_for_seq($node, 's', $PDS_LAST);
tables_match($node, $pds, 'with room, the consumer goes on by itself');
is(query("SELECT events FROM atproto.stat_subscription WHERE name = 's'"), $PDS_LAST, 'each event once');
is(query("SELECT last_error_is_past FROM atproto.stat_subscription WHERE name = 's'"), 't', 'the error is past');
start_over();

# --- with workers; the setting alone ---

follow('s', workers => 2);
# far more than any disk has
query("ALTER SYSTEM SET atproto.min_free_disk = '2000TB'");
query('SELECT pg_reload_conf()');
wait_for(q{SELECT state = 'waiting' AND last_error LIKE 'only % MB are free on the volume of the data directory: "atproto.min_free_disk" is % MB' FROM atproto.stat_subscription});
is(query('SELECT min(seq), max(seq) FROM atproto.cursor'), '499|499', 'several workers stop, too');
$server->release;
query("ALTER SYSTEM SET atproto.min_free_disk = '0'");
query('SELECT pg_reload_conf()');
wait_for_seq($node, 's', $PDS_LAST);
tables_match($node, $pds, 'without the setting they go on');
query('ALTER SYSTEM RESET atproto.min_free_disk');
query('SELECT pg_reload_conf()');
start_over();

# --- a tablespace ---

query("CREATE TABLESPACE $_ LOCATION '" . PostgreSQL::Test::Utils::tempdir($_) . "'") foreach qw(far unused);
my ($far, $unused) = map { query("SELECT oid FROM pg_tablespace WHERE spcname = '$_'") } qw(far unused);
$preload->disks("pg_tblspc/$far" => 10, "pg_tblspc/$unused" => 10);
query('CREATE TABLE public.mine TABLESPACE unused AS SELECT 1');
follow('s');
pass('a tablespace without a table of the target does not matter');
query('ALTER INDEX atproto.record_pkey SET TABLESPACE far');
$clock->advance(61);
wait_for_rest('s', 10, 'the tablespace "far"');
pass('the tablespace of an index does, as soon as the index is there');
query('ALTER INDEX atproto.record_pkey SET TABLESPACE pg_default');
$clock->advance(61);
wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription");
pass('and no longer when the index has gone');
$server->release;
wait_for_seq($node, 's', $PDS_LAST);
start_over();
query('DROP TABLE public.mine');
query("DROP TABLESPACE $_") foreach qw(far unused);

# --- the fetcher ---

my $did = did('a');
$preload->disks(pg_wal => 1);
query("SELECT atproto.subscribe('none', 'wss://stream.example.com', backfill => 'repair', repo_source => 'https://pds.example.com')");
query("SELECT atproto.resync('$did')");
wait_for(q{SELECT state = 'waiting' AND last_error LIKE 'only 1 MB are free on the volume of WAL (pg\_wal): %' FROM atproto.stat_fetcher});
is(query('SELECT state, tries FROM atproto.repo_job'), 'queued|0', 'no export begins');
is(query('SELECT requests FROM atproto.stat_fetcher'), '0', 'no request begins');
is(scalar(() = $network->log(path => qr/getRepo/)), 0, 'the server hears nothing');
$preload->disks;
wait_for('SELECT tries > 0 FROM atproto.repo_job');
is(query('SELECT state FROM atproto.stat_fetcher'), 'running', 'with room, the fetcher goes on');
start_over();

# --- a promoted standby ---

follow('s');
$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('disk_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$preload->start($standby);
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$preload->disks(pg_wal => 7);
wait_for_rest('s', 7, 'WAL (pg_wal)');
$node->stop('immediate');
$standby->promote;
ask_from_now_on($standby);
wait_for_rest('s', 7, 'WAL (pg_wal)');
is(query('SELECT seq FROM atproto.cursor'), '499', 'a promoted standby rests, too');
$server->release;
$preload->disks;
wait_for_seq($standby, 's', $PDS_LAST);
tables_match($standby, $pds, 'and goes on');

done_testing();
