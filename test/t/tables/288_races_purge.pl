# 288_races_purge.pl
#		A purge removes the records of a deleted account while other sessions write: a newer record stays,
#		and an account that is deleted a second time is purged again.  The points are those of
#		doc/develop/races.md.  F-03, F-15.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Points;
use Test::More;

my $node   = make_node('races');
my $points = AtprotoTest::Points->new($node);
my $server = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x +y +z', 'b 1 +x', 'a 2 +w'));
my ($a, $b) = map { did($_) } 'a', 'b';

# Records of a; the account is deleted, and the purge is not finished.
sub with_purge
{
	start_over();
	query(subscribe_sql('s', $server, cursor => 0));
	wait_for_seq($node, 's', 3);
	query("SELECT atproto.pause('s')");
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
	query("UPDATE atproto.repo SET active = false, status = 'deleted', purge_rev = rev WHERE did = '$a'");
	return;
}

my $left = "SELECT string_agg(rkey::text, ' ' ORDER BY rkey) FROM atproto.record WHERE did = '$a'";

# A session writes a newer record at this moment.
with_purge();
my $session = $node->background_psql('postgres');
$session->set_query_timer_restart;
$session->query_safe("BEGIN; UPDATE atproto.record SET rev = tid_generate() WHERE did = '$a' AND rkey = 'x'");
query("SELECT atproto.resume('s')");
$points->blocked('atproto s');
$session->query_safe('COMMIT');
wait_for("SELECT purge_rev IS NULL FROM atproto.repo WHERE did = '$a'");
is(query($left), 'x', 'a record that was written meanwhile stays');

# The account comes back, and has a record, when all is removed but not yet noted.
with_purge();
$points->hold('records purged', 'atproto s');
query("SELECT atproto.resume('s')");
$points->wait('records purged', 'atproto s');
query("UPDATE atproto.repo SET active = true, status = NULL WHERE did = '$a';
	INSERT INTO atproto.record (did, collection, rkey, rev, cid, value)
		SELECT '$a'::did, collection, 'new', tid_generate(), cid, value FROM atproto.record WHERE did = '$b'");
$points->release('records purged', 'atproto s');
wait_for("SELECT purge_rev IS NULL FROM atproto.repo WHERE did = '$a'");
is(query($left), 'new', 'records purged: what comes after it stays');

# The account is deleted a second time, with more records than one step removes, by a transaction that commits
# while the purge waits for it.
with_purge();
$points->hold('records purged', 'atproto s');
query("SELECT atproto.resume('s')");
$points->wait('records purged', 'atproto s');
$session->query_safe("BEGIN; UPDATE atproto.repo SET purge_rev = tid_generate() WHERE did = '$a';
	INSERT INTO atproto.record (did, collection, rkey, rev, cid, value)
		SELECT r.did, r.collection, 'new', p.purge_rev, r.cid, r.value FROM (SELECT '$a'::did AS did, collection, cid, value FROM atproto.record WHERE did = '$b') r
		JOIN atproto.repo p ON p.did = r.did");
$points->release('records purged', 'atproto s');
$points->blocked('atproto s');
$session->query_safe('COMMIT');
wait_for(q{SELECT state = 'idle' FROM pg_stat_activity WHERE application_name = 'atproto s'});
query("SELECT atproto.pause('s')");
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
query("SELECT atproto.resume('s')");
wait_for("SELECT purge_rev IS NULL FROM atproto.repo WHERE did = '$a'");
is(query($left), '', 'records purged: deleted once more, all goes');
$session->quit;

$node->stop;
done_testing();
