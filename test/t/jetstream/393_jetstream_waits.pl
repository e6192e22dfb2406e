# 393_jetstream_waits.pl
#		Events that Jetstream brings before the relay wait for the relay, which has the earlier commits, and
#		whole commits.  When the time limit is over, the waiting events are taken.  A Jetstream without a
#		relay on the same tables waits for nothing.  F-08, F-44, R-30, R-32.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node(
	'waits', conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 50ms
atproto.multi_source_wait = 1h
EOF

my ($capture) = simulate(
	'--events' => 1500, '--accounts' => 60, '--history' => 0,
	'--mix' => 'account=0,delete=8,update=6,sync=0,identity=0,like=40,post=30,profile=3');
my $last   = read_capture($capture);
my %texts  = map { $_ => texts($_, $capture) } qw(v1 v2);
my $relay  = AtprotoTest::Server->start($capture);
my @tables = (tables => [qw(record record_event repo)]);

query('CREATE SCHEMA relay; ' . subscribe_sql('relay', $relay, cursor => 0, target => "'relay'", events => "'keep'", verify => "'hash'"));
wait_for_seq($node, 'relay', $last);
query("SELECT atproto.unsubscribe('relay')");

# The texts of a Jetstream that sends only posts.
sub posts_of
{
	my ($file) = @_;
	return write_capture(PostgreSQL::Test::Utils::tempdir() . '/posts', grep { /"app\.bsky\.feed\.post"/ } read_capture($file));
}

sub wait_at_most
{
	my ($time) = @_;
	query("ALTER SYSTEM SET atproto.multi_source_wait = '$time'");
	query('SELECT pg_reload_conf()');
	wait_for("SELECT current_setting('atproto.multi_source_wait') = '$time'");
	return;
}

# Makes subscriptions to the same tables, all at once: [ name, server, options ].
sub follow
{
	my (@subs) = @_;
	query('SET client_min_messages = warning; DROP SCHEMA IF EXISTS m CASCADE; CREATE SCHEMA m');
	query('BEGIN; ' . join('; ', map { my ($name, $server, @more) = @$_; subscribe_sql($name, $server, cursor => 0, target => "'m'", events => "'keep'", @more) } @subs) . '; COMMIT');
	return;
}

sub forget
{
	query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
	return;
}

# The tables have everything of the relay, each operation once, and no repository is marked as incomplete.
sub same
{
	my ($what) = @_;
	wait_for_seq($node, 'relay', $last);
	wait_for('SELECT count(*) = 0 FROM atproto.held_event');
	same_rows('m', 'relay', "$what: the rows are the relay's", @tables);
	is(query("SELECT count(*) FROM m.repo WHERE sync = 'desynchronized' OR hold IS NOT NULL"), '0', "F-08: $what: nothing was missed");
	is(query('SELECT count(*) FROM m.repo WHERE rev_paths IS NOT NULL'), '0', "$what: and each commit came whole");
	is(query('SELECT count(*) FROM atproto.dead_letter'), '0', "$what: nothing was refused");
	is(query('SELECT COALESCE(sum(breaks), 0) FROM atproto.stat_subscription'), '0', "F-08: $what: no break");
	forget();
	return;
}

foreach my $version (sort keys %texts)
{
	my $some = posts_of($texts{$version});

	# --- Jetstream is ahead, and has posts alone ---
	foreach my $case ([ 1, 'hash' ], [ 2, 'hash' ], [ 1, 'chain' ])
	{
		my ($workers, $verify) = @$case;
		my $what = "$version, posts ahead of a relay at level $verify, workers $workers";
		my $jetstream = AtprotoTest::Server->start($some);

		$relay->restart('--hold-at' => 1, '--hold-at' => 700);
		follow([ 'relay', $relay, workers => $workers, verify => "'$verify'" ], [ 'jetstream', $jetstream, workers => $workers ]);
		wait_for_texts('jetstream', $some);
		cmp_ok(query(q{SELECT count(*) FROM atproto.held_event WHERE why = 'gap'}), '>', 0, "R-30: $what: they wait");
		is(query('SELECT count(*) FROM m.repo WHERE rev_paths IS NOT NULL'), '0', "$what: nothing has been taken");
		$relay->release;
		wait_for(q{SELECT seq >= 650 FROM atproto.stat_subscription WHERE name = 'relay'});
		$relay->release;
		same($what);
	}

	# --- the relay is ahead ---
	my $jetstream = AtprotoTest::Server->start($some, '--hold-at' => 1);
	$relay->restart;
	follow([ 'relay', $relay ], [ 'jetstream', $jetstream ]);
	wait_for_seq($node, 'relay', $last);
	$jetstream->release;
	wait_for_texts('jetstream', $some);
	same("$version: the relay ahead of posts");

	# --- the relay stands still, and the wait ends ---
	$jetstream = AtprotoTest::Server->start($texts{$version});
	$relay->restart('--hold-at' => 1);
	follow([ 'relay', $relay ], [ 'jetstream', $jetstream ]);
	wait_for_texts('jetstream', $texts{$version});
	cmp_ok(query('SELECT count(*) FROM atproto.held_event'), '>', 100, "R-30: $version: they wait for a relay that stands still");
	wait_at_most('100ms');
	wait_for('SELECT count(*) = 0 FROM atproto.held_event');
	same_rows('m', 'relay', "R-32: $version: all was taken, in the order of revisions", @tables);
	forget();
	wait_at_most('1h');

	# --- the relay dies: a source silent for so long is not waited for ---
	$jetstream = AtprotoTest::Server->start($texts{$version}, '--hold-at' => 600);
	$relay->restart('--hold-at' => 1);
	follow([ 'relay', $relay ], [ 'jetstream', $jetstream ]);
	wait_for(q{SELECT count(*) > 100 FROM atproto.held_event});
	$relay->stop;
	wait_for(q{SELECT state <> 'streaming' FROM atproto.stat_subscription WHERE name = 'relay'});
	wait_at_most('100ms');
	wait_for('SELECT count(*) = 0 FROM atproto.held_event');
	$jetstream->release;
	wait_for_texts('jetstream', $texts{$version});
	wait_for('SELECT count(*) = 0 FROM atproto.held_event');
	same_rows('m', 'relay', "$version: Jetstream goes on without the relay", @tables);
	forget();
	wait_at_most('1h');

	# --- no source for the missing commit ---
	$jetstream = AtprotoTest::Server->start($texts{$version});
	$relay->restart('--hold-at' => 1);
	query('SET client_min_messages = warning; CREATE SCHEMA IF NOT EXISTS m');
	query(subscribe_sql('paused', $relay, target => "'m'") . q{; SELECT atproto.pause('paused')});
	follow([ 'other', $relay, dids => "'{did:plc:aaaaaaaaaaaaaaaaaaaaaaaa}'" ], [ 'jetstream', $jetstream ], [ 'second', $jetstream ]);
	wait_for_texts($_, $texts{$version}) foreach qw(jetstream second);
	is(query(q{SELECT count(*) FROM atproto.stat_subscription WHERE skips ? 'held'}), '0', "$version: where no relay follows the accounts, or but another Jetstream, nothing waits");
	same_rows('m', 'relay', "$version: two Jetstreams", @tables);
	forget();
}

# --- an account ends while its event waits: the repository is marked ---

my ($lively) = simulate('--events' => 1000, '--accounts' => 40, '--history' => 0, '--mix' => 'account=10,delete=8,update=6,sync=0,identity=0,like=40,post=30,profile=3');
my $all = AtprotoTest::Server->start($lively);
$last = read_capture($lively);
query('CREATE SCHEMA lively; ' . subscribe_sql('relay', $all, cursor => 0, target => "'lively'", events => "'keep'"));
wait_for_seq($node, 'relay', $last);
forget();

foreach my $version (qw(v1 v2))
{
	my $texts = texts($version, $lively);

	$all->restart('--hold-at' => 300);
	follow([ 'relay', $all ], [ 'jetstream', AtprotoTest::Server->start($texts) ]);
	wait_for_texts('jetstream', $texts);
	wait_for(q{SELECT seq >= 250 FROM atproto.stat_subscription WHERE name = 'relay'});
	$all->release;
	wait_for_seq($node, 'relay', $last);
	wait_for('SELECT count(*) = 0 FROM atproto.held_event');
	my $marked = "SELECT did FROM m.repo WHERE sync = 'desynchronized'";
	my ($ours, $theirs) = map { "SELECT did, collection, rkey, cid, rev FROM $_.record" } qw(m lively);
	cmp_ok(query("SELECT count(*) FROM ($marked) r"), '>', 0, "F-05: $version: what an account's end has overtaken marks its repository");
	cmp_ok(query("SELECT count(*) FROM m.repo WHERE did NOT IN ($marked)"), '>', 0, "$version: others are not marked");
	is(query("SELECT string_agg(DISTINCT did::text, ' ') FROM (($ours EXCEPT $theirs) UNION ALL ($theirs EXCEPT $ours)) d WHERE did NOT IN ($marked)"), '', "F-08: $version: and have what the relay has");
	forget();
}

# --- the subscription is removed while its events wait, and the second subscription may not take the events ---

foreach my $version (qw(v1 v2))
{
	my $texts = texts($version, $lively);

	$all->restart('--hold-at' => 1);
	follow([ 'relay', $all, collections => "'{app.bsky.feed.post}'" ], [ 'jetstream', AtprotoTest::Server->start($texts) ]);
	wait_for_texts('jetstream', $texts);
	my $position = $version eq 'v2' ? 'seq' : q{(convert_from(bytes, 'UTF8')::jsonb->>'time_us')::bigint};
	my ($first, $last) = split /\|/, query("SELECT min($position), max($position) FROM atproto.held_event");
	cmp_ok($last, '>', $first, "R-30: $version: events wait");
	query("SELECT atproto.unsubscribe('jetstream')");
	is(query(q{SELECT string_agg(concat_ws(' ', after_seq, before_seq), ', ') FROM atproto.gap WHERE reason = 'held events dropped'}), join(' ', $first - 1, $last + 1),
		"R-35: $version: a row has the positions of the events that are dropped");
	query('DELETE FROM atproto.gap');
	forget();
}

# --- an event of the Jetstream is held after the relay's consumer has read what it releases (doc/develop/races.md) ---

{
	my $points = AtprotoTest::Points->new($node);
	my @steps = read_capture(make_capture('steps.py', 'a 1 +x', 'a 2 +y', 'a 3 +z', 'b 1 +x'));
	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $texts = texts('v2', write_capture("$dir/all", @steps));
	# the relay lacks the second commit; its first and its third are one batch
	my @servers = (AtprotoTest::Server->start(write_capture("$dir/lacks", @steps[ 0, 2, 3 ]), '--hold-at' => 1, '--hold-at' => 4),
		AtprotoTest::Server->start($texts, '--hold-at' => 2, '--hold-at' => 3));

	follow([ 'relay', $servers[0] ], [ 'jetstream', $servers[1] ]);
	wait_for('SELECT count(*) = 1 FROM atproto.held_event');
	$points->hold('states read', 'atproto jetstream');
	$servers[1]->release;
	$points->wait('states read', 'atproto jetstream');
	$points->hold('held events read', "atproto $_") foreach qw(relay jetstream);
	query("ALTER SYSTEM SET atproto.batch_delay = '1s'; SELECT pg_reload_conf()");
	wait_for("SELECT current_setting('atproto.batch_delay') = '1s'");
	$servers[0]->release;
	$points->wait('held events read', 'atproto relay');
	is(query("SELECT string_agg(subscription, ' ' ORDER BY rev) FROM atproto.held_event"), 'jetstream relay', 'R-32: the first and the third event are read');
	$points->release('states read', 'atproto jetstream');
	wait_for('SELECT count(*) = 3 FROM atproto.held_event');
	$points->release('held events read', 'atproto relay');
	wait_for('SELECT count(*) < 3 FROM atproto.held_event');
	$points->release('held events read', 'atproto jetstream');
	wait_at_most('100ms');
	$_->release foreach @servers;
	wait_for_texts('jetstream', $texts);
	wait_for_seq($node, 'relay', 4);
	wait_for('SELECT count(*) = 0 FROM atproto.held_event');
	is(query("SELECT string_agg(rkey::text, ' ' ORDER BY rkey), (SELECT sync FROM m.repo WHERE did = '@{[ did('a') ]}') FROM m.record WHERE did = '@{[ did('a') ]}'"),
		'x y z|partial', 'R-32: the third waits for the second, which is held meanwhile');
	forget();
}

$node->stop;
done_testing();
