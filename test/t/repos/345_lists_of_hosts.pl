# 345_lists_of_hosts.pl
#		A relay's list of hosts, and the lists of repositories of these hosts (R-60): which hosts the
#		fetcher asks (R-62, W-50 to W-52), how many, and in which order; which entries of a host's list
#		count (R-61); hosts that appear in the relay's list and disappear.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use Test::More;

my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
my $node    = make_node(
	'hosts',
	start => $preload,
	conf  => $network->settings . <<'EOF');
atproto.fetch_host_rate = 10000
atproto.fetch_retry = '1h'
max_worker_processes = 20
EOF
my $clock = AtprotoTest::Clock->new($node);
my $rev   = '3jqfcqzm3fo2j';
my $later = '3jqfcqzm3fo3j';
my $relays = 0;

sub entry
{
	my ($letter, %o) = @_;
	return { did => did($letter), head => 'bafy', rev => $rev, active => JSON::PP::true, %o };
}

# A subscription to a stream that no server sends; a separate relay names these hosts.
sub follow
{
	my ($name, $hosts, %o) = @_;
	my $relay = 'relay' . ++$relays . '.example.com';

	$network->hosts({ $relay => { hosts => $hosts, %{ delete $o{relay} // {} } } });
	query("SELECT atproto.subscribe('$name', 'wss://stream.example.com', backfill => 'network', list_hosts => true,"
		  . " list_source => 'https://$relay'" . join('', map { ", $_ => $o{$_}" } sort keys %o) . ')');
	return $relay;
}

# The hosts whose lists are being read or were read.
sub hosts_of
{
	my ($name) = @_;
	return "SELECT string_agg(substr(source, 11), ' ' ORDER BY source) FROM atproto.enumeration WHERE subscription = '$name' AND source LIKE 'listRepos %'";
}

sub urls
{
	return join ' ', map { "https://$_.example.com" } @_;
}

sub wait_until_read
{
	my ($name, $which) = @_;
	wait_for("SELECT count(*) > 1 AND bool_and(COALESCE(finished_at, '-infinity') > '-infinity') FROM atproto.enumeration WHERE subscription = '$name' AND " . ($which // 'true'));
	return;
}

sub jobs
{
	my ($name) = @_;
	return query("SELECT string_agg(did::text, ' ' ORDER BY did::text) FROM atproto.repo_job WHERE subscription = '$name' AND state <> 'suspended'");
}

sub dids
{
	return join ' ', sort map { did($_) } @_;
}

sub asked
{
	my ($host) = @_;
	return [ map { $_->{path} =~ s/^\/xrpc\/com\.atproto\.sync\.//r } $network->log(host => $host, kind => 'http') ];
}

# The list of hosts is read again, at once.
sub read_again
{
	my ($name) = @_;
	query("UPDATE atproto.enumeration SET finished_at = '-infinity' WHERE subscription = '$name' AND source = 'listHosts'");
	wait_for("SELECT finished_at > '-infinity' FROM atproto.enumeration WHERE subscription = '$name' AND source = 'listHosts'");
	return;
}

# --- which hosts ---

$network->hosts({
	'pds1.example.com' => { page => 1, list => [ entry('a'), entry('b') ] },
	'pds2.example.com' => { list => [ entry('b'), entry('c'), entry('d', active => JSON::PP::false) ] },
	'pds5.example.com' => { list => [ entry('e') ] } });
$network->fault({ host => 'pds1.example.com', path => 'cursor=1', hold => 'gate', times => 1 });
my $relay = follow('hosts', [
	'pds1.example.com', { hostname => 'pds2.example.com', status => 'active', seq => 7, accountCount => 3 },
	{ hostname => 'pds3.example.com', status => 'banned' }, { hostname => 'pds4.example.com', status => 'offline' },
	{ hostname => 'PDS5.example.com:443', status => 'throttled' }, '10.1.2.3', 'pds6.example.com:2583', 'localhost', 'pds1.example.com' ],
	relay => { page => 2, list => [ entry('f') ] });
$network->wait_for_log(1, host => 'pds1.example.com', path => qr/cursor=1/);
wait_until_read('hosts', "source NOT LIKE '%pds1%'");
$node->stop('immediate');
$preload->start($node);
wait_until_read('hosts');
$network->release('gate');
is(query("SELECT pages, seen, queued, skipped, error FROM atproto.enumeration WHERE source = 'listHosts'"), '5|8|3|3|', 'R-60: a list of hosts, its entries and those that are new');
is(query(hosts_of('hosts')), urls(qw(pds1 pds2 pds5)), 'R-62: of a host that is banned or offline no list is read; W-50, W-52: nor of one at another port, or of no full name');
is(jobs('hosts'), dids(qw(a b c e)), 'R-61: an account of two lists is one; the list of the relay itself does not count');
is_deeply(asked('pds1.example.com'), [ map { "listRepos?limit=1000$_" } '', '&cursor=1', '&cursor=1' ], 'R-60: after a crash, the list of a host goes on where it was');
is_deeply([ grep { !/^listHosts\?limit=1000/ } @{ asked($relay) } ], [], 'the relay is asked for its hosts alone');
is(scalar(() = $network->log(host => qr/^pds[346]|localhost|10\./)), 0, 'and the others for nothing');
is(query('SELECT lists, lists_ended, enumerated FROM atproto.repo_progress'), '4|4|14', 'R-65: they are lists as all others');

# --- hosts that appear and disappear ---

$network->hosts({ $relay => { hosts => [ 'pds1.example.com', 'pds7.example.com' ] }, 'pds7.example.com' => { list => [ entry('g') ] } });
read_again('hosts');
wait_until_read('hosts');
is(query(hosts_of('hosts')), urls(qw(pds1 pds7)), 'R-60: hosts that are new have their lists read, those that are gone are forgotten');
is(jobs('hosts'), dids(qw(a b c e g)), 'what they had named is not');
is(scalar(@{ asked('pds1.example.com') }), 3, 'a list that was read is not read again before its time');
$network->hosts({ $relay => { hosts => [] } });
read_again('hosts');
is(query(hosts_of('hosts')), urls(qw(pds1 pds7)), 'a list without any host is not believed');
query("UPDATE atproto.subscription SET list_hosts = false");
wait_for("SELECT array_agg(source) = '{listRepos}' FROM atproto.enumeration");
pass('without list_hosts, the list of the relay is read, and no other');
query("SELECT atproto.unsubscribe('hosts')");

# --- how many ---

query('ALTER SYSTEM SET atproto.fetch_hosts = 3; SELECT pg_reload_conf()');
$relay = follow('many', [ map { "pds$_.example.com" } 1, 2, 5, 7, 8 ], relay => { page => 2 });
wait_until_read('many');
is(query(hosts_of('many')), urls(qw(pds1 pds2 pds5)), 'so many hosts, and no more');
is(query("SELECT error FROM atproto.enumeration WHERE source = 'listHosts'"), 'the list was given up: it has more entries than "atproto.fetch_hosts"', 'and it says so');
is(scalar(@{ asked($relay) }), 2, 'pages after that are not asked for');
$network->hosts({ $relay => { hosts => [ map { "pds$_.example.com" } 7, 2, 5, 1, 8 ] } });
read_again('many');
is(query(hosts_of('many')), urls(qw(pds2 pds5 pds7)), 'the first ones count, at each time');
query("ALTER SYSTEM RESET atproto.fetch_hosts; SELECT pg_reload_conf(); SELECT atproto.unsubscribe('many')");

# --- allowed entries of a host's list ---

query("CREATE SCHEMA stored; SELECT atproto.create_tables('stored'); INSERT INTO stored.repo (did, rev, sync, active, proved, proved_rev) VALUES "
	  . join ', ', map { "('" . did($_) . "', '$rev', 'synchronized', true, 0, '$rev')" } qw(a b c));
query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at) VALUES "
	  . join ', ', map { "('" . did($_->[0]) . "', 'good', decode(repeat('e7', 35), 'hex'), '$_->[1].example.com', now(), now())" }
	  [ 'a', 'own' ], [ 'b', 'other' ], [ 'd', 'own' ], [ 'e', 'other' ]);
$network->hosts({ 'own.example.com' => { list => [ map { entry($_, rev => $later) } 'a' .. 'f' ] } });
follow('stored', ['own.example.com'], target => q('stored'), verify => q('full'));
wait_until_read('stored');
is(jobs('stored'), dids(qw(a d f)), 'R-61: of accounts that are elsewhere a host says nothing, of those that it may have not that they are newer');
query("SELECT atproto.unsubscribe('stored')");

# --- a failing host ---

$network->names({ 'inside.example.com' => ['10.0.0.1'] });
follow('failing', [ 'pds2.example.com', 'inside.example.com' ]);
my (undef, undef, $said) = $node->psql('postgres', "CALL atproto.await_backfill('failing')");
like($said, qr/WARNING:  lists of subscription "failing" were not read to their end\nDETAIL:  listRepos https:\/\/inside\.example\.com: [^\n]*address[^\n]*\nHINT/, 'W-51: a host at an address of ours is not asked');
like($said, qr/backfill of subscription "failing" has ended/, 'R-65: and nobody waits for it');
is(query("SELECT problem, tries FROM atproto.repo_problem WHERE error LIKE 'listRepos https://inside%'"), 'list|1', 'R-65: it is a problem, of which there is a view');
query("SELECT atproto.unsubscribe('failing')");

# --- a host lists accounts without a repository ---

query('DELETE FROM atproto.repo_job; ALTER SYSTEM SET atproto.fetch_queue = 32; SELECT pg_reload_conf()');
$network->hosts({ 'invents.example.com' => { page => 1, list => [ map { entry($_) } 'h' .. 'n' ] }, 'honest.example.com' => { page => 1, list => [ map { entry($_) } 'a' .. 'b' ] } });
follow('quota', [ 'invents.example.com', 'honest.example.com' ], target => q('stored'));
# on a busy machine the list may rest after its first page, too, while accounts of the tests before are still in the queue
wait_for("SELECT error IS NOT NULL AND pages > 1 FROM atproto.enumeration WHERE source = 'listRepos https://invents.example.com'");
is(query("SELECT pages, finished_at, error FROM atproto.enumeration WHERE source = 'listRepos https://invents.example.com'"), '2||as many repositories wait as one host may name', 'R-63: a host has a share of the queue, and no more');
is(query("SELECT DISTINCT listed_by FROM atproto.repo_job"), 'listRepos https://invents.example.com', 'of what its list names');
wait_for("SELECT finished_at IS NOT NULL FROM atproto.enumeration WHERE source = 'listRepos https://honest.example.com'");
query('DELETE FROM atproto.repo_job; ALTER SYSTEM RESET atproto.fetch_queue; SELECT pg_reload_conf()');
wait_until_read('quota');
is(query("SELECT pages, error FROM atproto.enumeration WHERE source = 'listRepos https://invents.example.com'"), '7|', 'then its list is read on');
query("SELECT atproto.unsubscribe('quota')");

# --- a host lists accounts that are inactive for ever ---

query('DELETE FROM atproto.repo_job; ALTER SYSTEM SET atproto.fetch_queue = 3; SELECT pg_reload_conf()');
$network->hosts({ 'inactive.example.com' => { page => 1, list => [ (map { entry($_, active => JSON::PP::false) } 'p' .. 'v'), entry('w') ] } });
follow('inactive', ['inactive.example.com'], target => q('stored'));
wait_for("SELECT finished_at > '-infinity' FROM atproto.enumeration WHERE source = 'listRepos https://inactive.example.com'");
is(query("SELECT count(*) FROM atproto.repo_job WHERE state = 'suspended'"), '3', 'R-62: a list of a host notes so many accounts that are not active, and no more');
is(jobs('inactive'), dids('w'), 'what is active counts');
like(query("SELECT error FROM atproto.enumeration WHERE source = 'listRepos https://inactive.example.com'"), qr/not noted any more/, 'and the row of the list says so');
query("SELECT atproto.unsubscribe('inactive'); DELETE FROM atproto.repo_job; ALTER SYSTEM RESET atproto.fetch_queue; SELECT pg_reload_conf()");

# --- hosts that rest, and long lists ---

my @resting = map { sprintf 'a%02d.example.com', $_ } 1 .. 40;
$network->fault({ host => $_, status => 429, headers => { 'Retry-After' => '3000' } }) foreach @resting;
follow('resting', [ @resting, 'pds2.example.com' ]);
wait_for("SELECT finished_at IS NOT NULL FROM atproto.enumeration WHERE source = 'listRepos https://pds2.example.com'");
pass('R-21: hosts that want to be left alone take no place from others');
is(query("SELECT count(*) FROM atproto.enumeration WHERE finished_at IS NOT NULL OR tries > 0"), '2', 'and that is no failure');
query("SELECT atproto.unsubscribe('resting'); DELETE FROM atproto.repo_job");

my @long = map { sprintf 'b%02d.example.com', $_ } 1 .. 20;
my $plc = join '', 'a' .. 'z', 2 .. 7;
my @entries = map { my $n = $_; { did => 'did:plc:' . ('a' x 20) . join '', map { substr $plc, ($n >> 5 * $_) & 31, 1 } 0 .. 3 } } 1 .. 20000;
$network->hosts({ map { $_ => { page => 1, list => \@entries } } @long });
follow('long', [ @long, 'pds2.example.com' ]);
wait_for("SELECT count(*) >= 16 FROM atproto.enumeration WHERE pages > 1");
$relay = 'relay' . ++$relays . '.example.com';
$network->hosts({ $relay => { list => [ entry('a') ] } });
$network->fault({ host => $relay, status => 500, times => 1 });
query("SELECT atproto.subscribe('short', 'wss://stream.example.com', backfill => 'network', list_source => 'https://$relay')");
wait_for("SELECT tries = 1 FROM atproto.enumeration WHERE subscription = 'short' AND error ~ 'status 500'");
query("UPDATE atproto.enumeration SET next_try = now() WHERE subscription = 'short'");
wait_for("SELECT finished_at IS NOT NULL FROM atproto.enumeration WHERE subscription = 'short'");
pass('R-60: lists of another subscription have their turn at once');
$clock->advance(61);
wait_for("SELECT finished_at IS NOT NULL FROM atproto.enumeration WHERE source = 'listRepos https://pds2.example.com'");
pass('R-60: those of the same one after a minute');
is(query("SELECT count(*) FROM atproto.enumeration WHERE source ~ 'b..\\.example' AND finished_at IS NULL"), '20', 'although there are others without end');
query("SELECT atproto.unsubscribe('long'); SELECT atproto.unsubscribe('short')");

ok(!$node->log_contains(qr/PANIC|terminated by signal|TRAP/), 'no process died');
$node->stop;
$network->stop;
done_testing();
