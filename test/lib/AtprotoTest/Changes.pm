# AtprotoTest/Changes.pm
#		Slots of the output plugin atproto, and the comparison of what a reader has with the tables.
#
#		my $node = make_node('main', changes_conf());
#		make_slot('app');
#		my @messages = changes('app', targets => 'atproto');
#		reader_matches($node, \@messages, 'after the capture');

package AtprotoTest::Changes;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

use Exporter 'import';
our @EXPORT = qw(changes_conf make_slot changes peek decoded reader reader_matches);

# Options of make_node for a server whose changes can be decoded, with more lines of postgresql.conf.
# Newer minor versions of PostgreSQL refuse output plugins that are not listed.
sub changes_conf
{
	my ($more, $listed) = @_;
	my ($settings) = run_command([ 'postgres', '--describe-config' ]);

	$listed //= 'pgoutput, test_decoding, atproto';
	return (init => { allows_streaming => 'logical' },
		conf => ($settings =~ /^output_plugin_libraries\t/m ? "output_plugin_libraries = '$listed'\n" : '') . ($more // ''));
}

sub make_slot
{
	my ($slot) = @_;

	query("SELECT FROM pg_create_logical_replication_slot('$slot', 'atproto')");
	return;
}

sub ask
{
	my ($function, $slot, %options) = @_;
	my $options = join '', map { ", '$_', '$options{$_}'" } sort keys %options;

	return split /\n/, query("SELECT data FROM $function('$slot', NULL, NULL$options)");
}

# All messages since the last call; and without moving the slot.
sub changes
{
	return ask('pg_logical_slot_get_changes', @_);
}

sub peek
{
	return ask('pg_logical_slot_peek_changes', @_);
}

# The messages, decoded; without those of the kind position.
sub decoded
{
	my $json = JSON::PP->new->utf8(0);

	return grep { $_->{kind} ne 'position' } map { $json->decode($_) } @_;
}

# What test/oracle/changes.py makes of messages.
sub reader
{
	my ($mode, $messages, @args) = @_;
	my $python = $ENV{PYTHON} || '/usr/bin/python3';
	my $input  = join '', map { "$_\n" } @$messages;
	my ($out, $err) = ('', '');

	IPC::Run::run([ $python, '-B', test_dir() . '/oracle/changes.py', $mode, @args ], '<', \$input, '>', \$out, '2>', \$err);
	return $err ne '' ? "error: $err" : $out;
}

my %tables = (
	record  => 'SELECT did, collection, rkey, cid, rev, value::jsonb FROM %s.record',
	account => 'SELECT did, active, status, handle FROM %s.repo WHERE NOT active OR status IS NOT NULL OR handle IS NOT NULL',
	label   => 'SELECT src, uri, val, cid, neg FROM %s.label');

# Tests that a reader who has applied all messages has what the tables have.  Options: schema, modes => [...], args => [...].
sub reader_matches
{
	my ($node, $messages, $name, %o) = @_;
	my $schema = $o{schema} // 'atproto';

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return subtest $name => sub {
		foreach my $mode (@{ $o{modes} // [ 'record', 'account', 'label' ] })
		{
			my $rows = $node->safe_psql('postgres', sprintf "COPY ($tables{$mode}) TO STDOUT (ENCODING 'UTF8')", $schema);
			my $have = reader($mode, $messages, $schema, @{ $o{args} // [] });

			is((oracle($have, 'canon'))[0], (oracle($rows eq '' ? '' : "$rows\n", 'canon'))[0], $mode);
		}
	};
}

1;
