# 233_partition_listeners.pl
#		atproto.partition() moves rows of the table record: foreign keys, triggers, publications and
#		logical slots see nothing of the move, or the call is refused before anything is changed.
#		The first call, which makes the table partitioned, keeps views, storage parameters, tablespaces,
#		statistics and comments; it is refused where it would lose something.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('listeners', init => { allows_streaming => 'logical' },
	conf => "max_worker_processes = 20\nmax_replication_slots = 20\nmax_wal_senders = 20\n");
my $connstr = $node->connstr('copy');
my $columns = 'did, collection, rkey, cid, rev, value';

sub refused
{
	my ($sql, $pattern, $name) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like($err, $pattern, $name);
	return;
}

# Inserts rows whose record keys are times so many months from now: one each second of the month's second day.
sub insert
{
	my ($schema, $months, $n) = @_;
	query(<<"SQL");
INSERT INTO $schema.record ($columns) SELECT 'did:plc:z72i7hdynmk6r22z27h6tvur', 'app.bsky.feed.post',
	tid_floor((date_trunc('month', now() AT TIME ZONE 'UTC') + interval '$months months 1 day') AT TIME ZONE 'UTC' + n * interval '1 second')::recordkey,
	'bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy', tid_floor(now()), jsonb_build_object('text', repeat(md5(n::text), n))
FROM generate_series(1, $n) n
SQL
	return;
}

sub month
{
	my ($months) = @_;
	return query("SELECT to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '$months months', 'YYYY_MM')");
}

sub contents
{
	my ($database) = @_;
	return $node->safe_psql($database, "SELECT count(*), md5(string_agg(r::text, ' ' ORDER BY did, collection, rkey)) FROM (SELECT $columns FROM m.record) r");
}

sub catch_up
{
	$node->wait_for_catchup('copy');
	return;
}

# The definition of the table, without its rows.
sub state_of
{
	my ($schema) = @_;
	return query(<<"SQL");
SELECT (SELECT string_agg(format('%s %s %s', relname, relkind, relreplident), ' ' ORDER BY relname) FROM pg_class WHERE relnamespace = '$schema'::regnamespace),
	(SELECT count(*) FROM $schema.record), (SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace = '$schema'::regnamespace AND indisclustered)
SQL
}

# --- rows leave the default partition, and listeners see nothing ---

query(q{CREATE SCHEMA m; SELECT atproto.create_tables('m'); SELECT atproto.partition('m', 'month', ahead => 0)});
insert('m', 0, 10);
insert('m', $_, 10) foreach 1 .. 4;
query(<<'SQL');
CREATE TABLE bookmark (did did, collection nsid, rkey recordkey, PRIMARY KEY (did, collection, rkey), FOREIGN KEY (did, collection, rkey) REFERENCES m.record ON DELETE CASCADE ON UPDATE CASCADE);
INSERT INTO bookmark SELECT did, collection, rkey FROM m.record;
CREATE TABLE seen (n serial, op text, name text);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.seen (op, name) VALUES (tg_op, tg_name); RETURN NULL; END';
CREATE TRIGGER each AFTER INSERT OR UPDATE OR DELETE ON m.record FOR EACH ROW EXECUTE FUNCTION see();
CREATE TRIGGER always AFTER INSERT OR UPDATE OR DELETE ON m.record FOR EACH ROW EXECUTE FUNCTION see();
CREATE TRIGGER replica AFTER INSERT OR UPDATE OR DELETE ON m.record FOR EACH ROW EXECUTE FUNCTION see();
CREATE TRIGGER statement AFTER INSERT OR UPDATE OR DELETE ON m.record FOR EACH STATEMENT EXECUTE FUNCTION see();
CREATE TRIGGER rest AFTER INSERT OR UPDATE OR DELETE ON m.record_rest FOR EACH STATEMENT EXECUTE FUNCTION see();
ALTER TABLE m.record ENABLE ALWAYS TRIGGER always, ENABLE REPLICA TRIGGER replica;
CREATE ROLE reader;
GRANT SELECT ON m.record TO reader;
GRANT USAGE ON SCHEMA m TO reader;
ALTER TABLE m.record ENABLE ROW LEVEL SECURITY;
CREATE POLICY near ON m.record FOR SELECT TO reader USING (rkey <= tid_ceil(date_trunc('month', now()) + interval '2 months 15 days'));
CREATE PUBLICATION p FOR TABLE m.record WITH (publish_via_partition_root = true);
SELECT pg_create_logical_replication_slot('copy', 'pgoutput');
SQL
query('CREATE DATABASE copy');
$node->safe_psql('copy', q{CREATE EXTENSION atproto; CREATE SCHEMA m; SELECT atproto.create_tables('m');
	CREATE TABLE bookmark (did did, collection nsid, rkey recordkey, PRIMARY KEY (did, collection, rkey)); CREATE TABLE seen (n int, op text, name text)});
$node->safe_psql('copy', 'CREATE SUBSCRIPTION copy CONNECTION $$' . $node->connstr('postgres') . '$$ PUBLICATION p WITH (create_slot = false)');
$node->poll_query_until('copy', q{SELECT count(*) > 0 AND bool_and(srsubstate = 'r') FROM pg_subscription_rel}) or BAIL_OUT('the table was not copied');
catch_up();
is(contents('copy'), contents('postgres'), 'the copy is as the table');

my $before = contents('postgres');
my ($next, $second, $third, $fourth) = map { month($_) } 1 .. 4;
is(query(q{SELECT atproto.partition('m', ahead => 1)}), "made m.record_$next, with 10 rows of m.record_rest\nmade m.record_event_$next", 'a month takes its rows out of the default partition');
is(query("SELECT count(*) FROM m.record_$next"), '10', 'they are there');
is(contents('postgres'), $before, 'the same rows');
is(query('SELECT count(*) FROM bookmark'), '50', 'a foreign key with ON DELETE CASCADE removes nothing');
is(query('SELECT count(*) FROM seen'), '0', 'no trigger fires');
is(query("SELECT string_agg(DISTINCT relreplident::text, ' ') FROM pg_class WHERE oid IN ('m.record'::regclass, 'm.record_rest'::regclass, 'm.record_$next'::regclass)"), 'd', 'replica identities are as they were');
catch_up();
is(contents('copy'), $before, 'a subscriber loses nothing');
is(query('SET ROLE reader; SELECT count(*) FROM m.record'), '30', 'policies hold for what was moved');

# Later changes are replicated.
query("UPDATE m.record SET value = '{}' WHERE rkey = (SELECT min(rkey::text) FROM m.record_$next)::recordkey;
	DELETE FROM m.record WHERE rkey = (SELECT max(rkey::text) FROM m.record_$next)::recordkey");
is(query('SELECT count(*) FROM bookmark'), '49', 'the foreign key holds for what was moved');
is(query(q{SELECT string_agg(op || ' ' || name, ', ' ORDER BY n) FROM seen}), 'UPDATE always, UPDATE each, UPDATE statement, DELETE always, DELETE each, DELETE statement', 'so do triggers');
catch_up();
is(contents('copy'), contents('postgres'), 'and the subscriber hears of it');

# Whole schemas, and everything.
query('TRUNCATE seen; ALTER PUBLICATION p DROP TABLE m.record; ALTER PUBLICATION p ADD TABLES IN SCHEMA m');
query(q{SELECT atproto.partition('m', ahead => 2)});
is(query("SELECT count(*) FROM m.record_$second"), '10', 'a publication of the schema');
query('DROP PUBLICATION p; CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root = true)');
query(q{SELECT atproto.partition('m', ahead => 3)});
is(query("SELECT count(*) FROM m.record_$third"), '10', 'and one of all tables');
query(q{DELETE FROM m.record WHERE rkey IN (SELECT rkey FROM m.record ORDER BY rkey DESC LIMIT 1)});
catch_up();
is(contents('copy'), contents('postgres'), 'a subscriber loses nothing there, either');

# --- listeners with a wrong view of the move ---

my $state = state_of('m');
query('ALTER PUBLICATION p SET (publish_via_partition_root = false)');
refused(q{SELECT atproto.partition('m', ahead => 4)}, qr/cannot move rows out of partition m.record_rest, because of what listens to it\nDETAIL:  publication p publishes partitions by themselves\nHINT:  .*publish_via_partition_root/, 'a publication of partitions');
is(state_of('m'), $state, 'nothing is changed');
query('DROP PUBLICATION p; CREATE PUBLICATION p FOR TABLE m.record_rest WITH (publish_via_partition_root = true)');
refused(q{SELECT atproto.partition('m', ahead => 4)}, qr/DETAIL:  publication p publishes partition m.record_rest\n/, 'a publication of the default partition');
query('DROP PUBLICATION p; CREATE PUBLICATION p FOR TABLE m.record WITH (publish_via_partition_root = true)');
SKIP:
{
	my ($rc) = $node->psql('postgres', q{SELECT pg_create_logical_replication_slot('other', 'test_decoding')});

	skip 'there is no test_decoding', 2 if $rc != 0;
	refused(q{SELECT atproto.partition('m', ahead => 4)}, qr/DETAIL:  replication slot other, by test_decoding, beside publication p\n/, 'a slot that sees each table for itself, beside a publication');
	is(state_of('m'), $state, 'nothing is changed');
	# Without a publication, only the slot sees rows move from one table to the other.
	query('DROP PUBLICATION p');
	query(q{SELECT atproto.partition('m', ahead => 4)});
	is(query(q{SELECT count(*) FILTER (WHERE data ~ '^table m.record_rest: DELETE: did'), count(*) FILTER (WHERE data ~ '^table m.record_2..._..: INSERT: did') FROM pg_logical_slot_get_changes('other', NULL, NULL)}),
		'9|9', 'alone it sees the rows go from one table to the other');
	query(q{SELECT pg_drop_replication_slot('other')});
}
$node->safe_psql('copy', 'DROP SUBSCRIPTION copy');
query('DROP PUBLICATION IF EXISTS p');

# A constraint violated by the rows.
insert('m', 5, 2);
query(q{ALTER TABLE m.record ADD CONSTRAINT short CHECK (length(value->>'text') < 40) NOT VALID});
refused(q{SELECT atproto.partition('m', ahead => 5)}, qr/new row for relation "record_2..._.." violates check constraint "short"/, 'a constraint that is not valid yet');
query('ALTER TABLE m.record DROP CONSTRAINT short');

# --- properties kept by the first call ---

my $spaces = PostgreSQL::Test::Utils::tempdir('spaces');
mkdir "$spaces/$_" foreach 'tables', 'indexes';
$node->safe_psql('postgres', "CREATE TABLESPACE tables LOCATION '$spaces/tables'");
$node->safe_psql('postgres', "CREATE TABLESPACE indexes LOCATION '$spaces/indexes'");
query(<<'SQL');
CREATE SCHEMA k; SELECT atproto.create_tables('k');
ALTER TABLE k.record SET TABLESPACE tables, SET (toast.autovacuum_enabled = false, toast.autovacuum_vacuum_threshold = 77, fillfactor = 80);
ALTER TABLE k.record ALTER did SET (n_distinct = -0.5, n_distinct_inherited = -0.25), ALTER collection SET STATISTICS 777;
CREATE INDEX by_collection ON k.record (collection, lower(rkey::text)) TABLESPACE indexes WHERE fault IS NULL;
ALTER INDEX k.by_collection ALTER COLUMN 2 SET STATISTICS 555;
CREATE STATISTICS k.pairs (dependencies) ON did, collection FROM k.record;
ALTER STATISTICS k.pairs SET STATISTICS 333;
COMMENT ON STATISTICS k.pairs IS 'mine';
COMMENT ON CONSTRAINT record_pkey ON k.record IS 'the key';
CREATE VIEW k.grouped AS SELECT did, collection, rkey, cid, count(*) AS n FROM k.record GROUP BY did, collection, rkey;
CREATE VIEW k.on_grouped AS SELECT * FROM k.grouped;
SQL
insert('k', -1, 3);
query(q{SELECT atproto.partition('k', 'month', ahead => 0)});
is(query('SELECT sum(n) FROM k.on_grouped'), '3', 'a view that groups by the key');
is(query(q{SELECT count(*) > 2, string_agg(DISTINCT spcname, ' ') FROM pg_class c JOIN pg_tablespace t ON t.oid = reltablespace WHERE relnamespace = 'k'::regnamespace AND relname ~ '^record(_2|_rest|$)' AND relname !~ 'event' AND relkind IN ('r', 'p')}),
	't|tables', 'tablespaces of tables, and of partitions');
is(query(q{SELECT count(*) > 2, string_agg(DISTINCT COALESCE(spcname, 'none'), ' ') FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_tablespace t ON t.oid = reltablespace WHERE indrelid IN (SELECT relid FROM pg_partition_tree('k.record')) AND i.indpred IS NOT NULL}),
	't|indexes', 'of indexes');
# settings of the session for new tables do not apply to the partitions
my $default = q{SELECT count(*) FROM pg_class WHERE relnamespace = '%s'::regnamespace AND relname ~ '^record' AND (reltablespace <> 0 OR relkind = 'r' AND relam <> (SELECT oid FROM pg_am WHERE amname = 'heap'))};
query(q{CREATE ACCESS METHOD other TYPE TABLE HANDLER heap_tableam_handler; CREATE SCHEMA s; SELECT atproto.create_tables('s')});
insert('s', 1, 3);
query(q{SET default_tablespace = tables; SET default_table_access_method = other; SELECT atproto.partition('s', 'month', ahead => 0); SELECT atproto.partition('s', ahead => 2)});
is(query(sprintf $default, 's'), '0', 'settings of the session change nothing');
is(query(q{SELECT string_agg(DISTINCT COALESCE(t.reloptions::text, '') || c.reloptions::text, ' ') FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid WHERE c.relnamespace = 'k'::regnamespace AND c.relname ~ '^record_(2|rest)'}),
	'{autovacuum_enabled=false,autovacuum_vacuum_threshold=77}{fillfactor=80}', 'storage parameters, of TOAST, too');
is(query(q{SELECT count(*) > 4, string_agg(DISTINCT o, ' ') FROM pg_attribute, unnest(attoptions) o WHERE attname = 'did' AND o ~ '^n_distinct' AND attrelid IN (SELECT relid FROM pg_partition_tree('k.record'))}),
	't|n_distinct=-0.5 n_distinct_inherited=-0.25', 'n_distinct');
is(query(q{SELECT count(*) > 2, string_agg(DISTINCT attstattarget::text, ' ') FROM pg_attribute WHERE attname = 'collection' AND attrelid IN (SELECT relid FROM pg_partition_tree('k.record'))}), 't|777', 'targets of statistics');
is(query(q{SELECT attstattarget FROM pg_attribute WHERE attrelid = 'k.by_collection'::regclass AND attnum = 2}), '555', 'of an index');
is(query(q{SELECT stxrelid::regclass, stxstattarget, stxkind, obj_description(oid, 'pg_statistic_ext') FROM pg_statistic_ext WHERE stxname = 'pairs'}), 'k.record|333|{f}|mine', 'extended statistics');
is(query(q{SELECT count(*) FROM pg_statistic_ext}), '1', 'and no others');
is(query(q{SELECT obj_description(oid, 'pg_constraint') FROM pg_constraint WHERE conrelid = 'k.record'::regclass AND contype = 'p'}), 'the key', 'comments on constraints');
is(query(q{SELECT count(*) FROM pg_class WHERE relname ~ 'plain'}), '0', 'nothing of the old table is left');

# --- and properties too precious to lose: refused before anything is changed ---

query(q{CREATE SCHEMA r; SELECT atproto.create_tables('r')});
insert('r', 0, 3);
foreach my $case (
	[ 'CREATE PUBLICATION p FOR ALL TABLES', 'publication p', 'DROP PUBLICATION p' ],
	[ 'CREATE PUBLICATION p FOR TABLES IN SCHEMA r', 'publication p', 'DROP PUBLICATION p' ],
	[ 'CREATE PUBLICATION p FOR TABLE r.record', 'publication p', 'DROP PUBLICATION p' ],
	[ 'ALTER TABLE r.record CLUSTER ON record_pkey', 'cluster mark of index r.record_pkey', 'ALTER TABLE r.record SET WITHOUT CLUSTER' ],
	[ 'CREATE UNIQUE INDEX odd ON r.record (did, rev) WHERE rev IS NULL', 'unique index r.odd, which lacks column collection', 'DROP INDEX r.odd' ],
	[ q{ALTER TABLE r.record ADD CONSTRAINT short CHECK (length(value->>'text') < 40) NOT VALID}, 'constraint short, which is not valid', 'ALTER TABLE r.record DROP CONSTRAINT short' ],
	[ q{CREATE SUBSCRIPTION s CONNECTION 'dbname=none' PUBLICATION p WITH (connect = false, slot_name = NONE); INSERT INTO pg_subscription_rel SELECT oid, 'r.record'::regclass, 'r', NULL FROM pg_subscription}, 'subscription s', 'DROP SUBSCRIPTION s' ])
{
	my ($make, $what, $remove) = @$case;

	$node->safe_psql('postgres', "SET allow_system_table_mods = on; $make");
	$state = state_of('r');
	refused(q{SELECT atproto.partition('r', 'collection')}, qr/cannot make partitions of table r.record, because of what is on it\nDETAIL:  \Q$what\E\n/, $what);
	is(state_of('r'), $state, "$what: nothing is changed");
	$node->safe_psql('postgres', $remove);
}
query(q{SELECT atproto.partition('r', 'collection')});
is(query('SELECT count(*) FROM r.record_app_bsky_feed_post'), '3', 'without them');

# no subscription has filled these tables
expect_check('record without repository');
$node->stop;
done_testing();
