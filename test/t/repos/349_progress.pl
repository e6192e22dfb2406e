# 349_progress.pl
#		The views repo_progress, repo_problem and audit_progress: what they show of
#		backfills and audits, by which plans, and which roles see which rows.  R-65.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Exports;
use PostgreSQL::Test::Utils;
use Test::More;

my ($network, $node, $files) = begin_exports('progress', "atproto.fetch_retry = '1h'\natproto.audits = on\n");
my ($first, $many, $absent) = map { did($_) } qw(a d e);

# Columns of the view.
sub progress
{
	my ($columns) = @_;
	return query("SELECT $columns FROM atproto.repo_progress");
}

# The result of a statement as this role, or its error.
sub as
{
	my ($role, $sql) = @_;
	my ($rc, $out, $err) = $node->psql('postgres', "SET SESSION AUTHORIZATION $role; $sql");
	return $rc == 0 ? $out : $err =~ /ERROR:  (.*)/ ? "ERROR: $1" : $err;
}

# --- a backfill ---

$network->hosts({ $HOST => { collections => { 'app.bsky.feed.post' => [ $first, $many, $absent ] } } });
$network->repos({ $HOST => { $first => { car => "$files/first.car" }, $many => { car => "$files/collections.car" }, $absent => undef } });
query("SELECT atproto.subscribe('posts', 'wss://$HOST', collections => '{app.bsky.feed.post}', backfill => 'collections', fetch_as => 'whole')");
wait_for("SELECT done = 2 AND failed = 1 AND lists_ended = 1 FROM atproto.repo_progress");
is(progress('target, backfill, lists, lists_ended, enumerated, queued, running, failed, throttled, suspended, done'),
	'atproto|collections|1|1|3|0|0|1|0|0|2', 'R-65: what was listed, fetched, and failed');
is(progress('records'), query('SELECT count(*) FROM atproto.record'), 'R-65: records that the exports have');
is(progress('bytes'), (-s "$files/first.car") + (-s "$files/collections.car"), 'R-65: and their bytes');
is(progress('(SELECT string_agg(key || value, $$ $$ ORDER BY key) FROM jsonb_each_text(repositories))'),
	query('SELECT string_agg(sync || n, $$ $$ ORDER BY sync) FROM (SELECT sync, count(*) AS n FROM atproto.repo GROUP BY 1) s'), 'R-65: states of repositories');
is(progress("repositories ->> 'synchronized'"), '2', 'two of them are in step');
like(query('SELECT subscription, backfill, problems, error FROM atproto.status'), qr{^posts\|2 repositories fetched, 1 failed\|\|.*certificate}, 'status says the same in words');
is(query(q{SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'atproto.status'::regclass AND attnum > 0}),
	'subscription state lag rate events backfill problems error', 'in eight columns');
is(query('SELECT rate > 0 AND fetched_at <= now() FROM atproto.repo_total'), 't', 'there is a rate');

my $jobs = <<"SQL";
INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, state, host, next_try, queued_at)
	SELECT 'atproto', ('did:plc:' || left(translate(md5(n::text), '0189', 'wxyz'), 24))::did, 'posts', 1, reason, state, host, 'infinity', queued_at
	FROM (VALUES (1, 'break', 'running', 'a.example.com', now() - interval '1 day'), (2, 'break', 'throttled', 'a.example.com', now()),
		(3, 'sync', 'suspended', 'b.example.com', now()), (4, 'audit', 'queued', NULL, now())) v (n, reason, state, host, queued_at);
UPDATE atproto.repo_total SET rate = 0.5, fetched_at = now();
SQL
is(query("BEGIN; $jobs SELECT queued, running, failed, throttled, suspended, now() - oldest, reasons, hosts, rate, ends_at - now() FROM atproto.repo_progress; ROLLBACK"),
	'1|1|1|1|1|1 day|{"sync": 1, "audit": 1, "break": 2, "listed": 1}|{"a.example.com": 2, "b.example.com": 1, "' . $HOST . '": 1}|0.50|00:00:04',
	'R-65: jobs by state, reason and host, the oldest, the rate and the end');
is(query("BEGIN; SET LOCAL TimeZone = 'UTC'; $jobs SELECT backfill = '2 repositories fetched, 2 to fetch, 1 failed, 2 not now, done at ' || to_char(now() + '4 s', 'YYYY-MM-DD HH24:MI') FROM atproto.status; ROLLBACK"),
	't', 'status: what is left, and when it ends');
is(query("BEGIN; SET LOCAL TimeZone = 'UTC'; INSERT INTO atproto.gap (subscription, endpoint, after_seq, reason, closed_at) SELECT 'posts', '', 1, '', CASE WHEN n = 1 THEN now() END FROM generate_series(1, 3) n;"
		. " INSERT INTO atproto.dead_frame VALUES ('posts', '', ''); INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, digest) VALUES ('posts', 'frame', '', '', '');"
		. " INSERT INTO atproto.held_event (target, did, rev, subscription, seq, why, shard_key, bytes, held_at) SELECT 'atproto', '$many', '3jzfcijpj2z2a', 'posts', n, 'identity', 0, '', '2001-02-03 04:05+0' FROM generate_series(1, 4) n;"
		. " UPDATE atproto.subscription SET stopped = 'no disk' WHERE name = 'posts'; SELECT state, problems, error FROM atproto.status; ROLLBACK"),
	'stopped|2 open gaps, 1 dead letters, 4 events wait since 2001-02-03 04:05|no disk', 'status: what needs a look');
is(query("BEGIN; UPDATE atproto.subscription SET enabled = false, backfill = 'none'; DELETE FROM atproto.repo_job; DELETE FROM atproto.repo_total; SELECT state, backfill IS NULL, error IS NULL FROM atproto.status; ROLLBACK"),
	'paused|t|t', 'status: nothing to say');
is(query("BEGIN; $jobs SELECT problem FROM atproto.repo_problem WHERE did IS NOT NULL ORDER BY problem; ROLLBACK"), "failed\nsuspended\nthrottled", 'problems among them');

# --- what keeps it ---

like(query("SELECT subscription, target, problem, host, tries, error FROM atproto.repo_problem WHERE did = '$absent'"),
	qr/^posts\|atproto\|failed\|\Q$HOST\E\|1\|.*RepoNotFound/, 'R-65: one that its server does not have, with its answer');
query("INSERT INTO atproto.host (host, backoffs, backoff_until, backoff_reason) VALUES ('parked.example.com', 3, 'infinity', 'HTTP status 429'), ('other.example.com', 1, '-infinity', 'over')");
query("INSERT INTO atproto.identity (did, state, error) VALUES ('$many', 'gone', 'HTTP status 410');
	INSERT INTO atproto.identity (did, state, key, pds, error) VALUES ('$first', 'good', decode(repeat('e7', 35), 'hex'), 'x', 'busy')");
is(query("SELECT subscription, did, problem, host, tries, error FROM atproto.repo_problem WHERE subscription IS NULL ORDER BY problem"),
	"||backoff|parked.example.com|3|HTTP status 429\n|$many|gone||0|HTTP status 410", 'R-65: hosts that rest, identities that are gone');
is(query("BEGIN; INSERT INTO atproto.repo_storm VALUES (current_user::regrole, now() + interval '1 min'); SELECT next_try - now() FROM atproto.repo_problem WHERE problem = 'storm'; ROLLBACK"),
	'00:01:00', 'R-06: a storm');
query("UPDATE atproto.enumeration SET error = 'the list was given up'");
is(query("SELECT subscription, problem, error FROM atproto.repo_problem WHERE did IS NULL AND subscription IS NOT NULL"),
	'posts|list|listReposByCollection app.bsky.feed.post: the list was given up', 'R-65: a list that is not read');

# --- audits ---

is(query("SELECT round(atproto_internal.rate_now(60, now() - interval '1 minute')), atproto_internal.rate_now(60, now() + interval '1 day'), atproto_internal.rate_now(60, now() - interval '1 year') < 1e-9"),
	'22|60|t', 'a rate falls to 1/e in a minute, and not out of range');
query("INSERT INTO atproto.audit_state (target, next_at) VALUES ('atproto', 'infinity') ON CONFLICT (target) DO UPDATE SET next_at = 'infinity';
	UPDATE atproto.repo SET sync = 'unproven', audited_at = NULL WHERE did = '$first'");
is(query('SELECT target, unproven, audited, different FROM atproto.audit_progress'), 'atproto|1|0|0', 'R-65: what is unproven');
query("UPDATE atproto.subscription SET collections = NULL, backfill = 'repair'; UPDATE atproto.audit_state SET next_at = now()");
wait_for('SELECT audited = 1 FROM atproto.audit_progress');
is(query('SELECT unproven IS NULL, a.rate > 0 FROM atproto.audit_state a JOIN atproto.audit_progress p USING (target)'), 't|t', 'R-65: and how fast that is audited');

# --- what it costs ---

unlike(query('EXPLAIN (VERBOSE) SELECT subscription, queued, done, ends_at FROM atproto.repo_progress'), qr/repo_states/,
	'repositories are not counted where nobody asks how many there are');
like(query('EXPLAIN (VERBOSE) SELECT repositories FROM atproto.repo_progress'), qr/repo_states/, 'and they are where somebody does');
query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, next_try)
	SELECT 'atproto', ('did:plc:' || left(translate(md5(n::text), '0189', 'wxyz'), 24))::did, 'posts', 3, 'listed', 'infinity' FROM generate_series(1, 20000) n;
	ANALYZE atproto.repo_job");
like(query('EXPLAIN SELECT * FROM atproto.repo_problem'), qr/repo_job_problem/, 'problems are found by an index');

# --- who sees what ---

query("CREATE ROLE monitor; GRANT pg_monitor TO monitor; CREATE ROLE owner; CREATE ROLE anybody; CREATE SCHEMA owner AUTHORIZATION owner;
	GRANT SELECT ON atproto.repo_progress, atproto.repo_problem, atproto.audit_progress, atproto.status TO owner;
	INSERT INTO atproto.subscription (name, url, target, enabled) VALUES ('owned', 'wss://$HOST', 'owner', false)");
query("UPDATE atproto.subscription SET owner = 'owner' WHERE name = 'owned'");
is(as('monitor', "SELECT subscription, repositories IS NULL FROM atproto.repo_progress ORDER BY 1"), "owned|t\nposts|f", 'a monitor sees all; an owner without tables has none');
is(as('owner', 'SELECT subscription, repositories FROM atproto.repo_progress'), 'owned|', 'an owner sees his own');
is(as($_, 'SELECT subscription FROM atproto.status ORDER BY 1'), $_ eq 'owner' ? 'owned' : "owned\nposts", "status: $_") foreach 'owner', 'monitor';
is(as('owner', 'SELECT DISTINCT subscription FROM atproto.repo_problem WHERE subscription IS NOT NULL'), '', '... and no problem of others');
is(as('owner', 'SELECT target, audited, unproven FROM atproto.audit_progress'), 'atproto|1|', '... and nothing of the states of tables that are not his');
is(as('anybody', "SELECT 1 FROM atproto.$_"), "ERROR: permission denied for view $_", "$_: nobody else") foreach 'repo_progress', 'repo_problem', 'audit_progress', 'status';
query('GRANT USAGE ON SCHEMA atproto_internal TO anybody');
is(as('anybody', "SELECT atproto_internal.repo_states('posts') IS NULL, atproto_internal.repo_states('none') IS NULL"), 't|t', 'nor by the function');

# Many subscriptions cost no scan of these tables each: 100 subscriptions and 300,000 jobs took 20 s.
my $plan = query(<<'SQL');
BEGIN;
INSERT INTO atproto.subscription (name, url, enabled) SELECT 'many' || n, format('wss://many%s.example.com', n), false FROM generate_series(1, 50) n;
INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason) SELECT 'posts', 'x', n, n + 1, 'set_cursor' FROM generate_series(1, 100) n;
EXPLAIN (ANALYZE, COSTS OFF) SELECT * FROM atproto.status;
EXPLAIN (ANALYZE, COSTS OFF) SELECT * FROM atproto.repo_progress;
SQL
like($plan, qr/Scan.* on gap .*Scan.* on repo_job /s, 'the states of many subscriptions: the plan reads jobs and gaps');
unlike($plan, qr/Scan.* on (?:repo_job|held_event|gap|dead_letter) .*loops=(?![01]\))/, '... each table once for all subscriptions');
is(query(q{BEGIN; INSERT INTO atproto.subscription (name, url, enabled) VALUES ('idle', 'wss://idle.example.com', false); SELECT held_events, held_bytes FROM atproto.stat_subscription WHERE name = 'idle';
	SELECT queued, failed, reasons, hosts FROM atproto.repo_progress WHERE subscription = 'idle'; SELECT backfill, problems FROM atproto.status WHERE subscription = 'idle'; ROLLBACK}), "0|0\n0|0||\n|", 'nothing is 0');

# An owner's table may be anything.
is(as('owner', q{CREATE FUNCTION owner.f() RETURNS text LANGUAGE sql AS 'SELECT current_user::text'; CREATE VIEW owner.repo AS SELECT owner.f() AS sync}),
	'', 'a table that looks who reads it');
is(query("SELECT repositories FROM atproto.repo_progress WHERE subscription = 'owned'"), '{"owner": 1}', 'it is its owner');

# A target's owner can lock the table for ever.
my $session = $node->background_psql('postgres');
$session->query_safe('SET ROLE owner; BEGIN; LOCK TABLE owner.repo IN ACCESS EXCLUSIVE MODE');
is(($node->psql('postgres', q{SET statement_timeout = '60s'; SELECT subscription, repositories IS NULL FROM atproto.repo_progress ORDER BY 1}))[1],
	"owned|t\nposts|f", 'a table that its owner has locked: the view does not wait for the end of the lock');
$session->quit;

# --- the end ---

query("SELECT atproto.unsubscribe('posts')");
is(query('SELECT count(*) FROM atproto.repo_total'), '0', 'counts go with their subscription');

expect_check('identity that cannot be', qr/did:plc:322222222222222222222222/);    # written by this test
$node->stop;
$network->stop;
done_testing();
