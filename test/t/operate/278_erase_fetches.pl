# 278_erase_fetches.pl
#		erase() with a block beside the fetcher: a page of a list that was compared with the tables before the block makes
#		no request and no job of the account afterwards.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Points;
use AtprotoTest::Preload;
use Test::More;

my $network = AtprotoTest::Network->start;
my $node    = make_node('erase_fetches', start => AtprotoTest::Preload->make(network => $network), conf => $network->settings . "atproto.fetch_host_rate = 10000\nmax_worker_processes = 20\n");
my $points  = AtprotoTest::Points->new($node);
my $rev     = '3jqfcqzm3fo2j';
my ($host, $fetcher) = ('relay.example.com', 'atproto fetcher');
my %entries = (
	a => { active => JSON::PP::true, rev => '' },		# stored: its server would be asked for the revision
	b => { active => JSON::PP::true, rev => '3jqfcqzm3fo3j' },	# stored, older: a fetch
	c => { active => JSON::PP::true, rev => '3jqfcqzm3fo3j' },	# stored, older, and not blocked
);

query("INSERT INTO atproto.repo (did, rev, sync, active) VALUES " . join ', ', map { "('" . did($_) . "', '$rev', 'partial', true)" } sort keys %entries);
$network->hosts({ $host => { list => [ map { { did => did($_), head => 'bafy', %{ $entries{$_} } } } sort keys %entries ] } });
$points->hold('list compared', $fetcher);
query("SELECT atproto.subscribe('s', 'wss://stream.example.com', backfill => 'repair', list_source => 'https://$host')");
query("SELECT atproto.recheck('s')");
$points->wait('list compared', $fetcher);
my @erasing = map { $points->session("erase $_", "CALL atproto.erase('" . did($_) . "', block => true)") } 'a', 'b';
$points->blocked("erase $_") foreach 'a', 'b';
pass('erase() waits for the page, which may have seen the accounts unblocked');
$points->release('list compared', $fetcher);
$_->finish foreach @erasing;
wait_for("SELECT finished_at IS NOT NULL FROM atproto.enumeration WHERE subscription = 's'");
is(query('SELECT string_agg(did::text, $$ $$) FROM atproto.repo_job'), did('c'), 'no job of a blocked account is left');
is(query('SELECT count(*) FROM atproto.status_request'), '0', 'and no request');
is(query(q{SELECT count(*) FROM atproto.check(deep => true) WHERE what = 'row of a blocked account'}), '0', 'check() finds nothing');

done_testing();
