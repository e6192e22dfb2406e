# 393_jetstream_syncs.pl
#		A relay's #sync reveals missing records also if Jetstream's events arrived before the #sync.
#		Records that follow Jetstream's own #sync are not silently left out when the relay goes on first.
#		F-12, F-42.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node(
	'syncs', conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 20ms
atproto.multi_source_wait = 0
EOF

my ($capture) = simulate('--events' => 2000, '--accounts' => 40, '--history' => 0, '--mix' => 'account=0,identity=0,delete=0,update=0,sync=3,like=40,post=30,profile=3');
my @messages = read_capture($capture);
my $dir = PostgreSQL::Test::Utils::tempdir();
my %of;

push @{ $of{ ($messages[$_] =~ /(did:plc:[a-z2-7]{24})/)[0] } }, $_ foreach 0 .. $#messages;

# Before the first #sync, both sources lack the last commit, and only Jetstream has the commit before the last.
my (%jetstream, %relay, @dids);
foreach my $did (sort keys %of)
{
	my @own = @{ $of{$did} };
	my ($sync) = grep { $messages[ $own[$_] ] =~ /#sync/ } 0 .. $#own;

	next if !defined $sync || $sync < 4;
	push @dids, $did;
	$jetstream{$_} = 1 foreach @own[ 0 .. $sync - 2 ];
	$relay{$_} = 1 foreach @own[ 0 .. $sync - 3 ], $own[$sync];
}
cmp_ok(scalar(@dids), '>', 5, 'some repositories have a #sync after commits');

sub part
{
	my ($name, $of) = @_;
	return write_capture("$dir/$name", @messages[ grep { $of->{$_} } 0 .. $#messages ]);
}

sub follow
{
	my ($schema, $name, $server) = @_;
	query(subscribe_sql($name, $server, cursor => 0, target => "'$schema'", events => "'keep'"));
	return;
}

foreach my $version (qw(v1 v2))
{
	my $texts = texts($version, part("jetstream.$version", \%jetstream));
	my $relay = AtprotoTest::Server->start(part("relay.$version", \%relay), '--hold-at' => 1);
	my $jetstream = AtprotoTest::Server->start($texts);

	query("CREATE SCHEMA $version");
	follow($version, 'relay', $relay);
	follow($version, 'jetstream', $jetstream);
	wait_for_texts('jetstream', $texts);
	$relay->release;
	wait_until(sub { query("SELECT count(*) FROM $version.repo WHERE sync <> 'desynchronized'") == 0 }, "F-12: $version: a commit is missing before each #sync");
	is(query("SELECT count(*) FROM $version.repo"), scalar(@dids), "$version: they are all there");
	query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
}

# A #sync as Jetstream forwards it, and a #sync that Jetstream makes after it has fetched a repository again
# (without blocks): both remove every record that does not follow.
my %texts = (whole => texts('v2', $capture), bare => texts('v2', $capture, '--bare'));
foreach my $kind (sort keys %texts)
{
	query("CREATE SCHEMA $kind");
	follow($kind, $kind, AtprotoTest::Server->start($texts{$kind}));
	wait_for_texts($kind, $texts{$kind});
	is(query('SELECT count(*), min(message) FROM atproto.dead_letter'), '0|', "$kind: nothing was refused");
	query("SELECT atproto.unsubscribe('$kind')");
}
same_rows('bare', 'whole', 'F-42: #sync without blocks: the rows are the same');

# Jetstream stands still after each of some #sync, before the records.
my $relay = AtprotoTest::Server->start($capture);
query('CREATE SCHEMA alone');
follow('alone', 'alone', $relay);
wait_for_seq($node, 'alone', scalar @messages);
query("SELECT atproto.unsubscribe('alone')");

# after a #sync all records have its revision
my ($ours, $theirs) = map { "SELECT did, collection, rkey, cid FROM $_.record" } qw(m alone);
my $lost = 0;
my @sync_messages = grep { $messages[$_] =~ /#sync/ } 0 .. $#messages;
foreach my $case ([ whole => -2 ], [ whole => -5 ], [ whole => -8 ], [ bare => -2 ], [ bare => -8 ])
{
	my ($kind, $n) = @$case;
	my @texts = read_capture($texts{$kind});
	my @sync  = grep { $texts[$_] =~ /"kind":"sync"|#sync/ } 0 .. $#texts;
	my $at = $sync[$n];

	cmp_ok(scalar(@sync), '>', 10, "$kind: Jetstream has #sync");
	# the relay has reached the same event
	$relay->restart('--hold-at' => $sync_messages[$n] + 1);
	my $jetstream = AtprotoTest::Server->start($texts{$kind}, '--hold-at' => $at + 2);

	query('SET client_min_messages = warning; DROP SCHEMA IF EXISTS m CASCADE; CREATE SCHEMA m');
	follow('m', 'relay', $relay);
	wait_for_seq($node, 'relay', $sync_messages[$n]);
	follow('m', 'jetstream', $jetstream);
	wait_for("SELECT sum(events) >= $at + 1 FROM atproto.cursor WHERE subscription = 'jetstream'");
	$relay->release;
	wait_for_seq($node, 'relay', scalar @messages);
	$jetstream->release;
	wait_for_texts('jetstream', $texts{$kind});
	my $differs = "SELECT DISTINCT did FROM (($ours EXCEPT $theirs) UNION ALL ($theirs EXCEPT $ours)) d";
	$lost += query("SELECT count(*) FROM ($differs) d");
	is(query("SELECT count(*) FROM ($differs) d JOIN m.repo r USING (did) WHERE r.sync <> 'desynchronized'"), '0', "F-42: $kind: whose records did not come is marked");
	query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
}
cmp_ok($lost, '>', 0, 'the relay went on before the records came');

# The relay brings the commit of the #sync's own revision before the records.
{
	my $steps = make_capture('steps.py', 'a 1 +x +y', 'a 2 +z', 'b 1 +x');
	my $again = texts('v2', make_capture('steps.py', 'a 1 +x +y', 'a sync 2', 'b 1 +x'), '--bare');
	my @servers = (AtprotoTest::Server->start($steps, '--hold-at' => 2), AtprotoTest::Server->start($again, '--hold-at' => 4));

	query('SET client_min_messages = warning; DROP SCHEMA m CASCADE; CREATE SCHEMA m');
	follow('m', 'relay', $servers[0]);
	wait_for_seq($node, 'relay', 1);
	follow('m', 'jetstream', $servers[1]);
	wait_for("SELECT sum(events) >= 3 FROM atproto.cursor WHERE subscription = 'jetstream'");
	$servers[0]->release;
	wait_for_seq($node, 'relay', 3);
	$servers[1]->release;
	wait_for_texts('jetstream', $again);
	is(query("SELECT string_agg(rkey::text, ' '), (SELECT sync FROM m.repo WHERE did = '@{[ did('a') ]}') FROM m.record WHERE did = '@{[ did('a') ]}'"),
		'z|desynchronized', 'F-42: a commit of the revision of the #sync comes before the records');
	query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
}

# An export that was given up has left records newer than the repository's revision.  A #sync without blocks
# removes them: the account's records follow, those newer than the #sync in later events.
my @bare = read_capture($texts{bare});
my @dids_of = map { /"did":"([^"]+)"/ ? $1 : '' } @bare;
my ($at) = grep { my $n = $_; $bare[$n] =~ /"kind":"sync"|#sync/ && grep { $dids_of[$_] eq $dids_of[$n] && $bare[$_] =~ /#commit/ } 0 .. $n - 1 } 0 .. $#bare;
my ($did, $rev) = ($dids_of[$at], $bare[$at] =~ /"rev":"([^"]+)"/);
my $server = AtprotoTest::Server->start($texts{bare}, '--hold-at' => $at + 1, '--hold-at' => $at + 2);
query('CREATE SCHEMA remains');
follow('remains', 'remains', $server);
wait_for("SELECT sum(events) >= $at FROM atproto.cursor WHERE subscription = 'remains'");
my $between = query("SELECT rev FROM remains.repo WHERE did = '$did'");
cmp_ok($between, 'lt', $rev, 'the repository has an older revision');
my $later = $rev;
substr($_, -1) =~ tr/2-7a-y/3-7a-z/ foreach $between, $later;
query("UPDATE remains.repo SET sync = 'desynchronized' WHERE did = '$did'; INSERT INTO remains.record (did, collection, rkey, cid, rev, value)"
	. ' VALUES ' . join(', ', map { "('$did', 'app.bsky.feed.post', '$_->[0]', 'bafyreicn7u5fmsdbkwxdbdn5zlzmkilmkhgx5rx2n4vohhqzzqndvuc5ya', '$_->[1]', '{}')" }
		[ between => $between ], [ later => $later ]));
$server->release;
wait_for("SELECT rev >= '$rev' FROM remains.repo WHERE did = '$did'");
wait_for("SELECT NOT EXISTS (SELECT FROM remains.repo WHERE purge_rev IS NOT NULL)");
is(query("SELECT string_agg(rkey::text, ',') FROM remains.record WHERE did = '$did' AND value = '{}'"), '', 'F-42: what a given-up export has left goes with a #sync without blocks');

# A refill brings back a record that the #sync has removed, and comes to the #sync.
my @once = read_capture(texts('v2', make_capture('steps.py', 'a 1 +x', 'a 2 +y', 'a sync 3', 'a 4 +z'), '--bare'));
splice @once, 3, 1;    # the #sync is followed by y only
query('CREATE SCHEMA once');
follow('once', 'once', AtprotoTest::Server->start(write_capture("$dir/once", @once)));
wait_for(q{SELECT sum(events) >= 5 FROM atproto.cursor WHERE subscription = 'once'});
query(q{SELECT atproto.refill('once', seq => 0)});
wait_for(q{SELECT sum(events) >= 9 FROM atproto.cursor WHERE subscription = 'once'});
is(query(q{SELECT string_agg(rkey::text, ',' ORDER BY rkey), (SELECT sync FROM once.repo) FROM once.record}), 'y,z|partial', 'F-42: a refill that comes to a #sync removes the older records that it has brought');

$node->stop;
done_testing();
