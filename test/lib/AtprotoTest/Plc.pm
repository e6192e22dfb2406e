# AtprotoTest/Plc.pm
#		Logs of the did:plc directory (test/oracle/plc.py), and what must become of them.
#
#		my $log = plc_export(operations => 2000, wrong => 100);	# a file, for the network's directory
#		$network->directories({ $PLC => { log => $log } });
#		plc_rows_are('operation', query('SELECT ...'), $log, 'the operations');
#		foreach my $chain (plc_chains('forged', chains => 1000)) { ... $chain->{log}, $chain->{expect} ... }
#
#		All of it follows from the seed (AtprotoTest::seed(), or seed => ...).  The same logs are made once in a run.

package AtprotoTest::Plc;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use Exporter qw(import);
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw($PLC plc_export plc_chains plc_chains_file plc_entries plc_last plc_rows plc_rows_are);

# The directory's host in AtprotoTest::Network.
our $PLC = 'plc.example.com';

my $program = test_dir() . '/oracle/plc.py';

sub run_program
{
	my ($what, $file, %o) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', $program, $what, $file, map { ("--$_", $o{$_}) } sort keys %o ],
		'<', \undef, '>', \$out, '2>', \$err) or BAIL_OUT("plc.py $what failed: $err");
	return $out;
}

# Makes a file of this kind, or has it made already.
sub made
{
	my ($what, %o) = @_;
	my ($changed) = sort { $b <=> $a } map { (stat)[9] } glob test_dir() . '/oracle/*.py';

	$o{seed} //= 1;
	return AtprotoTest::made_once(join("\0", "plc_$what", $changed, map { "$_=$o{$_}" } sort keys %o),
		sub { run_program($what, $_[0], %o) });
}

# A directory's log: the path of a file.  operations => about so many, wrong => accounts with a forged operation, seed.
sub plc_export
{
	my (%o) = @_;
	return made('export', %o);
}

# Audit logs with what must be said of them: plc_chains('honest', operations => n) or plc_chains('forged', chains => n).
sub plc_chains
{
	my ($what, %o) = @_;
	return map { decode_json($_) } split /\n/, slurp_file(plc_chains_file($what, %o));
}

# The file of these, a JSON object a line.
sub plc_chains_file
{
	my ($what, %o) = @_;
	return made($what, %o);
}

# The lines of a directory's log.
sub plc_entries
{
	my ($file) = @_;
	return map { decode_json($_) } split /\n/, slurp_file($file);
}

# The number of its last line.
sub plc_last
{
	my ($file) = @_;
	return (plc_entries($file))[-1]{seq};
}

# What a directory's log must leave (the head of plc.py has the kinds and their columns): lines, sorted as by COLLATE "C",
# columns with tabs between, NULL as \N.  last => SEQ: only the log up to there.
my %rows;

sub plc_rows
{
	my ($kind, $file, %o) = @_;
	my $key = join "\0", $file, map { "$_=$o{$_}" } sort keys %o;

	$rows{$key} //= run_program('rows', $file, %o);
	return join '', map { /^\Q$kind\E\t(.*\n)/ ? $1 : () } split /(?<=\n)/, $rows{$key};
}

# Tests that the lines of a query's answer are those; the answer's order does not matter.
sub plc_rows_are
{
	my ($kind, $have, $file, $name, %o) = @_;
	my @want = split /\n/, plc_rows($kind, $file, %o);
	my @have = sort split /\n/, $have;
	my (%want, %have);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	$want{$_}++ foreach @want;
	$have{$_}++ foreach @have;
	my @more    = grep { $have{$_} > ($want{$_} // 0) } sort keys %have;
	my @lacking = grep { $want{$_} > ($have{$_} // 0) } sort keys %want;

	return ok(!@more && !@lacking, $name)
	  || diag(@lacking . ' are lacking, ' . @more . " should not be\n", map { "  $_\n" } (map { "- $_" } splice @lacking, 0, 10), map { "+ $_" } splice @more, 0, 10);
}

1;
