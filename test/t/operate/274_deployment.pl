# 274_deployment.pl
#		doc/operate/deployment.md: a clone that must stay quiet; pgBouncer between client and server, where the program is
#		installed.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $server = AtprotoTest::Server->start(capture('pds.frames.gz'));
my $node = make_node('original', conf => "wal_level = replica\nmax_wal_senders = 2\n");
query(subscribe_sql('s', $server, cursor => 0));
wait_for_seq($node, 's', $PDS_LAST);

# --- a clone ---

$node->backup('copy');
my $clone = PostgreSQL::Test::Cluster->new('clone');
$clone->init_from_backup($node, 'copy');
$clone->append_conf('postgresql.auto.conf', "atproto.databases = ''");
my $requests = scalar $server->log('request');
$clone->start;
my @there = (node => $clone);
is(query("SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'atproto%'", @there), '0', 'a clone with atproto.databases empty has no process');
is(query("SELECT state, seq, last_error FROM atproto.stat_subscription", @there),
	"not running|$PDS_LAST|no manager serves this database: add the database to \"atproto.databases\", and restart the server", 'and says why');
is(query('SELECT count(*) FROM atproto.record', @there), query('SELECT count(*) FROM atproto.record'), 'it can be read');
is(scalar $server->log('request'), $requests, 'nothing has asked the server');
my ($rc, $out, $err) = $clone->psql('postgres', "SELECT atproto.resume('s')");
like($err, qr/NOTICE:  subscription "s" runs until the server stops/, 'resume() starts a consumer all the same');
wait_until(sub { scalar $server->log('request') > $requests }, 'the consumer of the clone');
$clone->stop;

# --- pgBouncer ---

SKIP:
{
	skip 'no pgbouncer', 6 if system('pgbouncer --version >/dev/null 2>&1') != 0;

	my $dir = PostgreSQL::Test::Utils::tempdir();
	my $port = PostgreSQL::Test::Cluster::get_free_port();
	my $me = getpwuid($<);
	append_to_file("$dir/users", qq{"$me" ""\n});
	append_to_file("$dir/ini", join "\n", '[databases]', 'postgres = host=' . $node->host . ' port=' . $node->port, '[pgbouncer]', "listen_port = $port", 'listen_addr = 127.0.0.1',
		'unix_socket_dir =', 'auth_type = trust', "auth_file = $dir/users", 'pool_mode = transaction', 'default_pool_size = 1', '');
	my $bouncer = IPC::Run::start([ 'pgbouncer', "$dir/ini" ], '>&', "$dir/log");
	my $ask = sub {
		my ($stdout, $stderr) = ('', '');
		IPC::Run::run([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', "host=127.0.0.1 port=$port dbname=postgres user=$me", '-f', '-' ], '<', \$_[0], '>', \$stdout, '2>', \$stderr);
		return join ' ', grep { length } $stdout =~ s/\n\z//r, $stderr =~ /((?:ERROR|FATAL|NOTICE|WARNING):  .*)/g;
	};
	wait_until(sub { $ask->('SELECT 1') eq '1' }, 'pgBouncer');
	is($ask->(q{SELECT atproto.pause('s')}), '', 'a function of control');
	wait_for(q{SELECT state = 'paused' AND pid IS NULL FROM atproto.stat_subscription});
	is($ask->(q{SELECT state FROM atproto.status}), 'paused', 'a view');
	is($ask->(q{BEGIN; SELECT atproto.set_cursor('s', 0), atproto.resume('s'); COMMIT}), '|', 'a transaction');
	wait_for_seq($node, 's', $PDS_LAST);
	is($ask->(q{CALL atproto.audit_all()}), 'NOTICE:  52 repositories were audited', 'a procedure with transactions of its own');
	like($ask->(q{SET search_path = nowhere; SELECT 1}) . $ask->(q{SHOW search_path}), qr/1nowhere/, 'SET reaches the next client');
	is(query(q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND client_addr IS NULL}), '1', 'the consumer has no connection of a client');
	$bouncer->kill_kill;
}

$node->stop;
done_testing();
