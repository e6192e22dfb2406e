# AtprotoTest/Server.pm
#		A stream server process (test/server) for TAP tests.
#
#		my $server = AtprotoTest::Server->start($capture, '--cut-after' => 100);
#		$server->url, ->port, ->log, ->release, ->stop, ->restart(@options)

package AtprotoTest::Server;

use strict;
use warnings FATAL => 'all';

use Cwd qw(realpath);
use File::Basename qw(dirname);
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

use AtprotoTest::Process;

my $dir     = realpath(dirname(__FILE__) . '/../../server');
my $program = "$dir/streamserver";
my $count   = 0;

# It is built by make check; this is for running one test by hand.
sub build
{
	return if -x $program;
	system('make', '-s', '-C', $dir) == 0 && -x $program
	  or BAIL_OUT("cannot build $program");
	return;
}

# Starts a server on a free port; the options are those of its README.
sub start
{
	my ($class, $capture, @options) = @_;
	my $self = bless {
		capture => $capture,
		files   => PostgreSQL::Test::Utils::tempdir('stream'),
		tls     => scalar(grep { $_ eq '--tls' } @options),
		port    => 0,
		path    => path_of($capture),
		number  => ++$count }, $class;

	build();
	$self->_run(@options);
	return $self;
}

# Where such messages are to be had: those of Jetstream (test/oracle/jetstream.py) are texts.
sub path_of
{
	my ($capture) = @_;
	my $first = '';

	return '/xrpc/com.atproto.sync.subscribeRepos' unless -f $capture;    # a pipe can be read once
	open my $f, '<:raw', $capture or BAIL_OUT("cannot read $capture");
	read $f, $first, 16;
	close $f;
	return '/subscribe' if $first =~ /^.{4}\{"did/s;
	return '/xrpc/network.bsky.jetstream.subscribeEvents' if $first =~ /^.{4}\{"\$type"/s;
	return '/xrpc/com.atproto.sync.subscribeRepos';
}

sub _run
{
	my ($self, @options) = @_;
	my $portfile = "$self->{files}/port";

	# A file of its own each time: its log tells of this run only.
	$self->{log} = "$self->{files}/log" . ++$self->{runs};
	$self->{process} = AtprotoTest::Process->start("streamserver$self->{number}", $portfile,
		$program, '--capture', $self->{capture}, '--port', $self->{port}, '--port-file', $portfile,
		'--log', $self->{log}, '--exit-on-eof', @options);
	$self->{port} = PostgreSQL::Test::Utils::slurp_file($portfile) + 0;
	return;
}

sub port
{
	my ($self) = @_;
	return $self->{port};
}

# Where subscribeRepos, or Jetstream, is; another host name or endpoint can be given.
sub url
{
	my ($self, %o) = @_;
	my $scheme = $self->{tls} ? 'wss' : 'ws';
	my $host   = $o{host} // ($self->{tls} ? 'localhost' : '127.0.0.1');
	my $path   = $o{nsid} ? "/xrpc/$o{nsid}" : $self->{path};

	return "$scheme://$host:$self->{port}$path";
}

# The log so far: a list of hashes, of all kinds or of one ('request', 'end').
sub log
{
	my ($self, $kind) = @_;
	my @entries = map { decode_json($_) }
	  grep { /\n\z/ } split /(?<=\n)/, -e $self->{log} ? PostgreSQL::Test::Utils::slurp_file($self->{log}) : '';

	return grep { !defined $kind || $_->{event} eq $kind } @entries;
}

# The cursors that clients asked for, in the order of their connections.
sub cursors
{
	my ($self) = @_;
	return map { $_->{cursor} } $self->log('request');
}

# Waits until the log has so many entries of a kind.
sub wait_for_log
{
	my ($self, $kind, $n) = @_;

	AtprotoTest::wait_until(sub { (() = $self->log($kind)) >= $n }, "$n entries ($kind) in the stream server's log");
	return $self->log($kind);
}

# Goes on to the next --hold-at.
sub release
{
	my ($self) = @_;
	$self->{process}->signal('USR1');
	return;
}

sub stop
{
	my ($self) = @_;
	my $process = delete $self->{process} or return;

	$process->stop;
	return;
}

# Stops it if it runs and starts it with other options on the same port.
sub restart
{
	my ($self, @options) = @_;

	$self->stop;
	$self->_run(@options);
	return;
}

1;
