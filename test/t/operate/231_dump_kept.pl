# 231_dump_kept.pl
#		Dumps that earlier commits and versions have made (test/data/state_of_*.sql.gz, by test/tools/keep-state) load into
#		the present version, and so does the dump of the same state made now.  The tables have what they had, nothing starts by
#		itself, and all subscriptions go on from their positions: each event once.  E-43, R-32, R-35.
#
#		ATPROTO_KEEP=NAME, which keep-state sets, writes the dump of now as test/data/state_of_NAME.sql.gz.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Identities;
use AtprotoTest::KeptState;
use PostgreSQL::Test::Utils;
use Test::More;

my @files = sort glob test_dir() . '/data/state_of_*.sql.gz';
my @kept  = map { /(state_of_\w+)/ } @files;
my $conf  = "max_worker_processes = 60\natproto.reconnect_delay = 50ms\natproto.reconnect_max_delay = 200ms\n";
my $node  = begin_identities('kept', "atproto.databases = 'made'\n$conf");
my $state = AtprotoTest::KeptState->new;

sub unpacked
{
	my ($file) = @_;
	my $text = '';
	IPC::Run::run([ 'gzip', '-dc', $file ], '>', \$text) or BAIL_OUT("cannot read $file");
	return $text;
}

# --- the state, and its dump ---

$state->make($node, 'made');
$node->stop;
$node->append_conf('postgresql.conf', 'atproto.databases = ' . "'" . join(', ', 'now', @kept) . "'");
$preload->start($node);
$state->note_contents($node, 'made');
is(AtprotoTest::KeptState::differences($node, 'made'), '', 'the queries give the same twice');
cmp_ok(query(q{SELECT count(*) FROM kept.expected WHERE result NOT LIKE '(0,%'}, database => 'made'), '>', 20, 'there is something to compare');
my $dump = $state->dump($node, 'made');
if (defined $ENV{ATPROTO_KEEP})
{
	my $file = test_dir() . "/data/state_of_$ENV{ATPROTO_KEEP}.sql.gz";
	IPC::Run::run([ 'gzip', '-9nc' ], '<', \$dump, '>', $file) or BAIL_OUT("cannot write $file");
}

# --- it loads ---

my %dumps = (now => $dump, map { $kept[$_] => unpacked($files[$_]) } 0 .. $#files);
cmp_ok(scalar keys %dumps, '>', 1, 'there is a dump of an earlier state') unless defined $ENV{ATPROTO_KEEP};
my $requests = () = map { $_->cursors } values %{ $state->{servers} };
foreach my $database (sort keys %dumps)
{
	$state->load($node, $database, $dumps{$database});
	is(AtprotoTest::KeptState::differences($node, $database), '', "$database: the tables have what they had");
	query("SELECT atproto.create_tables(target) FROM (SELECT DISTINCT target FROM atproto.subscription) t; SELECT atproto.create_tables('packed')", database => $database);
	is(AtprotoTest::KeptState::differences($node, $database), '', "$database: create_tables() changes nothing of it");
	is(query('SELECT count(DISTINCT stopped), min(stopped) FROM atproto.subscription', database => $database), '1|restored, or inserted by hand; atproto.resume() starts it',
		"$database: all wait for resume()");
	is(query('SELECT count(*) FROM atproto.check()', database => $database), '0', "$database: the tables fit together");
	wait_for("SELECT state = 'idle' FROM pg_stat_activity WHERE backend_type = 'atproto manager' AND datname = '$database'");
}
is(query(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto worker')}), '0', 'nothing consumes');
is(scalar(() = map { $_->cursors } values %{ $state->{servers} }), $requests, 'nothing connected');

# --- it goes on, in all databases at once: they share servers and no state ---

$state->go_on($node, sort keys %dumps);

$node->stop;
$network->stop;
done_testing();
