# Pairs/NextVersion.pm
#		The next version of the extension (test/tools/next-version), which a run of programs builds once, and the
#		installations of PostgreSQL that programs upgrade to this version.  Each program upgrades an
#		installation of its own, because programs run at the same time.

package Pairs::NextVersion;

use strict;
use warnings FATAL => 'all';

use Chaos::Cluster;
use Cwd qw(realpath);
use File::Basename qw(dirname);

my $test = realpath(dirname(__FILE__) . '/../..');
my $tree = dirname($test);

# Below the directory: "pg", an installation with the present version; "files", the files of the next version.
sub new
{
	my ($class, $dir) = @_;
	my $self = bless { dir => $dir }, $class;
	# a tree that was built for tests has this object, and its other objects call it
	local $ENV{PROFILE} = $ENV{PROFILE} // (-e "$test/probe/probe.o" ? '-DUSE_ASSERT_CHECKING -DATP_INJECTION_POINTS' : '');

	chomp(my $pg_config = Chaos::Cluster::run("$test/tools/private-postgres", which('pg_config'), "$dir/pg"));
	$self->{bindir} = dirname($pg_config) =~ s{^\Q$dir/pg\E}{}r;
	mkdir $_ or die "cannot make $_: $!" foreach "$dir/sources", "$dir/sources/test";
	Chaos::Cluster::run('cp', '-a', (grep { -e } map { "$tree/$_" } qw(Makefile atproto.control src upgrade)), "$dir/sources");
	Chaos::Cluster::run('cp', '-a', "$test/probe", "$dir/sources/test");
	(undef, $self->{version}) = split ' ', Chaos::Cluster::run("$test/tools/next-version", "$dir/sources");
	Chaos::Cluster::run('make', '-s', '-j2', '-C', "$dir/sources", "PG_CONFIG=$pg_config", 'with_llvm=no', "DESTDIR=$dir/files", 'install');
	return $self;
}

sub which
{
	my ($program) = @_;
	my ($path) = grep { -x } map { "$_/$program" } split /:/, $ENV{PATH};
	return $path // die "there is no $program\n";
}

sub version
{
	my ($self) = @_;
	return $self->{version};
}

# From now on the cluster's programs are those of an installation that belongs to the cluster.  The installation
# consists of links: install() replaces links, and does not write into files.
sub move
{
	my ($self, $cluster) = @_;
	my $pg = "$cluster->{dir}/pg";

	Chaos::Cluster::run('cp', '-al', "$self->{dir}/pg", $pg);
	$cluster->stop('fast');
	$ENV{PATH} = "$pg$self->{bindir}:$ENV{PATH}";
	$cluster->{spent} = 1;
	$cluster->start;
	return;
}

# As make install does it: a process that has loaded the old library keeps the old file.
sub install
{
	my ($self, $cluster) = @_;
	Chaos::Cluster::run('cp', '-a', '--remove-destination', "$self->{dir}/files$self->{dir}/pg/.", "$cluster->{dir}/pg");
	return;
}

1;
