# 296_row_values.pl
#		Direct writes into tables with columns, conditions, defaults, indexes and triggers of the owner:
#		the owner's functions get the same values as from statements, and rows are accepted,
#		refused and stored in the same way.  E-43, B-29.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::TwoWays;
use PostgreSQL::Test::Utils;
use Test::More;

my ($node) = two_ways('row_values');
query(<<'SQL');
CREATE FUNCTION marks() RETURNS int[] LANGUAGE plpgsql STABLE AS 'DECLARE a int[] := ARRAY[1, 2]; BEGIN a[3] := 3; RETURN a; END';
CREATE FUNCTION changes_it(a int[]) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN a[1] := a[1] + 1; RETURN a[1] = 2; END';
CREATE FUNCTION out_of_line(rel oid) RETURNS int LANGUAGE plpgsql AS $$
DECLARE n int;
BEGIN
	EXECUTE format('SELECT count(*) FROM %s', (SELECT reltoastrelid::regclass FROM pg_class WHERE oid = rel)) INTO n;
	RETURN n;
END $$;
SQL

# --- a default that is an object in memory, which a function could change or free ---

my $marks = 'ALTER TABLE record ADD marks int[] DEFAULT marks()';
foreach my $layout ([ checked => "$marks CHECK (changes_it(marks))" ], [ 'checked on parts' => "$PARTS; $marks CHECK (changes_it(marks))" ],
	[ indexed => "$marks; CREATE INDEX ON record (changes_it(marks))" ],
	[ 'asked by a trigger' => "$marks; CREATE TRIGGER m BEFORE INSERT ON record FOR EACH ROW WHEN (NOT changes_it(new.marks)) EXECUTE FUNCTION note()" ])
{
	my ($name, $changes) = @$layout;

	both($name, $changes);
	is(query("SELECT DISTINCT marks FROM case_$_.record"), '{1,2,3}', "$name: the default, the $_ way") foreach 'direct', 'statement';
	again();
}

# --- conditions on the table of a row ---

both('table', 'ALTER TABLE record ADD CHECK (tableoid <> 0)');
again();

# The result of one batch of an account's commits after these changes of the table, the direct way and by
# statements.
sub one_batch
{
	my ($name, $changes, $asked, @steps) = @_;
	my $few = AtprotoTest::Server->start(make_capture('steps.py', 'b 1 +x', @steps), '--hold-at', 2);
	my @said;

	foreach my $way ('direct', 'statement')
	{
		my $schema = "case_$way";

		make_case($schema, '', $way eq 'statement');
		query(subscribe_sql($schema, $few, cursor => 0, target => "'$schema'"));
		wait_for_seq($node, $schema, 1);
		query("SET search_path = $schema, public; ALTER TABLE record $changes");
		$few->release;
		wait_for_seq($node, $schema, 1 + @steps);
		push @said, query(<<"SQL");
SELECT right(did::text, 1) || rkey, $asked FROM $schema.record ORDER BY 1;
SELECT seq, sqlstate FROM atproto.dead_letter WHERE subscription = '$schema' ORDER BY seq
SQL
		$few->restart('--hold-at', 2);
	}
	is($said[0], $said[1], "$name: the same as by statements");
	again();
	return $said[0];
}

my $table = q{ADD CHECK (tableoid <> 'record'::regclass OR rev <= '2222222222222' OR collection <> 'app.bsky.feed.post') NOT VALID};
like(one_batch('inserted', $table, 'cid', 'a 1 +y', 'c 1 +y'), qr/^2\|23514\n3\|23514$/m, 'inserted: both are refused, of one table and another they would not be');
like(one_batch('updated', $table, 'cid', 'b 2 =x'), qr/^2\|23514$/m, 'updated: refused likewise');
my $none = 'ALTER indexed_at DROP DEFAULT, ALTER indexed_at DROP NOT NULL';
like(one_batch('no default', $none, 'indexed_at IS NULL', 'a 1 +y', 'b 2 =x'), qr/\|t\n.*\|t$/, 'no default: what is written gets none, also what is updated');

# --- an update drops the value of a dropped column ---

my $dropped = q{ADD big text; ALTER TABLE record ALTER big SET STORAGE EXTERNAL; UPDATE record SET big = repeat('x', 100000); ALTER TABLE record DROP big};
is(one_batch('dropped', $dropped, 'out_of_line(tableoid)', 'b 2 =x'), '2x|0', 'dropped: nothing of it is kept');

# --- rows that a trigger makes large: the consumer does not collect many of them in memory ---

my $posts = AtprotoTest::Server->start(make_capture('synth.py', 'posts', 300));
my $large = q{ALTER TABLE record ADD note text; CREATE TABLE memory (bytes bigint); } . own(q{new.note := repeat('x', 1000000);
	IF hashtext(new.did::text) % 10 = 0 THEN INSERT INTO memory SELECT sum(total_bytes) FROM pg_backend_memory_contexts; END IF; RETURN new;}, 'BEFORE INSERT ON record');
foreach my $layout ([ large => '' ], [ 'large on parts' => "$PARTS;" ])
{
	my ($name, $changes) = @$layout;

	foreach my $way ('direct', 'statement')
	{
		make_case("case_$way", "$changes $large", $way eq 'statement');
		query(subscribe_sql("case_$way", $posts, cursor => 0, target => "'case_$way'"));
		wait_for_seq($node, "case_$way", 300);
		is(query("SELECT count(*) FROM case_$way.record WHERE octet_length(note) = 1000000"), '300', "$name: all rows, the $way way");
		cmp_ok(query("SELECT max(bytes) / 1024 FROM case_$way.memory"), '<', $AtprotoTest::MEMORY_MAX, "$name: what a consumer may use, the $way way");
	}
	again();
}

unlike(slurp_file($node->logfile), qr/PANIC|TRAP|WARNING|terminated by signal/, 'the server is well');

$node->stop;
done_testing();
