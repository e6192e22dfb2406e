# AtprotoTest/Clients.pm
#		Runs the programs of doc/use/clients.md, unchanged, against a server that
#		listens on TCP and has posts.
#
#		client_server('python');
#		SKIP: {
#			skip '...', 3 unless works('/usr/bin/python3', '-c', 'import psycopg2');
#			finds('psycopg 2', [ '/usr/bin/python3', program('with_psycopg2.py') ]);
#		}

package AtprotoTest::Clients;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use AtprotoTest::Pages;
use Exporter qw(import);
use File::Temp;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(client_server client_url works program finds npm_directory $NO_NPM);

my $PAGE = 'doc/use/clients.md';
my ($node, $dir);

# The accounts whose posts are asked for, the one with the bookmarks first.
my @ACCOUNTS = map { did($_) } 'a', 'b';

# A server with what the page makes, and with posts of four accounts: two are asked for, one is not, one is not
# active.  One post says that it is from the year 2100.
sub client_server
{
	my ($name) = @_;
	my ($setup) = grep { $_->{name} eq 'CREATE SCHEMA api;' } blocks($PAGE, 'sql');

	$node = make_node("clients_$name", conf => "listen_addresses = '127.0.0.1'\n");
	query(<<"SQL");
INSERT INTO atproto.repo (did, active) SELECT d, d <> '${\ did('d')}' FROM unnest('{${\ join(',', map { did($_) } 'a' .. 'd') }}'::did[]) d;
INSERT INTO atproto.record (did, collection, rkey, cid, rev, value)
SELECT did, 'app.bsky.feed.post', t, cidlink_of(v::text::bytea), t, v
FROM atproto.repo, generate_series(1, 8) n,
LATERAL (SELECT atproto.tid(CASE n WHEN 8 THEN '2100-01-01'::timestamptz ELSE now() - n * interval '1 minute' END, ascii(substr(did::text, 9))) AS t, jsonb_build_object('text', 'post ' || n, 'createdAt', now()) AS v) v
SQL
	query($setup->{text});
	$dir = PostgreSQL::Test::Utils::tempdir('clients');
	return $node;
}

# The server's address for a role.  Options: scheme => how it begins.
sub client_url
{
	my ($role, %o) = @_;
	return ($o{scheme} // 'postgresql') . "://$role\@127.0.0.1:" . $node->port . '/postgres';
}

# Whether a command runs, and ends well.
sub works
{
	my @command = @_;
	return eval { IPC::Run::run(\@command, '<', \undef, '>&', \my $out) };
}

# A program of the page, as a file: the block below the line <!-- program: NAME -->.  Where it is to lie may matter.
sub program
{
	my ($name, $where) = @_;
	my ($text) = page_text($PAGE) =~ /^<!-- program: \Q$name\E -->\n```\w*\n(.*?)^```$/ms or BAIL_OUT("$PAGE has no program $name");
	my $path = ($where // $dir) . "/$name";

	unlink $path;
	append_to_file($path, $text);
	return $path;
}

our $NO_NPM = 'test/clients/node_modules is not there (npm install in test/clients)';

# A directory for programs where Node finds the packages of test/clients, with their commands in PATH; undef when
# they are not installed.
sub npm_directory
{
	my $packages = test_dir() . '/clients';

	return undef if !-d "$packages/node_modules";
	$ENV{PATH} = "$packages/node_modules/.bin:$ENV{PATH}";
	return File::Temp::tempdir('programs-XXXXXX', DIR => $packages, CLEANUP => 1);
}

# What the programs must print: the newest three posts, and what was stored.
sub answer
{
	my $posts = q{SELECT uri FROM api.app_bsky_feed_post WHERE did IN ('} . join(q{','}, @ACCOUNTS) . q{') AND rkey <= tid_ceil(now()) ORDER BY rkey DESC LIMIT 3};
	return query($posts) . "\n" . query("SELECT * FROM ($posts) p ORDER BY uri");
}

# Runs a command with the accounts as arguments, and compares what it prints, and what it has stored.  Options: those
# of client_url.
sub finds
{
	my ($what, $command, %o) = @_;
	local $ENV{DATABASE_URL} = client_url('app', %o);
	local $ENV{JDBC_URL} = 'jdbc:postgresql://127.0.0.1:' . $node->port . '/postgres?user=app';

	query('TRUNCATE api.bookmark');
	my ($out, $err) = run_command([ @$command, @ACCOUNTS ]);
	is($out, answer(), "$what: the newest posts, and the bookmarks") or diag($err);
	is($err, '', "$what: no warning");
	is(query('SELECT count(*), count(DISTINCT saved), bool_and(owner = $$' . $ACCOUNTS[0] . '$$) FROM api.bookmark'), '3|3|t', "$what: they are stored");
	return;
}

1;
