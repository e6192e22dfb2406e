# 297_short_rows.pl
#		A row of a direct write ends before the last columns, if these are null: the header has 24 bytes instead of
#		32.  Reads, triggers, CLUSTER, UPDATE and amcheck take such rows for ordinary rows, whichever columns the owner has
#		added or dropped before or after.  E-43.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::TwoWays;
use Test::More;

two_ways('short_rows');
query('CREATE EXTENSION pageinspect; CREATE EXTENSION amcheck');

# The numbers of columns and the sizes of the headers in a table.  Rows with a compressed or large value are left out, since
# PostgreSQL forms such a row again.
sub headers
{
	my ($table) = @_;

	return query("SELECT DISTINCT t_infomask2 & 2047 AS columns, t_hoff FROM generate_series(0, pg_relation_size('$table') / current_setting('block_size')::int - 1) b,"
		  . " LATERAL heap_page_items(get_raw_page('$table', b::int)) i JOIN $table r ON r.ctid = i.t_ctid"
		  . " WHERE t_infomask & 4 = 0 AND coalesce(pg_column_compression(value), pg_column_compression(raw)) IS NULL ORDER BY 1");
}

sub is_sound
{
	my ($name, @tables) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(query("SELECT count(*) FROM verify_heapam('$_', check_toast => true)"), '0', "$name: $_ is sound") foreach @tables;
	return;
}

my $differ = 'SELECT count(*) FROM (SELECT did, collection, rkey, cid, rev, value, raw, fault FROM case_direct.record'
  . ' EXCEPT ALL SELECT did, collection, rkey, cid, rev, value, raw, fault FROM case_statement.record) d';

# --- the columns of record alone: after value, or raw, all columns are null ---

both('plain', "$ROWS; $WHOLE");
is(headers('case_direct.record'), "7|24\n8|24", 'rows end before raw, or before fault');
is_sound('plain', 'case_direct.record');

# columns added later, with a value for present rows, and without
query("ALTER TABLE case_direct.record ADD late int DEFAULT 7, ADD later text; UPDATE case_direct.record SET fault = 'x' WHERE rkey::text < '3'");
is(query('SELECT DISTINCT late, later IS NULL FROM case_direct.record'), '7|t', 'columns added later are read as in rows of any length');
is(query("SELECT bool_and((fault IS NULL) = (rkey::text >= '3')) FROM case_direct.record"), 't', 'an UPDATE writes a column that the row lacked');
query('UPDATE case_statement.record s SET fault = d.fault FROM case_direct.record d WHERE (s.did, s.collection, s.rkey) = (d.did, d.collection, d.rkey) AND d.fault IS NOT NULL');
query('CLUSTER case_direct.record USING record_pkey');
is(query($differ), '0', 'CLUSTER keeps the rows');
is_sound('clustered', 'case_direct.record');
again();

both('with raw', '', keep_raw => 'true');
is(headers('case_direct.record'), '8|24', 'rows end before fault');
again();

# --- columns of the owner ---

both('default', 'ALTER TABLE record ADD extra int DEFAULT 5');
is(headers('case_direct.record'), '10|32', 'rows have a column with a default');
is(query('SELECT DISTINCT extra FROM case_direct.record'), '5', 'which is read');
again();

# PostgreSQL would read the value 5 in a row without the column
both('former default', 'ALTER TABLE record ADD extra int DEFAULT 5; ALTER TABLE record ALTER extra DROP DEFAULT');
is(query('SELECT DISTINCT extra IS NULL FROM case_direct.record'), 't', 'null in a column that rows may lack, with another value, is null');
again();

both('dropped', 'ALTER TABLE record ADD extra int DEFAULT 5, ADD more text; ALTER TABLE record DROP extra');
is(headers('case_direct.record'), "7|24\n8|24", 'rows end before dropped columns and columns without a default');
is(query('SELECT DISTINCT more IS NULL FROM case_direct.record'), 't', 'which are null');
again();

both('used', q{CREATE INDEX ON record (fault) WHERE fault IS NULL; ALTER TABLE record ADD CHECK (fault IS NULL); CREATE INDEX ON record ((raw IS NULL))});
is(query('SET enable_seqscan = off; SELECT count(*) FROM case_direct.record WHERE fault IS NULL'), query('SELECT count(*) FROM case_direct.record'), 'an index on a column that rows lack has them');
again();

# --- partitions, of which record2 begins with fault, raw and value ---

both('parts', "$PARTS; $ROWS");
is(headers('case_direct.record0'), '7|24', 'rows of a partition are short');
is_sound('parts', map { "case_direct.record$_" } 0 .. 2);

done_testing();
