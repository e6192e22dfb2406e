# 211_few_events.pl
#		Where a few events come at short intervals, the consumer applies several in one transaction; an
#		event that comes alone waits no longer than batch_delay.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use Test::More;

my $node = make_node('few', conf => "atproto.batch_delay = 60s\natproto.idle_timeout = 0\natproto.ping_interval = 0");
my $clock = AtprotoTest::Clock->new($node);
my $server = AtprotoTest::Server->start(capture('pds.frames.gz'), map { ('--hold-at', $_) } 2 .. 5);

sub received
{
	my ($n) = @_;
	wait_for("SELECT received = $n FROM atproto.stat_subscription");
	return;
}

query(subscribe_sql('s', $server, cursor => 0));
received(1);
$clock->advance(60);
wait_for_seq($node, 's', 1);
pass('one that comes alone waits for batch_delay');
foreach (2, 3)
{
	$server->release;
	received($_);
	$clock->advance(60);
}
wait_for_seq($node, 's', 3);
is(query('SELECT batches FROM atproto.stat_subscription'), '2', 'after a transaction, others are together in the next one');
$clock->advance(200);
$server->release;
received(4);
$clock->advance(60);
wait_for_seq($node, 's', 4);
pass('but not when that was long ago');

$node->stop;
done_testing();
