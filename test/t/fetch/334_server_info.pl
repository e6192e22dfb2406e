# 334_server_info.pl
#		describe_server() and host_status() ask a host through the fetcher, wait, and return the answer or
#		the reason why no answer came, whatever the host sends.  Only roles with the right may ask, and only
#		public hosts are asked.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use Test::More;

my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
my $node    = make_node('questions', start => $preload, conf => $network->settings);
my $hosts   = 0;

# A host with this answer.
sub host
{
	my (%fault) = @_;
	my $host = 'h' . ++$hosts . '.example.com';

	$network->fault({ host => $host, %fault });
	return $host;
}

sub fails
{
	my ($what, $error, $sql) = @_;
	my (undef, undef, $stderr) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");

	like($stderr, $error, $what);
	return;
}

# --- answers ---

my $pds = host(status => 200, body => '{"did":"did:web:pds.example.com","availableUserDomains":[".example.com"],"inviteCodeRequired":true}',
	headers => { 'Content-Type' => 'application/json' });
is(query("CALL atproto.describe_server('$pds')"),
	'{"did": "did:web:pds.example.com", "inviteCodeRequired": true, "availableUserDomains": [".example.com"]}', 'what a PDS says of itself');
my ($asked) = $network->log(host => $pds);
is($asked->{path}, '/xrpc/com.atproto.server.describeServer', 'it was asked for that');
like(query("CALL atproto.describe_server('wss://$pds/xrpc/com.atproto.sync.subscribeRepos?cursor=1')"), qr/did:web/, 'by the URL of its stream');
is(scalar(() = $network->log(host => $pds)), 1, 'what it has just said is not asked again');

my $relay = host(status => 200, body => '{"hostname":"a&b","seq":17,"accountCount":3,"status":"active"}');
is(query("CALL atproto.host_status('https://$relay', 'a&b')"), '{"seq": 17, "status": "active", "hostname": "a&b", "accountCount": 3}', 'what a relay knows of a host');
($asked) = $network->log(host => $relay);
is($asked->{path}, '/xrpc/com.atproto.sync.getHostStatus?hostname=a%26b', 'it was asked about that one');

# --- no answers ---

fails('an error of the host', qr/ERROR:  08006: the host did not answer\nDETAIL:  https:\/\/h\d+\.example\.com\S+: HTTP status 400: \{"error":"HostNotFound"\}/,
	"CALL atproto.host_status('" . host(status => 400, body => '{"error":"HostNotFound"}') . "', 'x.example.com')");
fails("not an object: $_", qr/08006: the host did not answer\nDETAIL:  .*: no JSON object/, "CALL atproto.describe_server('" . host(status => 200, body => $_) . "')")
  foreach '[]', '"a"', '{"a":1', '{"a":1} {}', '<html>', '';
fails('bytes that are no text', qr/no JSON object/, "CALL atproto.describe_server('" . host(status => 200, base64 => 'eyJhIjoi/yJ9') . "')");
fails('what jsonb cannot hold', qr/ERROR:  22P05: unsupported Unicode escape sequence/, "CALL atproto.describe_server('" . host(status => 200, body => '{"a":"\u0000"}') . "')");
fails('too long', qr/08006: the host did not answer/, "CALL atproto.describe_server('" . host(status => 200, body => '{"a":"' . 'x' x 70_000 . '"}') . "')");
is(query("CALL atproto.describe_server('" . host(status => 200, body => '{"a":"' . 'x' x 60_000 . '"}') . "')") =~ tr/x//, 60_000, 'as long as it may be');
$network->names({ 'unknown.example.org' => ['none'], 'metadata.example.com' => ['169.254.169.254'] });
fails('no name', qr/08006: the host did not answer/, "CALL atproto.describe_server('unknown.example.org')");

my $silent = host(hold => 'gate', status => 200, body => '{"late":true}');
fails('none in time', qr/57014: there is no answer yet\nDETAIL:  https:\/\/\Q$silent\E\/\S+ is still being asked/, "CALL atproto.describe_server('$silent', timeout => '100 ms')");
$network->wait_for_log(1, host => $silent);
$network->release('gate');
is(query("CALL atproto.describe_server('$silent')"), '{"late": true}', 'it is there when it has come');
is(scalar(() = $network->log(host => $silent)), 1, 'and was asked once');

# --- which roles may ask, and which hosts ---

fails("not asked: $_", qr/22023: this host cannot be asked\nDETAIL/, "CALL atproto.describe_server('$_')")
  foreach 'http://a.example.com', 'https://127.0.0.1', 'https://[::1]', 'localhost', 'https://user@a.example.com', 'a.example.com:22', 'file:///etc/passwd', '', 'a b', 'x' x 5000;
fails('one with too long a name', qr/22023: this host cannot be asked\nDETAIL:  .*so long a URL/, "CALL atproto.host_status('a.example.com', repeat('a.', 600) || 'b')");
fails('an address in this network', qr/08006: the host did not answer/, "CALL atproto.describe_server('metadata.example.com')");
fails('a null', qr/22004: hosts and timeout must not be null/, "CALL $_")
  foreach 'atproto.describe_server(NULL)', "atproto.describe_server('a.example.com', timeout => NULL)", "atproto.host_status('a.example.com', NULL)";
fails('in a transaction block', qr/25001: procedure "atproto.describe_server" cannot run inside a transaction block/, "BEGIN; CALL atproto.describe_server('$pds')");
query('CREATE ROLE nobody; GRANT USAGE ON SCHEMA atproto TO nobody');
fails('by anybody', qr/42501: permission denied for procedure describe_server/, "SET ROLE nobody; CALL atproto.describe_server('$pds')");
query('GRANT EXECUTE ON PROCEDURE atproto.describe_server(text, jsonb, interval) TO nobody');
like(query("SET ROLE nobody; CALL atproto.describe_server('$pds')"), qr/did:web/, 'by one who may');
fails('nobody but its owner reads the table', qr/42501/, 'SET ROLE nobody; TABLE atproto.server_info_request');

# --- a fetcher that dies, and a bounded table ---

my $held = host(hold => 'second', times => 1);
$network->fault({ host => $held, status => 200, body => '{"late":true}' });
fails('none in time', qr/57014/, "CALL atproto.describe_server('$held', timeout => '100 ms')");
$network->wait_for_log(1, host => $held);
query(q{SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'});
$network->release('second');
is(query("CALL atproto.describe_server('$held', timeout => '60 s')"), '{"late": true}', 'another fetcher asks once more');
query("UPDATE atproto.server_info_request SET answered_at = now() - interval '2 days'");
query("CALL atproto.describe_server('$pds')");
is(query('SELECT count(*) FROM atproto.server_info_request'), '1', 'old answers are forgotten');
query("INSERT INTO atproto.server_info_request (url, requested_at, answered_at) SELECT 'https://answered' || n || '.example.com/xrpc/com.atproto.server.describeServer', now(), now() - n * interval '1 s' FROM generate_series(1, 1100) n");
query("CALL atproto.describe_server('" . host(status => 200, body => '{}') . "')");
is(query("SELECT count(*) FILTER (WHERE url LIKE '%answered%'), max(answered_at) > now() - interval '1 minute' FROM atproto.server_info_request"), '999|t', 'the newest thousand answers are kept');
query('DELETE FROM atproto.server_info_request');
# Hosts that do not answer: the fetcher may have asked some of them before the call.
$network->fault({ path => 'describeServer', hold => 'many' });
query("INSERT INTO atproto.server_info_request (url, requested_at) SELECT 'https://many' || n || '.example.com/xrpc/com.atproto.server.describeServer', now() + interval '1 h' FROM generate_series(1, 100) n");
fails('too many', qr/53400: there are 100 requests that no host has answered yet/, "CALL atproto.describe_server('" . host(status => 200, body => '{}') . "')");

$node->stop;
done_testing();
