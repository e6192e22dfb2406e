# 286_races_letters.pl
#		A dead letter is tried again while the stream goes on: no newer record is overwritten, and no
#		deleted record comes back.  The points are those of doc/develop/races.md.  F-03, F-15, B-29.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node(
	'races', conf => <<'EOF');
max_worker_processes = 12
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
EOF
my $points = AtprotoTest::Points->new($node);
my $server;

# Subscribes to these steps, from the first on, in empty tables; the server holds after so many.
sub follow
{
	my ($first, $steps, %args) = @_;
	my $capture = make_capture('steps.py', @$steps);

	start_over();
	$server = AtprotoTest::Server->start($capture, '--hold-at', $first + 1);
	query(subscribe_sql('s', $server, cursor => 0, %args));
	wait_for_seq($node, 's', $first);
	return $capture;
}

query(<<'SQL');
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	RAISE EXCEPTION 'not this one' USING ERRCODE = 'check_violation';
END $$;
SQL

# A letter about revision 2 of x, which could be applied by now.
sub with_letter
{
	my (@next) = @_;

	query(q{CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON atproto.record FOR EACH ROW
		WHEN (NEW.value->>'text' = 'x 2') EXECUTE FUNCTION public.refuse()});
	my $capture = follow(2, [ 'a 1 +x +y', 'a 2 =x', @next ]);
	query('DROP TRIGGER refuse ON atproto.record');
	return ($capture, query(q{SELECT id FROM atproto.dead_letter WHERE path = 'app.bsky.feed.post/x'}));
}

# A session changes something while retry() of the only letter in these rows has read the states; both sessions.
sub change_during_retry
{
	my ($letters, $change) = @_;
	my $id = query("SELECT id FROM $letters");

	$points->hold('states read', 'retry');
	my $retry = $points->session('retry', "SELECT atproto.retry($id)");
	$points->wait('states read', 'retry');
	my $session = $points->session('change', $change);
	$points->blocked('change');
	$points->release('states read', 'retry');
	return ($retry, $session);
}

# Waits until the consumer waits for a lock, or is at the end.
sub as_far_as_it_gets
{
	my ($seq) = @_;

	wait_for("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = 'atproto s' AND wait_event_type = 'Lock')"
		  . " OR (SELECT seq = $seq FROM atproto.stat_subscription)");
	return;
}

# --- retry() and the stream ---

my %next = (
	'changed again'        => ['a 3 =x'],
	'deleted'              => ['a 3 -x'],
	'deleted and made'     => [ 'a 3 -x', 'a 4 +x' ],
	'of a deleted account' => ['a deleted'],
	'of an account that went and came' => [ 'a deleted', 'a active', 'a 3 +z' ],
	'of another commit'    => ['a 3 =y']);

foreach my $what (sort keys %next)
{
	my @next = @{ $next{$what} };
	my $end  = 2 + @next;

	# the expected rows: those of the stream, or of the letter where the stream says nothing more of x
	my $expected = sub {
		my ($capture, $name) = @_;
		wait_for_seq($node, 's', $end);
		tables_match($node, $capture, $name, modes => [ 'record', 'repo' ]);
		is(query('SELECT count(*) FROM atproto.dead_letter'), '0', "$name: and no letter is left");
	};

	# retry() first
	my ($capture, $id) = with_letter(@next);
	$points->hold('states read', 'retry');
	my $retry = $points->session('retry', "SELECT atproto.retry($id)");
	$points->wait('states read', 'retry');
	$server->release;
	as_far_as_it_gets($end);
	$points->release('states read', 'retry');
	is_deeply([ $retry->finish ], [ 'applied', '' ], "a letter judged, then $what: applied");
	$expected->($capture, "a letter judged, then $what");

	# the stream first
	($capture, $id) = with_letter(@next);
	$points->hold('records next', 'atproto s');
	$server->release;
	$points->wait('records next', 'atproto s');
	$retry = $points->session('retry', "SELECT atproto.retry($id)");
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'retry' AND wait_event_type IS DISTINCT FROM 'Lock'});
	$points->release('records next', 'atproto s');
	my ($out, $err) = $retry->finish;
	like("$out$err", $what eq 'of another commit' ? qr/^applied$/ : qr/^(obsolete|applied|.*does not exist\b.*)$/s, "$what, then retry: done");
	$expected->($capture, "$what, then retry");
}

# --- a second source has written the record already ---

{
	my ($capture, $id) = with_letter();
	query(q{UPDATE atproto.record r SET rev = p.rev FROM atproto.repo p WHERE p.did = r.did AND r.rkey = 'x'});
	is(query("SELECT atproto.retry($id)"), 'obsolete', 'what is as new as the letter is not written again');
}

# --- two at once ---

{
	my ($capture, $id) = with_letter();
	$points->hold('states read', 'retry');
	my $one = $points->session('retry', "SELECT atproto.retry($id)");
	$points->wait('states read', 'retry');
	my $two = $points->session('another', "SELECT atproto.retry($id)");
	$points->blocked('another');
	$points->release('states read', 'retry');
	is_deeply([ $one->finish ], [ 'applied', '' ], 'two at once: one applies it');
	like(($two->finish)[1], qr/dead letter $id does not exist/, 'for the other one there is none');
	tables_match($node, $capture, 'two at once', modes => [ 'record', 'repo' ]);
}

# --- a session removes the subscription, or changes its target ---

my $second = query('SELECT rev FROM atproto.repo');
query(q{CREATE SCHEMA elsewhere; SELECT atproto.create_tables('elsewhere')});
foreach my $change ("UPDATE atproto.subscription SET target = 'elsewhere'", q{SELECT atproto.unsubscribe('s')})
{
	# a letter of a whole commit, tried again: its second record has a letter of its own then, which refers to the subscription
	query(qq{CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON atproto.repo FOR EACH ROW WHEN (NEW.rev::text = '$second') EXECUTE FUNCTION public.refuse()});
	follow(2, [ 'a 1 +x', 'a 2 +y !z' ]);
	query(q{DROP TRIGGER refuse ON atproto.repo; DELETE FROM atproto.dead_letter WHERE path <> ''});
	my ($retry, $session) = change_during_retry('atproto.dead_letter', $change);
	is_deeply([ $retry->finish ], [ 'applied', '' ], "$change: applied");
	is(($session->finish)[1], '', 'and then that');
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'});
}

# refill() locks all repositories: also after the subscription
{
	follow(1, ['a 1 +x']);
	my $cursor = $node->background_psql('postgres');
	$cursor->query_safe('BEGIN; SELECT FROM atproto.cursor FOR UPDATE');
	my $change = $points->session('change', "UPDATE atproto.subscription SET target = 'elsewhere'");
	$points->blocked('change');
	my $refill = $points->session('refill', "SELECT atproto.refill('s')");
	$points->blocked('refill');
	$cursor->query_safe('COMMIT');
	$cursor->quit;
	is(($change->finish)[1], '', 'the target changes');
	is(($refill->finish)[1], '', 'then a refill begins');
}

# --- a batch of a refill comes after the change of the stream: no later event would end the refill ---

{
	follow(3, [ 'a 1 +x', 'a 2 -x', 'a 3 +y' ]);
	query(q{SELECT atproto.pause('s')});
	wait_for('SELECT pid IS NULL FROM atproto.stat_subscription');
	$server->restart('--hold-at', 2);
	$points->hold('cursor next', 'atproto s');
	query(q{SELECT atproto.refill('s', seq => 0), atproto.resume('s')});
	$points->wait('cursor next', 'atproto s');
	query(q{UPDATE atproto.subscription SET url = 'ws://127.0.0.1:1'});
	$points->release('cursor next', 'atproto s');
	wait_for('SELECT count(*) = 2 FROM atproto.cursor');
	is(query(q{SELECT sync, refill_sync, (SELECT string_agg(rkey::text, ',') FROM atproto.record) FROM atproto.repo}), 'synchronized||y',
		'a batch of the former stream brings no record back');
}

# --- retry() asks for an account's status, while a session removes the subscription with the earlier request ---

foreach my $change ("UPDATE atproto.subscription SET target = 'elsewhere' WHERE name = 's'", q{SELECT atproto.unsubscribe('s')}, q{DELETE FROM atproto.subscription WHERE name = 's'})
{
	my $a = did('a');

	query(q{CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON atproto.repo FOR EACH ROW WHEN (NOT NEW.active) EXECUTE FUNCTION public.refuse()});
	follow(2, [ 'a 1 +x', 'a deleted' ]);
	query(subscribe_sql('t', $server, cursor => 0));
	wait_for_seq($node, 't', 2);
	query(qq{DROP TRIGGER refuse ON atproto.repo; UPDATE atproto.subscription SET verify = 'full';
		UPDATE atproto.repo SET refill_at = now(), refill_by = (SELECT id FROM atproto.subscription WHERE name = 's');
		INSERT INTO atproto.status_request (target, did, subscription, why, requested_at, next_try) VALUES ('atproto', '$a', 's', 'inactive', now(), 'infinity')});
	my ($retry, $session) = change_during_retry("atproto.dead_letter WHERE subscription = 't'", $change);
	is_deeply([ $retry->finish ], [ 'applied', '' ], "$change: the account is deleted");
	is(($session->finish)[1], '', 'and then the change');
	is(query('SELECT subscription, why FROM atproto.status_request'), 't|deleted', 'the other subscription asks');
}

# --- a session removes a subscription with a refill of one repository and a letter about another; a batch locks both ---

{
	my ($low, $high) = split /\n/, query("SELECT d FROM unnest('{@{[did('a')]},@{[did('b')]}}'::did[]) d ORDER BY d");
	my ($first, $second) = $low eq did('a') ? ('a', 'b') : ('b', 'a');

	query(q{CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON atproto.record FOR EACH ROW WHEN (NEW.value->>'text' = 'x 2') EXECUTE FUNCTION public.refuse()});
	follow(3, [ "$first 1 +y", "$second 1 +x", "$first 2 =x", "$first 3 +z", "$second 2 +z" ]);
	query(q{DROP TRIGGER refuse ON atproto.record});
	query(qq{UPDATE atproto.repo SET refill_at = now(), refill_by = (SELECT id FROM atproto.subscription) WHERE did = '$high'});
	query(q{SELECT atproto.pause('s')});
	wait_for('SELECT pid IS NULL FROM atproto.stat_subscription');
	query(subscribe_sql('t', $server, cursor => 3));
	wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 't'");
	my $locks = $node->background_psql('postgres');
	$locks->query_safe("BEGIN; SELECT FROM atproto.repo WHERE did = '$high' FOR UPDATE");
	my $session = $points->session('change', q{SELECT atproto.unsubscribe('s')});
	$points->blocked('change');
	$server->release;
	$points->blocked('atproto t');
	$locks->query_safe('COMMIT');
	$locks->quit;
	is(($session->finish)[1], '', 'a refill and a letter: the subscription is removed');
	wait_for_seq($node, 't', 5);
}

unlike(slurp_file($node->logfile), qr/deadlock/, 'nobody got into the way of another');

$node->stop;
done_testing();
