# 122_workers.pl
#		A subscription with several workers must leave the rows that a single process leaves: while shards
#		are at different positions, when the number of workers or a setting changes at a known event, and
#		through faults of the stream.  E-41, E-43, E-44, E-49.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node(
	'workers', conf => <<'EOF');
max_worker_processes = 12
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
EOF

sub workers
{
	return query(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'atproto apply worker'});
}

# A new stream into empty tables.
sub follow
{
	my ($server, %args) = @_;

	start_over('dead_letter', 'gap');
	query(subscribe_sql('s', $server, cursor => 0, %args));
	return;
}

my $ops = operations($pds);

# --- the whole stream ---

my $server = AtprotoTest::Server->start($pds);
follow($server, workers => 3);
wait_for_seq($node, 's', $PDS_LAST);
is(workers(), 3, 'three workers');
is(query('SELECT count(*), min(seq), max(seq) FROM atproto.cursor'), "3|$PDS_LAST|$PDS_LAST", 'each has a position, all at the end');
is(query('SELECT count(*) FROM atproto.cursor WHERE events > 0'), '3', 'each had its share');
is(query('SELECT events, record_ops FROM atproto.stat_subscription'), "$PDS_LAST|$ops", 'every event was applied once');
tables_match($node, $pds, 'the tables are what the oracle says', modes => [ 'record', 'repo', 'count' ]);
is(query('SELECT state, received, drops FROM atproto.stat_subscription'), "streaming|$PDS_LAST|{}", 'the status is that of the whole');
is(query(q{SELECT bool_and(state = 'idle') FROM pg_stat_activity WHERE backend_type LIKE 'atproto %worker'}), 't', 'no transaction is open');
wait_for(q{SELECT n_tup_ins > 0 FROM pg_stat_user_tables WHERE relid = 'atproto.record'::regclass});

# --- shards at different positions, and a new number of shards ---

follow(AtprotoTest::Server->start($pds, '--hold-at', 800), workers => 3);
wait_for_seq($node, 's', 799);
query(q{SELECT atproto.pause('s')});
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'atproto %worker'});

# A session locks one repository until the server ends.
my $did = query(q{SELECT did FROM atproto.record GROUP BY did ORDER BY count(*) DESC LIMIT 1});
# The events come so slowly that batches are small: free workers wait after three batches.
$server = AtprotoTest::Server->start($pds, '--rate', 2000);
query("ALTER SYSTEM SET atproto.batch_delay = '1ms'");
query('SELECT pg_reload_conf()');
query("UPDATE atproto.subscription SET url = '" . $server->url . "', workers = 3");
query("SELECT atproto.set_cursor('s', 799)");
my $session = $node->background_psql('postgres');
$session->query_safe("BEGIN; SELECT FROM atproto.repo WHERE did = '$did' FOR UPDATE");
query(q{SELECT atproto.resume('s')});
wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE backend_type = 'atproto apply worker' AND wait_event_type = 'Lock'});
wait_for('SELECT max(seq) > min(seq) FROM atproto.cursor WHERE endpoint = (SELECT endpoint FROM atproto.subscription)');
is(query('SELECT s.seq = min(c.seq) FROM atproto.stat_subscription s, atproto.cursor c WHERE c.endpoint = (SELECT endpoint FROM atproto.subscription) GROUP BY s.seq'),
	't', 'the status says the lowest');
query('ALTER SYSTEM RESET atproto.batch_delay');
$node->stop('immediate');
$session->{run}->finish;
$node->start;
query('UPDATE atproto.subscription SET workers = 2');
wait_for("SELECT count(*) = 2 AND min(seq) = $PDS_LAST FROM atproto.cursor WHERE endpoint = (SELECT endpoint FROM atproto.subscription)");
is(query('SELECT sum(events), sum(record_ops) FROM atproto.cursor'), "$PDS_LAST|$ops", 'every event once, whatever the number of workers');
tables_match($node, $pds, 'and the tables are what the oracle says');
query('UPDATE atproto.subscription SET workers = 1');
wait_for("SELECT count(*) = 1 AND min(seq) = $PDS_LAST FROM atproto.cursor WHERE endpoint = (SELECT endpoint FROM atproto.subscription)");
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'atproto %worker'});
is(query('SELECT sum(events), sum(record_ops) FROM atproto.cursor'), "$PDS_LAST|$ops", 'the counts stay');

# --- the newest position ---

follow($server, workers => 2, cursor => 'NULL');
wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription});
is(query('SELECT count(*), count(seq) FROM atproto.cursor'), '2|0', 'from now on: no position yet');
wait_for(q{SELECT array_agg(state || ': ' || query) = '{idle: waiting for events,idle: waiting for events}'
	FROM pg_stat_activity WHERE backend_type = 'atproto apply worker'});
my $late = AtprotoTest::Server->start($pds, '--live-start', 999);
follow($late, workers => 2, cursor => 'NULL');
wait_for_seq($node, 's', $PDS_LAST);
is(query('SELECT count(*), min(seq), sum(events) FROM atproto.cursor'), '2|' . "$PDS_LAST|" . ($PDS_LAST - 999), 'both begin with the first event that comes');

# --- settings ---

my $held = AtprotoTest::Server->start($pds, '--hold-at', 801);
follow($held, workers => 3);
wait_for_seq($node, 's', 800);
query(q{UPDATE atproto.subscription SET keep_raw = true, collections = '{app.bsky.feed.like}'});
wait_for('SELECT bool_and(settings_after = 800) FROM atproto.cursor');
is(query('SELECT count(*) FROM atproto.record WHERE raw IS NOT NULL AND value IS NOT NULL'), '0', 'raw is not kept yet');
$held->release;
wait_for_seq($node, 's', $PDS_LAST);
is((() = $held->cursors), 1, 'without another connection');
is(query(q{SELECT string_agg(DISTINCT collection::text, ' ') FROM atproto.record WHERE raw IS NOT NULL AND value IS NOT NULL}),
	'app.bsky.feed.like', 'both settings hold for what comes after it');
cmp_ok(query(q{SELECT (skips->>'filtered')::int FROM atproto.stat_subscription}), '>', 0, 'what it passes over is counted');

# --- faults ---

# An event out of order: in the stream, but not within its shard.
my @messages = read_capture($pds);
my $dir      = PostgreSQL::Test::Utils::tempdir();
my $again    = write_capture("$dir/again", $messages[10]);
follow(AtprotoTest::Server->start($pds, '--inject', "$again\@201"), workers => 4);
wait_for(q{SELECT stopped IS NOT NULL FROM atproto.subscription});
is(query('SELECT DISTINCT seq, stage FROM atproto.dead_letter'), '200|frame', 'E-41: an event that comes again is a fault');
is(query('SELECT min(seq), max(seq), sum(events) FROM atproto.cursor'), '200|200|200', 'and what came before it is there, once');

# --- a message has come in part when its batch is committed, or its workers or its connection end ---

my $part = write_capture("$dir/part", @messages[0 .. 99]);
foreach my $workers (1, 2)
{
	my $what = "messages in pieces, workers => $workers";
	my $slow = AtprotoTest::Server->start($part, '--trickle', '100:2000', '--fragment', 70, '--ping-at', 50);
	my $after = 0;
	follow($slow, workers => $workers);
	for (1 .. 3)
	{
		# a change that comes while the workers start would end them, and the connection
		wait_for("SELECT count(*) > 0 AND bool_and(coalesce(seq, 0) > $after OR seq = 100) FROM atproto.cursor");
		my $begin = -s $node->logfile;
		query("UPDATE atproto.subscription SET workers = $workers");
		wait_until(sub { ($after) = slurp_file($node->logfile, $begin) =~ /settings of atproto subscription "s" changed after event (\d+)/ }, 'the settings');
	}
	wait_for_seq($node, 's', 100);
	is(query('SELECT events, drops FROM atproto.stat_subscription'), '100|{}', "$what: every event once");
	is((() = $slow->cursors), 1, "$what: in one connection");
	tables_match($node, $part, "$what: the tables are what the oracle says", modes => [ 'record', 'repo' ]);

	# two such messages fill a batch, after more has been read
	$what = "full batches, workers => $workers";
	follow(AtprotoTest::Server->start($part, map { ('--oversize', "4900000\@$_") } 10, 20, 30, 40, 50, 60), workers => $workers);
	wait_for_seq($node, 's', 100);
	is(query('SELECT events, drops FROM atproto.stat_subscription'), '100|{}', "$what: every event once");
	tables_match($node, $part, "$what: the tables are what the oracle says", modes => [ 'record', 'repo' ]);

	follow(AtprotoTest::Server->start($part, '--cut-after', 50, '--cut-inside', 300, '--cut-times', 1), workers => $workers);
	wait_for_seq($node, 's', 100);
	is(query('SELECT events, drops FROM atproto.stat_subscription'), '100|{"closed": 1}',
		"a connection that is cut in a message, workers => $workers: the next one begins with all of it");
}

# --- a new subscription with the name of a removed subscription ---

query('UPDATE atproto.subscription SET enabled = false');
wait_for(q{SELECT state = 'paused' AND drops <> '{}' AND last_error IS NOT NULL FROM atproto.stat_subscription});
query(q{BEGIN; SELECT atproto.unsubscribe('s'); } . subscribe_sql('s', $server, cursor => 0) . q{; UPDATE atproto.subscription SET enabled = false; COMMIT});
is(query(q{SELECT concat_ws(' ', state, drops, last_error) FROM atproto.stat_subscription}), 'paused', 'it shows neither drops nor errors of the former one');

query('DELETE FROM atproto.subscription');
my $gap = AtprotoTest::Server->start($pds, '--oldest', 300);
query(subscribe_sql('s', $gap, cursor => 10, workers => 3));
wait_for_seq($node, 's', $PDS_LAST);
is(query('SELECT after_seq, before_seq, reason FROM atproto.gap'), '10|300|OutdatedCursor', 'E-44: a gap is noted once');

# --- limits ---

my ($rc, $out, $err) = $node->psql('postgres',
	subscribe_sql('l', $server, nsid => 'com.atproto.label.subscribeLabels', workers => 2));
like($err, qr/subscriptions to com\.atproto\.label\.subscribeLabels cannot have several workers/, 'labels have no shards');
($rc, $out, $err) = $node->psql('postgres', subscribe_sql('l', $server, workers => 33));
like($err, qr/invalid value for "workers": "33"\n.*from 1 to 32/s, 'not more than 32');
follow($server, workers => 30);
wait_for(q{SELECT last_error LIKE 'no background worker slot%' FROM atproto.stat_subscription});
query('UPDATE atproto.subscription SET workers = 3');
wait_for_seq($node, 's', $PDS_LAST);
pass('too many are not started; fewer are');

# --- a worker ahead of the other shards begins with the event after its position ---

follow(AtprotoTest::Server->start($pds), workers => 2, events => "'keep'");
wait_for_seq($node, 's', $PDS_LAST);
query(q{SELECT atproto.pause('s')});
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type LIKE 'atproto %worker'});
# an event of shard 1
my $ahead = query(q{SELECT seq FROM atproto.record_event
	WHERE (hashtext(did::text)::bigint & 4294967295) % 2 = 1 ORDER BY seq OFFSET 50 LIMIT 1});
query("UPDATE atproto.cursor SET seq = CASE shard WHEN 1 THEN $ahead ELSE $ahead - 20 END");
my $begin = -s $node->logfile;
query(q{SELECT atproto.resume('s')});
wait_for_seq($node, 's', $PDS_LAST);
unlike(slurp_file($node->logfile, $begin), qr/ERROR/, 'what it has done does not come to it again');

$node->stop;
done_testing();
