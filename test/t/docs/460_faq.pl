# 460_faq.pl
#		The test provokes each message quoted by doc/use/faq.md and compares every letter.  This file names
#		the messages of other builds or programs.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Pages;
use PostgreSQL::Test::Utils;
use Test::More;

# Messages of other programs, visible only on a different machine.
my %of_others = map { $_ => 1 } (
	'fe_sendauth: no password supplied',
	'fatal error: cbor.h: No such file or directory',
	'make: pg_config: No such file or directory',
	'ERROR:  extension "atproto" is not available',
	'FATAL:  could not access file "atproto": No such file or directory');
# Messages of other builds or libraries, as they stand in the sources.
my %of_builds = (
	'ERROR:  signatures by secp256k1 are not supported by this build' => 'signatures by secp256k1 are not supported by this build',
	'ERROR:  handles are not verified by this build'                  => 'handles are not verified by this build',
	'LOG:  extension "atproto" of database "mydb" is not at version 0.9, which is this library\'s' => 'extension \"atproto\" of database \"%s\" is not at version %s, which is this library\'s');
# Errors of subscriptions, provoked by other tests.
my %elsewhere = (
	'Could not resolve host: '                     => '147_dns',
	'SSL certificate problem: '                    => '150_tls',
	'HTTP status '                                 => '140_http',
	'the connection was cut before the upgrade; '  => '471_own_pds',
	'could not extend file '                       => '175_no_space',
	'permission denied for '                       => '260_permissions',
	'role '                                        => '263_foreign_targets',
	'the database refused all of the last 100 events: ' => '244_refused_pieces',
	'the server sent the error FutureCursor: '     => '190_close_codes_and_gaps');

my $page = 'doc/use/faq.md';
my $text = page_text($page);
my @said = map { split /\n/, $_->{text} } grep { $_->{text} =~ /^\w+( \w+)?: |^index row/ } blocks($page, '');
cmp_ok(scalar @said, '>', 15, 'the page quotes messages');

my $node = make_node('faq', conf => "max_worker_processes = 9\n");
my $bare = make_node('faq_bare', preload => 0);
my $seen = '';

# Runs the statement and collects the server's messages, whether or not it fails.
sub try_it
{
	my ($sql, %o) = @_;
	my (undef, undef, $err) = ($o{node} // $node)->psql($o{database} // 'postgres', "$sql", on_error_stop => 0, $o{user} ? (extra_params => [ '-U', $o{user} ]) : ());

	$seen .= $err =~ s/^psql:<stdin>:\d+: //gmr;
	return;
}

# --- the library, the databases ---

my $nobody = 'ws://127.0.0.1:1';
try_it("SELECT atproto.subscribe('network', '$nobody')", node => $bare);
# V-02: a warning: no process reads documents
try_it("SELECT atproto.unsubscribe('network'); SELECT atproto.subscribe('network', '$nobody', verify => 'full')", node => $bare);
try_it("SELECT atproto.unsubscribe('network'); SELECT atproto.subscribe('network', '$nobody', backfill => 'repair')", node => $bare);
try_it("BEGIN; UPDATE pg_extension SET extversion = '0.8' WHERE extname = 'atproto'; SELECT atproto.subscribe('network', '$nobody'); ROLLBACK");
query("CREATE DATABASE ascii TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'", node => $node);
$node->safe_psql('ascii', 'CREATE EXTENSION atproto');
try_it("SELECT dagcbor_to_jsonb('\\xa0')", database => 'ascii');
try_it("SET atproto.batch_delay = 10");
try_it("SELECT atproto.subscribe('network', '$nobody', collection => '{app.bsky.feed.post}')");
try_it("SELECT atproto.subscribe('network', '$nobody', collections => 'app.bsky.feed.post')");
try_it("SELECT tid_generate()::timestamptz");
try_it("SELECT atproto.subscribe('network', '$nobody', $_ => true)") foreach 'backfill', 'links';
try_it("SELECT subscribe('network', '$nobody')");
try_it("SELECT aturi_from_web('x')");
try_it("SELECT atproto.$_") foreach 'backfill_repo()', q{load_car('did:web:example.com', 1)}, q{backlinks('at://did:web:example.com')}, q{partition('network', 'month', keep => 12)};
try_it("SELECT atproto.subscribe('network', '$nobody')", database => 'template1');
try_it("SELECT atproto.subscribe('network', 'bsky.network')");
try_it("SELECT atproto.subscribe('wss://bsky.network', 'network')");
try_it("SELECT atproto.subscribe('network', '$nobody', '{app.bsky.feed.post}')");
try_it("SELECT atproto.subscribe('network', '$nobody', $_)") foreach 'dids => \'{bsky.app}\'', 'headers => \'Authorization: Bearer secret\'', 'keep_raw => \'raw\'', 'workers => \'two\'';
try_it("SELECT atproto.backlinks('https://bsky.app/profile/bsky.app/post/3l2eqkkbzi22u', 'app.bsky.feed.like:subject.uri')");
try_it("SELECT atproto.create_view('post')");
try_it("BEGIN; SELECT atproto.subscribe('network', '$nobody/xrpc/com.atproto.sync.subscribeRepos?cursor=0', collections => '{app.bsky.feed.posts}', ca_file => '/nowhere/ca.pem'); ROLLBACK");
try_it("BEGIN; SELECT atproto.subscribe('network', '$nobody', ca_file => 'PG_VERSION'); ROLLBACK");
try_it("SET search_path = pg_catalog; SELECT FROM atproto.record WHERE did = 'did:web:a.b'");
try_it("SET search_path = pg_catalog; SELECT 'did:web:a.b'::did");
try_it("SELECT atproto.subscribe('s', '$nobody')", database => 'ascii');
is($node->safe_psql('ascii', 'SELECT count(*) FROM atproto.subscription'), '0', 'nothing is subscribed to in another encoding');
$node->safe_psql('ascii', "INSERT INTO atproto.subscription (name, url, allow_insecure) VALUES ('s', '$nobody', true)");
ok($node->poll_query_until('ascii', "SELECT state = 'stopped' FROM atproto.stat_subscription"), 'a subscription that was restored into another encoding stops');
$seen .= $node->safe_psql('ascii', "SELECT 'last_error: ' || last_error FROM atproto.stat_subscription") . "\n";
$node->safe_psql('ascii', "SELECT atproto.unsubscribe('s')");

# more subscriptions than worker processes
$node->safe_psql('postgres', "SELECT atproto.subscribe(format('s%s', n), '$nobody') FROM generate_series(1, 9) n; SELECT atproto.subscribe('network', '$nobody')");
$node->wait_for_log(qr/no background worker slot is free for atproto subscription "(network|s\d)"/);
$seen .= slurp_file($node->logfile) =~ s/^.*?(LOG:  )/$1/gmr =~ s/atproto subscription "s\d"/atproto subscription "network"/gr;
$node->safe_psql('postgres', 'SELECT atproto.unsubscribe(name) FROM atproto.subscription');

# --- rights ---

$node->safe_psql('postgres', 'CREATE ROLE joe LOGIN');
$node->safe_psql('postgres', 'CREATE DATABASE joes');
try_it("SET ROLE joe; SELECT atproto.subscribe('j', 'wss://bsky.network')");
try_it('SET ROLE joe; SELECT * FROM atproto.record');
try_it('SET ROLE joe; CREATE EXTENSION atproto', database => 'joes');
# of the views of create_view(), those with active => true need no right on record
$node->safe_psql('postgres', q{SELECT atproto.create_view('app.bsky.feed.post', schema => 'public'), atproto.create_view('app.bsky.feed.like', schema => 'public', active => true);
	GRANT USAGE ON SCHEMA atproto TO joe; GRANT SELECT ON app_bsky_feed_post, app_bsky_feed_like, atproto.visible_record TO joe});
like(($node->psql('postgres', 'SET ROLE joe; SELECT * FROM app_bsky_feed_post'))[2], qr/permission denied for table record/, 'a view needs rights on record');
is($node->safe_psql('postgres', 'SET ROLE joe; SELECT count(*) FROM app_bsky_feed_like'), '0', 'an active one on visible_record');
try_it("SELECT atproto.subscribe('j', 'ws://relay.example.com')");

# --- queries ---

try_it("SELECT '3jwdwj2ctlk26'::tid");
try_it('CREATE TABLE t (x tid DEFAULT tid_generate())');
try_it("SELECT atproto.create_view('exchange.recipe.recipe')");
try_it('DROP EXTENSION atproto');
query(q{CREATE INDEX record_subject ON atproto.record ((value->>'subject'))}, node => $node);
try_it(q{INSERT INTO atproto.record (did, collection, rkey, cid, rev, value) VALUES ('did:web:a.b', 'a.b.c', 'x', cidlink_of('\xa0'), tid_generate(),
	jsonb_build_object('subject', (SELECT string_agg(md5(n::text), '') FROM generate_series(1, 90) n)))});
$seen =~ s/(index row size )\d+/${1}2904/;

# --- messages in a subscription's row ---

$node->safe_psql('postgres', q{INSERT INTO atproto.subscription (name, url) VALUES ('restored', 'wss://bsky.network')});
$seen .= query("SELECT 'last_error: ' || last_error FROM atproto.stat_subscription WHERE name = 'restored'", node => $node) . "\n";
$node->safe_psql('postgres', "SELECT atproto.unsubscribe('restored')");
$node->safe_psql('postgres', "SELECT atproto.subscribe('refused', '$nobody')");
ok($node->poll_query_until('postgres', "SELECT last_error IS NOT NULL FROM atproto.stat_subscription WHERE name = 'refused'"), 'a server that is not there');
$seen .= query("SELECT 'last_error: ' || last_error FROM atproto.stat_subscription WHERE name = 'refused'", node => $node) . "\n";

my $sources = join '', map { slurp_file($_) } glob join ' ', map { root() . "/src/$_" } '*/*.c', '*/*/*.c';
foreach my $message (@said)
{
	next if $message !~ /\S/ || $of_others{$message};
	if (defined(my $template = $of_builds{$message})) { ok(index($sources, $template) >= 0, "in the sources: $message"); next; }
	ok(index($seen, $message) >= 0, $message);
}

# --- errors in the tables of the page, in italics ---

my @errors = map { /^\| ((?:\*[^*|]+\*(?:, )?)+) \|/ ? map { s/^\*|\*$//gr } split(/(?<=\*), (?=\*)/, $1) : () } split /\n/, $text;
cmp_ok(scalar @errors, '>', 8, 'the page quotes last errors');
foreach my $error (@errors)
{
	my ($start) = split /…/, $error;
	my ($test)  = map { $elsewhere{$_} } grep { index($start, $_) == 0 } keys %elsewhere;

	if (defined $test)                     { ok(-e test_file($test), "$test: $error"); }
	elsif ($start eq 'relation ')          { pass("PostgreSQL's own: $error"); }
	elsif ($start eq 'there is no room for another dead letter') { ok(index($sources, $start) >= 0, "242_letters_room: $error"); }
	else                                   { ok(index($seen, "last_error: $start") >= 0, $error); }
}

$node->stop;
$bare->stop;
done_testing();
