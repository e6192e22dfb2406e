# 300_simulator.pl
#		A simulated network (test/simulator) with all kinds of events.  Three results agree: the tables
#		announced by the simulator, the tables computed by the oracle from the messages, and the tables of a
#		consumer after cut connections and a crash, with one process and with several.
#
#		ATPROTO_EVENTS=200000 is a longer form; ATPROTO_SEED changes the network.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $last = $ENV{ATPROTO_EVENTS} || 20_000;
my $seed = seed();
my $half = int($last / 2);

# Small frames, for the sake of the oracle; more rare events.
my ($capture, $expect) = simulate(
	'--events' => $last, '--accounts' => int($last / 40), '--seed' => $seed, '--history' => 300, '--batches' => 3,
	'--mix' => 'delete=8,update=3,profile=2,account=1.5,identity=1,sync=1,other=1');

sub expected
{
	my ($mode) = @_;
	open my $f, '<:raw', "$expect/$mode" or BAIL_OUT("cannot read $expect/$mode: $!");
	local $/;
	return scalar <$f>;
}

my %events = map { /^(\w+\t[#\w]+)\t(\d+)$/ } split /\n/, expected('events');
my $ops    = 0;
$ops += $events{"op\t$_"} foreach qw(create update delete);
is_deeply(
	[ sort keys %events ],
	[ (map { "message\t#$_" } qw(account commit identity sync)), (map { "op\t$_" } qw(create delete update)) ],
	"all kinds of events, $ops operations");

foreach my $mode ('record', 'repo')
{
	my ($computed) = oracle('', $mode, $capture);
	ok($computed eq expected($mode), "$mode: what the simulator says it leaves is what the oracle computes");
}

my ($undone, $errors) = ('', '');
my $python = $ENV{PYTHON} || '/usr/bin/python3';
ok(IPC::Run::run([ $python, '-B', test_dir() . '/oracle/invert.py', $capture, 3000 ], '>', \$undone, '2>', \$errors),
	'F-09: each commit can be undone, and gives the one before') or diag("$undone$errors");
like($undone, qr/^2\d{3} commits undone/, 'so many were');

# --- through the consumer ---

my $node   = make_node('simulator', conf => "atproto.reconnect_delay = 50ms\n");
my $server = AtprotoTest::Server->start($capture, '--cut-after', int($last / 5), '--cut-inside', 700, '--hold-at', $half);

query(subscribe_sql('s', $server, cursor => 0));
wait_for_seq($node, 's', $half - 1);

# The crash of a process ends all processes of the server; the next event comes after the restart.
my $consumer = query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
kill 'KILL', $consumer or BAIL_OUT('the consumer is not there');
wait_until(
	sub {
		my $pid = try_query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
		return defined $pid && $pid != $consumer;
	},
	'another consumer');
$server->release;
wait_for_seq($node, 's', $last);

foreach my $mode ('record', 'repo')
{
	my ($found) = oracle(table_copy($node, $mode), 'canon');
	ok($found eq expected($mode), "$mode: the table is what the simulator says");
}
is(query('SELECT events, record_ops FROM atproto.cursor'), "$last|$ops", 'every event was applied exactly once');
cmp_ok(scalar($server->log('request')), '>', 5, 'connections were cut');

# --- through several processes ---

query('CREATE SCHEMA shared');
query(subscribe_sql('shared', $server, cursor => 0, target => q{'shared'}, workers => 3));
wait_for_seq($node, 'shared', $last);
foreach my $mode ('record', 'repo')
{
	my ($found) = oracle(table_copy($node, $mode, schema => 'shared'), 'canon');
	ok($found eq expected($mode), "$mode: so it is when three workers share the stream");
}
is(query("SELECT sum(events), sum(record_ops) FROM atproto.cursor WHERE subscription = 'shared'"),
	"$last|$ops", 'each event was applied by one of them');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');
is(query('SELECT count(*) FROM atproto.gap'),         '0', 'nothing was missed');

$node->stop;
done_testing();
