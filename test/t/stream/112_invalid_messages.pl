# 112_invalid_messages.pl
#		Good frames with a bad message, good messages with a bad commit, and good commits with a bad record.
#		Only the bad part becomes a dead letter: the records beside it are stored, the cursor moves on, and
#		the connection stays.  E-50, B-29, F-01, F-02, F-03, F-05, F-07, F-12, F-13.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $python = $ENV{PYTHON} || '/usr/bin/python3';
my $oracle = test_dir() . '/oracle';
my $dir    = PostgreSQL::Test::Utils::tempdir();
my $node   = make_node('invalid_messages');

# Streams a whole capture through one connection.
sub stream
{
	my ($name, $capture) = @_;
	my $n      = () = read_capture($capture);
	my $server = AtprotoTest::Server->start($capture);

	start_over();
	query(subscribe_sql($name, $server, cursor => 0));
	wait_for_seq($node, $name, $n);
	is(query('SELECT seq, s.events, drops, stopped FROM atproto.stat_subscription s JOIN atproto.subscription USING (name)'),
		"$n|$n|{}|", "$name: every message was taken");
	is(join(' ', $server->cursors), '0', "$name: through one connection");
	return $n;
}

# --- messages in violation of their schema ---

my $violations = "$dir/violations";
my @names      = split /\n/, slurp_pipe("$oracle/violations.py", $violations);

sub slurp_pipe
{
	my (@command) = @_;
	my ($out, $err) = ('', '');

	IPC::Run::run([ $python, '-B', @command ], '<', \undef, '>', \$out, '2>', \$err) or BAIL_OUT($err);
	return $out;
}

stream('violations', $violations);
my @messages = read_capture($violations);
my %letters  = map { my @c = split /\|/; $c[0] => \@c } split /\n/,
  query("SELECT seq, stage, path, sqlstate, message <> '', encode(bytes, 'hex') FROM atproto.dead_letter JOIN atproto.dead_frame f USING (subscription, digest)");
foreach my $i (0 .. $#names)
{
	my $seq = 2 * $i + 2;
	my $stage = $names[$i] eq 'blocks is no CAR file' ? 'commit' : 'message';

	is_deeply($letters{$seq}, [ $seq, $stage, '', '22P03', 't', unpack('H*', $messages[ $seq - 1 ]) ],
		"$names[$i]: dead letter");
}
is(scalar(keys %letters), scalar(@names), 'there are no others');
is(query('SELECT count(*) FROM atproto.record'), scalar(@names), 'the messages between them are stored');
is(query('SELECT active, status, handle FROM atproto.repo'), 't||', 'nothing of the bad ones is');

# --- commits and records ---

my $odd = "$dir/odd";
PostgreSQL::Test::Utils::append_to_file($odd, slurp_pipe("$oracle/synth.py", 'odd'));
stream('odd', $odd);
tables_match($node, $odd, 'odd: the tables are what the oracle says', modes => [ 'record', 'repo', 'count' ]);

# seq, path and stage of the dead letters
my %stage = (hash => 'commit', missing => 'commit', commit => 'commit', operations => 'message', path => 'message');
my ($dead) = oracle('', 'dead', $odd);
is( query('SELECT string_agg(line, $$,$$ ORDER BY line COLLATE "C")
		FROM (SELECT concat_ws($$:$$, seq, path, stage) line FROM atproto.dead_letter) l'),
	join(',', sort map { my @c = split /\t/; join ':', @c[ 0, 1 ], $c[1] ne '' ? 'record' : $stage{ $c[2] } // $c[2] }
		  split /\n/, $dead),
	'odd: its dead letters are those of the oracle');
is(query('SELECT count(*) FROM atproto.dead_letter LEFT JOIN atproto.dead_frame f USING (subscription, digest) WHERE digest IS DISTINCT FROM sha256(bytes)'), '0', 'with their bytes');

# The letter's fault is the fault found by frame_records() in the letter's bytes, at the same place.
$node->safe_psql('postgres', q{
	CREATE FUNCTION fault(frame bytea) RETURNS text LANGUAGE plpgsql AS $$
	DECLARE detail text;
	BEGIN
		PERFORM * FROM atproto.frame_records(frame);
		RETURN 'none';
	EXCEPTION WHEN OTHERS THEN
		GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
		RETURN format('%s (byte %s)', detail, substring(sqlerrm FROM '\d+$'));
	END $$
});
is(query(q{SELECT count(*) > 3, count(*) FILTER (WHERE message <> fault(bytes)) FROM atproto.dead_letter JOIN atproto.dead_frame f USING (subscription, digest) WHERE stage = 'commit'}),
	't|0', 'odd: the faults of commits, and their places in the frames, are those of frame_records()');

# A second time: the same letters, counted.
my $before = query('SELECT count(*), max(attempts) FROM atproto.dead_letter');
my $n      = () = read_capture($odd);
query("SELECT atproto.set_cursor('odd', 0)");
$node->poll_query_until('postgres', "SELECT events = 2 * $n FROM atproto.cursor");
like($before, qr/\|1$/, 'the first time, each letter had one attempt');
is(query('SELECT count(*), count(*) FILTER (WHERE attempts = 2 AND path = $$$$) = count(*) FILTER (WHERE path = $$$$) FROM atproto.dead_letter'),
	(split /\|/, $before)[0] . '|t', 'a replay adds none, and counts the attempts');
tables_match($node, $odd, 'odd: the tables are still what the oracle says');

$node->stop;
done_testing();
