# 415_history_sweeps.pl
#		Sweeps: deletions are kept while an archive is read beside a relay, within limits, and no longer; dead letters
#		and statuses. H-34, H-43, H-44.
#
#		The archive's rows come by a stream here (atproto.test_archived).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Exports qw(make_exports);
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('sweeps', conf => <<'CONF');
max_worker_processes = 20
atproto.reconnect_delay = 50ms
atproto.multi_source_wait = 0
atproto.test_archived = 'archive'
atproto.ping_interval = 0
atproto.idle_timeout = 0
CONF
my $clock  = AtprotoTest::Clock->new($node);
my $points = AtprotoTest::Points->new($node);
my (%servers, %holds);

# The archive of the subscription is read from now on.  Only a Jetstream has an archive, but here any stream will do.
my $sweep = q{ALTER TABLE atproto.subscription DISABLE TRIGGER subscription_check; UPDATE atproto.subscription SET history = 'archive' WHERE name = 'archive';
	ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_check;
	INSERT INTO atproto.history (subscription, endpoint) SELECT name, endpoint FROM atproto.subscription WHERE name = 'archive'; COMMIT};

# Sources, each with its steps; a step 'hold' stops the source until go().
sub follow
{
	my (%steps) = @_;

	foreach my $source (sort keys %steps)
	{
		my (@steps, @holds);
		foreach (@{ $steps{$source} }) { if ($_ eq 'hold') { push @holds, @steps + 1 } else { push @steps, $_ } }
		$servers{$source} = AtprotoTest::Server->start(make_capture('steps.py', @steps), map { ('--hold-at', $_) } @holds);
		$holds{$source} = [ @holds, @steps + 1 ];
		query(($source eq 'archive' ? 'BEGIN; ' : '') . subscribe_sql($source, $servers{$source}, cursor => 0, target => q{'s'}, verify => q{'hash'},
			$source eq 'archive' ? (collections => q{'{app.bsky.feed.post}'}) : ()) . ($source eq 'archive' ? "; $sweep" : ''));
		wait_for_seq($node, $source, shift(@{ $holds{$source} }) - 1);
	}
	# the row says that the relay was added after the archive
	query('UPDATE atproto.history SET incomplete = NULL, incomplete_at = NULL');
	return;
}

sub go
{
	my ($source) = @_;

	$servers{$source}->release;
	wait_for_seq($node, $source, shift(@{ $holds{$source} }) - 1);
	return;
}

sub end_sweep { query(q{UPDATE atproto.history SET phase = 'live'}); return }
sub kept      { return query(q{SELECT string_agg(path, ' ' ORDER BY path) FROM s.sweep_deletion}) }
sub records   { return query(q{SELECT string_agg(rkey::text, ' ' ORDER BY rkey) FROM s.record}) }

# --- when deletions are kept ---

query('CREATE SCHEMA s');
follow(relay => [ 'a 1 +x +y +z', 'a 3 -x', 'hold', 'a 4 -y', 'hold', 'a 5 -z', 'hold', 'a 6 +x' ]);
is(kept(), '', 'no deletion is kept without a sweep');
follow(archive => [ 'b 1 +x', 'hold', 'a 2 +x +y +z', 'hold', 'b 2 +y', 'hold', 'b 3 +y' ]);
go('relay');
is(kept(), 'app.bsky.feed.post/y', 'H-43: each process notices that a sweep has begun');
go('archive');
is(records(), 'x x z', 'H-43: what was deleted before the sweep, is not known');
is(query(q{SELECT count(*) FILTER (WHERE sync = 'synchronized'), count(history_rev), count(*) FILTER (WHERE rev < history_rev) FROM s.repo}), '0|2|0', 'H-34, H-44: the revision is the relay\'s');

# --- and how they go: a transaction has seen the sweep, and keeps a deletion after the sweep has ended ---

$points->hold('records next', 'atproto relay');
$servers{relay}->release;
$points->wait('records next', 'atproto relay');
end_sweep();
$servers{archive}->release;
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'atproto archive' AND wait_event_type = 'Lock'});
is(kept(), 'app.bsky.feed.post/y', 'H-43: the end waits for writers that have seen the sweep');
$points->release('records next', 'atproto relay');
wait_for_seq($node, 'relay', 4);
wait_for('SELECT count(*) = 0 FROM s.sweep_deletion');
is(records(), 'x x y', 'the last deletion has come');

# --- deletions kept by an archive ---

query('SELECT atproto.unsubscribe(name) FROM atproto.subscription; DROP SCHEMA s CASCADE; CREATE SCHEMA s');
follow(archive => [ 'b 1 +x', 'hold', 'a 2 -x', 'c sync 2', 'c 2 +y', 'hold', 'b 2 -x', 'hold', 'b 3 +z' ],
	relay => [ 'a 1 +y', 'c 1 +y', 'hold', 'a 3 +y', 'hold', 'a 4 +y' ]);
go('archive');
is(records(), 'x y y', 'H-43: a #sync with the same record');
is(query(q{SELECT string_agg(path, ' ' ORDER BY path) FROM s.sweep_deletion}), '#sync archive app.bsky.feed.post/x', 'H-43: the archive keeps a deletion and a #sync');

# --- limits ---

sub again
{
	my ($setting) = @_;
	query("ALTER SYSTEM SET $setting; SELECT pg_reload_conf()");
	# each process counts with the first batch, and then every five minutes
	query(q{SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'atproto archive'});
	go('archive');
	return query('SELECT incomplete FROM atproto.history');
}

is(again('atproto.sweep_max_deletions = 1'), 'number', 'H-43: too many deletions are kept: the table says so');
is(kept(), '', 'and none is kept');
query(q{UPDATE atproto.history SET incomplete = NULL, incomplete_at = NULL; INSERT INTO s.sweep_deletion (did, path, rev, kept_at) SELECT did, 'old', rev, now() - interval '15 d' FROM s.repo LIMIT 1});
is(again('atproto.sweep_max_deletions = 10'), 'age', 'H-43: deletions are kept for too long: the table says so');

# --- what a single account does ---

query('ALTER SYSTEM RESET atproto.sweep_max_deletions; SELECT atproto.unsubscribe(name) FROM atproto.subscription; DROP SCHEMA s CASCADE; CREATE SCHEMA s');
follow(archive => [ 'b 1 +bb', 'c 1 +cc +c2', 'd 1 +dd +d2', 'hold', 'b is old.example.com @2025-01-01T00:00:00Z', 'c 2 -cc', 'd 2 -dd', 'hold', 'b 2 +b2', 'hold',
	(map { ("d sync $_", "d $_ +m$_", 'd deleted @2024-01-01T00:00:00Z') } 10 .. 109),
	'd deleted @2026-01-01T00:00:01Z', 'd sync 2000000' ],
	relay => [ 'b 3 +b3', 'b is new.example.com @2025-06-01T00:00:00Z', 'd 2 +app.bsky.graph.block/z' ]);
my %did = map { $_ => query("SELECT did FROM s.record WHERE rkey = '${_}2' OR rkey = '${_}3'") } qw(b c d);
# the relay has passed all of this, but an event of c waits
query(qq{UPDATE atproto.cursor SET passed_at = now() WHERE subscription = 'relay'; UPDATE s.repo SET hold = 'resync' WHERE did = '$did{c}';
	INSERT INTO atproto.held_event (target, did, rev, subscription, seq, why, shard_key, bytes) SELECT 's', did, '2222222222222', 'relay', 99, 'resync', 0, '\\x00' FROM s.repo WHERE did = '$did{c}'});
go('archive');
is(query(q{SELECT string_agg(did || ' ' || path, ',') FROM s.sweep_deletion}), "$did{c} app.bsky.feed.post/cc", 'H-43: an event that waits has the deletions of its own account kept, and no others');
is(query("SELECT handle FROM s.repo WHERE did = '$did{b}'"), 'new.example.com', 'H-43: the newer handle stays');
query("INSERT INTO s.sweep_deletion (did, path, rev) SELECT '$did{d}', 'app.bsky.feed.post/' || i, '3jzfcijpj2z2a' FROM generate_series(1, 50) i");
is(again('atproto.sweep_max_deletions = 40'), '', 'H-43: one account with more than its share of the deletions does not make the sweep incomplete');
is(query(q{SELECT string_agg(did || ' ' || path, ',') FROM s.sweep_deletion}), "$did{c} app.bsky.feed.post/cc", 'and only its own deletions go');
is(query("SELECT string_agg(sync, ' ' ORDER BY did = '$did{d}') FROM s.repo WHERE did IN ('$did{c}', '$did{d}')"), 'partial desynchronized', 'which its repository says');
# a storm of removals: later records of another source stay, and are not read again for each event
query("INSERT INTO s.record (did, collection, rkey, cid, rev, value) SELECT did, collection, 'k' || i, cid, '3mc2222222222', value FROM s.record, generate_series(1, 1000) i WHERE did = '$did{d}' AND rkey = 'd2'");
my $reads = q{SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relid = 's.record'::regclass};
query('SELECT pg_stat_force_next_flush()');
my $before = query($reads);
go('archive');
is(query("SELECT count(*), string_agg(rkey::text, ' ') FILTER (WHERE rkey::text !~ '^k') FROM s.record WHERE did = '$did{d}'"), '1000|', 'H-31: what a storm of #sync and #account leaves');
query(q{SELECT atproto.unsubscribe('archive')});
cmp_ok(query($reads) - $before, '<', 100000, 'H-31: a storm does not read all records for each of its events');
query(q{DELETE FROM atproto.held_event; UPDATE s.repo SET hold = NULL; SELECT atproto.unsubscribe(name) FROM atproto.subscription; DROP SCHEMA s CASCADE; CREATE SCHEMA s});

# --- how far the other streams are (guard behind) ---

sub passed_at { return query(q{SELECT passed_at FROM atproto.cursor WHERE subscription = 'relay'}) }

follow(relay => [ 'a 3 +y', 'hold', 'a 4 +y' ], archive => [ 'a 2 +x' ]);
is(query(q{SELECT count(passed_at) FROM atproto.cursor}), '0', 'of few accounts no time is known');
$clock->advance(3700);
go('relay');
is(passed_at(), '2026-01-01 00:00:00+00', 'H-43: after an hour the median of few accounts counts');

# a silence, which lasts longer than the hour that counts by a different time for each clock
my $began = query('SELECT now()');
query(q{ALTER SYSTEM SET atproto.ping_interval = '200ms'});
$clock->both(400, 3700);
wait_for(q{SELECT passed_at > '2026-01-02' FROM atproto.cursor WHERE subscription = 'relay'});
is(query("SELECT passed_at BETWEEN '$began'::timestamptz - interval '3201 s' AND now() - interval '3199 s' FROM atproto.cursor WHERE subscription = 'relay'"),
	't', 'H-43: an hour of silence counts, measured by the clock that is never set, and by the time of day');
$clock->both(8000, 70);
wait_for("SELECT passed_at > '$began'::timestamptz - interval '3000 s' FROM atproto.cursor WHERE subscription = 'relay'");
cmp_ok(query("SELECT extract(epoch FROM passed_at - '$began'::timestamptz)::int FROM atproto.cursor WHERE subscription = 'relay'"), '<', 3000, '... a time of day that is set forward ends no sweep');
query(q{SELECT atproto.set_cursor('relay', 0)});
is(passed_at(), '', 'H-43: with its cursor, a stream goes back before the time that it had passed');

sub read_again
{
	my ($last) = @_;
	query(q{BEGIN; ALTER TABLE atproto.subscription DISABLE TRIGGER subscription_check; SELECT atproto.set_cursor('archive', 0);
		ALTER TABLE atproto.subscription ENABLE ALWAYS TRIGGER subscription_check; COMMIT});
	wait_for_seq($node, 'archive', $last);
	return;
}

# --- the kept deletions are read behind the lock on the repository's row (guard under_lock) ---

query('SELECT atproto.unsubscribe(name) FROM atproto.subscription; DROP SCHEMA s CASCADE; CREATE SCHEMA s');
follow(archive => [ 'a 1 +b', 'hold', 'a 3 -x', 'hold', 'a 9000000 +c' ], relay => [ 'b 1 +b', 'hold', 'a 2 +x', 'hold', 'a 4 +bad' ]);
$points->hold('records next', 'atproto archive');
$servers{archive}->release;
$points->wait('records next', 'atproto archive');
$servers{relay}->release;
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE application_name = 'atproto relay' AND wait_event_type = 'Lock'});
$points->release('records next', 'atproto archive');
wait_for_seq($node, $_, 2) foreach qw(archive relay);
is(records(), 'b b', 'H-43: a writer that has waited for the repository knows the deletion that was kept meanwhile');
shift @{ $holds{$_} } foreach qw(archive relay);

# --- an export is older than what the archive has shown (guard later); a letter is older than a deletion (guard letters) ---

go('archive');
my (undef, undef, $refused) = $node->psql('postgres', "SELECT atproto.load_car('" . did('a') . "', pg_read_binary_file('@{[ make_exports() ]}/first.car'), 's')");
like($refused, qr/older than revision \S+, which the archive has shown/, 'H-43: while a sweep runs, no older export is loaded');
query(q{ALTER TABLE s.record ADD CONSTRAINT good CHECK (rkey::text <> 'bad')});
go('relay');
is(query('SELECT count(*) FROM atproto.dead_letter'), '1', 'a record of the relay is refused');
is(records(), 'b b c', '... and nothing else');

# --- an account with more records than are removed at once, alone and beside a relay ---

# Many records of the revision of one.
sub add_many
{
	query(q{INSERT INTO s.record (did, collection, rkey, cid, rev, value) SELECT did, collection, 'old' || n, cid, rev, value
		FROM s.record, generate_series(1, 10500) n WHERE rkey::text = 'many'});
	return;
}

foreach my $beside (0, 1)
{
	query('SELECT atproto.unsubscribe(name) FROM atproto.subscription; DROP SCHEMA s CASCADE; CREATE SCHEMA s');
	follow(archive => [ 'a 3 +many', 'a 4 +x', 'hold', 'a sync 4', 'a 4 +x', 'hold', 'a 5 +many', 'hold', 'a deleted @2026-01-01T00:00:01Z', 'hold',
			'a active @2026-01-01T00:00:01.5Z', 'a 2000000 +y', 'c 1 +z', 'hold', 'c 2 =z', 'hold', 'c 2 =z', 'd 1 +v' ],
		$beside ? (relay => [ 'b 1 +x' ]) : ());
	add_many();
	go('archive');
	wait_for('SELECT count(*) = 0 FROM s.repo WHERE purge_rev IS NOT NULL');
	is(records(), $beside ? 'x x' : 'x', 'H-31: a #sync removes many records, and not the records of its own revision');
	go('archive');
	add_many();
	go('archive');
	wait_for('SELECT count(*) = 0 FROM s.repo WHERE purge_rev IS NOT NULL');
	go('archive');
	is(records(), $beside ? 'x y z' : 'y z', 'H-33: ... and the deletion of an account, not the records of its next life');
	go('archive');
	my $place = query(q{SELECT ctid FROM s.record WHERE rkey::text = 'z'});
	go('archive');
	is(query(q{SELECT ctid FROM s.record WHERE rkey::text = 'z'}), $place, 'H-42: a row that comes twice is not written twice');
	next if $beside;

	# the deletion is read again, as if the stream had left it out the first time, and the later status stays
	query(q{UPDATE s.repo SET deleted_rev = NULL; CREATE TABLE went_back (did text); CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO public.went_back VALUES (NEW.did); RETURN NULL; END';
		CREATE TRIGGER note AFTER UPDATE ON s.repo FOR EACH ROW WHEN (NOT NEW.active) EXECUTE FUNCTION note()});
	my $last = query(q{SELECT seq FROM atproto.cursor WHERE subscription = 'archive'});
	read_again($last);
	is(records(), 'v y z', 'H-42: an account\'s deletion that is read again removes what was before');
	is(query('SELECT count(*) FROM went_back'), '0', '... and not the status that came afterwards');
	query(q{UPDATE s.repo SET active = false, status = 'deactivated', status_seq = 1000, status_at = '2026-01-01' WHERE status_seq IS NOT NULL});
	read_again($last);
	is(query('SELECT count(*) FROM s.repo WHERE NOT active'), '0', '... unless a later event has a smaller number, after a crash of the server');
}

# --- the fetcher confirms a deletion, after the archive has brought a record of the account's next life ---

query('SELECT atproto.unsubscribe(name) FROM atproto.subscription; DROP SCHEMA s CASCADE; CREATE SCHEMA s');
follow(archive => [ 'b 1 +b', 'hold', 'a 3000000 +next', 'hold', 'a 1500000 +old', 'b 2 +c' ], relay => [ 'a 1000000 +x', 'hold', 'a 4000000 +z' ]);
go('archive');
query(q{UPDATE s.repo SET active = false, status = 'deleted', status_at = '2026-01-01 00:00:02+00', status_seq = 1 WHERE rev IS NOT NULL AND history_rev > rev;
	INSERT INTO atproto.status_request (target, did, subscription, why, status_at, status_seq, requested_at)
	SELECT 's', did, 'relay', 'deleted', status_at, status_seq, now() - interval '8 d' FROM s.repo WHERE status = 'deleted'});
wait_for('SELECT count(*) > 0 FROM atproto.status_request WHERE answered_at IS NOT NULL');
$clock->both(8000, 400);
wait_for(q{SELECT count(*) = 0 FROM s.record WHERE rkey::text = 'x'});
is(records(), 'b next', 'V-47, H-43: a confirmed deletion removes records up to its time, and not the next life');
is(kept(), '#account', '... and is kept');
go('archive');
is(records(), 'b c next', '... so the archive does not bring back a deleted record');
query(q{UPDATE s.repo SET active = true, status = NULL WHERE status = 'deleted'});

# --- a subscription moves to the target; the archive is given up while no process of the relay runs ---

query(q{UPDATE atproto.history SET incomplete = NULL; CREATE SCHEMA other; SELECT atproto.pause('relay'); UPDATE atproto.subscription SET target = 'other' WHERE name = 'relay'});
is(query('SELECT incomplete FROM atproto.history'), '', 'H-43: a subscription that leaves the target is no reason');
query(q{UPDATE atproto.subscription SET target = 's' WHERE name = 'relay'});
is(query('SELECT incomplete FROM atproto.history'), 'joined', 'H-43: what a subscription has deleted before it came was not kept');
query(q{INSERT INTO s.sweep_deletion (did, path, rev) SELECT did, 'old', rev FROM s.repo LIMIT 1; SELECT atproto.unsubscribe('archive'); SELECT atproto.resume('relay')});
go('relay');
wait_for('SELECT count(*) = 0 FROM s.sweep_deletion');
pass('H-43: a process that has not seen the sweep empties what was kept');

# --- an archive alone: rows of an account that is not active ---

query('SELECT atproto.unsubscribe(name) FROM atproto.subscription; DROP SCHEMA s CASCADE; CREATE SCHEMA s');
follow(archive => [ 'a 1 +x', 'a deactivated', 'a 2 +y', 'a active', 'a 3 +z', 'b 1 +b', 'b deactivated', 'b active', 'c 1 +c', 'c deleted', 'c 2 +d' ]);
is(query(q{SELECT string_agg(sync, ' ' ORDER BY did) FROM s.repo}), 'desynchronized partial partial', 'F-05: a row of an account that is not active is passed over, which its repository says');

$node->stop;
done_testing();
