# 393_jetstream_union.pl
#		A relay and a Jetstream fill the same tables.  Each lacks commits that the other has, stands still
#		at times, and is cut.  In the end a repository has the operations of both sources, or is marked; no
#		operation is applied twice.  F-03, F-08, F-44, R-30.
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
	'lossy', conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 50ms
atproto.multi_source_wait = 1s
EOF

my ($capture) = simulate(
	'--events' => 1500, '--accounts' => 60, '--history' => 0, '--seed' => $seed,
	'--mix' => 'account=0,delete=8,update=6,sync=0,identity=0,like=40,post=30,profile=3');
my @messages = read_capture($capture);
my $last = @messages;
my $dir = PostgreSQL::Test::Utils::tempdir();
my $all = AtprotoTest::Server->start($capture);

query('CREATE SCHEMA whole; ' . subscribe_sql('whole', $all, cursor => 0, target => "'whole'", events => "'keep'"));
wait_for_seq($node, 'whole', $last);
query("SELECT atproto.unsubscribe('whole')");

# Which source lacks which commit: no commit is lacking in both.  The first commit of a repository cannot be
# merged, and the last message shows that all have come.
my %begun;
my @lacks = map {
	my ($did) = $messages[$_] =~ /(did:plc:[a-z2-7]{24})/;
	my $r = $begun{$did}++ ? rand : 1;
	$r < 0.03 ? 'relay' : $r < 0.1 ? 'jetstream' : 'none'
} 0 .. $last - 2;
my %has = map {
	my $who = $_;
	($who => write_capture("$dir/$who", @messages[ grep { $_ == $last - 1 || $lacks[$_] ne $who } 0 .. $last - 1 ]))
} qw(relay jetstream);

my $row = 'did, collection, rkey, cid, rev';
my $op  = 'action, did, collection, rkey, rev';

foreach my $version (qw(v1 v2))
{
	my $texts = texts($version, $has{jetstream});

	foreach my $case ([ 1, 'hash' ], [ 2, 'chain' ])
	{
		my ($workers, $verify) = @$case;
		my $what  = "$version, workers $workers, level $verify";
		my $at    = 300 + int rand 300;
		my $relay = AtprotoTest::Server->start($has{relay}, '--hold-at' => $at, '--cut-after' => 400);
		# of the first version, repeats after a cut would count below
		my $jetstream = AtprotoTest::Server->start($texts, '--hold-at' => 700 + int rand 300, $version eq 'v2' ? ('--cut-after' => 500) : ());
		my @more = (cursor => 0, target => "'m'", events => "'keep'", workers => $workers);

		query('SET client_min_messages = warning; DROP SCHEMA IF EXISTS m CASCADE; CREATE SCHEMA m');
		query('BEGIN; ' . subscribe_sql('relay', $relay, @more, verify => "'$verify'") . '; ' . subscribe_sql('jetstream', $jetstream, @more) . '; COMMIT');
		wait_until(sub {
			$_->release foreach $relay, $jetstream;
			(try_query("SELECT seq >= $last FROM atproto.stat_subscription WHERE name = 'relay'") // '') eq 't'
				&& query("SELECT COALESCE(sum(events), 0) FROM atproto.cursor WHERE subscription = 'jetstream'") >= text_count($texts)
				&& query('SELECT count(*) FROM atproto.held_event') == 0 }, $what);

		my $marked = "SELECT did FROM m.repo WHERE sync = 'desynchronized'";
		my ($ours, $theirs) = map { "SELECT $row FROM $_.record" } qw(m whole);
		cmp_ok(query("SELECT count(*) FROM m.repo WHERE did NOT IN ($marked)"), '>', 0, "$what: some are not marked");
		is(query("SELECT string_agg(DISTINCT did::text, ' ') FROM (($ours EXCEPT $theirs) UNION ALL ($theirs EXCEPT $ours)) d WHERE did NOT IN ($marked)"), '', "F-08: $what: these have what both carry together");
		is(query("SELECT count(*) FROM (SELECT $op FROM m.record_event EXCEPT ALL SELECT $op FROM whole.record_event) d"), '0', "F-03: $what: no operation was applied twice");
		is(query('SELECT count(*) FROM m.repo WHERE hold IS NOT NULL'), '0', "R-30: $what: nothing waits");
		is(query('SELECT count(*) FROM atproto.dead_letter'), '0', "$what: nothing was refused");
		note("$what: " . query("SELECT count(*) FROM ($marked) r") . ' of ' . query('SELECT count(*) FROM m.repo') . ' are marked');
		query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
		wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
	}
}

$node->stop;
done_testing();
