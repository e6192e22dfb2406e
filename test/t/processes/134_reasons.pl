# 134_reasons.pl
#		Each state that a view shows has its reason in the view: no free worker slot, no manager, a manager that
#		cannot run, a process that is about to begin.  subscribe() says what it does, and warns when it cannot run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

# Slots for the launcher of logical replication, the manager, and two consumers.
my $node   = make_node('reasons', conf => "max_worker_processes = 4\nmax_parallel_workers = 0\n");
my $server = AtprotoTest::Server->start(capture('pds.frames.gz'), '--hold-at', 300);
my $url    = $server->url;
my $NOTICE = qr/\ANOTICE:  subscription "one" follows \Q$url\E into schema "atproto"
DETAIL:  It begins with the oldest event that the server has\. Older records are not fetched: see the option "backfill"\.
HINT:  SELECT \* FROM atproto\.status WHERE subscription = 'one'; shows its state\.\s*\z/;

# A statement's messages.
sub said
{
	my ($sql, $database) = @_;
	my (undef, undef, $err) = $node->psql($database // 'postgres', $sql);
	return $err =~ s/^psql:\S+ //mgr;
}

# State and reason of a subscription.
sub state_of
{
	my ($name, %o) = @_;
	return query("SELECT concat_ws('|', state, last_error, last_error_is_past) FROM atproto.stat_subscription WHERE name = '$name'", %o);
}

# --- a process that is about to begin ---

my $manager = query(q{SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto manager'});
kill 'STOP', $manager;
like(said(subscribe_sql('one', $server, cursor => 0)), $NOTICE, 'subscribe() describes the subscription, and names the view with the state');
is(state_of('one'), 'starting', 'right after subscribe() the state is starting');
kill 'CONT', $manager;
wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription});
query("SELECT atproto.pause('one')");
wait_for(q{SELECT state = 'paused' AND pid IS NULL FROM atproto.stat_subscription});
kill 'STOP', $manager;
query("SELECT atproto.resume('one')");
is(state_of('one'), 'starting', 'right after resume() the state is starting');
kill 'CONT', $manager;
wait_for(q{SELECT state = 'streaming' FROM atproto.stat_subscription});

# --- worker slots ---

unlike(said(subscribe_sql('two', $server, cursor => 0)), qr/WARNING/, 'a subscription that has a slot');
wait_for(q{SELECT count(*) = 2 FROM atproto.stat_subscription WHERE state = 'streaming'});
like(said(subscribe_sql('three', $server, cursor => 0, backfill => q{'repair'}, dids => q{'{did:web:a.example.com}'})),
	qr/^WARNING:  subscription "three" may not run: there are too few background worker slots\nDETAIL:  "max_worker_processes" is 4, and lacks 2\.[^\n]*\nHINT:  Increase "max_worker_processes", and restart the server\.$/m,
	'subscribe() warns when slots are lacking, also for the fetcher');
wait_for(q{SELECT state = 'not running' FROM atproto.stat_subscription WHERE name = 'three'});
is(state_of('three'), 'not running|no background worker slot is free: increase max_worker_processes|f', 'no slot: the view has the reason');
wait_for(q{SELECT state = 'waiting' AND last_error = 'no background worker slot is free: increase max_worker_processes' FROM atproto.stat_fetcher});
pass('the fetcher has no slot: its view has the reason');

# --- a manager that cannot run ---

$node->append_conf('postgresql.conf', "max_worker_processes = 1\n");
$node->restart;
my $dead = qr/the manager of this database did not start with the server: see the server's log; perhaps "max_worker_processes" is too small/;
like(state_of('one'), qr/\Anot running\|$dead\|f\z/, 'no manager: the reason');
like(query('SELECT last_error FROM atproto.stat_fetcher'), qr/\A$dead\z/, 'the reason of the fetcher');
like(said("SELECT atproto.resume('one')"), qr/^WARNING:  subscription "one" cannot run yet\nDETAIL:  It waits: $dead\.\nHINT:  The view "atproto\.stat_subscription" shows its state\.$/m,
	'resume() warns');
like(said(subscribe_sql('four', $server)), qr/^NOTICE:.*^WARNING:  subscription "four" cannot run yet$/ms, 'subscribe() warns');

# --- a database without a manager ---

$node->append_conf('postgresql.conf', "max_worker_processes = 8\n");
$node->restart;
query('CREATE DATABASE unserved');
query('CREATE EXTENSION atproto', database => 'unserved');
query("INSERT INTO atproto.subscription (name, url) VALUES ('row', '$url')", database => 'unserved');
query('UPDATE atproto.subscription SET stopped = NULL, stopped_at = NULL', database => 'unserved');
my $unserved = q(no manager serves this database: add the database to "atproto.databases", and restart the server);
is(state_of('row', database => 'unserved'), "not running|$unserved|f", 'no manager for this database');
is(query('SELECT state, last_error, last_error_at FROM atproto.stat_fetcher', database => 'unserved'), "not running|$unserved|", 'no fetcher for this database');
like(said("SELECT atproto.subscribe('few', '$url', backfill => 'repair')", 'unserved'),
	qr/^WARNING:  no repositories of subscription "few" will be fetched\n.*^NOTICE:  subscription "few" runs until the server stops\nDETAIL:  No atproto manager serves this database\. It begins with the next event\. [^\n]+\nHINT:  To have it started with the server, add the database to "atproto\.databases", and restart the server\. SELECT \* FROM atproto\.status/ms,
	'subscribe() says that no fetcher runs');
query("INSERT INTO atproto.identity (did, state, error) VALUES ('did:web:a.example.com', 'invalid', 'no JSON')", database => 'unserved');
like(said("CALL atproto.await('did:web:a.example.com', '0 s')", 'unserved'),
	qr/^ERROR:  there is no answer yet about the account\nDETAIL:  The last look-up failed: no JSON\nHINT:  Nobody asks for it: \Q$unserved\E\.$/m,
	'await() does not say that somebody asks');
is(query('SELECT atproto.why_not_served() IS NULL'), 't', 'a served database has no reason');

# --- a schema that an earlier subscription has filled ---

my $former = qr/^DETAIL:  It begins with the next event\.[^\n]* The schema has repositories already: what the filters of an earlier subscription left out of them stays missing\.$/m;
unlike(said(subscribe_sql('another', $server)), $former, 'beside another subscription of the schema, subscribe() speaks of no earlier one');
query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');
my $said = said(subscribe_sql('after', $server, backfill => q{'repair'}));
like($said, $former, 'subscribe() says that the schema has repositories');
like($said, qr/^HINT: .* SELECT atproto\.resync_all\('atproto'\); fetches the repositories of the schema again\.$/m, 'and how they are fetched again');
query("SELECT atproto.unsubscribe('after')");
unlike(said(subscribe_sql('of_labels', $server, nsid => 'com.atproto.label.subscribeLabels')), $former, 'of a stream without repositories, it does not say so');
query("SELECT atproto.unsubscribe('of_labels'); TRUNCATE atproto.record, atproto.repo");
unlike(said(subscribe_sql('empty', $server)), $former, 'nor when the tables are empty again');
query("SELECT atproto.unsubscribe('empty'); INSERT INTO atproto.repo (did) VALUES ('did:web:named.example.com'); INSERT INTO atproto.repo (did, rev) VALUES ('did:web:gone.example.com', '3zzzzzzzzzzzz');"
	. " DELETE FROM atproto.repo WHERE rev IS NOT NULL");
unlike(said(subscribe_sql('named', $server)), $former, 'nor when they have no commit of a repository');
query(<<'SQL');
SELECT atproto.unsubscribe('named');
ALTER TABLE atproto.repo RENAME TO repo_all;
CREATE TABLE atproto.repo (LIKE atproto.repo_all INCLUDING DEFAULTS) PARTITION BY HASH (did);
ALTER TABLE atproto.repo ATTACH PARTITION atproto.repo_all FOR VALUES WITH (MODULUS 1, REMAINDER 0);
UPDATE atproto.repo SET rev = '3zzzzzzzzzzzz';
SQL
like(said(subscribe_sql('partitioned', $server)), $former, 'subscribe() says so of a partitioned table, too');

$node->stop;
done_testing();
