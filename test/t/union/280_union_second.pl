# 280_union_second.pl
#		Two sources bring the same events at the same time.  The consumer of the second waits for the
#		consumer of the first, instead of doing the same work, but does not wait for a consumer that stands
#		still.  F-03.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Points;
use AtprotoTest::Union;
use Test::More;

my $node   = make_node('second', conf => "max_worker_processes = 20\natproto.reconnect_delay = 50ms");
my $union  = AtprotoTest::Union->new($node);
my $points = AtprotoTest::Points->new($node);
my @servers = map { AtprotoTest::Server->start($union->without(), '--hold-at', 400, '--hold-at', 1000) } 0, 1;

sub follows
{
	return query('SELECT string_agg(follows::text, $$ $$ ORDER BY name) FROM atproto.stat_subscription');
}

# Both have decoded the same events before either commits.
$points->hold('states read', "atproto pair$_") foreach 0, 1;
$union->follow('pair', [ 'chain', 'chain' ], \@servers);
$points->wait('states read', "atproto pair$_") foreach 0, 1;
is(follows(), 'false false', 'nobody knows who is the second');
$points->release('states read', 'atproto pair0');
wait_for_seq($node, 'pair0', 399);
is(follows(), 'false false', 'who brings news follows nobody');
$points->release('states read', 'atproto pair1');
wait_for_seq($node, 'pair1', 399);
wait_for(q{SELECT follows FROM atproto.stat_subscription WHERE name = 'pair1'});
is(follows(), 'false true', 'whose events were all there waits for the other one');
is(query(q{SELECT record_ops FROM atproto.stat_subscription WHERE name = 'pair1'}), '0', 'F-03: which were old');

# --- the first consumer stands still ---

$servers[1]->release;
wait_for_seq($node, 'pair1', 999);
wait_for(q{SELECT NOT follows FROM atproto.stat_subscription WHERE name = 'pair1'});
pass('who brings news waits for nobody any more');

# --- and goes on, behind the second ---

$servers[0]->release;
wait_for_seq($node, 'pair0', 999);
$_->release foreach @servers;
$union->at_end;
$union->matches('pair', 'pair');

$node->stop;
done_testing();
