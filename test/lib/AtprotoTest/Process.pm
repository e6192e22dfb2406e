# AtprotoTest/Process.pm
#		A listening program of the tests.  The program writes its port into a file when it
#		is ready, and ends with its standard input, so that no program outlives the test, whatever
#		happens.
#
#		my $process = AtprotoTest::Process->start('streamserver1', $portfile, @command);
#		$process->signal('USR1');
#		$process->stop;

package AtprotoTest::Process;

use strict;
use warnings FATAL => 'all';

use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my @running;

# What it prints is appended to NAME.log among the logs of the test.
sub start
{
	my ($class, $name, $portfile, @command) = @_;
	my $self   = bless { name => $name }, $class;
	my $output = "$PostgreSQL::Test::Utils::log_path/$name.log";

	unlink $portfile;
	# A pipe of IPC::Run's own would keep it from seeing that the program ended.
	pipe my $stdin, $self->{stdin} or die "no pipe: $!";
	$self->{run} = IPC::Run::start(\@command, '<', $stdin, '>>', $output, '2>>', $output);
	close $stdin;
	AtprotoTest::wait_until(
		sub {
			-s $portfile or $self->{run}->pumpable or BAIL_OUT("$name ended: see $output");
			return -s $portfile;
		},
		$name);
	push @running, $self;
	return $self;
}

sub signal
{
	my ($self, $signal) = @_;
	$self->{run}->signal($signal);
	return;
}

# Ends the process by SIGTERM; an exit code other than 0 is a failed test.
sub stop
{
	my ($self) = @_;
	my $run = delete $self->{run} or return;

	@running = grep { $_ != $self } @running;
	$run->signal('TERM');
	$run->finish;
	fail("$self->{name} ended well") if $run->full_result(0) != 0;
	return;
}

END
{
	my $status = $?;
	$_->stop foreach @running;
	$? = $status;
}

1;
