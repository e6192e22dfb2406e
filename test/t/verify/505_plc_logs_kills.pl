# 505_plc_logs_kills.pl
#		Consumer, fetcher, server and connection are killed at random moments while logs of accounts are asked for: by a
#		subscription to some accounts, which joins the stream, and by one to all, which begins in the middle.  In the end the tables
#		have the whole log of each account that the stream named, each operation once (M-11, M-14).
#
#		ATPROTO_SEED is the seed of the run, ATPROTO_KILLS the number of kills.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Kills;
use AtprotoTest::Network;
use AtprotoTest::Plc;
use AtprotoTest::Preload;
use Test::More;

my $seed    = seed();
my $kills   = $ENV{ATPROTO_KILLS} || 6;
my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
my $node    = make_node(
	'plc_logs_kills', start => $preload,
	conf => $network->settings . <<'CONF');
max_worker_processes = 30
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
atproto.fetch_host_rate = 1000
atproto.fetch_allow = 'http://plc.example.com'
synchronous_commit = off
CONF
my $log     = plc_export(operations => 500, wrong => 0, seed => $seed);
my @entries = plc_entries($log);
my $last    = $entries[-1]{seq};
my $told    = int(@entries / 2);
my %named;
$named{ $_->{did} } = 1 foreach @entries[ 0 .. $told - 1 ];
my @few = (sort keys %named)[ 0 .. 9 ];
my %seen = map { $_->{did} => 1 } @entries[ $told .. $#entries ];

my $killer;

srand $seed;

sub publish
{
	my ($upto) = @_;
	my $end = $#entries;

	# "few" joins the stream without a position, and gets a position with the next entry: some entries come after the last kill
	$end -= 20 if $killer->{left} || (try_query("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'few'") // '') ne 't';
	$told = $upto > $end ? $end : $upto;
	$network->directories({ $PLC => { do => { publish => $entries[$told]{seq} } } });
	return;
}

sub whole_logs
{
	my (%of) = @_;
	return [ sort grep { $of{ (split / /)[0] } } map { join ' ', (split /\t/)[ 0 .. 2 ] } split /\n/, plc_rows('operation', $log) ];
}

sub stored
{
	my ($target) = @_;
	return [ sort split /\n/, query("SELECT concat_ws(' ', did, n, cid) FROM $target.plc_operation") ];
}

$network->directories({ $PLC => { log => $log, upto => $entries[ $told - 1 ]{seq} } });
my $dids = join q{','}, @few;
query(<<"EOSQL");
SET synchronous_commit = on;
CREATE SCHEMA few;
CREATE SCHEMA mid;
CREATE SCHEMA two;
SELECT atproto.subscribe('few', 'ws://$PLC/export/stream', target => 'few', allow_insecure => true, dids => ARRAY['$dids']::did[]);
SELECT atproto.subscribe('mid', 'ws://$PLC/export/stream', target => 'mid', allow_insecure => true, cursor => $entries[ $told - 1 ]{seq});
SELECT atproto.subscribe('two', 'ws://$PLC/export/stream', target => 'two', allow_insecure => true, cursor => $entries[ $told - 1 ]{seq}, workers => 2);
EOSQL
# a request that failed is due again after a minute, which the test does not wait for
$killer = AtprotoTest::Kills->new($node, $preload, [ 'the directory grows', sub { publish($told + 40) } ]);
$killer->settle($kills, sub {
	publish($told + 20);
	try_query('UPDATE atproto.plc_log_request SET next_try = now() WHERE next_try > now()');
	return try_query("SELECT concat_ws(' ', (SELECT count(*) FROM (SELECT FROM atproto.cursor GROUP BY subscription HAVING min(seq) = $last) c),"
		. ' (SELECT count(*) FROM atproto.plc_log_request WHERE answer IS NOT NULL OR next_try IS NOT NULL))');
}, '3 0', sub { });

is_deeply(stored('few'), whole_logs(map { $_ => 1 } @few), 'M-14: the logs of some accounts are whole');
is_deeply(stored('mid'), whole_logs(%seen), 'M-11: the logs of all accounts that the stream named are whole');
is_deeply(stored('two'), whole_logs(%seen), '... by two workers, too');
is(query('SELECT (SELECT count(*) FROM few.plc_refused) + (SELECT count(*) FROM mid.plc_refused) + (SELECT count(*) FROM two.plc_refused)'), '0', '... and nothing is refused');
is(query(q{SELECT count(*) FROM atproto.subscription WHERE stopped IS NOT NULL}), '0', 'none did stop');

$node->stop;
$network->stop;
done_testing();
