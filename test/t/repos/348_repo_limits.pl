# 348_repo_limits.pl
#		Limits of automatic fetches: a repository is fetched at most five times an hour and twenty times a
#		day, even if the fetcher or the server restarts in between; after a thousand breaks at once,
#		automatic fetches pause for a while.  Fetches that a user requests are not limited.  R-06.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use PostgreSQL::Test::Utils;
use Test::More;

my ($network, $node, $files) = begin_exports('limits', "atproto.fetch_retry = '1s'\n");
my ($me, $other) = map { did($_) } qw(a d);

# How often the server got a request for the repository.
sub asked
{
	return scalar(() = $network->log(kind => 'http', path => qr/getRepo\?did=\Q@{[ $me =~ s!:!%3A!gr ]}\E/));
}

sub come_apart
{
	query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason) VALUES ('atproto', '$me', 'limits', 1, 'break')");
	return;
}

sub wait_for_no_job
{
	my ($did) = @_;
	wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$did')");
	return;
}

# Requests a second repository, twice: afterwards the fetcher has looked at all jobs since the call.
sub pass_by
{
	foreach (1, 2)
	{
		query("SELECT atproto.resync('$other')");
		wait_for_no_job($other);
	}
	return;
}

sub end_fetcher
{
	my $pid = query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'");

	query("SELECT pg_terminate_backend($pid)");
	wait_for("SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $pid)");
	pass_by();
	return;
}

sub storms
{
	return scalar(() = slurp_file($node->logfile) =~ /more than 1000 repositories have come out of step within a minute/g);
}

expect_check('job that cannot be', qr/put off for ever$|and \d+ more$/);
# jobs that are never due: the fetcher keeps running, and the jobs count for the limit
sub fill
{
	my ($from, $to) = @_;
	query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try, queued_at)
		SELECT 'atproto', ('did:web:a' || n || '.example.com')::did, 'limits', 1, 'break', 'infinity', now() + interval '1 hour' FROM generate_series($from, $to) n");
	return;
}

query("SELECT atproto.subscribe('limits', 'wss://$HOST', backfill => 'repair')");
$network->repos({ $HOST => { $me => { car => "$files/first.car" }, $other => { car => "$files/collections.car" } } });
fill(1, 1);

# --- one repository ---

foreach (1 .. 5)
{
	come_apart();
	wait_for_no_job($me);
}
is(asked(), 5, 'a repository is fetched five times an hour');
come_apart();
wait_for("SELECT state = 'throttled' FROM atproto.repo_job WHERE did = '$me'");
is(query("SELECT j.next_try = f.at[5] + interval '1 hour', j.tries, j.error FROM atproto.repo_job j JOIN atproto.repo_fetched f ON f.did = j.did WHERE j.did = '$me'"),
	't|0|it was fetched 5 times within an hour, or 20 times within a day', 'R-06: the sixth time waits, and says until when');
end_fetcher();
is(query("SELECT state FROM atproto.repo_job WHERE did = '$me'"), 'throttled', 'R-06: also when the fetcher has begun anew');
is(asked(), 5, 'R-06: nobody was asked');

query("SELECT atproto.resync('$me')");
wait_for_no_job($me);
is(asked(), 6, 'R-06: what somebody asks for is fetched');
is(query("SELECT cardinality(at) FROM atproto.repo_fetched WHERE did = '$me'"), '5', 'R-06: and does not count');

come_apart();
wait_for("SELECT state = 'throttled' FROM atproto.repo_job WHERE did = '$me'");
query("UPDATE atproto.repo_fetched SET at = (SELECT array_agg(a - interval '1 hour' ORDER BY a DESC) FROM unnest(at) a) WHERE did = '$me';
	UPDATE atproto.repo_job SET next_try = next_try - interval '1 hour' WHERE did = '$me'");
wait_for_no_job($me);
is(asked(), 7, 'R-06: an hour later it is fetched by itself');
is(query("SELECT cardinality(at) FROM atproto.repo_fetched WHERE did = '$me'"), '6', 'and has been fetched once more');

query("UPDATE atproto.repo_fetched SET at = (SELECT array_agg(now() - n * interval '61 min' ORDER BY n) FROM generate_series(1, 19) n) WHERE did = '$me'");
come_apart();
wait_for_no_job($me);
is(asked(), 8, 'a repository is fetched twenty times a day');
come_apart();
wait_for("SELECT state = 'throttled' FROM atproto.repo_job WHERE did = '$me'");
is(query("SELECT j.next_try = f.at[20] + interval '1 day' AND j.next_try > now() FROM atproto.repo_job j JOIN atproto.repo_fetched f ON f.did = j.did WHERE j.did = '$me'"),
	't', 'R-06: and not once more');
query("DELETE FROM atproto.repo_job WHERE did = '$me'; DELETE FROM atproto.repo_fetched");

# --- very many of one host: the other hosts' repositories are fetched ---

query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at) SELECT ('did:web:h' || n || '.example.com')::did, 'good',"
	. " decode(repeat('00', 35), 'hex'), 'hostile.example.com:' || 8000 + n % 20, now(), now() FROM generate_series(1, 1001) n");
query("SELECT atproto.subscribe('of_hosts', 'wss://relay.example.com', repo_source => 'pds', backfill => 'repair')");
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try, queued_at)
	SELECT 'atproto', ('did:web:h' || n || '.example.com')::did, 'of_hosts', 1, 'break', 'infinity', now() + interval '1 hour' FROM generate_series(1, 1001) n");
wait_for('SELECT EXISTS (SELECT FROM atproto.repo_storm)');
come_apart();
wait_for_no_job($me);
is(query('SELECT string_agg(owner || $$ $$ || host, $$, $$) FROM atproto.repo_storm'), 'postgres hostile.example.com', 'R-06: a storm of one host is of this host');
is(query("SELECT string_agg(host, ', ') FROM atproto.repo_problem WHERE problem = 'storm'"), 'hostile.example.com', 'R-06: the view names the host');
is(asked(), 9, 'R-06: and stops no repair of an account of another host');
query("UPDATE atproto.identity SET pds = 'h' || ascii(right(split_part(did::text, '.', 1), 1)) || right(md5(did::text), 1) || '.example.com' WHERE pds LIKE 'hostile.example.com:%'");
# a step of the fetcher that read the identities before may still write the storm of one host
wait_for("WITH before AS (DELETE FROM atproto.repo_storm WHERE host <> '') SELECT EXISTS (SELECT FROM atproto.repo_storm WHERE host = '')");
is(query('SELECT host FROM atproto.repo_storm'), '', 'R-06: a storm of many hosts is of all hosts');
query("DELETE FROM atproto.repo_job WHERE subscription = 'of_hosts'; SELECT atproto.unsubscribe('of_hosts')");
end_fetcher();
query("DELETE FROM atproto.repo_storm; DELETE FROM atproto.repo_fetched; DELETE FROM atproto.identity WHERE did::text LIKE 'did:web:h%'");

# --- all at once ---

fill(2, 999);
come_apart();
wait_for_no_job($me);
is(asked(), 10, 'a thousand are no storm');
is(query('SELECT count(*) FROM atproto.repo_storm'), '0', 'and are not said to be');
fill(1000, 1001);
wait_for('SELECT EXISTS (SELECT FROM atproto.repo_storm)');
is(query("SELECT until > now() + interval '1 min' AND until <= now() + interval '5 min' FROM atproto.repo_storm"), 't', 'R-06: a storm is waited out');
come_apart();
pass_by();
end_fetcher();
is(query("SELECT state, tries FROM atproto.repo_job WHERE did = '$me'"), 'queued|0', 'R-06: meanwhile only those are fetched that somebody asks for');
is(asked(), 10, 'and nobody is asked for others');
is(storms(), 3, 'R-06: it is said once');
query("CREATE ROLE neighbour SUPERUSER LOGIN; CREATE SCHEMA neighbour");
query("SET SESSION AUTHORIZATION neighbour; SELECT atproto.subscribe('neighbour', 'wss://$HOST', target => 'neighbour', backfill => 'repair')");
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason) VALUES ('neighbour', '$me', 'neighbour', 1, 'break')");
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE target = 'neighbour')");
is(asked(), 11, 'R-06, R-10: the storm of one owner delays no other');
is(query("SELECT owner, (SELECT state FROM atproto.repo_job WHERE did = '$me') FROM atproto.repo_storm"), 'postgres|queued', 'and is still his');
query("SELECT atproto.unsubscribe('neighbour')");
query("UPDATE atproto.repo_job SET queued_at = now() WHERE did <> '$me'; UPDATE atproto.repo_storm SET until = now()");
wait_for_no_job($me);
is(asked(), 12, 'R-06: afterwards all are');
is(storms(), 3, 'R-06: what came before its end is no storm once more');

# --- events lost while the repository is fetched ---

query("DELETE FROM atproto.repo_fetched");
$network->fault({ host => $HOST, path => 'getRepo\\b', hold => 'gate', times => 1 });
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason) VALUES ('atproto', '$me', 'limits', 3, 'listed')");
wait_until(sub { asked() == 13 }, 'the request');
query("UPDATE atproto.repo SET sync = 'desynchronized' WHERE did = '$me' AND hold = 'resync'");
$network->release('gate');
wait_for_no_job($me);
is(asked(), 14, 'R-34: a repository whose events were lost while it was fetched is fetched again');
is(query("SELECT cardinality(at) FROM atproto.repo_fetched WHERE did = '$me'"), '1', 'R-06: which counts, and a fetch of what a list has does not');

done_testing();
