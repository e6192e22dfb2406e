# 281_chain.pl
#		At level chain, a commit with omitted or invented operations changes no record, and repo.sync shows
#		the loss.  Each case of test/oracle/chain.py, with one process and with several, and through a
#		restart; a recorded PDS, with all commits proven; audits of records from level hash.  V-01, V-03,
#		V-13, V-17, V-26 to V-29, V-31 to V-38, V-45.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds     = capture('pds.frames.gz');
my $forged  = make_capture('chain.py');
my $last    = slurp_file(make_capture('chain.py', '--last')) + 0;
my @cases   = map { [ split /\t/ ] } split /\n/, slurp_file(make_capture('chain.py', '--expect'));
my $node    = make_node('chain', conf => "max_worker_processes = 12\natproto.reconnect_delay = 50ms");

# The counters of skipped events, for each name that has one.
sub skips
{
	my ($name) = @_;
	return query("SELECT string_agg(key || ' ' || value, ', ' ORDER BY key) FROM atproto.stat_subscription, jsonb_each_text(skips) WHERE name = '$name'");
}

# --- the stream of an honest server ---

foreach my $workers (1, 3)
{
	my $server = AtprotoTest::Server->start($pds, '--hold-at', 700);

	query("CREATE SCHEMA pds$workers");
	query(subscribe_sql("pds$workers", $server, cursor => 0, target => "'pds$workers'", workers => $workers));
	wait_for_seq($node, "pds$workers", 699);
	$node->restart;
	$server->release;
	wait_for_seq($node, "pds$workers", $PDS_LAST);
	tables_match($node, $pds, "$workers: the tables are what the oracle says", schema => "pds$workers");
	is(query("SELECT count(*) FROM pds$workers.repo WHERE sync <> 'synchronized'"), '0', "V-35: $workers: every repository is proven from its first commit on");
	unlike(skips("pds$workers") // '', qr/incomplete|mismatch|break|skipped/, "$workers: and so is each of its commits");
	is(query("SELECT count(*) FROM pds$workers.repo r, LATERAL atproto.audit(r.did, 'pds$workers', deep => true) a WHERE a.equal IS NOT TRUE AND r.status IS DISTINCT FROM 'deleted'"),
		'0', "V-46: $workers: audits say the same, of the values, too");
	query("SELECT atproto.unsubscribe('pds$workers')");
}

# --- a database that was filled at level hash ---

my $server = AtprotoTest::Server->start($pds, '--hold-at', 900);
query('CREATE SCHEMA hash');
query(subscribe_sql('hash', $server, cursor => 0, target => "'hash'", verify => "'hash'"));
wait_for_seq($node, 'hash', 899);
is(query('SELECT string_agg(DISTINCT sync, $$,$$) FROM hash.repo'), 'partial', 'V-37: at level hash nobody knows');
like(($node->psql('postgres', "CALL atproto.audit_all('hash')"))[2], qr/NOTICE:  \d+ repositories were audited\n.*, 0 desynchronized;/, 'V-45: they are audited');
is(query("SELECT string_agg(DISTINCT sync, ',') FROM hash.repo WHERE rev IS NOT NULL AND status IS DISTINCT FROM 'deleted'"),
	'synchronized', 'audits alone make them synchronized');
query("UPDATE atproto.subscription SET verify = 'chain' WHERE name = 'hash'");
wait_for("SELECT settings_after = 899 FROM atproto.cursor WHERE subscription = 'hash'");
$server->release;
wait_for_seq($node, 'hash', $PDS_LAST);
is(query("SELECT string_agg(DISTINCT sync, ',') FROM hash.repo WHERE status IS DISTINCT FROM 'deleted'"), 'synchronized', 'V-03: and at level chain they stay so');
query("SELECT atproto.unsubscribe('hash')");

# A proof counts no more after events at level hash.
$server = AtprotoTest::Server->start($pds, '--hold-at', 900);
query('CREATE SCHEMA less');
query(subscribe_sql('less', $server, cursor => 0, target => "'less'"));
wait_for_seq($node, 'less', 899);
query("CREATE TABLE proven AS SELECT did, rev FROM less.repo WHERE sync = 'synchronized'");
query("UPDATE atproto.subscription SET verify = 'hash' WHERE name = 'less'");
wait_for("SELECT settings_after = 899 FROM atproto.cursor WHERE subscription = 'less'");
$server->release;
wait_for_seq($node, 'less', $PDS_LAST);
my $moved = "less.repo JOIN proven USING (did) WHERE repo.rev <> proven.rev AND repo.active";
cmp_ok(query("SELECT count(*) FROM $moved"), '>', 0, 'some that were proven go on at level hash');
is(query("SELECT DISTINCT sync FROM $moved"), 'partial', 'V-37: and are proven no more');
query("SELECT atproto.unsubscribe('less')");

# --- what others send ---

foreach my $workers (1, 3)
{
	my $s = "forged$workers";

	$server = AtprotoTest::Server->start($forged, '--hold-at', int($last / 2));
	query("CREATE SCHEMA $s");
	query(subscribe_sql($s, $server, cursor => 0, target => "'$s'", workers => $workers));
	wait_for_seq($node, $s, int($last / 2) - 5);
	$node->restart;
	$server->release;
	wait_for_seq($node, $s, $last);
	foreach my $case (@cases)
	{
		my ($did, $name, $state, $what) = @$case;

		is(query("SELECT sync, EXISTS (SELECT FROM $s.record r WHERE r.did = p.did AND rkey = 'x'),"
				. " (SELECT count(*) FROM atproto.dead_letter l WHERE l.did = p.did AND subscription = '$s' AND stage = 'commit')"
				. " FROM $s.repo p WHERE did = '$did'"),
			join('|', $state, $what eq 'applied' ? 't' : 'f', $what eq 'refused' ? 1 : 0), "$workers: $name");
	}
	# proven repositories are complete; missed events are visible
	is(query("SELECT string_agg(did || reason, ',') FROM (SELECT p.did, a.reason FROM $s.repo p, LATERAL atproto.audit(p.did, '$s') a"
			. " WHERE (p.sync = 'synchronized') AND NOT a.equal) x"), '', "$workers: audits find nothing wrong in what is synchronized");
	query("SELECT atproto.unsubscribe('$s')");
}

# Forged commits are counted by their faults.
$server = AtprotoTest::Server->start($forged);
query('CREATE SCHEMA counted');
query(subscribe_sql('counted', $server, cursor => 0, target => "'counted'"));
wait_for_seq($node, 'counted', $last);
my $counted = 'break 10, inactive 1, incomplete 5, invalid 11, mismatch 8, old 1, skipped_revs 1';
is(skips('counted'), $counted, 'V-26, V-27, V-32, V-33: what was counted');
# counters are committed with the cursor: neither a restart nor a new name, nor a changed number of workers,
# changes a count
$node->stop('immediate');
$node->start;
is(skips('counted'), $counted, 'the counts are those after a crash of the server, too');
query("UPDATE atproto.subscription SET workers = 3 WHERE name = 'counted'");
wait_for("SELECT count(*) = 3 FROM atproto.cursor WHERE subscription = 'counted'");
query("UPDATE atproto.subscription SET name = 'renamed' WHERE name = 'counted'");
query("SELECT atproto.set_cursor('renamed', 0)");
wait_for_seq($node, 'renamed', $last);
my $old = query("SELECT skips->>'old' FROM atproto.stat_subscription WHERE name = 'renamed'");
cmp_ok($old, '>', 1, 'each worker adds to them');
query("UPDATE atproto.subscription SET workers = 1 WHERE name = 'renamed'");
wait_for("SELECT count(*) = 1 FROM atproto.cursor WHERE subscription = 'renamed'");
query("UPDATE atproto.subscription SET name = 'counted' WHERE name = 'renamed'");
is(query("SELECT skips->>'old' FROM atproto.stat_subscription WHERE name = 'counted'"), $old, 'and what they have counted stays when they go');
is(query("SELECT atproto.retry(min(id)) FROM atproto.dead_letter WHERE subscription = 'counted' AND message LIKE '%prevData%'") =~ /prevData/, 1,
	'V-26: a mismatch stays one when it is tried again');
# once more from the beginning: nothing is new, and nothing is forgiven
my $before = query('SELECT did, rev, data, sync FROM counted.repo ORDER BY did');
query("SELECT atproto.set_cursor('counted', 0)");
wait_for_seq($node, 'counted', $last);
is(query('SELECT did, rev, data, sync FROM counted.repo ORDER BY did'), $before, 'V-13: once more, all is old');

# With a filter nothing is verified less (V-04).
$server = AtprotoTest::Server->start($forged);
query('CREATE SCHEMA part');
query(subscribe_sql('part', $server, cursor => 0, target => "'part'", collections => "'{app.bsky.graph.*}'"));
wait_for_seq($node, 'part', $last);
my ($none) = map { $_->[0] } grep { $_->[1] eq 'a record that is none' } @cases;
is(query("SELECT did, sync FROM part.repo WHERE did <> '$none' ORDER BY did"),
	query("SELECT did, sync FROM counted.repo WHERE did <> '$none' AND (rev IS NOT NULL OR NOT active) ORDER BY did"), 'V-04: filters leave the states as they are');

# --- a refill from a source that lacks commits ---

my %refills = map { $_ => make_capture('refills.py', $_) } qw(whole lossy);
my @refills = map { [ split /\t/, $_, -1 ] } split /\n/, slurp_file(make_capture('refills.py', '--expect'));
my $end     = 'did:plc:55' . '2' x 22;

foreach my $case ([ 'chain', 1 ], [ 'chain', 3 ], [ 'hash', 1 ])
{
	my ($verify, $workers) = @$case;
	my $s = "refill_$verify$workers";

	query("CREATE SCHEMA $s");
	foreach my $name (qw(whole lossy))
	{
		query(subscribe_sql("$name$s", AtprotoTest::Server->start($refills{$name}), cursor => 0, target => "'$s'", workers => $workers, verify => "'$verify'"));
		wait_for("SELECT EXISTS (SELECT FROM $s.repo WHERE did = '$end' AND hold IS NULL)");
	}
	wait_for("SELECT NOT EXISTS (SELECT FROM atproto.held_event)");
	my $before = query("SELECT string_agg(DISTINCT sync, ',') FROM $s.repo");
	is($before, $verify eq 'hash' ? 'partial' : 'synchronized', "$s: before");
	query("SELECT atproto.refill('lossy$s')");
	wait_for("SELECT NOT EXISTS (SELECT FROM $s.repo WHERE did = '$end' AND refill_by IS NOT NULL)");
	is(query("SELECT count(*) FROM atproto.check('$s')"), '0', "$s: a refill that has not come to its end is no contradiction");
	foreach my $row (@refills)
	{
		my ($did, $name, $state, $keys) = @$row;
		my ($sync, $have, $equal) = split /\|/, query("SELECT sync, (SELECT string_agg(rkey::text, ' ' ORDER BY rkey) FROM $s.record WHERE did = '$did'), (atproto.audit(did, '$s')).equal FROM (SELECT * FROM $s.repo OFFSET 0) p WHERE did = '$did'");

		$state = 'partial' if $verify eq 'hash' && $state eq 'synchronized';
		is("$sync: " . ($sync eq 'unproven' ? $keys : $have), "$state: $keys", "V-33: $s: refill: $name");
		is($equal, 't', "V-45: $s: audit: $name") if $sync eq 'synchronized';
	}
	# of some repositories the source has no event at their revision: so the refill has not ended
	query("UPDATE $s.repo SET refill_by = NULL, refill_rev = NULL, refill_data = NULL, refill_first = NULL, refill_sync = NULL; SELECT atproto.unsubscribe('whole$s'), atproto.unsubscribe('lossy$s')");
}

# An invalid level
my (undef, undef, $out) = $node->psql('postgres', subscribe_sql('other', $server, verify => "'other'"));
like($out, qr/invalid value for "verify": "other"\n.*'hash', 'chain' or 'full'/s, "V-01: verify => 'other'");

$node->stop;
done_testing();
