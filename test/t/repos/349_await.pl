# 349_await.pl
#		CALL atproto.await_backfill() waits for the right repositories, reports the progress and the
#		repositories that fail, ends when the backfill has ended, and refuses wrong arguments.  R-65.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use PostgreSQL::Test::Utils;
use Test::More;

my ($network, $node, $files) = begin_exports('await', "atproto.fetch_retry = '1h'\n");
my ($first, $many, $absent) = map { did($_) } qw(a d e);
my $never = did('b');

# What it says.
sub await
{
	my ($arguments) = @_;
	my (undef, undef, $err) = $node->psql('postgres', "CALL atproto.await_backfill($arguments)");
	return $err =~ s/^psql:\S+ //mgr;
}

# Runs the CALL in a separate session; returns once the CALL waits.
sub await_elsewhere
{
	my ($arguments, $database) = @_;
	my ($out, $err) = ('', '');
	my $session = IPC::Run::start([ 'psql', '-XAtd', $node->connstr($database // 'postgres'), '-c', "CALL atproto.await_backfill($arguments)" ], '<', \undef, '>', \$out, '2>', \$err);

	wait_for("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'CALL atproto.await_backfill%' AND wait_event_type = 'Extension')");
	return sub { $session->finish; return $err };
}

# A job the fetcher never does.
sub add_job
{
	my ($name, $queued_at) = @_;
	query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try, queued_at) VALUES ('atproto', '$never', '$name', 1, 'test', 'infinity', $queued_at)");
	return;
}

# --- a whole backfill ---

$network->hosts({ $HOST => { collections => { 'app.bsky.feed.post' => [ $first, $many ] } } });
$network->repos({ $HOST => { $first => { car => "$files/first.car" }, $many => { car => "$files/collections.car" }, $absent => undef } });
query("SELECT atproto.subscribe('posts', 'wss://$HOST', collections => '{app.bsky.feed.post}', backfill => 'collections')");
my $said = await("'posts'");
my $rows = query('SELECT count(*) FROM atproto.record');
like($said, qr/NOTICE:  backfill of subscription "posts" has ended: 2 repositories were fetched, with $rows records\z/, 'R-65: it ends when all is there');
unlike($said, qr/ERROR|WARNING/, 'without a fault');
cmp_ok($rows, '>', 0, 'which is so');
is(query("SELECT count(*) FROM atproto.repo WHERE sync = 'synchronized'"), '2', 'they are in step');
like(await("'posts', '0 s'"), qr/\ANOTICE:  backfill of subscription "posts" has ended: 2/, 'R-65: and there is nothing to wait for any more');

# --- a failing host ---

my @of_dead = map { did($_) } qw(g h i j k l m);
$network->fault({ host => 'dead.example.com', status => 500 });
query("CREATE SCHEMA dead; SELECT atproto.create_tables('dead'); SELECT atproto.subscribe('dead', 'wss://$HOST', target => 'dead', repo_source => 'https://dead.example.com', backfill => 'repair', dids => '{@{[ join ',', @of_dead ]}}')");
$said = await("'dead', '1 min'");
like($said, qr/WARNING:  7 repositories of subscription "dead" could not be fetched/, 'R-65: nor does it wait for all that a host has that fails, and of which it is asked for one at a time');
cmp_ok(query("SELECT count(*) FROM atproto.repo_job WHERE target = 'dead' AND tries = 0"), '>', 0, 'for it has not been asked for all of them');
query("SELECT atproto.unsubscribe('dead')");
$network->unfault(undef);

# --- which repositories the CALL waits for ---

query("SELECT atproto.subscribe('more', 'wss://$HOST', backfill => 'repair', dids => '{$first}')");
like(await("'more'"), qr/has ended: 3 repositories/, 'a repository of which the other subscription has left records out is fetched again');
add_job('posts', "now() + interval '1 day'");
like(await("'more'"), qr/has ended/, 'what comes later does not count');
query("UPDATE atproto.repo_job SET queued_at = now() - interval '1 day'");
my $await = await_elsewhere("'more'");
is(query("SELECT backend_xmin IS NULL FROM pg_stat_activity WHERE query LIKE 'CALL atproto.await_backfill%'"), 't', 'no snapshot while it waits');
query('DELETE FROM atproto.repo_job');
$said = $await->();
like($said, qr/\ANOTICE:  more: \[\.{30}\] 0 %; 0 repositories fetched, 1 to go\n/, 'R-65: it says how far it is');
like($said, qr/has ended/, 'it waits for a repository of another subscription to the same tables');

# very many are fetched at once, and then none
add_job('posts', 'now()');
$await = await_elsewhere("'more', '17 s'");
query("UPDATE atproto.repo_total SET repositories = repositories + 100000 WHERE subscription = 'posts'");
$said = $await->();
like($said, qr/100000 repositories fetched, 1 to go, \d+\.\d\/s, about 0 s left\n/, 'R-65: how long it will take, at the rate of late');
like($said, qr/100000 repositories fetched, 1 to go, 0\.0\/s\nERROR:  /, 'R-65: where nothing has come of late, no end is promised');
query("UPDATE atproto.repo_total SET repositories = repositories - 100000 WHERE subscription = 'posts'");
query('DELETE FROM atproto.repo_job');

add_job('posts', 'now()');
like(await("'more', '100 ms'"),
	qr/ERROR:  the backfill of subscription "more" has not ended yet\nDETAIL:  1 of 1 lists were read; 1 repositories are to be fetched\.[^\n]*\nHINT:  It goes on: see view "atproto\.repo_progress"/, 'a timeout');
$await = await_elsewhere("'posts'");
query("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CALL atproto.await_backfill%'");
like($await->(), qr/ERROR:  canceling statement due to user request/, 'it can be cancelled');
$await = await_elsewhere("'posts'");
query("SELECT atproto.pause('posts')");
like($await->(), qr/ERROR:  subscription "posts" is paused\nHINT:  Its lists are read after atproto\.resume\(\)/, 'a subscription that is paused meanwhile');
like(await("'posts'"), qr/ERROR:  subscription "posts" is paused/, 'or before');
query("DELETE FROM atproto.repo_job; UPDATE atproto.subscription SET stopped = 'no reason' WHERE name = 'posts'");
like(await("'posts'"), qr/ERROR:  subscription "posts" is stopped\nDETAIL:  no reason\n/, 'or stopped');
query("SELECT atproto.resume('posts')");

# A call in a database without a manager ends after 10 s: its result is read at the end of this file.
$node->safe_psql('postgres', 'CREATE DATABASE unserved');
$node->psql('unserved', "CREATE EXTENSION atproto; SELECT atproto.subscribe('lost', 'wss://$HOST', backfill => 'network')");
my $unserved = await_elsewhere("'lost'", 'unserved');

# --- what fails ---

query("SELECT atproto.subscribe('failing', 'wss://$HOST', backfill => 'repair', dids => '{$absent}')");
$said = await("'failing'");
like($said, qr/WARNING:  1 repositories of subscription "failing" could not be fetched\nDETAIL:  $absent: [^\n]*RepoNotFound[^\n]*\nHINT:  [^\n]*atproto\.repo_problem/, 'R-65: which have failed, and why');
like($said, qr/NOTICE:  backfill of subscription "failing" has ended/, 'and it ends');
query("SELECT atproto.unsubscribe('failing'); SELECT atproto.unsubscribe('more')");
query("UPDATE atproto.enumeration SET error = 'the list was given up'");
like(await("'posts'"), qr/WARNING:  lists of subscription "posts" were not read to their end\nDETAIL:  listReposByCollection app\.bsky\.feed\.post: the list was given up\n/, 'lists that were given up');
query("UPDATE atproto.enumeration SET finished_at = NULL, next_try = 'infinity'");
like(await("'posts', '0 s'"), qr/DETAIL:  0 of 1 lists were read; 0 repositories are to be fetched\.\nlistReposByCollection app\.bsky\.feed\.post: the list was given up; next try at infinity\nHINT:  It goes on: see view "atproto\.repo_progress"\. SELECT atproto\.read_lists\('posts'\) has them read at once\./,
	'and those that are not, with the time of the next try, and how to try now');
is(query("SELECT next_try > now() + interval '10 min' FROM atproto.repo_progress WHERE subscription = 'posts'"), 't', 'R-65: the view has the next try, too');

# --- tries that need not wait ---

is(query("SELECT atproto.read_lists('posts')"), '1', 'R-65: a list that was put off is read at once');
query('DELETE FROM atproto.repo_job');
$said = await("'posts', '1 min'");
like($said, qr/NOTICE:  backfill of subscription "posts" has ended/, 'and read to its end');
unlike($said, qr/WARNING|DETAIL/, 'without a fault');
is(query("SELECT atproto.read_lists('posts')"), '0', 'no list waits any more');
my $pages = scalar $network->log(path => qr/listReposByCollection/);
is(query("SELECT atproto.read_lists('posts', again => true)"), '1', 'a list that was read is read again');
wait_for("SELECT finished_at IS NOT NULL FROM atproto.enumeration WHERE subscription = 'posts'");
cmp_ok(scalar $network->log(path => qr/listReposByCollection/), '>', $pages, 'by a request');
query("INSERT INTO atproto.host (host, failures, backoff_until) VALUES ('rests.example.com', 5, 'infinity')");
query("INSERT INTO atproto.subscription (name, url, enabled, backfill, list_source) VALUES ('rests', 'wss://$HOST', false, 'network', 'https://rests.example.com')");
(undef, undef, my $resting) = $node->psql('postgres', "SELECT atproto.read_lists('rests')");
like($resting, qr/NOTICE:  hosts of these lists are in backoff: rests\.example\.com, until infinity\n[^\n]*HINT:  atproto\.reset_backoff\(\)/, 'a host in backoff stays in backoff, which the function says');
query("SELECT atproto.unsubscribe('rests')");

# --- settings that were wrong ---

# The setting is changed once while the fetcher runs, and once while it does not.
foreach my $runs (1, 0)
{
	my $job = $runs ? $absent : $first;
	my $digest = query('SELECT digest FROM atproto.fetch_settings');
	query("ALTER SYSTEM SET atproto.fetch_proxy = 'http://127.0.0.1:1'");
	query('SELECT pg_reload_conf()');
	wait_for("SELECT digest <> '$digest' FROM atproto.fetch_settings");
	query("SELECT atproto.resync('$job')");
	query("SELECT atproto.read_lists('posts', again => true)");
	wait_for("SELECT count(*) = 1 FROM atproto.enumeration WHERE subscription = 'posts' AND tries = 1 AND next_try > now() + interval '10 min'");
	wait_for("SELECT tries = 1 AND next_try > now() + interval '10 min' FROM atproto.repo_job WHERE did = '$job'");
	like(await("'posts', '100 ms'"), qr/\ANOTICE:  posts: 0 of 1 lists read[^\n]*, 1 failed\nDETAIL:  It waits: listReposByCollection app\.bsky\.feed\.post: [^\n]*the address of the proxy \(atproto\.fetch_proxy\) is not on the public Internet; next try at 20[^\n]*\nHINT:  SELECT atproto\.read_lists\('posts'\) has them read at once\.\nERROR: /,
		'R-65: one look tells the cause and the next try');
	if (!$runs)
	{
		query("DELETE FROM $_") foreach 'atproto.repo_job', 'atproto.identity_request';
		query(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'});
		wait_for(q{SELECT pid IS NULL AND state = 'not running' FROM atproto.stat_fetcher});
		unlike(await("'posts', '6 s'"), qr/fetcher|shared_preload_libraries/, 'a fetcher that merely rests is no cause');
	}
	query('ALTER SYSTEM RESET atproto.fetch_proxy');
	query('SELECT pg_reload_conf()');
	like(await("'posts', '1 min'"), qr/backfill of subscription "posts" has ended/, 'after a change of fetch_proxy the list is due at once' . ($runs ? '' : ', also without a fetcher'));
	next unless $runs;
	wait_for("SELECT error ~ 'RepoNotFound' FROM atproto.repo_job WHERE did = '$job'");
	pass('and the repository');
	query('DELETE FROM atproto.repo_job');
}

# A directory that fails, and then the right directory.
my $account = did('c');
$network->documents({ $account => $network->document($account, pds => $HOST, key => 'zDnaembgSGUhZULN2Caob4HLJPaxBh92N7rtH21TErzqf8HQo') });
$network->fault({ host => 'dead.example.com', status => 500 });
my $digest = query('SELECT digest FROM atproto.fetch_settings');
query("ALTER SYSTEM SET atproto.plc_url = 'https://dead.example.com'");
query('SELECT pg_reload_conf()');
wait_for("SELECT digest <> '$digest' FROM atproto.fetch_settings");
query("CREATE SCHEMA own; SELECT atproto.create_tables('own'); SELECT atproto.subscribe('own', 'wss://$HOST', target => 'own', repo_source => 'pds', backfill => 'repair', dids => '{$account}')");
wait_for("SELECT error ~ 'identity is wanted: https://dead.example.com[^ ]* HTTP status 500' AND next_try > now() + interval '10 min' FROM atproto.repo_job WHERE did = '$account'");
query('ALTER SYSTEM RESET atproto.plc_url');
query('SELECT pg_reload_conf()');
# W-31: an account is looked up once a minute at most
query("UPDATE atproto.identity SET asked_at = asked_at - interval '1 min' WHERE did = '$account'");
wait_for("SELECT pds = '$HOST' AND error IS NULL FROM atproto.identity WHERE did = '$account'");
wait_for("SELECT error LIKE '%$HOST%RepoNotFound%' FROM atproto.repo_job WHERE did = '$account'");
pass('after a change of plc_url the account is looked up, and its server asked for the repository');
query("SELECT atproto.unsubscribe('own')");
$network->unfault(undef);

# Many failures are made due in steps of 1000 rows, and a step does not search the table again.
my $failures = 40_000;
my $read     = q{SELECT seq_scan + idx_scan FROM pg_stat_user_tables WHERE relid = 'atproto.identity'::regclass};
query("INSERT INTO atproto.identity (did, state, error, next_try) SELECT ('did:plc:' || translate(substr(md5(n::text), 1, 24), '0189', 'ghij'))::did, 'unreachable', 'many', now() + interval '1 h' FROM generate_series(1, $failures) n");
query('SELECT pg_stat_force_next_flush()');
my $before = query($read);
query('ALTER SYSTEM SET atproto.fetch_any_port = on');
query('SELECT pg_reload_conf()');
wait_for("SELECT n_tup_upd >= $failures FROM pg_stat_user_tables WHERE relid = 'atproto.identity'::regclass");
cmp_ok(query($read) - $before, '<', $failures / 1000, 'many failures are made due, and the table is not searched again for each step');
is(query(q{SELECT count(*) FROM atproto.identity WHERE error = 'many' AND next_try > now()}), '0', 'all of them');
query('ALTER SYSTEM RESET atproto.fetch_any_port');
query(q{DELETE FROM atproto.identity WHERE error = 'many'});

# --- what it refuses ---

query("INSERT INTO atproto.subscription (name, url, enabled) VALUES ('none', 'wss://$HOST', false)");
like(await("'none'"), qr/ERROR:  subscription "none" fetches no repositories\nHINT:  Set "backfill"/, 'backfill => none');
# read_lists(), also of a role that may only call it
query(q{CREATE ROLE passer; GRANT USAGE ON SCHEMA atproto TO passer; GRANT SELECT ON atproto.subscription, atproto.request_header TO passer; GRANT EXECUTE ON FUNCTION atproto.read_lists TO passer});
foreach (
	[ '',                   q{'none'},               qr/ERROR:  subscription "none" fetches no repositories\n/ ],
	[ '',                   q{'nobody'},             qr/ERROR:  subscription "nobody" does not exist/ ],
	[ '',                   q{$$'; SELECT 1; --$$},  qr/ERROR:  subscription "'; SELECT 1; --" does not exist/ ],
	[ '',                   q{repeat('x', 1000000)}, qr/ERROR:  subscription "x+\.{3}" does not exist/ ],
	[ '',                   'NULL',                  qr/\A\z/ ],
	[ 'SET ROLE passer;', q{'posts', true},        qr/ERROR:  subscription "posts" does not exist/ ])
{
	my ($role, $arguments, $expected) = @$_;
	like(($node->psql('postgres', "$role SELECT atproto.read_lists($arguments)"))[2], $expected, "${role}read_lists($arguments)");
}
like(await("'nobody'"), qr/ERROR:  subscription "nobody" does not exist/, 'a name that is none');
like(await('NULL'), qr/ERROR:  name must not be null/, 'null');
my (undef, undef, $err) = $node->psql('postgres', "BEGIN; CALL atproto.await_backfill('posts')");
like($err, qr/ERROR:  procedure "atproto\.await_backfill" cannot run inside a transaction block/, 'a transaction block');
query('CREATE ROLE stranger; GRANT EXECUTE ON PROCEDURE atproto.await_backfill TO stranger');
(undef, undef, $err) = $node->psql('postgres', "SET SESSION AUTHORIZATION stranger; CALL atproto.await_backfill('posts')");
like($err, qr/ERROR:  subscription "posts" does not exist/, q(somebody else's));
query('CREATE ROLE anybody');
(undef, undef, $err) = $node->psql('postgres', "SET SESSION AUTHORIZATION anybody; CALL atproto.await_backfill('posts')");
like($err, qr/ERROR:  permission denied for procedure await_backfill/, 'nobody without the grant');

# --- a database without a manager, for the call that began above ---

like($unserved->(), qr/^ERROR:  the backfill of subscription "lost" has not ended yet\nDETAIL:  [^\n]*\nno manager serves this database: add the database to "atproto\.databases", and restart the server\n\z/m,
	'nobody fetches there: what to set; the call does not wait for ever');

$node->stop;
$network->stop;
done_testing();
