# 230_policies.pl
#		The options for records and events: stored records, events, or both; events handed to triggers
#		without being stored, with derived tables exactly-once through kills; several subscriptions in
#		schemas of their own.  E-43, F-14, D28.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node(
	'policies', conf => <<'CONF');
max_worker_processes = 20
atproto.reconnect_delay = 100ms
CONF
my $server = AtprotoTest::Server->start($pds);

sub subscribe
{
	my ($name, $from, %args) = @_;
	query("CREATE SCHEMA IF NOT EXISTS $name;" . subscribe_sql($name, $from, cursor => 0, target => "'$name'", %args));
	return;
}

my ($records) = oracle('', 'record', $pds);
my ($events)  = oracle('', 'event',  $pds);
my ($stream)  = oracle('', 'event',  $pds, '--no-records');
my ($nrecords, $nevents, $nstream) = map { scalar(() = /\n/g) } $records, $events, $stream;
my $ndeletes = () = $stream =~ /\tdelete\t/g;

# --- what is kept ---

subscribe('neither', $server, keep_records => 'false');
subscribe('two', $server, events => "'keep'");
subscribe('only_events', $server, events => "'keep'", keep_records => 'false', keep_raw => 'true');
wait_for_seq($node, $_, $PDS_LAST) foreach 'neither', 'two', 'only_events';

is(query('SELECT (SELECT count(*) FROM neither.record), (SELECT count(*) FROM neither.record_event)'), '0|0',
	'neither: no record, no event');
tables_match($node, $pds, 'neither: the repositories', schema => 'neither', modes => ['repo']);
tables_match($node, $pds, 'two: records and events', schema => 'two', modes => [ 'record', 'event' ]);
tables_match($node, $pds, 'only_events: events', schema => 'only_events', modes => ['event'], args => ['--no-records']);
is(query('SELECT count(*) FROM only_events.record'), '0', 'only_events: no record');
is(query("SELECT DISTINCT subscription FROM only_events.record_event"), 'only_events', 'only_events: with the name of the subscription');
is(query('SELECT count(*), count(cid), count(raw) FROM only_events.record_event'),
	join('|', $nstream, ($nstream - $ndeletes) x 2), 'keep_raw: all that have a record have their bytes');
is(query('SELECT count(*) FROM two.record_event WHERE (raw IS NULL) = (value IS NULL AND action <> $$delete$$)'), '0',
	'otherwise those that jsonb cannot hold');
is(query('SELECT count(*) FROM only_events.record_event a JOIN two.record r USING (did, collection, rkey, rev) WHERE a.cid <> r.cid'), '0',
	'the two agree');
is(query('SELECT count(*) FROM atproto.record'), '0', 'nothing went into the schema of another');

# A replay hands no event twice (F-03).
query("SELECT atproto.set_cursor('two', 0)");
$node->poll_query_until('postgres', "SELECT events = 2 * $PDS_LAST FROM atproto.cursor WHERE subscription = 'two'");
is(query('SELECT count(*) FROM two.record_event'), $nevents, 'F-03: a replay adds no event');

# --- handed to triggers, through kills ---

query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
query(<<'SQL');
CREATE SCHEMA hand;
SELECT atproto.create_tables('hand');
CREATE SCHEMA derived;
CREATE TABLE derived.record_event (LIKE hand.record_event);
CREATE TABLE derived.statement (action text, n bigint, cursor bigint, lo bigint);
CREATE TABLE derived.change (collection nsid, by bigint);

CREATE FUNCTION derived.each_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO derived.record_event SELECT NEW.*;
	RETURN NEW;
END $$;
CREATE TRIGGER each_row AFTER INSERT ON hand.record_event FOR EACH ROW EXECUTE FUNCTION derived.each_row();

CREATE FUNCTION derived.each_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO derived.statement SELECT n.action, count(*), (SELECT coalesce(seq, 0) FROM atproto.cursor), min(n.seq) FROM new_rows n GROUP BY 1;
	RETURN NULL;
END $$;
CREATE TRIGGER each_statement AFTER INSERT ON hand.record_event
	REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION derived.each_statement();

CREATE FUNCTION derived.inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO derived.change SELECT collection, count(*) FROM new_rows GROUP BY 1;
	RETURN NULL;
END $$;
CREATE TRIGGER inserted AFTER INSERT ON hand.record
	REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION derived.inserted();
CREATE FUNCTION derived.deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO derived.change SELECT collection, -count(*) FROM old_rows GROUP BY 1;
	RETURN NULL;
END $$;
CREATE TRIGGER deleted AFTER DELETE ON hand.record
	REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION derived.deleted();
SQL

# the end comes when the last process has been killed, however slow the machine is
my $slow = AtprotoTest::Server->start($pds, '--rate', 800, '--hold-at', 1500);
subscribe('hand', $slow, events => "'hand'");
# (a consumer is killed after its request for the stream: each kill ends a connection)
my $connections = 0;
foreach my $seq (300, 700, 1100)
{
	my $pid;
	$connections++;
	wait_until(
		sub {
			return scalar(() = $slow->cursors) >= $connections && ($pid = try_query("SELECT pid FROM atproto.stat_subscription WHERE seq >= $seq"));
		},
		"seq $seq");
	kill 'KILL', $pid;
	wait_until(sub { !kill 0, $pid }, 'the end of the process');
}
$slow->release;
wait_until(
	sub {
		return (try_query('SELECT seq FROM atproto.cursor') // 0) == $PDS_LAST;
	},
	'the end of the stream');
cmp_ok(scalar(() = $slow->cursors), '>=', 4, 'hand: killed in the midst of the stream');
tables_match($node, $pds, 'hand: row triggers had each event once', schema => 'derived', modes => ['event']);
tables_match($node, $pds, 'hand: the records', schema => 'hand', modes => [ 'record', 'repo' ]);
is(query('SELECT sum(n) FROM derived.statement'), $nevents, 'hand: so had statement triggers');
is(query('SELECT count(*) FROM derived.statement WHERE lo <= cursor'), '0', 'hand: before the cursor moved');
is(query('SELECT count(*), pg_relation_size($$hand.record_event$$) > 0 FROM hand.record_event'), '0|t', 'hand: the table itself is empty');
is(query('SELECT collection, sum(by) FROM derived.change GROUP BY 1 EXCEPT SELECT collection, count(*) FROM hand.record GROUP BY 1'), '',
	'triggers with transition tables on the table record are in step with it');
is(query('SELECT sum(by) FROM derived.change'), $nrecords, 'all the time');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');

$node->stop;
done_testing();
