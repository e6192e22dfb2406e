# 000_harness.pl
#		The tools of the other tests: the stream server as a process, the
#		certificates, and above all that comparing tables with the oracle finds
#		every kind of difference.  Needs PostgreSQL, not the extension.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Certificates;
use IO::Socket::INET;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds = capture('pds.frames.gz');

# --- captures ---

my @messages = read_capture($pds);
is(scalar @messages, $PDS_LAST, 'read_capture reads all messages');
my $part = write_capture(PostgreSQL::Test::Utils::tempdir() . '/part', @messages[ 0 .. 99 ]);
is_deeply([ read_capture($part) ], [ @messages[ 0 .. 99 ] ], 'write_capture writes what read_capture reads');

# --- the server ---

# The server's status line for a plain request.
sub get
{
	my ($server, $path) = @_;
	my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $server->port)
	  or die "cannot connect: $!";

	print $socket "GET $path HTTP/1.1\r\nHost: localhost\r\n\r\n";
	my $line = <$socket>;
	return (split ' ', $line)[1];
}

my $server = AtprotoTest::Server->start($part, '--status', 503);
is(get($server, '/xrpc/x.y.z?cursor=5'), '503', 'the server runs with its options');
is_deeply([ $server->cursors ], ['5'], 'its log can be read');
$server->wait_for_log(end => 1);
my $port = $server->port;
$server->restart('--status', 429);
is($server->port, $port, 'after a restart it has the same port');
is(get($server, '/xrpc/x.y.z'), '429', 'and other options');
is_deeply([ map { $_->{how} } $server->wait_for_log(end => 1) ], ['status 429'], 'and a new log');
$server->stop;

# --- certificates ---

my $certs = AtprotoTest::Certificates->make;

sub verifies
{
	my ($name) = @_;
	my ($cert) = $certs->pair($name);
	my $out = '';

	IPC::Run::run([ 'openssl', 'verify', '-CAfile', $certs->ca, '-verify_hostname', 'localhost', $cert ],
		'>&', \$out);
	return $out;
}

like(verifies('valid'),         qr/: OK$/,                        'the valid certificate is valid');
like(verifies('expired'),       qr/certificate has expired/,      'the expired one has expired');
like(verifies('not_yet_valid'), qr/certificate is not yet valid/, 'the future one is not yet valid');
like(verifies('wrong_host'),    qr/hostname mismatch/i,           'the one of another host is of another host');
like(verifies('unknown_ca'), qr/unable to get local issuer/, 'the one of another authority is not trusted');
like(verifies('self_signed'), qr/self[- ]signed/, 'nor is the self-signed one');

# --- the comparison ---

my $node = make_node('harness', preload => 0, create => 0);
$node->safe_psql('postgres', <<'EOF');
CREATE SCHEMA s;
CREATE TABLE s.record (did text, collection text, rkey text, cid text, rev text, value jsonb);
CREATE TABLE s.repo (did text, rev text, "commit" text, data text, active bool, status text, handle text);
EOF

foreach my $mode ('record', 'repo')
{
	my ($rows) = oracle('', $mode, $pds);
	my $file = PostgreSQL::Test::Utils::tempdir() . "/$mode";

	PostgreSQL::Test::Utils::append_to_file($file, $rows);
	$node->safe_psql('postgres', "\\copy s.$mode FROM '$file' (ENCODING 'UTF8')");
}
tables_match($node, $pds, 'tables that hold what the oracle says match',
	schema => 's', modes => [ 'record', 'repo', 'count' ]);

# --- query() and try_query() ---

foreach my $sql (
	"SELECT NULL, 1, 'two', true, ''", 'SELECT i, NULL FROM generate_series(1, 3) i', 'SELECT 1 WHERE false', "SELECT ''", "VALUES ('a\nb')", "SELECT 'ä'",
	'SHOW server_version', 'SELECT current_user, current_database()', "SELECT current_setting('application_name')",
	"INSERT INTO s.repo (did) VALUES ('x')", 'UPDATE s.repo SET did = did WHERE did = $$x$$ RETURNING did, rev', 'DELETE FROM s.repo WHERE did = $$x$$;',
	'SELECT pg_notify($$a$$, $$b$$)', 'VACUUM s.repo', 'SELECT repeat($$x$$, 100000)', 'SET work_mem = $$1MB$$', 'SELECT 1 / 0', 'SELEC')
{
	my $run = AtprotoTest::Statement->run($node, 'postgres', $sql);
	my ($status, $out, $err) = $node->psql('postgres', $sql);

	my $name = $sql =~ tr/\n/ /r;

	is($run->{rows}, $status ? undef : $out, "as psql gives it: $name");
	is($run->{error} // 'none', $status ? ($err =~ /(ERROR:.*)/)[0] : 'none', "as is the error: $name");
}
is(AtprotoTest::Statement->run($node, 'postgres', $_), undef, "psql has to run: $_")
  foreach 'SELECT 1; SELECT 2', 'COPY s.repo TO STDOUT', '\\d', 'SELECT 1 \\gdesc';
like(AtprotoTest::Statement->run($node, 'nowhere', 'SELECT 1')->{error}, qr/^FATAL:  database "nowhere" does not exist$/, 'there is no such database');
like(AtprotoTest::Statement->run($node, 'postgres', 'SELECT pg_terminate_backend(pg_backend_pid())')->{error}, qr/^FATAL:  terminating connection/, 'the session ends early');
like(AtprotoTest::Statement->run($node, 'postgres', 'CREATE TABLE IF NOT EXISTS s.repo (x int)')->{notices}, qr/^NOTICE:  relation "repo" already exists, skipping$/, 'a notice');
{
	my $session;
	my @pids = map { AtprotoTest::Statement->run($node, 'postgres', 'SELECT pg_backend_pid()', \$session)->{rows} } 1, 2;

	is($pids[1], $pids[0], 'a session that is kept is asked again');
	query("SELECT pg_terminate_backend($pids[0], 60000)");
	push @pids, AtprotoTest::Statement->run($node, 'postgres', 'SELECT pg_backend_pid()', \$session)->{rows};
	isnt($pids[2], $pids[0], 'and another one if it has ended');
	AtprotoTest::Statement->end(\$session);
	is(query("SELECT count(*) FROM pg_stat_activity WHERE pid = $pids[2]"), '0', 'until its end');
}
eval { query('SELECT 1 / 0') };
like($@, qr/^error running SQL: 'ERROR:  division by zero'/, 'an error in query() ends the test');
is(try_query($_), undef, "and try_query() gives nothing: $_") foreach 'SELECT 1 / 0', 'SELECT 1 WHERE false';

# The row of the first record whose value has an integer.
my $one = "ctid = (SELECT ctid FROM s.record WHERE value ? 'n' ORDER BY did, collection, rkey LIMIT 1)";
my $n    = "(value ->> 'n')";
my @differences = (
	[ record => 'a row that is missing', "DELETE FROM s.record WHERE $one" ],
	[ record => 'a row twice',           "INSERT INTO s.record SELECT * FROM s.record WHERE $one" ],
	[ record => 'another cid',           "UPDATE s.record SET cid = cid || 'a' WHERE $one" ],
	[ record => 'another rev',           "UPDATE s.record SET rev = '3' WHERE $one" ],
	[ record => 'a value that is NULL',  "UPDATE s.record SET value = NULL WHERE $one" ],
	[ record => 'a value that is not',   "UPDATE s.record SET value = '{}' WHERE value IS NULL" ],
	[ record => 'one more key',          "UPDATE s.record SET value = value || '{\"x\": 1}' WHERE $one" ],
	[ record => 'an integer with a zero after the point',
		"UPDATE s.record SET value = jsonb_set(value, '{n}', to_jsonb(($n || '.0')::numeric)) WHERE $one" ],
	[ record => 'an integer that is one more',
		"UPDATE s.record SET value = jsonb_set(value, '{n}', to_jsonb($n\::numeric + 1)) WHERE $one" ],
	[ record => 'an integer that is a text',
		"UPDATE s.record SET value = jsonb_set(value, '{n}', to_jsonb($n)) WHERE $one" ],
	[ repo  => 'another handle',                 "UPDATE s.repo SET handle = 'x' || handle" ],
	[ repo  => 'an account that is not active',  'UPDATE s.repo SET active = NOT active' ],
	[ count => 'a row too many in a collection', "INSERT INTO s.record SELECT * FROM s.record WHERE $one" ]);

foreach (@differences)
{
	my ($mode, $name, $change) = @$_;
	my %rows = (
		record => 'SELECT * FROM s.record',
		repo   => 'SELECT * FROM s.repo',
		count  => 'SELECT collection, count(*) FROM s.record GROUP BY 1');
	my $rows = $node->safe_psql('postgres',
		"BEGIN; $change; COPY ($rows{$mode}) TO STDOUT (ENCODING 'UTF8'); ROLLBACK");
	my ($out, $status) = oracle("$rows\n", $mode, $pds, '--compare');

	ok($status == 1 && $out =~ /missing|unexpected/, "the comparison finds $name");
}
is(table_copy($node, 'count', schema => 's') =~ tr/\n//, 8, 'and the changes were undone');

$node->stop;
like(AtprotoTest::Statement->run($node, 'postgres', 'SELECT 1')->{error}, qr/^no connection: /, 'without a server there is an error, too');
done_testing();
