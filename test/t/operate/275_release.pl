# 275_release.pl
#		What a release is made with, as far as an ordinary user can try it (release/run and release/try-image try the
#		rest, as root): the entry of the container image, the archive of an image, the check of the source archives.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use Cwd ();
use JSON::PP;
use POSIX ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $tree    = Cwd::realpath(test_dir() . "/..");
my $dir     = PostgreSQL::Test::Utils::tempdir_short();
my $release = "$tree/release";
$ENV{PYTHONDONTWRITEBYTECODE} = 1;

# Returns the exit status and all output of a command.
sub output_of
{
	my (@command) = @_;
	my $out = '';
	IPC::Run::run([@command], '<', \undef, '>&', \$out);
	return ($? >> 8, $out);
}

sub write_file
{
	my ($name, $text) = @_;
	open(my $fh, '>', $name) or BAIL_OUT("$name: $!");
	print $fh $text;
	close $fh;
	return;
}

# --- the entry ---

delete @ENV{grep { /^(?:PG(?!CTLTIMEOUT)|POSTGRES_)/ } keys %ENV};
local $ENV{PGDATA}        = "$dir/data";
local $ENV{PGPORT}        = PostgreSQL::Test::Cluster::get_free_port();
local $ENV{ENTRY_SCRIPTS} = "$dir/scripts";
mkdir "$dir/scripts" or BAIL_OUT($!);
write_file("$dir/password", "a 'secret'\n");
write_file("$dir/scripts/10.sql", "CREATE EXTENSION atproto; CREATE TABLE ran AS SELECT 'one'::text AS script;\n");
write_file("$dir/scripts/20.sh", "docker_process_sql -c \"INSERT INTO ran VALUES ('two')\"; echo sourced\n");
write_file("$dir/scripts/30.txt", "nothing\n");

sub fails_with
{
	my ($message, %env) = @_;
	local @ENV{keys %env} = values %env;
	my ($rc, $out) = output_of("$release/entry", 'postgres');
	like($out, $message, "refused: $message");
	return isnt($rc, 0, '... with an exit status');
}

my ($rc, $out) = output_of("$release/entry", 'echo', 'another program');
is($out, "another program\n", 'another program simply runs');
($rc, $out) = output_of("$release/entry", '--version');
like($out, qr/^postgres \(PostgreSQL\)/, 'a first argument with "-" is one of the server');
fails_with(qr/set POSTGRES_PASSWORD to a text/);
fails_with(qr/both POSTGRES_PASSWORD and POSTGRES_PASSWORD_FILE are set/, POSTGRES_PASSWORD => 'x', POSTGRES_PASSWORD_FILE => "$dir/password");
fails_with(qr/POSTGRES_PASSWORD_FILE names the file \S+nothing, and the user \S+ cannot read it/, POSTGRES_PASSWORD_FILE => "$dir/nothing");
ok(!-e "$dir/data/PG_VERSION", 'none of these made a cluster');

my $health = (decode_json(run_made())->{config}{Healthcheck}{Test} // [])->[1] // 'false';

# The server, started as in a container.
my $log = "$dir/log";
my $pid = fork // BAIL_OUT($!);
if ($pid == 0)
{
	@ENV{qw(POSTGRES_PASSWORD_FILE POSTGRES_USER POSTGRES_DB POSTGRES_INITDB_ARGS)} = ("$dir/password", 'mine', 'Data "base"', '--encoding=UTF8 --locale=C.UTF-8 --no-sync');
	open(STDOUT, '>', $log) and open(STDERR, '>&', \*STDOUT) or POSIX::_exit(1);
	exec("$release/entry", '-c', 'shared_preload_libraries=atproto', '-c', "unix_socket_directories=$dir", '-c', 'fsync=off') or POSIX::_exit(1);
}
my $healthy = 0;
foreach (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
{
	local $ENV{POSTGRES_USER} = 'mine';
	last if $healthy = system('sh', '-c', $health) == 0;
	last if waitpid($pid, 1) == $pid;
	select(undef, undef, undef, 0.1);
}
ok($healthy, 'the health check of the Dockerfile finds the server') or diag(slurp_file($log));
{
	local @ENV{qw(PGHOST PGUSER PGDATABASE)} = ($dir, 'mine', 'Data "base"');
	(undef, $out) = output_of('psql', '-wXAtc', 'SELECT script FROM ran');
	is($out, "one\ntwo\n", 'the scripts have run in the database, in order');
	(undef, $out) = output_of('psql', '-wXAtc', "SELECT count(*) FROM pg_authid WHERE rolname = 'mine' AND rolpassword LIKE 'SCRAM%'");
	is($out, "1\n", 'the superuser has a password');
}
like(slurp_file("$dir/data/pg_hba.conf"), qr/^host all all all scram-sha-256$/m, 'others need it');
(undef, $out) = output_of('ps', '-o', 'comm=', '-p', $pid);
like($out, qr/^postgres/, 'the server has taken the place of the entry');
kill INT => $pid;
waitpid($pid, 0);
is($?, 0, 'SIGINT ends it in order');
write_file("$dir/scripts/20.sh", "false\n");
($rc, $out) = do { local @ENV{qw(PGDATA POSTGRES_HOST_AUTH_METHOD)} = ("$dir/other", 'trust'); output_of("$release/entry", '-c', "unix_socket_directories=$dir") };
isnt($rc, 0, 'a script that fails ends the start');
ok(!-e "$dir/other/postmaster.pid", 'and leaves no server');

# --- the archive of an image ---

# The configuration of an image of a small root directory.
sub run_made
{
	mkdir "$dir/root" or BAIL_OUT($!);
	write_file("$dir/root/a", 'x');
	local $ENV{SOURCE_DATE_EPOCH} = 1700000000;
	foreach my $archive (qw(one.tar two.tar))
	{
		is(system("$release/image.py", "$dir/root", '17', 'arm64', "$dir/$archive"), 0, "$archive is made");
	}
	is(slurp_file("$dir/one.tar"), slurp_file("$dir/two.tar"), 'the same root directory gives the same bytes');
	is(system("$release/image.py", 'check', "$dir/one.tar"), 0, 'the check of the archive finds nothing');
	my (undef, $manifest) = output_of('tar', '-xOf', "$dir/one.tar", 'manifest.json');
	my (undef, $config)   = output_of('tar', '-xOf', "$dir/one.tar", decode_json($manifest)->[0]{Config});
	return $config;
}

write_file("$dir/root/a", 'y');
{
	local $ENV{SOURCE_DATE_EPOCH} = 1700000000;
	system("$release/image.py", "$dir/root", '17', 'arm64', "$dir/two.tar");
}
my ($other) = grep { /\.gz$/ } split /\n/, (output_of('tar', '-tf', "$dir/two.tar"))[1];
my ($layer) = grep { /\.gz$/ } split /\n/, (output_of('tar', '-tf', "$dir/one.tar"))[1];
system("cd $dir && tar -xf two.tar $other && mv $other $layer && mkdir x && tar -xf one.tar -C x && mv $layer x && cd x && tar -cf ../bad.tar *");
($rc, $out) = output_of("$release/image.py", 'check', "$dir/bad.tar");
like($out, qr/the layers are not those of the configuration/, 'an exchanged layer is found');

# --- the source archives ---

# Packs both archives of a tree with a change, and returns the output of the check.
sub check_of
{
	my ($change, $folder) = @_;
	system("rm -rf $dir/dist $dir/atproto-*; mkdir -p $dir/dist/$folder && cd $tree && cp -r --parents Makefile META.json README.md LICENSE CHANGELOG.md atproto.control debian/control src/atproto.c src/atproto.sql doc/use/getting-started.md $dir/dist/$folder") == 0 or BAIL_OUT('cp');
	system("cd $dir/dist/$folder && $change") == 0 or BAIL_OUT($change);
	system('python3', '-c', 'import shutil, sys; [shutil.make_archive(sys.argv[1], f, sys.argv[2], sys.argv[3]) for f in ("gztar", "zip")]', "$dir/$folder", "$dir/dist", $folder);
	return (output_of("$release/source.py", 'check', "$dir/$folder.tar.gz", "$dir/$folder.zip"))[1];
}

chdir $tree or BAIL_OUT($!);
my $version = (output_of("$release/project.py", 'show', 'version'))[1];
chomp $version;
{
	my $name = "atproto-$version";
	is(check_of('true', $name), "\n", 'the archives of the present version');
	like(check_of('rm src/atproto.sql',             $name), qr/META\.json: file of atproto is not in the archive: src\/atproto\.sql/, 'found: a file that META.json names is missing');
	like(check_of('rm LICENSE',                     $name), qr/missing: LICENSE/, 'found: no licence');
	like(check_of('touch src/atproto.o',            $name), qr/does not belong here: src\/atproto\.o/, 'found: an object file');
	like(check_of(': >README.md',                   $name), qr/is empty: README\.md/, 'found: an empty file');
	like(check_of('sed -i /license/d META.json',    $name), qr/META\.json has no license/, 'found: no word of the licence');
	like(check_of('true', 'atproto-9.9.9'),                 qr/the folder is atproto-9\.9\.9, and META\.json says \Q$name\E/, 'found: another version');
}

# --- the tag's message ---

is(system("$release/source.py", 'tag', "$dir/tag"), 0, 'the message of a tag');
my $tag = slurp_file("$dir/tag");
like($tag, qr/\Aatproto \Q$version\E\n\n/, 'begins with the version');
unlike($tag, qr/^#|\]\(/m, 'and has no line that git takes for a comment, and no link');

# --- reasons against a publication ---

# The output for a copy of the sources, after a change.
sub open_after
{
	my ($change) = @_;
	system("rm -rf $dir/open; mkdir $dir/open && cd $tree && cp -r --parents META.json CHANGELOG.md atproto.control debian release contrib/docker/README.md test/data/promised.txt $dir/open") == 0 or BAIL_OUT('cp');
	system("cd $dir/open && $change") == 0 or BAIL_OUT($change);
	return (output_of("$dir/open/release/source.py", 'open'))[1];
}

my $sql = (output_of("$release/project.py", 'show', 'sql'))[1];
chomp $sql;
my $state = 'test/data/state_of_' . $sql =~ tr/./_/r . '.sql.gz';
my $released = "release/project.py address https://forge.example/a/b 'A <a\@b.example>' && release/project.py released && sed -i '1s/ of [0-9.]*/ of $version/' test/data/promised.txt && mkdir -p upgrade && touch upgrade/atproto--$sql.sql $state";
is(open_after($released), '', 'nothing, of a release');
foreach ([ "rm upgrade/*", qr/^upgrade\/atproto--\Q$sql\E\.sql is not there$/ ],
	[ "rm $state", qr/^\Q$state\E is not there$/ ],
	[ "sed -i '1s/$version/0.1.0/' test/data/promised.txt", qr/^test\/data\/promised\.txt: not the objects of \Q$sql\E .*$/ ],
	[ "sed -i 's/stable/unstable/' META.json", qr/^META\.json: release_status is "unstable"$/ ],
	[ "sed -i '1s/unstable/UNRELEASED/' debian/changelog && release/project.py", qr/^debian\/changelog: the first entry says UNRELEASED$/ ],
	[ "sed -i '0,/^## .*/s//& (not released)/' CHANGELOG.md", qr/^CHANGELOG\.md: the first section says \(not released\)$/ ],
	[ "sed -i '/maintainer/s/A <.*>/A/' META.json && release/project.py", qr/^the maintainer has no address: .*$/ ],
	[ "sed -i '/homepage/d' META.json && release/project.py", qr/^the public address is not known: .*$/ ])
{
	my ($change, $named) = @$_;
	like(open_after("$released && $change"), qr/\A$named\Z/m, "named: after $change");
}

done_testing();
