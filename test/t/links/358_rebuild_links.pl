# 358_rebuild_links.pl
#		rebuild_links() runs while subscriptions write the tables.  Only rebuild_links() and the writers of
#		these tables wait for each other, readers do not, and afterwards link is the image of record.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $STEP = 400;
my ($capture) = simulate(
	'--events' => 6000, '--accounts' => 80, '--history' => 0,
	'--mix' => 'account=4,delete=8,update=6,sync=0,like=40,post=30,profile=3');
my $last  = read_capture($capture);
my @holds = map { $_ * $STEP } 1 .. int(($last - 1) / $STEP);
my $server = AtprotoTest::Server->start($capture, map { ('--hold-at', $_) } @holds);
my $node   = make_node('rebuild_links', conf => "max_prepared_transactions = 4\nmax_worker_processes = 30\natproto.reconnect_delay = 100ms");

sub problems { return query('SELECT COALESCE(string_agg(DISTINCT problem, \' \'), \'\') FROM atproto.link_problems(\'live\')') }

query("CREATE SCHEMA live; " . subscribe_sql('live', $server, cursor => 0, target => "'live'", links => "'all'", workers => 3));
wait_for_seq($node, 'live', $holds[0] - 1);

# --- rebuild_links() waits for a writer of links, and sees the writer's changes ---

query("BEGIN; DELETE FROM live.link WHERE target IN (SELECT target FROM live.link LIMIT 10); PREPARE TRANSACTION 'writer'");
my $rebuild = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', q{SELECT added, removed FROM atproto.rebuild_links('live')} ], '>', \my $rebuilt);
wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'live.link'::regclass AND mode = 'ShareRowExclusiveLock' AND NOT granted});
query("COMMIT PREPARED 'writer'");
$rebuild->finish;
like($rebuilt, qr/^[1-9][0-9]*\|0\n$/, 'what somebody removed before he commits is there again');
is(problems(), '', 'nothing is wrong');

# --- a writer waits for rebuild_links(), and is right afterwards; a reader does not wait ---

query("BEGIN; SELECT atproto.rebuild_links('live'); PREPARE TRANSACTION 'rebuild'");
$server->release;
wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'live.link'::regclass AND mode = 'RowExclusiveLock' AND NOT granted});
is(problems(), '', 'links can be read meanwhile');
query("COMMIT PREPARED 'rebuild'");
wait_for_seq($node, 'live', $holds[1] - 1);
is(problems(), '', 'what came meanwhile is linked, too');

# --- repeatedly, with lost links and new sources ---

foreach my $hold (@holds[ 1 .. $#holds ])
{
	$server->release;
	# in random order: without the lock, two deleting sessions could deadlock
	query("BEGIN; LOCK TABLE live.link IN SHARE ROW EXCLUSIVE MODE; DELETE FROM live.link WHERE hashtext(target::text) % 5 = 0; COMMIT");
	query("SELECT atproto.rebuild_links('live')");
	is(problems(), '', "at $hold: nothing is wrong");
}
wait_for_seq($node, 'live', $last);
is(problems(), '', 'nothing is wrong at the end');
is(query("SELECT count(*) - count(DISTINCT (collection, path)) FROM live.link_source"), '0', 'each source has one number');
unlike(slurp_file($node->logfile), qr/deadlock detected/, 'nobody has waited for ever');

$node->stop;
done_testing();
