# 210_messages.pl
#		Streams of a lexicon that the extension does not know.  Every message becomes a row of the table
#		message, as jsonb: exactly once where messages have a seq, and without resumption where they have
#		none (D30).  E-22, E-41, E-43, E-44, D28.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $nsid = 'com.example.stream.subscribeEvents';
my $node = make_node(
	'messages', conf => <<'EOF');
atproto.reconnect_delay = 1ms
atproto.reconnect_max_delay = 100ms
EOF

sub wait_for_events
{
	my ($name, $n) = @_;
	$node->poll_query_until('postgres', "SELECT coalesce(sum(events), 0) >= $n FROM atproto.cursor WHERE subscription = '$name'")
	  or BAIL_OUT("timed out waiting for $n events of $name");
	return;
}

# Rows whose bytes are not the payload of the message with their seq.
sub wrong_bytes
{
	my ($messages, $rows) = @_;
	my %message = map { 2 * $_ + 2 => $messages->[$_] } 0 .. $#$messages;

	return grep {
		my ($seq, $type, $hex) = split /\|/;
		my $raw = pack 'H*', $hex;
		$message{$seq} ne "\xa2\x61t" . chr(0x60 + length $type) . $type . "\x62op\x01" . $raw;
	} split /\n/, $rows;
}

# --- with seq ---

my $n        = 3000;
my $capture  = make_capture('streams.py', 'events', $n);
my @messages = read_capture($capture);
my $server   = AtprotoTest::Server->start($capture, '--cut-after', 170, '--cut-inside', 40, '--dup-at', 3000, '--fault-times', 12);
query(subscribe_sql('events', $server, nsid => $nsid, cursor => 0));
wait_for_seq($node, 'events', 2 * $n);
tables_match($node, $capture, 'the table is what the oracle says', modes => ['message']);
is(query('SELECT count(*), count(DISTINCT seq), count(DISTINCT id), min(subscription), max(subscription) FROM atproto.message'),
	"$n|$n|$n|events|events", 'E-43: each message is there once');
is(query('SELECT events, record_ops, seq FROM atproto.cursor'), join('|', $n, $n, 2 * $n), 'and counted once');
my @cursors = $server->cursors;
cmp_ok(scalar @cursors, '>=', $n / 170, 'through many connections');
is(scalar(grep { $_ % 2 } @cursors), 0, 'each from the last message');
is(query(q{SELECT drops->'seq' FROM atproto.stat_subscription}), '1', 'E-41: one was dropped for a message that came twice');
is(query('SELECT stage, seq FROM atproto.dead_letter'), 'frame|3000', 'which is kept');

# D28
my $nul = int($n / 50);
is(query('SELECT count(*), count(raw) FROM atproto.message WHERE payload IS NULL'), "$nul|$nul", 'what jsonb cannot hold is kept as bytes');
is(query('SELECT count(raw) FROM atproto.message WHERE payload IS NOT NULL'), '0', 'and nothing else');
is(scalar(wrong_bytes(\@messages, query(q{SELECT seq, type, encode(raw, 'hex') FROM atproto.message WHERE raw IS NOT NULL}))),
	0, 'the bytes are those of the payload');

# --- with their bytes ---

query("SELECT atproto.unsubscribe('events'); TRUNCATE atproto.message");
$server->restart;
query(subscribe_sql('raw', $server, nsid => $nsid, cursor => 0, keep_raw => 'true'));
wait_for_seq($node, 'raw', 2 * $n);
my $rows = query(q{SELECT seq, type, encode(raw, 'hex') FROM atproto.message});
is(scalar(split /\n/, $rows), $n, 'keep_raw: every message');
is(scalar(wrong_bytes(\@messages, $rows)), 0, 'keep_raw: has its bytes');
is(query('SELECT count(*) FROM atproto.message WHERE payload IS NULL'), $nul, 'keep_raw: jsonb is there as well');

# A letter of a message from another stream: its number there says nothing about a message that is stored with the same
# number from this stream.
my ($bytes, $elsewhere) = (unpack('H*', $messages[0]), "wss://elsewhere.example.com:443/xrpc/$nsid");
query("INSERT INTO atproto.dead_frame (subscription, digest, bytes, format, endpoint) VALUES ('raw', sha256('\\x$bytes'), '\\x$bytes', 'dag-cbor', '$elsewhere');
	INSERT INTO atproto.dead_letter (subscription, stage, seq, sqlstate, message, digest) VALUES ('raw', 'apply', 2, 'P0001', 'not yet', sha256('\\x$bytes'))");
is(query('SELECT atproto.retry(id) FROM atproto.dead_letter WHERE seq = 2'), 'applied', 'the letter of another stream is applied');
is(query("SELECT count(*) FROM atproto.message WHERE seq = 2 AND endpoint = '$elsewhere'"), '1', 'as a message of that stream');
query("DELETE FROM atproto.message WHERE endpoint = '$elsewhere'");

# --- once more ---

query("SELECT atproto.set_cursor('raw', 0)");
wait_for_events('raw', 2 * $n);
is(query('SELECT count(*), count(DISTINCT seq) FROM atproto.message'), "$n|$n", 'repeats change nothing');
is(query("SELECT record_ops, skips->>'old' FROM atproto.stat_subscription"), "$n|$n", 'and are counted as old');
my $other = AtprotoTest::Server->start($capture);
query("SELECT atproto.pause('raw')");
$node->poll_query_until('postgres', 'SELECT pid IS NULL FROM atproto.stat_subscription');
query("UPDATE atproto.subscription SET url = '" . $other->url(nsid => $nsid) . "'; SELECT atproto.set_cursor('raw', 0), atproto.resume('raw')");
wait_for_seq($node, 'raw', 2 * $n);
is(query('SELECT count(*), count(DISTINCT seq), count(DISTINCT endpoint) FROM atproto.message'), 2 * $n . "|$n|2", 'another stream has numbers of its own');
query("UPDATE atproto.subscription SET url = '" . $server->url(nsid => $nsid) . "'; TRUNCATE atproto.message");

# --- a server with a part of the messages ---

query("SELECT atproto.pause('raw')");
$node->poll_query_until('postgres', 'SELECT pid IS NULL FROM atproto.stat_subscription');
query("SELECT atproto.set_cursor('raw', 100)");
$server->restart('--oldest', 4000);
query("SELECT atproto.resume('raw')");
wait_for_seq($node, 'raw', 2 * $n);
is(query('SELECT after_seq, before_seq, reason FROM atproto.gap'), '100|4000|OutdatedCursor', 'E-44: the gap is noted');
is(query(q{SELECT count(*) FROM atproto.message WHERE type = '#info'}), '0', 'E-42: the notice is no message');
query("SELECT atproto.unsubscribe('raw'); TRUNCATE atproto.message");

# --- a long type, and a trigger that refuses the message ---

query(<<'SQL');
CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$too long$$; END';
CREATE TRIGGER fail BEFORE INSERT ON atproto.message FOR EACH ROW WHEN (length(NEW.type) > 100) EXECUTE FUNCTION public.fail();
SQL
my $types = make_capture('streams.py', 'types');
$server = AtprotoTest::Server->start($types);
query(subscribe_sql('types', $server, nsid => $nsid, cursor => 0));
wait_for_seq($node, 'types', 3);
is(query('SELECT string_agg(type, $$,$$ ORDER BY seq) FROM atproto.message'), '#a,#c', 'what a trigger refuses is left out');
is(query('SELECT subscription, seq, stage, path FROM atproto.dead_letter WHERE stage <> $$frame$$'), 'types|2|apply|', 'and is a dead letter');
query('DROP TRIGGER fail ON atproto.message');
is(query("SELECT atproto.retry(id) FROM atproto.dead_letter WHERE stage <> 'frame'"), 'applied', 'that can be tried again');
is(query('SELECT count(*), max(length(type)) FROM atproto.message'), '3|10001', 'then it is there');
query("SELECT atproto.unsubscribe('types'); TRUNCATE atproto.message");

# --- connections with an end before a batch is due ---

# Changes the server's settings at the end of its file, and reloads them.
sub set
{
	$node->append_conf('postgresql.conf', $_[0]);
	$node->reload;
	return;
}

# The limit of silence is shorter than the wait for more events.
my $few = make_capture('streams.py', 'events', 20);
set("atproto.batch_delay = 2s\natproto.ping_interval = 50ms\natproto.idle_timeout = 200ms");
foreach (
	[ 'that fall silent',  '--stall-after', 10, '--ignore-pings' ],
	[ 'that are cut',      '--cut-after',   10 ],
	[ 'that are closed',   '--close-after', 10 ],
	[ 'that bring a text', '--text-at',     22, '--stall-after', 11 ],
	[ 'with a wrong seq',  '--dup-at',      20, '--fault-times', 1 ])
{
	my ($what, @options) = @$_;
	$server = AtprotoTest::Server->start($few, @options);
	query(subscribe_sql('few', $server, nsid => $nsid, cursor => 0));
	wait_until(sub { query('SELECT reconnects >= 4 OR seq = 40 FROM atproto.stat_subscription') eq 't' },
		"connections $what");
	wait_for_seq($node, 'few', 20);
	is(query('SELECT count(*) - count(DISTINCT seq) FROM atproto.message'), '0', "connections $what: no event is there twice");
	is(query('SELECT events - (SELECT count(*) FROM atproto.message) FROM atproto.cursor'), '0', "connections $what: or counted twice");
	query("SELECT atproto.unsubscribe('few')");
	$node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM atproto_internal.stream_status()');
	query('TRUNCATE atproto.message');
}
set("atproto.batch_delay = 50ms\natproto.ping_interval = 30s\natproto.idle_timeout = 90s");

# --- D30: without seq ---

my $plain = make_capture('streams.py', 'plain', 500);
$server = AtprotoTest::Server->start($plain);
query(subscribe_sql('plain', $server, nsid => $nsid));
wait_for_events('plain', 500);
tables_match($node, $plain, 'without seq: the table is what the oracle says', modes => ['message']);
is(query('SELECT seq, events, record_ops FROM atproto.cursor'), '|500|500', 'without seq: there is no cursor');
$server->restart;
wait_for_events('plain', 1000);
is_deeply([ $server->cursors ], [undef], 'without seq: nor does the consumer ask for one');
is(query('SELECT count(*), count(seq), count(DISTINCT payload) FROM atproto.message'), '1000|0|490',
	'without seq: what the server sends again is there again');
is(query('SELECT stopped IS NULL FROM atproto.subscription'), 't', 'without seq: it keeps following');

# A batch that is applied in pieces has no position in between, either: with a position the consumer would begin again with the oldest event.
# The trigger stops the subscription at message 270 with class AT, of which no row is to blame (error_class.c).
query("SELECT atproto.unsubscribe('plain'); TRUNCATE atproto.message");
query(<<'SQL');
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'no' USING ERRCODE = CASE WHEN NEW.payload->>'n' = '270' THEN 'AT000' ELSE '22000' END;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON atproto.message FOR EACH ROW
	WHEN ((NEW.payload->>'n')::integer % 3 = 0) EXECUTE FUNCTION public.refuse();
SQL
set('atproto.batch_delay = 1s');
$server->restart;
query(subscribe_sql('plain', $server, nsid => $nsid));
$node->poll_query_until('postgres', 'SELECT stopped IS NOT NULL FROM atproto.subscription') or BAIL_OUT('it did not stop');
is(query('SELECT seq, events BETWEEN 1 AND 269 FROM atproto.cursor'), '|t', 'without seq: no cursor after the first pieces of a batch');
is(query('SELECT (SELECT count(*) FROM atproto.dead_letter) = (SELECT count(*) FROM generate_series(1, events) n WHERE n % 3 = 0 AND n % 50 > 0)
	FROM atproto.cursor'), 't', 'without seq: what was refused in them is kept with them');

$node->stop;
done_testing();
