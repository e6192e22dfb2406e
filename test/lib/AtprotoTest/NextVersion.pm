# AtprotoTest/NextVersion.pm
#		An installation that can be upgraded to a next version of the extension, which
#		test/tools/next-version makes of the present sources.
#
#		my $next = AtprotoTest::NextVersion->new;
#		PostgreSQL::Test::Cluster->new('name', install_path => $next->install_path);
#		$next->install;		# before: the present version
#		AtprotoTest::NextVersion->new('columns');	# a next version with further columns of tables
#		$next->before, $next->version, $next->released

package AtprotoTest::NextVersion;

use strict;
use warnings FATAL => 'all';

use parent 'AtprotoTest::Installation';

use AtprotoTest::Installation;
use File::Basename qw(basename);
use PostgreSQL::Test::Utils;
use Test::More;

sub new
{
	my ($class, @what) = @_;
	my $self = $class->SUPER::new;
	my $versions = `'$AtprotoTest::Installation::tree/test/tools/next-version' '$self->{sources}' @what`;

	@$self{qw(before version)} = split ' ', $versions;
	BAIL_OUT('no next version') unless defined $self->{version};
	return $self;
}

# The released versions that there are scripts of, with the present one.
sub released
{
	my ($self) = @_;
	return map { /^atproto--(.*)\.sql$/ } grep { !/--.*--/ } map { basename($_) } glob("$self->{sources}/upgrade/*.sql");
}

sub before
{
	my ($self) = @_;
	return $self->{before};
}

sub version
{
	my ($self) = @_;
	return $self->{version};
}

1;
