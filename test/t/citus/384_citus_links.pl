# 384_citus_links.pl
#		The table link on Citus is distributed by the target of a link: a query for the links to a record
#		asks one node.  The table must be the image of record through updates, deletions and deleted
#		accounts, also where a node was away when an account was deleted.  check() finds missing and wrong
#		links, and rebuild_links() mends the table.
#
#		Needs Citus: see test/citus/build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Citus;
use PostgreSQL::Test::Utils;
use Test::More;

if (my $why = AtprotoTest::Citus::missing())
{
	plan skip_all => $why;
}

my @holds = (1000, 2000);
my ($capture, $expect) = simulate(
	'--events' => 4000, '--accounts' => 80, '--history' => 0,
	'--mix' => 'account=4,delete=8,update=6,sync=0,like=40,post=30,profile=3');
my $last   = read_capture($capture);
my $server = AtprotoTest::Server->start($capture, map { ('--hold-at', $_) } @holds);
my ($node, @workers) = make_citus('citus_links', conf => "atproto.reconnect_delay = 100ms\nmax_worker_processes = 20\n");
my %worker = map { ($_->port => $_) } @workers;

sub all_is_linked
{
	my ($schema, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(query("SELECT count(*) || ' ' || COALESCE(string_agg(DISTINCT problem, ','), '') FROM atproto.link_problems('$schema')"), '0 ', $name);
}

sub links
{
	my ($schema) = @_;
	return query(qq{SELECT l.target, s.collection, s.path, l.did, l.rkey FROM $schema.link l JOIN $schema.link_source s ON s.id = l.source
		ORDER BY l.target, s.collection, s.path COLLATE "C", l.did, l.rkey});
}

# --- a target that was distributed by a different column ---

query(q{CREATE SCHEMA old; SELECT atproto.create_tables('old'); SELECT create_distributed_table('old.link', 'did')});
my ($rc, undef, $err) = $node->psql('postgres', q{SELECT atproto.distribute('old')});
isnt($rc, 0, 'links that are distributed by another column: refused');
my ($hint) = $err =~ /table "old.link" is distributed, and not by column "authority"\nHINT:  (SELECT undistribute_table\('old.link'\)) first/;
isnt($hint, undef, 'it says what to do');
query("$hint; SELECT atproto.distribute('old')");
is(query(q{SELECT distribution_column FROM citus_tables WHERE table_name = 'old.link'::regclass}), 'authority', 'after that it goes');
($rc, undef, $err) = $node->psql('postgres', q{SELECT atproto.count_links('{app.bsky.feed.like:subject.uri}', 'old')});
isnt($rc, 0, 'distributed links are not counted');
like($err, qr/links of schema "old" cannot be counted, since they are divided for Citus\nHINT:  backlink_count\(\) counts the rows/, 'it says why');
is(query(q{SELECT count(*) FROM old.link_source WHERE counted}), '0', 'and no source is marked');
query('DROP SCHEMA old CASCADE');

query(q{CREATE SCHEMA counted; SELECT atproto.create_tables('counted'); SELECT atproto.count_links('{app.bsky.feed.like:subject.uri}', 'counted')});
($rc, undef, $err) = $node->psql('postgres', q{SELECT atproto.distribute('counted')});
isnt($rc, 0, 'a schema with counts is not distributed');
like($err, qr/links of schema "counted" are counted\n.*\nHINT:  End the counts first: (SELECT atproto.count_links\('\{\}', 'counted'\))/, 'it says what to do');
query("SELECT atproto.count_links('{}', 'counted'); SELECT atproto.distribute('counted'); DROP SCHEMA counted CASCADE");

# --- while the stream is followed ---

query('CREATE SCHEMA plain; ' . subscribe_sql('plain', $server, cursor => 0, target => q{'plain'}, links => q{'all'}));
query(subscribe_sql('s', $server, cursor => 0, links => q{'all'}));
wait_for_seq($node, $_, $holds[0] - 1) foreach 's', 'plain';
query('SELECT atproto.distribute()');
is(query(q{SELECT count(*) > 100 AND bool_and(authority = aturi_repo(target)) FROM atproto.link}), 't', 'links that were there lie by what they link to');
all_is_linked('atproto', 'and are those of the records');
$server->release;
is(query('SELECT added, removed FROM atproto.rebuild_links()'), '0|0', 'nothing is to be mended while events come');
wait_for_seq($node, $_, $holds[1] - 1) foreach 's', 'plain';
is(query(q{SELECT bool_and(authority = aturi_repo(target)) FROM atproto.link}), 't', 'and those that came');
all_is_linked('atproto', 'they are those of the records');

# --- links written while a node was away ---

# Writes the links of records that are deleted later; on a worker these rows are prepared and not committed.
my %stays = map { (join("\t", (split /\t/)[ 0 .. 2 ]) => 1) } split /\n/, slurp_file("$expect/record");
my @gone = map { my ($did, undef, $rkey) = split /\t/; "('$did', '$rkey')" } grep { !$stays{$_} }
  split /\n/, query(q{SELECT did || E'\t' || collection || E'\t' || rkey FROM atproto.record});
cmp_ok(scalar @gone, '>', 20, 'records are there that will be deleted');
my $prepared = 0;
foreach my $port (sort keys %worker)
{
	my $sql = '';
	foreach my $shard (split /\n/, query(qq{SELECT shard_name FROM citus_shards WHERE table_name = 'atproto.link'::regclass AND nodeport = $port}))
	{
		$shard = "atproto.link_$1" if $shard =~ /(\d+)$/;
		my $where = 'WHERE (did::text, rkey::text) IN (' . join(', ', @gone) . ')';
		my @rows = split /\n/, query("SELECT format('(%L, %s, %L, %L, %L)', target, source, rkey, did, authority) FROM $shard $where", node => $worker{$port});
		next if @rows == 0;
		query("SET citus.enable_manual_changes_to_shards = on; DELETE FROM $shard $where", node => $worker{$port});
		$sql .= "INSERT INTO $shard (target, source, rkey, did, authority) VALUES " . join(', ', @rows) . ';';
		$prepared += @rows;
	}
	query("SET citus.enable_manual_changes_to_shards = on; BEGIN; $sql PREPARE TRANSACTION 'unheard'", node => $worker{$port});
}
cmp_ok($prepared, '>', 20, 'their links are not committed everywhere');
$server->release;
wait_until(
	sub {
		return query('SELECT bool_or(seq = ' . $last . q{) FROM atproto.cursor WHERE subscription = 's'}) eq 't'
		  || grep { query(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'}, node => $_) eq 't' } @workers;
	},
	'the consumer comes to them');
cmp_ok(query(q{SELECT seq FROM atproto.cursor WHERE subscription = 's'}), '<', $last, 'it waits for what is not settled');
query(q{COMMIT PREPARED 'unheard'}, node => $_) foreach @workers;
wait_for_seq($node, $_, $last) foreach 's', 'plain';
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');
all_is_linked('atproto', 'links that were settled later have gone with their records');
is(links('atproto'), links('plain'), 'all links are those of plain tables');
is(query(q{SELECT count(*) > 0 FROM atproto.repo WHERE status = 'deleted'}), 't', 'accounts were deleted');

# --- a query for links asks one node ---

my ($target, $authority, $likes) = split /\|/, query(<<'EOQ');
SELECT target, authority, count(*) FROM atproto.link
WHERE source = (SELECT id FROM atproto.link_source WHERE (collection, path) = ('app.bsky.feed.like', 'subject.uri'))
GROUP BY 1, 2 ORDER BY 3 DESC LIMIT 1
EOQ

# The number of statements on shards, and the result.
sub asked
{
	my ($sql) = @_;
	my ($status, $out, $said) = $node->psql('postgres', "SET citus.log_remote_commands = on; SET client_min_messages = notice; $sql");
	my @select = $said =~ /issuing SELECT/g;

	is($status, 0, $sql);
	return (scalar @select, $out);
}

my @functions = (
	"SELECT atproto.backlink_count('$target', 'app.bsky.feed.like:subject.uri')",
	"SELECT * FROM atproto.backlinks('$target', 'app.bsky.feed.like:subject.uri', NULL)",
	"SELECT * FROM atproto.backlinks('$target', 'app.bsky.feed.like:subject.uri', 100, (SELECT uri FROM atproto.backlinks('$target', 'app.bsky.feed.like:subject.uri', 1, tables => 'plain')))",
	"SELECT * FROM atproto.backlink_dids('$target', 'app.bsky.feed.like:subject.uri')");
foreach my $sql (@functions)
{
	my ($n, $out) = asked($sql);
	(my $plain = $sql) =~ s/\)$/, tables => 'plain')/;
	is($n, 1, 'asks one shard');
	is($out, query($plain), 'gives what it gives of plain tables');
}
is((asked($functions[0]))[1], $likes, 'all likes');
my $page = "SELECT did, rkey FROM %s WHERE target = '$target' AND %s"
  . q{ source = (SELECT id FROM atproto.link_source WHERE (collection, path) = ('app.bsky.feed.like', 'subject.uri')) ORDER BY rkey DESC, did DESC};
my $mine = "authority = '$authority' AND";
# the plans must not depend on whether autovacuum has run already
query('VACUUM (ANALYZE) atproto.link');
foreach my $sql (
	sprintf("$page LIMIT 20", 'atproto.link', $mine),
	"SELECT s.collection, s.path, l.target, l.did, l.rkey FROM atproto.link l JOIN atproto.link_source s ON s.id = l.source
		WHERE l.$mine l.target <@ '$authority' AND l.did <> aturi_did('$authority') ORDER BY l.rkey DESC LIMIT 50",
	"SELECT source, count(*) FROM atproto.link WHERE $mine target <@ '$authority' GROUP BY source")
{
	like(query("EXPLAIN (COSTS OFF) $sql"), qr/Task Count: 1\n(?s:.*)Index Only Scan/, 'one shard, its index only');
}
query(q{UPDATE atproto.repo SET active = NOT active WHERE did IN (SELECT did FROM atproto.link WHERE source = 1 ORDER BY did LIMIT 20)});
my $visible = sprintf "WITH l AS MATERIALIZED ($page) SELECT l.did, l.rkey FROM l JOIN atproto.repo p ON p.did = l.did"
  . ' WHERE p.active AND p.purge_rev IS NULL ORDER BY l.rkey DESC, l.did DESC', 'atproto.link', $mine;
is(query($visible), query('SET citus.enable_repartition_joins = on; ' . sprintf $page, 'atproto.visible_link', ''),
	'of active accounts: a page, then their states; the view gives the same');
isnt(query($visible), query(sprintf $page, 'atproto.link', $mine), 'some were not active');

# --- faults of links are found and mended ---

query(q{SELECT atproto.pause('s'); DELETE FROM atproto.link_source WHERE (collection, path) = ('app.bsky.feed.post', 'reply.parent.uri')});
my $checked = q{SELECT count(*), string_agg(DISTINCT object, ' ') FROM atproto.check('atproto') WHERE what = '%s'};
like(query(sprintf $checked, 'link without a source'), qr/^[1-9]\d*\|source \d+$/, 'check() finds links without a source');
query(q{DELETE FROM atproto.link WHERE source NOT IN (SELECT id FROM atproto.link_source)});
query(q{DELETE FROM atproto.link WHERE source = (SELECT id FROM atproto.link_source WHERE (collection, path) = ('app.bsky.feed.post', 'reply.root.uri'))});
query(q{DELETE FROM atproto.record WHERE collection = 'app.bsky.feed.repost'});
query(q{UPDATE atproto.record SET value = NULL, raw = '\xa2616161006162716469643a7765623a612e6578616d706c65' WHERE collection = 'app.bsky.graph.follow'});
my $wrong = q{SELECT problem, collection, path, count(*) FROM atproto.link_problems('%s') JOIN %s.link_source s ON s.id = source GROUP BY 1, 2, 3 ORDER BY 1, 2::text, 3};
like(query(sprintf $wrong, 'atproto', 'atproto'), qr/^extra\|app.bsky.feed.repost\|subject.uri\|\d+\n(?s:.*)^missing\|app.bsky.feed.post\|reply.root.uri\|\d+$/m, 'what is wrong');
query(q{CREATE ROLE owner LOGIN; GRANT USAGE ON SCHEMA atproto, public TO owner; GRANT SELECT ON atproto.record TO owner; GRANT EXECUTE ON FUNCTION atproto.rebuild_links TO owner;
	ALTER TABLE atproto.link OWNER TO owner; ALTER TABLE atproto.link_source OWNER TO owner});
($rc, undef, $err) = $node->psql('postgres', 'SELECT * FROM atproto.rebuild_links()');
like($err, qr/permission denied for schema atproto/, 'an owner of links who may create nothing in the schema');
# the schema belongs to the extension, and each node has a copy of it
query('GRANT USAGE, CREATE ON SCHEMA atproto TO owner', node => $_) foreach $node, @workers;
is(query('SELECT added > 0 AND removed > 0 FROM atproto.rebuild_links()'), 't', 'one who may: it is mended, with his rights');
all_is_linked('atproto', 'and then is right');
($rc, undef, $err) = $node->psql('postgres', 'SET ROLE owner; SELECT * FROM atproto.rebuild_links()');
is($rc, 0, 'the owner himself, whom the marks of nodes do not belong to');
like($err, qr/the rows of table "atproto\.node_written" stay as they are/, 'and they stay, which it says');
# a subscription may not fill tables of a stranger, and is not asked which links it wants
query(q{ALTER TABLE atproto.link OWNER TO postgres; ALTER TABLE atproto.link_source OWNER TO postgres});
query('CREATE SCHEMA copy; SELECT atproto.create_tables(\'copy\'); INSERT INTO copy.record SELECT * FROM atproto.record; INSERT INTO copy.repo SELECT * FROM atproto.repo');
query(q{SELECT * FROM atproto.rebuild_links('copy')});
is(links('atproto'), links('copy'), 'as it would be in plain tables');
is(query(q{SELECT count(*) FROM pg_class WHERE relname ~ '^link_stage'}), '0', 'nothing is left of that');
query(q{UPDATE atproto.subscription SET links = '{app.bsky.feed.like}' WHERE name = 's'});
like(query(sprintf $wrong, 'atproto', 'atproto'), qr/^(unwanted\|.*\n?)+$/, 'what nobody wants any more');
like(query(sprintf $checked, 'link that is not wanted'), qr/^[1-9]\d*\|.*\bapp\.bsky\.graph\.follow:b\b/, 'check() finds links that are not wanted');
unlike(query(sprintf $checked, 'link that is not wanted'), qr/app\.bsky\.feed\.like/, 'but none that is');
is(query(q{SELECT removed > 0 AND added = 0 FROM atproto.rebuild_links()}), 't', 'is removed');
all_is_linked('atproto', 'and then is right');

# --- an account is erased and blocked ---

my $erased = query(q{SELECT did FROM atproto.link GROUP BY did ORDER BY count(*) DESC, did LIMIT 1});
my $of_blocked = q{SELECT string_agg(object, ' ' ORDER BY object) FROM atproto.check(deep => true) WHERE what = 'row of a blocked account' AND target = 'atproto'};
query("CALL atproto.erase('$erased', block => true, target => 'atproto')");
is(query("SELECT count(*) FROM atproto.$_ WHERE did = '$erased'"), '0', "erase(): nothing of the account is in $_ on any node") foreach qw(record repo link);
all_is_linked('atproto', 'the links of all others are there');
is(query($of_blocked), '', 'check() finds no row of the account');
query("INSERT INTO atproto.record (did, collection, rkey, cid, rev) SELECT '$erased', collection, rkey, cid, rev FROM copy.record LIMIT 1");
query("INSERT INTO atproto.repo (did, active, sync) SELECT '$erased', active, sync FROM copy.repo LIMIT 1");
query("INSERT INTO atproto.link (authority, target, source, rkey, did) SELECT aturi_repo(target), target, source, rkey, '$erased' FROM copy.link LIMIT 1");
is(query($of_blocked), 'link record repo', '... and would find rows on all nodes');
is(query(q{SELECT DISTINCT mend ~ 'rebuild_links' FROM atproto.check(deep => true) WHERE what = 'row of a blocked account' AND object = 'link'}), 't', '... with a hint');
query("CALL atproto.erase('$erased', block => true, target => 'atproto')");
is(query($of_blocked), 'link', '... of which a link without a record stays after erase()');
query(q{SELECT * FROM atproto.rebuild_links()});
is(query($of_blocked), '', '... until rebuild_links(), as the hint says');
query("SELECT atproto.unblock('$erased')");

# --- a plain table again ---

query(q{SELECT undistribute_table('atproto.link'); UPDATE atproto.subscription SET links = 'all' WHERE name = 's'});
query(q{DELETE FROM atproto.record; DELETE FROM atproto.repo; DELETE FROM atproto.link; SELECT atproto.set_cursor('s', 0)});
$server->restart;
query(q{SELECT atproto.resume('s')});
wait_for_seq($node, 's', $last);
all_is_linked('atproto', 'a table that was distributed once');
is(links('atproto'), links('plain'), 'has the same links');
is(query($functions[1]), query($functions[1] =~ s/\)$/, tables => 'plain')/r), 'and gives the same');

stop_citus();
done_testing();
