# 121_kill_workers.pl
#		Runs 120_kill.pl with a subscription of several workers, each of which commits a position of its
#		own.  E-43, E-49.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;    # here, because its modules prepare themselves when a program is compiled

$ENV{ATPROTO_WORKERS} ||= 3;
do "$FindBin::RealBin/120_kill.pl";
die $@ if $@;
