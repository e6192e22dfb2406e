# 356_repo_owners.pl
#		Owners act while their repositories are fetched: they lock their tables and their jobs, change the
#		filters, the target and the backfill of their subscription, or unsubscribe while a second
#		subscription fills the same tables.  The repositories of other owners are fetched without delay, no
#		requested fetch is lost, and no dead letter without a mark.  R-01, R-02, R-56, R-57, R-58.

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
query("SELECT atproto.resync('$me', 'other')");
wait_for_repo('other', $me);
is(query("SELECT count(*) FROM atproto.repo_job WHERE target = 'locked'"), '1', 'others do not wait for a job that a session has locked: it may be removing the job');
$session->query_safe('COMMIT');
wait_for_repo('locked', $many);
pass('its repository is fetched when the session ends');

# --- the hosts of an owner are slow ---

my $quick = 'quick.example.com';
$network->repos({ $quick => { $me => { car => "$files/first.car" } } });
make_target('slow', slow => "backfill => 'repair'");
make_target('quick', quick => "backfill => 'repair', repo_source => 'https://$quick'");
query("UPDATE atproto.subscription SET owner = 'locker' WHERE name = 'slow'; ALTER SYSTEM SET atproto.fetch_memory = '16MB'; SELECT pg_reload_conf()");
$network->fault({ host => $HOST, path => 'getRepo\\b', hold => 'gate' });
query("SELECT atproto.resync(('did:plc:' || translate(lpad(i::text, 24, 'a'), '0189', 'bcde'))::did, 'slow') FROM generate_series(1, 100) i");
wait_for("SELECT count(*) >= 3 FROM atproto.repo_job WHERE target = 'slow' AND state = 'running'");
query("SELECT atproto.resync('$me', 'quick')");
wait_for_repo('quick', $me);
is(query("SELECT count(*) FROM atproto.repo_job WHERE target = 'slow' AND state = 'running'"), '3', 'of four places for transfers, who has slow hosts leaves one to others');
query("DELETE FROM atproto.repo_job WHERE target = 'slow'; SELECT atproto.unsubscribe('slow'), atproto.unsubscribe('quick'); ALTER SYSTEM RESET atproto.fetch_memory; SELECT pg_reload_conf()");
go_on();

# --- a filter is widened meanwhile ---

make_target('wider', wider => "backfill => 'repair', fetch_as => 'whole', collections => '{com.example.nothing}'");
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

# --- a subscription goes, and its dead letters with it ---

# A target whose trigger refuses seven records of an export, and what is left when its first subscription has done this.
sub lose_letters
{
	my ($s, $how, %o) = @_;

	make_target($s, "${s}_a" => "backfill => 'repair'");
	query("UPDATE atproto.subscription SET max_dead_letters = $o{room} WHERE name = '${s}_a'") if $o{room};
	query("CREATE FUNCTION $s.refuse() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN IF NEW.rkey::text = '~' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END \$\$;
		CREATE TRIGGER refuse BEFORE INSERT ON $s.record FOR EACH ROW EXECUTE FUNCTION $s.refuse(); SELECT atproto.resync('$me', '$s')");
	wait_for_repo($s, $me);
	is(query("SELECT subscription, sum(attempts), count(superseded_rev) FROM atproto.dead_letter GROUP BY 1"), "${s}_a|7|0", "R-56: $s: an export leaves letters");
	query("DROP TRIGGER refuse ON $s.record");
	query("SELECT atproto.subscribe('${s}_b', 'wss://$HOST', target => '$s', backfill => 'repair')") if $o{second};
	query($o{before}) if $o{before};
	return query("BEGIN; $how; SELECT sync, (SELECT string_agg(subscription || ' ' || reason, ',') FROM atproto.repo_job WHERE target = '$s'),
		(SELECT string_agg(concat_ws(' ', subscription, reason, events), ',') FROM atproto.gap WHERE target = '$s') FROM $s.repo WHERE did = '$me'; COMMIT");
}

is(lose_letters('letters', "DO 'BEGIN PERFORM atproto.unsubscribe(''letters_a''); END'", second => 1), 'desynchronized|letters_b break|',
	'R-56: with the letters of an export nothing else says what is missing: the repository is marked, and fetched for the other subscription');
wait_for_repo('letters', $me);
is(query("SELECT equal FROM atproto.audit('$me', 'letters', deep => true)"), 't', 'R-56: and nothing is missing');
is(lose_letters('removed', "DELETE FROM atproto.subscription WHERE name = 'removed_a'"), 'desynchronized||', 'R-56: without another one, the mark stays');
is(lose_letters('beyond', "DELETE FROM atproto.subscription WHERE name = 'beyond_a'", room => 40), 'desynchronized||', 'R-56: letters beyond the share have no export fetched again, and count, too');
is(lose_letters('moved', "UPDATE atproto.subscription SET target = 'other' WHERE name = 'moved_a'"), 'desynchronized||', 'R-56: so does that of a former target');
query("SELECT atproto.unsubscribe('moved_a')");
is(lose_letters('told', "UPDATE atproto.subscription SET backfill = 'none' WHERE name = 'told_a'", second => 1), 'synchronized||', 'a letter that stays tells by itself');
query("SELECT atproto.resync('$me', 'told')");
wait_for("SELECT count(superseded_rev) = 7 FROM atproto.dead_letter");
wait_for_repo('told', $me);
is(query("BEGIN; DELETE FROM atproto.subscription WHERE name = 'told_a'; SELECT sync FROM told.repo WHERE did = '$me'; COMMIT"), 'synchronized', 'R-56: what the other one has exported since is not missing');
is(lose_letters('refusing', "DELETE FROM atproto.subscription WHERE name = 'refusing_a'",
	before => "CREATE TRIGGER refuse BEFORE UPDATE ON refusing.repo FOR EACH ROW EXECUTE FUNCTION refusing.refuse(); ALTER TABLE refusing.repo ADD rkey text DEFAULT '~'"),
	'synchronized||dead letters dropped 7', 'R-56: where the mark is refused, a row says how many letters went');

# A letter of a stream makes no repository synchronized: what is synchronized has been proven since.
make_target('streamed', streamed_a => "backfill => 'repair'");
query("SELECT atproto.resync('$me', 'streamed')");
wait_for_repo('streamed', $me);
query("INSERT INTO atproto.dead_letter (subscription, stage, seq, sqlstate, did, message) VALUES ('streamed_a', 'beyond', 3, '54000', '$me', 'too many')");
is(query("BEGIN; UPDATE streamed.repo SET sync = '$_->[0]'; DELETE FROM atproto.subscription WHERE name = 'streamed_a'; SELECT sync FROM streamed.repo; ROLLBACK"), $_->[1], "R-56: a letter of a stream goes, of a repository that is $_->[0]")
  foreach [ 'synchronized', 'synchronized' ], [ 'unproven', 'unproven' ], [ 'partial', 'desynchronized' ];
query('DELETE FROM atproto.dead_letter');

# A session that calls retry() locks the subscription first, and then the repository.
lose_letters('queue', 'SELECT');
my $leaver = $node->background_psql('postgres');
$session->query_safe("BEGIN; SELECT FROM queue.repo WHERE did = '$me' FOR NO KEY UPDATE");
$leaver->query_until(qr/^go$/m, "\\echo go\nSELECT atproto.unsubscribe('queue_a');\n");
wait_for("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'SELECT atproto.unsubscribe%')");
is($session->query("SELECT name FROM atproto.subscription WHERE name = 'queue_a' FOR KEY SHARE SKIP LOCKED"), '', 'R-56: unsubscribe() has locked the subscription before it waits for repositories');
$session->query_safe('COMMIT');
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.subscription WHERE name = 'queue_a')");
is(query("SELECT sync FROM queue.repo WHERE did = '$me'"), 'desynchronized', 'R-56: and marks them then');
$leaver->quit;

# --- a refill ends with its subscription ---

make_target('again', again_a => "backfill => 'repair'", again_b => "backfill => 'repair'");
query("SELECT atproto.resync('$me', 'again')");
wait_for_repo('again', $me);
query("UPDATE again.repo SET sync = 'partial', data = NULL, refill_by = (SELECT id::text FROM atproto.subscription WHERE name = 'again_a'), refill_rev = rev, refill_to = rev, refill_at = now()");
is(query("BEGIN; DELETE FROM atproto.subscription WHERE name = 'again_a'; SELECT sync, subscription, reason FROM again.repo JOIN atproto.repo_job USING (did); COMMIT"), 'desynchronized|again_b|break',
	'R-01: a repository whose refill ends without its last event is fetched for the other subscription');
wait_for_repo('again', $me);

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
