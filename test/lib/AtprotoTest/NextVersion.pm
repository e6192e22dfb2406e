# AtprotoTest/NextVersion.pm
#		An installation that can be upgraded to a next version of the extension: the present
#		sources with a new version number, a few new objects, and the upgrade script.  The version is
#		made by the steps of a release in CONTRIBUTING.md.
#
#		my $next = AtprotoTest::NextVersion->new;
#		PostgreSQL::Test::Cluster->new('name', install_path => $next->install_path);
#		$next->install;		# before: the present version
#		$next->before, $next->version, $next->released

package AtprotoTest::NextVersion;

use strict;
use warnings FATAL => 'all';

use parent 'AtprotoTest::Installation';

use AtprotoTest::Installation;
use File::Basename qw(basename);
use PostgreSQL::Test::Utils;
use Test::More;

# What is new.  With it come a comment, rights, and a dependence on what was
# there; no table changes, so that nothing but the update itself wakes a process.
my $more = <<'EOS';
CREATE DOMAIN atproto.next AS did CHECK (did_method(VALUE) = 'plc');
COMMENT ON DOMAIN atproto.next IS 'test: a type of the next version';
CREATE FUNCTION atproto.next(did) RETURNS atproto.next
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE RETURN $1;
COMMENT ON FUNCTION atproto.next(did) IS 'test: a function of the next version';
REVOKE ALL ON FUNCTION atproto.next(did) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION atproto.next(did) TO pg_monitor;
GRANT EXECUTE ON FUNCTION atproto.wake() TO pg_monitor;
EOS

sub edit
{
	my ($file, $function) = @_;

	local $_ = slurp_file($file);
	$function->();
	open my $f, '>', $file or die "cannot write $file: $!";
	print $f $_;
	close $f or die "cannot write $file: $!";
	return;
}

sub new
{
	my ($class) = @_;
	my $self = $class->SUPER::new;
	my $src = $self->{sources};
	my ($now) = slurp_file("$src/atproto.control") =~ /^default_version = '(.*)'/m;
	my $script = "atproto--$now.sql";

	$self->{before}  = $now;
	$self->{version} = "${now}next";
	# only what knows the version is compiled again
	AtprotoTest::Installation::run('sh', '-c', 'rm -f $(grep -l ATP_EXTVERSION "$0"/src/*/*.c "$0"/src/*/*/*.c | sed "s/c$/o/")', $src);

	# the release of the present version, unless that has been
	mkdir "$src/upgrade";
	AtprotoTest::Installation::run('cp', "$AtprotoTest::Installation::tree/$script", "$src/upgrade/")
	  unless -e "$src/upgrade/$script";

	# the next one
	edit("$src/atproto.control", sub { s/^(default_version = ).*/$1'$self->{version}'/m });
	edit("$src/src/process/manager/control.sql", sub { $_ .= $more });
	append_to_file("$src/upgrade/atproto--$now--$self->{version}.sql", $more);
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
