# 513_failover.pl
#		A failover slot of the output plugin (from PostgreSQL 17 on; O-24): the primary dies while the stream is read, a standby that
#		synchronizes slots is promoted, and a reader goes on there at the reader's own position, with each change once.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my ($settings) = run_command([ 'postgres', '--describe-config' ]);

plan skip_all => 'slots are synchronized from PostgreSQL 17 on' if $settings !~ /^sync_replication_slots\t/m;
seed();

my $primary = make_node('primary', changes_conf("max_worker_processes = 20\natproto.reconnect_delay = 20ms\natproto.batch_delay = 5ms\n"));
my $server  = AtprotoTest::Server->start(capture('pds.frames.gz'), '--rate', 400, map { ('--hold-at', $_) } 400, 1200);
my $dir     = PostgreSQL::Test::Utils::tempdir('failover');
my $last    = 'SELECT max(seq) FROM atproto.cursor';

# --- a standby that synchronizes slots, and that the primary waits for ---

query("SELECT FROM pg_create_physical_replication_slot('standby', true)");
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "primary_conninfo = '" . $primary->connstr('postgres') =~ s/'/''/gr . "'\nprimary_slot_name = 'standby'\nhot_standby_feedback = on\nsync_replication_slots = on\n");
query("SELECT FROM pg_create_logical_replication_slot('app', 'atproto', false, false, true)");

# Reads the slot from a position on; the messages are appended to a file.
sub receive
{
	my ($node, $from, @options) = @_;
	return IPC::Run::start([ 'pg_recvlogical', '-h', $node->host, '-p', $node->port, '-d', 'postgres', '-S', 'app', '--start', '-n', '-f', "$dir/messages", '-F', '1', '-s', '1', '-I', $from, @options ],
		'>', '/dev/null', '2>>', "$dir/errors");
}

# What a reader has stored: whole transactions, and the position of the last one.
sub stored
{
	my @lines = -e "$dir/messages" ? split /\n/, slurp_file("$dir/messages") =~ s/[^\n]+\z//r : ();

	pop @lines while @lines && $lines[-1] !~ /^\{"kind":"position"/;
	return (@lines ? $lines[-1] =~ /"lsn":"([^"]+)"/ : '0/0', @lines);
}

# Removes the part of a transaction that a killed reader has left, and gives the position.
sub cut
{
	my ($position, @lines) = stored();

	open my $file, '>', "$dir/messages" or BAIL_OUT("messages: $!");
	print $file map { "$_\n" } @lines;
	close $file or BAIL_OUT("messages: $!");
	return $position;
}

query(subscribe_sql('s', $server, cursor => 0));
wait_for_seq($primary, 's', 399);
my $reader = receive($primary, '0/0');
wait_until(sub { (stored())[0] ne '0/0' }, 'messages of the primary');
# The worker of the standby looks more and more seldom: where the slot may begin has to come soon after the worker's start.
$standby->start;
wait_until(
	sub {
		query('SELECT pg_log_standby_snapshot()');
		$standby->safe_psql('postgres', q{SELECT count(*) FROM pg_replication_slots WHERE slot_name = 'app' AND synced AND NOT temporary}) eq '1';
	},
	'the slot on the standby');
$primary->append_conf('postgresql.conf', "synchronized_standby_slots = 'standby'\n");
$primary->reload;
$server->release;
wait_for_seq($primary, 's', 600);
usleep(int rand 500_000);
cmp_ok(query($last), '<', $PDS_LAST, 'the primary dies in the middle of the stream');
$primary->stop('immediate');
$reader->kill_kill(grace => 0);

# --- the standby is promoted ---

my $position = cut();
my $n = stored();

$standby->promote;
$server->release;
is($standby->safe_psql('postgres', "SELECT '$position' <= split_part(pg_read_file('pg_wal/00000002.history'), E'\\t', 2)::pg_lsn"),
	't', 'what the reader has, the standby had (test/models/changes.pml, guard standby_first)');
$reader = receive($standby, $position);
wait_for_seq($standby, 's', $PDS_LAST);
my $end = $standby->safe_psql('postgres', 'SELECT pg_current_wal_insert_lsn()');
$standby->safe_psql('postgres', "SELECT pg_logical_emit_message(false, 'x', 'x'); SELECT pg_switch_wal()");
$reader->kill_kill(grace => 0);
wait_until(sub { $standby->safe_psql('postgres', q{SELECT active FROM pg_replication_slots WHERE slot_name = 'app'}) eq 'f' }, 'the slot without a reader');
receive($standby, cut(), '--endpos', $end)->finish;
my (undef, @messages) = stored();
cmp_ok(scalar @messages, '>', $n, 'the reader goes on');
tables_match($standby, capture('pds.frames.gz'), 'the tables of the promoted standby');
# the order is checked, too: nothing comes twice, and nothing is left out
reader_matches($standby, \@messages, 'each change once', modes => [ 'record', 'account' ]);

# --- a reader gets only what the standby has ---

$standby->safe_psql('postgres', "SELECT FROM pg_create_physical_replication_slot('next', true); ALTER SYSTEM SET synchronized_standby_slots = 'next'");
$standby->reload;
$standby->safe_psql('postgres', q{UPDATE atproto.record SET rkey = 'other' WHERE ctid = (SELECT min(ctid) FROM atproto.record)});
my (undef, undef, $err) = $standby->psql('postgres', q{SET statement_timeout = '1s'; SELECT count(*) FROM pg_logical_slot_peek_changes('app', NULL, NULL)});
like($err, qr/canceling statement due to statement timeout/, 'a change that no standby has is not told');
$standby->safe_psql('postgres', q{ALTER SYSTEM RESET synchronized_standby_slots});
$standby->reload;
is(scalar(decoded(split /\n/, $standby->safe_psql('postgres', q{SELECT data FROM pg_logical_slot_peek_changes('app', NULL, NULL)}))), 2, 'without the setting it is');

$standby->stop;
done_testing();
