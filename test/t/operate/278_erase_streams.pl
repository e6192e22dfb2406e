# 278_erase_streams.pl
#		All accounts are blocked: no event of any kind of stream leaves a row or a request, and each is counted.  A
#		refill() and a replay of the stream bring no account back, also on a promoted standby.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('erase_streams', init => { allows_streaming => 1 }, conf => "max_worker_processes = 30\natproto.reconnect_delay = 50ms\natproto.plc_url = 'https://127.0.0.1:1'");
my $pds  = capture('pds.frames.gz');
my $relay = AtprotoTest::Server->start($pds);
my $nsid = 'com.atproto.label.subscribeLabels';
my $labels = capture('labels.frames.gz');
my $labeler = AtprotoTest::Server->start($labels);
my %texts = map { $_ => texts($_, $pds) } qw(v1 v2);
my %jetstreams = map { $_ => AtprotoTest::Server->start($texts{$_}) } keys %texts;

# What no account that is blocked may be in: the rows of the target, and what waits.
sub nothing_of
{
	my ($schema) = @_;
	return query("SELECT (SELECT count(*) FROM $schema.repo) + (SELECT count(*) FROM $schema.record) + (SELECT count(*) FROM $schema.record_event) + (SELECT count(*) FROM $schema.link)"
		. " + (SELECT count(*) FROM $schema.label) + (SELECT count(*) FROM atproto.held_event) + (SELECT count(*) FROM atproto.repo_job) + (SELECT count(*) FROM atproto.status_request)"
		. " + (SELECT count(*) FROM atproto.dead_letter) + (SELECT count(*) FROM atproto.identity_request) + (SELECT count(*) FROM atproto.identity)");
}

# the accounts
query('CREATE SCHEMA open; ' . subscribe_sql('open', $relay, cursor => 0, target => "'open'", events => "'keep'", links => "'all'"));
query(subscribe_sql('open_labels', $labeler, nsid => $nsid, cursor => 0, target => "'open'"));
wait_for_seq($node, 'open', $PDS_LAST);
wait_for_seq($node, 'open_labels', 433);
query(q{CREATE TABLE accounts AS SELECT did FROM open.repo UNION SELECT src FROM open.label});
query("INSERT INTO atproto.blocked_account (did, target) SELECT did, s::name FROM accounts, unnest('{plain,workers,whole,v1,v2,labels}'::text[]) s");
my %follow = (plain => [ $relay, verify => "'hash'" ], workers => [ $relay, workers => 2 ], whole => [ $relay, verify => "'full'", backfill => "'repair'" ], v1 => [ $jetstreams{v1} ], v2 => [ $jetstreams{v2} ], labels => [ $labeler, nsid => $nsid ]);
foreach my $schema (sort keys %follow)
{
	my ($server, %args) = @{ $follow{$schema} };
	query("CREATE SCHEMA $schema; SELECT atproto.create_tables('$schema'); " . subscribe_sql($schema, $server, cursor => 0, target => "'$schema'", ($schema eq 'labels' ? () : (events => "'keep'", links => "'all'")), %args));
}
wait_for_seq($node, $_, $PDS_LAST) foreach qw(plain workers whole);
wait_for_seq($node, 'labels', 433);
wait_for_texts($_, $texts{$_}) foreach qw(v1 v2);
foreach my $schema (sort keys %follow)
{
	is(nothing_of($schema), '0', "$schema: no row");
	my $said = query("SELECT skips - 'blocked', COALESCE((skips ->> 'blocked')::bigint, 0) = events, events > 10 FROM atproto.stat_subscription WHERE name = '$schema'");
	is($said, '{}|t|t', "$schema: each event is counted as blocked, and nothing else");
}

# --- once more, and on a standby ---

query(q{SELECT atproto.pause('open')});
query("INSERT INTO atproto.blocked_account (did, target) SELECT DISTINCT did, 'open'::name FROM open.repo");
query("CALL atproto.erase('$_', target => 'open')") foreach split /\n/, query('SELECT did FROM open.repo');
is(query('SELECT (SELECT count(*) FROM open.record) + (SELECT count(*) FROM open.repo)'), '0', 'all are erased');
query(q{SELECT atproto.refill('open', seq => 0), atproto.resume('open')});
wait_for("SELECT (skips ->> 'blocked')::bigint > 10 FROM atproto.stat_subscription WHERE name = 'open'");
wait_for_seq($node, 'open', $PDS_LAST);
is(query('SELECT (SELECT count(*) FROM open.record) + (SELECT count(*) FROM open.repo) + (SELECT count(*) FROM open.record_event)'), '0', 'a refill brings nothing back');

$node->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('erase_standby');
$standby->init_from_backup($node, 'base', has_streaming => 1);
$standby->start;
query("SELECT atproto.set_cursor('plain', 0), atproto.pause('plain')");
query("DELETE FROM atproto.blocked_account WHERE target = 'v1'");
$node->wait_for_catchup($standby, 'replay', $node->lsn('insert'));
$node->stop('immediate');
$standby->promote;
ask_from_now_on($standby);
query("SELECT atproto.resume('plain'), atproto.set_cursor('v1', 0)");
wait_for_seq($standby, 'plain', $PDS_LAST);
wait_for('SELECT count(*) > 0 FROM v1.record');
is(query('SELECT (SELECT count(*) FROM plain.record) + (SELECT count(*) FROM plain.repo)'), '0', 'a promoted standby keeps the accounts away, and lets in those of whom the block was lifted');

done_testing();
