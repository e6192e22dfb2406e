# 255_derived.pl
#		Tables derived by triggers.  The examples of the pages run as they stand, and their counts must
#		equal the counts from the table record and from the oracle, through updates, deletions, deleted
#		accounts and a refill.  Events handed to triggers leave record_event again, whatever the triggers
#		do.  E-43, F-03, F-15.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my ($capture) = simulate(
	'--events' => 4000, '--accounts' => 80, '--history' => 0,
	'--mix' => 'account=4,delete=8,update=6,sync=0,like=40,post=30');
my $last   = read_capture($capture);
my $server = AtprotoTest::Server->start($capture, '--hold-at', 1000);
my $node   = make_node('derived', conf => 'atproto.reconnect_delay = 100ms');

sub wait_for_events
{
	my ($name, $n) = @_;
	$node->poll_query_until('postgres', "SELECT events >= $n AND seq = $last FROM atproto.cursor WHERE subscription = '$name'")
	  or BAIL_OUT("timed out waiting for $n events of $name");
	return;
}

# --- the examples of the pages ---

# The table that each example derives, and the same rows computed from record.
my %derives = (
	count_posts => [
		'SELECT did::text, n FROM post_count WHERE n <> 0',
		"SELECT did::text, count(*) FROM atproto.record WHERE collection = 'app.bsky.feed.post' GROUP BY did"
	],
	count_post_likes => [
		"SELECT 'at://' || did || '/app.bsky.feed.post/' || rkey, likes FROM post_likes WHERE likes <> 0",
		"SELECT value->'subject'->>'uri', count(*) FROM atproto.record WHERE collection = 'app.bsky.feed.like' GROUP BY 1"
	],
	count_likes => [
		'SELECT subject, n FROM like_count WHERE n <> 0',
		"SELECT value->'subject'->>'uri', count(*) FROM atproto.record WHERE collection = 'app.bsky.feed.like' GROUP BY 1"
	]);
my %found;
my @examples;
foreach my $page (glob(test_dir() . '/../README.md ' . test_dir() . '/../doc/*/*.md'))
{
	my $text = slurp_file($page);

	push @examples, grep { /CREATE TRIGGER/ } $text =~ /^```sql\n(.*?)^```/msg;
}
foreach my $example (@examples)
{
	$found{$_} = 1 foreach $example =~ /\bAFTER [^;]*EXECUTE FUNCTION (\w+)\(/g;
}
is_deeply([ sort keys %found ], [ sort keys %derives ], 'the pages have the examples that are tested here');

sub all_is_derived
{
	my ($name) = @_;

	foreach my $function (sort keys %derives)
	{
		my ($derived, $table) = @{ $derives{$function} };

		is(query("SELECT count(*) FROM (($derived EXCEPT ALL $table) UNION ALL ($table EXCEPT ALL $derived)) d"), '0', "$name: $function");
	}
	is(query("SELECT count(*) FROM atproto.record_event"), '0', "$name: nothing of what was handed over is left");
	return;
}

# The examples for record_event come first: they count from the first event on.
query(subscribe_sql('network', $server, cursor => 0, collections => "'{app.bsky.feed.post,app.bsky.feed.repost}'"));
query("SELECT atproto.pause('network')");
query($_) foreach grep { /record_event/ } @examples;
query("SELECT atproto.resume('network')");
wait_for_seq($node, 'network', 999);
query($_) foreach grep { !/record_event/ } @examples;
isnt(query('SELECT count(*) FROM post_count'), '0', 'what is there is counted when the triggers are made');
$server->release;
wait_for_seq($node, 'network', $last);
tables_match($node, $capture, 'the stream', args => [ map { ('--collection', "app.bsky.feed.$_") } 'post', 'repost' ]);
all_is_derived('the stream');
cmp_ok(query('SELECT count(*) FROM atproto.repo WHERE deleted_rev IS NOT NULL'), '>', 5, 'accounts were deleted');
is(query('SELECT count(*) FROM like_count'), '0', 'a filter left the likes out');

# A refill with a different filter.
query(q{BEGIN; UPDATE atproto.subscription SET collections = NULL; SELECT atproto.refill('network'); COMMIT});
wait_for_events('network', 2 * $last);
tables_match($node, $capture, 'refilled');
all_is_derived('refilled');
cmp_ok(query('SELECT count(*) FROM like_count WHERE n > 0'), '>', 100, 'the likes came');
is(query('SELECT count(*) FROM atproto.repo WHERE refill_by IS NOT NULL AND rev IS NULL'), '0', 'it is at its end');

# A refill when nothing is missing changes no row, neither of one repository nor of all.
my $state = 'SELECT did, rev, commit, data, active, status, status_seq, deleted_rev, sync FROM atproto.repo ORDER BY did';
my $before = query($state);
is(query("SELECT atproto.refill('network', dids => (SELECT array_agg(did) FROM (SELECT did FROM atproto.repo WHERE active LIMIT 1) r))"), '1', 'of one repository');
wait_for_events('network', 3 * $last);
query(q{SELECT atproto.refill('network')});
wait_for_events('network', 4 * $last);
tables_match($node, $capture, 'refilled when nothing was missing');
all_is_derived('refilled when nothing was missing');
is(query($state), $before, 'nor do the states change');

# Repositories that are inactive during the refill are refilled later.  (A DELETE by hand is no event.)
query("DELETE FROM atproto.record r USING atproto.repo p WHERE p.did = r.did AND NOT p.active; SELECT atproto.refill('network')");
cmp_ok(query("SELECT count(*) FROM atproto.repo WHERE NOT active AND status <> 'deleted' AND refill_by IS NOT NULL"), '>', 0, 'some are not active');
wait_for_events('network', 5 * $last);
tables_match($node, $capture, 'refilled while not active');
is(query("SELECT count(*) FROM atproto.repo WHERE status = 'deleted' AND refill_by IS NOT NULL"), '0', 'those that are deleted are not read again');

# The refill waits for a batch that is being applied, and includes its repositories.
my ($batch, $refill) = map { $node->background_psql('postgres') } 1, 2;
$batch->query_safe("BEGIN; INSERT INTO atproto.repo (did, rev) VALUES ('did:plc:new', '3zzzzzzzzzzzz')");
$refill->query_until(qr/refilling/, "\\echo refilling\nSELECT atproto.refill('network');\n");
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'SELECT atproto.refill%'")
  or BAIL_OUT('the refill does not wait');
$batch->query_safe('COMMIT');
$refill->query_safe('SELECT 1');
is(query("SELECT refill_by FROM atproto.repo WHERE did = 'did:plc:new'"), query("SELECT id FROM atproto.subscription WHERE name = 'network'"), 'a repository that comes meanwhile is read again');
$_->quit foreach $batch, $refill;

query("SELECT atproto.unsubscribe('network')");

# --- kept events agree, also for an account whose records are removed in several steps ---

my $frames = PostgreSQL::Test::Utils::tempdir() . '/frames';
IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/oracle/accounts.py', $frames ], '>', \my $marks) or BAIL_OUT('accounts.py failed');
my ($new) = $marks =~ /^new\t(\d+)/m;
my $accounts = AtprotoTest::Server->start($frames);
query('CREATE SCHEMA kept; CREATE SCHEMA handed; SELECT atproto.create_tables($$handed$$);
	CREATE TABLE handed.sum (n bigint);
	CREATE FUNCTION handed.add() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		INSERT INTO handed.sum SELECT count(cid) - count(old_cid) FROM events;
		RETURN NULL;
	END $$;
	CREATE TRIGGER add AFTER INSERT ON handed.record_event REFERENCING NEW TABLE AS events FOR EACH STATEMENT EXECUTE FUNCTION handed.add();
	CREATE FUNCTION handed.spoil() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
	BEGIN
		UPDATE handed.record_event SET raw = $r$spoilt$r$ WHERE did = NEW.did AND rkey = NEW.rkey AND seq = NEW.seq;
		RETURN NULL;
	END $$;
	CREATE TRIGGER spoil AFTER INSERT ON handed.record_event FOR EACH ROW WHEN (NEW.rkey::text IN ($$before$$, $$other$$, $$new$$))
		EXECUTE FUNCTION handed.spoil();');
query(subscribe_sql('kept', $accounts, cursor => 0, target => "'kept'", events => "'keep'"));
query(subscribe_sql('handed', $accounts, cursor => 0, target => "'handed'", events => "'hand'"));
foreach my $schema ('kept', 'handed')
{
	wait_for_seq($node, $schema, $new);
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM $schema.repo WHERE purge_rev IS NOT NULL") or die;
	tables_match($node, $frames, "$schema: as the oracle says", schema => $schema);
}
tables_match($node, $frames, 'kept: every removal is an event', schema => 'kept', modes => ['event']);
is(query("SELECT count(*), count(old_cid), count(old_value->>'text'), min(subscription) FROM kept.record_event WHERE action = 'delete'"),
	join('|', (23000) x 3, 'kept'), 'kept: with the value that goes');
# The first refill brings events that were ignored while their account was inactive, the second brings records
# that exist; of an account whose #sync announced a different tree, the records from before it come and go each
# time (V-33).
my @kept;
foreach my $times (1, 2)
{
	cmp_ok(query("SELECT atproto.refill('kept')"), '>', 0, "kept: refill $times begins");
	$node->poll_query_until('postgres', "SELECT count(*) = 0 FROM kept.repo WHERE refill_by IS NOT NULL") or die;
	wait_for_seq($node, 'kept', $new);
	push @kept, query("SELECT count(*), count(old_cid), count(cid) FROM kept.record_event WHERE did <> '" . did('a') . "'");
}
is($kept[1], $kept[0], 'kept: what a refill brings again is no event');
is(query('SELECT sum(n) FROM handed.sum'), query('SELECT count(*) FROM handed.record'), 'handed: likewise');
is(query('SELECT count(*) FROM handed.record_event'), '0', 'handed: also what a trigger has updated is removed');

# An event moved to a different row by a trigger cannot be deleted by its place: the consumer fails, and no row
# stays.
query(q{CREATE SCHEMA moving; SELECT atproto.create_tables('moving');
	SET search_path = moving, public;
	ALTER TABLE record_event RENAME TO model;
	CREATE TABLE record_event (LIKE model INCLUDING ALL) PARTITION BY LIST (action);
	CREATE TABLE parts PARTITION OF record_event FOR VALUES IN ('create', 'update', 'delete');
	CREATE TABLE other PARTITION OF record_event DEFAULT;
	CREATE FUNCTION move() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		UPDATE moving.record_event SET action = 'other' WHERE seq = NEW.seq;
		RETURN NULL;
	END $$;
	CREATE TRIGGER move AFTER INSERT ON parts FOR EACH ROW EXECUTE FUNCTION move();});
my $few = AtprotoTest::Server->start(make_capture('synth.py', 'clock'));
query(subscribe_sql('moving', $few, cursor => 0, target => "'moving'", events => "'hand'"));
$node->poll_query_until('postgres', "SELECT count(*) > 0 FROM (SELECT message FROM atproto.dead_letter UNION ALL SELECT last_error FROM atproto.stat_subscription) e (why)
	WHERE why ~ 'a row that was inserted into table .moving.record_event. cannot be found again'") or die;
is(query('SELECT count(*) FROM moving.record_event'), '0', 'moving: nothing stays');
query("SELECT atproto.unsubscribe(name) FROM atproto.subscription");

# --- targets without a refill ---

query('CREATE SCHEMA bare');
query(subscribe_sql('bare', $accounts, cursor => 0, target => "'bare'", keep_records => 'false', events => "'keep'"));
my ($rc, $out, $err) = $node->psql('postgres', "SELECT atproto.refill('bare')");
like($err, qr/subscription "bare" keeps no records/, 'without records nobody knows what an event changes');
query("UPDATE atproto.subscription SET events = 'none' WHERE name = 'bare'");
like(query("SELECT atproto.refill('bare')"), qr/^\d+$/, 'when nobody asks for that, repositories can be read again');
query("INSERT INTO atproto.subscription (name, url) VALUES ('labels', 'wss://localhost:1/xrpc/com.atproto.label.subscribeLabels')");
($rc, $out, $err) = $node->psql('postgres', "SELECT atproto.refill('labels')");
like($err, qr/subscription "labels" is not about repositories/, 'labels have no repositories');
(undef, undef, $err) = $node->psql('postgres', q{SELECT atproto.refill('labels', ARRAY[NULL]::did[])});
like($err, qr/dids must not contain nulls\n.*HINT/, 'a null is no repository');

$node->stop;
done_testing();
