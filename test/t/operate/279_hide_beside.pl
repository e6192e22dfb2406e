# 279_hide_beside.pl
#		hide() beside tables of other owners and of earlier versions, in long transactions, before erase(), and on a
#		standby: an account that stays visible in a target is told.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Changes;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = make_node('beside', changes_conf());
my ($a, $b) = map { did($_) } 'a', 'b';

sub hide
{
	my ($call) = @_;
	my (undef, $out, $err) = $node->psql('postgres', $call =~ /^(un)?hide/ ? "SELECT atproto.$call" : $call);

	return "$out " . $err =~ s/^psql:\S+ //mgr;
}

# --- tables of a tenant ---

query(<<"EOSQL");
CREATE ROLE tenant LOGIN; CREATE SCHEMA evil AUTHORIZATION tenant; CREATE SCHEMA mine; SELECT atproto.create_tables('mine');
SET ROLE tenant;
CREATE TABLE evil.repo (did did PRIMARY KEY, rev int);
EOSQL
like(hide("hide('$a')"), qr/^t WARNING:  the account is still visible in schema "evil": table "repo" has no column "hidden_at"\nHINT:  .*SELECT atproto\.create_tables\('evil'\)/, 'a table without the column stops no other target');
is(query("SELECT (SELECT count(hidden_at) FROM atproto.repo), (SELECT count(hidden_at) FROM mine.repo)"), '1|1', 'all other targets hide the account');
like(hide("unhide('$a')"), qr/^t WARNING:  the account is still hidden in schema "evil"/, 'unhide() warns of the table');
like(hide("hide('$a', 'evil')"), qr/^ ERROR:  table "repo" of schema "evil" has no column "hidden_at"\nHINT:/m, 'a named target is an error');
like(hide("SELECT atproto.repo_car('$a', 'evil')"), qr/ERROR/, 'an export of such a table is an error');

query(<<"EOSQL");
SET ROLE tenant; DROP TABLE evil.repo;
CREATE TABLE evil.repo (did did PRIMARY KEY, rev int, hidden_at timestamptz, updated_at timestamptz);
CREATE FUNCTION evil.refuse() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RAISE 'not in my tables'; END \$\$;
CREATE FUNCTION evil.keep() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN RETURN NULL; END \$\$;
CREATE TRIGGER t BEFORE INSERT OR UPDATE ON evil.repo FOR EACH ROW EXECUTE FUNCTION evil.refuse();
EOSQL
like(hide("hide('$a')"), qr/^t WARNING:  the account is still visible in schema "evil": not in my tables/, 'an error of a trigger stops no other target');
is(query("SELECT (SELECT count(hidden_at) FROM atproto.repo), (SELECT count(hidden_at) FROM mine.repo)"), '1|1', 'all other targets hide the account beside the trigger');
is(query("BEGIN; SELECT atproto.unhide('$a'); COMMIT; SELECT atproto.hide('$b'), atproto.unhide('$b')"), "t\nt|t", 'hide() and unhide() in a transaction block');
like(hide("hide('$a', 'evil')"), qr/^ ERROR:  not in my tables/m, 'the error of the trigger in a named target');
query('ALTER TABLE atproto.repo RENAME TO away; ALTER TABLE mine.repo RENAME TO away');
like(hide("hide('$a')"), qr/ERROR:  the account is still visible in all schemas/, 'an error if all targets refuse');
query('ALTER TABLE atproto.away RENAME TO repo; ALTER TABLE mine.away RENAME TO repo');

query(q{SET ROLE tenant; CREATE OR REPLACE FUNCTION evil.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'stop' USING ERRCODE = '57014'; END $$});
like(hide("hide('$a')"), qr/^t WARNING:  the account is still visible in schema "evil": stop/, 'an error with the code of a cancelled call stops no other target');
query("SELECT atproto.unhide('$a', s) FROM unnest('{atproto,mine}'::text[]) s");

# A call that a trigger holds up can be cancelled.
query(q{SET ROLE tenant; CREATE OR REPLACE FUNCTION evil.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1000); RETURN NULL; END $$});
like(hide("SET statement_timeout = '300ms'; SELECT atproto.hide('$a')"), qr/ERROR:  canceling statement due to statement timeout/, 'a cancelled call is no warning');
query('SET ROLE tenant; DROP TRIGGER t ON evil.repo; CREATE TRIGGER t BEFORE INSERT OR UPDATE ON evil.repo FOR EACH ROW EXECUTE FUNCTION evil.keep()');
like(hide("hide('$a', 'evil')"), qr/^f WARNING:  the account is still visible in schema "evil"\nHINT:  Triggers/m, 'a trigger that keeps the row away');
query("DROP TRIGGER t ON evil.repo; INSERT INTO evil.repo (did, hidden_at) VALUES ('$b', now()); CREATE TRIGGER t BEFORE UPDATE ON evil.repo FOR EACH ROW EXECUTE FUNCTION evil.keep()");
like(hide("unhide('$b', 'evil')"), qr/^f WARNING:  the account is still hidden in schema "evil"/m, 'a trigger that keeps the account hidden');
query('DROP SCHEMA evil CASCADE');

# --- a view from before the column ---

query(q{CREATE OR REPLACE VIEW mine.visible_record AS SELECT r.* FROM mine.record r JOIN mine.repo p USING (did) WHERE p.active});
like(hide("hide('$a', 'mine')"), qr/^t WARNING:  schema "mine" has a view that shows hidden accounts\nHINT:  .*create_tables\('mine'\)/m, 'a view that shows hidden accounts is told');
query('DROP VIEW mine.visible_record; SELECT atproto.create_tables($$mine$$)');
is(hide("unhide('$a', 'mine')") . hide("hide('$a', 'mine')"), 't t ', 'a new view gives no warning');

# --- erase() ---

like(hide("CALL atproto.erase('$a', target => 'mine')"), qr/NOTICE:  the account was hidden in schema "mine", and is so no longer\nHINT:/, 'erase() tells that the hiding goes');
query("SELECT atproto.hide('$a', 'mine')");
unlike(hide("CALL atproto.erase('$a', target => 'mine', block => true)"), qr/no longer/, 'a blocked account: no notice');
unlike(hide("CALL atproto.erase('$b', target => 'mine')"), qr/no longer/, 'an account that was not hidden: no notice');
query("SELECT atproto.unblock('$a', 'mine')");

# --- readers of changes ---

# The plugin forgets revisions in a transaction with 100,000 repositories, but no announcement.
query("INSERT INTO mine.repo (did) VALUES ('$a') ON CONFLICT DO NOTHING");
make_slot('app');
query("BEGIN; INSERT INTO mine.repo (did) SELECT format('did:web:u%s.example', i)::did FROM generate_series(1, 99999) i; SELECT atproto.hide('$a', 'mine'); COMMIT");
is(join(' ', map { "$_->{kind} $_->{did} $_->{account}{status}" } decoded(changes('app'))), "account $a takendown", 'the 100,000th account of a transaction is told');
query("BEGIN; SELECT count(atproto.hide(did, 'mine')) FROM (SELECT did FROM mine.repo ORDER BY did LIMIT 50) d; SAVEPOINT s; SELECT atproto.unhide('$a', 'mine'); ROLLBACK TO s; COMMIT");
my @told = decoded(changes('app'));
is(scalar(grep { $_->{account}{active} } @told) . ' ' . scalar(@told), '0 ' . query("SELECT count(*) FROM mine.repo WHERE hidden_at IS NOT NULL AND did <> '$a'"), 'one message for each hidden account, and none of a subtransaction that was rolled back');

# --- many accounts ---

query('ANALYZE mine.repo');
like(query('EXPLAIN SELECT did, hidden_at FROM mine.repo WHERE hidden_at IS NOT NULL'), qr/repo_hidden/, 'hidden accounts are found by an index');
query('DROP INDEX mine.repo_hidden; SELECT atproto.create_tables($$mine$$)');
is(query(q{SELECT to_regclass('mine.repo_hidden') IS NOT NULL}), 't', 'create_tables() makes the index');

# --- where nothing can be written ---

$node->backup('copy');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'copy', has_streaming => 1);
$standby->start;
foreach my $what ("SELECT atproto.hide('$a')", "SELECT atproto.unhide('$a')", "CALL atproto.erase('$a')", "SELECT atproto.unblock('$a')")
{
	my ($name) = $what =~ /atproto\.(\w+)/;

	like(($standby->psql('postgres', $what))[2], qr/^psql:\S+ ERROR:  cannot execute $name\(\) in a read-only transaction$/, "$name() on a standby");
}
like(hide("BEGIN READ ONLY; SELECT atproto.hide('$a')"), qr/ERROR:  cannot execute hide\(\) in a read-only transaction/, 'hide() in a read-only transaction');
$standby->stop('immediate');

done_testing();
