# 414_history_union.pl
#		An archive and a relay fill the same tables in many orders, and each source lacks a share of the operations.
#		No deleted record comes back, and no operation of a single source is lost.  H-43.
#
#		In the first orders the archive's rows come by a stream (atproto.test_archived), in the others the archive's reader brings
#		them, and then the stream of the archive's server; the server or a process is killed.  The expected records are computed
#		from both shares: the newest fact about each record counts, as in test/models/sweep.pml.
#
#		ATPROTO_SEED is the seed of the run, ATPROTO_ORDERS the number of orders of each kind.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Archive;
use AtprotoTest::Clock;
use AtprotoTest::Kills;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = seed();
my $orders = $ENV{ATPROTO_ORDERS} || 3;
my @accounts = 'a' .. 'v';
my $SLOTS = 9;
my %path = (x => 'x', y => 'y', z => 'app.bsky.graph.block/z');

my $reader  = AtprotoTest::Archive->of(make_capture('steps.py', 'a 1 +x'));
my $preload = $reader->preload;
my $node    = make_node('history_union', start => $preload, conf => $reader->settings . <<'CONF');
atproto.multi_source_wait = 0
atproto.test_archived = 'archive'
atproto.history_interval = 1s
atproto.ping_interval = 200ms
atproto.idle_timeout = 0
CONF
my $clock = AtprotoTest::Clock->new($node);
my $kills = AtprotoTest::Kills->new($node, $preload);

# --- a history of each account, and the share of both sources ---

# The operation of each slot, and the records afterwards.
sub history
{
	my @slots = ({ tree => {} });

	foreach my $r (1 .. $SLOTS)
	{
		my %tree = %{ $slots[-1]{tree} };
		my @there = sort keys %tree;
		my $kind = int rand 8;

		if ($kind == 0 && @there) { push @slots, { op => 'gone', tree => {} } }
		elsif ($kind <= 3 && @there)
		{
			my $key = $there[rand @there];
			delete $tree{$key};
			push @slots, { op => 'delete', key => $key, tree => \%tree };
		}
		else
		{
			my $key = (qw(x x y z))[rand 4];
			my $value = 1 + int rand 2;
			push @slots, { op => exists $tree{$key} ? 'update' : 'create', key => $key, value => $value, tree => { %tree, $key => $value } };
		}
	}
	return \@slots;
}

sub rev { return "$_[0]000000" }

sub time_of
{
	my ($r, $half) = @_;
	return sprintf '@2026-01-01T00:00:%02d.%dZ', $r, $half ? 5 : 0;
}

# The steps of a slot, for steps.py.
sub relay_steps
{
	my ($who, $slots, $r, $gone) = @_;
	my $slot = $slots->[$r];
	my @steps;

	return ("$who deleted " . time_of($r)) if $slot->{op} eq 'gone';
	push @steps, "$who active " . time_of($gone, 1) if $gone;
	my $sign = { create => '+', update => '=', delete => '-' }->{ $slot->{op} };
	return (@steps, "$who " . rev($r) . " $sign$path{ $slot->{key} }" . ($sign eq '-' ? '' : ":$slot->{value}"));
}

my (%fact, @relay, @archive);

sub know
{
	my ($who, $key, $r) = @_;
	$fact{$who}{$key} = $r if $r > ($fact{$who}{$key} // 0);
	return;
}

# Take the next element of a random list, until all lists are empty.
sub interleave
{
	my @lists = grep { @$_ } @_;
	my @all;

	while (@lists)
	{
		push @all, shift @{ $lists[ rand @lists ] };
		@lists = grep { @$_ } @lists;
	}
	return map { ref $_ ? @$_ : $_ } @all;
}

sub make_sources
{
	my (@of_relay, @of_archive);

	%fact = ();
	foreach my $who (@accounts)
	{
		my $slots = history();
		my (@r, @a, $gone);

		foreach my $r (1 .. $SLOTS)
		{
			my $slot = $slots->[$r];
			my $op = $slot->{op};

			# the relay's commits continue each other, and some messages are left out
			my $comes = rand() < 0.75;
			push @r, [ map { [ $_, $comes || / active / ] } relay_steps($who, $slots, $r, $gone) ];
			$gone = $op eq 'gone' ? $r : undef;
			if ($comes) { know($who, $_, $r) foreach $op eq 'gone' ? qw(x y z) : $slot->{key} }
			next unless rand() < 0.75;
			if ($op eq 'gone')
			{
				push @a, [ "$who deleted " . time_of($r) ];
				know($who, $_, $r) foreach qw(x y z);
			}
			elsif (rand() < 0.3)
			{
				# a #sync and the records after the #sync, in one transaction or in several
				my $tree = $slot->{tree};
				my @records = map { "$who " . rev($r) . " +$path{$_}:$tree->{$_}" } grep { exists $tree->{$_} } qw(x y);
				push @a, rand() < 0.5 ? [ "$who sync " . rev($r), @records ] : ("$who sync " . rev($r), @records);
				know($who, $_, $r) foreach qw(x y);
			}
			elsif ($slot->{key} ne 'z')
			{
				push @a, [ relay_steps($who, $slots, $r) ];
				know($who, $slot->{key}, $r);
			}
		}
		push @of_relay, \@r;
		push @of_archive, \@a;
		$fact{$who}{slots} = $slots;
	}
	@relay = (interleave(@of_relay), [ 'w ' . rev(1) . ' +x:1', 1 ]);
	@archive = (interleave(@of_archive), 'w ' . rev(1) . ' +x:1');
	return;
}

sub expected
{
	my @rows;

	foreach my $who (@accounts)
	{
		foreach my $key (qw(x y z))
		{
			my $r = $fact{$who}{$key} or next;
			my $value = $fact{$who}{slots}[$r]{tree}{$key} or next;
			push @rows, "$who/$key $path{$key} $value";
		}
	}
	return join "\n", sort @rows;
}

sub records
{
	my ($schema) = @_;
	my %letter = map { did($_) => $_ } @accounts;

	return join "\n", sort map { my ($did, $key, $text) = split /\|/; "$letter{$did}/$key $text" }
	  grep { $letter{ (split /\|/)[0] } }
	  split /\n/, query("SELECT did, rkey, value->>'text' FROM $schema.record");
}

# The steps of the accounts with wrong records.
sub tell_of
{
	my ($schema) = @_;
	my %there = map { $_ => 1 } split /\n/, records($schema);
	my %wanted = map { $_ => 1 } split /\n/, expected();

	foreach my $line (sort((grep { !$wanted{$_} } keys %there), grep { !$there{$_} } keys %wanted))
	{
		my $who = substr $line, 0, 1;
		diag(($wanted{$line} ? 'lacks ' : 'has ') . $line, map { "\n  archive: $_" } grep { /^$who / } @archive);
		diag(query("SELECT r, (SELECT array_agg(s ORDER BY path) FROM $schema.sweep_deletion s WHERE s.did = r.did) FROM $schema.repo r WHERE did = '" . did($who) . q{'}));
		diag(map { "\n  relay: $_->[0]" . ($_->[1] ? '' : ' (does not come)') } grep { $_->[0] =~ /^$who / } @relay);
	}
	return;
}

# After how many messages a source waits.
sub holds
{
	my ($n) = @_;
	my %at = map { 2 + int(rand($n - 3)) => 1 } 1 .. 4;
	return sort { $a <=> $b } keys %at;
}

sub hold_at
{
	my ($numbers, $holds) = @_;
	return map { ('--hold-at', $numbers->[$_]) } @$holds;
}

# The relay's messages that come, and their numbers.
sub relay_capture
{
	my @messages = read_capture(make_capture('steps.py', map { $_->[0] } @relay));

	return (write_capture(PostgreSQL::Test::Utils::tempdir() . '/relay', map { $messages[$_] } grep { $relay[$_][1] } 0 .. $#messages),
		[ grep { $relay[ $_ - 1 ][1] } 1 .. @relay ]);
}

foreach my $order (1 .. $orders)
{
	my $schema = "order$order";

	make_sources();
	my ($capture, $numbers) = relay_capture();
	my @captures = (make_capture('steps.py', @archive), $capture);
	# the sequence numbers of both captures
	my @numbers = ([ 1 .. @archive ], $numbers);
	my @holds = map { [ holds(scalar @$_) ] } @numbers;
	my @servers = map { AtprotoTest::Server->start($captures[$_], hold_at($numbers[$_], $holds[$_])) } 0, 1;
	my @names = ('archive', 'relay');

	# the sweep belongs to a third, paused subscription
	query("CREATE SCHEMA $schema; SELECT atproto.subscribe('sweep', 'ws://127.0.0.1:9/xrpc/network.bsky.jetstream.subscribeEvents', target => '$schema', history => 'archive');"
		. " SELECT atproto.pause('sweep');"
		. subscribe_sql('archive', $servers[0], cursor => 0, target => "'$schema'", verify => "'hash'", events => "'keep'", collections => "'{app.bsky.feed.post}'") . ';'
		. subscribe_sql('relay', $servers[1], cursor => 0, target => "'$schema'", events => "'keep'", verify => "'chain'"));
	# a random source goes on to the next hold
	my @at = (0, 0);
	while (1)
	{
		foreach my $i (0, 1)
		{
			my $to = $holds[$i][ $at[$i] ];
			wait_for_seq($node, $names[$i], defined $to ? $numbers[$i][ $to - 1 ] : $numbers[$i][-1]);
		}
		my @left = grep { $at[$_] < @{ $holds[$_] } } 0, 1 or last;
		my $i = $left[ rand @left ];
		$at[$i]++;
		$servers[$i]->release;
	}
	is(records($schema), expected(), "H-43: order $order: the newest fact about each record counts") or tell_of($schema);
	is(query("SELECT string_agg(concat_ws(' ', did, collection, rkey, rev, action, subs), ', ') FROM (SELECT did, collection, rkey, rev, action, array_agg(subscription ORDER BY seq) AS subs FROM $schema.record_event WHERE rev IS NOT NULL"
			. " GROUP BY did, collection, rkey, rev, action HAVING count(*) > 1 ORDER BY 1, 2, 3, 4 LIMIT 5) e"), '', 'H-43: what both sources bring is told once');
	cmp_ok(query("SELECT count(*) FROM $schema.sweep_deletion"), '>', 0, 'deletions are kept');
	is(query("SELECT count(*) FROM $schema.repo WHERE rev IS NULL AND history_rev IS NULL"), '0', 'H-44: revisions of the archive are apart');
	query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
}

# --- the archive's reader, and then the stream of its server ---

my $BLOCK = 8;
my $SEGMENT = 5;

# The archive cannot be read from this block on, or can be read to its end.
sub hold_archive
{
	my ($block) = @_;
	my $holds = delete $reader->{holds};
	my $path = defined $block ? sprintf('seg_%010d[.]jss&blockIndex=%d$', int($block / $SEGMENT), $block % $SEGMENT) : undef;

	$reader->{holds} = $reader->network->fault({ host => $AtprotoTest::Archive::HOST, path => $path, status => 503, times => undef }) if defined $block;
	$reader->network->unfault($holds) if defined $holds;
	return;
}

sub wait_for_position
{
	my ($name, $seq) = @_;
	wait_for("SELECT min(seq) >= $seq FROM atproto.cursor WHERE subscription = '$name'", gone => 1);
	return;
}

foreach my $order (1 .. $orders)
{
	my $schema = "reader$order";
	my $workers = 1 + $order % 2;

	make_sources();
	my ($capture, $numbers) = relay_capture();
	$reader->take(make_capture('steps.py', @archive), '--as-is');
	# the rest comes by the stream of the archive's server
	my $blocks = int($reader->last_seq / $BLOCK * (0.5 + rand 0.4) / $SEGMENT) * $SEGMENT;
	my @blocks = sort { $a <=> $b } keys %{ { map { int(rand $blocks) => 1 } 1 .. 3 } };
	my @holds = holds(scalar @$numbers);
	my $relay = AtprotoTest::Server->start($capture, hold_at($numbers, \@holds));
	my $kill = int rand 4;

	$reader->serve({ block_rows => $BLOCK, segment_blocks => $SEGMENT, whole => 2 }, seal => $blocks / $SEGMENT);
	hold_archive($blocks[0]);
	query("SET synchronous_commit = on; CREATE SCHEMA $schema; BEGIN;"
		. subscribe_sql('relay', $relay, cursor => 0, target => "'$schema'", verify => "'chain'", workers => $workers) . ';'
		. $reader->subscription_sql('reader', target => "'$schema'", collections => "'{app.bsky.feed.post}'", verify => "'hash'", workers => 3 - $workers) . '; COMMIT');
	# a random source goes on to the next hold
	my @steps = (1 + @blocks, 1 + @holds);
	my @at = (0, 0);
	while (1)
	{
		wait_for_position('reader', $at[0] < @blocks ? $blocks[ $at[0] ] * $BLOCK : $reader->last_seq);
		wait_for_seq($node, 'relay', defined $holds[ $at[1] ] ? $numbers->[ $holds[ $at[1] ] - 1 ] : $numbers->[-1]);
		my @left = grep { $at[$_] + 1 < $steps[$_] } 0, 1 or last;
		my $i = $left[ rand @left ];
		$at[$i]++;
		if ($kill-- == 0)
		{
			my $kind = $kills->{kinds}[ rand @{ $kills->{kinds} } ];
			note("$schema: $kind->[0]");
			$kind->[1]->();
		}
		if ($i) { $relay->release }
		else { hold_archive($blocks[ $at[0] ]) }
	}
	is(records($schema), expected(), "H-43: order $order of a relay and a reader: the newest fact about each record counts") or tell_of($schema);
	is(query(q{SELECT phase FROM atproto.history WHERE subscription = 'reader'}), 'seam', 'the sweep waits for the relay');
	cmp_ok(query("SELECT count(*) FROM $schema.sweep_deletion"), '>', 0, '... and deletions are kept');
	$clock->both(8000 * $order, 8000);
	wait_for(q{SELECT phase = 'live' FROM atproto.history WHERE subscription = 'reader'});
	wait_for("SELECT count(*) = 0 FROM $schema.sweep_deletion");
	is(query(q{SELECT incomplete, error FROM atproto.history WHERE subscription = 'reader'}), '|', 'H-43: a quiet relay has passed the time of the reading after an hour');
	is(records($schema), expected(), '... and the records are as before');
	query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
	wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type IN ('atproto consumer', 'atproto apply worker')});
}

$node->stop;
done_testing();
