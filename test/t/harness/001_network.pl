# 001_network.pl
#		The simulated network of the tests (test/network): a program of its own tries the answers, faults
#		and log, and a server process reaches the network under names, addresses and ports of the Internet.
#		Needs no PostgreSQL.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use IPC::Run;
use Test::More;

my $python = $ENV{PYTHON} || '/usr/bin/python3';
my ($out, $err);

ok(IPC::Run::run([ $python, '-B', test_dir() . '/network/check_network.py' ], '<', \undef, '>', \$out, '2>', \$err),
	'the network does what its README says')
  or diag(join "\n", (grep { !/^ok/ } split /\n/, $out), $err);

my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
my $did     = 'did:plc:' . 'a' x 24;

# The answers that a process with the preload library gets from these URLs, one line each.
sub get
{
	my (@urls) = @_;
	my $program = <<'PYTHON';
import ssl, sys, urllib.request
tls = ssl.create_default_context(cafile=sys.argv[1])
for url in sys.argv[2:]:
    try:
        print(urllib.request.urlopen(url, context=tls).read().decode())
    except OSError as e:
        print(getattr(e, 'reason', e))
PYTHON

	local %ENV = (%ENV, $preload->environment);
	IPC::Run::run([ $python, '-c', $program, $network->ca_file, @urls ], '>', \$out, '2>', \$err) or BAIL_OUT($err);
	return [ map { chomp; $_ } split /(?<=\n)/, $out ];
}

$network->documents({ $did => $network->document($did, pds => 'pds.example.com', key => 'zKey', handle => 'a.example.org') });
$network->handles({ 'a.example.org' => $did });

my ($document) = @{ get("https://plc.example.com/$did") };
like($document, qr/"https:\/\/pds\.example\.com"/, 'a document, by TLS');
is_deeply(get('http://a.example.org/.well-known/atproto-did'), [$did], 'a handle, without');
is_deeply([ map { $_->{sni} // '-' } $network->log(kind => 'http') ], [ 'plc.example.com', '-' ], 'the log');
is_deeply(
	get('https://plc.example.com:8443/', 'https://192.0.2.1:22/'),
	[ ('[Errno 111] Connection refused') x 2 ], 'other ports are refused');

$network->names({ 'turn.example.com' => [ '10.0.0.1', '10.0.0.2' ], 'none.example.com' => ['none'] });
like(get("https://none.example.com/$did")->[0], qr/Errno -2/, 'a name without address');
is_deeply(get(('http://turn.example.com/.well-known/atproto-did') x 2), [ ('Not Found') x 2 ], 'any address is the network');

$network->stop;
done_testing();
