# 150_tls.pl
#		TLS: the consumer verifies every property of the server's certificate against the authority that the
#		subscription names, and refuses the connection otherwise.  Also which files ca_file can name, and
#		which roles may set it.  E-01.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Certificates;
use IO::Socket::UNIX;
use POSIX ();
use PostgreSQL::Test::Utils;
use Test::More;

my $last  = 200;
my $dir   = PostgreSQL::Test::Utils::tempdir();
my $part  = write_capture("$dir/part", (read_capture(capture('pds.frames.gz')))[ 0 .. $last - 1 ]);
my $certs = AtprotoTest::Certificates->make;
my $node  = make_node(
	'tls', conf => <<'EOF');
max_worker_processes = 50
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

# --- no files of authorities ---

my $secret = 'TheContentsOfAFileThatIsNoneOfYourBusiness';
PostgreSQL::Test::Utils::append_to_file("$dir/secret", "-----BEGIN CERTIFICATE-----\n$secret\n-----END CERTIFICATE-----\n$secret\n");
PostgreSQL::Test::Utils::append_to_file("$dir/large", slurp_file($certs->ca) . ' ' x 1_048_576);
POSIX::mkfifo("$dir/fifo", 0600) or die "mkfifo: $!";
my $socket = IO::Socket::UNIX->new(Local => "$dir/s", Listen => 1) or die "socket: $!";
symlink '/dev/zero', "$dir/zero" or die "symlink: $!";
my @irregular = (
	[ 'a pipe',               'valid', "$dir/fifo",    qr/no regular file/ ],
	[ 'a socket',             'valid', "$dir/s",       qr/no regular file/ ],
	[ 'a directory',          'valid', $dir,           qr/no regular file/ ],
	[ 'a device',             'valid', '/dev/zero',    qr/no regular file/ ],
	[ 'a terminal',           'valid', '/dev/ptmx',    qr/no regular file/ ],
	[ 'a link to a device',   'valid', "$dir/zero",    qr/no regular file/ ],
	[ 'a large file',         'valid', "$dir/large",   qr/more than 1048576 bytes/ ],
	[ 'an empty name',        'valid', '',             qr/could not read/ ],
	[ 'other secrets',        'valid', "$dir/secret",  qr/certificate/ ]);
foreach (@irregular)
{
	my ($name, $pair, $ca) = @$_;
	my $url = $server{$pair}->url;
	$node->safe_psql('postgres', "SELECT atproto.subscribe('$name', '$url', 0, ca_file => '$ca')");
}

foreach (@refused, @irregular)
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

unlike(slurp_file($node->logfile), qr/$secret/, 'nothing of a file is shown');
foreach (@irregular)
{
	my ($name) = @$_;
	$node->safe_psql('postgres', "SELECT atproto.unsubscribe('$name')");
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM atproto_internal.stream_status() WHERE name = '$name'")
	  or BAIL_OUT("$name does not end");
}
pass('their consumers can be ended');
symlink $certs->ca, "$dir/link" or die "symlink: $!";
subscribe('a link', 'valid', "$dir/link");
wait_for_seq($node, 'a link', $last);
pass('a link to a regular file is taken');

# --- which roles may name a file ---

$node->safe_psql('postgres', <<'SQL');
CREATE ROLE consumer LOGIN;
CREATE SCHEMA network AUTHORIZATION consumer;
GRANT EXECUTE ON FUNCTION atproto.subscribe, atproto.resume, atproto.create_tables TO consumer;
GRANT SELECT, INSERT, UPDATE, DELETE ON atproto.subscription, atproto.request_header, atproto.cursor,
	atproto.dead_letter, atproto.dead_frame, atproto.gap TO consumer;
SQL

# The SQLSTATE of a statement as the role.
sub sqlstate
{
	my ($sql) = @_;
	my (undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY sqlstate\nSET ROLE consumer; $sql");

	return $stderr =~ /ERROR:  (\w+)/ ? $1 : '';
}

my ($ca, $url) = ($certs->ca, $server{valid}->url);
my $own = "SELECT atproto.subscribe('own', '$url', 0, target => 'network'";
is(sqlstate("$own, ca_file => '$ca')"), '42501', 'ca_file is not for everybody');
is(sqlstate("$own)"), '', 'a subscription without it is');
is(sqlstate("UPDATE atproto.subscription SET ca_file = '$_' WHERE name = 'own'"), '42501', "nor can it be set later, to '$_'")
  foreach $ca, "$dir/none", '';
is(sqlstate("INSERT INTO atproto.subscription (name, url, endpoint, ca_file, target) VALUES ('x', '$url', '', '$ca', 'network')"),
	'42501', 'nor inserted');
$node->safe_psql('postgres', "UPDATE atproto.subscription SET ca_file = '$ca' WHERE name = 'own'");
$node->poll_query_until('postgres', "SELECT state = 'stopped' FROM atproto.stat_subscription WHERE name = 'own'");
like(status('own', 'last_error'), qr/pg_read_server_files/, 'set by somebody else, it stops the subscription, with the reason');
is(sqlstate("UPDATE atproto.subscription SET keep_raw = true WHERE name = 'own'"), '', 'other columns can be changed');
$node->safe_psql('postgres', q{GRANT pg_read_server_files TO consumer; SELECT atproto.resume('own')});
wait_for_seq($node, 'own', $last);
pass('a member of pg_read_server_files may have it');
is(sqlstate("UPDATE atproto.subscription SET ca_file = '$dir/link' WHERE name = 'own'"), '', 'and name it');
$node->safe_psql('postgres', q{SELECT atproto.unsubscribe('own'); SELECT atproto.unsubscribe('a link')});

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

# --- the system's authorities ---

# In a namespace with different system authorities: the subscription's file replaces the system's authorities.
SKIP:
{
	my @namespace = qw(unshare --user --map-current-user --keep-caps --mount);
	my $system    = '/etc/ssl/certs';

	skip 'no namespaces here', 2
	  if system("@namespace mount --bind $dir $system >>$dir/namespace 2>&1") != 0;
	mkdir "$dir/certs";
	mkdir "$dir/bin";
	PostgreSQL::Test::Utils::append_to_file("$dir/certs/$_", slurp_file($certs->other_ca)) foreach 'other.pem', 'ca-certificates.crt';
	system("openssl rehash $dir/certs 2>>$dir/namespace") == 0 or die 'openssl rehash failed';
	my ($pg_ctl) = grep { -x } map { "$_/pg_ctl" } split /:/, $ENV{PATH};
	PostgreSQL::Test::Utils::append_to_file("$dir/bin/pg_ctl",
		"#!/bin/sh\nexec @namespace sh -c 'mount --bind $dir/certs $system && exec $pg_ctl \"\$@\"' pg_ctl \"\$@\"\n");
	chmod 0755, "$dir/bin/pg_ctl";
	{
		local $ENV{PATH} = "$dir/bin:$ENV{PATH}";
		$node->start;
	}
	$node->safe_psql('postgres', 'DELETE FROM atproto.subscription; TRUNCATE atproto.record, atproto.repo');
	subscribe('system', 'unknown_ca');
	subscribe('named', 'unknown_ca', $certs->ca);
	$node->poll_query_until('postgres', "SELECT reconnects > 1 FROM atproto.stat_subscription WHERE name = 'named'");
	like(status('named', 'last_error'), qr/unable to get local issuer|self[- ]signed/, 'only the authorities in ca_file are trusted');
	skip "libcurl does not look into $system", 1 if status('system', 'last_error') ne '';
	wait_for_seq($node, 'system', $last);
	pass("those of the system are, without it");
	$node->stop;
}

done_testing();
