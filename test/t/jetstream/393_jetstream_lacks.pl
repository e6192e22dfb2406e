# 393_jetstream_lacks.pl
#		A Jetstream that is ahead of a complete relay lacks events, or sends records that do not match their
#		CIDs.  In the end each repository has the relay's records or is marked as desynchronized, and no
#		operation was applied twice.  F-03, F-08, J-27.
#
#		ATPROTO_SEED is the seed of the run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = seed();

my $node = make_node(
	'lacks', conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 20ms
atproto.multi_source_wait = 0
EOF

my $dir = PostgreSQL::Test::Utils::tempdir();

# The fault that a text gets: it is changed or dropped.  #sync is not in the first version.
my %faults = (
	syncs => sub { $_[0] },
	lacks => sub { rand > 0.1 ? $_[0] : () },
	lies  => sub { (my $text = $_[0]) =~ s/"record":\{/"record":{"lie":1,/ if rand > 0.9; $text // $_[0] });

my $ops = 'SELECT action, did, collection, rkey, rev FROM %s.record_event';
# after a #sync all records have its revision
my $rows = 'SELECT did, collection, rkey, cid FROM %s.record';
my ($ours, $theirs) = map { sprintf $rows, $_ } qw(m relay);
my ($ops_ours, $ops_theirs) = map { sprintf $ops, $_ } qw(m relay);

foreach my $fault (sort keys %faults)
{
	my $sync = $fault eq 'syncs' ? 4 : 0;
	my ($capture) = simulate('--events' => 1500, '--accounts' => 60, '--history' => 0, '--seed' => $seed, '--mix' => "account=0,delete=8,update=6,sync=$sync,identity=0,like=40,post=30,profile=3");
	my $last  = read_capture($capture);
	my $relay = AtprotoTest::Server->start($capture);

	query('SET client_min_messages = warning; DROP SCHEMA IF EXISTS relay CASCADE; CREATE SCHEMA relay');
	query(subscribe_sql('alone', $relay, cursor => 0, target => "'relay'", events => "'keep'", verify => "'hash'"));
	wait_for_seq($node, 'alone', $last);
	query("SELECT atproto.unsubscribe('alone')");
	foreach my $version (qw(v1 v2))
	{
		foreach my $verify ('hash', 'chain')
		{
			my @texts = read_capture(texts($version, $capture));
			my $jetstream = AtprotoTest::Server->start(write_capture("$dir/$fault.$version.$verify", map { $faults{$fault}->($_) } @texts));

			$relay->restart('--hold-at' => 200 + int rand 200, '--hold-at' => 900);
			query('SET client_min_messages = warning; DROP SCHEMA IF EXISTS m CASCADE; CREATE SCHEMA m');
			query(subscribe_sql('relay', $relay, cursor => 0, target => "'m'", events => "'keep'", verify => "'$verify'"));
			wait_for("SELECT seq >= 100 FROM atproto.stat_subscription WHERE name = 'relay'");
			query(subscribe_sql('jetstream', $jetstream, cursor => 0, target => "'m'", events => "'keep'"));
			wait_for_texts('jetstream', "$dir/$fault.$version.$verify");
			$relay->release;
			wait_for("SELECT seq >= 800 FROM atproto.stat_subscription WHERE name = 'relay'");
			$relay->release;
			wait_for_seq($node, 'relay', $last);

			my $what = "$version, $verify, $fault";
			my $marked = "SELECT did FROM m.repo WHERE sync = 'desynchronized'";
			my $differs = "SELECT did FROM (($ours EXCEPT $theirs) UNION ALL ($theirs EXCEPT $ours)) d";
			cmp_ok(query("SELECT count(*) FROM ($marked) r"), '>', 0, "$what: repositories are marked");
			cmp_ok(query("SELECT count(*) FROM m.repo WHERE did NOT IN ($marked)"), '>', 0, "$what: others are not");
			is(query("SELECT string_agg(DISTINCT did::text, ' ') FROM ($differs) d WHERE did NOT IN ($marked)"), '', "$what: others have what the relay has");
			query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
			next if $sync;
			is(query("SELECT count(*) FROM ($ops_ours EXCEPT ALL $ops_theirs) d"), '0', "$what: no operation was applied twice");
			# a record that was written again later shows no difference
			is(query("SELECT count(DISTINCT did) FROM ($ops_theirs EXCEPT ALL $ops_ours) d WHERE did NOT IN ($marked) AND NOT EXISTS"
					. " (SELECT FROM relay.record_event e WHERE (e.did, e.collection, e.rkey) = (d.did, d.collection, d.rkey) AND e.rev > d.rev)"),
				'0', "$what: nor is the last one of a record missing");
		}
	}
}

$node->stop;
done_testing();
