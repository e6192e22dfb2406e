# 295_row_places.pl
#		The consumer remembers the place (ctid) of a repository's row and looks there first, without the
#		index.  Whatever happens to the row and its place meanwhile, the consumer must write the
#		repository's row and no other.  F-03.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node(
	'row_places', conf => <<'CONF');
autovacuum = off
CONF

# The consumer knows the rows of a and b, and then they change: a's handle to a handle of the same length, b's
# from none to a handle.
my @before  = ('a is a1.test', 'a 1 +x', 'b 1 +x');
my @after   = ('c 1 +x', 'a 2 +y', 'b 2 +y', 'a is a2.test', 'b is b.test');
my $capture = make_capture('steps.py', @before, @after);
my $last    = @before + @after;
my ($a, $b, $z) = map { "did = '" . did($_) . "'" } 'a', 'b', 'z';
my $server = AtprotoTest::Server->start($capture);

# Applies a change between events before and after; returns the old places of the rows.
sub between
{
	my ($name, @statements) = @_;

	start_over();
	$server->restart('--hold-at', @before + 1);
	query(subscribe_sql('s', $server, cursor => 0));
	wait_for_seq($node, 's', scalar @before);
	my $there = query('SELECT did, ctid FROM atproto.repo ORDER BY did');
	query($_) foreach @statements;
	$server->release;
	wait_for_seq($node, 's', $last);
	tables_match($node, $capture, "$name: the tables are what the oracle says", modes => [ 'record', 'repo' ]) if $name ne 'another';
	is(query('SELECT count(*) FROM atproto.dead_letter'), '0', "$name: nothing was refused");
	return $there;
}

my $scans   = q{SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname = 'repo_pkey'};
my $written = q{SELECT n_tup_ins + n_tup_upd FROM pg_stat_user_tables WHERE relname = 'repo'};
query('SELECT pg_stat_reset()');
between('nothing');
wait_for("SELECT ($written) >= 5");
is(query($scans), '3', 'nothing: only those that are new are looked for by the index');

between('changed', 'UPDATE atproto.repo SET host = host');
between('removed', "DELETE FROM atproto.repo WHERE $a");
between('vacuumed', "DELETE FROM atproto.repo WHERE $a", 'VACUUM atproto.repo');
between('emptied', 'TRUNCATE atproto.repo');
between('written anew', 'VACUUM FULL atproto.repo');
between('another column', "ALTER TABLE atproto.repo ADD note text NOT NULL DEFAULT 'none'");
is(query("SELECT string_agg(note, ' ') FROM atproto.repo"), 'none none none', 'another column: its value');
query('ALTER TABLE atproto.repo DROP note');

# the rows have swapped places
my $there = between(
	'swapped', 'CREATE TABLE was AS SELECT * FROM atproto.repo ORDER BY ctid DESC', 'DELETE FROM atproto.repo',
	'VACUUM atproto.repo', 'INSERT INTO atproto.repo SELECT * FROM was', 'CREATE TABLE swapped AS SELECT did, ctid AS at FROM atproto.repo');
my %at = map { split /\|/ } split /\n/, query('SELECT did, at FROM swapped');
my %was = map { split /\|/ } split /\n/, $there;
is_deeply([ @at{ sort keys %at } ], [ reverse @was{ sort keys %was } ], 'swapped: they were');

# a different row at the place of a's row
$there = between(
	'another', "DELETE FROM atproto.repo WHERE $a", 'VACUUM atproto.repo',
	"INSERT INTO atproto.repo (did, host) VALUES ('" . did('z') . "', 'z')", "CREATE TABLE stayed AS SELECT ctid AS at, r.* FROM atproto.repo r WHERE $z");
is(query("SELECT at FROM stayed"), +{ map { split /\|/ } split /\n/, $there }->{ did('a') }, 'another: it lies there');
is(query("SELECT count(*) FROM (SELECT ctid, r.* FROM atproto.repo r WHERE $z INTERSECT SELECT * FROM stayed) t"), '1', 'another: it stays as it is');
query("DELETE FROM atproto.repo WHERE $z");
tables_match($node, $capture, 'another: the tables are what the oracle says', modes => [ 'record', 'repo' ]);

# --- a state by which the consumer ignores commits, until a user changes the state ---

$capture = make_capture('steps.py', 'a 1 +x', 'a deactivated', 'a 2 +y');
$server = AtprotoTest::Server->start($capture, '--hold-at', 3);
start_over();
query(subscribe_sql('s', $server, cursor => 0));
wait_for_seq($node, 's', 2);
query('UPDATE atproto.repo SET active = true');
$server->release;
wait_for_seq($node, 's', 3);
is(query("SELECT count(*) FROM atproto.record WHERE rkey = 'y'"), '1', 'active again: its commit counts');

# --- a state that a constraint refuses, with values of the same lengths ---

$capture = make_capture('steps.py', 'a 1 +x', 'a 2 +y', 'a 3 +z');
$server = AtprotoTest::Server->start($capture, '--hold-at', 2);
start_over();
query(subscribe_sql('s', $server, cursor => 0));
wait_for_seq($node, 's', 1);
my $first = query('SELECT rev FROM atproto.repo');
query("ALTER TABLE atproto.repo ADD CONSTRAINT as_it_is CHECK (rev = '$first')");
$server->release;
wait_for_seq($node, 's', 3);
is(query("SELECT rev = '$first', (SELECT count(*) FROM atproto.dead_letter WHERE sqlstate = '23514') FROM atproto.repo"), 't|2', 'checked: they are refused');
query('DELETE FROM atproto.dead_letter; ALTER TABLE atproto.repo DROP CONSTRAINT as_it_is');

# --- room for the new version, where only the consumer reads the page ---

my $name = join '.', ('n' x 60) x 3, 'test';
my @long = ("a is $name", "b is $name", map { ("a $_ +x$_", "b $_ +x$_") } 1 .. 30);
my @batches = map { 2 * $_ + 1 } 1 .. $#long / 2;
$capture = make_capture('steps.py', @long);
$server  = AtprotoTest::Server->start($capture, map { ('--hold-at', $_) } @batches);
start_over();
query('SELECT pg_stat_reset()');
query(subscribe_sql('s', $server, cursor => 0));
foreach my $batch (@batches)
{
	wait_for_seq($node, 's', $batch - 1);
	$server->release;
}
wait_for_seq($node, 's', scalar @long);
my $updates = @long - 2;
# the first commit of each repository makes it synchronized, which changes the partial index
my $hot     = $updates - 2;
wait_for("SELECT ($written) = " . @long);
is(query(q{SELECT n_tup_upd, n_tup_hot_upd, pg_relation_size(relid) FROM pg_stat_user_tables WHERE relname = 'repo'}),
	"$updates|$hot|8192", 'every new version stays on the page of the old one, where there is room when the dead are gone');
tables_match($node, $capture, 'the tables are what the oracle says', modes => [ 'record', 'repo' ]);

# --- while a transaction is open, dead versions cannot be removed; after its end, the page has room again ---

$server->restart(map { ('--hold-at', $_) } @batches);
start_over();
my $reader = $node->background_psql('postgres');
$reader->query_safe('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT');
query('SELECT pg_stat_reset()');
query(subscribe_sql('s', $server, cursor => 0));
my $pages  = "pg_relation_size(relid) / 8192 FROM pg_stat_user_tables WHERE relname = 'repo'";
my $open   = 25;
my @shares;
foreach my $i (0 .. $#batches)
{
	my $batch = $batches[$i];
	wait_for_seq($node, 's', $batch - 1);
	if ($i == $open)
	{
		wait_for("SELECT ($written) = $batch - 1");
		push @shares, query("SELECT n_tup_upd - n_tup_hot_upd, $pages");
		$reader->query_safe('COMMIT');
	}
	$server->release;
}
wait_for_seq($node, 's', scalar @long);
wait_for("SELECT ($written) = " . @long);
push @shares, query("SELECT n_tup_upd - n_tup_hot_upd, $pages");
my ($left, $large) = split /\|/, $shares[0];
cmp_ok($left, '>', 2, 'versions leave their page while a transaction is open');
cmp_ok($large, '>', 1, 'and the table grows');
is($shares[1], $shares[0], 'neither does when it has ended');
$reader->quit;

# --- an index on a changing column: each version needs entries, unlike in the index of the key ---

my @names = 'a' .. 'z';
$capture = make_capture('steps.py', map { my $n = $_; map { "$_ $n +x" . $n } @names } 1 .. 60);
$server  = AtprotoTest::Server->start($capture, map { ('--hold-at', $_ * @names + 1) } 1 .. 59);
start_over();
query('CREATE INDEX repo_rev ON atproto.repo (rev)');
my $begin = query('SELECT pg_current_wal_insert_lsn()');
query(subscribe_sql('s', $server, cursor => 0));
foreach my $batch (1 .. 59)
{
	wait_for_seq($node, 's', $batch * @names);
	$server->release;
}
wait_for_seq($node, 's', 60 * @names);
my $end = query('SELECT pg_switch_wal()');
my ($log) = run_command([ 'pg_waldump', '-p', $node->data_dir . '/pg_wal', '-r', 'Btree', '-s', $begin, '-e', $end ]);
my %deletions = map {
	my $file = query("SELECT pg_relation_filenode('atproto.$_')");
	$_ => scalar(() = $log =~ m{desc: DELETE .*rel \d+/\d+/$file\b}g)
} 'repo_pkey', 'repo_rev';
cmp_ok($deletions{repo_pkey}, '>', 0, 'entries of dead versions are looked for where a page of the key is full');
is($deletions{repo_rev}, 0, 'and not where an index has what changes');
tables_match($node, $capture, 'index: the tables are what the oracle says', modes => [ 'record', 'repo' ]);

unlike(slurp_file($node->logfile), qr/ERROR|WARNING/, 'nothing of it was an error to anybody');

$node->stop;
done_testing();
