# 441_reference.pl
#		doc/reference.md is what test/tools/reference makes of the catalogue.  With
#		ATPROTO_REFERENCE=write, as make reference sets it, the page is written.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $page = test_dir() . '/../doc/reference.md';
my $node = make_node('reference');
my ($made, $error) = ('', '');

local $ENV{PGHOST} = $node->host;
local $ENV{PGPORT} = $node->port;
ok(IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/tools/reference', 'postgres' ], '>', \$made, '2>', \$error), 'each column has a comment, and each state is drawn') or diag($error);
if (($ENV{ATPROTO_REFERENCE} // '') eq 'write' && $made ne '')
{
	open my $f, '>:raw', $page or die "cannot write $page: $!";
	print $f $made;
	close $f or die "cannot write $page: $!";
}
ok(slurp_file($page) eq $made, 'doc/reference.md is what the catalogue says: make reference writes it');

# The states of a consumer that the page draws are those that it can be in.
my ($names) = slurp_file(test_dir() . '/../src/process/status.c') =~ /state_names\[\] = \{(.*?)\};/s;
my @views = query(q{SELECT pg_get_viewdef('atproto.stat_subscription'::regclass)}) =~ /THEN '([a-z ]+)'::text|ELSE '([a-z ]+)'::text/g;
my ($sync) = slurp_file(test_dir() . '/../src/tables/repo_state.c') =~ /(ATP_SYNC_PARTIAL\] = .*?)\};/s;
my ($states) = $made =~ /^## States\n(.*?)^## /ms;
foreach my $state ($names =~ /"([^"]+)"/g, (grep { defined } @views), $sync =~ /"([^"]+)"/g)
{
	like($states // '', qr/^- `\Q$state\E`/m, "$state is among the states");
}

$node->stop;
done_testing();
