# 251_account_order.pl
#		Two #account events contradict each other.  Within one stream the later event counts, whatever times
#		the server's clock wrote; between streams the event with the later time counts.  F-15, F-03.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $capture = make_capture('synth.py', 'clock');
my $last    = 8;
my $node    = make_node('account_order', conf => 'atproto.reconnect_delay = 50ms');
my $server  = AtprotoTest::Server->start($capture);
my ($comes, $goes) = map { did($_) } 'a', 'b';

query(subscribe_sql('s', $server, cursor => 0));
wait_for_seq($node, 's', $last);
tables_match($node, $capture, 'the clock of the server steps back: the last event counts');
is(query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM atproto.visible_record WHERE did = '$comes'"), 'a,b', 'the account is there');
is(query("SELECT status_seq, status_at = '2026-01-01 11:00Z', sync FROM atproto.repo WHERE did = '$comes'"), '3|t|synchronized', 'which event said so');
is(query("SELECT status_endpoint = endpoint FROM atproto.repo, atproto.subscription WHERE did = '$comes'"), 't', 'and of which stream');

# Replay: the deletion has a later time than the account's return, and is old all the same.
my $state = 'SELECT did, rev, active, status, status_at, status_seq, deleted_rev, sync FROM atproto.repo ORDER BY did';
my $before = query($state);
query("SELECT atproto.set_cursor('s', 0)");
$node->poll_query_until('postgres', "SELECT events = 2 * $last FROM atproto.cursor") or die;
is(query($state), $before, 'a replay changes no state');
tables_match($node, $capture, 'nor a record');
is(query("SELECT skips->>'old' FROM atproto.stat_subscription"), '8', 'each event was old');

# A second stream has numbers of its own: the time decides, and an earlier time is old.
my $other = AtprotoTest::Server->start($capture, '--hold-at', 3);
query("UPDATE atproto.repo SET status_seq = 1000 WHERE did = '$comes'; UPDATE atproto.repo SET status_at = '2026-01-01 13:00Z' WHERE did = '$goes'");
query(subscribe_sql('other', $other, cursor => 0));
wait_for_seq($node, 'other', 2);
is(query("SELECT active, status, status_seq, status_at = '2026-01-01 12:00Z' FROM atproto.repo WHERE did = '$comes'"), 'f|deactivated|2|t',
	'what another stream says later counts, whatever its number');
$other->release;
wait_for_seq($node, 'other', $last);
is(query("SELECT active, status_seq FROM atproto.repo WHERE did = '$comes'"), 't|3', 'then its own order');

is(query("SELECT active, status_seq, status_at = '2026-01-01 13:00Z' FROM atproto.repo WHERE did = '$goes'"), 't|7|t', 'what it says for an earlier time is old');

# An operator can clear numbers lost by a server.
query("UPDATE atproto.repo SET status_seq = 1000000, active = false WHERE did = '$comes'");
query("SELECT atproto.set_cursor('other', 0)");
$node->poll_query_until('postgres', "SELECT events = 2 * $last FROM atproto.cursor WHERE subscription = 'other'") or die;
is(query("SELECT active FROM atproto.repo WHERE did = '$comes'"), 'f', 'smaller numbers are old');
query("UPDATE atproto.repo SET status_seq = NULL WHERE did = '$comes'");
query("SELECT atproto.set_cursor('other', 0)");
$node->poll_query_until('postgres', "SELECT events = 3 * $last FROM atproto.cursor WHERE subscription = 'other'") or die;
is(query("SELECT active, status_seq FROM atproto.repo WHERE did = '$comes'"), 't|3', 'until they are forgotten');

# --- events that are ignored while the account is inactive ---

my $missing = AtprotoTest::Server->start(make_capture('synth.py', 'missed'));

query('CREATE SCHEMA missed; ' . subscribe_sql('missed', $missing, cursor => 0, target => "'missed'"));
wait_for_seq($node, 'missed', 16);
is(query('SELECT string_agg(sync, $$ $$ ORDER BY did), bool_and(active) FROM missed.repo'), 'desynchronized desynchronized synchronized desynchronized|t',
	'V-38: the tables lack what was ignored, also when the account is active again');

$node->stop;
done_testing();
