# 514_packed_values.pl
#		A target whose values are of the type dagcbor has the same records, events, links and faults as a target with jsonb,
#		and also the records that jsonb cannot hold.  A table with jsonb becomes such a table by ALTER TABLE, also while a
#		consumer fills the table.  F-03, B-30.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

delete $ENV{ATPROTO_VALUE};
my $pds    = capture('pds.frames.gz');
my $node   = make_node('packed_values', conf => "max_worker_processes = 40\n");
my $server = AtprotoTest::Server->start($pds);

sub make_target
{
	my ($target, $value) = @_;

	query("CREATE SCHEMA $target; SELECT atproto.create_tables('$target', '$value')");
	return;
}

sub value_types
{
	my ($target) = @_;

	return query(qq{SELECT string_agg(format('%s.%s %s', attrelid::regclass, attname, atttypid::regtype), ', ' ORDER BY attrelid::regclass::text, attname)
		FROM pg_attribute WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = '$target'::regnamespace AND relname IN ('record', 'record_event'))
		AND attname IN ('value', 'old_value')});
}

# The number of rows that only one of the two targets has.
sub differences
{
	my ($select, @targets) = @_;
	my ($a, $b) = map { $select =~ s/#/$_/gr } @targets;

	return query("SELECT count(*) FROM (($a EXCEPT ALL $b) UNION ALL ($b EXCEPT ALL $a)) d");
}

# Is each value the DAG-CBOR that the CID tells?  Without a NULL, and without raw.
sub is_whole
{
	my ($target, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(query("SELECT count(*) > 0, count(*) FILTER (WHERE value IS NULL), count(raw), bool_and(dagcbor_is_intact(value)),"
			. " bool_and(cid::bytea = '\\x01711220' || sha256(value::bytea)) FROM $target.record"), 't|0|0|t|t', $name);
	return;
}

# --- the types of new tables ---

make_target('packed', 'dagcbor');
is(value_types('packed'), 'packed.record.value dagcbor, packed.record_event.old_value dagcbor, packed.record_event.value dagcbor', 'new tables have values of the type dagcbor');
is(value_types('atproto'), 'atproto.record.value jsonb, atproto.record_event.old_value jsonb, atproto.record_event.value jsonb', 'without the argument, new tables have values of jsonb');

# Runs a statement that must fail, and gives the error.
sub refused
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);

	return $rc == 0 ? 'not refused' : $err;
}

like(refused(q{SELECT atproto.create_tables('packed', 'json')}), qr/invalid value for parameter "value": "json"/, 'another type is refused');
like(refused(q{SELECT atproto.create_tables('packed', 'jsonb')}), qr/values in schema "packed" are of another type than jsonb/, 'a type is refused that the table record has not');
query('DROP TABLE packed.record_event');
query(q{SELECT atproto.create_tables('packed')});
is(value_types('packed'), 'packed.record.value dagcbor, packed.record_event.old_value dagcbor, packed.record_event.value dagcbor', 'a table that is made later has the type of record.value');

# --- the same stream into both ---

my %options = (cursor => 0, events => "'keep'", links => "'all'", validate => "'flag'", count_collections => 'true');
my @events = ('SELECT seq, action, did, collection, rkey, rev, cid, value::jsonb, old_cid, old_value::jsonb FROM #.record_event');
my @same = (
	'SELECT did, collection, rkey, cid, rev, value::jsonb, fault FROM #.record',
	'SELECT target, collection, path, rkey, did FROM #.link l JOIN #.link_source s ON s.id = l.source',
	'SELECT did, rev, data, active, status, handle, sync FROM #.repo');

query(subscribe_sql('plain', $server, target => "'atproto'", %options));
query(subscribe_sql('packed', $server, target => "'packed'", %options));
wait_for_seq($node, $_, $PDS_LAST) foreach 'plain', 'packed';
tables_match($node, $pds, 'the tables are what the oracle says', schema => 'packed', modes => [ 'record', 'repo', 'event' ]);
is_whole('packed', 'each value is the DAG-CBOR of its CID');
is(differences($_, 'atproto', 'packed'), '0', "the same as with jsonb: $_") foreach @same, @events;
cmp_ok(query('SELECT count(*) FROM packed.record WHERE value::jsonb IS NULL'), '>', 0, 'there are records that jsonb cannot hold');
cmp_ok(query('SELECT count(*) FROM packed.link'), '>', 0, 'there are links');
is(query('SELECT count(*) FROM packed.record_event WHERE action <> $$delete$$ AND value IS NULL'), '0', 'each event has its value');

# --- statements, and workers ---

make_target('by_statement', 'dagcbor');
query(q{ALTER TABLE by_statement.record ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY open ON by_statement.record USING (true)});
query(subscribe_sql('by_statement', $server, target => "'by_statement'", workers => 2, %options));
wait_for_seq($node, 'by_statement', $PDS_LAST);
is_whole('by_statement', 'written by statements, of two workers: each value is the DAG-CBOR of its CID');
is(differences($_, 'atproto', 'by_statement'), '0', "the same as with jsonb: $_") foreach @same, @events;

# --- keep_raw ---

like(refused(subscribe_sql('raw', $server, target => "'packed'", keep_raw => 'true')), qr/a subscription with "keep_raw" cannot fill schema "packed", whose values are of type dagcbor/, 'keep_raw is refused');
like(refused(q{UPDATE atproto.subscription SET keep_raw = true WHERE name = 'packed'}), qr/cannot fill schema "packed"/, 'keep_raw is refused for a subscription that runs');
query(subscribe_sql('labels', $server, nsid => 'com.atproto.label.subscribeLabels', target => "'packed'", keep_raw => 'true'));
is(query(q{SELECT keep_raw FROM atproto.subscription WHERE name = 'labels'}), 't', 'another stream may have keep_raw in the same target');
query(q{SELECT atproto.unsubscribe('labels')});

# --- a table with jsonb becomes such a table, while a consumer fills it ---

# The statements of the documentation.
my $document = slurp_file(test_dir() . '/../doc/use/data.md');
my ($alter) = $document =~ /^(BEGIN;\nDROP VIEW atproto\.visible_record;\n.*?^COMMIT;\n)/ms or BAIL_OUT('doc/use/data.md does not have the statements');

my $stepwise = AtprotoTest::Server->start($pds, map { ('--hold-at', $_) } 600, 1200);

make_target('changed', 'jsonb');
query(subscribe_sql('changed', $stepwise, target => "'changed'", %options));
wait_for_seq($node, 'changed', 599);
my $before = query('SELECT count(*) FROM changed.record WHERE value IS NULL');
cmp_ok($before, '>', 0, 'the table with jsonb has records without a value');
query($alter =~ s/\batproto\.(record|record_event|visible_record)\b/changed.$1/gr =~ s/'atproto'/'changed'/gr);
is_whole('changed', 'ALTER TABLE: each value is the DAG-CBOR of its CID');
$stepwise->release;
wait_for_seq($node, 'changed', 1199);
is_whole('changed', 'the consumer goes on, and writes values of the type dagcbor');
like(slurp_file($node->logfile), qr/the values in schema "changed" have become of another type since the settings were read/, 'after a new start');

# columns of two types
query('ALTER TABLE changed.record_event ALTER old_value TYPE jsonb USING old_value::jsonb');
$stepwise->release;
wait_for(q{SELECT stopped IS NOT NULL FROM atproto.subscription WHERE name = 'changed'});
like(query(q{SELECT stopped FROM atproto.subscription WHERE name = 'changed'}), qr/column "old_value" of table "changed.record_event" is of type jsonb, not dagcbor/, 'columns of two types stop the subscription');
query('ALTER TABLE changed.record_event ALTER old_value TYPE dagcbor USING dagcbor(old_value)');
query(q{SELECT atproto.resume('changed')});
wait_for_seq($node, 'changed', $PDS_LAST);
is_whole('changed', 'at the end of the stream, each value is the DAG-CBOR of its CID');
is(differences($_, 'atproto', 'changed'), '0', "at the end of the stream, the same as with jsonb: $_") foreach @same;

# --- damaged values ---

my $spoiling = AtprotoTest::Server->start($pds, '--hold-at', 800);

make_target('spoilt', 'dagcbor');
query(q{CREATE FUNCTION forged(bytea) RETURNS dagcbor LANGUAGE internal IMMUTABLE STRICT AS 'byteasend'});
query(subscribe_sql('spoilt', $spoiling, target => "'spoilt'", %options));
wait_for_seq($node, 'spoilt', 799);
query(q{UPDATE spoilt.record SET value = forged('\x015a')});
$spoiling->release;
wait_for_seq($node, 'spoilt', $PDS_LAST);
is(differences('SELECT did, collection, rkey, cid, rev FROM #.record', 'atproto', 'spoilt'), '0', 'events replace and remove records whose values are damaged');
cmp_ok(query('SELECT count(*) FROM spoilt.record WHERE dagcbor_is_intact(value)'), '>', 0, 'values that came later are undamaged');
unlike(($node->psql('postgres', q{CALL atproto.revalidate('spoilt')}))[2], qr/ERROR/, 'revalidate() goes on at damaged values');
like(query(q{SELECT string_agg(DISTINCT what, ', ' ORDER BY what) FROM atproto.check('spoilt')}), qr/\blink\b.*\bvalue that cannot be\b/, 'check() names the damaged values, and links that no value has');
my (undef, undef, $told) = $node->psql('postgres', q{SELECT atproto.rebuild_links('spoilt')});
my @named = $told =~ m{WARNING:  the stored record at://(did:\S+/\S+/\S+) is damaged}g;
is(scalar(@named), 10, 'rebuild_links() names ten damaged records, each once') or diag($told);
is(scalar(keys %{ { map { $_ => 1 } @named } }), 10, '... of different keys');
unlike($told, qr/ERROR/, '... and goes on');
is(query(q{SELECT count(*) FROM atproto.check('spoilt') WHERE what LIKE '%link%'}), '0', '... so that each link is of a record');
make_target('monthly', 'dagcbor');
query(q{SELECT atproto.partition('monthly', 'month'); INSERT INTO atproto.subscription (name, url, target, enabled, links) VALUES ('monthly', 'wss://localhost', 'monthly', false, 'all')});
query(q{INSERT INTO monthly.record (did, collection, rkey, cid, rev, value) SELECT did, collection, tid_floor(date_trunc('month', now()) - interval '8 months' + interval '4 days' + (row_number() OVER ()) * interval '1 s')::recordkey, cid, rev, value
	FROM packed.record WHERE EXISTS (SELECT FROM record_links(value)) LIMIT 20});
query(q{SELECT atproto.rebuild_links('monthly')});
query(q{UPDATE monthly.record SET value = forged('\x015a') WHERE rkey = (SELECT min(rkey) FROM monthly.record)});
(undef, undef, $told) = $node->psql('postgres', q{CALL atproto.maintain_partitions('monthly', keep => '100 days')});
like($told, qr{WARNING:  the stored record at://did:\S+ is damaged}, 'maintain_partitions() names the damaged record');
unlike($told, qr/ERROR/, '... and goes on');
is(query('SELECT count(*) FROM monthly.record'), '0', '... so that the old records are gone');
like(query(q{SELECT count(*), (SELECT removed FROM atproto.rebuild_links('monthly')) FROM monthly.link}), qr/^([1-9])\|\1$/, '... and the links of the damaged record alone remain, until rebuild_links()');
query(q{DROP SCHEMA monthly CASCADE; DELETE FROM atproto.subscription WHERE name = 'monthly'});
query(q{UPDATE spoilt.record s SET value = p.value FROM packed.record p WHERE (s.did, s.collection, s.rkey, s.cid) = (p.did, p.collection, p.rkey, p.cid)});
query(q{SELECT atproto.rebuild_links('spoilt')});
is(differences($_, 'atproto', 'spoilt'), '0', "with the values written again and rebuild_links(), the same as with jsonb: $_") foreach @same;

# --- keep_raw, of a table that is changed later ---

my $held = AtprotoTest::Server->start($pds, '--hold-at', 600);

make_target('kept', 'jsonb');
query(subscribe_sql('kept', $held, target => "'kept'", cursor => 0, keep_raw => 'true'));
wait_for_seq($node, 'kept', 599);
query(q{BEGIN; DROP VIEW kept.visible_record; ALTER TABLE kept.record ALTER value TYPE dagcbor USING raw::dagcbor; COMMIT});
$held->release;
wait_for(q{SELECT stopped IS NOT NULL FROM atproto.subscription WHERE name = 'kept'});
like(query(q{SELECT stopped FROM atproto.subscription WHERE name = 'kept'}), qr/a subscription with "keep_raw" cannot fill schema "kept"/, 'a consumer with keep_raw stops');
like(refused(q{SELECT atproto.resume('kept')}), qr/cannot fill schema "kept"/, 'resume() refuses');

expect_check('values of two types', qr/^values of two types\|kept\|\|record_event\.(old_)?value\|jsonb, and record\.value is public\.dagcbor/);
expect_check('bytes kept twice', qr/^bytes kept twice\|kept\|\|record\.raw\|/);

done_testing();
