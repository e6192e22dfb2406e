# 385_citus_partitions.pl
#		Partitioned and distributed tables: a consumer fills them, and partitions for more months are made
#		and distributed.  Operations beyond the abilities of Citus are refused, and nothing is changed.
#
#		Needs Citus: see test/citus/build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Citus;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

if (my $why = AtprotoTest::Citus::missing())
{
	plan skip_all => $why;
}

my $pds = capture('pds.frames.gz');
my ($node) = make_citus('citus_partitions', workers => 1);
my $server = AtprotoTest::Server->start($pds);

sub call
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "CALL atproto.maintain_partitions($sql)");
	return $err;
}

sub month
{
	my ($months) = @_;
	return query("SELECT to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '$months months', 'YYYY_MM')");
}

query(q{SELECT atproto.partition('atproto', 'month', ahead => 0)});
query(q{SELECT atproto.distribute('atproto')});
query(subscribe_sql('s', $server, cursor => 0, links => "'all'"));
wait_for_seq($node, 's', $PDS_LAST);
tables_match($node, $pds, 'a stream fills them');
my ($next, $second) = (month(1), month(2));
like(call(q{'atproto', ahead => 1}), qr/made atproto.record_$next\n/, 'a month to come');
is(query("SELECT count(*) FROM citus_shards WHERE table_name = 'atproto.record_$next'::regclass") > 0 ? 't' : 'f', 't', 'is distributed, too');
query(<<'SQL');
INSERT INTO atproto.record (did, collection, rkey, cid, rev) VALUES ('did:plc:z72i7hdynmk6r22z27h6tvur', 'app.bsky.feed.like',
	tid_floor((date_trunc('month', now() AT TIME ZONE 'UTC') + interval '2 months 1 day') AT TIME ZONE 'UTC')::recordkey,
	'bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy', tid_floor(now()))
SQL
like(call(q{'atproto', ahead => 2}), qr/ERROR:  cannot move rows out of partition atproto.record_rest\nDETAIL:  Citus keeps its rows on other servers/, 'rows of the default partition stay there');
is(query(q{SELECT count(*) FROM atproto.link_problems()}), '0', 'links are those of the records');
wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription});
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing is refused');

# A month is dropped with the links of its records, in steps.
query(qq{CREATE TABLE atproto.record_2023_02 PARTITION OF atproto.record FOR VALUES FROM ('3jo5haaaaaa22') TO ('3jqfraaaaaa22')});
query(<<'SQL');
INSERT INTO atproto.record (did, collection, rkey, cid, rev, value) SELECT ('did:plc:' || lpad(translate(n::text, '0189', 'abcd'), 24, 'a'))::did, 'app.bsky.feed.like',
	tid_floor('2023-02-10 12:00+00'::timestamptz + n * interval '1 second')::recordkey, 'bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy', tid_floor(now()),
	jsonb_build_object('$type', 'app.bsky.feed.like', 'subject', jsonb_build_object('cid', 'bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy',
		'uri', 'at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3l6oveex3ii2l'))
FROM generate_series(1, 2500) n
SQL
is(query('SELECT count(*) FROM atproto.record_2023_02'), '2500', 'a month that is over');
query(<<'SQL');
INSERT INTO atproto.repo (did, sync) SELECT did, (ARRAY['synchronized', 'resyncing', 'unproven', 'partial'])[1 + row_number() OVER (ORDER BY did) % 4] FROM atproto.record_2023_02;
SELECT atproto.rebuild_links();
SQL
my $links = query('SELECT count(*) FROM atproto.link');
like(call(q{'atproto', ahead => 1, keep => '1 year'}), qr/dropped atproto.record_2023_02\n/, 'goes');
is(query('SELECT count(*) FROM atproto.link'), $links - 2500, 'with its links');
is(query(q{SELECT count(*) FROM atproto.link_problems()}), '0', 'and no others');

is(query(q{SELECT string_agg(DISTINCT r.sync, ', ' ORDER BY r.sync) FROM atproto.repo r WHERE did::text LIKE 'did:plc:aaaaaaaaaaaaaaaaaaaa%'}), 'desynchronized, partial, unproven', 'no repository of the month claims to be synchronized');
query(q{DELETE FROM atproto.repo WHERE did::text LIKE 'did:plc:aaaaaaaaaaaaaaaaaaaa%'});

# A batch has written into the month, and not committed (doc/develop/races.md, 33): the month waits, and goes with the links of the batch.
query(qq{CREATE TABLE atproto.record_2023_02 PARTITION OF atproto.record FOR VALUES FROM ('3jo5haaaaaa22') TO ('3jqfraaaaaa22')});
my $points = AtprotoTest::Points->new($node);
my $like   = 'app.bsky.feed.like/3jp';
my $late   = AtprotoTest::Server->start(make_capture('steps.py', "a 1 >${like}aaaaaaaa22", "b 1 >${like}bbbbbbbb22", "a 2 -${like}aaaaaaaa22 >${like}cccccccc22"), '--hold-at', 3);
query(subscribe_sql('late', $late, cursor => 0, links => "'all'"));
wait_for_seq($node, 'late', 2);
is(query('SELECT count(*) FROM atproto.record_2023_02'), '2', 'records come into a month that is over');
$links = query('SELECT count(*) FROM atproto.link');
# a repository without a claim is not locked on its node
my $accounts = "ARRAY['" . join("', '", map { did($_) } 'a', 'b') . "']::did[]";
query("UPDATE atproto.repo SET sync = 'partial', proved = NULL, proved_rev = NULL WHERE did = ANY ($accounts)");
$points->hold('cursor next', 'atproto late');
$late->release;
$points->wait('cursor next', 'atproto late');
my $month = $points->session('operator', q{CALL atproto.maintain_partitions('atproto', ahead => 1, keep => '1 year')});
$points->blocked('operator');
$points->release('cursor next', 'atproto late');
unlike(($month->finish)[1], qr/ERROR/, 'a month that a batch is writing into goes');
wait_for_seq($node, 'late', 3);
is(query(q{SELECT to_regclass('atproto.record_2023_02') IS NULL, (SELECT count(*) FROM atproto.link)}), 't|' . ($links - 2), 'with the links that the batch has written');
is(query(q{SELECT count(*) FROM atproto.link_problems()}), '0', 'and no others');
query("SELECT atproto.unsubscribe('late'); DELETE FROM atproto.record WHERE did = ANY ($accounts); DELETE FROM atproto.repo WHERE did = ANY ($accounts)");

# Without links months go at once.
query(q{UPDATE atproto.subscription SET links = 'none'; DELETE FROM atproto.link});
query(qq{CREATE TABLE atproto.record_2023_01 PARTITION OF atproto.record FOR VALUES FROM ('3jlnjaaaaaa22') TO ('3jo5haaaaaa22')});
like(call(q{'atproto', ahead => 1, keep => '1 year'}), qr/dropped atproto.record_2023_01\n.*NOTICE:  rows of atproto.record_rest that are as old stay there/m, 'a month without links');
tables_match($node, $pds, 'the others stay', modes => ['repo']);

# the record of the second month has lost its repository
expect_check('record without repository', undef, maybe => 1);
stop_citus();
done_testing();
