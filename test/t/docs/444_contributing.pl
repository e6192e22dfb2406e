# 444_contributing.pl
#		A newcomer copies commands from CONTRIBUTING.md.  This test runs the quick commands of the page in
#		a copy of the sources, and looks up what the other commands name.  A command of a shell block that
#		this test does not know is a failure.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest::Pages;
use Cwd qw(abs_path);
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $root = abs_path(root());
my $copy = PostgreSQL::Test::Utils::tempdir();
my $page = page_text('CONTRIBUTING.md');

# A newcomer's shell has no settings of the test run that this test is part of.
delete @ENV{qw(MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL PROFILE PROVE_TESTS PROVE_FLAGS WERROR with_llvm COVERAGE TESTS TAP LD_PRELOAD)};

my $tar = "tar -cf - --exclude=.git --exclude='*.[od]' --exclude='*.so' --exclude='*.bc' --exclude=tmp_check --exclude=./test/build"
  . " --exclude=./results --exclude=./test/server/streamserver --exclude=./test/simulator/simulate --exclude=./test/simulator/build .";
is(system("cd '$root' && $tar | tar -xf - -C '$copy'"), 0, 'a copy of the sources');

# Returns the exit status and all output of a command in the copy.
sub run
{
	my ($command) = @_;
	my $out = '';

	IPC::Run::run([ 'bash', '-c', "cd '$copy' && $command" ], '<', \undef, '>&', \$out);
	return ($? >> 8, $out);
}

sub runs_with
{
	my ($command, $output) = @_;
	my ($rc, $out) = run($command);

	like($out, $output, "$command: its output") or diag($out);
	return is($rc, 0, "$command runs");
}

# --- what a command names ---

# Which file a name for test/one stands for.
sub file_of_test
{
	my ($name) = @_;

	return "test/unit/$1.c" if $name =~ m{^unit/(\w+)$};
	return "test/fuzz/fuzz_$1.c" if $name =~ m{^replay/(\w+)$};
	return "test/complexity/shapes_$1." . ($1 eq 'server' ? 'py' : 'c') if $name =~ m{^complexity/(\w+)$};
	return "sql/$1.sql" if $name =~ m{^sql/(\w+)$};
	return "test/tools/$name" if $name =~ /^(reference|promises)$/;
	my ($file) = glob("$copy/test/t/*/$name.pl");
	return $file ? $file =~ s{^\Q$copy\E/}{}r : "test/t/*/$name.pl";
}

# The words before ")" in a case of a shell script.
sub cases
{
	my ($script) = @_;
	return map { $_ => 1 } slurp_file("$copy/$script") =~ /^\t\t([a-z-]+)\)/mg;
}

my ($kinds_of_check) = slurp_file("$copy/test/tools/check") =~ /^kinds=\$\{TESTS:-([a-z ]+)\}/m or BAIL_OUT('test/tools/check names no kinds of tests');
my %kind = map { $_ => 1 } split / /, $kinds_of_check;
my %check = cases('test/lint/run');

# Faults of a command that is not run.  make -n finds the rules for a target, and the rules for all files that the target needs.
sub faults_of
{
	my ($command) = @_;
	my @faults;

	push @faults, map { "make check has no kind of tests $_" } grep { !$kind{$_} } split / /, $1 if $command =~ /\bTESTS="?([^"=]*[^"= ])"?(?= \w+=| make)/;
	push @faults, map { "there is no test $_" } grep { !-e "$copy/" . file_of_test($_) } split / /, $1 if $command =~ /\bTAP="?([\w ]+?)"? /;
	push @faults, map { "make lint has no check $_" } grep { !$check{$_} } split / /, $1 if $command =~ /\bCHECKS="?([\w -]+?)"? /;
	push @faults, map { "there is no file $_" } grep { !-e "$copy/$_" } split / /, $1 if $command =~ /\bFILES="?([\w .\/-]+?)"?(?: |$)/;
	if ($command =~ /^test\/one (.*)/)
	{
		push @faults, map { "there is no " . file_of_test($_) } grep { !-e "$copy/" . file_of_test($_) } split / /, $1;
	}
	elsif ($command =~ /^(?:\w+=\S+ )*make( .*)?$/)
	{
		my ($rc, $out) = run('make -n' . ($1 // ''));
		push @faults, $out if $rc != 0;
	}
	elsif ($command =~ /^(?:\w+=\S+ )*((?:test|bench|demo|release)\/\S+)/)
	{
		push @faults, "there is no program $1" unless -x "$copy/$1" && !-d "$copy/$1";
	}
	else
	{
		push @faults, 'is neither make nor a program of this project';
	}
	return @faults;
}

is_deeply([ map { scalar faults_of($_) } 'test/one 999_nothing', 'test/one unit/test_nothing', 'test/one replay/nothing', 'test/one sql/nothing', 'TESTS=nothing make check', 'TAP=nothing make coverage', 'CHECKS=nothing make lint', 'make indent FILES=src/nothing.c',
			'make nothing', 'make -C test fuzz-nothing', 'make -C test keep-nothing', 'test/nothing', 'nothing' ],
	[ map { 1 } 1 .. 13 ], 'false names are found');

# --- each command of the shell blocks ---

# These are run, with this output.  All others take too long, and are looked up.
my %quick = (
	'test/one unit/test_tid' => qr/^Result: PASS$/m,
	'test/one replay/uri'    => qr/^Result: PASS$/m);

# make lint and make dist need a git repository.
my $git = (run('git --version'))[0] == 0;
if ($git)
{
	my ($rc, $out) = run('export HOME="$PWD"; git init -q . && git add -A && git -c user.name=x -c user.email=x@example.org commit -qm x');
	is($rc, 0, 'a git repository') or diag($out);
}

# The first call compiles src/core.
$ENV{ATPROTO_ONE} = "$copy.one";

my %seen;
foreach my $block (blocks('CONTRIBUTING.md', 'sh'))
{
	foreach my $line (split /\n/, $block->{text})
	{
		my ($command) = $line =~ /^([^#]*[^#\s])/ or next;

		if ($quick{$command}) { runs_with($command, $quick{$command}); }
		else                  { is(join("\n", faults_of($command)), '', "$command: what it names is there"); }
		$seen{$command} = 1;
	}
}
is(join(', ', grep { !$seen{$_} } sort keys %quick), '', 'the page has all commands that this test runs');
system('rm', '-rf', "$copy.one");

# Commands in the text, and in tables.
foreach my $command (grep { !/^(?:make|bench\/run|test\/one)$/ } prose('CONTRIBUTING.md') =~ /(?<!`)`((?:\w+=\S+ )*(?:make|test\/(?:one|mutants\/run|lint\/\w+\.py|fuzz\/\w+\.py)|release\/[\w.]+) [^`\n]*)`(?!`)/g)
{
	next if $seen{$command}++ || $command =~ /\b[A-Z]{4}\b FILE/;
	is(join("\n", faults_of($command)), '', "$command: what it names is there");
}

# --- the tables ---

foreach my $name ($page =~ /`((?:test|sql|expected)\/[\w.\/-]*(?:NAME|ROOM|NNN)[\w.\/-]*)`/g)
{
	my $pattern = "$copy/$name" =~ s/NNN_name|NAME|ROOM/*/gr;

	ok(scalar(() = glob $pattern) > 0, "$name: there is such a file");
}
my ($checks) = $page =~ /^\| `CHECKS` \| checks \|\n\|---\|---\|\n((?:\|.*\n)+)/m;
my %listed = map { $_ => 1 } $checks =~ /^\| `([\w-]+)` \|/mg;
is(join(' ', sort keys %listed), join(' ', grep { !/^(?:cppcheck|clang-tidy)$/ } sort keys %check), 'the table has the checks of make lint');
my ($kinds) = $page =~ /^TESTS=unit make check +# only (.*)/m;
is_deeply([ grep { !/^[a-z]+$/ || !$kinds || $kinds !~ /\b$_\b/ } sort keys %kind ], [], 'and the kinds of tests of make check');

# --- commands that need git ---

SKIP:
{
	skip 'no git', 1 unless $git;
	my ($rc, $out) = run('CHECKS=script make lint');

	like($out, qr/^# install script: \d+ faults\n(?:#.*\n)*lint: clean$/m, 'make lint ends with lint: clean') or diag($out);
	like($page, qr/make lint +#.*ends with: lint: clean$/m, 'as the page says');

	my ($dist) = $page =~ /^\| `make dist` \| (.*?) \|$/m;
	($rc, $out) = run('make dist');
	is($rc, 0, 'make dist runs') or diag($out);
	my ($archive) = ($dist // '') =~ /`([\w.-]+\.tar\.gz)`/;
	ok(-s "$copy/" . ($archive // 'nothing'), 'and makes the archive that the page names');

	my ($address) = $page =~ /`(release\/project\.py address [^`]*)`/;
	($rc, $out) = run($address // 'false');
	is($rc, 0, 'release/project.py runs') or diag($out);
	my ($url) = ($address // '') =~ /(https:\S+)/;
	like(slurp_file("$copy/META.json"), qr/\Q$url\E/, 'and META.json has the address') if defined $url;
}

done_testing();
