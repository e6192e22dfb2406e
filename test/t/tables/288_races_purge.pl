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

# An export that was given up has left very many records: the batch with the deletion does not remove all of them.
start_over();
my $deletes = AtprotoTest::Server->start(make_capture('steps.py', 'a deleted', 'b 1 +x', 'a active', 'a 2 +y'), '--hold-at', 3);
query("CREATE TABLE gone (at xid8, n bigint);
	CREATE FUNCTION note_gone() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS \$\$ BEGIN INSERT INTO public.gone SELECT pg_current_xact_id(), count(*) FROM old; RETURN NULL; END \$\$;
	CREATE TRIGGER note_gone AFTER DELETE ON atproto.record REFERENCING OLD TABLE AS old FOR EACH STATEMENT EXECUTE FUNCTION note_gone();
	INSERT INTO atproto.repo (did, sync) VALUES ('$a', 'desynchronized');
	INSERT INTO atproto.record (did, collection, rkey, cid, rev) SELECT '$a', 'app.bsky.feed.post', ('k' || n)::recordkey, 'bafyreicn7u5fmsdbkwxdbdn5zlzmkilmkhgx5rx2n4vohhqzzqndvuc5ya', '3kaaaaaaaaa22' FROM generate_series(1, 45000) n");
query(subscribe_sql('s', $deletes, cursor => 0));
wait_for("SELECT purge_rev IS NULL AND status = 'deleted' FROM atproto.repo WHERE did = '$a'");
is(query('SELECT max(n), sum(n) FROM (SELECT sum(n) AS n FROM gone GROUP BY at) t'), '30000|45000', 'F-15: not more than 30,000 records go in one transaction');
is(query("SELECT count(*) FROM atproto.record WHERE did = '$a'"), '0', 'F-15: the rest is purged');
$deletes->release;
wait_for_seq($node, 's', 4);
is(query("SELECT sync FROM atproto.repo WHERE did = '$a'"), 'synchronized', 'V-35: the next repository has nothing of them');

$node->stop;
done_testing();
