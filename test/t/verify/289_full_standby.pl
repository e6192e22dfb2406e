# 289_full_standby.pl
#		Runs 289_full_network.pl with two workers; the directory is away when the primary dies.  A promoted
#		standby, and a server restored to a moment in the middle, release the held events once, and end with
#		the same tables.  R-30, R-32, R-35, W-37.
#
#		ATPROTO_SEED is the seed of the run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Levels;
use Test::More;

my $seed  = seed();
my $epoch = 80;

# held events are released in the order of rev: a late commit that is held counts as in time, unlike for the
# oracle
my $faults = 'lost,twice,cut,bare,altered,omitted,future,stranger,other,high,before,fork,sync';
my $full = begin_full('full_primary',
	events => 2 * $epoch, epoch => $epoch, accounts => 30, history => 16, seed => $seed, percent => 8, faults => $faults, rate => 100,
	init => { allows_streaming => 1, has_archiving => 1 });
my ($primary, $preload, $network) = @$full{qw(node preload network)};

# No event is held any more; a directory without an answer may rest meanwhile by the clock.
sub settle
{
	my ($seq) = @_;
	my $since = time;

	wait_until(
		sub {
			my $there = try_query("SELECT (SELECT seq >= $seq FROM atproto.stat_subscription WHERE name = 'full'), (SELECT count(*) FROM atproto.held_event), (SELECT count(*) FROM atproto.repo WHERE hold IS NOT NULL)") // '';
			return 1 if $there eq 't|0|0';
			if ($there =~ /^t/ && time > $since)
			{
				$preload->step(35);
				$full->{clock}->advance(70) if $full->{clock};
				$since = time;
			}
			return 0;
		},
		"event $seq, and nothing that waits");
	return;
}

# Tests that each change was made once, and none is missing.
sub is_once
{
	my ($what) = @_;

	is(query(<<'EOSQL'), '', "R-30: $what: each change is told once, the last one is what is there");
SELECT string_agg(did || '/' || rkey, ', ') FROM (
	SELECT did, collection, rkey FROM atproto.record_event GROUP BY did, collection, rkey, rev, action, seq HAVING count(*) > 1
	UNION ALL
	SELECT did, collection, rkey FROM (SELECT DISTINCT ON (did, collection, rkey) did, collection, rkey, cid FROM atproto.record_event
		ORDER BY did, collection, rkey, rev DESC) e FULL JOIN atproto.record r USING (did, collection, rkey)
		WHERE e.cid IS DISTINCT FROM r.cid) x
EOSQL
	return;
}

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('full_standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$preload->start($standby);
query(subscribe_sql('full', $full->{server}, cursor => 0, workers => 2, verify => "'full'", events => "'keep'"));

# --- in the last epoch, the directory does not answer ---

begin_epoch($full, \&settle) while @{ $full->{stops} } > 1;
settle($full->{stops}[0] - 1);
my $away = $network->fault({ host => 'plc.example.com', reset => 0 });
query('UPDATE atproto.identity SET stale = true, said_by = ARRAY[10::oid], doubted_by = ARRAY[10::oid] WHERE did IN (SELECT did FROM atproto.repo ORDER BY did LIMIT 8)');
begin_epoch($full, sub { });
wait_for('SELECT count(*) >= 3 FROM atproto.held_event');
my $file = query("SELECT pg_walfile_name(pg_create_restore_point('middle'))");
query('SELECT pg_switch_wal()');
my $there = query('SELECT count(*) FROM atproto.held_event');
wait_for("SELECT last_archived_wal >= '$file' FROM pg_stat_archiver");
note("$there events wait");
$primary->stop('immediate');

my $restored = PostgreSQL::Test::Cluster->new('full_restored');
$restored->init_from_backup($primary, 'base', has_restoring => 1, standby => 0);
$restored->append_conf('postgresql.conf', "recovery_target_name = 'middle'\nrecovery_target_action = promote\n");
$preload->start($restored);
$standby->promote;

foreach my $node ($standby, $restored)
{
	my $name = $node->name;

	ask_from_now_on($node);
	wait_for('SELECT NOT pg_is_in_recovery()', gone => 1);
	wait_for("SELECT seq >= $full->{last} FROM atproto.stat_subscription WHERE name = 'full'");
	cmp_ok(query('SELECT count(*) FROM atproto.held_event'), '>', 0, "R-35: $name: what waited waits");
}
$network->unfault($away);
foreach my $node ($standby, $restored)
{
	ask_from_now_on($node);
	$full->{node} = $node;
	$full->{clock} = AtprotoTest::Clock->new($node);
	settle($full->{last});
	full_matches($full, files => [ 'record', 'repo', 'dead' ]);
	is_once($node->name);
	$node->stop;
}
done_testing();
