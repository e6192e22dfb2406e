# 262_hostile_owner.pl
#		A hostile owner with the grants of doc/operate/operations.md.  The owner cannot see the
#		subscriptions of other roles in the view of states, break this view, take numbers of foreign letters
#		and gaps, block a foreign subscription by a name with the same lock, make operators call functions
#		of the owner, or keep the manager busy; a former owner leaves no traps for the next.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

# Freed memory is overwritten, so that a process that reads it cannot go on.
$ENV{MALLOC_PERTURB_} = 165;
my $node = make_node('hostile_owner', conf => <<'CONF');
max_worker_processes = 16
atproto.max_role_processes = 0
atproto.max_role_bytes = 0
atproto.reconnect_delay = 20ms
atproto.reconnect_max_delay = 100ms
CONF
my $server = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x +y', 'a 2 +z'));

# The output of statements as a role, with all further output of psql.
sub as
{
	my ($role, $sql) = @_;
	my (undef, $out, $err) = $node->psql('postgres', "SET SESSION AUTHORIZATION $role; $sql");
	return "$out$err";
}

# the NOTICE of subscribe()
my $quiet = 'SET client_min_messages = warning;';

# The grants of the documentation.
my $document = slurp_file(test_dir() . '/../doc/operate/operations.md');
my ($grants) = $document =~ /^(CREATE ROLE consumer LOGIN;\n.*?)^```/ms or BAIL_OUT('doc/operate/operations.md does not name the grants');
query($grants);
(my $others = $grants) =~ s/\b(consumer|network)\b/other_$1/g;
query($others);
is(as('other_consumer', $quiet . subscribe_sql('victim', $server, cursor => 0, target => "'other_network'")), '', 'somebody has a subscription');
wait_for_seq($node, 'victim', 2);

# --- the view of states ---

unlike(as('consumer', <<'SQL'), qr/victim/, 'cheap functions are not shown the rows of others');
CREATE FUNCTION network.leak(text) RETURNS boolean LANGUAGE plpgsql COST 0.0000001
	AS 'BEGIN RAISE NOTICE $$seen: %$$, $1; RETURN true; END';
SELECT name FROM atproto.stat_subscription WHERE network.leak(name);
SQL
as('consumer', "INSERT INTO atproto.subscription (name, url, target) VALUES ('odd', 'wss://example.org', 'network')");
my $cursor = 'INSERT INTO atproto.cursor (subscription, endpoint, shard, %s) SELECT name, endpoint, n, %s
	FROM atproto.subscription, generate_series(0, 1) n';
foreach my $bad (
	[ 'event_time', "'infinity'" ], [ 'event_time', "'-infinity'" ],
	[ 'events',     '9223372036854775807' ], [ 'events', '-1' ],
	[ 'record_ops', '9223372036854775807' ], [ 'record_ops', '-1' ])
{
	like(as('consumer', sprintf($cursor, @$bad)), qr/violates check constraint/, "$bad->[0] $bad->[1]: refused");
}
foreach my $good ([ 'event_time', "'4714-11-24 00:00:00+00 BC'" ], [ 'event_time', "'294276-12-31 23:59:59.999999+00'" ],
	[ 'events', '9007199254740991' ], [ 'record_ops', '9007199254740991' ])
{
	is(as('consumer', sprintf($cursor, @$good)), '', "$good->[0] $good->[1]: may be");
	is(query("SELECT count(*), count(lag_seconds) >= 1, count(events) FROM atproto.stat_subscription"), '2|t|2', 'and everybody sees his state');
	query("DELETE FROM atproto.cursor WHERE subscription = 'odd'");
}
# counts that are no counts, or too large or too many to be added
foreach my $skips (q('{"break": 1e30}'), q('{"verified": 1.5, "old": -7}'), q('{"mismatch": 9e130000}'), q(jsonb_build_object(repeat('x', 100000), 1)),
	q((SELECT jsonb_object_agg(i, 1) FROM generate_series(1, 1000) i)))
{
	is(as('consumer', sprintf($cursor, 'skips', $skips)), '', 'the owner writes odd counts');
	is(query("SELECT count(*), max(octet_length(skips::text)) < 5000 FROM (SELECT * FROM atproto.stat_subscription) v"), '2|t', 'and everybody sees the states');
	query("DELETE FROM atproto.cursor WHERE subscription = 'odd'");
}
as('consumer', "INSERT INTO atproto.gap (subscription, endpoint, after_seq, reason) VALUES ('odd', 'x', 1, repeat('x', 100000))");
as('consumer', "SELECT atproto.close_gap(id, repeat('x', 100000)) FROM atproto.gap");
is(query("SELECT max(length(detail)), count(*) FROM atproto.subscription_log WHERE subscription = 'odd'"), '2000|2', 'nor does an owner fill the history');
as('consumer', "UPDATE atproto.subscription SET stopped = repeat('x', 10000000)");
is(query("SELECT length(last_error) FROM atproto.stat_subscription WHERE name = 'odd'"), '2000', 'nor can he fill the view');
like(as('consumer', "UPDATE atproto.subscription SET url = 'wss://example.org/?' || repeat('a', 8192)"),
	qr/the URL is too long/, 'or the memory of who reads all subscriptions');
is(as('consumer', "SELECT atproto.unsubscribe('odd')"), '', '');

# --- the tables of others ---

# rows of atproto.gap that outlive their subscription are shown to the users of the target
as('consumer', "INSERT INTO atproto.subscription (name, url, target) VALUES ('odd', 'wss://example.org', 'network');
	INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason) VALUES ('odd', 'x', 1, 9, 'held events dropped')");
like(as('consumer', "UPDATE atproto.gap SET target = 'other_network'"), qr/permission denied for table gap/, 'a gap is of no other target');
like(as('consumer', "UPDATE atproto.gap SET events = 1"), qr/permission denied for table gap/, 'and has no number of events');
is(as('consumer', "SELECT atproto.unsubscribe('odd')"), '', '');
is(query('SELECT count(*) FROM atproto.gap'), '0', 'and does not outlive its subscription');

# A second source of a target which has not received anything is not ahead; one whose owner may not fill the target any more counts for nothing.
query('GRANT USAGE ON SCHEMA other_network TO consumer; GRANT ALL ON ALL TABLES IN SCHEMA other_network TO consumer');
query("UPDATE other_network.repo SET sync = 'unproven'; INSERT INTO atproto.audit_state (target) VALUES ('other_network') ON CONFLICT DO NOTHING");
is(as('consumer', "$quiet SELECT atproto.subscribe('0', 'wss://localhost:1', target => 'other_network')"), '', 'two roles share a target');
is(as('other_consumer', "SELECT behind FROM atproto.stat_subscription"), '', 'a source without events is not ahead');
is(as('other_consumer', 'SELECT unproven FROM atproto.audit_progress'), '1', 'the owner sees how many repositories are unproven');
as('consumer', "UPDATE atproto.cursor SET event_time = now() WHERE subscription = '0'");
isnt(as('other_consumer', "SELECT behind FROM atproto.stat_subscription"), '', 'a source with events may be ahead');
query('REVOKE ALL ON ALL TABLES IN SCHEMA other_network FROM consumer');
is(as('other_consumer', "SELECT behind FROM atproto.stat_subscription"), '', 'but not without the rights');
is(query('SELECT unproven FROM atproto.audit_progress'), '1', 'and nobody looks with the rights that its owner has lost');
query("SELECT atproto.unsubscribe('0'); REVOKE USAGE ON SCHEMA other_network FROM consumer; UPDATE other_network.repo SET sync = 'synchronized'");

# --- numbers ---

as('consumer', "INSERT INTO atproto.subscription (name, url, target) VALUES ('odd', 'wss://example.org', 'network');
	INSERT INTO atproto.dead_frame VALUES ('odd', 'x', 'y')");
like(as('consumer', "INSERT INTO atproto.dead_letter (id, subscription, stage, sqlstate, message, digest)
	OVERRIDING SYSTEM VALUE VALUES (1, 'odd', 'frame', '22P03', 'x', 'x')"), qr/permission denied for table dead_letter/, 'the number of a letter is not his to choose');
like(as('consumer', "INSERT INTO atproto.gap (id, subscription, endpoint, after_seq, reason)
	OVERRIDING SYSTEM VALUE VALUES (1, 'odd', 'x', 1, 'x')"), qr/permission denied for table gap/, 'nor that of a gap');
is(as('consumer', "INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, digest) VALUES ('odd', 'frame', '22P03', 'x', 'x');
	INSERT INTO atproto.gap (subscription, endpoint, after_seq, reason) VALUES ('odd', 'x', 1, 'x')"), '', 'rows of his own he may have');

# a user who restores tables without their sequences has used up the next numbers
query("INSERT INTO atproto.dead_letter (id, subscription, stage, sqlstate, message, digest, path)
	OVERRIDING SYSTEM VALUE SELECT n, 'odd', 'frame', '22P03', 'x', 'x', n::text FROM generate_series(2, 20) n");
query(<<'SQL');
CREATE FUNCTION other_network.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'not yet'; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON other_network.record FOR EACH ROW EXECUTE FUNCTION other_network.refuse();
TRUNCATE other_network.record, other_network.repo;
SELECT atproto.set_cursor('victim', 0);
SQL
wait_for("SELECT stopped ~ 'duplicate key value violates unique constraint \"dead_letter_pkey\"' FROM atproto.subscription WHERE name = 'victim'");
is(query("SELECT seq FROM atproto.cursor WHERE subscription = 'victim'"), '0', 'a letter that finds its number taken stops the stream, and is not lost');
query("SELECT setval('atproto.dead_letter_id_seq', 20); DROP TRIGGER refuse ON other_network.record; SELECT atproto.resume('victim')");
wait_for_seq($node, 'victim', 2);

# --- a name with the same hash as the name of another subscription ---

my $twin = q{!aaaaaaaaaaa-1>8Uv9v763q};
is(query("SELECT hashtextextended('$twin', 0) = hashtextextended('victim', 0)"), 't', 'a name with the same hash');
is(as('consumer', $quiet . subscribe_sql($twin, $server, cursor => 0, target => "'network'")), '', 'has a subscription');
wait_for_seq($node, $twin, 2);
is(query("SELECT count(DISTINCT pid), min(state), max(state) FROM atproto.stat_subscription WHERE name IN ('$twin', 'victim')"),
	'2|streaming|streaming', 'beside the other one');
query("SELECT atproto.unsubscribe('$twin')");

# --- operators in the caller's search_path ---

is(as('consumer', <<'SQL'), '', 'what the tables do by themselves does not look into the search_path');
CREATE TABLE network.seen (who name);
CREATE FUNCTION network.equals(text, text) RETURNS boolean LANGUAGE plpgsql
	AS 'BEGIN INSERT INTO network.seen VALUES (current_user); RETURN $1 OPERATOR(pg_catalog.=) $2; END';
CREATE FUNCTION network.equals(bytea, bytea) RETURNS boolean LANGUAGE plpgsql
	AS 'BEGIN INSERT INTO network.seen VALUES (current_user); RETURN $1 OPERATOR(pg_catalog.=) $2; END';
CREATE OPERATOR network.= (LEFTARG = text, RIGHTARG = text, FUNCTION = network.equals);
CREATE OPERATOR network.= (LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = network.equals);
CREATE OPERATOR network.<> (LEFTARG = text, RIGHTARG = text, FUNCTION = network.equals);
GRANT USAGE ON SCHEMA network TO PUBLIC;
GRANT ALL ON network.seen TO PUBLIC;
SET search_path = network, pg_catalog;
DELETE FROM atproto.subscription WHERE name OPERATOR(pg_catalog.=) 'odd';
SQL
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'letters go with their subscription');
unlike(as('postgres', <<"SQL"), qr/ERROR/, 'nor do the functions, whoever calls them');
SET search_path = network, pg_catalog;
SELECT atproto.pause('victim'), atproto.resume('victim'), atproto.set_cursor('victim', 1);
@{[ subscribe_sql('odd', $server, cursor => 0, target => "'network'", headers => q('{"X": "y"}')) ]};
SELECT atproto.unsubscribe('odd');
SQL
is(query('SELECT count(*) FROM network.seen'), '0', 'nothing of them was called');

# --- temporary types and tables: these are found before PostgreSQL's own where the search_path does not name pg_temp ---

my $temporary = 'CREATE TEMP TABLE pg_class (a int); CREATE TEMP TABLE pg_inherits (a int);'
  . join '', map { "CREATE DOMAIN pg_temp.$_ AS pg_catalog.$_ CHECK (network.is_mine());" } qw(text name int4 int8 bool timestamptz bytea);
as('consumer', <<"SQL");
SELECT atproto.create_tables('network');
@{[ subscribe_sql('own', $server, cursor => 0, target => "'network'", links => q('all')) ]};
CREATE SEQUENCE network.others;
CREATE FUNCTION network.is_mine() RETURNS boolean LANGUAGE plpgsql
	AS 'BEGIN IF current_user <> session_user THEN PERFORM nextval(\$\$network.others\$\$); END IF; RETURN true; END';
GRANT ALL ON SEQUENCE network.others TO PUBLIC;
SQL
wait_for_seq($node, 'own', 2);
my $mine = did('a');
foreach my $call (
	"SELECT atproto.rebuild_links('network')", "SELECT atproto.link_problems('network')", "SELECT atproto.partition('network', 'collection')",
	"CALL atproto.maintain_partitions('network', collections => '{app.bsky.feed.post,app.bsky.actor.profile,app.bsky.graph.list}', keep_events => '1 month')",
	"SELECT atproto.audit('$mine', 'network')", "CALL atproto.audit_all('network')", "SELECT atproto.refill('own')", "SELECT atproto.retry(1)",
	"SELECT atproto.resync('$mine', 'network')", "SELECT atproto.load_car('$mine', '', 'network')", "SELECT atproto.create_tables('network')",
	"SELECT atproto.pause('own'), atproto.resume('own'), atproto.set_cursor('own', 1)", "SELECT count(*) FROM atproto.stat_subscription")
{
	query("SELECT setval('network.others', 1, false)");
	my $said = as('consumer', "$temporary $call");
	is(query('SELECT is_called FROM network.others'), 'f', "$call: nothing of theirs is called with the rights of others")
	  or diag($said);
}
query("SELECT atproto.unsubscribe('own')");

# --- functions in the tables ---

# The functions that an owner has put into the tables run with the owner's rights, whoever calls a function of the extension
# that reads the tables of every target; PostgreSQL calls those in indexes and statistics already to plan a query.
is(as('consumer', <<'SQL'), '', '');
CREATE FUNCTION network.write() RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN INSERT INTO network.seen VALUES (current_user); RETURN 1; END';
CREATE FUNCTION network.look(text) RETURNS int LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN IF current_user <> $$consumer$$ THEN PERFORM network.write(); END IF; RETURN 1; END';
CREATE FUNCTION network.changed() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM network.look($$$$); RETURN NEW; END';
GRANT SELECT ON ALL TABLES IN SCHEMA network TO PUBLIC;
TRUNCATE network.seen;
UPDATE network.repo SET sync = 'unproven';
SQL
my %traps = (
	index      => [ "CREATE INDEX trap ON network.record (network.look('x'))", 'DROP INDEX network.trap' ],
	statistics => [ "CREATE STATISTICS network.trap ON (network.look('x') + length(rkey::text)), (length(rkey::text)) FROM network.record", 'DROP STATISTICS network.trap' ],
	policy     => [ 'ALTER TABLE network.repo ENABLE ROW LEVEL SECURITY; CREATE POLICY trap ON network.repo USING (network.look(did::text) = 1)',
		'DROP POLICY trap ON network.repo; ALTER TABLE network.repo DISABLE ROW LEVEL SECURITY' ],
	trigger    => [ 'CREATE TRIGGER trap BEFORE UPDATE ON network.repo FOR EACH ROW EXECUTE FUNCTION network.changed()', 'DROP TRIGGER trap ON network.repo' ],
);
foreach my $trap (sort keys %traps)
{
	is(as('consumer', "$traps{$trap}[0]; UPDATE network.repo SET sync = 'unproven'"), '', "a trap: $trap");
	foreach my $role ('postgres', 'other_consumer')
	{
		foreach my $call ('SELECT * FROM atproto.check(deep => true)', "SELECT * FROM atproto.check('network')",
			'SELECT (SELECT count(v::text) FROM atproto.repo_progress v), (SELECT count(v::text) FROM atproto.audit_progress v), (SELECT count(v::text) FROM atproto.stat_subscription v)',
			$role eq 'postgres' ? ("CALL atproto.audit_all('network')", "SELECT atproto.audit('$mine', 'network')", "SELECT * FROM atproto.link_problems('network')") : ())
		{
			as($role, $call);
			is(query('SELECT DISTINCT who FROM network.seen'), '', "$trap: $call of $role calls nothing with that role's rights");
			query('TRUNCATE network.seen');
		}
	}
	is(as('consumer', $traps{$trap}[1]), '', '');
}

# Nor does a policy read with the rights of the caller for its owner.
query('GRANT USAGE ON SCHEMA other_network TO consumer');
is(as('consumer', <<'SQL'), '', 'a trap: a policy that reads a foreign table');
CREATE TABLE network.kept_text (x text);
CREATE FUNCTION network.keep(text) RETURNS int LANGUAGE plpgsql VOLATILE AS 'BEGIN INSERT INTO network.kept_text VALUES ($1); RETURN 1; END';
GRANT INSERT ON network.kept_text TO PUBLIC;
ALTER TABLE network.repo ENABLE ROW LEVEL SECURITY;
CREATE POLICY trap ON network.repo USING (network.keep((SELECT max(value::text) FROM other_network.record)) = 1);
SQL
like(as('other_consumer', "SELECT what, target, detail FROM atproto.check('network')"),
	qr/^not readable\|network\|table "network.repo" belongs to a role that is not trusted, and row security is active$/m, 'check() says that it does not read the table');
is(query('SELECT count(*) FROM network.kept_text'), '0', 'and gives away nothing');
is(as('consumer', 'DROP POLICY trap ON network.repo; ALTER TABLE network.repo DISABLE ROW LEVEL SECURITY'), '', '');
query('REVOKE USAGE ON SCHEMA other_network FROM consumer');

# All rows are checked nevertheless, and an owner's fault ends no check of other targets.
my $check = "SELECT what, target FROM atproto.check(deep => true) WHERE what IN ('records differ from the tree', 'not checked')";
as('consumer', "UPDATE network.repo SET sync = 'synchronized'");
is(query("SELECT count(*) FROM atproto.check(deep => true) WHERE what IN ('not readable', 'not checked')"), '0', 'a superuser can read all that check() reads');
my $spoil = "BEGIN; DELETE FROM network.record WHERE rkey = (SELECT min(rkey) FROM network.record)";
is(as('postgres', "$spoil; $check; ROLLBACK"), 'records differ from the tree|network', 'a superuser finds what is wrong in the tables of every role');
my $fails = q(CREATE FUNCTION network.fail(text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN IF $1 = $$now$$ AND pg_backend_pid() <> 0 THEN RAISE EXCEPTION $$no$$; END IF; RETURN 1; END');
like(as('postgres', "BEGIN; SET LOCAL SESSION AUTHORIZATION consumer; $fails; CREATE STATISTICS network.trap ON (network.fail('now') + length(rkey::text)), (length(rkey::text)) FROM network.record;"
	. " RESET SESSION AUTHORIZATION; DELETE FROM other_network.record WHERE rkey = 'x'; $check; ROLLBACK"),
	qr/^records differ from the tree\|other_network$/m, 'and in the tables of a second role, while the functions of the first one fail');

# A function of an owner that changes the search_path changes it for no query with the rights of a superuser.
query("CREATE SCHEMA trap AUTHORIZATION consumer; CREATE SCHEMA zoo; SELECT atproto.create_tables('zoo');"
	. " INSERT INTO zoo.repo (did, rev, refill_by) VALUES ('$mine', '3aaaaaaaaaaaa', 'nobody')");
is(as('consumer', <<"SQL"), '', 'a trap: a cast that changes the search_path');
SELECT atproto.create_tables('trap');
CREATE TYPE network.odd AS (a int);
ALTER TABLE trap.repo DROP COLUMN refill_rev, ADD COLUMN refill_rev network.odd;
INSERT INTO trap.repo (did, rev, refill_by, refill_rev) VALUES ('$mine', '3aaaaaaaaaaaa', 'nobody', ROW(1));
CREATE FUNCTION network.to_tid(network.odd) RETURNS atproto.tid LANGUAGE plpgsql AS \$\$BEGIN
	PERFORM network.look(''), set_config('search_path', 'network, pg_catalog', false);
	RETURN '2222222222222';
END\$\$;
CREATE CAST (network.odd AS atproto.tid) WITH FUNCTION network.to_tid(network.odd) AS IMPLICIT;
CREATE FUNCTION network.format(text, text) RETURNS text LANGUAGE plpgsql AS 'BEGIN PERFORM network.look(\$1); RETURN \$2; END';
SQL
# superusers who are members of a role trust the role no more than other superusers
foreach my $member ('REVOKE consumer FROM postgres', 'GRANT consumer TO postgres')
{
	query("$member; TRUNCATE network.seen");
	is(as('postgres', "SELECT object, detail FROM atproto.check() WHERE target = 'zoo'"), 'refill_by|no subscription of this target is nobody', "$member: the next target is checked");
	is(query('SELECT DISTINCT who FROM network.seen'), '', 'and no function of the owner is called with the rights of the superuser');
}
query('REVOKE consumer FROM postgres');
is(as('consumer', q{CREATE OR REPLACE FUNCTION network.to_tid(network.odd) RETURNS atproto.tid LANGUAGE plpgsql
	AS 'BEGIN RAISE EXCEPTION $$no$$ USING ERRCODE = $$query_canceled$$; END'}), '', 'a trap: a cast that looks cancelled');
like(as('postgres', "SELECT what, target FROM atproto.check()"), qr/^not checked\|trap\n(.*\n)*refill of nobody\|zoo$/m, 'ends no check of other targets');
as('consumer', q{CREATE OR REPLACE FUNCTION network.to_tid(network.odd) RETURNS atproto.tid LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(180); RETURN NULL; END'});
like(as('postgres', "SET statement_timeout = '1s'; SELECT count(*) FROM atproto.check()"), qr/canceling statement due to statement timeout/, 'but a check that is cancelled ends');
as('consumer', q{CREATE OR REPLACE FUNCTION network.to_tid(network.odd) RETURNS atproto.tid LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'});

query('CREATE FOREIGN DATA WRAPPER nowhere; GRANT USAGE ON FOREIGN DATA WRAPPER nowhere TO consumer');
is(as('consumer', 'CREATE SERVER s FOREIGN DATA WRAPPER nowhere; CREATE FOREIGN TABLE trap.child () INHERITS (trap.record) SERVER s'), '', 'a trap: a foreign table as a part of a table');
like(as('postgres', "SELECT what, detail FROM atproto.check('trap') WHERE object = 'record without repository'"),
	qr/^not readable\|table "trap.child" belongs to a role that is not trusted, and is no table$/m, 'is not read with the rights of the superuser');
query('DROP FOREIGN DATA WRAPPER nowhere CASCADE');

# Where a superuser has made one of the tables, the functions in the others still have the rights of their owner.
is(as('consumer', "SET client_min_messages = warning; CREATE INDEX trap ON trap.record (network.look('x')); DROP TABLE trap.repo CASCADE; TRUNCATE network.seen"), '', 'a trap: an index');
query("SELECT atproto.create_tables('trap'); INSERT INTO trap.repo (did, rev, data) VALUES ('$mine', '3aaaaaaaaaaaa', 'bafyreihyrpefhacm6kkp4ql6j6udakdit7g3dmkzfriqfykhjw6cad5lrm')");
like(as('postgres', $_), qr/permission denied for table repo/, "$_: not as a superuser") foreach "SELECT atproto.audit('$mine', 'trap')", "CALL atproto.audit_all('trap')";
is(query('SELECT DISTINCT who FROM network.seen'), '', 'and calls nothing with the rights of the superuser');
query('DROP SCHEMA trap CASCADE; DROP SCHEMA zoo CASCADE');

# Nor does a trigger that changes the search_path let the owner act with the rights of the extension's owner.
query('CREATE SCHEMA operators AUTHORIZATION consumer');
is(as('consumer', <<"SQL"), '', 'a trap: a trigger that changes the search_path');
INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('own', 'wss://localhost:1', 'network', false);
TRUNCATE network.seen;
CREATE FUNCTION operators.equals(name, name) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN PERFORM network.look(\$1::text); RETURN \$1 OPERATOR(pg_catalog.=) \$2; END';
CREATE OPERATOR operators.= (LEFTARG = name, RIGHTARG = name, FUNCTION = operators.equals);
CREATE FUNCTION network.set_path() RETURNS trigger LANGUAGE plpgsql AS \$\$BEGIN PERFORM set_config('search_path', 'operators, pg_catalog', false); RETURN NEW; END\$\$;
CREATE TRIGGER trap BEFORE INSERT OR UPDATE ON network.repo FOR EACH ROW EXECUTE FUNCTION network.set_path();
SQL
query("INSERT INTO atproto.held_event (target, did, rev, subscription, seq, why, shard_key, bytes) VALUES ('network', '$mine', '3aaaaaaaaaaaa', 'own', 4, 'identity', 0, 'x')");
is(as('consumer', "SELECT atproto.unsubscribe('own')"), '', 'the events that wait are dropped');
is(query('SELECT DISTINCT who FROM network.seen'), '', 'and no operator of the owner is called with more rights');
my $breaks = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x', 'a sync 4'));
is(as('consumer', $quiet . subscribe_sql('own', $breaks, cursor => 0, target => "'network'", backfill => q('repair'))), '', 'a consumer');
wait_for("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE subscription = 'own')");
is(query('SELECT DISTINCT who FROM network.seen'), '', 'calls no such operator when it has a repository fetched');
is(as('consumer', "SELECT atproto.unsubscribe('own'); DROP TRIGGER trap ON network.repo; DROP OPERATOR operators.= (name, name)"), '', '');

# --- the owner before ---

my $refusing = AtprotoTest::Server->start(make_capture('steps.py', 'a 1 +x'), '--status', '503');
as('other_consumer', subscribe_sql('heritage', $refusing, target => "'other_network'"));
wait_for("SELECT last_error ~ '503' FROM atproto.stat_subscription WHERE name = 'heritage'");
query("BEGIN; SELECT atproto.unsubscribe('heritage'); SET LOCAL SESSION AUTHORIZATION consumer; "
	. subscribe_sql('heritage', $server, cursor => 0, target => "'network'") . '; COMMIT');
wait_for_seq($node, 'heritage', 2);
is(query("SELECT last_error, drops, reconnects FROM atproto.stat_subscription WHERE name = 'heritage'"), '|{}|0', 'leaves no errors of his');

# --- a trigger refuses that the wait for a fetch ends which nobody carries out ---

query("SELECT atproto.unsubscribe('heritage')");
as('consumer', <<'SQL');
INSERT INTO network.repo (did, rev, sync, hold, host)
	SELECT ('did:plc:' || lpad(translate(i::text, '0189', 'wxyz'), 24, 'a'))::did, '2222222222222', 'resyncing', 'resync', repeat('h', 1000) FROM generate_series(1, 900) i;
CREATE FUNCTION network.insist() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'they wait' USING ERRCODE = '22000'; END $$;
CREATE TRIGGER insist BEFORE UPDATE ON network.repo FOR EACH ROW WHEN (OLD.hold = 'resync') EXECUTE FUNCTION network.insist();
SQL
my $before = -s $node->logfile;
as('consumer', subscribe_sql('heritage', $server, cursor => 0, target => "'network'"));
$node->wait_for_log(qr/rows of table "repo" say that events wait, for atproto subscription "heritage": they wait/, $before);
as('consumer', q{DROP TRIGGER insist ON network.repo; DELETE FROM network.repo WHERE hold = 'resync'});
wait_for_seq($node, 'heritage', 2);
pass('R-04: the consumer says so, and goes on');

# --- subscriptions without number ---

query('CREATE DATABASE unrelated');
my $many = "INSERT INTO atproto.subscription (name, url, target) SELECT 'many ' || n, 'wss://example.org/xrpc/org.example.x', 'network'";
is(as('consumer', "$many FROM generate_series(1, 1000) n"), '', 'without the limits of a role, he may make many');
# the same, a hundred times: without what the triggers do again for each row of the same target, it takes a tenth of the time
query('ALTER TABLE atproto.subscription DISABLE TRIGGER subscription_proved, DISABLE TRIGGER sweep_joined, DISABLE TRIGGER subscription_audits');
is(as('consumer', "$many FROM generate_series(1001, 100000) n"), '', 'and more');
query('ALTER TABLE atproto.subscription ENABLE TRIGGER subscription_proved, ENABLE ALWAYS TRIGGER sweep_joined, ENABLE ALWAYS TRIGGER subscription_audits');
# two checks of all subscriptions: the first may come before the manager has begun
foreach my $state ('pause', 'resume')
{
	is(as('other_consumer', "SELECT atproto.$state('victim')"), '', "others $state theirs");
	wait_for("SELECT state = '" . ($state eq 'pause' ? "paused' AND pid IS NULL" : "streaming'") . " FROM atproto.stat_subscription WHERE name = 'victim'");
}
unlike(as('postgres', "SET statement_timeout = '30s'; DROP DATABASE unrelated"), qr/ERROR/, 'and the manager hears who wants it to listen');

unlike(slurp_file($node->logfile), qr/terminated by signal|PANIC/, 'no process has crashed');
$node->stop;
done_testing();
