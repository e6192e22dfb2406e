# 471_own_pds.pl
#		The page doc/use/own-pds.md: its three lines follow a PDS on this machine, and its messages say what is
#		missing.  First with a PDS that the tests play, then with a real one (test/real) and the example
#		statusphere, where a real one is installed.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Pages;
use AtprotoTest::Real;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $page   = 'doc/use/own-pds.md';
my @sql    = map { $_->{text} } blocks($page, 'sql');
my ($sh)   = map { $_->{text} } blocks($page, 'sh');
my @errors = page_text($page) =~ /^\| \*([^*]+)\* \|/mg;
is(scalar @sql, 3, 'the page has the three lines, the records, and signatures');
is(scalar @errors, 4, 'and four messages');

# --- a PDS that the tests play ---

my $files   = PostgreSQL::Test::Utils::tempdir('pds');
my ($capture, $expect) = simulate('--social', '--events', 200, '--accounts', 8, '--mix', 'account=0,identity=0', '--directory', "$files/directory", '--exports', "$files/exports");
my $stream  = AtprotoTest::Server->start($capture);
my $network = AtprotoTest::Network->start;
my $port    = $network->port('http');
my %repos   = map { m{([^/]+)\.car$} ? ($1 => { car => $_ }) : () } glob("$files/exports/1/*.car");

$network->documents({ map { $_->{document} ? ($_->{did} => $_->{document}) : () } map { decode_json($_) } split /\n/, slurp_file("$files/directory/documents") });
foreach my $host ('localhost', "localhost:$port")
{
	$network->repos({ $host => \%repos });
	$network->hosts({ $host => { stream => $stream->port } });
}
$network->fault({ path => 'listReposByCollection', status => 401, body => '{"error":"AuthMissing","message":"Authentication Required"}' });

my $node = make_node('pds', create => 0, conf => $network->settings . "max_worker_processes = 20\natproto.fetch_host_rate = 1000\natproto.reconnect_delay = 50ms\natproto.fetch_retry = '1h'\n");
query('CREATE EXTENSION atproto');

# The page's statements, for these servers.
sub here
{
	my ($sql, $pds, $plc) = @_;
	return $sql =~ s/localhost:2583/localhost:$pds/gr =~ s/localhost:2582/localhost:$plc/gr;
}

# The error of a list, and the page's words about this error.
sub is_on_page
{
	my ($error, $n, $what) = @_;
	my $pattern = join '.*', map { quotemeta } split /…/, $errors[$n];

	like($error, qr/$pattern/, "$what: what the page says");
	return;
}

my $why = 'SELECT error FROM atproto.enumeration WHERE error IS NOT NULL';

# mistakes: the first line is missing; a PDS does not offer the list; the path does not exist
query("SELECT atproto.subscribe('mistake', 'ws://localhost:$port', backfill => 'network')");
wait_for("SELECT count(*) = 1 FROM ($why) w");
is_on_page(query($why), 0, 'without fetch_allow');
my ($value) = query($why) =~ /add "([^"]+)" to atproto\.fetch_allow/;
is($value, "http://localhost:$port", 'the message has the value');
query("SELECT atproto.unsubscribe('mistake')");

query("ALTER SYSTEM SET atproto.fetch_allow = '$value'; SELECT pg_reload_conf()");
query("SELECT atproto.subscribe('mistake', 'ws://localhost:$port', collections => '{app.bsky.feed.post}', backfill => 'collections')");
wait_for("SELECT count(*) = 1 FROM ($why) w");
is_on_page(query($why), 1, 'listReposByCollection of a PDS');
query("SELECT atproto.unsubscribe('mistake')");

my $silent = AtprotoTest::Server->start($capture, '--no-upgrade-reply');
query("SELECT atproto.subscribe('mistake', '${\ $silent->url(nsid => 'com.example.firehose')}?token=secret')");
$silent->wait_for_log('request', 1);
$silent->stop;
$node->wait_for_log(qr/cut before the upgrade/);
my ($said) = slurp_file($node->logfile) =~ /(the connection was cut before the upgrade[^\n]*)/;
is_on_page($said, 2, 'a path that is none');
like($said, qr{"/xrpc/com\.example\.firehose"}, 'the message has the path, and no parameters');
query("SELECT atproto.unsubscribe('mistake')");

# the page
query(here($sql[0], $port, $port));
query(here($sql[1], $port, $port));
wait_for_seq($node, 'pds', 200);
is(query('SELECT did, collection, rkey, cid FROM atproto.record ORDER BY 1, 2, 3'),
	join("\n", sort map { join '|', (split /\t/)[ 0 .. 3 ] } split /\n/, slurp_file("$expect/record")), 'the three lines bring all records');
cmp_ok(query("SELECT seen FROM atproto.enumeration WHERE finished_at IS NOT NULL"), '>', 3, 'the list of the PDS was read');
query(here($sql[2], $port, $port));
wait_for("SELECT count(*) > 0 FROM atproto.subscription WHERE verify = 'full' AND host_is_pds");
query("SELECT atproto.unsubscribe('pds')");

# --- a real one ---

SKIP:
{
	if (my $missing = AtprotoTest::Real->missing)
	{
		diag($missing);
		skip('no real PDS', 1);
	}
	my $real = AtprotoTest::Real->start(1);
	my ($pds, $plc) = map { /:(\d+)$/ } $real->pds_url(0), $real->plc_url;
	my $account = $real->account(0, 'bob');

	$real->call($account, 'com.atproto.repo.createRecord', { repo => $account->{did}, collection => 'xyz.statusphere.status',
		record => { '$type' => 'xyz.statusphere.status', status => '!', createdAt => '2026-01-02T03:04:05.678Z' } });
	query('TRUNCATE atproto.record, atproto.repo');
	query("ALTER SYSTEM SET atproto.fetch_allow = 'http://localhost:$pds'; SELECT pg_reload_conf()");

	query("SELECT atproto.subscribe('mistake', 'ws://localhost:$pds', collections => '{app.bsky.feed.post}', backfill => 'collections')");
	wait_for("SELECT count(*) = 1 FROM ($why) w");
	is_on_page(query($why), 1, 'a real PDS has no listReposByCollection');
	query("SELECT atproto.unsubscribe('mistake'); SELECT atproto.subscribe('mistake', 'ws://localhost:$pds/xrpc/com.example.firehose')");
	wait_for("SELECT last_error IS NOT NULL FROM atproto.stat_subscription WHERE name = 'mistake'");
	is_on_page(query("SELECT last_error FROM atproto.stat_subscription WHERE name = 'mistake'"), 2, 'another path of a real PDS');
	query("SELECT atproto.unsubscribe('mistake')");

	# The first mistake's subscription had a filter.  If it has seen the account's first commit, the account's repository is
	# known, and nothing would bring the record that the filter left out.
	query('TRUNCATE atproto.record, atproto.repo');
	query(here($_, $pds, $plc)) foreach @sql;
	wait_for("SELECT count(*) = 1 FROM atproto.record WHERE did = '$account->{did}' AND value->>'status' = '!'");
	pass('the three lines bring the record of a real PDS');
	my ($out, $err) = run_command([ 'bash', '-c', here($sh, $pds, $plc) ]);
	wait_for(q{SELECT count(*) = 1 FROM atproto.record WHERE value->>'status' = '🦋'});
	pass('the commands of the page write a record, which comes') or diag("$out$err");
	wait_for('SELECT count(*) = 1 FROM atproto.repo WHERE verified');
	pass('its signature is verified');

	# examples/README.md: statusphere with this PDS
	local @ENV{qw(STREAM BACKFILL LIST_SOURCE)} = ("ws://localhost:$pds", 'network', '');
	run_command([ $node->installed_command('psql'), '-X', '-q', '-d', $node->connstr('postgres'), '-f', test_dir() . '/../examples/statusphere/statusphere.sql' ]);
	wait_for('SELECT jsonb_array_length(statusphere.page()) = 2');
	pass('statusphere shows the statuses of this PDS');
}

$node->stop;
done_testing();
