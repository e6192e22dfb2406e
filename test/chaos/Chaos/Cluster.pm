# Chaos/Cluster.pm
#		A PostgreSQL server that runs many seeds: start, crash, stop.

package Chaos::Cluster;

use strict;
use warnings FATAL => 'all';

use Chaos::Session;
use File::Path qw(remove_tree);
use Time::HiRes qw(time usleep);

# dir must be short: the path of a socket has at most 107 bytes.
sub new
{
	my ($class, $dir) = @_;
	my $self = bless { dir => $dir, data => "$dir/data", log => "$dir/server.log" }, $class;

	mkdir $dir or die "cannot make $dir: $!" unless -d $dir;
	$ENV{PGHOST} = $dir;
	$ENV{PGUSER} = 'postgres';
	$ENV{PGOPTIONS} = '-c client_min_messages=error';
	$ENV{PGDATABASE} = 'postgres';
	delete @ENV{qw(PGPORT PGAPPNAME)};
	run('initdb', '-D', $self->{data}, qw(-U postgres -A trust -N -E UTF8 --locale=C));
	open my $f, '>>', "$self->{data}/postgresql.conf" or die $!;
	my $wal_level = $ENV{ATPROTO_TRACE} ? 'logical' : 'minimal';
	# The machine stays, so that what was written is there without fsync.
	print $f <<"EOS";
listen_addresses = ''
unix_socket_directories = '$dir'
fsync = off
shared_buffers = 16MB
max_connections = 30
max_worker_processes = 32
wal_level = $wal_level
max_wal_senders = 0
restart_after_crash = on
deadlock_timeout = 100ms
log_line_prefix = '%m [%p] %b '
log_lock_waits = off
shared_preload_libraries = 'atproto'
atproto.databases = 'postgres'
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
atproto.ping_interval = 300ms
atproto.idle_timeout = 1s
EOS
	close $f;
	return $self;
}

# A program of PostgreSQL; its words are only of interest when it fails.
sub run
{
	my (@command) = @_;
	open my $f, '-|', 'sh', '-c', '"$@" 2>&1 </dev/null', 'sh', @command or die $!;
	my $out = do { local $/; <$f> } // '';

	close $f or die "@command: $out";
	return $out;
}

sub session
{
	my ($self) = @_;
	# What a question waits for may be held by who asks: it is given up, not its connection.
	# What was done stays done, whatever crashes next.
	return $self->{session} //= Chaos::Session->new(first => "SET statement_timeout = '3s'; SET synchronous_commit = on");
}

# All sessions from now on are with this database.
sub use_database
{
	my ($self, $name) = @_;

	$ENV{PGDATABASE} = $name;
	$self->session->close;
	return;
}

sub postmaster
{
	my ($self) = @_;
	open my $f, '<', "$self->{data}/postmaster.pid" or return 0;
	my $pid = <$f>;
	return $pid ? $pid + 0 : 0;
}

# The pids of the child processes of a process.
sub children
{
	my ($parent) = @_;
	my @children;

	foreach my $stat (glob '/proc/[0-9]*/stat')
	{
		open my $f, '<', $stat or next;
		my $line = <$f> // next;
		push @children, $1 if $line =~ /^(\d+) \(.*\) \S (\d+)/s && $2 == $parent;
	}
	return @children;
}

# What a server that was killed leaves behind may still hold its memory for a moment.
sub start
{
	my ($self) = @_;
	my $until = time + 60;
	local %ENV = (%ENV, %{ $self->{clock} // {} });

	until (eval { run('pg_ctl', '-D', $self->{data}, '-l', $self->{log}, '-w', 'start') })
	{
		die $@ if time > $until;
		usleep(50_000);
	}
	return;
}

sub stop
{
	my ($self, $mode) = @_;
	run('pg_ctl', '-D', $self->{data}, '-m', $mode, '-w', 'stop');
	return;
}

# --- the clock, which libfaketime can move while the server runs ---

my ($faketime) = glob '/usr/lib/*/faketime/libfaketime.so.1';

sub set_clock
{
	my ($self, $offset) = @_;
	my $file = "$self->{dir}/clock";

	open my $f, '>', "$file.new" or die $!;
	print $f "$offset\n";
	close $f;
	rename "$file.new", $file or die $!;
	return;
}

# From the next start on the clock can be moved; false where that is not possible.
sub loosen_clock
{
	my ($self) = @_;

	return 0 if !$faketime || $ENV{LD_PRELOAD};
	$self->set_clock('+0');
	$self->{clock} = {
		LD_PRELOAD => $faketime, FAKETIME_TIMESTAMP_FILE => "$self->{dir}/clock", FAKETIME_NO_CACHE => 1,
		DONT_FAKE_MONOTONIC => 1, FAKETIME_DISABLE_SHM => 1
	};
	return 1;
}

# The postmaster is killed; its children end when they notice.
sub kill9
{
	my ($self) = @_;
	my $pid     = $self->postmaster or return;
	my @orphans = children($pid);
	my $until   = time + 30;

	kill 'KILL', $pid;
	kill 'CONT', @orphans;
	while (grep { kill 0, $_ } @orphans)
	{
		die "orphans stay: @orphans" if time > $until;
		usleep(10_000);
	}
	return;
}

# An answer, once the server can give one.  An error of the question itself is fatal.
sub must
{
	my ($self, $sql, $timeout) = @_;
	my $until = time + ($timeout // 60);

	for (;;)
	{
		my $out = $self->session->ask($sql, $timeout // 60);
		my $error = $self->session->{error};
		return $out if defined $out;
		# 57P0x, 40xxx, 55P03: the world's fault
		die substr($sql, 0, 200), ": $error\n"
		  unless $error =~ /^lost|^no answer|starting up|shutting down|recovery|deadlock|terminating|timeout|could not connect|connection to server/;
		die "the server does not answer: $error\n" if time > $until;
		$self->{meanwhile}->() if $self->{meanwhile};
		usleep(20_000);
	}
}

# Like must, but undef when there is no answer now.
sub ask
{
	my ($self, $sql, $timeout) = @_;
	return $self->session->ask($sql, $timeout);
}

sub remove
{
	my ($self) = @_;

	$self->session->close;
	kill 'CONT', children($self->postmaster) if $self->postmaster;
	eval { $self->stop('immediate') } if $self->postmaster;
	remove_tree($self->{dir});
	return;
}

1;
