# 241_retry_late.pl
#		Dead letters and removals that come late.  A letter is obsolete if a second source has removed its
#		record already; a letter of an export's record survives a removal that is older than the export.
#		Letters of different streams: sequence numbers of different streams cannot be compared.  F-03, R-32,
#		R-56.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('retry_late', conf => "max_worker_processes = 20\natproto.reconnect_delay = 20ms\natproto.multi_source_wait = 10min");

# --- an export lacks a record, whose removal was refused: the letter is the only trace of the record ---

query('CREATE SCHEMA exported');
my $server = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a 3 +y', 'a 2 -x', 'a 4 -x'), '--hold-at', 3, '--hold-at', 4);
query(subscribe_sql('exported', $server, cursor => 0, target => "'exported'", verify => "'hash'"));
wait_for_seq($node, 'exported', 2);
query("INSERT INTO atproto.dead_frame SELECT 'exported', sha256('commit'), 'commit';
	INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, path, did, digest)
	SELECT 'exported', 'apply', 'P0001', 'not yet', collection || '/' || rkey, did, sha256('commit') FROM exported.record WHERE rkey = 'x'");
$server->release;
wait_for_seq($node, 'exported', 3);
is(query("SELECT count(*) FROM exported.record WHERE rkey = 'x'"), '1', 'R-56: a removal that the repository had passed removes nothing');
is(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'exported'"), '1', 'R-56: and the letter stays');
$server->release;
wait_for_seq($node, 'exported', 4);
is(query("SELECT (SELECT count(*) FROM exported.record WHERE rkey = 'x'), count(*) FROM atproto.dead_letter WHERE subscription = 'exported'"), '0|0',
	'R-56: a newer removal removes the record, and the letter');
query("SELECT atproto.unsubscribe('exported')");

# --- in a union: a second source had removed the record before the letter was written ---

query(q[SELECT atproto.load_lexicon('{"lexicon": 1, "id": "app.bsky.feed.post", "defs": {"main": {"type": "record", "key": "any",
	"record": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "maxLength": 1}}}}}}', true)]);
foreach my $level ('hash', 'chain')
{
	my $s = "late_$level";
	my @steps = ('a 1 +x', 'b 1 +x', 'b 2 +y', 'a 2 -x');

	query("CREATE SCHEMA $s");
	query(subscribe_sql("ahead_$level", AtprotoTest::Server->start(make_capture('steps.py', @steps)), cursor => 0, target => "'$s'", verify => "'$level'"));
	wait_for_seq($node, "ahead_$level", 4);
	query(subscribe_sql("behind_$level", AtprotoTest::Server->start(make_capture('steps.py', @steps), '--hold-at', 4), cursor => 0, target => "'$s'", verify => "'$level'",
		validate => "'dead_letter'"));
	wait_for_seq($node, "behind_$level", 3);
	query("UPDATE atproto.subscription SET validate = 'none' WHERE name = 'behind_$level'");
	is(query("SELECT string_agg(atproto.retry(id), ', ') FROM atproto.dead_letter WHERE subscription = 'behind_$level' AND did = '@{[did('a')]}'"), 'obsolete',
		"F-03: at level $level, a letter that a source behind the removal has written is obsolete");
	is(query("SELECT count(*) FROM $s.record WHERE did = '@{[did('a')]}'"), '0', "F-03: at level $level, the record does not come back");
}

# --- letters of another stream ---

# A letter of subscription $name with this number, from this stream (NULL: the present one).
sub letter
{
	my ($name, $seq, $path, $endpoint, $did) = @_;
	my $bytes = "$name $seq $path " . ($endpoint =~ tr/'//dr);

	query("INSERT INTO atproto.dead_frame (subscription, digest, bytes, format, endpoint) VALUES ('$name', sha256('$bytes'), '$bytes', 'dag-cbor', $endpoint);
		INSERT INTO atproto.dead_letter (subscription, stage, seq, sqlstate, message, path, did, digest)
		VALUES ('$name', 'apply', $seq, 'P0001', 'not yet', '$path', '$did', sha256('$bytes'))");
	return;
}

# The remaining letters: number and path, with a mark for letters of a different stream.
sub letters
{
	my ($name) = @_;
	return query("SELECT string_agg(concat_ws(' ', seq, path, stage, CASE WHEN f.endpoint LIKE '%elsewhere%' THEN 'elsewhere' END), ', ' ORDER BY seq, path, f.endpoint)
		FROM atproto.dead_letter d LEFT JOIN atproto.dead_frame f USING (subscription, digest) WHERE subscription = '$name'");
}

my $elsewhere = "'wss://elsewhere.example.com:443/xrpc/com.atproto.sync.subscribeRepos'";
my $x         = 'app.bsky.feed.post/x';

query('CREATE SCHEMA moved');
$server = AtprotoTest::Server->start(
	make_capture('steps.py', 'a 1 +x', 'b 1 +x', 'a 2 +y', 'a 3 -x', 'a active', 'b deleted'), '--hold-at', 4, '--hold-at', 6);
query(subscribe_sql('moved', $server, cursor => 0, target => "'moved'"));
wait_for_seq($node, 'moved', 3);
letter('moved', 1, $x,         'NULL',     did('a'));
letter('moved', 2, $x,         $elsewhere, did('a'));
letter('moved', 2, '#account', 'NULL',     did('a'));
letter('moved', 3, '#account', $elsewhere, did('a'));
letter('moved', 9, $x,         'NULL',     did('a'));
letter('moved', 2, 'app.bsky.feed.post/of-b', 'NULL',     did('b'));
letter('moved', 3, 'app.bsky.feed.post/of-b', $elsewhere, did('b'));
query("INSERT INTO atproto.dead_letter (subscription, stage, seq, sqlstate, did, message) VALUES ('moved', 'beyond', 3, '54000', '" . did('b') . "', 'and more')");
$server->release;
wait_for_seq($node, 'moved', 5);
is(letters('moved'), join(', ', "2 app.bsky.feed.post/of-b apply", "2 $x apply elsewhere", '3  beyond', '3 #account apply elsewhere', '3 app.bsky.feed.post/of-b apply elsewhere', "9 $x apply"),
	'R-32: an event forgets the earlier letters of its own stream, and no letter of another one');
$server->release;
wait_for_seq($node, 'moved', 6);
is(letters('moved'), join(', ', "2 $x apply elsewhere", '3  beyond', '3 #account apply elsewhere', '3 app.bsky.feed.post/of-b apply elsewhere', "9 $x apply"),
	'R-32: so does the deletion of an account; what has no message stays as long as there is another stream');
query("DELETE FROM atproto.dead_letter; SELECT atproto.unsubscribe('moved')");

# A second subscription applies a held event: the letters belong to the subscription that received the event.
my @all = read_capture(make_capture('steps.py', 'b 1 +x', 'b 2 +y', 'b 3 +z', 'a 1 +x', 'a 2 +y', 'a 3 -x'));
my $dir = PostgreSQL::Test::Utils::tempdir();
query('CREATE SCHEMA pair');
my $ahead = AtprotoTest::Server->start(write_capture("$dir/ahead", @all[ 0 .. 3, 5 ]));
my $whole = AtprotoTest::Server->start(write_capture("$dir/whole", @all), '--hold-at', 5, '--hold-at', 6);
query(subscribe_sql('ahead', $ahead, cursor => 0, target => "'pair'", verify => "'chain'"));
query(subscribe_sql('whole', $whole, cursor => 0, target => "'pair'", verify => "'chain'"));
wait_for_seq($node, 'ahead', 6);
wait_for_seq($node, 'whole', 4);
is(query("SELECT string_agg(subscription || ' ' || why, ', ') FROM atproto.held_event"), 'ahead gap', 'R-32: a commit waits for the one before it');
query("SELECT atproto.pause('ahead')");
wait_for("SELECT pid IS NULL FROM atproto.stat_subscription WHERE name = 'ahead'");
letter('ahead', 4, $x, 'NULL', did('a'));
letter('whole', 5, $x, 'NULL', did('a'));
$whole->release;
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(letters('ahead'), '', 'R-32: an event forgets the letters of the subscription that received the event');
is(letters('whole'), "5 $x apply", 'R-32: and none of the subscription that applies the event, whose numbers are those of another stream');
query("DELETE FROM atproto.dead_letter; SELECT atproto.unsubscribe(name) FROM atproto.subscription WHERE target = 'pair'");

$node->stop;
done_testing();
