# 238_unlogged.pl
#		An UNLOGGED data table is empty after a crash, while cursors and states of repositories survive.
#		subscribe() and other functions refuse an UNLOGGED table; a consumer with such a table stops
#		trusting the states of the repositories, until an audit has proven each state.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds    = capture('pds.frames.gz');
my $held   = 800;
my $node   = make_node('unlogged');
my $server = AtprotoTest::Server->start($pds, '--hold-at', $held);

sub refused
{
	my ($sql, $pattern, $name) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like($err, $pattern, $name);
	return;
}

sub stops
{
	my ($subscription, $table, $name) = @_;

	wait_for("SELECT stopped IS NOT NULL FROM atproto.subscription WHERE name = '$subscription'");
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	like(query("SELECT stopped FROM atproto.subscription WHERE name = '$subscription'"), qr/^table \Q$table\E is unlogged: a crash of the server would empty it/, $name);
	return;
}

# --- altered while events come ---

query(subscribe_sql('s', $server, cursor => 0));
wait_for_seq($node, 's', $held - 1);
query(q{UPDATE atproto.repo SET sync = 'synchronized' WHERE did IN (SELECT did FROM atproto.record)});
my $complete = query(q{SELECT count(*) FROM atproto.repo WHERE sync = 'synchronized'});
cmp_ok($complete, '>', 0, 'there are repositories that are complete');
query('ALTER TABLE atproto.record SET UNLOGGED');
$server->release;
stops('s', 'atproto.record', 'the next batch stops the subscription');
is(query(q{SELECT count(*) FROM atproto.repo WHERE sync = 'synchronized'}), '0', 'no repository is said to be complete');
is(query(q{SELECT count(*) FROM atproto.repo WHERE sync = 'unproven'}), $complete, 'an audit has to prove it');

# --- found after a crash ---

query(q{UPDATE atproto.repo SET sync = 'synchronized' WHERE sync = 'unproven'; SELECT atproto.resume('s')});
stops('s', 'atproto.record', 'it is still so');
query(q{UPDATE atproto.repo SET sync = 'synchronized' WHERE sync = 'unproven'; CHECKPOINT});
query(q{UPDATE atproto.subscription SET stopped = NULL, stopped_at = NULL});
stops('s', 'atproto.record', 'whoever starts it');
query(q{UPDATE atproto.repo SET sync = 'synchronized' WHERE sync = 'unproven'});
$node->stop('immediate');
$node->append_conf('postgresql.conf', "atproto.databases = 'template1'");
$node->start;
is(query('SELECT count(*) FROM atproto.record'), '0', 'a crash empties the table');
query(q{UPDATE atproto.subscription SET stopped = NULL, stopped_at = NULL});
$node->append_conf('postgresql.conf', "atproto.databases = 'postgres'");
$node->restart;
stops('s', 'atproto.record', 'the consumer that starts after a crash');
is(query(q{SELECT count(*) FROM atproto.repo WHERE sync = 'unproven'}), $complete, 'does not believe the states');
query(q{ALTER TABLE atproto.record SET LOGGED; SELECT atproto.resume('s')});
wait_for_seq($node, 's', $PDS_LAST);
$node->psql('postgres', 'CALL atproto.audit_all()');
cmp_ok(query(q{SELECT count(*) FROM atproto.repo WHERE sync = 'desynchronized'}), '>', 0, 'audits find what is missing');
is(query(q{SELECT count(*) FROM atproto.repo WHERE sync = 'unproven' AND active AND data IS NOT NULL}), '0', 'of each account that is active');

# --- refused from the beginning ---

query(q{CREATE SCHEMA r; SELECT atproto.create_tables('r'); ALTER TABLE r.link SET UNLOGGED});
my $refusal = qr/table r.link is unlogged: .*\nHINT:  ALTER TABLE r.link SET LOGGED/;
refused(subscribe_sql('r', $server, cursor => 0, target => "'r'"), $refusal, 'subscribe() refuses it');
refused(q{SELECT atproto.create_tables('r')}, $refusal, 'create_tables() does');
refused(q{SELECT atproto.partition('r', 'collection')}, $refusal, 'partition() does');
is(query(q{SELECT count(*) FROM atproto.subscription WHERE name = 'r'}) . query(q{SELECT relkind FROM pg_class WHERE oid = 'r.record'::regclass}), '0r', 'nothing is changed');

# --- an unlogged partition, also for a backfill ---

query(q{ALTER TABLE r.link SET LOGGED; SELECT atproto.partition('r', 'collection'); ALTER TABLE r.record_app_bsky_feed_like SET UNLOGGED});
refused(q{CALL atproto.maintain_partitions('r')}, qr/table r.record_app_bsky_feed_like is unlogged/, 'maintain_partitions() refuses a partition');
query(q{ALTER TABLE r.record_app_bsky_feed_like SET LOGGED});
query(subscribe_sql('r', $server, cursor => 0, target => "'r'"));
wait_for_seq($node, 'r', $PDS_LAST);
query(q{SELECT atproto.pause('r')});
wait_for(q{SELECT pid IS NULL FROM atproto.stat_subscription WHERE name = 'r'});
query(q{ALTER TABLE r.record_app_bsky_feed_like SET UNLOGGED; SELECT atproto.resume('r')});
stops('r', 'r.record_app_bsky_feed_like', 'a consumer stops for a partition');
refused(q{SELECT atproto.load_car('did:plc:z72i7hdynmk6r22z27h6tvur', '\x00', 'r')}, qr/table r.record_app_bsky_feed_like is unlogged/, 'load_car() refuses it');

expect_check('unlogged table', qr/record_app_bsky_feed_like/);
$node->stop;
done_testing();
