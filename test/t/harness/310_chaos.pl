# 310_chaos.pl
#		Runs a few seeds of test/chaos.  A seed mixes at random what can happen to a subscription (kills,
#		cuts, changed settings), and then compares the tables with the model.  E-43.
#
#		SEEDS=200 is a longer form; FIRST=1000 begins with another seed.  For
#		thousands, and for a seed that fails, see test/chaos/README.md.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $seeds = $ENV{SEEDS} || 20;
my $good  = 0;

local $ENV{SEEDS} = $seeds;
local $ENV{KEEP}  = "$PostgreSQL::Test::Utils::log_path/chaos";

# Each seed prints a line and, when it failed, its story.
open my $out, '-|', test_dir() . '/chaos/run' or die "cannot run test/chaos: $!";
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
is($good, $seeds, 'all seeds');

done_testing();
