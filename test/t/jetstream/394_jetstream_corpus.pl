# 394_jetstream_corpus.pl
#		Production traffic, recorded from a relay and from Jetstream, leaves equal rows;
#		test/oracle/jetstream.py makes Jetstream's texts out of the relay's frames.  ATPROTO_JETSTREAM is a
#		directory with frames.bin.zst and expected_v1.jsonl, which bluesky-social/jetstream has in
#		internal/corpus/testdata.  These files contain texts of real people: never commit them.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $corpus = $ENV{ATPROTO_JETSTREAM}
  or plan skip_all => 'LEFT OUT: no corpus of Jetstream (ATPROTO_JETSTREAM)';
my $dir = PostgreSQL::Test::Utils::tempdir();

# Repeated [u32 little-endian length][frame].
my $bytes = '';
IPC::Run::run([ 'zstd', '-dc', "$corpus/frames.bin.zst" ], '>', \$bytes) or BAIL_OUT('no frames');
my @frames;
for (my $pos = 0; $pos < length $bytes; $pos += 4 + length $frames[-1])
{
	push @frames, substr($bytes, $pos + 4, unpack('V', substr($bytes, $pos, 4)));
}
my $capture = write_capture("$dir/frames", @frames);
my @lines   = grep { $_ ne '' } split /\n/, slurp_file("$corpus/expected_v1.jsonl");
my $theirs  = write_capture("$dir/lines", @lines);
cmp_ok(scalar(@lines), '>', 100, 'there are texts');

# Of two repositories, which come first is not told.
my %ours = map { $_ => texts($_, $capture) } qw(v1 v2);
my ($made, $given) = map { join "\n", sort map { s/"time_us":\d+//r } @$_ } [ read_capture($ours{v1}) ], \@lines;
ok($made eq $given, 'jetstream.py makes these texts, but for their times');

my $node = make_node('corpus');
my %from = (relay => $capture, theirs => $theirs, v1 => $ours{v1}, v2 => $ours{v2});
my %servers;
foreach my $schema (sort keys %from)
{
	$servers{$schema} = AtprotoTest::Server->start($from{$schema});
	query("CREATE SCHEMA $schema; "
		  . subscribe_sql($schema, $servers{$schema}, cursor => 0, target => "'$schema'", events => "'keep'", links => "'all'", verify => "'hash'"));
	my $n = text_count($from{$schema});
	wait_for("SELECT coalesce(sum(events), 0) >= $n FROM atproto.cursor WHERE subscription = '$schema'");
}
cmp_ok(query('SELECT count(*) FROM relay.record_event'), '>', 100, 'there are operations');
same_rows($_, 'relay', "$_: the rows are those of the relay") foreach qw(theirs v1 v2);
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');

$node->stop;
done_testing();
