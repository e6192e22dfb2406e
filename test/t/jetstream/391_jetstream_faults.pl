# 391_jetstream_faults.pl
#		Faults of a Jetstream or of its network: cut connections, repeated events, events out of order,
#		texts with contradictions, cursors too old.  The rows must be equal to the rows of the relay.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Jetstream;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node(
	'faults', conf => <<'EOF');
max_worker_processes = 20
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 50ms
EOF

my ($capture) = simulate(
	'--events' => 1500, '--accounts' => 50, '--history' => 0, '--batches' => 25,
	'--mix' => 'account=4,delete=8,update=6,sync=0,identity=3,like=40,post=30,profile=3');
# 10 seconds, which the first version is asked for again, are some 100 events
my %texts = (
	v1 => texts('v1', $capture, '--spread' => 100_000, '--ties' => 20, '--back' => 300_000),
	v2 => texts('v2', $capture, '--step' => 100));
my %count = map { $_ => text_count($texts{$_}) } keys %texts;
my $relay = AtprotoTest::Server->start($capture);
my %servers = map { $_ => AtprotoTest::Server->start($texts{$_}) } keys %texts;

sub follow
{
	my ($schema, $server, %args) = @_;

	query("SET client_min_messages = warning; DROP SCHEMA IF EXISTS $schema CASCADE; CREATE SCHEMA $schema; "
		  . subscribe_sql($schema, $server, cursor => 0, target => "'$schema'", events => "'keep'", links => "'all'", %args));
	return;
}

follow('relay', $relay, verify => "'hash'");
wait_for_seq($node, 'relay', scalar(() = read_capture($capture)));
my $wanted = query('SELECT count(*) FROM relay.record_event');

# Compares the rows in the schema of this version; ends its subscription.
sub all_is_there
{
	my ($version, $name, %o) = @_;

	wait_for("SELECT count(*) >= $wanted FROM $version.record_event");
	same_rows($version, 'relay', "$version: $name");
	is(query('SELECT count(*) FROM atproto.gap'), '0', "$version: $name: no gap");
	is(query('SELECT count(*) FROM atproto.dead_letter'), '0', "$version: $name: no letter") unless $o{letters};
	query("DELETE FROM atproto.dead_letter; SELECT atproto.unsubscribe('$version')");
	return;
}

# --- the connection, and the order ---

# The position of a text in the stream: its number in the first version, its seq in the second.
my %at = (v1 => sub { $_[0] }, v2 => sub { 100 * $_[0] - 99 });
# Two consecutive events of different accounts.
my @accounts = map { /"did":"([^"]+)"/ ? $1 : '' } read_capture($texts{v2});
my ($swap) = grep { $accounts[ $_ - 1 ] ne $accounts[$_] } 700 .. $#accounts;
my %faults = (
	'cut after each 400 texts'  => sub { '--cut-after', 400 },
	'cut inside of texts'       => sub { '--cut-after', 350, '--cut-inside', 40, '--cut-times', 4 },
	'reset'                     => sub { '--cut-after', 500, '--cut-reset', '--cut-times', 3 },
	'closed'                    => sub { '--close-after', 600, '--fault-times', 2 },
	'texts in pieces, and pings' => sub { '--fragment', 100, map { ('--ping-at', $_[0]->($_)) } 50, 60 },
	'three refusals'            => sub { '--status', 503, '--status-times', 3 });

sub with_fault
{
	my ($version, $name, $options) = @_;

	$servers{$version}->restart($options->($at{$version}));
	follow($version, $servers{$version});
	all_is_there($version, $name);
	return;
}

foreach my $name (sort keys %faults)
{
	with_fault($_, $name, $faults{$name}) foreach qw(v1 v2);
}
# The second version's never do.
with_fault('v1', 'events that come twice', sub { map { ('--dup-at', $_[0]->($_)) } 5, 100, 101, 900 });
# And the first has no errors.
with_fault('v2', 'an error message', sub { '--fault-times', 2, map { ('--error', 'ConsumerTooSlow@' . $_[0]->($_)) } 300, 800 });
with_fault('v1', 'two accounts out of order', sub { '--swap-at', $_[0]->($swap) });

# --- a clock with a wrong time for a moment ---

{
	my @texts = read_capture($texts{v1});
	my %accounts;

	push @{ $accounts{ $texts[$_] =~ /"kind":"account"/ && $texts[$_] =~ /"did":"([^"]+)"/ ? $1 : '' } }, $_ foreach 0 .. $#texts;
	delete $accounts{''};
	# the first of several of an account, and the stream's last
	my @wrong = map { $_->[0] } grep { @$_ > 1 } values %accounts;
	ok(@wrong > 0, 'accounts change more than once');
	s/"time_us":\K\d+/8000000000000000/ foreach @texts[ @wrong, $#texts ];
	my $server = AtprotoTest::Server->start(write_capture(PostgreSQL::Test::Utils::tempdir() . '/wrong', @texts));

	foreach my $workers (1, 2)
	{
		follow('v1', $server, workers => $workers);
		wait_for("SELECT sum(events) = @{[ scalar @texts ]} FROM atproto.cursor WHERE subscription = 'v1'");
		is(query('SELECT count(*) FROM atproto.cursor WHERE seq > extract(epoch FROM now()) * 1000000'), '0', "workers $workers: what follows is asked for by a time that there is");
		is(query(q{SELECT count(*) FROM v1.repo WHERE status_seq > extract(epoch FROM now()) * 1000000}), '0', 'and believed of accounts');
		all_is_there('v1', "times that have not come, $workers workers");
	}
}

# --- a clock that goes back between two events of an account ---

{
	my @texts = read_capture($texts{v1});
	my %own;

	push @{ $own{ ($texts[$_] =~ /"did":"([^"]+)"/)[0] } }, $_ foreach 0 .. $#texts;
	# an account whose last five events are commits: the new events are put before the last four
	my ($did) = grep { my $own = $own{$_}; @$own > 12 && 5 == grep { $texts[$_] =~ /"kind":"commit"/ } @$own[ -5 .. -1 ] } sort keys %own;
	my $at = $own{$did}[-5];
	my $before = $texts[$at];
	my ($then) = $before =~ /"time_us":(\d+)/;
	# each event has a position, a time of its own, and a statement
	my $event = sub {
		my ($kind, $position, $ms, $said) = @_;
		return sprintf '{"did":"%s","time_us":%d,"kind":"%s","%3$s":{"did":"%1$s","seq":1,"time":"2024-06-01T00:00:00.%03dZ",%s}}',
		  $did, $then + $position, $kind, $ms, $said;
	};
	my @events = (
		$event->('account', 20_000, 100, '"active":false,"status":"takendown"'),
		$event->('account', 10_000, 200, '"active":true'),
		$event->('identity', 20_000, 100, '"handle":"earlier.example.com"'),
		$event->('identity', 10_000, 200, '"handle":"later.example.com"'));
	my $visible = "SELECT active, handle, status_at = '2024-06-01 00:00:00.2Z' FROM v1.repo WHERE did = '$did'";

	# once in the server's first order, once as the server sends them again, in the order of positions
	foreach my $order ([ 0 .. 3 ], [ 1, 3, 0, 2 ])
	{
		my @with = @texts;
		splice @with, $at + 1, 0, @events[@$order];
		my $server = AtprotoTest::Server->start(write_capture(PostgreSQL::Test::Utils::tempdir() . '/back', @with));

		follow('v1', $server);
		wait_for("SELECT sum(events) = @{[ scalar @with ]} FROM atproto.cursor WHERE subscription = 'v1'");
		is(query($visible), 't|later.example.com|t', "F-41, J-26: order @$order: the event's own time decides, not its position");
		same_rows('v1', 'relay', "order @$order: no commit after it is lost", tables => [qw(record record_event link)]);
		# the same events of the same times, once more: nothing is new
		query("SELECT atproto.set_cursor('v1', 0)");
		wait_for("SELECT sum(events) = @{[ 2 * @with ]} FROM atproto.cursor WHERE subscription = 'v1'");
		is(query($visible), 't|later.example.com|t', "order @$order: and again");
		query("SELECT atproto.unsubscribe('v1')");
	}
}

# --- the clock of the account's former server is ahead of the present server's ---

{
	my @texts = read_capture($texts{v1});
	my %own;
	my ($did, $k);

	push @{ $own{ ($texts[$_] =~ /"did":"([^"]+)"/)[0] } }, $_ foreach 0 .. $#texts;
	# an account with more than ten seconds between two commits, and nothing but commits afterwards
	foreach my $who (sort keys %own)
	{
		my @own = @{ $own{$who} };

		last if defined $did;
		for (my $i = $#own - 1; $i >= 0 && $texts[ $own[$i] ] =~ /"kind":"commit"/; $i--)
		{
			($did, $k) = ($who, $i) if $own[ $i + 1 ] - $own[$i] > 120 && $texts[ $own[$#own] ] =~ /"kind":"commit"/;
		}
	}
	my ($left, $came) = ($own{$did}[$k], $own{$did}[ $k + 1 ] - 1);
	my $event = sub {
		my ($behind, $minutes, $said) = @_;
		my ($then) = $texts[$behind] =~ /"time_us":(\d+)/;
		return sprintf '{"did":"%s","time_us":%d,"kind":"account","account":{"did":"%1$s","seq":1,"time":"2024-06-01T00:%02d:00.000Z",%s}}',
		  $did, $then + 1000, $minutes, $said;
	};
	my @with = (@texts[ 0 .. $left ], $event->($left, 4, '"active":false,"status":"deactivated"'),
		@texts[ $left + 1 .. $came ], $event->($came, 0, '"active":true'), @texts[ $came + 1 .. $#texts ]);
	my $server = AtprotoTest::Server->start(write_capture(PostgreSQL::Test::Utils::tempdir() . '/ahead', @with));

	follow('v1', $server);
	wait_for("SELECT sum(events) = @{[ scalar @with ]} FROM atproto.cursor WHERE subscription = 'v1'");
	is(query("SELECT active FROM v1.repo WHERE did = '$did'"), 't', 'J-26: an account that is active again on a server whose clock is four minutes behind');
	same_rows('v1', 'relay', 'no commit after it is lost', tables => [qw(record record_event link)]);
	query("SELECT atproto.unsubscribe('v1')");
}

# --- texts that lie ---

# An account without further events.
my $liar = did('z');
foreach my $version (qw(v1 v2))
{
	my $at = $at{$version}->(200);
	my $lies = make_capture('jetstream.py', 'lies', $version, $liar, '--first' => $at - 50);

	$servers{$version}->restart('--inject' => "$lies\@$at");
	follow($version, $servers{$version});
	wait_for("SELECT count(*) >= $wanted FROM $version.record_event");
	is(query('SELECT count(*) FROM atproto.dead_letter'), text_count($lies), "$version: each lie is a letter");
	is(query("SELECT count(*) FROM $version.record WHERE did = '$liar'"), '0', "$version: and no record");
	query("DELETE FROM $version.repo WHERE did = '$liar'");
	all_is_there($version, "nobody else's are", letters => 1);
}

# --- texts unlike Jetstream's messages ---

foreach my $version (qw(v1 v2))
{
	my $at = $at{$version}->(50);
	my $i  = 0;

	foreach my $broken (read_capture(make_capture('jetstream.py', 'broken', $version, $liar, '--first' => $at - 50)))
	{
		my $one = write_capture(PostgreSQL::Test::Utils::tempdir() . '/one', $broken);

		$i++;
		$servers{$version}->restart('--inject' => "$one\@$at", '--fault-times' => 1);
		follow($version, $servers{$version});
		wait_for("SELECT count(*) >= $wanted FROM $version.record_event");
		is(query('SELECT stage FROM atproto.dead_letter'), 'frame', "$version: broken text $i is kept, and the connection dropped") or diag(substr($broken, 0, 300));
		all_is_there($version, "broken text $i", letters => 1);
	}
}
unlike(slurp_file($node->logfile), qr/PANIC|terminated by signal/, 'no process ended badly');

$node->stop;
done_testing();
