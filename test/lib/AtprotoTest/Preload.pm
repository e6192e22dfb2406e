# AtprotoTest/Preload.pm
#		Starts servers with the library test/tools/preload.c preloaded.
#
#		my $preload = AtprotoTest::Preload->make;
#		$preload->start($node);
#		$preload->step(-3600);		# seconds; from now on for all of its processes
#		$preload->disks('pg_wal' => 500);	# so many MB are free at these paths; other paths: what the system says
#
#		For a server started in this way, no name server answers for the name
#		unanswered.invalid.  With make(network => $network) names, addresses and
#		ports belong to a network of the test (AtprotoTest::Network).

package AtprotoTest::Preload;

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Utils;
use Test::More;

sub make
{
	my ($class, %o) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir('preload');
	my $source = AtprotoTest::test_dir() . '/tools/preload.c';
	my $library = AtprotoTest::made_once('preload ' . (stat $source)[9], sub {
		system($ENV{CC} || 'gcc', '-shared', '-fPIC', '-O1', '-Wall', '-Werror', '-o', $_[0], $source, '-ldl', '-pthread') == 0
		  or BAIL_OUT("cannot build $source");
	});
	my $self = bless { library => $library, clock => "$dir/clock", disks => "$dir/disks", offset => 0, %o }, $class;

	$self->step(0);
	return $self;
}

# The environment of a program that is to have it.  A sanitizer's runtime must come first.
sub environment
{
	my ($self) = @_;

	return (
		LD_PRELOAD     => join(':', grep { defined } $ENV{LD_PRELOAD}, $self->{library}),
		ATP_TEST_CLOCK => $self->{clock},
		ATP_TEST_DISKS => $self->{disks},
		$self->{network} ? $self->{network}->preload : ());
}

# What is free, in MB, by path; replaces what was said before.
sub disks
{
	my ($self, %free) = @_;

	# a process reads either the former file or the new file
	open my $f, '>', "$self->{disks}.new" or die "cannot write $self->{disks}.new: $!";
	print $f map { "$_ $free{$_}\n" } sort keys %free;
	close $f or die "cannot write $self->{disks}.new: $!";
	rename "$self->{disks}.new", $self->{disks} or die "cannot rename to $self->{disks}: $!";
	return;
}

# Starts the node's server.
sub start
{
	my ($self, $node) = @_;

	local %ENV = (%ENV, $self->environment);
	$node->start;
	return;
}

# Sets the time of day of the running server back or forth.
sub step
{
	my ($self, $seconds) = @_;

	$self->{offset} += $seconds;
	# the server has the file mapped: it is written, not replaced
	open my $f, (-e $self->{clock} ? '+<' : '>'), $self->{clock} or die "cannot open $self->{clock}: $!";
	syswrite($f, pack 'q', $self->{offset}) == 8 or die "cannot write $self->{clock}: $!";
	close $f;
	return;
}

1;
