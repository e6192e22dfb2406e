# 233_partition_claims.pl
#		A month is dropped while an audit or a fetch has read records of the month: no repository that has lost records
#		claims to be synchronized or proven afterwards.  P-40.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

my $files  = make_exports();
my $node   = make_node('partition_claims', conf => "autovacuum = off\n");
my $points = AtprotoTest::Points->new($node);

# A target in partitions by month.
sub make_target
{
	my ($name) = @_;

	query("CREATE SCHEMA $name; SELECT atproto.create_tables('$name'); SELECT atproto.partition('$name', 'month', ahead => 0)");
	return;
}

# sync and proven collections of all repositories of a target.
sub claims
{
	my ($target) = @_;

	return query("SELECT string_agg(concat_ws(' ', sync, proved, proved_rev), ', ' ORDER BY did) FROM $target.repo");
}

# All months of the exports are over.
sub drops
{
	my ($target) = @_;

	return "CALL atproto.maintain_partitions('$target', ahead => 0, keep => '0')";
}

# Record keys with a month.
my $IN_MONTHS = q{rkey::text ~ '^3[a-z2-7]{12}$'};

sub wait_until_removed
{
	my ($target) = @_;

	wait_for("SELECT NOT EXISTS (SELECT FROM $target.record WHERE $IN_MONTHS)");
	return;
}

# Drops months before January 2026, the month of the exports.
my $BEFORE = q{now() - timestamptz '2026-01-02'};

# An open transaction, which delays the drop of a month.
sub begin_reading
{
	my ($target) = @_;
	my $session = $node->background_psql('postgres');

	$session->query_safe("BEGIN; SELECT count(*) FROM $target.record");
	return $session;
}

# The keeper tries to lock a table.
sub wait_until_tried
{
	wait_for(q{SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.application_name = 'keeper' AND NOT l.granted)});
	return;
}

# --- an audit reads the records, a month is dropped, the audit writes its result ---

make_target('read');
query(<<"SQL");
INSERT INTO atproto.subscription (name, url, target, enabled, links) VALUES ('read', 'wss://localhost:1', 'read', false, 'all');
SELECT atproto.load_car('${\did('a')}', pg_read_binary_file('$files/first.car'), 'read');
SELECT atproto.load_car('${\did('c')}', pg_read_binary_file('$files/big.car'), 'read');
INSERT INTO read.link_source VALUES (1, 'app.bsky.feed.like', 'subject.uri');
INSERT INTO read.link (target, source, rkey, did) VALUES ('at://did:web:a.test', 1, '3aaaaaaaaaa22', 'did:web:b.test');
CALL atproto.maintain_partitions('read', ahead => 0, keep => $BEFORE);
UPDATE read.repo SET sync = 'unproven', proved = NULL, proved_rev = NULL;
SQL
$points->hold('repositories audited', 'auditor');
my $auditor = $points->session('auditor', "CALL atproto.audit_all('read')");
$points->wait('repositories audited', 'auditor');
my $keeper = $points->session('keeper', drops('read'));
wait_until_removed('read');
$points->release('repositories audited', 'auditor');
$auditor->finish;
like(($keeper->finish)[1], qr/dropped read\.record_/, 'a month is dropped while an audit is made');
unlike(claims('read'), qr/\bsynchronized|\d/, 'P-40: and the audit does not say that the repositories are whole');

# --- readers do not wait for a session that changes a repository ---

my $fetched = did('a');
my $big     = did('c');

make_target('held');
query(<<"SQL");
INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('held', 'wss://localhost:1', 'held', false);
SELECT atproto.load_car('$fetched', pg_read_binary_file('$files/first.car'), 'held');
SELECT atproto.load_car('$big', pg_read_binary_file('$files/big.car'), 'held');
CALL atproto.maintain_partitions('held', ahead => 0, keep => $BEFORE);
UPDATE held.repo SET sync = 'resyncing', hold = 'resync' WHERE did = '$fetched';
SQL
my $reader = begin_reading('held');
$keeper = $points->session('keeper', drops('held'));
wait_until_tried();
is(claims('held'), 'desynchronized, partial', 'before the month is dropped, its repositories claim nothing, and what is being fetched will not be synchronized');
my $claimer = $node->background_psql('postgres');
$claimer->query_safe("BEGIN; UPDATE held.repo SET sync = 'synchronized' WHERE did = '$big'");
$reader->query_safe('COMMIT');
wait_until_tried();
is(query(q{SET lock_timeout = '10s'; SELECT count(*) > 20000 FROM held.record}), 't', 'a reader waits for no session with a locked repository');
$claimer->query_safe('COMMIT');
like(($keeper->finish)[1], qr/dropped held\.record_2026_01/, 'the month is dropped in the end');
is(claims('held'), 'desynchronized, partial', 'P-40: and what was claimed meanwhile is withdrawn');
$_->quit foreach $reader, $claimer;
query('UPDATE held.repo SET hold = NULL');

# --- months with links, whose records are removed in steps: a step waits for whoever is about to claim a repository ---

# P-40: while the claimer waits, one of two repositories has no row yet; a claim comes before the step reads the records.
make_target('meets');
my ($there, $new) = ('did:web:there.test', 'did:web:new.test');
query(<<"SQL");
INSERT INTO meets.record (did, collection, rkey, cid, rev) SELECT did, 'app.bsky.feed.like', '3mbgkkiybw222', 'bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy', '3mbgkkiybw222'
FROM (VALUES ('$there'::did), ('$new')) v (did);
INSERT INTO meets.repo (did, rev) VALUES ('$there', '3mbgkkiybw222');
INSERT INTO meets.link_source VALUES (1, 'app.bsky.feed.like', 'subject.uri');
INSERT INTO meets.link (target, source, rkey, did) VALUES ('at://did:web:a.test', 1, '3aaaaaaaaaa22', 'did:web:b.test');
CALL atproto.maintain_partitions('meets', ahead => 0);
SQL
my $claims = q{sync = 'synchronized', proved = 0, proved_rev = rev};
$claimer = $node->background_psql('postgres');
$claimer->query_safe("BEGIN; UPDATE meets.repo SET $claims");
$keeper = $points->session('keeper', drops('meets'));
wait_until_tried();
is(query('SELECT count(*) FROM meets.record'), '2', 'records of a repository that is about to be claimed stay');
$claimer->query_safe("INSERT INTO meets.repo (did, rev) VALUES ('$new', '3mbgkkiybw222'); UPDATE meets.repo SET $claims WHERE did = '$new'; COMMIT");
like(($keeper->finish)[1], qr/dropped meets\.record_/, 'the month is dropped when the claim has come');
is(claims('meets'), 'partial, partial', 'P-40: and no repository claims the records of the month');
$claimer->quit;

# links by hand
expect_check('link of no record');
$node->stop;
done_testing();
