# 272_script_digest.pl
#		Until the first release, script and library have a digest of the script.  The release takes the digest out of both,
#		also in a checkout that was built before: a library that still had the digest would start no process beside the
#		released script.  Makefile, CONTRIBUTING.md "Versions".

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Installation;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
my ($version) = slurp_file("$AtprotoTest::Installation::tree/atproto.control") =~ /^default_version = '(.*)'/m;
my @made = ("atproto--$version.sql", 'src/config/extension.o');

must('cp', '-a', (map { "$AtprotoTest::Installation::tree/$_" } qw(Makefile atproto.control src)), $dir);
# the settings of the test run would link test/probe, which is not in the copy
delete @ENV{qw(MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL PROFILE RELEASED)};

sub must
{
	my (@command) = @_;
	run_log([@command]) or BAIL_OUT("failed: @command");
	return;
}

# Makes script and object, and returns the digest in each of them.
sub digests
{
	my (@variables) = @_;
	must('make', '-s', '-C', $dir, 'with_llvm=no', @variables, @made);
	my ($of_script) = slurp_file("$dir/$made[0]") =~ /AS 'SELECT ''([0-9a-f]{32})''::text'/;
	my ($of_object) = slurp_file("$dir/$made[1]") =~ /'([0-9a-f]{32})'/;
	return join(' ', $of_script // 'none', $of_object // 'none');
}

sub changed_at
{
	return join(' ', map { (stat "$dir/$_")[9] } @made);
}

my $first = digests();
like($first, qr/^(\w{32}) \1$/, 'script and library have the same digest');
my $before = changed_at();
is(digests(), $first, 'made again');
is(changed_at(), $before, 'nothing is compiled anew');

is(digests('RELEASED=1'), 'none none', 'RELEASED=1 takes the digest out of both');
is(digests(), $first, 'without, both get the digest back');

mkdir "$dir/upgrade" or BAIL_OUT($!);
must('cp', "$dir/atproto--$version.sql", "$dir/upgrade/");
is(digests(), 'none none', 'a checkout that gets the script of the release has no digest');
must('rm', '-r', "$dir/upgrade");
is(digests(), $first, 'a checkout from before the release has the digest');

must('sh', '-c', "echo '-- a change' >>'$dir/src/process/status/limits.sql'");
my $other = digests();
like($other, qr/^(\w{32}) \1$/, 'after a change of the SQL, both have the same digest');
isnt($other, $first, 'another one');

done_testing();
