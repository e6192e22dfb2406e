# 235_upgrade_columns.pl
#		A next version has further columns in two tables of the extension and in a data table.  ALTER EXTENSION UPDATE is
#		run before the restart, while an old consumer with its workers stores events at full speed: the old processes end,
#		and say why.  The new library stops the subscription at the data table without the column, and names the column;
#		after create_tables() and resume() the subscription goes on.  Each event is stored exactly once.
#		The update reads and writes no row: the tables keep their files.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::NextVersion;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds    = capture('pds.frames.gz');
my $server = AtprotoTest::Server->start($pds, '--hold-at', 400, '--hold-at', 1000);
my $next   = AtprotoTest::NextVersion->new('columns');
my $node   = make_node('columns', install_path => $next->install_path, conf => "autovacuum = off\nlog_min_messages = debug1\nmax_worker_processes = 16\natproto.batch_delay = 0\n");

query(subscribe_sql('s', $server, cursor => 0, workers => 3, events => "'keep'", links => "'all'"));
wait_for_seq($node, 's', 399);
my $files = q{SELECT string_agg(c.oid::regclass || ' ' || pg_relation_filenode(c.oid), ', ' ORDER BY c.oid) FROM pg_class c
	WHERE relnamespace = 'atproto'::regnamespace AND relkind IN ('r', 'i')};
my $before = query($files);
$next->install;

# --- the update, while events are stored ---

# the second hold leaves events to the new library, however late the update comes
$server->release;
is(query(q{BEGIN; ALTER EXTENSION atproto UPDATE;
	SELECT sum(seq_scan + coalesce(idx_scan, 0)), sum(n_tup_ins + n_tup_upd + n_tup_del) FROM pg_stat_xact_user_tables WHERE schemaname = 'atproto'; COMMIT}),
	'0|0', 'the update reads and writes no row');
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto worker')});
is(query('SELECT extversion FROM pg_extension WHERE extname = $$atproto$$'), $next->version, 'the update was made');
is(query($files), $before, 'each table and index has the file that it had');
is(query('SELECT state FROM atproto.stat_subscription'), 'not running', 'no old process goes on');
like(query('SELECT last_error FROM atproto.stat_subscription'), qr/^the extension and the library have different versions: ALTER EXTENSION atproto UPDATE, or restart the server/, 'the view says why');
my $reached = query('SELECT min(seq) FROM atproto.cursor');
cmp_ok($reached, '>=', 399, "the old library has stored up to event $reached");
my $stored = query('SELECT count(*) FROM atproto.record_event');
my $started = () = slurp_file($node->logfile) =~ /starting background worker process "atproto consumer s"/g;
is($started, 1, 'no process was started in vain');

# --- the restart ---

$node->restart;
$server->release;
wait_for(q{SELECT state = 'stopped' FROM atproto.stat_subscription});
like(query('SELECT last_error FROM atproto.stat_subscription'), qr/record_event.*next|next.*record_event/, 'the new library names the column that the data table lacks');
is(query('SELECT count(*) FROM atproto.record_event'), $stored, 'and has stored nothing');
query(q{SELECT atproto.create_tables('atproto'); SELECT atproto.resume('s')});
wait_for_seq($node, 's', $PDS_LAST);
tables_match($node, $pds, 'all is as the oracle says', modes => [ 'record', 'repo', 'event' ]);
is(query('SELECT sum(events) FROM atproto.cursor'), $PDS_LAST, 'each event was processed once');
is(query('SELECT count(*) FILTER (WHERE next IS NULL), count(DISTINCT next) FROM atproto.record_event'), "$stored|1", 'rows of the old library lack the value, later rows have it');
is(query('SELECT count(*) FROM atproto.link_problems()'), '0', 'the links are those of the records');

$node->stop;
done_testing();
