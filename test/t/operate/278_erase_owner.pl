# 278_erase_owner.pl
#		erase() beside owners and accounts that do not want it: triggers that raise errors, keep rows or make them
#		again, a table that is locked, invalid events of a blocked account, labels under all spellings, very many
#		blocks.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node   = make_node('erase_owner', conf => "max_worker_processes = 20\natproto.reconnect_delay = 100ms\natproto.plc_url = 'https://127.0.0.1:1'");
my $server = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x +y', 'a 2 +z', 'b 1 +x', 'b 2 +y', 'c 1 !x'), '--hold-at', 3);
my ($gone, $faulty) = (did('a'), did('c'));
my $superuser = getpwuid($<);

# The output of statements as a role, with all further output of psql.
sub as_role
{
	my ($role, $sql) = @_;
	my (undef, $out, $err) = $node->psql('postgres', "SET SESSION AUTHORIZATION $role; $sql");
	return "$out$err";
}

# The number of records of the account in the schemas.
sub records_of
{
	my ($did) = @_;
	return query(join ' UNION ALL ', map { "(SELECT '$_ ' || count(*) FROM $_.record WHERE did = '$did')" } qw(good hostile zed));
}

query("CREATE ROLE $_ LOGIN; CREATE SCHEMA $_ AUTHORIZATION $_; SELECT atproto.grant_to('$_', '$_', what => 'subscribe'); GRANT EXECUTE ON PROCEDURE atproto.erase TO $_") foreach qw(good hostile zed);
as_role($_, subscribe_sql($_, $server, cursor => 0, target => "'$_'", events => "'keep'")) foreach qw(good hostile zed);
wait_for_seq($node, $_, 2) foreach qw(good hostile zed);
as_role('hostile', <<'SQL');
CREATE FUNCTION hostile.fault() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$not with me$$; END';
CREATE FUNCTION hostile.keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE FUNCTION hostile.again() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN INSERT INTO hostile.record SELECT (OLD).*; RETURN NULL; END';
CREATE TRIGGER fault AFTER DELETE ON hostile.repo FOR EACH ROW EXECUTE FUNCTION hostile.fault();
SQL

my $said = as_role($superuser, "CALL atproto.erase('$gone')");
like($said, qr/WARNING:  the account is not erased from schema "hostile": not with me\n.*ERROR:  the account is not erased from 1 schemas/s, 'an owner whose trigger raises an error');
is(records_of($gone), "good 0\nhostile 3\nzed 0", 'keeps the account in no table of others');
like($said, qr/record: 6 rows removed/, 'rows that came back with the error are not reported as removed');
like(as_role($superuser, "BEGIN; CALL atproto.erase('$gone')"), qr/ERROR:  not with me/, 'in a transaction block the call ends at once');
like(as_role('hostile', "CALL atproto.erase('$gone', target => 'hostile')"), qr/ERROR:  not with me/, 'and so with one target');

# A trigger cannot end the call for all others by an error that looks as if the call had been cancelled.
query('INSERT INTO zed.record SELECT * FROM hostile.record');
as_role('hostile', q{CREATE OR REPLACE FUNCTION hostile.fault() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$canceling statement due to user request$$ USING ERRCODE = $$57014$$; END'});
$said = as_role($superuser, "CALL atproto.erase('$gone')");
like($said, qr/WARNING:  the account is not erased from schema "hostile": canceling statement.*ERROR:  the account is not erased from 1 schemas/s, 'a trigger that raises the error of a cancelled statement');
is(records_of($gone), "good 0\nhostile 3\nzed 0", '... keeps the account in no table of others');

my $session = $node->background_psql('postgres', on_error_stop => 1);
$session->query_safe('BEGIN; LOCK TABLE hostile.repo IN ROW EXCLUSIVE MODE');
like(as_role($superuser, "SET lock_timeout = '100ms'; CALL atproto.erase('$faulty', block => true)"), qr/WARNING:  the account is not erased from schema "hostile": canceling statement due to lock timeout.*ERROR:  the account is not erased/s, 'a lock of a session, with lock_timeout');
is(query("SELECT did, target FROM atproto.blocked_account"), "$faulty|", 'the account is blocked');
$said = as_role($superuser, "SET statement_timeout = '100ms'; CALL atproto.erase('$faulty', block => true)");
like($said, qr/ERROR:  canceling statement due to statement timeout/, 'a statement that is cancelled indeed');
unlike($said, qr/the account is not erased/, '... ends at once');
$session->query_safe('ROLLBACK');
$session->quit;

as_role('hostile', 'DROP TRIGGER fault ON hostile.repo; CREATE TRIGGER again AFTER DELETE ON hostile.record FOR EACH ROW EXECUTE FUNCTION hostile.again()');
like(as_role($superuser, "CALL atproto.erase('$gone')"), qr/WARNING:  record of schema "hostile": 3 rows of the account remain/, 'a trigger that makes the rows again: the call ends, and says so');
as_role('hostile', 'DROP TRIGGER again ON hostile.record; CREATE TRIGGER keep BEFORE DELETE ON hostile.record FOR EACH ROW EXECUTE FUNCTION hostile.keep()');
like(as_role('hostile', "CALL atproto.erase('$gone')"), qr/WARNING:  record of schema "hostile": 3 rows of the account remain/, 'and so with a trigger that keeps them');
as_role('hostile', 'DROP TRIGGER keep ON hostile.record');
unlike(as_role($superuser, "CALL atproto.erase('$gone')"), qr/WARNING|ERROR/, 'without triggers nothing is said');
is(records_of($gone), "good 0\nhostile 0\nzed 0", 'and nothing is left');

# --- an account whose events are no events ---

$server->release;
wait_for_seq($node, $_, 5) foreach qw(good hostile zed);
is(query("SELECT string_agg(skips::text, ' ') FROM atproto.stat_subscription"), join(' ', ('{"blocked": 1}') x 3), 'an event of a blocked account with an invalid record is counted once');
is(query("SELECT count(*) FROM atproto.dead_letter WHERE did = '$faulty'"), '0', 'and has no letter');
my $odd = make_capture('synth.py', 'odd');
my $n    = () = read_capture($odd);
$server = AtprotoTest::Server->start($odd);
query("DELETE FROM atproto.blocked_account; CREATE SCHEMA before; CREATE SCHEMA after");
query(subscribe_sql('before', $server, cursor => 0, target => "'before'"));
wait_for_seq($node, 'before', $n);
cmp_ok(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'before' AND did IS NOT NULL AND stage IN ('message', 'commit')"), '>', 0, 'events that cannot be read');
query(q{SELECT atproto.create_tables('after'); INSERT INTO atproto.blocked_account SELECT DISTINCT did, 'after'::name FROM
	(SELECT did FROM atproto.dead_letter WHERE subscription = 'before' AND did IS NOT NULL UNION ALL SELECT did FROM before.repo) a});
query(subscribe_sql('after', $server, cursor => 0, target => "'after'"));
wait_for_seq($node, 'after', $n);
is(query("SELECT (skips ->> 'blocked')::int + (skips ->> 'unknown')::int = events, skips ? 'invalid' FROM atproto.stat_subscription WHERE name = 'after'"), 't|f', 'are counted as blocked, too, when all accounts are');
is(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'after'"), '0', 'and leave no letter');
is(query('SELECT count(*) FROM after.repo'), '0', 'nor a row');


# --- letters from before the block ---

$n = query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'before' AND did IS NOT NULL");
query("INSERT INTO atproto.blocked_account SELECT DISTINCT did, 'before'::name FROM atproto.dead_letter WHERE subscription = 'before' AND did IS NOT NULL; DELETE FROM before.record; DELETE FROM before.repo");
cmp_ok(query("SELECT count(*) FROM atproto.check() WHERE what = 'row of a blocked account' AND object = 'dead_letter'"), '>', 1, 'check() finds letters of blocked accounts');
query("SELECT atproto.retry(id) FROM atproto.dead_letter WHERE subscription = 'before' AND did IS NOT NULL");
is(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'before' AND did IS NOT NULL"), '0', 'retry() removes letters of blocked accounts, also invalid ones');
query('DELETE FROM atproto.blocked_account');

# --- labels ---

query("INSERT INTO good.label (src, uri, val, neg, cts) SELECT '" . did('b') . "', u, 'x', false, now() FROM unnest('{$gone,at://$gone,at://$gone#x,$gone#x,at://$gone/app.bsky.feed.post/x,at://$gone?x,at://${gone}x/y}'::text[]) u");
query("INSERT INTO atproto.blocked_account (did, target) VALUES ('$gone', 'good')");
is(query("SELECT count(*) FROM atproto.check(deep => true) WHERE what = 'row of a blocked account' AND object = 'label'"), '1', 'check() finds labels');
as_role('good', "CALL atproto.erase('$gone', target => 'good')");
is(query('SELECT string_agg(uri, $$ $$) FROM good.label'), "at://${gone}x/y", 'labels under all spellings of the account go');

# --- two owners who fill a target ---

as_role('good', 'GRANT USAGE ON SCHEMA good TO zed; GRANT ALL ON ALL TABLES IN SCHEMA good TO zed');
query("INSERT INTO atproto.subscription (name, url, target, owner, enabled) VALUES ('visitor', 'wss://localhost', 'good', 'zed', false);"
	. "INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, did) VALUES ('visitor', 'beyond', 'XX000', 'x', '$gone')");
like(as_role('good', "CALL atproto.erase('$gone', target => 'good')"), qr/NOTICE:  dead letters and gaps of 1 subscriptions belong to other owners/, 'an owner is told that letters of other owners stay');
is(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'visitor'"), '1', '... as they do');
unlike(as_role($superuser, "CALL atproto.erase('$gone', target => 'good')"), qr/other owners/, 'a superuser leaves none');
is(query("SELECT count(*) FROM atproto.dead_letter WHERE subscription = 'visitor'"), '0', '... of them');

# Row security of the counts keeps a role from noting there how many events are gone; the role erases them nevertheless.
query("INSERT INTO good.collection_count (hour, subscription, worker, collection, creates, updates, deletes) VALUES (date_trunc('hour', now(), 'UTC'), 'good', 0, 'app.bsky.feed.post', 1, 0, 0);"
	. "INSERT INTO good.record_event (subscription, seq, action, did, collection, rkey, rev) VALUES ('good', 1, 'delete', '$gone', 'app.bsky.feed.post', 'x', '3jzfcijpj2z2a')");
as_role('good', 'ALTER TABLE good.collection_count ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY closed ON good.collection_count USING (true) WITH CHECK (false)');
unlike(as_role('good', "CALL atproto.erase('$gone', target => 'good')"), qr/ERROR/, 'a role that may write no row of the counts');
is(query("SELECT count(*), (SELECT sum(erased) FROM good.collection_count) FROM good.record_event WHERE did = '$gone'"), '0|0', '... erases the events, and notes nothing');
query('DROP POLICY closed ON good.collection_count; ALTER TABLE good.collection_count DISABLE ROW LEVEL SECURITY; DELETE FROM good.collection_count');

# --- very many blocks ---

query("INSERT INTO atproto.blocked_account (did, target) SELECT ('did:web:a' || n || '.example.com')::did, 'zed' FROM generate_series(1, 10000) n");
like(as_role('zed', "CALL atproto.erase('$gone', block => true)"), qr/ERROR:  10000 accounts are blocked in schema "zed"\nDETAIL:  A role may block 10000 accounts/, 'a role may block so many accounts');
unlike(as_role($superuser, "CALL atproto.erase('$gone', block => true, target => 'zed')"), qr/ERROR/, 'a superuser more');

done_testing();
