# 348_repo_refusals.pl
#		A server refuses to give a repository.  If the server has none, the fetcher looks the account up
#		again; the account is inactive, by the server or by the stream, before the fetch or during the
#		fetch; no known key signed the export.  The test also checks which server is asked, and how often.
#		R-07, R-10, R-12, R-13, W-36.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use AtprotoTest::Points;
use AtprotoTest::Simulated;
use JSON::PP;
use Test::More;

my ($network, $node) = begin_simulated('refusals', "atproto.fetch_allow = 'http://$HOST'\n", '--events' => 100, '--accounts' => 12, '--epoch' => 50);
my $files = make_exports();
my @dids = simulated_dids();
cmp_ok(scalar @dids, '>=', 8, 'there are accounts') or BAIL_OUT('too few');

sub serve
{
	my ($at, $did, $car) = @_;
	$network->repos({ $at => { $did => $car ? { car => $car } : undef } });
	return;
}

sub wait_for_repo
{
	my ($target, $did, $what) = @_;
	wait_for("SELECT EXISTS (SELECT FROM $target.repo WHERE did = '$did' AND $what) AND NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$did')");
	return;
}

# --- the server has no such repository ---

my $did = shift @dids;
document($did, pds => 'old.example.com');
look_up($did);
document($did, pds => 'new.example.com');
serve('new.example.com', $did, car($did, 2));
serve('old.example.com', $did);
query("SELECT atproto.resync('$did', 'f')");
wait_for_repo('f', $did, "sync = 'synchronized' AND verified");
is(join(',', asked('old.example.com', $did), asked('new.example.com', $did)), '1,1', 'R-13: it is where it is now, as a new look-up says, at once');

my $rows = query("SELECT count(*) FROM f.record WHERE did = '$did'");
serve('new.example.com', $did);
query("UPDATE atproto.identity SET asked_at = now() - interval '30 min' WHERE did = '$did'; SELECT atproto.resync('$did', 'f')");
wait_for_failure($did);
is(asked('new.example.com', $did), 2, 'R-13: where the look-up says nothing new, nobody is asked again at once');
is(query("SELECT next_try > now() + interval '30 min', error ~ 'status 400' FROM atproto.repo_job WHERE did = '$did'"), 't|t', 'R-13: but later');
is(query("SELECT asked_at > now() - interval '20 min' FROM atproto.identity WHERE did = '$did'"), 't', 'W-36: it was looked up, although it was not old');
is(query("SELECT count(*) FROM f.record WHERE did = '$did'"), $rows, 'R-13: its rows stay');
is(query("SELECT sync, active, hold IS NULL FROM f.repo WHERE did = '$did'"), 'desynchronized|t|t', 'R-13: it is as it was, but for what may have been missed');

# --- the known key has not signed the export ---

$did = shift @dids;
document($did, pds => 'keys.example.com', key => key_of($dids[0]));
look_up($did);
document($did, pds => 'keys.example.com');
serve('keys.example.com', $did, car($did, 2));
query("SELECT atproto.resync('$did', 'f')");
wait_for_repo('f', $did, "sync = 'synchronized' AND verified");
is(asked('keys.example.com', $did), 2, 'W-36: an export that is signed by a newer key');

$did = shift @dids;
document($did, pds => 'keys.example.com', key => key_of($dids[0]));
look_up($did);
serve('keys.example.com', $did, car($did, 2));
query("SELECT atproto.resync('$did', 'f')");
wait_for_failure($did);
is(asked('keys.example.com', $did), 1, 'W-36: one that is signed by no key is not fetched twice');
is(query("SELECT error FROM atproto.repo_job WHERE did = '$did'"), "the commit is not signed by the account's key", 'and the job says so');
is(query("SELECT count(*) FROM f.record WHERE did = '$did'"), '0', 'R-42: nothing of it is in the tables');

# while the document cannot be read again, a session's call does not wait for the look-up
$did = shift @dids;
document($did, pds => 'keys.example.com');
look_up($did);
query("CREATE TABLE right_key AS SELECT key FROM atproto.identity WHERE did = '$did'");
document($did, pds => 'keys.example.com', key => key_of($dids[0]));
look_up($did);
serve('keys.example.com', $did, car($did, 2));
$network->fault({ path => "^/\Q$did\E", hold => 'document' });
query("SELECT atproto.resync('$did', 'f')");
wait_for("SELECT doubted IS NOT NULL FROM atproto.repo_job WHERE did = '$did'");
query("UPDATE atproto.identity SET key = (SELECT key FROM right_key) WHERE did = '$did'; SELECT atproto.resync('$did', 'f')");
wait_for_repo('f', $did, "sync = 'synchronized' AND verified");
is(query("SELECT error IS NULL FROM atproto.identity WHERE did = '$did'"), 't', "R-10: it is fetched at once, although the account's document has not come");
$network->release('document');
$network->unfault(undef);

# --- the account is inactive at the server ---

foreach my $case ([ 'RepoTakendown', 'takendown', 400 ], [ 'RepoSuspended', 'suspended', 403 ], [ 'RepoDeactivated', 'deactivated', 400 ])
{
	my ($error, $status, $code) = @$case;
	my $pds = "$status.example.com";

	$did = shift @dids;
	document($did, pds => $pds);
	look_up($did);
	$network->fault({ host => $pds, status => $code, body => encode_json({ error => $error, message => 'x' x 3000 }) });
	query("SELECT atproto.resync('$did', 'f')");
	wait_for("SELECT state = 'suspended' FROM atproto.repo_job WHERE did = '$did'");
	is(query("SELECT active, status, host, sync, hold IS NULL FROM f.repo WHERE did = '$did'"), "f|$status|$pds|partial|t", "R-13: $error: the account is not active");
	is(asked($pds, $did), 1, 'and its server is left alone');
}

# an #account event that comes during the request is newer than the answer
$did = shift @dids;
document($did, pds => 'raced.example.com');
look_up($did);
$network->fault({ host => 'raced.example.com', path => 'getRepo\\b', status => 400, body => '{"error":"RepoTakendown"}', hold => 'raced' });
query("SELECT atproto.resync('$did', 'f')");
$network->wait_for_log(1, host => 'raced.example.com', path => qr/getRepo\?/);
query("UPDATE f.repo SET status_at = now(), status_seq = 7 WHERE did = '$did'");
$network->release('raced');
wait_for_failure($did);
is(query("SELECT active, status, sync, hold IS NULL FROM f.repo WHERE did = '$did'"), 't||partial|t', 'R-13: an #account since the request wins');

# --- the account is not active by the stream ---

my $me     = did('a');
my $server = AtprotoTest::Server->start(
	make_capture('steps.py', 'b 1 +x', 'a takendown', 'a active', 'a deactivated', 'a active', 'a deleted', 'c 1 +x', 'c takendown', 'c 2 +y'),
	map { ('--hold-at', $_) } 2 .. 6, 9);
$network->hosts({ $HOST => { stream => $server->port } });
serve($HOST, $me, "$files/first.car");
$network->fault({ host => $HOST, path => 'getRepo\\b', hang => 1000 });
query("SELECT atproto.subscribe('s', 'ws://$HOST', allow_insecure => true, cursor => 0, backfill => 'repair')");
wait_for_seq($node, 's', 1);
query("SELECT atproto.resync('$me')");
wait_for("SELECT state = 'running' FROM atproto.repo_job WHERE did = '$me'");
$server->release;
wait_for("SELECT state = 'suspended' FROM atproto.repo_job WHERE did = '$me'");
wait_for("SELECT hold IS NULL FROM atproto.repo WHERE did = '$me'");
wait_for('SELECT transfers = 0 FROM atproto.stat_fetcher');
is(query("SELECT active, status, sync FROM atproto.repo WHERE did = '$me'"), 'f|takendown|partial', 'R-07: the fetch of an account that becomes inactive is ended in the middle');
is(query("SELECT state, error FROM atproto.repo_job WHERE did = '$me'"), 'suspended|the account is not active', 'R-07: its job waits');
$network->unfault(undef);
$server->release;
wait_for_repo('atproto', $me, "sync = 'synchronized' AND hold IS NULL");
is(query("SELECT count(*) FROM atproto.record WHERE did = '$me'"), '537', 'R-07: it goes on when the account is active');

sub put_off
{
	query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try) VALUES ('atproto', '$me', 's', 1, 'break', 'infinity')");
	return;
}

put_off();
$server->release;
wait_for("SELECT state = 'suspended' FROM atproto.repo_job WHERE did = '$me'");
$server->release;
wait_for_repo('atproto', $me, "sync = 'synchronized' AND active");
pass('R-07: likewise while it is in the queue');
put_off();
query("INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, did, message) VALUES ('s', 'beyond', '54000', '$me', 'of an export')");
$server->release;
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$me')");
is(query("SELECT count(*) FROM atproto.dead_letter WHERE did = '$me'"), '0', 'nor are letters left of one');
is(query("SELECT status FROM atproto.repo WHERE did = '$me'"), 'deleted', 'R-07: of an account that is gone nothing is fetched');

my $silent = did('c');
wait_for_seq($node, 's', 8);
query("UPDATE atproto.repo SET sync = 'desynchronized' WHERE did = '$silent'");
$server->release;
wait_for_seq($node, 's', 9);
is(query("SELECT r.active, r.sync, j.did FROM atproto.repo r LEFT JOIN atproto.repo_job j USING (did) WHERE did = '$silent'"), 'f|desynchronized|',
	'V-38: a commit of an account that is not active has nothing fetched');

# --- who is asked ---

sub source
{
	my ($subscription, $source) = @_;
	query("UPDATE atproto.subscription SET repo_source = $source WHERE name = '$subscription'");
	return;
}

my $other = did('d');
my %sources = (upstream => $HOST, pds => 'own.example.com', 'https://mirror.example.com' => 'mirror.example.com');
$network->documents({ $other => $network->document($other, key => key_of((simulated_dids())[0]), pds => 'own.example.com') });
serve($_, $other, "$files/collections.car") foreach values %sources;
my $asked = 0;
foreach my $source (sort keys %sources)
{
	source('s', "'$source'");
	query("SELECT atproto.resync('$other')");
	wait_for_repo('atproto', $other, "sync = 'synchronized'");
	is(asked($sources{$source}, $other), 1, "R-10: repo_source $source");
	is(scalar(map { (1) x asked($_, $other) } values %sources), ++$asked, 'and nobody else');
}
source('s', 'NULL');
query("SELECT atproto.resync('$other')");
wait_for_repo('atproto', $other, "sync = 'synchronized'");
is(asked($HOST, $other), 2, 'R-10: below level full, the server of the stream');

$did = shift @dids;
document($did, pds => 'unasked.example.com');
source('full', "'https://mirror.example.com'");
serve('mirror.example.com', $did, car($did, 2));
query("SELECT atproto.resync('$did', 'f')");
wait_for_repo('f', $did, "sync = 'synchronized' AND verified");
is(asked('unasked.example.com', $did), 0, 'R-10: a mirror is believed what the account has signed');
like(($node->psql('postgres', "SELECT atproto.subscribe('x', 'wss://$HOST', repo_source => 'https://a/b')"))[2], qr/invalid value for "repo_source": "https:..a.b"/, 'R-10: a mirror is a host');

# --- an export of which only the first slice has come into the tables, before the account was not active for a moment ---

my $points = AtprotoTest::Points->new($node);
my $large  = did('c');

# Steps of the stream: before the fetch, during the fetch, and each after the one before.
sub begin_slice
{
	my ($name, @steps) = @_;
	my $stream = AtprotoTest::Server->start(make_capture('steps.py', @steps), map { ('--hold-at', $_) } 2 .. @steps);

	$network->hosts({ $HOST => { stream => $stream->port } });
	serve($HOST, $large, "$files/big.car");
	query("CREATE SCHEMA $name; SELECT atproto.subscribe('$name', 'ws://$HOST', target => '$name', allow_insecure => true, cursor => 0, backfill => 'repair')");
	wait_for_seq($node, $name, 1);
	$points->hold('slice next', 'atproto fetcher');
	query("SELECT atproto.resync('$large', '$name')");
	$points->wait('slice next', 'atproto fetcher');
	$stream->release;
	wait_for_seq($node, $name, 2);
	my $fault = $network->fault({ host => $HOST, path => 'getRepo\\b', status => 500 });
	$points->release('slice next', 'atproto fetcher');
	wait_for("SELECT hold IS NULL FROM $name.repo WHERE did = '$large'");
	$stream->release;
	wait_for_seq($node, $name, 3);
	return ($stream, $fault);
}

sub end_slice
{
	my ($name, $fault) = @_;
	$network->unfault($fault);
	query("SELECT atproto.unsubscribe('$name')");
	return;
}

my ($stream, $fault) = begin_slice('began', 'b 1 +x', 'c deactivated', 'c active', 'c 9 +x');
$stream->release;
wait_for_seq($node, 'began', 4);
# a slice ends with 10,000 rows, or after half a second
is(query("SELECT sync, (SELECT count(*) BETWEEN 2 AND 10001 FROM began.record WHERE did = '$large') FROM began.repo WHERE did = '$large'"), 'desynchronized|t',
	'V-35: the first commit that the stream has does not prove the records of the export');
end_slice('began', $fault);

($stream, $fault) = begin_slice('gone', 'c 1 +x', 'c deactivated', 'c active', 'c deleted');
is(query("SELECT sync, (SELECT count(*) BETWEEN 2 AND 10001 FROM gone.record WHERE did = '$large') FROM gone.repo WHERE did = '$large'"), 'desynchronized|t', 'a part of the export is there');
$stream->release;
wait_for_seq($node, 'gone', 4);
wait_for("SELECT purge_rev IS NULL FROM gone.repo WHERE did = '$large'");
is(query("SELECT count(*) FROM gone.record WHERE did = '$large'"), '0', 'F-15: the records of an export that are newer than the last commit go with the account');
end_slice('gone', $fault);

# --- at level full, the stream says that the account was deleted, between the first two slices of its first fetch ---

query($_) foreach 'ALTER SYSTEM SET atproto.test_merge_slice = 1', 'SELECT pg_reload_conf()';
$did = shift @dids;
document($did, pds => 'denies.example.com');
look_up($did);
$network->repos({ 'denies.example.com' => { $did => { car => car($did, 2), active => JSON::PP::true } } });
$fault = $network->fault({ host => 'denies.example.com', path => 'getRepoStatus\\b', status => 500 });
my @deletion = map { s/\Q@{[did('a')]}\E/$did/r } read_capture(make_capture('steps.py', 'a deleted'));
$stream = AtprotoTest::Server->start(write_capture("$files/deletion", @deletion), '--hold-at', 1);
$network->hosts({ $HOST => { stream => $stream->port } });
query("SELECT atproto.subscribe('denied', 'ws://$HOST', target => 'f', allow_insecure => true, cursor => 0, verify => 'full', backfill => 'repair')");
$points->hold('slice next', 'atproto fetcher');
query("SELECT atproto.resync('$did', 'f')");
$points->wait('slice next', 'atproto fetcher');
$stream->release;
wait_for_seq($node, 'denied', 1);
$points->release('slice next', 'atproto fetcher');
wait_for("SELECT hold IS NULL FROM f.repo WHERE did = '$did'");
is(query("SELECT status, purge_rev, (SELECT count(*) FROM f.record r WHERE r.did = p.did) FROM f.repo p WHERE did = '$did'"), 'deleted||1',
	'V-47: what the fetch has written stays until the server confirms the deletion');
$network->unfault($fault);
query("UPDATE atproto.status_request SET next_try = 'epoch'");
wait_for_repo('f', $did, "sync = 'synchronized' AND active");
pass('V-47: it does not, and the repository is fetched');

done_testing();
