# 383_citus_backfill.pl
#		A backfill into tables that Citus distributes: exports that the fetcher brings land on
#		their shards, with a server that dies meanwhile, and what is missed is fetched again;
#		audits find what is lost on any of the servers.  All of it as in plain tables.
#		R-01, R-05, R-30, R-52, R-55, V-45.
#
#		Needs Citus: see test/citus/build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

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

# One server dies while exports are under way, and is back after some have failed.
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

# Jobs that failed come again, and are done.
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

# What does not depend on whether it came by an export or by the stream.
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

	# a record of each of some repositories is lost
	is(audited($spread), audited($plain), "V-45: $name: an audit of all says the same");
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
