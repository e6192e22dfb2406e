# 145_network.pl
#		Ways to the server: IPv6, a name that does not resolve, a closed port, and proxies.  The consumer
#		connects, or keeps trying and shows the reason.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use IO::Select;
use IO::Socket::IP;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

my $last = 300;
my $dir  = PostgreSQL::Test::Utils::tempdir();
my $part = write_capture("$dir/part", (read_capture(capture('pds.frames.gz')))[ 0 .. $last - 1 ]);
my $path = '/xrpc/com.atproto.sync.subscribeRepos';

# A no_proxy in the environment does not switch off a proxy named by the subscription.
$ENV{no_proxy} = '*';
my $node = make_node(
	'network', conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
EOF

# --- IPv6 ---

SKIP:
{
	my $probe = IO::Socket::IP->new(LocalHost => '::1', LocalPort => 0, Listen => 1);

	skip 'no IPv6 here', 2 unless $probe;
	my $server = AtprotoTest::Server->start($part, '--bind', '::1');
	my $port = $server->port;
	query("SELECT atproto.subscribe('six', 'ws://[::1]:$port', 0)");
	wait_for_seq($node, 'six', $last);
	tables_match($node, $part, 'through IPv6');
	like(($server->log)[0]{headers}[0][1], qr/^\[::1\]:$port$/, 'the Host header has the address in brackets');
	query(q{SELECT atproto.unsubscribe('six'); TRUNCATE atproto.record, atproto.repo});
}

# --- nobody there ---

# A name reserved for failing look-ups (RFC 6761).
query("SELECT atproto.subscribe('nowhere', 'wss://nowhere.invalid$path', 0)");
wait_for(q{SELECT reconnects >= 3 FROM atproto.stat_subscription WHERE name = 'nowhere'});
like(query(q{SELECT last_error FROM atproto.stat_subscription WHERE name = 'nowhere'}), qr/resolve host.*nowhere\.invalid/,
	'a name that does not resolve is tried again, and said');
is(query(q{SELECT drops - 'connect' FROM atproto.stat_subscription WHERE name = 'nowhere'}), '{}', 'it counts as connect');
query(q{SELECT atproto.unsubscribe('nowhere')});

my $closed = IO::Socket::IP->new(LocalHost => '127.0.0.1', LocalPort => 0, Listen => 1);
my $nobody = $closed->sockport;
close $closed;
query("SELECT atproto.subscribe('closed', 'ws://127.0.0.1:$nobody', 0)");
wait_for(q{SELECT reconnects >= 3 FROM atproto.stat_subscription WHERE name = 'closed'});
like(query(q{SELECT last_error FROM atproto.stat_subscription WHERE name = 'closed'}), qr/connect to 127\.0\.0\.1/, 'so is a refused connection');
is(query(q{SELECT stopped IS NULL FROM atproto.subscription WHERE name = 'closed'}), 't', 'it never stops for that');
query(q{SELECT atproto.unsubscribe('closed')});

# --- a proxy ---

# A proxy that only knows CONNECT, and notes the requested address.
my $listener = IO::Socket::IP->new(LocalHost => '127.0.0.1', LocalPort => 0, Listen => 5) or die "no proxy: $!";
my $proxy_port = $listener->sockport;
my $seen = "$dir/seen";
my $proxy = fork // die "fork: $!";
if ($proxy == 0)
{
	local $SIG{CHLD} = 'IGNORE';
	while (my $client = $listener->accept)
	{
		next if fork;
		my $head = '';
		while ($head !~ /\r\n\r\n/) { sysread($client, $head, 1, length $head) or POSIX::_exit(0) }
		my ($target) = $head =~ m{^CONNECT (\S+) HTTP/1};
		open my $f, '>>', $seen;
		print $f defined $target ? "$target\n" : "not CONNECT: $head\n";
		close $f;
		my $server = IO::Socket::IP->new(PeerAddr => $target) or POSIX::_exit(1);
		syswrite($client, "HTTP/1.1 200 Connection established\r\n\r\n");
		my $both = IO::Select->new($client, $server);
		while (my @ready = $both->can_read)
		{
			for my $from (@ready)
			{
				sysread($from, my $bytes, 65536) or POSIX::_exit(0);
				syswrite($from == $client ? $server : $client, $bytes);
			}
		}
	}
	POSIX::_exit(0);
}

my $server = AtprotoTest::Server->start($part);
my $port = $server->port;
query("SELECT atproto.subscribe('proxied', 'ws://127.0.0.1:$port', 0, proxy => 'http://127.0.0.1:$proxy_port')");
wait_for_seq($node, 'proxied', $last);
tables_match($node, $part, 'through a proxy');
is(slurp_file($seen), "127.0.0.1:$port\n", 'which was asked once, for a tunnel');

query(q{SELECT atproto.unsubscribe('proxied')});

# --- no proxies ---

foreach (
	[ 'socks5h://localhost/var/run/postgresql/.s.PGSQL.5432', 'a path to a socket' ],
	[ 'socks5://u:p@localhost/s',                             'the same with a password' ],
	[ 'file:///etc/passwd',                                   'a file' ],
	[ 'ftp://localhost',                                      'another scheme' ],
	[ 'http://[::1',                                          'no URL' ])
{
	my ($url, $what) = @$_;
	my (undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nSELECT atproto.subscribe('bad', 'wss://localhost:1', proxy => '$url')");

	like($stderr, qr/ERROR:  22023/, "$what is no proxy");
}
foreach my $good ('proxy.invalid:3128', 'http://u:p@proxy.invalid:3128/', 'https://proxy.invalid', 'socks5://proxy.invalid', 'socks4a://[::1]:1080', '')
{
	is(query("BEGIN; SELECT atproto.subscribe('good', 'wss://localhost:1', proxy => '$good'); ROLLBACK"), '', "'$good' is one");
}

# --- hostile ones ---

# A listener that treats each connection with this function.
my @hostile;

sub hostile
{
	my ($what) = @_;
	my $socket = IO::Socket::IP->new(LocalHost => '127.0.0.1', LocalPort => 0, Listen => 5) or die "no listener: $!";
	my $pid = fork // die "fork: $!";

	if ($pid == 0)
	{
		local $SIG{PIPE} = 'IGNORE';
		while (my $client = $socket->accept) { $what->($client) }
		POSIX::_exit(0);
	}
	push @hostile, $pid;
	return $socket->sockport;
}

# Negotiating Kerberos, libcurl waits for the proxy with the whole process.
my $greeting = "$dir/greeting";
my $socks_port = hostile(
	sub {
		my ($client) = @_;
		my $n = sysread($client, my $bytes, 100);
		open my $f, '>>', $greeting;
		print $f unpack('H*', $bytes), "\n";
		close $f;
		syswrite($client, "\x05\x01");
		sysread($client, $bytes, 100);
	});
query("SELECT atproto.subscribe('socks', 'ws://127.0.0.1:$port', proxy => 'socks5://127.0.0.1:$socks_port')");
wait_for(q{SELECT reconnects > 0 FROM atproto.stat_subscription WHERE name = 'socks'});
like(slurp_file($greeting), qr/\A(050100\n)+\z/, 'a SOCKS proxy is offered no Kerberos');
query(q{SELECT atproto.unsubscribe('socks')});

# Bytes that libcurl reads and discards in a loop, as long as more arrive.
my $flood_port = hostile(
	sub {
		my ($client) = @_;
		sysread($client, my $bytes, 10000);
		syswrite($client, "HTTP/1.1 407 No\r\nContent-Length: 1000000000000\r\n\r\n");
		1 while syswrite($client, 'x' x 1_000_000);
	});
query("SELECT atproto.subscribe('flood', 'ws://127.0.0.1:$port', proxy => 'http://127.0.0.1:$flood_port')");
wait_for(q{SELECT reconnects > 0 FROM atproto.stat_subscription WHERE name = 'flood'});
like(query(q{SELECT last_error FROM atproto.stat_subscription WHERE name = 'flood'}), qr/sends too much/, 'a proxy that sends without end is given up');
query(q{SELECT atproto.unsubscribe('flood')});
wait_for(q{SELECT count(*) = 0 FROM atproto_internal.stream_status()});
pass('their consumers can be ended');

done_testing();

END
{
	my $status = $?;
	kill 'KILL', @hostile if @hostile;
	kill 'KILL', $proxy if $proxy;
	$? = $status;
}
