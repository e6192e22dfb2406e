# 231_dump_held.pl
#		pg_dump of a database at level full while events are held.  The dump has the held events, the states
#		of their repositories and the cursor, but no identities.  The restored subscription requests the
#		identities, releases the held events as the original does, loses no event and applies none twice.
#		R-35, W-37, R-30, R-32.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Identities;
use AtprotoTest::Keys;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = begin_identities('dump_held', "atproto.databases = 'postgres, copy'\nmax_worker_processes = 24\natproto.reconnect_delay = 50ms\n");
my $capture = make_capture('full.py', 'again');
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
my %who;
foreach (split /\n/, slurp_file(make_capture('full.py', 'again', '--keys')))
{
	my ($name, $did, $first, $second) = split /\t/;
	$who{$name} = { did => $did, map { $_->[0] => AtprotoTest::Keys::text_of(pack 'H*', $_->[1]) } [ first => $first ], [ second => $second ] };
}

sub document
{
	my ($name, $key) = @_;
	my $did = $who{$name}{did};
	$network->documents({ $did => $good->($did, key => $who{$name}{$key}) });
	return;
}

# Everything in a database that has to survive.
sub contents
{
	my ($database) = @_;
	return query(<<'SQL', database => $database);
SELECT 'h', to_jsonb(h) FROM atproto.held_event h ORDER BY did, rev;
SELECT 'r', to_jsonb(r) FROM atproto.repo r ORDER BY did;
SELECT 'e', to_jsonb(e) FROM atproto.record_event e ORDER BY did, rev;
SELECT 'c', subscription, seq FROM atproto.cursor ORDER BY subscription;
SELECT 's', name, verify, max_held_events, max_held_bytes FROM atproto.subscription;
SQL
}

# --- two accounts are known when the directory goes away; one changes its key meanwhile, and one account is new ---

document('same',   'first');
document('turned', 'first');
my $server = AtprotoTest::Server->start($capture, '--hold-at', 3, '--hold-at', 8);
query(subscribe_sql('s', $server, cursor => 0, verify => "'full'", events => "'keep'"));
wait_for("SELECT count(*) = 2 FROM atproto.record");
my $away = $network->fault({ host => 'plc.example.com', reset => 0 });
document('turned', 'second');
document('late',   'first');
$server->release;
wait_for_seq($node, 's', 7);
is(query('SELECT did, count(*) FROM atproto.held_event GROUP BY did ORDER BY did'),
	join("\n", sort "$who{turned}{did}|1", "$who{late}{did}|3"), 'events of two accounts wait');

# --- there and back ---

# the original subscription stays unchanged meanwhile
query("SELECT atproto.pause('s')");
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
my $before = contents('postgres');
my @at = ('--host', $node->host, '--port', $node->port, '--username', getpwuid($<) // 'postgres');
query('CREATE DATABASE copy TEMPLATE template0');
$node->command_ok([ 'pg_dump', @at, '--file', $dump, 'postgres' ], 'pg_dump');
$node->command_ok([ 'psql', @at, '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, 'copy' ], 'psql');
is(contents('copy'), $before, 'R-35: what waits is there, and all that belongs to it');
is(query('SELECT count(*) FROM atproto.identity', database => 'copy'), '0', 'W-37: identities are not');

# --- both databases go on, without the directory and then with it ---

foreach my $database ('postgres', 'copy')
{
	query("SELECT atproto.resume('s')", database => $database);
	wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 's'}, database => $database);
}
wait_for('SELECT count(*) = 2 FROM atproto.identity_request', database => 'copy');
is(query('SELECT count(*) FROM atproto.held_event', database => 'copy'), '4', 'V-40: the copy asks who they are, and they go on waiting');
$network->unfault($away);
$server->release;
wait_for_seq($node, 's', 10, $_) foreach 'postgres', 'copy';
foreach my $database ('postgres', 'copy')
{
	# failed look-ups are some minutes apart
	sooner_or_later('SELECT count(*) = 0 FROM atproto.held_event', database => $database);
	is(query(q{SELECT did, string_agg(rkey::text, ',' ORDER BY rkey) FROM atproto.record GROUP BY did ORDER BY did}, database => $database),
		join("\n", sort "$who{same}{did}|10,20,30", "$who{turned}{did}|10,20,30,40", "$who{late}{did}|10,20,30"), "R-32: $database: all that waited is taken");
	is(query('SELECT count(*), count(DISTINCT (did, rev)) FROM atproto.record_event', database => $database), '10|10', "R-30: $database: each once");
	is(query('SELECT count(*), count(hold), bool_and(verified), min(sync), max(sync) FROM atproto.repo', database => $database),
		'3|0|t|synchronized|synchronized', "R-32: $database: in their order, so that none is missing");
	is(query('SELECT count(*) FROM atproto.repo r, LATERAL atproto.audit(r.did) a WHERE a.equal IS NOT TRUE', database => $database), '0', "V-46: $database: audits say the same");
	is(query('SELECT count(*) FROM atproto.dead_letter', database => $database), '0', "$database: nobody complains");
}

$node->stop;
$network->stop;
done_testing();
