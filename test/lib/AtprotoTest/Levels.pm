# AtprotoTest/Levels.pm
#		Spoilt captures of the simulator (test/oracle/spoil.py), and whether the
#		tables, states, letters and counts of a subscription are what
#		test/oracle/levels.py says of its level of verification.
#
#		use AtprotoTest;
#		use AtprotoTest::Levels;
#
#		my $spoilt = spoil([ '--events' => 1000 ], [ '--percent' => 5 ]);
#		my $server = AtprotoTest::Server->start("$spoilt/frames");
#		...
#		level_matches('chain', $spoilt, 's', schema => 'atproto');

package AtprotoTest::Levels;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use Exporter qw(import);
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(spoil last_seq truth changes level_matches);

# The columns of the files that levels.py writes; %1$s is the schema, %2$s the subscription.
my %columns = (
	audited => q{SELECT did, sync FROM %1$s.repo WHERE rev IS NOT NULL AND status IS DISTINCT FROM 'deleted'},
	record => 'SELECT did, collection, rkey, cid, rev, value FROM %1$s.record',
	repo   => 'SELECT did, rev, "commit", data, active, status, handle, sync FROM %1$s.repo',
	dead   => q{SELECT stage, did, count(*) FROM atproto.dead_letter WHERE subscription = '%2$s' GROUP BY 1, 2},
	skips  => q{SELECT key, value FROM atproto.stat_subscription, jsonb_each_text(skips)
		WHERE name = '%2$s' AND key NOT IN ('filtered', 'held', 'invalid', 'unknown')});

sub run_oracle
{
	my ($input, $program, @args) = @_;
	my $python = $ENV{PYTHON} || '/usr/bin/python3';
	my ($out, $err) = ('', '');

	IPC::Run::run([ $python, '-B', test_dir() . "/oracle/$program", @args ], '<', \$input, '>', \$out, '2>', \$err);
	my $status = $? >> 8;
	BAIL_OUT("$program failed: $err") if $err ne '' || $status > 1;
	return ($out, $status);
}

# The directory with what spoil.py makes of the simulator's capture: options of both.
sub spoil
{
	my ($simulation, $faults) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir('spoilt');
	my ($capture) = simulate(@$simulation, '--directory' => "$dir/directory");

	run_oracle('', 'spoil.py', $capture, "$dir/directory", $dir, @$faults);
	return $dir;
}

# The faults that were made: lists of seq, did, fault.
sub truth
{
	my ($dir) = @_;
	return map { [ split /\t/ ] } split /\n/, slurp_file("$dir/truth");
}

# The seqs from which on the directory says something else.
sub changes
{
	my ($dir) = @_;
	my %seqs = map { $_ => 1 } slurp_file("$dir/documents") =~ /"seq":(\d+)/g;
	return sort { $a <=> $b } keys %seqs;
}

# Of a capture's last message.
sub last_seq
{
	my ($dir) = @_;

	return slurp_file("$dir/last") + 0;
}

# The directory with what levels.py says of a level; it is asked once.
sub expected
{
	my ($level, $dir) = @_;

	run_oracle('', 'levels.py', $level, "$dir/frames", "$dir/$level", $level eq 'full' ? ('--documents', "$dir/documents") : ())
	  unless -d "$dir/$level";
	return "$dir/$level";
}

# Tests that all is as the oracle says.  Options: schema (atproto), name, files: all
# but audited, which is what CALL atproto.audit_all() leaves.
sub level_matches
{
	my ($level, $dir, $subscription, %o) = @_;
	my $expected = expected($level, $dir);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return subtest $o{name} // "level $level" => sub {
		foreach my $file (@{ $o{files} // [ grep { $_ ne 'audited' } sort keys %columns ] })
		{
			my $rows = query('COPY (' . sprintf($columns{$file}, $o{schema} // 'atproto', $subscription) . q{) TO STDOUT (ENCODING 'UTF8')});
			my ($out, $status) = run_oracle($rows eq '' ? '' : "$rows\n", 'levels.py', 'compare', "$expected/$file");

			ok($status == 0, "$file: what the oracle says") or diag($out);
		}
	};
}

1;
