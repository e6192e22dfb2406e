# 440_documented_sql.pl
#		Runs every SQL block of the pages, in the order of its page, on a server with data and a network.  A
#		statement fails only where the page says so with a comment "-- ERROR:  message".  This file names
#		each block without a run here, with the reason or with the test of the block.  Whole statements in
#		the text are tried, too.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Backfill;
use AtprotoTest::Plc;
use AtprotoTest::Jetstream;
use AtprotoTest::Pages;
use PostgreSQL::Test::Utils;
use Test::More;

# Pages run by a different test, whose file must name the page.
my %run_by = (
	'doc/use/cookbook.md' => '420_cookbook',
	'doc/use/queries.md' => '295_queries',
	'doc/operate/managed.md' => '462_managed',
	'doc/use/plugin.md'      => '511_plugin_page',
	'doc/operate/scale.md'   => '360_slices_fdw',
	'doc/use/simulator.md' => '452_simulator_page',
	'doc/use/own-pds.md' => '471_own_pds');

# Blocks without a test, by the beginnings of their first lines.
my %not_run = (
	'doc/operate/identities.md' => { 'CALL atproto.resolve_handle' => 'needs the domain of a handle: 332_handles runs it' },
	'doc/use/history.md' => { "SELECT atproto.subscribe('recipes', 'wss://jetstream2" => 'needs an archive: 410_history reads one', 'CREATE SCHEMA recipes;' => 'needs an archive', "SELECT atproto.prove('atproto'" => 'needs servers with parts of repositories: 283_proofs asks them' },
	'doc/use/clients.md' => { 'CREATE SCHEMA extensions;' => 'needs a database without the extension: 461_search_path runs it' },
	'doc/operate/citus.md' => { 'CREATE EXTENSION citus' => 'needs Citus, and three servers', "SELECT atproto.resume('network')" => 'needs Citus: 385_citus_restore runs it', 'SELECT s.collection' => 'needs the column that distribute() adds', 'WITH l AS MATERIALIZED' => 'needs the column that distribute() adds' });

# Text of a page outside the block decides which role runs the block.
my %before = (
	"SELECT atproto.subscribe('own'" => 'SET ROLE consumer;',
	"SELECT atproto.pause('me')"     => "SELECT atproto.subscribe('me', 'ws://$AtprotoTest::Backfill::HOST');");

# --- a network, a server, and a database with data ---

my $simulated = AtprotoTest::Backfill->begin(half => 300);
my $network   = $simulated->network;
my $node      = make_node('pages', start => $simulated->preload, create => 0,
	conf => $simulated->settings . "max_worker_processes = 100\natproto.databases = 'filled'\n");
my $relay     = AtprotoTest::Server->start($simulated->capture);
my $texts     = texts('v1', $simulated->capture);
my $jetstream = AtprotoTest::Server->start($texts);
my ($me)      = $simulated->dids;
my ($frame)   = grep { /#commit/ } read_capture($simulated->capture);

$simulated->serve(2, $relay);
$network->hosts({ 'jetstream.example.com' => { stream => $jetstream->port }, $simulated->pds($me) => { stream => $relay->port } });
$network->directories({ 'directory.example.com' => { log => plc_export(operations => 60) } });
$network->fault({ path => 'describeServer', status => 200, body => '{"did": "did:web:pds.example.com", "availableUserDomains": []}' });
$network->fault({ path => 'getHostStatus', status => 200, body => '{"hostname": "pds.example.com", "status": "active"}' });

# Local replacements for the public names on the pages.
my @stand_in = (
	[ qr{wss://jetstream2\.us-east\.bsky\.network}      => 'ws://jetstream.example.com' ],
	[ qr{wss://(?:relay1\.us-west\.)?bsky\.network}      => "ws://$AtprotoTest::Backfill::HOST" ],
	[ qr{wss://plc\.directory}                            => 'ws://directory.example.com' ],
	[ qr{'wss://' \|\| pds}                             => "'ws://' || pds" ],
	[ qr{ws://127\.0\.0\.1:6008}                        => $relay->url ],
	[ qr{did:plc:ewvi7nxzyoun6zhxrhs64oiz}              => $me ],
	[ qr{/srv/repo\.car}                                => $simulated->export($me, 2) ],
	[ qr{'repo\.car'}                                   => "'" . $simulated->export($me, 2) . "'" ],
	[ qr{/etc/postgresql/legacy_subscribe\.zdict}       => dictionary($texts) ]);
my %variables = (car => "pg_read_binary_file('" . $simulated->export($me, 2) . "')", frame => '\x' . unpack('H*', $frame), log => '[]');

query('CREATE DATABASE filled');
query(<<"SQL", database => 'filled');
CREATE EXTENSION atproto;
-- who stands in for the servers of the pages has no certificate
CREATE FUNCTION trust() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.allow_insecure := true; RETURN NEW; END';
CREATE TRIGGER a_trust BEFORE INSERT OR UPDATE ON atproto.subscription FOR EACH ROW EXECUTE FUNCTION trust();
SELECT atproto.subscribe('fill', 'ws://$AtprotoTest::Backfill::HOST', cursor => 0, links => 'all');
SQL
wait_for_seq($node, 'fill', $simulated->last, 'filled');
query("SELECT atproto.unsubscribe('fill')", database => 'filled');
cmp_ok(query('SELECT count(*) FROM atproto.link', database => 'filled'), '>', 50, 'there is data');

# each page has a copy
my @pages = grep { blocks($_, 'sql') } pages();
my %database = map { $_ => lc s/\W/_/gr } @pages;
# a manager would use the template; a manager of a missing database waits for seconds
$node->append_conf('postgresql.conf', "atproto.databases = ''");
$node->restart;
query("CREATE DATABASE $_ TEMPLATE filled") foreach values %database;
$node->append_conf('postgresql.conf', "atproto.databases = '" . join(',', sort values %database) . "'");
$node->stop;
$simulated->preload->start($node);

# --- the blocks ---

my (%skipped, %used);
foreach my $page (@pages)
{
	if (my $test = $run_by{$page})
	{
		like(slurp_file(test_file($test)), qr/\Q$page\E/, "$page: $test runs it");
		next;
	}
	foreach my $block (blocks($page, 'sql'))
	{
		my ($not) = grep { index($block->{name}, $_) == 0 } keys %{ $not_run{$page} // {} };

		defined $not ? $skipped{$page}{$not}++ : run($block);
	}
	query('DELETE FROM atproto.subscription', database => $database{$page});
}
is(join("\n", grep { !$used{$_} } (map { $_->[0] } @stand_in), keys %before), '', 'the pages have what others stand in for');
is_deeply(\%skipped, { map { my $page = $_; $page => { map { $_ => 1 } keys %{ $not_run{$page} } } } keys %not_run }, 'what is not run is what is said to be');

sub run
{
	my ($block) = @_;
	my $sql   = $block->{text};
	my $what  = "$block->{page}:$block->{line} $block->{name}";
	my @said  = $sql =~ /-- (ERROR:  [^\n]*)/g;
	my %named = map { $_ => 1 } $sql =~ /atproto\.subscribe\('(\w+)'/g;
	my $error = '';

	foreach my $pair (@stand_in)
	{
		my ($name, $ours) = @$pair;
		$used{$name} += $sql =~ s/$name/$ours/g || 0;
	}
	foreach my $beginning (grep { index($block->{name}, $_) == 0 } keys %before)
	{
		$sql = "$before{$beginning}\n$sql";
		$used{$beginning}++;
	}
	# load_car() refuses a repository while it is fetched, and an earlier block may have requested the fetch
	wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$me') AND NOT EXISTS (SELECT FROM atproto.held_event WHERE did = '$me')", database => $database{ $block->{page} })
	  if $sql =~ /load_car/;
	# a second subscription of the same name on a page shows an alternative
	$sql = "DELETE FROM atproto.subscription WHERE name = '$_';\n$sql" foreach sort keys %named;
	# the fetcher may still load the export for which an earlier block has asked
	wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo WHERE did = '$me' AND hold IS NOT NULL)", database => $database{ $block->{page} }) if $sql =~ /load_car/;
	IPC::Run::run([ 'psql', '-XAt', (map { ('-v', "$_=$variables{$_}") } sort keys %variables), '-d', $node->connstr($database{ $block->{page} }) ],
		'<', \$sql, '>', \my $out, '2>', \$error);
	my @failed = $error =~ /(ERROR:  [^\n]*)/g;
	# an UPDATE of a missing subscription counts as a failure
	push @failed, 'no such subscription' if $sql =~ /UPDATE atproto\.subscription/ && $out =~ /^UPDATE 0$/m;
	is_deeply(\@failed, \@said, $what) or diag($error);
	unlike($error, qr/PANIC|FATAL|connection to server/, "... and the server goes on") if @failed;
	wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = '$_'", database => $database{ $block->{page} }) foreach grep { !@failed } sort keys %named;
	return;
}

# --- statements in the text ---

# Values for the placeholders in these statements.
my @any = (
	[ qr/\((name|target|host|did)\)(?! FROM)/ => { name => "('network')", target => "('atproto')", host => "('pds.example.com')", did => "('$me')" } ],
	[ qr/'(another|he)'/                      => { another => "'heir'", he => "'postgres'" } ]);
my %nowhere = map { $_ => 1 } 'doc/use/reference.md', 'doc/operate/citus.md';    # signatures; needs Citus
my $database = $database{'doc/use/faq.md'};
my $tried    = 0;

# the page demands that the role may fill the tables of the other subscriptions
query('CREATE ROLE heir SUPERUSER');
query("SELECT atproto.subscribe('network', 'ws://$AtprotoTest::Backfill::HOST', backfill => 'repair')", database => $database);
foreach my $page (grep { !$nowhere{$_} } pages())
{
	foreach my $span (grep { /atproto\./ && !/…|\.\.\./ } prose($page) =~ /(?<!`)`((?:SELECT|INSERT|UPDATE|DELETE|CALL|CREATE|ALTER|DROP|GRANT|REVOKE|ANALYZE|VACUUM|TRUNCATE|LOCK) [^`\n]+)`/g)
	{
		my $sql = $span;

		foreach my $any (@any) { my ($pattern, $of) = @$any; $sql =~ s/$pattern/$of->{$1}/g; }
		$sql .= ' TO consumer' if $sql =~ /^GRANT/ && $sql !~ / TO /;
		$sql = "BEGIN; $sql; ROLLBACK;" unless $sql =~ /^(CALL|VACUUM|ALTER SYSTEM)/;
		IPC::Run::run([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr($database) ], '<', \$sql, '>', \my $out, '2>', \my $error);
		# only syntax, names and values count, not whether the statement finds anything to do
		unlike($error, qr/ERROR:  (?:42|22)/, "$page: $span") or diag($error);
		$tried++;
	}
}
cmp_ok($tried, '>', 30, 'there are such statements');

$node->stop;
$network->stop;
done_testing();
