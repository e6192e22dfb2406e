# 311_pairs.pl
#		Programs in which two or three capabilities meet (test/pairs).  The covering array has every pair of
#		capabilities; the test runs a share of its programs, and a program that is not in the array, both the
#		same on each machine, and compares the tables with the simulator's.
#
#		SHARE=40 runs all programs; DRAW=n runs only the random program of seed n; ATPROTO_SEED=random draws the
#		program that is not in the array.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $share = $ENV{SHARE} || 4;
my $good  = 0;

my $checked = do { local $ENV{CHECK} = 1; qx{${\test_dir()}/pairs/run} };
is($?, 0, 'each pair of values, and each triple of changes, is in the array') or diag($checked);
note($checked);

local $ENV{SHARE} = $share unless defined $ENV{DRAW};
local $ENV{DRAW}  = $ENV{DRAW} // seed();
local $ENV{KEEP}  = "$PostgreSQL::Test::Utils::log_path/pairs";

# Each program prints a line and, when it failed, its story.
open my $out, '-|', test_dir() . '/pairs/run' or die "cannot run test/pairs: $!";
while (my $line = <$out>)
{
	if ($line =~ /^(not )?ok - (.*)/)
	{
		ok(!$1, $2);
		$good++ unless $1;
	}
	else
	{
		diag($line);
	}
}
close $out;
is($good, defined $ENV{SHARE} ? $share + 1 : 1, 'all programs');

done_testing();
