# 290_oracle.pl
#		The oracle itself, against what was written down by hand.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

use AtprotoTest;
use IPC::Run;
use Test::More;

my $python = $ENV{PYTHON} || '/usr/bin/python3';
my ($out, $err) = ('', '');

ok(IPC::Run::run([ $python, '-B', test_dir() . '/oracle/check_oracle.py' ], '<', \undef, '>', \$out, '2>', \$err),
	'it ends well') or diag($err);
foreach (split /\n/, $out)
{
	my ($ok, $name) = /^(ok|not ok) \d+ - (.*)/ or next;
	is($ok, 'ok', $name);
}
like($out, qr/^1\.\.(?:[3-9]\d|2[5-9])$/m, 'all of it ran') or diag($out);

done_testing();
