# AtprotoTest/Statuses.pm
#		A subscription at level full to the capture "statuses" of test/oracle/full.py: the stream calls each
#		account inactive, and then the accounts sign commits.
#
#		my $statuses = AtprotoTest::Statuses->new('status');	# a cluster, a network and a clock
#		$statuses->follow(2 * $statuses->all + 1);				# hold the stream before these sequence numbers
#		$statuses->asked('active');								# how often the account's server was asked
#
#		who has the DID, key and pds of each account; when follow() returns, all of them are inactive.

package AtprotoTest::Statuses;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;

sub new
{
	my ($class, $name) = @_;
	my $network = AtprotoTest::Network->start;
	my $preload = AtprotoTest::Preload->make(network => $network);
	my $node    = make_node($name, start => $preload, conf => $network->settings . <<'EOF2');
max_worker_processes = 16
atproto.reconnect_delay = 50ms
EOF2
	my %who = map { my ($account, $did, $key) = split /\t/; $account => { did => $did, key => $key, pds => "$account.example.com" } }
	  split /\n/, slurp_file(make_capture('full.py', 'statuses', '--keys'));

	return bless { network => $network, node => $node, clock => AtprotoTest::Clock->new($node), who => \%who }, $class;
}

sub all { return scalar keys %{ $_[0]->{who} } }

# Subscribes, and waits until the stream has called all accounts inactive.  Returns the stream's server.
sub follow
{
	my ($self, @hold_at) = @_;
	my $server = AtprotoTest::Server->start(make_capture('full.py', 'statuses'), map { ('--hold-at', $_) } @hold_at);

	foreach my $account (sort keys %{ $self->{who} })
	{
		my ($did, $key, $pds) = @{ $self->{who}{$account} }{qw(did key pds)};
		query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at)"
			. " VALUES ('$did', 'good', '\\x$key', '$pds', now(), now() - interval '1 h')");
	}
	query(subscribe_sql('s', $server, cursor => 0, verify => "'full'"));
	wait_for_seq($self->{node}, 's', 2 * $self->all);
	is(query('SELECT count(*) FROM atproto.repo WHERE NOT active AND verified'), $self->all, 'none is active any more');
	return $server;
}

# How often the account's server got a request for the status.
sub asked
{
	my ($self, $account) = @_;

	return scalar(() = $self->{network}->log(kind => 'http', host => $self->{who}{$account}{pds}, path => qr/getRepoStatus\?did=/));
}

1;
