# AtprotoTest/Levels.pm
#		Spoils captures of the simulator (test/oracle/spoil.py), and compares the
#		tables, states, letters and counts of a subscription with the result of
#		test/oracle/levels.py for its level of verification.
#
#		use AtprotoTest;
#		use AtprotoTest::Levels;
#
#		my $spoilt = spoil([ '--events' => 1000 ], [ '--percent' => 5 ]);
#		my $server = AtprotoTest::Server->start("$spoilt/frames");
#		...
#		level_matches('chain', $spoilt, 's', schema => 'atproto');
#
#		A simulated network at level full, with a directory that changes as its stream goes on:
#
#		my $full = begin_full('node', events => 240, epoch => 120, accounts => 40, history => 16, seed => 1, percent => 8);
#		query(subscribe_sql('full', $full->{server}, cursor => 0, verify => "'full'"));
#		follow_full($full, sub { my ($seq) = @_; ... });	# until nothing waits
#		full_matches($full);

package AtprotoTest::Levels;

use strict;
use warnings FATAL => 'all';

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use Exporter qw(import);
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(spoil last_seq truth changes level_matches begin_full begin_epoch follow_full full_matches);

# The columns of the files that levels.py writes; %1$s is the schema, %2$s the subscription.
my %columns = (
	audited => q{SELECT did, sync FROM %1$s.repo WHERE rev IS NOT NULL AND status IS DISTINCT FROM 'deleted'},
	record => 'SELECT did, collection, rkey, cid, rev, value::jsonb FROM %1$s.record',
	repo   => 'SELECT did, rev, "commit", data, active, status, handle, sync FROM %1$s.repo',
	dead   => q{SELECT stage, did, count(*) FROM atproto.dead_letter WHERE subscription = '%2$s' GROUP BY 1, 2},
	skips  => q{SELECT key, value FROM atproto.stat_subscription, jsonb_each_text(skips)
		WHERE name = '%2$s' AND key NOT IN ('filtered', 'held', 'invalid', 'unknown')});

sub run_oracle
{
	my ($input, $program, @args) = @_;
	my $python = $ENV{PYTHON} || '/usr/bin/python3';
	my ($out, $err) = ('', '');

	IPC::Run::run([ $python, '-B', test_dir() . "/oracle/$program", @args ], '<', \$input, '>', \$out, '2>', \$err);
	my $status = $? >> 8;
	BAIL_OUT("$program failed: $err") if $err ne '' || $status > 1;
	return ($out, $status);
}

# The directory with what spoil.py makes of the simulator's capture: options of both.
sub spoil
{
	my ($simulation, $faults) = @_;
	my $dir = PostgreSQL::Test::Utils::tempdir('spoilt');
	my ($capture) = simulate(@$simulation, '--directory' => "$dir/directory");

	run_oracle('', 'spoil.py', $capture, "$dir/directory", $dir, @$faults);
	return $dir;
}

# The faults that were made: lists of seq, did, fault.
sub truth
{
	my ($dir) = @_;
	return map { [ split /\t/ ] } split /\n/, slurp_file("$dir/truth");
}

# The seqs from which on the directory says something else.
sub changes
{
	my ($dir) = @_;
	my %seqs = map { $_ => 1 } slurp_file("$dir/documents") =~ /"seq":(\d+)/g;
	return sort { $a <=> $b } keys %seqs;
}

# Of a capture's last message.
sub last_seq
{
	my ($dir) = @_;

	return slurp_file("$dir/last") + 0;
}

# The directory with what levels.py says of a level; it is asked once.
sub expected
{
	my ($level, $dir) = @_;

	run_oracle('', 'levels.py', $level, "$dir/frames", "$dir/$level", $level eq 'full' ? ('--documents', "$dir/documents") : ())
	  unless -d "$dir/$level";
	return "$dir/$level";
}

# Tests that all is as the oracle says.  Options: schema (atproto), name, files: all
# but audited, which is what CALL atproto.audit_all() leaves.
sub level_matches
{
	my ($level, $dir, $subscription, %o) = @_;
	my $expected = expected($level, $dir);

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	return subtest $o{name} // "level $level" => sub {
		foreach my $file (@{ $o{files} // [ grep { $_ ne 'audited' } sort keys %columns ] })
		{
			my $rows = query('COPY (' . sprintf($columns{$file}, $o{schema} // 'atproto', $subscription) . q{) TO STDOUT (ENCODING 'UTF8')});
			my ($out, $status) = run_oracle($rows eq '' ? '' : "$rows\n", 'levels.py', 'compare', "$expected/$file");

			ok($status == 0, "$file: what the oracle says") or diag($out);
		}
	};
}

# --- a network at level full ---

# The cluster (node, preload), the network, and the stream's server, which waits wherever the
# directory changes; last is the last seq.  conf is more of postgresql.conf, init what make_node()
# has, rate the stream's, faults the only ones that are made (test/oracle/spoil.py).
sub begin_full
{
	my ($name, %o) = @_;
	my $spoilt = spoil(
		[
			'--events' => $o{events}, '--accounts' => $o{accounts}, '--seed' => $o{seed}, '--history' => $o{history}, '--batches' => 3,
			'--p256' => 30, '--epoch' => $o{epoch}, '--rotations' => 8, '--migrations' => 2,
			'--mix' => 'delete=4,update=2,account=4,identity=0.5,sync=0.2'
		],
		[ '--percent' => $o{percent}, '--seed' => $o{seed}, '--sure', $o{faults} ? ('--only' => $o{faults}) : () ]);
	my $last    = last_seq($spoilt);
	my @stops   = grep { $_ > 1 && $_ <= $last } changes($spoilt);
	my $network = AtprotoTest::Network->start;
	my $preload = AtprotoTest::Preload->make(network => $network);
	my %faults;

	$faults{ $_->[2] }++ foreach truth($spoilt);
	note("$last events, faults: ", join ', ', map { "$_ $faults{$_}" } sort keys %faults);
	my $full = {
		spoilt    => $spoilt,
		last      => $last,
		stops     => \@stops,
		documents => [ map { decode_json($_) } split /\n/, slurp_file("$spoilt/documents") ],
		network   => $network,
		preload   => $preload,
		node      => make_node($name, start => $preload, init => $o{init},
			conf => "max_worker_processes = 20\natproto.reconnect_delay = 50ms\natproto.reconnect_max_delay = 200ms\n" . $network->settings . ($o{conf} // '')),
		server    => AtprotoTest::Server->start("$spoilt/frames", (map { ('--hold-at', $_) } @stops), $o{rate} ? ('--rate', $o{rate}) : ()) };
	change_directory($full, 1);
	return $full;
}

# What the directory says from a seq on.  One that lags tells the first who asks what was before.
sub change_directory
{
	my ($full, $seq) = @_;
	my @new = grep { $_->{seq} == $seq } @{ $full->{documents} };

	foreach my $d (grep { $_->{lags} } @new)
	{
		$full->{network}->fault({ host => 'plc.example.com', did => $d->{did}, times => 1, body => encode_json($full->{now}{ $d->{did} }) });
	}
	$full->{now}{ $_->{did} } = $_->{document} foreach @new;
	$full->{network}->documents({ map { $_->{did} => $_->{document} } @new });
	return;
}

# Goes on to the end; settle->(seq) returns when all up to a seq is done and nothing waits.
sub follow_full
{
	my ($full, $settle) = @_;

	begin_epoch($full, $settle) while @{ $full->{stops} };
	$settle->($full->{last});
	return;
}

# To the next change of the directory, and past it.
sub begin_epoch
{
	my ($full, $settle) = @_;
	my $seq = shift @{ $full->{stops} };

	$settle->($seq - 1);
	change_directory($full, $seq);
	$full->{server}->release;
	return;
}

# V-47: at level full, somebody else has to agree with what deletes an account.  Who is asked once
# more is asked ten minutes later: time passes until all have.
sub settle_deletions
{
	my ($full) = @_;
	my $clock = $full->{clock} // AtprotoTest::Clock->new($full->{node});

	wait_until(
		sub {
			return 1 if query(<<'EOSQL') eq 't';
SELECT NOT EXISTS (SELECT FROM atproto.repo WHERE purge_rev IS NOT NULL
		OR (NOT active AND status = 'deleted' AND rev IS NOT NULL AND deleted_rev IS DISTINCT FROM rev))
	AND NOT EXISTS (SELECT FROM atproto.status_request WHERE why = 'deleted' AND answered_at IS NULL)
EOSQL
			$full->{preload}->step(700);
			$clock->advance(400);
			return 0;
		},
		'what deleted accounts had to go');
	note(query(q{SELECT count(*) || ' accounts were deleted' FROM atproto.repo WHERE status = 'deleted'}));
	return;
}

# Tests that all is as the oracle says, and as audits find it.  Option: files.
sub full_matches
{
	my ($full, %o) = @_;

	settle_deletions($full);
	level_matches('full', $full->{spoilt}, 'full', %o);
	is(query("SELECT string_agg(did || coalesce(reason, ''), ',') FROM (SELECT p.did, a.reason FROM atproto.repo p, LATERAL atproto.audit(p.did) a"
			. " WHERE p.sync = 'synchronized' AND a.equal IS NOT TRUE AND p.status IS DISTINCT FROM 'deleted') x"),
		'', 'V-46: an audit of what is synchronized says the same');
	query('CALL atproto.audit_all()');
	level_matches('full', $full->{spoilt}, 'full', files => ['audited'], name => 'V-45: what audits find of all');
	return;
}

1;
