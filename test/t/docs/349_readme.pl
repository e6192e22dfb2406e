# 349_readme.pl
#		The first statements of the README, typed as a newcomer would: an account's own records come, and an
#		audit proves the records; the answers equal the page's.  Once in a simulated network, once from a real
#		PDS (test/real), if one is installed.  Then the collection of getting-started.md, with its history.
#		R-01, R-60, R-65.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Backfill;
use AtprotoTest::Network;
use AtprotoTest::Pages;
use AtprotoTest::Preload;
use AtprotoTest::Real;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $python = $ENV{PYTHON} || '/usr/bin/python3';
my $conf   = "max_worker_processes = 20\n";

my ($first, $queries) = blocks('README.md', 'sql');
my ($answer) = map { $_->{text} } blocks('README.md', '');
like($first->{text}, qr/await_backfill.*audit/s, 'the README begins with an account, and its audit');

cmp_ok(scalar(() = page_text('README.md') =~ /\n/g), '<=', 200, 'the README stays short');
foreach my $page ('README.md', 'doc/use/getting-started.md')
{
	my @whole = grep { !/\b(?:collections|dids|slice) => |127\.0\.0\.1/ } map { $_->{text} =~ /^SELECT (atproto\.subscribe\(.*)/mg } blocks($page, 'sql');

	is(join("\n", @whole), '', "$page: no subscription follows the whole network");
}

# The statements as a newcomer types them, of this account.  Returns the output, and the messages.
sub typed
{
	my ($node, $text, $did) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir('typed') . '/statements.sql';

	$text =~ s/^(\\set me )did:plc:\w+$/$1$did/m if defined $did;
	append_to_file($file, $text);
	my ($out, $messages) = ('', '');
	ok(IPC::Run::run([ 'psql', '-Xq', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', $file ], '<', \undef, '>', \$out, '2>', \$messages), 'the statements run') or diag($messages);
	unlike($messages, qr/WARNING|ERROR/, 'without a complaint');
	return ($out, $messages);
}

# The servers of a test have no certificate.
sub without_tls
{
	my ($text, $url) = @_;

	$text =~ s/'wss:\/\/' \|\| pds/$url/ or BAIL_OUT('the README does not follow the account\'s own server');
	return $text =~ s/verify => 'full'/verify => 'full', allow_insecure => true/r;
}

# --- an account of a simulated network ---

my $simulated = AtprotoTest::Backfill->begin(half => 1500);
my ($me) = $simulated->dids;
my $node = make_node('readme', start => $simulated->preload, create => 0, conf => $simulated->settings . $conf);
my $server = AtprotoTest::Server->start($simulated->capture);

$simulated->serve(2, $server);
$simulated->network->hosts({ $simulated->pds($me) => { stream => $server->port } });
my ($out, $messages) = typed($node, without_tls($first->{text}, "'ws://' || pds"), $me);
ok(index($out =~ s/ +$//gmr, $answer // 'nothing') >= 0, 'the answers are those on the page') or diag($out);
like($messages, qr/backfill of subscription "me" has ended: 1 repositor/, 'and the end of the backfill is told');
is(query('SELECT array_agg(DISTINCT did) FROM atproto.record'), "{$me}", 'no other account is stored');
is(query('SELECT bool_and(verified) FROM atproto.repo'), 't', 'its signature was verified');
wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'me'");
($out) = typed($node, $queries->{text});
like($out, qr/^ me +\| streaming \|/m, 'the subscription is shown') or diag($out);
cmp_ok(scalar(() = $out =~ /^ 20\d\d-/mg), '>', 5, 'the first queries find what the first subscription has stored') or diag($out);
$node->stop;
$simulated->network->stop;

# --- a real PDS ---

SKIP:
{
	my $why = AtprotoTest::Real->missing;
	skip $why, 1 if $why;

	my $real  = AtprotoTest::Real->start(1);
	my $alice = $real->account(0, 'alice');
	my $write = sub {
		my ($n) = @_;
		$real->call($alice, 'com.atproto.repo.applyWrites', {
			repo => $alice->{did}, validate => JSON::PP::false,
			writes => [ map { { '$type' => 'com.atproto.repo.applyWrites#create', collection => 'app.bsky.feed.post', value => { '$type' => 'app.bsky.feed.post', text => "post $_", createdAt => '2026-01-02T03:04:05.678Z' } } } 1 .. $n ] });
	};
	$write->(48);
	$node = make_node('real', create => 0, conf => $real->settings . $conf);
	($out) = typed($node, without_tls($first->{text}, "replace(pds, 'http', 'ws')"), $alice->{did});
	like($out, qr/^ app\.bsky\.feed\.post \| +48\n.*^ t +\| +\| +48$/ms, 'all records of an account of a real PDS, and the audit') or diag($out);
	wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'me'");
	$write->(2);
	wait_for('SELECT count(*) = 50 FROM atproto.record');
	is(query("SELECT equal, records FROM atproto.audit('$alice->{did}')"), 't|50', 'and new records, as they are written');
	$node->stop;
	$real->stop;
}

# --- a collection of all accounts: doc/use/getting-started.md ---

my $files = PostgreSQL::Test::Utils::tempdir('recipes');
my $host  = 'stream.example.com';
my @dids  = split /\n/, `$python -B @{[ test_dir() ]}/oracle/export.py --recipes 12 $files`;
is(scalar @dids, 12, 'there are accounts');

my $network = AtprotoTest::Network->start(cars => $files);
$node = make_node(
	'recipes',
	start => AtprotoTest::Preload->make(network => $network),
	conf  => $network->settings . "atproto.fetch_host_rate = 1000\n$conf");
$network->hosts({ $host => { page => 5, collections => { 'exchange.recipe.recipe' => \@dids } } });
$network->repos({ $host => { map { $_ => { car => "$files/$_.car" } } @dids } });

my ($recipes, $likes) = map { $_->{text} =~ s/bsky\.network/$host/gr } grep { $_->{text} =~ /^CREATE SCHEMA (?:recipes|likes)/ } blocks('doc/use/getting-started.md', 'sql');
($out, $messages) = typed($node, $recipes);
like($messages, qr/backfill of subscription "recipes" has ended: 12 repositories were fetched, with 36 records/, 'getting-started.md: the backfill says what it has fetched');
is(() = $out =~ /\| recipe \d+$/mg, 10, 'and shows recipes');
is(query('SELECT count(*), count(DISTINCT did), array_agg(DISTINCT collection::text) FROM recipes.record'), '36|12|{exchange.recipe.recipe}', 'all recipes of all accounts, and nothing else');
is(query('SELECT repositories FROM atproto.repo_progress'), '{"synchronized": 12}', 'they are in step');
is($node->psql('postgres', $likes), 0, 'so does the example of a Jetstream');

$node->stop;
$network->stop;
done_testing();
