# AtprotoTest/Kills.pm
#		Kills the server and the extension's processes at random moments, until no work is
#		outstanding.  The caller seeds the random numbers: srand $seed.
#
#		my $kills = AtprotoTest::Kills->new($node, $preload, [ 'another kind', sub { ... } ]);
#		$kills->settle(6, sub { try_query('SELECT ...') }, 'what it gives in the end', sub { ... });

package AtprotoTest::Kills;

use strict;
use warnings FATAL => 'all';

use AtprotoTest ();
use Test::More;
use Time::HiRes qw(usleep);

# The node's server was started by the preload (undef: as ever), and is again.
sub new
{
	my ($class, $node, $preload, @more) = @_;
	my $self = bless { node => $node, preload => $preload }, $class;

	$self->{kinds} = [
		(map { my $type = $_; [ "kill -9 of a $type", sub { $self->_one('KILL', $type) } ], [ "a $type ends", sub { $self->_one('TERM', $type) } ] }
			'consumer', 'apply worker', 'fetcher'),
		[ 'kill -9 of the server', sub { $self->_restart(sub { $node->kill9 }) } ],
		[ 'immediate restart',     sub { $self->_restart(sub { $node->stop('immediate') }) } ],
		@more ];
	return $self;
}

sub _one
{
	my ($self, $signal, $type) = @_;
	my $pid = AtprotoTest::try_query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto $type' ORDER BY random() LIMIT 1", node => $self->{node});
	kill $signal, $pid if $pid;
	return;
}

sub _restart
{
	my ($self, $how) = @_;
	my $pids;

	AtprotoTest::wait_until(sub { defined($pids = AtprotoTest::try_query('SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()', node => $self->{node})) }, 'the server');
	my @orphans = split /\n/, $pids;
	$how->();
	AtprotoTest::wait_until(sub { !kill 0, @orphans }, 'the end of the server');
	$self->{preload} ? $self->{preload}->start($self->{node}) : $self->{node}->start;
	return;
}

# Kills so many times (how many are still to come: $kills->{left}), and waits until what is outstanding ($left, undef while nobody can say) is $done; calls $meanwhile with it.
sub settle
{
	my ($self, $kills, $left, $done, $meanwhile) = @_;
	my $before   = '';
	my $deadline = time + 2 * $AtprotoTest::TIMEOUT;

	for (;;)
	{
		$self->{left} = $kills;
		my $there = $left->() // 'no answer';

		last if $there eq $done && $kills == 0;
		note("outstanding: $there") if $there ne $before;
		$before = $there;
		BAIL_OUT("outstanding: $there") if time > $deadline;
		if ($kills > 0 && rand() < 0.5)
		{
			my $kind = $self->{kinds}[ rand @{ $self->{kinds} } ];
			note("$there: $kind->[0]");
			$kind->[1]->();
			$kills--;
		}
		$meanwhile->($there);
		usleep(rand 300_000);
	}
	return;
}

1;
