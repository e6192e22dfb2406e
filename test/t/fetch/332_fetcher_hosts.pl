# 332_fetcher_hosts.pl
#		The fetcher spares hosts: few requests at a time, rest after failures and after 429 (rules R-20 to
#		R-25).  The fetcher process starts for work, ends without work, starts again after a kill, and does
#		not delay a shutdown.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use AtprotoTest::Probe;
use Test::More;

my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
my $node    = make_node('hosts', start => 0, databases => 'postgres, other', conf => <<"EOF");
atproto.fetch_ca_file = '@{[ $network->ca_file ]}'
atproto.fetch_allow = 'https://unanswered.invalid'
EOF
$preload->start($node);
query('CREATE EXTENSION atproto');
my $clock = AtprotoTest::Clock->new($node);
my $probe = AtprotoTest::Probe->make;
my $pid   = q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto fetcher' AND datname = current_database()};

sub state_of
{
	my ($host, $what) = @_;
	return try_query(sprintf(q{SELECT %s FROM atproto.stat_host WHERE host = '%s'}, $what // 'state', $host)) // '';
}

sub wait_for_state
{
	my ($host, $state) = @_;
	wait_until(sub { state_of($host) eq $state }, "$host to be $state");
	return;
}

sub requests
{
	my ($host) = @_;
	return scalar(() = $network->log(kind => 'http', host => $host));
}

is(try_query($pid), undef, 'there is no fetcher while there is nothing to fetch');
is(query('SELECT state FROM atproto.stat_fetcher'), 'not running', 'which its status says');

# --- one at a time, then four (R-20) ---

$network->fault({ host => 'many.example.com', hold => 'many', times => 1000 });
my @many = $probe->ask_all(map { ["https://many.example.com/$_"] } 1 .. 12);
$network->wait_for_log(1, host => 'many.example.com');
my $quiet = $probe->get('https://quiet.example.com/');
is($quiet->{outcome}, 'ok', 'another host is asked meanwhile');
is(requests('many.example.com'), 1, 'R-20: one request until the first answer');
$network->release('many');
$network->wait_for_log(5, host => 'many.example.com');
is($probe->get('https://quiet.example.com/')->{outcome}, 'ok', 'another host');
is(requests('many.example.com'), 5, 'R-20: then four at a time');
wait_for("SELECT EXISTS ($pid AND state = 'idle' AND query = 'waiting for answers')");
pass('it says what it does');
wait_for(q{SELECT state = 'running' AND pid IS NOT NULL AND transfers = 4 AND requests >= 3 AND bytes > 0 FROM atproto.stat_fetcher});
pass('and its status has numbers');
$network->unfault(undef);
$probe->answers(@many);
my ($most) = sort { $b <=> $a } map { $_->{parallel} } $network->log(kind => 'http', host => 'many.example.com');
is($most, 4, 'R-20: never more');
wait_until(sub { state_of('many.example.com', q{state || ' ' || requests}) eq 'good 12' }, 'the table of hosts to have it');

# many names below one domain leave places for other hosts
$network->fault({ path => '^/slow', hold => 'slow' });
$probe->ask_all(map { ["https://s$_.example.com/slow"] } 1 .. 40);
$network->wait_for_log(8, path => qr/^\/slow/);
is($probe->get('https://x.example.org/')->{outcome}, 'ok', 'who has many names does not have all places');
is(scalar(() = $network->log(path => qr/^\/slow/)), 8, 'but eight while nothing is known of them');
query(q{DELETE FROM atproto_probe.request WHERE state = 'new'});
$network->unfault(undef);
wait_until(sub { $probe->states !~ /running|new/ }, 'the slow ones');

# --- 429 (R-21), and the rest survives a restart (R-25) ---

$network->fault({ host => 'busy.example.com', status => 429, headers => { 'Retry-After' => '1000' }, body => '<html><h1>Too many</h1>', times => 1 });
is($probe->get('https://busy.example.com/')->{status}, 429, 'a host refuses');
wait_for_state('busy.example.com', 'backoff');
cmp_ok(state_of('busy.example.com', 'extract(epoch FROM backoff_until - now())'), '>', 800, 'R-21: it is left alone');
like(state_of('busy.example.com', 'reason'), qr/HTTP status 429: Too many$/, 'and why');
my $again = $probe->ask('https://busy.example.com/');
is($probe->get('https://quiet.example.com/')->{outcome}, 'ok', 'another host');
is(requests('busy.example.com'), 1, 'R-21: it is not asked');
$node->stop('fast');
$preload->start($node);
is($probe->get('https://quiet.example.com/')->{outcome}, 'ok', 'after a restart');
is(requests('busy.example.com'), 1, 'R-25: nor then');
is(query(q{SELECT atproto.reset_backoff('busy.example.com')}),   't', 'somebody knows better');
is(query(q{SELECT atproto.reset_backoff('nobody.example.com')}), 'f', 'of this host nothing is known');
is($probe->answer($again)->{status}, 404, 'it is asked again');
is(requests('busy.example.com'), 2, 'once');
$network->fault({ host => 'later.example.com', status => 503, headers => { 'RateLimit-Reset' => '20', 'RateLimit-Remaining' => '0' }, times => 1 });
$probe->get('https://later.example.com/');
wait_for_state('later.example.com', 'backoff');
cmp_ok(state_of('later.example.com', 'extract(epoch FROM backoff_until - now())'), '<', 21, 'R-21: ratelimit-reset counts, too');
$clock->advance(21);
is($probe->get('https://later.example.com/')->{status}, 404, 'it is asked when that is over');

# --- failures, and one trial (R-23) ---

$network->fault({ host => 'bad.example.com', reset => 0 });
$probe->get('https://bad.example.com/') foreach 1 .. 5;
wait_for_state('bad.example.com', 'backoff');
is(requests('bad.example.com'), 5, 'R-23: five failures');
wait_for(q{SELECT errors = '{"broken": 5}' AND refused = 1 FROM atproto.stat_fetcher});
my @trials = $probe->ask_all(map { ["https://bad.example.com/$_"] } 1 .. 6);
$network->unfault(undef);
$network->fault({ host => 'bad.example.com', hold => 'trial', times => 1 });
$clock->advance(61);
query('SELECT atproto_internal.wake()');
$network->wait_for_log(6, host => 'bad.example.com');
is($probe->get('https://quiet.example.com/')->{outcome}, 'ok', 'another host');
is(requests('bad.example.com'), 6, 'R-23: a single one tries it');
$network->release('trial');
$probe->answers(@trials);
wait_for_state('bad.example.com', 'good');
is(requests('bad.example.com'), 11, 'R-23: and then the others');

# --- a session locks rows of the table, or the whole table ---

my $session = $node->background_psql('postgres');
my $written = state_of('quiet.example.com', 'requests');
foreach my $lock (q{SELECT atproto.reset_backoff('quiet.example.com')}, 'LOCK TABLE atproto.host IN SHARE MODE')
{
	$session->query_safe("BEGIN; $lock");
	is($probe->get('https://quiet.example.com/')->{outcome}, 'ok', "the fetcher does not wait: $lock") foreach 1, 2;
	$clock->advance(2);
	is($probe->get('https://quiet.example.com/')->{outcome}, 'ok', 'nor when it is time to write');
	$session->query_safe('COMMIT');
}
wait_until(sub { state_of('quiet.example.com', 'requests') >= $written + 6 }, 'its requests to be written after all');

# A session locks a host's row when the fetcher has nothing more to do: the fetcher stays until it has written
# the row, because the next fetcher reads the table.
$network->fault({ host => 'rests.example.com', status => 429, headers => { 'Retry-After' => '3000' }, times => 1 });
$probe->get('https://rests.example.com/');
wait_for_state('rests.example.com', 'backoff');
$session->query_safe(q{BEGIN; SELECT FROM atproto.host WHERE host = 'rests.example.com' FOR UPDATE});
my $rested = $probe->ask('https://rests.example.com/');
$clock->advance(3001);
is($probe->answer($rested)->{status}, 404, 'a host is asked when its rest is over');
$clock->advance(70);
foreach (1, 2)
{
	my $time = query('SELECT clock_timestamp()');
	wait_until(sub { query("SELECT bool_and(state_change > '$time') IS NOT false FROM ($pid) p JOIN pg_stat_activity USING (pid)") eq 't' }, 'the fetcher to look for work');
}
$session->query_safe('COMMIT');
wait_for_state('rests.example.com', 'good');
pass('R-25: a fetcher does not end before the end of a rest is written');
$session->quit;

# names invented by strangers do not fill the table host
query(q{INSERT INTO atproto.host (host, updated_at) SELECT 'n' || n || '.strangers.example.net', now() - n * interval '1 s' FROM generate_series(1, 12000) n});
foreach (1, 2)
{
	$clock->advance(40);
	$probe->get('https://quiet.example.com/');
}
wait_for(q{SELECT count(*) <= 10000 FROM atproto.host});
is(query(q{SELECT count(*) FROM atproto.host WHERE host IN ('n1.strangers.example.net', 'n12000.strangers.example.net', 'quiet.example.com')}), '2', 'the oldest have gone');

# --- the process ---

$network->fault({ path => '^/hang', hang => -1 });

# the fetcher is killed while requests run
my $hung   = $probe->ask('https://h.example.com/hang');
$network->wait_for_log(1, path => qr/^\/hang/);
my $killed = query($pid);
kill 'KILL', $killed;
wait_until(sub { my $now = try_query($pid); defined $now && $now ne $killed }, 'another fetcher');
$network->wait_for_log(2, path => qr/^\/hang/);
pass('a request that ran when the process was killed is made again');

# the fetcher ends on request, whatever it waits for
query('CREATE DATABASE other');
query('CREATE EXTENSION atproto', database => 'other');
my $others = AtprotoTest::Probe->make(database => 'other');
$others->ask_all(['https://h2.example.com/hang'], ['https://unanswered.invalid/']);
$network->wait_for_log(1, host => 'h2.example.com');
query('DROP DATABASE other');
pass('a database is dropped while its fetcher waits for answers');
$probe->ask('https://unanswered.invalid/');
$network->wait_for_log(2, path => qr/^\/hang/);
$node->stop('fast');
pass('the server stops while its fetcher waits for answers');

# an error ends the fetcher: it is started again, later each time
$preload->start($node);
query(q{TRUNCATE atproto_probe.request});
$network->unfault(undef);
query(q{ALTER TABLE atproto_probe.request RENAME COLUMN rate TO other});
query(q{INSERT INTO atproto_probe.request (id, url) VALUES (1000, 'https://quiet.example.com/'); SELECT atproto_internal.wake()});
wait_for(q{SELECT state = 'waiting' AND last_error LIKE '%rate%' AND last_error_at IS NOT NULL FROM atproto.stat_fetcher});
pass('a fetcher that ends with an error says which');
query(q{ALTER TABLE atproto_probe.request RENAME COLUMN other TO rate});
is($probe->answer(1000)->{outcome}, 'ok', 'and comes again');

# the fetcher ends without work
is($probe->get('https://quiet.example.com/')->{outcome}, 'ok', 'it works again');
wait_until(sub { $clock->advance(70); !defined try_query($pid) }, 'the end of the fetcher');
unlike($node->logfile ? PostgreSQL::Test::Utils::slurp_file($node->logfile) : '', qr/PANIC|TRAP/, 'nothing crashed by itself');
is($probe->get('https://quiet.example.com/')->{outcome}, 'ok', 'it is started when there is work');

$node->stop('fast');
$network->stop;
done_testing();
