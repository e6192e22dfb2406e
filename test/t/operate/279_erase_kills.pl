# 279_erase_kills.pl
#		Accounts are erased and blocked during a backfill with live traffic, while the server, the consumer and the fetcher
#		are killed at random moments.  In the end a further erase() ends, no table has a blocked account but where
#		account_traces() says so, nothing brings the account back, and all other accounts are as the network has them.
#
#		ATPROTO_SEED is the seed of the run, ATPROTO_KILLS the number of kills.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Backfill;
use AtprotoTest::Kills;
use Test::More;

my $kills = $ENV{ATPROTO_KILLS} || 6;
my $seed  = seed();

my $simulated = AtprotoTest::Backfill->begin(seed => $seed);
my $verify    = (qw(chain full))[ rand 2 ];
my $workers   = 1 + int rand 2;
note("$verify, $workers");

my $preload = $simulated->preload;
my $node    = make_node('erase_kills', start => $preload, conf => $simulated->settings . "synchronous_commit = off\n");
my $server  = AtprotoTest::Server->start($simulated->capture, '--hold-at', $simulated->half + 1, '--rate', 100);
my $killer  = AtprotoTest::Kills->new($node, $preload);
my @dids    = $simulated->dids;
my @blocked = @dids[ 0 .. 2 ];
my @calls;

# One account after the other is erased again and again, from when its first rows are there.
sub erase_next
{
	my $did = $blocked[ @calls % @blocked ];

	$simulated->hurry;
	$calls[-1]->pump_nb if @calls && $calls[-1]->pumpable;
	return if (@calls && $calls[-1]->pumpable) || @calls > 50;
	push @calls, IPC::Run::start([ 'psql', '-Xqd', $node->connstr('postgres'), '-c', "CALL atproto.erase('$did', block => true)" ], '<', \undef, '>&', \my $said);
	return;
}

sub settle
{
	my ($seq, $n) = @_;
	$killer->settle($n, sub { $simulated->outstanding('kills', $seq) }, 'nothing', \&erase_next);
	return;
}

$simulated->serve(1, $server);
query('SET synchronous_commit = on; ' . $simulated->subscribe_sql('kills', cursor => 0, verify => "'$verify'", workers => $workers, events => "'keep'", links => "'all'", backfill => "'network'"));
query(q{SET synchronous_commit = on; SELECT atproto.count_links('{app.bsky.feed.like:subject.uri,app.bsky.graph.follow:subject}')});
settle(0, int($kills / 2));
$simulated->serve(2, $server);
$server->release;
settle($simulated->last, $kills - int($kills / 2));
$_->finish foreach @calls;

my $list = join ',', map { "'$_'" } @blocked;
foreach my $did (@blocked)
{
	is(($node->psql('postgres', "CALL atproto.erase('$did', block => true)"))[0], 0, 'erase() again');
	# each row of each table, as text, and with the DID's bytes
	my ($tables) = join ' ', split /\n/, query(<<"EOSQL");
SELECT format('%I.%I', nspname, relname) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace, xpath('//n/text()', query_to_xml(format(
	'SELECT count(*) AS n FROM %s t WHERE position(%L in t::text) > 0 OR position(%L in t::text) > 0', c.oid::regclass, '$did', encode('$did', 'hex')), false, true, '')) x
WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') AND relkind = 'r' AND x[1]::text <> '0' ORDER BY 1
EOSQL
	is(query("SELECT string_agg(t, ' ') FROM regexp_split_to_table('$tables', ' ') t WHERE t NOT IN (SELECT object FROM atproto.account_traces('$did') WHERE place IN ('table', 'other accounts'))"), '',
		"account_traces() names each table with the account: $tables");
}
is(query("SELECT count(*) FROM atproto.check(deep => true) WHERE what = 'row of a blocked account'"), '0', 'check() finds no row');
is(join("\n", grep { my $line = $_; !grep { index($line, $_) >= 0 && $line =~ /^lacking/ } @blocked } split /\n/, $simulated->difference), '', 'the other accounts have the rows of the network');
cmp_ok(query("SELECT (skips ->> 'blocked')::int FROM atproto.stat_subscription"), '>', 0, 'events are counted as blocked');
my $car = $simulated->export($blocked[0], 2) // $simulated->export($blocked[0], 1);
query("CREATE SCHEMA other; SELECT atproto.create_tables('other'); INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('other', 'wss://localhost', 'other', false)");
unlike(($node->psql('postgres', "SELECT atproto.load_car('$dids[3]', pg_read_binary_file('" . ($simulated->export($dids[3], 2)) . "'), 'other')"))[2], qr/ERROR/, 'an export of another account is taken');
like(($node->psql('postgres', "SELECT atproto.load_car('$blocked[0]', pg_read_binary_file('$car'), 'other')"))[2], qr/ERROR:  account "$blocked[0]" is blocked/, 'no export is taken');
is(query("SELECT count(*) FROM atproto.repo_job"), '0', 'no job');
query("SELECT atproto.unblock(did) FROM unnest(ARRAY[$list]::did[]) did");
query("SELECT atproto.backfill_repo(did) FROM unnest(ARRAY[$list]::did[]) did");
$simulated->finish('kills');
is($simulated->difference, '', 'after unblock(), fetches bring all back');

$node->stop;
done_testing();
