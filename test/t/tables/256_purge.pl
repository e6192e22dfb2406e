# 256_purge.pl
#		The purge removes the records of a deleted account, but neither a record that another source has
#		just written anew nor the mark of a deletion that came meanwhile.  F-03, F-15.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $capture = make_capture('synth.py', 'erased');
my $node    = make_node('purge', conf => 'max_prepared_transactions = 3');
my ($erased, $purged, $twice) = map { did($_) } 'a' .. 'c';
my $server = AtprotoTest::Server->start($capture, '--hold-at', 4);

sub wait_for_lock
{
	my ($what) = @_;
	$node->poll_query_until('postgres',
		"SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND wait_event_type = 'Lock'")
	  or BAIL_OUT("nobody waits: $what");
	return;
}

# --- with the event ---

query(subscribe_sql('s', $server, cursor => 0));
wait_for_seq($node, 's', 3);
is(query("SELECT count(*) FROM atproto.record WHERE did = '$erased'"), '3', 'three records');
query("BEGIN; UPDATE atproto.record SET rev = '3zzzzzzzzzzzz' WHERE did = '$erased' AND rkey = 'b'; PREPARE TRANSACTION 'newer'");
$server->release;
wait_for_lock('the deletion');
query("COMMIT PREPARED 'newer'");
wait_for_seq($node, 's', 4);
is(query("SELECT string_agg(rkey::text, ',') FROM atproto.record WHERE did = '$erased'"), 'b',
	'a deletion leaves what somebody else has made newer');
is(query("SELECT purge_rev IS NULL FROM atproto.repo WHERE did = '$erased'"), 't', 'nothing else is left to do');

# --- later: a purge that a former process has not finished ---

query("SELECT atproto.pause('s')");
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
query(<<"SQL");
INSERT INTO atproto.record (did, collection, rkey, cid, rev)
	SELECT d::did, 'app.bsky.feed.post', r::recordkey, (SELECT cid FROM atproto.record LIMIT 1), r::atproto.tid
	FROM (VALUES ('$purged', '3aaaaaaaaaaaa'), ('$purged', '3bbbbbbbbbbbb'), ('$purged', '3cccccccccccc'),
		('$purged', '3dddddddddddd'), ('$twice', '3cccccccccccc')) v (d, r);
INSERT INTO atproto.repo (did, rev, active, purge_rev) VALUES ('$purged', '3cccccccccccc', false, '3cccccccccccc'),
	('$twice', '3bbbbbbbbbbbb', false, '3bbbbbbbbbbbb');
BEGIN;
UPDATE atproto.record SET rev = '3eeeeeeeeeeee' WHERE did = '$purged' AND rkey = '3bbbbbbbbbbbb';
PREPARE TRANSACTION 'newer';
BEGIN;
UPDATE atproto.repo SET purge_rev = '3cccccccccccc' WHERE did = '$twice';
PREPARE TRANSACTION 'again';
SELECT atproto.resume('s');
SQL
wait_for_lock('the purge');
query("COMMIT PREPARED 'newer'");
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM atproto.record WHERE rkey = '3aaaaaaaaaaaa'") or die;
is(query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM atproto.record WHERE did = '$purged'"), '3bbbbbbbbbbbb,3dddddddddddd',
	'a purge leaves what is newer, also when it has just become so');
wait_for_lock('the end of the purge');
query("COMMIT PREPARED 'again'");
$node->poll_query_until('postgres', "SELECT purge_rev IS NULL FROM atproto.repo WHERE did = '$purged'") or die;
is(query("SELECT purge_rev IS NULL, (SELECT count(*) FROM atproto.record r WHERE r.did = p.did) FROM atproto.repo p WHERE did = '$twice'"),
	'f|1', 'a deletion that another one has noted meanwhile is not taken for done');
query("SELECT atproto.pause('s')");
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");
query("SELECT atproto.resume('s')");
$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM atproto.repo WHERE purge_rev IS NOT NULL") or die;
is(query("SELECT count(*) FROM atproto.record WHERE did = '$twice'"), '0', 'the next process sees to it');
unlike(slurp_file($node->logfile), qr/ERROR/, 'no error');

expect_check('record newer than its repository', qr/revision 3zzzzzzzzzzzz/);
$node->stop;
done_testing();
