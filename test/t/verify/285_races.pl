# 285_races.pl
#		Between a consumer's reading and its writing, a second subscription, a user's session or an operator
#		changes the same rows.  The test stops the consumer at each point of doc/develop/races.md, lets the
#		other session act, and compares the tables with the stream, each event once.  F-03, E-43.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

# Without ATP_INJECTION_POINTS, the points compile to nothing.
{
	local @ENV{qw(MAKEFLAGS MAKEOVERRIDES PROFILE)} = ('') x 3;
	my $sources = PostgreSQL::Test::Utils::tempdir('release');
	my @files   = grep { slurp_file($_) =~ /ATP_INJECTION_POINT\(/ } glob join ' ', map { test_dir() . "/../src/$_" } '*/*.c', '*/*/*.c';
	my %points  = map { $_ => 1 } map { slurp_file($_) =~ /ATP_INJECTION_POINT\("(.*?)"\)/g } @files;
	my @objects = map { m{(src/(?:\w+/)+\w+)\.c$} ? "$1.o" : () } @files, 'src/common/injection.c';

	system('cp', '-a', (map { test_dir() . "/../$_" } 'Makefile', 'atproto.control', 'src'), $sources) == 0 or BAIL_OUT('cannot copy');
	system('make', '-s', '-C', $sources, '-B', @objects) == 0 or BAIL_OUT('cannot compile');
	is_deeply([ grep { my $o = slurp_file("$sources/$_"); $o =~ /atp_injection_point/ || grep { $o =~ /\0\Q$_\E\0/ } keys %points } @objects ],
		[], 'no object of a release has an injection point');
}

my $node = make_node(
	'races', conf => <<'EOF');
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
EOF
my $points = AtprotoTest::Points->new($node);

# The first two events are stored before the race begins; the later events come in one batch.
my @before  = ('a 1 +x +y', 'b 1 +z');
my @batch   = ('a 2 =x +w', 'b 2 -z', 'c 1 +x', 'a 3 -y +v', 'b 3 +z');
my $capture = make_capture('steps.py', @before, @batch);
my $last    = @before + @batch;
my $ops     = () = "@before @batch" =~ /[-+=]/g;
my $a       = did('a');

my $server = AtprotoTest::Server->start($capture);
my $other  = AtprotoTest::Server->start($capture);

# To where the race begins, in empty tables: the consumer of s is at the point, with the batch.
sub bring_to
{
	my ($point, %args) = @_;

	start_over('record_event');
	$server->restart('--hold-at', @before + 1);
	query(subscribe_sql('s', $server, cursor => 0, %args));
	wait_for_seq($node, 's', scalar @before);
	$points->hold($point, 'atproto s');
	$server->release;
	$points->wait($point, 'atproto s');
	return;
}

# After the race: the tables are those of the oracle, and every operation was applied once.
sub all_is_well
{
	my ($name, %o) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_for("SELECT bool_and(seq = $last) FROM atproto.stat_subscription");
	tables_match($node, $capture, "$name: the tables are what the oracle says", modes => $o{modes} // [ 'record', 'repo' ]);
	is(query('SELECT sum(record_ops), (SELECT count(*) FROM atproto.record_event), (SELECT count(*) FROM atproto.dead_letter) FROM atproto.cursor'),
		"$ops|$ops|0", "$name: each operation was applied once");
	return;
}

# After a refill, which reads $n events in all: repeated events change nothing in the end; $again: keys of the records with repeated rows in record_event.
sub refill_is_well
{
	my ($name, $n, $again) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	wait_for("SELECT events = $n FROM atproto.cursor");
	tables_match($node, $capture, "$name: the tables are what the oracle says", modes => [ 'record', 'repo' ]);
	# a removed record is created and removed again by the repeated events
	is(query('SELECT (SELECT count(DISTINCT (did, collection, rkey, rev, action)) FROM atproto.record_event), (SELECT count(*) FROM atproto.dead_letter)'), "$ops|0", "$name: each operation is told");
	is(query("SELECT string_agg(DISTINCT rkey::text, ',') FROM (SELECT rkey FROM atproto.record_event GROUP BY did, rkey, rev, action HAVING count(*) > 1) e"), $again, "$name: and once, but for what was removed");
	is(query('SELECT count(*) FROM atproto.repo WHERE refill_by IS NOT NULL'), 0, "$name: it has come to its end");
	return;
}

# Tables with a trigger are written by statements, tables without are written directly.
my $trigger = 'CREATE TRIGGER looks BEFORE UPDATE ON %s FOR EACH ROW WHEN (false)'
  . ' EXECUTE FUNCTION suppress_redundant_updates_trigger()';

foreach my $path ('directly', 'by statements')
{
	query(sprintf $trigger, $_) foreach $path eq 'by statements' ? ('atproto.repo', 'atproto.record') : ();

	foreach my $point ('states read', 'records next', 'cursor next')
	{
		my $where = "$path, $point";

		# are the rows of the states locked at this point?
		my $locked = $path eq 'by statements' || $point ne 'states read';

		# --- a second subscription to the same repositories ---

		bring_to($point, events => "'keep'");
		query(subscribe_sql('t', $other, cursor => 0, events => "'keep'"));
		if ($locked) { $points->blocked('atproto t') }
		else         { wait_for_seq($node, 't', $last) }
		$points->release($point, 'atproto s');
		all_is_well("$where, another subscription");

		# --- a user changes or deletes a repository's row ---

		foreach my $sql ("UPDATE atproto.repo SET host = 'x' WHERE did = '$a'", "DELETE FROM atproto.repo WHERE did = '$a'")
		{
			my ($what) = $sql =~ /^(\w+)/;

			bring_to($point, events => "'keep'");
			my $session = $points->session('user', $sql);
			$points->blocked('user') if $locked;
			is(($session->finish)[1], '', "$where: the user's $what") if !$locked;
			$points->release($point, 'atproto s');
			is(($session->finish)[1], '', "$where: the user's $what") if $locked;
			all_is_well("$where, $what", modes => $locked && $what eq 'DELETE' ? ['record'] : [ 'record', 'repo' ]);
		}

		# --- the operator moves the cursor ---

		bring_to($point, events => "'keep'");
		query("SELECT atproto.set_cursor('s', 0)");
		$points->release($point, 'atproto s');
		all_is_well("$where, set_cursor");
		is(query('SELECT events FROM atproto.cursor'), @before + $last, "$where, set_cursor: what was seen before comes again");

		# --- the operator starts a refill, which waits for the batch and includes its repositories ---

		bring_to($point, events => "'keep'");
		my $refill = $points->session('operator', q{SELECT atproto.refill('s')});
		$points->blocked('operator');
		$points->release($point, 'atproto s');
		is(($refill->finish)[0], 3, "$where, refill: it is of all repositories, with the one that the batch has added");
		refill_is_well("$where, refill", $last + $last, 'y');

		# --- the operator makes a new subscription of the same name ---

		bring_to($point, events => "'keep'");
		query("BEGIN; SELECT atproto.unsubscribe('s'); CREATE SCHEMA IF NOT EXISTS elsewhere; "
			  . subscribe_sql('s', $server, cursor => scalar @before, target => "'elsewhere'") . '; COMMIT');
		$points->release($point, 'atproto s');
		wait_for_seq($node, 's', $last);
		is(query("SELECT count(*) FROM elsewhere.record WHERE rkey::text IN ('w', 'v')"), 2, "$where, subscribed anew: the new one gets all of it");
		tables_match($node, $capture, "$where, subscribed anew: the old one got nothing more", args => [ '--last', scalar @before ]);
		query('TRUNCATE elsewhere.record, elsewhere.repo');
	}
}

# --- a batch waits for a refill: the batch finds the cursor moved, and is applied once, after the repeated events ---

foreach my $path ('by statements', 'directly')
{
	query('DROP TRIGGER looks ON atproto.repo; DROP TRIGGER looks ON atproto.record') if $path eq 'directly';
	start_over('record_event');
	$server->restart('--hold-at', @before + 1);
	query(subscribe_sql('s', $server, cursor => 0, events => "'keep'"));
	wait_for_seq($node, 's', scalar @before);
	my $operator = $node->background_psql('postgres');
	is($operator->query_safe(q{BEGIN; SELECT atproto.refill('s')}), 2, "$path, a refill before a batch: it is of the repositories so far");
	$server->release;
	$points->blocked('atproto s');
	$operator->query_safe('COMMIT');
	$operator->quit;
	refill_is_well("$path, a refill before a batch", @before + $last, '');
}

# --- a subscription is removed whose refill has marked repositories, while a batch of another one locks them ---

{
	my $steps = make_capture('steps.py', 'b 1 +x', 'a 1 +x', 'a 2 +y', 'b 2 +y');
	my ($first, $second) = map { AtprotoTest::Server->start($steps, @$_) } [ '--hold-at', 2, '--hold-at', 3 ], [ '--hold-at', 3 ];

	start_over();
	query(subscribe_sql('s', $first, cursor => 0));
	wait_for_seq($node, 's', 1);
	$first->release;
	wait_for_seq($node, 's', 2);
	query("SELECT atproto.pause('s')");
	is(query("SELECT atproto.refill('s')"), 2, 'a refill is removed: its repositories are in another order than that of their DIDs');
	query(subscribe_sql('t', $second, cursor => 2));
	wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 't'");
	my $locks = $node->background_psql('postgres');
	$locks->query_safe("BEGIN; SELECT FROM atproto.repo WHERE did = '@{[did('b')]}' FOR UPDATE");
	my $operator = $points->session('operator', "SELECT atproto.unsubscribe('s')");
	$points->blocked('operator');
	$second->release;
	$points->blocked('atproto t');
	$locks->query_safe('COMMIT');
	$locks->quit;
	is(($operator->finish)[1], '', 'a refill is removed: nobody is the victim of a deadlock');
	wait_for_seq($node, 't', 4);
	is(query(q{SELECT count(*) FROM atproto.subscription_log WHERE event = 'failed'}), 0, 'a refill is removed: nor is the batch');
	tables_match($node, $steps, 'a refill is removed: the tables are what the oracle says');
	is(query('SELECT count(*) FROM atproto.repo WHERE refill_by IS NOT NULL'), 0, 'a refill is removed: no repository is marked');
}

# --- a consumer stops for good, while the operator repairs the reason ---

my $future = AtprotoTest::Server->start($capture, '--error', 'FutureCursor@0');
query('DELETE FROM atproto.subscription');
$points->hold('stopping', 'atproto f');
query(subscribe_sql('f', $future, cursor => 5));
$points->wait('stopping', 'atproto f');
query("UPDATE atproto.subscription SET url = '" . $server->url . "'");
$points->release('stopping', 'atproto f');
wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription});
is(query('SELECT stopped IS NULL FROM atproto.subscription'), 't', 'stopping: what the operator changed meanwhile is tried');

$points->hold('stopping', 'atproto f');
query("UPDATE atproto.subscription SET url = '" . $future->url . "'");
$points->wait('stopping', 'atproto f');
query("BEGIN; SELECT atproto.unsubscribe('f'); " . subscribe_sql('f', $server, cursor => 0) . '; COMMIT');
$points->release('stopping', 'atproto f');
wait_for_seq($node, 'f', $last);
is(query('SELECT stopped IS NULL FROM atproto.subscription'), 't', 'stopping: another subscription of the same name is not stopped');

$node->stop;
done_testing();
