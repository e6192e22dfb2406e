# 175_no_space.pl
#		A database cannot store anything for a while.  The errors are not the fault of any event, so no
#		event becomes a dead letter, and none is lost.  A trigger that raises the server's own SQLSTATEs
#		stands for the full disk.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use Test::More;

my $pds    = capture('pds.frames.gz');
my $node   = make_node('no_space', conf => "atproto.reconnect_delay = 50ms\natproto.reconnect_max_delay = 200ms\n");
my $server = AtprotoTest::Server->start($pds);

query(<<'SQL');
CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'could not extend file' USING ERRCODE = TG_ARGV[0];
END $$
SQL

# disk_full, out_of_memory, io_error, query_canceled, serialization_failure
for my $state (qw(53100 53200 58030 57014 40001))
{
	my $log = -s $node->logfile;

	query("CREATE TRIGGER full_disk BEFORE INSERT ON atproto.record FOR EACH ROW
		WHEN (NEW.collection::text = 'app.bsky.graph.block') EXECUTE FUNCTION full_disk('$state')");
	query(subscribe_sql('s', $server, cursor => 0));

	# the process ends, and is started again, with growing delays
	$node->wait_for_log(qr/could not extend file.*could not extend file/s, $log);
	like(query('SELECT seq, (SELECT count(*) FROM atproto.dead_letter) FROM atproto.cursor'), qr/^\d+\|0$/,
		"$state: nothing is taken for a bad event");
	is(query('SELECT stopped IS NULL FROM atproto.subscription'), 't', "$state: the subscription does not stop");

	query('DROP TRIGGER full_disk ON atproto.record');
	wait_for_seq($node, 's', $PDS_LAST);
	tables_match($node, $pds, "$state: when there is space again, everything is there");
	is(query('SELECT events FROM atproto.cursor'), $PDS_LAST, "$state: every event once");
	query(q{SELECT atproto.unsubscribe('s'); TRUNCATE atproto.record, atproto.repo});
}

done_testing();
