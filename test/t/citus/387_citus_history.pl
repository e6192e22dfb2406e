# 387_citus_history.pl
#		An archive is read into distributed tables, alone and beside a relay: the records are those of plain tables.
#		H-40, H-43.
#
#		Needs Citus: see test/citus/build.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Archive;
use AtprotoTest::Citus;
use AtprotoTest::Jetstream;
use Test::More;

if (my $why = AtprotoTest::Citus::missing())
{
	plan skip_all => $why;
}

my $archive = AtprotoTest::Archive->begin('--events' => 600, '--accounts' => 30);
my ($node) = make_citus('citus_history', start => $archive->preload, conf => $archive->settings . "atproto.history_interval = 1s\n");

$archive->serve({ block_rows => 20, segment_blocks => 4 }, seal => 5);
foreach my $schema (qw(plain spread beside))
{
	query("CREATE SCHEMA $schema; SELECT atproto.create_tables('$schema')");
	query("SELECT atproto.distribute('$schema')") if $schema ne 'plain';
}

foreach my $schema (qw(plain spread))
{
	query($archive->subscription_sql($schema, target => "'$schema'", events => "'keep'", links => "'all'"));
	$archive->wait_for_end($schema);
}
same_rows('spread', 'plain', 'H-40: an archive and the stream after the archive', tables => [qw(record record_event repo link)]);

# The relay is slower than the archive, so that deletions are kept.
my $relay = AtprotoTest::Server->start($archive->{capture}, '--rate', 200);
query('BEGIN; ' . subscribe_sql('relay', $relay, cursor => 0, target => "'beside'", verify => "'chain'") . ';'
	  . $archive->subscription_sql('beside', target => "'beside'", verify => "'hash'") . '; COMMIT');
$archive->wait_for_end('beside');
cmp_ok(query('SELECT count(*) FROM beside.sweep_deletion'), '>', 0, 'H-43: deletions are kept');
wait_for_seq($node, 'relay', 600);
same_rows('beside', 'plain', 'H-43: beside a relay', tables => ['record']);

# All of the archive is sealed: the seam ends.
$archive->do(seal => 0);
foreach my $name (qw(plain spread))
{
	wait_for("SELECT phase = 'live' FROM atproto.history WHERE subscription = '$name'");
}
is(query("SELECT count(*) FROM atproto.gap WHERE closed_at IS NULL"), '0', 'no gap');

done_testing();
