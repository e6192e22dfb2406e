# 277_erase.pl
#		erase(): erasure() lists every column of the catalogue that can hold an account, erase() removes every row of the
#		account and no row of a second account or a foreign role, and derived tables, counts and consumers stay exact.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

# No process runs but the sessions: nothing changes by itself.
my $node = make_node('still', databases => '', create => 0);
query('CREATE EXTENSION atproto');

# ------------------------------------------------------------------------
# The list and the catalogue
# ------------------------------------------------------------------------

query("SELECT atproto.create_tables('atproto')");
my $columns = <<'EOSQL';
CREATE TEMP VIEW listed AS SELECT is_data, relation, regexp_split_to_table(columns, ' ') AS name, treatment FROM atproto.erasure();
CREATE TEMP VIEW present AS
	SELECT c.relname IN (SELECT relation FROM atproto.erasure() WHERE is_data) AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = c.oid AND deptype = 'e') AS is_data,
		c.relname AS relation, a.attname AS name
	FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped JOIN pg_type t ON t.oid = a.atttypid
	WHERE c.relnamespace = 'atproto'::regnamespace AND c.relkind IN ('r', 'p')
		AND format_type(CASE WHEN t.typelem <> 0 AND t.typlen = -1 THEN t.typelem ELSE t.oid END, NULL)
			NOT IN ('boolean', 'smallint', 'integer', 'bigint', 'double precision', 'oid', 'regrole', 'uuid', 'timestamp with time zone', 'atproto.tid', 'int8multirange');
EOSQL
is(query("$columns SELECT string_agg(p.relation || '.' || p.name, ' ' ORDER BY 1) FROM present p WHERE NOT EXISTS"
		. ' (SELECT FROM listed l WHERE l.is_data = p.is_data AND l.relation = p.relation AND l.name IN ($$*$$, p.name))'),
	'', 'each column that can hold an account is in the list');
is(query("$columns SELECT string_agg(l.relation || '.' || l.name, ' ' ORDER BY 1) FROM listed l WHERE l.relation NOT LIKE 'node_%' AND NOT EXISTS"
		. ' (SELECT FROM pg_attribute WHERE attrelid = to_regclass($$atproto.$$ || quote_ident(l.relation)) AND (l.name = $$*$$ OR attname = l.name))'),
	'', 'the list names no column that is not there');

# ------------------------------------------------------------------------
# Each table
# ------------------------------------------------------------------------

my ($gone, $stays) = map { "did:plc:aaaaaaaaaaaaaaaaaaaaaaa$_" } qw(a b);

# Rows of the account in each table of a target and of the extension, by a subscription of this name.
sub rows_of
{
	my ($did, $target, $name) = @_;
	my $cid = 'bafyreie5cvv4h45feadgeuwhbcutmh6t2ceseocckahdoe6uat64zmz454';
	my $d = substr $did, -1;

	return <<"EOSQL";
INSERT INTO $target.record (did, collection, rkey, cid, value, rev) VALUES ('$did', 'app.bsky.feed.like', '1', '$cid', '{"subject": {"uri": "at://did:plc:cccccccccccccccccccccccc/app.bsky.feed.post/1"}}', '3jzfcijpj2z2a');
INSERT INTO $target.link_source VALUES (1, 'app.bsky.feed.like', 'subject.uri') ON CONFLICT DO NOTHING;
INSERT INTO $target.link VALUES ('at://did:plc:cccccccccccccccccccccccc/app.bsky.feed.post/1', 1, '1', '$did');
INSERT INTO $target.repo (did, rev, "commit", data, hold) VALUES ('$did', '3jzfcijpj2z2a', '$cid', '$cid', 'identity');
INSERT INTO $target.record_event (subscription, seq, action, did, collection, rkey, rev) VALUES ('$name', 1, 'delete', '$did', 'app.bsky.feed.like', '2', '3jzfcijpj2z2a');
INSERT INTO $target.label (src, uri, val, neg, cts) VALUES ('$did', 'did:plc:cccccccccccccccccccccccc', '$d', false, now()),
	('did:plc:cccccccccccccccccccccccc', '$did', 'x', false, now()), ('did:plc:cccccccccccccccccccccccc', 'at://$did', 'x', false, now()),
	('did:plc:cccccccccccccccccccccccc', 'at://$did/app.bsky.feed.post/1', 'x', false, now());
INSERT INTO $target.message (subscription, endpoint, seq, type, payload) VALUES ('$name', 'e', ascii('$d'), '#x', '{"of": "$did"}');
INSERT INTO $target.message (subscription, endpoint, seq, type, raw) VALUES ('$name', 'e', 200 + ascii('$d'), '#x', convert_to('x$did', 'UTF8'));
INSERT INTO $target.sweep_deletion (did, path, rev) VALUES ('$did', '#account', '3jzfcijpj2z2a');
INSERT INTO $target.plc_operation (did, cid, n, created_at, packed) VALUES ('$did', '$cid', 1, now(), '\\x00');
INSERT INTO $target.plc_refused (did, digest, reason, detail, subscription) VALUES ('$did', '\\x00', 'x', 'x', '$name');
INSERT INTO atproto.held_event (target, did, rev, subscription, seq, why, shard_key, bytes, verify, format, endpoint) VALUES ('$target', '$did', '3jzfcijpj2z2a', '$name', 4, 'identity', 0, '$did', 'full', 'dag-cbor', 'e');
INSERT INTO atproto.held_release (target, did, shard_key, subscription) VALUES ('$target', '$did', 0, '$name');
INSERT INTO atproto.status_request (target, did, subscription, why, requested_at) VALUES ('$target', '$did', '$name', 'inactive', now());
INSERT INTO atproto.repo_job (target, did, subscription, priority, reason) VALUES ('$target', '$did', '$name', 3, 'x');
INSERT INTO atproto.repo_fetched VALUES ('$target', '$did', '{now}');
INSERT INTO atproto.proof_result (target, did, subscription, proved_set) VALUES ('$target', '$did', '$name', 0);
INSERT INTO atproto.dead_frame (subscription, digest, bytes, format, endpoint) VALUES ('$name', '\\x00$d$d', 'of $did', 'dag-cbor', 'e'), ('$name', '\\x01$d$d', 'frame $did', 'dag-cbor', 'e');
INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, digest, did) VALUES ('$name', 'commit', '22P03', 'x', '\\x00$d$d', '$did'), ('$name', 'frame', '22P03', 'x', '\\x01$d$d', NULL);
INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason, did) VALUES ('$name', 'e', 1, 3, 'held events dropped', '$did');
INSERT INTO atproto.plc_log_request (subscription, did, why, requested_at) VALUES ('$name', '$did', 'prev', now());
EOSQL
}

sub shared_rows_of
{
	my ($did) = @_;
	my $d = substr $did, -1;

	return <<"EOSQL";
INSERT INTO atproto.identity (did, state, handle_claimed) VALUES ('$did', 'wanted', '$d.example.com');
INSERT INTO atproto.identity_request (did, web) VALUES ('$did', false);
INSERT INTO atproto.handle_request (did, role) VALUES ('$did', 10);
INSERT INTO atproto.handle_lookup (handle, role) VALUES ('$d.example.com', 10);
INSERT INTO atproto.handle_lookup (handle, role, did) VALUES ('$d.example.net', 10, '$did');
EOSQL
}

# The number of rows with the account, by a look at the whole rows: a word for each table, with its name and the number.
sub rows_with
{
	my ($did, $schema) = @_;

	return query(<<"EOSQL");
SELECT string_agg(x, ' ' ORDER BY x) FROM (SELECT relname || ':' || (xpath('//n/text()', query_to_xml(format('SELECT count(*) AS n FROM %s t WHERE position(%L in t::text) > 0 OR position(%L in t::text) > 0',
		c.oid::regclass, '$did', encode('$did', 'hex')), false, true, '')))[1]::text AS x
	FROM pg_class c WHERE relnamespace = '$schema'::regnamespace AND relkind = 'r') t WHERE x !~ ':0\$'
EOSQL
}

query(<<'EOSQL');
CREATE ROLE owner LOGIN; CREATE ROLE foreign_owner LOGIN; CREATE SCHEMA own AUTHORIZATION owner; CREATE SCHEMA alien AUTHORIZATION foreign_owner;
SELECT atproto.grant_to('owner', 'own', 'subscribe'), atproto.grant_to('foreign_owner', 'alien', 'subscribe');
GRANT EXECUTE ON PROCEDURE atproto.erase TO owner; GRANT EXECUTE ON FUNCTION atproto.account_traces TO owner;
SET ROLE owner; SELECT atproto.create_tables('own'); INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('own', 'wss://localhost', 'own', false);
SET ROLE foreign_owner; SELECT atproto.create_tables('alien'); INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('alien', 'wss://localhost', 'alien', false);
RESET ROLE;
EOSQL
foreach my $did ($gone, $stays)
{
	query(rows_of($did, $_, $_)) foreach qw(own alien);
	query(shared_rows_of($did));
}
my %before = map { $_ => { $gone => rows_with($gone, $_), $stays => rows_with($stays, $_) } } qw(own alien atproto);
my ($others) = query(q{SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class c WHERE relkind = 'r' AND relnamespace = 'own'::regnamespace
	AND relname NOT IN ('collection_count', 'link_count', 'link_source', 'plc_text')});
is(join(' ', map { s/:.*//r } split / /, $before{own}{$gone}), $others, 'a row in each data table that can hold an account');

# Rows of the foreign role, and rows of the tables of all roles, stay.
sub erase_as
{
	my ($role, $args) = @_;
	return ($node->psql('postgres', "SET SESSION AUTHORIZATION $role; CALL atproto.erase($args)"))[2];
}
my $said = erase_as('owner', "'$gone'");
unlike($said, qr/ERROR/, 'erase() as the owner');
like($said, qr/NOTICE:  record: 1 rows removed/, 'reports the rows of a table');
like($said, qr/NOTICE:  link: 1 rows removed/, 'links, too');
like($said, qr/the tables of \d+ schemas belong to other owners/, 'and that tables of others remain');
is(rows_with($gone, 'own'), 'plc_operation:1 plc_refused:1', 'all rows of the account are gone from the target, but for the public log');
is(rows_with($stays, 'own'), $before{own}{$stays}, 'those of another account stay');
is(rows_with($gone, 'alien'), $before{alien}{$gone}, 'so do those of another owner');
is(query("SELECT string_agg(DISTINCT subscription, ' ') FROM atproto.dead_frame WHERE position('$gone'::bytea in bytes) > 0"), 'alien', 'with their dead letters');
is(query("SELECT count(*) FROM atproto.identity WHERE did = '$gone'"), '1', 'the document is of all roles');
like(erase_as('owner', "'$gone', target => 'alien'"), qr/ERROR:  must have the rights of the owner of the tables of schema "alien"/, 'a target of another owner');
like(erase_as('foreign_owner', "'$gone'"), qr/ERROR:  permission denied for procedure erase/, 'without a grant');
is(query("SET ROLE owner; SELECT string_agg(object || ':' || COALESCE(rows::text, '?'), ' ' ORDER BY object) FROM atproto.account_traces('$gone') WHERE place = 'table' AND object LIKE 'own.%'"),
	'own.plc_operation:1 own.plc_refused:1', 'account_traces() says what remains');
is(query("SET ROLE owner; SELECT count(*) > 5, count(rows) FROM atproto.account_traces('$gone') WHERE place = 'table' AND object LIKE 'alien.%'"), 't|0', 'and which tables the caller may not read');

$said = erase_as('owner', "'$gone', directory => true");
is(rows_with($gone, 'own'), '', 'directory => true: the log, too');
is(query("SELECT string_agg(subscription, ' ') FROM atproto.plc_log_request WHERE did = '$gone'"), 'alien', 'and the request for it');

# A slice of an export holds the row of its job, and has written records without a commit.
my $superuser = getpwuid($<);
my $slice = $node->background_psql('postgres', on_error_stop => 1);
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason) VALUES ('own', '$gone', 'own', 3, 'x')");
$slice->query_safe("BEGIN; SELECT FROM atproto.repo_job WHERE target = 'own' AND did = '$gone' FOR KEY SHARE;"
	. "INSERT INTO own.record SELECT '$gone', collection, n::text::recordkey, cid, rev, indexed_at, value FROM own.record, generate_series(1, 4001) n WHERE did = '$stays'");
my $erasing = IPC::Run::start([ 'psql', '-Xd', $node->connstr('postgres'), '-c', "CALL atproto.erase('$gone', target => 'own')" ], '<', \undef, '>&', \my $erased);
wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'CALL atproto.erase%' AND wait_event_type = 'Lock'");
$slice->query_safe('COMMIT');
$erasing->finish;
$slice->quit;
like($erased, qr/NOTICE:  record: 4001 rows removed/, 'the last piece waits for the slice, and removes its records');
is(rows_with($gone, 'own'), '', '... so that nothing is left');

# An answer with the account's log would bring the operations back, so it goes first.
$slice = $node->background_psql('postgres', on_error_stop => 1);
$slice->query_safe('BEGIN; LOCK TABLE atproto.identity IN SHARE ROW EXCLUSIVE MODE');
is(query("SELECT count(*) > 0 FROM atproto.plc_log_request WHERE did = '$gone'"), 't', 'there is a request for the log');
$erasing = IPC::Run::start([ 'psql', '-Xd', $node->connstr('postgres'), '-c', "CALL atproto.erase('$gone', directory => true)" ], '<', \undef, '>&', \$erased);
wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'CALL atproto.erase%' AND wait_event_type = 'Lock'");
is(query("SELECT count(*) FROM atproto.plc_log_request WHERE did = '$gone'"), '0', '... which goes before the rows of other tables');
$slice->query_safe('COMMIT');
$erasing->finish;
$slice->quit;

$said = erase_as($superuser, "'$gone', directory => true");
unlike($said, qr/ERROR|other owners/, 'a superuser erases everywhere') or diag($said);
is(join('', map { rows_with($gone, $_) } qw(own alien atproto)), '', 'nothing has the account any more');
is(join(' ', map { rows_with($stays, $_) } qw(own alien atproto)), join(' ', map { $before{$_}{$stays} } qw(own alien atproto)), 'and the other account has lost nothing');
is(query("SELECT string_agg(place || ' ' || object, ', ' ORDER BY 1) FROM atproto.account_traces('$gone') WHERE place = 'table'"), '', 'account_traces() finds nothing in tables');
like(query("SELECT string_agg(place, ' ') FROM atproto.account_traces('$gone')"), qr/dead rows.*wal/, 'but names other places');
query("INSERT INTO own.repo (did) VALUES ('did:plc:cccccccccccccccccccccccc'); ANALYZE own.repo");
like(query("SELECT string_agg(object, ' ') FROM atproto.account_traces('$stays') WHERE place = 'statistics'"), qr/own\.repo\.did/, 'such as the samples of the planner');

# A did:web that begins another DID: messages and letters of unknown accounts stay if they only name the longer DID.
my ($web, @longer) = ('did:web:a.example', 'did:web:a.example.org', 'did:web:a.example:user:x', 'did:web:a.example%3A80');
my %texts = ((map { $_ => 0 } @longer), 'of did:web:a.example: x' => 1, 'at://did:web:a.example/app.bsky.feed.post/1' => 1, 'did:web:a.example' => 1);
my %parts = ("\x71did:web:a.example" => 1, "\x76at://did:web:a.example" => 1, "\x78\x18did:web:a.example:user:x" => 0, "\x75did:web:a.example.org" => 0);
foreach my $text (sort keys %texts)
{
	query("INSERT INTO own.message (subscription, endpoint, seq, type, payload) VALUES ('own', 'e', 1000 + (SELECT count(*) FROM own.message), '$texts{$text}', jsonb_build_object('of', '$text'))");
}
foreach my $part (sort keys %parts)
{
	# the next member of the map has a name of three characters, and the bytes of its head are a letter
	my $hex = unpack 'H*', "\xa2\x63did${part}cval\x00\xff";

	query("INSERT INTO own.message (subscription, endpoint, seq, type, raw) VALUES ('own', 'e', 1000 + (SELECT count(*) FROM own.message), '$parts{$part}', '\\x$hex');"
		. "INSERT INTO atproto.dead_frame (subscription, digest, bytes, format, endpoint) VALUES ('own', '\\x$hex', '\\x$hex', 'dag-cbor', 'e');"
		. "INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, digest) VALUES ('own', 'frame', '22P03', '$parts{$part}', '\\x$hex')");
}
unlike(erase_as('owner', "'$web'"), qr/ERROR/, 'a did:web that begins other DIDs');
is(query('SELECT string_agg(type, $$$$), count(*) FROM own.message WHERE seq >= 1000'), '00000|5', 'messages that name only a longer DID stay');
is(query("SELECT string_agg(message, ''), count(*) FROM atproto.dead_letter WHERE message IN ('0', '1')"), '00|2', 'and so do letters of unknown accounts');

query('DELETE FROM atproto.subscription; DROP SCHEMA own, alien CASCADE');
$node->stop;

# ------------------------------------------------------------------------
# Beside a consumer
# ------------------------------------------------------------------------

my ($capture) = simulate(
	'--events' => 3000, '--accounts' => 40, '--history' => 0,
	'--mix' => 'account=2,delete=8,update=6,sync=0,like=40,post=30,profile=3');
my $last   = read_capture($capture);
my $server = AtprotoTest::Server->start($capture, '--hold-at', 2000);
$node = make_node('erase', conf => "max_worker_processes = 20\natproto.reconnect_delay = 100ms");
my $sources = q{'{app.bsky.feed.like:subject.uri,app.bsky.feed.repost:subject.uri}'};
foreach my $s (qw(plain workers parts packed))
{
	query("CREATE SCHEMA $s; SELECT atproto.create_tables('$s'" . ($s eq 'packed' ? ", value => 'dagcbor'" : '') . "); SELECT atproto.count_links($sources, '$s')");
	query("SELECT atproto.partition('$s', 'collection', '{app.bsky.feed.like}')") if $s eq 'parts';
	# a table derived by a trigger: the keys of the records
	query(<<"EOSQL");
CREATE TABLE $s.derived (did did, collection nsid, rkey recordkey, PRIMARY KEY (did, collection, rkey));
CREATE FUNCTION $s.derive() RETURNS trigger LANGUAGE plpgsql SET search_path = public AS \$\$
BEGIN
	IF NEW.action = 'delete' THEN DELETE FROM $s.derived d WHERE (d.did, d.collection, d.rkey) = (NEW.did, NEW.collection, NEW.rkey);
	ELSE INSERT INTO $s.derived VALUES (NEW.did, NEW.collection, NEW.rkey) ON CONFLICT DO NOTHING; END IF;
	RETURN NEW;
END \$\$;
CREATE TRIGGER derive AFTER INSERT ON $s.record_event FOR EACH ROW EXECUTE FUNCTION $s.derive();
EOSQL
	query(subscribe_sql($s, $server, cursor => 0, target => "'$s'", links => "'all'", events => $s eq 'plain' ? "'keep'" : "'hand'", count_collections => 'true',
			($s eq 'workers' ? (workers => 3) : ())));
}
wait_for_seq($node, $_, 1999) foreach qw(plain workers parts packed);
my ($popular) = query('SELECT did FROM plain.record GROUP BY did ORDER BY count(*) DESC, did LIMIT 1');
my $kept = query("SELECT count(*) FROM plain.record_event WHERE did = '$popular' AND seq IS NOT NULL");
cmp_ok($kept, '>', 10, 'an account with events');
my $counts = query('SELECT sum(creates), sum(updates), sum(deletes), count(DISTINCT collection) FROM plain.collection_stat');
$said = erase_as($superuser, "'$popular'");
foreach my $s (qw(plain workers parts packed))
{
	is(query("SELECT count(*) FROM $s.$_ WHERE did = '$popular'"), '0', "$s: no row of $_") foreach qw(record repo link record_event derived);
}
like($said, qr/NOTICE:  link: [1-9]\d* rows removed/, 'links are reported');
is(query('SELECT sum(creates), sum(updates), sum(deletes), count(DISTINCT collection) FROM plain.collection_stat'), $counts, 'the counts of collections stay');
is(query('SELECT sum(erased) FROM plain.collection_count'), $kept, '... and say how many of their events are gone');
my $differing = "SELECT count(*) > 0 FROM atproto.check('plain', deep => true) WHERE what = 'counts differ from events'";
is(query($differing), 'f', '... so that check() finds no difference');
is(query("BEGIN; DELETE FROM plain.record_event WHERE ctid = (SELECT ctid FROM plain.record_event WHERE seq IS NOT NULL LIMIT 1); $differing; ROLLBACK"), 't', '... but for another event that is gone');
$server->release;
wait_for_seq($node, $_, $last) foreach qw(plain workers parts packed);
foreach my $s (qw(plain workers parts packed))
{
	is(query("SELECT count(*) FROM (SELECT target, source, count(*) AS n FROM $s.link JOIN $s.link_source s ON s.id = source AND counted GROUP BY 1, 2) l"
			. " FULL JOIN $s.link_count c USING (target, source) WHERE l.n IS DISTINCT FROM c.n"), '0', "$s: each count is the number of links");
	is(query("SELECT count(*) FROM (SELECT did, collection, rkey FROM $s.record) r FULL JOIN $s.derived d USING (did, collection, rkey) WHERE r IS NULL OR d IS NULL"), '0', "$s: the derived table is exact");
	is(query("SELECT count(*) FROM atproto.link_problems('$s')"), '0', "$s: so is the table link");
	is(query("SELECT sync FROM $s.repo WHERE did = '$popular'"), 'partial', "$s: the account has come back, with its later events");
}
is(query('SELECT count(*) FROM atproto.stat_subscription WHERE last_error IS NOT NULL'), '0', 'no consumer had an error');

# ------------------------------------------------------------------------
# Kept away
# ------------------------------------------------------------------------

# The whole stream once more, at another server, with the account blocked: no row of the account, and all others as before.
my $first = $popular;
($popular) = query('SELECT did FROM plain.record GROUP BY did ORDER BY count(*) DESC, did LIMIT 1');
my $again = AtprotoTest::Server->start($capture, '--hold-at', 1000);
query("CREATE SCHEMA $_; SELECT atproto.create_tables('$_')") foreach qw(whole held);
query(subscribe_sql($_, $again, cursor => 0, target => "'$_'", links => "'all'", events => "'keep'", ($_ eq 'held' ? (workers => 2, backfill => "'repair'") : ()))) foreach qw(whole held);
wait_for_seq($node, $_, 999) foreach qw(whole held);
is(query("SELECT string_agg((EXISTS (SELECT FROM $_.record WHERE did = '$popular'))::text, '')"), 'true', "$_: there are records") foreach qw(whole held);
query("CREATE TABLE export AS SELECT did, atproto.repo_car(did, 'plain') AS car FROM plain.repo WHERE did = '$popular'");
# A session has written a record of the account, and holds the lock of a writer: erase() waits, and then removes the record.
my $writer = $node->background_psql('postgres', on_error_stop => 1);
$writer->query_safe("BEGIN; LOCK TABLE whole.repo IN ROW EXCLUSIVE MODE; INSERT INTO whole.record SELECT did, collection, 'late', cid, rev, indexed_at, value FROM whole.record WHERE did = '$popular' LIMIT 1");
$erasing = IPC::Run::start([ 'psql', '-Xd', $node->connstr('postgres'), '-c', "CALL atproto.erase('$popular', block => true)" ], '<', \undef, '>&', \$erased);
wait_for("SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE 'CALL atproto.erase%' AND wait_event_type = 'Lock'");
is(query("SELECT count(*) FROM atproto.blocked_account"), '1', 'the block is there before the writers are waited for');
$writer->query_safe('COMMIT');
$erasing->finish;
$writer->quit;
like($erased, qr/record: \d+ rows removed/, 'block => true');
$again->release;
wait_for_seq($node, $_, $last) foreach qw(whole held);
foreach my $s (qw(whole held))
{
	is(query("SELECT count(*) FROM $s.$_ WHERE did = '$popular'"), '0', "$s: no row of $_ came back") foreach qw(record repo link record_event);
	cmp_ok(query("SELECT skips ->> 'blocked' FROM atproto.stat_subscription WHERE name = '$s'"), '>', 0, "$s: the events are counted");
	is(query("SELECT count(*) FROM (SELECT did, collection, rkey, cid FROM $s.record) s FULL JOIN (SELECT did, collection, rkey, cid FROM plain.record) p USING (did, collection, rkey, cid)"
			. " WHERE did NOT IN ('$popular', '$first') AND (s IS NULL OR p IS NULL)"), '0', "$s: all records of other accounts are there");
	cmp_ok(query("SELECT count(DISTINCT did) FROM $s.record"), '>', 20, "$s: of many accounts");
}
is(query("SELECT count(*) FROM atproto.check(deep => true) WHERE what = 'row of a blocked account'"), '0', 'check() finds no row of the account');
query("INSERT INTO whole.record SELECT '$popular', collection, rkey, cid, rev FROM plain.record LIMIT 1");
is(query("SELECT string_agg(target || ' ' || object, ' ') FROM atproto.check() WHERE what = 'row of a blocked account'"), 'whole record', 'and would find one');
query(q{DELETE FROM whole.record WHERE did IN (SELECT did FROM atproto.blocked_account)});
like(($node->psql('postgres', "SELECT atproto.backfill_repo('$popular', 'held')"))[2], qr/ERROR:  the account is blocked in schema "held"/, 'backfill_repo() says so');
query('CREATE SCHEMA listed');
query(subscribe_sql('listed', $again, cursor => 0, target => "'listed'", dids => "'{$popular}'", backfill => "'repair'"));
wait_for("SELECT count(finished_at) = 1 FROM atproto.enumeration WHERE subscription = 'listed'");
is(query("SELECT sum(queued) FROM atproto.enumeration WHERE subscription = 'listed'"), '0', 'a list that names the account makes no job');
is(query("SELECT count(*) FROM atproto.repo_job WHERE did = '$popular'"), '0', 'no job is made');
my $load = "SELECT atproto.load_car(did, car, 'whole') FROM export";
sub errors_of { return ($node->psql('postgres', $_[0]))[2] }
like(errors_of($load), qr/ERROR:  account "$popular" is blocked/, 'no export is taken');
query("INSERT INTO whole.label (src, uri, val, neg, cts) VALUES ('did:plc:cccccccccccccccccccccccc', '$_', 'x', false, now())") foreach "at://$popular", "at://$popular/app.bsky.feed.post/1", $popular;
query("INSERT INTO whole.label (src, uri, val, neg, cts) VALUES ('$popular', 'did:plc:cccccccccccccccccccccccc', 'x', false, now())");
is(query("SELECT count(*) FROM atproto.check(deep => true) WHERE what = 'row of a blocked account' AND object = 'label'"), '2', 'check() finds labels about the account, and by it');
query("DELETE FROM whole.label WHERE uri = '$popular' OR uri = 'at://$popular/app.bsky.feed.post/1' OR src = '$popular'");
is(query("SELECT count(*) FROM atproto.check(deep => true) WHERE what = 'row of a blocked account' AND object = 'label'"), '1', 'each form of a subject');
query('DELETE FROM whole.label');
query('CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA atproto TO guest; GRANT EXECUTE ON PROCEDURE atproto.erase TO guest');
like(errors_of("SET SESSION AUTHORIZATION guest; CALL atproto.erase('$popular', block => true)"), qr/ERROR:  the account cannot be blocked: there is no schema/, 'a role without a target cannot block');
# The list of blocks in a session's memory, and rolled back transactions.
like(errors_of("BEGIN; SELECT atproto.unblock('$popular'); SAVEPOINT a; $load; ROLLBACK TO a; ROLLBACK; $load"), qr/\A[^\n]*ERROR:  account "$popular" is blocked\n[^\n]*\Z/, 'unblock() that is rolled back');
like(errors_of("BEGIN; SAVEPOINT a; SELECT atproto.unblock('$popular'); $load; ROLLBACK TO a; $load"), qr/ERROR:  account "$popular" is blocked/, '... with its savepoint');
like(errors_of("SELECT atproto.unblock('$popular', 'whole')"), qr/NOTICE:  the account is still blocked, in the whole database/, 'unblock() of a target under a block of the whole database');
like(erase_as($superuser, "'$popular', block => true") . query("SELECT count(*) FROM atproto.blocked_account"), qr/1$/, 'blocked once');
like(($node->psql('postgres', "BEGIN; CALL atproto.erase('$popular', block => true)"))[2], qr/ERROR:  accounts cannot be blocked in a transaction block/, 'not in a transaction block');
is(query("SELECT atproto.unblock('$popular'), atproto.unblock('$popular'), count(*) FROM atproto.blocked_account"), 't|f|1', 'unblock()');
is(query('SELECT count(*) FROM atproto.blocked_account'), '0', 'lets the account in again');

# A lock that is not to be had, and the ERROR caught: the session has no subtransaction left, and its later statements are committed.
query('CREATE TABLE later (n int)');
my $locker = $node->background_psql('postgres', on_error_stop => 1);
$locker->query_safe('BEGIN; LOCK TABLE whole.record IN ACCESS EXCLUSIVE MODE');
query("SET lock_timeout = '50ms'; DO \$\$ BEGIN CALL atproto.erase('$popular', target => 'whole'); EXCEPTION WHEN lock_not_available THEN NULL; END \$\$; INSERT INTO later VALUES (1)");
like(errors_of("SET lock_timeout = '50ms'; CALL atproto.erase('$popular'); INSERT INTO later VALUES (2)"), qr/ERROR:  the account is not erased from 1 schemas/, 'tables that are locked');
(undef, undef, undef) = $node->psql('postgres', "SET lock_timeout = '50ms';\nCALL atproto.erase('$popular');\nINSERT INTO later VALUES (3);", on_error_stop => 0);
$locker->query_safe('COMMIT');
$locker->quit;
is(query('SELECT string_agg(n::text, $$ $$ ORDER BY n) FROM later'), '1 3', '... leave no transaction open');

# In a transaction block, all or nothing.
($popular) = query('SELECT did FROM plain.record GROUP BY did ORDER BY count(*) DESC, did LIMIT 1');
query("BEGIN; CALL atproto.erase('$popular'); ROLLBACK");
cmp_ok(query("SELECT count(*) FROM plain.record WHERE did = '$popular'"), '>', 0, 'in a transaction block that is rolled back');

done_testing();
