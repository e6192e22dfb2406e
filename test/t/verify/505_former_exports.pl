# 505_former_exports.pl
#		Repositories whose newest commit a former key has signed, as after a move to another server, are fetched at level full:
#		the account's present server, by a followed log of a directory, confirms such a commit, and no other server does (M-40).
#		Labels count by the labeler's present key only (M-41).  The accounts are in test/oracle/plc_former.py.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Plc;
use AtprotoTest::Preload;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $made     = PostgreSQL::Test::Utils::tempdir('former');
IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/oracle/plc_former.py', time . '000', $made ]) or BAIL_OUT('plc_former.py failed');
my $network = AtprotoTest::Network->start;
my $node = make_node(
	'former_exports', start => AtprotoTest::Preload->make(network => $network),
	conf => $network->settings . <<'CONF');
max_worker_processes = 30
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
atproto.plc_lag = 0
CONF
my ($geneses, $entries) = map { $_ + 0 } split /\t/, slurp_file("$made/counts");
my %who = map { my ($name, $did, $key) = split /\t/; $name => { did => $did, key => $key } } split /\n/, slurp_file("$made/names");
my %car = map { $_ => { car => "$made/$_.car" } } qw(moved misdated retaken waiting);

# Every server has all exports; only new.example.com is the present one of these accounts.
$network->repos({ map { $_ => { map { $who{$_}{did} => $car{$_} } keys %car } } qw(new.example.com pds.example.com) });
$network->directories({ $PLC => { log => "$made/log" } });

# The account's records, repo.verified, and repo.former_key as name.
sub state_of
{
	my ($name, $target) = @_;
	my $did = $who{$name}{did};
	my $state = query("SELECT (SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM $target.record WHERE did = '$did'), verified, encode(former_key, 'hex') FROM $target.repo WHERE did = '$did'");

	return $state =~ s/$who{$name}{key}/first key/r;
}

# Why the repository is not fetched.
sub refused
{
	my ($name, $target) = @_;
	my $job = "FROM atproto.repo_job WHERE target = '$target' AND did = '$who{$name}{did}' AND error IS NOT NULL";

	query("SELECT atproto.resync('$who{$name}{did}', '$target')");
	wait_for("SELECT count(*) = 1 $job");
	return query("SELECT error $job");
}

sub fetched
{
	my ($name, $target) = @_;

	query("SELECT atproto.resync('$who{$name}{did}', '$target')");
	wait_for("SELECT count(*) = 1 FROM $target.repo WHERE did = '$who{$name}{did}' AND synced_at IS NOT NULL");
	return state_of($name, $target);
}

# The account's document is read now: a minute need not have passed since the last time.
sub look_up
{
	my ($name) = @_;
	query("UPDATE atproto.identity SET asked_at = now() - interval '1 h' WHERE did = '$who{$name}{did}'; UPDATE atproto.identity_request SET next_try = 'epoch' WHERE did = '$who{$name}{did}'");
	return;
}

query('CREATE SCHEMA plc; CREATE SCHEMA parts; CREATE SCHEMA astray');
query("SELECT atproto.subscribe('plc', 'ws://$PLC/export/stream', target => 'plc', allow_insecure => true, identities => true)");
wait_for("SELECT seq >= $entries FROM atproto.cursor WHERE subscription = 'plc'");
wait_for('SELECT fresh AND believed FROM atproto.stat_directory');
my $server = AtprotoTest::Server->start("$made/exports", '--hold-at', 2);
my $silent = AtprotoTest::Server->start("$made/exports", '--hold-at', 1);
my %full = (cursor => 0, verify => "'full'", backfill => "'repair'");
query(subscribe_sql('full', $server, %full));
query(subscribe_sql('parts', $silent, %full, target => "'parts'", fetch_as => "'sparse'", collections => "'{app.bsky.feed.post}'"));
query(subscribe_sql('astray', $silent, %full, target => "'astray'", repo_source => "'https://pds.example.com'"));

is(fetched('moved', 'atproto'), '1,2|t|first key', 'M-40: the present server has it: stored, and the row names the key');
is(fetched('moved', 'parts'), '1,2|t|first key', 'M-40: also some collections alone');
is(refused('moved', 'astray'), 'the commit is signed by a former key of the account, and was not sent by the account\'s present server', 'M-40: another server confirms nothing');
is(refused('misdated', 'atproto'), 'the commit is signed by a former key of the account, but its revision is not of the time of this key', 'M-40: a revoked key');
is(refused('retaken', 'atproto'), 'the commit is not signed by the account\'s key', 'M-40: a key that a recovery has taken back');
query('GRANT INSERT ON plc.plc_operation TO pg_monitor');
is(refused('waiting', 'parts'), 'the commit is not signed by the account\'s key', 'M-40: a log that is not believed names no former key');
query('REVOKE INSERT ON plc.plc_operation FROM pg_monitor');
is(query('SELECT count(*) FROM astray.record'), '0', '... and nothing is stored');

# --- prove(), load_car() ---

is(query("SELECT atproto.prove('parts')"), '1', 'an account is to be proven');
$node->safe_psql('postgres', "SET client_min_messages = error; CALL atproto.await_proof('parts', '60 s')");
is(query("SELECT state, equal, records FROM atproto.proof_result WHERE did = '$who{moved}{did}'"), 'done|t|2', 'M-40: prove() compares with such a commit, too');
my $load = "SELECT rev IS NOT NULL FROM atproto.load_car('$who{misdated}{did}', pg_read_binary_file('$car{misdated}{car}'), 'astray'%s)";
my ($rc, $out, $err) = $node->psql('postgres', sprintf $load, '');
like($err, qr/is not signed by the account's key|the key of account .* is not known/, 'M-40: load_car() by itself takes the present key only');
query("CALL atproto.await('$who{misdated}{did}')");
is(query(sprintf $load, ", key => atproto.did_key('\\x$who{misdated}{key}')"), 't', 'M-40: ... or the key that the caller gives');
is(state_of('misdated', 'astray'), '1,2|t|first key', 'M-40: ... and the row names it');

# --- a letter, and the present server ---

look_up('waiting');
wait_for("SELECT count(*) = 1 FROM atproto.dead_letter WHERE did = '$who{waiting}{did}' AND subscription = 'full' AND stage = 'signature'");
like(query("SELECT atproto.retry(id) FROM atproto.dead_letter WHERE did = '$who{waiting}{did}'"), qr/^The commit is signed by a former key .*, and nothing newer confirms the commit\.$/,
	'M-40: a commit in flight, behind which nothing comes: the letter stays');
is(fetched('waiting', 'atproto'), '1,2|t|first key', 'M-40: resync(): the present server confirms it');
is(query("SELECT atproto.retry(id) FROM atproto.dead_letter WHERE did = '$who{waiting}{did}'"), 'obsolete', '... and then retry() finds the commit stored');
$server->release;
wait_for_seq($node, 'full', 2);
is(state_of('moved', 'atproto'), '1,2,3|t|', 'M-40: the next commit has the present key, and the row names none');
is(query("SELECT sync FROM atproto.repo WHERE did = '$who{moved}{did}'"), 'synchronized', '... and continues the export');

# --- labels ---

my $labeler = AtprotoTest::Server->start("$made/labels", '--hold-at', 2);
query(subscribe_sql('labels', $labeler, cursor => 0, verify => "'full'", nsid => 'com.atproto.label.subscribeLabels'));
wait_for('SELECT count(*) = 1 FROM atproto.label');
is(query("SELECT string_agg(val, ','), bool_and(verified) FROM atproto.label"), 'present|t', 'M-31: the key for labels comes from the log');
is(scalar(grep { $_->{path} =~ m{^/$who{labeler}{did}} } $network->log(host => $PLC)), 0, 'M-31: ... without a look-up');
$labeler->release;
wait_for_seq($node, 'labels', 2);
look_up('labeler');
wait_for("SELECT count(*) = 1 FROM atproto.dead_letter WHERE subscription = 'labels' AND stage = 'signature'");
is(query("SELECT string_agg(val, ',') FROM atproto.label"), 'present', 'M-41: a label by a former key is refused');

$node->stop;
$network->stop;
done_testing();
