# 100_stream.pl
#		The capture of a real PDS goes from the socket into the tables: every row is as the oracle says,
#		replays change no row, the consumer needs little memory, and has no open transaction while it waits.
#		E-01, E-02, E-03, E-08, E-09, E-43, E-44, F-03, F-12, F-13.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use Digest::SHA qw(sha256);
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node('stream');
my $server = AtprotoTest::Server->start($pds);

# Waits until the subscription has so many events; returns the greatest memory of its consumer meanwhile.
sub consume
{
	my ($name, $events) = @_;
	my $most = 0;

	wait_until(
		sub {
			my ($n, $pid) = split /\|/,
			  query("SELECT coalesce(max(events), 0), max(pid) FROM atproto.stat_subscription WHERE name = '$name'");
			my $kb = private_memory($pid || 0);

			$most = $kb if $kb > $most;
			return $n >= $events && $kb > 0;
		},
		"$events events of $name");
	return $most;
}

# A value that changes with any write to atproto.record, even with equal values.
sub fingerprint
{
	return query('SELECT count(*), md5(string_agg(concat(ctid, xmin, xmax, r.*), $$,$$ ORDER BY ctid)) FROM atproto.record r');
}

# --- the stream, once ---

query(subscribe_sql('s', $server, cursor => 0));
cmp_ok(consume('s', $PDS_LAST), '<', $MEMORY_MAX, 'the memory of the consumer stays small');
tables_match($node, $pds, 'the tables are what the oracle says', modes => [ 'record', 'repo', 'count' ]);
is(query('SELECT count(*) FROM (SELECT FROM atproto.record GROUP BY did, rkey HAVING count(*) > 1) twice'), '2',
	'K-08: a record key in two collections of an account names two records');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');
is(query('SELECT count(*) FROM atproto.gap'),         '0', 'nothing was missed');
is(query('SELECT count(*) FROM atproto.repo WHERE sync = $$desynchronized$$'), '0', 'nothing is desynchronized');

my ($request) = $server->log('request');
my %headers = map { lc $_->[0] => $_->[1] } @{ $request->{headers} };
is($request->{path},  '/xrpc/com.atproto.sync.subscribeRepos', 'E-01: the path that was asked for');
is($request->{query}, 'cursor=0',                              'E-03: and its parameter');
is($headers{'sec-websocket-version'}, '13', 'E-02: WebSocket 13');
ok(!grep({ /^sec-websocket-(protocol|extensions)$/ } keys %headers), 'E-09: no subprotocol, no extension');

# --- values too odd for jsonb ---

my ($expected) = oracle('', 'record', $pds);
my $without = grep { /\t\\N$/ } split /\n/, $expected;
cmp_ok($without, '>', 0, 'the capture has records that jsonb cannot hold');
is(query('SELECT count(*) FROM atproto.record WHERE value::jsonb IS NULL'), $without, 'their values are NULL as jsonb');
is(query('SELECT count(*) FROM atproto.record WHERE (value IS NULL) <> (raw IS NOT NULL)'),
	'0', 'their bytes are kept, and no others');

# RFC 4648 base32, lower case, no padding
sub cid_of
{
	my ($block) = @_;
	my $bits = unpack 'B*', pack('C4', 1, 0x71, 0x12, 0x20) . sha256($block);
	$bits .= '0' x (-length($bits) % 5);
	return 'b' . join '', map { ('a' .. 'z', 2 .. 7)[ oct "0b$_" ] } $bits =~ /.{5}/g;
}

my @cids = map { [ split /\|/ ] }
  split /\n/, query("SELECT cid, encode(raw, 'hex') FROM atproto.record WHERE value IS NULL");
is_deeply(
	[ map { cid_of(pack 'H*', $_->[1]) } @cids ],
	[ map { $_->[0] } @cids ],
	'the bytes have the hash that their CID says');

# --- status ---

my @messages = read_capture($pds);
my ($time)   = $messages[-1] =~ /dtimex.(\d{4}-\d\d-\d\dT[0-9:.]+Z)/s;
my $bytes    = 0;
$bytes += length foreach @messages;
my $ops = operations($pds);

is(query("SELECT state, seq, events, record_ops, received, reconnects, drops, last_error, last_error_at,
	event_time = '$time', lag_seconds > 0, connected_at < now(), batches > 0
	FROM atproto.stat_subscription"),
	"streaming|$PDS_LAST|$PDS_LAST|$ops|$PDS_LAST|0|{}|||t|t|t|t", 'atproto.stat_subscription');
cmp_ok(query('SELECT bytes FROM atproto.stat_subscription'), '>', $bytes, 'its bytes are those of the socket');
is(query('SELECT name, sum(c.events) FROM atproto.cursor c JOIN atproto.subscription s ON s.name = c.subscription GROUP BY 1'),
	"s|$PDS_LAST", 'E-43: the cursor');

# Waits until the consumer sleeps, then looks at its transaction.
$node->poll_query_until('postgres',
	"SELECT wait_event IN ('Extension', 'AtprotoStream') FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
is(query("SELECT a.pid = s.pid, a.xact_start, a.backend_xid, a.backend_xmin, a.state, a.application_name, a.usename::text = s2.owner::text
	FROM pg_stat_activity a, atproto.stat_subscription s JOIN atproto.subscription s2 USING (name)
	WHERE backend_type = 'atproto consumer'"),
	't||||idle|atproto s|t', 'no transaction is open while it waits');
ok( $node->poll_query_until(
		'postgres',
		'SELECT n_tup_ins - n_tup_del = (SELECT count(*) FROM atproto.record) AND n_tup_ins > 0
		FROM pg_stat_user_tables WHERE relid = $$atproto.record$$::regclass'),
	"what it wrote is in the table's statistics");

# --- the whole stream again ---

my $before = fingerprint();
query("SELECT atproto.set_cursor('s', 0)");
cmp_ok(consume('s', 2 * $PDS_LAST), '<', $MEMORY_MAX, 'a replay takes no more memory');
is(fingerprint(), $before, 'F-03: it changes no row of atproto.record');
is(query("SELECT seq, events, record_ops FROM atproto.cursor WHERE subscription = 's'"),
	join('|', $PDS_LAST, 2 * $PDS_LAST, $ops), 'it applies no operation');
tables_match($node, $pds, 'the tables are still what the oracle says');

query(subscribe_sql('again', $server, cursor => 0));
cmp_ok(consume('again', $PDS_LAST), '<', $MEMORY_MAX, 'nor does a second subscription');
is(fingerprint(), $before, 'it changes no row of atproto.record');
tables_match($node, $pds, 'the tables are still what the oracle says');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');

# --- the other side ---

query("SELECT atproto.pause(name) FROM atproto.subscription");
my @ends = $server->wait_for_log(end => 3);
is_deeply([ grep { /malformed|failed/ } map { $_->{how} } @ends ], [], 'the client kept to the protocol');
is(scalar(grep { $_->{data} != 0 } @ends), 0, 'E-08: the client sent no data');

# --- the framing of one object (E-61) ---

my $one = make_capture('v1.py', 'com.atproto.sync.subscribeRepos', $pds);
foreach my $s ([ 'one', '--cut-after', 900 ], [ 'one_again', '--cut-after', 900, '--inclusive' ])
{
	my ($name, @options) = @$s;

	query("CREATE SCHEMA $name; " . subscribe_sql($name, AtprotoTest::Server->start($one, @options), cursor => 0, target => "'$name'"));
	wait_for_seq($node, $name, $PDS_LAST);
	is(query("SELECT events FROM atproto.cursor WHERE subscription = '$name'"), $PDS_LAST, "D13: $name: each event once, after a cut");
	tables_match($node, $pds, "E-61: $name: the tables are what the oracle says of the frames of two objects", schema => $name);
}
$node->stop;
done_testing();
