# 133_managers.pl
#		Managers, and the columns of stat_subscription about processes.  A dropped database frees its slots;
#		an idle manager runs no transaction; a repeated event counts as no batch; last_error has the last
#		error of a process; a manager's memory does not grow; a manager started before its database exists
#		serves the database after CREATE DATABASE; a request is seen that comes while the manager looks for requests.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node('managers', databases => 'postgres, later, "Gone"',
	conf => "max_worker_processes = 20\natproto.max_subscriptions = 2\n");
my $server = AtprotoTest::Server->start($pds);

# The notices of a statement.
sub notices
{
	my ($sql, $database) = @_;
	my ($rc, $out, $err) = $node->psql($database, $sql);

	is($rc, 0, "$sql succeeds");
	return $err;
}

# --- slots ---

query('CREATE DATABASE "Gone"');
query('CREATE EXTENSION atproto', database => 'Gone');
foreach my $n (1, 2)
{
	query(subscribe_sql("g$n", $server, cursor => 0), database => 'Gone');
	wait_for_seq($node, "g$n", $PDS_LAST, 'Gone');
}
is(query('SELECT count(*) FROM atproto_internal.stream_status()', database => 'Gone'), '2', 'all slots are taken');
my $manager = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto manager' AND datname = 'postgres'};
my $before  = query($manager);
query('DROP DATABASE "Gone" WITH (FORCE)');
query(subscribe_sql('s', $server, cursor => 0));
wait_for_seq($node, 's', $PDS_LAST);
is(query('SELECT state FROM atproto.stat_subscription'), 'streaming', 'those of a database that is gone are free again');
is(query($manager), $before, 'DROP DATABASE ends no process of another database');
unlike(slurp_file($node->logfile), qr/no room in shared memory/, 'there was room');

# --- idle ---

# Each look at the tables is a transaction: it is made when something happens, and then less and less often.
wait_for("SELECT state = 'idle' AND clock_timestamp() - state_change > '3 s' FROM pg_stat_activity WHERE pid = ($manager)");
pass('a manager that has nothing to do does nothing');

# --- batches ---

# After a reconnection the stream has only the event of the cursor, repeated.
my $batches = query('SELECT batches FROM atproto.stat_subscription');
cmp_ok($batches, '>', 0, 'batches are counted');
$server->restart('--inclusive');
wait_for(q{SELECT skips->>'overlap' = '1' FROM atproto.stat_subscription});
is(query('SELECT batches FROM atproto.stat_subscription'), $batches, 'an event that comes once more is no batch');
query(q{SELECT atproto.unsubscribe('s')});
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});

# --- errors that end a process ---

query(<<'SQL');
CREATE FUNCTION public.busy() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'busy, busy' USING ERRCODE = '55006'; END$$;
CREATE TRIGGER busy BEFORE INSERT ON atproto.record FOR EACH ROW EXECUTE FUNCTION public.busy();
SQL
foreach my $workers (1, 2)
{
	query('TRUNCATE atproto.record, atproto.repo');
	query(subscribe_sql('s', $server, cursor => 0, workers => $workers));
	wait_for(q{SELECT last_error = 'busy, busy' AND last_error_at IS NOT NULL FROM atproto.stat_subscription});
	pass("an error that ends a process is the last error, workers: $workers");
	query(q{SELECT atproto.unsubscribe('s')});
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
}
query('DROP TRIGGER busy ON atproto.record');

# A process that an operator terminates had no error.
query(subscribe_sql('s', $server, cursor => 'NULL'));
wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription});
my $pid = query('SELECT pid FROM atproto.stat_subscription');
query("SELECT pg_terminate_backend($pid)");
wait_for("SELECT pid <> $pid AND state = 'streaming' FROM atproto.stat_subscription");
is(query('SELECT last_error FROM atproto.stat_subscription'), '', 'an end that somebody wanted is no error');
$pid = query('SELECT pid FROM atproto.stat_subscription');

# --- memory ---

# A new manager finds a consumer that it has not started, and checks whether the consumer still runs.
$before = query($manager);
query("SELECT pg_terminate_backend($before)");
wait_for("SELECT ($manager) <> $before");
my $log;
my @used;
foreach my $look (1 .. 40)
{
	$log = -s $node->logfile;
	query("UPDATE atproto.subscription SET name = name; SELECT pg_log_backend_memory_contexts(($manager))");
	$node->wait_for_log(qr/Grand total: .* (\d+) used/, $log);
	push @used, slurp_file($node->logfile, $log) =~ /Grand total: .* (\d+) used/;
}
is(query('SELECT pid FROM atproto.stat_subscription'), $pid, 'a new manager leaves consumers alone');
# The first checks warm the manager up.  Each check copies the server's locks, some 10 kB, so 200 kB would be lost between
# the lowest values.  The catalog caches make some values higher, by up to 64 kB, until an invalidation.
my ($early, $late) = map { (sort { $a <=> $b } @$_)[0] } [ @used[10 .. 19] ], [ @used[30 .. 39] ];
cmp_ok($late - $early, '<', 100_000, 'its memory stays as it is, however often it looks') or diag "@used";

# --- a database created later ---

wait_until(sub { (() = slurp_file($node->logfile) =~ /FATAL:  database "later" does not exist/g) >= 2 },
	'a manager that backs off');
query('CREATE DATABASE later');
query('CREATE EXTENSION atproto', database => 'later');
unlike(notices(subscribe_sql('l', $server, cursor => 0), 'later'), qr{WARNING|until the server stops}, 'the manager that backs off serves it');
wait_for_seq($node, 'l', $PDS_LAST, 'later');
is(query(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'atproto manager' AND datname = 'later'}, database => 'later'), '1', 'and comes for it');
query('CREATE DATABASE nobody');
query('CREATE EXTENSION atproto', database => 'nobody');
like(notices(subscribe_sql('n', $server, cursor => 0), 'nobody'), qr/No atproto manager serves this database/, 'it is said where it is true');

# --- a request while the manager looks for requests ---

# Two other reasons for a look must not come: a consumer of the former manager, and the timer that the wait at the point starts.
query(q{SELECT atproto.unsubscribe('s')});
query(q{ALTER SYSTEM SET deadlock_timeout = '10min'});
my $points = AtprotoTest::Points->new($node);
my $ahead  = 0;

# The clock goes on by more than the longest pause between two looks.
sub advance
{
	$ahead += 100_000;
	query("ALTER SYSTEM SET atproto.test_monotonic_ahead = $ahead");
	query('SELECT pg_reload_conf()');
	return;
}
foreach (1 .. 5)
{
	my $last = query("SELECT state_change FROM pg_stat_activity WHERE pid = ($manager)");
	advance();
	wait_for("SELECT state = 'idle' AND state_change > '$last' FROM pg_stat_activity WHERE pid = ($manager)");
}
my $fetchers = q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'atproto fetcher' AND datname = 'postgres'};
is(query($fetchers), '0', 'nothing is to be fetched, and the next look is a minute away');
$points->hold('work looked for', 'atproto manager');
advance();
$points->wait('work looked for', 'atproto manager');
query(q{SELECT FROM atproto.resolve('did:web:a.example.com')});
my $begin = time;
$points->release('work looked for', 'atproto manager');
wait_for("SELECT ($fetchers) = 1");
cmp_ok(time - $begin, '<', 30, 'the fetcher starts at once');

$node->stop;
done_testing();
