# 295_apply_paths.pl
#		The consumer writes new records into plain tables directly and into all further tables with a
#		statement; the rows must be equal.  Tried with repeated keys, existing keys, keys that a second
#		session is writing, refused rows, logical decoding and statistics.  F-03, E-43, B-29.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node(
	'apply_paths', conf => <<'CONF');
max_worker_processes = 40
max_prepared_transactions = 5
wal_level = logical
deadlock_timeout = 100ms
CONF
my $server = AtprotoTest::Server->start($pds);

# Was the upsert statement used?  It looks up each record in the primary key.
sub by_statement
{
	my ($schema, $records) = @_;
	my $of = "schemaname = '$schema' AND relname IN ('record', 'record0', 'record1')";

	wait_for("SELECT sum(n_tup_ins) >= $records FROM pg_stat_user_tables WHERE $of");
	return query("SELECT sum(idx_scan) >= $records FROM pg_stat_user_indexes JOIN pg_index USING (indexrelid)
		WHERE $of AND indisprimary") eq 't';
}

# Two schemas have the same records and states: so comparing one with the oracle is enough.
sub same_rows
{
	my ($schema, $other, $name) = @_;
	my %columns = (
		record => 'did, collection, rkey, cid, rev, value, raw',
		repo   => 'did, rev, commit, data, active, status, status_at, host, handle, sync, purge_rev');
	my @different;

	foreach my $table (sort keys %columns)
	{
		my ($a, $b) = map { "SELECT $columns{$table} FROM $_.$table" } $schema, $other;
		push @different, query("SELECT count(*) FROM (($a EXCEPT ALL $b) UNION ALL ($b EXCEPT ALL $a)) d");
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is("@different", '0 0', $name);
	return;
}

sub make_schema
{
	my ($schema, $changes) = @_;
	query("CREATE SCHEMA $schema; SELECT atproto.create_tables('$schema'); SET search_path = $schema, public; $changes");
	return;
}

query(<<'SQL');
CREATE DOMAIN kind AS nsid CHECK (octet_length(VALUE::text) > 0);
CREATE FUNCTION stay() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
CREATE ROLE keeper LOGIN;
GRANT ALL ON SCHEMA atproto TO keeper;
GRANT ALL ON ALL TABLES IN SCHEMA atproto TO keeper;
GRANT ALL ON ALL FUNCTIONS IN SCHEMA atproto TO keeper;
SQL

# --- which tables are written directly; the subscriptions take only creates, as updates and deletes are never written directly ---

my $columns = join ', ', map { "$_->[0] $_->[1] NOT NULL" } [ did => 'did' ], [ collection => 'nsid' ],
  [ rkey => 'recordkey' ], [ cid => 'cidlink' ], [ rev => 'atproto.tid' ], [ indexed_at => 'timestamptz DEFAULT now()' ];

my $parts = "DROP VIEW visible_record; DROP TABLE record;
	CREATE TABLE record ($columns, value jsonb, raw bytea, PRIMARY KEY (did, collection, rkey)) PARTITION BY HASH (did);
	CREATE TABLE record0 PARTITION OF record FOR VALUES WITH (MODULUS 2, REMAINDER 0);
	CREATE TABLE record1 PARTITION OF record FOR VALUES WITH (MODULUS 2, REMAINDER 1)";
# nested partitions; and a partition whose columns have a different order, with a dropped column between them
my $nested = "DROP VIEW visible_record; DROP TABLE record;
	CREATE TABLE record ($columns, value jsonb, raw bytea, PRIMARY KEY (did, collection, rkey)) PARTITION BY LIST (collection);
	CREATE TABLE record_like PARTITION OF record FOR VALUES IN ('app.bsky.feed.like') PARTITION BY HASH (did);
	CREATE TABLE record0 PARTITION OF record_like FOR VALUES WITH (MODULUS 1, REMAINDER 0);
	CREATE TABLE record1 (hole int, raw bytea, value jsonb, $columns, PRIMARY KEY (did, collection, rkey)); ALTER TABLE record1 DROP hole;
	ALTER TABLE record ATTACH PARTITION record1 DEFAULT";
my %direct = (
	parts   => $parts,
	nested  => "$nested; ALTER TABLE record1 ADD CHECK (octet_length(rkey::text) < 1000)",
	plain   => '',
	checked => "ALTER TABLE record ADD CHECK (octet_length(rkey::text) < 1000), ALTER indexed_at SET DEFAULT statement_timestamp()",
	columns => "ALTER TABLE record ADD a int, ADD note text NOT NULL DEFAULT 'none', ADD day date DEFAULT CURRENT_DATE;
		ALTER TABLE record DROP a, ADD b text",
	indexes => 'CREATE INDEX ON record (collection) WHERE cid IS NOT NULL; CREATE INDEX ON record USING gin (value);
		CREATE UNIQUE INDEX ON record (did, cid, collection, rkey); CREATE INDEX ON record (octet_length(rkey::text));
		CREATE INDEX ON repo (handle)',
	before   => 'CREATE TRIGGER t BEFORE INSERT ON record FOR EACH ROW EXECUTE FUNCTION stay()',
	refers   => 'ALTER TABLE record ADD FOREIGN KEY (did) REFERENCES repo DEFERRABLE INITIALLY DEFERRED',
	parts_before => "$parts; CREATE TRIGGER t BEFORE INSERT ON record1 FOR EACH ROW EXECUTE FUNCTION stay()");
my %statement = (
	policy    => 'ALTER TABLE record ENABLE ROW LEVEL SECURITY; CREATE POLICY p ON record USING (true);
		GRANT ALL ON SCHEMA policy TO keeper; GRANT ALL ON ALL TABLES IN SCHEMA policy TO keeper',
	generated => 'ALTER TABLE record ADD n int GENERATED ALWAYS AS (octet_length(rkey::text)) STORED',
	identity  => 'ALTER TABLE record ADD n int GENERATED ALWAYS AS IDENTITY',
	serial    => 'ALTER TABLE record ADD n serial',
	parts_deep   => "$nested; CREATE RULE r AS ON DELETE TO record0 DO ALSO NOTHING",
	deferred  => 'ALTER TABLE record ADD UNIQUE (did, collection, rkey, cid) DEFERRABLE',
	excluded  => 'ALTER TABLE record ADD EXCLUDE (did WITH =, collection WITH =, rkey WITH =)',
	domain    => 'DROP VIEW visible_record; ALTER TABLE record ALTER collection TYPE kind',
	modified  => "DROP VIEW visible_record; ALTER TABLE record ALTER rkey TYPE recordkey('any')");

foreach my $schema (sort keys %direct, keys %statement)
{
	make_schema($schema, $direct{$schema} // $statement{$schema});
	query(($schema eq 'policy' ? 'SET ROLE keeper;' : '')
		. subscribe_sql($schema, $server, cursor => 0, target => "'$schema'", actions => "ARRAY['create']"));
}
my ($creates) = map { scalar(() = /\tcreate\t/g) } oracle('', 'event', $pds, '--action', 'create');
wait_for_seq($node, 'plain', $PDS_LAST);
tables_match($node, $pds, 'plain: the tables are what the oracle says', schema => 'plain', args => [ '--action', 'create' ]);
foreach my $schema (sort keys %direct, keys %statement)
{
	wait_for_seq($node, $schema, $PDS_LAST);
	same_rows($schema, 'plain', "$schema: the same rows") if $schema ne 'plain';
	is(by_statement($schema, $creates) ? 'by the statement' : 'directly',
		exists $direct{$schema} ? 'directly' : 'by the statement', "$schema: how they were written");
}
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');
is(query("SELECT count(DISTINCT (note, day IS NULL)), count(b) FROM columns.record"), '1|0', 'columns: the defaults');
query("SELECT atproto.unsubscribe(name) FROM atproto.subscription");

# The setting atproto.direct_writes switches to statements, while the subscription goes on, for all tables.
make_schema('switched', '');
query('ALTER SYSTEM SET atproto.direct_writes = off; SELECT pg_reload_conf()');
query(subscribe_sql('switched', $server, cursor => 0, target => "'switched'", actions => "ARRAY['create']"));
wait_for_seq($node, 'switched', $PDS_LAST);
same_rows('switched', 'plain', 'switched off: the same rows');
is(by_statement('switched', $creates), 1, 'switched off: written by the statement');
query('ALTER SYSTEM RESET atproto.direct_writes; SELECT pg_reload_conf()');
query("TRUNCATE switched.record, switched.repo; SELECT pg_stat_reset(), atproto.set_cursor('switched', 0)");
wait_for("SELECT events = 2 * $PDS_LAST FROM atproto.cursor");
is(by_statement('switched', $creates) ? 'by the statement' : 'directly', 'directly', 'switched on again: directly');
query("SELECT atproto.unsubscribe('switched')");

# A removal that a refill reads again does not remove a record of an equal revision: an export of this revision has brought
# it.  Directly, by statements, and with a derived table, which would be told of the removal.
my $removal = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a 2 +y', 'a 3 -x'));
foreach my $way ('directly', 'by_statement', 'counted')
{
	make_schema($way, '');
	query("ALTER SYSTEM SET atproto.direct_writes = @{[$way eq 'by_statement' ? 'off' : 'on']}; SELECT pg_reload_conf()");
	query(subscribe_sql($way, $removal, cursor => 0, target => "'$way'", verify => "'chain'", $way eq 'counted' ? (count_collections => 'true') : ()));
	wait_for_seq($node, $way, 3);
	query("SELECT atproto.pause('$way')");
	wait_for("SELECT pid IS NULL FROM atproto.stat_subscription WHERE name = '$way'");
	query("INSERT INTO $way.record (did, collection, rkey, cid, rev, value) SELECT did, collection, 'x', cid, (SELECT rev FROM $way.repo), value FROM $way.record WHERE rkey = 'y'");
	query("SELECT atproto.refill('$way'); SELECT atproto.resume('$way')");
	wait_for("SELECT count(*) = 0 FROM $way.repo WHERE refill_by IS NOT NULL");
	is(query("SELECT string_agg(rkey::text, ' ' ORDER BY rkey) FROM $way.record"), 'x y', "$way: a record of an equal revision stays");
	query("SELECT atproto.unsubscribe('$way')");
}
query('ALTER SYSTEM RESET atproto.direct_writes; SELECT pg_reload_conf()');

# --- the same keys again and again: the order of the events decides (F-16) ---

my $again = make_capture('synth.py', 'again');
my $server2 = AtprotoTest::Server->start($again);
make_schema('again',        '');
make_schema('again_generated', $statement{generated});
foreach my $schema ('again', 'again_generated')
{
	query(subscribe_sql($schema, $server2, cursor => 0, target => "'$schema'", events => "'keep'"));
	wait_for_seq($node, $schema, scalar read_capture($again));
	tables_match($node, $again, "$schema: the last change of each key", schema => $schema, modes => [ 'record', 'repo', 'event' ]);
}
# triggers do not see intermediate states; a record that was removed and comes again is a new row
make_schema('again_alone', q{ALTER TABLE record ADD seen int DEFAULT 0;
	INSERT INTO record (did, collection, rkey, cid, rev, seen) SELECT did, 'app.bsky.feed.post', 'x', cid, '2222222222222', 7
	FROM (SELECT did FROM again.record_event GROUP BY did HAVING (array_agg(action ORDER BY seq))[1] = 'update') u,
		(SELECT cid FROM plain.record LIMIT 1) c});
isnt(query('SELECT count(*) FROM again_alone.record'), '0', 'again_alone: some are there');
query(subscribe_sql('again_alone', $server2, cursor => 0, target => "'again_alone'"));
wait_for_seq($node, 'again_alone', scalar read_capture($again));
same_rows('again_alone', 'again', 'again_alone: the last change of each key');
is(query('SELECT count(*) FROM again_alone.record WHERE seen <> 0'), '0', 'again_alone: the rows are new');

# only the last operation on a record counts, where some records exist already
my $folded = make_capture('synth.py', 'folded');
my $server3 = AtprotoTest::Server->start($folded);
make_schema('folded_generated', $statement{generated});
query(subscribe_sql('folded_generated', $server3, cursor => 0, target => "'folded_generated'"));
wait_for_seq($node, 'folded_generated', scalar read_capture($folded));
make_schema('folded', q{ALTER TABLE record ADD seen int DEFAULT 0;
	INSERT INTO record (did, collection, rkey, cid, rev, seen) SELECT r.did, 'app.bsky.feed.post', 'x', c.cid, '2222222222222', 7
	FROM folded_generated.repo r, (SELECT cid FROM plain.record LIMIT 1) c
	WHERE NOT EXISTS (SELECT FROM folded_generated.record f WHERE f.did = r.did AND f.value->>'text' = '1 3')});
is(query('SELECT count(*) FROM folded.record'), '4', 'folded: some are there');
query(subscribe_sql('folded', $server3, cursor => 0, target => "'folded'"));
wait_for_seq($node, 'folded', scalar read_capture($folded));
same_rows('folded', 'folded_generated', 'folded: the same rows');
is(query("SELECT value->>'text', seen FROM folded.record ORDER BY 1"), "1 2|7\n1 3|0\n1 4|0\n2 1|0", 'folded: those that were removed are new');

# --- records that exist already, with different contents ---

make_schema('there', q{INSERT INTO record (did, collection, rkey, cid, rev, value)
	SELECT did, collection, rkey, cid, '2222222222222', '{"old": true}' FROM plain.record WHERE hashtext(rkey::text) % 5 = 0});
query(subscribe_sql('there', $server, cursor => 0, target => "'there'"));
wait_for_seq($node, 'there', $PDS_LAST);
tables_match($node, $pds, 'there: records that were there are replaced', schema => 'there');
# without updates, which would reveal a doubled key
make_schema('created', q{INSERT INTO record (did, collection, rkey, cid, rev, value)
	SELECT did, collection, rkey, cid, '2222222222222', '{"old": true}' FROM plain.record WHERE hashtext(rkey::text) % 5 = 0});
query(subscribe_sql('created', $server, cursor => 0, target => "'created'", actions => "ARRAY['create']"));
wait_for_seq($node, 'created', $PDS_LAST);
same_rows('created', 'plain', 'created: each key is there once, with what came last');

# removed records are removed, whoever wrote their rows
make_schema('gone', q{INSERT INTO record (did, collection, rkey, cid, rev, value)
	SELECT did, collection, rkey, cid, '2222222222222', '{"old": true}' FROM plain.record p
	WHERE NOT EXISTS (SELECT FROM there.record t WHERE (t.did, t.collection, t.rkey) = (p.did, p.collection, p.rkey))});
isnt(query('SELECT count(*) FROM gone.record'), '0', 'gone: some are there');
query(subscribe_sql('gone', $server, cursor => 0, target => "'gone'"));
wait_for_seq($node, 'gone', $PDS_LAST);
same_rows('gone', 'there', 'gone: they were removed');

# --- existing records, and newer records, are updated and removed ---

foreach my $schema ('changes', 'changes_generated')
{
	make_schema($schema, "ALTER TABLE record ADD seen int NOT NULL DEFAULT 0; CREATE INDEX ON record (octet_length(value::text));
		INSERT INTO record (did, collection, rkey, cid, rev, indexed_at, seen, value) SELECT did, collection, rkey, cid,
			CASE WHEN hashtext(rkey::text) % 4 = 0 THEN 'bzzzzzzzzzzzz' ELSE '2222222222222' END::atproto.tid, '2000-01-01', 7, '{}' FROM plain.record;
		" . ($schema eq 'changes' ? '' : $statement{generated}));
	query(subscribe_sql($schema, $server, cursor => 0, target => "'$schema'", actions => "ARRAY['update', 'delete']"));
	wait_for_seq($node, $schema, $PDS_LAST);
}
same_rows('changes', 'changes_generated', 'changes: the same rows');
my $kinds = "SELECT seen, indexed_at > '2001-01-01', rev = 'bzzzzzzzzzzzz', value = '{}', count(*) FROM %s.record GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4";
my $changed = query(sprintf $kinds, 'changes');
is($changed, query(sprintf $kinds, 'changes_generated'), 'changes: columns of their own, and when they were written');
like($changed, qr/^7\|t\|f\|f\|\d+$/m, 'changes: some were updated');
like($changed, qr/^7\|f\|t\|t\|\d+$/m, 'changes: newer ones were not');
is(query('SET enable_seqscan = off; SELECT count(*) FROM changes.record WHERE octet_length(value::text) > 2'),
	query('SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM changes.record WHERE octet_length(value::text) > 2'),
	'changes: an index has them');

# --- rows that a second session is writing: each way in which its transaction can end ---

my $did = query("SELECT did FROM plain.record GROUP BY did ORDER BY count(*) DESC LIMIT 1");
my %other = (
	record => [ '', "INSERT INTO race.record SELECT did, collection, rkey, cid, '2222222222222' FROM plain.record WHERE did = '$did'" ],
	repo   => [ '', "INSERT INTO race.repo (did, rev) VALUES ('$did', 'bzzzzzzzzzzzz')" ],
	state  => [ "INSERT INTO repo (did) VALUES ('$did')", "UPDATE race.repo SET rev = 'bzzzzzzzzzzzz' WHERE did = '$did'" ]);
foreach my $what (sort keys %other)
{
	foreach my $end ('COMMIT', 'ROLLBACK')
	{
		make_schema('race', $other{$what}[0]);
		query("BEGIN; $other{$what}[1]; PREPARE TRANSACTION 'other'");
		query(subscribe_sql('race', $server, cursor => 0, target => "'race'"));
		wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND wait_event_type = 'Lock'");
		query("$end PREPARED 'other'");
		wait_for_seq($node, 'race', $PDS_LAST);
		if ($what eq 'record' || $end eq 'ROLLBACK')
		{
			same_rows('race', 'there', "race: $what, $end");
		}
		else
		{
			is(query("SELECT count(*) FILTER (WHERE did = '$did'), count(*) FROM race.record"),
				query("SELECT 0, count(*) FILTER (WHERE did <> '$did') FROM there.record"),
				"race: $what, $end: the other session's revision is newer");
		}
		query("SELECT atproto.unsubscribe('race')");
		wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'atproto race'");
		query('DROP SCHEMA race CASCADE');
	}
}

# --- records that a second session changes while the consumer updates or removes them ---

my $old = "INSERT INTO record (did, collection, rkey, cid, rev, value)
	SELECT did, collection, rkey, cid, '2222222222222', '{}' FROM plain.record";
my %change = (
	newer   => q{UPDATE %s.record SET rev = 'bzzzzzzzzzzzz', value = '{"other": true}' WHERE hashtext(rkey::text) % 2 = 0},
	older   => q{UPDATE %s.record SET value = '{"other": true}' WHERE hashtext(rkey::text) % 2 = 0},
	removed => q{DELETE FROM %s.record WHERE hashtext(rkey::text) % 2 = 0});
foreach my $what (sort keys %change)
{
	foreach my $end ('COMMIT', 'ROLLBACK')
	{
		make_schema($_, $old) foreach 'race', 'alone';
		query($change{$what} =~ s/%s/alone/r) if $end eq 'COMMIT';
		query('BEGIN; ' . $change{$what} =~ s/%s/race/r . "; PREPARE TRANSACTION 'other'");
		my $actions = $what eq 'older' ? "ARRAY['delete']" : "ARRAY['update', 'delete']";
		query(subscribe_sql($_, $server, cursor => 0, target => "'$_'", actions => $actions)) foreach 'race', 'alone';
		wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'atproto race' AND wait_event_type = 'Lock'");
		query("$end PREPARED 'other'");
		wait_for_seq($node, $_, $PDS_LAST) foreach 'race', 'alone';
		same_rows('race', 'alone', "race: $what, $end");
		foreach my $schema ('race', 'alone')
		{
			query("SELECT atproto.unsubscribe('$schema')");
			wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'atproto $schema'");
			query("DROP SCHEMA $schema CASCADE");
		}
	}
}

# --- rows that a constraint refuses; logical decoding and statistics of the accepted rows ---

my $condition = "ALTER TABLE record ADD CHECK (collection <> 'app.bsky.feed.post' OR substr(rkey::text, 11, 1) NOT BETWEEN 'a' AND 'e')";
make_schema('refuses',        $condition);
make_schema('refuses_generated', "$condition; $statement{generated}");
query("SELECT pg_create_logical_replication_slot('changes', 'test_decoding')");
foreach my $schema ('refuses', 'refuses_generated')
{
	query(subscribe_sql($schema, $server, cursor => 0, target => "'$schema'"));
	wait_for_seq($node, $schema, $PDS_LAST);
}
my ($letters, $letters_generated) = map { query("SELECT seq, path, stage, sqlstate, message FROM atproto.dead_letter WHERE subscription = '$_' ORDER BY 1, 2") }
  'refuses', 'refuses_generated';
cmp_ok(scalar(() = $letters =~ /\|23514\|/g), '>', 10, 'refuses: the records became dead letters');
is($letters, $letters_generated, 'refuses: the same as with the statement');
isnt(query('SELECT count(*) FROM refuses.record'), '0', 'refuses: others are stored');
same_rows('refuses', 'refuses_generated', 'refuses: the same as with the statement');

make_schema('seen', '');
query(subscribe_sql('seen', $server, cursor => 0, target => "'seen'"));
wait_for_seq($node, 'seen', $PDS_LAST);
same_rows('seen', 'there', 'seen: the same rows');
is(query(q{SELECT count(*) FILTER (WHERE data LIKE '%: INSERT: %') - count(*) FILTER (WHERE data LIKE '%: DELETE: %')
	FROM pg_logical_slot_get_changes('changes', NULL, NULL) WHERE data LIKE 'table seen.record: %'}),
	query('SELECT count(*) FROM seen.record'), 'seen: by logical decoding');
wait_for(q{SELECT n_tup_ins - n_tup_del = (SELECT count(*) FROM seen.record) FROM pg_stat_user_tables
	WHERE schemaname = 'seen' AND relname = 'record'});
unlike(slurp_file($node->logfile), qr/ERROR|WARNING/, 'nothing of it is an error to anybody');

# Rows from before the stream, half of them with a revision newer than any commit.
expect_check('record newer than its repository', qr/^[^|]*\|(changes|race|other|newer)[^|]*\|.*revision bzzzzzzzzzzzz/);
$node->stop;
done_testing();
