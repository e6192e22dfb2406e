# 282_full_limits.pl
#		The bytes of held events at level full are bounded: 16 MB for a repository by default, and a limit
#		for a subscription.  The events within the limit are released, and their rows are those of the
#		oracle; later commits show that the dropped events are missing.  As in 282_full.pl no fetcher runs.
#		R-34, V-11, V-33.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Lookups;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('full_limits', databases => '', conf => "max_worker_processes = 16\natproto.reconnect_delay = 50ms");
my %who = accounts_of('full.py', 'rotations');
my ($did, $key) = @{ $who{unknown} }{qw(did first)};

sub dropped
{
	my ($name) = @_;
	return query("SELECT COALESCE((skips->>'held_dropped')::integer, 0) FROM atproto.stat_subscription WHERE name = '$name'");
}

# --- a repository: 10 MB wait, then 26 MB, then a little more ---

my @known   = (1 .. 3);
my $last    = 33;
my $capture = make_capture('full.py', 'large', $last, 950_000);
my $server  = AtprotoTest::Server->start($capture, map { ('--hold-at', $_) } 4, 14, 30);

begin_again();
know($did, $key);
query('CREATE SCHEMA large; ' . subscribe_sql('large', $server, cursor => 0, target => "'large'", verify => "'full'"));
wait_for_seq($node, 'large', 3);
is(query('SELECT sync FROM large.repo'), 'synchronized', 'an account is known');
query('DELETE FROM atproto.identity');
$server->release;
wait_for_seq($node, 'large', 13);
is(query('SELECT count(*), sum(octet_length(bytes)) > 9000000 FROM atproto.held_event') . ' ' . dropped('large'), '10|t 0', 'R-34: 10 MB wait, then');
$server->release;
wait_for_seq($node, 'large', 29);
is(query('SELECT COALESCE(sum(octet_length(bytes)), 0) <= 16 * 1024 * 1024 FROM atproto.held_event'), 't', 'R-34: of 26 MB no more than 16');
$server->release;
wait_for_seq($node, 'large', $last);
my @held = split /\n/, query('SELECT seq FROM atproto.held_event ORDER BY seq');
cmp_ok(scalar @held, '>=', 4, 'R-34: what comes then waits again');
is(query('SELECT COALESCE(sum(octet_length(bytes)), 0) <= 16 * 1024 * 1024 FROM atproto.held_event'), 't', 'R-34: within the limit');
is("@held", join(' ', $last - @held + 1 .. $last), 'R-34: what was dropped is all of what waited');
is(dropped('large'), $last - @known - @held, 'R-34: and counted');
is(query('SELECT sync, hold FROM large.repo'), 'desynchronized|identity', 'R-34: the repository, of which something is stored, says that it lacks something');
is(query('SELECT count(*) FROM atproto.repo_job'), '0', 'V-11: and nobody is asked for it, because of what nobody has verified');
know($did, $key);
looked_up('', "did = '$did'");
wait_for('SELECT count(*) = 0 FROM atproto.held_event');
is(query('SELECT sync, hold FROM large.repo'), 'desynchronized|', 'V-33: the next one that is verified shows the break');
my @messages = read_capture($capture);
my $taken = write_capture(PostgreSQL::Test::Utils::tempdir('taken') . '/frames', @messages[ map { $_ - 1 } @known, @held ]);
tables_match($node, $taken, 'R-34: the rows are those of what was not dropped', schema => 'large');
query("SELECT atproto.unsubscribe('large')");

# --- limit of a subscription: the repository with most bytes loses them; if it is being fetched, a second fetch follows ---

my ($small, $large) = (10, 4);
my $n = 1 + $small + $large;
$server = AtprotoTest::Server->start(make_capture('full.py', 'sizes', 950_000, (100) x $small, (900_000) x $large), '--hold-at', 1);
begin_again();
query('CREATE SCHEMA much; ' . subscribe_sql('much', $server, cursor => 0, target => "'much'", verify => "'full'")
	. '; UPDATE atproto.subscription SET max_held_bytes = 4000000');
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, state) VALUES ('much', '$did', 'much', 1, 'break', 'running');"
	. " INSERT INTO much.repo (did, sync, hold) VALUES ('$did', 'resyncing', 'resync')");
$server->release;
wait_for_seq($node, 'much', $n);
is(query('SELECT sum(octet_length(bytes)) <= 4000000 FROM atproto.held_event'), 't', 'R-34: a subscription has no more than its bytes');
is(query('SELECT count(*) FROM atproto.held_event WHERE octet_length(bytes) < 10000'), $small, 'R-34: what has little goes on waiting');
is(query('SELECT count(*) FROM atproto.held_event') + dropped('much'), $n, 'R-34: what was dropped is counted');
is(query("SELECT count(*) FROM atproto.held_event WHERE did = '$did'"), '0', 'R-34: the repository with most has nothing any more');
is(query("SELECT sync, hold FROM much.repo WHERE did = '$did'"), 'desynchronized|resync', 'R-34: it was being fetched: that will not be enough');
is(query("SELECT string_agg(DISTINCT sync, ',') FROM much.repo WHERE did <> '$did'"), 'partial', 'V-11: of the others nothing follows');
is(query("SELECT sum(events) FROM atproto.gap WHERE subscription = 'much'") // 0, dropped('much') - 1, 'R-34: those of which nothing is stored are counted in a gap');

is(query('SELECT count(*) FROM much.repo r WHERE hold IN ($$identity$$, $$gap$$) AND NOT EXISTS (SELECT FROM atproto.held_event h WHERE h.did = r.did)'),
	'0', 'R-34: a repository of which everything was dropped waits for nothing');

# The test has written this job.
expect_check('running job without a fetcher', qr/\|much\|/, maybe => 1);
$node->stop;
done_testing();
