# 511_changes_rows.pl
#		The output plugin, and changes of the tables beside the stream: partitions, rows removed in bulk, large values,
#		transactions of every kind, tables altered by the owner, replica identities.  O-21, O-24.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use Test::More;

my $node = make_node('main', changes_conf("max_prepared_transactions = 4\nlogical_decoding_work_mem = '64kB'\n"));
my ($a, $b) = map { did($_) } 'a', 'b';
my $cid = 'bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy';
my $other_cid = 'bafyreibdrtu6xzbiplupbsv6jmzsxzgj2syvnqsnm2v33yzk6g3f6dyk6a';
my %all;

make_slot('app');

# A row of record, as SQL.
sub row
{
	my ($did, $rkey, $value) = @_;
	$value //= qq('{"\$type": "com.example.x", "n": 1}');
	return "('$did', 'com.example.x', '$rkey', '$cid', '3lb2222222222', $value)";
}

my $insert = 'INSERT INTO atproto.record (did, collection, rkey, cid, rev, value) VALUES ';

# The messages after some statements, in short.
my @messages;

sub told
{
	my ($sql, %options) = @_;
	my @new;

	$node->safe_psql('postgres', $sql) if $sql ne '';
	@new = changes('app', %options);
	push @messages, @new;
	return join '; ', map { short($_) } decoded(@new);
}

sub short
{
	my ($m) = @_;
	my $kind = $m->{kind};

	return "$m->{commit}{operation} $m->{commit}{rkey}" . (defined $m->{commit}{rev} ? '' : ' without rev') if $kind eq 'commit';
	return join ' ', $kind, map { ref $_ ? "(@$_)" : $_ // () } @$m{qw(target table partition by bounds)} if $kind =~ /^(truncate|purge|unknown)$/;
	return "identity " . ($m->{identity}{handle} // 'none') if $kind eq 'identity';
	return "account " . ($m->{account}{active} ? 'active' : 'inactive') . ' ' . ($m->{account}{status} // '') if $kind eq 'account';
	return $kind;
}

# --- rows ---

is(told($insert . row($a, 'one') . ', ' . row($a, 'two')), 'create one; create two', 'rows are created');
is(told("UPDATE atproto.record SET cid = '$other_cid' WHERE rkey = 'one'"), 'update one', 'a row is updated');
is(told("UPDATE atproto.record SET rkey = 'three' WHERE rkey = 'two'"), 'delete two without rev; create three', 'another key is another record');
is(told("DELETE FROM atproto.record WHERE rkey = 'three'"), 'delete three without rev', 'a row is deleted');
is(told("BEGIN; INSERT INTO atproto.repo (did, rev) VALUES ('$a', '3lb3333333333'); DELETE FROM atproto.record WHERE rkey = 'one'; COMMIT"),
	'delete one', 'the revision of a deletion is that of the repository');
like($messages[-2], qr/"rev":"3lb3333333333"/, 'as it was written');
is(told("BEGIN; $insert" . row($a, 'x') . '; ROLLBACK'), '', 'nothing of a transaction that is rolled back');
is(told("BEGIN; $insert" . row($a, 'x1') . "; SAVEPOINT s; $insert" . row($a, 'x2') . "; ROLLBACK TO s; $insert" . row($a, 'x3') . '; COMMIT'),
	'create x1; create x3', 'nor of a subtransaction');
is(told("BEGIN; $insert" . row($a, 'p') . "; PREPARE TRANSACTION 'p'"), '', 'nothing of a prepared transaction');
is(told("COMMIT PREPARED 'p'"), 'create p', 'until it is committed');
is(told("BEGIN; $insert" . row($a, 'q') . "; DELETE FROM atproto.record WHERE rkey = 'q'; $insert" . row($a, 'q') . '; COMMIT'),
	'create q; delete q without rev; create q', 'a path may be written several times');
is(told("CREATE TABLE record (did text, value int); INSERT INTO record VALUES ('x', 1)"), '', "a user's table of the same name");

# --- large values ---

my $large = q{jsonb_build_object('$type', 'com.example.x', 'text', (SELECT string_agg(md5(i::text), '') FROM generate_series(1, 400) i))};

is(told($insert . row($a, 'large', $large)), 'create large', 'a large value');
cmp_ok(length($messages[-2]), '>', 12_000, 'is told as a whole');
is(told("UPDATE atproto.record SET fault = 'x' WHERE rkey = 'large'"), '', 'bookkeeping beside a large value is no change');
is(told("UPDATE atproto.record SET rkey = 'larger' WHERE rkey = 'large'"), 'delete large without rev; create larger', 'a new key of a large value');
like($messages[-2], qr/"record":"unchanged"/, 'says that the value is the old one');
told("DELETE FROM atproto.record WHERE rkey = 'larger'");
told($insert . row($a, 'kept') . "; UPDATE atproto.record SET raw = (SELECT string_agg(sha256(i::text::bytea), '') FROM generate_series(1, 400) i) WHERE rkey = 'kept'");
is(told("UPDATE atproto.record SET value = '{}' WHERE rkey = 'kept'"), 'update kept', 'an UPDATE of value alone, in a row with a large raw');
is(told("UPDATE atproto.record SET value = NULL WHERE rkey = 'kept'; UPDATE atproto.record SET fault = 'x' WHERE rkey = 'kept'"), '', 'an UPDATE that leaves a large raw alone, in a row without value');
told('ALTER TABLE atproto.record REPLICA IDENTITY FULL');
is(told("UPDATE atproto.record SET fault = 'y' WHERE rkey = 'kept'; UPDATE atproto.record SET raw = '\\xa0' WHERE rkey = 'kept'"), 'update kept', 'FULL: other bytes');
told("ALTER TABLE atproto.record REPLICA IDENTITY DEFAULT; DELETE FROM atproto.record WHERE rkey = 'kept'");
@messages = ();
is(told("UPDATE atproto.record SET value = NULL, raw = '\\xa0' WHERE rkey = 'p'"), 'update p', 'a record that jsonb cannot hold');
like($messages[0], qr/"raw":"oA=="/, 'is told as its bytes');

# --- values larger than a message: the slot must get past them ---

# 1e131071 takes 14 bytes in jsonb; as text, these values have 1.2 GB
is(told($insert . row($a, 'huge', '(SELECT jsonb_agg(1e131071) FROM generate_series(1, 9000))') . ', ' . row($a, 'behind')),
	'unknown atproto record; create behind', 'a small jsonb with a text larger than any buffer');
is(join(' ', map { /"n":(\d+)/ } @messages[-3 .. -1]), '1 2 3', 'the messages are counted without a hole');
told("DELETE FROM atproto.record WHERE rkey IN ('huge', 'behind')");

my %small = (max_message => '16kB');
my $label = 'INSERT INTO atproto.label (src, uri, val, neg, cts, sig) VALUES ';

foreach my $case (
	[ 'a number',       row($a, 'huge', q{'{"n": 1e9000}'}) ],
	[ 'control characters', row($a, 'huge', q{jsonb_build_object('x', repeat(chr(1), 2000))}) ],
	[ 'a key',          row($a, 'huge', q{jsonb_build_object(repeat('"', 5000), true)}) ],
	[ 'many values',    row($a, 'huge', q{(SELECT jsonb_agg(true) FROM generate_series(1, 1500))}) ],
	[ 'a large value',  row($a, 'huge', q{jsonb_build_object('x', repeat('x', 1000000))}) ])
{
	is(told("$insert$case->[1]", %small), 'unknown atproto record', "max_message: $case->[0]");
	is(told("DELETE FROM atproto.record WHERE rkey = 'huge'", %small), 'delete huge without rev', "and the deletion is told");
}
is(told($insert . row($a, 'huge', q{jsonb_build_object('x', repeat('x', 8000), 'n', 1e100)}), %small), 'create huge', 'max_message: a value that fits');
is(told("UPDATE atproto.record SET value = NULL, raw = decode(repeat('a0', 6200), 'hex') WHERE rkey = 'huge'", %small), 'unknown atproto record', 'max_message: base64');
is(told("UPDATE atproto.record SET raw = decode(repeat('a0', 5900), 'hex') WHERE rkey = 'huge'", %small), 'update huge', 'max_message: base64 that fits');
told('ALTER TABLE atproto.record REPLICA IDENTITY FULL');
told("UPDATE atproto.record SET raw = NULL, value = jsonb_build_object('x', repeat('x', 5000)) WHERE rkey = 'huge'");
is(told("UPDATE atproto.record SET cid = '$other_cid', value = jsonb_build_object('x', repeat('y', 5000)) WHERE rkey = 'huge'", %small, old => 'true'),
	'unknown atproto record', 'max_message: old and new record together');
is(told("DELETE FROM atproto.record WHERE rkey = 'huge'", %small, old => 'true'), 'delete huge without rev', 'max_message: an old record that fits');
told($insert . row($a, 'huge', q{jsonb_build_object('x', repeat('x', 1000000))}));
is(told("UPDATE atproto.record SET fault = 'x' WHERE rkey = 'huge'", %small), '', 'max_message: a large value that an UPDATE leaves alone is the same');
is(told("UPDATE atproto.record SET fault = 'y', value = value || '{}' WHERE rkey = 'huge'", %small), 'unknown atproto record', 'max_message: a large value that is written again is not read to be compared');
told("DELETE FROM atproto.record WHERE rkey = 'huge'");
told('ALTER TABLE atproto.record REPLICA IDENTITY DEFAULT');
is(told("$label('$a', '$b', repeat(chr(1), 2000), false, now(), NULL)", %small), 'unknown atproto label', "max_message: a label's text");
is(told('DELETE FROM atproto.label', %small), 'unknown atproto label', 'and its deletion, which has the text, too');
is(told("$label('$a', '$b', 'x', false, now(), decode(repeat('00', 6200), 'hex'))", %small), 'unknown atproto label', "max_message: a label's signature");
is(told('DELETE FROM atproto.label', %small), 'purge atproto label', 'and its deletion, which has the key');
is(told("INSERT INTO atproto.repo (did, active, status, handle) VALUES ('$b', false, repeat(chr(1), 2000), 'b.example.com'); DELETE FROM atproto.repo WHERE did = '$b'", %small),
	'identity b.example.com; unknown atproto repo; purge atproto repo', 'max_message: the status of an account');

# --- the positions of many sources ---

# The last position after a transaction that moves shards of some endpoints twice.
sub position
{
	my ($endpoints, $endpoint) = @_;
	my @new;

	query("BEGIN; DELETE FROM atproto.cursor; INSERT INTO atproto.cursor (subscription, endpoint, shard, seq) SELECT 'far', $endpoint, s, s FROM generate_series(1, $endpoints) e, generate_series(0, 31) s;
		UPDATE atproto.cursor SET seq = seq + 100; COMMIT");
	@new = changes('app', %small);
	cmp_ok(length($new[-1]), '<=', 16 * 1024, "max_message: the position with $endpoints endpoints");
	return JSON::PP->new->utf8(0)->decode($new[-1]);
}

query(q{INSERT INTO atproto.subscription (name, url, enabled) VALUES ('far', 'wss://localhost:1', false)});

my $position = position(3, q{'wss://' || e});

is(join(' ', map { join ',', @$_{qw(endpoint cursor)}, $_->{shard} // 0 } @{ $position->{sources} }),
	join(' ', map { my $e = $_; map { "wss://$e," . (100 + $_) . ",$_" } 0 .. 31 } 1 .. 3), 'each source once, with its last cursor');
ok(!exists $position->{more}, 'and all of them');
$position = position(10, q{'wss://' || e});
cmp_ok(scalar(@{ $position->{sources} }), '>', 100, 'the position names as many sources as fit');
ok($position->{more}, 'and says that there are more');
$position = position(1, q{repeat(chr(1), 3000)});
is(scalar(@{ $position->{sources} }), 0, 'no source may fit');
ok($position->{more}, 'the position says so');
told(q{DELETE FROM atproto.subscription WHERE name = 'far'});

# --- the key of a label ---

told("$label('$a', '$b', 'x', false, now(), NULL)");
is(told("UPDATE atproto.label SET val = 'y'"), 'purge atproto label; label', 'an UPDATE of the key of a label');
like($messages[-3], qr/"label":\{"src":"$a","uri":"$b","val":"x"\}\}$/, 'the purge has the former key');
is(told("UPDATE atproto.label SET src = '$b'", dids => $a), 'purge atproto label', 'an UPDATE of src, for a reader of the former labeler');
told('ALTER TABLE atproto.label REPLICA IDENTITY FULL');
is(told('UPDATE atproto.label SET neg = true; DELETE FROM atproto.label'), 'label; purge atproto label', 'FULL: the same key');
told('ALTER TABLE atproto.label REPLICA IDENTITY DEFAULT');

# --- revalidate() ---

is(told("UPDATE atproto.record SET fault = 'x' WHERE rkey = 'x1'; CALL atproto.revalidate()"), 'update x1', 'what revalidate() writes is no change');
told(qq{CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN $label(NEW.did, NEW.rkey::text, 'seen', false, now(), NULL); RETURN NULL; END \$\$;
	UPDATE atproto.record SET fault = 'x' WHERE rkey = 'x1'; CREATE TRIGGER seen AFTER UPDATE ON atproto.record FOR EACH ROW EXECUTE FUNCTION seen()});
is(told('CALL atproto.revalidate()'), 'update x1; label', "but what a user's trigger writes at the same time is told");
told('DROP FUNCTION seen CASCADE; DELETE FROM atproto.label');
told("UPDATE atproto.record SET fault = 'x' WHERE rkey = 'x1'; CREATE PUBLICATION p FOR TABLE atproto.record");
is(told('CALL atproto.revalidate()'), 'update x1', "nor does a subscription to a publication miss the fault (origin = none)");
told('DROP PUBLICATION p');

# --- replica identity ---

told('ALTER TABLE atproto.record REPLICA IDENTITY FULL');
is(told("UPDATE atproto.record SET fault = 'x', indexed_at = now() WHERE rkey = 'q'", old => 'true'), '', 'FULL: bookkeeping is no change');
is(told("UPDATE atproto.record SET cid = '$other_cid' WHERE rkey = 'q'", old => 'true'), 'update q', 'FULL: an update');
like($messages[-2], qr/"old":\{"cid":"$cid","record":\{"n": 1, "\$type": "com\.example\.x"\}\}/, 'tells the old record');
is(told("DELETE FROM atproto.record WHERE rkey = 'q'", old => 'true'), 'delete q without rev', 'FULL: a deletion');
like($messages[-2], qr/"old":\{"cid":"$other_cid"/, 'tells the old record');
told('ALTER TABLE atproto.record REPLICA IDENTITY NOTHING');
is(told("DELETE FROM atproto.record WHERE rkey IN ('p', 'x1')"), 'unknown atproto record', 'NOTHING: a deletion cannot be told, once in a transaction');
is(query('SELECT what, target, object FROM atproto.check()'), 'changes cannot be told|atproto|record', 'check() says so');
told('ALTER TABLE atproto.record REPLICA IDENTITY DEFAULT');

# --- accounts ---

told('');
is(told("INSERT INTO atproto.repo (did, active, status, handle) VALUES ('$b', false, 'takendown', 'b.example.com')"),
	'identity b.example.com; account inactive takendown', 'an account that comes with a handle and a status');
is(told("UPDATE atproto.repo SET sync = 'partial', active = true WHERE did = '$b'"), '', 'an update that nobody announces');
is(told("BEGIN; SELECT pg_logical_emit_message(true, 'atproto', 'account 2 $b'); UPDATE atproto.repo SET status = NULL WHERE did = '$b'; COMMIT"),
	'account active ', 'an announced one tells what the row says');
told('ALTER TABLE atproto.repo REPLICA IDENTITY FULL');
is(told("UPDATE atproto.repo SET sync = 'partial', handle = 'c.example.com' WHERE did = '$b'"), 'identity c.example.com', 'FULL: the old row decides');
is(told("BEGIN; SELECT pg_logical_emit_message(true, 'atproto', 'account 3 $b'); UPDATE atproto.repo SET sync = 'partial' WHERE did = '$b'; COMMIT"),
	'', 'whatever is announced');
is(told("SELECT pg_logical_emit_message(true, 'atproto', t) FROM unnest(ARRAY['', 'account', 'account 3', 'account 3 x', 'drop', 'drop x', 'drop 0', 'drop 4294967295', 'drop ' || 'atproto.record'::regclass::oid]) t"),
	'', 'announcements of strangers that say nothing, or a lie');

# --- rows that go in bulk ---

is(told('TRUNCATE atproto.record, atproto.label'), 'truncate atproto record; truncate atproto label', 'TRUNCATE');
told($insert . row($a, 'one') . ', ' . row($a, '3lb2222222222') . ', ' . row($b, '3kzzzzzzzzzzz'));
is(told("SELECT atproto.partition('atproto', 'month')") =~ s/[^;]//gr, '', 'partition() tells nothing');
is(query('SELECT count(*) FROM atproto.record'), '3', 'of its three rows');
is(told($insert . row($a, '3lc2222222222')), 'create 3lc2222222222', 'a row of a partition has the name of the table');
is(told("UPDATE atproto.record SET rkey = '3kb2222222222' WHERE rkey = '3lc2222222222'"), 'delete 3lc2222222222 without rev; create 3kb2222222222', 'a row that moves to another partition');

my ($part) = split /\n/, query("SELECT tableoid::regclass::text FROM atproto.record WHERE rkey = '3lb2222222222'");

query("TRUNCATE $part");
# the session of a TRUNCATE has its locks until a synchronous reader confirms the commit
query("BEGIN; LOCK TABLE $part; PREPARE TRANSACTION 'locked'");
is(($node->psql('postgres', "SET lock_timeout = '1s'; SELECT FROM pg_logical_slot_peek_changes('app', NULL, NULL)"))[2], '', 'a reader waits for no lock of a table');
query("ROLLBACK PREPARED 'locked'");
like(told(''), qr/^purge atproto record \w+ \(rkey\) FOR VALUES FROM \(/, 'TRUNCATE of a partition');
like(told("BEGIN; DROP TABLE $part; $insert" . row($a, '3lb2222222223') . '; COMMIT'),
	qr/^purge atproto record \w+ \(rkey\) FOR VALUES FROM \([^;]*; create 3lb2222222223$/, 'DROP of a partition comes before the rows that are written after it');
is(told("BEGIN; DROP TABLE atproto.record_other; ROLLBACK"), '', 'and of one that stays') if query("SELECT to_regclass('atproto.record_other') IS NOT NULL") eq 't';
query($insert . row($a, '3jb2222222222'));
told('');

# bounds whose text is longer than any buffer, and such as would make a message long
foreach (
	[ 'jsonb', q{'[} . join(',', ('1e131071') x 9000) . q{]'}, '' ],
	[ 'numeric', join(', ', map { '1e' . (9000 + $_) } 0 .. 8), '' ],
	[ 'numeric', '1, 2.50', "FOR VALUES IN ('1', 2.50)" ],
	[ 'text', "'" . 'x' x 9000 . "'", '', %small ],
	[ 'text', q{'a''b'}, "FOR VALUES IN ('a''b')" ],
	[ 'boolean', 'true', 'FOR VALUES IN (true)' ],
	[ 'did', "'$a'", "FOR VALUES IN ('$a')" ])
{
	my ($type, $values, $bounds, %options) = @$_;

	is(told("CREATE SCHEMA listed; CREATE TABLE listed.record (LIKE atproto.record, key $type) PARTITION BY LIST (key);
		CREATE TABLE listed.part PARTITION OF listed.record FOR VALUES IN ($values); TRUNCATE listed.part; DROP TABLE listed.part; DROP SCHEMA listed CASCADE", %options),
		join('; ', ("purge listed record part" . ($bounds && " (key) $bounds")) x 2, 'purge listed record'), "bounds of type $type: " . ($bounds || 'too long'));
}

# the columns of the partition key, if the key has no expression
foreach (
	[ 'RANGE (collection, rkey)', q{FOR VALUES FROM ('a.b.c', 'a') TO ('a.b.c', 'b')}, '(collection rkey) ' ],
	[ 'RANGE (collection, (octet_length(rkey::text)))', q{FOR VALUES FROM ('a.b.c', 1) TO ('a.b.c', 2)}, '' ],
	[ 'HASH (did)', 'FOR VALUES WITH (modulus 2, remainder 1)', '(did) ' ])
{
	my ($key, $bounds, $by) = @$_;

	is(told("CREATE SCHEMA keyed; CREATE TABLE keyed.record (LIKE atproto.record) PARTITION BY $key; CREATE TABLE keyed.part PARTITION OF keyed.record $bounds; DROP TABLE keyed.part; DROP SCHEMA keyed CASCADE"),
		"purge keyed record part $by$bounds; purge keyed record", "PARTITION BY $key");
}

# the bounds of a partition of a partition would say too much
is(told(q{CREATE SCHEMA deep; CREATE TABLE deep.record (LIKE atproto.record) PARTITION BY LIST (collection); CREATE TABLE deep.post PARTITION OF deep.record FOR VALUES IN ('app.bsky.feed.post') PARTITION BY RANGE (rkey);
	CREATE TABLE deep.leaf PARTITION OF deep.post FOR VALUES FROM ('a') TO ('b'); TRUNCATE deep.leaf; DROP TABLE deep.leaf; DROP TABLE deep.post; DROP SCHEMA deep CASCADE}),
	"purge deep record leaf; purge deep record leaf; purge deep record post (collection) FOR VALUES IN ('app.bsky.feed.post'); purge deep record", 'a partition of a partition has no bounds');

is(told("CALL atproto.maintain_partitions('atproto', keep => '1 year')") =~ s/bounds.*//r =~ /purge|delete|^$/ ? 1 : 0, 1, 'months that are over go');

# --- the owner of the tables ---

is(told("DROP VIEW atproto.current_label; ALTER TABLE atproto.label ALTER val TYPE varchar; INSERT INTO atproto.label (src, uri, val, neg, cts) VALUES ('$a', '$b', 'spam', false, now())"),
	'unknown atproto label', 'a column of another type');
is(told("ALTER TABLE atproto.label ALTER val TYPE text; ALTER TABLE atproto.label DROP sig CASCADE, ADD note text; INSERT INTO atproto.label (src, uri, val, neg, cts) VALUES ('$a', '$b', 'spam2', false, now())"),
	'label', 'a dropped column that may be missing');
is(told("ALTER TABLE atproto.repo DROP CONSTRAINT repo_pkey CASCADE, ALTER did DROP NOT NULL; INSERT INTO atproto.repo (did) VALUES (NULL)"), 'unknown atproto repo', 'a row without a key');
told('DELETE FROM atproto.repo WHERE did IS NULL');
is(told("ALTER TABLE atproto.label RENAME TO former; INSERT INTO atproto.former (src, uri, val, neg, cts) VALUES ('$a', '$b', 'spam3', false, now())"), '', 'a table of another name');
is(told("BEGIN; DELETE FROM atproto.former; ALTER TABLE atproto.former RENAME TO label; INSERT INTO atproto.label (src, uri, val, neg, cts) VALUES ('$a', '$b', 'spam4', false, now()); COMMIT"),
	'label', 'a name given in the same transaction');
is(told("CREATE SCHEMA own; SELECT atproto.create_tables('own'); INSERT INTO own.repo (did, handle) VALUES ('$a', 'a.example.com'); ALTER SCHEMA own RENAME TO mine;
	INSERT INTO mine.repo (did, handle) VALUES ('$b', 'b.example.com')"), 'identity a.example.com; identity b.example.com', 'a target that is renamed');
like(join("\n", @messages[-4 .. -1]), qr/"target":"own".*"target":"mine"/s, 'has the name of the moment');

is(told('CREATE TEMP TABLE record (LIKE atproto.record); DROP TABLE record'), '', 'DROP of a temporary table');

# --- large transactions ---

$node->safe_psql('postgres', "INSERT INTO atproto.record (did, collection, rkey, cid, rev, value) SELECT '$a', 'com.example.y', 'k' || i, '$cid', '3lb2222222222', '{\"\$type\": \"com.example.y\"}' FROM generate_series(1, 20000) i");
is(scalar(decoded(changes('app'))), 20_000, 'a large transaction');
cmp_ok(query(q{SELECT spill_txns FROM pg_stat_replication_slots WHERE slot_name = 'app'}), '>', 0, 'was kept on disk meanwhile');

# --- values of the type dagcbor ---

query(q{CREATE SCHEMA packed; SELECT atproto.create_tables('packed', value => 'dagcbor');
	CREATE FUNCTION forged(bytea) RETURNS dagcbor LANGUAGE internal IMMUTABLE STRICT AS 'byteasend'});
(my $packed = $insert) =~ s/atproto\.record/packed.record/;

# The commits among the last messages, without the target.
sub last_commits
{
	return map { /"commit":(.*)\}$/ } @messages[-3 .. -1];
}

# Both tables get the value; the commits that are told, without the target.
sub told_of_both
{
	my ($value) = @_;

	told("BEGIN; INSERT INTO atproto.record (did, collection, rkey, cid, rev, value, raw) VALUES ('$b', 'com.example.x', 'both', '$cid', '3lb2222222222', $value" . '::jsonb'
		. ", CASE WHEN $value" . "::jsonb IS NULL THEN $value" . "::bytea END); $packed" . row($b, 'both', $value) . '; COMMIT');
	my @commits = last_commits();
	told("DELETE FROM atproto.record WHERE rkey = 'both'; DELETE FROM packed.record WHERE rkey = 'both'");
	return @commits;
}

foreach my $case (
	[ 'a record',               q{'{"$type": "com.example.x", "text": "\u0001\"é\\\\", "n": [-7, 1.0, true, null], "l": {"$link": "bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"}, "b": {"$bytes": "++//AA"}}'::dagcbor}, qr/"record":\{/ ],
	[ 'a record with U+0000',   q{'{"$type": "com.example.x", "text": "\u0000"}'::dagcbor}, qr/"raw":"omR0ZXh0YQBlJHR5cGVtY29tLmV4YW1wbGUueA=="/ ])
{
	my @commits = told_of_both($case->[1]);

	is($commits[1], $commits[0], "dagcbor: $case->[0] is told as from a table with jsonb");
	like($commits[1], $case->[2], 'as it should');
}
is(told($packed . row($b, 'float', q{'\xa16161fb3ff8000000000000'}) . ', ' . row($b, 'key', q{'\xa16161a165246c696e6b05'})), 'create float; create key', 'dagcbor: values that JSON cannot say');
is(scalar(grep { /"raw":"oWFh/ } last_commits()), 2, 'are told as their bytes');

foreach my $case (
	[ 'frequent texts, a byte each', q{(SELECT jsonb_agg('app.bsky.richtext.facet#mention'::text) FROM generate_series(1, 500))::dagcbor} ],
	[ 'strings without bytes',       q{('\x990400' || decode(repeat('40', 1024), 'hex'))::bytea::dagcbor} ],
	[ 'control characters',          q{jsonb_build_object('x', repeat(chr(1), 2000))::dagcbor} ],
	[ 'a large value',               q{jsonb_build_object('x', repeat('x', 1000000))::dagcbor} ],
	[ 'base64',                      q{('\xa1617879186f' || decode(repeat('00', 6255), 'hex'))::bytea::dagcbor} ],
	[ 'a damaged value',             q{forged('\x01ff00')} ],
	[ 'no value',                    q{forged('\x01')} ])
{
	is(told("$packed" . row($b, 'huge', $case->[1]), %small), 'unknown packed record', "max_message: dagcbor: $case->[0]");
	is(told("DELETE FROM packed.record WHERE rkey = 'huge'", %small), 'delete huge without rev', 'and the deletion is told');
}
is(told($packed . row($b, 'huge', q{jsonb_build_object('x', repeat('x', 8000))::dagcbor}), %small), 'create huge', 'max_message: a dagcbor that fits');
told('ALTER TABLE packed.record REPLICA IDENTITY FULL');
is(told(q{UPDATE packed.record SET value = '{"a": 1}', cid = '} . "$other_cid' WHERE rkey = 'huge'", old => 'true'), 'update huge', 'dagcbor: REPLICA IDENTITY FULL');
like((last_commits())[-1], qr/"record":\{"a": 1\},"old":\{"cid":"$cid","record":\{"x": "x{8000}"\}\}/, 'the old record is told');
is(told(q{UPDATE packed.record SET fault = 'x' WHERE rkey = 'huge'}), '', 'dagcbor: an UPDATE of bookkeeping is not');
is(told(q{BEGIN; DROP VIEW packed.visible_record; ALTER TABLE packed.record ALTER value TYPE jsonb; UPDATE packed.record SET value = '{"b": 1}' WHERE rkey = 'huge'; COMMIT}), 'update huge', 'the type may change in a transaction');
like((last_commits())[-1], qr/"record":\{"b": 1\}/, 'and the value is read by its type of that time');
told('DROP SCHEMA packed CASCADE');

# --- the extension goes, and comes again ---

$node->safe_psql('postgres', "INSERT INTO mine.repo (did, handle) VALUES ('" . did('c') . "', 'c.example.com'); DROP EXTENSION atproto CASCADE");
# without the extension, types of the same names are not the extension's: values of an enum would be read as addresses
$node->safe_psql(
	'postgres', q{
	CREATE SCHEMA alike;
	CREATE TYPE alike.did AS ENUM ('a');
	CREATE TYPE alike.cidlink AS ENUM ('b');
	CREATE TABLE alike.label (src alike.did, uri text, val text, cid alike.cidlink, neg boolean, cts timestamptz, PRIMARY KEY (src, uri, val));
	INSERT INTO alike.label VALUES ('a', 'u', 'v', 'b', false, now());
	CREATE EXTENSION atproto});
is(join('; ', map { short($_) } decoded(changes('app'))), 'identity c.example.com; purge atproto record',
	'DROP EXTENSION: what came before is told, and that a table went, whose partitions were by a type of the extension');
is($node->safe_psql('postgres', 'SELECT count(*) FROM mine.repo'), '3', 'the tables stay');

# --- WAL is not kept without end ---

$node->append_conf('postgresql.conf', "max_slot_wal_keep_size = '1MB'\nmin_wal_size = '32MB'\nmax_wal_size = '32MB'\n");
$node->reload;
for (my $i = 0; query(q{SELECT wal_status = 'lost' FROM pg_replication_slots}) ne 't' && $i < 50; $i++)
{
	query("SELECT pg_logical_emit_message(false, 'x', repeat('x', 9000000)), pg_switch_wal()");
	query('CHECKPOINT');
}
is(query(q{SELECT what, object FROM atproto.check() WHERE what LIKE 'slot%'}), 'slot that has lost changes|app', 'check() names a slot that has lost changes');
expect_check('slot that has lost changes');

done_testing();
