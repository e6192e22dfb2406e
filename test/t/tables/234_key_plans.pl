# 234_key_plans.pl
#		The consumer's statements that know the keys of rows must use the index of the key.  Other indexes
#		look as good by statistics of a nearly empty table, as at the beginning of a month, but would read
#		many rows later.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($capture) = simulate(
	'--events' => 3000, '--accounts' => 100, '--history' => 0,
	'--mix' => 'account=0,identity=0,delete=20,update=10,like=40,post=30');
my $last   = read_capture($capture);
my $node   = make_node('key_plans', conf => "autovacuum = off\n");
my $server = AtprotoTest::Server->start($capture);

# Rows of accounts that the oracle does not use.
my $fill = <<'SQL';
INSERT INTO %1$s.record (did, collection, rkey, cid, rev, value)
SELECT ('did:plc:' || translate(substr(md5(n::text), 1, 24), '0189', 'wxyz'))::did, 'app.bsky.feed.like', tid_floor(now() + n * interval '1 ms')::recordkey, c.cid, '3khuwc44dlywo', '{}'
FROM generate_series(%2$s, %3$s) n, (VALUES ('bafyreib2rxk3rybk3aobmv5cjuql3bm2twh4jo5uxgf5kpqcsgz7soitae'::cidlink)) c (cid);
INSERT INTO %1$s.link (target, source, rkey, did)
SELECT ('at://did:web:nobody.example/app.bsky.feed.post/' || n)::aturi, 1, r.rkey, r.did FROM generate_series(%2$s, %3$s) n, (SELECT * FROM %1$s.record LIMIT 1) r;
SQL

sub scans
{
	my ($schema, $table, $unique) = @_;
	return query("SELECT COALESCE(sum(idx_scan), 0) FROM pg_stat_user_indexes s JOIN pg_index i USING (indexrelid)
		WHERE s.schemaname = '$schema' AND s.relname ~ '^$table(_rest|_2|\$)' AND i.indisunique = $unique");
}

foreach my $schema ('plain', 'month')
{
	query("CREATE SCHEMA $schema; SELECT atproto.create_tables('$schema')");
	query("CREATE INDEX ON $schema.record (collection); CREATE INDEX ON $schema.record (did); CREATE INDEX ON $schema.link (did); CREATE INDEX ON $schema.link (rkey)");
	query("SELECT atproto.partition('$schema', 'month')") if $schema eq 'month';
	query(sprintf $fill, $schema, 1, 1);
	query("ANALYZE $schema.record; ANALYZE $schema.link");
	query(sprintf $fill, $schema, 2, 3000);
	query(subscribe_sql($schema, $server, cursor => 0, target => "'$schema'", links => "'all'"));
	wait_for_seq($node, $schema, $last);
	query("SELECT atproto.unsubscribe('$schema')");
	foreach my $table ('record', 'link')
	{
		wait_for("SELECT sum(n_tup_del) > 10 FROM pg_stat_user_tables WHERE schemaname = '$schema' AND relname ~ '^$table(_rest|_2|\$)'");
		cmp_ok(scans($schema, $table, 'true'), '>', 0, "$schema: rows of $table are looked for by the key");
		is(scans($schema, $table, 'false'), '0', "$schema: and by nothing else");
	}
	query("DELETE FROM $schema.record WHERE rev = '3khuwc44dlywo'");
	tables_match($node, $capture, "$schema: as the oracle says", schema => $schema, modes => ['record']);
}

# The rows of 2024 came after partition(), which makes partitions only for months with rows.
expect_check('month without a partition', qr/record_2024_01/);
$node->stop;
done_testing();
