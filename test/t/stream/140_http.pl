# 140_http.pl
#		Servers answer the request for a stream with something else: every HTTP status, redirects, bodies of
#		any kind, answers that are no upgrade, no answer; or no server listens.  The consumer retries, waits
#		or stops as the status asks, and shows the reason.  E-02, E-04, E-05, E-48.
#
#		Each subscription has a separate server, and all run at once.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use POSIX qw(strftime setlocale LC_TIME);
use PostgreSQL::Test::Utils;
use Test::More;

my $day  = 24 * 3600;
my $dir  = PostgreSQL::Test::Utils::tempdir();
my $part = write_capture("$dir/part", (read_capture(capture('pds.frames.gz')))[ 0 .. 9 ]);
my $node = make_node(
	'http', conf => <<'EOF');
max_worker_processes = 90
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
EOF
my $html   = "$dir/html";
my $target = AtprotoTest::Server->start($part);
PostgreSQL::Test::Utils::append_to_file($html, "<html>\r\n<b\tid=\"\x{1b}[31m\xff\">Caf\xc3\xa9</b>" . "x" x 5000);

setlocale(LC_TIME, 'C');

sub http_date
{
	my ($seconds) = @_;
	return strftime('%a, %d %b %Y %H:%M:%S GMT', gmtime(time + $seconds));
}

# name => [ reaction, options of the server ].  Reaction: 'stops'; 'goes on' with the next attempt; or the least
# and the most delay in seconds.
my @refused = (600, 601);
my %case = (
	(map { ("status $_" => [ 'stops', '--status', $_ ]) } 405, 426, 501),
	(map { ("status $_" => [ [@refused], '--status', $_ ]) } 200, 204, 400, 401, 403, 404, 413, 418, 451, 505, 599),
	(map { ("status $_" => [ 'goes on', '--status', $_, '--status-times', 3 ]) } 429, 500, 502, 503, 504),
	(map { ("redirect $_" => [ [@refused], '--status', $_, '--redirect', $target->url ]) } 301, 302, 307, 308),
	'retry soon'         => [ [ 1, 2 ], '--status', 503, '--retry-after', 1, '--status-times', 1 ],
	'retry later'        => [ [ 7200, 7201 ], '--status', 429, '--retry-after', 7200 ],
	'retry at a date'    => [ [ 3500, 3601 ], '--status', 429, '--retry-after', http_date(3600) ],
	'retry in the past'  => [ 'goes on', '--status', 503, '--retry-after', http_date(-3600), '--status-times', 2 ],
	'retry at once'      => [ 'goes on', '--status', 503, '--retry-after', 0, '--status-times', 2 ],
	'retry who knows'    => [ 'goes on', '--status', 503, '--retry-after', 'soon', '--status-times', 2 ],
	'retry in a year'    => [ [ $day, $day + 1 ], '--status', 503, '--retry-after', 365 * $day ],
	'retry in 2112'      => [ [ $day, $day + 1 ], '--status', 503, '--retry-after', 'Thu, 01 Dec 2112 16:00:00 GMT' ],
	'retry after eons'   => [ 'goes on', '--status', 503, '--retry-after', '99999999999999999999', '--status-times', 1 ],
	'a page of HTML'     => [ 'goes on', '--status', 503, '--body', $html, '--status-times', 1 ],
	'a huge body'        => [ 'goes on', '--status', 503, '--body-size', 50_000_000, '--status-times', 1 ],
	'no body'            => [ [@refused], '--status', 400, '--body', '/dev/null' ],
	'a slow good answer' => [ 'goes on', '--trickle', '20:1000' ],
	'early hints'        => [ 'goes on', '--interim', 1 ],
	'many early hints'   => [ 'goes on', '--interim', 8 ],
	'hints, then busy'   => [ 'goes on', '--interim', 2, '--status', 503, '--status-times', 1 ],
	'nothing but hints'  => [ 'stops', '--interim', 9 ],
	'bad accept'         => [ 'stops', '--bad-accept' ],
	'no answer'          => [ 'idle', '--no-upgrade-reply' ],
	'an endless answer'  => [ 'idle', '--trickle', '1:400000' ]);

my %server;
foreach my $name (sort keys %case)
{
	my (undef, @options) = @{ $case{$name} };
	$server{$name} = AtprotoTest::Server->start($part, @options);
	$node->safe_psql('postgres', subscribe_sql($name, $server{$name}, cursor => 0));
}
$node->safe_psql('postgres', "SELECT atproto.subscribe('no server', 'ws://127.0.0.1:1');
	SELECT atproto.subscribe('no name', 'wss://host.invalid');
	SELECT atproto.subscribe('no TLS', 'wss://localhost:" . AtprotoTest::Server->start($part)->port . "')");

# The delays, in seconds, from the log.
sub delays
{
	my ($name) = @_;
	my $log = slurp_file($node->logfile);

	return map { $_ / 1000 }
	  $log =~ /subscription "\Q$name\E" disconnected.*\n.*DETAIL: .*trying again in (\d+) ms/g;
}

sub status
{
	my ($name, $columns) = @_;
	return $node->safe_psql('postgres', "SELECT $columns FROM atproto.stat_subscription WHERE name = '$name'");
}

foreach my $name (sort keys %case)
{
	my ($what, %options) = (shift @{ $case{$name} }, '--status' => 0, @{ $case{$name} }, (@{ $case{$name} } % 2 ? undef : ()));

	next if $what eq 'idle';
	if (ref $what)
	{
		my ($least, $most) = @$what;
		wait_until(sub { delays($name) > 0 }, "the delay of $name");
		my ($delay) = delays($name);
		ok($delay >= $least && $delay <= $most, "$name: tries again after $least seconds") or diag($delay);
		like(status($name, 'last_error'), qr/^HTTP status $options{'--status'} /, "$name: the reason");
	}
	elsif ($what eq 'stops')
	{
		wait_until(sub { status($name, 'state') eq 'stopped' }, "the stop of $name");
		pass("$name: stops");
	}
	else
	{
		wait_for_seq($node, $name, 10);
		is(scalar(delays($name)), $options{'--status-times'} // 0, "$name: goes on");
	}
}

foreach (405, 426, 501)
{
	is(scalar($server{"status $_"}->cursors), 1, "status $_: one attempt");
	like(status("status $_", 'last_error'), qr/^HTTP status $_ /, "status $_: the reason");
}
is_deeply([ $target->log ], [], 'no redirect was followed');
is(scalar($server{'bad accept'}->cursors), 5, 'bad accept: five attempts');
like(status('bad accept', 'last_error'), qr/no WebSocket upgrade/, 'bad accept: the reason');
like(status('nothing but hints', 'last_error'), qr/Too many interim responses/, 'nothing but hints: the reason');
wait_for_seq($node, 'retry soon', 10);
pass('retry soon: goes on');
is(status($_, 'drops'), '{"http": 3}', "$_: counted") foreach 'status 503', 'status 429';

my ($page) = slurp_file($node->logfile) =~ /"a page of HTML" disconnected[^\n]*HTTP status 503 ([^\n]*)/;
like($page, qr/: Caf\?\? x+$/, 'a page of HTML: its text is shown, made harmless');
cmp_ok(length $page, '<', 1000, 'a page of HTML: cut');

foreach (
	[ 'no server', qr/refused|connect/i,             'connect' ],
	[ 'no name',   qr/resolve/i,                     'connect' ],
	[ 'no TLS',    qr/SSL|TLS|timed out|timeout/i,   'connect' ],
	[ 'no answer', qr/the server does not answer/,   'idle' ],
	[ 'an endless answer', qr/the server does not answer/, 'idle' ])
{
	my ($name, $error, $kind) = @$_;

	$node->poll_query_until('postgres', "SELECT reconnects > 0 FROM atproto.stat_subscription WHERE name = '$name'");
	like(status($name, 'last_error'), $error, "$name: the reason");
	like(status($name, 'drops'), qr/^\{"$kind": \d+\}$/, "$name: counted");
}

$node->stop;
done_testing();
