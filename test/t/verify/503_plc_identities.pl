# 503_plc_identities.pl
#		atproto.identity follows the log of a did:plc directory (M-30), and level full asks no directory while the log is fresh
#		(M-31): keys that change while commits come, a recovery, a tombstone, a revoked key, #identity events; who may keep such
#		a log; a log that is paused, not believed, or gone.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Plc;
use AtprotoTest::Points;
use AtprotoTest::Preload;
use PostgreSQL::Test::Utils;
use Test::More;

my $network = AtprotoTest::Network->start;
# the operations are at most 50 minutes old: the log is fresh whenever the stream is connected, and no event waits too long
my $node = make_node(
	'plc_identities', start => AtprotoTest::Preload->make(network => $network),
	conf => $network->settings . <<'CONF');
max_worker_processes = 30
atproto.reconnect_delay = 50ms
atproto.reconnect_max_delay = 200ms
atproto.plc_lag = 1h
CONF
my $now  = time . '000';
my $log  = make_capture('plc_full.py', 'log', $now);
my %who  = map { my ($name, $did, @keys) = split /\t/; $name => { did => $did, keys => \@keys } } split /\n/, slurp_file(make_capture('plc_full.py', 'names', $now));
my $server = AtprotoTest::Server->start(make_capture('plc_full.py', 'stream', $now), map { ('--hold-at', $_) } 8, 14, 17);

sub directory
{
	my ($what) = @_;
	return $network->directories({ $PLC => $what })->{$PLC};
}

sub publish
{
	my ($seq) = @_;
	directory({ do => { publish => $seq } });
	wait_for("SELECT seq >= $seq FROM atproto.cursor WHERE subscription = 'plc'");
	return;
}

# Requests for documents: how many since the start.
sub lookups
{
	return scalar grep { $_->{path} =~ m{^/did:plc:} } $network->log(host => $PLC);
}

sub rkeys
{
	my ($name) = @_;
	return query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM atproto.record WHERE did = '$who{$name}{did}'");
}

sub held
{
	my ($name) = @_;
	return query("SELECT string_agg(why, ',' ORDER BY rev) FROM atproto.held_event WHERE did = '$who{$name}{did}'");
}

sub identity
{
	my ($name) = @_;
	my ($state, $key, @rest) = split /\|/, query("SELECT state, encode(key, 'hex'), pds, handle_claimed, log_time IS NOT NULL FROM atproto.identity WHERE did = '$who{$name}{did}'"), -1;
	my ($n) = grep { $who{$name}{keys}[$_] eq ($key // '') } 0, 1;
	return join ' ', $state // 'nothing', defined $n ? 'key' . ($n + 1) : 'no key', @rest;
}

sub check
{
	return query("SELECT string_agg(what || ' ' || coalesce(did::text, object, ''), E'\\n' ORDER BY what) FROM atproto.check(deep => true)");
}

# --- who may ---

sub refused
{
	my ($sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', $sql);
	return $err;
}

directory({ log => $log, upto => 90 });
query(<<'SQL');
CREATE SCHEMA plc;
CREATE ROLE stranger LOGIN;
GRANT CREATE ON DATABASE postgres TO stranger;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA atproto TO stranger;
GRANT USAGE ON SCHEMA atproto TO stranger;
GRANT ALL ON ALL TABLES IN SCHEMA atproto TO stranger;
CREATE SCHEMA strangers AUTHORIZATION stranger;
SQL
my $subscribe = "SELECT atproto.subscribe('%s', 'ws://$PLC/export/stream', target => '%s', allow_insecure => true, identities => true)";
like(refused("SET ROLE stranger; " . sprintf $subscribe, 'mine', 'strangers'), qr/the owner of the subscription lacks the rights of role/,
	'M-30: a role without the rights of the extension\'s owner may not fill the identities of all');
like(refused(sprintf $subscribe, 'mine', 'strangers'), qr/the owner of the target's schema lacks the rights/, 'M-30: nor may its schema have the log');
like(refused("SELECT atproto.subscribe('x', 'wss://relay.example.com', identities => true)"), qr/cannot have "identities"/, 'M-30: only a directory has identities');
like(refused("SELECT atproto.subscribe('x', 'wss://$PLC/export/stream', target => 'x', workers => 2, identities => true)"), qr/subscriptions with "identities" cannot have several workers/, 'M-30: the identities follow in the transaction of one process');

# --- D-5: keys of their time, without a look-up ---

query(sprintf $subscribe, 'plc', 'plc');
wait_for("SELECT seq >= 90 FROM atproto.cursor WHERE subscription = 'plc'");
wait_for('SELECT fresh AND believed AND whole FROM atproto.stat_directory');
query(subscribe_sql('full', $server, cursor => 0, verify => "'full'"));
wait_for_seq($node, 'full', 7);
is(rkeys($_), '10', "M-31: $_: the key comes from the log") foreach qw(steady rotated early announced misused dead back);
wait_for("SELECT count(*) = 7 FROM atproto.identity");
is(identity('steady'), 'good key1 pds.example.com steady1.example.com t', 'M-30: as the document of the directory would be');

publish(120);
is(identity('rotated'), 'good key2 pds.example.com rotated1.example.com t', 'M-30: the identity follows in the transaction of the operation');
is(identity('early'), 'good key1 pds.example.com early1.example.com t', '... and no other one');
$server->release;
wait_for_seq($node, 'full', 13);
is(rkeys('rotated'), '10,20', 'D-5: a commit by the new key');
is(rkeys('back'),    '10,20', 'D-5: and by another');
is(rkeys('announced'), '10,20', 'M-30: an #identity is a hint: the commit behind it does not wait');
is(held('early'), 'signature', 'M-30: a key that the log does not know yet: the commit waits');
is(held('new'), 'identity', 'M-30: an account that the log does not know yet');
publish(140);
wait_for("SELECT count(*) = 0 FROM atproto.held_event");
is(rkeys('early'), '10,20', 'M-30: the operation comes, and the commit is the account\'s');
is(rkeys('new'), '10', 'M-30: the genesis comes, and so does the first commit');
# the fetcher has read the log, and the tombstone comes before the fetcher has written the row
my $points = AtprotoTest::Points->new($node);
query("DELETE FROM atproto.identity WHERE did = '$who{dead}{did}'");
$points->hold('log read', 'atproto fetcher');
query("SELECT atproto.resolve('$who{dead}{did}')");
$points->wait('log read', 'atproto fetcher');
directory({ do => { publish => 160 } });
wait_for("SELECT count(*) > 0 FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND l.locktype = 'object' AND a.application_name = 'atproto plc'");
$points->release('log read', 'atproto fetcher');
publish(160);
is(identity('back'), 'good key1 pds.example.com back1.example.com t', 'M-30: what was nullified goes back');
is(identity('dead'), 'gone no key   t', 'M-30: a tombstone');
$server->release;
wait_for_seq($node, 'full', 16);
is(rkeys('back'),   '10,20,30', 'D-5: the key that a recovery has brought back');
is(rkeys('steady'), '10,20',    'D-5: a key that never changed');
is(rkeys('dead'),   '10',       'V-43: an account whose log has ended');
is(query("SELECT verified, sync FROM atproto.repo WHERE did = '$who{back}{did}'"), 't|synchronized', '... and its repository is proven');
is(lookups(), 0, 'D-5: the log of the directory\'s requests is empty');
is(query(q{SELECT skips ->> 'bad_signature' FROM atproto.stat_subscription WHERE name = 'full'}), '', 'D-5: no signature was wrong');
is(check(), '', 'check(): nothing');

# --- a revoked key ---

$server->release;
wait_for("SELECT count(*) = 1 FROM atproto.held_event");
is(held('misused'), 'signature', 'M-30: the revoked key does not fit: the commit waits for the log');
wait_for("SELECT count(*) > 0 FROM atproto.identity_request WHERE next_try > now()");
is(lookups(), 0, '... and the directory is not asked meanwhile');
query("ALTER SYSTEM SET atproto.plc_lag = '0'; SELECT pg_reload_conf()");
query("SELECT atproto.identity_refresh('$who{steady}{did}')");
wait_for("SELECT now() > asked_at FROM atproto.identity WHERE did = '$who{steady}{did}' AND log_time IS NULL");
query("UPDATE atproto.identity_request SET next_try = 'epoch'");
wait_for("SELECT count(*) = 1 FROM atproto.dead_letter WHERE did = '$who{misused}{did}' AND stage = 'signature'");
is(rkeys('misused'), '10', 'D-5: a commit with a revoked key is refused');
cmp_ok(scalar(grep { $_->{path} =~ /$who{misused}{did}/ } $network->log(host => $PLC)), '>=', 1, 'M-30: after the wait the directory was asked');
is(identity('steady'), 'good key1 pds.example.com steady1.example.com f', 'a document by a look-up does not come from the log');
query("ALTER SYSTEM RESET atproto.plc_lag; SELECT pg_reload_conf()");

# --- a log that is not to be used ---

# The server answers what the directory says of this account; look-ups are asked for by a session.
sub resolved_by
{
	my ($name) = @_;
	my $before = lookups();

	query("DELETE FROM atproto.identity WHERE did = '$who{$name}{did}'");
	query("CALL atproto.await('$who{$name}{did}')");
	return lookups() > $before ? 'directory' : 'log';
}

is(resolved_by('rotated'), 'log', 'M-31: a session\'s question is answered by the log, too');
is(identity('rotated'), 'good key2 pds.example.com rotated1.example.com t', '... as the log has it');
query("SELECT atproto.pause('plc')");
wait_for('SELECT NOT fresh FROM atproto.stat_directory');
is(resolved_by('rotated'), 'directory', 'M-31: while the log is not followed, the directory is asked');
is(check(), '', 'check(): nothing');
query("SELECT atproto.resume('plc')");
wait_for('SELECT fresh FROM atproto.stat_directory');
is(resolved_by('rotated'), 'log', '... and the log again when it is followed');
query('GRANT INSERT (seq) ON plc.plc_operation TO stranger');
is(query('SELECT believed FROM atproto.stat_directory'), 'f', 'M-30: a log that a stranger may write is not believed');
is(resolved_by('rotated'), 'directory', '... and answers nothing');
is(resolved_by('later'), 'directory', '... of nobody');
query("UPDATE atproto.identity SET resolved_at = now() - interval '50 min' WHERE did IN ('$who{later}{did}', '$who{moved}{did}')");
query("CALL atproto.await('$who{moved}{did}'); UPDATE atproto.identity SET resolved_at = now() - interval '50 min' WHERE did = '$who{moved}{did}'");
is(check(), 'log that is not believed plc', 'check(): it says so');
publish(170);
is(identity('later'), 'good key1 pds.example.com later1.example.com f', '... and no identity follows');
query('REVOKE INSERT (seq) ON plc.plc_operation FROM stranger');
publish(180);
is(identity('moved'), 'good key2 other.example.com moved2.example.com t', 'M-30: believed again: the server and the handle');
is(identity('later'), 'good key2 pds.example.com later1.example.com t', '... and what was missed meanwhile');
is(check(), '', 'check(): nothing');

# --- a damaged row, another directory, the end ---

query("UPDATE atproto.identity SET key = '\\x$who{later}{keys}[0]' WHERE did = '$who{later}{did}'");
is(check(), "identity that differs from the log $who{later}{did}", 'check(): the key is another');
query("DELETE FROM atproto.identity");
$network->directories({ 'plc2.example.com' => { log => $log } });
query('CREATE SCHEMA plc2');
query(sprintf $subscribe =~ s/\Q$PLC\E/plc2.example.com/r, 'plc2', 'plc2');
wait_for("SELECT count(*) = 2 FROM atproto.stat_directory WHERE fresh AND believed");
wait_for("SELECT seq >= 180 FROM atproto.cursor WHERE subscription = 'plc2'");
query("SELECT atproto.unsubscribe('plc')");
is(resolved_by('moved'), 'log', 'M-30: one of two directories is enough');
query("SELECT atproto.pause('plc2'); UPDATE atproto.subscription SET workers = 2, identities = false WHERE name = 'plc2'");
query("INSERT INTO atproto.cursor (subscription, endpoint, shard, layout, seq) SELECT subscription, endpoint, 1, layout, seq - 1 FROM atproto.cursor WHERE subscription = 'plc2'");
my $both = "UPDATE atproto.subscription SET workers = 1, identities = true WHERE name = 'plc2'";
like(refused($both), qr/has the positions of several workers/, 'M-30: no identities before the positions of several workers have met');
query("DELETE FROM atproto.cursor WHERE subscription = 'plc2' AND shard = 1; $both");
query("SELECT atproto.unsubscribe('plc2')");
is(resolved_by('moved'), 'directory', 'M-30: without a subscription the directory is asked');
is(check(), '', 'check(): nothing');

$node->stop;
$network->stop;
done_testing();
