# 410_history.pl
#		The archive of a Jetstream is read into the tables, and then the stream of the same numbers (H-01 to H-06, H-10
#		to H-16, H-20 to H-25, H-30 to H-36, H-40).  The page is doc/use/history.md.
#
#		ATPROTO_SEED is the seed of the run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Archive;
use AtprotoTest::Jetstream;
use PostgreSQL::Test::Utils;
use Test::More;

my $archive = AtprotoTest::Archive->begin('--events' => 1500, '--accounts' => 60);
my $node    = make_node('history', start => $archive->preload, conf => $archive->settings);
my $last    = $archive->last_seq;
my $tables  = [qw(record repo)];

sub history { return query("SELECT $_[1] FROM atproto.history WHERE subscription = '$_[0]'") }

# --- what the stream alone brings ---

$archive->serve({ block_rows => 20, segment_blocks => 5 }, seal => int($last / 100 * 0.6));
query('CREATE SCHEMA whole; CREATE SCHEMA a;');
query($archive->subscription_sql('whole', history => "'none'", cursor => 0, target => "'whole'"));
$archive->wait_for_end('whole');
query("SELECT atproto.unsubscribe('whole')");

# --- the whole archive, and then the stream ---

query($archive->subscription_sql('a', target => "'a'"));
$archive->wait_for_end('a');
same_rows('a', 'whole', 'the archive and then the stream leave what the stream alone does', tables => $tables);
is(history('a', q{phase, tip, error, cycles}), 'live|||1', 'all is read');
is(query(q{SELECT state FROM atproto.stat_subscription WHERE name = 'a'}), 'streaming', 'then the stream is followed');
is(query(q{SELECT count(*) FROM atproto.dead_letter}), '0', 'no row is refused');
done_testing();
