# 245_strangers_values.pl
#		A stranger's value makes a user's trigger fail with a SQLSTATE usually caused by faults of the
#		schema or of the server.  A row is at fault itself if three attempts fail while further rows of the
#		table pass, and becomes a dead letter.  An error without a row at fault stops or ends the consumer,
#		and condemns nothing.  E-43, B-29.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node(
	'strangers_values', conf => <<'CONF');
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
max_worker_processes = 30
# autovacuum's changes of the catalog would make a consumer forget which rows have passed
autovacuum = off
CONF

# The key of a record, or a second text, decides how its row fails: by a dynamic statement, with a SQLSTATE, or
# only in the first two attempts of a single row.
query(<<'SQL');
CREATE SEQUENCE public.failed;
CREATE FUNCTION public.fail_by(value text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF value LIKE 'table%' THEN
		EXECUTE format('SELECT FROM %I', value);
	ELSIF value LIKE 'call%' THEN
		EXECUTE format('SELECT %I(1)', value);
	ELSIF value LIKE 'cast%' THEN
		EXECUTE format('SELECT 1::%I', value);
	ELSIF value = 'passes' AND nextval('public.failed') <= 8 THEN
		RAISE EXCEPTION 'not yet' USING ERRCODE = 'XX000';
	ELSIF value LIKE 'no%' THEN
		RAISE EXCEPTION 'not this value' USING ERRCODE = substr(value, 3, 5);
	END IF;
END $$;
CREATE FUNCTION public.cast_value() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM public.fail_by((to_jsonb(CASE WHEN TG_OP = 'DELETE' THEN old ELSE new END) ->> TG_ARGV[0])::text);
	RETURN coalesce(new, old);
END $$;
CREATE TRIGGER cast_value BEFORE INSERT ON atproto.record FOR EACH ROW EXECUTE FUNCTION public.cast_value('rkey');
SQL

my $server;
my $state = q{SELECT state, last_error FROM atproto.stat_subscription WHERE name = 's'};

# Streams events of steps.py into empty tables, up to the first number in @$hold, unless comes => 0.
sub begin_stream
{
	my ($steps, $hold, %args) = @_;
	my $comes = delete $args{comes} // 1;

	start_over();
	query(q{DELETE FROM atproto.dead_letter; ALTER SEQUENCE public.failed RESTART});
	$server = AtprotoTest::Server->start(make_capture('steps.py', @$steps), map { ('--hold-at', $_) } @$hold);
	query(subscribe_sql('s', $server, cursor => 0, %args));
	wait_for_seq($node, 's', $hold->[0] - 1) if @$hold && $comes;
	return;
}

# Does the stream reach this event, or stop before?
sub goes_on
{
	my ($last, $name) = @_;

	wait_for("SELECT coalesce(bool_or(state = 'stopped' OR seq >= $last), false) FROM atproto.stat_subscription WHERE name = 's'");
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(query("SELECT state <> 'stopped', seq FROM atproto.stat_subscription WHERE name = 's'"), "t|$last", $name);
}

sub letters
{
	return query(q{SELECT string_agg(substr(path, 20) || ' ' || sqlstate, ', ' ORDER BY seq, path) FROM atproto.dead_letter WHERE stage = 'apply'});
}

sub records
{
	return query(q{SELECT string_agg(rkey::text, ' ' ORDER BY rkey) FROM atproto.record});
}

sub triggers
{
	my ($how) = @_;
	query("ALTER TABLE atproto.record $how TRIGGER cast_value");
	return;
}

# --- each class of errors, among good rows ---

my %bad = (
	table => '42P01', call => '42883', cast => '42704', no42804 => '42804', no42501 => '42501', no38000 => '38000', noXX000 => 'XX000',
	no0A000 => '0A000', no3F000 => '3F000', no39004 => '39004', no25001 => '25001', no55000 => '55000', no72000 => '72000', no22P02 => '22P02');
my @bad   = sort keys %bad;
my @steps = ('a 1 +x', (map { my $who = chr(ord('b') + $_); "$who 1 +y$_ +$bad[$_] +z$_" } 0 .. $#bad), 'v 1 +x');
my @good  = ('x', 'x', map { ("y$_", "z$_") } 0 .. $#bad);

foreach my $workers (1, 2)
{
	begin_stream(\@steps, [], workers => $workers);
	goes_on(scalar @steps, "$workers workers: the stream goes on");
	is(letters(), join(', ', map { "$_ $bad{$_}" } @bad), "$workers workers: each is a dead letter with its SQLSTATE");
	is(join(' ', sort split / /, records()), join(' ', sort @good), "$workers workers: all other rows are there");
}
is(query('SELECT count(*) FILTER (WHERE atproto.retry(id) = message) = count(*) FROM atproto.dead_letter'), 't', 'tried again too early, each stays');
triggers('DISABLE');
is(query(q{SELECT string_agg(DISTINCT atproto.retry(id), ',') FROM atproto.dead_letter}), 'applied', 'put right, they are applied');
triggers('ENABLE');

# --- a row that passes at the third attempt ---

begin_stream([ 'a 1 +x', 'b 1 +passes', 'c 1 +y' ], []);
goes_on(3, 'a row that passes in the third try');
is(records() . '|' . query('SELECT count(*) FROM atproto.dead_letter'), 'passes x y|0', 'is no dead letter');
cmp_ok(query('SELECT last_value FROM public.failed'), '>', 8, 'it was tried');
is(query(q{SELECT count(DISTINCT sync) FROM atproto.repo}), 1, 'and its repository lacks nothing');

# --- a row that comes alone ---

# Earlier rows have passed: so the table is not at fault.
begin_stream([ 'a 1 +x', 'b 1 +call', 'c 1 +y' ], [ 2, 3 ]);
$server->release;
goes_on(2, 'a row that comes alone, after others');
is(letters(), 'call 42883', 'is a dead letter');

# The first row of a process: whether the table is at fault is not known before more rows come.
my $from = -s $node->logfile;
begin_stream([ 'b 1 +call', 'c 1 +y' ], [2], comes => 0);
$node->wait_for_log(qr/ERROR:  function call\(integer\) does not exist(?s:.*)consumer" \(PID \d+\) exited/, $from);
is(query(q{SELECT state <> 'stopped', coalesce(seq, 0), (SELECT count(*) FROM atproto.dead_letter) FROM atproto.stat_subscription}), 't|0|0',
	'the first row of a process, alone: the consumer waits, and condemns nothing');
$server->release;
goes_on(2, 'when others come with it');
is(letters() . '|' . records(), 'call 42883|y', 'it is a dead letter');

# --- states of repositories ---

triggers('DISABLE');
query(q{CREATE TRIGGER cast_value BEFORE INSERT ON atproto.repo FOR EACH ROW WHEN (new.did = '} . did('b') . q{') EXECUTE FUNCTION public.cast_value('status');
	CREATE OR REPLACE FUNCTION public.fail_by(value text) RETURNS void LANGUAGE plpgsql AS 'BEGIN PERFORM public.missing(1); END'});
begin_stream([ 'a 1 +x', 'b 1 +y', 'c 1 +z' ], []);
goes_on(3, 'the state of one repository is refused: the stream goes on');
is(query('SELECT did, sqlstate, count(*) FROM atproto.dead_letter GROUP BY 1, 2'), did('b') . '|42883|1', 'a dead letter tells of it');
is(records(), 'x z', 'and of no other');
query('DROP TRIGGER cast_value ON atproto.repo');

# --- a failure of every row ---

triggers('ENABLE');
begin_stream([ 'a 1 +x', (map { "$_ 1 +y" } 'b' .. 'h') ], []);
wait_for(q{SELECT state = 'stopped' FROM atproto.stat_subscription});
is(query($state), 'stopped|function public.missing(integer) does not exist (SQLSTATE 42883)', 'every row fails: it stops, and says why');
is(query('SELECT count(*), (SELECT count(*) FROM atproto.record), (SELECT coalesce(max(seq), 0) FROM atproto.cursor) FROM atproto.dead_letter'), '0|0|0', 'and condemns nothing');
query(q{CREATE FUNCTION public.missing(int) RETURNS void LANGUAGE sql AS ''; SELECT atproto.resume('s')});
goes_on(8, 'put right, it goes on');
is(query('SELECT count(*), (SELECT count(*) FROM atproto.dead_letter) FROM atproto.record'), '8|0', 'with all rows');

# All events of some repositories fail, after further rows have passed: with so many failures in a row, the
# schema is at fault.
query(q{CREATE OR REPLACE FUNCTION public.missing(int) RETURNS void LANGUAGE plpgsql AS $$BEGIN RAISE 'broken' USING ERRCODE = '42P01'; END$$;
	DROP TRIGGER cast_value ON atproto.record;
	CREATE TRIGGER cast_value BEFORE INSERT ON atproto.record FOR EACH ROW WHEN (new.rkey::text <> 'x') EXECUTE FUNCTION public.cast_value('rkey')});
begin_stream([ 'z 1 +x', map { my $rev = $_; map { "$_ $rev +y$rev" } 'b' .. 'g' } 1 .. 40 ], []);
wait_for(q{SELECT state = 'stopped' FROM atproto.stat_subscription});
is(query($state), 'stopped|broken (SQLSTATE 42P01)', 'a hundred events in a row of many repositories: it stops, and says why');
is(query('SELECT count(*) < 100 FROM atproto.dead_letter'), 't', 'no more are condemned');

# --- errors of this machine, of an operator, of the moment ---

query(q{DROP TRIGGER cast_value ON atproto.record;
	CREATE OR REPLACE FUNCTION public.fail_by(value text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF value LIKE 'no%' THEN RAISE EXCEPTION 'not now' USING ERRCODE = substr(value, 3, 5); END IF;
	END $$;
	CREATE TRIGGER cast_value BEFORE INSERT ON atproto.record FOR EACH ROW EXECUTE FUNCTION public.cast_value('rkey')});
foreach my $code ('XX001', '53100', '40001', '55P03', '08006')
{
	$from = -s $node->logfile;
	begin_stream([ 'a 1 +x', "b 1 +y +no$code", 'c 1 +z' ], []);
	$node->wait_for_log(qr/ERROR:  not now/, $from);
	is(query('SELECT count(*), (SELECT coalesce(max(seq), 0) FROM atproto.cursor) FROM atproto.dead_letter'), '0|0', "$code: nothing is condemned, nothing committed");
}
triggers('DISABLE');
query(q{SELECT atproto.pause('s'); SELECT atproto.resume('s')});
goes_on(3, 'when it is over, the stream goes on');
is(records(), 'no08006 x y z', 'and all rows are there');
triggers('ENABLE');

# --- records of a deleted account ---

query(q{CREATE TRIGGER keep BEFORE DELETE ON atproto.record FOR EACH ROW WHEN (old.rkey::text = 'kept')
	EXECUTE FUNCTION public.cast_value('rev'); CREATE OR REPLACE FUNCTION public.fail_by(value text) RETURNS void LANGUAGE plpgsql AS
	$$BEGIN RAISE EXCEPTION 'not this one' USING ERRCODE = 'XX000'; END $$; ALTER TABLE atproto.record DISABLE TRIGGER cast_value});
begin_stream([ 'a 1 +kept', 'b 1 +x', 'a deleted', 'b 2 +y' ], []);
goes_on(4, 'records of a deleted account that cannot be removed: the stream goes on');
is(records(), 'kept x y', 'they stay');
query('DROP TRIGGER keep ON atproto.record');

# --- other streams ---

query(q{CREATE OR REPLACE FUNCTION public.fail_by(value text) RETURNS void LANGUAGE plpgsql AS $$BEGIN EXECUTE format('SELECT %I(1)', value); END $$;
	CREATE TRIGGER cast_value BEFORE INSERT ON atproto.label FOR EACH ROW WHEN (hashtext(new.uri::text || new.val) % 50 = 0) EXECUTE FUNCTION public.cast_value('val');
	CREATE TRIGGER cast_value BEFORE INSERT ON atproto.message FOR EACH ROW WHEN (new.seq % 50 = 0) EXECUTE FUNCTION public.cast_value('type')});
my %streams = (
	labels => [ 'com.atproto.label.subscribeLabels', capture('labels.frames.gz'), 433, 'label' ],
	messages => [ 'com.example.stream.subscribeEvents', make_capture('streams.py', 'events', 200), 400, 'message' ]);
foreach my $name (sort keys %streams)
{
	my ($nsid, $capture, $last, $table) = @{ $streams{$name} };

	start_over();
	query('DELETE FROM atproto.dead_letter');
	$server = AtprotoTest::Server->start($capture);
	query(subscribe_sql('s', $server, nsid => $nsid, cursor => 0));
	goes_on($last, "$name: the stream goes on");
	is(query(q{SELECT string_agg(DISTINCT stage || ' ' || sqlstate, ', '), count(*) > 3 FROM atproto.dead_letter}), 'apply 42883|t', "$name: dead letters");
	cmp_ok(query("SELECT count(*) FROM atproto.$table"), '>', 150, "$name: the other rows are there");
}
query('DROP TRIGGER cast_value ON atproto.label; DROP TRIGGER cast_value ON atproto.message');

# --- other ways to write rows ---

query(q{CREATE OR REPLACE FUNCTION public.fail_by(value text) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		IF value IN ('~', '!spam', 'type7') THEN RAISE EXCEPTION 'not this value' USING ERRCODE = '42883'; END IF;
	END $$;
	CREATE SCHEMA loaded; SELECT atproto.create_tables('loaded');
	SELECT atproto.subscribe('loaded', 'wss://localhost:1', target => 'loaded'); SELECT atproto.pause('loaded');
	CREATE TRIGGER cast_value BEFORE INSERT ON loaded.record FOR EACH ROW EXECUTE FUNCTION public.cast_value('rkey');
	DELETE FROM atproto.dead_letter});
my $files = make_exports();
my $load  = sprintf q{SELECT concat_ws(' ', created, updated, deleted, same, refused) FROM atproto.load_car('%s', pg_read_binary_file('%s/first.car'), 'loaded')},
  did('a'), $files;
is(query($load), '530 0 0 0 7', 'an export: the rows that fail are refused, the others stored');
is(query(q{SELECT sqlstate, count(*) FROM atproto.dead_letter WHERE subscription = 'loaded' GROUP BY 1}), '42883|7', 'with dead letters');
query(q{TRUNCATE loaded.record, loaded.repo; CREATE OR REPLACE FUNCTION public.fail_by(value text) RETURNS void LANGUAGE plpgsql AS
	$$BEGIN RAISE EXCEPTION 'not this value' USING ERRCODE = '42883'; END $$});
like(($node->psql('postgres', $load))[2], qr/not this value/, 'an export whose rows all fail is refused as a whole');

done_testing();
