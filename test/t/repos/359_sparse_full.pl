# 359_sparse_full.pl
#		Signed repositories of a simulated network are fetched at level full, only some collections of each,
#		with proof; then the stream goes on.  Every repository is synchronized in the end, with the network's
#		records of these collections, although processes are killed, and nothing else of the network is
#		stored.  A commit that is not signed by the account's key is refused.  P-11, P-20, P-23.
#		At last prove() compares all accounts: accounts with good servers are proven, or their planted differences
#		are found; accounts at hosts at fault are listed with their reasons.  Kills change no result.  P-50 to P-52.
#
#		ATPROTO_KILLS=100 kills more often; ATPROTO_ACCOUNTS=1000 makes a larger network.

use strict;
use warnings FATAL => 'all';

use Digest::SHA qw(sha256);
use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Backfill;
use AtprotoTest::Kills;
use PostgreSQL::Test::Utils;
use Test::More;

my $kills     = $ENV{ATPROTO_KILLS} // 4;
my $accounts  = $ENV{ATPROTO_ACCOUNTS} // 300;
my $simulated = AtprotoTest::Backfill->begin(accounts => $accounts, half => 2 * $accounts, seed => seed());
my $preload   = $simulated->preload;
my $node      = make_node('sparse_full', start => $preload, conf => $simulated->settings . "synchronous_commit = off\n");
my $server    = AtprotoTest::Server->start($simulated->capture, '--hold-at', $simulated->half + 1);
my $killer    = AtprotoTest::Kills->new($node, $preload);
my @wanted    = qw(app.bsky.feed.like app.bsky.graph.follow);
my @dids      = grep { $simulated->export($_, 1) } $simulated->dids;
cmp_ok(scalar @dids, '>=', $accounts / 2, 'there are repositories');

sub asked
{
	my ($what) = @_;
	return scalar(() = $simulated->network->log(kind => 'http', path => qr/com\.atproto\.sync\.$what\b/));
}

# Outstanding work.  Before the fetcher has read the network's list, no job is outstanding.
sub left
{
	my ($seq) = @_;
	my $left = $simulated->outstanding('sparse', $seq) // return;
	my $there = AtprotoTest::try_query("SELECT count(*) FROM atproto.repo WHERE sync = 'synchronized'") // return;

	return $left eq 'nothing' && $there < @dids ? "$there repositories of the list" : $left;
}

# --- forged commits ---

# Change a byte of the signature in the export's first block, the commit.  The commit's CID, the root, changes with the signature.
sub forge
{
	my ($file) = @_;
	my $car    = slurp_file($file);
	my $begin  = 1 + ord $car;                                            # of the first section, behind the header
	my $two    = ord(substr $car, $begin, 1) > 127;
	my $length = ord(substr $car, $begin, 1) % 128 + ($two ? 128 * ord substr $car, $begin + 1, 1 : 0);
	my $at     = $begin + ($two ? 2 : 1);
	my $cid    = substr $car, $at, 36;
	my $commit = substr $car, $at + 36, $length - 36;

	substr($commit, index($commit, "csigX\x40") + 16, 1) ^= "\x01";
	my $new = substr($cid, 0, 4) . sha256($commit);
	substr($car, $at, $length) = $new . $commit;
	substr($car, index($car, $cid), 36) = $new;
	my $forged = PostgreSQL::Test::Utils::tempdir('forged') . '/forged.car';
	open my $f, '>:raw', $forged or die;
	print $f $car;
	close $f or die;
	return $forged;
}

$simulated->serve(1, $server);
my ($forged, $other) = @dids;
my $pds = $simulated->pds($forged);
$simulated->network->fault({ host => $pds, did => $forged, path => 'getRecord', status => 200, file => $simulated->export($other, 1) });
query('SET synchronous_commit = on; ' . $simulated->subscribe_sql(
	'sparse',
	cursor => $simulated->half, verify => "'full'", backfill => "'repair'", fetch_as => "'sparse'", collections => "'{" . join(',', @wanted) . "}'"));
query("SELECT atproto.resync('$forged')");
wait_for("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$forged' AND error ~ 'of another account')");
$simulated->network->unfault(undef);
$simulated->network->repos({ $pds => { $forged => { car => forge($simulated->export($forged, 1)) } } });
query("SELECT atproto.resync('$forged')");
wait_for("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$forged' AND error ~ 'not signed by the account')");
is(query("SELECT count(*) FROM atproto.record WHERE did = '$forged'"), '0', 'P-11: neither the commit of another account is taken, nor one without its signature');
$simulated->serve(1, $server);
query("SELECT atproto.resync('$forged')");

# --- all repositories, then the stream ---

query("SET synchronous_commit = on; UPDATE atproto.subscription SET backfill = 'network'");
$killer->settle(int($kills / 2), sub { left($simulated->half) }, 'nothing', sub { $simulated->hurry });
is(query("SELECT count(*) FROM atproto.repo WHERE sync = 'synchronized' AND verified"), scalar @dids, 'P-23: all are synchronized, and verified');
is(asked('getRepo'), 0, 'P-32: and none was fetched as a whole');
cmp_ok(asked('getRecord'), '>=', scalar @dids, 'P-02: but with proofs');
$simulated->serve(2, $server);
$server->release;
$killer->settle($kills - int($kills / 2), sub { left($simulated->last) }, 'nothing', sub { $simulated->hurry });
is($simulated->difference(collections => \@wanted), '', 'P-20: the rows are those that the network has in these collections');
is(query("SELECT count(*) FROM atproto.repo WHERE sync <> 'synchronized' OR hold IS NOT NULL"), '0', 'P-23: to the end');
is(query("SELECT count(*) FROM atproto.dead_letter"), '0', 'without a dead letter');

# --- proofs, three hosts at fault ---

my %faults = (
	'wall.example.net'   => [ qr/^its server answers with HTTP status 403$/, { status => 403, body => 'no' } ],
	'cut.example.net'    => [ qr/^the request to its server has failed: broken$|rests$/, { truncate => 200 } ],
	'forged.example.net' => [ qr/^the commit is not signed by the account's key$/ ]);
my @faulty = (query("SELECT did FROM atproto.repo WHERE active AND rev IS NOT NULL ORDER BY did") =~ /\S+/g)[ 3, 5, 7 ];
my %reason;
foreach my $host (sort keys %faults)
{
	my $did = shift @faulty;
	my ($reason, $fault) = @{ $faults{$host} };

	$reason{$did} = $reason;
	$simulated->network->repos({ $host => { $did => { car => $fault ? $simulated->export($did, 2) : forge($simulated->export($did, 2)) } } });
	$simulated->network->fault({ host => $host, path => 'sync\\.get', %$fault }) if $fault;
	query("SET synchronous_commit = on; UPDATE atproto.identity SET pds = '$host', resolved_at = now(), asked_at = now() WHERE did = '$did'");
}
query("SET synchronous_commit = on; UPDATE atproto.subscription SET backfill = 'none'");
my $faulty  = join ',', map { "'$_'" } sort keys %reason;
my $planted = query("SET synchronous_commit = on; WITH d AS (DELETE FROM atproto.record WHERE (did, collection, rkey) IN (SELECT did, collection, rkey FROM (SELECT *, row_number() OVER (ORDER BY did, rkey) AS n
	FROM atproto.record WHERE did NOT IN ($faulty)) r WHERE n % 17 = 5) RETURNING did) SELECT string_agg(did || '|' || n, E'\n' ORDER BY did) FROM (SELECT did, count(*) AS n FROM d GROUP BY did) d");

my $to_prove = sub { AtprotoTest::try_query("SELECT count(*) FROM atproto.proof_result WHERE state <> 'done' AND error IS NULL") };

# Ask for all proofs, with n kills, and return the result of each account.
sub prove
{
	my ($n) = @_;

	query("SET synchronous_commit = on; DELETE FROM atproto.proof_result; SELECT atproto.prove()");
	foreach my $left (sort { $b <=> $a } map { int rand @dids } 1 .. $n)
	{
		wait_until(sub { ($to_prove->() // $left + 1) <= $left }, "so many proofs: $left");
		$killer->settle(1, sub { "$left to be proven" }, "$left to be proven", sub { });
	}
	$killer->settle(0, $to_prove, '0', sub {
			AtprotoTest::try_query("UPDATE atproto.proof_result SET next_try = 'epoch' WHERE state <> 'done' AND error IS NULL AND next_try > now() + interval '1 s'") });
	return query("SELECT did, state, equal, missing, extra, other, letters, paths FROM atproto.proof_result ORDER BY did");
}

my $found = prove(0);
is(query("SELECT string_agg(did || '|' || missing, E'\n' ORDER BY did) FROM atproto.proof_result WHERE state = 'done' AND NOT equal"), $planted, 'P-50: the planted differences are found');
is(query("SELECT count(*) = (SELECT count(*) FROM atproto.repo WHERE active AND rev IS NOT NULL) AND bool_and(equal OR missing > 0 AND extra + other = 0) FILTER (WHERE did NOT IN ($faulty)) FROM atproto.proof_result"),
	't', 'P-50: accounts whose server answers as the protocol says are compared');
like(query("SELECT reason FROM atproto.proof_result WHERE did = '$_' AND state = 'queued'"), $reason{$_}, 'P-52: an account of a host at fault has its reason') foreach sort keys %reason;
is(query("SELECT proven + earlier + differing + refused = accounts AND refused = 3 AND waiting = 0 FROM atproto.proof"), 't', 'P-52: no account is left out');
is(prove($ENV{ATPROTO_KILLS} // 3), $found, 'P-50: with kills, the same is found');

$node->stop;
done_testing();
