# 290_oracle.pl
#		Checks the oracle of the other tests: the results are compared with values written by hand,
#		and with the simulator's keys of both curves, rotations and exports.  The second unpacker of the packed form of
#		DAG-CBOR is compared with the table of unit/test_packed.c.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $python = $ENV{PYTHON} || '/usr/bin/python3';
my $dir    = PostgreSQL::Test::Utils::tempdir('oracle');

# Runs a program of test/oracle and checks its TAP: a least number of tests must run.
sub check
{
	my ($least, $program, @args) = @_;
	my ($out, $err) = ('', '');

	ok(IPC::Run::run([ $python, '-B', test_dir() . "/oracle/$program", @args ], '<', \undef, '>', \$out, '2>', \$err),
		"$program ends well") or diag($err);
	foreach (split /\n/, $out)
	{
		my ($ok, $name) = /^(ok|not ok) \d+ - (.*)/ or next;
		is($ok, 'ok', $name);
	}
	my ($n) = $out =~ /^1\.\.(\d+)$/m;
	cmp_ok($n // 0, '>=', $least, 'all of it ran') or diag($out);
	return;
}

check(25, 'check_oracle.py');
check(150, 'packed.py', test_dir() . '/data/vectors/derived/packed.tsv');
my ($capture) = simulate(
	'--events' => 1600, '--accounts' => 60, '--history' => 40, '--batches' => 10, '--p256' => 40,
	'--epoch' => 400, '--rotations' => 4, '--migrations' => 2, '--directory' => "$dir/directory", '--exports' => "$dir/exports",
	'--mix' => 'delete=8,update=3,profile=2,account=1.5,identity=1,sync=1,other=1');
rename $capture, "$dir/capture" or BAIL_OUT("cannot move the capture: $!");
check(30, 'check_levels.py', $dir);

done_testing();
