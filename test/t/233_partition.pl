# 233_partition.pl
#		atproto.partition(): tables are put into partitions while they are filled, and what was on
#		them is on them afterwards; months and collections are added, rows come out of the default
#		partition, months that are over go, with their links.  And what it refuses.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds    = capture('pds.frames.gz');
my $node   = make_node('partition');
my $server = AtprotoTest::Server->start($pds);

sub refused
{
	my ($sql, $pattern, $name) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like($err, $pattern, $name);
	return;
}

sub parts
{
	my ($table) = @_;
	return query("SELECT string_agg(inhrelid::regclass::text, ' ' ORDER BY inhrelid::regclass::text) FROM pg_inherits WHERE inhparent = '$table'::regclass");
}

my $months = query("SELECT string_agg('many.record_event_' || to_char(m, 'YYYY_MM'), ' ' ORDER BY m)
	FROM generate_series(date_trunc('month', now() AT TIME ZONE 'UTC'), date_trunc('month', now() AT TIME ZONE 'UTC') + interval '2 months', '1 month') m");

# --- by collection, while the stream comes ---

query('CREATE SCHEMA many');
query(subscribe_sql('many', $server, cursor => 0, target => "'many'", events => "'keep'"));
wait_for('SELECT seq > 0 FROM atproto.stat_subscription');
query(<<'SQL');
CREATE INDEX record_collection ON many.record (collection);
COMMENT ON INDEX many.record_collection IS 'mine';
CREATE VIEW many.mine WITH (security_barrier = true) AS SELECT did, count(*) FROM many.record GROUP BY did;
CREATE VIEW many.on_mine AS SELECT * FROM many.mine;
CREATE ROLE reader;
GRANT SELECT ON many.record, many.mine TO reader;
GRANT UPDATE (cid) ON many.record TO reader;
ALTER TABLE many.record SET (fillfactor = 90), ADD note text DEFAULT 'none', ADD CONSTRAINT allowed CHECK (rkey <> 'forbidden');
SQL
my $said = query("SELECT atproto.partition('many', 'collection', ahead => 2)");
wait_for_seq($node, 'many', $PDS_LAST);
tables_match($node, $pds, 'by collection: as the oracle says', schema => 'many', modes => [ 'record', 'repo', 'event' ]);
like($said, qr/^made many.record_rest\nmade many.record_app_bsky_feed_like\n.*\nmoved \d+ rows of many.record\nmade many.record_event_rest\n/s, 'it says what it did');
is(parts('many.record'), join(' ', map { "many.record_$_" } qw(app_bsky_feed_like app_bsky_feed_post app_bsky_feed_repost app_bsky_graph_block app_bsky_graph_follow rest)), 'partitions by collection');
is(parts('many.record_event'), "$months many.record_event_rest", 'events by month');
is(query('SELECT count(*) > 0, bool_and(collection = $$app.bsky.feed.post$$) FROM many.record_app_bsky_feed_post'), 't|t', 'records are where they belong');
is(query('SELECT count(*) FROM many.mine'), query('SELECT count(DISTINCT did) FROM many.record'), 'a view reads the new table');
is(query('SELECT count(*) FROM many.on_mine'), query('SELECT count(DISTINCT did) FROM many.record'), 'and one on it');
is(query(q{SELECT has_table_privilege('reader', 'many.record', 'SELECT'), has_table_privilege('reader', 'many.record', 'INSERT'),
	has_column_privilege('reader', 'many.record', 'cid', 'UPDATE'), has_column_privilege('reader', 'many.record', 'did', 'UPDATE'), has_table_privilege('reader', 'many.mine', 'SELECT')}),
	't|f|t|f|t', 'privileges');
is(query(q{SELECT obj_description('many.record_collection'::regclass), obj_description('many.record'::regclass) IS NOT NULL, col_description('many.record'::regclass, 5) IS NOT NULL}),
	'mine|t|t', 'comments');
is(query(q{SELECT string_agg(indexrelid::regclass::text || indisprimary, ' ' ORDER BY indexrelid::regclass::text) FROM pg_index WHERE indrelid = 'many.record'::regclass}),
	'many.record_collectionfalse many.record_pkeytrue', 'indexes have their names');
is(query(q{SELECT count(*), min(reloptions::text), max(reloptions::text) FROM pg_class WHERE relname ~ '^record_(rest|app_)' AND relnamespace = 'many'::regnamespace AND relkind = 'r'}),
	'6|{fillfactor=90}|{fillfactor=90}', 'storage parameters');
is(query(q{SELECT array_to_string(reloptions, ' ') FROM pg_class WHERE oid = 'many.mine'::regclass}), 'security_barrier=true', 'options of a view');
refused(q{UPDATE many.record SET rkey = 'forbidden'}, qr/violates check constraint "allowed"/, 'checks');
is(query('SELECT count(*) FROM many.record WHERE note IS DISTINCT FROM $$none$$'), '0', 'defaults');

is(query(q{SELECT atproto.partition('many', ahead => 2)}), '', 'once more changes nothing');
$said = query(q{SELECT atproto.partition('many', collections => '{app.bsky.actor.profile}', ahead => 2)});
like($said, qr/^made many.record_app_bsky_actor_profile, with \d+ rows of many.record_rest$/, 'another collection');
is(query(q{SELECT count(*) FROM many.record_rest WHERE collection = 'app.bsky.actor.profile'}), '0', 'its rows are where they belong');
query(q{SELECT atproto.set_cursor('many', 0)});
wait_for_seq($node, 'many', $PDS_LAST);
tables_match($node, $pds, 'by collection: the same afterwards', schema => 'many', modes => [ 'record', 'repo' ]);
query(q{SELECT atproto.partition('many', collections => ARRAY['com.example.' || repeat('averylongname', 4)]::nsid[], ahead => 2)});
is(query(q{SELECT length(relname) FROM pg_class WHERE relname ~ '^record_com_example_' AND relkind = 'r'}), '63', 'a long name is shortened');

# --- by month, of a table with rows ---

query('CREATE SCHEMA months');
query(subscribe_sql('months', $server, cursor => 0, target => "'months'"));
wait_for_seq($node, 'months', $PDS_LAST);
my $times = query(q{SELECT string_agg(DISTINCT 'months.record_' || to_char(t, 'YYYY_MM'), ' ') FROM
	(SELECT tid_timestamp(rkey::text::atproto.tid) AT TIME ZONE 'UTC' AS t FROM months.record WHERE rkey::text ~ '^[2-7a-j][2-7a-z]{12}$') r
	WHERE t >= '2022-11-01' AND t < now() AT TIME ZONE 'UTC'});
isnt($times, '', 'there are months');
query(q{SELECT atproto.partition('months', 'month', ahead => 0)});
like(parts('months.record'), qr/\Q$times\E/, 'months of which there are records');
tables_match($node, $pds, 'by month: as the oracle says', schema => 'months', modes => [ 'record', 'repo' ]);
is(query('SELECT count(*) > 0 FROM months.record_rest'), 't', 'what is no time is in the default partition');
query(q{SELECT atproto.set_cursor('months', 0)});
wait_for_seq($node, 'months', $PDS_LAST);
tables_match($node, $pds, 'by month: the same afterwards', schema => 'months', modes => [ 'record', 'repo' ]);

# A month that nobody had made: its rows are in the default partition, and come out of it.
my $next = query(q{SELECT to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month', 'YYYY_MM')});
query(q{INSERT INTO months.record (did, collection, rkey, cid, rev) SELECT did, collection,
	tid_floor((date_trunc('month', now() AT TIME ZONE 'UTC') + interval '40 days') AT TIME ZONE 'UTC')::recordkey, cid, rev FROM months.record LIMIT 1});
like(query(q{SELECT atproto.partition('months', ahead => 1)}), qr/^made months.record_$next, with 1 rows of months.record_rest$/m, 'a month takes its rows out of the default partition');

# --- months that are over ---

query("CREATE SCHEMA over; SELECT atproto.create_tables('over')");
my @ages = ("'2023-05-07Z'", "'2024-02-29 23:59:59Z'", "now() - interval '80 days'", "now() - interval '20 days'");
query(qq{INSERT INTO over.record (did, collection, rkey, cid, rev, value) SELECT did, collection, tid_floor($_)::recordkey, cid, rev, value
	FROM months.record WHERE collection = 'app.bsky.feed.like' AND value IS NOT NULL ORDER BY rkey LIMIT 3 ON CONFLICT DO NOTHING}) foreach @ages;
query(q{INSERT INTO over.record_event (subscription, action, did, collection, rkey, rev, received_at)
	SELECT 'x', 'create', did, collection, rkey, rev, tid_timestamp(rkey::text::atproto.tid) FROM over.record});
query(q{SELECT atproto.rebuild_links('over'); SELECT atproto.partition('over', 'month', ahead => 0)});
my ($rows, $links) = map { query("SELECT count(*) FROM over.$_") } qw(record link);
cmp_ok($links, '>=', $rows, 'there are links');
is(query(q{SELECT count(*) FROM over.record_rest}) . query(q{SELECT count(*) FROM over.record_event_rest}), '00', 'each row is in its month');
is(query(q{SELECT atproto.partition('over', keep => '100 years', keep_events => '100 years', ahead => 0)}), '', 'what is not over stays');
is(query(q{SELECT atproto.partition('over', keep => '3 months', ahead => 0)}), "dropped over.record_2023_05\ndropped over.record_2024_02", 'what is over goes');
is(query('SELECT count(*) < $$' . $rows . '$$ AND count(*) > 0 AND min(tid_timestamp(rkey::text::atproto.tid)) > now() - interval $$5 months$$ FROM over.record'), 't', 'with its rows');
is(query(q{SELECT count(*) FROM over.record_event}), $rows, 'but not events');
is(query("SELECT count(*) FROM atproto.link_problems('over')"), '0', 'the links of records go with them');
like(query(q{SELECT atproto.partition('over', keep_events => '1 year', ahead => 0)}), qr/^dropped over.record_event_2023_05\ndropped over.record_event_2024_02$/, 'months of events');

# --- what it refuses ---

query("CREATE SCHEMA odd; SELECT atproto.create_tables('odd')");
refused(q{SELECT atproto.partition('odd')}, qr/table "record" is not in partitions yet: by must be "collection" or "month"/, 'without by');
refused(q{SELECT atproto.partition('odd', 'week')}, qr/invalid value for parameter "by": "week".*HINT:  It is "collection" or "month"/s, 'by something else');
refused(q{SELECT atproto.partition('odd', 'month', '{app.bsky.feed.post}')}, qr/collections are for partitions by collection/, 'collections by month');
refused(q{SELECT atproto.partition('odd', 'collection', keep => '1 year')}, qr/records are kept for a time only in partitions by month/, 'keep by collection');
refused(q{SELECT atproto.partition('odd', 'month', ahead => -1)}, qr/ahead must be between 0 and 120/, 'a negative number');
refused(q{SELECT atproto.partition(NULL, 'month')}, qr/target must not be null/, 'no schema');
refused(q{SELECT atproto.partition('none', 'month')}, qr/schema "none" does not exist/, 'a schema that is not there');
refused(q{SELECT atproto.partition('many', 'month')}, qr/table many.record is in partitions already, by LIST \(collection\)/, 'other partitions');
refused(q{CREATE SCHEMA empty; SELECT atproto.partition('empty', 'month')}, qr/schema "empty" has no table "record"/, 'no tables');
query(<<'SQL');
CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
CREATE TRIGGER t BEFORE INSERT ON odd.record FOR EACH ROW EXECUTE FUNCTION stay();
CREATE MATERIALIZED VIEW odd.m AS SELECT * FROM odd.record;
CREATE FUNCTION odd.f(r odd.record) RETURNS int LANGUAGE sql AS 'SELECT 1';
SQL
refused(q{SELECT atproto.partition('odd', 'month')}, qr/cannot make partitions of table odd.record, because of what is on it\nDETAIL:  function odd.f\(odd.record\)\nrule .* on materialized view odd.m\ntrigger t\nHINT/, 'what would be lost');
is(query("SELECT relkind FROM pg_class WHERE oid = 'odd.record'::regclass"), 'r', 'and the table is as it was');
query('CREATE ROLE other; GRANT USAGE ON SCHEMA atproto, many TO other; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA atproto TO other');
refused(q{SET ROLE other; SELECT atproto.partition('many')}, qr/must be owner of table record/, 'who does not own the table');
query(q{UPDATE atproto.subscription SET backfill = 'repair' WHERE name = 'months'});
refused(q{SELECT atproto.partition('months', keep => '1 year')}, qr/months of records cannot be dropped, since subscription "months" fetches repositories/, 'what would come again');
is(query("SELECT count(*) FROM atproto.dead_letter"), '0', 'nothing was refused in all this');

$node->stop;
done_testing();
