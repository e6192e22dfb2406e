# 235_upgrade_standby.pl
#		A primary and its standbys have different versions of the library for a while.  One standby gets the new library
#		first, and reads old and new rows by the old catalogue, then by the new one; promoted, its consumer goes on exactly once.
#		A second standby keeps the old library beside the new catalogue: types and rows are read; promoted, it starts no
#		process, says why once, and goes back to no older version.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::NextVersion;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds    = capture('pds.frames.gz');
my $server = AtprotoTest::Server->start($pds, '--hold-at', 300, '--hold-at', 700);
my $of_primary = AtprotoTest::NextVersion->new;
my $of_standby = AtprotoTest::NextVersion->new;
my $primary = make_node('primary', install_path => $of_primary->install_path, init => { allows_streaming => 1 }, conf => "autovacuum = off\nlog_min_messages = debug1\n");
my ($old, $new) = ($of_primary->before, $of_primary->version);
my $found = 'SELECT every.contents(), every.found(), (SELECT count(*) FROM atproto.record), (SELECT md5(string_agg(r::text, $$ $$ ORDER BY did, collection, rkey)) FROM atproto.record r)';

sub standby
{
	my ($name, @installation) = @_;
	my $standby = PostgreSQL::Test::Cluster->new($name, @installation);

	$standby->init_from_backup($primary, 'base', has_streaming => 1);
	$standby->start;
	return $standby;
}

sub ask
{
	my ($node, $sql) = @_;
	return $node->safe_psql('postgres', $sql);
}

sub same_rows
{
	my ($node, $what) = @_;

	$primary->wait_for_catchup($node, 'replay', $primary->lsn('insert'));
	return is(ask($node, $found), ask($primary, $found), $what);
}

sub logged
{
	my ($node, $pattern) = @_;
	return scalar(() = slurp_file($node->logfile) =~ /$pattern/g);
}

ask($primary, slurp_file(test_dir() . '/lib/every_type.sql'));
ask($primary, subscribe_sql('s', $server, cursor => 0, events => "'keep'"));
wait_for_seq($primary, 's', 299);
$primary->backup('base');
my $first = standby('first', install_path => $of_standby->install_path);
my $late  = standby('late');

# --- the standby's library is newer than the catalogue ---

$of_standby->install;
$first->restart;
like(ask($first, 'SELECT atproto.why_not_served()'), qr/^the server is a standby/, 'a standby with the new library starts');
same_rows($first, 'and reads what an old library has written');
$server->release;
wait_for_seq($primary, 's', 699);
same_rows($first, 'also what the old library writes now');

# --- the primary follows ---

$of_primary->install;
$primary->restart;
wait_for_state($primary, 'not running');
ask($primary, 'ALTER EXTENSION atproto UPDATE');
wait_for_state($primary, 'streaming');
same_rows($_, $_->name . ' reads by the new catalogue') foreach $first, $late;
is(ask($_, 'SELECT extversion FROM pg_extension WHERE extname = $$atproto$$'), $new, $_->name . ' has the new catalogue') foreach $first, $late;
is(ask($_, "SELECT atproto.next('did:plc:ewvi7nxzyoun6zhxrhs64oiz')"), 'did:plc:ewvi7nxzyoun6zhxrhs64oiz', $_->name . ': what is new serves') foreach $first, $late;

# --- both are promoted ---

$primary->stop;
$late->promote;
wait_until(sub { logged($late, qr/"postgres" is not at version \Q$old\E,/) }, 'the manager to say why');
wait_for_state($late, 'not running');
like(ask($late, 'SELECT last_error FROM atproto.stat_subscription'), qr/^the extension and the library have different versions: ALTER EXTENSION atproto UPDATE, or restart the server/, 'an old library beside the new catalogue: the view says why nothing runs');
my ($rc, $out, $err) = $late->psql('postgres', "ALTER EXTENSION atproto UPDATE TO '$old'");
like($err, qr/has no update path from version "\Q$new\E" to version "\Q$old\E"/, 'no script leads back');
ask($late, 'SELECT atproto.pause($$s$$)');
my ($idle) = ask($late, q{SELECT state_change FROM pg_stat_activity WHERE backend_type = 'atproto manager'});
ask($late, 'SELECT atproto.resume($$s$$)');
$late->poll_query_until('postgres', "SELECT state = 'idle' AND state_change > '$idle' FROM pg_stat_activity WHERE backend_type = 'atproto manager'") or BAIL_OUT('the manager does not look');
is(logged($late, qr/LOG:  extension "atproto" of database "postgres" is not at version/), 1, 'the log says so once');
is(logged($late, qr/starting background worker process "atproto consumer/), 0, 'no process was started');
$late->stop;

$first->promote;
wait_for_state($first, 'streaming');
is(($server->cursors)[-1], 699, 'the standby with the right library goes on where the primary was');
$server->release;
wait_for_seq($first, 's', $PDS_LAST);
tables_match($first, $pds, 'all is as the oracle says', modes => [ 'record', 'repo', 'event' ]);
is(ask($first, 'SELECT events FROM atproto.cursor'), $PDS_LAST, 'each event was processed once');

$first->stop;
done_testing();

sub wait_for_state
{
	my ($node, $state) = @_;
	return $node->poll_query_until('postgres', "SELECT state = '$state' FROM atproto.stat_subscription") || BAIL_OUT("the subscription does not become $state");
}
