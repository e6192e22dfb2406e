# AtprotoTest/Archive.pm
#		A Jetstream with an archive, for one test: the simulated network has the archive, and a
#		stream server beside it has the stream of the same numbers.
#
#		my $archive = AtprotoTest::Archive->begin('--events' => 1500);
#		my $node = make_node('main', start => $archive->preload, conf => $archive->settings);
#		$archive->serve({ block_rows => 20 }, seal => 3);
#		query($archive->subscription_sql('a', target => "'a'"));
package AtprotoTest::Archive;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use AtprotoTest::Jetstream;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use Exporter qw(import);
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

our $HOST = 'jetstream.example.com';

# A network with the events of a simulated capture.  Without #sync: the simulator's servers send no records after one.
sub begin
{
	my ($class, @options) = @_;
	my ($capture) = simulate('--history' => 0, '--seed' => seed(), '--mix' => 'account=3,delete=8,update=6,sync=0,identity=3,like=40,post=30,profile=3', @options);

	return $class->of($capture);
}

# The same with the events of this capture.
sub of
{
	my ($class, $capture) = @_;
	my $self = bless { network => AtprotoTest::Network->start, dir => PostgreSQL::Test::Utils::tempdir('archive') }, $class;

	return $self->take($capture);
}

# From the next serve() on, the events are those of this capture; the options are of jetstream.py.
sub take
{
	my ($self, $capture, @options) = @_;

	$self->{capture} = $capture;
	$self->{texts}   = texts('v2', $capture, @options);
	$self->{rows}    = "$self->{dir}/rows" . ++$self->{captures};
	IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/network/archive_rows.py', $capture ], '>', $self->{rows})
	  or BAIL_OUT('archive_rows.py failed');
	$self->{last} = () = PostgreSQL::Test::Utils::slurp_file($self->{rows}) =~ /\n/g;
	BAIL_OUT('stream and archive do not have the same numbers') if $self->{last} != text_count($self->{texts});
	return $self;
}

sub network  { return $_[0]{network} }
sub last_seq { return $_[0]{last} }
sub texts_of { return $_[0]{texts} }
sub rows_file { return $_[0]{rows} }

sub preload
{
	my ($self) = @_;
	return AtprotoTest::Preload->make(network => $self->{network});
}

sub settings
{
	my ($self) = @_;
	return $self->{network}->settings . "max_worker_processes = 30\natproto.reconnect_delay = 20ms\natproto.reconnect_max_delay = 100ms\n";
}

# Serves the rows as an archive with these options, and the stream with these switches.  seal => number of segments (0: all);
# texts => other texts of the stream.
sub serve
{
	my ($self, $options, %o) = @_;

	$self->{stream}->stop if $self->{stream};
	$self->{stream} = AtprotoTest::Server->start($o{texts} // $self->{texts}, @{ $o{stream} // [] });
	$self->{network}->hosts({ $HOST => { stream => $self->{stream}->port } });
	$self->{network}->archives({ $HOST => { rows => $self->{rows}, %$options } });
	return $self->do(seal => $o{seal} // 0);
}

# Ends a hold of the stream (--hold-at).
sub release { $_[0]{stream}->release; return }

# What happens to the archive: do(seal => 2), do(compact => undef), do(set => { ... }, before => 3).
sub do    ## no critic
{
	my ($self, %what) = @_;
	return $self->{network}->archives({ $HOST => { do => \%what } })->{$HOST};
}

sub subscription_sql
{
	my ($self, $name, %args) = @_;

	$args{history} //= "'archive'";
	$args{allow_insecure} //= 'true';
	$args{proxy} //= "''";
	return "SELECT atproto.subscribe('$name', 'ws://$HOST/xrpc/network.bsky.jetstream.subscribeEvents'" . join('', map { ", $_ => $args{$_}" } sort keys %args) . ')';
}

# Waits until the stream's last event was processed.
sub wait_for_end
{
	my ($self, $name) = @_;

	wait_for("SELECT coalesce(min(seq) >= $self->{last}, false) FROM atproto.cursor WHERE subscription = '$name'");
	return;
}

# The requests to the archive since the log's entry $since, without those to the stream.
sub requests
{
	my ($self, $what) = @_;
	return grep { $_->{path} =~ m{/xrpc/network\.bsky\.jetstream\.$what} } $self->{network}->log(host => $HOST);
}

1;
