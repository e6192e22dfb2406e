# Chaos/Session.pm
#		A psql that stays connected, so that a query costs a millisecond.  A crash of the
#		server is a valid answer; the next query starts a new psql.

package Chaos::Session;

use strict;
use warnings FATAL => 'all';

use IO::Select;
use POSIX qw(:sys_wait_h);
use Time::HiRes qw(time);

my $count = 0;

sub new
{
	my ($class, %o) = @_;
	return bless { first => $o{first}, pid => 0, asked => 0, answered => 0, buffer => '' }, $class;
}

sub _start
{
	my ($self) = @_;

	pipe(my $in, my $to)   or die "pipe: $!";
	pipe(my $from, my $out) or die "pipe: $!";
	my $pid = fork // die "fork: $!";
	$self->{appname} //= sprintf "chaos %d %d", $$, ++$count;
	if ($pid == 0)
	{
		$ENV{PGAPPNAME} = $self->{appname};
		open STDIN,  '<&', $in  or POSIX::_exit(1);
		open STDOUT, '>&', $out or POSIX::_exit(1);
		open STDERR, '>&', $out or POSIX::_exit(1);
		exec 'psql', '-XqAt', '-F', '|' or POSIX::_exit(1);
	}
	close $in;
	close $out;
	$to->autoflush(1);
	@$self{qw(pid to from buffer asked answered)} = ($pid, $to, $from, '', 0, 0);
	# what nobody waits for any more would be done at a time of its own
	$self->send("DO \$\$ BEGIN PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
		  . " WHERE application_name = '$self->{appname}' AND pid <> pg_backend_pid(); END \$\$")
	  if delete $self->{given_up};
	$self->send($self->{first}) if defined $self->{first};
	return;
}

# What is asked is answered in its order; finish() waits for all answers.
sub send
{
	my ($self, $sql) = @_;

	$self->_start unless $self->{pid};
	# it had no server to connect to
	return unless $self->{pid};
	my $mark = sprintf 'answer-%d', ++$self->{asked};
	$sql .= ';' unless $sql =~ /;\s*\z/;
	local $SIG{PIPE} = 'IGNORE';
	print { $self->{to} } "$sql\n\\echo $mark\n" or return $self->close;
	return;
}

# True when the answer to everything is here; undef when the connection has ended.
sub _read
{
	my ($self, $timeout) = @_;

	return 1 if $self->{buffer} =~ /^answer-$self->{asked}\n/m;
	return 0 unless IO::Select->new($self->{from})->can_read($timeout);
	my $n = sysread $self->{from}, $self->{buffer}, 65536, length $self->{buffer};
	if (!$n)
	{
		$self->{last} = $self->{buffer};
		$self->close;
		return undef;
	}
	return $self->{buffer} =~ /^answer-$self->{asked}\n/m ? 1 : 0;
}

# The output, or undef: {error} says why.
sub finish
{
	my ($self, $timeout) = @_;
	my $until = time + ($timeout // 30);
	my $done;

	# psql ended while it was asked
	$self->{error} = 'lost: psql has ended';
	return undef unless $self->{pid};
	until ($done = $self->_read($until - time))
	{
		if (!defined $done)
		{
			$self->{error} = "lost: $self->{last}";
			return undef;
		}
		if (time > $until)
		{
			$self->{error} = 'no answer';
			$self->{given_up} = 1;
			$self->close;
			return undef;
		}
	}
	my $out = $self->{buffer};
	$self->{buffer} = '';
	$self->{asked} = 0;
	$out =~ s/^answer-\d+\n//mg;
	if ($out =~ /^(?:psql:\S+ )?(?:ERROR|FATAL|PANIC): .*/ms)
	{
		$self->{error} = $&;
		return undef;
	}
	$self->{error} = undef;
	chomp $out;
	return $out;
}

sub ask
{
	my ($self, $sql, $timeout) = @_;

	$self->finish if $self->{pid} && $self->{asked};
	$self->send($sql);
	return $self->finish($timeout);
}

# Kills psql, also in the middle of a statement.
sub close
{
	my ($self) = @_;

	return unless $self->{pid};
	close $self->{to};
	close $self->{from};
	kill 'KILL', $self->{pid};
	waitpid $self->{pid}, 0;
	$self->{pid} = 0;
	return;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!);
	$self->close;
	return;
}

1;
