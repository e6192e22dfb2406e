# 231_dump_old.pl
#		An old dump, made by pg_dump of the extension's tables of commit 53d0235, before a held event kept
#		its level and format and before targets had a table of their own, must load into the present tables.
#		The restored subscription then goes on: the consumer releases the held events in their order and
#		once, its dead letters can be tried again, and the fetcher works on its job.  R-32, R-35.
#
#		The dump has one subscription at level full: three accounts of full.py (a known account, an account with
#		an unknown new key, an unknown account); two dead letters of a trigger that refuses; a job.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Identities;
use AtprotoTest::Keys;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = begin_identities('dump_old', "atproto.databases = 'postgres, old'\nmax_worker_processes = 24\natproto.reconnect_delay = 50ms\n");
my $capture = make_capture('full.py', 'again');
my $server = AtprotoTest::Server->start($capture, '--hold-at', 8);
my $owner = getpwuid($<) // 'postgres';
my $file = PostgreSQL::Test::Utils::tempdir() . '/dump';
my %who;
foreach (split /\n/, slurp_file(make_capture('full.py', 'again', '--keys')))
{
	my ($name, $did, $first, $second) = split /\t/;
	$who{$name} = $did;
	my $key = AtprotoTest::Keys::text_of(pack 'H*', $name eq 'turned' ? $second : $first);
	$network->documents({ $did => $good->($did, key => $key) });
}

# --- it loads ---

my $dump = slurp_file(capture('dump_of_53d0235.sql'));
my ($port) = $server->url =~ /:(\d+)/;
$dump =~ s/\@PORT\@/$port/g;
$dump =~ s/OWNER TO \@OWNER\@/OWNER TO "$owner"/g;
$dump =~ s/\@OWNER\@/$owner/g;
# this queue has a new name since, which no release had
$dump =~ s/^COPY atproto\.status_wish \((.*)\bwished_at\b/COPY atproto.status_request ($1requested_at/m;
append_to_file($file, $dump);
query('CREATE DATABASE old TEMPLATE template0');
$node->command_ok([ 'psql', '--host', $node->host, '--port', $node->port, '--username', $owner, '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $file, 'old' ],
	'the dump loads');
my @old = (database => 'old');
is(query("SELECT atproto.create_tables('atproto')", @old), '', 'create_tables() adds what the tables lack');
is(query('SELECT (SELECT count(*) FROM atproto.held_event), (SELECT count(*) FROM atproto.dead_letter), (SELECT count(*) FROM atproto.repo_job)', @old),
	'4|2|1', 'what waits, the letters and the job are there');
is(query('SELECT stopped FROM atproto.subscription', @old), 'restored, or inserted by hand; atproto.resume() starts it', 'it waits for resume()');

# --- it goes on ---

query('INSERT INTO public.allowed DEFAULT VALUES', @old);
query("SELECT atproto.resume('s')", @old);
$server->release;
wait_for_seq($node, 's', 10, 'old');
wait_for('SELECT count(*) = 0 FROM atproto.held_event', @old);
is(query('SELECT did, string_agg(rkey::text, $$,$$ ORDER BY rkey) FROM atproto.record GROUP BY did ORDER BY did', @old),
	join("\n", sort "$who{same}|20,30", "$who{turned}|20,30,40", "$who{late}|10,20,30"), 'R-32: all that waited is taken');
is(query("SELECT atproto.retry(id) FROM atproto.dead_letter WHERE did = '$who{same}'", @old), 'applied', 'a letter is tried again');
like(query("SELECT atproto.retry(id) FROM atproto.dead_letter WHERE did = '$who{turned}'", @old), qr/not signed by the account's key/,
	'V-41: the other one is of a key that the account has no more');
is(query('SELECT did, string_agg(rkey::text, $$,$$ ORDER BY rkey) FROM atproto.record GROUP BY did ORDER BY did', @old),
	join("\n", sort "$who{same}|10,20,30", "$who{turned}|20,30,40", "$who{late}|10,20,30"), 'what was tried again is applied');
is(query('SELECT count(*), count(DISTINCT (did, rev)) FROM atproto.record_event', @old), '9|9', 'R-30: each event is there once');
is(query('SELECT count(*) FROM atproto.link_problems()', @old), '0', 'links are those of the records');
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE next_try = 'epoch')", @old);
pass('the fetcher has taken up the job');

$node->stop;
$network->stop;
done_testing();
