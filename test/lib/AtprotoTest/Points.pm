# AtprotoTest/Points.pm
#		Stops processes at the points of doc/develop/races.md, so that a
#		test decides in which order the processes go on.
#
#		my $points = AtprotoTest::Points->new($node);
#		$points->hold('states read', 'atproto s');	# a process is named by its application_name
#		$points->wait('states read', 'atproto s');	# until the process has reached the point
#		$points->release('states read', 'atproto s');
#
#		my $session = $points->session('user', $sql);	# starts the statement, without waiting for its end
#		$points->blocked('user');						# until the session waits for a lock
#		my ($out, $err) = $session->finish;

package AtprotoTest::Points;

use strict;
use warnings FATAL => 'all';

use IPC::Run;
use Test::More;

sub new
{
	my ($class, $node) = @_;

	BAIL_OUT('the extension was built without ATP_INJECTION_POINTS')
	  unless -e $node->config_data('--pkglibdir') . '/atproto.so'
	  && PostgreSQL::Test::Utils::slurp_file($node->config_data('--pkglibdir') . '/atproto.so') =~ /states read/;
	my $self = bless { node => $node, session => $node->background_psql('postgres') }, $class;

	# it may live longer than a query may take
	$self->{session}->set_query_timer_restart;
	return $self;
}

# The lock that a process takes at a point, as SQL functions and as pg_locks have it.
sub _keys
{
	my ($point, $process) = @_;
	return "hashtext('$point'), hashtext('$process')";
}

sub hold
{
	my ($self, $point, $process) = @_;

	$self->{session}->query_safe('SELECT pg_advisory_lock(' . _keys($point, $process) . ')');
	return;
}

sub release
{
	my ($self, $point, $process) = @_;

	$self->{session}->query_safe('SELECT pg_advisory_unlock(' . _keys($point, $process) . ')');
	return;
}

sub wait
{
	my ($self, $point, $process) = @_;

	AtprotoTest::wait_for("SELECT count(*) = 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND NOT granted"
		  . " AND (classid::bigint, objid::bigint) = (hashtext('$point')::bigint & 4294967295, hashtext('$process')::bigint & 4294967295)", node => $self->{node});
	return;
}

# Until a process waits for a lock that is none of these points.
sub blocked
{
	my ($self, $process) = @_;

	AtprotoTest::wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = '$process'"
		  . " AND wait_event_type = 'Lock' AND wait_event <> 'advisory'", node => $self->{node});
	return;
}

# A session of its own, with this application_name.
sub session
{
	my ($self, $name, $sql) = @_;
	my $s = bless { out => '', err => '' }, 'AtprotoTest::Points::Session';

	local $ENV{PGAPPNAME} = $name;
	$s->{process} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $self->{node}->connstr('postgres'), '-c', $sql ],
		'<', \undef, '>', \$s->{out}, '2>', \$s->{err});
	return $s;
}

# Waits for the end of the session; returns its output, and in a list also its error messages.
sub AtprotoTest::Points::Session::finish
{
	my ($self) = @_;

	$self->{process}->finish;
	chomp(@$self{ 'out', 'err' });
	return wantarray ? @$self{ 'out', 'err' } : $self->{out};
}

1;
