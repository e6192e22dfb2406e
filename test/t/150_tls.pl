# 150_tls.pl
#		TLS: the server's certificate is verified, against the authority that the
#		subscription names, in every respect.  E-01.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

use AtprotoTest;
use AtprotoTest::Certificates;
use PostgreSQL::Test::Utils;
use Test::More;

my $last  = 200;
my $dir   = PostgreSQL::Test::Utils::tempdir();
my $part  = write_capture("$dir/part", (read_capture(capture('pds.frames.gz')))[ 0 .. $last - 1 ]);
my $certs = AtprotoTest::Certificates->make;
my $node  = make_node(
	'tls', conf => <<'EOF');
max_worker_processes = 40
atproto.reconnect_delay = 100ms
atproto.reconnect_max_delay = 500ms
EOF

my %server;

# Subscribes to a server with one of the certificates.
sub subscribe
{
	my ($name, $pair, $ca, %url) = @_;
	my $server = $server{$pair} //= AtprotoTest::Server->start($part, '--tls', $certs->pair($pair));
	my $url = $server->url(%url);

	$node->safe_psql('postgres',
		"SELECT atproto.subscribe('$name', '$url', 0" . ($ca ? ", ca_file => '$ca'" : '') . ')');
	return $server;
}

sub status
{
	my ($name, $columns) = @_;
	return $node->safe_psql('postgres', "SELECT $columns FROM atproto.stat_subscription WHERE name = '$name'");
}

# --- a good one ---

subscribe('valid', 'valid', $certs->ca);
wait_for_seq($node, 'valid', $last);
is(status('valid', 'drops'), '{}', 'a certificate of the authority that is named is taken');
tables_match($node, $part, 'the tables are what the oracle says');
subscribe('address', 'valid', $certs->ca, host => '127.0.0.1');
wait_for_seq($node, 'address', $last);
is(status('address', 'drops'), '{}', 'so it is when it has the address that is connected to');

# --- bad ones ---

my @refused = (
	# name, certificate, authority, reason
	[ 'expired',       'expired',       $certs->ca, qr/expired/ ],
	[ 'not yet valid', 'not_yet_valid', $certs->ca, qr/not yet valid/ ],
	[ 'wrong host',    'wrong_host',    $certs->ca, qr/no alternative certificate subject name|does not match/ ],
	[ 'unknown CA',    'unknown_ca',    $certs->ca, qr/unable to get local issuer|self[- ]signed/ ],
	[ 'self-signed',   'self_signed',   $certs->ca, qr/self[- ]signed/ ],
	[ 'no CA named',   'valid',         undef,      qr/unable to get local issuer|self[- ]signed/ ],
	[ 'no such file',  'valid',         "$dir/none", qr/none/ ],
	[ 'no certificates in it', 'valid', $part,      qr/\Q$part\E|certificate/ ]);
subscribe($_->[0], $_->[1], $_->[2]) foreach @refused;

foreach (@refused)
{
	my ($name, undef, undef, $reason) = @$_;

	$node->poll_query_until('postgres', "SELECT reconnects > 1 FROM atproto.stat_subscription WHERE name = '$name'")
	  or BAIL_OUT("$name does not end");
	like(status($name, 'last_error'), $reason, "$name: refused, with the reason");
	like(status($name, 'drops'), qr/^\{"connect": \d+\}$/, "$name: as a connection that failed");
	is(status($name, 'seq, received'), '0|0', "$name: nothing was received");
}
is_deeply([ map { $server{$_}->log('request') } 'expired', 'not_yet_valid', 'wrong_host', 'unknown_ca', 'self_signed' ],
	[], 'no request was sent to any of them');

# --- mended ---

$node->safe_psql('postgres',
	"UPDATE atproto.subscription SET ca_file = '" . $certs->ca . "' WHERE name = 'no CA named'");
wait_for_seq($node, 'no CA named', $last);
pass('a subscription whose authority is mended goes on');

# --- faults inside TLS ---

$server{valid}->restart('--tls', $certs->pair('valid'), '--cut-after', 30, '--cut-inside', 5, '--fragment', 1000);
$node->safe_psql('postgres', "TRUNCATE atproto.record, atproto.repo; SELECT atproto.set_cursor('valid', 0)");
$node->poll_query_until('postgres',
	"SELECT seq = $last AND events = 2 * $last FROM atproto.cursor WHERE subscription = 'valid'");
tables_match($node, $part, 'cut within TLS records again and again, all arrives');
$server{valid}->restart('--tls', $certs->pair('valid'), '--trickle', '700:1000');
$node->safe_psql('postgres', "TRUNCATE atproto.record, atproto.repo; SELECT atproto.set_cursor('valid', 0)");
$node->poll_query_until('postgres',
	"SELECT seq = $last AND events = 3 * $last FROM atproto.cursor WHERE subscription = 'valid'");
tables_match($node, $part, 'and in small pieces');

$node->stop;
done_testing();
