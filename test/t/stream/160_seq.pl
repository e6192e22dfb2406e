# 160_seq.pl
#		Sequence numbers and cursors: repeats that the protocol allows, holes, wrong order, cursors that are
#		too old or in the future, streams without a cursor, and a new URL, for which the old cursor does not
#		count.  D13, E-03, E-40 to E-47.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $last     = 100;
my $dir      = PostgreSQL::Test::Utils::tempdir();
my @messages = (read_capture(capture('pds.frames.gz')))[ 0 .. $last - 1 ];
my $part     = write_capture("$dir/part", @messages);
my $node     = make_node(
	'seq', conf => <<'EOF');
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
EOF
my $server = AtprotoTest::Server->start($part);

# A new server, to which no earlier consumer connects.
sub serve
{
	my (@options) = @_;

	query('DELETE FROM atproto.subscription');
	wait_for('SELECT count(*) = 0 FROM atproto_internal.stream_status()');
	$server->restart(@options);
	return;
}

# A new subscription with this cursor, to a server with these options.
sub follow
{
	my ($cursor, @options) = @_;

	serve(@options);
	query('TRUNCATE atproto.record, atproto.repo');
	query(subscribe_sql('s', $server, cursor => $cursor));
	return;
}

sub cursors
{
	return join ' ', map { $_ // 'none' } $server->cursors;
}

# --- the overlap (D13) ---

follow(0, '--inclusive', '--cut-after', 20);
wait_for_seq($node, 's', $last);
is(cursors(), '0 20 39 58 77 96', 'D13: servers that send the last event again, after each cut');
is(query('SELECT events, drops FROM atproto.stat_subscription'), qq($last|{"closed": 5}),
	'it is skipped without a word');
tables_match($node, $part, 'the tables are what the oracle says');

# The same with several workers, and servers that send the events after the cursor alone (E-43): the cursor is the lowest of the workers'.
foreach my $inclusive ([], ['--inclusive'])
{
	serve(@$inclusive, '--cut-after', 20);
	query('TRUNCATE atproto.record, atproto.repo');
	query(subscribe_sql('s', $server, cursor => 0, workers => 3));
	wait_for_seq($node, 's', $last);
	is(query("SELECT events FROM atproto.stat_subscription"), $last,
		"D13: 3 workers, @{[ @$inclusive ? 'with' : 'without' ]} the event at the cursor: each event counts once");
	tables_match($node, $part, 'the tables are what the oracle says');
}

my $fifty = write_capture("$dir/fifty", $messages[49]);
serve('--inclusive', '--fault-times', 1, '--inject', "$fifty\@51");
query(subscribe_sql('s', $server, cursor => 50));
wait_for_seq($node, 's', $last);
is(cursors(), '50 50', 'but only once');
is(query('SELECT stage, seq, bytes = $$\x' . unpack('H*', $messages[49]) . '$$ FROM atproto.dead_letter JOIN atproto.dead_frame f USING (subscription, digest)'),
	'frame|50|t', 'the second time it is a fault');

# --- holes and order ---

my $holes = write_capture("$dir/holes", @messages[ 0 .. 38, 60 .. 99 ]);
follow(0, '--skip-from', 40, '--skip-to', 60);
wait_for_seq($node, 's', $last);
is(query('SELECT events, drops FROM atproto.stat_subscription'), '79|{}', 'E-41: numbers may be left out');
tables_match($node, $holes, 'the tables are what the oracle says of the rest', modes => [ 'record', 'repo', 'count' ]);

my $without = write_capture("$dir/without", @messages[ 0 .. 48, 50 .. 99 ]);
follow(0, '--swap-at', 50, '--fault-times', 1);
wait_for_seq($node, 's', $last);
is(cursors(), '0 51', 'E-41: an event that is late is not processed, the connection dropped');
is(query('SELECT stage, seq, bytes = $$\x' . unpack('H*', $messages[49]) . '$$ FROM atproto.dead_letter JOIN atproto.dead_frame f USING (subscription, digest)'),
	'frame|51|t', 'it is kept');
tables_match($node, $without, 'the tables are what the oracle says without it');

# --- cursors that the server cannot serve ---

follow(1000);
wait_for('SELECT stopped IS NOT NULL FROM atproto.subscription');
like(query('SELECT stopped FROM atproto.subscription'), qr/FutureCursor/, 'E-45: FutureCursor stops the subscription');
query("SELECT atproto.resume('s')");
$server->wait_for_log(request => 2);
wait_for('SELECT stopped IS NOT NULL FROM atproto.subscription');
is(cursors(), '1000 1000', 'again when it is resumed as it was');
is(query('SELECT seq, events FROM atproto.cursor'), '1000|0', 'its cursor stays');
query("SELECT atproto.set_cursor('s', 50); SELECT atproto.resume('s')");
wait_for_seq($node, 's', $last);
is(cursors(), '1000 1000 50', 'it goes on when somebody has set the cursor');

follow(30, '--oldest', 60);
wait_for_seq($node, 's', $last);
is(query('SELECT endpoint = (SELECT endpoint FROM atproto.subscription), after_seq, before_seq, reason FROM atproto.gap'),
	't|30|60|OutdatedCursor', 'E-44: OutdatedCursor is a gap');
is(query('SELECT s.events, drops, stopped IS NULL FROM atproto.stat_subscription s JOIN atproto.subscription USING (name)'),
	'41|{}|t', 'after which the stream goes on');
follow(0, '--oldest', 60);
wait_for_seq($node, 's', $last);
is(query('SELECT count(*) FROM atproto.gap'), '0', 'from the oldest there is no gap');

# A server that says OutdatedCursor without reason.
my $info = write_capture("$dir/info", "\xa2\x61t\x65#info\x62op\x01\xa1\x64name\x6eOutdatedCursor");
follow(0, '--inject', "$info\@0");
wait_for_seq($node, 's', $last);
is(query('SELECT events, (SELECT count(*) FROM atproto.gap) FROM atproto.cursor'), "$last|0", 'whatever the server says');

follow(0, '--error', 'ConsumerTooSlow@70', '--fault-times', 2);
wait_for_seq($node, 's', $last);
is(cursors(), '0 69 69', 'E-46: ConsumerTooSlow connects again');
tables_match($node, $part, 'the tables are what the oracle says');

# --- no cursor ---

follow('NULL', '--live-start', 50, '--cut-after', 20);
wait_for_seq($node, 's', $last);
is(cursors(), 'none 70 90', 'E-44: without a cursor from the present on, then from what was seen');
is(query('SELECT events FROM atproto.cursor'), '50', 'each event once');
is(query('SELECT count(*) FROM atproto.gap'), '0', 'that is no gap');

# --- the scope of a cursor ---

my $second = AtprotoTest::Server->start($part, '--live-start', 90);
my $url    = $second->url;
follow(0, '--hold-at', 60);
wait_for('SELECT seq = 59 FROM atproto.cursor');
query("UPDATE atproto.subscription SET url = '$url?a=b&cursor=7&c=d'");
wait_for("SELECT seq = $last FROM atproto.stat_subscription");
my ($request) = $second->log('request');
is($request->{query}, 'a=b&c=d', 'E-47: another URL begins without a cursor; its parameters are kept, but not a cursor');
is(query('SELECT seq, events FROM atproto.cursor ORDER BY seq'), "59|59\n$last|10", 'the first one keeps its own');
query("UPDATE atproto.subscription SET url = '$url?x=y'");
$second->wait_for_log(request => 2);
is(($second->log('request'))[1]->{query}, "x=y&cursor=$last", 'other parameters do not change the scope');
$url = $server->url;
query("UPDATE atproto.subscription SET url = replace('$url', 'ws:', 'WS:')");
$server->release;
wait_for("SELECT seq = $last AND events = $last FROM atproto.stat_subscription");
is(cursors(), '0 59', 'back at the first URL it goes on where it was');
tables_match($node, $part, 'the tables are what the oracle says');

# --- large numbers ---

my $time = "\x64time\x78\x182026-01-01T00:00:00.000Z";
my @large = map {
	"\xa2\x61t\x69#identity\x62op\x01\xa3\x63did\x78\x20did:plc:ewvi7nxzyoun6zhxrhs64oiz\x63seq\x1b" . pack('Q>', $_) . $time
} 2**32, 2**32 + 1, 2**53 - 2, 2**53 - 1;
my $large = AtprotoTest::Server->start(write_capture("$dir/large", @large), '--cut-after', 1);
query('DELETE FROM atproto.subscription; ' . subscribe_sql('l', $large, cursor => 0));
wait_for_seq($node, 'l', 2**53 - 1);
$large->wait_for_log(request => 5);
is(join(' ', ($large->cursors)[ 0 .. 4 ]), '0 4294967296 4294967297 9007199254740990 9007199254740991',
	'E-40: sequence numbers up to 2^53 - 1');
is(query('SELECT seq, events FROM atproto.cursor'), '9007199254740991|4', 'are stored exactly');

$node->stop;
done_testing();
