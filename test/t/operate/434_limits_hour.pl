# 434_limits_hour.pl
#		A database sends so many requests within an hour to other hosts, and so many bytes come
#		(atproto.max_requests_hour, atproto.max_download_hour): then the fetcher begins no request until the
#		hour is over.  The last tenth is for look-ups of accounts.  The counts outlive the fetcher.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Exports;
use Test::More;

my ($network, $node, $files) = begin_exports('hour', "atproto.fetch_retry = '1d'\natproto.max_requests_hour = 20\n");
my $clock = AtprotoTest::Clock->new($node);

sub account { return 'did:plc:' . 'z' x 22 . join '', map { chr(ord('a') + $_) } int($_[0] / 26), $_[0] % 26 }
sub asked   { return scalar(() = $network->log(path => qr/$_[0]/)) }

sub waits_for
{
	my ($error) = @_;
	wait_for("SELECT state = 'waiting' AND last_error = '$error' FROM atproto.stat_fetcher");
	return;
}

# --- requests ---

query("SELECT atproto.subscribe('hour', 'wss://$HOST', backfill => 'repair')");
query(join '; ', map { "SELECT atproto.resync('" . account($_) . "')" } 1 .. 25);
waits_for('18 requests were sent within an hour: "atproto.max_requests_hour" allows 20');
is(asked('getRepo'), 18, 'exports have nine tenths of the requests of an hour');
is(query(q{SELECT count(*) FILTER (WHERE tries = 0), count(*) FROM atproto.repo_job}), '7|25', 'the other jobs wait');
$network->documents({ map { account($_) => $network->document(account($_), pds => $HOST) } 30 .. 33 });
query(join '; ', map { "SELECT atproto.resolve('" . account($_) . "')" } 30 .. 33);
wait_for('SELECT count(*) = 2 FROM atproto.identity WHERE resolved_at IS NOT NULL');
waits_for('20 requests were sent within an hour: "atproto.max_requests_hour" allows 20');
is(query('SELECT requests FROM atproto.stat_fetcher'), '20', 'look-ups have the last tenth, and no request more is sent');

# a new fetcher knows what the former fetcher has used
query("INSERT INTO atproto.repo_storm (owner, host, until) SELECT 'postgres', 'h' || n || '.example.com', now() + (n - 2) * interval '1 day 1 minute' FROM generate_series(1, 2) n");
query("INSERT INTO atproto.handle_lookup (handle, role, requested_at, answered_at) SELECT ('h' || n || '.example.com')::handle, 10, now(), now() - (2 - n) * interval '2 minutes' FROM generate_series(1, 2) n");
query("INSERT INTO atproto.handle_lookup (handle, role, requested_at) VALUES ('h3.example.com', 10, now())");
my $pid = query('SELECT pid FROM atproto.stat_fetcher');
query("SELECT pg_terminate_backend($pid)");
wait_for("SELECT pid <> $pid FROM atproto.stat_fetcher");
waits_for('20 requests were sent within an hour: "atproto.max_requests_hour" allows 20');
is(query('SELECT requests FROM atproto.stat_fetcher'), '0', 'a new fetcher begins no request either');

wait_for("SELECT count(*) = 2 FROM atproto.handle_lookup");
is(query("SELECT string_agg(handle::text, ' ' ORDER BY handle::text) FROM atproto.handle_lookup"), 'h2.example.com h3.example.com', 'answers to sessions are forgotten after a minute');
query('DELETE FROM atproto.handle_lookup');
$clock->advance(3660);
wait_for("SELECT string_agg(host, ' ' ORDER BY host) = 'h2.example.com' FROM atproto.repo_storm");
pass('storms are forgotten a day later');
wait_for('SELECT count(*) = 4 FROM atproto.identity WHERE resolved_at IS NOT NULL');
wait_for('SELECT bool_and(tries > 0) FROM atproto.repo_job');
is(asked('getRepo'), 25, 'when the hour is over, the fetcher goes on by itself');
wait_for("SELECT state = 'running' FROM atproto.stat_fetcher");
pass('and says so');

# --- a bound of a few requests ---

query('ALTER SYSTEM SET atproto.max_requests_hour = 2');
query('SELECT pg_reload_conf()');
$clock->advance(3660);
query(join '; ', map { "SELECT atproto.resync('" . account($_) . "')" } 40 .. 42);
waits_for('1 requests were sent within an hour: "atproto.max_requests_hour" allows 2');
$network->documents({ account(50) => $network->document(account(50), pds => $HOST) });
query("SELECT atproto.resolve('" . account(50) . "')");
wait_for("SELECT count(*) = 1 FROM atproto.identity WHERE did = '" . account(50) . "' AND resolved_at IS NOT NULL");
pass('exports leave a request for look-ups of a small bound, too');
query("DELETE FROM atproto.repo_job WHERE tries = 0");

# --- bytes ---

my ($big, $first) = (did('c'), did('a'));
query('ALTER SYSTEM SET atproto.max_requests_hour = 0');
query("ALTER SYSTEM SET atproto.max_download_hour = '1MB'");
query('SELECT pg_reload_conf()');
$clock->advance(3660);
wait_for("SELECT state = 'running' FROM atproto.stat_fetcher");
$network->repos({ $HOST => { $big => { car => "$files/big.car" }, $first => { car => "$files/first.car" } } });
query("SELECT atproto.resync('$big')");
wait_for("SELECT EXISTS (SELECT FROM atproto.repo WHERE did = '$big' AND sync = 'synchronized')");
pass('an export that has begun ends');
query("SELECT atproto.resync('$first')");
wait_for(q{SELECT state = 'waiting' AND last_error ~ '^\d+ MB have come within an hour: "atproto.max_download_hour" allows 1 MB$' FROM atproto.stat_fetcher});
is(query("SELECT state, tries FROM atproto.repo_job WHERE did = '$first'"), 'queued|0', 'the next export does not begin');
query('ALTER SYSTEM SET atproto.max_download_hour = 0');
query('SELECT pg_reload_conf()');
wait_for("SELECT EXISTS (SELECT FROM atproto.repo WHERE did = '$first' AND sync = 'synchronized')");
pass('without the setting it does');

done_testing();
