# 200_labels.pl
#		subscribeLabels: the capture of a real labeler, and frames that no honest labeler would send.  The
#		latest label counts, whatever the order; replays change no row; of a message, only an invalid label
#		becomes a dead letter.  F-30 to F-33, E-22, E-50.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $nsid = 'com.atproto.label.subscribeLabels';
my $node = make_node('labels');

# A value that changes with any write, even with equal values.
sub fingerprint
{
	return query('SELECT count(*), md5(string_agg(concat(ctid, xmin, l.*), $$,$$ ORDER BY ctid)) FROM atproto.label l');
}

# The view depends on now(): the oracle gets the same time.
sub current_labels_match
{
	my ($capture, $name) = @_;
	my ($now, @have) = split /\n/, query(<<'SQL');
BEGIN;
SELECT (extract(epoch FROM now()) * 1000000)::bigint;
COPY (SELECT uri, src, val, seq FROM atproto.current_label) TO STDOUT;
COMMIT;
SQL
	my ($want) = oracle('', 'label', $capture, '--now', $now);
	my @want = map { my @c = split /\t/; join "\t", @c[ 1, 0, 2, 9 ] } split /\n/, $want;

	is_deeply([ sort @have ], [ sort @want ], $name);
	return scalar @want;
}

# --- the capture of a labeler ---

my $capture = capture('labels.frames.gz');
my $server  = AtprotoTest::Server->start($capture);
query(subscribe_sql('real', $server, nsid => $nsid, cursor => 0));
wait_for_seq($node, 'real', 433);
tables_match($node, $capture, 'F-30, F-31: the table is what the oracle says', modes => ['label']);
current_labels_match($capture, 'F-33: what holds now');
is(query('SELECT events, record_ops, (SELECT count(*) FROM atproto.dead_letter) FROM atproto.cursor'),
	'400|400|0', 'every message counted, nothing refused');
like(query('SELECT lag_seconds FROM atproto.stat_subscription'), qr/^\d/, 'the time of an event is that of its last label');

my $old = q{SELECT COALESCE((skips->>'old')::bigint, 0) FROM atproto.cursor};
my $passed_over = query($old);
my $before = fingerprint();
query("SELECT atproto.set_cursor('real', 0)");
$node->poll_query_until('postgres', 'SELECT events = 800 FROM atproto.cursor');
is(fingerprint(), $before, 'a replay changes no row');
is(query($old) - $passed_over, 400, 'and each label that is not newer than the stored one is counted');
is(join(' ', $server->cursors), '0 0', 'F-30: all of it was sent again');
query("SELECT atproto.unsubscribe('real'); TRUNCATE atproto.label");

# --- labels in odd orders, and bad labels ---

my $odd = make_capture('streams.py', 'labels');
my $n   = () = read_capture($odd);
$server = AtprotoTest::Server->start($odd);
query(subscribe_sql('odd', $server, nsid => $nsid, cursor => 0));
wait_for_seq($node, 'odd', $n);
tables_match($node, $odd, 'F-33: the table is what the oracle says', modes => ['label']);
cmp_ok(current_labels_match($odd, 'F-33: what holds now'), '>', 50, 'that is something');

# Some results written by hand, so that the oracle and the extension cannot share an error.
is(query(<<'SQL'), 'expired||, expired-long-ago||, late-negation|held, never-expires|held, not-expired|held, old-last|held, put-again|held, taken-back||, zone|held', 'F-33: as the rules say');
SELECT string_agg(concat(val, '|', CASE WHEN c.val IS NULL THEN '|' ELSE 'held' END), ', ' ORDER BY val COLLATE "C")
FROM unnest(ARRAY['expired', 'expired-long-ago', 'late-negation', 'never-expires', 'not-expired', 'old-last', 'put-again', 'taken-back', 'zone']) val
	LEFT JOIN atproto.current_label c USING (val)
WHERE c.uri IS NULL OR (c.uri LIKE 'at:%' AND c.src = (SELECT src FROM atproto.label WHERE val = 'bare'))
SQL

is(query("SELECT string_agg(concat_ws(' ', val, CASE WHEN val LIKE 'from%' THEN cts ELSE exp END AT TIME ZONE 'UTC'), ', ' ORDER BY val) FROM atproto.label WHERE val ~ '^from-year|long-ago|never-'"),
	'expired-long-ago 0001-01-02 00:00:00, from-year-0 0001-01-02 00:00:00, never-expires 9999-12-30 23:59:59.999999',
	'times that some drivers cannot read are the nearest that they can');

my ($bad) = oracle('', 'bad', $odd);
is( query("SELECT string_agg(concat_ws(':', seq, path, stage, sqlstate), ' ' ORDER BY seq, path) FROM atproto.dead_letter"),
	join(' ', map { my @c = split /\t/; join ':', @c[ 0, 1 ], $c[1] eq '' ? 'message' : 'record', '22P03' }
		  sort { ($a =~ /^(\d+)/)[0] <=> ($b =~ /^(\d+)/)[0] } split /\n/, $bad),
	'E-50: each bad label is a dead letter alone');
cmp_ok(scalar(split /\n/, $bad), '>', 25, 'there are such');
is(query("SELECT count(*) FROM atproto.label WHERE val ~ '^(before|after)'"),
	2 * grep({ /labels/ } map { (split /\t/)[1] } split /\n/, $bad), 'those beside it are stored');
is(query("SELECT drops, reconnects, skips - 'old' FROM atproto.stat_subscription"),
	'{}|0|{"invalid": ' . (() = $bad =~ /\n/g) . ', "unknown": 1}', 'E-22: the stream went on');

# --- in batches of any size the result is the same ---

$before = query('SELECT md5(string_agg(concat(src, uri, val, cid, neg, cts, exp, ver, sig, seq), $$,$$ ORDER BY uri, src, val)) FROM atproto.label');
query("SELECT atproto.unsubscribe('odd'); TRUNCATE atproto.label");
$server->restart('--cut-after', 1);
$node->safe_psql('postgres', 'ALTER SYSTEM SET atproto.reconnect_delay = 1; SELECT pg_reload_conf()');
query(subscribe_sql('cut', $server, nsid => $nsid, cursor => 0));
wait_for_seq($node, 'cut', $n);
is(query('SELECT md5(string_agg(concat(src, uri, val, cid, neg, cts, exp, ver, sig, seq), $$,$$ ORDER BY uri, src, val)) FROM atproto.label'),
	$before, 'one message for each connection leaves the same rows');
is(query('SELECT events FROM atproto.cursor'), $n, 'each was processed once');

$node->stop;
done_testing();
