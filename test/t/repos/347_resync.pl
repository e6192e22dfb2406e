# 347_resync.pl
#		The consumer repairs missed events without an operator: commits are lost from a stream, the next
#		commits reveal the loss, and the fetcher brings the accounts' exports while the stream goes on; with
#		one process and with several, at level chain from the stream's own server and at level full from the
#		accounts' servers.  With backfill => 'seen', the records from before the first event come, too.  R-01
#		to R-04, R-30 to R-34, R-52, R-53, V-11, V-33, V-45.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Backfill;
use Test::More;

my $simulated = AtprotoTest::Backfill->begin(half => 400, account => 0.5);
my ($half, $last) = ($simulated->half, $simulated->last);
my $network = $simulated->network;
my $node    = make_node('resync', start => $simulated->preload, conf => $simulated->settings);

# Each change once: the changes that a trigger sees of a record must follow from each other.
sub make_target
{
	my ($s) = @_;

	query("CREATE SCHEMA $s; SELECT atproto.create_tables('$s'); CREATE TABLE $s.seen (n serial, op text, did did, collection nsid, rkey recordkey, cid cidlink);
		CREATE FUNCTION $s.see() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN
			INSERT INTO $s.seen (op, did, collection, rkey, cid) SELECT TG_OP, (r).did, (r).collection, (r).rkey, CASE TG_OP WHEN 'DELETE' THEN NULL ELSE (r).cid END
			FROM (SELECT CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END AS r) x; RETURN NULL; END \$\$;
		CREATE TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON $s.record FOR EACH ROW EXECUTE FUNCTION $s.see()");
	return;
}

sub seen_once
{
	my ($s, $name) = @_;

	is(query("SELECT count(*) FROM (SELECT op, cid, lag(op) OVER w AS op1, lag(cid) OVER w AS cid1 FROM $s.seen WINDOW w AS (PARTITION BY did, collection, rkey ORDER BY n)) s
		WHERE CASE op WHEN 'INSERT' THEN op1 <> 'DELETE' ELSE COALESCE(op1, 'DELETE') = 'DELETE' OR cid = cid1 END"),
		'0', "R-52: $name: triggers saw each change once");
	is(query("SELECT count(*) FROM $s.record r FULL JOIN (SELECT DISTINCT ON (did, collection, rkey) * FROM $s.seen ORDER BY did, collection, rkey, n DESC) s USING (did, collection, rkey)
		WHERE r.cid IS DISTINCT FROM s.cid"), '0', "R-52: $name: and the last of them is what is there");
	return;
}

foreach my $case ([ 'chain', 1 ], [ 'chain', 3 ], [ 'full', 1 ], [ 'full', 3 ])
{
	my ($verify, $workers) = @$case;
	my $s      = "$verify$workers";
	my $name   = "$verify, $workers";
	my $server = AtprotoTest::Server->start($simulated->capture, '--hold-at', $half + 1);

	$simulated->serve(1, $server);
	# the exports wait until newer commits have come
	$network->fault({ path => 'getRepo\\b', hold => 'gate' });
	make_target($s);
	query($simulated->subscribe_sql($s, cursor => 0, target => "'$s'", verify => "'$verify'", workers => $workers, events => "'keep'", backfill => "'repair'"));
	wait_for("SELECT count(*) > 0 FROM $s.repo WHERE hold = 'resync'");
	wait_for("SELECT COALESCE(max(seq), 0) >= $half FROM atproto.stat_subscription WHERE name = '$s'");
	isnt(query("SELECT count(*) FROM atproto.repo_job WHERE target = '$s' AND priority = 1 AND reason IN ('break', 'mismatch', 'sync')"), '0', "R-03: $name: breaks are jobs");
	$server->release;
	wait_for("SELECT count(*) > 0 FROM atproto.held_event WHERE target = '$s' AND why = 'resync'");
	is(query("SELECT count(*) FROM $s.repo WHERE hold = 'resync' AND sync <> 'resyncing'"), '0', "R-04: $name: events wait while a repository is fetched");
	$simulated->serve(2, $server);
	$network->unfault(undef);
	$network->release('gate');
	wait_for_seq($node, $s, $last);
	wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE target = '$s' AND state <> 'suspended') AND NOT EXISTS (SELECT FROM atproto.held_event WHERE target = '$s')");
	is(query("SELECT DISTINCT sync FROM $s.repo WHERE active"), 'synchronized', "R-55: $name: every repository is in step");
	is(query("SELECT count(*) FROM $s.repo WHERE hold IS NOT NULL"), '0', "R-32: $name: and nothing waits");
	is($simulated->difference(schema => $s), '', "R-52, V-45: $name: the rows are those that the network has, and so audits say");
	cmp_ok(query("SELECT count(*) FROM $s.repo WHERE synced_at IS NOT NULL"), '>', 2, "$name: several were fetched");
	seen_once($s, $name);
	cmp_ok(query("SELECT count(*) FROM $s.record_event WHERE seq IS NULL"), '>', 0, "R-53: $name: what the exports brought is in record_event");
	is(query("SELECT count(*) FROM $s.repo WHERE synced_at IS NOT NULL AND NOT verified"), '0', "R-42: $name: exports were verified") if $verify eq 'full';
	query("SELECT atproto.unsubscribe('$s')");
}

# --- more events come than may be held: the export is not complete (R-34) ---

my $server = AtprotoTest::Server->start($simulated->capture, '--hold-at', $half + 1);
$simulated->serve(1, $server);
$network->fault({ path => 'getRepo\\b', hold => 'gate' });
make_target('few');
query('BEGIN; ' . $simulated->subscribe_sql('few', cursor => 0, target => "'few'", backfill => "'repair'") . ";
	UPDATE atproto.subscription SET max_held_events = 1 WHERE name = 'few'; COMMIT");
wait_for("SELECT count(*) > 0 FROM few.repo WHERE hold = 'resync'");
wait_for_seq($node, 'few', $half);
$server->release;
wait_for("SELECT (skips->>'held_dropped')::integer > 0 FROM atproto.stat_subscription WHERE name = 'few'", gone => 1);
$network->release('gate');
wait_for("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE target = 'few' AND error = 'events of the repository were lost while it was fetched')");
pass('R-34: what was dropped while a repository was fetched lets another fetch follow');
$simulated->serve(2, $server);
$network->unfault(undef);
wait_for_seq($node, 'few', $last);
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE target = 'few' AND state <> 'suspended') AND NOT EXISTS (SELECT FROM atproto.held_event WHERE target = 'few')");
is(query('SELECT DISTINCT sync FROM few.repo WHERE active'), 'synchronized', 'R-34: then every repository is in step');
is($simulated->difference(schema => 'few'), '', 'R-34: and nothing is missing');
query("SELECT atproto.unsubscribe('few')");

# --- every record from before the first event is stored ---

$server = AtprotoTest::Server->start($simulated->capture);
$simulated->serve(2, $server);
make_target('seen');
query($simulated->subscribe_sql('seen', cursor => $half, target => "'seen'", backfill => "'seen'"));
wait_for_seq($node, 'seen', $last);
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE target = 'seen' AND state <> 'suspended')");
is(query('SELECT DISTINCT sync FROM seen.repo WHERE active AND rev IS NOT NULL'), 'synchronized', 'F-10, R-01: what is seen is fetched');
is(query('SELECT count(*) FROM seen.repo WHERE active AND rev IS NOT NULL AND (SELECT equal FROM atproto.audit(did, $$seen$$)) IS NOT TRUE'), '0', 'R-01: and whole');
seen_once('seen', 'seen');

# --- a difference found by an audit ---

my $did = query("SELECT did FROM seen.repo WHERE active AND sync = 'synchronized' AND (SELECT records FROM atproto.audit(did, 'seen')) > 3 ORDER BY did LIMIT 1");
query("DELETE FROM seen.record WHERE did = '$did' AND rkey IN (SELECT rkey FROM seen.record WHERE did = '$did' ORDER BY rkey LIMIT 2)");
query("CALL atproto.audit_all('seen')");
wait_for("SELECT sync = 'synchronized' FROM seen.repo WHERE did = '$did'");
is(query("SELECT equal FROM atproto.audit('$did', 'seen', deep => true)"), 't', 'R-01: what an audit finds to differ is fetched');

done_testing();
