# AtprotoTest/Certificates.pm
#		Certificate authorities and server certificates for tests of TLS, made
#		with the openssl program.
#
#		my $certs = AtprotoTest::Certificates->make;
#		AtprotoTest::Server->start($capture, '--tls', $certs->pair('valid'));
#		... $certs->ca, $certs->other_ca ...
#
#		The pairs: valid (localhost, 127.0.0.1, ::1), expired, not_yet_valid,
#		wrong_host, unknown_ca (as valid, by another authority), self_signed;
#		network (all names below example.com, .net, .org and .test).

package AtprotoTest::Certificates;

use strict;
use warnings FATAL => 'all';

use PostgreSQL::Test::Utils;
use Test::More;

my $localhost = 'DNS:localhost,IP:127.0.0.1,IP:::1';
my $network   = join ',', $localhost, map { ("DNS:example.$_", "DNS:*.example.$_") } qw(com net org test);

# UTC, as openssl ca takes them; far enough that no clock can come between.
my ($long_ago, $past, $future, $far) =
  ('20000101000000Z', '20000102000000Z', '20980101000000Z', '20990101000000Z');

my @pairs = (
	# name, authority, names, from, to
	[ 'valid',         'ca',    $localhost,        $long_ago, $far ],
	[ 'expired',       'ca',    $localhost,        $long_ago, $past ],
	[ 'not_yet_valid', 'ca',    $localhost,        $future,   $far ],
	[ 'wrong_host',    'ca',    'DNS:example.org', $long_ago, $far ],
	[ 'network',       'ca',    $network,          $long_ago, $far ],
	[ 'unknown_ca',    'other', $localhost,        $long_ago, $far ],
	[ 'self_signed',   undef,   $localhost,        $long_ago, $far ]);

# Most tests need one pair or two: each file is made when somebody asks for it.
sub make
{
	my ($class) = @_;
	return bless { dir => PostgreSQL::Test::Utils::tempdir('certs'), made => {} }, $class;
}

# The certificate of the authority to trust.
sub ca
{
	my ($self) = @_;
	return $self->_authority('ca');
}

# The certificate of the authority of the pair unknown_ca.
sub other_ca
{
	my ($self) = @_;
	return $self->_authority('other');
}

# Certificate file and key file.
sub pair
{
	my ($self, $name) = @_;
	my ($pair) = grep { $_->[0] eq $name } @pairs;

	$self->_server(@$pair) unless $self->{made}{$name}++;
	return ("$self->{dir}/$name.crt", "$self->{dir}/$name.key");
}

sub _openssl
{
	my (@args) = @_;
	my $out = '';

	IPC::Run::run([ 'openssl', @args ], '<', \undef, '>&', \$out)
	  or BAIL_OUT("openssl @args failed: $out");
	return;
}

# A key and what it is for: a request, or with -x509 a certificate.
sub _request
{
	my ($self, $name, $file, @more) = @_;

	_openssl('req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes',
		'-config', '/dev/null', '-subj', "/CN=$name",
		'-keyout', "$self->{dir}/$name.key", '-out', $file, @more);
	return;
}

sub _authority
{
	my ($self, $name) = @_;
	my $dir = $self->{dir};

	return "$dir/$name.crt" if $self->{made}{$name}++;
	$self->_request($name, "$dir/$name.crt", '-x509', '-days', '3650',
		'-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign');
	PostgreSQL::Test::Utils::append_to_file("$dir/$name.index", '');
	return "$dir/$name.crt";
}

# openssl ca is the one command that takes both dates in every version.
sub _server
{
	my ($self, $name, $authority, $names, $from, $to) = @_;
	my $dir = $self->{dir};
	my $ca  = $authority // $name;

	$self->_authority($authority) if defined $authority;
	$self->_request($name, "$dir/$name.csr");
	PostgreSQL::Test::Utils::append_to_file("$dir/$name.cnf", <<"EOF");
[ca]
default_ca = this
[this]
database = $dir/$ca.index
new_certs_dir = $dir
rand_serial = yes
unique_subject = no
default_md = sha256
policy = anything
x509_extensions = server
[anything]
commonName = supplied
[server]
subjectAltName = $names
basicConstraints = CA:FALSE
EOF
	PostgreSQL::Test::Utils::append_to_file("$dir/$ca.index", '');
	_openssl('ca', '-batch', '-notext', '-config', "$dir/$name.cnf",
		'-startdate', $from, '-enddate', $to, '-in', "$dir/$name.csr", '-out', "$dir/$name.crt",
		'-keyfile', "$dir/$ca.key", defined $authority ? ('-cert', "$dir/$ca.crt") : '-selfsign');
	return;
}

1;
