# 233_partition.pl
#		atproto.partition() turns tables into partitioned tables while a consumer fills them, and keeps
#		indexes, checks, defaults and views.  The test adds months and collections, moves rows out of the
#		default partition, drops old months with their links, and calls the function with invalid arguments.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use IPC::Run;
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
query(subscribe_sql('many', $server, cursor => 0, target => "'many'", events => "'keep'", links => "'all'"));
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
is(query(q{SELECT count(*) > 0 FROM many.link}) . query(q{SELECT count(*) FROM atproto.link_problems('many')}), 't0', 'by collection: links are those of the records');
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

# A month without a partition: its rows are in the default partition, and leave it when the month is made.
my $next = query(q{SELECT to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month', 'YYYY_MM')});
query(q{INSERT INTO months.record (did, collection, rkey, cid, rev) SELECT did, collection,
	tid_floor((date_trunc('month', now() AT TIME ZONE 'UTC') + interval '40 days') AT TIME ZONE 'UTC')::recordkey, cid, rev FROM months.record LIMIT 1});
like(query(q{SELECT atproto.partition('months', ahead => 1)}), qr/^made months.record_$next, with 1 rows of months.record_rest$/m, 'a month takes its rows out of the default partition');

# --- old months ---

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
is(query(q{SELECT atproto.partition('over', keep => now() - date_trunc('month', tid_timestamp(rkey::text::atproto.tid) AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '10 days', ahead => 0)
	FROM over.record WHERE tid_timestamp(rkey::text::atproto.tid) < '2024-01-01' LIMIT 1}), '', 'nor a month that began before');
is(query(q{SELECT atproto.partition('over', keep => '3 months', ahead => 0)}), "dropped over.record_2023_05\ndropped over.record_2024_02", 'what is over goes');
is(query('SELECT count(*) < $$' . $rows . '$$ AND count(*) > 0 AND min(tid_timestamp(rkey::text::atproto.tid)) > now() - interval $$5 months$$ FROM over.record'), 't', 'with its rows');
is(query(q{SELECT count(*) FROM over.record_event}), $rows, 'but not events');
is(query("SELECT count(*) FROM atproto.link_problems('over')"), '0', 'the links of records go with them');
like(query(q{SELECT atproto.partition('over', keep_events => '1 year', ahead => 0)}), qr/^dropped over.record_event_2023_05\ndropped over.record_event_2024_02$/, 'months of events');

# --- whatever the session has set ---

query(<<'SQL');
CREATE SCHEMA styled; SELECT atproto.create_tables('styled');
SET datestyle = 'German'; SET intervalstyle = 'sql_standard'; SET timezone = 'Asia/Kolkata'; SET quote_all_identifiers = on;
SELECT atproto.partition('styled', 'month', ahead => 0);
SELECT atproto.partition('styled', ahead => 1, keep => '1 year', keep_events => '1 year');
SQL
is(query(q{SET timezone = 'UTC'; SELECT string_agg(pg_get_expr(relpartbound, oid), ' ' ORDER BY relname) FROM pg_class WHERE relnamespace = 'styled'::regnamespace AND relname ~ '^record_event_2...'}),
	query(q{SET timezone = 'UTC'; SELECT string_agg(format('FOR VALUES FROM (%L) TO (%L)', m AT TIME ZONE 'UTC', (m + interval '1 month') AT TIME ZONE 'UTC'), ' ' ORDER BY m)
		FROM generate_series(date_trunc('month', now() AT TIME ZONE 'UTC'), date_trunc('month', now() AT TIME ZONE 'UTC') + interval '1 month', '1 month') g (m)}),
	'months begin at midnight in UTC, whatever DateStyle and TimeZone say');

# --- objects and properties of the tables ---

query(<<'SQL');
CREATE ROLE analyst; CREATE ROLE nosy; CREATE SCHEMA kept; SELECT atproto.create_tables('kept');
ALTER TABLE kept.record ADD size int GENERATED ALWAYS AS (octet_length(value::text)) STORED, REPLICA IDENTITY FULL;
ALTER TABLE kept.record_event REPLICA IDENTITY NOTHING;
GRANT SELECT ON kept.record_event TO reader;
INSERT INTO kept.record SELECT did, collection, rkey, cid, rev, now(), value FROM months.record WHERE collection = 'app.bsky.feed.post';
ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO nosy, PUBLIC;
SELECT atproto.partition('kept', 'collection', '{app.bsky.feed.like}');
SELECT atproto.partition('kept', collections => '{app.bsky.feed.post,com.example.fooBar,com.example.foobar,com.ex-ample.foobar}');
ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM nosy, PUBLIC;
SQL
is(query(q{SELECT string_agg(relname, ' ') FROM pg_class WHERE relnamespace = 'kept'::regnamespace AND relname ~ '^record' AND relkind IN ('r', 'p') AND has_table_privilege('nosy', oid, 'SELECT')}), '',
	'default privileges give nobody what he had not');
is(query(q{SELECT has_table_privilege('reader', 'kept.record', 'SELECT'), has_table_privilege('reader', 'kept.record_event', 'SELECT')}), 'f|t', 'who had it has it');
is(query(q{SELECT string_agg(DISTINCT format('%s %s', relname ~ 'event', relreplident), ', ') FROM pg_class WHERE relnamespace = 'kept'::regnamespace AND relname ~ '^record' AND relkind IN ('r', 'p')}), 'f f, t n',
	'replica identity of the tables, and of their partitions');
is(query(q{SELECT count(*) > 0, bool_and(size = octet_length(value::text)) FROM kept.record_app_bsky_feed_post}), 't|t', 'generated columns, of rows out of the default partition, too');
is(query(q{SELECT count(DISTINCT pg_get_expr(relpartbound, oid)) FROM pg_class WHERE relnamespace = 'kept'::regnamespace AND relname ~ '^record_com_ex' AND relkind = 'r'}), '3', 'collections whose names are alike');
query(q{CREATE TABLE kept.record_app_bsky_actor_profile (a int)});
refused(q{SELECT atproto.partition('kept', collections => '{app.bsky.actor.profile}')}, qr/cannot make partition kept.record_app_bsky_actor_profile\nDETAIL:  There is a relation of that name, which is no partition of the table/, 'a table that only has the name');
query(q{CREATE SCHEMA theirs; SELECT atproto.create_tables('theirs'); CREATE VIEW theirs.v AS SELECT * FROM theirs.record; GRANT ALL ON SCHEMA theirs, atproto, public TO analyst;
	ALTER TABLE theirs.record OWNER TO analyst; ALTER TABLE theirs.record REPLICA IDENTITY USING INDEX record_pkey});
refused(q{SELECT atproto.partition('theirs', 'collection')}, qr/because of what is on it\nDETAIL:  replica identity by an index\nview theirs.v of \w+\nview theirs.visible_record of \w+\n/, 'views that the owner of the table cannot replace');

# --- who reads meanwhile ---

# A session in the background, and waits until the session waits for a lock.
sub begin_session
{
	my ($name, $sql) = @_;
	my %session = (out => '', name => $name);

	$session{handle} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') . " application_name=$name", '-c', $sql ], '>', \$session{out}, '2>&1');
	return \%session;
}

sub wait_for_lock
{
	my ($session, $type) = @_;

	wait_for("SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND locktype = '$type' AND application_name = '$session->{name}')");
	return;
}

query(<<'SQL');
CREATE SCHEMA read; SELECT atproto.create_tables('read');
CREATE FUNCTION read.pass() RETURNS bool LANGUAGE plpgsql AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(233); RETURN true; END';
INSERT INTO read.record SELECT did, collection, rkey, cid, rev, now(), value FROM months.record LIMIT 5;
ALTER TABLE read.record ADD CHECK (read.pass());
SQL
my $holder = $node->background_psql('postgres');
$holder->query_safe('SELECT pg_advisory_lock(233)');
my $maker = begin_session('maker', "SELECT atproto.partition('read', 'month')");
wait_for_lock($maker, 'advisory');
my $reader = begin_session('reader', 'SELECT count(*) FROM read.visible_record');
wait_for_lock($reader, 'relation');
$holder->query_safe('SELECT pg_advisory_unlock(233)');
$_->{handle}->finish foreach $maker, $reader;
like($maker->{out}, qr/^moved 5 rows of read.record$/m, 'who reads a view meanwhile is waited for by nobody');
is($reader->{out}, "0\n", 'and reads it afterwards');
$holder->query_safe('BEGIN; LOCK TABLE read.link IN SHARE ROW EXCLUSIVE MODE');
$maker = begin_session('maker', "SELECT atproto.partition('read', keep => '1 year', ahead => 4)");
wait_for_lock($maker, 'relation');
$holder->query_safe(q{SET lock_timeout = '10s'; SELECT count(*) FROM read.record; COMMIT});
$maker->{handle}->finish;
unlike($maker->{out}, qr/ERROR/, 'rebuild_links() and the end of months take their locks in one order');
$holder->quit;

# --- what it refuses ---

query("CREATE SCHEMA odd; SELECT atproto.create_tables('odd')");
query('CREATE TABLE odd.archive (LIKE odd.record INCLUDING ALL) PARTITION BY LIST (collection); CREATE TABLE odd.record_rest PARTITION OF odd.archive DEFAULT');
refused(q{SELECT atproto.partition('odd', 'collection')}, qr/cannot make partition odd.record_rest\nDETAIL:  There is a relation of that name, which is no partition of the table/, 'the partition of another table');
query('DROP TABLE odd.archive');
refused("BEGIN ISOLATION LEVEL $_; SELECT atproto.partition('odd', 'month')", qr/partitions are made at isolation level "read committed" only/, "rows that a snapshot does not show would be lost: $_")
  foreach 'REPEATABLE READ', 'SERIALIZABLE';
refused(q{SELECT atproto.partition('odd')}, qr/table "record" is not in partitions yet.*by => .collection./s, 'without by');
refused(q{SELECT atproto.partition('odd', 'week')}, qr/invalid value for parameter "by": "week".*HINT:  It is "collection" or "month"/s, 'by something else');
refused(q{SELECT atproto.partition('odd', 'month', '{app.bsky.feed.post}')}, qr/collections are for partitions by collection/, 'collections by month');
refused(q{SELECT atproto.partition('odd', 'collection', keep => '1 year')}, qr/records are kept for a time only in partitions by month/, 'keep by collection');
refused(q{SELECT atproto.partition('odd', 'month', keep => '1 month -40 days')}, qr/keep must not be negative/, 'months that are not over');
refused(q{SELECT atproto.partition('odd', 'month', keep_events => '-1 day')}, qr/keep_events must not be negative/, 'likewise events');
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

# rows written by the test
expect_check('record without repository');
$node->stop;
done_testing();
