# 120_kill.pl
#		Consumer, server and connection are killed at random points of the stream.  Afterwards the tables
#		are those of the oracle, and every event was applied exactly once.  E-43, E-48.
#
#		ATPROTO_KILLS=200 is the long form; ATPROTO_SEED repeats a run;
#		ATPROTO_WORKERS=3 is a subscription with several workers.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use List::Util qw(shuffle);
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $kills = $ENV{ATPROTO_KILLS} || 20;
my $workers = $ENV{ATPROTO_WORKERS} || 1;
my $seed  = seed();

my $pds  = capture('pds.frames.gz');
# messages a second, so that the stream lasts for all kills; on a slow machine the last message waits for them
my @rate = ('--rate', int(2600 / $kills) || 1, '--hold-at', $PDS_LAST);
my $node = make_node(
	'kill', conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 100ms
atproto.reconnect_max_delay = 500ms
synchronous_commit = off
EOF
my $server = AtprotoTest::Server->start($pds, @rate);

# The value of the query, as soon as it returns a row.
sub wait_for_value
{
	my ($sql) = @_;
	my $value;
	wait_until(sub { defined($value = try_query($sql)) }, $sql);
	return $value;
}

sub consumer
{
	return wait_for_value("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
}

sub worker
{
	return wait_for_value("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto apply worker' ORDER BY random() LIMIT 1");
}

# The children must be gone before the server can start again.
sub kill_server
{
	my @orphans = split /\n/, wait_for_value('SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()');

	$node->kill9;
	wait_until(sub { !kill 0, @orphans }, 'the end of the server');
	$node->start;
	return;
}

my %kinds = (
	'kill -9 of the consumer'    => sub { kill 'KILL', consumer() },
	'kill -9 of the server'      => \&kill_server,
	'immediate restart'          => sub { $node->stop('immediate'); $node->start },
	'fast restart'               => sub { $node->restart },
	'the connection is cut'      => sub { $server->restart(@rate) },
	'the consumer is terminated' => sub { try_query('SELECT pg_terminate_backend(' . consumer() . ')') });
my %worker_kinds = (
	'kill -9 of a worker'    => sub { kill 'KILL', worker() },
	'a worker is terminated' => sub { try_query('SELECT pg_terminate_backend(' . worker() . ')') });
%kinds = (%kinds, %worker_kinds) if $workers > 1;

my @todo  = map { (sort keys %kinds)[ $_ % keys %kinds ] } shuffle 0 .. $kills - 1;
my @times = sort { $a <=> $b } map { 1 + int rand($PDS_LAST - 100) } @todo;

# A kill may lose the last commits, but not the subscription itself.
$node->safe_psql('postgres', 'SET synchronous_commit = on; ' . subscribe_sql('s', $server, cursor => 0, workers => $workers, events => "'keep'", count_collections => 'true', links => "'all'"));
foreach my $i (0 .. $#todo)
{
	wait_for_value("SELECT 1 FROM atproto.stat_subscription WHERE seq >= $times[$i]");
	usleep(rand 100_000);    # in the middle of a batch, perhaps
	my $seq = wait_for_value('SELECT seq FROM atproto.stat_subscription');
	note("$todo[$i] after event $seq");
	$kinds{ $todo[$i] }->();
}
$server->release;
wait_for_value("SELECT 1 FROM atproto.stat_subscription WHERE seq = $PDS_LAST");

# --- nothing lost, nothing twice ---

my $ops = operations($pds);

is(try_query('SELECT events, record_ops FROM atproto.stat_subscription'), "$PDS_LAST|$ops", 'every event was applied exactly once');
tables_match($node, $pds, 'the tables are what the oracle says', modes => [ 'record', 'repo', 'count', 'event' ]);
is(query('SELECT count(*), (SELECT count(*) > 0 FROM atproto.link) FROM atproto.link_problems()'), '0|t', 'links are those of the records');
counts_match($node, 'what is counted by collection are the events that are kept');
is(try_query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');
is(try_query('SELECT count(*) FROM atproto.gap'),         '0', 'nothing was missed');
is(try_query('SELECT stopped IS NULL FROM atproto.subscription'), 't', 'it did not stop');

$node->stop;
done_testing();
