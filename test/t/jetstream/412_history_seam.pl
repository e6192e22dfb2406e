# 412_history_seam.pl
#		The seam between the archive and the stream of a Jetstream (H-51, H-53): old cursors, rows without an event,
#		servers with changed rows.  test/models/archive.pml has the rules.
#
#		ATPROTO_SEED is the seed of the run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Archive;
use AtprotoTest::Clock;
use AtprotoTest::Jetstream;
use JSON::PP;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

my $archive = AtprotoTest::Archive->begin('--events' => 900, '--accounts' => 40);
my $node    = make_node('seam', start => $archive->preload, conf => $archive->settings . "atproto.history_interval = 1s\n");
my $last    = $archive->last_seq;
my @texts   = read_capture($archive->texts_of);
my $dir     = PostgreSQL::Test::Utils::tempdir('texts');
my $options = { block_rows => 10, segment_blocks => 5 };
my $half    = int($last / 50 / 2);
my $tip     = $half * 50;

$archive->serve($options);
query('CREATE SCHEMA whole');
query($archive->subscription_sql('whole', history => "'none'", cursor => 0, target => "'whole'"));
$archive->wait_for_end('whole');
query("SELECT atproto.unsubscribe('whole')");

sub history { my ($what, $name) = @_; return query("SELECT $what FROM atproto.history WHERE subscription = '$name'") }

sub error_of { my ($sql) = @_; my (undef, undef, $error) = $node->psql('postgres', $sql); return $error }

# The archive is sealed up to $tip, and the stream has these texts.
sub begin_case
{
	my ($name, $stream_texts, @switches) = @_;

	$archive->serve($options, seal => $half, texts => write_capture("$dir/$name", @$stream_texts), stream => \@switches);
	query("CREATE SCHEMA $name");
	query($archive->subscription_sql($name, target => "'$name'"));
}

sub end_case
{
	my ($name, $what) = @_;

	same_rows($name, 'whole', $what, tables => [qw(record repo)]);
	query("SELECT atproto.unsubscribe('$name')");
}

# --- H-51: the server calls the cursor too old ---

begin_case('old', \@texts, '--oldest' => $tip + 60);
wait_for(q{SELECT count(*) > 0 FROM atproto.subscription_log WHERE subscription = 'old' AND detail LIKE '%CursorTooOld%'});
is(query('SELECT count(*) FROM atproto.gap'), '0', 'H-51: a cursor that is too old is no gap');
$archive->wait_for_end('old');
cmp_ok(history('cycles', 'old'), '>', 1, '... but another cycle');
is(query('SELECT count(*) FROM atproto.gap'), '0', '... and what the archive does not have yet is a seam');
$archive->do(seal => 0);
wait_for(q{SELECT phase = 'live' FROM atproto.history WHERE subscription = 'old'});
$archive->wait_for_end('old');
is(query('SELECT count(*) FROM atproto.gap WHERE closed_at IS NULL'), '0', '... which is read from the archive later');
query('DELETE FROM atproto.gap');
end_case('old', 'H-51: nothing is lost');

# --- H-53: the stream begins behind the archive's end, without a word ---

begin_case('silent', [ @texts[ $tip + 30 .. $#texts ] ]);
$archive->wait_for_end('silent');
wait_for("SELECT seams @> (@{[ $tip + 5 ]})::bigint AND phase = 'seam' FROM atproto.history WHERE subscription = 'silent'");
cmp_ok(query('SELECT count(*) FROM whole.record') - query('SELECT count(*) FROM silent.record'), '>', 0, 'the stream has left out rows');
$archive->do(seal => 0);
wait_for(q{SELECT phase = 'live' FROM atproto.history WHERE subscription = 'silent'});
is(history('seam_missing', 'silent'), '30', 'H-53: the archive says how many');
is(query(q{SELECT reason, closed_how, events FROM atproto.gap}), 'archive|read again from the archive|30', '... and a closed gap tells of them');
end_case('silent', 'H-53: what the stream has left out is read from the archive');

# --- the server lets the stream begin behind the cursor very often ---

$archive->serve($options, seal => $half, texts => write_capture("$dir/crowd", @texts[ $tip + 30 .. $#texts ]));
query('CREATE SCHEMA crowd');
query('BEGIN; ' . $archive->subscription_sql('crowd', target => "'crowd'")
	. "; INSERT INTO atproto.history (subscription, endpoint, seams) SELECT name, endpoint, (SELECT range_agg(int8range($last + 10 * n, $last + 10 * n + 5)) FROM generate_series(1, 1000) n)"
	. " FROM atproto.subscription WHERE name = 'crowd' ON CONFLICT (subscription) DO UPDATE SET seams = EXCLUDED.seams; COMMIT");
$archive->wait_for_end('crowd');
wait_for("SELECT seams @> (@{[ $tip + 5 ]})::bigint FROM atproto.history WHERE subscription = 'crowd'");
is(history('(SELECT count(*) FROM unnest(seams))', 'crowd'), '1', 'a thousand seams become one');
query("SELECT atproto.unsubscribe('crowd'); DELETE FROM atproto.gap");

# --- after a disconnection, the stream begins with the next event ---

begin_case('short', \@texts);
$archive->wait_for_end('short');
query(q{SELECT atproto.pause('short')});
wait_for(q{SELECT state = 'paused' FROM atproto.stat_subscription WHERE name = 'short'});
my $records = query('SELECT sum(record_ops) FROM atproto.cursor');
$archive->serve($options, texts => write_capture("$dir/rest", @texts[ $tip .. $tip + 5 ], $texts[-1] =~ s/"seq":\d+/'"seq":' . ($last + 7)/er));
query(q{SELECT atproto.resume('short')});
wait_for(q{SELECT count(*) > 0 FROM atproto.subscription_log WHERE subscription = 'short' AND detail LIKE '%are read again%'});
wait_for("SELECT seq > $last FROM atproto.cursor WHERE subscription = 'short'");
same_rows('short', 'whole', 'rows after the last settled one are read again, with the same result', tables => ['record']);
query(q{SELECT atproto.unsubscribe('short')});

# --- rows of the stream get new numbers ---

my $changed = $last - 20;
my @others  = @texts;
@others[ $changed - 1, $changed ] = @others[ $changed, $changed - 1 ];
$others[ $changed - 1 ] =~ s/"seq":\d+/"seq":$changed/;
$others[$changed] =~ s/"seq":\d+/'"seq":' . ($changed + 1)/e;
begin_case('crash', [ @others[ 0 .. $changed - 1 ] ]);
wait_for("SELECT seq = $changed FROM atproto.cursor WHERE subscription = 'crash'");
query(q{SELECT atproto.pause('crash')});
wait_for(q{SELECT state = 'paused' FROM atproto.stat_subscription WHERE name = 'crash'});
# a year later, the age of the next sweep begins at zero
query(q{SELECT atproto.subscribe('still', 'ws://127.0.0.1:9', target => 'crash'); SELECT atproto.pause('still')});
query(q{UPDATE atproto.history SET started_at = now() - interval '1 y', sweep_since = now() - interval '1 y', phase = 'live', incomplete = NULL WHERE subscription = 'crash'});
$archive->serve($options, seal => $half);
query(q{SELECT atproto.resume('crash')});
$archive->wait_for_end('crash');
wait_for(q{SELECT error LIKE '%"still"%' OR phase = 'live' FROM atproto.history WHERE subscription = 'crash' AND cycles > 1});
is(history('phase, incomplete', 'crash'), 'seam|', 'H-43: the end of a later sweep waits for the other subscription, too');
query(q{SELECT atproto.unsubscribe('still')});
wait_for(q{SELECT count(*) > 0 FROM atproto.subscription_log WHERE subscription = 'crash' AND detail LIKE '%are read again%'});
# H-44: during the sweep, repo.rev lacks the revisions of the stream
same_rows('crash', 'whole', 'another row at the position: the rows after the last settled one are read again', tables => ['record']);
query("SELECT atproto.unsubscribe('crash')");

# --- a quiet stream: the archive grows, and the stream brings nothing ---

begin_case('quiet', [ @texts[ 0 .. $tip - 2 ] ]);
wait_for(q{SELECT phase = 'seam' FROM atproto.history WHERE subscription = 'quiet'});
$archive->do(seal => 0);
wait_for("SELECT seq = $last FROM atproto.cursor WHERE subscription = 'quiet'");
end_case('quiet', 'what the archive has is read, although the stream is silent');

# --- rows of the stream are settled when the archive has them ---

begin_case('settled', \@texts);
$archive->wait_for_end('settled');
is(history("settled", 'settled'), $tip, 'rows of the stream are not settled at first');
$archive->do(seal => 0);
wait_for("SELECT settled = $last FROM atproto.history WHERE subscription = 'settled'");
is(query(q{SELECT count(*) FROM atproto.subscription_log WHERE subscription = 'settled' AND detail LIKE '%are read again%'}), '0', 'the archive has the row that the stream has brought');
end_case('settled', 'nothing was read again');

# --- two subscriptions exchange their names while the archive of the first was just read ---

my $points = AtprotoTest::Points->new($node);
$archive->serve($options);
query('CREATE SCHEMA first; CREATE SCHEMA second');
query($archive->subscription_sql('second', target => "'second'") . q{; SELECT atproto.pause('second')});
wait_for(q{SELECT state = 'paused' FROM atproto.stat_subscription WHERE name = 'second'});
query(q{SELECT atproto.history_again('second')});
$points->hold('archive read', 'atproto first');
query($archive->subscription_sql('first', target => "'first'"));
$points->wait('archive read', 'atproto first');
query(q{BEGIN; UPDATE atproto.subscription SET name = 'third' WHERE name = 'first'; UPDATE atproto.subscription SET name = 'first' WHERE name = 'second';
	UPDATE atproto.subscription SET name = 'second' WHERE name = 'third'; COMMIT});
$points->release('archive read', 'atproto first');
wait_for(q{SELECT phase IN ('seam', 'live') FROM atproto.history WHERE subscription = 'second'});
is(history('phase', 'first'), 'plan', 'the archive of a subscription with a former name of the process does not count as read');
$archive->wait_for_end('second');
same_rows('first', 'whole', 'and the first subscription has all rows', tables => ['record']);
query(q{SELECT atproto.unsubscribe('first'), atproto.unsubscribe('second')});

# --- a batch in pieces: the process ends between two of them ---

# A trigger refuses some records, so that the batch is applied in pieces, and then waits at a late record.
query('CREATE SCHEMA pieces; CREATE TABLE waits_at (did text, rkey text); GRANT ALL ON waits_at TO PUBLIC');
query(q{SELECT atproto.create_tables('pieces')});
query(q{CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN
	IF EXISTS (SELECT FROM public.waits_at w WHERE w.did = NEW.did::text AND w.rkey = NEW.rkey::text) THEN PERFORM pg_advisory_xact_lock(4711); END IF;
	IF hashtext(NEW.rkey::text) % 3 = 0 THEN RAISE 'refused' USING ERRCODE = 'check_violation'; END IF;
	RETURN NEW; END$$;
	CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON pieces.record FOR EACH ROW EXECUTE FUNCTION refuse()});
my ($late) = map { "('$_->{did}', '$_->{rkey}')" } grep { $_->{record} } map { decode_json($_)->{payload} } reverse @texts[ 0 .. $last - 30 ];
query("INSERT INTO waits_at VALUES $late");
my $blocker = $node->background_psql('postgres');
$blocker->query_safe('SELECT pg_advisory_lock(4711)');
$archive->serve($options, seal => $half);
query($archive->subscription_sql('pieces', target => "'pieces'", events => "'keep'"));
wait_for(q{SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND NOT granted});
cmp_ok(query(q{SELECT seq FROM atproto.cursor WHERE subscription = 'pieces'}), '>', $tip, 'a part of the batch is committed');
query(q{SELECT pg_terminate_backend(pid) FROM atproto.stat_subscription WHERE name = 'pieces'});
$blocker->quit;
$archive->wait_for_end('pieces');
is(query(q{SELECT count(*) FROM atproto.subscription_log WHERE subscription = 'pieces' AND detail LIKE '%are read again%'}), '0', 'H-40: the process that follows reads nothing again');
is(query('SELECT count(*) - count(DISTINCT (seq, did, collection, rkey)) FROM pieces.record_event'), '0', '... and no event comes twice');
query(q{SELECT atproto.unsubscribe('pieces'); DELETE FROM atproto.dead_letter});

# --- H-54, H-55: a second server behind the name ---

begin_case('below', \@texts, '--inject' => write_capture("$dir/low", $texts[4]) . '@0');
wait_for(q{SELECT state = 'stopped' FROM atproto.stat_subscription WHERE name = 'below'});
like(query(q{SELECT last_error FROM atproto.stat_subscription WHERE name = 'below'}), qr/FutureCursor: the server is at 5, before the position $tip/, 'H-54: the first event of the stream is before the position');
is(query(q{SELECT seq FROM atproto.cursor WHERE subscription = 'below'}), $tip, '... and the position stays');
query(q{SELECT atproto.unsubscribe('below')});

# Events with changed DIDs, for a second archive and its stream.
sub of_others { return map { s/(did:plc:)\w/${1}7/gr } @_ }
my $others_rows = "$dir/others";
append_to_file($others_rows, join '', of_others(slurp_file($archive->rows_file)));
foreach my $case ([ 'other', $others_rows, $half, qr/has another row at \d+, or none/ ], [ 'shorter', $archive->rows_file, 1, qr/ends at 50, and has had a row at \d+/ ])
{
	my ($name, $rows, $seal, $why) = @$case;

	begin_case($name, \@texts);
	$archive->wait_for_end($name);
	like(history('anchor', $name), qr/^\d+$/, "$name: a row of the archive is the anchor");
	query("SELECT atproto.pause('$name')");
	wait_for("SELECT state = 'paused' FROM atproto.stat_subscription WHERE name = '$name'");
	$archive->serve({ %$options, rows => $rows }, seal => $seal, texts => write_capture("$dir/$name.other", of_others(@texts)));
	query("SELECT atproto.resume('$name')");
	wait_for("SELECT state = 'stopped' FROM atproto.stat_subscription WHERE name = '$name'");
	like(query("SELECT last_error FROM atproto.stat_subscription WHERE name = '$name'"), qr/^FutureCursor: the archive $why/, "H-55: $name: another archive behind the name");
	end_case($name, "... of which nothing was applied");
}

# --- the user's functions ---

$archive->serve($options);
query('CREATE SCHEMA again');
query($archive->subscription_sql('again', target => "'again'"));
query(q{CALL atproto.await_history('again', '1 min')});
is(query(q{SELECT position >= tip OR tip IS NULL, phase IN ('seam', 'live'), waits_for IS NULL OR phase = 'seam', blocks > 0, bytes > 0, cycles FROM atproto.history_progress WHERE subscription = 'again'}), 't|t|t|t|t|1', 'history_progress tells how far it is');
$archive->wait_for_end('again');
query('DELETE FROM again.record WHERE rkey::text < $$3m$$ OR random() < 0.3; CREATE TABLE stood AS SELECT did, collection, rkey, ctid AS place FROM again.record');
my $holder = $node->background_psql('postgres');
$holder->query_safe('BEGIN; LOCK TABLE again.repo IN ROW EXCLUSIVE MODE');
query(q{SELECT atproto.history_again('again')});
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'atproto again' AND wait_event_type = 'Lock'});
is(query(q{SET lock_timeout = '5 s'; BEGIN; LOCK TABLE again.repo IN ROW EXCLUSIVE MODE; SELECT 'later'; COMMIT}), 'later', 'H-43: a sweep waits for writers before it, and stops none after them');
$holder->quit;
wait_for(q{SELECT cycles = 2 AND phase IN ('seam', 'live') FROM atproto.history WHERE subscription = 'again'});
$archive->wait_for_end('again');
same_rows('again', 'whole', 'H-42: history_again() reads the archive once more', tables => ['record']);
is(query('SELECT count(*) FROM again.record r JOIN stood s USING (did, collection, rkey) WHERE r.ctid <> s.place'), '0', 'H-42: ... and does not write what stands unchanged');

# what stands unchanged is not written, and no status goes back
query(q{CREATE TABLE written (op text, what text); CREATE FUNCTION note_record() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN INSERT INTO public.written VALUES (TG_OP, COALESCE(NEW.did, OLD.did) || ''/'' || COALESCE(NEW.rkey, OLD.rkey)); RETURN NULL; END';
	CREATE FUNCTION note_status() RETURNS trigger LANGUAGE plpgsql AS
	'BEGIN INSERT INTO public.written VALUES (''status'', NEW.did || '' '' || NEW.active); RETURN NULL; END';
	CREATE TRIGGER note AFTER INSERT OR UPDATE OR DELETE ON again.record FOR EACH ROW EXECUTE FUNCTION note_record();
	CREATE TRIGGER note AFTER UPDATE ON again.repo FOR EACH ROW WHEN ((OLD.active, OLD.status) IS DISTINCT FROM (NEW.active, NEW.status)) EXECUTE FUNCTION note_status()});
# what comes before a segment that cannot be read is committed
$archive->network->fault({ host => $AtprotoTest::Archive::HOST, path => sprintf('getSegment.*%010d', $_), status => 503, times => 1 }) foreach 3, 6, 9, 12, 15;
query(q{SELECT atproto.history_again('again')});
wait_for(q{SELECT cycles = 3 AND phase IN ('seam', 'live') FROM atproto.history WHERE subscription = 'again'});
$archive->wait_for_end('again');
same_rows('again', 'whole', 'H-42: ... and again', tables => ['record']);
is(query(q{SELECT string_agg(DISTINCT op, ' ') FROM written w WHERE op = 'status' OR EXISTS (SELECT FROM again.record WHERE did || '/' || rkey = w.what)}), '', 'H-42: a record that stands unchanged is not written, and no status goes back');
like(error_of(q{CALL atproto.await_history('nobody')}), qr/does not exist, or reads no archive/, 'no such subscription');
query(q{SELECT atproto.pause('again')});
query(q{SELECT atproto.history_again('again')});
like(error_of(q{CALL atproto.await_history('again')}), qr/not read to its end/, 'a paused subscription reads nothing');

# --- H-43: the end of a sweep beside another stream, of which an event waits ---

my $clock = AtprotoTest::Clock->new($node);
$archive->serve($options);
query('CREATE SCHEMA waits');
query('BEGIN; ' . $archive->subscription_sql('waits', target => "'waits'") . q{; SELECT atproto.subscribe('relay', 'ws://127.0.0.1:9', target => 'waits', cursor => 1); SELECT atproto.pause('relay'); COMMIT});
query(q{UPDATE atproto.cursor SET passed_at = '2100-01-01' WHERE subscription = 'relay'; DELETE FROM waits.repo;
	INSERT INTO atproto.held_event (target, did, rev, subscription, seq, why, shard_key, bytes) SELECT 'waits', did, '2222222222222', 'relay', 99, 'identity', 0, '\x00' FROM whole.record ORDER BY did LIMIT 1});
my $account = query('SELECT did FROM atproto.held_event');
$archive->wait_for_end('waits');
wait_for(q{SELECT waits_for = 'subscription "relay" of the same tables is behind' FROM atproto.history_progress WHERE subscription = 'waits'});
is(query("SELECT sync, phase FROM waits.repo, atproto.history WHERE did = '$account' AND subscription = 'waits'"), 'partial|seam', 'H-43: the sweep waits for an event that waits');
$clock->advance(3700);
wait_for(q{SELECT phase = 'live' FROM atproto.history WHERE subscription = 'waits'});
is(query("SELECT sync, incomplete FROM waits.repo, atproto.history WHERE did = '$account' AND subscription = 'waits'"), 'desynchronized|', '... but no longer than an hour, and the repository is marked');
query('DELETE FROM atproto.held_event');

done_testing();
