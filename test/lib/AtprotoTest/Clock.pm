# AtprotoTest/Clock.pm
#		Moves the clocks of the extension's processes (src/common/clock.h) forward or back, so
#		that a test need not wait for a time limit.
#
#		my $clock = AtprotoTest::Clock->new($node);
#		$clock->advance(30);			# for processes that wait, so many seconds pass
#		$clock->time_of_day(-1200);	# the time of day, by which events are judged: offset from the machine's
#		$clock->both(600, 400);		# time_of_day(600) and advance(400) in the same moment
#		$clock->later(600);			# the time of day goes forward, and processes that wait take their next step
#		$clock->ahead;				# seconds by which later() has moved the time of day

package AtprotoTest::Clock;

use strict;
use warnings FATAL => 'all';

use Test::More ();

sub new
{
	my ($class, $node) = @_;

	Test::More::BAIL_OUT('the extension was built without ATP_INJECTION_POINTS')
	  unless -e $node->config_data('--pkglibdir') . '/atproto.so'
	  && PostgreSQL::Test::Utils::slurp_file($node->config_data('--pkglibdir') . '/atproto.so') =~ /test_monotonic_ahead/;
	return bless { node => $node, passed => 0, ahead => 0 }, $class;
}

# Processes that start from now on have the settings; running processes reload all of them at once.
sub _set
{
	my ($self, %settings) = @_;
	my %where = (node => $self->{node});

	AtprotoTest::query($_, %where) foreach (map { "ALTER SYSTEM SET atproto.$_ = $settings{$_}" } sort keys %settings), 'SELECT pg_reload_conf()';
	AtprotoTest::wait_for("SELECT setting = '$settings{$_}' FROM pg_settings WHERE name = 'atproto.$_'", %where) foreach sort keys %settings;
	return;
}

sub advance
{
	my ($self, $seconds) = @_;

	$self->{passed} += 1000 * $seconds;
	return $self->_set(test_monotonic_ahead => $self->{passed});
}

sub time_of_day
{
	my ($self, $seconds) = @_;
	return $self->_set(test_time_of_day_ahead => $seconds);
}

# Both clocks at once: a request that a process sent after the first clock has moved would end by the time limit when the
# second clock moves.
sub both
{
	my ($self, $time_of_day, $seconds) = @_;

	$self->{passed} += 1000 * $seconds;
	return $self->_set(test_time_of_day_ahead => $time_of_day, test_monotonic_ahead => $self->{passed});
}

sub ahead { return $_[0]->{ahead} }

# For processes that wait, 400 seconds pass: longer than a host may have to rest, and than a consumer leaves its own work.
sub later
{
	my ($self, $seconds) = @_;

	$self->{ahead} += $seconds;
	return $self->both($self->{ahead}, 400);
}

1;
