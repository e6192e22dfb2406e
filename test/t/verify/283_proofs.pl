# 283_proofs.pl
#		prove() compares the rows of accounts with the accounts' own repositories (P-44, P-50 to P-54): planted omissions,
#		alterations and inventions are found by path, and nothing else; samples contain smaller samples; what the stream may
#		still bring is no difference yet; servers that refuse are listed with their reasons; wrong rows are repaired where
#		repositories are fetched; only the owner of a target may ask.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Backfill;
use PostgreSQL::Test::Utils;
use Test::More;

my $simulated = AtprotoTest::Backfill->begin(half => 300, accounts => 16);
my ($half, $last) = ($simulated->half, $simulated->last);
my $network = $simulated->network;
my $server  = AtprotoTest::Server->start($simulated->capture, '--hold-at', $half + 1);
my $node    = make_node('proofs', start => $simulated->preload, conf => $simulated->settings);
my $FEED    = '{app.bsky.feed.like,app.bsky.feed.post,app.bsky.graph.follow}';
my $host    = $AtprotoTest::Backfill::HOST;

$simulated->serve(1, $server);

# A target with what each account had after the first half, paused.
sub make_target
{
	my ($s, %o) = @_;

	query("CREATE SCHEMA $s");
	query($simulated->subscribe_sql($s, cursor => 0, target => "'$s'", %o));
	wait_for("SELECT COALESCE(max(seq), 0) >= $half FROM atproto.stat_subscription WHERE name = '$s'");
	foreach my $did ($simulated->dids)
	{
		my $car = $simulated->export($did, 1) or next;
		query("SELECT atproto.load_car('$did', pg_read_binary_file('$car'), '$s')") if query("SELECT count(*) FROM $s.repo WHERE did = '$did' AND active");
	}
	return;
}

# The same bounds, by halving sums of the binomial distribution.
sub reference
{
	my $python = <<'EOP';
from math import lgamma, log, exp
def pmf(k, n, p): return exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) + k * log(p) + (n - k) * log(1 - p))
def most(k, n, p): return sum(pmf(i, n, p) for i in range(k + 1))
def bound(k, n, upper):
    if n == 0 or (upper and k == n): return 1.0
    if not upper and k == 0: return 0.0
    low, high = 1e-12, 1 - 1e-12
    for _ in range(60):
        middle = (low + high) / 2
        if (most(k, n, middle) < 0.05) if upper else (1 - most(k - 1, n, middle) > 0.05): high = middle
        else: low = middle
    return low
print(' '.join('%.7f' % bound(*v) for v in ((0, 3000, 1), (5, 100, 1), (5, 100, 0), (1, 1, 1), (1, 1, 0), (999, 1000, 1), (500, 10**6, 1), (500, 10**6, 0), (0, 0, 1))))
EOP
	my ($out) = run_command([ $ENV{PYTHON} || '/usr/bin/python3', '-c', $python ]);
	return $out;
}

sub prove
{
	my ($s, $share, @more) = @_;
	my $n = query('SELECT atproto.prove(' . join(', ', "'$s'", $share // 1, @more) . ')');

	$node->safe_psql('postgres', "SET client_min_messages = error; CALL atproto.await_proof('$s', '60 s')");
	return $n;
}

# What was found, a line for each account that differs.
sub found
{
	my ($s) = @_;
	return query("SELECT did, missing, extra, other, array_to_string(paths, ',') FROM atproto.proof_result WHERE target = '$s' AND state = 'done' AND NOT equal ORDER BY did");
}

make_target('feed', collections => "'$FEED'");
my $accounts = query("SELECT count(*) FROM feed.repo WHERE active AND rev IS NOT NULL");
cmp_ok($accounts, '>', 8, 'there are accounts');

# --- all is right ---

is(prove('feed'), $accounts, 'P-50: every active account is asked for');
is(found('feed'), '', 'P-50: in tables that an export has filled, nothing differs');
is(query("SELECT accounts, proven, earlier, differing, refused, waiting, not_asked, differences FROM atproto.proof"), "$accounts|$accounts|0|0|0|0|0|0", 'P-52: all are proven');
is(query("SELECT missing, missing_at_least, round(missing_at_most::numeric, 6) = round((1 - 0.05 ^ (1.0 / records))::numeric, 6) FROM atproto.proof"), '0|0|t', 'P-52: the bounds over records');
is(query("SELECT differing_at_least, round(differing_at_most::numeric, 6) = round((1 - 0.05 ^ (1.0 / accounts))::numeric, 6) FROM atproto.proof"), '0|t', 'P-52: the bound of a sample without a difference');
# values of a second program
is(query("SELECT string_agg(round(atproto_internal.proof_share(k, n, u)::numeric, 7)::text, ' ' ORDER BY i) FROM (VALUES
	(1, 0, 3000, true), (2, 5, 100, true), (3, 5, 100, false), (4, 1, 1, true), (5, 1, 1, false), (6, 999, 1000, true), (7, 500, 1000000, true), (8, 500, 1000000, false), (9, 0, 0, true)) v (i, k, n, u)"),
	reference(), 'P-52: bounds by Clopper and Pearson');
is(query("SELECT collections FROM atproto.proof"), $FEED, 'P-52: for these collections');
is(query("SELECT records FROM atproto.proof"), query('SELECT count(*) FROM feed.record'), 'P-50: each record was compared');
cmp_ok(scalar(grep { $_->{path} =~ /getBlocks|getRecord/ } $network->log(kind => 'http', host => $host)), '>', 0, 'P-03: by parts of the repositories');
is(scalar(grep { $_->{path} =~ /getRepo\b/ } $network->log(kind => 'http', host => $host)), 0, 'P-22: and no repository was fetched');

# --- omissions, alterations, inventions ---

query('CREATE TABLE planted AS SELECT did, collection, rkey, cid FROM feed.record');
my @planted;
sub plant
{
	my ($s, $how, $sql) = @_;
	my $did = query("$sql RETURNING did || ' $how ' || collection || '/' || rkey");

	push @planted, split /\n/, $did;
	return;
}

sub planted
{
	my %by;
	foreach (@planted) { my ($did, $how, $path) = split / /; push @{ $by{$did} }, [ $how, $path ]; }
	return join "\n", map {
		my $of = $by{$_};
		my %n; $n{ $_->[0] }++ foreach @$of;
		join '|', $_, (map { $n{$_} // 0 } qw(missing extra other)), join(',', map { "$_->[0] $_->[1]" } sort { $a->[1] cmp $b->[1] } @$of)
	} sort keys %by;
}

my $some = sub { my ($s, $mod, $rest) = @_; "(did, collection, rkey) IN (SELECT did, collection, rkey FROM (SELECT *, row_number() OVER (ORDER BY did, collection, rkey) AS n FROM $s.record) x WHERE n % $mod = $rest)" };
plant('feed', 'missing', 'DELETE FROM feed.record WHERE ' . $some->('feed', 29, 3));
plant('feed', 'other', 'UPDATE feed.record SET cid = (SELECT data FROM feed.repo WHERE data IS NOT NULL ORDER BY did LIMIT 1) WHERE ' . $some->('feed', 31, 7));
plant('feed', 'extra', "INSERT INTO feed.record (did, collection, rkey, cid, rev) SELECT DISTINCT ON (did) did, collection, rkey || 'x', cid, rev FROM feed.record WHERE length(rkey::text) = 13 ORDER BY did, collection, rkey");
# a row of a collection outside of the filter is no difference
query("INSERT INTO feed.record (did, collection, rkey, cid, rev) SELECT did, 'app.bsky.feed.repost', rkey, cid, rev FROM feed.record ORDER BY did, rkey LIMIT 1");
cmp_ok(scalar @planted, '>', 20, 'differences were planted');
prove('feed');
is(found('feed'), planted(), 'P-50, P-54: each planted difference is found by its path, and nothing else');
is(query('SELECT differences FROM atproto.proof'), scalar @planted, 'P-52: so many');
is(query("SELECT differing > 0 AND differing_at_least > 0 AND differing_at_most >= differing_at_least AND proven + differing = accounts FROM atproto.proof"), 't', 'P-52: the bounds');
is(query("SELECT count(*) FROM feed.repo r JOIN atproto.proof_result p USING (did) WHERE p.target = 'feed' AND NOT p.equal AND r.sync <> 'desynchronized'"), '0', 'P-50: such repositories are not synchronized any more');

# --- only some collections ---

my $without = scalar grep { m{app\.bsky\.graph\.follow/} } @planted;
prove('feed', 1, "'{app.bsky.graph.*}'");
is(query("SELECT sum(missing + extra + other) FROM atproto.proof_result WHERE target = 'feed'"), $without, 'P-50: only in the collections that were asked for');
is(query('SELECT collections FROM atproto.proof'), '{app.bsky.graph.follow}', 'P-50: which are those of the filter, too');
prove('feed');
query(q{SELECT atproto.pause('feed')});

# --- a letter is no difference ---

my ($did, $path) = query("SELECT did || ' ' || split_part(p, ' ', 2) FROM atproto.proof_result, unnest(paths) p WHERE p LIKE 'missing %' ORDER BY did, p LIMIT 1") =~ /(\S+) (\S+)/;
my $missing = query("SELECT missing FROM atproto.proof_result WHERE did = '$did'");
my $cid = query("SELECT cid FROM planted WHERE did = '$did' AND collection || '/' || rkey = '$path'");
my $letter = sub {
	my ($bytes) = @_;
	query("INSERT INTO atproto.dead_frame VALUES ('feed', sha256($bytes), $bytes); INSERT INTO atproto.dead_letter (subscription, stage, sqlstate, message, digest, did, path)
		VALUES ('feed', 'record', '22000', 'bad', sha256($bytes), '$did', '$path')");
	prove('feed');
	my $found = query("SELECT missing - $missing, letters FROM atproto.proof_result WHERE did = '$did'");
	query('DELETE FROM atproto.dead_letter');
	return $found;
};
is($letter->("convert_to('{\"cid\":\"$cid\"}', 'UTF8')"), '-1|1', 'P-44: a record with a letter is counted apart');
is($letter->("convert_to('{\"cid\":\"bafyreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy\"}', 'UTF8')"), '0|0', 'P-44: a letter about an older value of the record explains nothing');

# --- samples ---

query('CREATE SCHEMA sample');
query($simulated->subscribe_sql('sample', target => "'sample'"));
query("SELECT atproto.pause('sample')");
query("INSERT INTO sample.repo (did, rev, sync) SELECT 'did:web:a' || i || '.example.org', '3jzfcijpj2z2a', 'partial' FROM generate_series(1, 2000) i");
my %shares;
foreach my $share (0.01, 0.1, 0.5)
{
	query("SELECT atproto.prove('sample', $share)");
	$shares{$share} = { map { $_ => 1 } split /\n/, query("SELECT did FROM atproto.proof_result WHERE target = 'sample'") };
	my $n = keys %{ $shares{$share} };
	my $sigma = sqrt(2000 * $share * (1 - $share));
	cmp_ok(abs($n - 2000 * $share), '<', 6 * $sigma + 1, "P-50: a sample of $share has about its share");
}
query("DELETE FROM atproto.proof_result WHERE target = 'sample'; SELECT atproto.prove('sample', 0.1)");
is(query("SELECT count(*) FROM atproto.proof_result WHERE target = 'sample'"), scalar keys %{ $shares{0.1} }, 'P-50: the seed is kept');
is(scalar(grep { !$shares{0.1}{$_} } keys %{ $shares{0.01} }), 0, 'P-50: a larger sample contains a smaller one');
# two subscriptions of the same accounts, with different collections
query("UPDATE atproto.subscription SET collections = '{app.bsky.feed.post}' WHERE name = 'sample'; DELETE FROM atproto.proof_result WHERE target = 'sample'");
query($simulated->subscribe_sql('sample2', target => "'sample'", collections => "'{app.bsky.feed.like}'"));
query("SELECT atproto.pause('sample2')");
like(($node->psql('postgres', "SELECT atproto.prove('sample')"))[2], qr/collections of subscription "sample2" are not compared for 2000 accounts/, 'P-50: an account has one proof, and prove() names what is left out');
query("UPDATE atproto.subscription SET collections = '{app.bsky.feed.post}' WHERE name = 'sample2'");
unlike(($node->psql('postgres', "SELECT atproto.prove('sample')"))[2], qr/are not compared/, 'P-50: nothing is left out of the same collections');
query("SELECT atproto.unsubscribe('sample2'); UPDATE atproto.subscription SET collections = NULL WHERE name = 'sample'");
query("DELETE FROM atproto.proof_result WHERE target = 'sample'; UPDATE sample.repo SET rev = NULL, history_rev = '3jzfcijpj2z2a' WHERE did::text LIKE '%1.example.org'");
is(query("SELECT atproto.prove('sample')"), 2000, 'H-44: accounts that only an archive has shown are asked for, too');
is(query("SELECT accounts, not_asked FROM atproto.proof WHERE target = 'sample'"), '2000|0', 'H-44: and are counted');
query("UPDATE atproto.proof_result SET equal = true, state = 'done', rev = CASE WHEN did::text LIKE '%11.example.org' THEN '3jzfcijpj2z22' ELSE '3jzfcijpj2z2a' END::atproto.tid WHERE target = 'sample'");
is(query("SELECT proven, earlier FROM atproto.proof WHERE target = 'sample'"), '1980|20', 'H-44: at their present revision, or at an earlier one');

# --- the subscription goes to another target ---

query("CREATE SCHEMA elsewhere; UPDATE atproto.subscription SET target = 'elsewhere' WHERE name = 'sample'; SELECT atproto.create_tables('elsewhere');"
	. " INSERT INTO elsewhere.repo (did, rev, sync) SELECT did, '3jzfcijpj2z2a', 'partial' FROM sample.repo LIMIT 30; SELECT atproto.prove('elsewhere');"
	. " UPDATE atproto.proof_result SET equal = true, state = 'done', rev = '3jzfcijpj2z2a' WHERE target = 'elsewhere'");
is(query("SELECT target, accounts, proven, earlier FROM atproto.proof WHERE subscription = 'sample' ORDER BY target"), "elsewhere|30|30|0\nsample||0|2000",
	'P-52: proofs of the former target are no claim about the present target');
query("SELECT atproto.unsubscribe('sample')");

# --- what the stream may still bring ---

make_target('late', collections => "'$FEED'");
query(q{SELECT atproto.pause('late')});
$simulated->serve(2, $server);
query(q{SELECT atproto.resume('late')});
query(q{SELECT atproto.prove('late')});
wait_for("SELECT count(*) = 0 FROM atproto.proof_result WHERE target = 'late' AND at IS NULL AND error IS NULL");
cmp_ok(query("SELECT count(*) FROM atproto.proof_result WHERE target = 'late' AND state = 'open'"), '>', 0, 'P-51: while the server is ahead, differences are not final');
is(found('late'), '', 'P-51: and none is reported');
$server->release;
wait_for_seq($node, 'late', $last);
query(q{UPDATE atproto.proof_result SET next_try = 'epoch' WHERE target = 'late' AND state = 'open'});
$node->safe_psql('postgres', "CALL atproto.await_proof('late', '60 s')");
is(query("SELECT count(*) FROM atproto.proof_result p JOIN late.repo r USING (did) WHERE p.target = 'late' AND p.state = 'done' AND NOT equal AND r.sync = 'synchronized'"), '0', 'P-51: the stream has brought them');
cmp_ok(query("SELECT proven FROM atproto.proof WHERE target = 'late'"), '>', 0, 'P-52: accounts are proven at their new revision');

# --- a stream before the first event; an archive during the reading ---

# two servers without a stream; the first subscription has an event of the year 2100
query("SELECT atproto.subscribe('ended', 'ws://127.0.0.1:9', cursor => 0, target => 'late'), atproto.subscribe('begins', 'ws://127.0.0.1:9', cursor => 0, target => 'late')");
query(q{SELECT atproto.pause('late')});
query("UPDATE atproto.cursor SET event_time = '2100-01-01' WHERE subscription = 'ended'");
my ($late) = split /\n/, query("SELECT did FROM atproto.proof_result p JOIN late.repo r USING (did) JOIN late.record USING (did) WHERE p.target = 'late' AND equal AND p.rev = r.rev GROUP BY did ORDER BY did");
query("DELETE FROM late.record WHERE did = '$late'; UPDATE late.repo SET rev = '2222222222222', sync = 'partial' WHERE did = '$late'");

# Compares the account again, and returns the state of the proof.
sub compare
{
	query("UPDATE atproto.proof_result SET state = 'queued', next_try = 'epoch', at = NULL, open_since = NULL WHERE target = 'late' AND did = '$late'");
	wait_for("SELECT at IS NOT NULL FROM atproto.proof_result WHERE target = 'late' AND did = '$late'");
	return query("SELECT state, equal FROM atproto.proof_result WHERE target = 'late' AND did = '$late'");
}

is(compare(), 'open|f', 'P-51: a stream without an event has passed nothing');
query(q{SELECT atproto.unsubscribe('begins')});
is(compare(), 'done|f', 'P-51: the last stream has passed the time of the commit');
query("SELECT atproto.subscribe('old', 'ws://127.0.0.1:9/xrpc/network.bsky.jetstream.subscribeEvents', target => 'late', history => 'archive')");
is(compare(), 'open|f', 'P-51: while an archive is read, older records are still to come');
is(query("SELECT next_try < at + interval '1 min' FROM atproto.proof_result WHERE target = 'late' AND did = '$late'"), 't', '... and the account is soon compared again');
query("UPDATE atproto.proof_result SET next_try = 'epoch', at = NULL, open_since = now() - interval '40 min' WHERE target = 'late' AND did = '$late'");
wait_for("SELECT at IS NOT NULL FROM atproto.proof_result WHERE target = 'late' AND did = '$late'");
is(query("SELECT state, next_try > at + interval '30 min' FROM atproto.proof_result WHERE target = 'late' AND did = '$late'"), 'open|t', '... and less often the longer it takes: each time, its server is asked');
like(($node->psql('postgres', "SELECT atproto.prove('late')"))[2], qr/an archive is being read into schema "late"/, '... and prove() says so');
query(q{SELECT atproto.unsubscribe('old'), atproto.unsubscribe('ended')});

# --- an account outside of the changed filter ---

query("UPDATE atproto.subscription SET dids = '{did:web:nobody.example.org}' WHERE name = 'late'");
query("UPDATE atproto.proof_result SET state = 'queued', next_try = 'epoch', at = NULL, open_since = NULL WHERE target = 'late' AND did = '$late'");
wait_for("SELECT error = 'its subscription does not follow the account any more' FROM atproto.proof_result WHERE target = 'late' AND did = '$late'");
pass('P-50: an account that is not followed any more is not compared');
query("UPDATE atproto.subscription SET dids = NULL WHERE name = 'late'");
query("DELETE FROM late.repo WHERE did = '$late'; DELETE FROM atproto.proof_result WHERE did = '$late'");
query(q{SELECT atproto.resume('late')});

# --- a revision that the server does not have; servers that refuse ---

$simulated->serve(1, $server);
prove('late');
cmp_ok(query("SELECT count(*) FROM atproto.proof_result WHERE target = 'late' AND error LIKE 'the tables have revision %, which the account''s server does not have'"), '>', 0,
	'P-51: a server that is behind the tables is a reason, and no difference');
is(found('late'), '', 'P-51: again none is reported');
$network->fault({ host => $host, path => 'sync\\.get', status => 501 });
prove('late');
is(query("SELECT refused = (SELECT count(*) FROM atproto.proof_result r WHERE r.target = proof.target), waiting, reasons::text ~ 'HTTP status 501' FROM atproto.proof WHERE target = 'late'"),
	't|0|t', 'P-52: accounts of a server that refuses are listed with the reason');
query("UPDATE atproto.proof_result SET next_try = 'epoch' WHERE target = 'late'");
wait_for("SELECT min(tries) > 1 FROM atproto.proof_result WHERE target = 'late'");
is(query("SELECT reasons::text ~ 'HTTP status 501' FROM atproto.proof WHERE target = 'late'"), 't', 'P-52: what the server said stays, although it rested at the next try');
is(query("SELECT count(*) > 0 FROM atproto.repo_problem WHERE target = 'late' AND problem = 'proof'"), 't', 'P-52: also in repo_problem');
$network->unfault(undef);
query("SELECT atproto.reset_backoff('$host')");
# a row that got its host before the account's server went away
query(q{DELETE FROM atproto.proof_result WHERE target = 'late' AND ctid <> (SELECT min(ctid) FROM atproto.proof_result WHERE target = 'late'); UPDATE atproto.subscription SET repo_source = 'pds' WHERE name = 'late'});
query("INSERT INTO late.repo (did, rev, sync) VALUES ('did:web:gone.example.org', '3jzfcijpj2z2a', 'partial')");
query("INSERT INTO atproto.identity (did, state, resolved_at) VALUES ('did:web:gone.example.org', 'no_pds', now()) ON CONFLICT DO NOTHING");
query("INSERT INTO atproto.proof_result (target, did, subscription, proved_set, host) SELECT target, 'did:web:gone.example.org', subscription, proved_set, 'gone.example.org' FROM atproto.proof_result WHERE target = 'late' LIMIT 1");
wait_for("SELECT error IS NOT NULL FROM atproto.proof_result WHERE did = 'did:web:gone.example.org'");
like(query("SELECT error FROM atproto.proof_result WHERE did = 'did:web:gone.example.org'"), qr/no server any more|identity is/, 'P-52: an account that has no server any more is refused');
query("DELETE FROM atproto.proof_result WHERE target = 'late'; DELETE FROM late.repo WHERE did = 'did:web:gone.example.org'");

# --- reasons ---

query('CREATE SCHEMA hosts');
query($simulated->subscribe_sql('hosts', target => "'hosts'", collections => "'$FEED'", repo_source => "'pds'"));
query(q{SELECT atproto.pause('hosts')});
my @refused = map { "did:web:a$_.example.org" } 1 .. 20;
$network->documents({ map { $refused[$_] => $network->document($refused[$_], pds => $_ < 12 ? 'first.example.com' : 'second.example.com', key => 'zDnaembgSGUhZULN2Caob4HLJPaxBh92N7rtH21TErzqf8HQo') } 0 .. $#refused });
$network->fault({ host => 'first.example.com', path => 'sync\\.get', status => 403, body => 'a wall' });
$network->fault({ host => 'second.example.com', path => 'sync\\.get', status => 400, headers => { 'Content-Type' => 'application/json' }, body => '{"error":"RepoNotFound","message":"of this account"}' });
query("INSERT INTO hosts.repo (did, rev, sync) SELECT 'did:web:a' || i || '.example.org', '3jzfcijpj2z2a', 'partial' FROM generate_series(1, 20) i");
prove('hosts');
is(query("SELECT refused, (SELECT string_agg(key || ': ' || value, ', ' ORDER BY key) FROM jsonb_each_text(reasons)) FROM atproto.proof WHERE target = 'hosts'"),
	'20|its server answers with HTTP status 403: 12, its server does not have the repository: 8', 'P-52: accounts with the same reason are counted together');
is(query("SELECT count(*) FROM atproto.proof_result WHERE target = 'hosts' AND error LIKE '%https://' || CASE WHEN reason LIKE '%403' THEN 'first' ELSE 'second' END || '.example.com/%did=' || replace(did::text, ':', '%3A') || '%'"),
	20, 'P-52: and each account has its own error');
query(q{SELECT atproto.unsubscribe('hosts')});

# --- repair ---

query(q{UPDATE atproto.subscription SET backfill = 'repair' WHERE name = 'feed'});
query(q{SELECT atproto.resume('feed')});
wait_for_seq($node, 'feed', $last);
$simulated->serve(2, $server);
query(q{SELECT atproto.prove('feed')});
wait_for("SELECT NOT EXISTS (SELECT FROM atproto.proof_result WHERE target = 'feed' AND state = 'queued' AND error IS NULL) AND NOT EXISTS (SELECT FROM atproto.repo_job WHERE target = 'feed')");
query("DELETE FROM feed.record WHERE collection = 'app.bsky.feed.repost'");
prove('feed');
is(found('feed'), '', 'P-50: what differed was fetched again');

# --- who may ask ---

query('CREATE ROLE stranger LOGIN; GRANT USAGE ON SCHEMA atproto, feed TO stranger; GRANT SELECT ON ALL TABLES IN SCHEMA feed TO stranger');
like(($node->psql('postgres', "SET ROLE stranger; SELECT atproto.prove('feed')"))[2], qr/permission denied for function prove/, 'P-50: prove() is not for everybody');
query('GRANT EXECUTE ON FUNCTION atproto.prove(name, double precision, text[]) TO stranger');
like(($node->psql('postgres', "SET ROLE stranger; SELECT atproto.prove('feed')"))[2], qr/must be owner of table repo/, 'P-50: and only for the owner of the tables');
like(($node->psql('postgres', "SELECT atproto.prove('feed', 0)"))[2], qr/"share" must be above 0/, 'P-50: a share of nothing');
like(($node->psql('postgres', "SELECT atproto.prove('feed', 1, '{no collection}')"))[2], qr/is neither a collection nor a pattern/, 'P-50: a wrong collection');

done_testing();
