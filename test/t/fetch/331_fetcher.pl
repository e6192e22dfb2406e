# 331_fetcher.pl
#		The HTTP client of the fetcher.  The client refuses URLs and addresses of private networks, follows
#		few redirects, keeps limits of time and size, verifies certificates, survives damaged answers, and
#		sends the headers of the rules (rules W-50 to W-58).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use AtprotoTest::Probe;
use IO::Select;
use IO::Socket::IP;
use POSIX ();
use Test::More;

my $certs   = AtprotoTest::Certificates->make;
my $network = AtprotoTest::Network->start(
	certs => $certs,
	tls   => { 'expired.example.com' => 'expired', 'wrong.example.com' => 'valid' });
my $preload = AtprotoTest::Preload->make(network => $network);

my $node    = make_node('fetcher', start => 0, conf => <<"EOF");
atproto.fetch_ca_file = '@{[ $certs->ca ]}'
atproto.fetch_contact = 'mailto:x\@example.com'
atproto.fetch_allow = 'https://127.0.0.1:@{[ $network->port('http') ]}, http://127.0.0.1:@{[ $network->port('http') ]}, https://unanswered.invalid'
EOF
{
	# W-54: nothing of the environment
	local $ENV{https_proxy} = 'http://127.0.0.1:1';
	local $ENV{ALL_PROXY}   = 'http://127.0.0.1:1';
	$preload->start($node);
}
query('CREATE EXTENSION atproto');
my $probe = AtprotoTest::Probe->make;
my $did   = 'did:plc:' . 'a' x 24;
my @asked;
my $hosts = 0;

# A new host with these faults.
sub host
{
	my (@faults) = @_;
	my $host = 'h' . ++$hosts . '.example.com';

	$network->fault({ host => $host, %$_ }) foreach @faults;
	return $host;
}

# A request and its expected outcome; look() sends all requests at once.
sub expect
{
	my ($what, $outcome, $url, %o) = @_;
	my $more = delete $o{more};

	push @asked, { what => $what, outcome => $outcome, request => [ $url, %o ], more => $more };
	return;
}

sub look
{
	my @answers = $probe->answers($probe->ask_all(map { $_->{request} } @asked));

	foreach my $asked (@asked)
	{
		my $answer = shift @answers;

		is($answer->{outcome}, $asked->{outcome}, $asked->{what}) or diag(explain($answer));
		$asked->{more}->($answer) if $asked->{more};
	}
	@asked = ();
	return;
}

# --- answers ---

$network->documents({ $did => $network->document($did, pds => 'pds.example.com', key => 'zKey') });
expect('a document', 'ok', "https://plc.example.com/$did",
	accept => 'application/did+ld+json',
	more   => sub {
		my ($answer) = @_;
		is($answer->{status}, 200, 'its status');
		like($answer->{body}, qr/"https:\/\/pds\.example\.com"/, 'its body');
		is($answer->{error}, undef, 'no error');
		is($answer->{content_type}, 'application/did+ld+json', 'its type');
	});
expect('one that is not there', 'ok', 'https://plc.example.com/did:plc:' . 'b' x 24,
	more => sub { like($_[0]{error}, qr/^https:\/\/plc\.example\.com\/did:plc:b{24}: HTTP status 404: \{/, 'W-58: says so') });
my $host = host({ status => 500, body => "a\001\n\177" . 'x' x 300 });
expect('a text of a stranger', 'ok', "https://$host/",
	more => sub { is($_[0]{error}, "https://$host/: HTTP status 500: a???" . 'x' x 196 . '...', 'W-58: is short and printable') });
expect('the first bytes', 'ok', 'https://' . host({ status => 200, body => 'x' x 5000 }) . '/', body_max => 10, cut => 1,
	more => sub { is($_[0]{body}, 'x' x 10, 'W-21: are all that is kept') });
expect('as many bytes as may be', 'ok', 'https://' . host({ status => 200, body => 'x' x 5000 }) . '/', body_max => 5000);
expect('one more', 'too_large', 'https://' . host({ status => 200, body => 'x' x 5001 }) . '/', body_max => 5000);
expect('gzip', 'ok', 'https://' . host({ status => 200, body => 'x' x 100_000, gzip => 1 }) . '/', gzip => 1, body_max => 100_000,
	more => sub { is($_[0]{body}, 'x' x 100_000, 'is decoded') });
expect('one more byte of gzip', 'too_large', 'https://' . host({ status => 200, body => 'x' x 100_001, gzip => 1 }) . '/',
	gzip => 1, body_max => 100_000);
expect('gzip that nobody asked for', 'broken', 'https://' . host({ status => 200, body => 'x', headers => { 'Content-Encoding' => 'gzip' } }) . '/');
expect('gzip that is none', 'broken', 'https://' . host({ status => 200, body => 'x' x 100, headers => { 'Content-Encoding' => 'gzip' } }) . '/',
	gzip => 1);
expect('gzip that is cut', 'broken', 'https://' . host({ status => 200, body => 'x' x 100_000, gzip => 1, truncate => 50 }) . '/', gzip => 1);
expect('another encoding', 'broken', 'https://' . host({ status => 200, body => 'x', headers => { 'Content-Encoding' => 'br' } }) . '/', gzip => 1);
look();

# as streams, which are read in pieces
expect('a stream', 'ok', 'https://' . host({ status => 200, body => 'xy', size => 3_000_000 }) . '/', piece => 10_000, body_max => 5_000_000,
	more => sub { is($_[0]{read}, 3_000_000, 'has come whole') });
expect('a stream of gzip', 'ok', 'https://' . host({ status => 200, body => 'xy', size => 3_000_000, gzip => 1 }) . '/', piece => 10_000,
	gzip => 1, body_max => 5_000_000,
	more => sub { is($_[0]{read}, 3_000_000, 'has come whole'); is($_[0]{largest}, 10_000, 'in pieces') });
expect('a stream that is too long', 'too_large', 'https://' . host({ status => 200, body => 'xy', endless => 1 }) . '/', piece => 100_000,
	body_max => 1_000_000, more => sub { is($_[0]{read}, 1_000_000, 'has come as far as it may') });
expect('a stream of gzip that is cut', 'broken', 'https://' . host({ status => 200, body => 'xy', size => 3_000_000, gzip => 1, truncate => 1000 }) . '/',
	piece => 10_000, gzip => 1, body_max => 5_000_000);
expect('a stream that is not there', 'ok', 'https://' . host({ status => 400, body => '{"error":"RepoNotFound"}' }) . '/', piece => 10_000,
	more => sub { is($_[0]{body}, '{"error":"RepoNotFound"}', 'has a body that is kept') });
look();

# --- refused URLs (W-50 to W-52) ---

my $start = () = $network->log(kind => 'http');
expect("not asked: $_", 'policy', $_)
  foreach qw(http://a.example.com/ ftp://a.example.com/ https://user@a.example.com/ https://a.example.com:8443/ https://a.example.com:22/
  https://a.example.com:80/ https://localhost/ https://a/ https://127.0.0.1/ https://[::1]/ https://2130706433/ https://0177.0.0.1/
  https://0x7f.0.0.1/ https://127.1/ https://[::ffff:127.0.0.1]/ https://a.internal/ https://a.example.com../ file:///etc/passwd
  https://93.184.215.14/), 'https://a b/', 'nothing', 'https://a.example.com/' . 'x' x 9000;
my %address = (
	loopback => '127.0.0.1', loopback6 => '::1', private => '10.0.0.1', metadata => '169.254.169.254', mapped => '::ffff:10.0.0.1',
	nat64    => '64:ff9b::a9fe:a9fe', linklocal => 'fe80::1', unique => 'fd00::1', this => '0.0.0.0', multicast => '224.0.0.1');
# a name with a different address at each look-up
$network->names({ 'none.example.com' => ['none'], 'rebound.example.com' => [ '10.0.0.1', '93.184.215.14' ], map { ("$_.example.com" => [ $address{$_} ]) } keys %address });
expect("W-51: not connected to: $_", 'address', "https://$_.example.com/") foreach 'rebound', sort keys %address;
expect('a name without an address', 'dns', 'https://none.example.com/');
# a user's own server: the error has the value for fetch_allow
foreach my $own ([ 'policy', 'http://localhost:2583' ], [ 'policy', 'http://pds.example.com' ], [ 'policy', 'https://a.example.com:8443' ], [ 'address', 'https://private.example.com' ])
{
	my ($outcome, $url) = @$own;
	expect("one's own: $url", $outcome, "$url/x",
		more => sub { like($_[0]{error}, qr/; if the server is yours, add "\Q$url\E" to atproto\.fetch_allow$/, 'the error says how to allow it') });
}
look();
is(scalar(() = $network->log(kind => 'http')), $start, 'W-51: and nothing of it came to a server');

# --- redirects (W-53) ---

my $http = $network->port('http');
my $end  = host({ status => 200, body => 'the end' });
my $turn = host({ redirect => "https://$end/", headers => { 'Set-Cookie' => 'a=b' } });
my $loop = host();
$network->fault({ host => $loop, redirect => "https://$loop/" });
my @chain = ($end);
unshift @chain, host({ redirect => "https://$chain[0]/" }) foreach 1 .. 4;

expect('a redirect', 'ok', "https://$turn/", redirects => 1,
	more => sub { is($_[0]{body}, 'the end', 'is followed'); is($_[0]{final_url}, "https://$end/", 'to there') });
expect('a redirect where none is', 'ok', "https://$turn/", more => sub { is($_[0]{status}, 302, 'is an answer') });
# The previous answers have arrived: a host with unknown answers gets one request at a time.
look();
expect('three in a row', 'ok',       "https://$chain[1]/", redirects => 3);
look();
expect('four in a row',  'redirect', "https://$chain[0]/", redirects => 3);
expect('a loop',         'redirect', "https://$loop/",     redirects => 3);
expect("to $_->[1]", $_->[0], 'https://' . host({ redirect => $_->[1] }) . '/', redirects => 3)
  foreach [ 'redirect', "http://$end/" ], [ 'redirect', "http://127.0.0.1:$http/" ], [ 'redirect', 'https://127.0.0.1/' ], [ 'redirect', "https://$end:8443/" ],
  [ 'address', 'https://metadata.example.com/latest/' ], [ 'redirect', 'file:///etc/passwd' ], [ 'redirect', 'gopher://a' ],
  [ 'ok', "https://$end/#part" ];
# libcurl 8.23 leaves the user and the password out of the new address
my ($with_user) = $probe->answers($probe->ask_all([ 'https://' . host({ redirect => "https://u:p\@$end/" }) . '/', redirects => 3 ]));
ok($with_user->{outcome} eq 'redirect' || ($with_user->{outcome} eq 'ok' && $with_user->{final_url} eq "https://$end/"), "to https://u:p\@$end/: refused, or without them")
  or diag(explain($with_user));
expect('an endless redirect', 'too_large', 'https://' . host({ redirect => "https://$end/", endless => 1 }) . '/', redirects => 1);
look();

my ($first) = $network->log(host => $turn);
my ($after) = grep { $_->{headers}{accept} // '' } $network->log(host => 'plc.example.com');
is($first->{headers}{'user-agent'}, "pg_atproto/@{[ query(q{SELECT extversion FROM pg_extension WHERE extname = 'atproto'}) ]} mailto:x\@example.com",
	'W-56: it says who asks');
is($after->{headers}{accept}, 'application/did+ld+json', 'it says what it wants');
is_deeply([ grep { $_->{headers}{cookie} || $_->{headers}{referer} || $_->{headers}{authorization} } $network->log(kind => 'http') ],
	[], 'W-54: no cookies, no referer, no credentials');

# --- limits (W-55), and damage ---

expect('headers without end', 'too_large', 'https://' . host({ endless_headers => 1 }) . '/');
expect('a body without end',  'too_large', 'https://' . host({ status => 200, body => 'x', endless => 1 }) . '/', body_max => 1_000_000);
expect('nothing at all',      'timeout',   'https://' . host({ hang => -1 }) . '/', whole_ms => 1000);
expect('a byte now and then', 'timeout',   'https://' . host({ status => 200, body => 'x' x 1000, rate => 20 }) . '/', whole_ms => 2000);
expect('slower than allowed', 'slow',      'https://' . host({ status => 200, body => 'x' x 100_000, rate => 100 }) . '/', slow_s => 2, body_max => 200_000);
expect('an answer that is cut',     'broken', 'https://' . host({ status => 200, body => 'x' x 1000, truncate => 100 }) . '/');
expect('a connection that is reset', 'broken', 'https://' . host({ status => 200, body => 'x' x 1000, reset => 500 }) . '/');
expect('a connection that is reset at once', 'broken', 'https://' . host({ status => 200, body => 'x' x 1000, reset => 0 }) . '/');
expect('an expired certificate',    'tls',    'https://expired.example.com/');
expect("another's certificate",     'tls',    'https://wrong.example.com/');
expect('no TLS',                    'tls',    "https://127.0.0.1:$http/");
expect('no TLS, as allowed',        'ok',     "http://127.0.0.1:$http/");
expect('name servers that are silent', 'dns', 'https://unanswered.invalid/',
	more => sub { like($_[0]{error}, qr/did not answer in time/, 'W-55: are not waited for') });
look();

# a bomb: a gigabyte in a megabyte
my ($pid) = query(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'});
my $before = private_memory($pid);
expect('a bomb',           'too_large', 'https://' . host({ status => 200, bomb => 1000 }) . '/', gzip => 1, body_max => 4_000_000);
expect('a bomb in a stream', 'too_large', 'https://' . host({ status => 200, bomb => 1000 }) . '/', gzip => 1, body_max => 4_000_000, piece => 100_000,
	more => sub { is($_[0]{read}, 4_000_000, 'has come as far as it may') });
look();
cmp_ok(private_memory($pid) - $before, '<', 16 * 1024, 'W-55: bombs take no memory');

# the limit counts bytes on the wire, not the unpacked contents
my $text = 'a body ' x 10_000;
foreach my $gzip (0, 1)
{
	expect("chunks, gzip $gzip", 'ok', 'https://' . host({ status => 200, body => $text, chunks => 0, gzip => $gzip }) . '/', body_max => 100_000,
		more => sub { is($_[0]{body}, $text, 'a body in chunks is whole, however it was asked for') });
	expect("chunks in a stream, gzip $gzip", 'ok', 'https://' . host({ status => 200, body => $text, chunks => 20, gzip => $gzip }) . '/', gzip => 1, body_max => 100_000, piece => 1000,
		more => sub { is($_[0]{read}, length $text, 'and so is a stream of them, with extensions') });
}
expect('chunks that are cut', 'broken', 'https://' . host({ status => 200, body => $text, chunks => 0, truncate => 50_000 }) . '/', body_max => 100_000);
my @padded = map { host($_) } { status => 200, body => 'x', chunks => 0, endless => 1 }, { status => 200, body => 'x' x 3_000_000, chunks => 30_000 }, { status => 200, empty_members => 1 };
foreach my $padded (@padded)
{
	expect('W-55: more traffic than contents', 'too_large', "https://$padded/", gzip => 1, body_max => 4_000_000,
		more => sub { like($_[0]{error}, qr/far more than the answer/, 'and says so') });
	expect('W-55: likewise in a stream', 'too_large', "https://$padded/", gzip => 1, body_max => 4_000_000, piece => 100_000);
}
look();

# --- settings ---

sub set
{
	my ($name, $value) = @_;
	query($_) foreach "ALTER SYSTEM SET atproto.$name = '$value'", 'SELECT pg_reload_conf()';
	return;
}

# Repeats a request, each time to a new URL from the function (a host that fails again and again rests for a
# minute), until it has this outcome: the process may not have read a setting yet.
sub until_outcome
{
	my ($outcome, $url) = @_;
	my $answer;
	wait_until(sub { ($answer = $probe->get($url->()))->{outcome} eq $outcome }, "the outcome $outcome");
	return $answer;
}
foreach my $bad (qw(fetch_allow=localhost fetch_allow=ftp://a fetch_proxy=ftp://a fetch_proxy=socks5://localhost/a))
{
	my ($name, $value) = split /=/, $bad;
	my ($rc) = $node->psql('postgres', "ALTER SYSTEM SET atproto.$name = '$value'");
	isnt($rc, 0, "$bad is refused");
}
my $private = 0;
$network->names({ 'metadata.example.com' => ['169.254.169.254'], map { ("private$_.example.com" => ['10.0.0.1']) } 1 .. 1000 });
set(fetch_allow => '10.0.0.0/8');
is(until_outcome('ok', sub { 'https://private' . ++$private . '.example.com/' })->{status}, 404, 'a network that is allowed');
is($probe->get('https://metadata.example.com/')->{outcome}, 'address', 'W-50: others are not');
set(fetch_ca_file => '/nowhere');
like(until_outcome('settings', sub { 'https://' . host() . '/' })->{error}, qr/could not read the certificate authorities/, 'which it says');
is($probe->get('https://private1000.example.com/')->{outcome}, 'settings', 'a host is not asked with such a file') foreach 1 .. 6;
set(fetch_ca_file => $certs->ca);
until_outcome('ok', sub { 'https://private' . ++$private . '.example.com/' });
is($probe->get('https://private1000.example.com/')->{outcome}, 'ok', 'R-23: which is no failure of it');

# --- a proxy (W-54) ---

my $listener = IO::Socket::IP->new(LocalHost => '127.0.0.1', LocalPort => 0, Listen => 20) or BAIL_OUT("no proxy: $!");
my $tunnels  = PostgreSQL::Test::Utils::tempdir('proxy') . '/tunnels';
my $proxy = fork // BAIL_OUT("fork: $!");
if ($proxy == 0)
{
	$SIG{CHLD} = 'IGNORE';
	while (my $client = $listener->accept)
	{
		next if fork;
		my $head = '';
		sysread $client, $head, 4096, length $head until $head =~ /\r\n\r\n/;
		open my $f, '>>', $tunnels or die;
		print $f $head =~ /^(CONNECT \S+)/, "\n";
		close $f;
		my $server = IO::Socket::IP->new(PeerHost => '127.0.0.1', PeerPort => $network->port('https')) or die;
		syswrite $client, "HTTP/1.1 200 yes\r\n\r\n";
		my $both = IO::Select->new($client, $server);
		while (my @ready = $both->can_read)
		{
			foreach my $from (@ready)
			{
				sysread($from, my $bytes, 65536) or POSIX::_exit(0);
				syswrite $from == $client ? $server : $client, $bytes;
			}
		}
	}
	POSIX::_exit(0);
}
set(fetch_allow   => '');
set(fetch_proxy   => 'http://127.0.0.1:' . $listener->sockport);
until_outcome('address', sub { 'https://' . host() . '/' });
pass('a proxy is judged by its address');
set(fetch_allow => '127.0.0.0/8');
is(until_outcome('ok', sub { 'https://' . host({ status => 200, body => 'by proxy' }) . '/' })->{body}, 'by proxy', 'requests are made through it');
like(PostgreSQL::Test::Utils::slurp_file($tunnels), qr/\A(CONNECT h\d+\.example\.com:443\n)+\z/, 'which it is told the name of');
is($probe->get('http://' . host() . '/')->{outcome}, 'policy', 'what is asked is judged all the same');
kill 'KILL', $proxy;
waitpid $proxy, 0;

$node->stop('fast');
$network->stop;
done_testing();
