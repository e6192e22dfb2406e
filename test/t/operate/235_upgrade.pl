# 235_upgrade.pl
#		An operator upgrades the extension: install, restart, ALTER EXTENSION UPDATE.  Between the restart
#		and the update the subscriptions rest, and one line in the log gives the reason; afterwards they go
#		on at their cursors.  In a database that was updated before the restart, they rest until the restart.
#		An updated extension has the same objects as a newly installed one.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::NextVersion;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds    = capture('pds.frames.gz');
my $held   = 800;
my $server = AtprotoTest::Server->start($pds, '--hold-at', $held);
my $second = AtprotoTest::Server->start($pds, '--hold-at', $held);
my $next   = AtprotoTest::NextVersion->new;
my ($old, $new) = ($next->before, $next->version);
# without autovacuum nothing wakes a process by chance
my $node = make_node('upgrade', install_path => $next->install_path, databases => 'postgres, early', conf => "autovacuum = off\nlog_min_messages = debug1\n");

# How often the log says something.
sub logged
{
	my ($pattern) = @_;
	return scalar(() = slurp_file($node->logfile) =~ /$pattern/g);
}

# The output of test/tools/extension-catalog for a database.
sub catalog
{
	my ($database) = @_;
	local %ENV = $node->_get_env(PGHOST => $node->host, PGPORT => $node->port);
	my ($out, $err) = run_command([ test_dir() . '/tools/extension-catalog', $database ]);

	BAIL_OUT("no catalog of $database: $err") if $err ne '';
	return $out;
}

sub differences
{
	my ($is, $should) = map { { map { $_ => 1 } split /\n\n/ } } @_;
	return join("\n", (map { "- $_" } grep { !$is->{$_} } sort keys %$should), (map { "+ $_" } grep { !$should->{$_} } sort keys %$is));
}

# --- the old version ---

query(subscribe_sql('s', $server, cursor => 0, events => "'keep'"));
wait_for_seq($node, 's', $held - 1);
query(<<'SQL');
CREATE TABLE kept (uri aturi('record') PRIMARY KEY, made atproto.tid, holder did, content cidlink);
INSERT INTO kept SELECT aturi(did, collection, rkey), rev, did, cid FROM atproto.record;
CREATE INDEX ON kept (holder);
SQL
my $kept = 'SELECT count(*), min(uri), max(uri), md5(string_agg(kept::text, $$ $$ ORDER BY uri)) FROM kept';
my $before = query($kept);
like($before, qr/^\d\d+\|at:/, 'there is something to keep');
my $events = query('SELECT events FROM atproto.cursor');

# --- the install script of another checkout, with the same version number ---

query('CREATE DATABASE early');
query('CREATE EXTENSION atproto; ' . subscribe_sql('early', $second, cursor => 0), database => 'early');
wait_for_seq($node, 'early', $held - 1, 'early');
SKIP:
{
	skip 'a released script has no digest', 7 unless is_from_checkout();
	my $digest = query('SELECT atproto_internal.install_script()');
	like($digest, qr/^[0-9a-f]{32}$/, 'the catalogue has the digest of the install script');
	my $script = "CREATE OR REPLACE FUNCTION atproto_internal.install_script() RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS 'SELECT ''%s''::text'";
	query(sprintf $script, 'x' . substr($digest, 1));
	$node->restart;
	wait_for(q{SELECT state = 'not running' AND pid IS NULL FROM atproto.stat_subscription});
	my $checkout = 'was made by the install script of a different checkout than';
	like(query('SELECT last_error FROM atproto.stat_subscription'), qr/^the extension $checkout the library: install that checkout and restart the server, or DROP EXTENSION/, 'last_error says why, and what to do');
	like(query('SELECT error FROM atproto.status'), qr/$checkout/, 'status, too');
	$node->poll_query_until('early', "SELECT state = 'streaming' FROM atproto.stat_subscription") or BAIL_OUT('a database with the right script does not go on');
	pass('a second database, made by the script of the library, is served');
	my $idle = query(q{SELECT state_change FROM pg_stat_activity WHERE backend_type = 'atproto manager' AND datname = 'postgres'});
	query('SELECT atproto.pause($$s$$); SELECT atproto.resume($$s$$)');
	wait_for("SELECT state = 'idle' AND state_change > '$idle' FROM pg_stat_activity WHERE backend_type = 'atproto manager' AND datname = 'postgres'");
	is(logged(qr/LOG:  extension "atproto" of database "postgres" $checkout this library/), 1, 'the log says it once');
	is(logged(qr/starting background worker process "atproto (consumer s|fetcher)"/), 1, 'no process was started');
	query("ALTER EXTENSION atproto DROP FUNCTION atproto_internal.install_script(); ALTER FUNCTION atproto_internal.install_script() RENAME TO other_script");
	is(query('SELECT state FROM atproto.stat_subscription'), 'not running', 'a script from before there were digests');
	query("ALTER FUNCTION atproto_internal.other_script() RENAME TO install_script; ALTER EXTENSION atproto ADD FUNCTION atproto_internal.install_script()");
	query(sprintf $script, $digest);
	$node->restart;
	wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription});
}

# --- the old library, the new catalogue of another database ---

$next->install;
query('ALTER EXTENSION atproto UPDATE', database => 'early');
$node->poll_query_until('early', "SELECT state = 'not running' FROM atproto.stat_subscription")
  or BAIL_OUT('the consumer goes on with another version');
wait_until(sub { logged(qr/"early" is not at version \Q$old\E,/) }, 'the manager to say why');
is(logged(qr/HINT:  Run ALTER EXTENSION atproto UPDATE\. If the update was made, restart the server\./), 1, 'an update before the restart: the manager says what is to do');
is(query("SELECT atproto.next('did:plc:ewvi7nxzyoun6zhxrhs64oiz')", database => 'early'), 'did:plc:ewvi7nxzyoun6zhxrhs64oiz', 'what is new serves');

# --- the new library, the old catalogue ---

my $consumers = logged(qr/starting background worker process "atproto consumer s"/);

my $manager = "pg_stat_activity WHERE backend_type = 'atproto manager' AND datname = 'postgres'";
$node->stop;
$node->start;
$node->poll_query_until('early', "SELECT state = 'streaming' FROM atproto.stat_subscription")
  or BAIL_OUT('the restart did not start what was updated before');
is(($second->cursors)[-1], $held - 1, 'after the restart, the updated database goes on where it was');
$second->release;
wait_for_seq($node, 'early', $PDS_LAST, 'early');
is(query('SELECT events FROM atproto.cursor', database => 'early'), $PDS_LAST, 'each event was processed once');
$node->poll_query_until('postgres', "SELECT state = 'idle' FROM $manager");
is(logged(qr/extension "atproto" of database "postgres" is not at version \Q$new\E,/), 1, 'the manager says what is to do');
is(query("SELECT state || ' ' || seq FROM atproto.stat_subscription"), 'not running ' . ($held - 1), 'the subscription rests');
is(query($kept), $before, 'data and indexes serve');
my $changed = query("SELECT state_change FROM $manager");
query('SELECT atproto.pause($$s$$); SELECT atproto.resume($$s$$)');
$node->poll_query_until('postgres', "SELECT state = 'idle' AND state_change > '$changed' FROM $manager");
is(logged(qr/"postgres" is not at version/), 1, 'it looked again, and does not say it again');
is(logged(qr/starting background worker process "atproto consumer s"/), $consumers, 'no consumer was started but those before');

# --- the update ---

query('ALTER EXTENSION atproto UPDATE');
$node->poll_query_until('postgres', "SELECT state = 'streaming' FROM atproto.stat_subscription")
  or BAIL_OUT('the update woke nobody');
is(($server->cursors)[-1], $held - 1, 'ALTER EXTENSION UPDATE: it goes on where it was');
$server->release;
wait_for_seq($node, 's', $PDS_LAST);
tables_match($node, $pds, 'all is as the oracle says', modes => [ 'record', 'repo', 'event' ]);
is(query('SELECT events FROM atproto.cursor'), $PDS_LAST, "each event was processed once, $events of them before");
is(query($kept), $before, 'data and indexes serve');
is(query("SELECT atproto.next('did:plc:ewvi7nxzyoun6zhxrhs64oiz')"), 'did:plc:ewvi7nxzyoun6zhxrhs64oiz', 'so does what is new');

# --- the contents of the catalogues ---

query('CREATE DATABASE fresh');
query('CREATE EXTENSION atproto', database => 'fresh');
my $fresh = catalog('fresh');
like($fresh, qr/^version \Q$new\E$/m, "version $new");
foreach my $version ($next->released)
{
	query('CREATE DATABASE updated');
	query("CREATE EXTENSION atproto VERSION '$version'", database => 'updated');
	isnt(differences(catalog('updated'), $fresh), '', "$version differs");
	query('ALTER EXTENSION atproto UPDATE', database => 'updated');
	is(differences(catalog('updated'), $fresh), '', "$version, updated, is the same as $new");
	query('DROP DATABASE updated');
}
# A released script never changes: later changes need a new version.
is(slurp_file("$FindBin::RealBin/../../../upgrade/atproto--$old.sql"), slurp_file("$FindBin::RealBin/../../../atproto--$old.sql"), "$old is what was released")
  if -e "$FindBin::RealBin/../../../upgrade/atproto--$old.sql";

# --- the same without a manager ---

query('CREATE DATABASE alone');
$node->stop;
$node->append_conf('postgresql.conf', "shared_preload_libraries = ''");
$node->start;
query("CREATE EXTENSION atproto VERSION '$old'; " . subscribe_sql('alone', $server, cursor => 0), database => 'alone');
my $ends = qr/atproto consumer of subscription "alone" ends: the extension has another version than the library/;
wait_until(sub { logged(qr/unregistering background worker "atproto consumer alone"/) }, 'the consumer to end for good');
is(logged($ends), 1, 'without a manager: a consumer starts, says why it cannot work, and does not come back');
query("ALTER EXTENSION atproto UPDATE; SELECT atproto.resume('alone')", database => 'alone');
$node->poll_query_until('alone', "SELECT max(seq) = $PDS_LAST FROM atproto.cursor") or BAIL_OUT('it does not go on');
pass('after the update, resume() lets it go on');

$node->stop;
done_testing();
