# 361_validate.pl
#		Subscriptions that validate records by their Lexicons (L-34): the flag of each record equals the
#		result of lexicon_valid(), with every kind of tables, with several workers, and through updates,
#		deletions, deleted accounts, refills and exports.  An invalid record becomes a dead letter, the rest
#		of its commit is stored, and the letter can be tried again.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use PostgreSQL::Test::Utils;
use Test::More;

my ($capture) = simulate(
	'--events' => 5000, '--accounts' => 60, '--history' => 0,
	'--mix' => 'account=4,delete=8,update=10,sync=0,like=30,post=40,profile=3');
my $last   = read_capture($capture);
my $server = AtprotoTest::Server->start($capture);
my $node   = make_node('validate', conf => "max_worker_processes = 30\nmax_prepared_transactions = 2\natproto.reconnect_delay = 100ms");

# Limits the length of posts' texts: about half of the posts are valid.
sub load_lexicon
{
	my ($length) = @_;

	return query(qq[SELECT atproto.load_lexicon('{"lexicon": 1, "id": "app.bsky.feed.post", "defs": {"main": {"type": "record", "key": "tid",
		"record": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "maxLength": $length}}}}}}', true)]);
}

# Rows of the validated collections whose flag differs from the function's result.
sub wrong_flags
{
	my ($schema, $judged) = @_;

	return query("SELECT count(*) FROM $schema.record WHERE fault IS DISTINCT FROM CASE WHEN $judged AND value IS NOT NULL
		AND collection IN (SELECT id FROM atproto.lexicon) THEN atproto.lexicon_valid(value, collection, rkey) END");
}

sub subscribe
{
	my ($name, %options) = @_;

	query("CREATE SCHEMA IF NOT EXISTS $name; " . subscribe_sql($name, $server, cursor => 0, target => "'$name'", %options));
}

# --- flags ---

subscribe('plain');
wait_for_seq($node, 'plain', $last);
my $usual = query("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY octet_length(value->>'text'))::int FROM plain.record WHERE collection = 'app.bsky.feed.post'");
is(query('SELECT count(fault) FROM plain.record'), '0', 'none: nobody looks');
load_lexicon($usual);

my %shapes = (
	flag      => '',
	workers   => '',
	parts     => 'SELECT atproto.create_tables(\'parts\'); ALTER TABLE parts.record RENAME TO old; DROP VIEW IF EXISTS parts.visible_record; CREATE TABLE parts.record (LIKE parts.old INCLUDING ALL) PARTITION BY HASH (did);'
	  . join('', map { "CREATE TABLE parts.record$_ PARTITION OF parts.record FOR VALUES WITH (MODULUS 3, REMAINDER $_);" } 0 .. 2),
	triggered => 'SELECT atproto.create_tables(\'triggered\'); CREATE FUNCTION triggered.note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$;'
	  . 'CREATE TRIGGER note BEFORE INSERT ON triggered.record FOR EACH ROW EXECUTE FUNCTION triggered.note()');
foreach my $name (sort keys %shapes)
{
	query("CREATE SCHEMA $name; $shapes{$name}");
	subscribe($name, validate => "'flag'", ($name eq 'workers' ? (workers => 3) : ()));
}
my $flags;
foreach my $name (sort keys %shapes)
{
	wait_for_seq($node, $name, $last);
	is(wrong_flags($name, 'true'), '0', "L-34: $name: flags are what lexicon_valid() says");
	my $n = query("SELECT count(fault) || ' of ' || count(*) FROM $name.record");
	$flags //= $n;
	is($n, $flags, "L-34: $name: as many as elsewhere");
}
like(query("SELECT fault FROM flag.record WHERE collection = 'app.bsky.feed.post' AND fault IS NOT NULL LIMIT 1"), qr{^"/text" has more than $usual bytes\.$}, 'what the flag says');
my $records = "SELECT md5(string_agg(concat_ws(' ', did, collection, rkey, cid, rev), E'\\n' ORDER BY did, collection, rkey)) FROM %s.record";
is(query(sprintf $records, 'flag'), query(sprintf $records, 'plain'), 'F-18: records are what they are without');
query("DELETE FROM flag.record WHERE random() < 0.2; SELECT atproto.refill('flag')");
wait_for_seq($node, 'flag', $last);
is(wrong_flags('flag', 'true'), '0', 'L-34: refilled');

# --- validation of some collections; the first matching pattern counts ---

query(q{SELECT atproto.load_lexicon('{"lexicon": 1, "id": "app.bsky.feed.like", "defs": {"main": {"type": "record", "key": "tid",
	"record": {"type": "object", "required": ["nothing"], "properties": {"nothing": {"type": "null"}}}}}}', true)});
subscribe('feeds', validate => "'{app.bsky.feed.post=none,app.bsky.feed.*=flag}'");
wait_for_seq($node, 'feeds', $last);
is(wrong_flags('feeds', q{collection::text LIKE 'app.bsky.feed.%' AND collection <> 'app.bsky.feed.post'}), '0', 'L-34: only these collections');
cmp_ok(query('SELECT count(fault) FROM feeds.record'), '>', 100, 'there are flags');

# --- dead letters ---

subscribe('letters', validate => "'{app.bsky.feed.post=dead_letter}'");
wait_for_seq($node, 'letters', $last);
is(query("SELECT count(*) FROM letters.record WHERE collection = 'app.bsky.feed.post' AND atproto.lexicon_valid(value, collection, rkey) IS NOT NULL"), '0',
	'L-34: no record is there that its Lexicon does not allow');
is(query("SELECT count(*) FROM plain.record p LEFT JOIN letters.record l USING (did, collection, rkey)
	WHERE l.cid IS DISTINCT FROM p.cid AND (p.collection <> 'app.bsky.feed.post' OR atproto.lexicon_valid(p.value, p.collection, p.rkey) IS NULL)"), '0',
	'L-34: all others are');
is(query("SELECT count(*) FROM plain.record p LEFT JOIN letters.record l USING (did, collection, rkey)
	WHERE l.cid IS DISTINCT FROM p.cid AND NOT EXISTS (SELECT FROM atproto.dead_letter d WHERE d.subscription = 'letters' AND d.stage = 'record'
		AND d.did = p.did AND d.path = p.collection || '/' || p.rkey)"), '0', 'L-34: what is not there has a letter');
cmp_ok(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'letters'"), '>', 100, 'there are letters');
is(query("SELECT DISTINCT stage, sqlstate, regexp_replace(message, ': .*', '') FROM atproto.dead_letter WHERE subscription = 'letters'"),
	'record|23514|the record is not what its Lexicon says', 'what the letters say');
is(query("SELECT skips->'mismatch', skips->'break' FROM atproto.stat_subscription WHERE name = 'letters'"),
	query("SELECT skips->'mismatch', skips->'break' FROM atproto.stat_subscription WHERE name = 'plain'"), 'L-34: the chain of commits does not break');
is(query("SELECT count(*) FROM letters.repo l JOIN plain.repo p USING (did) WHERE (l.rev, l.data, l.active) IS DISTINCT FROM (p.rev, p.data, p.active)"), '0',
	'L-34: repositories go on');

# tried again: first in vain
my $one = query("SELECT min(id) FROM atproto.dead_letter WHERE subscription = 'letters'");
like(query("SELECT atproto.retry($one)"), qr{^the record is not what its Lexicon says: "/text"}, 'a letter that stays');
load_lexicon(100000);
query("SELECT atproto.retry(id) FROM atproto.dead_letter WHERE subscription = 'letters' ORDER BY seq, id");
is(query("SELECT string_agg(DISTINCT message, ',') FROM atproto.dead_letter WHERE subscription = 'letters'"), 'the repository is not active',
	'L-34: when the Lexicon allows it, each is applied, or obsolete, but of who is not active');
my $active = "SELECT md5(string_agg(concat_ws(' ', r.did, collection, rkey, cid), E'\\n' ORDER BY r.did, collection, rkey)) FROM %s.record r JOIN plain.repo p ON p.did = r.did AND p.active";
is(query(sprintf $active, 'letters'), query(sprintf $active, 'plain'), 'L-34: and the records are what they are without');
load_lexicon($usual);

# --- exports ---

my $files = make_exports();
my $who = did('a');
query("SELECT atproto.load_lexicon(jsonb_build_object('lexicon', 1, 'id', collection, 'defs', '{\"main\": {\"type\": \"record\", \"key\": \"any\", \"record\":
	{\"type\": \"object\", \"required\": [\"nothing\"], \"properties\": {\"nothing\": {\"type\": \"null\"}}}}}'::jsonb), true)
	FROM (SELECT DISTINCT split_part(uri::text, '/', 4) AS collection FROM car_records(pg_read_binary_file('$files/first.car'))) c WHERE collection <> 'app.bsky.feed.post'");
foreach my $how ('flag', 'dead_letter')
{
	query("CREATE SCHEMA x$how; INSERT INTO atproto.subscription (name, url, target, enabled, validate) VALUES ('x$how', 'wss://localhost:1', 'x$how', false, '$how');
		SELECT atproto.create_tables('x$how')");
	query("SELECT * FROM atproto.load_car('$who', pg_read_binary_file('$files/first.car'), 'x$how')");
}
is(wrong_flags('xflag', 'true'), '0', 'L-34: flags of records of an export');
cmp_ok(query('SELECT count(fault) FROM xflag.record'), '>', 10, 'there are some');
is(query("SELECT count(*) FROM xdead_letter.record"), query('SELECT count(*) FROM xflag.record WHERE fault IS NULL'), 'L-34: dead letters of an export are not there');
is(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'xdead_letter'"),
	query('SELECT count(fault) FROM xflag.record'), 'L-34: each is a letter');

# --- a change while the stream runs; a missing Lexicon ---

$server->restart('--hold-at', 2500);
subscribe('live', validate => "'none'");
wait_for_seq($node, 'live', 2499);
is(query('SELECT count(fault) FROM live.record'), '0', 'nobody looks');
query("UPDATE atproto.subscription SET validate = 'flag' WHERE name = 'live'");
$node->poll_query_until('postgres', "SELECT settings_after = 2499 FROM atproto.cursor WHERE subscription = 'live'") or BAIL_OUT('the settings did not change');
query(q{SELECT atproto.load_lexicon('{"lexicon": 1, "id": "app.bsky.feed.like", "defs": {"main": {"type": "record", "key": "tid",
	"record": {"type": "object", "properties": {"subject": {"type": "ref", "ref": "org.example.unknown"}}}}}}', true)});
$server->release;
wait_for_seq($node, 'live', $last);
cmp_ok(query("SELECT count(fault) FROM live.record WHERE collection = 'app.bsky.feed.post'"), '>', 10, 'L-34: from then on somebody does');
is(query("SELECT count(fault) FROM live.record WHERE collection = 'app.bsky.feed.like'"), '0', 'who cannot tell says nothing');
is(query("SELECT reconnects FROM atproto.stat_subscription WHERE name = 'live'"), '0', 'without a reconnection');

# --- CALL atproto.revalidate(): older records ---

my $revalidate = sub { ($node->psql('postgres', "CALL atproto.revalidate($_[0])"))[2] };

query("SELECT atproto.unload_lexicon('app.bsky.feed.like')");
query(q{UPDATE atproto.subscription SET validate = '{app.bsky.feed.post=flag}' WHERE name = 'plain'});
like($revalidate->("'plain'"), qr/NOTICE:  \d+ records were validated, (\d+) have a fault\n[^\n]*DETAIL:  \g1 faults were changed\./, 'revalidate() reports the number of faults');
is(wrong_flags('plain', "collection = 'app.bsky.feed.post'"), '0', 'L-34: the faults of one collection');
is(query("SELECT count(fault) FROM plain.record WHERE collection <> 'app.bsky.feed.post'"), '0', 'no fault in further collections');
query("UPDATE atproto.subscription SET validate = 'flag' WHERE name = 'plain'");
$revalidate->("'plain', 'app.bsky.actor.profile'");
is(query("SELECT count(*) FROM plain.record WHERE fault IS NOT NULL AND collection NOT IN ('app.bsky.feed.post', 'app.bsky.actor.profile')"), '0', 'only the named collection');
$revalidate->("'plain'");
is(wrong_flags('plain', 'true'), '0', 'L-34: all collections');
like($revalidate->("'plain'"), qr/DETAIL:  0 faults were changed/, 'a second call writes no fault');
query("BEGIN; UPDATE plain.record SET value = value WHERE fault IS NOT NULL; PREPARE TRANSACTION 'writer'");
query("UPDATE atproto.subscription SET validate = 'none' WHERE name = 'plain'");
like($revalidate->("'plain'"), qr/DETAIL:  0 faults were changed\.\nHINT:  [1-9]\d* records were left, because others/, 'locked records are left to the writer, and counted');
query("ROLLBACK PREPARED 'writer'");
$revalidate->("'plain'");
is(query('SELECT count(fault) FROM plain.record'), '0', 'none: no record is flagged');

# A session that ends in the middle: the steps before have their faults, the step that was open has none.  The owner's
# trigger stops the second step.
query(q{CREATE SCHEMA half; SELECT atproto.create_tables('half'); INSERT INTO atproto.subscription (name, url, target, enabled, validate) VALUES ('half', 'wss://localhost:1', 'half', false, 'flag');
	INSERT INTO half.repo (did, rev, sync) VALUES ('did:web:a.example.com', '3jzfcijpj2z2a', 'unproven');
	INSERT INTO half.record (did, collection, rkey, cid, value, rev, indexed_at) SELECT 'did:web:a.example.com', 'app.bsky.feed.post', n::text, 'bafyreie5cvv4h45feadgeuwhbcutmh6t2ceseocckahdoe6uat64zmz454',
		jsonb_build_object('text', repeat('x', 1000)), '3jzfcijpj2z2a', now() FROM generate_series(10001, 15000) n;
	CREATE FUNCTION half.stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(17); RETURN new; END $$;
	CREATE TRIGGER stop BEFORE UPDATE ON half.record FOR EACH ROW WHEN (new.rkey = '13000') EXECUTE FUNCTION half.stop()});
my $at = q{FROM pg_stat_activity WHERE query LIKE 'CALL atproto.revalidate%' AND wait_event = 'advisory'};
foreach my $how ('SELECT pg_cancel_backend', 'SELECT pg_terminate_backend', 'kill')
{
	query('UPDATE half.record SET fault = NULL');
	my $blocker = $node->background_psql('postgres', on_error_stop => 0);
	$blocker->query_safe('SELECT pg_advisory_lock(17)');
	my ($said, $call) = ('');
	$call = IPC::Run::start([ 'psql', '-Xd', $node->connstr('postgres'), '-c', "CALL atproto.revalidate('half')" ], '<', \undef, '>&', \$said);
	wait_for("SELECT count(*) = 1 $at");
	is(query("SELECT phase, done FROM atproto.stat_progress WHERE command = 'revalidate'"), 'validating records|2000', 'stat_progress says how far');
	my $pid = query("SELECT pid $at");
	query("$how($pid) $at") if $how ne 'kill';
	kill 'KILL', $pid if $how eq 'kill';
	$call->finish;
	$how eq 'kill' ? eval { $blocker->quit } : $blocker->quit;
	# (until the restart, the view shows the killed process)
	wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid", gone => 1) if $how eq 'kill';
	is(query('SELECT count(fault), max(rkey) FILTER (WHERE fault IS NOT NULL) FROM half.record'), '2000|12000', "$how: the steps that were committed stay");
	wait_for("SELECT count(*) = 0 FROM atproto.stat_progress");
	like($revalidate->("'half'"), qr/5000 have a fault\n[^\n]*DETAIL:  3000 faults were changed\.$/, 'a second call does the rest');
}

# the values are 500 MB, in the table a few
query(q{CREATE SCHEMA large; SELECT atproto.create_tables('large'); INSERT INTO atproto.subscription (name, url, target, enabled, validate) VALUES ('large', 'wss://localhost:1', 'large', false, 'flag');
	INSERT INTO large.repo (did, rev, sync) VALUES ('did:web:a.example.com', '3jzfcijpj2z2a', 'unproven');
	INSERT INTO large.record (did, collection, rkey, cid, value, rev, indexed_at) SELECT 'did:web:a.example.com', 'app.bsky.feed.post', n::text, 'bafyreie5cvv4h45feadgeuwhbcutmh6t2ceseocckahdoe6uat64zmz454',
		jsonb_build_object('text', repeat('x', 1000000)), '3jzfcijpj2z2a', now() FROM generate_series(1, 500) n});
SKIP:
{
	skip 'nobody tells how much memory a process has taken', 1 unless -r '/proc/self/status';
	my ($status, $memory) = $node->psql('postgres', "CALL atproto.revalidate('large'); SELECT substring(pg_read_file('/proc/' || pg_backend_pid() || '/status'), 'VmHWM:\\s*(\\d+) kB')");
	cmp_ok($memory, '<', 200000, 'the memory is that of some values');
}

query(q{CREATE SCHEMA nulls; SELECT atproto.create_tables('nulls'); ALTER TABLE nulls.record ALTER cid DROP NOT NULL;
	INSERT INTO nulls.repo (did, rev) VALUES ('did:web:a.example.com', '3jzfcijpj2z2a');
	INSERT INTO nulls.record (did, collection, rkey, value, rev, fault) VALUES ('did:web:a.example.com', 'app.bsky.feed.post', 'x', '{}', '3jzfcijpj2z2a', 'x')});
like($revalidate->("'nulls'"), qr/ERROR:  column "cid" is null/, 'a table whose column cid may be null');

query("CREATE ROLE stranger; GRANT EXECUTE ON PROCEDURE atproto.revalidate TO stranger; GRANT USAGE ON SCHEMA atproto, plain TO stranger");
like(($node->psql('postgres', "SET SESSION AUTHORIZATION stranger; CALL atproto.revalidate('plain')"))[2], qr/ERROR: /, 'only for the owner of the table');

# --- values of the option validate ---

foreach my $bad (
	[ 'sometimes',                   qr/invalid value for "validate": "sometimes".*HINT:  Use 'none', 'flag'/s ],
	[ '{app.bsky.feed.post}',        qr/invalid value for "validate": "app.bsky.feed.post"/ ],
	[ '{app.bsky.feed.post=maybe}',  qr/invalid value for "validate": "app.bsky.feed.post=maybe"/ ],
	[ '{a b=flag}',                  qr/invalid collection: "a b=flag"/ ],
	[ '{NULL}',                      qr/"validate" must not contain nulls.*HINT/s ])
{
	my ($rc, $out, $err) = $node->psql('postgres', subscribe_sql('bad', $server, validate => "'$bad->[0]'"), on_error_stop => 1);
	like($err, $bad->[1], "validate => '$bad->[0]'");
}
my ($rc, $out, $err) = $node->psql('postgres', subscribe_sql('bad', $server, nsid => 'com.atproto.label.subscribeLabels', validate => "'flag'"), on_error_stop => 1);
like($err, qr/cannot have "validate"/, 'labels are no records');

done_testing();
