# 395_jetstream_requests.pl
#		The requests to a Jetstream and its answers: the consumer asks with the right position, filters and
#		compression; a cursor or dictionary unknown to the server, and hostile compressed messages, do no
#		harm.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node(
	'requests', conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 50ms
atproto.fetch_host_rate = 10000
EOF

my $REWIND = 10_000_000;
my %texts  = map { $_ => texts($_, capture('pds.frames.gz'), $_ eq 'v1' ? ('--spread' => 100_000) : ()) } qw(v1 v2);
my %count  = map { $_ => text_count($texts{$_}) } keys %texts;
my %servers = map { $_ => AtprotoTest::Server->start($texts{$_}) } keys %texts;
my ($did) = map { /"did":"([^"]+)"/ ? $1 : () } read_capture($texts{v2});
my @likes = grep { /"app\.bsky\.feed\.like"/ } read_capture($texts{v2});

sub follow
{
	my ($name, $server, %args) = @_;

	query("SET client_min_messages = warning; DROP SCHEMA IF EXISTS $name CASCADE; CREATE SCHEMA $name; "
		  . subscribe_sql($name, $server, cursor => 0, target => "'$name'", %args));
	return;
}

sub leave
{
	my ($name) = @_;
	query("SELECT atproto.unsubscribe('$name'); SET client_min_messages = warning; DROP SCHEMA $name CASCADE");
	return;
}

# Parameters of a request in the log, by name; cursor apart.
sub asked
{
	my ($request) = @_;
	my %asked;

	foreach (split /&/, $request->{query})
	{
		my ($name, $value) = split /=/, $_, 2;
		push @{ $asked{$name} }, $value =~ s/%25/%/gr;
	}
	return \%asked;
}

sub events
{
	my ($name) = @_;
	return query("SELECT events FROM atproto.stat_subscription WHERE name = '$name'");
}

# --- positions ---

follow($_, $servers{$_}) foreach qw(v1 v2);
wait_for_texts($_, $texts{$_}) foreach qw(v1 v2);
my %first = map { $_ => ($servers{$_}->wait_for_log('request', 1))[0] } qw(v1 v2);
is($first{v1}{path}, '/subscribe', 'v1: the path');
is($first{v2}{path}, '/xrpc/network.bsky.jetstream.subscribeEvents', 'v2: the path');
is_deeply(asked($first{v1}), { cursor => [0] },                    'v1: from the oldest');
is_deeply(asked($first{v2}), { cursor => ['1000000000000000'] }, 'v2: from the oldest, by a time');
my %headers = map { lc $_->[0] => $_->[1] } @{ $first{v2}{headers} };
is($headers{'sec-websocket-protocol'}, 'xrpc.v1.json', 'v2: the subprotocol');
ok(!exists { map { lc $_->[0] => 1 } @{ $first{v1}{headers} } }->{'sec-websocket-protocol'}, 'v1 has none');
is(query('SELECT count(*) FROM atproto.gap'), '0', 'from the oldest nothing is missed');
is(query('SELECT string_agg(verify, $$ $$) FROM atproto.subscription'), 'hash hash', 'the level that is possible');
is(query('SELECT DISTINCT filtered_by_server, filtered_here, compressed FROM atproto.stat_subscription'), '{}|{}|f', 'nothing is filtered, nor compressed');

my %seq = map { $_ => query("SELECT seq FROM atproto.cursor WHERE subscription = '$_'") } qw(v1 v2);
foreach my $version (qw(v1 v2))
{
	query("SELECT atproto.pause('$version')");
	wait_for("SELECT pid IS NULL FROM atproto.stat_subscription WHERE name = '$version'");
	query("SELECT atproto.resume('$version')");
	my @requests = $servers{$version}->wait_for_log('request', 2);
	is(asked($requests[1])->{cursor}[0], $version eq 'v1' ? $seq{v1} - $REWIND : $seq{v2}, "$version: goes on where it was");
	wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = '$version'");
}
wait_for("SELECT skips ->> 'overlap' = '1' FROM atproto.stat_subscription WHERE name = 'v2'");
is(query('SELECT count(*) FROM atproto.gap'), '0', 'nothing was missed');

foreach ([ v1 => 5, 'times' ], [ v1 => '999999999999999', 'times' ], [ v2 => '1000000000000000', 'sequence numbers' ])
{
	my ($version, $cursor, $positions) = @$_;
	my (undef, undef, $error) = $node->psql('postgres', "SELECT atproto.set_cursor('$version', $cursor)");

	like($error, qr/cursor $cursor is no position of .*\n.*positions are $positions/, "$version: $cursor is refused");
	is(query("SELECT seq FROM atproto.cursor WHERE subscription = '$version'"), $seq{$version}, 'and stays where it was');
}

# A clock that was put back by an hour, for good.
{
	my @back = read_capture($texts{v1});

	s/"time_us":\K(\d+)/$1 - 3_600_000_000/e foreach @back[ @back / 2 .. $#back ];
	my $server = AtprotoTest::Server->start(write_capture(PostgreSQL::Test::Utils::tempdir() . '/back', @back));
	my ($last) = $back[-1] =~ /"time_us":(\d+)/;

	follow('back', $server);
	wait_for("SELECT sum(events) = @{[ scalar @back ]} FROM atproto.cursor WHERE subscription = 'back'");
	$server->restart;
	is(asked(($server->wait_for_log('request', 1))[0])->{cursor}[0], $last - $REWIND, 'v1: goes on after what came last');
	leave('back');
}

# --- filters ---

my %names = (v1 => [qw(wantedCollections wantedDids)], v2 => [qw(collections dids)]);
foreach my $version (qw(v1 v2))
{
	my ($collections, $dids) = @{ $names{$version} };

	$servers{$version}->restart;
	wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = '$version'");
	query("UPDATE atproto.subscription SET collections = '{app.bsky.feed.like,app.bsky.graph.*}', slice = '0/2' WHERE name = '$version'");
	my @requests = $servers{$version}->wait_for_log('request', 2);
	is_deeply(asked($requests[1])->{$collections}, [qw(app.bsky.feed.like app.bsky.graph.*)], "$version: asked anew, with the filter");
	wait_for("SELECT state = 'streaming' AND filtered_by_server = '{collections}' FROM atproto.stat_subscription WHERE name = '$version'");
	is(query("SELECT filtered_here FROM atproto.stat_subscription WHERE name = '$version'"), '{slice}', "$version: a slice is taken here");
	query("UPDATE atproto.subscription SET keep_raw = true WHERE name = '$version'");
	query("UPDATE atproto.subscription SET slice = NULL, dids = '{$did}' WHERE name = '$version'");
	@requests = $servers{$version}->wait_for_log('request', 3);
	is_deeply(asked($requests[2])->{$dids}, [$did], "$version: and with another, not for what it does not know of");
	wait_for("SELECT state = 'streaming' AND filtered_by_server = '{collections,dids}' FROM atproto.stat_subscription WHERE name = '$version'");

	# more than the line of a request has room for
	query("UPDATE atproto.subscription SET collections = '{app.bsky.feed.like}', dids = (SELECT array_agg(('did:web:' || n || '.' || repeat('x', 60) || '.example')::did) FROM generate_series(1, 200) n) || '{$did}' WHERE name = '$version'");
	@requests = $servers{$version}->wait_for_log('request', 4);
	wait_for("SELECT state = 'streaming' AND filtered_by_server @> '{collections}' FROM atproto.stat_subscription WHERE name = '$version'");
	is_deeply([ map { scalar @{ asked($requests[3])->{$_} // [] } } $collections, $dids, 'requireHello' ], $version eq 'v1' ? [ 0, 0, 1 ] : [ 1, 0, 0 ],
		"$version: long filters are not in the request");
	is(query("SELECT filtered_by_server, filtered_here FROM atproto.stat_subscription WHERE name = '$version'"),
		$version eq 'v1' ? '{collections,dids}|{}' : '{collections}|{dids}', "$version: who does what");
	query("UPDATE atproto.subscription SET collections = '{app.bsky.feed.like,*}', dids = '{}' WHERE name = '$version'");
	@requests = $servers{$version}->wait_for_log('request', 5);
	is_deeply([ sort keys %{ asked($requests[4]) } ], ['cursor'], "$version: all are all; and no account at all cannot be said");
	query("UPDATE atproto.subscription SET collections = (SELECT array_agg('org.example.c' || n) FROM generate_series(1, 101) n), dids = '{$did}' WHERE name = '$version'");
	@requests = $servers{$version}->wait_for_log('request', 6);
	is_deeply([ sort keys %{ asked($requests[5]) } ], [ sort 'cursor', $dids ], "$version: not more collections than it takes");
	leave($version);
}

# Events that the server filters out do not come; with v1, also if the filter is so long that it is sent as a
# text message.
foreach my $version (qw(v1 v2))
{
	foreach my $long (0, 1)
	{
		my $dids = $long ? "(SELECT array_agg(('did:web:' || n || '.' || repeat('x', 60) || '.example')::did) FROM generate_series(1, 200) n) || '{$did}'" : "'{$did}'";

		$servers{$version}->restart;
		follow($version, $servers{$version}, collections => q('{app.bsky.feed.like}'), dids => $dids);
		my $wanted = grep { /"did":"\Q$did\E"/ && (!/"collection":"/ || /"collection":"app\.bsky\.feed\.like"/) } read_capture($texts{$version});
		cmp_ok($wanted, '>', 0, 'there is something to be seen');
		wait_for("SELECT events >= $wanted FROM atproto.stat_subscription WHERE name = '$version'");
		is(events($version), $wanted, "$version: only these came") if $version eq 'v1' || !$long;
		leave($version);
	}
}

# Parameters of the operator stay in the URL; the consumer does not add a second value.
$servers{v1}->restart;
query("CREATE SCHEMA own; SELECT atproto.subscribe('own', '" . $servers{v1}->url . "?maxMessageSizeBytes=100000&compress=true&&cursor=5&requireHello=true', target => 'own', collections => '{a.b.*}', cursor => 1000000010000007)");
my ($own) = $servers{v1}->wait_for_log('request', 1);
wait_for(q{SELECT filtered_by_server = '{url,collections}' FROM atproto.stat_subscription});
is_deeply(asked($own), { maxMessageSizeBytes => [100000], wantedCollections => ['a.b.*'], cursor => ['1000000000000007'] }, 'parameters in the URL');
leave('own');

# --- a cursor that is too old ---

$servers{v2}->restart('--oldest' => 300);
follow('v2', $servers{v2}, cursor => 100);
wait_for("SELECT seq = $seq{v2} FROM atproto.cursor WHERE subscription = 'v2'");
is(query('SELECT after_seq, before_seq, reason FROM atproto.gap'), '100|300|OutdatedCursor', 'v2: what was missed is a gap');
is_deeply([ map { asked($_)->{cursor}[0] } $servers{v2}->log('request') ], [ 100, '1000000000000000' ], 'v2: then the oldest is asked for');
query('DELETE FROM atproto.gap');
leave('v2');

$servers{v1}->restart('--oldest' => 300);
my ($from) = map { /"time_us":(\d+)/ } (read_capture($texts{v1}))[99];
my ($to) = map { /"time_us":(\d+)/ } (read_capture($texts{v1}))[299];
follow('v1', $servers{v1}, cursor => $from);
wait_for("SELECT seq = $seq{v1} FROM atproto.cursor WHERE subscription = 'v1'");
is(query('SELECT after_seq, before_seq FROM atproto.gap'), "$from|$to", 'v1: likewise, although it says no word');
query('DELETE FROM atproto.gap');
leave('v1');

# --- compression ---

my %dictionary = map { $_ => dictionary($texts{$_}) } qw(v1 v2);
my $other = dictionary($texts{v2}, 4096);
my $bytes = 0;

sub bytea
{
	my ($file) = @_;
	return q{'\x} . unpack('H*', slurp_file($file)) . q{'};
}

# A server with a dictionary that we have not got: messages come uncompressed.
$servers{v1}->restart('--zstd-dictionary' => $dictionary{v1});
follow('v1', $servers{v1});
wait_for_texts('v1', $texts{v1});
is(query('SELECT compressed FROM atproto.stat_subscription'), 'f', 'v1: without a dictionary nothing is compressed');
$bytes = query('SELECT bytes FROM atproto.stat_subscription');
query("SELECT atproto.set_zstd_dictionary('v1', @{[ bytea($dictionary{v1}) ]})");
my @requests = $servers{v1}->wait_for_log('request', 2);
is(asked($requests[1])->{compress}[0], 'true', 'v1: with one, it connects anew, and asks for it');
wait_for(q{SELECT state = 'streaming' AND compressed FROM atproto.stat_subscription});
query("SELECT atproto.set_cursor('v1', 0)");
wait_for("SELECT events >= 2 * $count{v1} FROM atproto.stat_subscription");
cmp_ok(query("SELECT bytes - $bytes FROM atproto.stat_subscription"), '<', $bytes / 2, 'v1: which is less than half as long');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'v1: all of it can be read');
query("SELECT atproto.set_zstd_dictionary('v1', NULL)");
wait_for(q{SELECT NOT compressed FROM atproto.stat_subscription});
foreach my $none ('abc', '\x' . unpack('H*', substr(slurp_file($other), 0, 20)))
{
	my (undef, undef, $stderr) = $node->psql('postgres', "SELECT atproto.set_zstd_dictionary('v1', '$none')");

	like($stderr, qr/this is no zstd dictionary/, 'what is none is refused');
}
leave('v1');

# The second version's dictionary is fetched, where the setting allows the request.
$servers{v2}->restart('--zstd-dictionary' => $dictionary{v2});
follow('v2', $servers{v2});
wait_for(q{SELECT error LIKE 'http://127.0.0.1%' AND failures > 0 AND due_at > now() FROM atproto.zstd_dictionary});
leave('v2');
is(query('SELECT count(*) FROM atproto.zstd_dictionary'), '0', 'nothing of a subscription stays');
query("ALTER SYSTEM SET atproto.fetch_allow = 'http://127.0.0.1:" . $servers{v2}->port . "'; SELECT pg_reload_conf()");
follow('v2', $servers{v2});
wait_for_texts('v2', $texts{v2});
wait_for('SELECT compressed FROM atproto.stat_subscription');
my $id = unpack 'x4 V', slurp_file($dictionary{v2});
is(asked(($servers{v2}->log('request'))[-1])->{zstdDictionary}[0], $id, 'v2: the dictionary is fetched, and asked for by its number');
query("SELECT atproto.set_cursor('v2', 0)");
wait_for("SELECT events >= 2 * $count{v2} FROM atproto.stat_subscription");
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'v2: all of it can be read');

# The server has changed its dictionary.
$servers{v2}->restart('--zstd-dictionary' => $other);
wait_for(q{SELECT dictionary IS NULL AND failures = 1 FROM atproto.zstd_dictionary});
wait_for(q{SELECT state = 'streaming' AND NOT compressed FROM atproto.stat_subscription});
pass('v2: a dictionary that the server does not know is forgotten, and the stream goes on without');
query(q{UPDATE atproto.zstd_dictionary SET due_at = now(); SELECT atproto_internal.wake()});
wait_for(q{SELECT compressed FROM atproto.stat_subscription});
is(asked(($servers{v2}->log('request'))[-1])->{zstdDictionary}[0], unpack('x4 V', slurp_file($other)), 'v2: the new one is fetched');

# A different dictionary has the number of ours.
my $contents = unpack 'H*', substr(slurp_file($other), 0, 8) . substr(slurp_file($dictionary{v2}), 8);
query("DELETE FROM atproto.dead_letter; UPDATE atproto.zstd_dictionary SET dictionary = '\\x$contents', failures = 0; SELECT atproto.set_cursor('v2', 0)");
wait_for(q{SELECT dictionary IS NULL AND failures = 1 FROM atproto.zstd_dictionary});
wait_for("SELECT seq = $seq{v2} AND NOT compressed FROM atproto.stat_subscription");
pass('v2: a dictionary by which nothing can be read is forgotten, and the stream goes on without');
leave('v2');

# --- hostile compressed messages ---

# A subscription that meets this fault once, and the recorded reason of its drop.
sub meets
{
	my ($name, $drop, $dictionary, @options) = @_;

	$servers{v2}->restart('--zstd-dictionary' => $other, '--fault-times' => 1, @options);
	query("CREATE SCHEMA v2; BEGIN; "
		  . subscribe_sql('v2', $servers{v2}, cursor => 0, target => q('v2'))
		  . "; SELECT atproto.set_zstd_dictionary('v2', $dictionary); COMMIT");
	wait_for_texts('v2', $texts{v2});
	wait_for("SELECT drops ? '$drop' FROM atproto.stat_subscription");
	is(query('SELECT drops FROM atproto.stat_subscription'), qq({"$drop": 1}), "$name: " . query('SELECT last_error FROM atproto.stat_subscription'));
	leave('v2');
	return;
}

my $bytea = bytea($other);
meets('a bomb', 'too large', $bytea, '--bomb' => '100000000@50');
meets('no zstd', 'compression', $bytea, '--binary' => '00112233@50');
meets('a window of 2 GB', 'compression', $bytea, '--binary' => '28b52ffd00a8@50');
meets('a frame to be skipped', 'compression', $bytea, '--binary' => '502a4d1800000000@50');
meets('a binary message that nobody asked for', 'websocket', 'NULL', '--binary' => '28b52ffd2000010000@50');
unlike(slurp_file($node->logfile), qr/PANIC|TRAP|terminated by signal/, 'no process ended badly');

$node->stop;
done_testing();
