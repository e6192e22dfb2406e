# 430_operators.pl
#		The views tell an operator whether the last error is over, and an index finds the account that has a
#		handle.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node(
	'operators', conf => <<'EOF');
atproto.reconnect_delay = 5ms
atproto.reconnect_max_delay = 20ms
EOF
my $server = AtprotoTest::Server->start($pds);

# --- is the last error over? ---

my $past = q{SELECT state, last_error IS NOT NULL, last_error_is_past FROM atproto.stat_subscription WHERE name = 's'};

query(subscribe_sql('s', $server, cursor => 0));
wait_for_seq($node, 's', $PDS_LAST);
is(query($past), 'streaming|f|', 'without an error there is none that could be over');

$server->stop;
wait_for(q{SELECT last_error IS NOT NULL AND state <> 'streaming' FROM atproto.stat_subscription});
is(query(q{SELECT last_error_is_past FROM atproto.stat_subscription}), 'f', 'while there is no connection, it is why');
query(q{SELECT atproto.pause('s')});
is(query($past), 'paused|t|t', 'of a subscription that is paused nothing is expected');
query(q{SELECT atproto.resume('s')});
wait_for(q{SELECT state IN ('waiting', 'connecting') FROM atproto.stat_subscription});
is(query(q{SELECT last_error_is_past FROM atproto.stat_subscription}), 'f', 'which is over when it is resumed');

$server->restart;
wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription});
is(query($past), 'streaming|t|t', 'a connection that came after it: it is over');
is(query('SELECT connected_at > last_error_at FROM atproto.stat_subscription'), 't', 'as their times say');

# A cursor in the server's future stops the subscription.
query(q{SELECT atproto.set_cursor('s', 1000000)});
wait_for(q{SELECT state = 'stopped' FROM atproto.stat_subscription});
is(query($past), 'stopped|t|f', 'why it stopped is not over');
query(q{SELECT atproto.unsubscribe('s')});

# --- which account has a handle ---

my $handle = query(q{SELECT handle FROM atproto.repo WHERE handle IS NOT NULL ORDER BY handle LIMIT 1});
isnt($handle, '', 'the capture announces handles');
my $find = "SELECT did FROM atproto.repo WHERE handle = '$handle'";
like(query("SET enable_seqscan = off; EXPLAIN (COSTS OFF) $find"), qr/repo_handle/, 'the index finds an account by its handle');
is(query("SET enable_seqscan = off; $find"), query("SET enable_indexscan = off; SET enable_bitmapscan = off; $find"), 'the one that has it');

# A new version of a repository's row lies in the same page as the old version, and no index changes (HOT): one
# row, and so few versions that the page has room for all, whether or not the dead versions can be removed.
# Earlier counts are reset.
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
query(q{TRUNCATE atproto.record, atproto.repo; SELECT pg_stat_reset_single_table_counters('atproto.repo'::regclass)});
my @holds = (51, 101, 151);
my ($frames) = simulate('--events' => 200, '--accounts' => 1, '--no-sign', '--mix' => 'identity=0,account=0,sync=0');
my $one = AtprotoTest::Server->start($frames, map { ('--hold-at', $_) } @holds);
query(subscribe_sql('one', $one, cursor => 0));
foreach my $hold (@holds)
{
	wait_for_seq($node, 'one', $hold - 1);
	$one->release;
}
wait_for_seq($node, 'one', 200);
query(q{SELECT atproto.unsubscribe('one')});
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
wait_for(q{SELECT n_tup_upd >= 3 FROM pg_stat_user_tables WHERE relid = 'atproto.repo'::regclass});
is(query(q{SELECT n_tup_upd - n_tup_hot_upd FROM pg_stat_user_tables WHERE relid = 'atproto.repo'::regclass}), '0', 'commits change a state without its indexes');

$node->stop;
done_testing();
