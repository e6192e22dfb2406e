# 512_changes_readers.pl
#		Readers of the output plugin: pg_recvlogical, killed with and without the server at random moments, gets each change;
#		a start at the position of any transaction continues with the next transaction; and the messages, as a
#		Jetstream's, fill another target with the same rows.  A large transaction of which nothing is told ends no connection.  O-23, O-25.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use AtprotoTest::Jetstream;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $seed   = seed();
my $rounds = $ENV{ATPROTO_ROUNDS} || 4;
my $node   = make_node('main', changes_conf("max_worker_processes = 30\natproto.reconnect_delay = 20ms\natproto.batch_delay = 5ms\n"));
my $server = AtprotoTest::Server->start(capture('pds.frames.gz'), '--rate', 400);
my $dir    = PostgreSQL::Test::Utils::tempdir('readers');
my @files;

make_slot('killed');
make_slot('whole');
query(subscribe_sql('s', $server, cursor => 0));

# --- kills ---

sub receive
{
	my ($slot, $file, @options) = @_;
	return IPC::Run::start([ 'pg_recvlogical', '-h', $node->host, '-p', $node->port, '-d', 'postgres',
			'-S', $slot, '--start', '-n', '-f', $file, '-F', '1', '-s', '1', @options ], '>', '/dev/null', '2>', "$file.err");
}

foreach my $round (1 .. $rounds)
{
	my $file   = "$dir/$round";
	my $reader = receive('killed', $file);

	push @files, $file;
	# until something has come, and then for a random time
	wait_until(sub { -s $file || !$reader->pumpable }, "messages of round $round") if query(q{SELECT max(seq) < 1500 FROM atproto.cursor}) eq 't';
	usleep(int rand 1_300_000);    # it confirms once a second
	$reader->kill_kill(grace => 0);
	next if $round % 2;
	$node->stop('immediate');
	$node->start;
}
wait_for_seq($node, 's', $PDS_LAST);

my $end = query('SELECT pg_current_wal_insert_lsn()');

query("SELECT pg_logical_emit_message(false, 'x', 'x')");
query('SELECT pg_switch_wal()');
push @files, "$dir/last";
receive('killed', $files[-1], '--endpos', $end)->finish;

note("$_: " . slurp_file("$_.err")) foreach grep { -s "$_.err" } @files;

# A killed reader may leave a part of a line.
my @messages = map { my $bytes = -e $_ ? slurp_file($_) : ''; $bytes =~ s/[^\n]+\z//; split /\n/, $bytes } @files;

is($node->safe_psql('postgres', 'SELECT count(*) FROM atproto.record') > 0 ? 1 : 0, 1, 'there are records');
reader_matches($node, \@messages, "$rounds kills: each change came", args => ['--again'], modes => [ 'record', 'account' ]);

my @whole = peek('whole');
my %seen;

is(join("\n", grep { /"lsn":"([^"]+)","n":(\d+)/; !$seen{"$1 $2"}++ } @messages), join("\n", @whole), 'and the same as without kills, one by one');

# --- any position ---

my @positions = grep { $whole[$_] =~ /^\{"kind":"position"/ } 0 .. $#whole;

foreach (1 .. 3)
{
	my $at = $positions[ rand @positions ];
	my ($lsn) = $whole[$at] =~ /"lsn":"([^"]+)"/;

	query("SELECT FROM pg_copy_logical_replication_slot('whole', 'cut'); SELECT FROM pg_replication_slot_advance('cut', '$lsn')");
	is(join("\n", peek('cut')), join("\n", @whole[ $at + 1 .. $#whole ]), "from $lsn on, the next transaction");
	query("SELECT pg_drop_replication_slot('cut')");
}

# --- out, and in again ---

my ($frames, $input) = ("$dir/frames", join '', map { "$_\n" } @whole);

IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/oracle/bridge.py', 'atproto' ], '<', \$input, '>', $frames) or BAIL_OUT('no bridge');

my $jetstream = AtprotoTest::Server->start($frames);

query('CREATE SCHEMA again');
query(subscribe_sql('again', $jetstream, cursor => 0, target => "'again'"));
wait_for_texts('again', $frames);
is(query('SELECT count(*) FROM ((TABLE a EXCEPT TABLE b) UNION ALL (TABLE b EXCEPT TABLE a)) d' =~ s/TABLE a/SELECT did, collection, rkey, cid, rev, value, raw FROM atproto.record/gr
	  =~ s/TABLE b/SELECT did, collection, rkey, cid, rev, value, raw FROM again.record/gr), '0', 'out and in again: the same records');
is(query('SELECT count(*) FROM ((TABLE a EXCEPT TABLE b) UNION ALL (TABLE b EXCEPT TABLE a)) d' =~ s/TABLE a/SELECT did, active, status, handle FROM atproto.repo WHERE rev IS NOT NULL/gr
	  =~ s/TABLE b/SELECT did, active, status, handle FROM again.repo WHERE rev IS NOT NULL/gr), '0', 'and accounts');
is(query('SELECT count(*) FROM atproto.dead_letter'), query(q{SELECT count(*) FROM atproto.dead_letter WHERE subscription = 's'}), 'nothing was refused');

# --- a large transaction of which nothing is told ---

# The server ends a connection that is silent for wal_sender_timeout, unless the plugin lets the server ask for an answer meanwhile.  With
# -s 0, pg_recvlogical only answers.  After an error it connects again: on a busy machine it may answer late a few times.  PostgreSQL
# itself writes changes to disk in pieces of logical_decoding_work_mem without looking after the connection.
make_slot('alive');

my $alive  = "$dir/alive";
my $reader = IPC::Run::start([ 'pg_recvlogical', '-h', $node->host, '-p', $node->port, '-d', "dbname=postgres options='-cwal_sender_timeout=400ms -clogical_decoding_work_mem=64kB'",
		'-S', 'alive', '--start', '-f', $alive, '-F', '0', '-s', '0', '-o', 'positions=changes' ], '>', '/dev/null', '2>', "$alive.err");
my $errors = sub { my $n = () = slurp_file("$alive.err") =~ /disconnected|could not/g; $n };

wait_until(sub { query(q{SELECT active FROM pg_replication_slots WHERE slot_name = 'alive'}) eq 't' }, 'the reader');
query('CREATE TABLE other AS SELECT generate_series(1, 800000) i');
query("INSERT INTO again.repo (did, handle) VALUES ('" . did('alive') . "', 'alive.example.com')");
wait_until(sub { -s $alive || $errors->() > 12 }, 'a message');
like(-s $alive ? slurp_file($alive) : slurp_file("$alive.err"), qr/^\{"kind":"identity".*alive\.example\.com/, 'the change after a large transaction comes');
$reader->kill_kill(grace => 0);

done_testing();
