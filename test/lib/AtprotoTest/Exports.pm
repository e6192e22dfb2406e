# AtprotoTest/Exports.pm
#		A network whose hosts have the exports of test/oracle/export.py, and a cluster that fetches them.
#
#		my ($network, $node, $files) = begin_exports('repos', "atproto.fetch_retry = '1s'\n");
#		$network->repos({ $HOST => { did('a') => { car => "$files/first.car" } } });
#		stop_at_fetch(did('a'), 'atproto');	# its server does not answer before go_on()
#		go_on();

package AtprotoTest::Exports;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use Exporter qw(import);
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw($HOST make_exports begin_exports stop_at_fetch go_on);

# The server of streams, lists and repositories.
our $HOST = 'stream.example.com';

my $network;

# A directory with the exports.
sub make_exports
{
	my $files = PostgreSQL::Test::Utils::tempdir('exports');

	IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/oracle/export.py', $files ]) or BAIL_OUT('no exports were made');
	return $files;
}

# The cluster's name, and more of postgresql.conf.
sub begin_exports
{
	my ($name, $conf) = @_;
	my $files = make_exports();

	$network = AtprotoTest::Network->start(cars => $files);
	my $node = make_node(
		$name,
		start => AtprotoTest::Preload->make(network => $network),
		conf  => $network->settings . "atproto.fetch_host_rate = 1000\nmax_worker_processes = 30\n$conf");
	return ($network, $node, $files);
}

# It is being fetched into a target, and its server does not answer before go_on().
sub stop_at_fetch
{
	my ($did, $target) = @_;
	my ($name) = $did =~ /([^:]+)$/;
	my @asked = (path => qr/getRepo\b.*\Q$name\E/);
	my $before = () = $network->log(@asked);

	$network->fault({ path => 'getRepo\\b', did => $did, hold => 'gate' });
	query("SELECT atproto.resync('$did', '$target')");
	wait_for("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE did = '$did' AND target = '$target' AND state = 'running')");
	# not a fetch of parts, which the fault does not stop
	$network->wait_for_log($before + 1, @asked);
	return;
}

sub go_on
{
	$network->unfault(undef);
	$network->release('gate');
	return;
}

1;
