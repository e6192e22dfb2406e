# 503_plc_identities.pl
#		atproto.identity follows the log of a did:plc directory (M-30), and level full asks no directory while the log is fresh
#		(M-31): keys that change while commits come, a recovery, a tombstone, a revoked key, #identity events; who may keep such
#		a log; a log that is paused, not believed, or gone; when a log may lack operations of an account, and says nothing (M-31).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Plc;
use AtprotoTest::Points;
use AtprotoTest::Preload;
use JSON::PP;
use POSIX qw(strftime);
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
atproto.fetch_allow = 'http://plc3.example.com'
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
query("UPDATE atproto.cursor SET updated_at = updated_at - interval '2 h', event_time = event_time - interval '2 h' WHERE subscription = 'plc'");
query("SELECT atproto.resume('plc')");
wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'plc'");
is(query('SELECT fresh FROM atproto.stat_directory'), 'f', 'M-31: a connection is not fresh by what an earlier connection has brought');
query("UPDATE atproto.cursor SET updated_at = updated_at + interval '2 h', event_time = event_time + interval '2 h' WHERE subscription = 'plc'");
wait_for('SELECT fresh FROM atproto.stat_directory');
is(resolved_by('rotated'), 'log', '... and the log again when it is followed');

# --- the log may lack an operation ---

# An entry of this time was refused.  The account's operations have the numbers 20 and 100.
sub refuse
{
	my ($name, $created_at, $seq, $reason) = @_;
	query("DELETE FROM plc.plc_refused; INSERT INTO plc.plc_refused (did, digest, reason, detail, created_at, seq, subscription)"
		. " VALUES ('$who{$name}{did}', '\\x00', '$reason', 'a test', $created_at, $seq, 'plc')");
	return;
}

refuse('rotated', 'now()', 1000, 'cid');
is(resolved_by('rotated'), 'directory', 'M-31: an operation was refused: the log says nothing of the account');
is(resolved_by('steady'), 'log', '... of this account alone');
refuse('rotated', "'2020-01-01'", 1000, 'cid');
is(resolved_by('rotated'), 'directory', 'M-31: ... also one with an earlier time: the order of numbers counts, too');
refuse('rotated', 'NULL', 'NULL', 'form');
is(resolved_by('rotated'), 'directory', 'M-31: ... also one that cannot be read');
refuse('rotated', "(SELECT max(created_at) - interval '1 s' FROM plc.plc_operation WHERE did = '$who{rotated}{did}')", 'NULL', 'order');
is(resolved_by('rotated'), 'directory', 'M-31: ... also one whose time is the fault');
query("UPDATE atproto.identity SET log_time = '2020-01-01' WHERE did = '$who{rotated}{did}'");
is(check(), '', 'check(): the identity of such an account does not follow');
refuse('rotated', "'2020-01-01'", 1, 'cid');
is(resolved_by('rotated'), 'log', 'M-31: a later operation has restored the chain');
query('DELETE FROM plc.plc_refused');

query("INSERT INTO atproto.plc_log_request (subscription, did, why, requested_at, next_try) VALUES ('plc', '$who{rotated}{did}', 'prev', now(), 'infinity')");
is(resolved_by('rotated'), 'directory', 'M-11: while the account\'s log is asked for, the log says nothing');
query('DELETE FROM atproto.plc_log_request');
query("INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason) SELECT name, endpoint, 10, 20, 'set_cursor' FROM atproto.subscription WHERE name = 'plc'");
is(resolved_by('rotated'), 'directory', 'M-31: a log with a gap answers nothing');
is(query('SELECT complete FROM atproto.stat_directory'), 'f', '... and the view says so');
query('SELECT atproto.close_gap(id) FROM atproto.gap');
is(resolved_by('rotated'), 'log', '... until the gap is closed');
query("INSERT INTO atproto.dead_frame (subscription, digest, bytes) VALUES ('plc', '\\x', '\\x');"
	. " INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, digest) VALUES ('plc', 'message', '22P02', 'no entry', '\\x')");
is(resolved_by('rotated'), 'directory', 'M-31: an entry with a dead letter may be an operation of any account');
query('DELETE FROM atproto.dead_letter');
is(resolved_by('rotated'), 'log', '... until the letter is gone');

# --- a log that is not believed ---

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

# the consumer waits for a lock; the log may lag by 3 s, whatever the setting
query("ALTER SYSTEM SET atproto.plc_lag = '0'; SELECT pg_reload_conf()");
wait_for('SELECT fresh FROM atproto.stat_directory');
my $blocker = $node->background_psql('postgres');
$blocker->set_query_timer_restart;
$blocker->query_safe('BEGIN; LOCK TABLE plc.plc_operation IN SHARE MODE');
directory({ do => { publish => 180 } });
wait_for('SELECT NOT fresh FROM atproto.stat_directory');
is(resolved_by('steady'), 'directory', 'M-31: the log is not fresh while the consumer waits for a lock');
query("ALTER SYSTEM RESET atproto.plc_lag; SELECT pg_reload_conf()");
$blocker->query_safe('COMMIT');
$blocker->quit;
publish(180);
is(identity('moved'), 'good key2 other.example.com moved2.example.com t', 'M-30: believed again: the server and the handle');
is(identity('later'), 'good key2 pds.example.com later1.example.com t', '... and what was missed meanwhile');
is(check(), '', 'check(): nothing');

# --- a damaged row ---

query("UPDATE atproto.identity SET key = '\\x$who{later}{keys}[0]' WHERE did = '$who{later}{did}'");
is(check(), "identity that differs from the log $who{later}{did}", 'check(): the key is another');
query("DELETE FROM atproto.identity");

# --- a refused entry ---

my ($false) = map { decode_json($_) } grep { /"$who{steady}{did}"/ } split /\n/, slurp_file($log);
$false->{operation}{alsoKnownAs} = ['at://false.example.com'];
@{$false}{qw(seq createdAt)} = (190, strftime('%Y-%m-%dT%H:%M:%S.000Z', gmtime));
my $more = $node->basedir . '/more';
append_to_file($more, encode_json($false) . "\n");
is(resolved_by('steady'), 'log', 'the log answers ...');
directory({ do => { append => $more } });
publish(190);
is(query("SELECT reason FROM plc.plc_refused WHERE did = '$who{steady}{did}'"), 'cid', '... then an entry of the account is refused ...');
is(query("SELECT stale FROM atproto.identity WHERE did = '$who{steady}{did}'"), 't', 'M-31: ... and the key is doubtful from then on');
is(resolved_by('steady'), 'directory', 'M-31: the log says nothing of the account');
# the same operation, refused before the newest stored operation, comes again with a later number
query("UPDATE plc.plc_refused SET seq = 1, created_at = '2020-01-01' WHERE did = '$who{steady}{did}'");
is(resolved_by('steady'), 'log', '... as long as no later operation has restored the chain');
$false->{seq} = 191;
append_to_file("$more.again", encode_json($false) . "\n" . encode_json({ %$false, seq => 192 }) . "\n");
directory({ do => { append => "$more.again" } });
publish(192);
is(query("SELECT seq, again_seq, again_at > now() - interval '1 h' FROM plc.plc_refused WHERE did = '$who{steady}{did}'"), '1|192|t', 'M-31: the entry comes twice more: its row has the first number and the last');
is(resolved_by('steady'), 'directory', '... and the log says nothing again');
# the last number alone, and the last time alone
query("UPDATE plc.plc_refused SET again_at = created_at WHERE did = '$who{steady}{did}'");
is(resolved_by('steady'), 'directory', 'M-31: ... also if the entry came again with an old time: the last number counts');
query("UPDATE plc.plc_refused SET again_seq = seq, again_at = now() WHERE did = '$who{steady}{did}'");
is(resolved_by('steady'), 'directory', 'M-31: ... or with an old number: the last time counts');
query("UPDATE plc.plc_refused SET again_at = created_at WHERE did = '$who{steady}{did}'");
is(resolved_by('steady'), 'log', 'M-31: ... and not with both old');
query("DELETE FROM atproto.identity");

# --- a second directory, a new URL, dids, a new target ---

sub wait_for_plc2
{
	my ($seq) = @_;
	wait_for("SELECT seq >= $seq FROM atproto.cursor c JOIN atproto.subscription s USING (endpoint) WHERE s.name = 'plc2' AND c.subscription = 'plc2'");
	wait_for("SELECT fresh AND believed AND complete FROM atproto.stat_directory WHERE name = 'plc2'");
	return;
}

sub stored_of
{
	my ($name, $target) = @_;
	return query("SELECT count(*) FROM $target.plc_operation WHERE did = '$who{$name}{did}'");
}

$network->directories({ 'plc2.example.com' => { log => $log, upto => 160 }, 'plc3.example.com' => { log => $log, upto => 170 } });
query('CREATE SCHEMA plc2; CREATE SCHEMA plc3');
query(sprintf $subscribe =~ s/\Q$PLC\E/plc2.example.com/r, 'plc2', 'plc2');
wait_for_plc2(160);
query("SELECT atproto.unsubscribe('plc')");
is(resolved_by('moved'), 'log', 'M-30: one of two directories is enough');
query("UPDATE atproto.subscription SET url = 'ws://plc3.example.com/export/stream' WHERE name = 'plc2'");
wait_for_plc2(170);
is(stored_of('later', 'plc2'), '2', 'M-12: the log at another URL is read from its beginning');
is(resolved_by('later'), 'log', '... and answers again');

# accounts outside of dids
query("UPDATE atproto.subscription SET dids = ARRAY['$who{steady}{did}']::did[] WHERE name = 'plc2'");
is(resolved_by('moved'), 'directory', 'M-31: an account that the subscription does not follow any more');
wait_for("SELECT answer IS NULL AND next_try IS NULL FROM atproto.plc_log_request WHERE subscription = 'plc2'");
is(resolved_by('steady'), 'log', 'M-31: ... and one that it follows, since its log has come');
query("UPDATE atproto.plc_log_request SET error = 'a test' WHERE subscription = 'plc2'");
is(resolved_by('steady'), 'directory', 'M-31: a log that was not read says nothing');
$network->directories({ 'plc3.example.com' => { do => { publish => 180 } } });
wait_for_plc2(180);
is(stored_of('moved', 'plc2'), '1', 'an operation of an account that is not followed');
query("UPDATE atproto.subscription SET dids = NULL WHERE name = 'plc2'");
wait_for_plc2(180);
is(stored_of('moved', 'plc2'), '2', 'M-14: the log of all accounts is read from its beginning');
is(resolved_by('moved'), 'log', '... and answers');
is(identity('moved'), 'good key2 other.example.com moved2.example.com t', '... what it missed');
query("SELECT atproto.create_tables('plc3'); UPDATE atproto.subscription SET target = 'plc3' WHERE name = 'plc2'");
wait_for_plc2(180);
is(query('SELECT count(*) FROM plc3.plc_operation'), query('SELECT count(*) FROM plc.plc_operation'), 'M-12: another schema gets the whole log');
is(resolved_by('steady'), 'log', '... which answers');
is(check(), '', 'check(): nothing');
query("SELECT atproto.pause('plc2'); UPDATE atproto.subscription SET workers = 2, identities = false WHERE name = 'plc2'");
query("INSERT INTO atproto.cursor (subscription, endpoint, shard, layout, seq) SELECT subscription, endpoint, 1, layout, seq - 1 FROM atproto.cursor WHERE subscription = 'plc2' AND seq > 0");
my $both = "UPDATE atproto.subscription SET workers = 1, identities = true WHERE name = 'plc2'";
like(refused($both), qr/has the positions of several workers/, 'M-30: no identities before the positions of several workers have met');
query("DELETE FROM atproto.cursor WHERE subscription = 'plc2' AND shard = 1; $both");
query("SELECT atproto.unsubscribe('plc2')");
is(resolved_by('moved'), 'directory', 'M-30: without a subscription the directory is asked');
query(sprintf $subscribe =~ s/identities/cursor => 100, identities/r, 'plc', 'plc');
is(query('SELECT after_seq, before_seq, reason FROM atproto.gap WHERE closed_at IS NULL'), '0|101|set_cursor', 'M-31: a log that begins in the middle has a gap');
query("SELECT atproto.set_cursor('plc', 0)");
wait_for('SELECT count(*) = 0 FROM atproto.gap WHERE closed_at IS NULL');
is(query('SELECT closed_how FROM atproto.gap'), 'read again', 'M-12: ... until it is read from its beginning');
query("SELECT atproto.unsubscribe('plc')");
is(check(), '', 'check(): nothing');

$node->stop;
$network->stop;
done_testing();
