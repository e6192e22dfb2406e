# 312_traces.pl
#		The committed transactions of a subscription with kills, cuts, gaps, refills and a refused record are those of a run of the
#		model test/models/subscription.pml; with one transaction left out, doubled or exchanged, they are not.
#		E-43, E-44.
#
#		ATPROTO_TRACE=DIR keeps the transactions of this and of any other test, and checks them (test/models/README.md).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'spin and gcc are not there' unless AtprotoTest::Trace::possible();

# -DWHOLE: the server of this test passes over no number; -DUNLOCKED: no session locks a gap, so a gap must be closed when its events were read again
my $node = make_node('traced', trace => $ENV{ATPROTO_TRACE} // PostgreSQL::Test::Utils::tempdir('trace'), defines => [ '-DWHOLE', '-DUNLOCKED' ], conf => <<'EOF');
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 100ms
EOF
my @rate   = ('--rate', 1000);
# (the hold: on a slow machine, too, the cursor stays below the holds of the next server)
my $server = AtprotoTest::Server->start(capture('pds.frames.gz'), '--hold-at', 300, @rate);

# Kills the consumer, and waits until PostgreSQL has restarted all of its processes: until then the view shows the killed process.
sub kill_consumer
{
	my $pid = try_query(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'}) || return;

	kill 'KILL', $pid;
	wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid", gone => 1);
	return;
}

# Restarts the stream server with other options while the subscription is paused.
sub serve
{
	my (@options) = @_;
	query(q{SELECT atproto.pause('s')});
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
	$server->restart(@options, @rate);
	query(q{SELECT atproto.resume('s')});
	return;
}

query(subscribe_sql('s', $server, cursor => 0, events => "'keep'"));
wait_for_seq($node, 's', 150);
kill_consumer();
wait_for_seq($node, 's', 250);
# the event at the cursor comes again
$server->restart('--inclusive', '--hold-at', 500, '--hold-at', 700, @rate);
wait_for_seq($node, 's', 350);
$node->stop('immediate');
$node->start;
wait_for_seq($node, 's', 499);

# the cursor is set while a batch is about to move it
my $points = AtprotoTest::Points->new($node);
$points->hold('cursor next', 'atproto s');
$server->release;
$points->wait('cursor next', 'atproto s');
query(q{SELECT atproto.set_cursor('s', 300)});
$points->release('cursor next', 'atproto s');
wait_for_seq($node, 's', 600);

# the server has forgotten events; the database refuses a record of the first batch after the gap
query(q{ALTER TABLE atproto.record ADD CONSTRAINT refused CHECK (rkey::text <> '3n2qfdkkjq32o') NOT VALID});
serve('--oldest', 1000);
wait_for_seq($node, 's', 1100);
kill_consumer();
wait_for_seq($node, 's', 1200);

# the server has them again, and forgets them once more while they are read again
serve('--hold-at', 500);
query(q{SELECT atproto.refill('s', NULL, 400)});
wait_for("SELECT seq BETWEEN 450 AND 500 FROM atproto.stat_subscription WHERE name = 's'", gone => 1);
serve('--oldest', 900);
wait_for_seq($node, 's', 1050);
is(query('SELECT count(*), count(closed_at) FROM atproto.gap'), '2|0', 'a gap in the gap');
serve('--hold-at', 1200);
query(q{SELECT atproto.refill('s', NULL, 400)});
wait_for("SELECT seq BETWEEN 600 AND 1200 FROM atproto.stat_subscription WHERE name = 's'", gone => 1);
kill_consumer();
wait_for('SELECT count(closed_at) = 2 FROM atproto.gap', gone => 1);

# the operator passes over events
query(q{SELECT atproto.set_cursor('s', 1500)});
$server->release;
wait_for_seq($node, 's', $PDS_LAST);
is(query(q{SELECT string_agg(reason || ' ' || coalesce(closed_how, 'open'), ', ' ORDER BY id) FROM atproto.gap}),
	'OutdatedCursor read again, OutdatedCursor read again, set_cursor open', 'gaps');
is(query(q{SELECT string_agg(stage || ' ' || seq, ' ') FROM atproto.dead_letter}), 'apply 1010', 'one record is refused');

# --- what the model says ---

my $trace = trace_of($node);

# a transaction from the middle that moved the cursor
my @moves = AtprotoTest::Trace::judge('--marks', $trace, 'subscription') =~ /^  (\d+): MOVE/mg;
# a consumer on a busy machine takes more events at a time
cmp_ok(scalar(@moves), '>', 10, 'the cursor was moved many times');
my $said = AtprotoTest::Trace::judge('--untruths', $moves[ @moves / 2 ], $trace, 'subscription');
note($said);
like($said, qr/^ok - subscription: subscription s: all/m, 'a run of the model leaves what was committed');
like($said, qr/^ok - subscription: subscription s $_: \d+ of/m, "the model refuses it with one transaction $_") foreach qw(without twice later);

$node->stop;
done_testing();
