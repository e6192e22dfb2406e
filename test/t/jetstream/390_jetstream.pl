# 390_jetstream.pl
#		One traffic, sent by a relay and by both versions of Jetstream, must leave equal rows: compressed or
#		not, with one process or several, in slices, and with filters at the server.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node(
	'jetstream', conf => <<'EOF');
max_worker_processes = 40
atproto.reconnect_delay = 50ms
EOF

# Commits of several operations, accounts that are deactivated, reactivated and deleted, but no #sync: the first
# version has no such event.
my ($capture) = simulate(
	'--events' => 4000, '--accounts' => 120, '--history' => 0, '--batches' => 25,
	'--mix' => 'account=4,delete=8,update=6,sync=0,identity=3,like=40,post=30,profile=3');
my %texts = map { $_ => texts($_, $capture, $_ eq 'v1' ? ('--ties' => 20, '--back' => 30_000) : ()) } qw(v1 v2);
my %servers = map { $_ => AtprotoTest::Server->start($texts{$_}) } keys %texts;
my $relay   = AtprotoTest::Server->start($capture);

sub follow
{
	my ($schema, $server, %args) = @_;

	query("CREATE SCHEMA $schema; "
		  . subscribe_sql($schema, $server, cursor => 0, target => "'$schema'", events => "'keep'", links => "'all'", %args));
	return;
}

follow('relay', $relay, verify => "'hash'");
wait_for_seq($node, 'relay', scalar(() = read_capture($capture)));
cmp_ok(query('SELECT count(*) FROM relay.record_event'), '>', 4000, 'there are more operations than messages');

foreach my $version (qw(v1 v2))
{
	follow($version, $servers{$version});
	wait_for_texts($version, $texts{$version});
	same_rows($version, 'relay', "$version: the rows are those of the relay");
	is(query("SELECT DISTINCT sync FROM $version.repo"), 'partial', "$version: no more is claimed of repositories");
}
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');
is(query('SELECT count(*) FROM atproto.gap'),         '0', 'nothing was missed');
unlike(slurp_file($node->logfile), qr/ERROR/, 'nothing went wrong');

# --- several processes, and slices ---

foreach my $version (qw(v1 v2))
{
	follow("${version}_two", $servers{$version}, workers => 2);
	follow("${version}_slice$_", $servers{$version}, slice => "'$_/2'") foreach 0, 1;
	wait_for_texts("${version}_two", $texts{$version});
	same_rows("${version}_two", 'relay', "$version by two processes");
	query("CREATE SCHEMA ${version}_slices; SELECT atproto.create_tables('${version}_slices')");
	wait_for(qq{SELECT (SELECT count(*) FROM ${version}_slice0.record_event) + (SELECT count(*) FROM ${version}_slice1.record_event)
		= (SELECT count(*) FROM relay.record_event)});
	foreach my $table (qw(record repo record_event))
	{
		query("INSERT INTO ${version}_slices.$table SELECT * FROM ${version}_slice$_.$table") foreach 0, 1;
	}
	same_rows("${version}_slices", 'relay', "$version in two slices", tables => [qw(record repo record_event)]);
}

# --- compressed, and with filters, which the server has ---

my $wanted = query('SELECT count(*) FROM relay.record_event');
follow('relay_likes', $relay, verify => "'hash'", collections => "'{app.bsky.feed.like,app.bsky.graph.*}'");
wait_for_seq($node, 'relay_likes', scalar(() = read_capture($capture)));
foreach my $version (qw(v1 v2))
{
	my $dictionary = dictionary($texts{$version});

	$servers{$version}->restart('--zstd-dictionary' => $dictionary, '--hold-at' => 10);
	follow("${version}_zstd", $servers{$version});
	query("SELECT atproto.set_zstd_dictionary('${version}_zstd', pg_read_binary_file('$dictionary'))");
	wait_for("SELECT compressed FROM atproto.stat_subscription WHERE name = '${version}_zstd'");
	$servers{$version}->release;
	wait_for("SELECT count(*) >= $wanted FROM ${version}_zstd.record_event");
	same_rows("${version}_zstd", 'relay', "$version, compressed");

	$servers{$version}->restart;
	follow("${version}_likes", $servers{$version}, collections => "'{app.bsky.feed.like,app.bsky.graph.*}'");
	wait_for("SELECT (SELECT count(*) FROM ${version}_likes.record_event) >= (SELECT count(*) FROM relay_likes.record_event)");
	# a revision of which nothing is wanted is not seen
	same_rows("${version}_likes", 'relay_likes', "$version, of some collections", tables => [qw(record record_event link)]);
	is(query("SELECT filtered_by_server FROM atproto.stat_subscription WHERE name = '${version}_likes'"), '{collections}', "$version: the server filters");
}

# --- a real server's: U+0000, odd keys, #sync ---

my $pds     = capture('pds.frames.gz');
my $pds_srv = AtprotoTest::Server->start($pds);
follow('real', $pds_srv, verify => "'hash'");
wait_for_seq($node, 'real', $PDS_LAST);
foreach my $version (qw(v1 v2))
{
	my $real = texts($version, $pds);
	my $server = AtprotoTest::Server->start($real);
	follow("real_$version", $server);
	wait_for_texts("real_$version", $real);
	# after a #sync, the records come with its revision
	same_rows("real_$version", 'real', "$version: the PDS's records", tables => ['record'], without => $version eq 'v2' ? ['rev'] : []);
	is(query("SELECT count(*) FROM real_$version.record WHERE value IS NULL"), query('SELECT count(*) FROM real.record WHERE value IS NULL'),
		"$version: what jsonb cannot hold is there as bytes");
}
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'nothing was refused');

$node->stop;
done_testing();
