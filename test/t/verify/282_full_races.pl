# 282_full_races.pl
#		Held events are released exactly once, in their order, whichever processes release them at the same
#		time and whenever a process ends.  The points are those of doc/develop/races.md.  R-30, R-32.  No
#		manager runs, and so no fetcher.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Lookups;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

my $node   = make_node('held', databases => '', conf => "max_worker_processes = 12\natproto.reconnect_delay = 50ms");
my $points = AtprotoTest::Points->new($node);
my %who    = accounts_of('full.py', 'rotations');
my $names  = keys %who;
my ($did, $key) = @{ $who{unknown} }{qw(did first)};

# Three events of an account are held; the stream goes on with further accounts.
sub with_held
{
	my (@subscriptions) = @_;

	query('DELETE FROM atproto.subscription');
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
	query('TRUNCATE atproto.record, atproto.repo, atproto.record_event, atproto.identity, atproto.identity_request, atproto.held_release');
	foreach my $name (@subscriptions)
	{
		my $server = AtprotoTest::Server->start(make_capture('full.py', 'rotations'));

		query(subscribe_sql($name, $server, cursor => 0, verify => "'full'", dids => "'{$did}'", events => "'keep'"));
		wait_for_seq($node, $name, $names + 15);
	}
	return;
}

my $name_it = "INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at)"
	. " VALUES ('$did', 'good', '\\x$key', 'pds.example.com', now(), now()) ON CONFLICT DO NOTHING;"
	. "INSERT INTO atproto.held_release (target, did, subscription, shard_key) SELECT DISTINCT target, did, subscription, shard_key FROM atproto.held_event";
my $held    = 'SELECT count(*) FROM atproto.held_event';
my $events  = "SELECT string_agg(rkey::text, ',' ORDER BY rev, seq), count(*) FROM atproto.record_event";
my $repo    = 'SELECT sync, hold, verified FROM atproto.repo';

sub is_done
{
	my ($what) = @_;

	wait_for("SELECT count(*) = 0 FROM atproto.held_event");
	wait_for("SELECT count(*) = 0 FROM atproto.held_release");
	is(query($events), '10,20,30|3', "$what: each once");
	is(query($repo), 'synchronized||t', "$what: nobody waits");
	return;
}

# The process ends after everything was done but the commit.
with_held('s');
is(query($held), '3', 'three events wait');
$points->hold('held events next', 'atproto s');
query($name_it);
$points->wait('held events next', 'atproto s');
my $pid = query("SELECT pid FROM pg_stat_activity WHERE application_name = 'atproto s'");
query("SELECT pg_terminate_backend($pid)");
wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid");
is(query($held) . query($events), '3|0', 'held events next: nothing is done when the process ends');
$points->release('held events next', 'atproto s');
query("SELECT atproto.resume('s')");
is_done('the next process');

# The same with a crash of the server.
with_held('s');
$points->hold('held events next', 'atproto s');
query($name_it);
$points->wait('held events next', 'atproto s');
$pid = query("SELECT pid FROM pg_stat_activity WHERE application_name = 'atproto s'");
kill 'KILL', $pid;
$points = undef;
wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid", gone => 1);
$points = AtprotoTest::Points->new($node);
query("SELECT atproto.resume('s')");
is_done('after a crash');

# Two subscriptions hold the same events, and both are told.
with_held('s', 't');
is(query($held), '6', 'each has its own');
$points->hold('held events read', 'atproto s');
$points->hold('held events read', 'atproto t');
query($name_it);
query($name_it);
$points->wait('held events read', 'atproto s');
$points->wait('held events read', 'atproto t');
$points->release('held events read', 'atproto s');
$points->release('held events read', 'atproto t');
is_done('two at once');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'two at once: and neither complains');

# A further event of the account is held after the held events were read and before they are released.
with_held('s', 't');
query("SELECT atproto.pause('t')");
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
query("CREATE TABLE kept AS SELECT * FROM atproto.held_event WHERE seq = (SELECT min(seq) FROM atproto.held_event) AND subscription = 't';"
	. " DELETE FROM atproto.held_event WHERE subscription = 't' OR seq = (SELECT min(seq) FROM atproto.held_event)");
$points->hold('held events read', 'atproto s');
query($name_it);
$points->wait('held events read', 'atproto s');
query('INSERT INTO atproto.held_event SELECT * FROM kept');
$points->release('held events read', 'atproto s');
is_done('an older one that has come meanwhile');
is(query('SELECT string_agg(rkey::text, \',\' ORDER BY ctid) FROM atproto.record_event'), '10,20,30', 'held events read: an older one that has come meanwhile goes first');

# The subscription goes away meanwhile.
with_held('s');
$points->hold('held events read', 'atproto s');
query($name_it);
$points->wait('held events read', 'atproto s');
query("SELECT atproto.unsubscribe('s')");
$points->release('held events read', 'atproto s');
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
is(query($events), '|0', 'held events read: what was removed is not taken');

# Another subscription goes away, whose events could have been taken, or a session has it locked; a record is refused, so a letter is written.
query(q{ALTER TABLE atproto.record ADD CONSTRAINT refuses CHECK (rkey::text <> '20')});
foreach my $way ("SELECT atproto.unsubscribe('t')", "SELECT FROM atproto.subscription WHERE name = 't' FOR UPDATE")
{
	with_held('s', 't');
	query("DELETE FROM atproto.held_event WHERE subscription = 't'; SELECT atproto.pause('t')");
	wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
	$points->hold('held events read', 'atproto s');
	query($name_it);
	$points->wait('held events read', 'atproto s');
	my $session = $node->background_psql('postgres');
	$session->query_safe("BEGIN; $way");
	$session->query_safe('COMMIT') if $way =~ /unsubscribe/;
	$points->release('held events read', 'atproto s');
	if ($way !~ /unsubscribe/)
	{
		wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'atproto s' AND wait_event_type = 'Lock'});
		$session->query_safe('COMMIT');
	}
	$session->quit;
	wait_for('SELECT count(*) = 0 FROM atproto.held_event');
	is(query('SELECT subscription, count(*) FROM atproto.dead_letter GROUP BY 1') . query($events), 's|110,30|2', "held events read: $way: the others are taken");
	query('DELETE FROM atproto.dead_letter');
}
query('ALTER TABLE atproto.record DROP CONSTRAINT refuses');

# A session has the last of the events locked, and then wants the first; and the cursor, and then the subscription.
with_held('s');
$points->hold('held events read', 'atproto s');
query($name_it);
$points->wait('held events read', 'atproto s');
my $session = $node->background_psql('postgres');
$session->query_safe("SET deadlock_timeout = '10ms'; BEGIN; SELECT FROM atproto.held_event ORDER BY seq DESC LIMIT 1 FOR UPDATE");
$points->release('held events read', 'atproto s');
wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'atproto s' AND wait_event_type = 'Lock'});
ok(eval { $session->query_safe('SELECT FROM atproto.held_event ORDER BY seq FOR UPDATE; COMMIT'); 1 }, 'held events read: who waits for one event keeps no other one locked');
is_done('a session has locked an event');
$points->hold('cursor next', 'atproto c');
query(subscribe_sql('c', AtprotoTest::Server->start(make_capture('steps.py', 'z 1 +x')), cursor => 0));
$points->wait('cursor next', 'atproto c');
$session->query_safe("BEGIN; SELECT FROM atproto.cursor WHERE subscription = 'c' FOR UPDATE");
$points->release('cursor next', 'atproto c');
wait_for(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = 'atproto c' AND wait_event_type = 'Lock'});
ok(eval { $session->query_safe(q{SELECT FROM atproto.subscription WHERE name = 'c' FOR UPDATE; COMMIT}); 1 }, 'cursor next: nor does who waits for a cursor keep the subscription');
$session->quit;
wait_for_seq($node, 'c', 1);

$node->stop;
done_testing();
