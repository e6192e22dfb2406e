# 233_partition_autovacuum.pl
#		atproto.partition() and CALL atproto.maintain_partitions() do not wait until autovacuum has finished with a table:
#		PostgreSQL cancels the worker, as for ALTER TABLE.  Autovacuum of a large table takes hours.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('autovacuum', conf => "autovacuum_naptime = 1s\nlog_autovacuum_min_duration = 0\n");

# Dead rows in each page of a table, and a worker that looks at a page in a tenth of a second.
sub keep_vacuuming
{
	my ($table) = @_;

	query("ALTER TABLE $table SET (autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)");
	query("UPDATE $table SET rev = rev");
	wait_for("SELECT EXISTS (SELECT FROM pg_stat_progress_vacuum WHERE relid = '$table'::regclass)");
	return;
}

# Statements that must have the tables within half a minute, and the table of the worker that they cancel.
sub cancels
{
	my ($table, $sql, $said, $name) = @_;
	my $log = -s $node->logfile;

	keep_vacuuming($table);
	my ($rc, $out, $err) = $node->psql('postgres', "SET lock_timeout = '30s'; $sql");
	like("$out$err", $said, $name);
	like(slurp_file($node->logfile, $log), qr/ERROR:  canceling autovacuum task\n.*\n?.*automatic vacuum of table "postgres.\Q$table\E"/, "$name: the worker was cancelled");
	query("ALTER TABLE $table SET (autovacuum_enabled = off)") if query("SELECT count(*) FROM pg_class WHERE oid = to_regclass('$table') AND relkind = 'r'");
	return;
}

my @months = split /\n/, query(q{SELECT to_char(date_trunc('month', now() AT TIME ZONE 'UTC') - n * interval '1 month', 'YYYY_MM') FROM generate_series(0, 8) n});
query(q{CREATE SCHEMA a; SELECT atproto.create_tables('a'); SELECT atproto.partition('a', 'month', ahead => 0)});
query(<<'SQL');
INSERT INTO a.record (did, collection, rkey, cid, rev, value) SELECT ('did:plc:' || lpad(translate(n::text, '0189', 'abcd'), 24, 'a'))::did, 'app.bsky.feed.like',
	tid_floor((date_trunc('month', now() AT TIME ZONE 'UTC') - m * interval '1 month' + interval '1 day') AT TIME ZONE 'UTC' + n * interval '1 second')::recordkey,
	'bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy', tid_floor(now()), jsonb_build_object('text', repeat('x', 1000)) FROM generate_series(1, 3000) n, generate_series(0, 8, 4) m;
INSERT INTO a.repo (did, rev, sync) SELECT DISTINCT did, rev, 'synchronized' FROM a.record;
CALL atproto.maintain_partitions('a', ahead => 0);
SQL
cancels("a.record_$months[0]", q{CALL atproto.maintain_partitions('a', ahead => 1)}, qr/NOTICE:  made a.record_\d/, 'a month is made');
cancels("a.record_$months[8]", q{CALL atproto.maintain_partitions('a', ahead => 1, keep => '6 months')}, qr/NOTICE:  dropped a.record_$months[8]/, 'a month is dropped while autovacuum has it');
cancels('a.repo', q{CALL atproto.maintain_partitions('a', ahead => 1, keep => '2 months')}, qr/NOTICE:  dropped a.record_$months[4]/, 'a month is dropped while autovacuum has the repositories');
query(q{CREATE SCHEMA b; SELECT atproto.create_tables('b'); INSERT INTO b.record SELECT * FROM a.record; INSERT INTO b.repo SELECT * FROM a.repo});
cancels('b.record', q{SELECT atproto.partition('b', 'month', ahead => 0)}, qr/made b.record_$months[0]/, 'a table is partitioned');
$node->stop;
done_testing();
