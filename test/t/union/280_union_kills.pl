# 280_union_kills.pl
#		Runs the case of 280_union.pl with three sources while consumers, workers and the server are killed,
#		one after the other, and connections are cut.  R-30, R-32.
#
#		ATPROTO_KILLS is the number of kills, ATPROTO_SEED the seed of the run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Union;
use PostgreSQL::Test::Utils;
use Test::More;

my $kills = $ENV{ATPROTO_KILLS} // 8;
my $seed  = seed();

my $node = make_node('union_kills',
	conf => "max_worker_processes = 20\natproto.reconnect_delay = 50ms\natproto.multi_source_wait = 10min\natproto.batch_delay = 10ms");
my $union = AtprotoTest::Union->new($node);
my @captures = $union->lossy(3, 40);
my @servers  = map { AtprotoTest::Server->start($captures[$_], '--rate', 30 + 15 * $_, '--cut-after', 150 + 50 * $_) } 0 .. 2;
$union->follow('killed', [ 'chain', 'hash', 'chain' ], \@servers, links => "'all'");
# check() compares the counts with the links at the end
query(q{SELECT atproto.count_links('{app.bsky.feed.like:subject.uri,app.bsky.graph.follow:subject}', 'killed')});
query("UPDATE atproto.subscription SET workers = 2 WHERE name = 'killed2'");

sub seqs
{
	return try_query('SELECT sum(COALESCE(seq, 0)) FROM atproto.stat_subscription') // 0;
}

for (my $n = 0; $n < $kills; $n++)
{
	my $before = seqs();
	my $pid = try_query("SELECT pid FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker') ORDER BY random() LIMIT 1");
	# the whole server goes now and then
	kill +($n % 4 == 3 ? 'KILL' : 'TERM'), $pid if $pid;
	wait_until(sub { seqs() > $before || seqs() >= 3 * $PDS_LAST }, 'progress after a kill');
}
$union->at_end;
$union->matches('killed', 'killed');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');
cmp_ok(query('SELECT count(*) FROM killed.link_count'), '>', 10, 'links are counted');

$node->stop;
done_testing();
