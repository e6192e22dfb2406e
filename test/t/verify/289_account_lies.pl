# 289_account_lies.pl
#		At level full, the stream lies about accounts: while the fetcher still asks about the previous
#		statement, while the repository is fetched for the first time, by a former server of an unknown
#		account, in an event that is tried again, and in a database that is copied meanwhile; and about
#		accounts with more records than a consumer can look through.  V-39, V-44, V-47, R-07, R-35.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Identities;
use AtprotoTest::Keys;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = begin_identities('lies', "atproto.databases = 'postgres, copy'\nmax_worker_processes = 24\natproto.reconnect_delay = 50ms\n");
query('CREATE DATABASE copy TEMPLATE template0');
my $capture = make_capture('full.py', 'lies');
my %who = map { my ($name, $did, $key) = split /\t/; $name => { did => $did, key => $key, pds => "$name.example.com" } }
  split /\n/, slurp_file(make_capture('full.py', 'lies', '--keys'));
my $status = q{getRepoStatus\?did=};
my ($server, $former) = map { AtprotoTest::Server->start($capture, map { ('--hold-at', $_) } 7, 15) } 1, 2;

sub of
{
	my ($name) = @_;
	return "did = '$who{$name}{did}'";
}

sub state_of
{
	my ($name, %o) = @_;
	my $schema = delete $o{schema} // 'atproto';
	return query("SELECT active, status FROM $schema.repo WHERE " . of($name), %o);
}

sub records_of
{
	my ($name, %o) = @_;
	my $schema = delete $o{schema} // 'atproto';
	return query("SELECT string_agg(rkey::text, ',' ORDER BY rkey) FROM $schema.record WHERE " . of($name), %o);
}

# Makes time pass until the query is true; requests without an answer are repeated at growing intervals.
sub wait_long_for
{
	my ($sql, @in) = @_;

	wait_until(
		sub {
			return 1 if query($sql, @in) eq 't';
			later(300);
			return 0;
		},
		$sql);
	return;
}

# Sets the account's document, in the directory and as last read.
sub document
{
	my ($name, $pds) = @_;

	$network->documents({ $who{$name}{did} => $network->document($who{$name}{did}, pds => $who{$name}{pds}, key => AtprotoTest::Keys::text_of(pack 'H*', $who{$name}{key})) });
	query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at)"
		. " VALUES ('$who{$name}{did}', 'good', '\\x$who{$name}{key}', '$pds', now() - interval '2 h', now() - interval '1 h')"
		# the fetcher may have asked the directory, which did not know the account
		. ' ON CONFLICT (did) DO UPDATE SET (state, key, pds, resolved_at, asked_at) = (excluded.state, excluded.key, excluded.pds, excluded.resolved_at, excluded.asked_at)');
	return;
}

my $silent = $network->fault({ path => $status, status => 500 });
my @later = map { $network->fault({ host => $who{$_}{pds}, path => $status, status => 500 }) } qw(giant large);
document($_, $who{$_}{pds}) foreach grep { $_ ne 'former' } sort keys %who;
document('former', 'http://127.0.0.1:' . $former->port);
$network->repos({
	map { $who{ $_->[0] }{pds} => { $who{ $_->[0] }{did} => $_->[1] } } (map { [ $_ => { active => JSON::PP::true } ] } qw(asked fetched former)),
	map { [ $_ => { active => JSON::PP::false, status => 'deleted' } ] } qw(refused copied giant large) });

# One account is being fetched for the first time: some of its records are stored, and no revision.
query(<<"EOSQL");
INSERT INTO atproto.repo (did, sync, hold) VALUES ('$who{fetched}{did}', 'resyncing', 'resync');
INSERT INTO atproto.record (did, collection, rkey, cid, rev, value)
	SELECT '$who{fetched}{did}', 'app.bsky.feed.post', 'a', 'bafyreicn7u5fmsdbkwxdbdn5zlzmkilmkhgx5rx2n4vohhqzzqndvuc5ya', '3kaaaaaaaaa22', '{}';
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS \$\$ BEGIN IF NEW.did::text = '$who{refused}{did}' AND NEW.status = 'deleted' THEN RAISE 'no'; END IF; RETURN NEW; END \$\$;
CREATE TRIGGER refuse BEFORE UPDATE ON atproto.repo FOR EACH ROW EXECUTE FUNCTION refuse();
CREATE SCHEMA former;
EOSQL
query('BEGIN; ' . subscribe_sql('s', $server, cursor => 0, verify => "'full'", events => "'keep'", backfill => "'repair'")
	. "; INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try) VALUES ('atproto', '$who{fetched}{did}', 's', 1, 'test', now() + interval '1 day'); COMMIT");
query(subscribe_sql('former', $former, cursor => 0, target => "'former'", verify => "'full'", host_is_pds => 'true', dids => "'{$who{former}{did}}'"));
wait_for_seq($node, $_, 6) foreach 's', 'former';
is(records_of('former', schema => 'former'), '10', 'V-44: an account of the server');

# --- the stream lies; no server has answered yet ---

query('DELETE FROM atproto.identity WHERE ' . of('former'));
$_->release foreach $server, $former;
wait_for_seq($node, $_, 14) foreach 's', 'former';
is(state_of('fetched'), 'f|deleted', 'V-47: an account is deleted while it is fetched for the first time');
is(records_of('fetched'), 'a', 'V-47: what is there stays until somebody agrees');
is(query('SELECT state FROM atproto.repo_job WHERE ' . of('fetched')), 'suspended', 'R-07: it is not fetched meanwhile');
is(state_of('former', schema => 'former'), 'f|deactivated', 'V-44: of an account that is not known, its server is believed');
is(query("SELECT path, stage FROM atproto.dead_letter WHERE " . of('refused')), '#account|apply', 'E-50: what the tables refuse of a deletion is a letter');
wait_for('SELECT count(*) = 1 FROM atproto.status_request WHERE error IS NOT NULL AND ' . of('asked'));

# --- the fetcher asks about an account's earlier state ---

$server->release;
wait_for_seq($node, 's', 17);
is(state_of('asked'), 'f|takendown', 'V-39: the stream says something else meanwhile');

# --- a copy of the database ---

query("SELECT atproto.pause(name) FROM atproto.subscription");
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer'});
# a failed request is repeated after ten minutes
wait_for('SELECT count(*) = 1 FROM atproto.status_request WHERE error IS NOT NULL AND ' . of('copied'));
my $dump = PostgreSQL::Test::Utils::tempdir() . '/dump';
my @at = ('--host', $node->host, '--port', $node->port, '--username', getpwuid($<) // 'postgres');
$node->command_ok([ 'pg_dump', @at, '--file', $dump, 'postgres' ], 'pg_dump');
$node->command_ok([ 'psql', @at, '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-f', $dump, 'copy' ], 'psql');
my $queued = 'SELECT string_agg(to_jsonb(w)::text, chr(10) ORDER BY target, did) FROM atproto.status_request w WHERE ' . of('copied');
is(query($queued, database => 'copy'), query($queued), 'R-35: what is to be asked is part of a dump');
foreach my $database ('postgres', 'copy')
{
	query("SELECT atproto.resume(name) FROM atproto.subscription", database => $database);
	wait_for(q{SELECT bool_and(state = 'streaming') FROM atproto.stat_subscription}, database => $database);
}

# --- a letter of a deletion is tried again ---

query('DROP TRIGGER refuse ON atproto.repo');
like(query('SELECT atproto.retry(id) FROM atproto.dead_letter WHERE ' . of('refused')), qr/^applied$/, 'V-47: a deletion that was refused');
is(state_of('refused') . records_of('refused'), 'f|deleted10', 'V-47: tried again, it hides what there is, and removes nothing');
is(query('SELECT why FROM atproto.status_request WHERE ' . of('refused')), 'deleted', 'V-47: its server is asked for it');

# --- they are asked ---

$network->unfault($silent);
foreach my $name (qw(asked fetched))
{
	wait_long_for('SELECT active FROM atproto.repo WHERE ' . of($name));
	is(state_of($name), 't|', "V-39, V-47: $name: its server says that it is active");
}
wait_long_for('SELECT active FROM former.repo WHERE ' . of('former'));
is(query('SELECT host FROM former.repo WHERE ' . of('former')), $who{former}{pds}, 'V-44: its own server says that it is active: a former one is not believed');
is(query("SELECT count(*) FROM atproto.repo_job WHERE state = 'suspended'") . records_of('fetched'), '0a', 'R-07: it is fetched again');
foreach my $o ([ refused => 'postgres' ], [ copied => 'postgres' ], [ copied => 'copy' ])
{
	my ($name, $database) = @$o;
	my @in = (database => $database);

	wait_long_for("SELECT deleted_rev = rev FROM atproto.repo WHERE " . of($name), @in);
	# a consumer looks every five minutes
	wait_long_for('SELECT count(*) = 0 FROM atproto.record WHERE ' . of($name), @in);
	is(state_of($name, @in), 'f|deleted', "V-47: $name: its server agrees: $database");
	is(query("SELECT string_agg(rkey::text, ',') FROM atproto.record_event WHERE action = 'delete' AND " . of($name), @in), '10', "V-47: $name: told once: $database");
}

# --- the stream invents the deletion of an account of which nothing is stored: its first commits wait for its key ---

my ($unknown) = map { [ split /\t/ ] } grep { /^unknown\t/ } split /\n/, slurp_file(make_capture('full.py', 'rotations', '--keys'));
$who{unknown} = { did => $unknown->[1], key => $unknown->[2], pds => 'unknown.example.com' };
$network->repos({ $who{unknown}{pds} => { $who{unknown}{did} => { active => JSON::PP::true } } });
query('CREATE SCHEMA begins; ' . subscribe_sql('begins', AtprotoTest::Server->start(make_capture('full.py', 'returns'), '--hold-at', 5),
		cursor => 0, target => "'begins'", verify => "'full'"));
wait_for_seq($node, 'begins', 4);
is(state_of('unknown', schema => 'begins'), 'f|deleted', 'V-47: an account of which nothing is stored');
document('unknown', $who{unknown}{pds});
wait_long_for('SELECT active FROM begins.repo WHERE ' . of('unknown'));
is(query('SELECT sync FROM begins.repo WHERE ' . of('unknown')), 'desynchronized', 'V-47: its server says that it is active, and the mark says that records are missing');

# --- some have more records than can be looked through ---

query('SELECT atproto.pause(name) FROM atproto.subscription');
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type = 'atproto consumer' AND datname = current_database()});
query(<<"EOSQL");
UPDATE atproto.repo SET sync = 'desynchronized' WHERE did = '$who{large}{did}';
ALTER TABLE atproto.record RENAME TO all_records;
CREATE FUNCTION slowly(did did) RETURNS boolean LANGUAGE plpgsql AS \$\$ BEGIN IF current_setting('application_name') = 'atproto fetcher' THEN PERFORM pg_sleep(60); END IF; RETURN true; END \$\$;
CREATE VIEW atproto.record AS SELECT * FROM atproto.all_records WHERE slowly(did);
EOSQL
$network->unfault($_) foreach @later;
foreach my $name (qw(giant large))
{
	wait_long_for('SELECT deleted_rev = rev AND purge_rev = rev FROM atproto.repo WHERE ' . of($name));
	is(state_of($name), 'f|deleted', "V-47: $name: its records are left to a consumer all the same");
}

$node->stop;
$network->stop;
done_testing();
