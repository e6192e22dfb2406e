# 351_repo_kills.pl
#		A backfill of a simulated network with live traffic, while the server, the consumer and the
#		fetcher are killed at random moments: the tables are the network's in the end, audits
#		say so, and triggers and record_event have each change once.  R-05, R-30, R-52, R-53, R-55.
#
#		ATPROTO_SEED=n is another run; ATPROTO_KILLS are how many.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(usleep);

my $kills = $ENV{ATPROTO_KILLS} || 6;
my $seed  = $ENV{ATPROTO_SEED} // 1;
srand $seed;

my $half     = 300;
my $last     = 2 * $half;
my $verify   = (qw(chain full))[ rand 2 ];
my $backfill = (qw(network seen))[ rand 2 ];
my $workers  = 1 + int rand 2;
# a list brings what was before the first event
my $cursor = $backfill eq 'network' ? int rand $half : 0;
note("ATPROTO_SEED=$seed: $verify, $backfill, $workers, from $cursor");

my $files   = PostgreSQL::Test::Utils::tempdir('simulated');
my ($capture, $expect) = simulate(
	'--events' => $last, '--accounts' => 12, '--seed' => 1 + $seed % 1000, '--history' => 0, '--epoch' => $half, '--batches' => 5,
	'--mix' => 'delete=12,update=8,profile=2,account=0,identity=0,sync=1', '--directory' => "$files/directory", '--exports' => "$files/exports");
my $lossy   = make_capture('lost.py', $capture, $half, 9);
my $network = AtprotoTest::Network->start;
my $host    = 'stream.example.com';
my $preload = AtprotoTest::Preload->make(network => $network);
my $node    = make_node(
	'repo_kills',
	start => $preload,
	conf  => $network->settings . "atproto.fetch_retry = '1s'\natproto.fetch_host_rate = 1000\nmax_worker_processes = 24\n"
	  . "atproto.reconnect_delay = 50ms\natproto.fetch_allow = 'http://$host'\nsynchronous_commit = off\n");
my $server = AtprotoTest::Server->start($lossy, '--hold-at', $half + 1, '--rate', 100);
my (%pds, %documents);

foreach my $line (split /\n/, slurp_file("$files/directory/documents"))
{
	my $entry = decode_json($line);

	next unless $entry->{document};
	$documents{ $entry->{did} } = $entry->{document};
	($pds{ $entry->{did} }) = $entry->{document}{service}[0]{serviceEndpoint} =~ m{//(.*)};
}
$network->documents(\%documents);
$network->hosts({ $host => { stream => $server->port, list => [ map { +{ did => $_ } } sort keys %pds ], page => 5 } });

# The servers have what they had after so many events: 1, half of them; 2, all.
sub serve
{
	my ($epoch) = @_;
	my %repos;

	foreach my $did (keys %pds)
	{
		my $car = "$files/exports/$epoch/$did.car";

		$repos{$_}{$did} = -e $car ? { car => $car } : undef foreach ($host, $pds{$did});
	}
	$network->repos(\%repos);
	return;
}

sub value
{
	my ($sql) = @_;
	my $value;
	wait_until(sub { defined($value = try_query($sql)) }, $sql);
	return $value;
}

sub kill_one
{
	my ($signal, $type) = @_;
	my $pid = try_query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto $type' ORDER BY random() LIMIT 1");
	kill $signal, $pid if $pid;
	return;
}

sub restart
{
	my ($how) = @_;
	my @orphans = split /\n/, value('SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()');

	$how->();
	wait_until(sub { !kill 0, @orphans }, 'the end of the server');
	$preload->start($node);
	return;
}

my @kinds = (
	(map { my $type = $_; [ "kill -9 of a $type", sub { kill_one('KILL', $type) } ], [ "a $type ends", sub { kill_one('TERM', $type) } ] } 'consumer', 'apply worker', 'fetcher'),
	[ 'the fetcher ends',      sub { kill_one('TERM', 'fetcher') } ],
	[ 'kill -9 of the server', sub { restart(sub { $node->kill9 }) } ],
	[ 'immediate restart',     sub { restart(sub { $node->stop('immediate') }) } ]);

# Nothing is outstanding.
sub settle
{
	my ($seq, $n) = @_;
	my $deadline = time + 4 * $AtprotoTest::TIMEOUT;

	for (;;)
	{
		my $there = try_query("SELECT (SELECT seq >= $seq FROM atproto.stat_subscription WHERE name = 'kills'), (SELECT count(*) FROM atproto.repo_job), (SELECT count(*) FROM atproto.held_event),"
			. " (SELECT count(*) FROM atproto.repo WHERE hold IS NOT NULL OR sync <> 'synchronized'), (SELECT count(*) FROM atproto.repo WHERE sync = 'synchronized')") // '';
		last if $there =~ /^t\|0\|0\|0\|[1-9]/ && $n == 0;
		BAIL_OUT("event $seq: $there") if time > $deadline;
		if ($n > 0 && rand() < 0.5)
		{
			my $kind = $kinds[ rand @kinds ];
			note("$there: $kind->[0]");
			$kind->[1]->();
			$n--;
		}
		# what ends with a fetcher comes back later each time
		try_query("UPDATE atproto.repo_job SET next_try = '-infinity', tries = 0 WHERE state = 'queued' AND next_try > now() + interval '2 s'");
		try_query("UPDATE atproto.repo_job SET state = 'queued', next_try = '-infinity' WHERE state = 'throttled'; DELETE FROM atproto.repo_fetched");
		usleep(rand 300_000);
	}
	return;
}

serve(1);
query(<<'EOS');
CREATE TABLE seen (n serial, op text, did did, collection nsid, rkey recordkey, cid cidlink);
CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO public.seen (op, did, collection, rkey, cid) SELECT CASE TG_OP WHEN 'INSERT' THEN 'create' WHEN 'UPDATE' THEN 'update' ELSE 'delete' END,
		(r).did, (r).collection, (r).rkey, CASE TG_OP WHEN 'DELETE' THEN NULL ELSE (r).cid END
	FROM (SELECT CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END AS r) x; RETURN NULL; END $$;
CREATE TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON atproto.record FOR EACH ROW EXECUTE FUNCTION see();
EOS
query("SET synchronous_commit = on; SELECT atproto.subscribe('kills', 'ws://$host', allow_insecure => true, cursor => $cursor, verify => '$verify', workers => $workers, events => 'keep', backfill => '$backfill')");
settle(0, int($kills / 2));
serve(2);
$server->release;
settle($last, $kills - int($kills / 2));

is(join("\n", sort split /\n/, query('SELECT did, collection, rkey, cid FROM atproto.record')),
	join("\n", sort map { join '|', (split /\t/)[ 0 .. 3 ] } split /\n/, slurp_file("$expect/record")), 'R-52: the rows are those that the network has');
is(query('SELECT count(*) FROM atproto.repo r, LATERAL atproto.audit(r.did, deep => true) a WHERE r.active AND a.equal IS NOT TRUE'), '0', 'R-55: and so audits say');
is(query("SELECT count(*) FROM (SELECT op, lag(op) OVER w AS op1, cid, lag(cid) OVER w AS cid1 FROM seen WINDOW w AS (PARTITION BY did, collection, rkey ORDER BY n)) s
	WHERE CASE op WHEN 'create' THEN op1 <> 'delete' ELSE COALESCE(op1, 'delete') = 'delete' OR cid = cid1 END"), '0', 'R-05, R-30: triggers saw each change once');
# a commit may say create or update of a record that was missed before, and delete one of those
is(query("SELECT op, count(*) FROM ((SELECT 'trigger', did, collection, rkey, cid FROM seen WHERE cid IS NOT NULL EXCEPT ALL SELECT 'trigger', did, collection, rkey, cid FROM atproto.record_event WHERE cid IS NOT NULL)
	UNION ALL (SELECT 'event', did, collection, rkey, cid FROM atproto.record_event WHERE cid IS NOT NULL EXCEPT ALL SELECT 'event', did, collection, rkey, cid FROM seen WHERE cid IS NOT NULL)
	UNION ALL (SELECT 'delete', did, collection, rkey, cid FROM seen WHERE cid IS NULL EXCEPT ALL SELECT 'delete', did, collection, rkey, NULL FROM atproto.record_event WHERE action = 'delete')) x (op) GROUP BY 1"),
	'', 'R-53: record_event has them, and nothing else');

$node->stop;
done_testing();
