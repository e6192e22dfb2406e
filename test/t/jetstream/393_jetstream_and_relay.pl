# 393_jetstream_and_relay.pl
#		A relay and a Jetstream fill the same tables, the relay ahead, the Jetstream ahead, or both at once,
#		through cut connections.  The rows must equal the rows of a single source, with each operation
#		applied once.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node(
	'mixed', conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 50ms
# Jetstream's events of an account come in order; 393_jetstream_waits.pl has events that wait
atproto.multi_source_wait = 0
EOF

my ($capture) = simulate(
	'--events' => 2000, '--accounts' => 60, '--history' => 0, '--batches' => 25,
	'--mix' => 'account=4,delete=8,update=6,sync=0,identity=3,like=40,post=30,profile=3');
my $last  = read_capture($capture);
my %texts = (v1 => texts('v1', $capture, '--spread' => 100_000, '--ties' => 20, '--back' => 300_000), v2 => texts('v2', $capture));
my $relay = AtprotoTest::Server->start($capture);
my %servers = map { $_ => AtprotoTest::Server->start($texts{$_}) } keys %texts;

query('CREATE SCHEMA relay; ' . subscribe_sql('relay', $relay, cursor => 0, target => "'relay'", events => "'keep'", links => "'all'", verify => "'hash'"));
wait_for_seq($node, 'relay', $last);
query("SELECT atproto.unsubscribe('relay')");

sub follow
{
	my ($name, $server, %args) = @_;
	query(subscribe_sql($name, $server, cursor => 0, target => "'m'", events => "'keep'", links => "'all'", %args));
	return;
}

# How far each source goes before the second one goes on, and further faults.
my %ways = (
	'the relay is ahead'   => [ [], [ '--hold-at' => 900 ] ],
	'Jetstream is ahead'   => [ [ '--hold-at' => 700 ], [] ],
	'they take turns'      => [ [ map { ('--hold-at' => $_) } 500, 1500 ], [ map { ('--hold-at' => $_) } 1000, 1800 ] ],
	'both are cut'         => [ [ '--cut-after' => 300 ], [ '--cut-after' => 400 ] ]);

foreach my $way (sort keys %ways)
{
	foreach my $version (sort keys %texts)
	{
		$relay->restart(@{ $ways{$way}[0] });
		$servers{$version}->restart(@{ $ways{$way}[1] });
		query('SET client_min_messages = warning; DROP SCHEMA IF EXISTS m CASCADE; CREATE SCHEMA m');
		follow('jetstream', $servers{$version});
		follow('relay', $relay, verify => "'hash'");
		# both sources go on, in turns
		wait_until(sub {
			$_->release foreach $relay, $servers{$version};
			query('SELECT count(*) FROM m.record_event') >= query('SELECT count(*) FROM relay.record_event') }, $way);
		wait_for_seq($node, 'relay', $last);
		# the slower source brings older handles, until it has brought the newest handle
		wait_for_texts('jetstream', $texts{$version});
		wait_for(q{SELECT count(*) = 0 FROM atproto.held_event});
		same_rows('m', 'relay', "$version: $way");
		is(query('SELECT count(*) FROM atproto.dead_letter'), '0', "$version: $way: nothing was refused");
		query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
	}
}

$node->stop;
done_testing();
