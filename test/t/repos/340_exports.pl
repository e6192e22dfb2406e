# 340_exports.pl
#		load_car() writes an account's export into tables with no record of the account, some, wrong
#		records, or all.  Afterwards the tables have exactly the account's records, unchanged rows were not
#		touched, and triggers have seen each change once.  Tried with partitions, with refused rows, with
#		exports cut, wrong, too large, or built to cost time and memory, and beside a stream.  R-40 to R-56,
#		V-14.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use PostgreSQL::Test::Utils;
use Test::More;

my $files = make_exports();
my $node  = make_node('exports', conf => "max_worker_processes = 12\nlog_temp_files = 0");
my %who   = (big => did('c'), collections => did('d'), no_collections => did('d'));

sub load_sql
{
	my ($name, $target) = @_;
	my $who = $who{$name} || did('a');

	return "SELECT concat_ws(' ', created, updated, deleted, same, refused) FROM atproto.load_car('$who', pg_read_binary_file('$files/$name.car'), '$target')";
}

sub load
{
	return query(load_sql(@_));
}

# The error's text.
sub refused
{
	my ($name, $target, $before) = @_;

	return ($node->psql('postgres', ($before // '') . load_sql($name, $target)))[2];
}

sub audit_is
{
	my ($target, $name, $records, $what) = @_;
	my $who = $who{$name} || did('a');

	is(query("SELECT equal, records FROM atproto.audit('$who', '$target', deep => true)"), "t|$records", $what);
}

# A schema whose subscription never connects.
sub make_target
{
	my ($name, %options) = @_;
	my $values = join ', ', values %options;
	my $names  = join ', ', keys %options;

	query("CREATE SCHEMA IF NOT EXISTS $name;
		INSERT INTO atproto.subscription (name, url, target, enabled" . ($names && ", $names") . ")
		VALUES ('$name', 'wss://localhost:1', '$name', false" . ($values && ", $values") . ");
		SELECT atproto.create_tables('$name')");
}

my $fingerprint = "SELECT md5(string_agg(concat_ws(' ', did, collection, rkey, ctid, xmin), E'\\n' ORDER BY did, collection, rkey)) FROM %s.record";

# --- the rows in the table decide what load_car() does ---

make_target('plain');
is(load('first', 'plain'), '537 0 0 0 0', 'R-52: into an empty table');
audit_is('plain', 'first', 537, 'R-52: the tables have what the account has');
is(query('SELECT rev, sync, synced_at IS NOT NULL, "commit" IS NOT NULL, first_rev FROM plain.repo'),
	query('SELECT rev FROM plain.record LIMIT 1') . '|synchronized|t|t|', 'R-53, R-55: its state says so');
my $before = query(sprintf $fingerprint, 'plain');
is(load('first',    'plain'), '0 0 0 537 0', 'R-52: equal records');
is(load('shuffled', 'plain'), '0 0 0 537 0', 'R-40: blocks in another order');
# The commit of a server's export comes first: what follows the commit of another account is not read.
foreach my $c ([ 'first', qr/of another account/ ], [ 'shuffled', qr/invalid CAR file/ ])
{
	my (undef, undef, $err) = $node->psql('postgres', "SELECT atproto.load_car('" . did('b') . "', pg_read_binary_file('$files/$c->[0].car') || '\\x05', 'plain')");
	like($err, $c->[1], "R-42: $c->[0]: the commit is judged when it comes, or after the last block");
}
is(load('twice',    'plain'), '0 0 0 537 0', 'R-40: blocks that come twice');
is(query(sprintf $fingerprint, 'plain'), $before, 'R-52: not one row was touched');
query('UPDATE plain.repo SET rev = NULL');
is(load('second', 'plain'), '2 2 8 527 0', 'R-52: what was created, changed and removed since');
audit_is('plain', 'second', 531, 'R-52: and nothing else is there');
is(load('none', 'plain'), '0 0 531 0 0', 'R-52: an account that has removed everything');
audit_is('plain', 'none', 0, 'R-52: nothing is left');
query('UPDATE plain.repo SET rev = NULL');
is(load('second', 'plain'), '531 0 0 0 0', 'everything comes back');

# Some records are missing, some have a wrong CID, some do not belong to the account: in collections of the
# account, before, between and after them.
query(q{DELETE FROM plain.record WHERE cid::text ~ '[a-h]$';
	UPDATE plain.record SET cid = (SELECT "commit" FROM plain.repo) WHERE cid::text ~ '[i-l]$';
	INSERT INTO plain.record SELECT r.did, c::nsid, k::recordkey, r.cid, r.rev, now(), r.value
	FROM (SELECT * FROM plain.record LIMIT 1) r, unnest(ARRAY['aa.aa.aa', 'com.ex.a', 'com.ex.a-b.a', 'com.ex.a-b.zz', 'com.ex.a.b', 'com.ex.a.b.c.d', 'com.ex.a1.b', 'com.example.note', 'zz.zz.zz']) c,
		unnest(ARRAY['-', 'self-', '3mbd3542k2223', '~~~']) k});
my ($rows, $other) = split /\|/, query(q{SELECT count(*) FILTER (WHERE rkey NOT IN ('-', 'self-', '3mbd3542k2223', '~~~')), count(*) FILTER (WHERE cid = (SELECT "commit" FROM plain.repo)
	AND rkey NOT IN ('-', 'self-', '3mbd3542k2223', '~~~')) FROM plain.record});
is(load('second', 'plain'), join(' ', 531 - $rows, $other, 36, $rows - $other, 0), 'R-52: a table in which everything is wrong');
audit_is('plain', 'second', 531, 'R-52: it is right again');

# --- invalid exports ---

$before = query(sprintf $fingerprint, 'plain');
my $state = query('SELECT * FROM plain.repo');
like(refused('older',          'plain'), qr/DETAIL:  the export is older than the repository's revision/, 'R-50: an export that is older');
like(refused('other',          'plain'), qr/another account/,                                               'R-42: of another account');
like(refused('future',         'plain'), qr/lies in the future/,                                            'V-14: of a revision that cannot be');
like(refused('without_record', 'plain'), qr/invalid repository, at byte \d+ of block bafy\w+, after path "app.bsky.feed.post/, 'R-43: a record is lacking');
like(refused('without_node',   'plain'), qr/A tree node is not among the blocks/, 'R-43: a node is lacking');
like(refused('other_codec',    'plain'), qr/invalid repository/,                  'R-43: a record is there under another name');
like(refused('wrong_hash',     'plain'), qr/invalid CAR file at byte \d+\nDETAIL:  The block's bytes do not give its CID/, 'R-41: the last byte is wrong');
like(refused('first', 'plain', 'SET ROLE pg_monitor; '), qr/permission denied/, 'R-57: nobody may who was not told so');
foreach my $setting ('max_repo_records = 500', 'max_repo_bytes = 64')
{
	$node->append_conf('postgresql.conf', "atproto.$setting");
	$node->reload;
	my ($name) = $setting =~ /(\w+)/;
	wait_for("SELECT setting IN ('500', '64') FROM pg_settings WHERE name = 'atproto.$name'");
	like(refused('second', 'plain'), qr/the export exceeds "atproto.$name"/, "R-45: $name");
	$node->append_conf('postgresql.conf', "atproto.$name = 10000000");
	$node->reload;
	wait_for("SELECT setting = '10000000' FROM pg_settings WHERE name = 'atproto.$name'");
}
like(refused('big', 'plain', "SET temp_file_limit = '1MB'; "), qr/temporary file size exceeds/, 'R-46: no room for a temporary file');
like(refused('big', 'plain', "SET statement_timeout = '20ms'; "), qr/statement timeout/, 'it can be cancelled');
is(query("SELECT count(*) FROM pg_ls_tmpdir()"), '0', 'and leaves no file');
is(query(sprintf $fingerprint, 'plain'), $before, 'no row was touched');
is(query('SELECT * FROM plain.repo'), $state, 'nor the state');

# --- large, and made to take time ---

is(load('big', 'plain'), '20000 0 0 0 0', 'R-46: an export that does not fit into memory, in any order');
like(slurp_file($node->logfile), qr/temporary file: path .*, size \d{7}/, 'R-46: it went through a temporary file');
audit_is('plain', 'big', 20000, 'R-46: of which nothing was lost');
my $elsewhere = PostgreSQL::Test::Utils::tempdir('elsewhere');
query("CREATE TABLESPACE elsewhere LOCATION '$elsewhere'");
is((split /\n/, query('SET temp_tablespaces = elsewhere; ' . load_sql('big', 'plain')))[-1], '0 0 0 20000 0', 'R-52: and once more');
like(slurp_file($node->logfile), qr/temporary file: path "pg_tblspc\/.*, size \d{7}/, 'R-46: the temporary file of a call is in temp_tablespaces');
is(load('collections',    'plain'), '3000 0 0 0 0', 'thousands of collections');
is(load('collections',    'plain'), '0 0 0 3000 0', 'thousands of collections that are equal');
is(load('no_collections', 'plain'), '0 0 3000 0 0', 'thousands of collections to be removed');
make_target('tiny');
is(load('tiny', 'tiny'), '537 0 0 0 0', 'R-40: blocks that nothing needs');

# --- slices: whatever the tables had before, and wherever one slice ends and the next begins ---

# The table has a random share of the export's records, some of them changed, and a random number of records
# that the account never had.
make_target('sliced');
query(<<'SQL');
CREATE TABLE sliced.truth AS SELECT did, collection, rkey, cid, rev, value FROM plain.record WHERE false;
CREATE FUNCTION sliced.spoil(share double precision) RETURNS void LANGUAGE sql SET search_path = public AS $$
	DELETE FROM sliced.record;
	UPDATE sliced.repo SET rev = NULL, sync = 'partial';
	INSERT INTO sliced.record (did, collection, rkey, cid, rev, value)
	SELECT did, collection, rkey, CASE WHEN random() < 0.8 THEN cid ELSE (SELECT "commit" FROM sliced.repo) END, rev, value
	FROM sliced.truth WHERE random() < share
	UNION ALL
	SELECT t.did, c::nsid, ('other' || n)::recordkey, t.cid, t.rev, t.value FROM (SELECT * FROM sliced.truth LIMIT 1) t,
		unnest(ARRAY['aa.aa.aa', 'app.bsky.feed.post', 'com.ex.a', 'com.ex.a-b.a', 'com.ex.a-b.zz', 'com.ex.a.b', 'com.example.note', 'zz.zz.zz']) c,
		generate_series(1, 3) n WHERE random() < 0.3
$$;
SQL
query(load_sql('second', 'sliced'));
query('INSERT INTO sliced.truth SELECT did, collection, rkey, cid, rev, value FROM sliced.record');
my $difference = "SELECT count(*), count(t.did), count(r.did), count(*) FILTER (WHERE t.cid = r.cid), (SELECT sync FROM sliced.repo), (SELECT equal FROM atproto.audit('" . did('a') . "', 'sliced'))
	FROM sliced.truth t FULL JOIN sliced.record r USING (did, collection, rkey)";
my (@after, @programs);
foreach my $paths (1, 2, 3, 5, 17, 60, 300, 528)
{
	foreach my $share (0, 0.005, 0.1, 0.5, 0.95, 1)
	{
		my $seed = 0.001 * (@programs + 1);
		push @programs, "$paths paths a slice, $share of the rows before, setseed($seed)";
		push @after, query("SET atproto.test_merge_slice = $paths; SELECT setseed($seed); SELECT sliced.spoil($share);
			SELECT sum(created + same + updated) FROM (" . load_sql('second', 'sliced') =~ s/concat_ws\(.*?\)/\*/r . ") l; $difference");
	}
}
is_deeply([ map { (split /\n/)[-2] . ' ' . (split /\n/)[-1] } @after ], [ ('531 531|531|531|531|synchronized|t') x @after ], 'R-52: whatever the slices, afterwards the rows are those of the export')
  or diag(join "\n", @programs);
query("INSERT INTO sliced.record SELECT * FROM plain.record WHERE did = '" . did('c') . "' ORDER BY rkey DESC LIMIT 1");
is((split /\n/, query("SET atproto.test_merge_slice = 10000; " . load_sql('big', 'sliced')))[-1], '19999 0 0 1 0', 'R-52: one row before, the newest, and two slices');
audit_is('sliced', 'big', 20000, 'R-52: all are there');

# --- triggers, events, partitions, and refused rows ---

query(<<'SQL');
CREATE SCHEMA parts;
CREATE TABLE parts.record (did did, collection nsid, rkey recordkey, cid cidlink NOT NULL, rev atproto.tid NOT NULL,
	indexed_at timestamptz NOT NULL DEFAULT now(), value jsonb, raw bytea, PRIMARY KEY (did, collection, rkey)) PARTITION BY LIST (collection);
CREATE TABLE parts.post PARTITION OF parts.record FOR VALUES IN ('app.bsky.feed.post') PARTITION BY HASH (did, rkey);
CREATE TABLE parts.post0 PARTITION OF parts.post FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parts.post1 PARTITION OF parts.post FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE parts.other PARTITION OF parts.record DEFAULT;
SQL
make_target('parts', events => "'keep'");
query(<<'SQL');
CREATE TABLE parts.seen (op text, path text);
CREATE FUNCTION parts.see() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS $$
BEGIN
	IF NEW.rkey = '~' THEN
		RAISE EXCEPTION 'not this one';
	END IF;
	INSERT INTO parts.seen VALUES (TG_OP, coalesce(NEW.collection, OLD.collection) || '/' || coalesce(NEW.rkey, OLD.rkey));
	RETURN NULL;
END $$;
CREATE TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON parts.record FOR EACH ROW EXECUTE FUNCTION parts.see();
SQL
my @first = (530, 0, 0, 0, 7);
is(load('first', 'parts'), "@first", 'R-56: what a trigger refuses does not keep the others away');
is(query("SELECT stage, message, count(*), count(seq), bool_and(path LIKE '%/~' AND f.bytes IS NOT NULL) FROM atproto.dead_letter JOIN atproto.dead_frame f USING (subscription, digest)
	WHERE subscription = 'parts' GROUP BY 1, 2"), 'apply|not this one|7|0|t', 'R-56: it becomes dead letters, with its bytes');
is(query('SELECT DISTINCT sync FROM parts.repo'), 'synchronized', 'R-56: the repository counts as synchronized');
is(query("SELECT reason, records FROM atproto.audit('" . did('a') . "', 'parts')"), 'other records|530', 'R-56: an audit names the difference');
is(query('SELECT op, count(*), count(DISTINCT path) FROM parts.seen GROUP BY 1'), 'INSERT|530|530', 'triggers have seen each record once');
query('TRUNCATE parts.seen');
is(load('second', 'parts'), '2 2 7 521 6', 'R-52: in partitions');
is(query('SELECT op, count(*), count(DISTINCT path) FROM parts.seen GROUP BY 1 ORDER BY 1'), "DELETE|7|7\nINSERT|2|2\nUPDATE|2|2", 'triggers have seen each change once');
is(query('SELECT action, count(*), count(seq), count(cid), count(old_cid), count(DISTINCT rev) FROM parts.record_event GROUP BY 1 ORDER BY 1'),
	"create|532|0|532|0|2\ndelete|7|0|0|7|1\nupdate|2|0|2|2|1", 'R-53: so have the events, without a number, with what was there');
is(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'parts'"), '6', 'R-56: letters are of the last export alone');
is(query("SELECT DISTINCT atproto.retry(id) FROM atproto.dead_letter WHERE subscription = 'parts'"),
	'it is of a record in an export: it is tried again with the next export of the repository', 'and are not tried again as events');
query('DROP TRIGGER see ON parts.record');
is(load('again', 'parts'), '6 0 0 525 0', 'the next export brings them');
audit_is('parts', 'again', 531, 'R-52: the account has no more than that');
is(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'parts'"), '0', 'and no letter is left');

# --- odd records and paths: the same verdict as in a stream ---

is(load('strange', 'plain'), '2 0 531 0 5', 'B-65: paths that are those of no record, and records that are none');
is(query("SELECT path, message FROM atproto.dead_letter WHERE subscription = 'plain' ORDER BY path COLLATE \"C\""),
	join("\n", 'com.Example.note/1|A path is not a collection and a record key. (byte 1)', 'com.example.note/2|A record must have "$type". (byte 1)',
		'com.example.note/3|A record must be a map. (byte 1)', 'com.example.note/a/b|A path is not a collection and a record key. (byte 1)',
		'nothing|A path is not a collection and a record key. (byte 1)'), 'each is a dead letter');
is(query("SELECT rkey, value IS NULL, raw IS NULL FROM plain.record WHERE did = '" . did('a') . "' ORDER BY 1"), "1|f|t\n4|" . (($ENV{ATPROTO_VALUE} // '') eq 'dagcbor' ? 'f|t' : 't|f'),
	'D28: bytes that jsonb cannot hold, in raw, or in a value of the type dagcbor');

is(load('no_text', 'plain'), '0 0 2 0 5', 'B-65: paths that are no text');
is(query("SELECT path FROM atproto.dead_letter WHERE subscription = 'plain' ORDER BY path COLLATE \"C\""),
	join("\n", '#identity', '??/x', 'a?b/c', 'com.example.note/?', 'x' x 1024), 'their letters can be read');
like(refused('zeros', 'plain'), qr/after path "\?{1024}"\nDETAIL:  A record of the tree is not among the blocks/, 'R-43: nor is the error\'s path any longer than it is');
is(load('cleared', 'plain'), '0 0 0 0 0', 'an export without records');
is(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'plain'"), '0', 'R-56: no letter is left, whatever its path');
SKIP:
{
	skip 'nobody tells how much memory a process has taken', 2 unless -r '/proc/self/status';
	my $peak = "SELECT substring(pg_read_file('/proc/' || pg_backend_pid() || '/status') FROM 'VmHWM:\\s*(\\d+)')";
	my ($less, $done, $more) = split /\n/, query("$peak; " . load_sql('letters', 'plain') . "; $peak");
	is($done, '0 0 0 0 15000', 'an export of which nothing can be stored');
	cmp_ok($more - $less, '<', 64 * 1024, 'R-46: takes no memory for each letter');
}

# --- a value stored compressed is still valid after a step's memory is freed ---

my ($long) = run_command([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/oracle/export.py', '--long' ]);
@who{qw(long longer)} = ($long, $long);
is(load('long', 'plain'), '1 0 0 0 0', 'an account whose DID is long');
is(query("SELECT pg_column_size(rkey) < length(rkey::text) FROM plain.record WHERE did = '$long'"), 't', 'its row is compressed');
is(load('longer', 'plain'), '2100 0 0 1 0', 'a row that is compared with more records than are written in a step');
audit_is('plain', 'longer', 2101, 'all are there');

# --- filters ---

make_target('few', collections => "'{com.ex.*}'", actions => "'{create,update}'");
is(load('first', 'few'), '35 0 0 0 0', 'R-52: only what the filter wants');
query("UPDATE atproto.subscription SET actions = NULL WHERE name = 'few'; INSERT INTO few.record SELECT did, 'com.other.a', rkey, cid, rev, now(), value FROM few.record WHERE rkey = 'self' LIMIT 1");
is(load('second', 'few'), '1 1 7 27 0', 'R-52: is removed, too');
is(query("SELECT count(*) FROM few.record WHERE collection = 'com.other.a'"), '1', 'R-52: what it does not want stays');

# --- beside a stream ---

my $capture = make_capture('export.py', '--stream');
my $server  = AtprotoTest::Server->start($capture, '--hold-at', 2);
query('CREATE SCHEMA live');
query(subscribe_sql('live', $server, cursor => 0, target => "'live'"));
wait_for_seq($node, 'live', 1);
is(query('SELECT sync FROM live.repo'), 'synchronized', 'the first commit of an account is proven');
is(load('second', 'live'), '531 0 1 0 0', 'R-50: an export that is newer');
$server->release;
wait_for_seq($node, 'live', 4);
is(query("SELECT string_agg(rkey::text, ' ' ORDER BY rkey) FROM live.record WHERE collection = 'com.example.note'"), 'a b last new', 'what comes after it goes on from it; a commit with a path of no record is refused as a whole');
is(query("SELECT stage, message FROM atproto.dead_letter WHERE subscription = 'live'"), 'message|A path is not a collection and a record key. (byte 22)', 'B-65: by the same rule');
is(query('SELECT sync FROM live.repo'), 'desynchronized', 'V-33: which the next one shows');

done_testing();
