# 263_foreign_targets.pl
#		A role names the schema of another role as its target, by each way in which a row of
#		atproto.subscription can be written.  The statement is refused, or the subscription is stopped and
#		its row has no effect.  A subscription whose owner loses the rights later is stopped, with the
#		reason. sync.md, H: E-rules of subscribe().

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('foreign_targets', conf => "max_worker_processes = 16\natproto.reconnect_delay = 20ms\natproto.reconnect_max_delay = 100ms\n");
my $server = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x +y', 'a 2 +z'));

# The output of statements as a role, or the error with its SQLSTATE.
sub as
{
	my ($role, $sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\nSET SESSION AUTHORIZATION $role; $sql");
	return $rc == 0 ? $out : $err =~ /ERROR:  (.*)/ ? "ERROR: $1" : $err;
}

sub refused
{
	my ($role, $sql, $why, $name) = @_;
	like(as($role, $sql), qr/^ERROR: 42501: role "\w+" may not fill schema "\w+": $why/, $name);
	return;
}

# Two roles with the grants of the documentation, each with a schema.
my $document = slurp_file(test_dir() . '/../doc/operate/operations.md');
my ($grants) = $document =~ /^(CREATE ROLE consumer LOGIN;\n.*?)^```/ms or BAIL_OUT('doc/operate/operations.md does not name the grants');
(my $owners = $grants) =~ s/\bconsumer\b/owner/g;
(my $mallorys = $grants) =~ s/\b(consumer|network)\b/mallory_$1/g;
$owners =~ s/\bnetwork\b/a/g;
$mallorys =~ s/mallory_consumer/mallory/g;
$mallorys =~ s/mallory_network/m/g;
query($owners . $mallorys);

is(as('owner', subscribe_sql('own', $server, cursor => 0, target => "'a'", backfill => "'repair'")), '', 'the owner of a schema fills it');
wait_for_seq($node, 'own', 2);
my $rows = 'SELECT md5(string_agg(r::text, $$,$$ ORDER BY r::text)) FROM a.record r';
my $before = query($rows);

# --- each way to a row ---

my $lacks = 'the role lacks USAGE on the schema';
refused('mallory', subscribe_sql('m', $server, target => "'a'"), $lacks, 'subscribe()');
refused('mallory', "INSERT INTO atproto.subscription (name, url, target) VALUES ('m', '@{[ $server->url ]}', 'a')", $lacks, 'INSERT');
query('GRANT USAGE ON SCHEMA a TO mallory; GRANT SELECT ON ALL TABLES IN SCHEMA a TO mallory');
$lacks = 'the role lacks INSERT, UPDATE, DELETE on table a\.record';
refused('mallory', subscribe_sql('m', $server, target => "'a'"), $lacks, 'a reader of the tables: subscribe()');
is(as('mallory', subscribe_sql('m', $server, target => "'m'")), '', 'into a schema of its own it may');
refused('mallory', "UPDATE atproto.subscription SET target = 'a' WHERE name = 'm'", $lacks, 'UPDATE of the target');
is(as('mallory', "SELECT atproto.pause('m')"), '', 'paused');
refused('mallory', "UPDATE atproto.subscription SET target = 'a' WHERE name = 'm'", $lacks, 'also of one that is paused');
refused('postgres', "UPDATE atproto.subscription SET owner = 'mallory' WHERE name = 'own'", $lacks, 'UPDATE of the owner');
query('GRANT mallory TO owner');
refused('owner', "UPDATE atproto.subscription SET owner = 'mallory' WHERE name = 'own'", $lacks, 'by the owner, who is a member of the other role');
query('REVOKE mallory FROM owner');

# A row that pg_restore inserts has no grants yet: the subscription does not run and has no effect.
query("INSERT INTO atproto.subscription (name, url, target, owner, backfill, links) VALUES ('0 restored', '@{[ $server->url ]}', 'a', 'mallory', 'repair', 'all')");
like(query("SELECT stopped FROM atproto.subscription WHERE name = '0 restored'"), qr/restored, or inserted by hand/, 'a row that a superuser inserts is stopped');
refused('postgres', "SELECT atproto.resume('0 restored')", $lacks, 'resume()');
refused('postgres', "UPDATE atproto.subscription SET stopped = NULL WHERE name = '0 restored'", $lacks, 'UPDATE of stopped');
my $did = did('a');
is(as('postgres', "SELECT atproto.resync('$did', 'a'); SELECT subscription FROM atproto.repo_job WHERE target = 'a'"), "\nown", 'its owner fetches nothing into the foreign schema');
query("DELETE FROM atproto.repo_job");
query(q{UPDATE a.record SET value = value || '{"via": "at://did:web:a.b/com.example.thing/1"}'});
is(query("SELECT count(*) FROM a.link"), '0', 'no links yet');
query("SELECT atproto.rebuild_links('a')");
is(query("SELECT count(*) FROM atproto.link_problems('a')"), '0', 'nor do its "links" count there');
query("UPDATE atproto.subscription SET links = '{com.example.nothing}' WHERE name = 'own'");
like(query("SELECT removed FROM atproto.rebuild_links('a')"), qr/^[1-9]/, 'the links that nobody else wants go');
is(query("SELECT what || object FROM atproto.check('a') WHERE what LIKE 'link%'"), '', 'and check() does not miss them');
query("UPDATE a.record SET value = value - 'via'");
query("UPDATE atproto.subscription SET actions = '{create}' WHERE name = '0 restored'");
unlike(query("SELECT reason FROM atproto.audit('$did', 'a')"), qr/filtered/, 'nor its filters');
query("DELETE FROM atproto.subscription WHERE name = '0 restored'");
is(query($rows), $before, 'nothing in the foreign schema has changed');

# --- rights lost and granted again ---

query('GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA a TO mallory');
is(as('mallory', subscribe_sql('granted', $server, target => "'a'")), '', 'with rights on the tables it may fill them');
wait_for("SELECT state = 'streaming' FROM atproto.stat_subscription WHERE name = 'granted'");
query('REVOKE DELETE ON a.link FROM mallory');
is(query("UPDATE atproto.subscription SET max_dead_letters = 9999 WHERE name = 'granted'"), '', 'its settings change');
wait_for("SELECT stopped = 'role \"mallory\" may not fill schema \"a\": the role lacks DELETE on table a.link' FROM atproto.subscription WHERE name = 'granted'");
pass('who has lost a right is stopped, with the reason');
refused('mallory', "SELECT atproto.resume('granted')", 'the role lacks DELETE on table a\.link', 'resume()');
query("GRANT DELETE ON a.link TO mallory; SELECT atproto.set_cursor('granted', 0), atproto.resume('granted')");
wait_for_seq($node, 'granted', 2);
pass('with the right it goes on');

# A repository of a target has one job and one request for its status, whichever role with rights on the tables asks: the
# request of a session goes by a subscription of the session's role, also if the job of a second role fails for ever.
query("UPDATE atproto.subscription SET backfill = 'repair' WHERE name = 'granted'");
query('GRANT EXECUTE ON FUNCTION atproto.resync TO owner, mallory');
my $failing = "DELETE FROM atproto.repo_job; INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, tries, next_try, error)"
  . " VALUES ('a', '$did', '%s', 1, 'break', 9, 'infinity', 'x')";
my $asks = "SELECT atproto.resync('$did', 'a'); RESET SESSION AUTHORIZATION; SELECT subscription, tries, next_try <= now(), priority FROM atproto.repo_job; ROLLBACK";
is(query('BEGIN; ' . sprintf($failing, 'granted') . "; SET LOCAL SESSION AUTHORIZATION owner; $asks"), "\nown|0|t|0", 'R-01: the job of another role delays nobody who asks');
is(query('BEGIN; ' . sprintf($failing, 'own') . "; SET LOCAL SESSION AUTHORIZATION mallory; $asks"), "\ngranted|0|t|0", 'R-01: whoever may write the tables may have them written');

# No grant on the queues lets a role replace a row of a second role.
query('GRANT INSERT, UPDATE ON atproto.repo_job, atproto.status_request TO mallory');
my $job    = "INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try) VALUES ('%s', '$did', 'm', 1, 'break', 'infinity')";
my $status = "INSERT INTO atproto.status_request (target, did, subscription, why, requested_at, next_try) VALUES ('%s', '$did', 'm', 'rev', now(), 'infinity')";
foreach my $queue ($job, $status)
{
	is(as('mallory', 'BEGIN; ' . sprintf($queue, 'm') . '; ROLLBACK'), '', 'R-01: a role writes into the queue for its own target');
	like(as('mallory', sprintf $queue, 'a'), qr/^ERROR: 42501: new row violates row-level security policy/, 'R-01: and for no other with the subscription of its own');
}
query('REVOKE INSERT, UPDATE ON atproto.repo_job, atproto.status_request FROM mallory');

# While the consumer streams: the next batch is the first to be refused.
my $more = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x +y', 'a 2 +z', 'a 3 +u'), '--hold-at', 3);
query("SELECT atproto.unsubscribe('granted')");
is(as('mallory', subscribe_sql('granted', $more, cursor => 0, target => "'a'")), '', 'it subscribes again');
wait_for_seq($node, 'granted', 2);
query('REVOKE INSERT ON a.label FROM mallory');
$more->release;
wait_for("SELECT stopped ~ 'lacks INSERT on table a.label' FROM atproto.subscription WHERE name = 'granted'");
is(query("SELECT seq, (SELECT count(*) FROM a.record WHERE rkey = 'u') FROM atproto.cursor WHERE subscription = 'granted'"), '2|0',
	'who loses a right while it streams writes nothing more');
query("SELECT atproto.unsubscribe('granted')");
query('REVOKE ALL ON ALL TABLES IN SCHEMA a FROM mallory');

# --- schemas without tables, and tables of several owners ---

query('CREATE SCHEMA empty; GRANT USAGE ON SCHEMA empty TO mallory');
refused('mallory', "UPDATE atproto.subscription SET target = 'empty' WHERE name = 'm'", 'the schema has none of the tables yet, and the role lacks CREATE on the schema', 'a schema without tables');
query('GRANT CREATE ON SCHEMA empty TO mallory');
is(as('mallory', "UPDATE atproto.subscription SET target = 'empty' WHERE name = 'm'"), '', 'where it may make them, it may fill them');
is(as('mallory', "UPDATE atproto.subscription SET target = 'm' WHERE name = 'm'"), '', '');
refused('mallory', "UPDATE atproto.subscription SET target = 'nowhere' WHERE name = 'm'", 'there is no such schema, and the role lacks CREATE on database "postgres"', 'no schema');
query('GRANT CREATE ON DATABASE postgres TO mallory');
is(as('mallory', "UPDATE atproto.subscription SET target = 'nowhere' WHERE name = 'm'"), '', 'where it may make one, it may name it');
is(as('mallory', "UPDATE atproto.subscription SET target = 'm' WHERE name = 'm'"), '', '');

# A role puts a table with triggers where a second role will subscribe.
is(as('mallory', 'CREATE TABLE empty.record (did text); GRANT ALL ON empty.record TO PUBLIC'), '', 'a table of one role in the schema of another');
my $third = 'table empty\.record belongs to role "mallory", which does not own the schema: its triggers would run as';
refused('postgres', subscribe_sql('caught', $server, target => "'empty'"), "$third \"postgres\"", 'a superuser is not caught');
query('GRANT USAGE, CREATE ON SCHEMA empty TO owner');
refused('owner', subscribe_sql('caught', $server, target => "'empty'"), "$third \"owner\"", 'nor is another role');
query('DROP TABLE empty.record');
is(as('mallory', "SELECT atproto.create_tables('empty')"), '', 'tables of one role in the schema of a superuser');
is(as('mallory', "UPDATE atproto.subscription SET target = 'empty' WHERE name = 'm'"), '', 'are for that role to fill');
query('ALTER TABLE empty.label OWNER TO owner');
refused('mallory', "UPDATE atproto.subscription SET target = 'empty', name = 'n' WHERE name = 'm'; UPDATE atproto.subscription SET target = 'm'; UPDATE atproto.subscription SET target = 'empty'",
	'table empty\.label belongs to role "owner"', 'but not when one of them belongs to a third role');
query('ALTER TABLE empty.label OWNER TO postgres');
refused('mallory', "UPDATE atproto.subscription SET target = 'm'; UPDATE atproto.subscription SET target = 'empty'",
	'the role lacks SELECT, INSERT, UPDATE, DELETE on table empty\.label', 'each table counts');

# --- a schema of the same name that belongs to a different role ---

query('CREATE SCHEMA gone');
$more = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x +y', 'a 2 +z', 'a 3 +u'), '--hold-at', 3);
query(subscribe_sql('gone', $more, cursor => 0, target => "'gone'"));
wait_for_seq($node, 'gone', 2);
query('SET client_min_messages = warning; DROP SCHEMA gone CASCADE');
is(as('mallory', <<'EOSQL'), '', 'a role makes the schema that another one has dropped');
CREATE SCHEMA gone; SELECT atproto.create_tables('gone'); CREATE TABLE m.ran_as (name text);
CREATE FUNCTION gone.ran() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO m.ran_as VALUES (current_user); RETURN NEW; END$$;
CREATE TRIGGER ran BEFORE INSERT ON gone.record FOR EACH ROW EXECUTE FUNCTION gone.ran();
EOSQL
$more->release;
wait_for("SELECT stopped IS NOT NULL OR EXISTS (SELECT FROM m.ran_as) FROM atproto.subscription WHERE name = 'gone'");
is(query("SELECT stopped FROM atproto.subscription WHERE name = 'gone'"), 'schema "gone" belongs to role "mallory" now: its triggers would run as "postgres"', 'and nobody fills it');
is(query('SELECT count(*) FROM m.ran_as'), '0', 'its triggers have not run as the superuser');

# Nor can the role fill the schema in any other way.
my $strange = 'ERROR: 42501: schema "gone" belongs to role "mallory" now: its triggers would run as "postgres"';
query(<<"EOSQL");
INSERT INTO atproto.dead_frame (subscription, digest, bytes) VALUES ('gone', sha256('\\x00'), '\\x00');
INSERT INTO atproto.dead_letter (subscription, seq, stage, sqlstate, did, message, digest) VALUES ('gone', 2, 'commit', '22000', '$did', 'by the test', sha256('\\x00'));
EOSQL
is(as('postgres', "SELECT atproto.retry(id) FROM atproto.dead_letter WHERE subscription = 'gone'"), $strange, 'retry()');
is(as('postgres', "SELECT atproto.refill('gone', NULL, 0)"), $strange, 'refill()');
like(as('postgres', "SELECT atproto.resync('$did', 'gone')"), qr/^ERROR: 42704: no subscription keeps records/, 'resync()');
is(query("SELECT atproto.role_may_fill(owner, target, target_owner) FROM atproto.subscription WHERE name = 'gone'"), 'f', 'it takes part in nothing');
is(query("UPDATE atproto.subscription SET target_owner = 'mallory'::regrole::oid WHERE name = 'gone' RETURNING target_owner::regrole"), 'postgres', 'nobody writes target_owner by hand');
query("DELETE FROM atproto.dead_letter WHERE subscription = 'gone'; DROP TRIGGER ran ON gone.record; SELECT atproto.resume('gone')");
wait_for_seq($node, 'gone', 3);
is(query("SELECT target_owner::regrole FROM atproto.subscription WHERE name = 'gone'"), 'mallory', 'resume() says that the schema of the other role is meant');

# The consumer ends while the schema is replaced: the owner that it remembered is not lost with the process.
query("SELECT atproto.unsubscribe('gone'); SET client_min_messages = warning; DROP SCHEMA gone CASCADE; CREATE SCHEMA gone");
$more = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x +y', 'a 2 +z', 'a 3 +u'), '--hold-at', 3);
query(subscribe_sql('gone', $more, cursor => 0, target => "'gone'"));
wait_for_seq($node, 'gone', 2);
query('SET client_min_messages = warning; DROP SCHEMA gone CASCADE');
is(as('mallory', <<'EOSQL'), '', 'the schema is made again by another role');
CREATE SCHEMA gone; SELECT atproto.create_tables('gone');
CREATE FUNCTION gone.ran() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO m.ran_as VALUES (current_user); RETURN NEW; END$$;
CREATE TRIGGER ran BEFORE INSERT ON gone.record FOR EACH ROW EXECUTE FUNCTION gone.ran();
EOSQL
query("SELECT pg_terminate_backend(atproto_internal.consumer_pid('gone'))");
$more->release;
wait_for("SELECT stopped IS NOT NULL OR EXISTS (SELECT FROM m.ran_as) FROM atproto.subscription WHERE name = 'gone'");
is(query("SELECT stopped FROM atproto.subscription WHERE name = 'gone'"), 'schema "gone" belongs to role "mallory" now: its triggers would run as "postgres"', 'the next consumer does not fill it, either');
is(query('SELECT count(*) FROM m.ran_as'), '0', 'and its triggers have not run');
query("SELECT atproto.unsubscribe('gone'); DROP SCHEMA gone CASCADE");

# A restored row has the OID of a role of the old server: target_owner counts only after resume().
query("INSERT INTO atproto.subscription (name, url, target, target_owner, owner) VALUES ('gone', '@{[ $server->url ]}', 'm', 'mallory'::regrole::oid, 'postgres')");
is(query("SELECT target_owner FROM atproto.subscription WHERE name = 'gone'"), '0', 'not restored');
query("SELECT atproto.resume('gone')");
is(query("SELECT target_owner::regrole FROM atproto.subscription WHERE name = 'gone'"), 'mallory', 'but known from resume() on');
is(query("ALTER SCHEMA m RENAME TO mm; SELECT target, target_owner::regrole FROM atproto.subscription WHERE name = 'gone'"), 'mm|mallory', 'and after a rename');
query("ALTER SCHEMA mm RENAME TO m; SELECT atproto.unsubscribe('gone')");

# --- the question itself ---

is(query("SELECT string_agg(atproto.role_may_fill(r::regrole, s, (SELECT nspowner FROM pg_namespace WHERE nspname = s))::text, ' ' ORDER BY r, s) FROM unnest('{mallory,owner,postgres}'::name[]) r, unnest('{a,m}'::name[]) s"),
	'false true true false true true', 'role_may_fill()');
is(query("SELECT atproto.role_may_fill(4000000000, 'a', 0)"), 'f', 'a role that does not exist may not');
is(as('mallory', "SELECT atproto.role_may_fill('owner'::regrole, 'a', 0)"), 't', 'every role may ask, as with has_table_privilege()');

$node->stop;
done_testing();
