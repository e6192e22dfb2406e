# 146_clock.pl
#		The time of day steps back by an hour, and forward again.  No process waits by the time
#		of day: neither a consumer for more events of a batch, before it connects again, or until a
#		silent connection is given up, nor the manager before it starts a consumer again.  All wait by
#		the monotonic clock, which the test puts forward.  After a slow transaction, the
#		consumer waits longer for more events.  E-06, E-48.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir   = PostgreSQL::Test::Utils::tempdir();
my $part  = write_capture("$dir/part", (read_capture(capture('pds.frames.gz')))[ 0 .. 99 ]);
my $hour  = 3600;
my $clock = AtprotoTest::Preload->make;    # the time of day
my $node  = make_node(
	'clock', start => $clock, conf => <<'EOF');
atproto.batch_delay = 1s
atproto.reconnect_delay = 2s
atproto.reconnect_max_delay = 2s
atproto.ping_interval = 500ms
atproto.idle_timeout = 60s
EOF

my $status = 'FROM atproto.stat_subscription';
my $waited = AtprotoTest::Clock->new($node);

my $before = query('SELECT extract(epoch FROM now())::bigint');
$clock->step(-$hour);
cmp_ok(query('SELECT extract(epoch FROM now())::bigint'), '<', $before - 3000, "the server's clock can be set");

# --- a batch ---

my $server = AtprotoTest::Server->start($part, map { ('--hold-at' => $_) } 21, 41, 61);
query(subscribe_sql('s', $server, cursor => 0));
wait_for("SELECT received >= 20 $status");
$clock->step(-$hour);
wait_for_seq($node, 's', 20);
pass('back, while a batch waits for more: it is committed');

$server->release;
wait_for("SELECT received >= 40 $status");
$clock->step(2 * $hour);
wait_for_seq($node, 's', 40);
$server->release;
wait_for_seq($node, 's', 60);
is(query("SELECT drops $status"), '{}', 'forward: the connection is not taken for a silent one');

# --- a reconnection ---

$server->stop;
wait_for("SELECT state = 'waiting' $status");
$clock->step(-$hour);
my $failures = query("SELECT reconnects $status");
wait_for("SELECT reconnects >= $failures + 3 $status");
pass('back, while the server is away: it is tried again');

# --- silence ---

$server->restart('--stall-after', 20, '--ignore-pings');
wait_for_seq($node, 's', 80);
wait_for("SELECT state = 'streaming' $status");
$clock->step(-$hour);
is(query("SELECT drops ? 'idle' $status"), 'f', 'back, while the server is silent: that is no silence');
$waited->advance(60);
wait_for("SELECT drops ? 'idle' $status");
pass('but when the limit has passed, the connection is given up');
$server->restart;
wait_for_seq($node, 's', 100);
tables_match($node, $part, 'nothing is lost, and nothing doubled');

# --- a silent server ---

query(q{SELECT atproto.pause('s')});
$server->restart('--no-upgrade-reply');
query(q{UPDATE atproto.repo SET rev = NULL; SELECT atproto.set_cursor('s', 0); SELECT atproto.resume('s')});
wait_for("SELECT state = 'connecting' $status");
$server->wait_for_log(request => 1);
my $idle = query("SELECT coalesce((drops->>'idle')::integer, 0) $status");
$clock->step(-$hour);
is(query("SELECT coalesce((drops->>'idle')::integer, 0) - $idle $status"), '0', 'back, while an answer is awaited: it still is');
$waited->advance(30);
wait_for("SELECT coalesce((drops->>'idle')::integer, 0) > $idle $status");
like(query("SELECT last_error $status"), qr/does not answer/, 'but when its limit has passed, the connection is given up');
$server->restart;
wait_for_seq($node, 's', 100);

# --- consumers ---

foreach my $attempt (1 .. 3)
{
	my $pid = query("SELECT pid $status");
	query("SELECT pg_terminate_backend($pid)");
	wait_for("SELECT pid IS DISTINCT FROM $pid $status");
	$clock->step(-$hour);
	$waited->advance(60);
	wait_for("SELECT state = 'streaming' $status");
}
pass('back, while the manager waits before it starts a consumer again: it does');

# --- slow transactions: one takes nine seconds, by its process' clock ---

query('DELETE FROM atproto.subscription');
$server->stop;
$server = AtprotoTest::Server->start($part, map { ('--hold-at' => $_) } 21, 41);
query(<<'EOS');
CREATE SCHEMA slow;
SELECT atproto.create_tables('slow');
CREATE FUNCTION slow.take_time() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	PERFORM set_config('atproto.test_monotonic_ahead', (setting::integer + 9000)::text, false) FROM pg_settings WHERE name = 'atproto.test_monotonic_ahead';
	RETURN NULL; END $$;
CREATE TRIGGER take_time AFTER INSERT ON slow.repo EXECUTE FUNCTION slow.take_time();
EOS
query(subscribe_sql('slow', $server, cursor => 0, target => q{'slow'}));
query(subscribe_sql('quick', $server, cursor => 0));
wait_for_seq($node, $_, 20) foreach 'slow', 'quick';
$server->release;
wait_for("SELECT received >= 40 $status WHERE name = 'slow'");
wait_for_seq($node, 'quick', 40);
is(query(q{SELECT seq FROM atproto.cursor WHERE subscription = 'slow'}), '20', 'after a slow transaction, events wait longer for others');
wait_for_seq($node, 'slow', 40);

$node->stop;
done_testing();
