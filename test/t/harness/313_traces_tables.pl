# 313_traces_tables.pl
#		The committed transactions of fetched repositories, of a table that is divided, and of events that wait for a key are those of runs
#		of the models export, schema and held; with one transaction left out or exchanged, they are not.  R-52, R-53, W-31, V-41.
#
#		312_traces.pl does this for the model of a subscription.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use AtprotoTest::Lookups;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'spin and gcc are not there' unless AtprotoTest::Trace::possible();

my $traces = $ENV{ATPROTO_TRACE} // PostgreSQL::Test::Utils::tempdir('trace');

# A run of the model leaves what was committed, but not with a transaction of this mark missing or later.
sub judged
{
	my ($trace, $model, $mark, @untruths) = @_;
	my ($number) = AtprotoTest::Trace::judge('--marks', $trace, $model) =~ /^  (\d+): $mark/m;
	my $said = AtprotoTest::Trace::judge('--untruths', $number, $trace, $model);

	note($said);
	like($said, qr/^ok - $model: .*: all/m, "$model: a run of the model leaves what was committed");
	unlike($said, qr/^(not ok - $model: .*: \d+ of|undecided)/m, "$model: no object is refused");
	like($said, qr/^ok - $model: .* $_: \d+ of/m, "$model: the model refuses it with one transaction $_") foreach @untruths;
	return;
}

# --- a fetch ends after a slice, and the next export is older ---

my ($network, $node, $files) = do {
	local $ENV{ATPROTO_TRACE} = $traces;
	begin_exports('traced_tables', "atproto.fetch_retry = '1s'\natproto.fetch_allow = 'http://$HOST'\natproto.reconnect_delay = 50ms\natproto.test_merge_slice = 200\n");
};
my $points = AtprotoTest::Points->new($node);
my @slice  = ('slice next', 'atproto fetcher');
my $did    = did('a');
my $server = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x'));

$network->repos({ $HOST => { $did => { car => "$files/second.car" } } });
$network->hosts({ $HOST => { stream => $server->port } });
query("SELECT atproto.subscribe('s', 'ws://$HOST', allow_insecure => true, cursor => 0, backfill => 'repair')");
wait_for_seq($node, 's', 1);
$points->hold(@slice);
query("SELECT atproto.resync('$did')");
$points->wait(@slice);
my $fetcher = query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'");
query("SELECT pg_terminate_backend($fetcher)");
$network->repos({ $HOST => { $did => { car => "$files/first.car" } } });
$points->release(@slice);
wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $fetcher)");
query("SELECT atproto.resync('$did')");
wait_for("SELECT sync = 'synchronized' FROM atproto.repo WHERE did = '$did'");

# --- a table is divided, and links are compared ---

$server = AtprotoTest::Server->start(capture('pds.frames.gz'), '--hold-at', 400);
query('CREATE SCHEMA many');
query(subscribe_sql('many', $server, cursor => 0, target => q{'many'}, links => q{'all'}));
wait_for_seq($node, 'many', 399);
query(q{SELECT atproto.partition('many', 'collection')});
query(q{SELECT atproto.rebuild_links('many')});
$server->release;
wait_for_seq($node, 'many', 800);

my $trace = trace_of($node);
judged($trace, 'export', 'OTHER\(27, 0, 0\)', 'without');
judged($trace, 'schema', 'batch',               'twice', 'later');
$node->stop;

# --- a look-up was running when an #identity came: no manager runs, and so no fetcher (282_full_keys.pl) ---

$node = make_node('traced_keys', trace => $traces, databases => '', conf => 'atproto.reconnect_delay = 50ms');
my %who   = accounts_of('full.py', 'rotations');
my $names = keys %who;

$server = AtprotoTest::Server->start(make_capture('full.py', 'rotations'), '--hold-at', $names + 1, '--hold-at', $names + 11);
know($who{$_}{did}, $who{$_}{first}) foreach keys %who;
query(subscribe_sql('keys', $server, cursor => 0, verify => "'full'"));
wait_for_seq($node, 'keys', $names);
$server->release;
wait_for_seq($node, 'keys', $names + 10);
looked_up(', resolved_at = now()', "did = '$who{former}{did}'");
looked_up(", key = '\\x$who{former}{second}', resolved_at = now()", "did = '$who{former}{did}'");
is(query("SELECT stage FROM atproto.dead_letter WHERE did = '$who{former}{did}'"), 'signature', 'a commit with the former key is refused by the second look-up');
judged(trace_of($node), 'held', 'LOOK', 'without', 'later');

$node->stop;
done_testing();
