# 172_standby.pl
#		On a standby no process of the extension runs; after its promotion the consumer goes on where the
#		primary's data end.  A dump has the subscriptions and the data.  A fast shutdown does not wait for a
#		stream server that does not answer.  E-43.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node(
	'primary',
	init => { allows_streaming => 1 },
	conf => <<'EOF');
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
max_worker_processes = 20
EOF
my $server = AtprotoTest::Server->start($pds, '--hold-at', 500, '--hold-at', 900);
my $workers = "FROM pg_stat_activity WHERE backend_type LIKE 'atproto%'";

# --- a standby ---

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
$node->safe_psql('postgres', subscribe_sql('s', $server, cursor => 0));
wait_for('SELECT seq = 499 FROM atproto.cursor');
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
is($standby->safe_psql('postgres', "SELECT count(*) $workers"), '0', 'on a standby nothing runs');
tables_match($standby, $pds, 'it has what the primary has', args => [ '--last', 499 ]);
is($standby->safe_psql('postgres', "SELECT count(*) FROM atproto.repo r, LATERAL atproto.audit(r.did) a WHERE a.equal IS NOT TRUE AND r.status IS DISTINCT FROM 'deleted'"),
	'0', 'V-46: and that is what the accounts signed');

# The primary is lost in mid-stream.
$server->release;
wait_for('SELECT seq = 899 FROM atproto.cursor');
# The new server has the library of another checkout than the lost one.
my $is_from_checkout = is_from_checkout();
my $digest = $is_from_checkout && query('SELECT atproto_internal.install_script()');
my $script = "CREATE OR REPLACE FUNCTION atproto_internal.install_script() RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS 'SELECT ''%s''::text'";
query(sprintf $script, 'x' . substr $digest, 1) if $is_from_checkout;
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
like($standby->safe_psql('postgres', 'SELECT last_error FROM atproto.stat_subscription'), qr/is a standby/, 'the standby says that it is one');
$node->stop('immediate');
$standby->promote;
SKIP:
{
	skip 'a released script has no digest', 1 unless $is_from_checkout;
	wait_for("SELECT state = 'not running' AND last_error LIKE 'the extension was made by the install script of a different checkout%' FROM atproto.stat_subscription", node => $standby);
	pass('promoted, its processes rest, and say why');
	$standby->safe_psql('postgres', sprintf $script, $digest);
}
$standby->restart;
wait_for("SELECT count(*) = 2 $workers", node => $standby);
$server->release;
wait_for("SELECT seq = $PDS_LAST FROM atproto.cursor", node => $standby);
is($standby->safe_psql('postgres', 'SELECT events FROM atproto.cursor'), $PDS_LAST, 'promoted, it has applied every event once');
tables_match($standby, $pds, 'promoted: the tables are what the oracle says', modes => [ 'record', 'repo', 'count' ]);

# --- dump and restore ---

$standby->safe_psql('postgres', 'CREATE DATABASE restored');
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
$standby->command_ok([ 'pg_dump', '-Fc', '-f', $dump, $standby->connstr('postgres') ], 'pg_dump');
$standby->command_ok([ 'pg_restore', '-d', $standby->connstr('restored'), '--exit-on-error', $dump ], 'pg_restore');
tables_match($standby, $pds, 'the restored tables are what the oracle says', database => 'restored');
is($standby->safe_psql('restored', 'SELECT seq, events FROM atproto.cursor'), "$PDS_LAST|$PDS_LAST", 'with their cursor');
like($standby->safe_psql('restored', 'SELECT name, owner = current_user::regrole, stopped FROM atproto.subscription'), qr/^s\|t\|restored/,
	'a subscription that is restored waits until it is resumed');

# From an older cursor, in a separate database.
$standby->append_conf('postgresql.conf', "atproto.databases = 'postgres, restored'");
$standby->restart;
$standby->safe_psql('restored', "SELECT atproto.set_cursor('s', 1000); SELECT atproto.resume('s')");
wait_for("SELECT seq = $PDS_LAST AND events = $PDS_LAST + 600 FROM atproto.cursor", node => $standby, database => 'restored');
tables_match($standby, $pds, 'resumed: the tables are still what the oracle says', database => 'restored');

# --- a fast shutdown, whatever the peers do ---

my @peers = map { AtprotoTest::Server->start($pds, @$_) } [ '--stall-after', 5 ], [ '--trickle', '1:1000' ],
  ['--no-upgrade-reply'], [ '--rate', 100 ];
$standby->safe_psql('postgres', subscribe_sql("p$_", $peers[$_], cursor => 0)) foreach 0 .. $#peers;
wait_for("SELECT count(*) FILTER (WHERE state IN ('streaming', 'connecting')) = 5 AND count(*) FILTER (WHERE state = 'streaming') >= 3 FROM atproto.stat_subscription",
	node => $standby);
my $start = time;
$standby->stop('fast');
cmp_ok(time - $start, '<', 5, 'a fast shutdown takes less than 5 seconds');
unlike(slurp_file($standby->logfile), qr/PANIC|TRAP|signal 11/, 'nothing went wrong');
done_testing();
