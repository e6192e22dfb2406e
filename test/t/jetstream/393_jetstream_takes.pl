# 393_jetstream_takes.pl
#		A Jetstream subscription takes over held events of a former relay's subscription to the same tables,
#		and decodes their bytes in the relay's format.  Both subscriptions are at level hash: a subscription
#		takes no held events of a higher level.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node(
	'takes', conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 20ms
atproto.multi_source_wait = 1h
EOF

my ($capture) = simulate('--events' => 600, '--accounts' => 30, '--history' => 0, '--mix' => 'account=0,identity=0,sync=0');
my @messages = read_capture($capture);
my $lame = write_capture(PostgreSQL::Test::Utils::tempdir() . '/lame', @messages[ grep { $_ % 20 != 7 } 0 .. $#messages ]);
my $last = @messages;

# The rows that the incomplete relay leaves with no second source, where no commit waits.
my $relay = AtprotoTest::Server->start($lame);
query('CREATE SCHEMA alone; ' . subscribe_sql('alone', $relay, cursor => 0, target => "'alone'", verify => "'hash'", events => "'keep'", links => "'all'"));
wait_for_seq($node, 'alone', $last);
query("SELECT atproto.unsubscribe('alone')");

foreach my $version (qw(v1 v2))
{
	my $jetstream = AtprotoTest::Server->start(texts($version, $capture), '--hold-at' => 1);
	my $silent    = AtprotoTest::Server->start($capture, '--hold-at' => 1);

	query('SET client_min_messages = warning; ALTER SYSTEM RESET atproto.multi_source_wait');
	query("SELECT pg_reload_conf(); SET client_min_messages = warning; DROP SCHEMA IF EXISTS m CASCADE; CREATE SCHEMA m");
	wait_for("SELECT current_setting('atproto.multi_source_wait') = '1h'");
	foreach ([ 'silent', $silent ], [ 'relay', $relay ])
	{
		query(subscribe_sql($_->[0], $_->[1], cursor => 0, target => "'m'", verify => "'hash'", events => "'keep'", links => "'all'"));
		wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = '$_->[0]'");
	}
	wait_for_seq($node, 'relay', $last);
	cmp_ok(query('SELECT count(*) FROM atproto.held_event'), '>', 50, "$version: commits wait for those before them");
	query("SELECT atproto.pause(name) FROM atproto.subscription");
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
	query(subscribe_sql('jetstream', $jetstream, cursor => 0, target => "'m'", events => "'keep'", links => "'all'"));
	query('ALTER SYSTEM SET atproto.multi_source_wait = 0');
	query('SELECT pg_reload_conf()');
	wait_for('SELECT count(*) = 0 FROM atproto.held_event');
	same_rows('m', 'alone', "$version: what waited is taken");
	query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
}

$node->stop;
done_testing();
