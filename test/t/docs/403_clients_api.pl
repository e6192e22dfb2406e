# 403_clients_api.pl
#		Tries which rows HTTP APIs may read and write with the grants and policies of doc/use/clients.md.
#		Runs PostGraphile with the page's configuration, and the statements that PostgREST makes of the
#		page's requests.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clients;
use AtprotoTest::Pages;
use Cwd;
use HTTP::Tiny;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = client_server('api');
my ($roles) = grep { $_->{name} eq 'CREATE ROLE anon;' } blocks('doc/use/clients.md', 'sql');
query($roles->{text});

# The output of statements in one transaction of PostgREST's connection, as a role with claims; or the error.
sub as
{
	my ($role, $sub, $sql) = @_;
	my $claims = encode_json({ role => $role, sub => $sub });
	my ($rc, $out, $err) = $node->psql('postgres',
		"BEGIN; SELECT set_config('search_path', 'api, public', true), set_config('role', '$role', true), set_config('request.jwt.claims', '$claims', true); $sql; COMMIT",
		connstr => $node->connstr('postgres') . ' user=authenticator');
	return $rc == 0 ? $out =~ s/\A.*(\n|\z)//r : $err =~ /ERROR:  (.*)/ ? "ERROR: $1" : $err;
}

my ($a, $b, $hidden) = map { did($_) } 'a', 'b', 'd';
my $newest = query("SELECT uri FROM api.app_bsky_feed_post WHERE did IN ('$a', '$b') AND rkey <= tid_ceil(now()) ORDER BY rkey DESC LIMIT 3");

# --- the requests of the page ---

my $list = q{WITH pgrst_source AS (SELECT "api"."post"."uri" FROM "api"."post" WHERE "api"."post"."did" = ANY ('{%s}') ORDER BY "api"."post"."rkey" DESC LIMIT 3 OFFSET 0)
	SELECT coalesce(json_agg(_postgrest_t), '[]') FROM (SELECT * FROM pgrst_source) _postgrest_t};
sub uris { return join "\n", map { $_->{uri} } @{ decode_json($_[0] =~ s/\n//gr) } }
is(uris(as('anon', '', sprintf $list, qq("$a","$b"))), $newest, 'the newest posts of two accounts');
is(as('anon', '', sprintf $list, qq("$hidden")), '[]', 'none of an account that is not active');
is(as('anon', '', qq{SELECT count(*) FROM "api"."record" WHERE "api"."record"."did" = '$a' AND "api"."record"."collection" = 'app.bsky.feed.post'}), '8', 'records of an account');
is(as('anon', '', qq{SELECT count(*) FROM "api"."record" WHERE "api"."record"."did" = '$hidden'}), '0', 'none of one that is not active');

my $save = q{INSERT INTO "api"."bookmark"("owner", "uri") SELECT "pgrst_body"."owner", "pgrst_body"."uri"
	FROM (SELECT '{"owner": "%s", "uri": "at://did:web:example.com/app.bsky.feed.post/3jwdwj2ctlk26"}'::json AS json_data) pgrst_payload,
	LATERAL (SELECT "owner", "uri" FROM json_to_record(pgrst_payload.json_data) AS _("owner" did, "uri" aturi)) pgrst_body RETURNING 1};
my $all = 'SELECT owner FROM api.bookmark';
is(as('member', $a, sprintf $save, $a), '1', 'a member stores a bookmark');
like(as('member', $a, sprintf $save, $b), qr/violates row-level security policy/, 'not one of somebody else');
like(as('member', 'nonsense', $all), qr/invalid input syntax for type did/, 'a token for what is no DID is refused');
like(as('anon', '', sprintf $save, $a), qr/permission denied for table bookmark/, 'anon stores none');
is(as('member', $a, $all), $a, 'a member sees its bookmarks');
is(as('member', $b, $all), '', 'not those of others');
is(as('member', $b, 'DELETE FROM api.bookmark RETURNING 1'), '', 'nor deletes them');

# --- what nobody may ---

like(as('anon', '', $all), qr/permission denied for table bookmark/, 'bookmarks are not for anon');
foreach my $role ('anon', 'member')
{
	like(as($role, $a, "SELECT FROM $_"), qr/permission denied/, "$role: not $_") foreach 'atproto.record', 'atproto.repo', 'atproto.subscription', 'atproto.dead_letter';
	like(as($role, $a, "DELETE FROM $_"), qr/permission denied|cannot delete from view/, "$role: writes no $_") foreach 'api.post', 'api.record', 'api.app_bsky_feed_post';
}
is(as('anon', '', 'SHOW statement_timeout'), '5s', 'a statement has a limit');

# The policy is a condition on the key, with its index.
like(as('member', $a, "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; EXPLAIN (COSTS OFF) $all"), qr/Index Cond: \(owner = \(.*'sub'::text\)\)::did\)/, 'by the index');

# the programs of the page go on
is(query('SET ROLE app; SELECT count(*) FROM api.bookmark'), '1', 'the role of the programs sees all');

# --- PostGraphile ---

SKIP:
{
	my $dir = npm_directory() or skip $NO_NPM, 4;
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $before = getcwd();
	my ($out, $err) = ('', '');
	local $ENV{DATABASE_URL} = client_url('authenticator');

	program('graphile.config.mjs', $dir);
	chdir $dir or die "cannot chdir to $dir: $!";
	my $server = IPC::Run::start([ 'postgraphile', '-n', '127.0.0.1', '-p', $port ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timer(300));
	chdir $before or die "cannot chdir to $before: $!";

	my $http = HTTP::Tiny->new;
	my $ask = sub {
		my $response = $http->post("http://127.0.0.1:$port/graphql", { headers => { 'Content-Type' => 'application/json' }, content => encode_json({ query => $_[0] }) });
		return $response->{content} =~ /^\{/ ? decode_json($response->{content}) : undef;
	};
	wait_until(sub { $server->pump_nb; $ask->('{ __typename }') }, 'PostGraphile answers');
	my ($query) = map { $_->{text} } blocks('doc/use/clients.md', 'graphql');
	my $nodes = sub { return join "\n", map { $_->{uri} } @{ $_[0]{data}{allPosts}{nodes} } };
	is($nodes->($ask->($query =~ s/did:plc:\w+/$a/r)), query("SELECT uri FROM api.post WHERE did = '$a' ORDER BY rkey DESC LIMIT 3"), 'PostGraphile: posts of an account');
	is($nodes->($ask->($query =~ s/did:plc:\w+/$hidden/r)), '', 'PostGraphile: none of one that is not active');
	my ($fields) = $ask->('{ __type(name: "Record") { fields { name } } }');
	is(join(' ', sort map { $_->{name} } @{ $fields->{data}{__type}{fields} }), 'cid collection did indexedAt rkey value', 'PostGraphile: no column is left out');
	ok($ask->(q[mutation { createBookmark(input: { bookmark: { owner: "did:web:a.b", uri: "at://did:web:a.b/a.b.c/self" } }) { clientMutationId } }])->{errors}, 'PostGraphile: anon stores nothing');
	$server->kill_kill;
}

$node->stop;
done_testing();
