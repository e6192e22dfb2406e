# 289_deletions.pl
#		At level full, the stream announces the deletion of an account.  Its records are hidden at once, and
#		removed when its server or the directory agrees, or when no source has contradicted for seven days.
#		With one process, with several, and after a crash.  V-47, R-12, R-13.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Keys;
use AtprotoTest::Network;
use AtprotoTest::Points;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;

use constant DAY => 86400;

my $capture = make_capture('full.py', 'deletions');
my @keys    = map { [ split /\t/ ] } split /\n/, slurp_file(make_capture('full.py', 'deletions', '--keys'));
my %who     = map { $_->[0] => { did => $_->[1], key => $_->[2], pds => "$_->[0].example.com" } } @keys;
my $all     = @keys;
my %deleted = map { $keys[$_][0] => 2 * $all + $_ + 1 } 0 .. $#keys;
my $status  = q{getRepoStatus\?did=};
my ($network, $clock);

# Makes time pass until the query is true; requests without an answer are repeated at growing intervals.
sub wait_long_for
{
	my ($sql) = @_;
	wait_until(
		sub {
			return 1 if query($sql) eq 't';
			$clock->later(700);
			return 0;
		},
		$sql);
	return;
}

sub of
{
	my ($name) = @_;
	return "did = '$who{$name}{did}'";
}

# The stored records of an account, and those that readers see.
sub records_of
{
	my ($name) = @_;
	return join ' ', map { "$_: " . query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM atproto.$_ WHERE " . of($name)) } qw(record visible_record);
}

sub state_of { return query('SELECT active, status, deleted_rev IS NOT NULL FROM atproto.repo WHERE ' . of($_[0])) }

sub letters_of { return query("SELECT count(*) FROM atproto.dead_letter WHERE stage = 'apply' AND " . of($_[0])) }

sub is_purged
{
	my ($name, $why) = @_;

	wait_long_for('SELECT deleted_rev = rev FROM atproto.repo WHERE ' . of($name));
	# a consumer looks every five minutes
	$clock->later(400);
	wait_for('SELECT count(*) = 0 FROM atproto.record WHERE ' . of($name));
	is(state_of($name), 'f|deleted|t', $why);
	# the letter goes after the row says so
	wait_for('SELECT count(*) = 0 FROM atproto.dead_letter WHERE ' . of($name));
	return;
}

# The network: each account's own server, and its document.
sub begin
{
	$network->reset;
	$network->documents({
		map { $who{$_}{did} => $network->document($who{$_}{did}, pds => $who{$_}{pds}, key => AtprotoTest::Keys::text_of(pack 'H*', $who{$_}{key})) }
		keys %who });
	$network->repos({
		map { $who{ $_->[0] }{pds} => { $who{ $_->[0] }{did} => $_->[1] } }
		[ deleted => { active => JSON::PP::false, status => 'deleted' } ], [ alive => { active => JSON::PP::true } ],
		[ takendown => { active => JSON::PP::false, status => 'takendown' } ], [ back => { active => JSON::PP::false, status => 'deleted' } ],
		[ again => { active => JSON::PP::false, status => 'deleted' } ] });
	foreach my $name (keys %who)
	{
		query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at)"
			. " VALUES ('$who{$name}{did}', 'good', '\\x$who{$name}{key}', '$who{$name}{pds}', now() - interval '2 h', now() - interval '1 h')");
	}
	return;
}

# A new server, at the beginning of the stream.
sub start_node
{
	my ($name) = @_;
	my $node = make_node($name, start => AtprotoTest::Preload->make(network => $network), conf => $network->settings . <<'EOF2');
max_worker_processes = 16
atproto.reconnect_delay = 50ms
atproto.audits = off
EOF2

	$clock = AtprotoTest::Clock->new($node);
	begin();
	return $node;
}

# All accounts have begun, without a refused record, and are deleted.
sub subscribe
{
	my ($node, $server, %o) = @_;

	query('BEGIN; ' . subscribe_sql('s', $server, cursor => 0, verify => "'full'", %o) . <<'EOSQL');
;
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.rkey::text = 'bad' THEN RAISE 'bad'; END IF; RETURN NEW; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON atproto.record FOR EACH ROW EXECUTE FUNCTION refuse();
COMMIT;
EOSQL
	wait_for_seq($node, 's', 3 * $all + 1);
	return;
}

sub purge_after
{
	my ($node, $seconds) = @_;

	$node->safe_psql('postgres', $_) foreach "ALTER SYSTEM SET atproto.purge_after = $seconds", 'SELECT pg_reload_conf()';
	wait_for("SELECT setting = '$seconds' FROM pg_settings WHERE name = 'atproto.purge_after'");
	return;
}

# With the setting 0, records are removed at once, without a request.
sub try_at_once
{
	my ($node) = @_;
	my $server = AtprotoTest::Server->start($capture, '--hold-at', 3 * $all + 2);

	purge_after($node, 0);
	query('CREATE SCHEMA once; ' . subscribe_sql('once', $server, cursor => 0, target => "'once'", verify => "'full'"));
	wait_for_seq($node, 'once', 3 * $all + 1);
	is(query('SELECT (SELECT count(*) FROM once.record), (SELECT count(*) FROM once.repo WHERE deleted_rev = rev), (SELECT count(*) FROM atproto.status_request)'),
		"0|$all|0", 'V-47: atproto.purge_after = 0: records go with the event, and nobody is asked');
	query("SELECT atproto.unsubscribe('once')");
	purge_after($node, 7 * DAY);
	return;
}

sub try_with
{
	my ($workers) = @_;
	my $node   = start_node("deletions$workers");
	my $server = AtprotoTest::Server->start($capture, map { ('--hold-at', $_ + 1) } 3 * $all + 1, 3 * $all + 6);
	my $said   = "V-47: $workers: ";

	try_at_once($node) if $workers == 1;

	# --- nobody answers ---

	my $broken = $network->fault({ path => $status, status => 500 });
	my $lags = $network->fault({ host => 'plc.example.com', did => $who{unknown}{did}, status => 500 });
	subscribe($node, $server, workers => $workers, backfill => "'repair'", events => "'keep'");
	wait_for("SELECT count(*) = $all FROM atproto.status_request WHERE why = 'deleted' AND error IS NOT NULL");
	is(query('SELECT count(*) FROM atproto.status_request'), $all, "${said}each server is asked, but for an account of which there is nothing");
	is(join(' ', map { records_of($_) eq 'record: 10,20 visible_record: ' && state_of($_) eq 'f|deleted|f' ? () : $_ } sort keys %who),
		'', "${said}all records are there, and hidden");
	is(query("SELECT count(*) FROM atproto.record_event WHERE action = 'delete'"), '0', "${said}none is told to be deleted");
	is(letters_of($_), 1, "${said}what was refused is kept: $_") foreach qw(deleted back);
	like(query('SELECT atproto.retry(id) FROM atproto.dead_letter WHERE ' . of('back')), qr/not active/, "${said}and waits");

	# events of two accounts wait for a paused subscription, which no second subscription replaces
	query('BEGIN; ' . subscribe_sql('waits', $server, verify => "'full'") . "; SELECT atproto.pause('waits');"
		. " INSERT INTO atproto.held_event (target, did, rev, subscription, seq, why, shard_key, bytes)"
		. " SELECT 'atproto', did, '3zzzzzzzzzzz2', 'waits', 1, 'identity', 1, '' FROM atproto.repo WHERE did IN ('$who{deleted}{did}', '$who{alive}{did}');"
		. " UPDATE atproto.repo SET hold = 'identity' WHERE did IN ('$who{deleted}{did}', '$who{alive}{did}'); COMMIT");

	# --- some do ---

	$network->fault({ host => $who{$_}{pds}, path => $status, status => 500 }) foreach qw(tombstoned silent);
	my $later = $network->fault({ host => $who{again}{pds}, path => $status, status => 500 });
	my $late = $network->fault({ host => $who{back}{pds}, path => $status, status => 500 });
	$network->fault({ host => $who{refused}{pds}, path => $status, status => 400, body => '{"error":"RepoDeleted","message":"x"}' });
	$network->documents({ $who{tombstoned}{did} => 410 });
	$network->unfault($broken);
	wait_long_for("SELECT active FROM atproto.repo WHERE " . of('alive'));
	is(records_of('alive'), 'record: 10,20 visible_record: 10,20', "${said}whose server says that it is active is visible again");
	is(query(q{SELECT sync IN ('desynchronized', 'resyncing'), host FROM atproto.repo WHERE } . of('alive')), "t|$who{alive}{pds}", "${said}and not in step");
	wait_long_for("SELECT status = 'takendown' FROM atproto.repo WHERE " . of('takendown'));
	wait_long_for("SELECT error ~ 'status 400' FROM atproto.status_request WHERE " . of('unknown'));
	is(state_of('unknown'), 'f|deleted|f', "${said}R-13: not known to a server that may be a former one: nothing follows");

	# during a request an account becomes active, and is deleted a second time; a further account becomes active
	my $held = $network->fault({ host => $who{again}{pds}, path => $status, hold => 'again', times => 1 });
	my $latest = $network->fault({ host => $who{again}{pds}, path => $status, status => 500 });
	$network->unfault($later);
	wait_until(
		sub {
			return 1 if grep { ($_->{fault} // '') eq $held } $network->log(host => $who{again}{pds});
			$clock->later(700);
			return 0;
		},
		'the request that is held');
	$server->release;
	wait_for_seq($node, 's', 3 * $all + 6);
	is(records_of('back'), 'record: 10,20,30 visible_record: 10,20,30', "${said}an #account that is active brings all back");
	is(query("SELECT skips->'break' FROM atproto.stat_subscription WHERE name = 's'"), '', "${said}nothing was missed");
	is(records_of('again'), 'record: 10,20,30 visible_record: ', "${said}deleted once more, it is hidden again");
	$network->release('again');
	$network->unfault($_) foreach $late, $latest;
	wait_long_for('SELECT count(*) = 0 FROM atproto.status_request WHERE answered_at IS NULL AND ' . of('back'));
	is(state_of('back') . letters_of('back'), 't||f1', "R-13: $workers: an #account since wins over its server");

	is_purged($_, "${said}its server says so: $_") foreach qw(deleted refused);
	is(query('SELECT string_agg(did::text, $$ $$) FROM atproto.held_event'), $who{alive}{did}, "F-15: $workers: what waits goes with an account that is deleted, whoever holds it");
	is(query('SELECT hold FROM atproto.repo WHERE ' . of('deleted')), '', "F-15: $workers: and its row does not say that something waits");
	query("DELETE FROM atproto.subscription WHERE name = 'waits'; DELETE FROM atproto.gap");
	is(query("SELECT string_agg(rkey || ' ' || (seq = $deleted{deleted}), ', ' ORDER BY rkey) FROM atproto.record_event WHERE action = 'delete' AND " . of('deleted')),
		'10 true, 20 true', "${said}record_event has it, with the event that said so");
	wait_long_for('SELECT deleted_rev = rev FROM atproto.repo WHERE ' . of('again'));
	is_purged('again', "${said}another deletion is another question");
	wait_long_for('SELECT deleted_rev = rev FROM atproto.repo WHERE ' . of('tombstoned'));
	is_purged('tombstoned', "${said}the directory says so");
	is(query('SELECT state FROM atproto.identity WHERE ' . of('tombstoned')), 'gone', "W-03: $workers: it was asked");
	is(state_of('unknown'), 'f|deleted|f', "${said}of whom the directory has said nothing since, nothing is believed");
	$network->unfault($lags);
	wait_long_for('SELECT deleted_rev = rev FROM atproto.repo WHERE ' . of('unknown'));
	is_purged('unknown', "R-13: $workers: not known to the server that its document names now");
	is(records_of('takendown'), 'record: 10,20 visible_record: ', "${said}who was taken down keeps what is hidden");

	# --- accounts that were not deleted go on ---

	wait_long_for('SELECT count(*) = 0 FROM atproto.status_request WHERE ' . of('takendown'));
	$network->repos({ $who{takendown}{pds} => { $who{takendown}{did} => { active => JSON::PP::false, status => 'deleted' } } });
	$server->release;
	wait_for_seq($node, 's', 3 * $all + 8);
	wait_for('SELECT count(*) = 1 FROM atproto.repo_job WHERE ' . of('alive'));
	pass("R-01: $workers: it is fetched, at its next commit");
	is_purged('takendown', "V-39: $workers: a server that is asked for another reason says so, too");

	# --- one never does ---

	$clock->later(6.9 * DAY - $clock->ahead);
	wait_for("SELECT next_try > now() + interval '6.9 d' FROM atproto.status_request WHERE " . of('silent'));
	is(state_of('silent') . ' ' . records_of('silent'), 'f|deleted|f record: 10,20 visible_record: ', "${said}nobody has said anything: hidden");
	$clock->later(0.2 * DAY);
	is_purged('silent', "${said}for seven days: then it goes all the same");

	query("SELECT atproto.unsubscribe('s')");
	is(query('SELECT count(*) FROM atproto.status_request'), '0', "${said}what is asked for goes with the subscription");
	$node->stop;
	return;
}

# The server dies when the tables say that the account was deleted, but the request does not yet; and no record has gone.
sub try_crash
{
	my $node   = start_node('crash');
	my $points = AtprotoTest::Points->new($node);
	my $server = AtprotoTest::Server->start($capture, '--hold-at', 3 * $all + 2);

	$network->fault({ host => $who{$_}{pds}, path => $status, status => 500 }) foreach grep { $_ ne 'deleted' } keys %who;
	$points->hold('status written', 'atproto fetcher');
	subscribe($node, $server);
	$points->wait('status written', 'atproto fetcher');
	is(query("SELECT deleted_rev = rev, answered_at FROM atproto.repo JOIN atproto.status_request USING (did) WHERE " . of('deleted')), 't|', 'status written: the answer is not noted yet');
	my $pid = query("SELECT pid FROM pg_stat_activity WHERE application_name = 'atproto fetcher'");
	kill 'KILL', $pid;
	$points = undef;
	wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid", gone => 1);
	wait_for('SELECT count(*) = 0 FROM atproto.record WHERE ' . of('deleted'));
	is(state_of('deleted'), 'f|deleted|t', 'after a crash: the next process of the consumer removes the records');
	is(letters_of('deleted'), 1, 'after a crash: of the answer nothing else is done');
	wait_long_for('SELECT count(*) = 0 FROM atproto.status_request WHERE answered_at IS NULL AND ' . of('deleted'));
	is(letters_of('deleted'), 0, 'after a crash: it is asked again, and all that follows is done');
	is(records_of('silent'), 'record: 10,20 visible_record: ', 'after a crash: others stay');
	$node->stop;
	return;
}

# The account begins anew after the tables say that it was deleted, and before the request does.
sub try_return
{
	my $node   = start_node('return');
	my $points = AtprotoTest::Points->new($node);
	my $server = AtprotoTest::Server->start($capture, '--hold-at', 3 * $all + 2);

	$network->fault({ host => $who{$_}{pds}, path => $status, status => 500 }) foreach grep { $_ ne 'deleted' } keys %who;
	$network->fault({ host => $who{deleted}{pds}, path => 'getRepo\\b', status => 500 });
	$points->hold('status written', 'atproto fetcher');
	subscribe($node, $server, backfill => "'repair'");
	$points->wait('status written', 'atproto fetcher');
	query('UPDATE atproto.repo SET active = true, status = NULL, status_seq = status_seq + 1 WHERE ' . of('deleted'));
	query("SELECT atproto.resync('$who{deleted}{did}')");
	$points->release('status written', 'atproto fetcher');
	wait_for('SELECT count(*) = 0 FROM atproto.status_request WHERE answered_at IS NULL AND ' . of('deleted'));
	is(query('SELECT count(*) FROM atproto.repo_job WHERE ' . of('deleted')), '1', 'R-07: a job of the new repository stays when the answer about the former one is noted');
	$node->stop;
	return;
}

$network = AtprotoTest::Network->start;
try_with($_) foreach 1, 3;
try_crash();
try_return();
done_testing();
