# 461_search_path.pl
#		What doc/use/clients.md says about the search path: the extension in a schema of its own, functions
#		with an empty search path, and postgres_fdw.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Pages;
use PostgreSQL::Test::Utils;
use Test::More;

my %block = map { $_->{name} => $_->{text} } blocks('doc/use/clients.md', 'sql');
my $node = make_node('search_path', conf => "atproto.databases = 'mydb'\n");
my $server = AtprotoTest::Server->start(capture('pds.frames.gz'));
my @mydb = (database => 'mydb');

# An error's first line.
sub error_of
{
	my ($sql, $database) = @_;
	my (undef, undef, $err) = $node->psql($database // 'postgres', $sql);
	return $err =~ /ERROR:  (.*)/ ? $1 : '';
}

# --- the extension in a schema of its own ---

query('CREATE DATABASE mydb');
query($block{'CREATE SCHEMA extensions;'}, @mydb);
query(subscribe_sql('s', $server, cursor => 0, links => "'all'"), @mydb);
wait_for_seq($node, 's', $PDS_LAST, 'mydb');
my $account = query('SELECT did FROM atproto.visible_record WHERE collection = $$app.bsky.feed.post$$ GROUP BY did ORDER BY count(*) DESC, did LIMIT 1', @mydb);
my $count = query("SELECT count(*) FROM atproto.visible_record WHERE did = '$account' AND collection = 'app.bsky.feed.post'", @mydb);
cmp_ok($count, '>', 0, 'the consumer fills tables of an extension in another schema');
tables_match($node, capture('pds.frames.gz'), 'with the same rows', database => 'mydb');
query("SELECT atproto.create_view('app.bsky.feed.post', schema => 'public')", @mydb);
is(query("SELECT count(*) FROM app_bsky_feed_post WHERE did = '$account'", @mydb), $count, 'a view');
is(query("SET search_path = ''; SELECT count(*) FROM public.app_bsky_feed_post", @mydb), query('SELECT count(*) FROM public.app_bsky_feed_post', @mydb), 'a view keeps its meaning');
is(error_of("SET search_path = public; SELECT FROM atproto.record WHERE did = '$account'", 'mydb'), 'operator does not exist: extensions.did = unknown', 'without the schema in the search path');
is(error_of("SET search_path = public; SELECT '$account'::did", 'mydb'), 'type "did" does not exist', 'nor a type');
is(query("SET search_path = public; SELECT count(*) FROM atproto.record WHERE did OPERATOR(extensions.=) '$account' AND collection OPERATOR(extensions.=) 'app.bsky.feed.post'", @mydb), $count, 'with names');

# --- functions ---

query('CREATE SCHEMA api; ' . $block{'CREATE FUNCTION api.posts_of(account did) RETURNS bigint LANGUAGE sql STABLE SET search_path = \'\''} =~ s/public\./extensions./gr, @mydb);
is(query("SELECT api.posts_of('$account'), api.records_of('$account', 'app.bsky.feed.post')", @mydb), "$count|$count", 'functions with an empty search path');
query(q{CREATE FUNCTION api.wrong(account extensions.did) RETURNS bigint LANGUAGE plpgsql SET search_path = '' AS
	$$BEGIN RETURN (SELECT count(*) FROM atproto.record r WHERE r.did = account); END$$}, @mydb);
is(error_of("SELECT api.wrong('$account')", 'mydb'), 'operator does not exist: extensions.did = extensions.did', 'and one that names no schema');

# --- postgres_fdw ---

query('CREATE DATABASE here');
query($block{'CREATE SCHEMA extensions;'} =~ s/mydb/here/r, database => 'here');
my ($host, $port) = ($node->host, $node->port);
query(<<"SQL", database => 'here');
CREATE EXTENSION postgres_fdw;
CREATE SERVER with_option FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'mydb', extensions 'atproto');
CREATE SERVER without FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '$host', port '$port', dbname 'mydb');
CREATE USER MAPPING FOR CURRENT_USER SERVER with_option; CREATE USER MAPPING FOR CURRENT_USER SERVER without;
CREATE SCHEMA w; IMPORT FOREIGN SCHEMA atproto LIMIT TO (record) FROM SERVER with_option INTO w;
CREATE SCHEMA o; IMPORT FOREIGN SCHEMA atproto LIMIT TO (record) FROM SERVER without INTO o;
SQL
foreach (([ 'w', 'with', 't' ]), [ 'o', 'without', 'f' ])
{
	my ($schema, $how, $sent) = @$_;
	my $sql = "SELECT rkey FROM $schema.record WHERE did = '$account' AND collection = 'app.bsky.feed.post'";

	is(query("SELECT count(*) FROM ($sql) r", database => 'here'), $count, "$how the option: the rows");
	is(query("EXPLAIN (VERBOSE, COSTS OFF) $sql", database => 'here') =~ /Remote SQL: .*WHERE.*OPERATOR\(extensions\.=\)/ ? 't' : 'f', $sent, "$how the option: whether the condition is sent");
}

$node->stop;
done_testing();
