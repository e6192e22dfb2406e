# 349_readme.pl
#		The README's first subscription, typed as a newcomer would: it brings all records of one collection,
#		old and new, of all accounts, without an error.  R-01, R-60, R-65.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;

my $python = $ENV{PYTHON} || '/usr/bin/python3';
my $files  = PostgreSQL::Test::Utils::tempdir('recipes');
my $host   = 'stream.example.com';

# Accounts with recipes and other records.
my @dids = split /\n/, `$python -B @{[ test_dir() ]}/oracle/export.py --recipes 12 $files`;
is(scalar @dids, 12, 'there are accounts');

my $network = AtprotoTest::Network->start(cars => $files);
my $node    = make_node(
	'readme',
	start  => AtprotoTest::Preload->make(network => $network),
	create => 0,
	conf   => $network->settings . "atproto.fetch_host_rate = 1000\nmax_worker_processes = 20\n");
$network->hosts({ $host => { page => 5, collections => { 'exchange.recipe.recipe' => \@dids } } });
$network->repos({ $host => { map { $_ => { car => "$files/$_.car" } } @dids } });

my ($example, $second) = map { s/bsky\.network/$host/gr } slurp_file(test_dir() . '/../README.md') =~ /^## First subscription\n.*?^```sql\n(.*?)^```\n.*?^```sql\n(.*?)^```\n/ms or BAIL_OUT('the README has no first subscription');
like($example, qr/await_backfill/, 'the README has it');
append_to_file("$files/example.sql", $example);
my ($out, $err) = ('', '');
ok(IPC::Run::run([ 'psql', '-XAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('postgres'), '-f', "$files/example.sql" ], '<', \undef, '>', \$out, '2>', \$err), 'it runs') or diag($err);
like($err, qr/backfill of subscription "recipes" has ended: 12 repositories were fetched, with 36 records/, 'and says what it has fetched');
unlike($err, qr/WARNING|ERROR/, 'without a complaint');
is(() = $out =~ /\|recipe \d+$/mg, 10, 'and shows recipes');
is(query('SELECT count(*), count(DISTINCT did), array_agg(DISTINCT collection::text) FROM atproto.record'), '36|12|{exchange.recipe.recipe}', 'all recipes of all accounts, and nothing else');
is(query("SELECT repositories FROM atproto.repo_progress"), '{"synchronized": 12}', 'they are in step');
is($node->psql('postgres', $second), 0, 'so does the second example');

$node->stop;
$network->stop;
done_testing();
