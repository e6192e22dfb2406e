# 346_repos.pl
#		resync() and backfill_repo() make jobs, and the fetcher brings the exports of these repositories
#		into the tables.  A failed job shows its reason, is tried again later, and delays no further job;
#		events of a repository are held during the fetch, and no longer.  R-04, R-05, R-10 to R-13, R-21,
#		R-24, R-50, R-55.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

my ($network, $node, $files) = begin_exports('repos', "atproto.fetch_retry = '1s'\n");
my ($me, $big, $many) = map { did($_) } qw(a c d);

sub serve
{
	my (%cars) = @_;
	$network->repos({ $HOST => { map { $_ => defined $cars{$_} ? { car => "$files/$cars{$_}.car" } : undef } keys %cars } });
	return;
}

sub wait_for_repo
{
	my ($did, $what) = @_;
	wait_for("SELECT EXISTS (SELECT FROM atproto.repo WHERE did = '$did' AND $what)");
	return;
}

sub wait_for_error
{
	my ($did, $error) = @_;
	wait_for("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$did' AND error ~ '$error' AND state <> 'running')");
	return;
}

query("SELECT atproto.subscribe('none', 'wss://$HOST')");
like(($node->psql('postgres', "SELECT atproto.resync('$me')"))[2], qr/subscription "none" fetches no repositories/, 'R-01: backfill none never fetches');
query("UPDATE atproto.subscription SET backfill = 'repair'");

# --- it is there ---

serve($me => 'first', $big => 'big', $many => 'collections');
query("SELECT atproto.resync('$me'), atproto.backfill_repo('$big'), atproto.backfill_repo('$many')");
wait_for_repo($_, "sync = 'synchronized'") foreach ($me, $big, $many);
is(query("SELECT count(*), count(hold), count(synced_at) FROM atproto.repo"), '3|0|3', 'R-55: they are fetched, and nothing of them waits');
is(query('SELECT count(*) FROM atproto.repo_job'), '0', 'R-02: no job is left');
is(query("SELECT did, count(*) FROM atproto.record GROUP BY 1 ORDER BY 1"), join("\n", "$me|537", "$big|20000", "$many|3000"), 'R-52: all records are there');
is(query("SELECT bool_and((atproto.audit(did, deep => true)).equal) FROM atproto.repo"), 't', 'R-52: and no others');

my $before = query('SELECT md5(string_agg(concat_ws($$ $$, did, collection, rkey, ctid, xmin), $$,$$ ORDER BY did, collection, rkey)) FROM atproto.record WHERE did <> $$' . $me . '$$');
serve($me => 'second', $big => 'big', $many => 'collections');
# what documents claim, as look-ups have brought it
query("INSERT INTO atproto.identity (did, state, key, pds, handle_claimed, resolved_at, asked_at) SELECT did, 'good', decode(repeat('00', 35), 'hex'), '$HOST', h, now(), now() FROM (VALUES ('$big'::did, 'big.example.com'::handle), ('$many', 'many.example.com')) v (did, h)");
query("UPDATE atproto.repo SET handle = 'announced.example.com' WHERE did = '$many'");
query("SELECT atproto.resync(did) FROM atproto.repo; UPDATE atproto.repo SET sync = 'desynchronized', synced_at = NULL");
wait_for_repo($_, "sync = 'synchronized' AND synced_at IS NOT NULL AND hold IS NULL") foreach ($me, $big, $many);
is(query("SELECT records FROM atproto.audit('$me')"), '531', 'R-52: a newer one');
is(query("SELECT string_agg(coalesce(handle::text, '-'), ' ' ORDER BY did) FROM atproto.repo"), '- big.example.com announced.example.com', 'F-15: an account that came by an export has the handle that its document claims; an announced one stays');
query('DELETE FROM atproto.identity');
is(query('SELECT md5(string_agg(concat_ws($$ $$, did, collection, rkey, ctid, xmin), $$,$$ ORDER BY did, collection, rkey)) FROM atproto.record WHERE did <> $$' . $me . '$$'),
	$before, 'R-52: where nothing is new, nothing is touched');

# --- in slices ---

my $points = AtprotoTest::Points->new($node);

# All but some rows are removed; the repository is fetched, and an event comes after the first slice.
sub fetch_sliced
{
	my ($before, $between) = @_;

	query("DELETE FROM atproto.record WHERE did = '$big' AND $before; UPDATE atproto.repo SET synced_at = NULL, sync = 'desynchronized' WHERE did = '$big'");
	$points->hold('slice next', 'atproto fetcher');
	query("SELECT atproto.resync('$big')");
	$points->wait('slice next', 'atproto fetcher');
	query($between);
	$points->release('slice next', 'atproto fetcher');
	return;
}

serve($me => 'second', $big => 'big', $many => 'collections');
fetch_sliced("rkey < (SELECT max(rkey) FROM atproto.record WHERE did = '$big')", 'SELECT 1');
wait_for_repo($big, "sync = 'synchronized' AND hold IS NULL AND synced_at IS NOT NULL");
is(query("SELECT equal, records FROM atproto.audit('$big')"), 't|20000', 'R-52: one row before, the newest: what the first slice has written stays');
my $some = "FROM (SELECT * FROM atproto.record WHERE did = '$big' ORDER BY rkey LIMIT 1) r";
fetch_sliced("hashtext(rkey::text) % 10 <> 0", "INSERT INTO atproto.record (did, collection, rkey, cid, rev, value) SELECT did, 'aa.aa.aa', n::text::recordkey, cid, rev, value $some, generate_series(1, 5) n;
	DELETE FROM atproto.record WHERE did = '$big' AND collection = 'app.bsky.feed.post' AND rkey IN (SELECT rkey FROM atproto.record WHERE did = '$big' AND collection = 'app.bsky.feed.post' ORDER BY rkey LIMIT 3)");
wait_for("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$big' AND error = 'the repository has 20002 rows after an export that makes 20000')");
wait_for_repo($big, "sync = 'synchronized' AND hold IS NULL AND synced_at IS NOT NULL");
is(query("SELECT equal, records FROM atproto.audit('$big')"), 't|20000', 'R-52: where a session has changed rows meanwhile, all of it is fetched once more');

# --- what goes wrong ---

foreach my $case (
	[ 'older',          'older than the repository',       'R-50' ],
	[ 'other',          'of another account',              'R-42' ],
	[ 'future',         'lies in the future',              'V-14' ],
	[ 'without_node',   'A tree node is not among',        'R-43' ],
	[ 'without_record', 'A record of the tree is not',     'R-43' ],
	[ 'wrong_hash',     'bytes do not give its CID',       'R-41' ])
{
	my ($car, $error, $rule) = @$case;

	serve($me => $car);
	query("DELETE FROM atproto.repo_job; SELECT atproto.resync('$me')");
	wait_for_error($me, $error);
	wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo WHERE hold IS NOT NULL) OR EXISTS (SELECT FROM atproto.repo_job WHERE state = 'running')");
	is(query("SELECT records FROM atproto.audit('$me')"), '531', "$rule: $car: not a row is touched");
}
cmp_ok(query("SELECT max(tries) FROM atproto.repo_job"), '>', 0, 'R-24: it is tried again');
serve($me => 'again');
wait_for_repo($me, "sync = 'synchronized'");
is(query("SELECT records FROM atproto.audit('$me')"), '531', 'R-24: and is there in the end');
serve($me => 'older');
query("SELECT atproto.resync('$me', force => true)");
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job)");
is(query("SELECT equal, records FROM atproto.audit('$me')"), 't|537', 'R-50: an older one, by force');

serve($me => undef);
query("SELECT atproto.resync('$me')");
wait_for_error($me, 'RepoNotFound|status 400');
is(query("SELECT records FROM atproto.audit('$me')"), '537', 'R-13: a repository that its server does not have keeps its rows');
$network->fault({ host => $HOST, did => $many, path => 'getRepo\\b', status => 429, headers => { 'Retry-After' => '3000' }, times => 1 });
serve($me => undef, $many => 'collections');
query("SELECT atproto.resync('$many')");
wait_for("SELECT error ~ '429' FROM atproto.repo_job WHERE did = '$many'");
is(query("SELECT tries FROM atproto.repo_job WHERE did = '$many'"), '0', 'R-21: a server that has too much to do is no failure of the repository');
query("SELECT atproto.reset_backoff('$HOST')");
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$many')");
pass('R-21: which is fetched when it may be asked');
query("UPDATE atproto.repo SET active = false, status = 'takendown' WHERE did = '$big'; SELECT atproto.resync('$big')");
wait_for("SELECT state = 'suspended' FROM atproto.repo_job WHERE did = '$big'");
is(query("SELECT error FROM atproto.repo_job WHERE did = '$big'"), 'the account is not active', 'R-07: an account that is not active is not fetched');

# --- repositories whose tables their owner cannot write ---

my $fetcher = query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'");
query("DELETE FROM atproto.repo_job; CREATE ROLE poor; GRANT USAGE ON SCHEMA atproto TO poor");
query("INSERT INTO atproto.subscription (name, url, target, enabled, backfill) VALUES ('gone', 'wss://$HOST', 'gone', false, 'repair');
	CREATE SCHEMA poor; INSERT INTO atproto.subscription (name, url, target, enabled, backfill) VALUES ('poor', 'wss://$HOST', 'poor', false, 'repair');
	SELECT atproto.create_tables('poor')");
# the owner has lost the rights since
query("ALTER ROLE poor SUPERUSER; UPDATE atproto.subscription SET owner = 'poor' WHERE name = 'poor'; ALTER ROLE poor NOSUPERUSER");
serve($me => 'first', $many => 'collections');
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason) VALUES ('poor', '$me', 'poor', 0, 'test'); SELECT atproto.resync('$me', 'gone')");
wait_for("SELECT bool_and(error ~ 'may not fill schema|does not exist' AND tries > 0) AND count(*) = 2 FROM atproto.repo_job");
query("UPDATE atproto.repo SET synced_at = NULL; SELECT atproto.resync('$many')");
wait_for_repo($many, 'synced_at IS NOT NULL AND hold IS NULL');
is(query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'"), $fetcher, 'R-57: tables that their owner cannot write to, or that are gone, are a fault of their jobs alone');
query("DELETE FROM atproto.subscription WHERE name IN ('gone', 'poor')");

# --- repositories whose job is gone, or does not run ---

query("UPDATE atproto.repo SET hold = 'resync', sync = 'resyncing' WHERE did IN ('$me', '$many')");
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try) VALUES ('atproto', '$many', 'none', 3, 'test', 'infinity')");
query("SELECT atproto.pause('none')");
wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
query("SELECT atproto.resume('none')");
wait_for_repo($_, "hold IS NULL AND sync = 'desynchronized'") foreach ($me, $many);
is(query("SELECT state FROM atproto.repo_job WHERE did = '$many'"), 'queued', 'R-04: events wait for a fetch, and not for a job that does not run');

# --- the order of jobs ---

query('DELETE FROM atproto.repo_job');
query("UPDATE atproto.repo SET rev = NULL, commit = NULL, sig = NULL, commit_block = NULL, data = NULL, sync = 'partial', hold = NULL");
$network->fault({ host => $HOST, did => $me, path => 'getRepo\\b', hang => 1000 });
query("SELECT atproto.resync('$me'), atproto.resync('$many')");
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$many')");
# after half a minute the request is given up, and repeated once
wait_for("SELECT j.state = 'running' AND r.sync = 'resyncing' AND r.hold = 'resync' FROM atproto.repo_job j JOIN atproto.repo r USING (did) WHERE j.did = '$me'");
pass('a server that hangs keeps no other waiting; R-04: events are kept back before it is asked');
query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'");
$network->unfault(undef);
wait_for_repo($me, "sync = 'synchronized' AND hold IS NULL");
is(query("SELECT equal, records FROM atproto.audit('$me')"), 't|537', 'R-05: what was running goes on when the fetcher has ended in the middle');

# --- hosts in turn ---

wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job)");
$network->repos({ 'quick.example.net' => { $many => { car => "$files/collections.car" } } });
$network->fault({ host => 'slow.example.com', hold => 'slow' });
query("UPDATE atproto.subscription SET repo_source = 'pds'; UPDATE atproto.repo SET synced_at = NULL WHERE did = '$many';
	INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at) SELECT did, 'good', decode(repeat('e7', 35), 'hex'), pds, now(), now()
	FROM (SELECT ('did:web:s' || n || '.example.com')::did, 'slow.example.com' FROM generate_series(1, 300) n UNION ALL SELECT '$many', 'quick.example.net') i (did, pds);
	INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try)
	SELECT 'atproto', did, 'none', 3, 'test', CASE WHEN did = '$many' THEN now() ELSE '-infinity' END FROM atproto.identity");
wait_for_repo($many, 'synced_at IS NOT NULL AND hold IS NULL');
is(query("SELECT count(*) FROM atproto.repo_job WHERE host = 'slow.example.com' AND tries = 0"), '300', 'R-03: hundreds of a host that is slow keep no other host waiting');
query("UPDATE atproto.subscription SET repo_source = NULL; DELETE FROM atproto.repo_job; DELETE FROM atproto.identity");
$network->unfault(undef);

# --- situations in which the fetcher could end ---

wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job)");
$network->fault({ host => $HOST, did => $me, path => 'getRepo\\b', hang => 1000 });
query("SELECT atproto.resync('$me')");
wait_for("SELECT state = 'running' FROM atproto.repo_job");
query("UPDATE atproto.repo_job SET tries = 20");
query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'");
wait_for("SELECT state = 'queued' FROM atproto.repo_job");
is(query("SELECT tries, next_try > now() + interval '12 hours', error FROM atproto.repo_job"), '21|t|the fetcher ended while the repository was being fetched',
	'R-05: a repository with which the fetcher ends again and again is tried less and less often');
$network->unfault(undef);
query("SELECT atproto.resync('$me')");
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job)");

# --- a repository whose job a session has locked ---

$network->fault({ host => $HOST, did => $me, path => 'getRepo\\b', hold => 'locked', status => 500, body => 'x', times => 1 });
query("SELECT atproto.resync('$me')");
wait_for("SELECT state = 'running' FROM atproto.repo_job");
my $session = $node->background_psql('postgres');
$session->query_safe("BEGIN; SELECT atproto.resync('$me')");
$network->release('locked');
wait_for_repo($me, 'hold IS NULL');
query("UPDATE atproto.repo SET synced_at = NULL WHERE did = '$many'; SELECT atproto.resync('$many')");
wait_for_repo($many, 'synced_at IS NOT NULL AND hold IS NULL');
pass('who asks for a repository and does not commit keeps no other waiting');
query("UPDATE atproto.repo SET synced_at = NULL WHERE did = '$me'");
$session->query_safe('COMMIT');
$session->quit;
wait_for_repo($me, 'synced_at IS NOT NULL AND hold IS NULL');
pass('and has it fetched when that is committed');

done_testing();
