# 383_citus_backfill.pl
#		A backfill into distributed tables must end with the same rows as in plain tables.  Exports are
#		written to the shards of their repositories while a node crashes; missed events are fetched again;
#		audits find lost records on any node.  R-01, R-05, R-30, R-52, R-55, V-45.
#
#		Needs Citus: see test/citus/build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Backfill;
use AtprotoTest::Citus;
use Test::More;

if (my $why = AtprotoTest::Citus::missing())
{
	plan skip_all => $why;
}

my $simulated = AtprotoTest::Backfill->begin(accounts => 24);
my $network   = $simulated->network;
my ($node, @servers) = make_citus('citus_backfill', start => $simulated->preload, conf => $simulated->settings);

sub audited
{
	my ($s) = @_;
	return ($node->psql('postgres', "CALL atproto.audit_all('$s')"))[2];
}

# The result of atproto.audit() for each repository, by a loop: audit() cannot run on the nodes.
sub verdicts
{
	my ($s, $deep) = @_;
	query("DROP TABLE IF EXISTS verdict; CREATE TABLE verdict (did did, equal boolean, reason text, records bigint, root cidlink, data cidlink, rev atproto.tid)");
	query("DO \$\$ DECLARE d did; BEGIN FOR d IN SELECT did FROM $s.repo LOOP INSERT INTO verdict SELECT d, a.* FROM atproto.audit(d, '$s', deep => $deep) a; END LOOP; END \$\$");
	return query('SELECT * FROM verdict ORDER BY did');
}

# The statements that the nodes get while the coordinator runs this SQL, read from the log.
sub asked
{
	my ($sql) = @_;
	my (undef, undef, $told) = $node->psql('postgres', "SET citus.log_remote_commands = on; SET client_min_messages = notice; $sql");
	return grep { /SELECT/ } split /NOTICE:\s+issuing /, $told;
}

# One node dies while exports are on their way, and is back after some jobs have failed.
sub die_meanwhile
{
	my ($s) = @_;

	$network->fault({ path => 'getRepo\\b', hold => 'gate' });
	return sub {
		wait_for("SELECT count(*) > 0 FROM atproto.repo_job WHERE target = '$s' AND state = 'running'");
		$servers[0]->stop('immediate');
		$network->unfault(undef);
		$network->release('gate');
		wait_for("SELECT count(*) > 0 FROM atproto.repo_job WHERE target = '$s' AND error IS NOT NULL");
		$servers[0]->start;
	};
}

# Makes failed jobs due again, and waits until all are done.
sub finish
{
	my ($s, $seq) = @_;

	wait_for_seq($node, $s, $seq);
	wait_until(
		sub {
			$simulated->hurry;
			return (try_query("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE target = '$s') AND NOT EXISTS (SELECT FROM atproto.held_event WHERE target = '$s')") // '') eq 't';
		},
		'all jobs');
	return;
}

sub follow
{
	my ($s, $verify, $workers, $in_between) = @_;
	my $server = AtprotoTest::Server->start($simulated->capture, '--hold-at', $simulated->half + 1);

	$simulated->serve(1, $server);
	query($simulated->subscribe_sql($s, target => "'$s'", cursor => 0, verify => "'$verify'", workers => $workers, events => "'keep'", backfill => "'network'"));
	$in_between->();
	finish($s, $simulated->half);
	$simulated->serve(2, $server);
	$server->release;
	finish($s, $simulated->last);
	return;
}

# The columns that are equal whether a row came from an export or from the stream.
sub contents
{
	my ($s) = @_;
	return query("SELECT did, collection, rkey, cid, value FROM $s.record ORDER BY did, collection, rkey")
	  . query("SELECT did, rev, \"commit\", data, active, status, sync, hold, verified FROM $s.repo ORDER BY did");
}

foreach my $case ([ 'chain', 1 ], [ 'full', 2 ])
{
	my ($verify, $workers) = @$case;
	my ($plain, $spread, $name) = ("plain_$verify", "spread_$verify", "$verify, workers => $workers");

	foreach my $s ($plain, $spread)
	{
		query("CREATE SCHEMA $s; SELECT atproto.create_tables('$s')");
		query("SELECT atproto.distribute('$s', 8)") if $s eq $spread;
		follow($s, $verify, $workers, $s eq $spread ? die_meanwhile($s) : sub { });
		is($simulated->difference(schema => $s), '', "R-52, R-55: $s: the rows are those that the network has, and so audits say");
	}
	is(contents($spread), contents($plain), "$name: and the same as in plain tables");
	cmp_ok(query("SELECT count(synced_at) FROM $spread.repo"), '>', 10, "$name: most were fetched");
	cmp_ok(query("SELECT count(DISTINCT s.nodeport) FROM run_command_on_shards('$spread.record', 'SELECT count(*) FROM %s') r JOIN citus_shards s USING (shardid) WHERE r.result <> '0'"),
		'==', scalar @servers, "$name: their rows are on all servers");
	is(query("SELECT count(*) FROM (SELECT seq, did, action, collection, rkey FROM $spread.record_event WHERE seq IS NOT NULL GROUP BY 1, 2, 3, 4, 5 HAVING count(*) > 1) e"),
		'0', "R-05: $name: no event twice");

	# audits run on the nodes that have the rows: the node returns the root, from the snapshot of the state
	is(audited($spread), audited($plain), "V-45: $name: an audit of all says the same");
	is(verdicts($spread, $_), verdicts($plain, $_), "V-45, V-46: $name: and of each, deep: $_") foreach qw(false true);
	like(verdicts($spread, 'true'), qr/\|t\|\|[1-9]/, "V-46: $name: there are such with records, and they are equal");
	my $one   = query("SELECT did FROM $plain.record GROUP BY did HAVING count(*) > 2 ORDER BY did LIMIT 1");
	my @asked = asked("SELECT FROM atproto.audit('$one', '$spread')");
	is(scalar @asked, 1, "V-45: $name: one statement for one repository");
	like($asked[0], qr/repo_root\(/, "V-45: $name: the server that has it builds the tree");
	my $plan = query(qq{EXPLAIN (VERBOSE, COSTS off) SELECT p.data, a.root FROM $spread.repo p, LATERAL (SELECT atproto.repo_root(path, cid ORDER BY path COLLATE "C") AS root
		FROM (SELECT collection || '/' || rkey AS path, * FROM $spread.record) r WHERE r.did = '$one') a WHERE p.did = '$one'});
	like($plan, qr/Task Count: 1\n.*Tasks Shown: All\n.*Node: .*Aggregate\n[^\n]*Output: atproto\.repo_root\(/s, "V-45: $name: so it plans a query of anybody's");
	unlike($plan =~ s/Custom Scan.*//sr, qr/repo_root/, "V-45: $name: and not on the coordinator");

	# records that do not match their CIDs; rows of a repository that will be purged; deleted accounts
	query("UPDATE $_.record SET raw = '\\xa0' WHERE did = '$one'") foreach $plain, $spread;
	is(verdicts($spread, 'true'), verdicts($plain, 'true'), "V-46: $name: of bytes that are other ones");
	like(verdicts($spread, 'true'), qr/^\Q$one\E\|f\|invalid rows\|/m, "V-46: $name: a deep audit finds them");
	like(verdicts($spread, 'false'), qr/^\Q$one\E\|t\|\|/m, "V-46: $name: another one does not");
	query("UPDATE $_.record SET raw = NULL WHERE did = '$one'") foreach $plain, $spread;
	my $oldest = "did = '$one' AND (collection, rkey) = (" . query("SELECT quote_literal(collection) || ',' || quote_literal(rkey) FROM $plain.record WHERE did = '$one' LIMIT 1") . ')';
	my %rev = map { $_ => query("SELECT rev FROM $_.record WHERE $oldest") } $plain, $spread;
	query("UPDATE $_.record SET rev = '2222222222222' WHERE $oldest; UPDATE $_.repo SET purge_rev = '2222222222222' WHERE did = '$one'") foreach $plain, $spread;
	is(verdicts($spread, 'false'), verdicts($plain, 'false'), "V-45: $name: of a record that is about to go");
	like(verdicts($spread, 'false'), qr/^\Q$one\E\|f\|other records\|/m, "V-45: $name: it counts no more");
	query("UPDATE $_.record SET rev = '$rev{$_}' WHERE $oldest") foreach $plain, $spread;
	query("UPDATE $_.repo SET purge_rev = NULL, deleted_rev = rev WHERE did = '$one'") foreach $plain, $spread;
	is(verdicts($spread, 'false'), verdicts($plain, 'false'), "V-45: $name: of an account that was deleted");
	like(verdicts($spread, 'false'), qr/^\Q$one\E\|\|deleted\|\|\|/m, "V-45: $name: nothing is judged there");
	query("UPDATE $_.repo SET deleted_rev = NULL WHERE did = '$one'") foreach $plain, $spread;
	is(query("SELECT reason FROM atproto.audit('did:web:nobody.test', '$spread')"), 'unknown', "V-45: $name: of nobody");

	# a record of each of some repositories is lost
	my @lost = split /\n/, query("SELECT did FROM $plain.record GROUP BY did ORDER BY did LIMIT 4");
	foreach my $s ($plain, $spread)
	{
		query("DELETE FROM $s.record r WHERE did = '$_' AND (collection, rkey) = (SELECT collection, rkey FROM $s.record WHERE did = '$_' ORDER BY collection, rkey LIMIT 1)") foreach @lost;
	}
	$network->fault({ path => 'getRepo\\b', hold => 'gate' });
	is(audited($spread), audited($plain), "V-45: $name: also where records are lost");
	is(query("SELECT string_agg(did::text, ' ' ORDER BY did) FROM $spread.repo WHERE sync IN ('desynchronized', 'resyncing')"), "@lost", "V-45: $name: it finds which");
	$network->unfault(undef);
	$network->release('gate');
	finish($spread, $simulated->last);
	is($simulated->difference(schema => $spread), '', "R-30, R-52: $name: an export brings them again");
	query("SELECT atproto.unsubscribe('$_')") foreach ($plain, $spread);
}

stop_citus();
done_testing();
