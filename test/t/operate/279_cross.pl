use strict;
use warnings FATAL => 'all';
use FindBin;
use lib "$FindBin::RealBin/../../lib";
use AtprotoTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;
my $node = make_node('still', databases => '', conf => "max_prepared_transactions = 5\n");
sub show { my ($sql) = @_; my ($rc, $out, $err) = $node->psql('postgres', $sql); $err =~ s/psql:<stdin>:\d+: //g; diag("$sql\n-> $out\n$err"); return $out; }
query("CREATE ROLE r1 LOGIN; CREATE ROLE r2 LOGIN; CREATE SCHEMA a AUTHORIZATION r1; GRANT r1 TO r2 ; GRANT CREATE, USAGE ON SCHEMA a TO r2; SELECT atproto.grant_to('r1', 'a', 'subscribe'), atproto.grant_to('r2', 'a', 'subscribe')");
query("ALTER SYSTEM SET atproto.max_role_processes = 2; SELECT pg_reload_conf()");
show("SET SESSION AUTHORIZATION r1; SELECT atproto.create_tables('a'); INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('a1', 'wss://localhost', 'a', false),('a2', 'wss://localhost', 'a', false)");
show("SET SESSION AUTHORIZATION r1; INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('a3', 'wss://localhost', 'a', false)");
show("SET SESSION AUTHORIZATION r2; INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('b1', 'wss://localhost', 'a', false), ('b2', 'wss://localhost', 'a', false)");
show("SET SESSION AUTHORIZATION r2; UPDATE atproto.subscription SET owner = 'r1' WHERE name = 'b1'");
show("SET SESSION AUTHORIZATION r2; UPDATE atproto.subscription SET owner = 'r2' WHERE name = 'a1'");
show("SET SESSION AUTHORIZATION r2; UPDATE atproto.subscription SET workers = 3 WHERE name = 'b1'");
show("SET SESSION AUTHORIZATION r2; UPDATE atproto.subscription SET owner = (CASE owner WHEN 'r1'::regrole THEN 'r2' ELSE 'r1' END)::regrole");
show("UPDATE atproto.subscription SET owner = 'r1'; SELECT * FROM atproto.limits WHERE name = 'role_processes'");
show("SET SESSION AUTHORIZATION r1; UPDATE atproto.subscription SET paused_at = NULL WHERE name = 'b1'");
show("SET SESSION AUTHORIZATION r1; UPDATE atproto.subscription SET verify = 'chain' WHERE name = 'b1'");
# did:web
my $cid = 'bafyreie5cvv4h45feadgeuwhbcutmh6t2ceseocckahdoe6uat64zmz454';
for my $d ('did:web:localhost%3A80', 'did:web:localhost%3a80', 'did:web:localhost', 'did:web:localhost:u') {
query("INSERT INTO a.record (did, collection, rkey, cid, value, rev) VALUES ('$d', 'app.bsky.feed.like', '1', '$cid', '{}', '3jzfcijpj2z2a'); INSERT INTO a.repo (did) VALUES ('$d');"
 . "INSERT INTO a.label (src, uri, val, neg, cts) VALUES ('did:plc:cccccccccccccccccccccccc', 'at://$d/app.bsky.feed.post/1', 'x', false, now()), ('did:plc:cccccccccccccccccccccccc', '$d', 'x', false, now())"); }
show("CALL atproto.erase('did:web:localhost%3A80', block => true)");
show("SELECT did FROM a.repo UNION ALL SELECT uri FROM a.label");
show("CALL atproto.erase('did:web:localhost')");
show("SELECT did FROM a.repo UNION ALL SELECT uri FROM a.label");
show("SELECT * FROM atproto.check(deep => true)");
# blocked: sessions' functions
query("CALL atproto.erase('did:web:localhost:u', block => true)");
show("UPDATE atproto.subscription SET backfill = 'repair', verify = 'chain'");
show("SELECT atproto.resync('did:web:localhost:u', 'a')");
show("SELECT atproto.backfill_repo('did:web:localhost:u', 'a1')");
show("SELECT atproto.prove('a')");
show("SELECT atproto.audit_repo('did:web:localhost:u', 'a')");
show("SELECT * FROM atproto.repo_job");
# in a procedure and with pending things of the caller
query("CREATE PROCEDURE pr() LANGUAGE plpgsql AS \$\$ BEGIN CREATE TEMP TABLE x (i int); INSERT INTO x VALUES (1); CALL atproto.erase('did:web:localhost%3a80', block => true); INSERT INTO x VALUES (2); END \$\$");
show("CALL pr(); SELECT count(*) FROM x");
show("DO \$\$ BEGIN FOR i IN 1..2 LOOP CALL atproto.erase('did:web:localhost%3a80', block => true); END LOOP; END \$\$");
show("DO \$\$ BEGIN BEGIN CALL atproto.erase('did:web:localhost%3a80', block => true); EXCEPTION WHEN OTHERS THEN RAISE NOTICE '%', sqlerrm; END; END \$\$; SELECT 1");
show("DO \$\$ DECLARE c CURSOR FOR SELECT did FROM a.repo; d did; BEGIN FOR r IN SELECT did FROM (VALUES ('did:web:a.example'::did), ('did:web:b.example')) v (did) LOOP CALL atproto.erase(r.did, block => true); END LOOP; END \$\$; SELECT * FROM atproto.blocked_account");
# isolation
show("SET default_transaction_isolation = 'serializable'; CALL atproto.erase('did:web:c.example', block => true)");
show("SET default_transaction_read_only = on; CALL atproto.erase('did:web:d.example', block => true)");
show("BEGIN; LOCK TABLE a.repo IN ROW EXCLUSIVE MODE; PREPARE TRANSACTION 'x'");
show("SET statement_timeout = '300ms'; CALL atproto.erase('did:web:e.example', block => true)");
show("SELECT did FROM atproto.blocked_account; ROLLBACK PREPARED 'x'");
ok(1);
done_testing();
