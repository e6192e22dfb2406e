# 190_close_codes_and_gaps.pl
#		The consumer's reaction to the server's close codes (E-51), and the gaps that are recorded when an
#		operator moves the cursor ahead (E-44, E-45).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use Test::More;

my $node = make_node(
	'closing', conf => <<'EOF');
atproto.reconnect_delay = 5ms
atproto.reconnect_max_delay = 20ms
EOF

# --- close codes ---

# Servers send 1001 (going away) when they restart: never a reason to stop.
my $server = AtprotoTest::Server->start(capture('pds.frames.gz'), '--close-code', 1001, '--close-after', 400);
query(subscribe_sql('away', $server, cursor => 0));
wait_for_seq($node, 'away', $PDS_LAST);
tables_match($node, capture('pds.frames.gz'), 'E-51: 1001 only means to connect again');
query(q{SELECT atproto.unsubscribe('away')});

# Protocol errors without any progress in between: stop, and say why.
for my $code (1002, 1003, 1007, 1009)
{
	my $name = "code$code";

	# close-after 0: no message gets through
	$server = AtprotoTest::Server->start(capture('pds.frames.gz'), '--close-code', $code, '--close-after', 0);
	query(subscribe_sql($name, $server, cursor => 7));
	$node->poll_query_until('postgres', "SELECT stopped IS NOT NULL FROM atproto.subscription WHERE name = '$name'")
	  or die "timed out waiting for $name to stop";
	is(query("SELECT stopped FROM atproto.subscription WHERE name = '$name'"),
		"dropped 5 times after event 7: the server closed the stream with code $code",
		"E-51: repeated $code stops the subscription");
	is(query("SELECT state, seq FROM atproto.stat_subscription WHERE name = '$name'"), 'stopped|7', 'its cursor stays');
	query("SELECT atproto.unsubscribe('$name')");
}

# --- gaps ---

$server = AtprotoTest::Server->start(capture('pds.frames.gz'));
query(subscribe_sql('jump', $server, cursor => 0));
wait_for_seq($node, 'jump', $PDS_LAST);
query(q{SELECT atproto.pause('jump')});
query(q{SELECT atproto.set_cursor('jump', 100)});
is(query('SELECT count(*) FROM atproto.gap'), 0, 'going back leaves no gap');
query(q{SELECT atproto.set_cursor('jump', 1000)});
is(query('SELECT subscription, after_seq, before_seq, reason FROM atproto.gap'), 'jump|100|1001|set_cursor',
	'what is jumped over is written down');
query(q{SELECT atproto.set_cursor('jump', NULL)});
is(query('SELECT after_seq, before_seq IS NULL FROM atproto.gap ORDER BY id DESC LIMIT 1'), '1000|t',
	'so is a jump to wherever the stream is');
query(q{SELECT atproto.set_cursor('jump', 0)});
is(query('SELECT count(*) FROM atproto.gap'), 2, 'the oldest event is never a jump ahead');
query(q{SELECT atproto.resume('jump')});
wait_for_seq($node, 'jump', $PDS_LAST);
is(query(q{SELECT state FROM atproto.stat_subscription WHERE name = 'jump'}), 'streaming', 'and the stream goes on');

done_testing();
