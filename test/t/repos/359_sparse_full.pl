# 359_sparse_full.pl
#		Signed repositories of a simulated network are fetched at level full, only some collections of each,
#		with proof; then the stream goes on.  Every repository is synchronized in the end, with the network's
#		records of these collections, although processes are killed, and nothing else of the network is
#		stored.  A commit that is not signed by the account's key is refused.  P-11, P-20, P-23.
#
#		ATPROTO_KILLS=100 kills more often.

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
my $simulated = AtprotoTest::Backfill->begin(accounts => 60, seed => seed());
my $preload   = $simulated->preload;
my $node      = make_node('sparse_full', start => $preload, conf => $simulated->settings . "synchronous_commit = off\n");
my $server    = AtprotoTest::Server->start($simulated->capture, '--hold-at', $simulated->half + 1);
my $killer    = AtprotoTest::Kills->new($node, $preload);
my @wanted    = qw(app.bsky.feed.like app.bsky.graph.follow);
my @dids      = grep { $simulated->export($_, 1) } $simulated->dids;
cmp_ok(scalar @dids, '>=', 50, 'there are 50 repositories');

sub asked
{
	my ($what) = @_;
	return scalar(() = $simulated->network->log(kind => 'http', path => qr/com\.atproto\.sync\.$what\b/));
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
$killer->settle(int($kills / 2), sub { $simulated->outstanding('sparse', $simulated->half) }, 'nothing', sub { $simulated->hurry });
is(query("SELECT count(*) FROM atproto.repo WHERE sync = 'synchronized' AND verified"), scalar @dids, 'P-23: all are synchronized, and verified');
is(asked('getRepo'), 0, 'P-32: and none was fetched as a whole');
cmp_ok(asked('getRecord'), '>=', scalar @dids, 'P-02: but with proofs');
$simulated->serve(2, $server);
$server->release;
$killer->settle($kills - int($kills / 2), sub { $simulated->outstanding('sparse', $simulated->last) }, 'nothing', sub { $simulated->hurry });
is($simulated->difference(collections => \@wanted), '', 'P-20: the rows are those that the network has in these collections');
is(query("SELECT count(*) FROM atproto.repo WHERE sync <> 'synchronized' OR hold IS NOT NULL"), '0', 'P-23: to the end');
is(query("SELECT count(*) FROM atproto.dead_letter"), '0', 'without a dead letter');

$node->stop;
done_testing();
