# 380_citus.pl
#		distribute() makes the tables of a stream into tables of Citus, and refuses schemas and columns with
#		which rows would lie on the wrong node.  A consumer fills the tables afterwards, every event once.
#		When Citus is not loaded, the consumer writes nothing: the rows would stay on the coordinator, where
#		no query finds them.
#
#		Needs Citus: see test/citus/build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use AtprotoTest::Citus;
use PostgreSQL::Test::Utils;
use Test::More;

if (my $why = AtprotoTest::Citus::missing())
{
	plan skip_all => $why;
}

my $pds = capture('pds.frames.gz');
my $ops = operations($pds);
my %changes = changes_conf("wal_level = logical\natproto.reconnect_delay = 100ms\n");
my ($node, @workers) = make_citus('citus', conf => $changes{conf});

# The error or notices of a statement.
sub said
{
	my ($sql, $database) = @_;
	my ($rc, $out, $err) = $node->psql($database // 'postgres', $sql);
	return ($rc, $err);
}

sub refused
{
	my ($sql, $pattern, $name, $database) = @_;
	my ($rc, $err) = said($sql, $database);

	isnt($rc, 0, "$name: refused");
	like($err, $pattern, "$name: it says why");
	return;
}

# --- what cannot work ---

query('CREATE DATABASE without');
query('CREATE EXTENSION atproto; SELECT atproto.create_tables(\'atproto\')', database => 'without');
refused('SELECT atproto.distribute()', qr/this database has no Citus\nHINT/, 'a database without Citus', 'without');
refused(q{SELECT atproto.distribute('nowhere')}, qr/schema "nowhere" does not exist/, 'a schema that does not exist');
refused(q{SELECT atproto.distribute('public')}, qr/schema "public" has no table "repo"\nHINT:.*create_tables/, 'a schema without the tables');
refused(q{SELECT atproto.distribute(shards => 0)}, qr/at least one shard/, 'no shards');
refused(q{SELECT atproto.distribute(NULL)}, qr/target must not be null/, 'no target');
query(q{CREATE SCHEMA hand; SELECT atproto.create_tables('hand')});
query('CREATE SCHEMA wrong');
expect_check('not readable', qr/\|wrong\|\|deletion that nobody confirms\|/);
query(q{SELECT atproto.create_tables('wrong'); SELECT create_distributed_table('wrong.record', 'collection')});
refused(q{SELECT atproto.distribute('wrong')}, qr/table "wrong.record" is distributed, and not by column "did"/, 'a table by another column');
is(query(q{SELECT count(*) FROM citus_tables WHERE table_name = 'wrong.repo'::regclass}), '0', 'and nothing is done by halves');
query(q{CREATE SCHEMA "it's"; SELECT atproto.create_tables('it''s'); SELECT create_distributed_table('"it''s".record', 'collection')});
my (undef, $err) = said(q{SELECT atproto.distribute('it''s')});
my ($hint) = $err =~ /HINT:  (SELECT undistribute_table\(.*\)) first/;
query($hint);
is(query(q{SELECT count(*) FROM citus_tables WHERE table_name = '"it''s".record'::regclass}), '0', 'the hint can be followed, whatever the name of the schema');
query(q{CREATE SCHEMA copies; SELECT atproto.create_tables('copies')});
my $copies = 'SET citus.shard_replication_factor = 2;';
refused("$copies SELECT atproto.distribute('copies')", qr/shard_replication_factor is 2: there would be several copies/, 'copies of shards');
query("$copies SELECT create_distributed_table('copies.record', 'did')");
expect_check('not readable', qr/\|copies\.record\|Citus keeps several copies/);
refused(q{SELECT atproto.distribute('copies')}, qr/keeps several copies of each shard of table "copies.record"\n(?s:.*)HINT/, 'copies that are there');
query(q{CREATE ROLE nobody; GRANT USAGE ON SCHEMA atproto TO nobody});
refused(qq{BEGIN ISOLATION LEVEL \U$_\E; SELECT atproto.distribute()}, qr/at isolation level "read committed" only/, "at $_, whose snapshot may be older than rows")
  foreach 'repeatable read', 'serializable';
refused(q{SET ROLE nobody; SELECT atproto.distribute()}, qr/permission denied for function distribute/, 'somebody');

# --- while the stream is followed ---

my $server = AtprotoTest::Server->start($pds, '--hold-at', 500);
query(subscribe_sql('s', $server, cursor => 0, events => q{'keep'}));
wait_for_seq($node, 's', 499);
$_->safe_psql('postgres', q{SELECT FROM pg_create_logical_replication_slot('app', 'atproto')}) foreach $node, @workers;
query(q{UPDATE atproto.record SET fault = 'before' WHERE ctid = (SELECT min(ctid) FROM atproto.record)});
my ($rc, $notices) = said(q{SELECT atproto.distribute()});
is($rc, 0, 'the tables are distributed while a consumer fills them');
like($notices, qr/"atproto.repo": 8 shards by "did".*"atproto.record": by "did", beside atproto.repo.*"atproto.message" stays on this server/s,
	'it says what it does');
(undef, $notices) = said(q{SELECT atproto.distribute()});
unlike($notices, qr/shards by/, 'once more it does nothing');
my @beside = split /\n/, query(q{SELECT table_name FROM citus_tables WHERE colocation_id =
	(SELECT colocation_id FROM citus_tables WHERE table_name = 'atproto.repo'::regclass) ORDER BY table_name::text});
is_deeply(\@beside, [ map { "atproto.$_" } qw(node_mark record record_event repo sweep_deletion) ], 'what is of a repository lies together');
my $shell = sub {
	return query('BEGIN; SET LOCAL citus.enable_ddl_propagation = off; '
		  . q{SELECT sum(pg_relation_size(format('atproto.%s', t)::regclass)) FROM unnest(ARRAY['record', 'repo', 'record_event']) t; COMMIT});
};
is($shell->(), '0', 'nothing of it is left on the coordinator');
$server->release;
wait_for_seq($node, 's', $PDS_LAST);
tables_match($node, $pds, 'the tables are what the oracle says', modes => [ 'record', 'repo', 'count', 'event' ]);
foreach my $did (split /\n/, query(q{SELECT did FROM atproto.repo WHERE active AND hold IS NULL AND data IS NOT NULL ORDER BY did LIMIT 3}))
{
	is(query("SELECT (car_roots(f))[1], (SELECT count(*) FROM car_records(f)) FROM atproto.repo_car('$did') f"),
		query("SELECT commit FROM atproto.repo WHERE did = '$did'") . '|' . query("SELECT count(*) FROM atproto.record WHERE did = '$did'"), 'O-01: a repository is given out of the nodes');
	is(query("SELECT string_agg(c, ''::bytea ORDER BY n) = atproto.repo_car('$did') FROM atproto.repo_car_chunks('$did') WITH ORDINALITY x (c, n)"), 't', 'O-01: and in pieces');
	my ($cid, $of) = split /\|/, query("SELECT cid, format('%L, %L, %L', did, collection, rkey) FROM atproto.record WHERE did = '$did' ORDER BY collection, rkey LIMIT 1");
	is(query("SELECT (car_roots(f))[1] = (car_roots(c))[1], (SELECT count(*) FROM (SELECT * FROM car_blocks(f) EXCEPT SELECT * FROM car_blocks(c)) d), (SELECT count(*) FROM car_blocks(f) WHERE cid = '$cid')
		FROM atproto.record_proof($of) f, atproto.repo_car('$did') c"), 't|0|1', 'O-05: so is a proof of a record');
}
# The rows are in tables of other names now, which the output plugin does not know.
my $told = q{SELECT data FROM pg_logical_slot_peek_changes('app', NULL, NULL, 'targets', 'atproto')};
my @told = split /\n/, query($told);
is(join(', ', map { join ' ', grep { defined } @$_{ 'kind', 'table' } } decoded(@told)), 'commit, truncate repo, truncate record, truncate label', 'O-20: a slot of the coordinator tells changes until the tables are distributed');
like($told[-1], qr/^\{"kind":"position".*"cursor":$PDS_LAST,/, 'O-23: and positions afterwards');
is(join('', map { $_->safe_psql('postgres', $told) } @workers), '', 'O-20: slots of workers tell nothing');
$_->safe_psql('postgres', q{SELECT pg_drop_replication_slot('app')}) foreach $node, @workers;
is(query('SELECT events, record_ops FROM atproto.cursor'), "$PDS_LAST|$ops", 'every event once');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'none is a dead letter');
is($shell->(), '0', 'nothing went to the coordinator');
is(query(q{SELECT count(DISTINCT nodeport) FROM citus_shards WHERE table_name = 'atproto.record'::regclass AND shard_size > 50000}),
	scalar @workers, 'all workers have rows');

# The keys are those of all nodes, and the values come by their range.
query(q{UPDATE atproto.subscription SET validate = 'flag'; SELECT atproto.load_lexicon('{"lexicon": 1, "id": "app.bsky.feed.post", "defs": {"main": {"type": "record", "key": "tid",
	"record": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "maxLength": 20}}}}}}', true)});
(undef, $notices) = said('CALL atproto.revalidate()');
my ($faults) = $notices =~ /NOTICE:  \d+ records were validated, ([1-9]\d+) have a fault\n[^\n]*DETAIL:  \g1 faults were changed\./ or diag($notices);
is(query('SELECT count(fault) FROM atproto.record'), $faults, 'revalidate() writes the faults on all nodes');
is(query(q{SELECT count(*) FROM (SELECT did, collection, rkey, fault, value FROM atproto.record OFFSET 0) r
	WHERE fault IS DISTINCT FROM CASE WHEN value IS NOT NULL AND collection IN (SELECT id FROM atproto.lexicon) THEN atproto.lexicon_valid(value, collection, rkey) END}), '0', 'of all records');
query(q{UPDATE atproto.subscription SET validate = 'none'; SELECT atproto.unload_lexicon('app.bsky.feed.post')});
query('CALL atproto.revalidate()');
is(query('SELECT count(fault) FROM atproto.record'), '0', 'and takes them back');

# --- tables known to Citus as local; tables added by a newer version ---

query(q{CREATE SCHEMA known; SELECT atproto.create_tables('known')});
query(qq{SELECT citus_add_local_table_to_metadata('known.$_')}) foreach qw(message collection_count link_source link record);
query(q{SELECT atproto.distribute('known')});
is(query(q{SELECT string_agg(citus_table_type || ' ' || distribution_column, ', ' ORDER BY table_name::text) FROM citus_tables
	WHERE table_name::text ~ '^known.(link|link_source|record)$'}), 'distributed authority, reference <none>, distributed did',
	'tables that Citus knew are distributed');
query(q{ALTER TABLE known.repo DROP COLUMN hold, DROP COLUMN updated_at; DROP VIEW known.visible_link});
query(q{SELECT atproto.create_tables('known'); SELECT atproto.create_tables('copies')});
my $columns = q{SELECT attname, atttypid::regtype, attnotnull, col_description(attrelid, attnum)
	FROM pg_attribute WHERE attrelid = '%s'::regclass AND attname IN ('hold', 'updated_at') ORDER BY 1};
is(query(sprintf $columns, 'known.repo'), query(sprintf $columns, 'atproto.repo'), 'columns that a distributed table lacks are added');
is(query(q{SELECT count(*) FROM pg_indexes WHERE (schemaname, indexname) = ('known', 'repo_hold')}), '1', 'with their indexes');
is(query(q{SELECT count(*) FROM known.repo WHERE hold IS NOT NULL OR updated_at IS NULL}), '0', 'on all nodes');
is(query(q{SELECT obj_description('known.visible_link'::regclass)}), query(q{SELECT obj_description('atproto.visible_link'::regclass)}), 'and views');
query(q{SELECT undistribute_table('known.link')});
refused(q{SELECT * FROM atproto.rebuild_links('known')}, qr/"known.link" is on this server, and "link_source" on all nodes\nHINT/, 'links of this server with sources on all');
query(q{SELECT undistribute_table('known.link_source')});
is(query(q{SELECT added + removed FROM atproto.rebuild_links('known')}), '0', 'with sources of this server they are rebuilt');

# A writer of links locks the table link, then link_source.
my $writer = $node->background_psql('postgres');
$writer->query_safe('BEGIN; LOCK TABLE known.link IN ROW EXCLUSIVE MODE');
my $distributor = $node->background_psql('postgres');
$distributor->query_until(qr/begins/, "\\echo begins\nSELECT atproto.distribute('known');\n");
wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'known.link'::regclass AND NOT granted});
$writer->query_safe('LOCK TABLE known.link_source IN ROW EXCLUSIVE MODE; COMMIT');
$writer->quit;
$distributor->quit;
is(query(q{SELECT count(*) FROM citus_tables WHERE table_name IN ('known.link'::regclass, 'known.link_source'::regclass)}), '2', 'distribute() waits in the same order');

# --- statements that depend on row counts, and on places (ctid) ---

query(q{UPDATE atproto.subscription SET events = 'hand' WHERE name = 's'});
query(q{SELECT atproto.set_cursor('s', 0); DELETE FROM atproto.record; DELETE FROM atproto.repo});
wait_for(q{SELECT stopped IS NOT NULL FROM atproto.subscription WHERE name = 's'});
like(query(q{SELECT last_error FROM atproto.stat_subscription WHERE name = 's'}),
	qr/"atproto.record_event" is distributed: its rows cannot be handed to triggers/, 'events cannot be handed to triggers');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'that is no fault of any event');
query(q{UPDATE atproto.subscription SET target = 'copies', events = 'none' WHERE name = 's'});
query(q{SELECT atproto.resume('s')});
wait_for(q{SELECT stopped LIKE '%several copies of each shard%' FROM atproto.subscription WHERE name = 's'});
query(q{UPDATE atproto.subscription SET target = 'hand', events = 'hand' WHERE name = 's'});
refused(q{SELECT atproto.distribute('hand')}, qr/subscription "s" hands events to triggers/, 'a target whose events are handed to triggers');
query(q{UPDATE atproto.subscription SET target = 'atproto', events = 'none' WHERE name = 's'});
query(q{SELECT atproto.resume('s')});
wait_for_seq($node, 's', $PDS_LAST);
tables_match($node, $pds, 'without that it goes on');

# Citus cannot use generic plans.
query('ALTER DATABASE postgres SET plan_cache_mode = force_generic_plan');
query(q{UPDATE atproto.subscription SET links = 'all' WHERE name = 's'});
query(q{SELECT atproto.pause('s'); DELETE FROM atproto.record; DELETE FROM atproto.repo; SELECT atproto.set_cursor('s', 0); SELECT atproto.resume('s')});
wait_for_seq($node, 's', $PDS_LAST);
tables_match($node, $pds, 'a setting that forces general plans');
is(query('SELECT count(*) FROM atproto.link_problems()'), '0', 'such a session: link_problems()');
my $liked = query(q{SELECT target FROM atproto.link WHERE source = (SELECT id FROM atproto.link_source WHERE (collection, path) = ('app.bsky.feed.like', 'subject.uri'))
	ORDER BY 1 LIMIT 1});
cmp_ok(query("SELECT count(*) FROM atproto.backlink_dids('$liked', 'app.bsky.feed.like:subject.uri')"), '>', 0, 'backlink_dids()');
query('CALL atproto.audit_all()');
query(q{ALTER DATABASE postgres RESET plan_cache_mode; UPDATE atproto.subscription SET links = 'none' WHERE name = 's'});

# New records go by COPY, records that exist already by statements.
query(q{SELECT atproto.pause('s'); DELETE FROM atproto.repo; SELECT atproto.set_cursor('s', 0); SELECT atproto.resume('s')});
wait_for_seq($node, 's', $PDS_LAST);
tables_match($node, $pds, 'records that are there already');

refused(q{SELECT atproto.partition('atproto', 'month')}, qr/cannot make partitions of table atproto.record, whose rows are kept by Citus\nHINT/, 'partitions of what is distributed');

# A row refused by a shard becomes a dead letter.
my $list = q{'app.bsky.graph.list'};
query(qq{SELECT atproto.pause('s'); DELETE FROM atproto.record; DELETE FROM atproto.repo; TRUNCATE atproto.record_event;
	ALTER TABLE atproto.record ADD CONSTRAINT refused CHECK (collection::text <> $list);
	UPDATE atproto.subscription SET events = 'keep'; SELECT atproto.set_cursor('s', 0); SELECT atproto.resume('s')});
wait_for_seq($node, 's', $PDS_LAST);
cmp_ok(query(q{SELECT count(*) FROM atproto.dead_letter WHERE stage = 'apply' AND sqlstate = '23514'}), '>', 10, 'a constraint refuses rows: dead letters');
is(query(q{SELECT count(*) FROM atproto.dead_letter WHERE sqlstate <> '23514'}), '0', 'of nothing else');
my ($expected) = oracle('', 'count', $pds);
is(query('SELECT collection, count(*) FROM atproto.record GROUP BY collection ORDER BY collection::text COLLATE "C"', ),
	join("\n", map { join '|', split /\t/ } sort grep { !/^app\.bsky\.graph\.list\t/ } split /\n/, $expected), 'all others are there');
query('ALTER TABLE atproto.record DROP CONSTRAINT refused');

# A retry waits for a lock on a table that is distributed meanwhile.
my ($letter) = split /\n/, query('SELECT id FROM atproto.dead_letter ORDER BY id');
my ($alters, $retries) = map { $node->background_psql('postgres') } 1 .. 2;
$alters->query_safe(q{SET client_min_messages = error; BEGIN; SELECT alter_distributed_table('atproto.repo', shard_count => 4, cascade_to_colocated => true)});
$retries->query_until(qr/begins/, "\\echo begins\nSELECT atproto.retry($letter);\n");
wait_for(q{SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.query LIKE 'SELECT atproto.retry(%'});
$alters->query_safe('COMMIT');
$_->quit foreach $alters, $retries;
is(query("SELECT string_agg(message, ' ') FROM atproto.dead_letter WHERE id = $letter"), '', 'a letter waits for tables that are given other shards');
is(query(q{SELECT string_agg(DISTINCT shard_count::text, ' ') FROM citus_tables WHERE table_name IN ('atproto.repo'::regclass, 'atproto.record'::regclass)}), '4', 'which they have then');
query(q{SELECT atproto.pause('s'); DELETE FROM atproto.record; DELETE FROM atproto.repo;
	DELETE FROM atproto.dead_letter;
	UPDATE atproto.subscription SET events = 'none'; SELECT atproto.set_cursor('s', 0); SELECT atproto.resume('s')});
wait_for_seq($node, 's', $PDS_LAST);

# --- Citus is not loaded ---

query(q{SELECT atproto.pause('s'); DELETE FROM atproto.record; DELETE FROM atproto.repo; SELECT atproto.set_cursor('s', 0)});
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'atproto'\ncitus.shard_count = 4\n");
$node->restart;
query(q{SELECT atproto.resume('s')});
wait_for(q{SELECT stopped IS NOT NULL FROM atproto.subscription WHERE name = 's'});
like(query(q{SELECT last_error FROM atproto.stat_subscription WHERE name = 's'}), qr/are kept by Citus, which is not loaded: shared_preload_libraries has to be 'citus,atproto'/,
	'without its library the subscription stops, and says why');
is(query('SELECT (SELECT count(*) FROM ONLY atproto.record) + (SELECT count(*) FROM ONLY atproto.repo)'), '0', 'nothing is written into the shells');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing is a dead letter');
refused(q{SELECT atproto.audit('did:plc:aaaaaaaaaaaaaaaaaaaaaaaa')}, qr/which is not loaded/, 'an audit');
refused('SELECT atproto.distribute()', qr/which is not loaded/, 'distribute()');
$node->append_conf('postgresql.conf', "shared_preload_libraries = 'citus,atproto'\n");
$node->restart;
query(q{SELECT atproto.resume('s')});
wait_for_seq($node, 's', $PDS_LAST);
tables_match($node, $pds, 'with it, it goes on where it was');

# --- labels, audits, and the way back ---

is(query(q{SELECT count(*) FROM atproto.visible_record}), query('SELECT count(*) FROM atproto.record WHERE did IN (SELECT did FROM atproto.repo WHERE active)'),
	'the view joins on the nodes');
query('CALL atproto.audit_all()');
is(query(q{SELECT count(*) FROM atproto.repo WHERE sync = 'desynchronized'}), '0', 'audits find what is there');
query(q{SELECT atproto.pause('s')});
# an audit runs on the node that has both tables' shards; where a user has separated the shards, the coordinator
# builds the tree
my $did = query('SELECT did FROM atproto.record GROUP BY did ORDER BY count(*) DESC LIMIT 1');
# check() compares such separated tables too, as far as Citus joins them, and reports the rest as not readable
expect_check('not readable', qr/\|apart\|\|(?:record without repository|record that was deleted|deletion that nobody confirms)\|/);
query(q{CREATE SCHEMA apart; SELECT atproto.create_tables('apart')});
query("SELECT create_distributed_table('apart.$_', 'did', colocate_with => 'none')") foreach 'record', 'repo';
query("INSERT INTO apart.$_ SELECT * FROM atproto.$_ WHERE did = '$did'") foreach 'record', 'repo';
like(query("SELECT * FROM atproto.audit('$did')"), qr/^[tf]\|.*\|bafyrei/, 'an audit of a repository');
is(query("SELECT * FROM atproto.audit('$did', 'apart')"), query("SELECT * FROM atproto.audit('$did')"), 'V-45: the same of tables that are not together');
query(qq{SELECT undistribute_table('atproto.$_')}) foreach 'record', 'repo', 'record_event', 'link';
query(q{DELETE FROM atproto.record; DELETE FROM atproto.repo; SELECT atproto.set_cursor('s', 0); SELECT atproto.resume('s')});
wait_for_seq($node, 's', $PDS_LAST);
tables_match($node, $pds, 'as plain tables again they are the same');

stop_citus();
done_testing();
