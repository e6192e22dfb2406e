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
#
#		my $session;		# for a statement that is asked again and again: each has the session of the one before, if that is there still
#		my $run = AtprotoTest::Statement->run($node, 'postgres', 'SELECT 1, 2', \$session);

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

# Is this a statement that run() is for?
sub _is_single
{
	my ($node, $sql) = @_;
	return !($sql =~ /;\s*\S|\\|^\s*COPY\b/i || utf8::is_utf8($sql) || $node->host !~ m{^/});
}

# Reads until the server is ready for a statement: true, and what it said is in $run.  False: the server has ended the session.
sub _until_ready
{
	my ($socket, $run) = @_;
	my @rows;

	while (my ($type, $body) = _message($socket))
	{
		push @rows, _row($body) if $type eq 'D';
		$run->{error} = _text($body) if $type eq 'E';
		$run->{notices} .= _text($body) . "\n" if $type eq 'N';
		die "authentication is not for AtprotoTest::Statement" if $type eq 'R' && unpack('N', $body) != 0;
		next unless $type eq 'Z';
		$run->{rows} = join "\n", @rows;
		return 1;
	}
	$run->{error} //= 'connection to server was lost';
	return 0;
}

# A new session; undef: there is none, and $run has the reason.
sub _begin
{
	my ($node, $database, $run) = @_;
	my %startup = (user => $ENV{PGUSER} // scalar getpwuid($>), database => $database, application_name => $ENV{PGAPPNAME} // basename($0));
	my $socket  = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port);

	if (!$socket)
	{
		$run->{error} = "no connection: $!";
		return;
	}
	$startup{options} = $ENV{PGOPTIONS} if defined $ENV{PGOPTIONS};
	my $start = pack('N', 3 << 16) . join '', map { "$_\0" } %startup, '';
	syswrite $socket, pack('N', 4 + length $start) . $start;
	return _until_ready($socket, $run) ? $socket : undef;
}

# The server closes the connection when the session is gone.
sub _end
{
	my ($socket) = @_;

	syswrite $socket, pack('aN', 'X', 4);
	1 while defined _message($socket);
	return;
}

# What the statement gives; undef: the server has ended the session.
sub _ask
{
	my ($socket, $sql) = @_;
	my $run = { notices => '' };

	syswrite $socket, pack('aNa*x', 'Q', 5 + length $sql, $sql);
	$run->{lost} = !_until_ready($socket, $run);
	delete $run->{rows} if defined $run->{error};
	return $run;
}

sub run
{
	my ($class, $node, $database, $sql, $session) = @_;

	return unless _is_single($node, $sql);
	local $SIG{PIPE} = 'IGNORE';
	if ($session && $$session)
	{
		my $run = _ask($$session, $sql);

		return $run unless $run->{lost};
		# the server may have been started again since the question before
		undef $$session;
	}
	my $run    = { notices => '' };
	my $socket = _begin($node, $database, $run) // return $run;
	my $begun  = $run->{notices};

	$run = _ask($socket, $sql);
	$run->{notices} = $begun . $run->{notices};
	$$session = $socket if $session && !$run->{lost};
	_end($socket) unless $session || $run->{lost};
	return $run;
}

# Ends a session that run() has kept.
sub end
{
	my ($class, $session) = @_;

	local $SIG{PIPE} = 'IGNORE';
	_end($$session) if $$session;
	undef $$session;
	return;
}

1;
