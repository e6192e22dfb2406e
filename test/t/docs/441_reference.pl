# 441_reference.pl
#		doc/use/reference.md is the output of test/tools/reference for the present catalogue.  With
#		ATPROTO_REFERENCE=write, which make reference sets, the test writes the page.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $page = test_dir() . '/../doc/use/reference.md';
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
my %there = map { $_ => 1 } split /\n/, slurp_file($page);
ok(slurp_file($page) eq $made, 'doc/use/reference.md is what the catalogue says: make reference writes it')
  or diag(join "\n", 'new there:', grep { !$there{$_} } split /\n/, $made);

like($made, qr/^\| `verify` \|.*hash: .*; chain: .*; full: .*signature/m, 'F-17: the page says what is authenticated at which level');

# The states of a consumer on the page are the states in the sources.
my ($names) = slurp_file(test_dir() . '/../src/process/status/status.c') =~ /state_names\[\] = \{(.*?)\};/s;
my @views = query(q{SELECT pg_get_viewdef('atproto.stat_subscription'::regclass)}) =~ /THEN '([a-z ]+)'::text|ELSE '([a-z ]+)'::text/g;
my ($sync) = slurp_file(test_dir() . '/../src/tables/repos/repo_state.c') =~ /(ATP_SYNC_PARTIAL\] = .*?)\};/s;
my ($states) = $made =~ /^## States\n(.*?)^## /ms;
foreach my $state ($names =~ /"([^"]+)"/g, (grep { defined } @views), $sync =~ /"([^"]+)"/g)
{
	like($states // '', qr/^- `\Q$state\E`/m, "$state is among the states");
}

# The transitions between the states on the page are those of consumer_state.c, without the states that no view
# shows.
my ($ways) = slurp_file(test_dir() . '/../src/process/consumer/consumer_state.c') =~ /\}\s*states\[\] = \{(.*?)\n\};/s;
my %shown;
my %from;
while ($ways =~ /\[ATP_STATE_(\w+)\] = \{(.*?)\}/gs)
{
	my ($to, $how) = ($1, $2);

	$shown{$to} = $how =~ /\.shown = true/;
	$from{$to} = [ $how =~ /FROM\((\w+)\)/g ] unless $how =~ /ANY/;
}

sub seen_before
{
	my ($state, %passed) = @_;
	return map { $shown{$_} ? $_ : $passed{$_} ? () : seen_before($_, %passed, $_ => 1) } @{ $from{$state} // [] };
}

my %coded = map { my $to = $_; map { lc "$_ $to" => 1 } grep { $_ ne $to } seen_before($to) } grep { $shown{$_} } keys %from;
my ($drawn) = $states =~ /^```mermaid\n(.*?)^```/ms;
my %drawn = map { $_ => 1 } grep { !/stopped|paused|not_running/ } map { "$_->[0] $_->[1]" } map { [ /^ +(\w+) --> (\w+)/ ] } grep { /^ +\w+ -->/ } split /\n/, $drawn;
is(join("\n", sort keys %drawn), join("\n", sort keys %coded), 'the ways between the states are those of the consumer');

$node->stop;
done_testing();
