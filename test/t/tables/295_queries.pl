# 295_queries.pl
#		The indexes of doc/use/queries.md exist while the consumer writes, every statement of the page runs,
#		and no query has to read a whole table.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $document = slurp_file("$FindBin::RealBin/../../../doc/use/queries.md");
my @blocks = $document =~ /^```sql\n(.*?)^```$/gms;
my @queries = grep { /^(SELECT|WITH)/ } map { s/\A(\s|--.*\n)+//r } map { split /;\n/ } @blocks;
cmp_ok(scalar @queries, '>=', 10, 'the document has queries');

my $pds  = capture('pds.frames.gz');
my $node = make_node('queries');
my $server = AtprotoTest::Server->start($pds);
$node->safe_psql('postgres', "SELECT atproto.create_tables('atproto')");
is($node->psql('postgres', $_), 0, 'runs: ' . (split /\n/)[0]) foreach @blocks;

$node->safe_psql('postgres', subscribe_sql('queries', $server, cursor => 0));
wait_for_seq($node, 'queries', $PDS_LAST);
tables_match($node, $pds, 'nothing is refused for an index', modes => ['record']);
is($node->safe_psql('postgres', q{SELECT count(*) > 0, bool_and(try_aturi(record_text(value, 'subject.uri', 1000))::text = value->'subject'->>'uri')
	FROM atproto.record WHERE collection = 'app.bsky.feed.like'}), 't|t', 'likes have subjects');

# Texts that any account can write as the subject of a like, with the consumer's search_path.
my $foul = $node->safe_psql('postgres', q{
	SET search_path = '';
	INSERT INTO atproto.record (did, collection, rkey, cid, rev, value)
	SELECT 'did:web:example.com', 'app.bsky.feed.like', ('foul' || i)::public.recordkey, cid, rev, v
	FROM (SELECT cid, rev FROM atproto.record LIMIT 1) r, unnest(ARRAY[NULL, '[1]', '{"subject": 3}', '{"subject": {"uri": "no"}}',
		'{"subject": {"uri": [1]}}', jsonb_build_object('subject', jsonb_build_object('uri', 'at://' || repeat('a', 5000)))]::jsonb[])
		WITH ORDINALITY u (v, i);
	SELECT count(*), count(public.try_aturi(public.record_text(value, 'subject.uri', 1000))) FROM atproto.record WHERE rkey::text LIKE 'foul%'});
is($foul, '6|0', 'foul subjects are no reason to refuse a record');

$node->safe_psql('postgres', 'VACUUM ANALYZE atproto.record');
foreach my $query (@queries)
{
	my $plan = $node->safe_psql('postgres', "SET enable_seqscan = off; SET random_page_cost = 1.1; EXPLAIN $query");
	unlike($plan, qr/Seq Scan/, 'without a sequential scan: ' . (split /\n/, $query)[0]);
}

expect_check('record without repository', qr/did:web:example\.com/);    # the foul subjects
$node->stop;
done_testing();
