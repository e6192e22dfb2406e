# 333_fetcher_for_all.pl
#		All roles share a fetcher.  Slow hosts, hosts with a long Retry-After, and an owner with hostile
#		triggers on the target tables do not keep the fetcher from work for further roles.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;

my $key     = 'zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme';
my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
my $node    = make_node(
	'for_all',
	start => $preload,
	conf  => $network->settings . <<"CONF");
atproto.name_servers = '127.0.0.1:@{[ $network->port('dns') ]}'
atproto.fetch_retry = '1h'
atproto.fetch_concurrency = 8
atproto.audits = off
max_worker_processes = 20
CONF
my $count = 0;

# The DID of a new account, with a document.
sub account
{
	my (%o) = @_;
	my $did = sprintf 'did:plc:%s%s%s', chr(97 + int($count / 26)), chr(97 + $count % 26), 'b' x 22;

	$count++;
	$network->documents({ $did => $network->document($did, pds => 'pds.example.com', key => $key, %o) });
	return $did;
}

sub others_are_served
{
	my ($what) = @_;
	my $did = account();

	query("SELECT atproto.identity_refresh('$did')");
	wait_for("SELECT state = 'good' FROM atproto.identity WHERE did = '$did'");
	pass("$what: others are served");
	return;
}

# --- hosts ---

# Hosts with good answers at first, and then none.
my @silent = map { ("silent$_.example.com", "silent$_.example.net", "silent$_.example.org") } 1 .. 10;
my $ask    = join '; ', map { "SELECT atproto.identity_refresh('did:web:$_')" } @silent;
query($ask);
wait_for('SELECT count(*) = 30 FROM atproto.host WHERE answered_at IS NOT NULL');
query('DELETE FROM atproto.identity_request; DELETE FROM atproto.identity');
my $since   = () = $network->log;
my $silence = $network->fault({ path => 'did\.json$', hang => -1 });
query($ask);
$network->wait_for_log(6, path => qr/did\.json$/, since => $since);
others_are_served('hosts that are silent');
cmp_ok(scalar(() = $network->log(path => qr/did\.json$/, since => $since)), '<', 30, 'and do not wait for all of those');
query('DELETE FROM atproto.identity_request');
$network->unfault($silence);

# Handles at hosts with a long rest.
my @resting = map { "resting$_.example.org" } 1 .. 20;
my @dids    = map { account(handle => $_) } @resting;
$network->fault({ path => 'atproto-did$', host => $_, status => 429, headers => { 'Retry-After' => '3600' } }) foreach @resting;
query(join '; ', map { "SELECT atproto.check_handle('$_')" } @dids);
wait_for('SELECT count(*) = 0 FROM atproto.handle_request');
query(join '; ', map { "SELECT atproto.check_handle('$_')" } @dids);
my $well = account(handle => 'well.example.com');
$network->handles({ 'well.example.com' => $well });
query("SELECT atproto.check_handle('$well')");
wait_for("SELECT handle_state = 'valid' FROM atproto.identity WHERE did = '$well'");
pass('handles at hosts that rest: others are verified');

# --- a session that has locked identities, as a change of a subscription's owner does ---

my %locked = map { $_ => account(handle => "$_.example.com") } qw(stale read checked);
$network->handles({ 'checked.example.com' => $locked{checked} });
query(join '; ', map { "SELECT atproto.identity_refresh('$_')" } values %locked);
wait_for("SELECT count(*) = 3 FROM atproto.identity WHERE did IN ('@{[join q(','), values %locked]}') AND state = 'good'");
# (the documents are due again, and the fetcher does not forget the accounts yet)
query("UPDATE atproto.identity SET stale = did = '$locked{stale}', asked_at = now() - interval '2 hours'");
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; SELECT FROM atproto.identity FOR UPDATE');
my $before = () = $network->log;
foreach my $case ([ stale => 'identity_refresh' ], [ read => 'identity_refresh' ], [ checked => 'check_handle' ])
{
	my ($what, $function) = @$case;

	$since = () = $network->log;
	query("SELECT atproto.$function('$locked{$what}')");
	$network->wait_for_log(1, $what eq 'checked' ? (kind => 'dns', name => qr/checked/) : (path => qr/$locked{$what}/), since => $since);
	others_are_served("locked: $what");
}
$session->query_safe('COMMIT');
$session->quit;
wait_for("SELECT min(asked_at) > now() - interval '1 hour' FROM atproto.identity WHERE did IN ('$locked{stale}', '$locked{read}')");
wait_for("SELECT handle_state = 'valid' FROM atproto.identity WHERE did = '$locked{checked}'");
# (a slow machine may reach the second look-up, a minute after the first, here)
ok(query("SELECT stale FROM atproto.identity WHERE did = '$locked{stale}'") eq 't' || scalar(() = $network->log(path => qr/$locked{stale}/, since => $before)) > 1,
	'W-31: locked: what was read is written afterwards, and a document in doubt will be read once more');

# --- an owner ---

my ($grants) = slurp_file(test_dir() . '/../doc/operate/operations.md') =~ /^(CREATE ROLE consumer LOGIN;\n.*?)^```/ms or BAIL_OUT('doc/operate/operations.md does not name the grants');
query($grants);

# A subscription of the hostile owner, with changes of its tables before any process reads them.
sub hostile
{
	my ($sql, $backfill, $list) = @_;

	query("SET SESSION AUTHORIZATION consumer; BEGIN; SELECT atproto.subscribe('hostile', 'wss://stream.example.com',"
		  . " target => 'network', backfill => '$backfill', list_source => $list); $sql; COMMIT");
	return;
}

sub end_hostile
{
	query("SELECT atproto.unsubscribe('hostile')");
	query('SET client_min_messages = error; DROP SCHEMA network CASCADE; CREATE SCHEMA network AUTHORIZATION consumer');
	return;
}

# A view in place of the table calls a function; its body runs only in the fetcher, whose backend_type the owner
# may not see.  The table has a row of the account that is asked for: since PostgreSQL 16 a join calls the function
# only for such a row.
sub view
{
	my ($body) = @_;
	my $did = did('a');

	return <<"SQL";
CREATE FUNCTION network.slow() RETURNS boolean LANGUAGE plpgsql VOLATILE AS \$\$
BEGIN IF EXISTS (SELECT FROM pg_stat_activity WHERE pid = pg_backend_pid() AND backend_type IS NULL) THEN $body END IF; RETURN true; END\$\$;
INSERT INTO network.repo (did) VALUES ('$did');
ALTER TABLE network.repo RENAME TO kept;
CREATE VIEW network.repo AS SELECT * FROM network.kept WHERE (SELECT network.slow());
SQL
}

my $slow   = view('PERFORM pg_sleep(1000);');
my $stay   = view('LOOP BEGIN PERFORM pg_sleep(1000); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP;');
my $resync = "RESET SESSION AUTHORIZATION; SELECT atproto.resync('" . did('a') . "', target => 'network')";
my $late   = 'canceling statement due to statement timeout';

$network->hosts({ 'relay.example.com' => { list => [ { did => did('a'), head => 'bafy', rev => '3jqfcqzm3fo2j' } ] } });
hostile($slow, 'network', q('https://relay.example.com'));
wait_for("SELECT count(*) = 1 FROM atproto.enumeration WHERE error ~ '$late'");
others_are_served('a list, and a view in place of the table');
end_hostile();

my $offset = -s $node->logfile;
hostile($stay, 'network', q('https://relay.example.com'));
$node->wait_for_log(qr/the atproto fetcher ends: a function of the role with OID \d+ did not stop/, $offset);
others_are_served('a list, and a function that does not stop');
is(query('SELECT next_try > now() FROM atproto.enumeration'), 't', 'which is not tried again at once');
end_hostile();

hostile("$slow $resync", 'repair', 'NULL');
wait_for("SELECT count(*) = 1 FROM atproto.repo_job WHERE error ~ '$late'");
others_are_served('a repository, and a view in place of the table');
end_hostile();

$offset = -s $node->logfile;
hostile("ALTER TABLE network.repo DROP COLUMN sync CASCADE; $resync", 'repair', 'NULL');
wait_for('SELECT count(*) = 1 FROM atproto.repo_job WHERE error IS NOT NULL');
others_are_served('a repository, and a table without a column');
unlike(slurp_file($node->logfile, $offset), qr/atproto fetcher" \(PID \d+\) exited/, 'the fetcher does not end for that');
end_hostile();

# --- lists ---

my $made = join ', ', map { "'did:web:made$_.example.com'" } 1 .. 3;
$network->hosts({ 'relay.example.net' => { list => [ { did => did('b'), head => 'bafy', rev => '3jqfcqzm3fo2j' } ] } });
query('ALTER SYSTEM SET atproto.fetch_queue = 3; SELECT pg_reload_conf()');
query("SET SESSION AUTHORIZATION consumer; SELECT atproto.subscribe('hostile', 'wss://stream.example.com', target => 'network', backfill => 'repair')");
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try) SELECT 'network', d::did, 'hostile', 3, 'test', 'infinity' FROM unnest(ARRAY[$made]) d");
query("SELECT atproto.subscribe('other', 'wss://stream.example.com', backfill => 'network', list_source => 'https://relay.example.net')");
wait_for("SELECT count(*) = 1 FROM atproto.enumeration WHERE subscription = 'other' AND finished_at IS NOT NULL");
pass('R-63: the queue of one role may be full, and the lists of another are read');
query("INSERT INTO atproto.status_request (target, did, subscription, why, requested_at, next_try) SELECT 'network', d::did, 'hostile', 'rev', now(), 'infinity' FROM unnest(ARRAY[$made]) d;"
	  . " SELECT atproto.recheck('other')");
wait_for("SELECT count(*) = 1 FROM atproto.enumeration WHERE source = 'recheck' AND finished_at IS NOT NULL");
pass('nor do the requests for revisions of one role keep the lists of another from being read');
query("ALTER SYSTEM RESET atproto.fetch_queue; SELECT pg_reload_conf(); SELECT atproto.unsubscribe('other')");
end_hostile();

# More lists than are read at a time, of a host that is silent; the names of their subscriptions sort first.
$silence = $network->fault({ host => 'relay.example.org', hang => -1 });
query("BEGIN; SELECT atproto.subscribe('other', 'wss://stream.example.com', backfill => 'network', list_source => 'https://relay.example.net'); SET LOCAL SESSION AUTHORIZATION consumer;"
	. " SELECT atproto.subscribe('0 ' || n, 'wss://stream.example.com', target => 'network', backfill => 'network', list_source => 'https://relay.example.org') FROM generate_series(1, 20) n; COMMIT");
wait_for("SELECT count(*) = 1 FROM atproto.enumeration WHERE subscription = 'other' AND finished_at IS NOT NULL");
is(query("SELECT count(*) FROM atproto.enumeration WHERE subscription <> 'other' AND tries > 0"), '0', 'many lists of one role: the list of another does not wait for their end');
$network->unfault($silence);

# --- jobs ---

query('SELECT atproto.unsubscribe(name) FROM atproto.subscription; ALTER SYSTEM SET atproto.fetch_concurrency = 1; SELECT pg_reload_conf()');
$network->hosts({ 'mirror.example.com' => { list => [] } });
# Many urgent jobs of the hostile role, and a few less urgent ones of another, at the same host.
my $subscribe = "SELECT atproto.subscribe('%s', 'wss://stream.example.com', target => '%s', backfill => 'repair', verify => 'hash', repo_source => 'https://mirror.example.com')";
my $jobs = "INSERT INTO atproto.repo_job (target, did, subscription, priority, reason)"
  . " SELECT '%s', ('did:plc:' || chr(97 + n / 26) || chr(97 + n %% 26) || repeat('%s', 22))::did, '%s', %d, 'test' FROM generate_series(1, %d) n";
query('BEGIN; ' . sprintf("$subscribe; SET LOCAL SESSION AUTHORIZATION consumer; $subscribe; RESET SESSION AUTHORIZATION; $jobs; $jobs; COMMIT",
		'other', 'atproto', 'hostile', 'network', qw(network c hostile 2 200 atproto d other 3 10)));
my @asked = map { $_->{path} } $network->wait_for_log(70, host => 'mirror.example.com', path => qr/getRepo/);
cmp_ok(scalar(grep { /d{22}/ } @asked[ 0 .. 69 ]), '==', 10, 'many urgent jobs of one role: those of another are fetched in turn');

# The same of requests for revisions, at the same host, and of checks of handles.
query('DELETE FROM atproto.repo_job; ALTER SYSTEM RESET atproto.fetch_concurrency; SELECT pg_reload_conf()');
$since = () = $network->log;
my $revs = "INSERT INTO atproto.status_request (target, did, subscription, why, requested_at)"
  . " SELECT '%s', ('did:plc:' || chr(97 + n / 26) || chr(97 + n %% 26) || repeat('%s', 22))::did, '%s', 'rev', now() FROM generate_series(1, %d) n";
query(sprintf "BEGIN; $revs; $revs; SELECT atproto_internal.wake(); COMMIT", qw(network e hostile 150 atproto f other 5));
@asked = map { $_->{path} } $network->wait_for_log(40, host => 'mirror.example.com', path => qr/getRepoStatus/, since => $since);
cmp_ok(scalar(grep { /f{22}/ } @asked[ 0 .. 39 ]), '==', 5, 'so are the requests for revisions');

query("INSERT INTO atproto.identity (did, state, pds, resolved_at, asked_at, handle_claimed)"
	. " SELECT ('did:plc:' || chr(97 + n / 26) || chr(97 + n % 26) || repeat('g', 22))::did, 'no_key', 'pds.example.com', now(), now(), ('many' || n || '.turn' || n || '.com')::handle FROM generate_series(1, 101) n;"
	. " INSERT INTO atproto.handle_request (did, role, next_try)"
	. " SELECT did, CASE WHEN handle_claimed = 'many101.turn101.com' THEN 2 ELSE 1 END, now() - CASE WHEN handle_claimed = 'many101.turn101.com' THEN interval '0' ELSE interval '1 h' END"
	. " FROM atproto.identity WHERE handle_claimed LIKE 'many%'; SELECT atproto_internal.wake()");
@asked = map { $_->{name} } $network->wait_for_log(80, kind => 'dns', name => qr/many/);
cmp_ok(scalar(grep { /many101\b/ } @asked[ 0 .. 79 ]), '>', 0, 'and the checks of handles');

done_testing();
