# 110_bad_frames.pl
#		Each class of frame that is no event-stream frame comes in mid-stream.  The consumer drops the
#		connection, has committed the earlier events, keeps the frame in a table for the operator, and
#		continues at its cursor.  After five bad frames at the same place the subscription stops.  E-10,
#		E-11, E-20, E-21, E-24, E-28, E-40, E-41, E-46, E-48.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $last  = 100;    # messages of the stream
my $place = 50;     # the fault comes before this one
my $dir   = PostgreSQL::Test::Utils::tempdir();
my $part  = write_capture("$dir/part", (read_capture(capture('pds.frames.gz')))[ 0 .. $last - 1 ]);
my $node  = make_node(
	'bad_frames', conf => <<'EOF');
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
EOF
my $server = AtprotoTest::Server->start($part);

# One stream with faults.  Returns the cursors that the consumer asked for, and keeps the subscription.
sub stream
{
	my ($name, @options) = @_;

	start_over();
	$server->restart(@options);
	query(subscribe_sql($name, $server, cursor => 0));
	wait_for_seq($node, $name, $last);
	return join ' ', $server->cursors;
}

sub dead_letters
{
	return query("SELECT stage, seq, path, sqlstate, attempts, encode(bytes, 'hex'),
		digest = sha256(bytes), last_at >= first_at FROM atproto.dead_letter JOIN atproto.dead_frame f USING (subscription, digest)");
}

# --- kept frames ---

my $header = "\xa2\x61t\x69#identity\x62op\x01";
my $time   = "\x64time\x78\x182026-01-01T00:00:00.000Z";
my $did    = "\x63did\x78\x20did:plc:ewvi7nxzyoun6zhxrhs64oiz";

sub identity
{
	my ($seq) = @_;
	return "$header\xa3$did\x63seq$seq$time";
}

# name, frame, pattern of the reason, kind of drop
my @frames = (
	[ 'nothing',           '',                                  qr/empty/,                'frame' ],
	[ 'text',              'some bytes of text',                qr/cut short|larger|map/, 'frame' ],
	[ 'header only',       $header,                             qr/payload/,              'frame' ],
	[ 'payload cut short', substr(identity("\x18\x3c"), 0, -1), qr/cut short|larger/,     'frame' ],
	[ 'trailing byte',     identity("\x18\x3c") . "\x00",       qr/follow/,               'frame' ],
	[ 'third object',      identity("\x18\x3c") . "\xa0",       qr/follow/,               'frame' ],
	[ 'payload no map',    "$header\x80",                       qr/map/,                  'frame' ],
	[ 'keys out of order', "$header\xa2${time}${did}",          qr/order/,                'frame' ],
	[ 'key twice',         "$header\xa2${did}${did}",           qr/repeated/,             'frame' ],
	[ 'long integer',      identity("\x19\x00\x3c"),            qr/shortest/,             'frame' ],
	[ 'indefinite map',    "$header\xbf${did}\xff",             qr/indefinite/,           'frame' ],
	[ 'op missing',        "\xa1\x61t\x69#identity\xa0",        qr/op/,                   'frame' ],
	[ 'seq missing',       "$header\xa2${did}${time}",          qr/seq/,                  'seq' ],
	[ 'seq 0',             identity("\x00"),                    qr/seq/,                  'seq' ],
	[ 'seq 2^53',          identity("\x1b\x00\x20" . "\x00" x 6), qr/seq/,                'seq' ],
	[ 'seq of the last',   identity("\x18\x31"),                qr/seq/,                  'seq' ],
	[ 'seq before',        identity("\x01"),                    qr/seq/,                  'seq' ]);

foreach (@frames)
{
	my ($name, $bytes, $reason, $kind) = @$_;
	my $file = write_capture("$dir/frame", $bytes);
	my $before = $place - 1;

	subtest $name => sub {
		is(stream($name, '--fault-times', 1, '--inject', "$file\@$place"),
			"0 $before", 'dropped, and connected again from the last good event');
		is(dead_letters(), join('|', 'frame', $before, '', '22P03', 1, unpack('H*', $bytes), 't', 't'),
			'the frame is kept');
		like(query('SELECT message FROM atproto.dead_letter'), $reason, 'with the reason');
		is(query('SELECT drops, reconnects, events FROM atproto.stat_subscription'),
			qq({"$kind": 1}|1|$last), 'and counted');
		tables_match($node, $part, 'the tables are what the oracle says');
	};
}

# --- others ---

foreach (
	# name, options, drops, cursors
	[ 'a text message', [ '--text-at',    $place ],              'websocket',   '0 49' ],
	[ 'garbage',        [ '--garbage-at', $place ],              'websocket',   '0 49' ],
	[ 'too large',      [ '--oversize',   "5000001\@$place" ],   'too large',   '0 49' ],
	[ 'error frame',    [ '--error',      "SomeError\@$place" ], 'error frame', '0 49' ],
	[ 'cut in a frame', [ '--cut-after', 49, '--cut-inside', 7, '--cut-times', 1 ], 'closed', '0 49' ],
	[ 'message twice',  [ '--dup-at',   $place ],                'seq',         '0 50' ],
	[ 'the limit',      [ '--oversize', "5000000\@$place" ],     undef,         '0' ],
	[ 'fragments',      [ '--fragment', 99, '--ping-at', $place ], undef,       '0' ])
{
	my ($name, $options, $kind, $cursors) = @$_;

	subtest $name => sub {
		is(stream($name, '--fault-times', 1, @$options), $cursors, 'connections');
		is(query('SELECT drops, events FROM atproto.stat_subscription'),
			($kind ? qq({"$kind": 1}) : '{}') . "|$last", 'drops');
		is(query('SELECT count(*) FROM atproto.dead_letter'),
			$kind && $kind eq 'seq' ? '1' : '0', 'dead letters');
		tables_match($node, $part, 'the tables are what the oracle says');
	};
}

# --- the same place again and again ---

my $file = write_capture("$dir/frame", 'bad');
my @bad  = ('--inject', "$file\@$place");

is(stream('four', '--fault-times', 4, @bad), '0 49 49 49 49', 'E-48: it goes on after four drops at one place');
start_over();
$server->restart(@bad);
query(subscribe_sql('five', $server, cursor => 0));
$node->poll_query_until('postgres', 'SELECT stopped IS NOT NULL FROM atproto.subscription')
  or BAIL_OUT('the subscription does not stop');
is(join(' ', $server->cursors), '0 49 49 49 49', 'after five it stops');
like(query('SELECT stopped FROM atproto.subscription'),
	qr/^dropped 5 times after event 49: /, 'and says why');
like(query('SELECT state, last_error, last_error_at = stopped_at FROM atproto.stat_subscription JOIN atproto.subscription USING (name)'),
	qr/^stopped\|dropped 5 times after event 49: .*\|t$/, 'in the status too');
is(query("SELECT attempts, encode(bytes, 'escape'), last_at > first_at FROM atproto.dead_letter JOIN atproto.dead_frame f USING (subscription, digest)"),
	'5|bad|t', 'the frame is kept once');
tables_match($node, $part, 'what came before is committed', args => [ '--last', $place - 1 ]);

$server->restart;
query("SELECT atproto.resume('five')");
wait_for_seq($node, 'five', $last);
is(join(' ', $server->cursors), '49', 'atproto.resume() continues there');
is(query('SELECT stopped, stopped_at FROM atproto.subscription'), '|', 'the reason is gone');
tables_match($node, $part, 'and the tables are what the oracle says');

$node->stop;
done_testing();
