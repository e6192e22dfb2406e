# 287_races_processes.pl
#		Several processes read and move one cursor: workers that outlive their consumer while their number
#		changes; an operator with set_cursor(); resume() while a consumer is ending.  The points are those
#		of doc/develop/races.md.  E-43, E-44, E-49.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

# Repositories of all shards, with five commits each.
my @steps   = map { my $rev = $_; map { $rev == 1 ? "$_ $rev +x +y" : "$_ $rev =x +z$rev" } 'a' .. 'l' } 1 .. 5;
my $last    = @steps;
my $half    = $last / 2;
my $ops     = 2 * $last;
my $capture = make_capture('steps.py', @steps);
my $node    = make_node(
	'races', conf => <<'EOF');
max_worker_processes = 16
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
EOF
my $points = AtprotoTest::Points->new($node);
my $server = AtprotoTest::Server->start($capture);

# In empty tables; the first half of the stream.
sub follow
{
	my (%args) = @_;

	start_over('record_event');
	$server->restart('--hold-at', $half + 1);
	query(subscribe_sql('s', $server, cursor => 0, events => "'keep'", %args));
	wait_for_seq($node, 's', $half);
	return;
}

sub all_is_well
{
	my ($name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_for("SELECT min(seq) = $last FROM atproto.cursor");
	tables_match($node, $capture, "$name: the tables are what the oracle says");
	is(query('SELECT sum(events), sum(record_ops), (SELECT count(*) FROM atproto.record_event), (SELECT count(*) FROM atproto.dead_letter) FROM atproto.cursor'),
		"$last|$ops|$ops|0", "$name: every event once");
	return;
}

# --- workers that outlive their consumer ---

# One worker is behind, or all are at the same position, where the number of workers may change.
foreach my $number (1, 2, 3)
{
	foreach my $held ('s/1', 's/0 s/1', 's/1 s/0')
	{
		foreach my $end ('commit', 'are ended')
		{
			my @held = map { "atproto $_" } split / /, $held;
			my $name = "$held of 2 $end, by now $number";

			follow(workers => 2);
			$points->hold('cursor next', $_) foreach @held;
			$server->release;
			$points->wait('cursor next', $_) foreach @held;
			wait_for("SELECT seq = $last FROM atproto.cursor WHERE shard = 0") if @held == 1;
			my $pid = query(q{SELECT pid FROM pg_stat_activity WHERE application_name = 'atproto s'});
			query("SELECT pg_terminate_backend($pid)");
			query("UPDATE atproto.subscription SET workers = $number");

			# the next consumer has started, and goes as far as it may
			wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'atproto s' AND pid <> $pid AND (state = 'idle' OR wait_event_type = 'Lock')");
			foreach my $worker (@held)
			{
				query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '$worker'") if $end eq 'are ended';
				$points->release('cursor next', $worker);
			}
			all_is_well($name);
			wait_for("SELECT count(*) = $number FROM atproto.cursor");
			pass("$name: the cursor has as many shards");
		}
	}
}

# A new subscription gets the name while the consumer, already begun, waits for a worker of the former consumer.
follow(workers => 2);
$points->hold('cursor next', 'atproto s/1');
$server->release;
$points->wait('cursor next', 'atproto s/1');
my $former = query(q{SELECT pid FROM pg_stat_activity WHERE application_name = 'atproto s'});
query("SELECT pg_terminate_backend($former)");
wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'atproto s' AND pid <> $former AND query = 'waiting for the workers before'");
query(q{BEGIN; SELECT atproto.unsubscribe('s'); } . subscribe_sql('s', $server, cursor => 0) . '; COMMIT');
$points->release('cursor next', 'atproto s/1');
wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription});
pass('workers before, then another subscription of the name: its status is shown');

# --- the operator sets the cursor ---

# The cursor is moved while a starting consumer has read it.
follow();
query("SELECT atproto.pause('s')");
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
$points->hold('cursor read', 'atproto s');
query("SELECT atproto.resume('s')");
$points->wait('cursor read', 'atproto s');
my $operator = $points->session('operator', "SELECT atproto.set_cursor('s', 0)");
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'operator' AND wait_event_type IS DISTINCT FROM 'Lock'});
$points->release('cursor read', 'atproto s');
is(($operator->finish)[1], '', 'cursor read, then set_cursor: done');
$server->release;
wait_for("SELECT seq = $last AND events = $half + $last FROM atproto.cursor");
is(query('SELECT count(*) FROM atproto.record_event'), $ops, 'cursor read, then set_cursor: all events come again, and nothing is applied twice');
tables_match($node, $capture, 'cursor read, then set_cursor: the tables are what the oracle says');

# A consumer notes its owner while the subscription goes to a new role.
follow();
query("SELECT atproto.pause('s'); CREATE ROLE heir SUPERUSER; CREATE ROLE former LOGIN; CREATE SCHEMA former AUTHORIZATION former;"
	  . ' GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA atproto TO former');
query("UPDATE atproto.subscription SET owner = 'former', target = 'former'");
query("DELETE FROM pg_shdepend WHERE refobjid = 'former'::regrole AND objid = 'atproto.subscription'::regclass AND objsubid > 0");
$points->hold('cursor read', 'atproto s');
query("SELECT atproto.resume('s')");
$points->wait('cursor read', 'atproto s');
$operator = $points->session('operator', "UPDATE atproto.subscription SET owner = 'heir', enabled = false");
$points->blocked('operator');
$points->release('cursor read', 'atproto s');
is(($operator->finish)[1], '', 'cursor read, then another owner: the session waits for the consumer');
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
is(query("SELECT refobjid::regrole FROM pg_shdepend WHERE objid = 'atproto.subscription'::regclass AND objsubid > 0"),
	'heir', 'cursor read, then another owner: only that one cannot be dropped');
$server->release;

# A session removes several subscriptions of a role, and one of them is starting.  After an upgrade nothing is noted.
foreach my $role ('postgres', 'former')
{
	follow();
	query("SELECT atproto.pause('s')");
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
	query(subscribe_sql('t', $server, cursor => 0));
	query(q{SELECT atproto.pause('t'); GRANT USAGE ON SCHEMA atproto TO former; GRANT ALL ON ALL TABLES IN SCHEMA atproto TO former});
	query("UPDATE atproto.subscription SET owner = '$role', target = '" . ($role eq 'former' ? 'former' : 'atproto') . q{'});
	query("DELETE FROM pg_shdepend WHERE refobjid = '$role'::regrole AND objid = 'atproto.subscription'::regclass AND objsubid > 0");
	my $log = -s $node->logfile;
	$points->hold('cursor read', 'atproto s');
	query("SELECT atproto.resume('s')");
	$points->wait('cursor read', 'atproto s');
	$operator = $points->session('operator', "BEGIN; SELECT atproto.unsubscribe('t'); SELECT atproto.unsubscribe('s'); COMMIT");
	$points->blocked('operator');
	$points->release('cursor read', 'atproto s');
	is(($operator->finish)[1], '', "cursor read, then the subscriptions of $role are removed: done");
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
	unlike(slurp_file($node->logfile, $log), qr/deadlock detected/, "cursor read, then the subscriptions of $role are removed: without a deadlock");
	$server->release;
}

# The filter changes, and changes back while the consumer takes the first change.  The column settings of the
# cursor shows under which filter each event was applied; the filter in between keeps no operation but deletes.
follow();
query('CREATE TABLE moves AS SELECT seq AS after, seq AS upto, settings FROM atproto.cursor;'
	  . ' CREATE FUNCTION note_move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN'
	  . ' INSERT INTO public.moves VALUES (OLD.seq, NEW.seq, NEW.settings); RETURN NULL; END $$;'
	  . ' CREATE TRIGGER note_move AFTER UPDATE ON atproto.cursor FOR EACH ROW EXECUTE FUNCTION note_move()');
$points->hold('cursor read', 'atproto s');
query(q{UPDATE atproto.subscription SET actions = '{delete}'});
$points->wait('cursor read', 'atproto s');
query('UPDATE atproto.subscription SET actions = NULL');
$server->release;
$points->release('cursor read', 'atproto s');
wait_for("SELECT seq = $last FROM atproto.cursor");
# the consumer may reach the end before it takes the second change
wait_for('SELECT settings IN (SELECT settings FROM moves LIMIT 1) FROM atproto.cursor');
is(query('SELECT count(DISTINCT settings) FROM moves'), '2', 'cursor read, then other settings: the cursor says that those in between held');
is(query("SELECT string_agg(n::text, ' ' ORDER BY n) FROM moves, generate_series(after + 1, upto) n
	WHERE EXISTS (SELECT FROM atproto.record_event WHERE seq = n) <> (settings = (SELECT settings FROM moves LIMIT 1))"),
	'', 'cursor read, then other settings: each event was applied under those that the cursor says');
query('DROP TRIGGER note_move ON atproto.cursor; DROP FUNCTION note_move(); DROP TABLE moves');

# While the stream goes on.  Skipped events are in a gap, and no other events.
foreach my $to ($half + 4, $half - 4)
{
	follow();
	query('TRUNCATE atproto.gap');
	$points->hold('gap noted', 'operator');
	$operator = $points->session('operator', "SELECT atproto.set_cursor('s', $to)");
	$points->wait('gap noted', 'operator');
	$server->release;
	wait_for("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'atproto s' AND wait_event_type = 'Lock')"
		  . " OR (SELECT seq = $last FROM atproto.stat_subscription)");
	$points->release('gap noted', 'operator');
	is(($operator->finish)[1], '', "gap noted, to $to: set_cursor goes on");
	wait_for("SELECT seq = $last FROM atproto.stat_subscription");
	is(query("SELECT string_agg(n::text, ' ') FROM generate_series(1, $last) n
		WHERE EXISTS (SELECT FROM atproto.record_event WHERE seq = n) = EXISTS (SELECT FROM atproto.gap WHERE n > after_seq AND n < before_seq)"),
		'', "gap noted, to $to: each event was applied, or is in a gap");
}
$node->stop;

# --- no manager: resume() while the consumer is ending ---

$node = make_node('alone', preload => 0);
$points = AtprotoTest::Points->new($node);
query(subscribe_sql('s', $server, cursor => 0));
wait_for('SELECT seq > 0 FROM atproto.cursor');
$points->hold('leaving', 'atproto s');
query("SELECT atproto.pause('s')");
$points->wait('leaving', 'atproto s');
$operator = $points->session('operator', "SELECT atproto.resume('s')");
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'operator' AND wait_event_type IS DISTINCT FROM 'Lock'});
# the newly started consumer has found that it is not needed, and ends, too
wait_for(q{SELECT count(*) = 2 FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND wait_event = 'advisory'});
$points->release('leaving', 'atproto s');
unlike(($operator->finish)[1], qr/ERROR/, 'leaving, then resume: done');
wait_for("SELECT seq = $last FROM atproto.cursor") if query('SELECT seq FROM atproto.cursor') < $last;
wait_for(q{SELECT atproto_internal.consumer_pid('s') IN (SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND state = 'idle')});
pass('leaving, then resume: it runs');

$node->stop;
done_testing();
