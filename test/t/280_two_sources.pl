# 280_two_sources.pl
#		Two streams with the same repositories into the same tables, at the same
#		time and out of step: each record is there as if there were one.  F-03, F-15.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $last = 1600;
my $node = make_node('two_sources', conf => 'atproto.reconnect_delay = 50ms');

sub query
{
	my ($sql) = @_;
	return $node->safe_psql('postgres', $sql);
}

# One is ahead, then the other, then both run at once, one of them cut now and then; a
# third begins when they are done.
my @servers = (
	AtprotoTest::Server->start($pds, '--hold-at', 500, '--rate', 2000, '--cut-after', 300),
	AtprotoTest::Server->start($pds, '--hold-at', 800, '--rate', 2000),
	AtprotoTest::Server->start($pds));
query(subscribe_sql('s0', $servers[0], cursor => 0));
wait_for_seq($node, 's0', 499);
query(subscribe_sql('s1', $servers[1], cursor => 0));
wait_for_seq($node, 's1', 799);
$_->release foreach @servers[ 0, 1 ];
wait_for_seq($node, "s$_", $last) foreach 0, 1;
tables_match($node, $pds, 'the tables are what the oracle says');
query(subscribe_sql('s2', $servers[2], cursor => 0));
wait_for_seq($node, 's2', $last);
tables_match($node, $pds, 'they still are after a third');

# Each operation was applied by one of them.
my ($events) = oracle('', 'events', $pds);
my $ops = 0;
$ops += $_ foreach $events =~ /^op\t\w+\t(\d+)$/mg;
is(query('SELECT sum(record_ops), min(events), max(events) FROM atproto.cursor'), "$ops|$last|$last", 'each operation was applied by one of them');
is(query("SELECT record_ops FROM atproto.cursor WHERE subscription = 's2'"), '0', 'none by the one that was late');
is(query("SELECT count(*) FROM atproto.cursor WHERE record_ops > 0"), '2', 'some by each of the others');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');
unlike(slurp_file($node->logfile), qr/ERROR|deadlock/, 'they did not get into each other\'s way');

$node->stop;
done_testing();
