# 241_retry.pl
#		retry() applies a dead letter with the rights of the subscription's owner, whoever calls, so that
#		triggers gain no rights.  Only members of the owner may call it, and no trigger fired by a retry or
#		a consumer.  The letter's event is old: a newer record stays, a removed record does not come back,
#		and a record possibly removed since keeps its letter.  F-03, B-29.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('retry', conf => "atproto.reconnect_delay = 20ms\natproto.reconnect_max_delay = 100ms");
my $log  = $node->logfile;

# --- whose rights ---

# The grants of the documentation.
my $document = slurp_file(test_dir() . '/../doc/operate/operations.md');
my ($grants) = $document =~ /^(CREATE ROLE consumer LOGIN;\n.*?)^```/ms or BAIL_OUT('doc/operate/operations.md does not name the grants');
query($grants);
query(<<'SQL');
CREATE SCHEMA evil AUTHORIZATION consumer;
SET ROLE consumer;
CREATE TABLE evil.seen (who name, what text);
CREATE FUNCTION evil.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'not yet'; END $$;
-- with pg_catalog after it in the search_path, this is the equality of bigint
CREATE FUNCTION evil.equals(bigint, bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO evil.seen VALUES (current_user, 'operator');
	RETURN $1 OPERATOR(pg_catalog.=) $2;
END $$;
CREATE OPERATOR evil.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.equals);
CREATE FUNCTION evil.try(sql text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE sql;
	INSERT INTO evil.seen VALUES (current_user, sql);
EXCEPTION WHEN OTHERS THEN
	NULL;
END $$;
CREATE FUNCTION evil.take_over() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO evil.seen VALUES (current_user, TG_NAME);
	PERFORM evil.try('ALTER ROLE consumer SUPERUSER');
	PERFORM evil.try('RESET SESSION AUTHORIZATION');
	PERFORM evil.try('SET ROLE postgres');
	PERFORM evil.try('RESET ROLE');
	PERFORM evil.try('CREATE TEMP TABLE dead_letter ()');
	PERFORM set_config('search_path', 'evil, pg_catalog', false);
	PERFORM set_config('application_name', 'evil', false);
	RETURN NULL;
END $$;
SQL
my $capture = make_capture('steps.py', 'a 1 +x +y', 'a 2 +z');
my $server  = AtprotoTest::Server->start($capture);
query('SET SESSION AUTHORIZATION consumer; ' . subscribe_sql('own', $server, target => "'network'"));
query("SELECT atproto.pause('own')");
query(q{SET ROLE consumer; CREATE TRIGGER refuse BEFORE INSERT ON network.record FOR EACH ROW EXECUTE FUNCTION evil.refuse()});
query("SET SESSION AUTHORIZATION consumer; SELECT atproto.set_cursor('own', 0), atproto.resume('own')");
wait_for_seq($node, 'own', 2);
is(query('SELECT count(*) FROM atproto.dead_letter'), '3', 'there are letters');
query(<<'SQL');
SET ROLE consumer;
DROP TRIGGER refuse ON network.record;
CREATE TRIGGER at_once AFTER INSERT ON network.record FOR EACH ROW EXECUTE FUNCTION evil.take_over();
CREATE CONSTRAINT TRIGGER at_the_end AFTER INSERT ON network.record DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION evil.take_over();
SQL
is(query('SELECT atproto.retry(min(id)) FROM atproto.dead_letter; SHOW search_path; SHOW application_name; SELECT current_user, session_user'),
	"applied\n\"\$user\", public\n241_retry.pl\npostgres|postgres", 'a superuser tries again, and is the same afterwards');
is(query('SELECT string_agg(what, $$ $$ ORDER BY what) FROM evil.seen'), 'at_once at_the_end', 'the triggers ran, and nothing else could');
is(query('SELECT DISTINCT who FROM evil.seen'), 'consumer', 'as the owner');
is(query("SELECT rolsuper FROM pg_roles WHERE rolname = 'consumer'"), 'f', 'the owner is no superuser');
is(query('SELECT count(*) FROM atproto.dead_letter'), '2', 'the letter went');

query(q{CREATE ROLE curious BYPASSRLS; SELECT atproto.grant_to('curious', 'network', 'subscribe')});
my ($rc, $out, $err) = $node->psql('postgres', 'SET ROLE curious; SELECT atproto.retry(min(id)) FROM atproto.dead_letter');
like($err, qr/must be a member of role "consumer", the owner of subscription "own"/, 'who sees the letter must also be a member of the owner');
query('GRANT consumer TO curious');
is(query('SET ROLE curious; SELECT atproto.retry(min(id)) FROM atproto.dead_letter'), 'applied', 'as a member he may');

# --- from inside ---

query(<<'SQL');
SET ROLE consumer;
DROP TRIGGER at_once ON network.record;
DROP TRIGGER at_the_end ON network.record;
CREATE FUNCTION evil.again() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM atproto.retry(id) FROM atproto.dead_letter;
	RETURN NULL;
END $$;
CREATE TRIGGER again AFTER INSERT ON network.record FOR EACH ROW EXECUTE FUNCTION evil.again();
SQL
my $inside = 'dead letters cannot be tried again by a trigger of the tables that are being filled';
is(query('SET ROLE consumer; SELECT atproto.retry(min(id)) FROM atproto.dead_letter'), $inside, 'not from inside of itself');
query("SET ROLE consumer; TRUNCATE network.record, network.repo; SELECT atproto.set_cursor('own', 0)");
wait_for("SELECT stopped = '$inside' FROM atproto.subscription");
pass('nor from inside of the consumer, which stops');
query("SET ROLE consumer; DROP TRIGGER again ON network.record; SELECT atproto.resume('own')");
wait_for_seq($node, 'own', 2);
is(query("SELECT string_agg(rkey::text, ' ' ORDER BY rkey) FROM network.record"), 'x y z', 'it goes on');
is(query('SET ROLE consumer; SELECT atproto.retry(min(id)) FROM atproto.dead_letter'), 'obsolete', 'what came meanwhile is obsolete');
unlike(slurp_file($log), qr/terminated by signal|PANIC/, 'no process has crashed');
query("SELECT atproto.unsubscribe('own')");

# --- records writable by retry() ---

# Streams the first $n events while a trigger refuses rows where a condition holds, then the rest without the
# trigger.
sub stream
{
	my ($n, $when, @steps) = @_;

	start_over();
	query("CREATE TRIGGER refuse $when EXECUTE FUNCTION evil.refuse()");
	$server = AtprotoTest::Server->start(make_capture('steps.py', @steps), '--hold-at', $n + 1);
	query(subscribe_sql('s', $server, cursor => 0));
	wait_for_seq($node, 's', $n);
	my ($table) = $when =~ /ON (\S+)/;
	query("DROP TRIGGER refuse ON $table");
	$server->release;
	wait_for_seq($node, 's', scalar @steps);
	return;
}

sub letters
{
	return query("SELECT string_agg(seq || ':' || path, ' ' ORDER BY seq, path) FROM atproto.dead_letter");
}

# Tried again in this order: "seq:result ...".
sub retry
{
	my ($order) = @_;
	my @ids = split /\n/, query("SELECT id FROM atproto.dead_letter ORDER BY seq $order, path");
	return join ' ', map { query("SELECT seq FROM atproto.dead_letter WHERE id = $_") . ':' . query("SELECT atproto.retry($_)") } @ids;
}

# Adds a letter of an event, or of a record in it, as an earlier consumer could have written it.
sub add_letter
{
	my ($step, %letter) = @_;
	my $bytes = (read_capture(make_capture('steps.py', $step)))[0];

	$bytes = $letter{edit}->($bytes) if $letter{edit};
	query("INSERT INTO atproto.dead_frame SELECT 's', sha256(b), b FROM (VALUES ('\\x" . unpack('H*', $bytes) . "'::bytea)) m (b);
		INSERT INTO atproto.dead_letter (subscription, seq, stage, sqlstate, message, path, did, digest)
		SELECT 's', 1, 'apply', 'x', 'x', '" . ($letter{path} // '') . "', '" . did('a') . "', digest FROM atproto.dead_frame");
	return;
}

sub records
{
	return query("SELECT string_agg(value->>'text', ', ' ORDER BY rkey, value->>'text') FROM atproto.record");
}

my $p = 'app.bsky.feed.post/';
my $no_repo = 'BEFORE INSERT ON atproto.repo FOR EACH ROW';
my $no_record = 'BEFORE INSERT ON atproto.record FOR EACH ROW';

# A commit that was refused whole, and later commits.
stream(1, $no_repo, 'a 1 +v +w +x +y', 'a 2 =x -y');
is(letters(), '1:', 'a commit is refused');
is(records(), 'x 2', 'the one after it is not');
like(retry(''), qr/^1:newer commits were applied: 3 of its records are not there and may have been removed since; /, 'what cannot be told stays');
is(letters(), '1:', 'it is still there');
is(records(), 'x 2', 'nothing came back, nothing older was written');
is(query('SELECT sync FROM atproto.repo'), 'desynchronized', 'the repository is marked');

# The same when the repository has not moved on, or when its revision was set back.
stream(1, $no_repo, 'a 1 +v +w', 'b 1 +x');
is(retry(''), '1:applied', 'a commit that is still the newest is applied');
is(records(), 'v 1, w 1, x 1', 'with all its records');
query("UPDATE atproto.repo SET rev = NULL; UPDATE atproto.record SET rev = '3zzzzzzzzzzzz' WHERE rkey = 'v'; DELETE FROM atproto.record WHERE rkey = 'w'");
add_letter('a 1 =v +w');
is(retry(''), '1:applied', 'one whose repository has forgotten its revision, too');
is(query("SELECT string_agg(rkey || ' ' || (rev = '3zzzzzzzzzzzz'), ', ' ORDER BY rkey) FROM atproto.record WHERE did = '" . did('a') . "'"), 'v true, w false',
	'but for records that are newer');

# Each record is tried, and the first error is the reason.
query("DELETE FROM atproto.record WHERE did = '" . did('a') . "'");
query(<<'SQL');
CREATE FUNCTION no_record() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'no % %', new.rkey, repeat(chr(233), 600); END $$;
CREATE TRIGGER no_record BEFORE INSERT ON atproto.record FOR EACH ROW WHEN (new.rkey = 'v' OR new.rkey = 'x') EXECUTE FUNCTION no_record();
SQL
add_letter('a 1 +v +w +x');
is(retry(''), '1:no v ' . "\xc3\xa9" x 497, 'of several records that are refused the first one says why');
# the message is cut between characters
is(query('SELECT octet_length(message) FROM atproto.dead_letter'), 5 + 2 * 497, 'in whole characters and 1000 bytes');
is(query("SELECT string_agg(rkey::text, ' ' ORDER BY rkey) FROM atproto.record WHERE did = '" . did('a') . "'"), 'w', 'and the others are written');
query('DROP TRIGGER no_record ON atproto.record');

# The retry of a record's letter writes only this record.
stream(1, $no_record, 'a 1 +x +y');
query("UPDATE atproto.repo SET rev = NULL; DELETE FROM atproto.dead_letter WHERE path = '${p}x'");
is(retry(''), '1:applied', 'the letter of one record of a commit, with a repository that has forgotten its revision');
is(records(), 'y 1', 'brings that record only');

# A commit that is refused as a whole counts for the letters of its records, too.
stream(1, $no_repo, 'b 1 +x');
query('DELETE FROM atproto.dead_letter');
add_letter('a 1 +x +y', path => "${p}x", edit => sub { $_[0] =~ s/y 1/y 2/r });
like(retry(''), qr/^1:The block's bytes do not give its CID\. \(byte \d+\)$/, 'a record of a commit that is not what was signed stays, with the reason');
is(letters(), "1:${p}x", 'as a letter');

# Letters of single records, in either order.
foreach my $order ('', 'DESC')
{
	my $what = $order ? 'the newest first' : 'the oldest first';

	stream(4, $no_record, 'a 1 +x', 'b 1 +x', 'b 2 =x', 'c 1 +x +y', 'c 2 -x', 'a 2 =z');
	is(letters(), "1:${p}x 2:${p}x 3:${p}x 4:${p}y", "$what: a record that was removed needs none");
	retry($order);
	is(letters(), '', "$what: all are done");
	is(records(), 'x 1, x 2, y 1, z 2', "$what: each record is the newest");
}

# A removal that was refused counts, too.
stream(2, 'BEFORE INSERT OR DELETE ON atproto.record FOR EACH STATEMENT', 'a 1 +x', 'a 2 -x', 'a 3 +y');
is(letters(), "2:${p}x", 'a removal that is refused overtakes what was refused before');
is(retry(''), '2:obsolete', 'there is nothing left to remove');
is(records(), 'y 3', 'and nothing comes back');

# F-03: a refused removal does not make its own dead letter obsolete.
stream(3, 'BEFORE DELETE ON atproto.record FOR EACH ROW', 'a 1 +x', 'a 2 -x', 'a 3 +y');
is(letters() . ' ' . records(), "2:${p}x x 1, y 3", 'a removal that is refused has a dead letter, and the record stays');
is(retry(''), '2:applied', 'tried again, the removal is applied');
is(records(), 'y 3', 'and the record is gone');

# A record that appears while its letter is tried again.
stream(1, $no_record, 'a 1 +x', 'a 2 +y');
my $writer  = $node->background_psql('postgres');
my $retrier = $node->background_psql('postgres');
$writer->query_safe("BEGIN; INSERT INTO atproto.record (did, collection, rkey, cid, rev, value) SELECT did, collection, 'x', cid, rev, '{\"text\": \"x 2\"}' FROM atproto.record");
$retrier->query_until(qr/retrying/, "\\echo retrying\nSELECT atproto.retry(id) FROM atproto.dead_letter;\n");
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'SELECT atproto.retry%'});
$writer->query_safe('COMMIT');
$retrier->query_safe('SELECT 1');
is(letters(), '', 'a record that appears meanwhile: the letter goes');
is(records(), 'x 2, y 2', 'and the record is the newer one');
$_->quit foreach $writer, $retrier;

# The lock on the repository's row decides which session comes first.
stream(1, $no_record, 'a 1 +x', 'a 2 +y');
$writer  = $node->background_psql('postgres');
$retrier = $node->background_psql('postgres');
$writer->query_safe('BEGIN; SELECT FROM atproto.repo FOR UPDATE');
$retrier->query_until(qr/retrying/, "\\echo retrying\nSELECT atproto.retry(id) FROM atproto.dead_letter;\n");
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'SELECT atproto.retry%'});
$writer->query_safe('COMMIT');
$retrier->query_safe('SELECT 1');
is(records(), 'x 1, y 2', 'it waits for who has the repository');
$_->quit foreach $writer, $retrier;

# Invalid records keep letters of their own.
stream(1, $no_repo, 'a 1 +x !y');
is(letters(), "1: 1:${p}y", 'a commit that is refused, with an invalid record');
query("DELETE FROM atproto.dead_letter WHERE path <> ''");
is(retry(''), '1:applied', 'tried again, the commit is applied');
is(letters(), "1:${p}y", 'and the record has a letter');

# Handles and states: the last event counts.
stream(2, "BEFORE UPDATE ON atproto.repo FOR EACH ROW WHEN (new.handle = 'one.test')", 'a 1 +x', 'a is one.test', 'a is two.test');
is(letters(), '', 'a handle that is followed by another needs no letter');
stream(2, "BEFORE UPDATE ON atproto.repo FOR EACH ROW WHEN (new.handle = 'one.test')", 'a 1 +x', 'a is one.test', 'a 2 +y');
is(letters(), '2:#identity', 'one that is not followed has one');
is(retry('') . ' ' . query('SELECT handle FROM atproto.repo'), '2:applied one.test', 'and is applied');

stream(2, 'BEFORE UPDATE ON atproto.repo FOR EACH ROW WHEN (NOT new.active)', 'a 1 +x', 'a deactivated', 'a 2 +y');
is(letters(), '2:#account', 'a state that is refused has one');
query("UPDATE atproto.repo SET status_at = now(), status_endpoint = 'elsewhere'");
is(retry('') . ' ' . query('SELECT active FROM atproto.repo'), '2:obsolete t', 'which is obsolete when another stream knows better');

# Accounts that are deleted, and inactive accounts.
stream(2, $no_record, 'b 1 +x', 'a 1 +x', 'a deleted');
is(letters(), "1:${p}x", 'an account that is deleted needs no letters');
stream(1, $no_repo, 'a 1 +x', 'a deactivated');
is(retry(''), '1:the repository is not active', 'a repository that is not active waits');
is(letters(), '1:', 'as a letter');

# --- the message's bytes ---

stream(1, $no_record, 'a 1 +x +y +z');
is(query('SELECT count(*), (SELECT count(*) FROM atproto.dead_frame) FROM atproto.dead_letter'), '3|1', 'letters about one message have its bytes once');
query("DELETE FROM atproto.dead_letter WHERE path = '${p}x'");
is(query('SELECT count(*) FROM atproto.dead_frame'), '1', 'which stay while there is a letter');
retry('');
is(query('SELECT count(*), (SELECT count(*) FROM atproto.dead_frame) FROM atproto.dead_letter'), '0|0', 'and go with the last');
stream(1, $no_record, 'a 1 +x +y');
my ($first, $last) = map { $node->background_psql('postgres') } 1, 2;
$first->query_safe("BEGIN; DELETE FROM atproto.dead_letter WHERE path = '${p}x'");
$last->query_until(qr/removing/, "\\echo removing\nDELETE FROM atproto.dead_letter WHERE path = '${p}y';\n");
wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE%'});
$first->query_safe('COMMIT');
$last->query_safe('SELECT 1');
is(query('SELECT count(*) FROM atproto.dead_frame'), '0', 'also when two sessions remove one each');
$_->quit foreach $first, $last;
stream(1, $no_record, 'a 1 +x +y');
query('TRUNCATE atproto.dead_letter');
is(query('SELECT count(*) FROM atproto.dead_frame'), '0', 'also with TRUNCATE');

# --- in a union: a second source has removed the record since ---

query(<<'SQL');
CREATE SCHEMA united; SELECT atproto.create_tables('united');
CREATE FUNCTION united.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'not yet'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON united.record FOR EACH ROW EXECUTE FUNCTION united.refuse();
SQL
my @both = ('a 1 +x +y', 'b 1 +x', 'c 1 +x', 'd 1 +x');
query(subscribe_sql('first', AtprotoTest::Server->start(make_capture('steps.py', @both)), cursor => 0, target => "'united'", verify => "'hash'"));
wait_for("SELECT count(*) = 5 FROM atproto.dead_letter WHERE subscription = 'first'");
query("DROP TRIGGER refuse ON united.record; SELECT atproto.pause('first')");
is(query("SELECT count(superseded_rev) FROM atproto.dead_letter"), '0', 'a letter, and nothing that came after it');
query(subscribe_sql('second', AtprotoTest::Server->start(make_capture('steps.py', @both, 'a 2 -x', 'b 2 +z', 'c deleted', 'c active', 'c 2 +z', 'd 2 =x', 'd 3 -x', 'd 4 +x')), cursor => 0, target => "'united'", verify => "'hash'"));
wait_for("SELECT EXISTS (SELECT FROM united.record WHERE did = '" . did('d') . "' AND rkey = 'x')");
my $now = query('SELECT did, rkey, rev FROM united.record WHERE rkey = $$x$$');
is(query("SELECT string_agg(right(d.path, 1) || ' ' || r.name || ' ' || atproto.retry(d.id), ', ' ORDER BY r.name, d.path) FROM atproto.dead_letter d
	JOIN (VALUES ('@{[did('a')]}'::did, 'a'), ('@{[did('b')]}', 'b'), ('@{[did('c')]}', 'c'), ('@{[did('d')]}', 'd')) r (did, name) USING (did) WHERE d.subscription = 'first'"),
	'x a obsolete, y a applied, x b applied, x c obsolete, x d obsolete', 'F-03: a record that another source has removed does not come back, one that it has not does; nor do those of an account that was deleted');
is(query("SELECT did, rkey, rev FROM united.record WHERE rkey = 'x' AND did <> '@{[did('b')]}'"), $now, 'what is newer stays');
is(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'first'"), '0', 'and no letter is left');

# --- in a union: the letter is written while the account is not active ---

query(<<'SQL');
SELECT atproto.unsubscribe('first'), atproto.unsubscribe('second');
CREATE TABLE lexicon AS SELECT '{"lexicon": 1, "id": "app.bsky.feed.post", "defs": {"main": {"type": "record", "key": "any",
	"record": {"type": "object", "required": ["nothing"], "properties": {"nothing": {"type": "null"}}}}}}'::jsonb AS lexicon;
SELECT atproto.load_lexicon(lexicon, true) FROM lexicon;
SQL
my $ahead = AtprotoTest::Server->start(make_capture('steps.py', 'e 1 +x', 'e 2 -x', 'e deactivated', 'f 1 +x', 'f deleted', 'g 1 +x', 'g 2 +y', 'g deactivated',
	'e active', 'f active', 'g active', 'f 3 +z'), '--skip-from', 6, '--skip-to', 6, '--hold-at', 9);
query(subscribe_sql('ahead', $ahead, cursor => 0, target => "'united'", verify => "'chain'"));
wait_for_seq($node, 'ahead', 8);
query(subscribe_sql('behind', AtprotoTest::Server->start(make_capture('steps.py', 'e 1 +x', 'f 1 +x', 'f 2 +y', 'g 1 +x')), cursor => 0, target => "'united'", verify => "'chain'",
	validate => "'{app.bsky.feed.post=dead_letter}'"));
wait_for_seq($node, 'behind', 4);
$ahead->release;
wait_for_seq($node, 'ahead', 12);
query(q{UPDATE atproto.subscription SET validate = 'none'});
is(query("SELECT string_agg(right(path, 1) || ' ' || atproto.retry(id), ', ' ORDER BY seq) FROM atproto.dead_letter WHERE subscription = 'behind'"), 'x obsolete, x obsolete, y obsolete, x obsolete',
	'F-03: a letter of what came too late to have an effect brings nothing back, also if the account was not active then');
is(query("SELECT rkey FROM united.record WHERE did IN ('@{[did('e')]}', '@{[did('f')]}')"), 'z', 'what other commits have removed stays so, and what went with the account');
is(query("SELECT sync FROM united.repo WHERE did = '@{[did('g')]}'"), 'desynchronized', 'F-08: an old commit shows what is missing, also of an account that is not active');

# --- a refill writes a letter, and does not come to the commit that has removed the record ---

foreach my $how ('is set', 'jumps', 'lacks a commit', 'begins again')
{
	query("DELETE FROM atproto.subscription; TRUNCATE united.record, united.repo; SELECT atproto.load_lexicon(lexicon, true) FROM lexicon");
	my $again = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a 2 -x', 'a 3 +y'));
	query(subscribe_sql('again', $again, cursor => 0, target => "'united'", verify => "'chain'"));
	wait_for_seq($node, 'again', 3);
	query("SELECT atproto.pause('again')");
	wait_for('SELECT pid IS NULL FROM atproto.stat_subscription');
	$again->restart('--hold-at', 2);
	query("UPDATE atproto.subscription SET validate = '{app.bsky.feed.post=dead_letter}'; SELECT atproto.refill('again', seq => 0), atproto.resume('again')");
	wait_for_seq($node, 'again', 1);
	is(query('SELECT sync FROM united.repo'), 'unproven', "V-31: $how: a letter of a refill may be of a record that a later commit has removed");
	query("SELECT atproto.pause('again')");
	wait_for('SELECT pid IS NULL FROM atproto.stat_subscription');
	if ($how eq 'lacks a commit')
	{
		$again->restart('--skip-from', 2, '--skip-to', 2);
		query("SELECT atproto.resume('again')");
		wait_for_seq($node, 'again', 3);
	}
	query("SELECT atproto.set_cursor('again', 3)") if $how eq 'jumps';
	query(sprintf "UPDATE atproto.subscription SET url = '%s'", $ahead->url) if $how eq 'is set';
	query("SELECT atproto.refill('again', seq => 0)") if $how eq 'begins again';
	query(q{UPDATE atproto.subscription SET validate = 'none'; CALL atproto.audit_all('united')});
	is(query('SELECT sync FROM united.repo'), 'synchronized', 'an audit finds that nothing is missing');
	is(query("SELECT atproto.retry(id) FROM atproto.dead_letter WHERE path LIKE '%/x'"), 'obsolete', "F-03: $how: retry() does not bring the record back");
	is(query("SELECT count(*) FROM united.record WHERE rkey = 'x'"), '0', 'it stays removed');
	$again->stop;
}

# An account was deleted, is active again, and has made no commit since.
query('DELETE FROM atproto.subscription; TRUNCATE united.record, united.repo');
my $anew = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a deleted', 'a active'));
query(subscribe_sql('anew', $anew, cursor => 0, target => "'united'", verify => "'chain'"));
wait_for_seq($node, 'anew', 3);
query("SELECT atproto.refill('anew', seq => 0)");
wait_for("SELECT events = 6 FROM atproto.cursor");
is(query('SELECT count(*) FROM united.record'), '0', 'F-15: a refill brings back no record of a deleted account');

# An account was deleted, and began anew, before the first commit of the tables.
foreach my $again ("refill('first', seq => 0)", "set_cursor('first', 0)")
{
	query('DELETE FROM atproto.subscription; TRUNCATE united.record, united.repo');
	my $first = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a deleted', 'a active', 'a 4000000 +y', 'a 5000000 +z'), '--skip-from', 1, '--skip-to', 3);
	query(subscribe_sql('first', $first, cursor => 0, target => "'united'", verify => "'chain'"));
	wait_for_seq($node, 'first', 5);
	query("SELECT atproto.pause('first')");
	wait_for('SELECT pid IS NULL FROM atproto.stat_subscription');
	$first->restart;
	query("SELECT atproto.$again, atproto.resume('first')");
	wait_for_seq($node, 'first', 5);
	is(query('SELECT sync, active, (SELECT count(*) FROM united.record) FROM united.repo'), 'desynchronized|t|0', "F-15: $again: a deletion that is older than the stored commits removes their records, and shows it");
	$first->stop;
}

# --- what a refill lacks before the first commit of the tables is still missing ---

my $early = make_capture('steps.py', 'a 1 +app.bsky.feed.repost/r', 'a 2 +y', 'a 3 +z', 'a 4 +w');
foreach my $case ([ 1, [], 'reads all commits' ], [ 3, [ 2, 2 ], 'lacks a commit' ], [ 3, [ 2, 3 ], 'does not come to the revision' ])
{
	my ($first, $lacks, $how) = @$case;
	my %options = (cursor => 0, target => "'united'", verify => "'chain'", collections => "'{app.bsky.feed.post}'");

	query('DELETE FROM atproto.subscription; TRUNCATE united.record, united.repo');
	my $late = AtprotoTest::Server->start($early, '--skip-from', 1, '--skip-to', 2, '--hold-at', 4);
	query(subscribe_sql('late', $late, %options));
	wait_for_seq($node, 'late', 3);
	my $third = query('SELECT first_rev FROM united.repo');
	query("SELECT atproto.pause('late')");
	wait_for('SELECT pid IS NULL FROM atproto.stat_subscription');
	$late->restart(@$lacks ? ('--skip-from', $$lacks[0], '--skip-to', $$lacks[1]) : ());
	query("SELECT atproto.refill('late', seq => 0), atproto.resume('late')");
	wait_for_seq($node, 'late', 4);
	is(query("SELECT first_rev < '$third', first_rev <= '$third', refill_by, refill_first FROM united.repo"), ($first == 1 ? 't' : 'f') . '|t||', "V-31: a refill that $how: from which revision on the tables have all commits");
	query(subscribe_sql('other', AtprotoTest::Server->start($early, '--skip-from', 1, '--skip-to', 1), %options));
	wait_for_seq($node, 'other', 4);
	is(query('SELECT sync, count(r) FROM united.repo LEFT JOIN united.record r USING (did) GROUP BY sync'), $first == 1 ? 'partial|3' : 'desynchronized|2',
		'F-08: another source shows whether a commit is missing');
	$late->stop;
}

# --- a refill of a repository whose earlier commits came with an export ---

query('DELETE FROM atproto.subscription; TRUNCATE united.record, united.repo');
my $whole = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a 2 -x', 'a 3 +y', 'a 4 +z'));
query(subscribe_sql('whole', $whole, cursor => 0, target => "'united'", verify => "'hash'"));
wait_for_seq($node, 'whole', 4);
# as an export leaves the row
query("UPDATE united.repo SET first_rev = NULL; SELECT atproto.refill('whole', seq => 2)");
wait_for('SELECT refill_by IS NULL FROM united.repo');
query(subscribe_sql('behind', $whole, cursor => 0, target => "'united'", verify => "'hash'"));
wait_for_seq($node, 'behind', 4);
is(query('SELECT sync, first_rev FROM united.repo'), 'partial|', 'F-08: after an export, a refill of the last commits does not make the first commits unknown');

$node->stop;
done_testing();
