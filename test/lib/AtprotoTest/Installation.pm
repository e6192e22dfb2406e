# AtprotoTest/Installation.pm
#		A private installation of PostgreSQL for one test, with the extension built
#		from a copy of the sources.
#
#		my $it = AtprotoTest::Installation->new;			# of the PostgreSQL under test
#		my $it = AtprotoTest::Installation->new($pg_config);	# of another
#		$it->install;							# install('WAIT=poll'): with variables for make
#		PostgreSQL::Test::Cluster->new('name', install_path => $it->install_path);

package AtprotoTest::Installation;

use strict;
use warnings FATAL => 'all';

use Cwd qw(realpath);
use File::Basename qw(dirname);
use PostgreSQL::Test::Utils;
use Test::More;

our $tree = realpath(dirname(__FILE__) . '/../../..');

sub run
{
	my (@command) = @_;

	run_log([@command]) or BAIL_OUT("failed: @command");
	return;
}

sub new
{
	my ($class, $pg_config) = @_;
	my $self = bless {
		sources => PostgreSQL::Test::Utils::tempdir('sources'),
		root    => PostgreSQL::Test::Utils::tempdir('install') }, $class;
	my $from = $pg_config // 'pg_config';
	my $private = `'$tree/test/tools/private-postgres' "\$(command -v '$from')" '$self->{root}'`;

	BAIL_OUT('no private PostgreSQL') unless $private;
	chomp($self->{pg_config} = $private);
	run('cp', '-a', (grep { -e } map { "$tree/$_" } qw(Makefile atproto.control src upgrade)), $self->{sources});
	# builds for tests link a task of the fetcher that lies there
	run('mkdir', "$self->{sources}/test");
	run('cp', '-a', "$tree/test/probe", "$self->{sources}/test");
	# what is compiled already serves the PostgreSQL that it was compiled for
	run('find', $self->{sources}, '-name', '*.o', '-delete') if defined $pg_config;
	return $self;
}

sub install
{
	my ($self, @variables) = @_;

	run('make', '-s', '-j2', '-C', $self->{sources}, "PG_CONFIG=$self->{pg_config}", 'with_llvm=no', @variables, 'install');
	return;
}

sub install_path
{
	my ($self) = @_;
	return dirname(dirname($self->{pg_config}));
}

1;
