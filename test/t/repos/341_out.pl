# 341_out.pl
#		Repositories and proofs given out.  A capture fills the tables; each account's file is, byte for byte, the file that
#		the oracle builds from the messages, and load_car() of the file gives equal rows in a second target.  The oracle finds
#		the same proofs by a search from the root, and spoils them.  If the tables lack a signed record or have a record too
#		many, an error gives the reason, and no file is made.  O-01 to O-06.
#
#		ATPROTO_OUT_RECORDS=100000: the long form.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $capture = capture('pds.frames.gz');
my $node    = make_node('out', conf => "max_worker_processes = 12\n");

sub python
{
	my $out;

	IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/oracle/out.py', @_ ], '>', \$out) or BAIL_OUT('the oracle failed');
	return $out;
}

# The message and DETAIL of a statement's error.
sub fails
{
	my ($sql, $role) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', ($role ? "SET SESSION AUTHORIZATION $role; " : '') . $sql);

	return $rc == 0 ? "no error: $out" : $err;
}

# --- the circle: capture, rows, file, rows, file ---

my $server = AtprotoTest::Server->start($capture);
query(subscribe_sql('s', $server, cursor => 0, verify => "'chain'"));
wait_for_seq($node, 's', $PDS_LAST);
query(q{SELECT atproto.pause('s')});
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});

query(q{CREATE FUNCTION file_of(account did, target name) RETURNS text LANGUAGE plpgsql STABLE AS $$
	DECLARE detail text;
	BEGIN
		RETURN encode(sha256(atproto.repo_car(account, target)), 'hex');
	EXCEPTION WHEN object_not_in_prerequisite_state THEN
		GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
		RETURN detail;
	END $$});

my $files = q{SELECT p.did::text, file_of(p.did, '%s'), (SELECT count(*) FROM %1$s.record r WHERE r.did = p.did) FROM %1$s.repo p ORDER BY p.did::text COLLATE "C"};
my $ours  = query(sprintf $files, 'atproto') =~ s/\|/ /gr;
my $expected = python('cars', $capture) =~ s/ deleted$/ The account was deleted. 0/mgr;
is("$ours\n", $expected, 'O-01, O-02, O-04: each account is given out byte for byte');
cmp_ok(() = $ours =~ /deleted/g, '>', 0, 'O-03: one that is gone is not');
cmp_ok(query('SELECT count(*) FROM atproto.record WHERE value::jsonb IS NULL'), '>', 0, 'O-03: some records cannot be jsonb');
cmp_ok(query('SELECT count(*) FROM atproto.repo WHERE NOT active AND data IS NOT NULL'), '>', 0, 'O-03: some accounts are not active');

is(query(q{SELECT count(*) FROM atproto.repo p CROSS JOIN LATERAL (SELECT string_agg(c, ''::bytea ORDER BY n) AS whole FROM atproto.repo_car_chunks(p.did) WITH ORDINALITY x (c, n)) c
	WHERE file_of(p.did, 'atproto') ~ '^[0-9a-f]{64}$' AND c.whole <> atproto.repo_car(p.did)}), '0', 'O-01: the pieces are the file');

query(q{CREATE SCHEMA again;
	INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('again', 'wss://localhost:1', 'again', false);
	SELECT atproto.create_tables('again');
	SELECT (atproto.load_car(did, atproto.repo_car(did), 'again')).created FROM atproto.repo WHERE file_of(did, 'atproto') ~ '^[0-9a-f]{64}$' AND active});
my $rows = q{SELECT did, collection, rkey, cid, value, raw FROM %s.record WHERE did IN (SELECT did FROM again.repo)};
is(query(sprintf "SELECT count(*) FROM (($rows EXCEPT ALL $rows) UNION ALL ($rows EXCEPT ALL $rows)) d", qw(atproto again again atproto)), '0', 'O-04: out and in again gives the same rows');
is(query('SELECT count(*) FROM atproto.repo a JOIN again.repo b USING (did) WHERE (a.rev, a.commit, a.data, a.sig) IS DISTINCT FROM (b.rev, b.commit, b.data, b.sig)'), '0', 'O-02: and the same commits');
is(query(q{SELECT count(*) FROM again.repo WHERE file_of(did, 'again') <> file_of(did, 'atproto')}), '0', 'O-04: and out again gives the same files');

# --- the same from values of the type dagcbor ---

query(q{CREATE SCHEMA packed; CREATE TABLE packed.repo AS TABLE atproto.repo;
	CREATE TABLE packed.record AS SELECT did, collection, rkey, cid, rev, coalesce(raw::dagcbor, value::dagcbor) AS value, NULL::bytea AS raw FROM atproto.record;
	CREATE VIEW packed.all_files AS SELECT did, file_of(did, 'packed') AS packed, file_of(did, 'atproto') AS plain FROM atproto.repo});
is(query('SELECT count(*) FILTER (WHERE packed ~ $$^[0-9a-f]{64}$$) > 10, count(*) FILTER (WHERE packed <> plain) FROM packed.all_files'), 't|0', 'O-01, O-04: values of dagcbor, read by a statement, give the same files');
query('ALTER TABLE packed.record ADD PRIMARY KEY (did, collection, rkey)');
is(query('SELECT count(*) FILTER (WHERE packed <> plain) FROM packed.all_files'), '0', 'O-01, O-04: and read by the index');
is(query(q{SELECT count(*) > 0, bool_and(atproto.record_proof(did, collection, rkey, 'packed') = atproto.record_proof(did, collection, rkey, 'atproto'))
	FROM (SELECT DISTINCT ON (did) r.* FROM packed.record r JOIN packed.all_files USING (did) WHERE packed ~ '^[0-9a-f]{64}$' ORDER BY did, value::jsonb IS NOT NULL, rkey LIMIT 10) r}), 't|t', 'O-05: and the same proofs');
query(q{CREATE FUNCTION forged(bytea) RETURNS dagcbor LANGUAGE internal IMMUTABLE STRICT AS 'byteasend'});
foreach my $value (q{'{"a": 1}'}, q{forged('\x01')}, 'NULL')
{
	my ($account) = split /\n/, query(q{SELECT did FROM packed.all_files JOIN packed.record USING (did) WHERE packed ~ '^[0-9a-f]{64}$' ORDER BY did LIMIT 1});

	like(fails("BEGIN; UPDATE packed.record SET value = $value WHERE did = '$account'; SELECT atproto.repo_car('$account', 'packed')"), qr/does not fit its CID/, "O-04: no file is made with the value $value");
}

query('DROP SCHEMA packed CASCADE');

# --- signed files, and proofs ---

my ($did, $key, $stranger, $file) = split ' ', python('signed', 'a', 300);
my ($other) = split ' ', python('signed', 'bb', 300);
my $hex = PostgreSQL::Test::Utils::tempdir('files') . '/file';
PostgreSQL::Test::Utils::append_to_file($hex, $file);
query("SELECT atproto.load_car('$did', '\\x$file', 'again', '$key')");
is(query("SELECT atproto.repo_car('$did', 'again') = '\\x$file'"), 't', 'O-01: each block once, at its first place, in the order of paths and not of columns');
is(query("SELECT count(*) - count(DISTINCT cid) FROM again.record WHERE did = '$did'"), '30', 'some records stand at two paths');

my @paths = split /\n/, query("SELECT collection || '/' || rkey FROM again.record WHERE did = '$did' ORDER BY did, collection, rkey LIMIT 20 OFFSET 90");
push @paths, 'com.example.a/-', 'com.example.a/zzzz', 'com.example.a.b/3', 'zz.zz.zz/self', 'aa.aa.aa/self';
my ($same, $answers) = (0, 0);
my @proofs = split /\n/, python('proofs', $hex, @paths);
foreach my $path (@paths)
{
	my ($collection, $rkey) = split '/', $path;
	my $of = "'$did', '$collection', '$rkey'";
	my $expected = shift @proofs;

	$same += query("SELECT encode(atproto.record_proof($of, 'again'), 'hex')") eq $expected;
	$answers += query("SELECT p.answer = CASE WHEN r.cid IS NULL THEN 'absent' ELSE 'there' END AND p.why IS NULL AND p.rev = q.rev
		AND p.cid IS NOT DISTINCT FROM r.cid AND p.value IS NOT DISTINCT FROM r.value
		FROM again.repo q LEFT JOIN again.record r ON r.did = q.did AND (r.collection, r.rkey) = ('$collection', '$rkey'),
		atproto.verify_record_proof('\\x$expected', $of, '$key') p WHERE q.did = '$did'") eq 't';
}
is($same, scalar @paths, 'O-05: proofs are what a search from the root finds');
is($answers, scalar @paths, 'O-05: and they are believed');

my %wrong;
my $judged = 0;
foreach my $path (@paths[ 7, 20 ])
{
	my ($collection, $rkey) = split '/', $path;

	foreach my $line (split /\n/, python('spoil', $hex, $path))
	{
		my ($name, $spoilt) = split /\t/, $line;
		my ($answer) = $name =~ /^(\w+)/;
		my $is = query("SELECT concat_ws('|', answer, why IS NULL, rev IS NULL, cid IS NULL) FROM atproto.verify_record_proof('\\x" . ($spoilt // '') . "', '$did', '$collection', '$rkey', '$key')");

		$judged++;
		$wrong{"$path: $name: $is"} = 1 if $is ne { none => 'no proof|f|t|t', absent => 'absent|t|f|t', there => 'there|t|f|f' }->{$answer};
	}
}
cmp_ok($judged, '>', 30, 'many proofs are spoilt');
is(join("\n", sort keys %wrong), '', 'O-05: a spoilt file proves what is left, or nothing');
my $proof = "atproto.record_proof('$did', 'com.example.a', 'self', 'again')";
my $verify = 'SELECT answer, why FROM atproto.verify_record_proof';
is(query("$verify($proof, '$did', 'com.example.a', 'self', '$stranger')"), "no proof|The signature is not the key's.", 'O-05: with another key');
is(query("$verify($proof, '$other', 'com.example.a', 'self', '$key')"), 'no proof|The commit is of another account.', 'O-05: of another account');
is(query("$verify(NULL, '$did', 'com.example.a', 'self', '$key')"), 'no proof|An argument is null.', 'O-05: a null is no absence');
is(query("$verify($proof, '$did', 'com.example.a', 'self', NULL)"), 'no proof|An argument is null.', 'O-05: nor is a key that is not known');
is(query("$verify('', '$did', 'com.example.a', 'self', '$key')"), 'no proof|The CAR file is empty.', 'O-05: an empty file');
like(fails("$verify($proof, '$did', 'com.example.a', 'self', 'did:key:zz')"), qr/invalid key/, 'a key must be a key');

# --- partitions, row security, rights ---

query(q{SELECT atproto.partition('again', 'collection', '{com.example.a,app.bsky.feed.post}')});
is(query("SELECT atproto.repo_car('$did', 'again') = '\\x$file'"), 't', 'O-01: of a partitioned table');

query('CREATE ROLE reader; GRANT USAGE ON SCHEMA again TO reader; GRANT SELECT ON again.repo TO reader; CREATE ROLE nobody');
like(fails("SELECT atproto.repo_car('$did', 'again')", 'reader'), qr/permission denied/, 'O-07: without SELECT on the records');
query('GRANT SELECT ON again.record TO reader');
is(query("SET SESSION AUTHORIZATION reader; SELECT length(atproto.repo_car('$did', 'again')) > 0, length(atproto.record_proof('$did', 'com.example.a', 'self', 'again')) > 0, (SELECT count(c) FROM atproto.repo_car_chunks('$did', 'again') c) > 0"),
	't|t|t', 'O-07: SELECT suffices');
like(fails("SELECT atproto.repo_car('$did', 'again')", 'nobody'), qr/permission denied for schema/, 'O-07: without USAGE');
query(q{ALTER TABLE again.record ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON again.record TO reader USING (collection <> 'com.example.a')});
like(fails("SELECT atproto.repo_car('$did', 'again')", 'reader'), qr/are not those of its last commit.*DETAIL:  Row security of table "record"/s, 'O-07: a role that sees only some rows gets no file');
like(fails("SELECT atproto.record_proof('$did', 'com.example.a.b', 'self', 'again')", 'reader'), qr/Row security of table "record".*HINT:  Call the function as a role that sees all rows/s, 'O-07: and no proof');
query('DROP POLICY few ON again.record; CREATE POLICY all_rows ON again.record TO reader USING (true)');
is(query("SET SESSION AUTHORIZATION reader; SELECT atproto.repo_car('$did', 'again') = '\\x$file'"), 't', 'O-07: a role that sees all rows gets the file');
query('ALTER TABLE again.record DISABLE ROW LEVEL SECURITY');

# --- reasons for no file ---

sub refused
{
	my ($what, $damage, $why) = @_;

	foreach my $function ("repo_car('$did', 'again')", "repo_car_chunks('$did', 'again')", "record_proof('$did', 'com.example.a', 'self', 'again')")
	{
		like(fails("BEGIN; SET LOCAL session_replication_role = replica; $damage; SELECT atproto.$function"), $why, "O-03: $what: $function");
	}
	return;
}

my $of = "WHERE did = '$did'";
my $one = "(SELECT min(rkey) FROM again.record $of AND collection = 'com.example.a')";
refused('a record is missing', "DELETE FROM again.record $of AND rkey = $one", qr/are not those of its last commit\n.*"synchronized"/s);
refused('a record became a dead letter', "DELETE FROM again.record $of AND rkey = $one; INSERT INTO atproto.dead_frame VALUES ('again', sha256('\\x00'), '\\x00');
	INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, digest, did, path) VALUES ('again', 'record', '22000', 'bad', sha256('\\x00'), '$did', 'com.example.a/x')",
	qr/Record com\.example\.a\/x became dead letter (\d+)\..*HINT:.*dead_letter WHERE id = \1 .*atproto\.retry\(\1\)/s);
foreach my $case ([ 'an #identity became a dead letter', 'apply', "'#identity', sha256('\\x00')", qr/The column sync of table repo is "synchronized"/ ],
	[ 'the room for letters is used up', 'beyond', "'', NULL", qr/More records or commits of the repository were refused than are kept as dead letters \(dead letter \d+\)\./ ])
{
	my ($what, $stage, $values, $why) = @$case;

	refused($what, "DELETE FROM again.record $of AND rkey = $one; INSERT INTO atproto.dead_frame VALUES ('again', sha256('\\x00'), '\\x00');
		INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, did, path, digest) VALUES ('again', '$stage', '54000', 'bad', '$did', $values)", $why);
}
refused('O-06: a filter', "DELETE FROM again.record $of AND collection <> 'com.example.a'; UPDATE atproto.subscription SET collections = '{com.example.a}' WHERE name = 'again'", qr/A filter of a subscription leaves out records.*HINT:  A fetch is filtered, too\./s);
my $there = join ', ', map { "'$_'" } $did, split '/', $paths[0];
is(query("BEGIN; UPDATE atproto.subscription SET collections = '{com.example.a,com.example.a-b.c,com.example.a.b}' WHERE name = 'again';
	SELECT atproto.repo_car('$did', 'again') = '\\x$file', p.answer FROM atproto.verify_record_proof(atproto.record_proof($there, 'again'), $there, '$key') p; ROLLBACK"), 't|there',
	'O-06: a filter that leaves out nothing of the account');
refused('a record too many', "INSERT INTO again.record (did, collection, rkey, cid, rev, value) SELECT did, collection, 'zz', cid, rev, value FROM again.record $of LIMIT 1", qr/are not those of its last commit/);
refused('an unsigned stream', "UPDATE again.repo SET commit = NULL, data = NULL $of", qr/No signed commit of the repository is known/);
refused('events wait', "UPDATE again.repo SET hold = 'gap' $of", qr/Events of the repository wait to be judged \(repo\.hold is "gap"\)/);
refused('the account is gone', "UPDATE again.repo SET deleted_rev = rev $of", qr/The account was deleted/);
refused('a deletion that is not confirmed', "UPDATE again.repo SET active = false, status = 'deleted' $of", qr/The account was deleted/);
refused('a row of an earlier version', "UPDATE again.repo SET sig = NULL $of", qr/The signature of the last commit is not stored/);
refused('another signature', "UPDATE again.repo SET sig = set_byte(sig, 3, get_byte(sig, 3) # 1) $of", qr/do not make the commit/);
refused('a commit that was too large', "UPDATE again.repo SET commit_block = '' $of", qr/more than 4096 bytes/);
like(fails("BEGIN; UPDATE again.record SET value = '{}' $of AND (collection, rkey) = ('com.example.a', $one); SELECT atproto.repo_car('$did', 'again')"),
	qr/record com\.example\.a\/\S+ of repository \S+ in schema "again" does not fit its CID/, 'O-03: a value that was changed');
like(fails("SELECT atproto.repo_car('did:web:a.b', 'again')"), qr/has no repository did:web:a\.b\n.*HINT:  SELECT did FROM again\.repo shows/s, 'an account that is not known');
is(query(q{SELECT count(*) FROM atproto.repo_car(NULL) c WHERE c IS NOT NULL}), '0', 'of NULL');

# --- commits with further members ---

is(query("BEGIN; UPDATE again.repo SET commit_block = jsonb_to_dagcbor(dagcbor_to_jsonb(atproto.commit_block(did, rev, data, sig, NULL)) || jsonb_build_object('prev', jsonb_build_object('\$link', commit), 'more', 1)) $of;
	UPDATE again.repo SET commit = cidlink_of(commit_block) $of;
	SELECT (car_roots(atproto.repo_car(did, 'again')))[1] = commit, (SELECT block = commit_block FROM car_blocks(atproto.repo_car(did, 'again')) LIMIT 1) FROM again.repo $of; ROLLBACK"),
	't|t', 'O-02: a commit with more members is given out as it came');

# --- views in place of the tables ---

# The function of the view answers the condition with a value, and the output column with null.
query(q{CREATE SCHEMA lies; CREATE SEQUENCE lies.asked; CREATE TABLE lies.record (LIKE atproto.record);
	CREATE FUNCTION lies.once(v text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RETURN CASE WHEN nextval('lies.asked') % 2 = 0 THEN v END; END $$;
	CREATE TABLE lies.truth AS SELECT * FROM again.repo});

foreach my $case ([ 'sig', "decode(lies.once(encode(t.sig, 'hex')), 'hex')", "atproto.repo_car('$did', 'lies')" ], [ 'did', 'lies.once(t.did::text)::did', "atproto.audit('$did', 'lies')" ])
{
	my ($column, $lie, $call) = @$case;
	my $columns = query("SELECT string_agg(CASE attname WHEN '$column' THEN \$x\$$lie AS $column\$x\$ ELSE 't.' || quote_ident(attname) END, ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'lies.truth'::regclass AND attnum > 0");

	query("CREATE OR REPLACE VIEW lies.repo AS SELECT $columns FROM lies.truth t");
	# PostgreSQL chooses which of the two is computed first
	my @answers = map { fails("SELECT setval('lies.asked', $_); SELECT $call") } 1, 2;
	is(scalar(grep { /ERROR:  column "$column" is null/ } @answers), 1, "a view whose column $column is null, although a condition says that it is not") or diag("@answers");
}

# --- many records ---

my $many = $ENV{ATPROTO_OUT_RECORDS} || 20_000;

query(qq{CREATE SCHEMA big; INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('big', 'wss://localhost:1', 'big', false); SELECT atproto.create_tables('big');
	INSERT INTO big.record (did, collection, rkey, cid, rev, value) SELECT 'did:web:big.example', 'a.b.c', k::recordkey, cidlink_of(jsonb_to_dagcbor(v)), '3mbd3542k2222', v
	FROM (SELECT 'k' || n AS k, jsonb_build_object('\$type', 'a.b.c', 'n', CASE WHEN n % 50 = 0 THEN n % 400 ELSE n END, 'text', repeat('x', n % 200)) AS v FROM generate_series(1, $many) n) x;
	INSERT INTO big.repo (did, rev, data, sig, sync) SELECT 'did:web:big.example', '3mbd3542k2222', atproto.repo_root('a.b.c/' || rkey::text, cid ORDER BY rkey::text COLLATE "C"), decode(repeat('01', 64), 'hex'), 'partial' FROM big.record;
	UPDATE big.repo SET commit = cidlink_of(atproto.commit_block(did, rev, data, sig, NULL)); ANALYZE big.record});
is(query(q{SELECT count(*), count(*) FILTER (WHERE r.value IS DISTINCT FROM c.value) FROM car_records(atproto.repo_car('did:web:big.example', 'big')) c
	LEFT JOIN big.record r ON r.cid = c.cid AND c.uri = ('at://did:web:big.example/a.b.c/' || r.rkey::text)::aturi}), "$many|0", "O-07: $many records");
is(query(q{SELECT count(*) - count(DISTINCT cid) FROM car_blocks(atproto.repo_car('did:web:big.example', 'big'))}), '0', 'O-01: of many blocks, too, none comes twice');
cmp_ok(query(q{SELECT count(*) - count(DISTINCT cid) FROM big.record}), '>', 300, 'though many stand at several paths');
is(query(q{SELECT string_agg(c, ''::bytea) = atproto.repo_car('did:web:big.example', 'big'), max(length(c)) < 300000, count(*) > 10 FROM atproto.repo_car_chunks('did:web:big.example', 'big') c}), 't|t|t', 'O-01: in pieces of a bounded size');
is(query(q{BEGIN; DECLARE c CURSOR FOR SELECT encode(c, 'hex') FROM atproto.repo_car_chunks('did:web:big.example', 'big') c; FETCH 1 FROM c; DELETE FROM big.record; FETCH ALL FROM c; ROLLBACK}) =~ s/\n//gr
	eq query(q{SELECT encode(atproto.repo_car('did:web:big.example', 'big'), 'hex')}), 1, 'O-01: whatever is written after the first piece');
is(query(q{BEGIN; WITH gone AS (DELETE FROM big.record RETURNING 1), n AS MATERIALIZED (SELECT count(*) AS n FROM gone)
	SELECT n, (SELECT count(*) FROM car_records(atproto.repo_car('did:web:big.example', CASE WHEN n > 0 THEN 'big' END::name))) FROM n; ROLLBACK}), "$many|$many",
	'O-01: the rows are those of the statement\'s snapshot');
like(fails(q{SET statement_timeout = '5ms'; SELECT length(atproto.repo_car('did:web:big.example', 'big'))}), qr/canceling statement/, 'O-07: it can be cancelled');

# The program is a child of the server process, whose memory it limits to 64 MB more than the process has now.
my $limit = q{COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; prlimit --pid $PPID --data=$(( ($(awk "/^VmData/ {print \$2}" /proc/$PPID/status) + 64 * 1024) * 1024 ))'};

SKIP:
{
	skip('the long form only', 1) if $many < 100_000 || system('prlimit --version >/dev/null 2>&1') != 0;
	my $length = query(q{SELECT length(atproto.repo_car('did:web:big.example', 'big'))});
	is(query("$limit; SELECT sum(length(c)) FROM atproto.repo_car_chunks('did:web:big.example', 'big') c"), $length, "O-07: $length bytes in 64 MB");
}

done_testing();
