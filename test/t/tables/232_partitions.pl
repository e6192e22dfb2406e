# 232_partitions.pl
#		A user has made the tables before the extension does: the table record is in partitions, by
#		collection and by a hash of the repository.  atproto.create_tables() leaves existing tables alone
#		except for missing columns, and refuses unusable tables.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node('partitions');
my $server = AtprotoTest::Server->start($pds);
my $columns = <<'SQL';
	did did NOT NULL, collection nsid NOT NULL, rkey recordkey NOT NULL, cid cidlink NOT NULL,
	rev atproto.tid NOT NULL, indexed_at timestamptz NOT NULL DEFAULT now(), value jsonb, raw bytea,
	PRIMARY KEY (did, collection, rkey)
SQL

query(<<"SQL");
CREATE SCHEMA lists;
CREATE TABLE lists.record ($columns) PARTITION BY LIST (collection);
CREATE TABLE lists.post PARTITION OF lists.record FOR VALUES IN ('app.bsky.feed.post');
CREATE TABLE lists.graph PARTITION OF lists.record FOR VALUES IN ('app.bsky.graph.follow', 'app.bsky.graph.block');
CREATE TABLE lists.like PARTITION OF lists.record FOR VALUES IN ('app.bsky.feed.like') PARTITION BY RANGE (rkey);
CREATE TABLE lists.like_early PARTITION OF lists.like FOR VALUES FROM ('3n2') TO ('3n2qfdkes2e2o');
CREATE TABLE lists.like_late PARTITION OF lists.like FOR VALUES FROM ('3n2qfdkes2e2o') TO ('3n3');
CREATE TABLE lists.like_other PARTITION OF lists.like DEFAULT;
CREATE TABLE lists.other PARTITION OF lists.record DEFAULT;

CREATE SCHEMA hashes;
CREATE TABLE hashes.record ($columns) PARTITION BY HASH (did);
CREATE TABLE hashes.record0 PARTITION OF hashes.record FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE hashes.record1 PARTITION OF hashes.record FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE hashes.record2 PARTITION OF hashes.record FOR VALUES WITH (MODULUS 3, REMAINDER 2);
CREATE TABLE hashes.record_event (subscription text, seq bigint, action text, did did, collection nsid, rkey recordkey,
	rev atproto.tid, cid cidlink, value jsonb, raw bytea, old_cid cidlink, old_value jsonb, received_at timestamptz DEFAULT now()) PARTITION BY RANGE (seq);
CREATE TABLE hashes.early PARTITION OF hashes.record_event FOR VALUES FROM (MINVALUE) TO (800);
CREATE TABLE hashes.late PARTITION OF hashes.record_event FOR VALUES FROM (800) TO (MAXVALUE);
SQL

foreach my $schema ('lists', 'hashes')
{
	query(subscribe_sql($schema, $server, cursor => 0, target => "'$schema'", events => "'keep'"));
	wait_for_seq($node, $schema, $PDS_LAST);
	tables_match($node, $pds, "$schema: as the oracle says", schema => $schema, modes => [ 'record', 'repo', 'event' ]);
	is(query("SELECT relkind FROM pg_class WHERE oid = '$schema.record'::regclass"), 'p', "$schema: the table is still in partitions");
	is(query("SELECT count(*) FROM $schema.visible_record"),
		query("SELECT count(*) FROM $schema.record r JOIN $schema.repo p USING (did) WHERE p.active"), "$schema: the view is there");
}
is(query('SELECT count(*) > 0, bool_and(collection = $$app.bsky.feed.post$$) FROM ONLY lists.post'), 't|t', 'lists: records are where they belong');
is(query('SELECT count(*) FROM lists.record WHERE collection = $$app.bsky.feed.post$$'), query('SELECT count(*) FROM ONLY lists.post'), 'lists: all of them');

# Old rows go with their partition; later events on them go to the default partition.
my $early = query('SELECT count(*) FROM lists.like_early');
cmp_ok($early, '>', 0, 'lists: by the time in their keys, too');
query("DROP TABLE lists.like_early; SELECT atproto.refill('lists')");
wait_for_seq($node, 'lists', $PDS_LAST);
tables_match($node, $pds, 'lists: as before when the stream comes again', schema => 'lists', modes => ['record']);
is(query('SELECT count(*) FROM lists.like_other'), $early, 'lists: old ones in the default partition');

is(query('SELECT min(n) > 0 FROM (SELECT count(*) n FROM hashes.record GROUP BY tableoid UNION ALL SELECT 3 - count(DISTINCT tableoid) + 1 FROM hashes.record) c'),
	't', 'hashes: each partition has some');
is(query('SELECT count(DISTINCT tableoid) FROM hashes.record_event'), '2', 'events as well');

# Kept events and handed events in one partitioned table: only handed events are deleted (ctids repeat from
# partition to partition).
my ($kept) = query('SELECT count(*) FROM hashes.record_event');
query("SELECT atproto.unsubscribe('hashes'); TRUNCATE hashes.record, hashes.repo");
query(subscribe_sql('hashes', $server, cursor => 0, target => "'hashes'", events => "'hand'"));
wait_for_seq($node, 'hashes', $PDS_LAST);
is(query('SELECT count(*) FROM hashes.record_event'), $kept, 'what was kept stays when events are handed over');
tables_match($node, $pds, 'they are the same', schema => 'hashes', modes => ['event']);

# A partition with a generated column, where the whole table has an ordinary column.
SKIP:
{
	skip 'PostgreSQL 16 and later attach no such partition', 1 if query('SHOW server_version_num') >= 160000;
	query("CREATE SCHEMA made; CREATE TABLE made.record ($columns, note text) PARTITION BY HASH (did);
		CREATE TABLE made.record0 ($columns, note text GENERATED ALWAYS AS (rkey::text) STORED);
		ALTER TABLE made.record ATTACH PARTITION made.record0 FOR VALUES WITH (MODULUS 1, REMAINDER 0)");
	# new records only, so that nothing but the partition prevents direct writes
	my ($new) = simulate('--events' => 1000, '--accounts' => 100, '--history' => 0, '--mix' => 'account=0,identity=0,delete=0,update=0,like=40,post=30');
	my $end    = read_capture($new);
	my $stream = AtprotoTest::Server->start($new);
	query(subscribe_sql('made', $stream, cursor => 0, target => "'made'"));
	wait_for_seq($node, 'made', $end);
	is(query('SELECT count(*) > 0, bool_and(note = rkey::text) FROM made.record'), 't|t', 'made: generated columns of a partition');
	query("SELECT atproto.unsubscribe('made')");
}

# A row that fits no partition is refused, and no other.
query('CREATE SCHEMA strict; SELECT atproto.create_tables($$strict$$); DROP VIEW strict.visible_record; DROP TABLE strict.record');
query("CREATE TABLE strict.record ($columns) PARTITION BY LIST (collection);
	CREATE TABLE strict.post PARTITION OF strict.record FOR VALUES IN ('app.bsky.feed.post');
	CREATE TABLE strict.none PARTITION OF strict.record FOR VALUES IN ('com.example.none')");
query(subscribe_sql('strict', $server, cursor => 0, target => "'strict'"));
wait_for_seq($node, 'strict', $PDS_LAST);
is(query("SELECT count(*) FROM (SELECT did, collection, rkey FROM lists.post EXCEPT SELECT did, collection, rkey FROM strict.post) d"), '0', 'strict: what belongs into a partition is there');
my ($refused, $states) = split /\|/, query("SELECT count(*), string_agg(DISTINCT sqlstate, ' ') FROM atproto.dead_letter WHERE subscription = 'strict'");
cmp_ok($refused, '>', 0, 'strict: what no partition takes is a dead letter');
is($states, '23514', 'strict: for that reason');
query("DELETE FROM atproto.dead_letter; SELECT atproto.unsubscribe('strict')");

# --- tables that cannot work ---

sub stays_at_nothing
{
	my ($schema, $table, $pattern) = @_;
	my $log = -s $node->logfile;

	query("CREATE SCHEMA $schema; CREATE TABLE $schema.record $table");
	my ($rc, $out, $err) = $node->psql('postgres', subscribe_sql($schema, $server, cursor => 0, target => "'$schema'"));
	$node->wait_for_log($pattern, $log) if $rc == 0;
	like($err, $pattern, "$schema: refused") if $rc != 0;
	is(query("SELECT count(*) FROM $schema.record"), '0', "$schema: nothing is stored wrong");
	is(query("SELECT count(*) FROM atproto.dead_letter"), '0', "$schema: nor taken for bad records");
	query("SELECT atproto.unsubscribe('$schema')") if $rc == 0;
	return;
}

(my $texts = $columns) =~ s/rkey recordkey/rkey text/;
stays_at_nothing("texts", "($texts)", qr/column "rkey" of table "texts.record" is of type text, not recordkey/);
(my $no_cid = $columns) =~ s/ cid cidlink NOT NULL,//;
stays_at_nothing('no_cid', "($no_cid)", qr/schema "no_cid" has no table "record" with a column "cid"/);
(my $no_key = $columns) =~ s/,\s+PRIMARY KEY.*\)//;
stays_at_nothing('no_key', "($no_key)", qr/no unique or exclusion constraint matching the ON CONFLICT specification/);

# --- a table of an earlier version, without columns that can be added ---

(my $no_raw = $columns) =~ s/ raw bytea,//;
query("CREATE SCHEMA no_raw; CREATE TABLE no_raw.record ($no_raw) PARTITION BY HASH (did);
	CREATE TABLE no_raw.record0 PARTITION OF no_raw.record FOR VALUES WITH (MODULUS 1, REMAINDER 0)");
query(subscribe_sql('no_raw', $server, cursor => 0, target => "'no_raw'"));
wait_for_seq($node, 'no_raw', $PDS_LAST);
tables_match($node, $pds, 'a table without a column gets it when it is subscribed to', schema => 'no_raw', modes => [ 'record', 'repo' ]);

# Without the column, an error names the table and the missing column, whatever its type.
my $log = -s $node->logfile;
query(q{ALTER TABLE no_raw.repo DROP COLUMN host; SELECT atproto.set_cursor('no_raw', 0)});
$node->wait_for_log(qr/schema "no_raw" has no table "repo" with a column "host".*HINT:\s+Run SELECT atproto.create_tables\('no_raw'\)/s, $log);
wait_for(q{SELECT stopped ~ 'no table "repo" with a column "host"' FROM atproto.subscription WHERE name = 'no_raw'});
query(q{SELECT atproto.create_tables('no_raw'); SELECT atproto.resume('no_raw')});
wait_for_seq($node, 'no_raw', $PDS_LAST);
tables_match($node, $pds, 'it goes on when the column is there', schema => 'no_raw', modes => [ 'record', 'repo' ]);

$node->stop;
done_testing();
