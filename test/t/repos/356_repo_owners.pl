# 356_repo_owners.pl
#		Owners act while their repositories are fetched: they lock their tables and their jobs, change the
#		filters, the target and the backfill of their subscription, or unsubscribe while a second
#		subscription fills the same tables.  The repositories of other owners are fetched without delay, and
#		no requested fetch is lost.  R-01, R-02, R-57, R-58.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use Test::More;

my ($network, $node, $files) = begin_exports('repo_owners', "atproto.fetch_retry = '1s'\n");
my ($me, $many, $never) = map { did($_) } qw(a d b);

$network->repos({ $HOST => { $me => { car => "$files/first.car" }, $many => { car => "$files/collections.car" } } });

# A schema, and subscriptions with these names and options that fill the schema.
sub make_target
{
	my ($s, %subscriptions) = @_;

	query("CREATE SCHEMA $s; SELECT atproto.create_tables('$s')");
	query("SELECT atproto.subscribe('$_', 'wss://$HOST', target => '$s', $subscriptions{$_})") foreach sort keys %subscriptions;
	return;
}

sub wait_for_repo
{
	my ($s, $did) = @_;
	wait_for("SELECT EXISTS (SELECT FROM $s.repo WHERE did = '$did' AND sync = 'synchronized' AND hold IS NULL) AND NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$did' AND target = '$s')");
	return;
}

sub add_job
{
	my ($s, $name, $did) = @_;
	query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try) VALUES ('$s', '$did', '$name', 1, 'test', 'infinity')");
	return;
}

make_target('other', other => "backfill => 'repair'");

# --- a table is locked ---

make_target('locked', locked => "backfill => 'repair'");
query("CREATE ROLE locker LOGIN SUPERUSER; UPDATE atproto.subscription SET owner = 'locker' WHERE name = 'locked'");
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; LOCK TABLE locked.repo IN EXCLUSIVE MODE');
query("SELECT atproto.resync(('did:plc:' || translate(lpad(i::text, 24, 'a'), '0189', 'bcde'))::did, 'locked') FROM generate_series(1, 100) i");
wait_for("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE target = 'locked' AND tries > 0)");
query("SELECT atproto.resync('$me', 'other')");
wait_for_repo('other', $me);
cmp_ok(query("SELECT count(*) FROM atproto.repo_job WHERE target = 'locked' AND tries > 0"), '<', '20', 'who has locked his tables keeps no other waiting for each of his repositories');
query("DELETE FROM atproto.repo_job WHERE target = 'locked'; SELECT atproto.resync('$me', 'locked')");
$session->query_safe('COMMIT');
wait_for_repo('locked', $me);
pass('and has them fetched when he is done');

# --- a job is locked ---

stop_at_fetch($many, 'locked');
$session->query_safe("BEGIN; SELECT FROM atproto.repo_job WHERE target = 'locked' FOR UPDATE");
go_on();
wait_for("SELECT EXISTS (SELECT FROM locked.repo WHERE did = '$many' AND sync = 'synchronized' AND hold IS NULL)");
is(query("SELECT count(*) FROM atproto.repo_job WHERE target = 'locked'"), '1', 'a repository whose job is locked comes into the tables, without waiting for that');
$session->query_safe('COMMIT');
wait_for_repo('locked', $many);
pass('its job is done once more');

# --- a filter is widened meanwhile ---

make_target('wider', wider => "backfill => 'repair', collections => '{com.example.nothing}'");
stop_at_fetch($many, 'wider');
query("UPDATE atproto.subscription SET collections = NULL WHERE name = 'wider'");
is(query("SELECT atproto.resync_all('wider')"), '0', 'R-02: what is being fetched is no new job');
go_on();
wait_for_repo('wider', $many);
is(query("SELECT equal, records FROM atproto.audit('$many', 'wider')"), 't|3000', 'a filter that was widened while a repository was fetched counts for it');
stop_at_fetch($me, 'wider');
query("UPDATE atproto.subscription SET max_held_events = max_held_events + 1 WHERE name = 'wider'");
my $asked = () = $network->log(host => $HOST, path => qr/getRepo/);
go_on();
wait_for_repo('wider', $me);
is(scalar(() = $network->log(host => $HOST, path => qr/getRepo/)), $asked, 'what changes no row has nothing fetched again');

# --- an owner loses the right to fill the target, while jobs of its subscription wait ---

make_target('lost', lost_b => "backfill => 'repair'", lost_c => "verify => 'full'");
query("CREATE ROLE loser LOGIN; GRANT USAGE ON SCHEMA lost TO loser; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA lost TO loser");
query("INSERT INTO atproto.subscription (name, url, target, owner, backfill, repo_source) VALUES ('lost_a', 'wss://$HOST', 'lost', 'loser', 'repair', 'https://silent.example.com')");
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, tries, next_try) VALUES ('lost', '$me', 'lost_a', 1, 'break', 3, 'infinity');
	INSERT INTO atproto.status_request (target, did, subscription, why, requested_at, next_try) VALUES ('lost', '$never', 'lost_a', 'inactive', now(), 'infinity')");
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason) VALUES ('lost', '$many', 'lost_b', 0, 'asked')");
wait_for_repo('lost', $many);
is(query("SELECT subscription FROM atproto.repo_job WHERE did = '$me' AND target = 'lost'"), 'lost_a', 'a job is of the subscription that it was made for');
query('REVOKE ALL ON ALL TABLES IN SCHEMA lost FROM loser');
wait_for_repo('lost', $me);
pass('R-01: when its owner may not fill the target any more, the job is the other one\'s');
wait_for("SELECT subscription = 'lost_c' FROM atproto.status_request WHERE target = 'lost'");
pass('V-39: and what its subscription wanted to know of accounts, another one asks');
query("DELETE FROM atproto.subscription WHERE name = 'lost_a'; SELECT atproto.unsubscribe('lost_b'), atproto.unsubscribe('lost_c')");

# --- two subscriptions, one target ---

make_target('two', two_a => "keep_raw => false", two_b => "backfill => 'repair'");
query("SELECT atproto.resync('$me', 'two')");
wait_for_repo('two', $me);
pass('R-01: one of two subscriptions to a target that fetches does so, whatever its name');
add_job('two', 'two_b', $never);
query("UPDATE atproto.subscription SET backfill = 'repair' WHERE name = 'two_a'; UPDATE atproto.subscription SET backfill = 'none' WHERE name = 'two_b'");
is(query("SELECT subscription FROM atproto.repo_job WHERE target = 'two'"), 'two_a', 'R-02: a job of one that fetches no more is the other one\'s');
query("UPDATE atproto.subscription SET backfill = 'repair', dids = '{$me}' WHERE name = 'two_b'; SELECT atproto.unsubscribe('two_a')");
is(query("SELECT count(*) FROM atproto.repo_job WHERE target = 'two'"), '0', 'but not of one that does not follow the account');
query("SELECT atproto.subscribe('two_a', 'wss://$HOST', target => 'two', backfill => 'repair')");
add_job('two', 'two_a', $me);
query("SELECT atproto.unsubscribe('two_a')");
is(query("SELECT subscription FROM atproto.repo_job WHERE target = 'two'"), 'two_b', 'R-02: unsubscribe() leaves the jobs of one target to the other one');
query("UPDATE atproto.subscription SET target = 'other' WHERE name = 'two_b'");
is(query("SELECT count(*) FROM atproto.repo_job WHERE target = 'two'"), '0', 'with another target, the jobs of the former one are dropped');

# --- the subscription stops fetching ---

make_target('no_more', no_more => "backfill => 'repair'");
query("BEGIN; SELECT atproto.resync('$me', 'no_more'); UPDATE atproto.subscription SET backfill = 'none' WHERE name = 'no_more'; COMMIT");
query("UPDATE other.repo SET synced_at = NULL; SELECT atproto.resync('$me', 'other')");
wait_for("SELECT EXISTS (SELECT FROM other.repo WHERE synced_at IS NOT NULL)");
is(query("SELECT state FROM atproto.repo_job WHERE target = 'no_more'"), 'queued', 'R-01: with none, nothing is fetched, and jobs stay');
query("UPDATE atproto.subscription SET backfill = 'repair' WHERE name = 'no_more'");
wait_for_repo('no_more', $me);
pass('R-01: they are done when something is again');

$session->quit;
$node->stop;
done_testing();
