# 282_full_meanwhile.pl
#		Things happen while events are held: the account is deleted and created again, the subscription gets
#		another server, the limit of another subscription drops the events in front, or more events wait
#		than one batch takes.  As in 282_full.pl no fetcher runs.  R-31, R-32, R-34, V-44, F-15.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Lookups;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $node = make_node('full_meanwhile', databases => '', conf => "max_worker_processes = 16\natproto.reconnect_delay = 50ms\natproto.multi_source_wait = 10min");
my %who = accounts_of('full.py', 'rotations');
my ($did, $key) = @{ $who{unknown} }{qw(did first)};

# Waits until the query gives true.
sub comes
{
	my ($sql, $what) = @_;
	my $deadline = time + $AtprotoTest::TIMEOUT;

	until (query($sql) eq 't' || time > $deadline)
	{
		usleep(50_000);
	}
	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return is(query($sql), 't', $what);
}

sub clean
{
	query('SELECT atproto.unsubscribe(name) FROM atproto.subscription; DELETE FROM atproto.gap');
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
	begin_again();
	return;
}

sub rkeys
{
	my ($schema) = @_;
	return query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM $schema.record");
}

# A capture without the messages of these numbers, from 1.
my $captures = 0;
my $dir = PostgreSQL::Test::Utils::tempdir('lacking');

sub without
{
	my ($capture, @lacks) = @_;
	my %lacks = map { $_ => 1 } @lacks;
	my @messages = read_capture($capture);

	return write_capture("$dir/" . ++$captures, @messages[ grep { !$lacks{ $_ + 1 } } 0 .. $#messages ]);
}

# --- the account is deleted, and begins a new repository ---

foreach my $hold_at ([], [6], [ 4, 6 ])
{
	my $name = 'returns' . @$hold_at;
	my $server = AtprotoTest::Server->start(make_capture('full.py', 'returns'), map { ('--hold-at', $_) } @$hold_at);

	query("CREATE SCHEMA $name; " . subscribe_sql($name, $server, cursor => 0, target => "'$name'", verify => "'full'"));
	foreach (@$hold_at)
	{
		wait_for_seq($node, $name, $_ - 1);
		$server->release;
	}
	wait_for_seq($node, $name, 7);
	is(query('SELECT why FROM atproto.status_request'), 'deleted', "V-47: $name: the account's server is asked whether the deletion is true");
	is(query('SELECT subscription, events, after_seq, before_seq, did, closed_at FROM atproto.gap'), "$name|3|0|4||", "R-34: $name: and a row tells what is lost if not");
	comes("SELECT count(*) = 2 AND min(seq) = 6 FROM atproto.held_event", "F-15: $name: what waited before a deletion goes with the account, although the key is not known");
	know($did, $key);
	looked_up('', 'true');
	wait_for('SELECT count(*) = 0 FROM atproto.held_event');
	is(rkeys($name), '40,50', "R-31: $name: and does not come into the tables when the account is active again");
	is(query("SELECT sync, hold FROM $name.repo"), 'synchronized|', "V-35: $name: the new repository is known from its first commit on");
	is(query("SELECT (skips->>'inactive')::int FROM atproto.stat_subscription WHERE name = '$name'"), '3', "R-31: $name: they are counted");
	clean();
}

# Of two sources at level full, the second invents the deletion of an account whose events the first has brought.
my $brings = AtprotoTest::Server->start(make_capture('full.py', 'returns'), '--hold-at', 4);
query('CREATE SCHEMA invented; ' . subscribe_sql('brings', $brings, cursor => 0, target => "'invented'", verify => "'full'"));
wait_for_seq($node, 'brings', 3);
query(subscribe_sql('invents', AtprotoTest::Server->start(without(make_capture('full.py', 'returns'), 1, 2, 3), '--hold-at', 5), cursor => 0, target => "'invented'", verify => "'full'"));
wait_for_seq($node, 'invents', 4);
is(query("SELECT subscription, why FROM atproto.status_request; SELECT count(*) FROM atproto.held_event"), "invents|deleted\n0", 'V-47: two sources: the server is asked');
is(query('SELECT subscription, events, after_seq, before_seq FROM atproto.gap'), 'brings|3|0|4', 'R-34: two sources: the row is that of the source whose events are lost');
clean();

# The second may not take the events of the first, because it wants other collections.
$brings = AtprotoTest::Server->start(make_capture('full.py', 'returns'), '--hold-at', 4);
query('CREATE SCHEMA others; ' . subscribe_sql('brings', $brings, cursor => 0, target => "'others'", verify => "'full'", collections => "'{app.bsky.feed.post}'"));
wait_for_seq($node, 'brings', 3);
query(subscribe_sql('invents', AtprotoTest::Server->start(without(make_capture('full.py', 'returns'), 1, 2, 3), '--hold-at', 5), cursor => 0, target => "'others'", verify => "'full'"));
wait_for_seq($node, 'invents', 4);
is(query("SELECT subscription, why FROM atproto.status_request; SELECT count(*) FROM atproto.held_event"), "invents|deleted\n3", 'V-47: events of another subscription: the server is asked, too');
clean();

# Of two sources, the first is behind, and its events wait; the second of a lower level has the deletion, and that the account
# is active again, but no commit.
foreach my $ends (5, 7)
{
	my $behind = AtprotoTest::Server->start(make_capture('full.py', 'returns'), '--hold-at', 4, '--hold-at', $ends + 1);

	query("CREATE SCHEMA behind$ends; " . subscribe_sql('behind', $behind, cursor => 0, target => "'behind$ends'", verify => "'full'"));
	wait_for_seq($node, 'behind', 3);
	query(subscribe_sql('ahead', AtprotoTest::Server->start(without(make_capture('full.py', 'returns'), 1, 2, 3, 6, 7)), cursor => 0, target => "'behind$ends'", verify => "'hash'"));
	wait_for_seq($node, 'ahead', 5);
	is(query('SELECT count(*) FROM atproto.held_event'), '3', "R-32: to $ends: the second source leaves the events of the first alone");
	$behind->release;
	wait_for_seq($node, 'behind', $ends);
	is(query("SELECT sync, hold, (SELECT string_agg(seq::text, ',' ORDER BY seq) FROM atproto.held_event) FROM behind$ends.repo"),
		$ends == 5 ? 'desynchronized||' : 'desynchronized|identity|6,7', "F-15: to $ends: they go when their own source has the deletion, although the account is active");
	know($did, $key);
	looked_up('', 'true');
	wait_for('SELECT count(*) = 0 FROM atproto.held_event');
	is(rkeys("behind$ends"), $ends == 5 ? '' : '40,50', "F-15: to $ends: and do not come back");
	is(query("SELECT sync FROM behind$ends.repo"), $ends == 5 ? 'desynchronized' : 'synchronized', "V-35: to $ends: the mark stays until the next repository begins");
	clean();
}

# The same, but the first source's commit comes after the second one's statements, and nothing waits.
my $again = make_capture('steps.py', 'a 1 +x', 'a deleted', 'a active', 'b 1 +x', 'a 90000000 +y');
query('CREATE SCHEMA late; ' . subscribe_sql('ahead', AtprotoTest::Server->start(without($again, 1, 4, 5)), cursor => 0, target => "'late'"));
wait_for_seq($node, 'ahead', 3);
my $late = AtprotoTest::Server->start($again, '--hold-at', 2);
query(subscribe_sql('behind', $late, cursor => 0, target => "'late'"));
wait_for_seq($node, 'behind', 1);
is(query('SELECT sync FROM late.repo'), 'synchronized', 'V-35: late: a first commit');
$late->release;
wait_for_seq($node, 'behind', 5);
is(query("SELECT sync FROM late.repo WHERE did = '@{[did('a')]}'"), 'desynchronized', 'F-15: late: it was of the account before its deletion, which is passed over: so a mark');
clean();

# The commit begins a second repository, which the second source has as deleted, too: so the mark comes with the commit.
my $twice = make_capture('steps.py', 'a 1 +x', 'a deleted', 'a active', 'a 2 +w', 'a deleted', 'a active', 'b 1 +x');
query('CREATE SCHEMA twice; ' . subscribe_sql('ahead', AtprotoTest::Server->start(without($twice, 4)), cursor => 0, target => "'twice'"));
wait_for_seq($node, 'ahead', 7);
query(subscribe_sql('behind', AtprotoTest::Server->start($twice, '--hold-at', 5), cursor => 0, target => "'twice'"));
wait_for_seq($node, 'behind', 4);
is(query("SELECT sync FROM twice.repo WHERE did = '@{[did('a')]}'"), 'desynchronized', 'F-15: twice: a first commit that is older than the status of another source');
clean();

# A source that is behind, and passes over the deletion of the account whose next repository the other one has brought.
query('CREATE SCHEMA passed; ' . subscribe_sql('ahead', AtprotoTest::Server->start(without($again, 1)), cursor => 0, target => "'passed'"));
wait_for_seq($node, 'ahead', 5);
query(subscribe_sql('behind', AtprotoTest::Server->start($again), cursor => 0, target => "'passed'"));
wait_for_seq($node, 'behind', 5);
is(query("SELECT sync FROM passed.repo WHERE did = '@{[did('a')]}'"), 'synchronized', 'F-15: passed: what began after the deletion is not marked');
clean();

# An export that was given up has left records, and no revision: they are the account's until its server confirms the deletion.
query("CREATE SCHEMA remains; SELECT atproto.create_tables('remains'); INSERT INTO remains.repo (did, sync) VALUES ('$did', 'desynchronized');
	INSERT INTO remains.record SELECT '$did', collection, rkey, cid, rev, now(), value FROM late.record LIMIT 1; "
	. subscribe_sql('remains', AtprotoTest::Server->start(without(make_capture('full.py', 'returns'), 1, 2, 3), '--hold-at', 5), cursor => 0, target => "'remains'", verify => "'full'"));
wait_for_seq($node, 'remains', 4);
is(query('SELECT active, status FROM remains.repo; SELECT count(*) FROM remains.record; SELECT why FROM atproto.status_request'), "f|deleted\n1\ndeleted",
	'V-47: what an export has left stays, and the server is asked');
clean();

# In a union, events that wait for a missing commit.
my $returns = make_capture('full.py', 'returns');
my $other = AtprotoTest::Server->start($returns, '--hold-at', 2);
query('CREATE SCHEMA united; ' . subscribe_sql('other', $other, cursor => 0, target => "'united'", verify => "'chain'"));
wait_for_seq($node, 'other', 1);
query(subscribe_sql('lacks', AtprotoTest::Server->start(without($returns, 2)), cursor => 0, target => "'united'", verify => "'chain'"));
wait_for_seq($node, 'lacks', 7);
is(query('SELECT count(*) FROM atproto.held_event'), '0', 'F-15: nothing waits for a commit of an account that was deleted');
is(rkeys('united'), '40,50', 'R-31: and nothing of it comes back with the next one');
$other->release;
wait_for_seq($node, 'other', 7);
is(rkeys('united'), '40,50', 'F-15: nor by the source that had it');
clean();

# --- the subscription gets a new server: held events came from the old server (V-44) ---

my $first = AtprotoTest::Server->start(make_capture('full.py', 'order'), '--hold-at', 5);
my $second = AtprotoTest::Server->start(make_capture('steps.py', 'z 1 +x'), '--hold-at', 1);
query('CREATE SCHEMA hosts; ' . subscribe_sql('hosts', $first, cursor => 0, target => "'hosts'", verify => "'full'", host_is_pds => 'true'));
wait_for_seq($node, 'hosts', 4);
my $pds = $first->url =~ s{^ws://([^/]+).*}{http://$1}r;
query("UPDATE atproto.subscription SET url = '" . $second->url . "'");
know($did, $key, pds => $pds);
know($who{gone}{did}, $who{gone}{first}, pds => $pds);
looked_up('', 'true');
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(rkeys('hosts'), '10,10,20,30', 'V-44: what a PDS has sent is its own, also when the subscription has gone to another server');
clean();

# --- labels of two servers with the same numbers ---

my $nsid = 'com.atproto.label.subscribeLabels';
my %labelers = accounts_of('full_labels.py', 'cases');
my @servers = map { AtprotoTest::Server->start(make_capture('full_labels.py', 'flood', 3, $_)) } 'x', 'y';
query('CREATE SCHEMA labels; ' . subscribe_sql('labels', $servers[0], nsid => $nsid, cursor => 0, target => "'labels'", verify => "'full'"));
wait_for_seq($node, 'labels', 3);
query("UPDATE atproto.subscription SET url = '" . $servers[1]->url(nsid => $nsid) . "'; SELECT atproto.set_cursor('labels', 0)");
comes("SELECT COALESCE(max(c.seq), 0) = 3 FROM atproto.cursor c JOIN atproto.subscription USING (endpoint)", 'another server has the same numbers');
is(query('SELECT count(*), count(DISTINCT endpoint) FROM atproto.held_event'), '6|2', 'V-49: the labels of both wait');
know($labelers{unknown}{did}, $key, label_key => $labelers{unknown}{first});
looked_up('', 'true');
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(query("SELECT string_agg(val, ',' ORDER BY val) FROM labels.label"), 'x0,x1,x2,y0,y1,y2', 'V-49: and are taken');
clean();

# --- events that wait behind events that the limit of a second subscription drops ---

my $steps = make_capture('steps.py', 'a 1 +x', 'a 2 +y', 'a 3 +z', 'a 4 +v', 'a 5 +w', 'b 1 +x');
$first = AtprotoTest::Server->start(without($steps, 2), '--hold-at', 3, '--hold-at', 5);
query('BEGIN; CREATE SCHEMA behind; ' . subscribe_sql('full', $first, cursor => 0, target => "'behind'", verify => "'hash'")
	. "; UPDATE atproto.subscription SET max_held_events = 2; COMMIT");
wait_for_seq($node, 'full', 1);
$second = AtprotoTest::Server->start(without($steps, 2, 3, 5), '--hold-at', 4);
query(subscribe_sql('behind', $second, cursor => 0, target => "'behind'", verify => "'chain'"));
wait_for_seq($node, 'behind', 1);
$first->release;
wait_for_seq($node, 'full', 4);
is(query("SELECT string_agg(why, ' ' ORDER BY seq) FROM atproto.held_event WHERE subscription = 'full'"), 'gap order', 'events wait for a missing commit');
$second->release;
wait_for_seq($node, 'behind', 6);
is(query("SELECT seq, why FROM atproto.held_event WHERE subscription = 'behind'"), '4|order', 'an event waits behind those of another subscription');
$first->release;
wait_for_seq($node, 'full', 6);
is(query("SELECT count(*) FROM atproto.held_event WHERE subscription = 'full'"), '0', 'R-34: these are dropped');
comes("SELECT why = 'gap' FROM atproto.held_event WHERE subscription = 'behind'", 'R-34: and it waits for what is missing before it, until the end of multi_source_wait, and not behind nothing');
clean();

# --- more waits than a batch takes ---

query("ALTER SYSTEM SET atproto.multi_source_wait = '5s'; SELECT pg_reload_conf()");
my $large = make_capture('full.py', 'large', 14, 950_000);
$other = AtprotoTest::Server->start($large, '--hold-at', 2);
query('CREATE SCHEMA many; ' . subscribe_sql('other', $other, cursor => 0, target => "'many'", verify => "'hash'"));
wait_for_seq($node, 'other', 1);
query(subscribe_sql('many', AtprotoTest::Server->start(without($large, 2)), cursor => 0, target => "'many'", verify => "'hash'"));
wait_for_seq($node, 'many', 14);
comes('SELECT count(*) = 0 FROM atproto.held_event', 'F-08: all that waits behind a commit which does not come goes on when its time is over');
is(query('SELECT count(*) FROM many.record'), '13', 'and is taken');
clean();

# --- rows of held_release that name events of a paused subscription ---

query("ALTER SYSTEM SET atproto.multi_source_wait = '10min'; SELECT pg_reload_conf()");
$first = AtprotoTest::Server->start(make_capture('full.py', 'order'), '--hold-at', 5);
query('CREATE SCHEMA paused; ' . subscribe_sql('paused', $first, cursor => 0, target => "'paused'", verify => "'full'"));
wait_for_seq($node, 'paused', 4);
query("SELECT atproto.pause('paused')");
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
# rows as written by each look-up of these accounts
query('INSERT INTO atproto.held_release (target, kind, did, subscription, shard_key) SELECT target, kind, did, subscription, shard_key FROM (SELECT DISTINCT target, kind, did, subscription, shard_key FROM atproto.held_event) h, generate_series(1, 100)');
query(subscribe_sql('runs', AtprotoTest::Server->start(make_capture('steps.py', 'z 1 +x')), cursor => 0, target => "'paused'", verify => "'hash'"));
comes('SELECT count(*) = 2 FROM atproto.held_release', 'R-32: a consumer that looks at all that waits leaves one row for each repository');
clean();

# --- a row about dropped events outlives the subscription, and names the tables ---

$first = AtprotoTest::Server->start(make_capture('full.py', 'flood', 3, 3));
query('BEGIN; CREATE SCHEMA gone; ' . subscribe_sql('gone', $first, cursor => 0, target => "'gone'", verify => "'full'") . '; UPDATE atproto.subscription SET max_held_events = 0; COMMIT');
wait_for_seq($node, 'gone', 6);
is(query('SELECT subscription, target, events FROM atproto.gap'), 'gone|gone|6', 'R-34: what was dropped, and of which tables');
query("SELECT atproto.unsubscribe('gone')");
is(query('SELECT subscription, target, events FROM atproto.gap'), '|gone|6', 'R-34: when the subscription is removed, the row stays');
clean();

# --- dead letters: the limit is that of the subscription that received the event ---

my $flood = make_capture('full.py', 'flood', 3, 3);
query('CREATE SCHEMA letters; ' . subscribe_sql('a', AtprotoTest::Server->start($flood), cursor => 0, target => "'letters'", verify => "'full'"));
wait_for_seq($node, 'a', 6);
query("SELECT atproto.pause('a')");
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at) SELECT DISTINCT did, 'good', '\\x$who{gone}{first}'::bytea, 'pds.example.com', now(), now() FROM atproto.held_event");
query('BEGIN; ' . subscribe_sql('b', AtprotoTest::Server->start(make_capture('steps.py', 'z 1 +x'), '--hold-at', 1), cursor => 0, target => "'letters'", verify => "'full'")
	. "; UPDATE atproto.subscription SET max_dead_letters = 0 WHERE name = 'b'; COMMIT");
comes("SELECT (SELECT count(*) = 6 FROM atproto.held_event) AND bool_and(why = 'signature') FROM (SELECT DISTINCT ON (did) why FROM atproto.held_event ORDER BY did, rev) first", 'another subscription judges what waits');
looked_up('', 'true');
comes('SELECT count(*) = 0 FROM atproto.held_event', 'R-32: the letters of a subscription have its own room');
is(query('SELECT subscription, count(*) FROM atproto.dead_letter GROUP BY 1') . ' ' . query("SELECT count(*) FROM atproto.subscription WHERE stopped IS NOT NULL"), 'a|4 0', 'R-32: and the other one, which has none, goes on');
clean();

# --- a second subscription deletes the account while its events are released: before, and after the first is applied ---

my $points = AtprotoTest::Points->new($node);
foreach my $point ('held events read', 'held events next')
{
	my $schema = $point =~ s/ /_/gr;
	my ($holds, $deletes) = map { AtprotoTest::Server->start(@$_) } [ $returns, '--hold-at', 4 ], [ without($returns, 1, 2, 3), '--hold-at', 4, '--hold-at', 5 ];

	query("CREATE SCHEMA $schema; " . subscribe_sql('holds', $holds, cursor => 0, target => "'$schema'", verify => "'full'"));
	wait_for_seq($node, 'holds', 3);
	is(query('SELECT count(*) FROM atproto.held_event'), '3', "$point: the events of an account wait");
	query(subscribe_sql('deletes', $deletes, cursor => 0, target => "'$schema'", verify => "'hash'"));
	wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'deletes'");
	$points->hold($point, 'atproto holds');
	know($did, $key);
	query(q{INSERT INTO atproto.held_release (target, kind, did, subscription, shard_key) SELECT DISTINCT target, kind, did, subscription, shard_key FROM atproto.held_event});
	$points->wait($point, 'atproto holds');
	$deletes->release;
	# the row of the repository is locked from the first write on
	if ($point eq 'held events next') { $points->blocked('atproto deletes') }
	else                              { wait_for_seq($node, 'deletes', 4) }
	is(query("SELECT status FROM $schema.repo"), $point eq 'held events next' ? '' : 'deleted', "F-15: $point: the deletion waits for a release that writes, and comes before one that has only read");
	$points->release($point, 'atproto holds');
	wait_for_seq($node, 'deletes', 4);
	comes("SELECT (SELECT count(*) FROM atproto.held_event) + (SELECT count(*) FROM $schema.record) + (SELECT count(*) FROM atproto.held_release) = 0", "F-15: $point: nothing of what waited is left");
	is(query("SELECT active, status, hold IS NULL FROM $schema.repo"), 'f|deleted|t', "F-15: $point: the account is deleted");
	foreach my $server ($holds, $deletes)
	{
		$server->release;
	}
	wait_for_seq($node, $_, 7) foreach 'holds', 'deletes';
	comes('SELECT count(*) = 0 FROM atproto.held_event', "F-15: $point: what comes after the deletion is applied");
	is(rkeys($schema), '40,50', "R-31: $point: and nothing of before comes back");
	clean();
}

# --- the subscription gets a new target while an event is being held; its tables are dropped ---

$points->hold('cursor next', 'atproto swaps');
query(q{CREATE SCHEMA before; CREATE SCHEMA after; SELECT atproto.create_tables('after'); }
	. subscribe_sql('swaps', AtprotoTest::Server->start(make_capture('full.py', 'order'), '--hold-at', 5), cursor => 0, target => "'before'", verify => "'full'"));
$points->wait('cursor next', 'atproto swaps');
query("UPDATE atproto.subscription SET target = 'after'");
$points->release('cursor next', 'atproto swaps');
wait_for_seq($node, 'swaps', 4);
is(query('SELECT target, count(*) FROM atproto.held_event GROUP BY 1'), 'after|4', 'R-32: what begins to wait while the target changes waits for the new one');
query('DROP SCHEMA after CASCADE');
query("SELECT atproto.unsubscribe('swaps')");
is(query('SELECT subscription, target, sum(events) FROM atproto.gap GROUP BY 1, 2'), '|after|4', 'R-32: what waits for tables that were dropped leaves a row when the subscription goes');
clean();

# --- the same at an isolation level with one snapshot for the whole transaction ---

query('CREATE ROLE heir LOGIN SUPERUSER');
foreach my $case ([ 'REPEATABLE READ', "target = 'becomes'" ], [ 'SERIALIZABLE', "owner = 'heir'" ])
{
	my ($isolation, $set) = @$case;
	my $server = AtprotoTest::Server->start(make_capture('full.py', 'order'), '--hold-at', 1, '--hold-at', 5);

	query(q{CREATE SCHEMA was; CREATE SCHEMA becomes; SELECT atproto.create_tables('becomes'); } . subscribe_sql('swaps', $server, cursor => 0, target => "'was'", verify => "'full'"));
	my $session = $node->background_psql('postgres');
	my $logged = -s $node->logfile;
	$session->query_safe("BEGIN ISOLATION LEVEL $isolation; SELECT FROM atproto.subscription");
	$server->release;
	wait_for_seq($node, 'swaps', 4);
	is(query('SELECT target, count(*) FROM atproto.held_event GROUP BY 1'), 'was|4', "$isolation: events wait that the session does not see");
	ok(!eval { $session->query_safe("UPDATE atproto.subscription SET $set; COMMIT"); 1 }, "R-32: $isolation: the session cannot leave them behind: $set");
	eval { $session->quit };
	$node->wait_for_log(qr/could not serialize access/, $logged);
	is(query('SELECT target, owner FROM atproto.subscription'), 'was|' . query('SELECT current_user'), "R-32: $isolation: the subscription stays what it was");
	clean();
	query('SET client_min_messages = warning; DROP SCHEMA was, becomes CASCADE');
}

# --- the subscription gets a new owner while a batch tells that a key may be out of date ---

my $names = keys %who;
my $rotations = AtprotoTest::Server->start(make_capture('full.py', 'rotations'), map { ('--hold-at', $names + $_) } 1, 6, 11);
know($who{$_}{did}, $who{$_}{first}) foreach keys %who;
query('CREATE SCHEMA handed; ' . subscribe_sql('handed', $rotations, cursor => 0, target => "'handed'", verify => "'full'"));
wait_for_seq($node, 'handed', $names);
$points->hold('cursor next', 'atproto handed');
$rotations->release;
$points->wait('cursor next', 'atproto handed');
query("UPDATE atproto.subscription SET owner = 'heir'");
$points->release('cursor next', 'atproto handed');
wait_for_seq($node, 'handed', $names + 5);
is(query("SELECT stale, 'heir'::regrole::oid = ANY (doubted_by) FROM atproto.identity WHERE did = '$who{former}{did}'"), 't|t', 'W-31: the next owner doubts it, too');
$rotations->release;
wait_for_seq($node, 'handed', $names + 10);
is(query("SELECT string_agg(rkey::text, ',') FROM handed.record WHERE did = '$who{former}{did}'") . query("SELECT why FROM atproto.held_event WHERE did = '$who{former}{did}'"),
	'10identity', 'W-31: and a commit with the former key waits');
clean();

# --- a subscription is removed while a batch, which has locked a repository of the held events, is about to refer to it ---

# The batch asks for the status of an account: the subscription is its own.
my %statuses = accounts_of('full.py', 'statuses');
my $inactive = $statuses{active}{did};
my $asks = AtprotoTest::Server->start(make_capture('full.py', 'statuses'), map { ('--hold-at', 2 * keys(%statuses) + $_) } 1, 2);
query(q{CREATE SCHEMA asks; SELECT atproto.create_tables('asks');}
	# rows are locked when they are read, where a trigger keeps them from being written directly
	. ' CREATE TRIGGER looks BEFORE UPDATE ON asks.repo FOR EACH ROW WHEN (false) EXECUTE FUNCTION suppress_redundant_updates_trigger();'
	. subscribe_sql('asks', $asks, cursor => 0, target => "'asks'", verify => "'full'", dids => "'{$inactive}'"));
wait_for_seq($node, 'asks', 2 * keys %statuses);
is(query('SELECT NOT active, hold FROM asks.repo') . query('SELECT count(*) FROM atproto.held_event'), 't|identity1', 'an event waits of an account that is not active');
know($inactive, $statuses{active}{first});
$points->hold('cursor next', 'atproto asks');
$asks->release;
$points->wait('cursor next', 'atproto asks');
my $leaves = $points->session('leaves', "SELECT atproto.unsubscribe('asks')");
$points->blocked('leaves');
$points->release('cursor next', 'atproto asks');
is(($leaves->finish)[1], '', 'V-39: a request for a status does not wait for unsubscribe(), which waits for the batch');
clean();

# The batch drops held events, and asks for a fetch: the subscription is another one.
my ($drops, $fetches) = map { AtprotoTest::Server->start(@$_) } [ without($steps, 2), '--hold-at', 3, '--hold-at', 5 ], [ without($steps, 2, 3, 5), '--hold-at', 4 ];
query('BEGIN; CREATE SCHEMA fetched; ' . subscribe_sql('drops', $drops, cursor => 0, target => "'fetched'", verify => "'hash'")
	. '; UPDATE atproto.subscription SET max_held_events = 2; COMMIT');
wait_for_seq($node, 'drops', 1);
query(subscribe_sql('fetches', $fetches, cursor => 0, target => "'fetched'", verify => "'chain'", backfill => "'repair'"));
wait_for_seq($node, 'fetches', 1);
foreach my $server ($drops, $fetches)
{
	$server->release;
	wait_for_seq($node, $server == $drops ? ('drops', 4) : ('fetches', 6));
}
is(query('SELECT subscription, count(*) FROM atproto.held_event GROUP BY 1 ORDER BY 1'), "drops|2\nfetches|1", 'events of two subscriptions wait');
$points->hold('cursor next', 'atproto drops');
$drops->release;
$points->wait('cursor next', 'atproto drops');
$leaves = $points->session('leaves', "SELECT atproto.unsubscribe('fetches')");
$points->blocked('leaves');
$points->release('cursor next', 'atproto drops');
is(($leaves->finish)[1], '', 'R-34: nor does a batch that drops events wait for the subscription that would fetch the repository');
wait_for_seq($node, 'drops', 6);
is(query('SELECT (SELECT count(*) FROM atproto.held_event), (SELECT count(*) FROM atproto.repo_job)') . query("SELECT sync FROM fetched.repo WHERE did = '@{[did('a')]}'"),
	'0|0desynchronized', 'R-34: the repository is marked');
is(query(q{SELECT count(*) FROM atproto.subscription_log WHERE event = 'failed'}), '0', 'and no batch has failed');
clean();

# The same where the subscription stays: the session that has it locked gives it another name, or gives up.
query('SET client_min_messages = warning; DROP SCHEMA fetched CASCADE; CREATE SCHEMA fetched');
$drops = AtprotoTest::Server->start(without($steps, 2), '--hold-at', 3, '--hold-at', 5);
query('BEGIN; ' . subscribe_sql('drops', $drops, cursor => 0, target => "'fetched'", verify => "'hash'") . '; UPDATE atproto.subscription SET max_held_events = 2; COMMIT');
query(subscribe_sql('fetches', AtprotoTest::Server->start(make_capture('steps.py', 'z 1 +x')), cursor => 0, target => "'fetched'", verify => "'chain'", backfill => "'repair'"));
wait_for_seq($node, $_, 1) foreach 'drops', 'fetches';
$drops->release;
wait_for_seq($node, 'drops', 4);
my $renames = $node->background_psql('postgres');
$renames->query_safe(q{BEGIN; UPDATE atproto.subscription SET name = 'renamed' WHERE name = 'fetches'});
$drops->release;
wait_for(q{SELECT (SELECT count(*) FROM atproto.held_event) = 0 OR (SELECT count(*) FROM pg_stat_activity WHERE query = 'waiting for a row that a session has locked') > 0});
$renames->query_safe('COMMIT');
$renames->quit;
wait_for_seq($node, 'drops', 6);
is(query('SELECT count(*) FROM atproto.held_event') . query('SELECT subscription, reason FROM atproto.repo_job'), '0renamed|break', 'R-34: a subscription that stays fetches what the dropped events have left out');
clean();

# --- a session has a row that a batch writes, too, and wants a table that the batch has locked ---

# The batch gives its locks back, and takes its turn after the session.  The point is where the batch has read the states.
sub session_before_batch
{
	my ($name, $consumer, $takes, $goes_on, $batch) = @_;
	my $logged = -s $node->logfile;

	$points->hold('states read', $consumer);
	$batch->();
	$points->wait('states read', $consumer);
	my $user = $node->background_psql('postgres');
	$user->query_safe("SET client_min_messages = warning; SET deadlock_timeout = '5s'; BEGIN; $takes");
	$points->release('states read', $consumer);
	# the batch waits without locks, and tries again and again
	wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE application_name = '$consumer' AND query = 'waiting for a row that a session has locked'");
	ok(eval { $user->query_safe("$goes_on; COMMIT"); 1 }, "$name: the session is not the victim of a deadlock") or diag $@;
	eval { $user->quit };
	unlike(substr(slurp_file($node->logfile), $logged), qr/deadlock detected/, "$name: nor is the batch");
	return;
}

query('CREATE SCHEMA queues; ' . subscribe_sql('gives', AtprotoTest::Server->start(make_capture('steps.py', 'z 1 +x')), cursor => 0, target => "'queues'", verify => "'hash'", backfill => "'repair'"));
wait_for_seq($node, 'gives', 1);

# a request for an audit: unsubscribe() makes one, where an audit was requested before
query("INSERT INTO atproto.audit_state (target, next_at) VALUES ('queues', NULL) ON CONFLICT (target) DO UPDATE SET next_at = NULL");
session_before_batch('an audit', 'atproto audited', "SELECT atproto.unsubscribe('gives')", 'TRUNCATE queues.record',
	sub { query('UPDATE atproto.audit_state SET next_at = NULL; ' . subscribe_sql('audited', AtprotoTest::Server->start(make_capture('chain.py')), cursor => 0, target => "'queues'")); query('UPDATE atproto.audit_state SET next_at = NULL') });
comes(q{SELECT count(*) > 0 FROM queues.repo WHERE sync = 'unproven'}, 'an audit: the batch has made repositories unproven');
is(query(q{SELECT next_at IS NOT NULL FROM atproto.audit_state WHERE target = 'queues'}), 't', 'V-27: an audit: and the audit is requested');
clean();
query('SET client_min_messages = warning; DROP SCHEMA queues CASCADE; CREATE SCHEMA queues');

# a job: the user's request for the repository that the batch finds broken
my $breaks = AtprotoTest::Server->start(without($steps, 2), '--hold-at', 2);
query(subscribe_sql('breaks', $breaks, cursor => 0, target => "'queues'", verify => "'chain'", backfill => "'repair'"));
wait_for_seq($node, 'breaks', 1);
session_before_batch('a job', 'atproto breaks', "SELECT atproto.resync('@{[did('a')]}', 'queues')", 'TRUNCATE queues.record', sub { $breaks->release });
wait_for_seq($node, 'breaks', 6);
is(query('SELECT priority, reason FROM atproto.repo_job'), '0|asked for', 'R-02: a job: the request of the session stays');
is(query("SELECT sync FROM queues.repo WHERE did = '@{[did('a')]}'"), 'desynchronized', 'a job: the break is noted');
clean();
query('SET client_min_messages = warning; DROP SCHEMA queues CASCADE; CREATE SCHEMA queues');

# a request for an identity: the session has made the same
query('TRUNCATE atproto.identity, atproto.identity_request');
my $unknown = AtprotoTest::Server->start(make_capture('full.py', 'order'), '--hold-at', 1, '--hold-at', 5);
query(subscribe_sql('unknown', $unknown, cursor => 0, target => "'queues'", verify => "'full'"));
wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'unknown'");
session_before_batch('a look-up', 'atproto unknown', "INSERT INTO atproto.identity_request (did, refresh, priority, requested_at, role, owner, web) SELECT '$did', r, 2, now(), 0, current_user::regrole, false FROM unnest('{f,t}'::boolean[]) r", 'TRUNCATE queues.record',
	sub { $unknown->release });
wait_for_seq($node, 'unknown', 4);
is(query('SELECT count(*) FROM atproto.held_event'), '4', 'W-31: a look-up: the events wait');
clean();

# a job that the session has handed over to the batch's subscription, before it removes this one, too
query($_) foreach 'SET client_min_messages = warning; DROP SCHEMA queues CASCADE; CREATE SCHEMA queues', "ALTER SYSTEM SET atproto.multi_source_wait = 0", 'SELECT pg_reload_conf()';
$breaks = AtprotoTest::Server->start(without($steps, 2), '--hold-at', 2);
query(subscribe_sql($_->[0], $_->[1], cursor => 0, target => "'queues'", verify => "'chain'", backfill => "'repair'")) foreach [ 'breaks', $breaks ], [ 'gives', AtprotoTest::Server->start(make_capture('steps.py', 'z 1 +x')) ];
wait_for_seq($node, $_, 1) foreach 'breaks', 'gives';
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason) VALUES ('queues', '@{[did('a')]}', 'gives', 3, 'seen')");
session_before_batch('a job handed over', 'atproto breaks', "SELECT atproto.unsubscribe('gives')", "SELECT atproto.unsubscribe('breaks')", sub { $breaks->release });
is(query('SELECT (SELECT count(*) FROM atproto.repo_job) + (SELECT count(*) FROM atproto.subscription)'), '0', 'a job handed over: it goes with the last subscription');
clean();

# a request for a status: the session has made the same
query('SET client_min_messages = warning; DROP SCHEMA queues CASCADE; CREATE SCHEMA queues');
$asks = AtprotoTest::Server->start(make_capture('full.py', 'statuses'), map { ('--hold-at', 2 * keys(%statuses) + $_) } 1, 2);
query(subscribe_sql('asks', $asks, cursor => 0, target => "'queues'", verify => "'full'", dids => "'{$inactive}'"));
wait_for_seq($node, 'asks', 2 * keys %statuses);
know($inactive, $statuses{active}{first});
session_before_batch('a status', 'atproto asks', "INSERT INTO atproto.status_request (target, subscription, did, why, requested_at) VALUES ('queues', 'asks', '$inactive', 'inactive', now())", 'TRUNCATE queues.record', sub { $asks->release });
wait_for_seq($node, 'asks', 2 * keys(%statuses) + 1);
is(query('SELECT count(*) FROM atproto.status_request'), '1', 'V-39: a status: it is requested');
clean();

# --- two sessions remove the subscriptions of one target, each the heir of the other's jobs ---

query('SET client_min_messages = warning; DROP SCHEMA queues CASCADE; CREATE SCHEMA queues');
foreach my $name ('a', 'b')
{
	query(subscribe_sql($name, AtprotoTest::Server->start(make_capture('steps.py', 'z 1 +x')), cursor => 0, target => "'queues'", verify => "'chain'", backfill => "'repair'"));
	query("SELECT atproto.pause('$name'); INSERT INTO atproto.repo_job (target, did, subscription, priority, reason) VALUES ('queues', '@{[did($name)]}', '$name', 1, 'break')");
}
my $locks = $node->background_psql('postgres');
$locks->query_safe("BEGIN; SELECT FROM atproto.repo_job WHERE subscription = 'a' FOR UPDATE");
my $one = $points->session('one', "SELECT atproto.unsubscribe('a')");
$points->blocked('one');
my $two = $points->session('two', "SELECT atproto.unsubscribe('b')");
$points->blocked('two');
$locks->query_safe('COMMIT');
$locks->quit;
is(($_->finish)[1], '', 'R-01: two unsubscribe() of one target take turns') foreach $one, $two;
is(query('SELECT count(*) FROM atproto.subscription'), '0', 'R-01: both are gone');
clean();

# --- a consumer finds the repositories with held events by an index at its start ---

sub rows_read
{
	my ($schema) = @_;
	my $read = "SELECT seq_tup_read FROM pg_stat_user_tables WHERE relid = '$schema.repo'::regclass";
	my $ended = q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'};

	# subscribe() itself may look in the whole table for repositories that are proved for other collections
	query(subscribe_sql($schema, AtprotoTest::Server->start(make_capture('steps.py', 'z 1 +x')), cursor => 0, target => "'$schema'"));
	wait_for_seq($node, $schema, 1);
	query("SELECT atproto.pause('$schema')");
	wait_for($ended);
	my $before = query($read);
	query("SELECT atproto.resume('$schema')");
	wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = '$schema'");
	# paused only: unsubscribe() itself looks in the whole table for a refill of the subscription
	query("SELECT atproto.pause('$schema')");
	wait_for($ended);
	my $rows = query($read) - $before;
	query("SELECT atproto.unsubscribe('$schema')");
	return $rows;
}

foreach my $schema ('indexed', 'bare')
{
	query("CREATE SCHEMA $schema; SELECT atproto.create_tables('$schema');"
		. " INSERT INTO $schema.repo (did, rev) SELECT ('did:plc:' || lpad(translate(i::text, '0189', 'wxyz'), 24, 'a'))::did, '2222222222222' FROM generate_series(1, 20000) i; ANALYZE $schema.repo");
	query('DROP INDEX bare.repo_hold') if $schema eq 'bare';
}
cmp_ok(rows_read('indexed'), '<', 20000, 'R-32: without reading the whole table');
cmp_ok(rows_read('bare'), '>=', 20000, 'as it is read where the index is missing');

$node->stop;
done_testing();
