# 360_slices_fdw.pl
#		Runs the SQL of doc/operate/scale.md as it stands.  Three servers follow one slice of a stream each,
#		and postgres_fdw joins their tables: together the servers have the rows of a single server.  The
#		test reads from the plans which conditions and joins PostgreSQL sends to the servers.  One server
#		splits its slice into two while the stream goes on.  F-14.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($capture) = simulate(
	'--events' => 4000, '--accounts' => 200, '--history' => 0,
	'--mix' => 'account=3,delete=4,update=4,sync=1,identity=3,like=40,post=30');
my $last   = read_capture($capture);
my $middle = int($last * 2 / 3);
my $stream = AtprotoTest::Server->start($capture, '--hold-at', $middle + 1);

# Four servers; the first has the joined tables in its database front, and the whole stream in schema whole.
my @nodes = map { make_node("db$_", conf => "max_worker_processes = 20\natproto.reconnect_delay = 50ms\n", create => 0) } 0 .. 3;
query('CREATE ROLE owner SUPERUSER LOGIN', node => $_) foreach @nodes;
query('CREATE DATABASE front', node => $nodes[0]);

# The page's blocks of SQL, filled in for these servers.
my @blocks = slurp_file(test_dir() . '/../doc/operate/scale.md') =~ /^```sql\n(.*?)^```/msg;
is(scalar @blocks, 5, 'the page has five blocks');
s{dbname 'app'}{dbname 'postgres'} foreach @blocks;
s{wss://bsky\.network}{ $stream->url }e foreach @blocks;
s{host 'db%1\$s'}{host '%2\$s', port '%3\$s'} foreach @blocks;
s{host 'db(\d)'}{ "host '" . $nodes[$1]->host . "', port '" . $nodes[$1]->port . "'" }ge foreach @blocks;
my $hosts = join ',', map { $_->host } @nodes[ 0 .. 2 ];
my $ports = join ',', map { $_->port } @nodes[ 0 .. 2 ];
$blocks[1] =~ s{INTO slice%1\$s\$\$, n\)}{INTO slice%1\$s\$\$, n, ('{$hosts}'::text[])[n + 1], ('{$ports}'::text[])[n + 1])};

sub run_block
{
	my ($node, $database, $sql, %v) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', (map { ('-v', "$_=$v{$_}") } keys %v), '-d', $node->connstr($database) ],
		'<', \$sql, '>', \$out, '2>', \$err) or BAIL_OUT("a block of the page fails: $err");
	return $out;
}

sub wait_on
{
	my ($n, $seq) = @_;
	wait_for("SELECT bool_and(seq = $seq) FROM atproto.stat_subscription", node => $nodes[$_]) foreach @$n;
	wait_for('SELECT count(*) = 0 FROM atproto.repo WHERE purge_rev IS NOT NULL', node => $nodes[$_]) foreach @$n;
	return;
}

# --- three servers with slices, and a server with the whole stream ---

$blocks[0] =~ s/slice =>/cursor => 0, slice =>/;
run_block($nodes[$_], 'postgres', $blocks[0], n => $_) foreach 0 .. 2;
query('CREATE SCHEMA whole; ' . subscribe_sql('whole', $stream, cursor => 0, target => "'whole'"), node => $nodes[0]);
wait_on([ 0 .. 2 ], $middle);

# --- behind one name ---

my $settings = 'SET enable_partitionwise_join = on; SET enable_partitionwise_aggregate = on;';
run_block($nodes[0], 'front', $blocks[1]);
query('GRANT USAGE ON SCHEMA whole TO reader; GRANT SELECT ON whole.record, whole.repo TO reader', node => $nodes[0]);
query('CREATE SCHEMA whole; IMPORT FOREIGN SCHEMA whole LIMIT TO (record, repo) FROM SERVER slice0 INTO whole', node => $nodes[0], database => 'front');

sub front
{
	my ($sql) = @_;
	return query("$settings $sql", node => $nodes[0], database => 'front');
}

my %columns = (
	record => 'did, collection, rkey, cid, rev, value, raw',
	repo   => 'did, rev, first_rev, commit, data, active, status, status_seq, handle, sync, deleted_rev');

sub same_as_whole
{
	my ($when) = @_;

	foreach my $table (sort keys %columns)
	{
		my ($parts, $whole) = map { "SELECT $columns{$table} FROM $_.$table" } 'network', 'whole';

		cmp_ok(front("SELECT count(*) FROM network.$table"), '>', 100, "$when: there is something in $table");
		is(front("SELECT count(*) FROM (($parts EXCEPT ALL $whole) UNION ALL ($whole EXCEPT ALL $parts)) d"), '0', "$when: $table is that of a single server");
	}
	return;
}

same_as_whole('three slices');
foreach my $n (0 .. 2)
{
	cmp_ok(front("SELECT count(*) FROM slice$n.repo"), '>', 10, "slice $n has a part of it");
	is(front("SELECT count(*) FROM slice$n.record WHERE did_slice(did, 3) <> $n"), '0', 'and nothing else');
}

# --- which queries are pushed down ---

my $did = front('SELECT did FROM network.record GROUP BY did ORDER BY count(*) DESC LIMIT 1');
my $slice = front("SELECT did_slice('$did', 3)");

# The plan of a query, and the statements sent, once for each server.
sub sent_by
{
	my ($sql) = @_;
	my $plan = front("EXPLAIN (VERBOSE, COSTS off) $sql");

	return ($plan, [ $plan =~ /Remote SQL: (.*)/g ]);
}

sub pushed
{
	my ($name, $sql, $servers, @patterns) = @_;
	my ($plan, $sent) = sent_by($sql);
	my $clean = 1;

	is(scalar @$sent, $servers, "$name: asks $servers") or diag($plan);
	foreach my $pattern (@patterns)
	{
		is(scalar(grep { /$pattern/ } @$sent), $servers, "$name: $pattern") or diag($plan);
	}
	unlike($plan, qr/^ *(Filter|Join Filter|Hash Cond|Merge Cond):/m, "$name: nothing is left to be tested") or diag($plan);
	return;
}

my $post = "collection = 'app.bsky.feed.post'";
pushed('one record', "SELECT value FROM network.record WHERE did = '$did' AND $post AND rkey = '3abc'", 1,
	qr/WHERE .*did .*=.*collection .*=.*rkey .*=/);
pushed("a repository's newest posts", "SELECT value FROM network.record WHERE did = '$did' AND $post ORDER BY rkey DESC LIMIT 50", 1,
	qr/did .*=.*collection .*=.*ORDER BY rkey DESC/);
pushed('records of active repositories', "SELECT rkey, cid FROM network.visible_record WHERE $post", 3, qr/INNER JOIN atproto\.repo/);
pushed('the most active accounts', 'SELECT did, count(*) FROM network.record GROUP BY did ORDER BY 2 DESC LIMIT 10', 3, qr/count\(\*\).*GROUP BY/);
pushed('conditions', qq(SELECT did FROM network.record WHERE rev >= tid_floor('2024-01-01Z') AND did_slice(did, 6) = 3 AND value @> '{"a": 1}'), 3,
	qr/(?=.*rev .*>=)(?=.*did_slice\(did, 6\) = 3)(?=.*value @> )/);
query("CREATE INDEX ON atproto.record (collection, rkey)", node => $nodes[$_]) foreach 0 .. 2;
$settings .= 'SET enable_sort = off;';    # with so few rows, either way is as good
pushed('the newest posts', "SELECT did, rkey FROM network.record WHERE $post ORDER BY rkey DESC LIMIT 50", 3, qr/ORDER BY rkey DESC/);
is(front("SELECT count(*) FROM network.record WHERE did = '$did'"), front("SELECT count(*) FROM slice$slice.record WHERE did = '$did'"), 'who is asked is the one that has it');

# ... and which are not.
my ($plan, $sent) = sent_by('SELECT collection, count(*) FROM network.record GROUP BY collection');
is(scalar(grep { /count\(/ } @$sent), 0, 'counts by collection: the rows travel');
like($plan, qr/Partial|HashAggregate|GroupAggregate/, 'and are counted here');
($plan, $sent) = sent_by("SELECT p.handle FROM network.record r JOIN network.repo p ON p.did = aturi_did((r.value->'subject'->>'uri')::aturi) WHERE r.collection = 'app.bsky.feed.like'");
is(scalar(grep { /JOIN/ } @$sent), 0, 'a join with the account of the target is made here');
($plan, $sent) = sent_by("SELECT did FROM network.record WHERE rev >= tid_floor(now() - interval '1 hour')");
is(scalar(grep { /tid_floor|now\(/ } @$sent), 0, 'what is not immutable is tested here');

foreach my $condition ("value->>'text' = 'x'", "recordkey_matches(rkey, 'tid')")
{
	($plan, $sent) = sent_by("SELECT did FROM network.record WHERE $post AND $condition");
	is(scalar(grep { /WHERE \(\(collection [^)]*\) 'app\.bsky\.feed\.post'\)\)$/ } @$sent), 3, "$condition is tested here, on what the other condition leaves") or diag($plan);
}
like(($nodes[0]->psql('front', "SELECT count(*) FROM slice0.record WHERE satisfies_hash_partition('network.record'::regclass, 3, 0, did)"))[2],
	qr/could not open relation with OID/, 'satisfies_hash_partition() is sent, and fails there');
run_block($nodes[$_], 'postgres', $blocks[2]) foreach 0 .. 2;
pass('the view for an aggregate');

# --- hidden and erased accounts ---

# The rows of the schema network are on the servers with the slices, whose consumers and links a DELETE from here would pass by.
sub said_by_front
{
	return ($nodes[0]->psql('front', $_[0]))[2];
}
query('GRANT ALL ON ALL TABLES IN SCHEMA atproto TO reader', node => $nodes[$_]) foreach 0 .. 2;
my ($behind) = map { 'SELECT count(*), count(hidden_at) FROM ' . $_ } "network.repo WHERE did = '$did'";
query("SELECT atproto.create_tables('atproto')", node => $nodes[0], database => 'front');
like(said_by_front("SELECT atproto.hide('$did')"), qr/NOTICE:  the rows of 1 schemas are on other servers, and were left alone\n/, 'hide() hides the account in the tables of this server');
is(front("SELECT count(hidden_at) FROM atproto.repo") . front($behind), '11|0', '... and in no table behind the common name');
like(said_by_front("SELECT atproto.$_('$did', 'network')"), qr/ERROR:  the rows of schema "network" are on other servers\n/, "$_() says so") foreach 'hide', 'unhide';
my $records = front("SELECT count(*) FROM network.record WHERE did = '$did'");
my $notices = said_by_front("CALL atproto.erase('$did', block => true)");
like($notices, qr/NOTICE:  the rows of 1 schemas are on other servers, and were left alone\n/, 'so does erase()');
unlike($notices, qr/ERROR|WARNING/, '... which erases from the tables of this server');
like(said_by_front("CALL atproto.erase('$did', target => 'network')"), qr/ERROR:  the rows of schema "network" are on other servers\n/, 'and not from the common name');
is(front("SELECT count(*) FROM network.record WHERE did = '$did'"), $records, 'nothing is removed behind the backs of the consumers');
like(front("SELECT string_agg(object || ':' || rows, ' ' ORDER BY object) FROM atproto.account_traces('$did') WHERE place = 'table'"), qr/\bnetwork\.record:$records network\.repo:1\z/, 'account_traces() counts the rows behind the common name');
front("SELECT atproto.unblock('$did'); DROP TABLE atproto.record, atproto.repo CASCADE");
query("SELECT atproto.hide('$did', 'atproto')", node => $nodes[$slice]);
is(front($behind) . ' ' . front("SELECT count(*) FROM network.visible_record WHERE did = '$did'"), '1|1 0', 'an account that its server hides is hidden behind the common name');
query("SELECT atproto.unhide('$did', 'atproto')", node => $nodes[$slice]);

# --- from three to six ---

my $new = $nodes[3];
run_block($new, 'postgres', 'CREATE ROLE reader LOGIN');
run_block($new, 'postgres', $blocks[3]);
run_block($new, 'postgres', 'GRANT USAGE ON SCHEMA atproto TO reader; GRANT SELECT ON atproto.record, atproto.repo TO reader');
is(query('SELECT seq FROM atproto.cursor', node => $new), $middle, 'the new one begins where the old one was');
$stream->release;
wait_on([ 0 .. 3 ], $last);
run_block($nodes[0], 'front', $blocks[4]);

my ($narrower) = slurp_file(test_dir() . '/../doc/operate/consumer.md') =~ /^```sql\n(SELECT atproto\.pause\('network'\).*?)^```/ms or BAIL_OUT('consumer.md does not say how a slice changes');
my ($pause, $wait, @rest) = split /\n/, $narrower;
query($pause, node => $nodes[0]);
wait_for($wait =~ s/count\(\*\)/count(*) = 0/r =~ s/;.*//r, node => $nodes[0]);
query(join("\n", map { s{3/32}{0/6}r =~ s{did_slice\(did, 32\) <> 3}{did_slice(did, 6) <> 0}r } @rest), node => $nodes[0]);
wait_on([0], $last);

same_as_whole('one of them is two');
my %has = map { $_ => front("SELECT count(*) FROM slice$_.repo") } 0 .. 3;
cmp_ok($has{$_}, '>', 10, "slice $_ has a part of it") foreach 0 .. 3;
is(front("SELECT count(*) FROM slice$_->[0].record WHERE did_slice(did, $_->[1]) <> $_->[0]"), '0', "slice $_->[0]: and nothing else")
  foreach [ 0, 6 ], [ 1, 3 ], [ 2, 3 ], [ 3, 6 ];

$_->stop foreach @nodes;
done_testing();
