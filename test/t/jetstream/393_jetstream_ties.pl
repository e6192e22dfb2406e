# 393_jetstream_ties.pl
#		Events of Jetstream's first version wait for a commit of a relay.  Several events of one revision
#		may have the same time; none of them may be lost.  J-20, R-30.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node(
	'ties', conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 20ms
atproto.multi_source_wait = 1h
EOF

my ($capture) = simulate('--events' => 1200, '--accounts' => 30, '--history' => 0, '--batches' => 50, '--mix' => 'account=0,identity=0,sync=0');
my @messages = read_capture($capture);
my $dir = PostgreSQL::Test::Utils::tempdir();
my (%n, @lacks, @until, @after);

# of each repository: all sources lack the fourth commit; "until" has the fifth, "after" has the commits after
# the fifth
foreach my $message (@messages)
{
	my $n = ++$n{ ($message =~ /(did:plc:[a-z2-7]{24})/)[0] // '' };

	push @lacks, $message if $n != 4;
	push @until, $message if $n < 4 || $n == 5;
	push @after, $message if $n < 4 || $n > 5;
}
my ($lacks, $until) = (write_capture("$dir/lacks", @lacks), write_capture("$dir/until", @until));
my @relays    = (AtprotoTest::Server->start($lacks), AtprotoTest::Server->start($until), AtprotoTest::Server->start($until, '--hold-at' => 1));
my $texts     = texts('v1', write_capture("$dir/after", @after), '--ties' => 90);
my $jetstream = AtprotoTest::Server->start($texts);

query('CREATE SCHEMA alone; ' . subscribe_sql('alone', $relays[0], cursor => 0, target => "'alone'", events => "'keep'", links => "'all'"));
wait_for_seq($node, 'alone', scalar @messages);
query("SELECT atproto.unsubscribe('alone'); CREATE SCHEMA m");
foreach my $n (1, 2)
{
	query(subscribe_sql("relay$n", $relays[$n], cursor => 0, target => "'m'", events => "'keep'", links => "'all'"));
}
wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'relay2'");
wait_for("SELECT count(DISTINCT did) > 10 FROM atproto.held_event WHERE why = 'gap'");
wait_for("SELECT seq >= 100 FROM atproto.stat_subscription WHERE name = 'relay1'");
query(subscribe_sql('jetstream', $jetstream, cursor => 0, target => "'m'", events => "'keep'", links => "'all'"));
wait_for_texts('jetstream', $texts);
cmp_ok(query("SELECT count(*) FROM atproto.held_event WHERE subscription = 'jetstream'"), '>', 50, 'events of Jetstream wait behind the relay\'s');

# Jetstream's level is lower than the relays', so its consumer may not take their events.  The relays' consumers
# take Jetstream's newer events.
my $points = AtprotoTest::Points->new($node);
$points->hold('held events read', "atproto relay$_") foreach 1, 2;
query('ALTER SYSTEM SET atproto.multi_source_wait = 0');
query('SELECT pg_reload_conf()');
$points->wait('held events read', 'atproto relay1');
wait_for(q{SELECT clock_timestamp() > pg_conf_load_time() + interval '3 s'});
is(query(q{SELECT count(*) FROM atproto.held_event WHERE subscription = 'relay1'}), query(q{SELECT count(DISTINCT did) FROM atproto.held_event}), 'the relay\'s events are still the first of each repository');
$points->release('held events read', "atproto relay$_") foreach 1, 2;
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
same_rows('m', 'alone', 'all of what waited is taken', tables => [qw(record record_event link)]);

$node->stop;
done_testing();
