# 236_pg_upgrade.pl
#		pg_upgrade carries every type, its indexes, and the subscriptions, which
#		go on in the new cluster where the old one stopped.  OLD_PG_CONFIG names
#		the PostgreSQL to come from; without it, both are of the same version.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Installation;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds    = capture('pds.frames.gz');
my $held   = 800;
my $server = AtprotoTest::Server->start($pds, '--hold-at', $held);
# both with checksums, since the default depends on the version
my %both = (init => { extra => [ '--encoding=UTF8', '--locale=C', '--data-checksums' ] }, conf => "max_worker_processes = 16\n");
my @from;

if ($ENV{OLD_PG_CONFIG})
{
	my $installation = AtprotoTest::Installation->new($ENV{OLD_PG_CONFIG});

	$installation->install;
	@from = (install_path => $installation->install_path);
}
my $old = make_node('old', %both, @from);
my $new = make_node('new', %both, start => 0);

sub bindir
{
	my ($node) = @_;
	return $node->config_data('--bindir');
}

# The data, read directly and by indexes.
sub contents
{
	my ($node) = @_;
	return join "\n", map { $node->safe_psql('postgres', $_) } 'SELECT every.contents()', 'SELECT every.found()',
	  'TABLE atproto.subscription', 'TABLE atproto.gap', "SELECT seq, events, settings FROM atproto.cursor";
}

# --- the old cluster ---

$old->safe_psql('postgres', slurp_file(test_dir() . '/lib/every_type.sql'));
$old->safe_psql('postgres', q{INSERT INTO atproto.gap (subscription, endpoint, after_seq, reason)
	SELECT 's', 'x', 1, 'OutdatedCursor' FROM (} . subscribe_sql('s', $server, cursor => 0, events => "'keep'") . ') x');
wait_for_seq($old, 's', $held - 1);
my $before = contents($old);
like($before, qr/^plain 501 /m, 'there is something to carry');
# the old cluster is of another checkout than the new library
my $digest = $old->safe_psql('postgres', 'SELECT atproto_internal.install_script()');
my $script = "CREATE OR REPLACE FUNCTION atproto_internal.install_script() RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS 'SELECT ''%s''::text'";
$old->safe_psql('postgres', sprintf $script, 'x' . substr $digest, 1);
$old->stop;

# --- the new one ---

note 'from ' . $old->pg_version . ' to ' . $new->pg_version;
chdir PostgreSQL::Test::Utils::tempdir;		# pg_upgrade leaves files where it stands
$new->command_ok([ 'pg_upgrade', '--no-sync', '--old-datadir', $old->data_dir, '--new-datadir', $new->data_dir,
		'--old-bindir', bindir($old), '--new-bindir', bindir($new), '--socketdir', $new->host, '--old-port', $old->port, '--new-port', $new->port ],
	'pg_upgrade');
$new->start;
is(contents($new), $before, 'everything is there, and indexes find it');
$new->safe_psql('postgres', 'CREATE EXTENSION amcheck');
is($new->safe_psql('postgres', q{SELECT count(*) > 20, count(bt_index_check(i.indexrelid, true)) > 20
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
	WHERE c.relnamespace IN ('every'::regnamespace, 'atproto'::regnamespace) AND c.relkind = 'i' AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'btree')}),
	't|t', 'amcheck finds every row in every btree, in order');

like($new->safe_psql('postgres', "SELECT state || ': ' || last_error FROM atproto.stat_subscription"), qr/^not running: the extension was made by the install script of a different checkout/,
	'the digest of the install script comes along, and the subscription rests');
$new->safe_psql('postgres', sprintf $script, $digest);
$new->restart;
$new->poll_query_until('postgres', "SELECT state = 'streaming' FROM atproto.stat_subscription")
  or BAIL_OUT('the subscription does not go on');
is(($server->cursors)[-1], $held - 1, 'the subscription goes on where it was');
$server->release;
wait_for_seq($new, 's', $PDS_LAST);
tables_match($new, $pds, 'all is as the oracle says', modes => [ 'record', 'repo', 'event' ]);
is($new->safe_psql('postgres', 'SELECT events FROM atproto.cursor'), $PDS_LAST, 'each event was processed once');

$new->stop;
done_testing();
