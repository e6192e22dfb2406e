# 504_former_keys.pl
#		Commits at level full that a former key of the account has signed, with the log of a directory followed (M-40): in
#		flight while the key is replaced, read again afterwards, sent by the thief of a key.  The cases, and what must become of
#		each, are in test/oracle/plc_former.py.  No fetcher runs: the test ends the look-ups.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Lookups;
use AtprotoTest::Network;
use AtprotoTest::Plc;
use AtprotoTest::Preload;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $made = PostgreSQL::Test::Utils::tempdir('former');
IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/oracle/plc_former.py', time . '000', $made ]) or BAIL_OUT('plc_former.py failed');
# numbers, as the network wants them
my ($geneses, $entries, $before, $all) = map { $_ + 0 } split /\t/, slurp_file("$made/counts");
my (@cases, %who);
foreach (split /\n/, slurp_file("$made/names"))
{
	my ($name, $did, $key, $present, $records, $sync, $letters) = split /\t/;
	push @cases, $name unless $name =~ /^(?:moved|misdated|retaken|waiting|labeler)$/;		# of 505_former_exports
	$who{$name} = { did => $did, key => $key, present => $present, is => "$records|$sync|$letters" };
}
my $network = AtprotoTest::Network->start;
my $node = make_node(
	'former_keys', start => AtprotoTest::Preload->make(network => $network), databases => '',
	conf => $network->settings . <<'CONF');
max_worker_processes = 16
atproto.reconnect_delay = 50ms
atproto.plc_lag = 0
CONF
my $server = AtprotoTest::Server->start("$made/stream", '--hold-at', $before + 1);
my $low    = '2' x 24;	# the first account in the order of batches

# The account's records, repo.sync, and the letters.
sub state_of
{
	my ($name) = @_;
	my $did = $who{$name}{did};

	return query("SELECT (SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM atproto.record WHERE did = '$did'), (SELECT sync FROM atproto.repo WHERE did = '$did'),"
		. " (SELECT count(*) FROM atproto.dead_letter WHERE did = '$did' AND stage = 'signature')");
}

sub letter
{
	my ($name) = @_;
	return query("SELECT message FROM atproto.dead_letter WHERE did = '$who{$name}{did}'");
}

# The document of each account is looked up, once or several times, and says what the log says.
sub look_up_all
{
	my ($times) = @_;

	know($who{$_}{did}, $who{$_}{present}) foreach @cases;
	looked_up('', 'true') foreach 1 .. $times // 1;
	wait_for('SELECT count(*) = 0 FROM atproto.held_event');
	return;
}

# --- while the first keys are the present ones ---

$network->directories({ $PLC => { log => "$made/log", upto => $geneses } });
query('CREATE SCHEMA plc');
query("SELECT atproto.subscribe('plc', 'ws://$PLC/export/stream', target => 'plc', allow_insecure => true, identities => true)");
wait_for("SELECT seq >= $geneses FROM atproto.cursor WHERE subscription = 'plc'");
wait_for('SELECT fresh AND believed FROM atproto.stat_directory');
query(subscribe_sql('full', $server, cursor => 0, verify => "'full'", events => "'keep'"));
wait_for_seq($node, 'full', $before);
is(query('SELECT count(*), bool_and(verified), count(former_key), count(*) FILTER (WHERE sync <> \'synchronized\') FROM atproto.repo'), '5|t|0|0', 'the first keys verify what comes');

# --- the keys are replaced, and what they have signed comes ---

$network->directories({ $PLC => { do => { publish => $entries } } });
wait_for("SELECT seq >= $entries FROM atproto.cursor WHERE subscription = 'plc'");
wait_for('SELECT fresh FROM atproto.stat_directory');
$server->release;
wait_for_seq($node, 'full', $all);
is(query("SELECT count(*) FROM atproto.dead_letter"), '0', 'nothing is refused before a look-up has ended: it waits');
# the batch of held events is full before the account's last commit; the bytes of another account are no message
query("INSERT INTO atproto.held_event (target, subscription, kind, verify, format, endpoint, did, rev, seq, why, shard_key, bytes)"
	. " SELECT target, subscription, kind, verify, format, endpoint, 'did:plc:$low', rev, seq, why, shard_key, decode(repeat('00', 8 * 1024 * 1024 - 100), 'hex')"
	. " FROM atproto.held_event WHERE did = '$who{two}{did}' ORDER BY rev LIMIT 1");
know($who{two}{did}, $who{two}{present});
looked_up('', "did IN ('did:plc:$low', '$who{two}{did}')");
wait_for("SELECT count(*) = 0 FROM atproto.held_event WHERE did = '$who{two}{did}'");
is(state_of('two'), $who{two}{is}, 'M-40: a full batch parts no commit from those that confirm it');
query("DELETE FROM atproto.dead_letter WHERE stage <> 'signature'");
look_up_all();
is(state_of($_), $who{$_}{is}, "M-40: $_") foreach @cases;
like(letter('alone'), qr/^The commit is signed by a former key of the account, \\x$who{alone}{key}, which was its key until \d+.*, and nothing newer confirms the commit\.$/,
	'M-40: the letter names the key, its end, and what is missing');
like(letter('backdated'), qr/nothing newer confirms/, 'M-40: also of a thief who says that it was in time');
like(letter('late'), qr/^The commit is signed by a former key of the account, \\x$who{late}{key}, which was its key until [^,]*\.$/, 'M-40: a revoked key that is misused is named');
is(query("SELECT skips ->> 'bad_signature' FROM atproto.stat_subscription WHERE name = 'full'"), query("SELECT count(*) FROM atproto.dead_letter"), 'each refusal is counted');
is(query("SELECT verified, former_key FROM atproto.repo WHERE did = '$who{flight}{did}'"), 't|', 'M-40: the present key has signed the last commit');
is(query("SELECT string_agg(rkey::text, ',' ORDER BY rev) FROM atproto.record_event WHERE did = '$who{between}{did}'"), '1,2,3', 'M-40: no event tells of the thief');

# --- read again ---

query("DELETE FROM atproto.record WHERE did IN ('$who{refilled}{did}', '$who{continued}{did}', '$who{between}{did}')");
query("SELECT atproto.refill('full')");
wait_for("SELECT seq = $all FROM atproto.cursor WHERE subscription = 'full'");
# refill() makes the consumer start again.  A consumer that starts releases all held events, before or after the consumer has read the stream
# again.  So the test releases the events, too: without a look-up, confirmed commits are applied, and the thief's commit waits.
query('INSERT INTO atproto.held_release (target, kind, did, subscription, shard_key) SELECT DISTINCT target, kind, did, subscription, shard_key FROM atproto.held_event');
wait_for('SELECT count(*) = 0 FROM atproto.held_release');
is(query("SELECT (SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM atproto.record WHERE did = '$who{refilled}{did}'), count(*), (SELECT sync FROM atproto.repo WHERE did = '$who{refilled}{did}')"
	. " FROM atproto.held_event WHERE did = '$who{refilled}{did}'"), '1,2|2|unproven', 'M-40: without a look-up, a refill gets as far as the first commit that nothing confirms');
is(query("SELECT refresh FROM atproto.identity_request WHERE did = '$who{refilled}{did}' AND refresh"), 't', '... and asks for a look-up, so that the later commits do not wait for ever');
# the thief's commit has waited behind other commits, whose look-up does not count
look_up_all(2);
is(state_of('refilled'), '1,2,3|synchronized|1', 'M-40: refill(): up to the stored commit, whose signature was verified; a thief\'s commit between is refused');
is(state_of('continued'), '1,2,3|synchronized|0', 'M-40: ... or up to one that the present key has signed');
is(state_of('between'), $who{between}{is}, 'M-40: ... without those of a thief');
is(query('SELECT count(*) FROM atproto.repo WHERE refill_by IS NOT NULL OR hold IS NOT NULL'), '0', 'no refill is left');
query("DELETE FROM atproto.record WHERE did = '$who{refilled}{did}'; UPDATE atproto.repo SET verified = false WHERE did = '$who{refilled}{did}'");
query("SELECT atproto.refill('full', dids => '{$who{refilled}{did}}')");
wait_for("SELECT seq = $all FROM atproto.cursor WHERE subscription = 'full'");
wait_for("SELECT count(*) = 4 FROM atproto.held_event WHERE did = '$who{refilled}{did}'");
look_up_all();
is(query("SELECT count(*) FROM atproto.record WHERE did = '$who{refilled}{did}'"), '0', 'M-40: a stored commit that nobody has verified confirms nothing');

# --- tried again ---

my $retry = "SELECT atproto.retry(id) FROM atproto.dead_letter WHERE did = '%s'";
like(query(sprintf $retry, $who{backdated}{did}), qr/^The commit is signed by a former key .*nothing newer confirms/, 'M-40: retry(): the letter stays, and says why');
like(query(sprintf $retry, $who{late}{did}), qr/was its key until [^,]*\.$/, '... also of a revoked key');
query("GRANT INSERT ON plc.plc_operation TO pg_monitor");
like(query(sprintf $retry, $who{alone}{did}), qr/^it is not signed by the account's key$/, 'M-40: a log that is not believed names no former key');
query("REVOKE INSERT ON plc.plc_operation FROM pg_monitor");
query("INSERT INTO plc.plc_refused (did, digest, reason, detail, created_at, subscription) VALUES ('$who{alone}{did}', '\\x00', 'prev', 'a test', now(), 'plc')");
like(query(sprintf $retry, $who{alone}{did}), qr/^it is not signed by the account's key$/, 'M-31: a log that lacks an operation of the account names no former key');
query('DELETE FROM plc.plc_refused');
like(query(sprintf $retry, $who{alone}{did}), qr/nothing newer confirms/, '... and the log without the entry names it again');
query("INSERT INTO plc.plc_operation (did, cid, n, created_at, seq, packed) SELECT ('did:plc:' || translate(substr(md5(i::text), 1, 24), '0189', 'qrst'))::did, o.cid, 1, o.created_at, -1, o.packed"
	. " FROM plc.plc_operation o, generate_series(1, 3000) i WHERE o.did = '$who{alone}{did}' AND o.n = 1; ANALYZE plc.plc_operation; UPDATE atproto.identity SET stale = true WHERE did = '$who{alone}{did}'");
cmp_ok((split /\n/, query('BEGIN; ' . sprintf($retry, $who{alone}{did}) . '; SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_all_tables WHERE relid = $$plc.plc_operation$$::regclass; COMMIT'))[-1], '<', 100,
	'M-31: a question about an account does not read the whole log');
query("DELETE FROM plc.plc_operation WHERE seq = -1; UPDATE atproto.identity SET stale = false");

# --- a filter by actions ---

my $again = AtprotoTest::Server->start("$made/stream");
query('CREATE SCHEMA creates');
query(subscribe_sql('creates', $again, cursor => 0, verify => "'full'", target => "'creates'", dids => "'{$who{flight}{did}}'", actions => "'{create}'"));
wait_for("SELECT seq >= $all FROM atproto.cursor WHERE subscription = 'creates'");
look_up_all();
is(query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM creates.record"), '3', 'M-40: with some actions only, no former key counts: a deletion may leave no row');

$node->stop;
$network->stop;
done_testing();
