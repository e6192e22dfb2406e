# 386_citus_repair.pl
#		A consumer marks the repositories of a node of Citus that has come back with older rows, while
#		another consumer of the same target is about to commit.  They wait for each other's rows in one
#		order: none of them is ended because of a deadlock.
#
#		Needs Citus: see test/citus/build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Citus;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

if (my $why = AtprotoTest::Citus::missing())
{
	plan skip_all => $why;
}

my $pds = capture('pds.frames.gz');
my ($node, @servers) = make_citus('repair', conf => "atproto.reconnect_delay = 50ms\natproto.reconnect_max_delay = 200ms\n");
my $points = AtprotoTest::Points->new($node);

query(q{SELECT atproto.distribute()});
my $server = AtprotoTest::Server->start($pds, '--hold-at', 500);
query(subscribe_sql('writes', $server, cursor => 0));
wait_for_seq($node, 'writes', 499);
$points->hold('cursor next', 'atproto writes');
$server->release;
$points->wait('cursor next', 'atproto writes');    # it has written rows, and no number yet

# As if a transaction of a writer that nobody is were missing there.
query(q{INSERT INTO atproto.node_written (node, writer, did, number, hashes) SELECT node, 'nobody 0', did, 1, hashes FROM atproto.node_written WHERE writer ~ ' 0$'});
my $idle = AtprotoTest::Server->start($pds, '--hold-at', 1);
query(subscribe_sql('repairs', $idle, cursor => 0));

# Some process waits for a lock on whatever server, other than for a point: Citus' locks of shards are advisory, too.
sub lock_waits
{
	return grep { (try_query(q{SELECT count(*) > 0 FROM pg_locks WHERE NOT granted AND NOT (locktype = 'advisory' AND objsubid = 2)}, node => $_) // '') eq 't' } $node, @servers;
}

wait_until(\&lock_waits, 'a consumer that waits for the other');
$points->release('cursor next', 'atproto writes');
wait_for_seq($node, 'writes', $PDS_LAST);
wait_for(q{SELECT count(*) > 0 FROM atproto.subscription_log WHERE event = 'node behind'});
is(query(q{SELECT string_agg(DISTINCT subscription, ', ') FROM atproto.subscription_log WHERE event = 'node behind'}), 'repairs', 'the other consumer has marked the repositories');
is(query(q{SELECT count(*) FROM (SELECT sync FROM atproto.repo) r WHERE sync <> 'desynchronized'}), '0', 'all of them, also those written meanwhile');
unlike(slurp_file($_->logfile), qr/deadlock detected|distributed deadlock/, $_->name . ': no deadlock') foreach $node, @servers;

stop_citus();
done_testing();
