# 233_partition_months.pl
#		CALL atproto.maintain_partitions() makes partitions for the months of which rows have come, whatever
#		their time, and drops old months with the links of their records, in small transactions.  Sessions
#		that use the tables wait for moments only.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('months', conf => "autovacuum = off\n");

sub refused
{
	my ($sql, $pattern, $name) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like($err, $pattern, $name);
	return;
}

# The output of a CALL, which must not fail.
sub call
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "CALL atproto.maintain_partitions($sql)");

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($rc, 0, "maintain_partitions($sql)") or diag($err);
	return join "\n", $err =~ /NOTICE:  (.*)/g;
}

sub month
{
	my ($months) = @_;
	return query("SELECT to_char(date_trunc('month', now() AT TIME ZONE 'UTC') + interval '$months months', 'YYYY_MM')");
}

# n records of n accounts, so many months from now, each a like of the same post.
sub insert
{
	my ($schema, $months, $n) = @_;
	query(<<"SQL");
INSERT INTO $schema.record (did, collection, rkey, cid, rev, value) SELECT ('did:plc:' || lpad(translate(n::text, '0189', 'abcd'), 24, 'a'))::did, 'app.bsky.feed.like',
	tid_floor((date_trunc('month', now() AT TIME ZONE 'UTC') + interval '$months months 1 day') AT TIME ZONE 'UTC' + n * interval '1 second')::recordkey,
	'bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy', tid_floor(now()),
	jsonb_build_object('\$type', 'app.bsky.feed.like', 'subject', jsonb_build_object('cid', 'bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy',
		'uri', 'at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post/3l6oveex3ii2l'))
FROM generate_series(1, $n) n
SQL
	return;
}

# The interval that keeps so many months before the present month.
sub keep
{
	my ($months) = @_;
	return "now() AT TIME ZONE 'UTC' - (date_trunc('month', now() AT TIME ZONE 'UTC') - interval '$months months') - interval '1 hour'";
}

sub begin_session
{
	my ($name, $sql) = @_;
	my %session = (out => '', name => $name);

	$session{handle} = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres') . " application_name=$name", '-c', $sql ], '>', \$session{out}, '2>&1');
	return \%session;
}

# --- partitioned first, filled afterwards ---

query(q{CREATE SCHEMA m; SELECT atproto.create_tables('m'); SELECT atproto.partition('m', 'month', ahead => 0)});
insert('m', -$_, 20) foreach 0 .. 6;
query(q{INSERT INTO m.record (did, collection, rkey, cid, rev) SELECT did, 'app.bsky.actor.profile', 'self', cid, rev FROM m.record WHERE rkey = (SELECT min(rkey) FROM m.record)});
query(q{INSERT INTO m.record_event (subscription, action, did, collection, rkey, rev, received_at) SELECT 'x', 'create', did, collection, rkey, rev, now() - interval '2 months' FROM m.record LIMIT 3});
is(query('SELECT count(*) FROM m.record_rest'), '121', 'most rows are in the default partition');
my $said = call("'m', ahead => 1");
is($said, join("\n", (map { 'made m.record_' . month(-$_) . ', with 20 rows of m.record_rest' } reverse 1 .. 6), 'made m.record_' . month(1),
	'made m.record_event_' . month(-2) . ', with 3 rows of m.record_event_rest', 'made m.record_event_' . month(1)), 'each month takes its rows');
is(query('SELECT count(*), (SELECT count(*) FROM m.record) FROM m.record_rest'), '1|141', 'what is no time stays there');
is(call("'m', ahead => 1"), '', 'once more changes nothing');

# --- old months, with links, among them many links to one target ---

query(q{SELECT atproto.rebuild_links('m')});
query(q{SELECT atproto.count_links('{app.bsky.feed.like:subject.uri}', 'm')});
insert('m', -20, 30);
query(q{SELECT atproto.rebuild_links('m')});
is(query('SELECT count(*), (SELECT sum(n) FROM m.link_count) FROM m.link'), '170|170', 'links to one post');
my $first = query(q{SELECT did FROM m.record WHERE collection = 'app.bsky.feed.like' ORDER BY rkey DESC LIMIT 1});
query(<<'SQL');
CREATE TABLE seen (op text);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.seen VALUES (tg_op || tg_table_name); RETURN NULL; END';
CREATE TRIGGER each AFTER DELETE ON m.record FOR EACH ROW EXECUTE FUNCTION see();
SQL
my ($oldest, $older) = (month(-6), month(-5));
is(call("'m', ahead => 1, keep => @{[keep(4)]}, keep_events => @{[keep(1)]}"),
	join("\n", "dropped m.record_$oldest", "dropped m.record_$older", 'removed 30 rows of m.record_rest', 'dropped m.record_event_' . month(-2)), 'what is over goes');
is(query('SELECT count(*), (SELECT count(*) FROM m.link), (SELECT count(*) FROM m.record_rest) FROM m.record'), '101|100|1', 'with its links, and what is as old in the default partition');
is(query("SELECT count(*) FROM atproto.link_problems('m')"), '0', 'the links are those of the records');
is(query('SELECT sum(n) FROM m.link_count'), '100', 'and are counted');
is(query('SELECT count(*), min(op), max(op) FROM seen'), '30|DELETErecord_rest|DELETErecord_rest', 'rows of the default partition are deleted, others dropped');

# --- while other sessions use the tables ---

# A locked row is moved at the end, and only writers of its month wait for it.
query('TRUNCATE seen');
my $month  = month(-4);
my $writer = $node->background_psql('postgres');
$writer->query_safe("BEGIN; UPDATE m.record_$month SET indexed_at = now() WHERE rkey = (SELECT min(rkey) FROM m.record_$month)");
my $maker = begin_session('maker', "CALL atproto.maintain_partitions('m', ahead => 1, keep => @{[keep(3)]})");
wait_for("SELECT count(*) = 1 FROM m.record_$month");
is(query("SELECT count(*) FROM atproto.link_problems('m')"), '0', 'at each moment links are those of the records');
$writer->query_safe('COMMIT');
$maker->{handle}->finish;
like($maker->{out}, qr/dropped m.record_$month$/m, 'the month goes when the row is free');
is(query("SELECT count(*) FROM atproto.link_problems('m')") . query('SELECT count(*) FROM m.link'), '080', 'with the links of what was left');

# A reader that stays: sessions behind the CALL wait for half a second.
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN; SELECT count(*) FROM m.record');
$maker = begin_session('maker', q{CALL atproto.maintain_partitions('m', ahead => 2)});
wait_for(q{SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND application_name = 'maker')});
is(query(q{SET lock_timeout = '5s'; SELECT count(*) FROM m.record}), '81', 'who reads meanwhile does not wait for the reader before');
refused(q{SET lock_timeout = '2s'; CALL atproto.maintain_partitions('m', ahead => 2)}, qr/table "record" could not be locked in \d+ attempts\nDETAIL:  Other sessions use it. The limit of all attempts is "lock_timeout"/, 'lock_timeout limits all attempts');
$reader->query_safe('COMMIT');
$maker->{handle}->finish;
like($maker->{out}, qr/made m.record_@{[month(2)]}$/m, 'it has its turn');
$_->quit foreach $reader, $writer;

# --- sessions that read, and then write ---

query(q{CREATE SCHEMA d; SELECT atproto.create_tables('d'); SELECT atproto.partition('d', 'month', ahead => 0)});
insert('d', -$_, 20) foreach 0, 5;
query(q{SELECT atproto.rebuild_links('d')});
call(q{'d', ahead => 0});

# A session has locked the table; the test acts while the maker of the partition waits for the lock.  The server
# does not look for deadlocks on the session's side.
sub write_after_reading
{
	my ($call, $sql) = @_;
	my $session = $node->background_psql('postgres', on_error_stop => 0);
	my $waits;

	$session->query(q{SET deadlock_timeout = '1h'; SET lock_timeout = '60s'; BEGIN; SELECT count(*) FROM d.record});
	$waits = begin_session('waits', $call);
	wait_for(q{SELECT EXISTS (SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND application_name = 'waits')});
	$session->query($sql);
	my $done = $session->query(q{SELECT 'written'});
	$session->query('COMMIT');
	$session->quit;
	$waits->{handle}->finish;
	return ($done, $waits->{out});
}

my ($done, $out) = write_after_reading("CALL atproto.maintain_partitions('d', ahead => 0, keep => @{[keep(1)]})", 'UPDATE d.record_' . month(-5) . ' SET indexed_at = now()');
is($done, 'written', 'whoever reads, and writes into the month that goes, is let through');
like($out, qr/dropped d.record_@{[month(-5)]}$/m, 'then the month goes');
is(query('SELECT count(*), (SELECT count(*) FROM d.link) FROM d.record'), '20|20', 'with its links');
my $row = 'UPDATE d.record SET indexed_at = now() WHERE rkey = (SELECT min(rkey) FROM d.record)';
($done, $out) = write_after_reading("BEGIN; $row; SELECT atproto.partition('d', ahead => 1)", $row);
like($out, qr/deadlock detected/, 'where the transaction of the call has locks already, the server sees the deadlock');
is($done, 'written', 'of which the session is not the victim');

# --- foreign keys ---

query(<<"SQL");
CREATE TABLE bookmark (did did, collection nsid, rkey recordkey, FOREIGN KEY (did, collection, rkey) REFERENCES m.record ON DELETE CASCADE);
INSERT INTO bookmark SELECT did, collection, rkey FROM m.record_@{[month(-3)]} LIMIT 1;
SQL
refused("CALL atproto.maintain_partitions('m', ahead => 1, keep => @{[keep(2)]})", qr/removing partition "record_@{[month(-3)]}" violates foreign key constraint/, 'a month that somebody refers to stays');
is(query('SELECT count(*), (SELECT count(*) FROM m.link), (SELECT count(*) FROM bookmark) FROM m.record'), '81|80|1', 'whole, with its links');
query('TRUNCATE bookmark');
call("'m', ahead => 1, keep => @{[keep(2)]}");
is(query('SELECT count(*), (SELECT count(*) FROM m.link) FROM m.record'), '61|60', 'and goes when nobody does');

# --- a popular target: each link is found by its whole key ---

query(q{CREATE SCHEMA p; SELECT atproto.create_tables('p')});
insert('p', -9, 300);
insert('p', 0, 6000);
# many rows of further kinds, so that statistics expect few links to one target
query(<<'SQL');
INSERT INTO p.record (did, collection, rkey, cid, rev, value) SELECT did, 'app.bsky.graph.block', tid_floor(now() + n * interval '1 millisecond')::recordkey, cid, rev,
	jsonb_build_object('$type', 'app.bsky.graph.block', 'subject', 'did:plc:' || lpad(translate(n::text, '0189', 'abcd'), 24, 'b'))
FROM generate_series(1, 30000) n, (SELECT did, cid, rev FROM p.record LIMIT 1) r
SQL
query(q{INSERT INTO p.repo (did, rev, sync) SELECT DISTINCT ON (did) did, rev, 'synchronized' FROM p.record; SELECT atproto.count_links('{app.bsky.feed.like:subject.uri,app.bsky.graph.block:subject}', 'p')});
query(q{SELECT atproto.rebuild_links('p'); SELECT atproto.partition('p', 'month', ahead => 0); ANALYZE p.link, p.link_count, p.repo});
# the month has some hundred pages, and is removed in several steps
my $ninth = 'p.record_' . month(-9);
query("ALTER TABLE $ninth SET (fillfactor = 10)");
query("VACUUM FULL $ninth");
query('SELECT pg_stat_force_next_flush(); SELECT pg_stat_reset()');
call(q{'p', ahead => 0, keep => '6 months'});
query('SELECT pg_stat_force_next_flush()');
cmp_ok(query(q{SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelid = 'p.link_pkey'::regclass}), '<', 3000, 'a link that goes does not cost all those of its target');
cmp_ok(query("SELECT seq_tup_read FROM pg_stat_user_tables WHERE relid = 'p.$_'::regclass"), '<', 100, "no step reads all of $_") foreach qw(link link_count);
cmp_ok(query(q{SELECT seq_tup_read FROM pg_stat_user_tables WHERE relid = 'p.repo'::regclass}), '<', 3 * 6000, 'repo is read at the begin and at the end of the month, and by no step');
is(query('SELECT count(*) FROM p.link'), '36000', 'the others stay');

# --- many counts become zero: each is found by its key, since a join of all zeros with all keys would be quadratic ---

# Blocks of so many accounts: old ones nine months ago, the others today; counted links, and partitions by month.
sub blocks
{
	my ($schema, $old, $new) = @_;
	query(<<"SQL");
CREATE SCHEMA $schema; SELECT atproto.create_tables('$schema');
INSERT INTO $schema.record (did, collection, rkey, cid, rev, value) SELECT r.did, 'app.bsky.graph.block',
	tid_floor(now() - CASE WHEN n <= $old THEN interval '9 months' ELSE interval '1 hour' END + n * interval '1 second')::recordkey, r.cid, r.rev,
	jsonb_build_object('\$type', 'app.bsky.graph.block', 'subject', 'did:plc:' || lpad(translate(n::text, '0189', 'abcd'), 24, 'z'))
FROM generate_series(1, $old + $new) n, (SELECT did, cid, rev FROM p.record LIMIT 1) r;
SELECT atproto.count_links('{app.bsky.graph.block:subject}', '$schema');
SELECT atproto.rebuild_links('$schema'); SELECT atproto.partition('$schema', 'month', ahead => 0); ANALYZE $schema.link, $schema.link_count;
SQL
	return;
}

blocks('z', 600, 1400);
query('SELECT pg_stat_force_next_flush(); SELECT pg_stat_reset()');
call(q{'z', ahead => 0, keep => '6 months'});
query('SELECT pg_stat_force_next_flush()');
is(query('SELECT count(*), sum(n) FROM z.link_count'), '1400|1400', 'no count is zero');
cmp_ok(query(q{SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelid = 'z.link_count_pkey'::regclass}), '>=', 2 * 600, 'each count is looked up twice, to be lowered and to be removed');

# --- while a stream comes ---

my $pds    = capture('pds.frames.gz');
my @holds  = (400, 800, 1200);
my $server = AtprotoTest::Server->start($pds, map { ('--hold-at', $_) } @holds);
query(q{CREATE SCHEMA live; SELECT atproto.create_tables('live'); SELECT atproto.partition('live', 'month', ahead => 0)});
query('DROP TABLE live.record_' . month(0));
query(subscribe_sql('live', $server, cursor => 0, target => "'live'", links => "'all'"));
my $moved = '';
foreach my $hold (@holds)
{
	wait_for_seq($node, 'live', $hold - 1);
	$server->release;
	$moved .= call(q{'live', ahead => 0}) . "\n";
}
wait_for_seq($node, 'live', $PDS_LAST);
$moved .= call(q{'live', ahead => 0});
like($moved, qr/made live.record_\d+_\d+, with \d+ rows of live.record_rest/, 'months are made');
tables_match($node, $pds, 'as the oracle says', schema => 'live', modes => [ 'record', 'repo' ]);
is(query("SELECT count(*) FROM atproto.link_problems('live')"), '0', 'links are those of the records');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');

# --- where no key can be looked up, the plan's cost stays what it is: jit would compile a plan that seems to cost too much ---

# The plans of all statements of a call, and what later statements of its session say.
sub plans
{
	my ($call, $later) = (@_, '');
	my ($rc, $out, $err) = $node->psql('postgres', <<"SQL");
LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on; SET client_min_messages = log;
CALL atproto.maintain_partitions($call);
$later
SQL
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is($rc, 0, "maintain_partitions($call)") or diag($err);
	is(join("\n", $err =~ /.*cost=\d{10}.*/g), '', 'no plan has a cost that was made up');
	return ($err, $out);
}

blocks('h', 300, 200);
query(<<'SQL');
CREATE TABLE h.total (id integer PRIMARY KEY, n integer); INSERT INTO h.total SELECT i, 0 FROM generate_series(1, 100) i; ANALYZE h.total;
CREATE RULE total AS ON DELETE TO h.link_count DO ALSO UPDATE h.total SET n = n + 1 WHERE id > 50;
INSERT INTO h.repo (did, rev, sync) SELECT DISTINCT ON (did) did, rev, 'synchronized' FROM h.record;
CREATE TABLE h.repo_again () INHERITS (h.repo); INSERT INTO h.repo_again SELECT * FROM h.repo;
SQL
like((plans(q{'h', ahead => 0, keep => '6 months'}))[0], qr/Seq Scan on total/, 'a rule reads a table of its own');
is(query('SELECT count(*), sum(n) FROM h.link_count') . query('SELECT min(sync) || max(sync) FROM h.repo'), '200|200partialpartial', 'a table that inherits from repo may have the same account');

# A trigger runs a statement by keys of its own, on a table without rows; the rest of the links' step is planned as before.
my $steps = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x'));
query(<<'SQL');
CREATE SCHEMA y; SELECT atproto.create_tables('y');
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'not yet'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON y.record FOR EACH ROW EXECUTE FUNCTION refuse();
SQL
query(subscribe_sql('y', $steps, cursor => 0, target => "'y'"));
wait_for_seq($node, 'y', 1);
blocks('t', 600, 1400);
query(<<'SQL');
ANALYZE y.record;
CREATE TABLE told (what text);
CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO public.told SELECT atproto.retry(id) FROM atproto.dead_letter; RETURN NULL; END $$;
CREATE TRIGGER again AFTER DELETE ON t.link FOR EACH STATEMENT EXECUTE FUNCTION again();
CREATE TABLE planned (plan text);
CREATE FUNCTION note_plan() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE said text;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) SELECT FROM generate_series(1, 1000) g JOIN t.link_source s ON s.id = g WHERE g > $1' INTO said USING 0;
	INSERT INTO public.planned VALUES (said);
	RETURN NULL;
END $$;
CREATE TRIGGER a_plan AFTER DELETE ON t.link FOR EACH STATEMENT EXECUTE FUNCTION note_plan();
SELECT pg_stat_force_next_flush(); SELECT pg_stat_reset();
SQL
my (undef, $later) = plans(q{'t', ahead => 0, keep => '6 months'},
	'PREPARE later(integer) AS SELECT FROM generate_series(1, 1000) g JOIN t.link_source s ON s.id = g WHERE g > $1; EXPLAIN EXECUTE later(0)');
like(query('SELECT min(plan) FROM planned'), qr/"Hash Join"/, 'the statements of a trigger are planned as elsewhere');
like($later, qr/Hash Join/, 'and so are later statements of the session');
query('SELECT pg_stat_force_next_flush()');
like(query('SELECT min(what) FROM told'), qr/not yet/, 'the trigger has tried a letter again');
cmp_ok(query(q{SELECT idx_scan FROM pg_stat_user_indexes WHERE indexrelid = 't.link_count_pkey'::regclass}), '>=', 2 * 600, 'then each count is looked up');
query(q{SELECT atproto.unsubscribe('y'); DROP TRIGGER again ON t.link; DROP TRIGGER a_plan ON t.link});

# --- by an ordinary role ---

query(<<"SQL");
CREATE ROLE keeper; GRANT USAGE ON SCHEMA atproto TO keeper; CREATE SCHEMA own AUTHORIZATION keeper;
GRANT EXECUTE ON ALL ROUTINES IN SCHEMA atproto TO keeper; GRANT SELECT ON atproto.subscription TO keeper;
SET ROLE keeper; SELECT atproto.create_tables('own'); SELECT atproto.partition('own', 'month', ahead => 0);
SQL
insert('own', -$_, 10) foreach 0 .. 3;
query(q{SET ROLE keeper; SELECT atproto.rebuild_links('own'); ALTER TABLE own.record ENABLE ROW LEVEL SECURITY});
my ($rc, undef, $err) = $node->psql('postgres', "SET ROLE keeper; CALL atproto.maintain_partitions('own', ahead => 0, keep => @{[keep(1)]})");
like($err, qr/made own.record_@{[month(-1)]}, with 10 rows of own.record_rest\n.*removed 20 rows of own.record_rest/s, 'who owns the tables may');
is(query('SELECT count(*), (SELECT count(*) FROM own.link) FROM own.record'), '20|20', 'links go with them');

# --- what it refuses ---

refused(q{BEGIN; CALL atproto.maintain_partitions('m')}, qr/procedure "atproto.maintain_partitions" cannot run inside a transaction block or a function/, 'a transaction');
refused(q{CALL atproto.maintain_partitions('atproto')}, qr/table "record" is not in partitions yet.*HINT:  SELECT atproto.partition/s, 'a table without partitions');
refused(q{CALL atproto.maintain_partitions('m', collections => '{app.bsky.feed.post}')}, qr/collections are for partitions by collection/, 'collections by month');

# no subscription has filled most of these tables
expect_check('record without repository', undef, maybe => 1);
$node->stop;
done_testing();
