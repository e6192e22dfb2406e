# 291_plc.pl
#		Checks the tests' own did:plc directory: the second verifier of its logs agrees with facts of the public
#		directory, with a log written by hand and with the maker of logs; the simulated directory answers as its README
#		says.  Needs no PostgreSQL.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Plc;
use IPC::Run;
use Test::More;

my $python = $ENV{PYTHON} || '/usr/bin/python3';
my $seed   = seed();

foreach ([ 'oracle/check_plc.py', $seed ], ['network/check_directory.py'])
{
	my ($program, @args) = @$_;
	my ($out, $err) = ('', '');

	ok(IPC::Run::run([ $python, '-B', test_dir() . "/$program", @args ], '<', \undef, '>', \$out, '2>', \$err), "$program ends well")
	  or diag(join "\n", (grep { !/^ok/ } split /\n/, $out), $err);
	cmp_ok(($out =~ /^1\.\.(\d+)$/m)[0] // 0, '>=', 30, 'all of it ran');
}

# the module
my $network = AtprotoTest::Network->start;
my $log     = plc_export(operations => 60, seed => $seed);
my @entries = plc_entries($log);
my $state   = $network->directories({ $PLC => { log => $log, upto => $entries[9]{seq} } })->{$PLC};

is("$state->{entries} $state->{last}", "10 $entries[9]{seq}", 'a directory in the network, with a part of a log');
is(plc_last($log), $entries[-1]{seq}, 'the last number of a log');
$state = $network->directories({ $PLC => { do => { publish => undef } } })->{$PLC};
is("$state->{entries} $state->{waiting}", @entries . ' 0', 'all of it');
is(() = plc_rows('operation', $log) =~ /\n/g, scalar @entries, 'what must become of it: each operation');
is(() = plc_rows('operation', $log, last => $entries[9]{seq}) =~ /\n/g, 10, '... and of a part of it');
plc_rows_are('now', join('', reverse split /(?<=\n)/, plc_rows('now', $log)), $log, 'rows in any order');
my ($chain) = plc_chains('honest', operations => 10, seed => $seed);
is(scalar @{ $chain->{log} }, scalar @{ $chain->{expect} }, 'an account\'s log, with verdicts');

$network->stop;
done_testing();
