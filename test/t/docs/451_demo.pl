# 451_demo.pl
#		Runs the SQL of make demo on a simulated network.  The feed shows the posts in the order in which
#		they came, and the counts of likes are right through deletions, deleted accounts and rewritten
#		records.  The screen shows new posts and posts with many likes, without the control characters that
#		a terminal would obey.  The queries at the end give rows, also after the replay of a real server's
#		stream.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $demo = test_dir() . '/../demo';
my $last = 6000;
my $half = 4000;
my ($capture) = simulate('--social', '--events', $last, '--accounts', 80, '--mix', 'post=30,delete=8,account=2,identity=1');

my $node   = make_node('demo');
# rate: one message in 1,000 seconds, from the first message with a rate on
my $server = AtprotoTest::Server->start($capture, '--rate', 0.001, '--rate-from', $half);

sub live
{
	my ($from) = @_;
	my @lines = split /\n/, query("\\set last $from\n\\set strong <\n\\set plain >\n\\i $demo/live.sql");

	return (pop @lines, @lines);
}

sub feed_is_right
{
	my ($when) = @_;

	is(query("SELECT count(*) FROM (SELECT post FROM feed) f FULL JOIN (SELECT aturi(did, collection, rkey) AS post FROM atproto.record WHERE collection = 'app.bsky.feed.post') r USING (post)
		WHERE f IS NULL OR r IS NULL"), '0', "$when: the feed has the posts");
	is(query("SELECT count(*) FROM (SELECT post, n FROM likes WHERE n <> 0) l FULL JOIN (SELECT (value->'subject'->>'uri')::aturi AS post, count(*) AS n FROM atproto.record
		WHERE collection = 'app.bsky.feed.like' GROUP BY 1) r USING (post) WHERE l.n IS DISTINCT FROM r.n"), '0', "$when: and each its likes");
	cmp_ok(query('SELECT count(*) FROM feed JOIN likes USING (post) WHERE likes.n > 3'), '>', 20, "$when: there are some");
	return;
}

query("\\i $demo/feed.sql");
query(subscribe_sql('demo', $server, cursor => 0, links => "'all'"));
wait_for_seq($node, 'demo', $half);
is(query('SELECT seq FROM atproto.cursor'), $half, 'what comes before the rate comes at once, and then one at a time');
feed_is_right('the past');
is(query('SELECT count(*) FROM feed a JOIN feed b ON b.n = (SELECT min(n) FROM feed x WHERE x.n > a.n) WHERE aturi_rkey(a.post) > aturi_rkey(b.post)'), '0', 'the order is that of the posts');

my ($from, @lines) = live(0);
is($from, query('SELECT max(n) FROM feed'), 'the screen goes on from the last one');
is(scalar(grep { /^<@[a-z]+-[a-z]+\.example\.com *>/ } @lines), 6, 'it shows some of them, with their authors');
cmp_ok(scalar(grep { /\d\d +\@[a-z]+-[a-z]+\.example\.com: / } @lines), '>', 0, 'and posts that many like');
is_deeply([ live($from) ], [$from], 'when nothing has come, it shows nothing');

$server->restart;
wait_for_seq($node, 'demo', $last);
feed_is_right('all of it');
cmp_ok(query("SELECT count(*) FROM atproto.repo WHERE status = 'deleted'"), '>', 0, 'accounts were deleted');
cmp_ok(scalar(live($from)), '>', 1, 'new posts are shown');

my $newest = query('SELECT max(n) FROM feed');
query("UPDATE atproto.record SET value = value || '{\"text\": \"red \\u001b[31m or\\nnot\"}'
	WHERE (did, collection, rkey) = (SELECT aturi_did(post), aturi_collection(post), aturi_rkey(post) FROM feed WHERE n = $newest)");
my (undef, $line) = live($newest - 1);
like($line, qr/red \[31m or not/, 'what a terminal obeys is not shown');

# --- the queries at the end ---

my ($rc, $out, $errors) = $node->psql('postgres', "\\i $demo/queries.sql", on_error_stop => 1);
is("$rc$errors", '0', 'the queries run');
my ($top, $thread) = (split /^== /m, $out)[ 2, 3 ];
my @likes = $top =~ /^(\d+)\|(\d+)\|/mg;
is(scalar @likes, 10, 'five posts are liked most');
is_deeply([ @likes[ grep { $_ % 2 == 0 } 0 .. 9 ] ], [ @likes[ grep { $_ % 2 } 0 .. 9 ] ], 'what is kept is what is counted');
cmp_ok(scalar(() = $thread =~ /^\@[a-z.-]+\| +\S/mg), '>', 2, 'the thread has answers');
cmp_ok(scalar(() = $out =~ /^[A-Z]\w+ [A-Z]\w+\|\d+$/mg), '>', 1, 'people have names and followers');

# --- the replay of a real server's stream ---

my $replay = AtprotoTest::Server->start(capture('pds.frames.gz'));
$node->safe_psql('postgres', 'CREATE SCHEMA replay; ' . subscribe_sql('replay', $replay, target => "'replay'", cursor => 0));
wait_for_seq($node, 'replay', $PDS_LAST);
($rc, $out, $errors) = $node->psql('postgres', "\\i $demo/replay.sql", on_error_stop => 1);
is("$rc$errors", '0', 'the queries of the replay run');
is_deeply([ $out =~ /^([tf])\|(\d+)\|(\d+)$/mg ], [ 't', split(/\|/, query('SELECT count(DISTINCT did), count(*) FROM replay.record')) ],
	'all repositories are what their accounts have signed');
is(query("SELECT count(*) FROM atproto.subscription WHERE name = 'replay'"), '0', 'the replay ends');

$node->stop;
done_testing();
