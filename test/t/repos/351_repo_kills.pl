# 351_repo_kills.pl
#		A backfill of a simulated network with live traffic, while the server, the consumer and the fetcher
#		are killed at random moments.  In the end the tables are those of the network, audits agree, and
#		triggers and record_event have each change once.  R-05, R-30, R-52, R-53, R-55.
#
#		ATPROTO_SEED is the seed of the run, ATPROTO_KILLS the number of kills.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Backfill;
use AtprotoTest::Kills;
use Test::More;

my $kills = $ENV{ATPROTO_KILLS} || 6;
my $seed  = seed();

my $simulated = AtprotoTest::Backfill->begin(seed => $seed);
my $verify   = (qw(chain full))[ rand 2 ];
my $backfill = (qw(network seen))[ rand 2 ];
my $workers  = 1 + int rand 2;
# a list brings the records from before the first event
my $cursor = $backfill eq 'network' ? int rand $simulated->half : 0;
note("$verify, $backfill, $workers, from $cursor");

my $preload = $simulated->preload;
my $node    = make_node('repo_kills', start => $preload, conf => $simulated->settings . "synchronous_commit = off\n");
my $server  = AtprotoTest::Server->start($simulated->capture, '--hold-at', $simulated->half + 1, '--rate', 100);

my $killer  = AtprotoTest::Kills->new($node, $preload);

# Nothing is outstanding up to this event.
sub settle
{
	my ($seq, $n) = @_;

	# processes that crashed are started again later each time
	$killer->settle($n, sub { $simulated->outstanding('kills', $seq) }, 'nothing', sub { $simulated->hurry });
	return;
}

$simulated->serve(1, $server);
query(<<'EOS');
CREATE TABLE seen (n serial, op text, did did, collection nsid, rkey recordkey, cid cidlink);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO public.seen (op, did, collection, rkey, cid) SELECT CASE TG_OP WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'update' ELSE 'delete' END,
		(r).did, (r).collection, (r).rkey, CASE TG_OP WHEN 'DELETE' THEN NULL ELSE (r).cid END
	FROM (SELECT CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END AS r) x; RETURN NULL; END $$;
CREATE TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON atproto.record FOR EACH ROW EXECUTE FUNCTION see();
EOS
query('SET synchronous_commit = on; ' . $simulated->subscribe_sql('kills', cursor => $cursor, verify => "'$verify'", workers => $workers, events => "'keep'", links => "'all'", backfill => "'$backfill'"));
query(q{SET synchronous_commit = on; SELECT atproto.count_links('{app.bsky.feed.like:subject.uri,app.bsky.graph.follow:subject}')});
settle(0, int($kills / 2));
$simulated->serve(2, $server);
$server->release;
settle($simulated->last, $kills - int($kills / 2));

is($simulated->difference, '', 'R-52, R-55: the rows are those that the network has, and so audits say');
is(query('SELECT count(*), (SELECT count(*) > 0 FROM atproto.link) FROM atproto.link_problems()'), '0|t', 'links are those of the records');
is(query(q{SELECT count(*) > 0, sum(n) = (SELECT count(*) FROM atproto.link JOIN atproto.link_source s ON s.id = source AND counted) FROM atproto.link_count}), 't|t', 'and are counted (atproto.check() compares each count)');
is(query("SELECT count(*) FROM (SELECT op, lag(op) OVER w AS op1, cid, lag(cid) OVER w AS cid1 FROM seen WINDOW w AS (PARTITION BY did, collection, rkey ORDER BY n)) s
	WHERE CASE op WHEN 'create' THEN op1 <> 'delete' ELSE COALESCE(op1, 'delete') = 'delete' OR cid = cid1 END"), '0', 'R-05, R-30: triggers saw each change once');
# a commit may create or update a record that was missed before, or delete such a record
is(query("SELECT op, count(*) FROM ((SELECT 'trigger', did, collection, rkey, cid FROM seen WHERE cid IS NOT NULL EXCEPT ALL SELECT 'trigger', did, collection, rkey, cid FROM atproto.record_event WHERE cid IS NOT NULL)
	UNION ALL (SELECT 'event', did, collection, rkey, cid FROM atproto.record_event WHERE cid IS NOT NULL EXCEPT ALL SELECT 'event', did, collection, rkey, cid FROM seen WHERE cid IS NOT NULL)
	UNION ALL (SELECT 'delete', did, collection, rkey, cid FROM seen WHERE cid IS NULL EXCEPT ALL SELECT 'delete', did, collection, rkey, NULL FROM atproto.record_event WHERE action = 'delete')) x (op) GROUP BY 1"),
	'', 'R-53: record_event has them, and nothing else');

$node->stop;
done_testing();
