# 171_lifecycle.pl
#		The consumer's processes survive, or end cleanly with, changes around them: the extension or the
#		database is dropped in mid-stream, the database is copied, there are several databases and
#		subscriptions, no worker slot is free, a role is gone, the library has another version than the
#		extension, the manager ends, the server shuts down fast.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node(
	'lifecycle',
	databases => 'postgres, one, two, never',
	create    => 0,
	conf      => <<'EOF');
max_worker_processes = 8
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
EOF
my $stream = AtprotoTest::Server->start($pds, '--rate', 200);
my $server = AtprotoTest::Server->start($pds);

# The consumers' and managers' processes of a database.
sub workers
{
	my ($kind, $database) = @_;
	return "(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'atproto $kind' AND datname = '$database')";
}

sub wait_for_log
{
	my ($pattern) = @_;
	wait_until(sub { slurp_file($node->logfile) =~ $pattern }, $pattern);
	return;
}

sub start_stream
{
	my ($database) = @_;

	query('CREATE EXTENSION IF NOT EXISTS atproto; ' . subscribe_sql('s', $stream, cursor => 0), database => $database);
	wait_for("SELECT seq BETWEEN 10 AND $PDS_LAST - 1 FROM atproto.cursor", database => $database);
	return;
}

# --- the extension ---

query('CREATE DATABASE one');
wait_for('SELECT ' . workers(manager => 'postgres') . ' = 1');
start_stream('postgres');
query('SET client_min_messages = warning; DROP EXTENSION atproto CASCADE');
wait_for('SELECT ' . workers(consumer => 'postgres') . ' = 0');
is(query('SELECT ' . workers(manager => 'postgres')), '1', 'DROP EXTENSION in mid-stream: the consumer ends, the manager waits');
start_stream('postgres');
pass('created again, it streams at once');
query('SET client_min_messages = warning; BEGIN; DROP EXTENSION atproto CASCADE; ROLLBACK');
my $seq = query('SELECT seq FROM atproto.cursor');
wait_for("SELECT seq > $seq FROM atproto.cursor");
pass('DROP EXTENSION and ROLLBACK: it goes on');
query("UPDATE pg_extension SET extversion = '0.1' WHERE extname = 'atproto'; SELECT atproto.pause('s'), atproto.resume('s')");
wait_for('SELECT ' . workers(consumer => 'postgres') . ' = 0');
wait_for_log(qr/extension "atproto" of database "postgres" is not at version/);
query("UPDATE pg_extension SET extversion = default_version FROM pg_available_extensions
	WHERE extname = 'atproto' AND name = 'atproto'; SELECT atproto.pause('s'), atproto.resume('s')");
wait_for('SELECT ' . workers(consumer => 'postgres') . ' = 1');
is(scalar(() = slurp_file($node->logfile) =~ /is not at version/g), 1, 'another version: one line in the log, and nothing runs');
query("SELECT atproto.unsubscribe('s')");

# A waiting consumer that only DROP can wake.
query('ALTER SYSTEM SET atproto.ping_interval = 0');
query('ALTER SYSTEM SET atproto.idle_timeout = 0; SELECT pg_reload_conf()');
query(subscribe_sql('idle', $server, cursor => 0));
wait_for("SELECT seq = $PDS_LAST FROM atproto.cursor");
wait_for("SELECT state = 'idle' FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
query('SET client_min_messages = warning; DROP EXTENSION atproto CASCADE');
wait_for('SELECT ' . workers(consumer => 'postgres') . ' = 0');
pass('DROP EXTENSION: a consumer on a silent stream ends, too');
query('ALTER SYSTEM RESET ALL');
query('SELECT pg_reload_conf(); CREATE EXTENSION atproto');

# --- databases ---

wait_for('SELECT ' . workers(manager => 'one') . ' = 1');
pass('a database that is created later gets its manager');
start_stream('one');
my ($rc, undef, $err) = $node->psql('postgres', 'CREATE DATABASE two TEMPLATE one');
like($err, qr/source database "one" is being accessed by other users/, 'a copy is refused while the consumer runs');
query('ALTER DATABASE one ALLOW_CONNECTIONS false; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $$one$$');
wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = 'one'");
query('CREATE DATABASE two TEMPLATE one');
query('ALTER DATABASE one ALLOW_CONNECTIONS true');
wait_for("SELECT seq = $PDS_LAST FROM atproto.cursor", database => 'one');
tables_match($node, $pds, 'it is made when connections are not allowed, and the stream goes on after it', database => 'one');
wait_for('SELECT ' . workers(manager => 'two') . ' = 1');
wait_for("SELECT seq = $PDS_LAST FROM atproto.cursor", database => 'two');
tables_match($node, $pds, 'the copy follows the stream, too', database => 'two');

query('DROP DATABASE two WITH (FORCE)');
query("SELECT atproto.unsubscribe('s')", database => 'one');
start_stream('one');
my $session = $node->background_psql('one');
($rc, undef, $err) = $node->psql('postgres', 'DROP DATABASE one');
like($err, qr/There is 1 other session using the database/, 'DROP DATABASE in mid-stream: the consumer leaves, other sessions stay');
$session->quit;
$seq = query('SELECT seq FROM atproto.cursor', database => 'one');
wait_for("SELECT seq > $seq FROM atproto.cursor", database => 'one');
pass('when it fails, the stream goes on');
query('DROP DATABASE one');
pass('DROP DATABASE in mid-stream');
query('CREATE DATABASE one');
start_stream('one');
query('DROP DATABASE one WITH (FORCE)');
pass('DROP DATABASE WITH (FORCE) in mid-stream');

# --- many at once ---

query('CREATE DATABASE one; CREATE DATABASE two');
foreach my $database ('one', 'two')
{
	query('CREATE EXTENSION atproto', database => $database);
	query(subscribe_sql('s', $server, cursor => 0), database => $database);
}
query(subscribe_sql("s$_", $server, cursor => 0)) foreach 1 .. 4;
# three managers, the launcher of logical replication and four consumers fill all slots
wait_for_log(qr/no background worker slot is free for atproto subscription "s\d"/);
like(slurp_file($node->logfile), qr/no background worker slot is free.*\n.*HINT:\s+Increase "max_worker_processes"/,
	'no free slot for a worker: the log says so');
wait_for("SELECT count(*) > 0 FROM atproto.stat_subscription WHERE pid IS NULL AND last_error LIKE 'no background worker slot%'");
$node->append_conf('postgresql.conf', 'max_worker_processes = 20');
$node->restart;
wait_for("SELECT count(*) = 4 AND min(events) = $PDS_LAST AND max(events) = $PDS_LAST FROM atproto.cursor");
wait_for("SELECT seq = $PDS_LAST AND events = $PDS_LAST FROM atproto.cursor", database => $_) foreach 'one', 'two';
tables_match($node, $pds, "several subscriptions and databases: $_", database => $_) foreach 'postgres', 'one', 'two';
is(query('SELECT count(*) FROM atproto_internal.stream_status()') . query('SELECT count(*) FROM atproto_internal.stream_status()', database => 'one'),
	'41', 'each database sees its own');
query('DROP DATABASE one WITH (FORCE); DROP DATABASE two WITH (FORCE)');
query("SELECT atproto.unsubscribe(name) FROM atproto.subscription WHERE name <> 's1'");

# --- roles and managers ---

query('CREATE ROLE streamer LOGIN SUPERUSER');
query("UPDATE atproto.subscription SET owner = 'streamer'");
wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND usename = 'streamer'");
query('ALTER ROLE streamer NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = $$atproto consumer$$');
wait_for_log(qr/FATAL:  role "streamer" is not permitted to log in/);
wait_for(q{SELECT state = 'not running' AND last_error = 'role "streamer" is not permitted to log in' FROM atproto.stat_subscription});
query("UPDATE atproto.subscription SET owner = current_user::regrole");
wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription");
pass('the owner may not log in: the log and the status say so; with another one it goes on');

my $consumer = query("SELECT pid FROM atproto.stat_subscription");
query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'atproto manager' AND datname = 'postgres'");
wait_for('SELECT ' . workers(manager => 'postgres') . ' = 0');
wait_for('SELECT ' . workers(manager => 'postgres') . ' = 1');
is(query("SELECT pid FROM atproto.stat_subscription"), $consumer, 'without its manager the consumer lives on');
query("SELECT pg_terminate_backend($consumer)");
wait_for("SELECT pid <> $consumer FROM atproto.stat_subscription");
unlike(slurp_file($node->logfile), qr/another process consumes it/, 'of which the new manager knows');
query("SELECT atproto.pause('s1')");
wait_for('SELECT ' . workers(consumer => 'postgres') . ' = 0');
query("SELECT atproto.resume('s1')");
wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription");
pass('and a new manager takes over');

$node->stop;
done_testing();
