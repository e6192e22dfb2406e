# 452_simulator_page.pl
#		The first statements of the README, with the program that the page names, prove an account without
#		the internet.  The command lines of doc/use/simulator.md make the networks that the page describes, the page's
#		servers send them, and the page's queries find people, posts and threads.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use AtprotoTest::Pages;
use IO::Socket::IP;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $page  = 'doc/use/simulator.md';
my $files = PostgreSQL::Test::Utils::tempdir('page');

# --- the first statements of the README ---

my ($program) = map { $_->{text} =~ m{\A(demo/network \d+)\n*\z} } blocks($page, 'sh');
my ($sql, $complaints) = ('', '');
my $demo = IPC::Run::start([ split / /, root() . "/$program" ], '<', \undef, '>', \$sql, '2>', \$complaints, IPC::Run::timeout($AtprotoTest::TIMEOUT));
$demo->pump until $sql =~ /RESET atproto\.fetch_allow.*\n/ || !$demo->pumpable;
like($sql, qr/^CALL atproto\.await\(:'me'\)/m, "$program prints statements") or diag($complaints);
my $first = make_node('first', create => 0, conf => "atproto.fetch_host_rate = 1000\n");
append_to_file("$files/first.sql", $sql);
my ($answers, $messages) = ('', '');
ok(IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $first->connstr('postgres'), '-f', "$files/first.sql" ], '<', \undef, '>', \$answers, '2>', \$messages), 'which run') or diag($messages);
unlike($messages, qr/WARNING|ERROR/, 'without a complaint');
like($answers, qr/^app\.bsky\.feed\.like\|\d+$/m, 'there are records of the account');
like($answers, qr/^t\|\|[1-9]\d*$/m, 'and the audit proves them') or diag($answers);
query("CREATE SCHEMA everybody; SELECT atproto.subscribe('everybody', (SELECT replace(pds, 'http', 'ws') FROM atproto.resolve((SELECT did FROM atproto.repo))), target => 'everybody', collections => '{app.bsky.actor.profile}', backfill => 'collections')");
$first->safe_psql('postgres', "CALL atproto.await_backfill('everybody')");
cmp_ok(query('SELECT count(*) FROM everybody.record'), '>', 100, 'its relay and its PDS have the other accounts');
$first->stop;
$demo->signal('TERM');
$demo->finish;
is($complaints, '', 'the program ends');
my ($port) = $sql =~ /http:\/\/localhost:(\d+)/;
is(IO::Socket::IP->new(PeerHost => 'localhost', PeerPort => $port), undef, 'and so do its servers');

# Options of each command of a program, by the file of the network.
my %simulate;
my %serve;
my $lines;    # a network as Jetstream: version, network, file
foreach (map { split /\n/, $_->{text} } blocks($page, 'sh'))
{
	$lines = [ $1, $2, $3 ] if m{^python3 test/oracle/jetstream\.py (v\d) /tmp/(\w+) > /tmp/(\w+)$};
	$simulate{$2} = $1 if m{^test/simulator/simulate (.*) --output /tmp/(\w+)$};
	$serve{$1}    = $2 if m{^test/server/streamserver --capture /tmp/(\w+) --port \d+ ?(.*)$};
}
is_deeply([ sort keys %simulate ], [ 'live', 'network' ], 'there are two networks');
is_deeply([ sort keys %serve ],    [ 'lines', 'live', 'network' ], 'which are served');
is_deeply($lines, [ 'v1', 'network', 'lines' ], 'one of them as Jetstream, too');

my %server;
foreach my $name (sort keys %simulate)
{
	my ($capture) = simulate(split / /, $simulate{$name});

	$server{$name} = AtprotoTest::Server->start($capture, split / /, $serve{$name});
	$server{lines} = AtprotoTest::Server->start(texts($lines->[0], $capture)) if $name eq $lines->[1];
}

my $node = make_node('page', create => 0);
my ($people) = $simulate{network} =~ /--accounts (\d+)/;
my ($last)   = $simulate{network} =~ /--events (\d+)/;
my @results;
foreach my $block (blocks($page, 'sql'))
{
	my $sql = $block->{text} =~ s{ws://127\.0\.0\.1:6008}{$server{network}->url}er =~ s{ws://127\.0\.0\.1:6010}{'ws://127.0.0.1:' . $server{lines}->port}er;

	push @results, [ split /\n/, query($sql) ];
	wait_for_seq($node, 'network', $last) if $sql =~ /'network'/;
}
is(scalar @results, 5, 'its blocks run');
is(query('SELECT count(*) FROM atproto.repo WHERE handle IS NOT NULL') >= $people, 1, 'all people are there');
is(scalar @{ $results[$_] }, 5, "query $_ finds what it wants") foreach 1 .. 3;
is(scalar(grep { !/^[a-z]+-[a-z]+\.example\.com\|[A-Z]\w+ [A-Z]\w+\|\d+$/ } @{ $results[1] }), 0, 'people have names and followers');
is(scalar(grep { !/\["\w\w"\]\|\{.*\}\|\{.*\}\|/ } @{ $results[2] }), 0, 'posts have languages, hashtags, mentions');
is(scalar(grep { !/\|\d\d+\|\d+$/ } @{ $results[3] }), 0, 'and likes');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing is refused');

# --- as Jetstream ---

my $likes = query("SELECT count(*) FROM atproto.record WHERE collection = 'app.bsky.feed.like'");
wait_for("SELECT count(*) >= $likes FROM likes.record");
is(query("SELECT count(*) FROM atproto.record a FULL JOIN likes.record b USING (did, collection, rkey) WHERE collection = 'app.bsky.feed.like' AND a.cid IS DISTINCT FROM b.cid"), '0', 'Jetstream brings the same likes');

# --- live ---

my ($from) = $serve{live} =~ /--rate-from (\d+)/;
query("CREATE SCHEMA live; " . subscribe_sql('live', $server{live}, cursor => 0, target => "'live'"));
wait_for_seq($node, 'live', $from + 20);
cmp_ok(query("SELECT seq FROM atproto.stat_subscription WHERE name = 'live'"), '<', 30_000, 'the past is there, and the rest comes later');
is(query("SELECT count(*) FROM live.record WHERE collection = 'app.bsky.feed.post' AND rkey > tid_ceil(now())"), '0', 'nothing is of the future');
$node->stop;
done_testing();
