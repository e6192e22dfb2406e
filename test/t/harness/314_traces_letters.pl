# 314_traces_letters.pl
#		The committed transactions of dead letters, retry() and refills are explained by the model letters; with a
#		transaction left out or exchanged, the model refuses the transactions.  F-03, V-31.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'spin and gcc are not there' unless AtprotoTest::Trace::possible();

my $node = make_node('traced_letters', trace => $ENV{ATPROTO_TRACE} // PostgreSQL::Test::Utils::tempdir('trace'), conf => "max_worker_processes = 20\natproto.reconnect_delay = 20ms");

sub pause
{
	my ($name) = @_;
	query("SELECT atproto.pause('$name')");
	wait_for("SELECT pid IS NULL FROM atproto.stat_subscription WHERE name = '$name'");
	return;
}

# --- a source behind another source writes letters of removed records ---

query(q[SELECT atproto.load_lexicon('{"lexicon": 1, "id": "app.bsky.feed.post", "defs": {"main": {"type": "record", "key": "any",
	"record": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "maxLength": 1}}}}}}', true)]);
my @steps = ('a 1 +x', 'b 1 +x', 'b 2 +y', 'c 1 +x', 'c deactivated', 'a 2 -x', 'd 1 +x');
query(subscribe_sql('ahead', AtprotoTest::Server->start(make_capture('steps.py', @steps, 'c active', 'e 1 +y'), '--skip-from', 7, '--skip-to', 7), cursor => 0, verify => "'chain'"));
wait_for_seq($node, 'ahead', 9);
query(subscribe_sql('behind', AtprotoTest::Server->start(make_capture('steps.py', @steps), '--hold-at', 6), cursor => 0, verify => "'chain'", validate => "'dead_letter'"));
wait_for_seq($node, 'behind', 5);
query(q{UPDATE atproto.subscription SET validate = 'none' WHERE name = 'behind'});
query("SELECT atproto.retry($_)") foreach split /\n/, query('SELECT id FROM atproto.dead_letter ORDER BY id');
is(query("SELECT string_agg(did || ' ' || rkey, ', ' ORDER BY did) FROM atproto.record WHERE did = '@{[did('a')]}'"), '', 'retry() brings no record back');
query(q{SELECT atproto.pause('ahead'), atproto.pause('behind')});

# --- a refill writes a letter, and does not reach the commit with the removal ---

foreach my $how ('jumps', 'lacks a commit')
{
	my $schema = $how =~ s/ /_/gr;
	my $server = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a 2 -x', 'a 3 +y'));

	query("CREATE SCHEMA $schema");
	query(subscribe_sql($schema, $server, cursor => 0, target => "'$schema'", verify => "'chain'"));
	wait_for_seq($node, $schema, 3);
	pause($schema);
	$server->restart('--hold-at', 2);
	query("UPDATE atproto.subscription SET validate = 'dead_letter' WHERE name = '$schema'; SELECT atproto.refill('$schema', seq => 0), atproto.resume('$schema')");
	wait_for_seq($node, $schema, 1);
	pause($schema);
	if ($how eq 'jumps')
	{
		query("SELECT atproto.set_cursor('$schema', 3)");
	}
	else
	{
		$server->restart('--skip-from', 2, '--skip-to', 2);
		query("SELECT atproto.resume('$schema')");
		wait_for_seq($node, $schema, 3);
	}
	query("UPDATE atproto.subscription SET validate = 'none' WHERE name = '$schema'; CALL atproto.audit_all('$schema')");
	is(query(q{SELECT atproto.retry(id) FROM atproto.dead_letter WHERE path LIKE '%/x' AND subscription = '} . "$schema'"), 'obsolete', "$how: retry() does not bring the record back");
}

# --- what the model says ---

my $trace  = trace_of($node);
my @tried  = AtprotoTest::Trace::judge('--marks', $trace, 'letters') =~ /^  (\d+): (?:RETRY|AUDIT)/mg;
my $said   = AtprotoTest::Trace::judge('--untruths', $tried[-2], $trace, 'letters');

note($said);
like($said, qr/^ok - letters: .*: all/m, 'a run of the model leaves what was committed');
unlike($said, qr/^(not ok - letters: .*: \d+ of|undecided)/m, 'no object is refused');
like($said, qr/^ok - letters: .* $_: \d+ of/m, "the model refuses it with one transaction $_") foreach qw(without later);

$node->stop;
done_testing();
