# 011_types_tid.pl
#		tid_generate() never goes back and never repeats (T-09): in many sessions
#		at once, over restarts and crashes, and when the clock was ahead before.

use strict;
use warnings FATAL => 'all';

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir = PostgreSQL::Test::Utils::tempdir();
my $node = PostgreSQL::Test::Cluster->new('tid');
$node->init;
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION atproto; CREATE TABLE t (n bigserial, pid int DEFAULT pg_backend_pid(), tid atproto.tid)');
my $script = "$dir/insert.sql";
append_to_file($script, "INSERT INTO t (tid) SELECT tid_generate() FROM generate_series(1, 50);\n");

# Eight sessions at once.
sub generate
{
	my ($what) = @_;

	$node->safe_psql('postgres', 'TRUNCATE t');
	$node->command_ok([ 'pgbench', '-n', '-c', 8, '-j', 2, '-t', 20, '-f', $script, $node->connstr('postgres') ], "$what: eight sessions run");
	is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT tid) FROM t'), '8000|8000', "$what: all are different");
	is( $node->safe_psql('postgres',
			'SELECT bool_and(tid > before) FROM (SELECT tid, lag(tid) OVER (PARTITION BY pid ORDER BY n) AS before FROM t) s WHERE before IS NOT NULL'),
		't',
		"$what: each session's increase");
}

sub value
{
	my ($sql) = @_;
	return $node->safe_psql('postgres', "SELECT $sql");
}

# --- not preloaded ---

generate('not preloaded');
is(value('count(DISTINCT tid_clock_id(tid)) = count(DISTINCT pid) FROM t'), 't', 'not preloaded: each session has its clock id');
ok(!-e $node->data_dir . '/atproto.tid', 'not preloaded: nothing is reserved');

# --- preloaded ---

$node->append_conf('postgresql.conf', "shared_preload_libraries = 'atproto'");
$node->restart;
generate('preloaded');
is(value('count(DISTINCT tid_clock_id(tid)) FROM t'), '1', 'preloaded: one clock id');
ok(-e $node->data_dir . '/atproto.tid', 'preloaded: times are reserved');

# Twenty sessions, one after the other: each TID is greater than the TID of the session before.
my $last = '2222222222222';
my $back = 0;
foreach my $i (1 .. 20)
{
	my $tid = value('tid_generate()');
	$back++ if $tid le $last;
	$last = $tid;
}
is($back, 0, 'preloaded: sessions one after the other increase');

foreach my $how ('fast', 'immediate')
{
	$last = value('tid_generate()');
	$node->stop($how);
	$node->start;
	cmp_ok(value('tid_generate()'), 'gt', $last, "after a $how stop they go on");
}

# The server ran with a clock a day ahead, and its reservation has this time.
sub reserve
{
	my ($content) = @_;

	$node->stop('fast');
	unlink $node->data_dir . '/atproto.tid';
	append_to_file($node->data_dir . '/atproto.tid', $content);
	$node->start;
}
my $ahead = 1e6 * (time + 86400);
reserve("$ahead\n");
cmp_ok(value('tid_micros(tid_generate())'), '>', $ahead, 'a clock that went back does not take them back');
my ($first, $second) = split /\|/, value('tid_generate(), tid_generate()');
cmp_ok($second, 'gt', $first, 'and they still increase');
$node->restart;
cmp_ok(value('tid_generate()'), 'gt', $second, 'also after one more restart');
generate('clock behind');

reserve("nonsense\n");
my ($rc, $out, $err) = $node->psql('postgres', 'SELECT tid_generate()');
isnt($rc, 0, 'a damaged reservation is an error');
like($err, qr/file "atproto.tid" is damaged/, 'that names the file');
reserve("");
($rc, $out, $err) = $node->psql('postgres', 'SELECT tid_generate()');
isnt($rc, 0, 'so is an empty one');

$node->stop;
done_testing();
