# 123_layouts.pl
#		The number of workers changes while workers of the old layout still apply a batch: their consumer
#		died while the workers waited for a user's lock.  No event may be skipped or counted twice.  A
#		consumer must also survive invalid cursors: too many rows, or missing shards.  E-43.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $held = 400;
my $node = make_node(
	'layouts', conf => <<'EOF');
max_worker_processes = 60
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
EOF
my $workers = q{SELECT string_agg(pid::text, ',' ORDER BY pid) FROM pg_stat_activity WHERE backend_type = 'atproto apply worker'};

# A new stream into empty tables, which is at the event before $held.
sub follow
{
	my %args   = @_;
	my $server = AtprotoTest::Server->start($pds, '--hold-at', $held);

	start_over('dead_letter', 'gap');
	query(subscribe_sql('s', $server, cursor => 0, %args));
	wait_for_seq($node, 's', $held - 1);
	return $server;
}

my $ops = operations($pds);

# --- the number of workers changes while workers of the old number live ---

foreach my $change ([ 3, 2 ], [ 2, 4 ], [ 3, 1 ], [ 2, 2 ])
{
	my ($from, $to) = @$change;
	my $name    = "from $from to $to workers";
	my $server  = follow(workers => $from);
	my $session = $node->background_psql('postgres');

	$session->query_safe('BEGIN; LOCK TABLE atproto.record IN SHARE MODE');
	$server->release;
	wait_for("SELECT count(*) = $from FROM pg_stat_activity WHERE backend_type = 'atproto apply worker' AND wait_event_type = 'Lock'");
	my $old      = query($workers);
	my $consumer = query('SELECT pid FROM atproto.stat_subscription');
	# in one transaction: otherwise the consumer would end in order and release the lock
	query("BEGIN; SELECT pg_terminate_backend($consumer); UPDATE atproto.subscription SET workers = $to; COMMIT");
	wait_for("SELECT pid <> $consumer FROM atproto.stat_subscription");
	wait_for("SELECT query = 'waiting for the workers before' FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
	is(query($workers), $old, "$name: the next consumer waits for the workers of before");
	is(query('SELECT count(*) FROM atproto.cursor'), $from, "$name: and leaves their cursors alone");
	$session->query_safe('COMMIT');
	$session->quit;
	wait_for("SELECT count(*) = $to AND min(seq) = $PDS_LAST FROM atproto.cursor");
	is(query('SELECT events, record_ops FROM atproto.stat_subscription'), "$PDS_LAST|$ops", "$name: every event was applied once");
	tables_match($node, $pds, "$name: the tables are what the oracle says", modes => [ 'record', 'repo', 'count' ]);
}

# --- a late worker ---

# Its cursor has stayed, and belongs to an old layout.
foreach my $n (1, 3)
{
	my $server   = follow(workers => $n);
	my $consumer = query('SELECT pid FROM atproto.stat_subscription');

	query('UPDATE atproto.cursor SET layout = layout + 1');
	$server->release;
	wait_for("SELECT pid <> $consumer FROM atproto.stat_subscription");
	wait_for_seq($node, 's', $PDS_LAST);
	is(query('SELECT events, record_ops FROM atproto.stat_subscription'), "$PDS_LAST|$ops", "of another layout, $n: nothing was applied for it");
	tables_match($node, $pds, "of another layout, $n: the tables are what the oracle says");
}

# --- cursors by hand ---

sub refused
{
	my ($sql, $pattern, $name) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);

	like($err, $pattern, $name);
	return;
}

refused("INSERT INTO atproto.cursor (subscription, endpoint, shard) SELECT 's', endpoint, $_ FROM atproto.cursor WHERE shard = 0",
	qr/violates check constraint/, "shard $_: refused")
  foreach -1, 32, 2147483647;

my $server = follow(workers => 2);
my $log    = -s $node->logfile;
query('ALTER TABLE atproto.cursor DROP CONSTRAINT cursor_shard_check');
my @wrong = (
	'more than there can be' => q{INSERT INTO atproto.cursor (subscription, endpoint, shard, seq, layout) SELECT 's', endpoint, n, seq, layout
		FROM atproto.cursor, generate_series(2, 40) n WHERE shard = 0},
	'one is missing' => 'DELETE FROM atproto.cursor WHERE shard = 0',
	'beside them'    => 'UPDATE atproto.cursor SET shard = -shard',
	'of two layouts' => 'UPDATE atproto.cursor SET layout = layout + shard');
while (my ($name, $sql) = splice @wrong, 0, 2)
{
	query(q{SELECT atproto.pause('s')});
	wait_for(q{SELECT pid IS NULL FROM atproto.stat_subscription});
	query('CREATE TABLE kept AS SELECT * FROM atproto.cursor');
	query($sql);
	query(q{SELECT atproto.resume('s')});
	$node->wait_for_log(qr/ERROR:  cursor of subscription "s" has not all its shards/, $log);
	query('DELETE FROM atproto.cursor; INSERT INTO atproto.cursor SELECT * FROM kept; DROP TABLE kept');
	$log = -s $node->logfile;
	pass("$name: refused");
}
unlike(slurp_file($node->logfile), qr/terminated by signal|TRAP/, 'nothing crashed');
query(q{SELECT atproto.pause('s')});
query(q{SELECT atproto.resume('s')});
$server->release;
wait_for_seq($node, 's', $PDS_LAST);
is(query('SELECT events, record_ops FROM atproto.stat_subscription'), "$PDS_LAST|$ops", 'mended, it goes on');

$node->stop;
done_testing();
