# 124_crash_loop.pl
#		A consumer that crashes the server at each start waits longer before each new start, so that an
#		operator can log in and repair the cause.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds = capture('pds.frames.gz');

# The server crashes by something else while the consumer waits.
sub crash_of_others
{
	my ($crashes, $times, $seconds) = @_;
	my $before = $crashes->();

	kill 'KILL', try_query(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'});
	wait_until(sub { $crashes->() > $before }, 'another crash');
	wait_until(sub { (try_query('SELECT last_error FROM atproto.stat_subscription') // '') ne '' }, 'the consumer to wait again');
	is(try_query('SELECT last_error FROM atproto.stat_subscription'),
		"the server crashed while this ran: $times times in a row, waiting for $seconds seconds", 'a crash while the consumer waits is not one of its own');
	return;
}

foreach my $preload (1, 0)
{
	my $name   = $preload ? 'with a manager' : 'without one';
	my $node   = make_node("crash_loop$preload", preload => $preload, conf => "max_worker_processes = 20\n");
	my $server = AtprotoTest::Server->start($pds);
	my $crashes = sub { scalar(() = slurp_file($node->logfile) =~ /was terminated by signal 9/g) };

	$node->safe_psql('postgres', <<'SQL');
CREATE FUNCTION public.crash() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	COPY (SELECT 1) TO PROGRAM 'kill -KILL $PPID';
	RETURN NEW;
END $$;
CREATE TRIGGER crash AFTER INSERT ON atproto.repo FOR EACH ROW EXECUTE FUNCTION public.crash();
SQL
	$node->safe_psql('postgres', subscribe_sql('s', $server, cursor => 0));
	wait_until(sub { $crashes->() >= 3 }, 'three crashes');
	wait_until(sub { (try_query(
		q{SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND query = 'waiting after a crash'}) // '') eq '1' },
		'the consumer to wait');
	my $before = $crashes->();
	is(try_query(q{SELECT last_error FROM atproto.stat_subscription}),
		"the server crashed while this ran: $before times in a row, waiting for " . 2**($before - 1) . ' seconds', "$name: the status says so")
	  if $preload;
	is(try_query('SELECT 1'), '1', "$name: somebody can log in");
	is(try_query('DROP TRIGGER crash ON atproto.repo; SELECT 2'), '2', "$name: and mend it");
	wait_for_seq($node, 's', $PDS_LAST);
	tables_match($node, $pds, "$name: then it goes on");
	is($crashes->(), $before, "$name: without another crash");

	# A crash after progress starts the count again.
	my $pid = try_query(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
	kill 'KILL', $pid;
	wait_until(sub { (try_query(
		"SELECT pid <> $pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND query LIKE 'streaming %'") // '') eq 't' },
		'the consumer to come back');
	like(try_query('SELECT last_error FROM atproto.stat_subscription'), qr/1 times in a row/, "$name: a later crash is a first one") if $preload;
	my ($file) = glob($node->data_dir . '/pg_stat_tmp/atproto.*');
	$node->stop;
	is(scalar(() = glob($node->data_dir . '/pg_stat_tmp/atproto.*')), 0, "$name: an orderly end leaves no file");

	# The file with the count may be cut short, or have a count of absurdly many crashes.
	foreach my $case ($preload ? ([ '', 1, 1 ], [ "0\n", 1, 1 ], [ "50\n", 50, 60 ]) : ())
	{
		my ($content, $times, $seconds) = @$case;

		append_to_file($file, $content);
		$node->start;
		wait_until(sub { (try_query('SELECT last_error FROM atproto.stat_subscription') // '') ne '' }, 'the consumer to wait');
		is(try_query('SELECT last_error FROM atproto.stat_subscription'),
			"the server crashed while this ran: $times times in a row, waiting for $seconds seconds", "$name: $times crashes, $seconds seconds");
		crash_of_others($crashes, $times, $seconds) if $seconds > 1;
		$node->stop;
	}
}

done_testing();
