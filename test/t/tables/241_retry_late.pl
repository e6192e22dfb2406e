# 241_retry_late.pl
#		Dead letters and removals that come late.  A letter is obsolete if a second source has removed its
#		record already; a letter of an export's record survives a removal that is older than the export.
#		F-03, R-56.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('retry_late', conf => "max_worker_processes = 20\natproto.reconnect_delay = 20ms");

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

$node->stop;
done_testing();
