# 283_proved_sets.pl
#		What "synchronized" claims when filters change (P-40 to P-42): repo.proved has the collections, repo.proved_rev the
#		revision.  A wider filter takes the claim away from the repositories that the subscription follows, a narrower
#		filter makes the claim smaller, and an export under a filter proves this filter only.  A change of a filter waits
#		for transactions with first commits.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Backfill;
use AtprotoTest::Points;
use PostgreSQL::Test::Utils;
use Test::More;

my $FEED = '{app.bsky.feed.like,app.bsky.feed.post}';
my $POST = '{app.bsky.feed.post}';

my $simulated = AtprotoTest::Backfill->begin(half => 200);
my ($half, $last) = ($simulated->half, $simulated->last);
my $server = AtprotoTest::Server->start($simulated->capture, '--hold-at', $half + 1);
my $node   = make_node('proved', start => $simulated->preload, conf => $simulated->settings);

$simulated->serve(1, $server);
$node->safe_psql('postgres', 'CREATE TABLE was (target text, did did, sync text, proved bigint, proved_rev atproto.tid)');

# sync, the proved collections, whether proved_rev is rev, and the number of such repositories.
sub claims
{
	my ($target, $where) = @_;
	# without accounts whose first commit was lost from the stream
	return query("SELECT sync || ' ' || COALESCE(p.collections::text, '-') || ' ' || COALESCE((r.proved_rev = r.rev)::text, '-') AS claim, count(*)
		FROM $target.repo r LEFT JOIN atproto.proved_set p ON p.target = '$target' AND p.id = r.proved WHERE @{[ $where // 'true' ]} AND r.active AND r.rev IS NOT NULL
		AND r.sync <> 'desynchronized' AND (r.sync, r.proved) IS DISTINCT FROM ('partial', NULL::bigint) GROUP BY claim ORDER BY claim");
}

# Is there a single line of claims?
sub claimed
{
	my ($target, $sync, $where) = @_;
	return claims($target, $where) =~ /\A\Q$sync\E\|\d+\z/;
}

sub follow
{
	my ($target, %o) = @_;

	query("CREATE SCHEMA IF NOT EXISTS $target");
	query($simulated->subscribe_sql($o{name} // $target, cursor => 0, target => "'$target'", %o{ grep { $_ ne 'name' } keys %o }));
	wait_for("SELECT COALESCE(max(seq), 0) >= $half FROM atproto.stat_subscription WHERE name = '@{[ $o{name} // $target ]}'");
	return;
}

sub set_filter
{
	my ($name, $set) = @_;
	return query("UPDATE atproto.subscription SET $set WHERE name = '$name'");
}

# --- first commits prove the filter ---

follow('feed', collections => "'$FEED'");
ok(claimed('feed', "synchronized $FEED true"), 'P-40: a repository followed from its first commit on is proven in the collections of the filter') or diag(claims('feed'));
follow('everything');
ok(claimed('everything', 'synchronized {*} true'), 'P-40: without a filter, in all collections');
is(query("SELECT DISTINCT proved FROM everything.repo WHERE proved IS NOT NULL"), '0', 'P-40: which is the set 0');
follow('star', collections => "'{*,app.bsky.feed.post}'");
ok(claimed('star', 'synchronized {*} true'), 'P-40: a pattern that contains all others is the same set');
follow('creates', actions => "'{create}'");
ok(claimed('creates', 'synchronized - -'), 'P-40: nothing is proven when operations are left out');

# --- filters change ---

set_filter('feed', "collections = '$POST'");
ok(claimed('feed', "synchronized $POST true"), 'P-40: a narrower filter makes the claim smaller') or diag(claims('feed'));
set_filter('feed', "collections = '$FEED'");
ok(claimed('feed', "partial $POST true"), 'P-40: the former filter is a wider one now: nobody knows what has passed') or diag(claims('feed'));
set_filter('everything', "collections = '{app.bsky.*}'");
ok(claimed('everything', 'synchronized {app.bsky.*} true'), 'P-40: a pattern is narrower than everything');
set_filter('everything', "collections = '$FEED'");
ok(claimed('everything', "synchronized $FEED true"), 'P-40: collections of a pattern are narrower than the pattern');
set_filter('everything', "collections = '{app.bsky.feed.post,app.bsky.graph.follow}'");
ok(claimed('everything', "partial $POST true"), 'P-40: of a filter that loses and gains, what both have is left');

is(query("SELECT string_agg(collections::text, ' ' ORDER BY collections) FROM atproto.proved_set WHERE target = 'everything'"), "{*} $POST {app.bsky.feed.post,app.bsky.graph.follow}",
	'P-40: sets that no repository names are removed');

# --- a second subscription ---

my $split = query("SELECT did FROM star.repo WHERE sync = 'synchronized' ORDER BY did LIMIT 1");
follow('star', name => 'one', collections => "'$POST'", dids => "'{$split}'");
ok(claimed('star', "synchronized {*} true", "r.did <> '$split'"), 'P-40: a subscription of single accounts takes no claim from others');
ok(claimed('star', "partial $POST true", "r.did = '$split'"), 'P-40: of its own accounts it may process commits first') or diag(claims('star'));
query(q{SELECT atproto.pause('one')});
set_filter('one', 'dids = NULL');
ok(claimed('star', "synchronized {*} true", "r.did <> '$split'"), 'P-40: a paused subscription changes no claim');
set_filter('one', "slice = '0/2'");
query(q{SELECT atproto.resume('one')});
ok(claimed('star', "partial $POST true", "did_slice(r.did, 2) = 0"), 'P-40: resumed, it does, in its slice') or diag(claims('star'));
ok(claimed('star', "synchronized {*} true", "did_slice(r.did, 2) = 1 AND r.did <> '$split'"), 'P-40: and in its slice only') or diag(claims('star'));
query(q{SELECT atproto.unsubscribe('one')});

# --- an export under a filter ---

my $did = query("SELECT did FROM feed.repo WHERE sync = 'partial' ORDER BY did LIMIT 1");
my $car = $simulated->export($did, 1);
query("SELECT atproto.load_car('$did', pg_read_binary_file('$car'), 'feed')");
ok(claimed('feed', "synchronized $FEED true", "r.did = '$did'"), 'P-40: an export under a filter proves the filter') or diag(claims('feed', "r.did = '$did'"));
query("INSERT INTO was SELECT 'creates', did, sync, proved, proved_rev FROM creates.repo");
query("SELECT atproto.load_car('$did', pg_read_binary_file('$car'), 'star')");
ok(claimed('star', "synchronized {*} true", "r.did = '$did'"), 'P-40: without a filter, all collections');

# --- commits go on ---

query(q{SELECT atproto.pause(name) FROM atproto.subscription WHERE name IN ('star', 'feed')});
query("DELETE FROM was; INSERT INTO was SELECT 'star', did, sync, proved, proved_rev FROM star.repo");
query(q{UPDATE atproto.subscription SET verify = 'hash' WHERE name = 'feed'});
query(q{SELECT atproto.resume(name) FROM atproto.subscription WHERE name IN ('star', 'feed')});
query("INSERT INTO was SELECT 'feed', did, sync, proved, proved_rev FROM feed.repo");
$server->release;
wait_for_seq($node, 'star', $last);
wait_for_seq($node, 'feed', $last);
cmp_ok(query("SELECT count(*) FROM star.repo r JOIN was w USING (did) WHERE w.target = 'star' AND w.sync = 'synchronized' AND r.sync = 'synchronized' AND r.rev > w.proved_rev AND r.proved_rev = r.rev"),
	'>', 0, 'P-41: commits that continue the chain carry the claim on');
is(query("SELECT count(*) FROM star.repo r JOIN was w USING (did) WHERE w.target = 'star' AND r.sync <> 'synchronized' AND r.proved_rev <> w.proved_rev AND w.sync = 'synchronized'"
	  . " AND r.proved_rev >= r.rev"), '0', 'P-41: a break does not');
is(query("SELECT DISTINCT r.sync || (r.proved_rev = w.proved_rev) FROM feed.repo r JOIN was w USING (did) WHERE w.target = 'feed' AND r.did = '$did' AND r.rev > w.proved_rev"),
	'partialtrue', 'P-42: below chain the claim stays at the last proven revision');

# --- a change of the filter waits for the transaction of a first commit ---

my $points = AtprotoTest::Points->new($node);
$points->hold('cursor next', 'atproto race');
query('CREATE SCHEMA race');
query($simulated->subscribe_sql('race', cursor => 0, target => "'race'", collections => "'$POST'"));
$points->wait('cursor next', 'atproto race');
my $session = $points->session('widens', "UPDATE atproto.subscription SET collections = '$FEED' WHERE name = 'race'");
wait_for("SELECT count(*) = 1 FROM pg_locks l JOIN pg_stat_activity USING (pid) WHERE application_name = 'widens' AND NOT granted AND l.objsubid = 62");
$points->release('cursor next', 'atproto race');
is(($session->finish)[1], '', 'P-40: a change of the filter waits for first commits');
wait_for_seq($node, 'race', $last);
is(query("SELECT count(*) FROM race.repo r JOIN atproto.proved_set p ON p.target = 'race' AND p.id = r.proved WHERE r.sync = 'synchronized' AND p.collections <> '$FEED'"), '0',
	'P-40: and none of them keeps the claim of the former filter');
is(query('SELECT * FROM atproto.check()'), '', 'P-40: check() finds nothing');

# --- a set that is about to be removed gets proofs ---

query("SELECT atproto.prove('race', collections => '$POST'); DELETE FROM atproto.proof_result WHERE target = 'race'");
query("UPDATE race.repo SET proved = 0 WHERE proved IS NOT NULL");
my $proves = $node->background_psql('postgres');
$proves->query_safe("BEGIN; SELECT atproto.prove('race', collections => '$POST')");
$session = $points->session('narrows', "UPDATE atproto.subscription SET collections = '{app.bsky.feed.*,app.bsky.graph.follow}' WHERE name = 'race'");
wait_for("SELECT count(*) = 1 FROM pg_locks l JOIN pg_stat_activity USING (pid) WHERE application_name = 'narrows' AND NOT granted AND l.objsubid = 62");
$proves->query_safe('COMMIT');
$proves->quit;
is(($session->finish)[1], '', 'P-40: a change of the filter waits for prove()');
cmp_ok(query("SELECT count(*) FROM atproto.proof_result p JOIN atproto.proved_set q ON q.target = p.target AND q.id = p.proved_set WHERE p.target = 'race'"), '>', 0, 'P-50: whose set stays');
query("DELETE FROM atproto.proof_result; UPDATE atproto.subscription SET collections = '$FEED' WHERE name = 'race'");
is(query("SELECT string_agg(collections::text, ' ' ORDER BY collections) FROM atproto.proved_set WHERE target = 'race'"), $FEED, 'P-40: until nothing names it');

# --- who writes sets ---

like(try_query_error("INSERT INTO atproto.proved_set VALUES ('atproto', 7, '{app.bsky.feed.post}')"), qr/"id" is not the number of these collections/, 'P-40: the number follows from the set');
like(try_query_error("SET ROLE pg_monitor; SELECT * FROM atproto.proved_set"), qr/permission denied/, 'P-40: only the extension reads and writes the sets');

sub try_query_error
{
	my ($sql) = @_;
	my (undef, undef, $err) = $node->psql('postgres', $sql);
	return $err;
}

done_testing();
