# 236_pg_upgrade.pl
#		pg_upgrade carries every type, its indexes, all tables, and the subscriptions, which
#		go on in the new cluster where the old one stopped; among them a believed log of a did:plc
#		directory (M-30).  OLD_PG_CONFIG names the PostgreSQL to come from; without it, both are of the same version.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Installation;
use AtprotoTest::Network;
use AtprotoTest::Plc;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds    = capture('pds.frames.gz');
my $held   = 800;
my $server = AtprotoTest::Server->start($pds, '--hold-at', $held);
my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
# both with checksums, since the default depends on the version; the log's operations are at most 50 minutes old
my %both = (init => { extra => [ '--encoding=UTF8', '--locale=C', '--data-checksums' ] },
	conf => $network->settings . "max_worker_processes = 16\natproto.plc_lag = 1h\natproto.reconnect_delay = 50ms\natproto.reconnect_max_delay = 200ms\n");
my @from;

if ($ENV{OLD_PG_CONFIG})
{
	my $installation = AtprotoTest::Installation->new($ENV{OLD_PG_CONFIG});

	$installation->install;
	@from = (install_path => $installation->install_path);
}
my $old = make_node('old', %both, start => $preload, @from);
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
	  # all rows of all tables, but for tables that change when a consumer ends
	  q{SELECT c.oid::regclass, md5(query_to_xml(format('SELECT t::text FROM %s t ORDER BY 1', c.oid::regclass), false, true, '')::text)
		FROM pg_class c WHERE c.relnamespace IN ('atproto'::regnamespace, 'plc'::regnamespace) AND c.relkind = 'r'
		AND c.relname NOT IN ('cursor', 'subscription_event') ORDER BY c.relnamespace::regnamespace::text COLLATE "C", c.relname},
	  'SELECT seq, events, settings FROM atproto.cursor ORDER BY subscription',
	  q{SELECT d.did, a.n, a.problem FROM (SELECT DISTINCT did FROM plc.plc_operation) d, LATERAL atproto.plc_audit(d.did, 'plc') a};
}

sub publish
{
	my ($node, $seq) = @_;

	$network->directories({ $PLC => { do => { publish => $seq } } });
	$node->poll_query_until('postgres', "SELECT seq >= $seq FROM atproto.cursor WHERE subscription = 'plc'") or BAIL_OUT('the log is not read');
	return;
}

# --- the old cluster ---

$old->safe_psql('postgres', slurp_file(test_dir() . '/lib/every_type.sql'));
$old->safe_psql('postgres', q{INSERT INTO atproto.gap (subscription, endpoint, after_seq, reason)
	SELECT 's', 'x', 1, 'OutdatedCursor' FROM (} . subscribe_sql('s', $server, cursor => 0, events => "'keep'") . ') x');
wait_for_seq($old, 's', $held - 1);
my $now = time . '000';
my ($did) = map { /^rotated\t([^\t]*)/ } split /\n/, slurp_file(make_capture('plc_full.py', 'names', $now));
$network->directories({ $PLC => { log => make_capture('plc_full.py', 'log', $now), upto => 90 } });
$old->safe_psql('postgres', "CREATE SCHEMA plc; SELECT atproto.subscribe('plc', 'ws://$PLC/export/stream', target => 'plc', allow_insecure => true, identities => true)");
publish($old, 90);
$old->poll_query_until('postgres', 'SELECT fresh FROM atproto.stat_directory') or BAIL_OUT('the log is not fresh');
$old->safe_psql('postgres', "CALL atproto.await('$did')");
# rows of an archive, of a proof, and of a stream with a dictionary
$old->safe_psql('postgres', <<'SQL');
INSERT INTO atproto.history (subscription, endpoint, phase, tip, passes, blocks, finished_at) VALUES ('s', 'x', 'live', 77, 2, 3, now());
INSERT INTO atproto.sweep_deletion (did, path, rev) VALUES ('did:plc:44ybard66vv44zksje25o7dz', 'com.example.a/1', '3jwdwj2ctlk26');
INSERT INTO atproto.proof_sample (target, seed, share) VALUES ('atproto', 5, 0.5);
INSERT INTO atproto.proof_result (target, did, subscription, proved_set, state, equal, records, missing, at) VALUES ('atproto', 'did:plc:44ybard66vv44zksje25o7dz', 's', -1, 'done', false, 2, 1, now());
INSERT INTO atproto.zstd_dictionary (subscription, endpoint, dictionary, changed_at, due_at) VALUES ('s', 'x', '\x37a430ec', '2020-01-01', 'infinity');
SQL
my $before = contents($old);
like($before, qr/^plain 501 /m, 'there is something to carry');
# the old cluster is of another checkout than the new library
my $is_from_checkout = is_from_checkout(node => $old);
my $digest = $is_from_checkout && $old->safe_psql('postgres', 'SELECT atproto_internal.install_script()');
my $script = "CREATE OR REPLACE FUNCTION atproto_internal.install_script() RETURNS text LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS 'SELECT ''%s''::text'";
$old->safe_psql('postgres', sprintf $script, 'x' . substr $digest, 1) if $is_from_checkout;
$old->stop;

# --- the new one ---

note 'from ' . $old->pg_version . ' to ' . $new->pg_version;
chdir PostgreSQL::Test::Utils::tempdir;		# pg_upgrade leaves files where it stands
$new->command_ok([ 'pg_upgrade', '--no-sync', '--old-datadir', $old->data_dir, '--new-datadir', $new->data_dir,
		'--old-bindir', bindir($old), '--new-bindir', bindir($new), '--socketdir', $new->host, '--old-port', $old->port, '--new-port', $new->port ],
	'pg_upgrade');
$preload->start($new);
is(contents($new), $before, 'everything is there, and indexes find it');
$new->safe_psql('postgres', 'CREATE EXTENSION amcheck');
is($new->safe_psql('postgres', q{SELECT count(*) > 20, count(bt_index_check(i.indexrelid, true)) > 20
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
	WHERE c.relnamespace IN ('every'::regnamespace, 'atproto'::regnamespace) AND c.relkind = 'i' AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'btree')}),
	't|t', 'amcheck finds every row in every btree, in order');

SKIP:
{
	skip 'a released script has no digest', 1 unless $is_from_checkout;
	like($new->safe_psql('postgres', "SELECT state || ': ' || last_error FROM atproto.stat_subscription WHERE name = 's'"), qr/^not running: the extension was made by the install script of a different checkout/,
		'the digest of the install script comes along, and the subscription rests');
	$new->safe_psql('postgres', sprintf $script, $digest);
}
$new->stop;
$preload->start($new);
$new->poll_query_until('postgres', "SELECT bool_and(state = 'streaming') FROM atproto.stat_subscription")
  or BAIL_OUT('the subscription does not go on');
is(($server->cursors)[-1], $held - 1, 'the subscription goes on where it was');
$server->release;
wait_for_seq($new, 's', $PDS_LAST);
tables_match($new, $pds, 'all is as the oracle says', modes => [ 'record', 'repo', 'event' ]);
is($new->safe_psql('postgres', q{SELECT events FROM atproto.cursor WHERE subscription = 's'}), $PDS_LAST, 'each event was processed once');

# --- the log of the directory goes on ---

$new->poll_query_until('postgres', 'SELECT believed AND fresh FROM atproto.stat_directory') or BAIL_OUT('the log is not believed');
my $key = "SELECT atproto.did_key(key) = atproto.plc_key(did, NULL, 'plc'), log_time IS NOT NULL FROM atproto.identity WHERE did = '$did'";
my $before_120 = $new->safe_psql('postgres', "SELECT log_time FROM atproto.identity WHERE did = '$did'");
publish($new, 120);
is($new->safe_psql('postgres', "SELECT log_time > '$before_120' FROM atproto.identity WHERE did = '$did'"), 't', 'M-30: the identity follows the log there');
is($new->safe_psql('postgres', $key), 't|t', 'M-30: with its key');
is(scalar(grep { $_->{path} =~ m{^/did:plc:} } $network->log(host => $PLC)), 0, 'M-31: no document was asked for');

$new->stop;
$network->stop;
done_testing();
