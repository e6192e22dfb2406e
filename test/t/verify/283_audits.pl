# 283_audits.pl
#		Audits: of all repositories, while consumers write; and automatic audits of unproven repositories,
#		at most once an hour each.  V-27, V-45, V-46.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('audits', conf => <<'EOF');
max_worker_processes = 16
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
EOF
my $clock  = AtprotoTest::Clock->new($node);
my $points = AtprotoTest::Points->new($node);

# A repository without records is synchronized only with the empty tree.
my $empty = 'bafyreie5737gdxlw5i64vzichcalba3z2v5n6icifvx5xytvske7mr3hpm';
my $other = 'bafyreick7g2qxds3p6ue6l7u77axjrptfckvuad3txz63xuygsemetsypa';

sub syncs
{
	my ($schema) = @_;
	return query("SELECT string_agg(split_part(did::text, ':', 3) || ' ' || sync, ', ' ORDER BY did) FROM $schema.repo");
}

# --- repositories change between the audit and its outcome ---

query(<<"SQL");
SELECT atproto.create_tables('atproto');
INSERT INTO atproto.repo (did, rev, data) SELECT ('did:web:' || n || '.test')::did, '3aaaaaaaaaa22', '$empty' FROM unnest('{fetched,gone,moved,rests}'::text[]) n;
SQL
$points->hold('repositories audited', 'auditor');
my $session = $points->session('auditor', 'CALL atproto.audit_all()');
$points->wait('repositories audited', 'auditor');
query(<<"SQL");
UPDATE atproto.repo SET rev = '3aaaaaaaaaa23', data = '$other' WHERE did = 'did:web:moved.test';
UPDATE atproto.repo SET sync = 'resyncing' WHERE did = 'did:web:fetched.test';
DELETE FROM atproto.repo WHERE did = 'did:web:gone.test';
SQL
$points->release('repositories audited', 'auditor');
# a NOTICE about the progress comes where the machine takes 5 s
is(($session->finish)[1] =~ s/^NOTICE:  audited so far: .*\n//gmr, "NOTICE:  4 repositories were audited\nDETAIL:  2 are synchronized, 1 desynchronized; 1 cannot be judged.",
	'V-45: an audit of all, while repositories move');
is(syncs('atproto'), 'fetched.test resyncing, moved.test desynchronized, rests.test synchronized',
	'what has moved is audited as it is now; what is being fetched is left alone');

# --- a consumer waits for no audit, and an audit can be cancelled ---

query("UPDATE atproto.repo SET sync = 'partial'");
$points->hold('repositories audited', 'auditor');
$session = $points->session('auditor', 'CALL atproto.audit_all()');
$points->wait('repositories audited', 'auditor');
is(query('SELECT count(*) FROM (SELECT FROM atproto.repo FOR NO KEY UPDATE NOWAIT) r'), '3', 'no row is locked while repositories are read');
query("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name = 'auditor'");
like(($session->finish)[1], qr/canceling statement/, 'it can be cancelled');
$points->release('repositories audited', 'auditor');
is(syncs('atproto'), 'fetched.test partial, moved.test partial, rests.test partial', 'and leaves what it did not get to');

# --- an export of the same commit, between the audit and its outcome ---

my $exports = PostgreSQL::Test::Utils::tempdir('exports');
run_log([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/oracle/export.py', $exports ]) or BAIL_OUT('no exports were made');
my $load = "SELECT created FROM atproto.load_car('" . did('a') . "', pg_read_binary_file('$exports/first.car'), 'loaded')";
query(<<"SQL");
CREATE SCHEMA loaded;
INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('loaded', 'wss://localhost:1', 'loaded', false);
SELECT atproto.create_tables('loaded');
SQL
query($load);
query('DELETE FROM loaded.record WHERE ctid = (SELECT ctid FROM loaded.record LIMIT 1)');
$points->hold('repositories audited', 'auditor');
$session = $points->session('auditor', "CALL atproto.audit_all('loaded')");
$points->wait('repositories audited', 'auditor');
is(query($load), '1', 'an export brings a record that was lost');
$points->release('repositories audited', 'auditor');
like(($session->finish)[1], qr/ 1 are synchronized/, 'the audit looks again');
is(query("SELECT sync FROM loaded.repo"), 'synchronized', 'and does not say of the rows what was true before');
query("DELETE FROM atproto.subscription WHERE name = 'loaded'");

# --- automatic audits: repositories that a stream leaves unproven ---

my $last  = slurp_file(make_capture('chain.py', '--last')) + 0;
my %state = map { (split /\t/)[ 0, 2 ] } split /\n/, slurp_file(make_capture('chain.py', '--expect'));
my @dids  = grep { $state{$_} eq 'unproven' } sort keys %state;
my $these = join ',', map { "'$_'" } @dids;
my $server = AtprotoTest::Server->start(make_capture('chain.py'));

# The state of the audits of a target.
sub state_of
{
	my ($target) = @_;
	return query("SELECT audited, different, error, CASE WHEN next_at IS NULL THEN 'rests' WHEN next_at > now() + interval '1 min' THEN 'waits' ELSE 'now' END"
		  . " FROM atproto.audit_state WHERE target = '$target'");
}

# Requests an audit as a consumer does when a repository becomes unproven.
sub request_audit
{
	my ($target, $dids) = @_;
	query("UPDATE $target.repo SET sync = 'unproven' WHERE did IN ($dids);"
		. " INSERT INTO atproto.audit_state (target, next_at) VALUES ('$target', now()) ON CONFLICT (target) DO UPDATE SET next_at = now()");
	$clock->advance(61);
	return;
}

query('CREATE SCHEMA alone');
query(subscribe_sql('alone', $server, cursor => 0, target => "'alone'"));
wait_for_seq($node, 'alone', $last);
cmp_ok(scalar @dids, '>', 1, 'some repositories are unproven');
is(query("SELECT string_agg(DISTINCT sync, ',') FROM alone.repo WHERE did IN ($these)"), 'unproven', 'V-27: and stay so while nobody audits');
is(state_of('alone'), '0|0||now', 'that there is something to audit is written down with them');
my $expected = query("SELECT string_agg(CASE WHEN a.equal THEN 'synchronized' ELSE 'desynchronized' END, ',' ORDER BY p.did::text COLLATE \"C\") FROM alone.repo p, LATERAL atproto.audit(p.did, 'alone') a WHERE did IN ($these)");
like($expected, qr/\bsynchronized/, 'most have all their records');
is(query(q{SELECT count(*) FILTER (WHERE a.root IS DISTINCT FROM of_rows) || ' ' || (count(*) FILTER (WHERE of_rows = p.data) > 1) FROM alone.repo p, LATERAL atproto.audit(p.did, 'alone') a,
	LATERAL (SELECT atproto.repo_root(path, cid ORDER BY path COLLATE "C") AS of_rows FROM (SELECT collection || '/' || rkey AS path, * FROM alone.record) r WHERE r.did = p.did) r
	WHERE a.equal IS NOT NULL}), '0 true', 'V-45: the aggregate has the same root of each');

# one repository has lost a row
my $lost = query("SELECT did FROM alone.repo p WHERE did IN ($these) AND (atproto.audit(did, 'alone')).equal ORDER BY did LIMIT 1");
query("DELETE FROM alone.record WHERE ctid = (SELECT ctid FROM alone.record WHERE did = '$lost' LIMIT 1)");
is(query("SELECT equal FROM atproto.audit('$lost', 'alone')"), 'f', 'of one a record is missing');
my @expected = split /,/, $expected;
$expected[ (grep { $dids[$_] eq $lost } 0 .. $#dids)[0] ] = 'desynchronized';
$node->safe_psql('postgres', $_) foreach 'ALTER SYSTEM SET atproto.audits = on', 'SELECT pg_reload_conf()';
$clock->advance(61);
wait_for("SELECT count(*) = 0 FROM alone.repo WHERE did IN ($these) AND sync = 'unproven'");

sub syncs_of_these
{
	return query("SELECT string_agg(sync, ',' ORDER BY did::text COLLATE \"C\") FROM alone.repo WHERE did IN ($these)");
}
is(syncs_of_these(), join(',', @expected), 'V-45: they are audited by themselves: synchronized, but for those that lack something');
my $n         = @dids;
my $different = grep { $_ eq 'desynchronized' } @expected;
wait_for("SELECT next_at IS NULL FROM atproto.audit_state WHERE target = 'alone'");
is(state_of('alone'), "$n|$different||rests", 'each was audited once, and nothing is left to do');
is(query("SELECT count(*) FROM alone.repo WHERE (audited_at IS NOT NULL) <> (did IN ($these))"), '0', 'it is written down which');

# --- not again within the hour ---

request_audit('alone', $these);
wait_for("SELECT next_at > now() + interval '1 min' FROM atproto.audit_state WHERE target = 'alone'");
is(query("SELECT DISTINCT sync FROM alone.repo WHERE did IN ($these)"), 'unproven', 'V-45: not twice within an hour');
$clock->both(3700, 61);
wait_for("SELECT count(*) = 0 FROM alone.repo WHERE did IN ($these) AND sync = 'unproven'");
wait_for("SELECT next_at IS NULL FROM atproto.audit_state WHERE target = 'alone'");
is(state_of('alone'), 2 * $n . '|' . 2 * $different . '||rests', 'but after it');
$clock->time_of_day(0);

# --- the fetcher does not delete a request that a consumer has seen in a transaction that has not committed ---

my $consumer = $node->background_psql('postgres');
$consumer->query_safe("BEGIN; SELECT FROM atproto.audit_state WHERE target = 'alone' FOR KEY SHARE");
request_audit('alone', 'NULL');
wait_for("SELECT next_at > now() + interval '1 min' FROM atproto.audit_state WHERE target = 'alone'");
wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto fetcher' AND state = 'active'");
is(state_of('alone') =~ s/.*\|//r, 'waits', 'nothing is unproven, but something may be, soon');
$consumer->query_safe('COMMIT');
$consumer->quit;
request_audit('alone', 'NULL');
wait_for("SELECT next_at IS NULL FROM atproto.audit_state WHERE target = 'alone'");
pass('afterwards it is taken back');

# --- an audit has a repository locked, and wants to request a fetch that a session has requested, too ---

query("UPDATE atproto.subscription SET backfill = 'repair' WHERE name = 'alone'");
my $user = $node->background_psql('postgres');
$user->query_safe("SET deadlock_timeout = '200ms'; BEGIN; SELECT atproto.resync('$lost', 'alone')");
query("UPDATE alone.repo SET audited_at = NULL WHERE did = '$lost'");
request_audit('alone', "'$lost'");
wait_for("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'atproto fetcher' AND wait_event_type = 'Lock')"
	. " OR (SELECT error IS NOT NULL FROM atproto.audit_state WHERE target = 'alone')");
ok(eval { $user->query_safe('TRUNCATE alone.record; ROLLBACK'); 1 }, 'R-01: the session gets the table, and is not the victim of a deadlock') or diag $@;
eval { $user->quit };
wait_for("SELECT error LIKE '%lock timeout%' FROM atproto.audit_state WHERE target = 'alone'");
is(query("SELECT sync FROM alone.repo WHERE did = '$lost'"), 'unproven', 'R-01: the audit comes later');
request_audit('alone', 'NULL');
wait_for("SELECT sync = 'desynchronized' FROM alone.repo WHERE did = '$lost'");
is(query("SELECT reason FROM atproto.repo_job WHERE did = '$lost'"), 'audit', 'R-01: and requests the fetch');
query("UPDATE atproto.subscription SET backfill = 'none' WHERE name = 'alone'; DELETE FROM atproto.repo_job");
wait_for("SELECT next_at IS NULL FROM atproto.audit_state WHERE target = 'alone'");

# --- repositories beyond any audit are not tried for ever ---

query("UPDATE atproto.subscription SET collections = '{app.bsky.*}' WHERE name = 'alone'; UPDATE alone.repo SET audited_at = NULL");
request_audit('alone', $these);
wait_for("SELECT next_at IS NULL FROM atproto.audit_state WHERE target = 'alone'");
is(query("SELECT DISTINCT sync FROM alone.repo WHERE did IN ($these)"), 'unproven', 'of a table that a filter made nobody can tell');
query("UPDATE atproto.subscription SET collections = NULL WHERE name = 'alone'");

unlike(slurp_file($node->logfile), qr/terminated by signal|TRAP:|server process \(PID \d+\) exited with exit code 2/, 'nothing crashed');

done_testing;
