# 362_link_counts_kills.pl
#		Two sources fill the same tables, each with two workers, while consumers, workers and the server are
#		killed at random moments.  Each count of links is the number of links, during the kills and at the end.
#
#		ATPROTO_SEED is the seed of the run, ATPROTO_KILLS the number of kills.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Kills;
use PostgreSQL::Test::Utils;
use Test::More;

my $kills = $ENV{ATPROTO_KILLS} || 8;
my $seed  = seed();

# few targets, so that the processes want the same counts all the time
my ($capture) = simulate(
	'--events' => 4000, '--accounts' => 30, '--history' => 0, '--seed' => $seed,
	'--mix' => 'account=4,delete=8,update=6,sync=0,like=60,post=10,profile=3');
my $last    = read_capture($capture);
my @servers = map { AtprotoTest::Server->start($capture, '--rate', 300 + 100 * $_) } 0, 1;
my $node    = make_node('link_counts_kills', conf => "max_worker_processes = 30\natproto.reconnect_delay = 50ms\natproto.batch_delay = 10ms\n");

query('BEGIN; CREATE SCHEMA k; ' . join('; ', map { subscribe_sql("k$_", $servers[$_], cursor => 0, target => "'k'", links => "'all'", workers => 2) } 0, 1)
	. q{; SELECT atproto.count_links('{app.bsky.feed.like:subject.uri,app.bsky.graph.follow:subject}', 'k'); COMMIT});

my $wrong = 'SELECT count(*) FROM (SELECT target, source, count(*) AS n FROM k.link JOIN k.link_source s ON s.id = source AND counted GROUP BY 1, 2) l'
  . ' FULL JOIN k.link_count c USING (target, source) WHERE l.n IS DISTINCT FROM c.n';
my @seen;
AtprotoTest::Kills->new($node, undef)->settle($kills,
	sub { try_query('SELECT min(COALESCE(seq, 0)) FROM atproto.stat_subscription') }, $last,
	sub { my $n = try_query($wrong); push @seen, $n if defined $n });
cmp_ok(scalar(@seen), '>', 3, 'looked at the counts meanwhile');
is(scalar(grep { $_ ne '0' } @seen), 0, 'each count was the number of links all the time');
is(query($wrong), '0', 'and is at the end');
cmp_ok(query('SELECT sum(n) FROM k.link_count'), '>', 500, 'links are counted');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');
unlike(slurp_file($node->logfile), qr/deadlock detected(?:(?! LOG: ).)*link_count/s, 'nobody has waited for ever for a count');

$node->stop;
done_testing();
