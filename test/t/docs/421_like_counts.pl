# 421_like_counts.pl
#		The triggers of doc/use/cookbook.md count likes.  The counts must be those of the stream although
#		processes are killed, with several workers, after a replay and an export, after records were removed
#		by hand, and after the page's statement removed old likes.  E-43, E-48, F-03.
#
#		ATPROTO_SEED repeats a run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Kills;
use AtprotoTest::Pages;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = seed();

my $files = PostgreSQL::Test::Utils::tempdir('exports');
my ($simulated, $expected) = simulate(
	'--events' => 4000, '--accounts' => 60, '--history' => 0, '--exports' => $files,
	'--mix' => 'account=4,delete=8,update=6,sync=0,like=40,post=30,profile=3');
my $now     = time . '000000';
my $capture = make_capture('recipes.py', 'make', $now, $simulated);
my $last    = read_capture($capture);
my @rate    = ('--rate', 800);
my $server  = AtprotoTest::Server->start($capture, @rate);
my $node    = make_node('likes', conf => <<'EOF');
max_worker_processes = 20
deadlock_timeout = 100ms
atproto.reconnect_delay = 100ms
atproto.reconnect_max_delay = 500ms
EOF
my ($recipe) = map { $_->{text} } grep { $_->{text} =~ /CREATE TRIGGER/ } recipes('doc/use/cookbook.md');

IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/oracle/recipes.py', 'answer', $now, $capture ], '>', \my $answers) or BAIL_OUT('no answers');
my $likes = join '', map { join("|", @$_) . "\n" } @{ decode_json($answers)->{likes} };

# The counts of likes, computed from the table record.
my $counts = q{SELECT aturi_did(u) AS did, aturi_rkey(u) AS rkey, count(*) AS likes
	FROM (SELECT try_aturi(value->'subject'->>'uri') AS u FROM atproto.record WHERE collection = 'app.bsky.feed.like') l
	WHERE aturi_collection(u) = 'app.bsky.feed.post' AND aturi_did(u) IS NOT NULL AND aturi_rkey(u) IS NOT NULL GROUP BY 1, 2};
my $kept = 'SELECT did, rkey, likes FROM post_likes WHERE likes <> 0';

sub exact
{
	my ($name) = @_;

	is(query("SELECT count(*) FROM (($kept EXCEPT ALL $counts) UNION ALL ($counts EXCEPT ALL $kept)) d"), '0', "$name: the numbers are those of the records");
	is(query("SELECT count(*) FROM post_likes WHERE likes < 0"), '0', "$name: none is below zero");
	return;
}

sub are_those_of_the_stream
{
	my ($name) = @_;

	exact($name);
	is(query("$kept ORDER BY did, rkey") . "\n", $likes, "$name: the numbers are those of the stream");
	return;
}

my $finished = sub { try_query("SELECT (seq = $last)::int FROM atproto.stat_subscription") };

foreach my $workers (1, 3)
{
	query(subscribe_sql('likes', $server, cursor => 0, workers => $workers));
	if ($workers == 1)
	{
		# likes from before the triggers exist
		wait_for_seq($node, 'likes', 1500);
		query($recipe);
	}
	AtprotoTest::Kills->new($node, undef, [ 'the connection is cut', sub { $server->restart(@rate) } ])
	  ->settle(6, $finished, '1', sub { });
	are_those_of_the_stream("$workers workers, and kills");
	is(query('SELECT count(*) FROM atproto.dead_letter'), '0', "$workers workers: nothing is refused");

	# once more from the beginning: nothing is new
	$server->restart;
	query("SELECT atproto.pause('likes'); SELECT atproto.set_cursor('likes', 0); SELECT atproto.resume('likes')");
	wait_for("SELECT seq = $last FROM atproto.stat_subscription");
	are_those_of_the_stream("$workers workers, replayed");
	query("SELECT atproto.unsubscribe('likes')");
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
	last if $workers == 3;
	query('TRUNCATE atproto.record, atproto.repo, post_likes');
	$server->restart(@rate);
}

# --- further ways to remove and bring records ---

query(subscribe_sql('likes', $server));
my ($export) = grep { -e } map { "$files/1/$_.car" } split /\n/, query("SELECT r.did FROM atproto.record r JOIN atproto.repo p USING (did)
	WHERE p.active AND collection = 'app.bsky.feed.like' GROUP BY 1 ORDER BY count(*) DESC");
my ($whose) = $export =~ m{([^/]+)\.car$};
my $had = query("SELECT count(*) FROM atproto.record WHERE did = '$whose' AND collection = 'app.bsky.feed.like'");
query("DELETE FROM atproto.record WHERE did = '$whose' AND hashtext(rkey::text) % 2 = 0");
cmp_ok(query("SELECT count(*) FROM atproto.record WHERE did = '$whose' AND collection = 'app.bsky.feed.like'"), '<', $had, 'some likes are removed');
exact('removed by hand');
query("SELECT * FROM atproto.load_car('$whose', pg_read_binary_file('$export'))");
is(query("SELECT count(*) FROM atproto.record WHERE did = '$whose' AND collection = 'app.bsky.feed.like'"), $had, 'an export brings them back');
are_those_of_the_stream('with an export');

# --- two transactions change the same counts in opposite order, as workers do ---

sub liked
{
	my ($who, $post) = @_;
	return "INSERT INTO atproto.record (did, collection, rkey, cid, rev, value) VALUES ('did:web:$who.example', 'app.bsky.feed.like', '$post', cidlink_of(''), '3jwdwj2ctlk26',
		'{\"subject\": {\"uri\": \"at://did:web:author.example/app.bsky.feed.post/$post\"}}')";
}

sub unliked
{
	my ($who, $post) = @_;
	return "DELETE FROM atproto.record WHERE did = 'did:web:$who.example' AND rkey = '$post'";
}

query(join '; ', liked('a', 'y'), liked('b', 'x'));
my ($one, $other) = map { $node->background_psql('postgres') } 1, 2;
$one->query_safe('BEGIN; ' . liked('a', 'x'));
$other->query_until(qr/begun/, join(";\n", '\echo begun' . "\nBEGIN", liked('b', 'y'), unliked('b', 'x'), 'COMMIT', ''));
wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%did:web:b.example%'");
$one->query_safe(unliked('a', 'y') . '; COMMIT');
$other->query_safe('SELECT 1');
$_->quit foreach $one, $other;
exact('in another order');

# --- the statement for old likes runs while a worker removes one of the counted likes ---

query(join '; ', liked('a', 'z'), "UPDATE atproto.record SET indexed_at = now() - interval '31 days' WHERE did = 'did:web:a.example' AND rkey = 'z'");
my ($retention) = map { $_->{text} } grep { $_->{text} =~ /AS removed/ } recipes('doc/use/cookbook.md');
my ($worker, $remover) = map { $node->background_psql('postgres') } 1, 2;
$worker->query_safe('BEGIN; ' . liked('b', 'z'));
$remover->query_until(qr/begun/, "\\echo begun\n$retention");
wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%AS removed%'");
$worker->query_safe(unliked('a', 'z') . '; COMMIT');
$remover->query_safe('SELECT 1');
$_->quit foreach $worker, $remover;
exact('with retention');
unlike(slurp_file($node->logfile), qr/deadlock detected/, 'no worker waits for one that waits for it');

expect_check('record without repository', qr/did:web:[ab]\.example/);    # records that this test writes itself
$node->stop;
done_testing();
