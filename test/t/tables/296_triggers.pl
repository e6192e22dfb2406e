# 296_triggers.pl
#		New records go directly into tables with triggers, as COPY inserts rows, and the triggers must see
#		and do the same as with INSERT (AtprotoTest::TwoWays).  E-43.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::TwoWays;
use PostgreSQL::Test::Utils;
use Test::More;

my ($node, undef, $pds) = two_ways('row_triggers');

# Row triggers fire in the order of the stream; a BEFORE trigger sees all earlier rows, an AFTER trigger all
# rows of its statement.
sub in_order
{
	my ($name) = @_;

	foreach my $moment ('BEFORE', 'AFTER')
	{
		my ($direct, $statement) = map { query("SELECT md5(string_agg(key, ' ' ORDER BY id)) FROM case_$_.log WHERE moment = '$moment' AND op = 'INSERT'") }
		  'direct', 'statement';

		is($direct, $statement, "$name: $moment triggers fire in the same order");
	}
	foreach my $way ('direct', 'statement')
	{
		is(query("SELECT count(*) > 0, count(*) FILTER (WHERE n <> before) FROM (
			SELECT l.n, (SELECT count(*) FROM case_$way.log b WHERE b.moment = 'BEFORE' AND b.op = 'INSERT' AND b.xid = l.xid AND b.id < l.id) -
				(SELECT count(*) FROM case_$way.log b WHERE b.moment = 'AFTER' AND b.op = 'DELETE' AND b.xid = l.xid AND b.id < l.id) AS before
			FROM case_$way.log l WHERE l.n IS NOT NULL AND l.key IS NOT NULL) s"), 't|0', "$name: what they see of the table, the $way way");
	}
	return;
}

# --- triggers that only read ---

both('rows', $ROWS);
in_order('rows');
again();

both('parts', "$PARTS; $ROWS");
in_order('parts');
is(query(q{SELECT count(DISTINCT tab) FROM case_direct.log WHERE moment = 'BEFORE'}), '3', 'parts: in all partitions');
again();

# a trigger made by hand on one partition: rows of the other partitions are still written together
both('one part', "$PARTS; CREATE TRIGGER a BEFORE INSERT ON record2 FOR EACH ROW EXECUTE FUNCTION note();
	CREATE TRIGGER b AFTER INSERT ON record1 FOR EACH ROW EXECUTE FUNCTION note()");
again();

foreach my $layout ([ statements => $WHOLE ], [ 'statements on parts' => "$PARTS; $WHOLE" ],
	[ 'statements and rows on parts' => "$PARTS; $WHOLE; " . own(q{new.value := '{"changed": true}'; RETURN new;}, 'BEFORE INSERT ON record2') ])
{
	my ($name, $changes) = @$layout;

	both($name, $changes);
	is(query("SELECT sum(n) FROM case_direct.log WHERE name = 'd'"), query("SELECT sum(n) FROM case_statement.log WHERE name = 'd'"),
		"$name: the transition tables have each row once");
	is(query("SELECT count(*) FILTER (WHERE moment = 'BEFORE' AND name = 'c') - count(*) FILTER (WHERE moment = 'AFTER' AND name = 'd') FROM case_direct.log"), '0', "$name: one after for each before");
	is(query("SELECT count(*) FROM case_direct.log WHERE name = 'd' AND n = 0"), '0', "$name: and none for nothing");
	is(query("SELECT max(c) FROM (SELECT count(*) AS c FROM case_direct.log WHERE name = 'c' GROUP BY xid) x") < 10 ? 'few' : 'many', 'few', "$name: one for many rows");
	again();
}

# updates and deletions, too
both('all actions', "$ROWS; $WHOLE", actions => 'NULL', untold => 1);
tables_match($node, $pds, 'all actions: the tables are what the oracle says', schema => 'case_direct');
again();

# --- triggers change or skip rows ---

my $change = q{
	IF new.collection = 'app.bsky.feed.like' THEN RETURN NULL; END IF;
	IF hashtext(new.rkey::text) % 3 = 0 THEN new.value := '{"changed": true}'; new.raw := '\\\\x00'; END IF;
	IF hashtext(new.rkey::text) % 5 = 0 THEN new.rkey := (left(new.rkey::text, 500) || '-moved')::recordkey; END IF;
	RETURN new;};
foreach my $layout ([ changed => '' ], [ 'changed on parts' => "$PARTS;" ])
{
	my ($name, $changes) = @$layout;

	both($name, "$changes $ROWS; " . own($change, 'BEFORE INSERT ON record'));
	is(query(q{SELECT count(*) FILTER (WHERE collection = 'app.bsky.feed.like'), count(*) FILTER (WHERE value = '{"changed": true}') > 0,
		count(*) FILTER (WHERE rkey::text LIKE '%-moved') > 0 FROM case_direct.record}), '0|t|t', "$name: so it was");
	again();
}

# A trigger makes many keys equal: the transaction is repeated with statements.
both('one key', own('new.rkey := left(new.rkey::text, 8)::recordkey; RETURN new;', 'BEFORE INSERT ON record'), untold => 1);
again();

# A partition's own trigger that moves a row to a different partition is refused, and nothing else.
both('moved away', "$PARTS; " . own(q{IF hashtext(new.rkey::text) % 50 = 0 THEN new.collection := 'app.bsky.feed.like'; END IF; RETURN new;}, 'BEFORE INSERT ON record2'), untold => 1);
cmp_ok(query(q{SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'case_direct' AND sqlstate = '23514'}), '>', 0, 'moved away: there were such rows');
again();

unlike(slurp_file($node->logfile), qr/PANIC|TRAP|WARNING|terminated by signal/, 'the server is well');

$node->stop;
done_testing();
