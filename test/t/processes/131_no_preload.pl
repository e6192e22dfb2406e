# 131_no_preload.pl
#		Without shared_preload_libraries, subscribe() starts the consumer itself and says so in a notice;
#		the consumer runs until it is paused or the server stops.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds    = capture('pds.frames.gz');
my $node   = make_node('no_preload', preload => 0,
	conf => "synchronous_commit = on\n");    # what was seen committed survives the kill
my $server = AtprotoTest::Server->start($pds, '--hold-at', 500, '--hold-at', 1000);
my $pid    = "(SELECT max(pid) FROM pg_stat_activity WHERE backend_type = 'atproto consumer')";

# The notices of a statement.
sub notices
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	is($rc, 0, "$sql succeeds");
	return $err;
}

my $url = $server->url;
like(notices("BEGIN; SELECT atproto.subscribe('undone', '$url', 0); ROLLBACK"), qr/NOTICE/, 'a consumer waits for the transaction');
wait_for("SELECT $pid IS NULL");
is(query('SELECT count(*) FROM atproto.subscription'), '0', 'and ends with its rollback');
is_deeply([ $server->log ], [], 'without having connected');

like(notices(subscribe_sql('s', $server, cursor => 0)),
	qr/NOTICE:\s+subscription "s" runs until the server stops\n.*HINT:.*shared_preload_libraries/s, 'the notice');
wait_for('SELECT seq = 499 FROM atproto.cursor');
is(query("SELECT atproto.subscribe('s2', '$url')"), '', 'another one');
wait_for("SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
$server->wait_for_log(request => 2);
query("SELECT atproto.unsubscribe('s2')");
wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");

# The server starts the consumer again after a crash.
my $before = query("SELECT $pid");
kill 'KILL', $before;
wait_for("SELECT $pid <> $before", gone => 1);
$server->wait_for_log(request => 3);
is(($server->cursors)[-1], '499', 'killed, it comes back and goes on');
$before = query("SELECT $pid");
query("SELECT pg_terminate_backend($before)");
wait_for("SELECT $pid <> $before AND pid = $pid FROM atproto.stat_subscription");
pass('so it does when it is terminated');
is(notices("SELECT atproto.resume('s')"), '', 'resume() of a consumer that runs starts no other');

# Another owner: the postmaster would restart the process with the rights of the former one.
query("CREATE ROLE next LOGIN SUPERUSER; UPDATE atproto.subscription SET owner = 'next'");
wait_for("SELECT count(*) = 1 AND min(usename) = 'next' FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
pass('when the subscription changes hands, the consumer runs for the next owner');

query("SELECT atproto.pause('s')");
wait_for("SELECT $pid IS NULL");
like(notices("SELECT atproto.resume('s')"), qr/NOTICE.*runs until the server stops/, 'resume() starts it again');
$server->release;
wait_for('SELECT seq = 999 FROM atproto.cursor');
wait_for("SELECT count(*) = 1 AND min(backend_type) = 'atproto consumer' FROM pg_stat_activity WHERE backend_type LIKE 'atproto%'");
pass('there is one consumer and no manager');

$node->restart;
is(query("SELECT $pid"), '', 'it does not survive a restart');
notices("SELECT atproto.resume('s')");
$server->release;
$server->restart;
wait_for("SELECT seq = $PDS_LAST FROM atproto.cursor");
is(query('SELECT events FROM atproto.cursor'), $PDS_LAST, 'every event once');
tables_match($node, $pds, 'the tables are what the oracle says');

# Another subscription takes the name while the consumer runs.
$before = query("SELECT $pid");
query(q{BEGIN; SELECT atproto.unsubscribe('s'); } . subscribe_sql('s', $server, cursor => $PDS_LAST) . '; COMMIT');
wait_for("SELECT count(*) = 1 AND min(pid) <> $before AND min(state) = 'idle' FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
pass('a process of its own serves a new subscription with the name of a removed one');

$node->stop;
done_testing();
