# 452_simulator_page.pl
#		doc/simulator.md: its command lines make the networks that it says, its servers send them, and its queries find
#		people, posts and threads there.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

use AtprotoTest;
use AtprotoTest::Pages;
use PostgreSQL::Test::Utils;
use Test::More;

my $page  = 'doc/simulator.md';
my $files = PostgreSQL::Test::Utils::tempdir('page');

# Options of each command of a program, by the file of the network.
my %simulate;
my %serve;
foreach (map { split /\n/, $_->{text} } blocks($page, 'sh'))
{
	$simulate{$2} = $1 if m{^test/simulator/simulate (.*) --output /tmp/(\w+)$};
	$serve{$1}    = $2 if m{^test/server/streamserver --capture /tmp/(\w+) --port \d+ ?(.*)$};
}
is_deeply([ sort keys %simulate ], [ 'live', 'network' ], 'there are two networks');
is_deeply([ sort keys %serve ],    [ 'live', 'network' ], 'which are served');

my %server;
foreach my $name (sort keys %simulate)
{
	my ($capture) = simulate(split / /, $simulate{$name});

	$server{$name} = AtprotoTest::Server->start($capture, split / /, $serve{$name});
}

my $node = make_node('page', create => 0);
my ($people) = $simulate{network} =~ /--accounts (\d+)/;
my ($last)   = $simulate{network} =~ /--events (\d+)/;
my @results;
foreach my $block (blocks($page, 'sql'))
{
	my $sql = $block->{text} =~ s{ws://127\.0\.0\.1:6008}{$server{network}->url}er;

	push @results, [ split /\n/, query($sql) ];
	wait_for_seq($node, 'network', $last) if $sql =~ /subscribe/;
}
is(scalar @results, 4, 'its blocks run');
is(query('SELECT count(*) FROM atproto.repo WHERE handle IS NOT NULL') >= $people, 1, 'all people are there');
is(scalar @{ $results[$_] }, 5, "query $_ finds what it wants") foreach 1 .. 3;
is(scalar(grep { !/^[a-z]+-[a-z]+\.example\.com\|[A-Z]\w+ [A-Z]\w+\|\d+$/ } @{ $results[1] }), 0, 'people have names and followers');
is(scalar(grep { !/\["\w\w"\]\|\{.*\}\|\{.*\}\|/ } @{ $results[2] }), 0, 'posts have languages, hashtags, mentions');
is(scalar(grep { !/\|\d\d+\|\d+$/ } @{ $results[3] }), 0, 'and likes');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing is refused');

# --- live ---

my ($from) = $serve{live} =~ /--rate-from (\d+)/;
query("CREATE SCHEMA live; " . subscribe_sql('live', $server{live}, cursor => 0, target => "'live'"));
wait_for_seq($node, 'live', $from + 20);
cmp_ok(query("SELECT seq FROM atproto.stat_subscription WHERE name = 'live'"), '<', 30_000, 'the past is there, and the rest comes later');
is(query("SELECT count(*) FROM live.record WHERE collection = 'app.bsky.feed.post' AND rkey > tid_ceil(now())"), '0', 'nothing is of the future');
$node->stop;
done_testing();
