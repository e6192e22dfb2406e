# 266_grants.pl
#		grant_to() and revoke_from(): what a role gets, on present tables and on those to come, what is taken back, and
#		what a caller may give.  265_who_may tries what a role with these grants can reach.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $owner = getpwuid($<);
my $node = make_node('grants', databases => '', create => 0);
query('CREATE EXTENSION atproto; SELECT atproto.create_tables($$atproto$$)');

# The result of statements as this role, or the error; warnings and notices are appended.
sub as
{
	my ($role, $sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', qq{SET SESSION AUTHORIZATION "$role"; $sql});
	return join ' ', grep { length } $rc == 0 ? $out : (), $err =~ /((?:ERROR|WARNING|NOTICE):  .*)/g;
}

# Each privilege that the role has by a GRANT to this role, now or by default privileges.
sub grants_of
{
	my ($role, %where) = @_;
	return query(<<"EOSQL", %where);
SELECT string_agg(DISTINCT x, ' ' ORDER BY x) FROM (
	SELECT c.oid::regclass || ':' || string_agg(left(privilege_type, 3), ',' ORDER BY privilege_type) FROM pg_class c, aclexplode(relacl) WHERE grantee = '$role'::regrole GROUP BY c.oid
	UNION ALL SELECT 'columns of ' || attrelid::regclass || ':' || privilege_type FROM pg_attribute, aclexplode(attacl) WHERE grantee = '$role'::regrole
	UNION ALL SELECT 'schema ' || nspname FROM pg_namespace, aclexplode(nspacl) WHERE grantee = '$role'::regrole
	UNION ALL SELECT 'function ' || p.proname FROM pg_proc p, aclexplode(proacl) WHERE grantee = '$role'::regrole
	UNION ALL SELECT 'later ' || defaclnamespace::regnamespace || ':' || left(privilege_type, 3) FROM pg_default_acl, aclexplode(defaclacl) WHERE grantee = '$role'::regrole) t (x)
EOSQL
}

# --- read ---

my @tables = qw(collection_count label link link_count link_source message plc_operation plc_refused plc_text record record_event repo sweep_deletion);
my @views = qw(collection_stat current_label plc_history visible_link visible_record);
query('CREATE ROLE reader LOGIN');
is(as('reader', 'SELECT count(*) FROM atproto.record'), 'ERROR:  permission denied for table record', 'without a grant');
is(as($owner, q{SELECT atproto.grant_to('reader', 'atproto')}), '', 'grant_to(): read');
is(grants_of('reader'), join(' ', (map { "atproto.$_:SEL" } sort @tables, @views), 'later atproto:SEL'), 'SELECT on the data tables and their views, and no function');
is(as('reader', 'SELECT count(*) FROM atproto.record'), '0', 'the role reads');
query(q{SELECT atproto.partition('atproto', 'collection', '{app.bsky.feed.post}')});
is(as('reader', 'SELECT count(*) FROM ONLY atproto.record_rest'), '0', 'partitions to come, too');
is(as('reader', q{SELECT atproto.subscribe('x', 'wss://example.com')}), 'ERROR:  permission denied for function subscribe', 'and opens no connection');
my $granted = grants_of('reader');
query(q{SELECT atproto.grant_to('reader', 'atproto')});
is(grants_of('reader'), $granted, 'twice is once');
is(query(q{SELECT count(*) FROM pg_class WHERE relname = 'record_event_rest' AND has_table_privilege('reader', oid, 'SELECT')}), '1', 'the months of record_event are among them');
query(q{GRANT SELECT ON atproto.record TO PUBLIC});
is(as($owner, q{SELECT atproto.revoke_from('reader', 'atproto')}), 'WARNING:  role "reader" may still read', 'revoke_from() says what stays');
query('REVOKE SELECT ON atproto.record FROM PUBLIC');
is(as('reader', 'SELECT count(*) FROM atproto.record'), 'ERROR:  permission denied for table record', 'revoke_from()');
is(query('DROP ROLE reader; SELECT count(*) FROM pg_default_acl'), '0', 'nothing stays');

# --- subscribe ---

query(q{CREATE ROLE consumer LOGIN; CREATE SCHEMA network AUTHORIZATION consumer});
is(as($owner, q{SELECT atproto.grant_to('consumer', 'network', what => 'subscribe')}), '', 'grant_to(): subscribe');
my $all = grants_of('consumer');
unlike($all, qr/network/, 'a schema of its own needs no grant');
like($all, qr/atproto\.cursor:DEL,INS,SEL,UPD.*function subscribe\b/s, 'functions, and tables of the extension') or diag($all);
is(as('consumer', q{SELECT atproto.create_tables('network'); SELECT atproto.subscribe('own', 'wss://localhost:1'); SELECT subscription FROM atproto.status}),
	q{ERROR:  role "consumer" may not fill schema "atproto": the role lacks SELECT, INSERT, UPDATE, DELETE on table atproto.record}, 'not into the tables of others');
like(as('consumer', q{SELECT atproto.subscribe('own', 'wss://localhost:1', target => 'network'); SELECT subscription FROM atproto.status}), qr/^own\b/m, 'into its own');

# A schema of a different owner.
query(q{CREATE ROLE lord; CREATE SCHEMA manor AUTHORIZATION lord; GRANT USAGE ON SCHEMA atproto TO lord; CREATE ROLE tenant LOGIN});
like(as($owner, q{SELECT atproto.grant_to('tenant', 'manor', 'subscribe')}), qr/^ERROR:  role "tenant" may not fill schema "manor": the schema has none of the tables yet/, 'a target without tables');
is(grants_of('tenant'), '', '... and nothing was granted');
query(q{SET ROLE lord; SET search_path = public; RESET ROLE; GRANT EXECUTE ON FUNCTION atproto.create_tables TO lord; SET ROLE lord; SELECT atproto.create_tables('manor')});
is(as($owner, q{SELECT atproto.grant_to('tenant', 'manor', 'subscribe')}), '', 'with tables');
is(query(q{SELECT atproto.role_may_fill('tenant'::regrole, 'manor', 'lord'::regrole)}), 't', 'the role may fill the tables');
like(grants_of('tenant'), qr/later manor:DEL later manor:INS later manor:SEL later manor:UPD.* manor\.repo:DEL,INS,SEL,UPD manor\.sweep_deletion:DEL,INS,SEL,UPD manor\.visible_link:SEL.* schema manor$/s, 'also later tables; its views to read');
query(q{SELECT atproto.grant_to('tenant', 'atproto', 'subscribe')});
like(grants_of('tenant'), qr/ later atproto:SEL later manor:DEL/, 'in the schema of the extension later tables only to read');
query(q{SELECT atproto.revoke_from('tenant', 'atproto', 'subscribe'); SELECT atproto.revoke_from('tenant', 'manor', 'subscribe')});
is(grants_of('tenant'), '', 'revoke_from() takes all back');

# --- which rights a role may give ---

is(as('consumer', q{SELECT atproto.grant_to('tenant', 'network')}), '', 'an owner lets a role read');
is(as('tenant', 'SELECT count(*) FROM network.record'), '0', '... and it reads');
is(as('consumer', q{SELECT atproto.revoke_from('tenant', 'network')}), '', '... no more');
is(grants_of('tenant'), '', '... nothing stays');
is(as('consumer', "SELECT atproto.grant_to('tenant', $_->[0])"), "ERROR:  role \"consumer\" may not grant $_->[1]", "$_->[0]: is not the caller's to give")
  foreach [ q{'network', 'subscribe'}, 'EXECUTE on atproto.subscribe' ], [ q{'atproto'}, 'SELECT on atproto.collection_count' ], [ q{'manor'}, 'USAGE on manor' ];
is(as('consumer', q{SELECT atproto.revoke_from('lord', 'manor')}), 'WARNING:  role "lord" may still read', 'what a role owns is not taken');
is(as('consumer', q{SELECT atproto.revoke_from('tenant', 'manor')}), 'ERROR:  permission denied for schema manor', 'nor is it the caller\'s to take');
is(grants_of('tenant'), '', 'nothing was granted');
# The tables belong to one role, the schema to a second.
query('GRANT USAGE ON SCHEMA manor TO consumer; GRANT SELECT ON ALL TABLES IN SCHEMA manor TO consumer WITH GRANT OPTION; GRANT USAGE ON SCHEMA manor TO tenant');
is(as('consumer', q{SELECT atproto.grant_to('tenant', 'manor')}), 'NOTICE:  privileges on tables that role "lord" makes later stay as they are', 'what a grant option allows');
is(as($owner, q{SELECT atproto.revoke_from('tenant', 'manor')}), 'WARNING:  role "tenant" may still read NOTICE:  role "tenant" keeps privileges on tables of schema "manor"', 'a superuser takes back what the owner gave, and hears of the rest');
is(as('consumer', q{SELECT atproto.revoke_from('consumer', 'network')}), 'WARNING:  role "consumer" may still read', 'the owner keeps its own privileges');
is(as('consumer', 'SELECT count(*) FROM network.record'), '0', '... and reads');

# The tables have a new owner since; tables that are not the extension's got privileges as tables to come.
query(q{CREATE ROLE heir; CREATE ROLE steward; SELECT atproto.grant_to('steward', 'manor'); SET ROLE lord; CREATE TABLE manor.diary (secret text); RESET ROLE; REASSIGN OWNED BY lord TO heir});
like(as($owner, q{SELECT atproto.revoke_from('steward', 'manor')}), qr/^NOTICE:  role "steward" keeps privileges on tables of schema "manor"/, 'what is no table of the extension is named');
is(query('REVOKE ALL ON manor.diary FROM steward; SELECT count(*) FROM pg_default_acl'), '0', '... and the default privileges of the former owner are gone');
is(grants_of('steward'), '', '... and all other privileges');

# --- names, mistakes ---

query(q{CREATE ROLE "Odd ""role" LOGIN; CREATE SCHEMA "Odd.schema"; SELECT atproto.create_tables('Odd.schema'); SELECT atproto.grant_to('Odd "role', 'Odd.schema'); SELECT atproto.grant_to('Odd "role', 'Odd.schema', 'subscribe')});
is(query(q{SELECT atproto.role_may_fill('"Odd ""role"'::regrole, 'Odd.schema', 0)}), 't', 'odd names');
query(q{SELECT atproto.revoke_from('Odd "role', 'Odd.schema', 'subscribe'); DROP ROLE "Odd ""role"});
query(q{CREATE SCHEMA bare; CREATE TABLE bare.record (secret text); CREATE TABLE bare.collection_stat (secret text); CREATE ROLE clerk});
is(as($owner, "SELECT atproto.$_->[0]"), "ERROR:  $_->[1]", $_->[0])
  foreach [ q{grant_to('clerk', 'atproto', 'write')}, 'what must be "read" or "subscribe"' ], [ q{grant_to('nobody', 'atproto')}, 'role "nobody" does not exist' ],
  [ q{grant_to('public', 'atproto')}, 'role "public" does not exist' ], [ q{grant_to('clerk', 'none')}, 'schema "none" does not exist' ],
  [ q{grant_to('clerk', 'public')}, 'schema "public" has no table "record"' ], [ q{revoke_from('clerk', 'none')}, 'schema "none" does not exist' ],
  [ q{grant_to('clerk', NULL)}, 'target must not be null' ];
query(q{SELECT atproto.grant_to('clerk', 'bare')});
is(query(q{SELECT has_table_privilege('clerk', 'bare.record', 'SELECT')}), 'f', 'a table that only has the name of a data table is not granted');
is(query(q{SELECT has_table_privilege('clerk', 'bare.collection_stat', 'SELECT')}), 'f', 'nor is a table that has the name of a view');
query('GRANT EXECUTE ON FUNCTION atproto.subscribe TO clerk');
is(as($owner, q{SELECT atproto.revoke_from('clerk', 'gone', 'subscribe')}), '', 'subscribe is taken back without the target');

# --- a dump, restored into another database ---

query(q{CREATE ROLE guest; CREATE ROLE worker; SELECT atproto.grant_to('guest', 'atproto'); SELECT atproto.grant_to('worker', 'atproto', 'subscribe'); SELECT atproto.grant_to('guest', 'manor')});
my %dumped = map { $_ => grants_of($_) } qw(guest worker);
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
my @at = ('--host', $node->host, '--port', $node->port, '--username', $owner);
query('CREATE DATABASE copy TEMPLATE template0');
$node->command_ok([ 'pg_dump', @at, '--file', $dump, 'postgres' ], 'pg_dump');
$node->command_ok([ 'psql', @at, '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, 'copy' ], 'psql');
is(grants_of($_, database => 'copy'), $dumped{$_}, "$_ has the same privileges in the copy") foreach sort keys %dumped;
is(query(q{SELECT atproto.revoke_from('guest', 'manor'); SELECT atproto.revoke_from('guest', 'atproto'); SELECT atproto.revoke_from('worker', 'atproto', 'subscribe')}, database => 'copy'), "\n\n", 'where revoke_from() takes them back');
is(grants_of($_, database => 'copy'), '', "$_ has none left there") foreach qw(guest worker);

$node->stop;
done_testing();
