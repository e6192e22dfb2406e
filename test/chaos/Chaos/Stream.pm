# Chaos/Stream.pm
#		The stream server of a seed (test/server), always on one port.

package Chaos::Stream;

use strict;
use warnings FATAL => 'all';

use POSIX ();
use Time::HiRes qw(time usleep);

sub new
{
	my ($class, %o) = @_;
	my $self = bless { %o, port => 0, pid => 0 }, $class;
	$self->start(@{ $o{options} });
	return $self;
}

sub start
{
	my ($self, @options) = @_;
	my $portfile = "$self->{dir}/port";
	my $until = time + 20;

	unlink $portfile;
	pipe(my $in, my $to) or die "pipe: $!";
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		close $to;
		open STDIN,  '<&', $in or POSIX::_exit(1);
		open STDOUT, '>>', "$self->{dir}/streamserver.log" or POSIX::_exit(1);
		open STDERR, '>&', \*STDOUT or POSIX::_exit(1);
		exec $self->{program}, '--capture', $self->{capture}, '--port', $self->{port}, '--port-file', $portfile,
		  '--log', "$self->{dir}/requests.log", '--exit-on-eof', @options
		  or POSIX::_exit(1);
	}
	close $in;
	# --exit-on-eof: the stream server ends when this pipe is closed, so no server survives the test
	@$self{qw(pid stdin)} = ($pid, $to);
	until (-s $portfile)
	{
		die "the stream server does not start: @options\n" if time > $until || waitpid($pid, POSIX::WNOHANG()) != 0;
		usleep(2_000);
	}
	open my $f, '<', $portfile or die $!;
	$self->{port} = <$f> + 0;
	return;
}

sub stop
{
	my ($self) = @_;

	return unless $self->{pid};
	close delete $self->{stdin};
	kill 'TERM', $self->{pid};
	waitpid $self->{pid}, 0;
	$self->{pid} = 0;
	return;
}

sub url
{
	my ($self) = @_;
	return "ws://127.0.0.1:$self->{port}/xrpc/com.atproto.sync.subscribeRepos";
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!);
	$self->stop;
	return;
}

1;
