# 280_union_returns.pl
#		With collections, a handle makes no row in repo, but where an older status may follow, the status of an account that has come back makes
#		one: a source that is behind, or a stream that is read again, then brings the account's deletion, and the records that came after the
#		deletion stay.  F-15, H-34.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Archive;
use AtprotoTest::Jetstream;
use PostgreSQL::Test::Utils;
use Test::More;

my $whole    = make_capture('synth.py', 'returns');
my @messages = read_capture($whole);
my $archive  = AtprotoTest::Archive->of(write_capture(PostgreSQL::Test::Utils::tempdir() . '/archived', @messages[ 2 .. $#messages ]));
my $node     = make_node('returns', start => $archive->preload, conf => $archive->settings);
my $late     = write_capture(PostgreSQL::Test::Utils::tempdir() . '/late', @messages[ 3 .. $#messages ]);
my $returned = 'SELECT count(*), bool_and(active), bool_and(rev IS NOT NULL), max(status) FROM %1$s.repo WHERE did < $$' . did('e') . '$$';
my $written  = 'SELECT count(*), count(DISTINCT did) FROM %1$s.visible_record';
my $last     = did('e');
my $hidden   = did('f');

sub follow
{
	my ($schema, $name, $texts) = @_;
	my $server = AtprotoTest::Server->start($texts);

	query(subscribe_sql($name, $server, cursor => 0, target => "'$schema'", collections => q{'{app.bsky.*}'}));
	wait_for("SELECT events = @{[ scalar(read_capture($texts)) ]} FROM atproto.cursor WHERE subscription = '$name'");
	return;
}

sub whole
{
	my ($schema, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(query(sprintf $returned, $schema), '4|t|t|', "$name: the accounts are active");
	is(query(sprintf $written, $schema), '8|4', "$name: and have their records");
	return;
}

# --- a relay, and one that is behind; the first stream, read again from before its first event ---

query('CREATE SCHEMA relays');
follow('relays', 'ahead', $late);
is(query("SELECT count(*), max(handle::text) FROM relays.repo WHERE did = '$last'"), '1|', 'a relay: that an account is active makes a row, but not its handle');
follow('relays', 'behind', $whole);
whole('relays', 'a relay that is behind');

query('CREATE SCHEMA again');
my $server = AtprotoTest::Server->start($whole);
query(subscribe_sql('again', $server, cursor => 3, target => "'again'", collections => q{'{app.bsky.*}'}));
wait_for("SELECT events = @{[ @messages - 3 ]} FROM atproto.cursor WHERE subscription = 'again'");
query("SELECT atproto.set_cursor('again', 0)");
wait_for("SELECT events = @{[ 2 * @messages - 3 ]} FROM atproto.cursor WHERE subscription = 'again'");
whole('again', 'a stream that is read again');

# --- Jetstreams ---

foreach my $version (qw(v1 v2))
{
	my ($ahead, $behind) = map { texts($version, $_) } $late, $whole;

	query("CREATE SCHEMA $version; CREATE SCHEMA alone_$version");
	follow("alone_$version", "alone_$version", $behind);
	is(query("SELECT count(*) FROM alone_$version.repo WHERE did = '$last'"), '0', "$version: alone, an account that is active makes no row");
	is(query("SELECT active, status FROM alone_$version.repo WHERE did = '$hidden'"), 'f|suspended', "$version: one that is not active makes a row");
	whole("alone_$version", "$version: alone");

	query(subscribe_sql("behind_$version", $server, target => "'$version'") . "; SELECT atproto.pause('behind_$version')");
	follow($version, "ahead_$version", $ahead);
	is(query("SELECT count(*) FROM $version.repo WHERE did = '$last'"), '1', "$version: beside a subscription that is paused, it makes a row");
	query("SELECT atproto.unsubscribe('behind_$version')");
	follow($version, "behind_$version", $behind);
	whole($version, "$version: a Jetstream that is behind");
}

# --- the stream of a Jetstream whose archive is read, during the sweep and after the sweep ---

# The old statuses alone, in a stream that is behind.
my $old = write_capture(PostgreSQL::Test::Utils::tempdir() . '/old', @messages[ 0 .. 2 ]);

sub follow_archive
{
	my ($schema, @stream) = @_;

	# the archive has the first event, of an account without records until then
	$archive->serve({ block_rows => 1, segment_blocks => 1 }, seal => 1, stream => \@stream);
	query($archive->subscription_sql("ahead_$schema", target => "'$schema'", collections => q{'{app.bsky.*}'}));
	return;
}

sub add_paused
{
	my ($schema) = @_;
	return query(subscribe_sql("paused_$schema", $server, target => "'$schema'") . "; SELECT atproto.pause('paused_$schema')");
}

query('CREATE SCHEMA sweep; CREATE SCHEMA swept');
add_paused('sweep');
follow_archive('sweep');
$archive->wait_for_end('ahead_sweep');
is(query(q{SELECT phase FROM atproto.history WHERE subscription = 'ahead_sweep'}), 'seam', 'a sweep beside another subscription');
follow('sweep', 'behind_sweep', $old);
is(query(sprintf $returned, 'sweep'), '4|t|f|', 'a sweep: the accounts are active');
is(query(sprintf $written, 'sweep'), '8|4', '... and have their records');
query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');

follow_archive('swept', '--hold-at', 2);
wait_for(q{SELECT phase = 'live' FROM atproto.history WHERE subscription = 'ahead_swept'});
is(query('SELECT count(*) FROM swept.repo'), '0', 'a row of an archive without records makes no row in repo');
add_paused('swept');
$archive->release;
$archive->wait_for_end('ahead_swept');
follow('swept', 'behind_swept', $whole);
whole('swept', 'after a sweep');

is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing is refused');
$node->stop;
done_testing();
