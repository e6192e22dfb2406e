# AtprotoTest/Network.pm
#		A private network for one test (test/network): PLC directory, did:web and
#		handle servers, PDSs, relays, a name server.
#
#		my $network = AtprotoTest::Network->start;
#		my $node = make_node('main', start => AtprotoTest::Preload->make(network => $network),
#			conf => $network->settings);
#		$network->documents({ $did => $network->document($did, pds => 'pds1.example.com', key => 'zQ3sh...') });
#		$network->fault({ host => 'plc.example.com', status => 503, times => 2 });
#		my @requests = $network->log(host => 'plc.example.com');
#
#		For a server started in this way, each name below example.com, .net, .org and
#		.test has a public address, and its ports 443 and 80 are this
#		network's; names() gives names other addresses.  Needs no extension.

package AtprotoTest::Network;

use strict;
use warnings FATAL => 'all';

use Cwd qw(realpath);
use File::Basename qw(dirname);
use HTTP::Tiny;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

use AtprotoTest::Certificates;
use AtprotoTest::Process;

my $program = realpath(dirname(__FILE__) . '/../../network') . '/network.py';
my $count   = 0;

# An address that the extension may connect to; nothing is ever sent there (test/tools/preload.c).
our $PUBLIC = '93.184.215.14';

# Starts it on free ports.  cars => a directory of exports, certs => an
# AtprotoTest::Certificates, tls => { name => 'expired', ... }: whose certificate a name has.
sub start
{
	my ($class, %o) = @_;
	my $certs = $o{certs} // AtprotoTest::Certificates->make;
	my $dir   = PostgreSQL::Test::Utils::tempdir('network');
	my $self  = bless { certs => $certs, names => "$dir/names" }, $class;
	my @tls   = (
		join(',', $certs->pair('network')),
		map { "$_=" . join ',', $certs->pair($o{tls}{$_}) } sort keys %{ $o{tls} // {} });

	$self->{process} = AtprotoTest::Process->start('network' . ++$count, "$dir/ports",
		$ENV{PYTHON} || '/usr/bin/python3', '-B', $program, '--port-file', "$dir/ports", '--exit-on-eof',
		(map { ('--tls', $_) } @tls), $o{cars} ? ('--cars', $o{cars}) : ());
	$self->{ports} = decode_json(PostgreSQL::Test::Utils::slurp_file("$dir/ports"));
	$self->names({});
	return $self;
}

sub stop
{
	my ($self) = @_;
	$self->{process}->stop;
	return;
}

# The ports: https, http, dns, control.
sub port
{
	my ($self, $of) = @_;
	return $self->{ports}{$of};
}

sub certificates
{
	my ($self) = @_;
	return $self->{certs};
}

sub ca_file
{
	my ($self) = @_;
	return $self->{certs}->ca;
}

# Lines for postgresql.conf.
sub settings
{
	my ($self) = @_;

	return <<"EOF";
atproto.fetch_ca_file = '@{[ $self->ca_file ]}'
atproto.plc_url = 'https://plc.example.com'
EOF
}

# --- names and addresses ---

# What AtprotoTest::Preload gives the server.
sub preload
{
	my ($self) = @_;
	return (
		ATP_TEST_NAMES => $self->{names},
		ATP_TEST_PORTS => "443:$self->{ports}{https},80:$self->{ports}{http}");
}

# Addresses of names, as the server looks them up: { 'a.example.com' => ['1.2.3.4', '10.0.0.1'] }
# is the first address once and then the other; 'none' is a name without one.
sub names
{
	my ($self, $names) = @_;
	my $lines = join '', map { "$_ @{ $names->{$_} }\n" } sort keys %$names;

	$lines .= "$_ $PUBLIC\n" foreach map { ("example.$_", ".example.$_") } qw(com net org test);
	open my $f, '>', "$self->{names}.new" or die "cannot write $self->{names}.new: $!";
	print $f $lines;
	close $f or die "cannot write $self->{names}.new: $!";
	rename "$self->{names}.new", $self->{names} or die "cannot rename to $self->{names}: $!";
	return;
}

# --- what it serves (test/network/README.md) ---

sub _ask
{
	my ($self, $method, $path, $value) = @_;
	my $url    = "http://127.0.0.1:$self->{ports}{control}/$path";
	my $json   = JSON::PP->new->utf8->allow_nonref;
	my $answer = HTTP::Tiny->new(timeout => $AtprotoTest::TIMEOUT)
	  ->request($method, $url, $method eq 'POST' ? { content => $json->encode($value) } : {});

	BAIL_OUT("the network says $answer->{status} to $path: $answer->{content}") unless $answer->{success};
	return $json->decode($answer->{content});
}

# tell('documents', { DID => document, ... }); also by the names below.
sub tell
{
	my ($self, $what, $value) = @_;
	return $self->_ask('POST', $what, $value);
}

sub documents { my ($self, $value) = @_; return $self->tell('documents', $value) }
sub handles   { my ($self, $value) = @_; return $self->tell('handles',   $value) }
sub repos     { my ($self, $value) = @_; return $self->tell('repos',     $value) }
sub hosts     { my ($self, $value) = @_; return $self->tell('hosts',     $value) }
sub archives  { my ($self, $value) = @_; return $self->tell('archives',  $value) }
sub directories { my ($self, $value) = @_; return $self->tell('directories', $value) }
sub dns       { my ($self, $value) = @_; return $self->tell('dns',       $value) }
sub fault     { my ($self, $value) = @_; return $self->tell('fault',     $value) }
sub unfault   { my ($self, $value) = @_; return $self->tell('unfault',   $value) }
sub release   { my ($self, $value) = @_; return $self->tell('release',   $value) }
sub reset     { my ($self) = @_; return $self->tell('reset', undef) }

# A DID document: key, label_key (Multikeys), pds (a host's name), handle.
sub document
{
	my ($self, $did, %o) = @_;
	my @methods = map { { id => "$did#$_->[0]", type => 'Multikey', controller => $did, publicKeyMultibase => $_->[1] } }
	  grep { defined $_->[1] } [ atproto => $o{key} ], [ atproto_label => $o{label_key} ];
	my @services = map { { id => '#atproto_pds', type => 'AtprotoPersonalDataServer', serviceEndpoint => "https://$_" } }
	  grep { defined } $o{pds};

	return {
		'@context'         => ['https://www.w3.org/ns/did/v1'],
		id                 => $did,
		alsoKnownAs        => [ defined $o{handle} ? "at://$o{handle}" : () ],
		verificationMethod => \@methods,
		service            => \@services };
}

# --- the log ---

# The entries of the log from a number on (since), those whose members are as given:
# log(host => 'plc.example.com', path => qr/did/).
sub log
{
	my ($self, %want) = @_;
	my @texts   = grep { !ref $want{$_} } keys %want;
	# reading all entries here would take most of the time of some tests
	my $entries = $self->_ask('GET', 'log?' . HTTP::Tiny->new->www_form_urlencode({ map { $_ => $want{$_} } @texts }));

	foreach my $member (grep { ref $want{$_} } keys %want)
	{
		@$entries = grep { defined $_->{$member} && $_->{$member} =~ $want{$member} } @$entries;
	}
	return @$entries;
}

# Waits until so many entries are as given, and gives them.
sub wait_for_log
{
	my ($self, $n, %want) = @_;

	AtprotoTest::wait_until(sub { (() = $self->log(%want)) >= $n },
		"$n requests in the network's log (" . join(', ', map { "$_ $want{$_}" } sort keys %want) . ')');
	return $self->log(%want);
}

1;
