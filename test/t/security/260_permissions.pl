# 260_permissions.pl
#		Rights of roles.  A role with the grants of doc/operate/operations.md has its own subscriptions,
#		sees nothing of foreign subscriptions, and cannot act with the rights of a foreign role. pg_monitor
#		sees states and no secrets; a role without grants sees nothing.  Headers are secrets of the owner
#		(E-07).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node('permissions', conf => 'max_worker_processes = 16');
my $server = AtprotoTest::Server->start($pds);

# The output of a statement, or its error, as a role.
sub as
{
	my ($role, $sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET SESSION AUTHORIZATION $role; $sql");
	return $rc == 0 ? $out : $err =~ /ERROR:  (.*)/ ? "ERROR: $1" : $err;
}

sub refused
{
	my ($role, $sql, $pattern, $name) = @_;
	like(as($role, $sql), qr/^ERROR: $pattern/, $name);
	return;
}

# The grants of the documentation.
my $document = slurp_file(test_dir() . '/../doc/operate/operations.md');
my ($grants) = $document =~ /^(CREATE ROLE consumer LOGIN;\n.*?)^```/ms or BAIL_OUT('doc/operate/operations.md does not name the grants');
query($grants);
(my $others = $grants) =~ s/\b(consumer|network)\b/other_$1/g;
query($others);
query('CREATE ROLE monitor LOGIN; GRANT pg_monitor TO monitor; CREATE ROLE anybody LOGIN; CREATE ROLE boss SUPERUSER LOGIN');

# --- a subscription of its own ---

query(subscribe_sql('super', $server, cursor => 0, headers => q('{"Authorization": "Bearer secret-of-super"}')));
is(as('consumer', subscribe_sql('own', $server, cursor => 0, target => "'network'", headers => q('{"Authorization": "Bearer mine"}'))),
	'', 'a role with the grants subscribes');
is(as('other_consumer', subscribe_sql('other', $server, cursor => 0, target => "'other_network'", headers => q('{"Authorization": "Bearer others"}'))),
	'', 'so does another');
wait_for_seq($node, $_, $PDS_LAST) foreach 'super', 'own', 'other';
tables_match($node, $pds, 'its tables are what the oracle says', schema => 'network', modes => [ 'record', 'repo' ]);
is(query("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'network'"), 'consumer', 'they are its own');
is(query("SELECT string_agg(usename || ' ' || application_name, ', ' ORDER BY usename) FROM pg_stat_activity WHERE backend_type = 'atproto consumer'"),
	'consumer atproto own, other_consumer atproto other, postgres atproto super', 'each consumer runs as its owner');
my %headers;
foreach my $request ($server->log('request'))
{
	$headers{$_->[1]}++ foreach grep { lc $_->[0] eq 'authorization' } @{ $request->{headers} };
}
is_deeply([ sort keys %headers ], [ 'Bearer mine', 'Bearer others', 'Bearer secret-of-super' ], 'with its headers');

is(as('consumer', "SELECT atproto.pause('own')"), '', 'pause');
is(as('consumer', "SELECT atproto.set_cursor('own', 10)"), '', 'set_cursor');
is(as('consumer', "UPDATE atproto.subscription SET collections = ARRAY['app.bsky.*']"), '', 'filters');
is(as('consumer', "SELECT atproto.resume('own')"), '', 'resume');
$node->poll_query_until('postgres', "SELECT seq = $PDS_LAST FROM atproto.cursor WHERE subscription = 'own' AND events > $PDS_LAST");
is(as('consumer', q{CREATE FUNCTION network.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION $$no$$; END';
	CREATE TRIGGER f BEFORE INSERT ON network.record FOR EACH ROW WHEN (NEW.collection = 'app.bsky.feed.post') EXECUTE FUNCTION network.f()}),
	'', 'triggers on its tables');
is(as('consumer', "TRUNCATE network.record, network.repo; SELECT atproto.set_cursor('own', 0)"), '', 'all of it again');
$node->poll_query_until('postgres', "SELECT count(*) > 0 AND (SELECT seq = $PDS_LAST FROM atproto.cursor WHERE subscription = 'own') FROM atproto.dead_letter");
is(as('consumer', 'DROP TRIGGER f ON network.record; SELECT atproto.retry(min(id)) FROM atproto.dead_letter'), 'applied', 'retry');

is(as('consumer', 'SELECT name, state, seq FROM atproto.stat_subscription'), "own|streaming|$PDS_LAST", 'it sees its state, and no other');
is(as('consumer', 'SELECT pid IS NULL, received > 0 FROM atproto.stat_subscription'), 'f|t', 'with its process');
refused($_, "SELECT * FROM atproto_internal.stream_status()", qr/permission denied for schema atproto_internal/, "$_: only by the view") foreach 'consumer', 'monitor';
query('GRANT USAGE ON SCHEMA atproto_internal TO consumer, monitor');
is(as('consumer', 'SELECT name FROM atproto_internal.stream_status()'), 'own', 'the function behind the view shows no other state either');
is(as($_, "SELECT atproto_internal.consumer_pid('own') IS NULL, atproto_internal.consumer_pid('super') IS NULL"), $_ eq 'consumer' ? 'f|t' : 'f|f', "$_: processes of subscriptions that it may see") foreach 'consumer', 'monitor';
query('REVOKE USAGE ON SCHEMA atproto_internal FROM consumer, monitor');

# --- objects of other roles ---

foreach my $table ('subscription', 'request_header', 'cursor', 'dead_letter', 'dead_frame', 'gap')
{
	my $column = $table eq 'subscription' ? 'name' : 'subscription';
	my $there = query("SELECT string_agg(DISTINCT $column, ' ' ORDER BY $column) FROM atproto.$table");

	like($there, qr/super/, "$table: others have rows") if $table =~ /subscription|header|cursor/;
	like(as('consumer', "SELECT DISTINCT $column FROM atproto.$table"), qr/^(own)?$/, "$table: it sees only its own");
	# of gaps, a role may write only how they were closed
	my $written = $table eq 'gap' ? 'closed_how' : $column;
	is(as('consumer', "UPDATE atproto.$table SET $written = $written WHERE $column <> 'own'; DELETE FROM atproto.$table WHERE $column <> 'own'"),
		'', "$table: others' rows do not exist for it");
	is(query("SELECT string_agg(DISTINCT $column, ' ' ORDER BY $column) FROM atproto.$table"), $there, "$table: they are still there");
}
query("INSERT INTO atproto.dead_frame VALUES ('super', 'x', 'secret');
	INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, digest) VALUES ('super', 'frame', '22P03', 'x', 'x')");
my $id = query("SELECT id FROM atproto.dead_letter WHERE subscription = 'super'");
foreach my $call ("pause('super')", "resume('super')", "set_cursor('super', 1)", "unsubscribe('super')", "refill('super')", "retry($id)")
{
	refused('consumer', "SELECT atproto.$call", qr/(subscription "super"|dead letter $id) does not exist/, "$call: refused");
}
refused('consumer', "INSERT INTO atproto.request_header VALUES ('super', 'x', 'y')", qr/new row violates row-level security/, 'no header for another');
refused('consumer', "INSERT INTO atproto.cursor (subscription, endpoint, seq) VALUES ('super', 'x', 1)", qr/new row violates row-level security/, 'no cursor');
unlike(as('consumer', 'SELECT * FROM atproto.subscription, atproto.request_header, atproto.dead_letter LEFT JOIN atproto.dead_frame USING (subscription, digest) LIMIT 1000'), qr/secret|others/, 'no secret in sight');
is(query(q{SELECT value FROM atproto.request_header WHERE subscription = 'super'}), 'Bearer secret-of-super', 'the header is untouched');

# --- rights cannot be borrowed ---

my $member = qr/must be a member of role "(boss|other_consumer|postgres)" to make it a subscription's owner/;
refused('consumer', "UPDATE atproto.subscription SET owner = '$_'", $member, "owner $_: refused") foreach 'boss', 'postgres', 'other_consumer';
refused('consumer', "INSERT INTO atproto.subscription (name, url, owner) VALUES ('x', 'wss://example.org', 'boss')", $member, 'also of a new row');
refused('consumer', "UPDATE atproto.subscription SET owner = 'nobody'", qr/role "nobody" does not exist/, 'a role that does not exist');
is(query("SELECT count(*) FROM atproto.subscription WHERE name = 'x'"), '0', 'nothing of it stays');

# Nor does it get the rights of a superuser who refills: triggers run as the owner, and settings of triggers do
# not stay.
is(as('consumer', <<'SQL'), '', 'a trigger on the states of its repositories');
CREATE TABLE network.ran_as (name text, setting text);
CREATE FUNCTION network.min(bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO network.ran_as VALUES (current_user, 'min');
	RETURN $1;
END $$;
CREATE FUNCTION network.refilled() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM set_config('search_path', 'network, pg_catalog', false);
	INSERT INTO network.ran_as VALUES (current_user, current_setting('is_superuser'));
	RETURN NULL;
END $$;
CREATE TRIGGER refilled AFTER UPDATE ON network.repo FOR EACH STATEMENT EXECUTE FUNCTION network.refilled();
CREATE CONSTRAINT TRIGGER refilled_later AFTER UPDATE ON network.repo DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION network.refilled();
SQL
is(as('consumer', "SELECT atproto.pause('own')"), '', 'pause');
$node->poll_query_until('postgres', "SELECT pid IS NULL FROM atproto.stat_subscription WHERE name = 'own'");
query('TRUNCATE network.ran_as');
is(as('boss', "SELECT atproto.refill('own') > 0; SHOW search_path; SELECT current_user"), qq(t\n"\$user", public\nboss), 'a superuser refills, and is the same afterwards');
is(query('SELECT DISTINCT name FROM network.ran_as'), 'consumer', 'the triggers run as the owner');
is(as('consumer', "DROP TRIGGER refilled ON network.repo; DROP TRIGGER refilled_later ON network.repo; SELECT atproto.refill('own') > 0"), 't', 'the owner may, too');

# The consumer has its owner's rights and no more: 263_foreign_targets.
refused('consumer', "UPDATE atproto.subscription SET target = 'other_network' WHERE name = 'own'", qr/role "consumer" may not fill schema "other_network": the role lacks USAGE/, 'the row cannot name any schema');
is(query('SELECT max(indexed_at) < (SELECT updated_at FROM atproto.cursor WHERE subscription = $$own$$) FROM other_network.record'), 't', 'but nothing is written there');
query("SELECT atproto.unsubscribe('own')");

# --- monitors, and everybody ---

is(as('monitor', 'SELECT count(*), count(pid) FROM atproto.stat_subscription'), '2|2', 'pg_monitor sees the states of all');
unlike(as('monitor', 'SELECT * FROM atproto.stat_subscription'), qr/secret|Bearer/, 'and no header');
foreach my $role ('monitor', 'anybody')
{
	refused($role, "SELECT * FROM atproto.$_", qr/permission denied for table $_/, "$role: $_")
	  foreach 'subscription', 'request_header', 'cursor', 'dead_letter', 'dead_frame', 'gap';
	refused($role, "SELECT atproto.$_", qr/permission denied for function/, "$role: $_")
	  foreach "subscribe('x', 'wss://example.org')", "unsubscribe('super')", "pause('super')", "resume('super')",
	  "set_cursor('super', 0)", "refill('super')", 'retry(1)', "create_tables('public')";
	refused($role, 'SELECT atproto_internal.wake()', qr/permission denied for schema atproto_internal/, "$role: wake()");
}
refused('anybody', 'SELECT * FROM atproto.stat_subscription', qr/permission denied for view stat_subscription/, 'anybody: no state');
refused('anybody', 'SELECT * FROM atproto_internal.stream_status()', qr/permission denied for schema atproto_internal/, 'anybody: no status');
is(query(<<'SQL'), '', 'PUBLIC may do nothing that opens a socket');
SELECT p.proname FROM pg_proc p JOIN pg_depend d ON d.objid = p.oid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
WHERE p.pronamespace IN ('atproto'::regnamespace, 'atproto_internal'::regnamespace)
	AND has_schema_privilege('anybody', p.pronamespace, 'USAGE') AND has_function_privilege('anybody', p.oid, 'EXECUTE')
	AND p.provolatile = 'v' AND p.proname !~ '^tid'
SQL

$node->stop;
done_testing();
