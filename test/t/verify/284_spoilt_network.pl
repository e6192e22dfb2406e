# 284_spoilt_network.pl
#		A simulated network with every fault of test/oracle/spoil.py, at the levels that believe the server.
#		Tables, repo.sync, dead letters and counters must equal the results of test/oracle/levels.py for the
#		same bytes; with several workers, and when the whole stream comes twice.  V-13, V-14, V-17, V-26,
#		V-27, V-31 to V-33, V-36 to V-38.
#
#		ATPROTO_EVENTS, ATPROTO_SEED, ATPROTO_PERCENT: number of events, seed, share of each fault.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Levels;
use Test::More;

my $events  = $ENV{ATPROTO_EVENTS}  || 2_000;
my $seed    = seed();
my $percent = $ENV{ATPROTO_PERCENT} || 12;

# Repositories begin empty, or with a few records from before the stream.
my $spoilt = spoil(
	[
		'--events' => $events, '--accounts' => int($events / 40), '--seed' => $seed, '--history' => 24, '--batches' => 10,
		'--p256'   => 30, '--epoch' => int($events / 4), '--rotations' => 4, '--migrations' => 1,
		'--mix'    => 'delete=8,update=3,profile=2,account=1.5,identity=1,sync=1,other=1'
	],
	[ '--percent' => $percent, '--seed' => $seed ]);
my $last = last_seq($spoilt);
my %faults;
$faults{ $_->[2] }++ foreach truth($spoilt);
is(scalar keys %faults, 14, 'every kind of fault: ' . join(', ', map { "$_ $faults{$_}" } sort keys %faults));

my $node = make_node('spoilt', conf => "max_worker_processes = 12\natproto.reconnect_delay = 50ms");
my $server = AtprotoTest::Server->start("$spoilt/frames", '--cut-after', int($last / 3), '--cut-inside', 300);

foreach my $level (qw(hash chain))
{
	query("CREATE SCHEMA $level");
	query(subscribe_sql($level, $server, cursor => 0, target => "'$level'", verify => "'$level'"));
	wait_for_seq($node, $level, $last);
	level_matches($level, $spoilt, $level, schema => $level);
	is(query("SELECT string_agg(did || coalesce(reason, ''), ',') FROM (SELECT p.did, a.reason FROM $level.repo p, LATERAL atproto.audit(p.did, '$level') a"
			. " WHERE p.sync = 'synchronized' AND a.equal IS NOT TRUE AND p.status IS DISTINCT FROM 'deleted') x"),
		'', "V-46: $level: an audit of what is synchronized says the same");
	query("CALL atproto.audit_all('$level')");
	level_matches($level, $spoilt, $level, schema => $level, files => ['audited'], name => "V-45: $level: what audits find of all");
}
query('CREATE SCHEMA shared');
query(subscribe_sql('shared', $server, cursor => 0, target => q{'shared'}, workers => 3));
wait_for_seq($node, 'shared', $last);
level_matches('chain', $spoilt, 'shared', schema => 'shared', name => 'chain, three workers');

my $before = query('SELECT did, rev, data, sync FROM chain.repo ORDER BY did');
query(q{SELECT atproto.set_cursor('chain', 0)});
wait_for_seq($node, 'chain', $last);
level_matches('chain', $spoilt, 'chain', schema => 'chain', files => ['record'], name => 'once more, all is old');
is(query('SELECT did, rev, data, sync FROM chain.repo ORDER BY did'), $before, 'V-13: and no state is another');

# --- a database that was filled at level hash ---

# No event is spoilt, but one host sends no prevData, which level chain cannot verify either.
my $honest = spoil(
	[ '--events' => $events, '--accounts' => int($events / 40), '--seed' => $seed + 1, '--history' => 0, '--batches' => 10,
		'--mix' => 'delete=8,update=3,profile=2,account=1.5,identity=1,sync=0' ],
	[ '--percent' => 0 ]);
my $filled = AtprotoTest::Server->start("$honest/frames");
query('CREATE SCHEMA filled');
query(subscribe_sql('filled', $filled, cursor => 0, target => q{'filled'}, verify => q{'hash'}));
wait_for_seq($node, 'filled', last_seq($honest));
my $repos = q{filled.repo WHERE rev IS NOT NULL AND status IS DISTINCT FROM 'deleted'};
is(query("SELECT string_agg(DISTINCT sync, ',') FROM $repos"), 'partial', 'V-37: at level hash nobody knows');
query(q{CALL atproto.audit_all('filled')});
is(query("SELECT string_agg(DISTINCT sync, ',') FROM $repos"), 'synchronized', 'V-45: all are synchronized by audits alone');
level_matches('hash', $honest, 'filled', schema => 'filled', files => ['audited'], name => 'as the oracle says');

$node->stop;
done_testing();
