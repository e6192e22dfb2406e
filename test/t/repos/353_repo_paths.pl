# 353_repo_paths.pl
#		A hostile account writes, again and again, records under invalid paths.  The bad commit is refused
#		as a whole, and the next commit shows a break.  The account's export is loaded, and each record with
#		a bad path becomes a dead letter.  Its server is asked no more often than for any automatic fetch,
#		no row is hidden, and in the end the tables have all other records.  At levels chain and full.
#		B-65, R-06, R-56, V-33.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Keys;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;

my $python = $ENV{PYTHON} || '/usr/bin/python3';
my $files  = PostgreSQL::Test::Utils::tempdir('exports');
my $times  = 8;
my $host   = 'stream.example.com';
my $pds    = 'pds.example.com';

my $capture = make_capture('paths.py', $times, $files);
my ($did, $key) = split /\t/, (run_command([ $python, '-B', test_dir() . '/oracle/paths.py', '--key' ]))[0];
my $network = AtprotoTest::Network->start(cars => $files);
my $node    = make_node(
	'paths',
	start => AtprotoTest::Preload->make(network => $network),
	conf  => $network->settings . "atproto.fetch_retry = '1s'\natproto.fetch_host_rate = 1000\nmax_worker_processes = 20\n"
	  . "atproto.reconnect_delay = 50ms\natproto.fetch_allow = 'http://$host'\n");

$network->documents({ $did => $network->document($did, pds => $pds, key => AtprotoTest::Keys::text_of(pack 'H*', $key)) });
query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at) VALUES ('$did', 'good', '\\x$key', '$pds', now(), now() - interval '30 min')");

foreach my $case ([ 'chain', $host ], [ 'full', $pds ])
{
	my ($level, $at) = @$case;
	my $s      = "at_$level";
	my $server = AtprotoTest::Server->start($capture, map { ('--hold-at', 2 * $_) } 1 .. $times + 1);
	my $before = () = $network->log(kind => 'http', host => $at, path => qr/getRepo\?/);
	my $asked  = sub { return scalar(() = $network->log(kind => 'http', host => $at, path => qr/getRepo\?/)) - $before };
	my $state  = sub { return query("SELECT sync, hold IS NULL FROM $s.repo") };

	$network->hosts({ $host => { stream => $server->port } });
	query("CREATE SCHEMA $s; SELECT atproto.create_tables('$s');"
		. " SELECT atproto.subscribe('$level', 'ws://$host', allow_insecure => true, cursor => 0, target => '$s', verify => '$level', backfill => 'repair')");
	wait_for_seq($node, $level, 1);
	is($state->(), 'synchronized|t', "$level: it begins well");
	foreach my $i (1 .. $times)
	{
		$network->repos({ $at => { $did => { car => "$files/$i.car" } } });
		$server->release;
		wait_for_seq($node, $level, 2 * $i + 1);
		wait_for("SELECT (SELECT sync = 'synchronized' AND hold IS NULL FROM $s.repo) AND NOT EXISTS (SELECT FROM atproto.repo_job)"
			. " OR EXISTS (SELECT FROM atproto.repo_job WHERE state = 'throttled')");
	}
	is($asked->(), 5, "R-06: $level: its server is asked as often as for any other repository");
	is($state->(), 'desynchronized|t', "V-33: $level: that something is missing can be seen");
	is(query("SELECT problem FROM atproto.repo_problem WHERE did = '$did'"), 'throttled', "$level: and what is done about it");
	is(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = '$level' AND stage = 'message'"), $times, "B-65: $level: each commit that was refused is there, with its bytes");
	is(query("SELECT count(*), count(*) FILTER (WHERE rkey::text LIKE 'beside%') FROM $s.record"), join('|', $times + 1 + 5, 5), "$level: all that is right was taken, but for what only an export could bring");

	# an hour passes
	query("UPDATE atproto.repo_fetched SET at = (SELECT array_agg(a - interval '1 hour' ORDER BY a DESC) FROM unnest(at) a);"
		. " UPDATE atproto.repo_job SET next_try = next_try - interval '1 hour'");
	wait_for('SELECT NOT EXISTS (SELECT FROM atproto.repo_job)');
	is($state->(), 'synchronized|t', "R-56: $level: then it is fetched once more");
	is(query("SELECT count(*), count(*) FILTER (WHERE rkey::text LIKE 'beside%') FROM $s.record"), join('|', 2 * $times + 1, $times), "$level: and has all that are records");
	is(query("SELECT string_agg(path, ' ' ORDER BY path) FROM atproto.dead_letter WHERE subscription = '$level' AND stage = 'record'"),
		join(' ', map { "com.Example.note/$_" } 1 .. $times), "R-56: $level: those that are none are dead letters");
	is(query("SELECT reason FROM atproto.audit('$did', '$s')"), 'other records', "R-56: $level: and an audit names the difference");
	$server->release;
	wait_for_seq($node, $level, 2 * $times + 2);
	is($state->() . ' ' . query('SELECT count(*) FROM atproto.repo_job'), 'synchronized|t 0', "V-33: $level: what it writes beside them goes on, without another fetch");
	is($asked->(), 6, "$level: nobody was asked more often");
	query("SELECT atproto.unsubscribe('$level')");
	query("DELETE FROM atproto.repo_fetched");
}

$node->stop;
done_testing();
