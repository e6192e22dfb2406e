# 280_two_sources.pl
#		Two streams with the same repositories fill the same tables at the same time, out of step: each
#		record is stored as by a single source.  If a single source ran and lacked events, a source with a
#		later start cannot bring the events: the loss is noticed, and repaired by a refill from the complete
#		source.  F-03, F-08, F-15.  (280_union.pl has simultaneous sources.)

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node('two_sources', conf => 'atproto.reconnect_delay = 50ms');

# The first source is ahead, then the second, then both run at once, one of them cut now and then; a third
# begins afterwards.
my @servers = (
	AtprotoTest::Server->start($pds, '--hold-at', 500, '--rate', 2000, '--cut-after', 300),
	AtprotoTest::Server->start($pds, '--hold-at', 800, '--rate', 2000),
	AtprotoTest::Server->start($pds));
query(subscribe_sql('s0', $servers[0], cursor => 0));
wait_for_seq($node, 's0', 499);
query(subscribe_sql('s1', $servers[1], cursor => 0));
wait_for_seq($node, 's1', 799);
$_->release foreach @servers[ 0, 1 ];
wait_for_seq($node, "s$_", $PDS_LAST) foreach 0, 1;
tables_match($node, $pds, 'the tables are what the oracle says');
query(subscribe_sql('s2', $servers[2], cursor => 0));
wait_for_seq($node, 's2', $PDS_LAST);
tables_match($node, $pds, 'they still are after a third');

# Each operation was applied by one of the sources.
my $ops = operations($pds);
is(query('SELECT sum(record_ops), min(events), max(events) FROM atproto.cursor'), "$ops|$PDS_LAST|$PDS_LAST", 'each operation was applied by one of them');
is(query("SELECT record_ops FROM atproto.cursor WHERE subscription = 's2'"), '0', 'none by the one that was late');
is(query("SELECT count(*) FROM atproto.cursor WHERE record_ops > 0"), '2', 'some by each of the others');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');
unlike(slurp_file($node->logfile), qr/ERROR|deadlock/, 'they did not get into each other\'s way');

# --- the faster source lacks some 200 commits; at level hash: 281_chain.pl tests level chain ---

is(query('SELECT count(*) FROM atproto.repo WHERE sync = $$desynchronized$$'), '0', 'F-08: every commit continued its repository');
my @messages = read_capture($pds);
my @commits = grep { $messages[$_] =~ /#commit/ && $messages[$_] !~ /#sync/ } 0 .. $#messages;
my %of;
push @{ $of{ ($messages[$_] =~ /drepox (did:plc:[a-z2-7]{24})/)[0] } }, $_ foreach @commits;
# some repositories lack only their first commit, so that no later commit breaks
my @beheaded = grep { @{ $of{$_} } > 1 } (sort keys %of)[ 0 .. 9 ];
my %whole = map { $_ => 1 } map { @{ $of{$_} } } @beheaded;
my %lacking = map { $_ => 1 } grep { !$whole{$_} } map { $commits[ 5 * $_ + 2 ] } 0 .. 199;
$lacking{ $of{$_}[0] } = 1 foreach @beheaded;
# half of these begin with the #sync of the same revision, which does not bring its records
my ($named, $silent) = map { join '|', @$_ } [ @beheaded[ 0 .. 4 ] ], [ @beheaded[ 5 .. 9 ] ];
my @syncs = grep { $messages[$_] =~ /#sync/ } 0 .. $#messages;
$lacking{$_} = 1 foreach grep { $messages[$_] =~ /$silent/ } @syncs;
my $lame = write_capture(PostgreSQL::Test::Utils::tempdir() . '/lame', @messages[ grep { !$lacking{$_} } 0 .. $#messages ]);
query("SELECT atproto.unsubscribe(name) FROM atproto.subscription; CREATE SCHEMA lame");
my $faster = AtprotoTest::Server->start($lame);
query(subscribe_sql('faster', $faster, cursor => 0, target => "'lame'", verify => "'hash'"));
wait_for_seq($node, 'faster', $PDS_LAST);
cmp_ok(query("SELECT (skips->>'break')::int FROM atproto.stat_subscription WHERE name = 'faster'"), '>', 0, 'F-08: breaks are counted');
query(subscribe_sql('slower', $servers[1], cursor => 0, target => "'lame'", verify => "'hash'"));
wait_for_seq($node, 'slower', $PDS_LAST);

# The records of unmarked repositories are those of the oracle.
my %marked = map { $_ => 1 } split /\n/, query('SELECT did FROM lame.repo WHERE sync = $$desynchronized$$');
cmp_ok(scalar(@beheaded), '>', 3, 'some repositories lack their first commit only');
cmp_ok(scalar(grep { $messages[$_] =~ /$named/ } @syncs), '>', 3, 'F-12: some begin with a #sync');
is(join(',', grep { !$marked{$_} } @beheaded), '', 'F-08: they are marked when the other source has it');
my ($want) = oracle('', 'record', $pds);
my ($have) = oracle(table_copy($node, 'record', schema => 'lame'), 'canon');
my %lost;
foreach my $row (split(/\n/, $want), split(/\n/, $have))
{
	$lost{$row}++;
}
my %incomplete = map { (split /\t/)[0] => 1 } grep { $lost{$_} == 1 } keys %lost;
cmp_ok(scalar(keys %incomplete), '>', 0, 'records are missing, or stale');
is(join(',', grep { !$marked{$_} } sort keys %incomplete), '', 'F-08: the repositories that lack them are marked');

# Read again from the complete source.
query("SELECT atproto.unsubscribe('faster')");
cmp_ok(query("SELECT atproto.refill('slower')"), '>', 0, 'a refill begins');
$node->poll_query_until('postgres', "SELECT events = 2 * $PDS_LAST FROM atproto.cursor WHERE subscription = 'slower'") or die;
tables_match($node, $pds, 'after it nothing is missing', schema => 'lame');
is(query('SELECT count(*) FROM lame.repo WHERE refill_by IS NOT NULL'), '0', 'it is at its end');

$node->stop;
done_testing();
