# AtprotoTest/Statement.pm
#		Runs a single statement in a session of its own, as psql would, but without starting psql: that takes
#		more time than most statements of the tests.  Needs no extension.
#
#		my $run = AtprotoTest::Statement->run($node, 'postgres', 'SELECT 1, 2');
#		$run->{rows}		# '1|2'; undef after an error
#		$run->{error}		# "ERROR:  ...\nDETAIL:  ..."; undef if there was none
#		$run->{notices}		# 'NOTICE:  ...'
#
#		run() gives undef when this is not for it: several statements, COPY, commands of psql.

package AtprotoTest::Statement;

use strict;
use warnings FATAL => 'all';

use Errno qw(EINTR);
use File::Basename qw(basename);
use IO::Socket::UNIX;

# What the server sends ends early when the server does.
sub _read
{
	my ($socket, $length) = @_;
	my $bytes = '';

	while (length $bytes < $length)
	{
		my $n = sysread $socket, $bytes, $length - length $bytes, length $bytes;
		next if !defined $n && $! == EINTR;
		return unless $n;
	}
	return $bytes;
}

# A message of the server: its type and its contents.
sub _message
{
	my ($socket) = @_;
	my $head = _read($socket, 5) // return;
	my ($type, $length) = unpack 'aN', $head;
	my $body = $length > 4 ? _read($socket, $length - 4) : '';

	return defined $body ? ($type, $body) : ();
}

# As psql prints an error or a notice.
sub _text
{
	my ($body) = @_;
	my %field = map { (substr($_, 0, 1) => substr($_, 1)) } grep { $_ ne '' } split /\0/, $body;

	return join "\n", "$field{S}:  $field{M}", map { defined $field{ $_->[1] } ? "$_->[0]:  $field{ $_->[1] }" : () }
	  [ DETAIL => 'D' ], [ HINT => 'H' ], [ QUERY => 'q' ], [ CONTEXT => 'W' ];
}

sub _row
{
	my ($body) = @_;
	my ($n, $pos) = (unpack('n', $body), 2);
	my @values;

	foreach (1 .. $n)
	{
		my $length = unpack 'l>', substr $body, $pos, 4;
		push @values, $length < 0 ? '' : substr $body, $pos + 4, $length;
		$pos += 4 + ($length < 0 ? 0 : $length);
	}
	return join '|', @values;
}

sub run
{
	my ($class, $node, $database, $sql) = @_;

	return if $sql =~ /;\s*\S|\\|^\s*COPY\b/i || utf8::is_utf8($sql) || $node->host !~ m{^/};
	my %startup = (user => $ENV{PGUSER} // scalar getpwuid($>), database => $database, application_name => $ENV{PGAPPNAME} // basename($0));
	$startup{options} = $ENV{PGOPTIONS} if defined $ENV{PGOPTIONS};
	my $run    = { rows => undef, error => undef, notices => '' };
	my $socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port);
	my $lost   = 'connection to server was lost';

	if (!$socket)
	{
		$run->{error} = "no connection: $!";
		return $run;
	}
	my $start = pack('N', 3 << 16) . join '', map { "$_\0" } %startup, '';
	local $SIG{PIPE} = 'IGNORE';
	syswrite $socket, pack('N', 4 + length $start) . $start;

	my (@rows, $asked);
	while (my ($type, $body) = _message($socket))
	{
		push @rows, _row($body) if $type eq 'D';
		$run->{error} = _text($body) if $type eq 'E';
		$run->{notices} .= _text($body) . "\n" if $type eq 'N';
		die "authentication is not for AtprotoTest::Statement" if $type eq 'R' && unpack('N', $body) != 0;
		next unless $type eq 'Z';
		$lost = undef if $asked;
		my $message = $asked ? pack('aN', 'X', 4) : pack('aNa*x', 'Q', 5 + length $sql, $sql);
		syswrite $socket, $message;
		$asked = 1;
		# after the last message, the server closes the connection when the session is gone
	}
	$run->{error} //= $lost;
	$run->{rows} = join "\n", @rows unless defined $run->{error};
	return $run;
}

1;
