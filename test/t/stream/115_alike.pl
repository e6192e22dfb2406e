# 115_alike.pl
#		An account may write one large record under 200 keys in a commit.  The consumer's memory must stay
#		that of a few records, not of 200 rows, by each way of writing rows; rows beyond the limit are
#		refused.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $capture = make_capture('synth.py', 'alike', 25_000, 50_000);
my $node    = make_node('main');
my $server  = AtprotoTest::Server->start($capture);

# The greatest memory of the consumer until the commit is stored.
sub most_memory
{
	my ($name, %options) = @_;
	my $most = 0;

	query(subscribe_sql($name, $server, cursor => 0, %options));
	wait_until(
		sub {
			my $pid = query("SELECT COALESCE(pid, 0) FROM atproto.stat_subscription WHERE name = '$name'");
			my $kb  = private_memory($pid);

			$most = $kb if $kb > $most;
			return query("SELECT events = 2 FROM atproto.cursor WHERE subscription = '$name'") eq 't';
		},
		"the commits of $name");
	is( query("SELECT stage, count(*), count(*) FILTER (WHERE message LIKE '%more than 64 MB%') FROM atproto.dead_letter WHERE subscription = '$name' GROUP BY stage"),
		'record|89|89', "$name: dead letters for the rest");
	query("SELECT atproto.unsubscribe('$name')");
	return $most;
}

# 60 MB of jsonb, and 120 MB, of which 64 MB are taken
my $rows = q{SELECT string_agg(concat_ws(':', n, vals, len), ',' ORDER BY len) FROM (
	SELECT count(*) AS n, count(DISTINCT value) AS vals, min(jsonb_array_length(value->'n')) AS len FROM %s GROUP BY did) r};

my $stored = '200:1:25000,111:1:50000';

cmp_ok(most_memory('direct'), '<', $MEMORY_MAX, 'rows that go directly into their table: memory stays small');
is(query(sprintf $rows, 'atproto.record'), $stored, 'all of the first commit are stored, of the second as many as fit');

query($_) foreach 'CREATE SCHEMA watched', q{SELECT atproto.create_tables('watched')}, q{
	CREATE FUNCTION watched.nothing() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN new; END $$;
	CREATE TRIGGER nothing BEFORE INSERT ON watched.record FOR EACH ROW EXECUTE FUNCTION watched.nothing();
	CREATE TRIGGER rows AFTER INSERT ON watched.record REFERENCING NEW TABLE AS rows FOR EACH STATEMENT EXECUTE FUNCTION watched.nothing()};
cmp_ok(most_memory('triggers', target => q{'watched'}), '<', $MEMORY_MAX, 'with triggers before each row, and for all of them: memory stays small');
is(query(sprintf $rows, 'watched.record'), $stored, 'all of the first commit are stored, of the second as many as fit');

query('TRUNCATE watched.record, watched.repo; ALTER TABLE watched.record ADD length int GENERATED ALWAYS AS (octet_length(rkey::text)) STORED');
cmp_ok(most_memory('statement', target => q{'watched'}, events => q{'keep'}), '<', $MEMORY_MAX, 'rows that are bound to statements: memory stays small');
is(query(sprintf $rows, 'watched.record'), $stored, 'all of the first commit are stored, of the second as many as fit');
is(query(sprintf $rows, 'watched.record_event'), $stored, 'in record_event, too');

$node->stop;
done_testing();
