# 244_refused_pieces.pl
#		A stream in which the database refuses many rows.  The consumer remembers refused rows from batch to
#		batch, so that good rows are not written again and again; transactions have a bounded number of
#		subtransactions; and each commits its cursor, letters and rows together, also if the consumer is
#		killed between two transactions.  E-43, B-29.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node('refused_pieces', conf => "atproto.reconnect_delay = 20ms\natproto.reconnect_max_delay = 100ms");
my $server = AtprotoTest::Server->start($pds);

# About one row in twenty is refused, by its key; the trigger counts attempts.
query(<<'SQL');
CREATE SEQUENCE public.tried;
CREATE FUNCTION public.count_tries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM nextval('public.tried');
	RETURN new;
END $$;
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'not this one'; END $$;
CREATE TRIGGER count_tries BEFORE INSERT ON atproto.record FOR EACH ROW EXECUTE FUNCTION public.count_tries();
CREATE TRIGGER refuse AFTER INSERT ON atproto.record FOR EACH ROW
	WHEN (hashtext(new.rkey::text || new.did::text) % 20 = 0) EXECUTE FUNCTION public.refuse();
ALTER TABLE atproto.record ADD top xid8 DEFAULT pg_current_xact_id();
SQL

sub stream
{
	my (%args) = @_;
	start_over('record_event');
	query('ALTER SEQUENCE public.tried RESTART');
	query(subscribe_sql('s', $server, cursor => 0, %args));
	return;
}

stream();
wait_for_seq($node, 's', $PDS_LAST);
my ($expected) = oracle('', 'event', $pds);
my $rows = scalar(() = $expected =~ /^\d+\t(?:create|update)\t/mg);
my $letters = query('SELECT count(*) FROM atproto.dead_letter');
cmp_ok($letters, '>', 50, 'many rows are refused');
my $tried = query('SELECT last_value FROM public.tried');
note("$rows rows, tried $tried times");
cmp_ok($tried, '<', 7 * $rows, 'the others are not written again and again');
cmp_ok(query('SELECT max(n) FROM (SELECT count(DISTINCT xmin::text) AS n FROM atproto.record GROUP BY top) t'), '<=', 64 + 200,
	'no transaction has many subtransactions');
cmp_ok(query('SELECT count(DISTINCT top) FROM atproto.record'), '>', 3, 'there are several');
is(query('SELECT events FROM atproto.cursor'), $PDS_LAST, 'each event counts once');
my $contents = q{SELECT 'r', did, collection, rkey, cid FROM atproto.record ORDER BY 2, 3, 4;
	SELECT 'l', seq, path FROM atproto.dead_letter ORDER BY 2, 3};
my $before = query($contents);

# Killed again and again.
stream();
my $kills = 0;
until (query("SELECT coalesce(seq, 0) = $PDS_LAST FROM atproto.cursor") eq 't')
{
	my $seq = query('SELECT coalesce(seq, 0) FROM atproto.cursor');
	my $pid = query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'");

	# after a change of its row, a subscription starts at once, and not after a growing delay
	query("SELECT pg_terminate_backend($pid); UPDATE atproto.subscription SET name = name") if $pid ne '' && $kills++ < 10;
	wait_until(sub { query("SELECT coalesce(seq, 0) > $seq OR seq = $PDS_LAST FROM atproto.cursor") eq 't' }, "progress after $seq");
}
cmp_ok($kills, '>', 0, 'the consumer was terminated');
is(query($contents), $before, 'the same rows and letters are there');
is(query('SELECT events FROM atproto.cursor'), $PDS_LAST, 'each event counts once');

# When the trigger is gone, the consumer forgets the refusals.
query('DROP TRIGGER refuse ON atproto.record; DROP TRIGGER count_tries ON atproto.record; TRUNCATE atproto.record, atproto.repo');
query("SELECT atproto.set_cursor('s', 0)");
$node->poll_query_until('postgres', "SELECT events = 2 * $PDS_LAST FROM atproto.cursor");
tables_match($node, $pds, 'nothing is refused any more');

# A few accounts with refused rows do not slow down all accounts, however many rows each commit has.
query(<<'SQL');
CREATE TRIGGER refuse AFTER INSERT ON atproto.record FOR EACH ROW WHEN (new.rkey::text LIKE 'no%') EXECUTE FUNCTION public.refuse();
TRUNCATE atproto.record, atproto.repo;
DELETE FROM atproto.subscription;
SQL
my @steps = ('a 1 +x', (map { my $who = $_; join ' ', "$who 1", map { "+no$_" } 1 .. 40 } 'b' .. 'h'), 'i 1 +x');
query(subscribe_sql('s', AtprotoTest::Server->start(make_capture('steps.py', @steps)), cursor => 0));
wait_for_seq($node, 's', scalar @steps);
is(query(q{SELECT count(*), (SELECT count(*) FROM atproto.dead_letter), (SELECT count(*) FROM atproto.repo WHERE rev IS NOT NULL) FROM atproto.record}),
	'2|280|9', 'rows of a few accounts are refused: those of the others are there');

$node->stop;
done_testing();
