# 359_packed_exports.pl
#		Exports into a target whose values are of the type dagcbor: fetched, also by a fetcher that has filled the same
#		tables as jsonb before ALTER TABLE, and given to load_car().  R-52.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

delete $ENV{ATPROTO_VALUE};
my ($network, $node, $files) = begin_exports('packed_exports', "atproto.fetch_retry = '1s'\n");
my $me = did('a');

sub fetch
{
	my ($name) = @_;

	$network->repos({ $HOST => { $me => { car => "$files/$name.car" } } });
	query("SELECT atproto.resync('$me'); UPDATE atproto.repo SET sync = 'desynchronized', synced_at = NULL");
	wait_for("SELECT EXISTS (SELECT FROM atproto.repo WHERE did = '$me' AND sync = 'synchronized' AND synced_at IS NOT NULL)");
	return;
}

# The number of records; are all values the DAG-CBOR of their CIDs?
sub whole
{
	my ($target, $value) = @_;

	return query("SELECT count(*), bool_and(cid::bytea = '\\x01711220' || sha256($value)), count(raw) FROM $target.record");
}

# --- one fetcher, before and after ALTER TABLE ---

query("SELECT atproto.subscribe('own', 'wss://$HOST', backfill => 'repair', events => 'keep', links => 'all')");
fetch('first');
is(whole('atproto', 'coalesce(raw, jsonb_to_dagcbor(value))'), '537|t|0', 'fetched as jsonb');
my $fetcher = query(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'});
my $document = slurp_file(test_dir() . '/../doc/use/data.md');
my ($alter) = $document =~ /^(BEGIN;\nDROP VIEW atproto\.visible_record;\n.*?^COMMIT;\n)/ms or BAIL_OUT('doc/use/data.md does not have the statements');
query($alter);
fetch('second');
is(whole('atproto', 'value::bytea'), '531|t|0', 'fetched as dagcbor');
is(query(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'}), $fetcher, 'by the same fetcher');
is(query('SELECT count(*) FROM atproto.record_event WHERE (action <> $$delete$$ AND value IS NULL) OR (old_cid IS NOT NULL AND old_value IS NULL)'), '0', 'each event has its values');
is(query("SELECT count(*) > 0, bool_and(old_cid::bytea = '\\x01711220' || sha256(old_value::bytea)) FROM atproto.record_event WHERE old_value IS NOT NULL"), 't|t', 'the values before, too');

# --- ALTER TABLE between two slices of an export ---

my $big    = did('c');
my $points = AtprotoTest::Points->new($node);

query(q{CREATE SCHEMA sliced; SELECT atproto.create_tables('sliced')});
query("SELECT atproto.subscribe('sliced', 'wss://$HOST', target => 'sliced', backfill => 'repair')");
$network->repos({ $HOST => { $me => { car => "$files/second.car" }, $big => { car => "$files/big.car" } } });
$points->hold('slice next', 'atproto fetcher');
query("SELECT atproto.resync('$big', 'sliced')");
$points->wait('slice next', 'atproto fetcher');
query($alter =~ s/\batproto\.(record|record_event|visible_record)\b/sliced.$1/gr =~ s/'atproto'/'sliced'/gr);
$points->release('slice next', 'atproto fetcher');
wait_for("SELECT EXISTS (SELECT FROM sliced.repo WHERE did = '$big' AND sync = 'synchronized' AND synced_at IS NOT NULL AND hold IS NULL)");
is(whole('sliced', 'value::bytea'), '20000|t|0', 'the export is fetched again, and its values are of the type dagcbor');

# --- load_car() ---

query(q{CREATE SCHEMA given; SELECT atproto.create_tables('given', 'dagcbor')});
query(q{INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('given', 'wss://localhost:1', 'given', false)});
is(query("SELECT created, refused FROM atproto.load_car('$me', pg_read_binary_file('$files/first.car'), 'given')"), '537|0', 'load_car() brings all records in');
is(whole('given', 'value::bytea'), '537|t|0', 'as dagcbor');
query("SELECT atproto.load_car('$me', pg_read_binary_file('$files/second.car'), 'given')");
is(query('SELECT count(*) FROM (SELECT did, collection, rkey, cid, rev, value FROM given.record EXCEPT ALL SELECT did, collection, rkey, cid, rev, value FROM atproto.record) d'), '0', 'the same rows as by the fetcher');

done_testing();
