# 283_audits_given_up.pl
#		An audit that no subscription can make is given up.  The test tries each change that makes the
#		fetcher audit again: a missing right is granted, a subscription is added, changed or removed, an
#		account begins anew, a second refill starts.  V-27, V-45.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('given_up', conf => <<'EOF');
max_worker_processes = 16
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
EOF
my $clock = AtprotoTest::Clock->new($node);

my $last    = slurp_file(make_capture('chain.py', '--last')) + 0;
my @expect  = map { [ split /\t/ ] } split /\n/, slurp_file(make_capture('chain.py', '--expect'));
my @dids    = map { $_->[0] } grep { $_->[2] eq 'unproven' } @expect;
my ($spoilt) = map { $_->[0] } grep { $_->[1] eq 'its first commit without its operations' } @expect;
my $n       = @dids;
my $these   = join ',', map { "'$_'" } @dids;
my $server  = AtprotoTest::Server->start(make_capture('chain.py'));

# When the target's next audits are.
sub turn
{
	my ($target) = @_;
	return query("SELECT CASE WHEN next_at IS NULL THEN 'never' WHEN next_at > now() + interval '1 min' THEN 'later' ELSE 'now' END"
		  . " FROM atproto.audit_state WHERE target = '$target'");
}

sub wait_for_audits
{
	my ($why) = @_;

	$clock->advance(61);
	wait_for("SELECT count(*) = 0 FROM alone.repo WHERE did IN ($these) AND sync = 'unproven'");
	wait_for("SELECT next_at IS NULL FROM atproto.audit_state WHERE target = 'alone'");
	pass($why);
	return;
}
query('CREATE SCHEMA alone');
query(subscribe_sql('alone', $server, cursor => 0, target => "'alone'"));
wait_for_seq($node, 'alone', $last);
$node->safe_psql('postgres', $_) foreach 'ALTER SYSTEM SET atproto.audits = on', 'SELECT pg_reload_conf()';
wait_for_audits('what a stream leaves unproven is audited');

# --- rights and subscriptions ---

# The fetcher has had its turn, and cannot audit: never or later.
sub turn_for_nothing
{
	query("UPDATE alone.repo SET sync = 'unproven', audited_at = NULL WHERE did IN ($these); UPDATE atproto.audit_state SET next_at = 'epoch', tries = 0 WHERE target = 'alone'");
	$clock->advance(61);
	wait_for("SELECT tries = 0 AND (next_at IS NULL OR next_at > now() + interval '1 min') FROM atproto.audit_state WHERE target = 'alone'");
	is(query("SELECT count(*) FROM alone.repo WHERE did IN ($these) AND sync = 'unproven'"), $n, 'nobody can audit');
	return turn('alone');
}
query(<<'SQL');
CREATE ROLE auditor;
GRANT USAGE ON SCHEMA alone TO auditor;
GRANT ALL ON ALL TABLES IN SCHEMA alone TO auditor;
UPDATE atproto.subscription SET owner = 'auditor' WHERE name = 'alone';
REVOKE UPDATE ON alone.record FROM auditor;
SQL
is(turn_for_nothing(), 'later', 'while the owner lacks a right, the fetcher looks again later: no trigger tells that a right is back');

query("DELETE FROM atproto.subscription WHERE name = 'alone'");
is(turn_for_nothing(), 'never', 'without a subscription of the target nobody looks again');
query(subscribe_sql('alone', $server, cursor => $last, target => "'alone'"));
wait_for_audits('until somebody subscribes');

query("UPDATE atproto.subscription SET collections = '{app.bsky.*}' WHERE name = 'alone'");
is(turn_for_nothing(), 'never', 'nor while its subscription has a filter');
query("UPDATE atproto.subscription SET collections = NULL WHERE name = 'alone'");
wait_for_audits('until the filter is taken away');

query("INSERT INTO atproto.subscription (name, url, target, collections, enabled) VALUES ('filter', 'wss://localhost:1', 'alone', '{app.bsky.*}', false)");
is(turn_for_nothing(), 'never', 'nor beside a subscription with a filter');
query("DELETE FROM atproto.subscription WHERE name = 'filter'");
wait_for_audits('until that one is removed');

# --- an account was deleted while it was unproven, and begins anew with a commit that no audit can check ---

$node->safe_psql('postgres', $_) foreach 'ALTER SYSTEM SET atproto.audits = off', 'SELECT pg_reload_conf()';
query(<<"SQL");
CREATE SCHEMA anew;
SELECT atproto.create_tables('anew');
INSERT INTO anew.repo (did, rev, data, sync, deleted_rev) VALUES ('$spoilt', '2222222222223', 'bafyreick7g2qxds3p6ue6l7u77axjrptfckvuad3txz63xuygsemetsypa', 'unproven', '2222222222223');
SQL
query(subscribe_sql('anew', $server, cursor => 0, target => "'anew'", dids => "'{$spoilt}'"));
wait_for_seq($node, 'anew', $last);
is(query("SELECT sync, rev > deleted_rev FROM anew.repo WHERE did = '$spoilt'"), 'unproven|t', 'an account begins anew, and nobody can tell what its commit did');
is(turn('anew'), 'now', 'that it is to be audited is written down with it');

# --- a refill of repositories that an earlier refill has left unproven ---

query("UPDATE anew.repo SET refill_by = 'other', refill_sync = 'synchronized' WHERE did = '$spoilt'; UPDATE atproto.audit_state SET next_at = NULL WHERE target = 'anew'");
query("SELECT atproto.pause('anew'); SELECT atproto.refill('anew', NULL, $last)");
is(turn('anew'), 'now', 'what the first refill wrote is to be audited, when a second one begins');

# --- a dropped target ---

query("SELECT atproto.unsubscribe('anew'); DROP SCHEMA anew CASCADE");
query($_) foreach 'ALTER SYSTEM SET atproto.audits = on', 'SELECT pg_reload_conf()';
wait_for("SELECT count(*) = 0 FROM atproto.audit_state WHERE target = 'anew'");

unlike(slurp_file($node->logfile), qr/terminated by signal|TRAP:|server process \(PID \d+\) exited with exit code 2/, 'nothing crashed');

done_testing;
