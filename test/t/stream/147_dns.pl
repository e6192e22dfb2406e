# 147_dns.pl
#		Name servers do not answer for the name of the server or of a proxy.  Meanwhile the consumer can be
#		paused and terminated at once, and does not block CREATE DATABASE and DROP DATABASE, neither while
#		it waits nor when it gives up.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes;

my $limit   = 15;    # seconds, on any machine; what hangs, hangs for ever
my $preload = AtprotoTest::Preload->make;
my $node    = make_node(
	'dns', start => $preload, conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 1s
atproto.reconnect_max_delay = 1s
EOF

# Does the function finish soon?
sub soon
{
	my ($name, $function) = @_;
	my $start = time;

	until ($function->())
	{
		return fail($name) if time - $start > $limit;
		Time::HiRes::usleep(50_000);
	}
	return pass($name);
}

# CREATE and DROP DATABASE need every process to answer their barriers.
sub others_go_on
{
	my ($when) = @_;

	my ($rc) = $node->psql('postgres', "SET statement_timeout = '${limit}s'; CREATE DATABASE other");
	is($rc, 0, "$when: CREATE DATABASE");
	($rc) = $node->psql('postgres', "SET statement_timeout = '${limit}s'; DROP DATABASE IF EXISTS other");
	is($rc, 0, "$when: DROP DATABASE");
	return;
}

my %url = (
	server => "'wss://unanswered.invalid'",
	proxy  => "'wss://localhost:1', proxy => 'http://unanswered.invalid:3128'",
	socks  => "'wss://localhost:1', proxy => 'socks5://unanswered.invalid:1080'");

query("SELECT atproto.subscribe('patient', $url{server})");

# --- while the names are looked up ---

foreach my $name (sort keys %url)
{
	query("SELECT atproto.subscribe('$name', $url{$name})");
	wait_for("SELECT state = 'connecting' FROM atproto.stat_subscription WHERE name = '$name'");
	others_go_on("the ${name}'s name is looked up");
	query("SELECT atproto.pause('$name')");
	others_go_on("the ${name}'s name is looked up, and the consumer ends");
	soon("the ${name}'s name is looked up: pause", sub { query("SELECT pid IS NULL FROM atproto.stat_subscription WHERE name = '$name'") eq 't' });
}

# --- when time is up ---

AtprotoTest::Clock->new($node)->advance(30);
wait_for("SELECT reconnects > 0 FROM atproto.stat_subscription WHERE name = 'patient'");
others_go_on('time is up');
like(query("SELECT last_error FROM atproto.stat_subscription WHERE name = 'patient'"), qr/does not answer|timed out/i, 'time is up: the reason');
wait_for("SELECT state = 'connecting' FROM atproto.stat_subscription WHERE name = 'patient'");
my $pid = query("SELECT pid FROM atproto.stat_subscription WHERE name = 'patient'");
query("SELECT pg_terminate_backend($pid)");
soon('the process can be terminated', sub { query("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid") eq 't' });
wait_for("SELECT state = 'connecting' AND pid IS DISTINCT FROM $pid FROM atproto.stat_subscription WHERE name = 'patient'");

# --- shutdown ---

my $start = time;
$node->stop('fast');
cmp_ok(time - $start, '<', $limit, 'fast shutdown');
unlike(slurp_file($node->logfile), qr/was terminated by signal/, 'nothing crashed');

done_testing();
