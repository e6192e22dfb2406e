# 432_log.pl
#		atproto.subscription_log records the events in the life of a subscription.  Only its owner and
#		pg_monitor may read the rows, and the table stays small, even if a server ends its connections again
#		and again.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node(
	'log', init => { allows_streaming => 1 }, conf => <<'EOF');
atproto.reconnect_delay = 5ms
atproto.reconnect_max_delay = 20ms
EOF
my $server = AtprotoTest::Server->start($pds);

# The events of a subscription in their order, as "event event ..."; from the numth on.
sub events
{
	my ($name, $after) = @_;
	$after //= 0;
	return query("SELECT string_agg(event, ', ' ORDER BY number) FROM atproto.subscription_event WHERE subscription = '$name' AND number > $after");
}

sub last_number
{
	return query("SELECT COALESCE(max(number), 0) FROM atproto.subscription_event WHERE subscription = '$_[0]'");
}

sub wait_for_event
{
	my ($name, $event, $after) = @_;
	$after //= 0;
	wait_for("SELECT EXISTS (SELECT FROM atproto.subscription_event WHERE subscription = '$name' AND event = '$event' AND number > $after)");
	return;
}

# --- what happens ---

query(subscribe_sql('s', $server, cursor => 0));
wait_for_seq($node, 's', $PDS_LAST);
wait_for_event('s', 'connected');
is(events('s'), 'started, connected', 'it starts and connects');
is(query(q{SELECT detail = (SELECT endpoint FROM atproto.subscription), seq FROM atproto.subscription_log WHERE event = 'connected'}), 't|0', 'with whom, and after which event');

query(q{UPDATE atproto.subscription SET collections = '{app.bsky.feed.post}'});
wait_for_event('s', 'settings changed');
is(query(q{SELECT seq FROM atproto.subscription_log WHERE event = 'settings changed'}), $PDS_LAST, 'settings change after an event');

query(q{SELECT atproto.pause('s')});
wait_for_event('s', 'paused');
is(events('s'), 'started, connected, settings changed, paused', 'it is paused, and has not ended besides');

my $n = last_number('s');
query(q{SELECT atproto.set_cursor('s', 1000000); SELECT atproto.resume('s')});
wait_for_event('s', 'stopped', $n);
like(query(q{SELECT detail FROM atproto.subscription_log WHERE event = 'stopped'}), qr/FutureCursor/, 'it stops, and why');
is(query(q{SELECT seq, detail FROM atproto.subscription_log WHERE event = 'gap'}), "$PDS_LAST|set_cursor, up to 1000001", 'what was jumped over is there, too');

query(q{SELECT atproto.set_cursor('s', 1000); SELECT atproto.resume('s')});
wait_for_seq($node, 's', $PDS_LAST);
$server->stop;
wait_for_event('s', 'dropped');
is(query(q{SELECT DISTINCT seq, detail <> '' FROM atproto.subscription_log WHERE event = 'dropped'}), "$PDS_LAST|t", 'the connection ends, and why');
$server->restart;
wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription});
my $before = last_number('s');

# An error ends the process: the next process records the error.
query(q{ALTER TABLE atproto.cursor RENAME TO cursors; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
wait_for(q{SELECT count(*) > 0 FROM atproto_internal.stream_status() WHERE last_error ~ 'cursor'});
query('ALTER TABLE atproto.cursors RENAME TO cursor');
wait_for_event('s', 'failed', $before);
like(query(q{SELECT detail FROM atproto.subscription_log WHERE event = 'failed' ORDER BY at DESC LIMIT 1}), qr/atproto\.cursor" does not exist/, 'an error that ended the process is there');

# --- a session that locks the subscription's row delays nothing ---

wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription});
my $session = $node->background_psql('postgres');
$session->query_safe("BEGIN; SELECT FROM atproto.subscription WHERE name = 's' FOR UPDATE");
my ($locked, $reconnects) = split /\|/, query('SELECT clock_timestamp(), reconnects FROM atproto.stat_subscription');
$server->restart;
wait_for("SELECT state = 'streaming' AND reconnects > $reconnects FROM atproto.stat_subscription");
pass('the connection is made anew while a session has locked the subscription');
my $later = "SELECT count(DISTINCT event) FROM atproto.subscription_event WHERE last_at > '$locked'";
is(query($later), '0', 'what happened waits');
$session->query_safe('COMMIT');
$session->quit;
wait_for("SELECT ($later) = 2");
pass('and is written when the session has ended');
query(q{SELECT atproto.unsubscribe('s')});
is(query('SELECT count(*) FROM atproto.subscription_event'), '0', 'it goes with its subscription');

# --- a server with a short life for each connection ---

$server->stop;
my $flapping = AtprotoTest::Server->start($pds, '--cut-after', 3);
query(subscribe_sql('flap', $flapping, cursor => 0));
wait_for_seq($node, 'flap', $PDS_LAST);
query(q{SELECT atproto.pause('flap')});
wait_for_event('flap', 'paused');
my ($drops, $rows, $counted) = split /\|/, query(q{SELECT reconnects, (SELECT count(*) FROM atproto.subscription_event),
	(SELECT sum(times) FROM atproto.subscription_event WHERE event = 'dropped') FROM atproto.stat_subscription});
cmp_ok($drops, '>', 500, 'the connection ended very often');
is($counted, $drops, 'each time is counted');
cmp_ok($rows, '<', 100, 'in few rows');
wait_for(q{SELECT n_tup_ins > 0 FROM pg_stat_user_tables WHERE relname = 'subscription_event'});
cmp_ok(query(q{SELECT n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables WHERE relname = 'subscription_event'}), '<', $drops, 'and few writes');

# --- no more than 1,000 ---

query(q{INSERT INTO atproto.subscription_event (subscription, number, at, last_at, times, event)
	SELECT 'flap', 100000 + n, now() - interval '1 day', now() - interval '1 day', 1, 'dropped' FROM generate_series(1, 3000) n});
$flapping->restart;
query(q{SELECT atproto.resume('flap')});
wait_for_event('flap', 'connected', 103000);
is(query('SELECT count(*), max(number) - min(number) FROM atproto.subscription_event'), '1000|999', 'the newest 1,000 stay');

# --- a process with repeated failures ---

query(q{SELECT atproto.pause('flap')});
wait_for(q{SELECT pid IS NULL FROM atproto.stat_subscription});
$flapping->restart;
query(<<'SQL');
CREATE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE 'no room' USING ERRCODE = 'disk_full'; END$$;
CREATE TRIGGER fail BEFORE INSERT ON atproto.record FOR EACH STATEMENT EXECUTE FUNCTION public.fail();
TRUNCATE atproto.record, atproto.repo;
SQL
$before = last_number('flap');
query(q{SELECT atproto.set_cursor('flap', 0); SELECT atproto.resume('flap')});
my $failures = 'SELECT COALESCE(sum(times), 0) %s FROM atproto.subscription_event WHERE number > ' . $before . q{ AND event = 'failed' AND detail = 'no room'};
wait_for(sprintf $failures, '>= 4');
cmp_ok(query('SELECT count(*) FROM atproto.subscription_event WHERE number > ' . $before), '<', 8, 'a process that fails again and again is counted in few rows');
query('DROP TRIGGER fail ON atproto.record');
wait_for_seq($node, 'flap', $PDS_LAST);
my $start = query(q{SELECT max(last_at) FROM atproto.subscription_event WHERE event = 'started'});
cmp_ok(query(sprintf $failures, "> 1 AND max(last_at) <= '$start'"), 'eq', 't', 'with how often, and until when');

# --- which roles may read the log ---

query(q{CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher; CREATE ROLE other LOGIN; GRANT USAGE ON SCHEMA atproto TO watcher, other;
	GRANT SELECT ON atproto.subscription_log TO other});
is(query('SET ROLE watcher; SELECT count(*) > 0 FROM atproto.subscription_log'), 't', 'pg_monitor sees all');
is(query('SET ROLE other; SELECT count(*) FROM atproto.subscription_log'), '0', 'who is no member of the owner sees nothing');
my (undef, undef, $err) = $node->psql('postgres', q{SET ROLE watcher; DELETE FROM atproto.subscription_event});
like($err, qr/permission denied/, 'nobody writes it but the consumer');

query(q{SELECT atproto.pause('flap')});
wait_for(q{SELECT pid IS NULL FROM atproto.stat_subscription});
query(q{ALTER ROLE other SUPERUSER; UPDATE atproto.subscription SET owner = 'other'; ALTER ROLE other NOSUPERUSER});
is(query('SET ROLE other; SELECT count(*) > 0 FROM atproto.subscription_log'), 't', 'the owner sees his');
query(q{UPDATE atproto.subscription SET owner = current_user::regrole});

# --- dumps and standbys ---

my $dump = '';
IPC::Run::run([ 'pg_dump', '-d', $node->connstr('postgres') ], '>', \$dump) or BAIL_OUT('pg_dump failed');
like($dump, qr/COPY atproto\.subscription /, 'a dump has the subscription');
unlike($dump, qr/subscription_event/, 'and no history: that is of this server');

$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
is($standby->safe_psql('postgres', 'SELECT count(*) FROM atproto.subscription_log'), query('SELECT count(*) FROM atproto.subscription_log'), 'a standby has what its primary has');
$standby->stop;

$node->stop;
done_testing();
