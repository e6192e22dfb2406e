# 280_union_returns.pl
#		With collections, a handle makes no row in repo, but where an older status may follow, the status of an account that has come back makes
#		one: a source that is behind, or a stream that is read again, then brings the account's deletion, and the records that came after the
#		deletion stay.  F-15, H-34.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use PostgreSQL::Test::Utils;
use Test::More;

my $node     = make_node('returns', conf => "max_worker_processes = 20\natproto.reconnect_delay = 50ms");
my $whole    = make_capture('synth.py', 'returns');
my @messages = read_capture($whole);
my $late     = write_capture(PostgreSQL::Test::Utils::tempdir() . '/late', @messages[ 3 .. $#messages ]);
my $returned = 'SELECT count(*), bool_and(active), bool_and(rev IS NOT NULL), max(status) FROM %1$s.repo WHERE did < $$' . did('e') . '$$';
my $written  = 'SELECT count(*), count(DISTINCT did) FROM %1$s.visible_record';
my $last     = did('e');

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
	whole("alone_$version", "$version: alone");

	query(subscribe_sql("behind_$version", $server, target => "'$version'") . "; SELECT atproto.pause('behind_$version')");
	follow($version, "ahead_$version", $ahead);
	is(query("SELECT count(*) FROM $version.repo WHERE did = '$last'"), '1', "$version: beside a subscription that is paused, it makes a row");
	query("SELECT atproto.unsubscribe('behind_$version')");
	follow($version, "behind_$version", $behind);
	whole($version, "$version: a Jetstream that is behind");
}

is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing is refused');
$node->stop;
done_testing();
