# Pairs/World.pm
#		The sources of a program's subscriptions: a simulated network, its streams in the
#		formats of relay and Jetstream, its directory and the exports of its repositories.

package Pairs::World;

use strict;
use warnings FATAL => 'all';

use Chaos::Cluster;
use Chaos::Stream;
use File::Basename qw(dirname);
use File::Path qw(make_path);
use HTTP::Tiny;
use JSON::PP;
use POSIX ();
use Time::HiRes qw(time usleep);

my $test = dirname(__FILE__) . '/../..';
my $python = $ENV{PYTHON} || '/usr/bin/python3';
my $json = JSON::PP->new->utf8->allow_nonref;

# NSIDs and paths of the kinds of streams.
my %path = (relay => '/xrpc/com.atproto.sync.subscribeRepos', jetstream1 => '/subscribe', jetstream2 => '/xrpc/network.bsky.jetstream.subscribeEvents');
our %version = (jetstream1 => 'v1', jetstream2 => 'v2');

# How an archive of the same events is cut: small, so that a program meets many of its blocks.
my %cut = (block_rows => 10, segment_blocks => 4, page => 6, whole => 1.1, generous => 0);

sub new
{
	my ($class, %o) = @_;
	my $self = bless {%o}, $class;

	make_path($self->{dir});
	Chaos::Cluster::run("$test/simulator/simulate", @{ $o{simulate} }, '--directory' => "$self->{dir}/directory",
		'--exports' => "$self->{dir}/exports", '--expect' => "$self->{dir}/expect", '--output' => "$self->{dir}/whole");
	return $self;
}

sub python
{
	my ($self, $program, $to, @args) = @_;
	Chaos::Cluster::run('sh', '-c', 'exec "$@" >"$0"', $to, $python, '-B', "$test/oracle/$program", @args);
	return $to;
}

# The capture of a kind of stream; lossy: some of its commits are missing.
sub capture
{
	my ($self, $kind, $lossy) = @_;
	my $name = ($lossy ? 'lossy' : 'whole');
	my $file = "$self->{dir}/$name";

	$self->python('lost.py', $file, "$self->{dir}/whole", int($self->{events} * 0.6), 9) if $lossy && !-e $file;
	return $file unless $version{$kind};
	return -e "$file.$kind" ? "$file.$kind" : $self->python('jetstream.py', "$file.$kind", $version{$kind}, $file);
}

# Messages of a capture.
sub messages
{
	my ($file) = @_;
	my @messages;

	open my $f, '<:raw', $file or die "cannot read $file: $!";
	while (read($f, my $head, 4) == 4)
	{
		read $f, my $message, unpack 'N', $head;
		push @messages, $message;
	}
	return @messages;
}

# The first and the last position of a stream; of a Jetstream that is asked for some collections only, the last one
# that it sends.
sub bounds
{
	my ($self, $kind, $lossy, $filter) = @_;

	return (1, $self->{events}) unless $version{$kind};
	my @sent = grep { !$filter || !/"collection":"(?!app\.bsky\.feed\.)/ } messages($self->capture($kind, $lossy));
	my @seqs = map { /"(?:time_us|seq)":(\d+)/ ? $1 : () } @sent;
	return @seqs[ 0, -1 ];
}

# Starts a stream server with the capture of this world, in a directory of the server's own.
sub serve
{
	my ($self, $name, $kind, $lossy, @options) = @_;
	my $dir = "$self->{dir}/$name";

	make_path($dir);
	my $stream = Chaos::Stream->new(program => "$test/server/streamserver", dir => $dir, capture => $self->capture($kind, $lossy), options => \@options);
	@$stream{qw(kind lossy name)} = ($kind, $lossy, $name);
	return $stream;
}

sub url
{
	my ($self, $stream, $through) = @_;
	# a PDS has its stream where its repositories are
	return 'ws://127.0.0.1:' . ($through ? $self->{ports}{http} : $stream->{port}) . ($path{ $stream->{kind} } // $path{relay});
}

# --- directory and repositories (test/network) ---

sub start_network
{
	my ($self) = @_;
	my $ports = "$self->{dir}/ports";
	my $until = time + 20;

	my @certificate = map { "$self->{dir}/$_.pem" } 'certificate', 'key';
	Chaos::Cluster::run('openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', 2,
		'-subj', '/CN=localhost', '-out', $certificate[0], '-keyout', $certificate[1]);
	pipe(my $in, my $to) or die "pipe: $!";
	my $pid = fork // die "fork: $!";
	if ($pid == 0)
	{
		close $to;
		open STDIN,  '<&', $in or POSIX::_exit(1);
		open STDOUT, '>', "$self->{dir}/network.log" or POSIX::_exit(1);
		open STDERR, '>&', \*STDOUT or POSIX::_exit(1);
		exec $python, '-B', "$test/network/network.py", '--port-file', $ports, '--exit-on-eof', '--tls', join ',', @certificate or POSIX::_exit(1);
	}
	close $in;
	@$self{qw(pid stdin)} = ($pid, $to);
	until (-s $ports)
	{
		die "the network does not start\n" if time > $until || waitpid($pid, POSIX::WNOHANG()) != 0;
		usleep(5_000);
	}
	open my $f, '<', $ports or die $!;
	$self->{ports} = $json->decode(do { local $/; <$f> });
	$self->{origin} = "http://127.0.0.1:$self->{ports}{http}";
	$self->fill_network;
	return;
}

sub tell
{
	my ($self, $what, $value) = @_;
	my $answer = HTTP::Tiny->new(timeout => 30)
	  ->request('POST', "http://127.0.0.1:$self->{ports}{control}/$what", { content => $json->encode($value) });

	die "the network says $answer->{status} to $what: $answer->{content}" unless $answer->{success};
	return;
}

# Documents, and the repositories as they are in the end.
sub fill_network
{
	my ($self) = @_;
	my (%documents, %repos);

	open my $f, '<', "$self->{dir}/directory/documents" or die $!;
	while (my $line = <$f>)
	{
		my $entry = $json->decode($line);

		$documents{ $entry->{did} } = $entry->{document} // 410;
	}
	foreach my $line (split /\n/, slurp("$self->{dir}/expect/repo"))
	{
		my ($did, $rev, $commit, undef, $active, $status) = split /\t/, $line;
		my $car = "$self->{dir}/exports/1/$did.car";

		$repos{$did} = -e $car ? { car => $car, $active eq 't' ? () : (active => JSON::PP::false, status => $status) } : undef;
	}
	$self->tell('documents', \%documents);
	$self->tell('repos', { '127.0.0.1' => \%repos });
	return;
}

# The stream's events are in an archive, too, at the network's own port; its first $segments segments are sealed (0: all),
# and each block takes so long.
sub archive
{
	my ($self, $segments, $seconds) = @_;
	my $rows = "$self->{dir}/rows";

	Chaos::Cluster::run('sh', '-c', 'exec "$@" >"$0"', $rows, $python, '-B', "$test/network/archive_rows.py", $self->capture('relay', 0));
	$self->tell('archives', { '127.0.0.1' => { rows => $rows, %cut } });
	$self->tell('fault', { host => '127.0.0.1', path => 'getBlock', delay => $seconds });
	return $self->seal($segments);
}

sub seal { my ($self, $segments) = @_; $self->tell('archives', { '127.0.0.1' => { do => { seal => $segments } } }); return }

# WebSockets to the network's own port are this stream's.
sub stream_behind { my ($self, $stream) = @_; $self->tell('hosts', { '127.0.0.1' => { stream => $stream->{port} } }); return }

sub slurp
{
	my ($path) = @_;
	open my $f, '<:raw', $path or die "cannot read $path: $!";
	local $/;
	return <$f> // '';
}

# Settings of the server.
sub settings
{
	my ($self) = @_;
	return ("atproto.fetch_allow = '$self->{origin}, 127.0.0.0/8'", "atproto.plc_url = '$self->{origin}'", 'atproto.fetch_host_rate = 1000', "atproto.fetch_any_port = on");
}

sub stop
{
	my ($self) = @_;

	return unless $self->{pid};
	# before the signal: if a thread of Python gets the signal, its main thread does not learn of it as long as it reads
	close delete $self->{stdin};
	kill 'TERM', $self->{pid};
	waitpid $self->{pid}, 0;
	$self->{pid} = 0;
	return;
}

sub DESTROY
{
	my ($self) = @_;
	local ($?, $!);
	$self->stop;
	return;
}

1;
