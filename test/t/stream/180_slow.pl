# 180_slow.pl
#		Slow servers, silent servers, a slow database: the consumer's memory stays bounded, no event is
#		lost, and a dead connection is noticed.  E-06, E-11, E-43.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use Digest::SHA qw(sha1_base64);
use IO::Socket::INET;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

my $dir        = PostgreSQL::Test::Utils::tempdir();
my @messages   = (read_capture(capture('pds.frames.gz')))[ 0 .. 99 ];
my $few        = write_capture("$dir/few", @messages[ 0 .. 9 ]);
my $part       = write_capture("$dir/part", @messages);
my $node       = make_node(
	'slow',
	init => { allows_streaming => 1 },
	conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
atproto.ping_interval = 200ms
atproto.idle_timeout = 2s
synchronous_standby_names = 'nobody'
synchronous_commit = local
EOF
my $server = AtprotoTest::Server->start($part);

# A new stream, from a server of its own, into empty tables.
sub follow
{
	my ($capture, @options) = @_;

	start_over();
	$server->stop;
	$server = AtprotoTest::Server->start($capture, @options);
	query(subscribe_sql('s', $server, cursor => 0));
	return;
}

# --- peers ---

follow($few, '--trickle', '1:50');
wait_for_seq($node, 's', 10);
is(query('SELECT events, drops FROM atproto.stat_subscription'), '10|{}', 'byte by byte: all arrives in one connection');
tables_match($node, $few, 'byte by byte: the tables are what the oracle says');

follow($part, '--stall-after', 50);
wait_for_seq($node, 's', 50);
my $bytes = query('SELECT bytes FROM atproto.stat_subscription');

# An answer to a ping takes 2 bytes; so many answers do not fit into the idle limit.
wait_for("SELECT bytes >= $bytes + 2 * 15 FROM atproto.stat_subscription");
is(query('SELECT state, drops FROM atproto.stat_subscription'), 'streaming|{}', 'E-06: a silent server that answers pings is kept');
query("SELECT atproto.pause('s')");
my ($end) = $server->wait_for_log(end => 1);
cmp_ok($end->{pings}, '>=', 15, 'it was pinged, again and again');

follow($part, '--stall-after', 50, '--ignore-pings', '--fault-times', 1);
wait_for_seq($node, 's', 100);
is(join(' ', $server->cursors), '0 50', 'E-06: one that does not answer is given up');
is(query('SELECT drops FROM atproto.stat_subscription'), '{"idle": 1}', 'and counted');
like(query('SELECT last_error FROM atproto.stat_subscription'), qr/nothing came/, 'with the reason');
($end) = $server->log('end');
cmp_ok($end->{pings}, '>', 0, 'it was asked before');

# Silence that ends before a batch is due, several times.
query($_) foreach q{ALTER SYSTEM SET atproto.batch_delay = '10s'}, q{ALTER SYSTEM SET atproto.idle_timeout = '500ms'}, 'SELECT pg_reload_conf()';
foreach my $workers (1, 2)
{
	follow($part, '--stall-after', 30, '--ignore-pings');
	query("UPDATE atproto.subscription SET workers = $workers");
	wait_for_seq($node, 's', 100);
	is(query(q{SELECT events, drops - 'idle' FROM atproto.stat_subscription}), '100|{}', "E-06: given up before a batch is due, workers $workers: each event is applied once");
	tables_match($node, $part, "E-06: given up before a batch is due, workers $workers: the tables are what the oracle says");
}
query($_) foreach 'ALTER SYSTEM RESET ALL', 'SELECT pg_reload_conf()';

# --- pings ---

my $pings = 5000;
follow($part, '--raw', '8900' x $pings . '@50', '--fault-times', 1);
wait_for_seq($node, 's', 100);
is(query('SELECT drops FROM atproto.stat_subscription'), '{}', 'a burst of pings is no fault');
query("SELECT atproto.pause('s')");
($end) = $server->wait_for_log(end => 1);
is($end->{pongs}, $pings, 'and each is answered');

# A server that sends only pings, as fast as it can, and reads nothing.
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 5) or die "cannot listen: $!";
my $port     = $listener->sockport;
setsockopt($listener, Socket::SOL_SOCKET, Socket::SO_RCVBUF, pack('i', 4096)) or die "setsockopt: $!";
my $deaf = fork // die "fork: $!";
if ($deaf == 0)
{
	local $SIG{CHLD} = 'IGNORE';
	local $SIG{PIPE} = 'IGNORE';
	while (my $client = $listener->accept)
	{
		next if fork;
		my $head = '';
		while ($head !~ /\r\n\r\n/) { sysread($client, $head, 1, length $head) or POSIX::_exit(0) }
		my ($key) = $head =~ /^Sec-WebSocket-Key: (\S+)/m;
		my $accept = sha1_base64("${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11") . '=';
		syswrite($client, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
			  . "Sec-WebSocket-Accept: $accept\r\n\r\n");
		1 while syswrite($client, ("\x89\x7d" . "x" x 125) x 500);
		POSIX::_exit(0);
	}
	POSIX::_exit(0);
}
query('DELETE FROM atproto.subscription');
query("SELECT atproto.subscribe('deaf', 'ws://127.0.0.1:$port', 0)");
my $most_of_deaf = 0;
wait_until(
	sub {
		my $kb = consumer_memory($node);
		$most_of_deaf = $kb if $kb > $most_of_deaf;
		return query('SELECT reconnects >= 2 FROM atproto.stat_subscription') eq 't';
	},
	'the ends of two deaf connections');
like(query('SELECT last_error FROM atproto.stat_subscription'), qr/does not read the answers/, 'a server that reads no answers is given up');
is(query(q{SELECT drops - 'idle' FROM atproto.stat_subscription}), '{}', 'as one that is silent');
cmp_ok($most_of_deaf, '<', $MEMORY_MAX, 'memory stays small meanwhile');
query('DELETE FROM atproto.subscription');
kill 'KILL', $deaf;
waitpid $deaf, 0;
undef $deaf;

# The limits can be changed and switched off while the consumer runs.
query($_) foreach 'ALTER SYSTEM SET atproto.idle_timeout = 0', 'ALTER SYSTEM SET atproto.ping_interval = 0',
  'SELECT pg_reload_conf()';
wait_for("SELECT setting = '0' FROM pg_settings WHERE name = 'atproto.ping_interval'");
follow($part, '--stall-after', 50, '--ignore-pings');
wait_for_seq($node, 's', 50);
query('ALTER SYSTEM SET atproto.idle_timeout = 1');
query('SELECT pg_reload_conf()');
$server->wait_for_log(request => 2);
is((map { $_->{pings} } $server->log('end'))[0], 0, 'no ping when they are switched off; a new limit holds at once');
query($_) foreach 'ALTER SYSTEM RESET ALL', 'SELECT pg_reload_conf()';

# --- a slow database ---

# Longer than the limit of a silent connection; but the consumer did not read meanwhile.
my $session = $node->background_psql('postgres');
follow($part, '--hold-at', 50, '--hold-at', 60);
wait_for_seq($node, 's', 49);
$session->query_safe('BEGIN; LOCK TABLE atproto.repo IN ACCESS EXCLUSIVE MODE');
$server->release;
wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND wait_event_type = 'Lock'");
AtprotoTest::Clock->new($node)->advance(3);
$session->query_safe('COMMIT');
wait_for_seq($node, 's', 59);
$server->release;
wait_for_seq($node, 's', 100);
is(query('SELECT events, drops FROM atproto.stat_subscription'), '100|{}', 'E-06: what is silent while a batch waits for a lock is kept');

# Events of a given size: #identity events with a large unknown field.
sub large_events
{
	my ($n, $size) = @_;
	my $filler = "\x61x\x5a" . pack('N', $size) . "\x00" x $size;

	return map {
		"\xa2\x61t\x69#identity\x62op\x01\xa4${filler}\x63did\x78\x20did:plc:ewvi7nxzyoun6zhxrhs64oiz\x63seq\x19"
		  . pack('n', 1000 + $_)
		  . "\x64time\x78\x182026-01-01T00:00:00.000Z"
	} 1 .. $n;
}

foreach ([ 400, 300_000 ], [ 30, 4_999_000 ])
{
	my ($n, $size) = @$_;
	my $large = write_capture("$dir/large", large_events($n, $size));

	query('DELETE FROM atproto.subscription');
	wait_for('SELECT count(*) = 0 FROM atproto_internal.stream_status()');
	$session->query_safe('BEGIN; LOCK TABLE atproto.repo IN ACCESS EXCLUSIVE MODE');
	$server->stop;
	$server = AtprotoTest::Server->start($large);
	query(subscribe_sql('s', $server, cursor => 0));
	wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND wait_event_type = 'Lock'");
	cmp_ok(consumer_memory($node), '<', $MEMORY_MAX, "$n events of $size bytes, a locked table: memory stays small");
	$session->query_safe('COMMIT');
	my $most = 0;
	wait_until(
		sub {
			my $kb = consumer_memory($node);
			$most = $kb if $kb > $most;
			return query('SELECT events FROM atproto.cursor') == $n;
		},
		'all large events');
	cmp_ok($most, '<', $MEMORY_MAX, "$n events of $size bytes: memory stays small");
	is(query('SELECT seq, drops FROM atproto.stat_subscription'), 1000 + $n . '|{}', "$n events of $size bytes: all arrive");
}
$session->quit;

# Commits that wait for an absent standby: only the consumer's, since the cluster's synchronous_commit is local.
query("CREATE ROLE waits LOGIN SUPERUSER; ALTER ROLE waits SET synchronous_commit = 'on'");
follow($part, '--hold-at', 50);
wait_for_seq($node, 's', 49);
query("UPDATE atproto.subscription SET owner = 'waits'");
wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND usename = 'waits'");
$server->release;
wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND wait_event = 'SyncRep'");
pass('a commit waits for a standby');
query($_) foreach "ALTER SYSTEM SET synchronous_standby_names = ''", 'SELECT pg_reload_conf()';
wait_for_seq($node, 's', 100);
is(query('SELECT events FROM atproto.cursor'), '100', 'a slow standby: every event once');
tables_match($node, $part, 'a slow standby: the tables are what the oracle says');

$node->stop;
done_testing();

END
{
	my $status = $?;
	kill 'KILL', $deaf if $deaf;
	$? = $status;
}
