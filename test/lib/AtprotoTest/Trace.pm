# AtprotoTest/Trace.pm
#		Records the committed transactions of a test's servers, so that the models of test/models can say
#		whether a run of the model explains them (test/models/README.md, "Traces").
#
#		ATPROTO_TRACE=DIR test/one 120_kill		the clusters of make_node record; done_testing checks
#		make_node('main', trace => 'DIR')		only this cluster
#
#		A logical slot keeps the transactions through kills and crashes.  They are read when a cluster stops,
#		and when the test ends.

package AtprotoTest::Trace;

use strict;
use warnings FATAL => 'all';

use Cwd qw(realpath);
use File::Basename qw(basename dirname);
use File::Path qw(make_path);
use IPC::Run;

my $models = realpath(dirname(__FILE__) . '/../../models');
my $test   = basename($0) =~ s/\.pl$//r;

# For postgresql.conf, before the first start.
sub settings
{
	return "wal_level = logical\nmax_replication_slots = 10\n";
}

# The file of a cluster, which is begun anew; the models are compiled with these options.
sub file
{
	my ($dir, $cluster, @defines) = @_;
	my $path = "$dir/$test.$cluster.trace";

	make_path($dir);
	open my $f, '>', $path or die "cannot write $path: $!";
	print $f "defines @defines\n";
	close $f;
	return $path;
}

# To be run before the first change of a table of the extension.
sub slot_sql
{
	return q{SELECT pg_create_logical_replication_slot('trace', 'test_decoding')};
}

# What was committed since the last call.
sub changes_sql
{
	return q{COPY (SELECT data FROM pg_logical_slot_get_changes('trace', NULL, NULL, 'include-timestamp', 'on')) TO STDOUT};
}

# What the models say of a file, by the arguments of test/models/trace: lines "ok - …" and "not ok - …", and further lines as comments.
sub judge
{
	my (@args) = @_;
	my $out = '';

	IPC::Run::run([ '/usr/bin/python3', '-B', "$models/trace", @args ], '<', \undef, '>', \$out, '2>&1');
	return $out;
}

# Does the machine have the programs spin and gcc, which judge() needs?
sub possible
{
	return system('command -v spin gcc >/dev/null') == 0;
}

1;
