# 261_owners.pl
#		The owner of a subscription is stored so that the role can be renamed, is never NULL, and cannot be
#		dropped while the role owns a subscription.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds    = capture('pds.frames.gz');
my $node   = make_node('owners', databases => 'postgres, other');
my $server = AtprotoTest::Server->start($pds);
my $url    = $server->url;

# The error of a statement.
sub error_of
{
	my ($sql, $database) = @_;
	my ($rc, $out, $err) = $node->psql($database // 'postgres', $sql);
	return $rc == 0 ? '' : $err;
}

query('CREATE ROLE "Odd ""name"; CREATE ROLE heir LOGIN; CREATE ROLE keeper LOGIN');
query('ALTER ROLE "Odd ""name" LOGIN; CREATE SCHEMA odd AUTHORIZATION "Odd ""name"');
query('GRANT EXECUTE ON FUNCTION atproto.subscribe, atproto.unsubscribe, atproto.create_tables TO "Odd ""name";
	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA atproto TO "Odd ""name"');

# --- NULL ---

foreach my $row ("('x', '$url', NULL)", "('x', NULL, 'heir')", "(NULL, '$url', 'heir')", '(NULL, NULL, NULL)')
{
	like(error_of("INSERT INTO atproto.subscription (name, url, owner) VALUES $row"), qr/must not be null|violates not-null constraint/, "$row: refused");
}
query("INSERT INTO atproto.subscription (name, url) VALUES ('x', '$url')");
foreach my $column (split /\n/, query("SELECT attname FROM pg_attribute WHERE attrelid = 'atproto.subscription'::regclass AND attnum > 0"))
{
	unlike(error_of("UPDATE atproto.subscription SET $column = NULL WHERE name = 'x'"), qr/server closed the connection|terminated/, "$column = NULL: no crash");
}
query("SELECT atproto.unsubscribe('x')");

# --- names ---

query('SET SESSION AUTHORIZATION "Odd ""name"; ' . subscribe_sql('s', $server, cursor => 0, target => "'odd'"));
wait_for_seq($node, 's', $PDS_LAST);
is(query('SELECT owner::oid = (SELECT oid FROM pg_roles WHERE rolname = $$Odd "name$$) FROM atproto.subscription'), 't', 'any name of a role is that role');
query('ALTER ROLE "Odd ""name" RENAME TO even');
my $pid = query('SELECT pid FROM atproto.stat_subscription');
query("SELECT pg_terminate_backend($pid)");
wait_for("SELECT pid <> $pid AND state = 'streaming' FROM atproto.stat_subscription");
is(query("SELECT usename FROM pg_stat_activity WHERE backend_type = 'atproto consumer'"), 'even', 'renamed, it is still the owner');
is(query('SET SESSION AUTHORIZATION even; SELECT owner FROM atproto.subscription'), 'even', 'and sees its row');

# --- DROP ROLE ---

my $refused = qr/role "even" cannot be dropped because some objects depend on it.*column owner of table atproto\.subscription/s;
query('CREATE DATABASE other');
query('DROP SCHEMA odd CASCADE; REVOKE ALL ON ALL TABLES IN SCHEMA atproto FROM even; REVOKE ALL ON ALL FUNCTIONS IN SCHEMA atproto FROM even');
like(error_of('DROP ROLE even'), $refused, 'DROP ROLE is refused');
like(error_of('DROP ROLE even', 'other'), qr/1 object in database postgres/, 'in another database, too');
query('DROP OWNED BY even; REASSIGN OWNED BY even TO heir');
is(query('SELECT owner FROM atproto.subscription'), 'even', 'DROP OWNED and REASSIGN OWNED leave subscriptions alone');
like(error_of('DROP ROLE even'), $refused, 'and do not make it droppable');
query("GRANT CREATE ON DATABASE postgres TO heir; UPDATE atproto.subscription SET owner = 'heir'; REVOKE CREATE ON DATABASE postgres FROM heir");
is(error_of('DROP ROLE even'), '', 'when another role is the owner, it can be dropped');
like(error_of('DROP ROLE heir'), qr/column owner of table atproto\.subscription/, 'and that one cannot');

# Two subscriptions of one role; the deletion of one is rolled back.
query("INSERT INTO atproto.subscription (name, url, owner) VALUES ('s2', '$url', 'heir'), ('s3', '$url', 'keeper')");
like(error_of("DROP ROLE $_"), qr/column owner of table/, "$_ is one of two owners") foreach 'heir', 'keeper';
query("BEGIN; DELETE FROM atproto.subscription WHERE owner = 'heir'::regrole; ROLLBACK");
query("SELECT atproto.unsubscribe('s2')");
like(error_of('DROP ROLE heir'), qr/column owner of table/, 'not with its last but one');
my $first  = $node->background_psql('postgres');
my $second = $node->background_psql('postgres');
$first->query_safe("BEGIN; INSERT INTO atproto.subscription (name, url, owner) VALUES ('s4', '$url', 'heir')");
$second->{stdin} .= "SELECT atproto.unsubscribe('s');\n";
$second->{run}->pump_nb;
wait_for("SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%unsubscribe%'");
$first->query_safe('COMMIT');
wait_for("SELECT count(*) = 0 FROM atproto.subscription WHERE name = 's'");
$_->quit foreach $first, $second;
like(error_of('DROP ROLE heir'), qr/column owner of table/, 'one comes while another one goes: it is still an owner');
query("SELECT atproto.unsubscribe('s4')");
is(error_of('DROP ROLE heir'), '', 'with the last one it can go');

# A missing note in pg_shdepend (pg_upgrade does not carry it over) is written when the subscription runs.
query("DELETE FROM pg_shdepend WHERE refobjid = 'keeper'::regrole; CREATE SCHEMA kept AUTHORIZATION keeper;
	GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA atproto TO keeper");
query("UPDATE atproto.subscription SET target = 'kept'; SELECT atproto.resume('s3')");
wait_for("SELECT count(*) > 0 FROM pg_shdepend WHERE refobjid = 'keeper'::regrole AND classid = 'pg_class'::regclass AND objid = 'atproto.subscription'::regclass AND objsubid > 0");
like(error_of('DROP ROLE keeper'), qr/column owner of table/, 'not noted, then running: noted');
query('TRUNCATE atproto.subscription CASCADE; DROP OWNED BY keeper');
is(error_of('DROP ROLE keeper'), '', 'TRUNCATE forgets all');
query('CREATE ROLE last');
query("INSERT INTO atproto.subscription (name, url, owner) VALUES ('s', '$url', 'last')");
query('SET client_min_messages = warning; DROP EXTENSION atproto CASCADE; DROP ROLE last');
pass('and so does DROP EXTENSION');

$node->stop;
done_testing();
