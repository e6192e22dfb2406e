# 433_gaps.pl
#		A gap closes when all of its events were read again with the settings of then (E-44).  A gap read in
#		part, or with different settings, stays open.  An operator can close a gap, and its row stays.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
# no directory answers requests for servers
my $node = make_node('gaps', conf => "max_worker_processes = 20\natproto.plc_url = 'https://127.0.0.1:1'\n");
my $gaps = q{SELECT string_agg(format('%s-%s %s', after_seq, before_seq, COALESCE(closed_how, 'open')), ', ' ORDER BY after_seq, id) FROM atproto.gap};

sub pause
{
	query(q{SELECT atproto.pause('s')});
	wait_for(q{SELECT pid IS NULL FROM atproto.stat_subscription});
	return;
}

# Pauses, starts to read all repositories again from this event, and sets the cursors, if given.
sub refill
{
	my ($from, @seqs) = @_;
	pause();
	query("SELECT atproto.refill('s', seq => $from)");
	query("SELECT atproto.set_cursor('s', $_)") foreach @seqs;
	query(q{SELECT atproto.resume('s')});
	wait_for_seq($node, 's', $PDS_LAST);
	return;
}

# Sets the cursor, once or several times, and follows the stream to its end.
sub set_cursor
{
	my (@seqs) = @_;
	pause();
	query("SELECT atproto.set_cursor('s', $_)") foreach @seqs;
	query(q{SELECT atproto.resume('s')});
	wait_for_seq($node, 's', $PDS_LAST);
	return;
}

# A subscription with a gap from 100 to 1001, which an operator made.
sub with_gap
{
	my ($server, $workers) = @_;
	start_over('gap');
	query(subscribe_sql('s', $server, cursor => 1, workers => $workers));
	wait_for_seq($node, 's', $PDS_LAST);
	set_cursor(100, 1000);
	is(query($gaps), '100-1001 open', "$workers: what is jumped over is a gap");
	return;
}

my $server = AtprotoTest::Server->start($pds);

# Reads all repositories again from this event, up to a second event, changes a setting, and reads on.
sub changed_at
{
	my ($from, $seq, @changes) = @_;
	pause();
	$server->restart('--hold-at', $seq + 1);
	query("SELECT atproto.refill('s', seq => $from); SELECT atproto.resume('s')");
	wait_for_seq($node, 's', $seq);
	$_->() foreach @changes;
	$server->release;
	wait_for_seq($node, 's', $PDS_LAST);
	$server->restart;
	return;
}

# Keeps only likes from this event on; the consumer may run or be paused.
sub likes_only
{
	my ($seq) = @_;
	query(q{UPDATE atproto.subscription SET collections = '{app.bsky.feed.like}'});
	wait_for("SELECT bool_and(settings_after = $seq) FROM atproto.cursor");
	return;
}

sub set_back
{
	my ($seq) = @_;
	pause();
	query("SELECT atproto.set_cursor('s', $seq); SELECT atproto.resume('s')");
	return;
}

sub elsewhere
{
	pause();
	query(q{UPDATE atproto.subscription SET target = 'elsewhere'; SELECT atproto.resume('s')});
	return;
}

query(q{CREATE SCHEMA elsewhere; SELECT atproto.create_tables('elsewhere')});
foreach my $workers (1, 3)
{
	with_gap($server, $workers);
	refill(500);
	is(query($gaps), '100-1001 open', "$workers: a part of it is not enough");
	set_cursor(100);
	is(query($gaps), '100-1001 open', "$workers: events that are passed over as old ones are not, either");
	query(q{SELECT atproto.refill('s', ARRAY(SELECT did FROM atproto.repo LIMIT 1))});
	wait_for_seq($node, 's', $PDS_LAST);
	is(query($gaps), '100-1001 open', "$workers: nor are those of one account");
	refill(100);
	wait_for(q{SELECT closed_at IS NOT NULL FROM atproto.gap});
	is(query($gaps), '100-1001 read again', "$workers: all of it is");
	is(query(q{SELECT string_agg(event, ', ' ORDER BY at) FROM atproto.subscription_log WHERE event LIKE 'gap%'}), 'gap, gap closed', "$workers: the log has both");

	with_gap($server, $workers);
	query(q{SELECT atproto.refill('s')});
	wait_for(q{SELECT closed_at IS NOT NULL FROM atproto.gap});
	is(query($gaps), '100-1001 read again', "$workers: from the oldest event on, which is before it");

	# The consumer has ended between the transaction that reached the gap's end and the one that closes the gap.
	with_gap($server, $workers);
	pause();
	query("SELECT atproto.refill('s', seq => 50); UPDATE atproto.cursor SET seq = $PDS_LAST; SELECT atproto.resume('s')");
	wait_for(q{SELECT closed_at IS NOT NULL FROM atproto.gap});
	is(query($gaps), '100-1001 read again', "$workers: the next consumer closes it");

	# The cursor is set again before it has reached the gap's end, and jumps over the rest.
	with_gap($server, $workers);
	refill(50, 1200);
	# the consumer checks whether a gap is over
	query("SELECT atproto.set_cursor('s', $PDS_LAST)");
	is(query($gaps), '50-1201 open, 100-1001 open', "$workers: who jumps over it again leaves it open");
	refill(1);
	wait_for(q{SELECT count(*) = 2 FROM atproto.gap WHERE closed_at IS NOT NULL});
	is(query($gaps), '50-1201 read again, 100-1001 read again', "$workers: both are read again");

	# The server no longer has all events of the gap.
	with_gap($server, $workers);
	pause();
	$server->restart('--oldest', 300);
	query(q{SELECT atproto.refill('s'); SELECT atproto.resume('s')});
	wait_for_seq($node, 's', $PDS_LAST);
	is(query($gaps), '100-1001 open', "$workers: the oldest event is in it");
	refill(50);
	is(query($gaps), '50-300 open, 100-1001 open', "$workers: a part of it is gone");
	$server->restart;

	# The same, and the clock is put back by an hour meanwhile.
	with_gap($server, $workers);
	pause();
	$server->restart('--oldest', 300);
	query(q{SELECT atproto.refill('s', seq => 50); UPDATE atproto.gap SET again_since = again_since + interval '1 hour'; SELECT atproto.resume('s')});
	wait_for_seq($node, 's', $PDS_LAST);
	is(query($gaps), '50-300 open, 100-1001 open', "$workers: a part of it is gone, whatever the clock says");
	$server->restart;
	set_cursor(40);
	is(query($gaps), '50-300 open, 100-1001 open', "$workers: and the cursor alone does not bring it back");

	# Settings change while the gap is read again: a part was left out, or went to a different table.
	with_gap($server, $workers);
	changed_at(100, 500, sub { likes_only(500) });
	is(query($gaps), '100-1001 open', "$workers: the filter changed within it");
	set_cursor(100);
	is(query($gaps), '100-1001 open', "$workers: then the cursor alone is not enough");
	refill(100);
	is(query($gaps), '100-1001 read again', "$workers: it is read again with that filter");
	with_gap($server, $workers);
	changed_at(50, 80, sub { likes_only(80) });
	is(query($gaps), '100-1001 read again', "$workers: the filter changed before it");
	with_gap($server, $workers);
	changed_at(100, 500, \&elsewhere);
	is(query($gaps), '100-1001 open', "$workers: the tables changed within it");
	with_gap($server, $workers);
	changed_at(100, 500, sub { query(q{UPDATE atproto.subscription SET max_dead_letters = 7}) });
	is(query($gaps), '100-1001 read again', "$workers: what changed leaves nothing out");
	with_gap($server, $workers);
	pause();
	query(q{SELECT atproto.refill('s', seq => 100); UPDATE atproto.subscription SET collections = '{app.bsky.feed.like}'; SELECT atproto.resume('s')});
	wait_for_seq($node, 's', $PDS_LAST);
	is(query($gaps), '100-1001 read again', "$workers: the filter changed before it was begun");

	# The cursor is set back in the middle, to an event that was read already; and the number of workers
	# changes.
	with_gap($server, $workers);
	changed_at(50, 700, sub { set_back(400) });
	is(query($gaps), '100-1001 read again', "$workers: a part of it was read twice");
	with_gap($server, $workers);
	pause();
	$server->restart('--oldest', 300, '--hold-at', 501);
	query(q{SELECT atproto.refill('s', seq => 50); SELECT atproto.resume('s')});
	wait_for_seq($node, 's', 500);
	query('UPDATE atproto.subscription SET workers = ' . (4 - $workers));
	wait_for('SELECT count(*) = ' . (4 - $workers) . ' FROM atproto.cursor');
	$server->release;
	wait_for_seq($node, 's', $PDS_LAST);
	is(query($gaps), '50-300 open, 100-1001 open', "$workers: what was missed is known to other workers, too");

	# A former stop has left the shards at different events, and the first one beyond what the server has forgotten.
	start_over('gap');
	$server->restart;
	query(subscribe_sql('s', $server, cursor => 1, workers => $workers));
	wait_for_seq($node, 's', $PDS_LAST);
	pause();
	$server->restart('--oldest', 300);
	query("UPDATE atproto.cursor SET seq = CASE WHEN shard = 0 AND $workers > 1 THEN 400 ELSE 200 END; SELECT atproto.resume('s')");
	wait_for_seq($node, 's', $PDS_LAST);
	is(query($gaps), '200-300 open', "$workers: what one of the workers misses is a gap");

	# What came after the cursor is forgotten when the stream is read from its oldest event.
	foreach my $set ("set_cursor('s', 0)", "refill('s')", "set_cursor('s', 0), atproto.set_cursor('s', 299)")
	{
		pause();
		query("DELETE FROM atproto.gap; UPDATE atproto.cursor SET seq = 200; SELECT atproto.$set; SELECT atproto.resume('s')");
		wait_for_seq($node, 's', $PDS_LAST);
		is(query($gaps), '200-300 open', "$workers: $set: what was left behind is a gap");
	}
	pause();
	query("DELETE FROM atproto.gap; UPDATE atproto.cursor SET seq = 350; SELECT atproto.set_cursor('s', 0), atproto.set_cursor('s', 0); SELECT atproto.resume('s')");
	wait_for_seq($node, 's', $PDS_LAST);
	is(query($gaps), '', "$workers: unless the oldest event is before it");
	$server->restart;
}

# --- the cursor jumps while repositories are refilled: an audit, and no longer the stream, proves the records of the refill ---

my $another = AtprotoTest::Server->start($pds);
foreach my $workers (1, 2)
{
	foreach my $jump ('an operator', 'the server', 'another server')
	{
		start_over('gap');
		query(subscribe_sql('s', $server, cursor => 1, workers => $workers));
		wait_for_seq($node, 's', $PDS_LAST);
		pause();
		$server->restart('--hold-at', 501);
		query(q{SELECT atproto.refill('s', seq => 1); SELECT atproto.resume('s')});
		wait_for_seq($node, 's', 500);
		pause();
		query(sprintf "UPDATE atproto.subscription SET url = '%s'", $another->url) if $jump eq 'another server';
		query("SELECT atproto.set_cursor('s', 999)") if $jump =~ /^an/;
		$server->restart($jump eq 'the server' ? ('--oldest', 1000) : ());
		query(q{SELECT atproto.resume('s')});
		wait_for_seq($node, 's', $PDS_LAST);
		is(query(q{SELECT count(*) FILTER (WHERE sync = 'unproven' AND refill_sync IS NOT NULL), count(*) FILTER (WHERE sync = 'unproven') > 0 FROM atproto.repo}),
			'0|t', "$workers: $jump: the refill has ended");
		$server->restart;
	}
}

# An audit leaves out a repository without a tree, so the repository is fetched, also for the only subscription of the target.
foreach my $source ('a relay', 'a Jetstream')
{
	my $steps = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a 2 +y', 'a 3 +z', 'a 4 +w'));

	start_over('gap');
	query(subscribe_sql('s', $steps, cursor => 0, backfill => "'repair'"));
	wait_for_seq($node, 's', 4);
	pause();
	query('UPDATE atproto.repo SET data = NULL');
	$steps->restart('--hold-at', 3);
	query(q{SELECT atproto.refill('s', seq => 0); SELECT atproto.resume('s')});
	wait_for_seq($node, 's', 2);
	pause();
	# a Jetstream's events have no chain
	query('UPDATE atproto.repo SET refill_sync = NULL') if $source eq 'a Jetstream';
	query("SELECT atproto.set_cursor('s', 4)");
	is(query('SELECT sync, j.subscription FROM atproto.repo LEFT JOIN atproto.repo_job j USING (did)'), 'desynchronized|s', "V-31: $source: the only subscription of the target fetches a repository whose refill has ended");
}

# --- after the gap is closed, the missed records are stored ---

# The number of missing records, and the number of surplus records.
my $records = q{SELECT count(*) FILTER (WHERE r IS NULL), count(*) FILTER (WHERE c IS NULL) FROM complete c
	FULL JOIN (SELECT did, collection, rkey, cid FROM atproto.record) r USING (did, collection, rkey, cid)};
start_over('gap');
query(subscribe_sql('s', $server, cursor => 1));
wait_for_seq($node, 's', $PDS_LAST);
query('CREATE TABLE complete AS SELECT did, collection, rkey, cid FROM atproto.record');
start_over('gap');
query(subscribe_sql('s', $server, cursor => 1000));
wait_for_seq($node, 's', $PDS_LAST);
pause();
query(q{UPDATE atproto.cursor SET seq = 100; SELECT atproto.set_cursor('s', 1000)});
set_cursor(1);
is(query($gaps), '100-1001 open', 'the cursor alone closes no gap');
unlike(query($records), qr/^0/, 'as records are missing');
pause();
$server->restart('--hold-at', 1001);
query(q{SELECT atproto.refill('s'); SELECT atproto.resume('s')});
wait_for(q{SELECT closed_at IS NOT NULL FROM atproto.gap});
is(query("SELECT seq, closed_how FROM atproto.cursor, atproto.gap"), '1000|read again', 'it closes at its end');
like(query($records), qr/^0\|[1-9]/, 'none is missing when it is closed; some are there again that later events delete');
$server->release;
wait_for_seq($node, 's', $PDS_LAST);
is(query($records), '0|0', 'none is too much when the refill has come to these');
$server->restart;

# --- a second subscription to the same tables refills them meanwhile: then the second one applies the events ---

query(q{SELECT atproto.pause('s'); UPDATE atproto.gap SET closed_at = NULL, closed_how = NULL, again_since = NULL});
wait_for(q{SELECT pid IS NULL FROM atproto.stat_subscription WHERE name = 's'});
query(subscribe_sql('other', $server, cursor => $PDS_LAST));
query(q{SELECT atproto.pause('other')});
query(q{SELECT atproto.refill('s'); SELECT atproto.refill('other'); SELECT atproto.resume('s')});
wait_for_seq($node, 's', $PDS_LAST);
# the consumer checks whether a gap is over
query("SELECT atproto.set_cursor('s', $PDS_LAST)");
is(query($gaps), '100-1001 open', 'events that another one has to take close no gap');
query(q{SELECT atproto.unsubscribe('other')});

# --- an owner of a subscription may write any numbers into gap ---

pause();
query(q{DELETE FROM atproto.gap; INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason, again_since)
	SELECT subscription, endpoint, a, b, 'none', now() FROM atproto.cursor,
		(VALUES (9223372036854775807, 2000), (-9223372036854775808, -9223372036854775808), (9223372036854775807, NULL)) v (a, b)});
refill(1);
is(query(q{SELECT count(*) FILTER (WHERE closed_at IS NULL AND before_seq IS NULL) FROM atproto.gap}), '1', 'numbers that are none do no harm, and an end that nobody knows is not reached');

# --- streams without repositories apply repeats: the cursor alone is enough ---

my $events = AtprotoTest::Server->start(make_capture('streams.py', 'events', 300));
start_over('gap');
query(subscribe_sql('s', $events, nsid => 'com.example.stream.subscribeEvents', cursor => 0));
wait_for_seq($node, 's', 600);
foreach my $begin (100, 0)
{
	query(q{SELECT atproto.pause('s'); TRUNCATE atproto.gap});
	wait_for(q{SELECT pid IS NULL FROM atproto.stat_subscription});
	query(qq{SELECT atproto.set_cursor('s', 100), atproto.set_cursor('s', 300), atproto.set_cursor('s', $begin)});
	is(query($gaps), '100-301 open', "from $begin: a gap in messages");
	query(q{SELECT atproto.resume('s')});
	wait_for(q{SELECT closed_at IS NOT NULL FROM atproto.gap});
	is(query($gaps), '100-301 read again', "from $begin: it closes when they have been read again");
}
$events->stop;

# --- a session has locked the gap at the moment of closing ---

with_gap($server, 1);
pause();
query(q{SELECT atproto.refill('s', seq => 100)});
my $session = $node->background_psql('postgres');
$session->query_safe('BEGIN; SELECT FROM atproto.gap FOR UPDATE');
query(q{SELECT atproto.resume('s')});
wait_for_seq($node, 's', $PDS_LAST);
pause();
is(query($gaps), '100-1001 open', 'nobody waits for who has locked a gap');
$session->query_safe('COMMIT');
$session->quit;
query(qq{SELECT atproto.set_cursor('s', $PDS_LAST)});
is(query($gaps), '100-1001 read again', 'it is closed when the cursor is set the next time');
with_gap($server, 1);
set_cursor(100, 1000);
is(query($gaps), '100-1001 open, 100-1001 open', 'missed twice');

# --- by hand ---

query(q{CREATE ROLE other LOGIN; GRANT USAGE ON SCHEMA atproto TO other});
my $close = sub { my (undef, undef, $err) = $node->psql('postgres', $_[0]); return $err };
like($close->('SET ROLE other; SELECT atproto.close_gap(1)'), qr/permission denied/, 'not by everybody');
query(q{GRANT EXECUTE ON FUNCTION atproto.close_gap TO other; GRANT SELECT, UPDATE ON atproto.gap TO other; GRANT SELECT ON atproto.subscription TO other});
my $id = query('SELECT min(id) FROM atproto.gap');
like($close->("SET ROLE other; SELECT atproto.close_gap($id)"), qr/there is no open gap with id $id/, 'nor of a subscription of others');
like($close->('SELECT atproto.close_gap(0)'), qr/there is no open gap with id 0\nHINT/, 'one that is not there');
like($close->('SELECT atproto.close_gap(NULL)'), qr/id must not be null/, 'null');
is($close->("SELECT atproto.close_gap($id, 'all repositories were fetched')"), '', 'an operator closes it');
is(query("SELECT closed_how, closed_at <= now() FROM atproto.gap WHERE id = $id"), 'all repositories were fetched|t', 'and says how');
like($close->("SELECT atproto.close_gap($id)"), qr/there is no open gap/, 'once');
$id = query('SELECT max(id) FROM atproto.gap');
is($close->("SELECT atproto.close_gap($id)"), '', 'or does not say how');
is(query("SELECT closed_how = 'by ' || session_user FROM atproto.gap WHERE id = $id"), 't', 'then it is known who it was');

$node->stop;
done_testing();
