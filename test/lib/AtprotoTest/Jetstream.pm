# AtprotoTest/Jetstream.pm
#		Turns captures into the texts that Jetstream would send, and compares the rows with the
#		rows of the captures themselves.
#
#		use AtprotoTest;
#		use AtprotoTest::Jetstream;
#
#		my $texts  = texts('v1', $capture, '--ties' => 10);
#		my $server = AtprotoTest::Server->start($texts, '--zstd-dictionary', dictionary($texts));
#		query(subscribe_sql('j', $server, cursor => 0, target => "'j'"));
#		wait_for_texts('j', $texts);
#		same_rows('j', 'relay', 'the rows are those of the relay');

package AtprotoTest::Jetstream;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use Exporter qw(import);
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(texts text_count dictionary wait_for_texts differences same_rows);

# What both have, by table.  A commit's seq, and the tree, is not in what Jetstream sends.
my %columns = (
	record       => 'did, collection, rkey, cid, rev, value, raw',
	record_event => 'action, did, collection, rkey, rev, cid, value',
	repo         => 'did, rev, active, status, handle',
	link         => 'target, did, rkey, (SELECT collection || $$:$$ || path FROM %1$s.link_source WHERE id = source)');

# A capture's texts: texts('v1', $capture, options of jetstream.py).
sub texts
{
	my ($version, $capture, @options) = @_;
	return make_capture('jetstream.py', $version, $capture, @options);
}

sub text_count
{
	my ($texts) = @_;
	return scalar(() = read_capture($texts));
}

# A zstd dictionary for such texts.
sub dictionary
{
	my ($texts, $size) = @_;
	my $file = PostgreSQL::Test::Utils::tempdir('dictionary') . '/dictionary';

	AtprotoTest::Server::build();
	IPC::Run::run([ test_dir() . '/server/traindict', $texts, $size // 16384 ], '>', $file) or BAIL_OUT('no dictionary');
	return $file;
}

# Waits until the subscription has committed all of them.  Where connections are cut, some of the first
# version's may count twice: then the last one's position tells.
sub wait_for_texts
{
	my ($name, $texts) = @_;
	my @texts = read_capture($texts);
	my ($last) = $texts[-1] =~ /"(?:time_us|seq)":(\d+)/ or BAIL_OUT("no position in the last text of $texts");

	wait_for("SELECT coalesce(sum(events) >= @{[ scalar @texts ]} AND max(seq) >= $last, false) FROM atproto.cursor WHERE subscription = '$name'");
	return;
}

# How many rows are in one schema's table and not in the other's; without the columns named.
sub differences
{
	my ($table, $schema, $other, @without) = @_;
	my $list = $columns{$table};

	$list =~ s/\b$_,? ?// foreach @without;
	my ($one, $two) = map { sprintf "SELECT $list FROM %1\$s.$table", $_ } $schema, $other;
	return query("SELECT count(*) FROM (($one EXCEPT ALL $two) UNION ALL ($two EXCEPT ALL $one)) d");
}

# Options: tables => [...], without => [...].
sub same_rows
{
	my ($schema, $other, $name, %o) = @_;
	my $tables = $o{tables} // [qw(record record_event repo link)];

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return subtest $name => sub {
		foreach my $table (@$tables)
		{
			is(differences($table, $schema, $other, @{ $o{without} // [] }), '0', "$table is the same");
		}
	};
}

1;
