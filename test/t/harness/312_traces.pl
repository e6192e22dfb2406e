# 312_traces.pl
#		The committed transactions of a subscription with kills, cuts, a gap and a refill are those of a run of the
#		model test/models/subscription.pml; with one transaction left out, doubled or exchanged, they are not.
#		E-43, E-44.
#
#		ATPROTO_TRACE=DIR keeps the transactions of this and of any other test, and checks them (test/models/README.md).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'spin and gcc are not there' unless AtprotoTest::Trace::possible();

my $node = make_node('traced', trace => $ENV{ATPROTO_TRACE} // PostgreSQL::Test::Utils::tempdir('trace'), conf => <<'EOF');
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 100ms
EOF
my @rate   = ('--rate', 700);
my $server = AtprotoTest::Server->start(capture('pds.frames.gz'), @rate);

sub kill_consumer
{
	kill 'KILL', try_query(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'}) // return;
	return;
}

query(subscribe_sql('s', $server, cursor => 0, events => "'keep'"));
wait_for_seq($node, 's', 150);
kill_consumer();
wait_for_seq($node, 's', 300);
$server->restart(@rate);
wait_for_seq($node, 's', 450);
$node->stop('immediate');
$node->start;
wait_for_seq($node, 's', 600);

# the server has forgotten events while nobody listened
query(q{SELECT atproto.pause('s')});
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
$server->restart('--oldest', 1000, @rate);
query(q{SELECT atproto.resume('s')});
wait_for_seq($node, 's', 1100);
kill_consumer();
wait_for_seq($node, 's', 1200);

# and has them again
$server->restart(@rate);
query(q{SELECT atproto.refill('s', NULL, 500)});
wait_for_seq($node, 's', 900);
kill_consumer();
wait_for_seq($node, 's', $PDS_LAST);
wait_for(q{SELECT closed_at IS NOT NULL FROM atproto.gap});
is(query(q{SELECT closed_how FROM atproto.gap}), 'read again', 'the gap was read again');

# --- what the model says ---

my $trace = trace_of($node);

# a transaction from the middle that moved the cursor
my @moves = AtprotoTest::Trace::judge('--marks', $trace, 'subscription') =~ /^  (\d+): MOVE/mg;
cmp_ok(scalar(@moves), '>', 20, 'the cursor was moved many times');
my $said = AtprotoTest::Trace::judge('--untruths', $moves[ @moves / 2 ], $trace, 'subscription');
note($said);
like($said, qr/^ok - subscription: subscription s: all/m, 'a run of the model leaves what was committed');
like($said, qr/^ok - subscription: subscription s $_: \d+ of/m, "the model refuses it with one transaction $_") foreach qw(without twice later);

$node->stop;
done_testing();
