# 282_full.pl
#		At level full, only signed commits of an account change its rows.  Events whose signature no known
#		key made wait in atproto.held_event, and are released in their order when the right key is known.
#		The test itself writes the rows of identities and the results of look-ups: no manager runs, and so
#		no fetcher.  With one process and with several.  V-05 to V-15, V-40 to V-44, V-48, R-30 to R-32.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Lookups;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('full', databases => '', conf => "max_worker_processes = 16\natproto.reconnect_delay = 50ms");

# --- attacks ---

my $attacks  = make_capture('full.py', 'attacks');
my @cases    = map { [ split /\t/ ] } split /\n/, slurp_file(make_capture('full.py', 'attacks', '--expect'));
my $accounts = @cases;

foreach my $workers (1, 3)
{
	my $s      = "attacks$workers";
	my $server = AtprotoTest::Server->start($attacks, '--hold-at', $accounts + 1, '--hold-at', 2 * $accounts + 1);

	begin_again();
	know(@$_[ 0, 1 ]) foreach @cases;
	query("CREATE SCHEMA $s");
	query(subscribe_sql($s, $server, cursor => 0, target => "'$s'", workers => $workers, verify => "'full'"));
	wait_for_seq($node, $s, $accounts);
	is(query("SELECT count(*) FILTER (WHERE verified), count(*) FROM $s.repo"), "$accounts|$accounts", "F-04, V-10, B-62: $workers: all first commits are verified");
	query("CREATE TABLE $s.before AS SELECT * FROM $s.repo");
	$server->release;
	wait_for_seq($node, $s, 2 * $accounts);
	# no attack was applied
	my @bad = grep { $_->[3] eq 'signature' } @cases;
	my $dids = join ',', map { "'$_->[0]'" } @bad;
	is(query("SELECT count(*) FROM $s.repo r JOIN $s.before b USING (did) WHERE did IN ($dids) AND (r.rev, r.data, r.sync, r.commit) IS DISTINCT FROM (b.rev, b.data, b.sync, b.commit)"),
		'0', "V-11: $workers: no state moved");
	is(query("SELECT count(*) FROM $s.record WHERE rkey <> 'a' AND did IN ($dids)"), '0', "V-11: $workers: nor a record");
	is(query("SELECT count(*), count(*) FILTER (WHERE why = 'signature'), count(DISTINCT did) FROM atproto.held_event"),
		join('|', (scalar @bad) x 3), "V-41: $workers: they wait");
	is(query('SELECT count(*), bool_and(refresh), min(priority), max(priority) FROM atproto.identity_request'),
		scalar(@bad) . '|t|1|1', "V-41: $workers: and their identities are asked for, once each");
	is(query("SELECT count(*) FROM atproto.dead_letter WHERE did IN ($dids)"), '0', "$workers: nobody has said that they are false");
	$server->release;
	wait_for_seq($node, $s, 3 * $accounts);
	is(query("SELECT count(*) FILTER (WHERE why = 'order') FROM atproto.held_event"), scalar @bad, "V-42: $workers: what follows waits behind them, although its key fits");
	if ($workers > 1)
	{
		$node->restart;
		query("SELECT atproto.resume('$s')");
	}
	looked_up(', resolved_at = now()', 'true');
	wait_for("SELECT count(*) = 0 FROM atproto.held_event");
	foreach my $case (@cases)
	{
		my ($did, undef, $name, $stage, $state) = @$case;
		my ($wrong, $right) = $stage eq '' ? ('t', '') : ('f', $stage);

		is(query("SELECT sync, verified, hold, EXISTS (SELECT FROM $s.record r WHERE r.did = p.did AND rkey = 'x'),"
				. " (SELECT count(*) FROM $s.record r WHERE r.did = p.did AND rkey IN ('a', 'b')),"
				. " (SELECT string_agg(stage, ',') FROM atproto.dead_letter l WHERE l.did = p.did)"
				. " FROM $s.repo p WHERE did = '$did'"),
			"$state|t||$wrong|2|$right", "$workers: $name");
	}
	is(query("SELECT string_agg(did || reason, ',') FROM (SELECT p.did, a.reason FROM $s.repo p, LATERAL atproto.audit(p.did, '$s') a"
			. " WHERE p.sync = 'synchronized' AND NOT a.equal) x"), '', "V-46: $workers: audits find what accounts have signed");
	is(query("SELECT bad_signatures, held_events, held_bytes FROM atproto.stat_subscription WHERE name = '$s'"), scalar(@bad) . '|0|0', "$workers: they are counted");
	my ($letter) = split /\n/, query("SELECT id FROM atproto.dead_letter WHERE stage = 'signature' ORDER BY id LIMIT 1");
	like(query("SELECT atproto.retry($letter)"), qr/not signed by/, "$workers: tried again, it stays");
}

$node->stop;
done_testing();
