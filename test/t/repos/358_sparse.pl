# 358_sparse.pl
#		Fetches of some collections of a repository, with proof, by getRecord and getBlocks: few requests give
#		the rows of a fetch of the whole repository.  Hostile servers answer with errors, refuse blocks, cut
#		answers off, or move on between requests; hostile trees have wrong heights, intervals or blocks.
#		P-02 to P-05, P-10 to P-16, P-20 to P-22, P-30, P-61.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clock;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my $files = PostgreSQL::Test::Utils::tempdir('exports');
IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/oracle/sparse.py', @$_ ]) or BAIL_OUT('no exports were made') foreach [$files], [ '--hostile', $files ];
my $network = AtprotoTest::Network->start;
my $node    = make_node(
	'sparse',
	start => AtprotoTest::Preload->make(network => $network),
	conf  => $network->settings . "atproto.fetch_host_rate = 1000\natproto.fetch_retry = '1h'\nmax_worker_processes = 30\n");
my $me     = did('a');
my $recipe = '{exchange.recipe.recipe}';
my $n      = 0;

# A new server for each case, with this export.
sub serve
{
	my ($car, %more) = @_;
	my $host = 'pds' . ++$n . '.example.com';

	$network->repos({ $host => { $me => { car => "$files/$car.car", %more } } });
	return $host;
}

sub fetch_from
{
	my ($host, $target) = @_;

	query("UPDATE atproto.subscription SET repo_source = 'https://$host' WHERE target = '$target'");
	query("DELETE FROM atproto.repo_job; SELECT atproto.resync('$me', '$target')");
	return;
}

# Wait until no job is left.  A failed fetch ends the wait.
sub wait_for_fetch
{
	wait_for("SELECT NOT EXISTS (SELECT FROM atproto.repo_job WHERE NOT (state = 'queued' AND tries > 0))");
	is(query("SELECT error FROM atproto.repo_job"), '', 'the fetch has ended well');
	return;
}

# The requests of a host, in a word each.
sub requests
{
	my ($host) = @_;
	return map { $_->{path} =~ /com\.atproto\.sync\.(\w+)/ ? $1 : () } $network->log(kind => 'http', host => $host);
}

sub asked_cids
{
	my ($host) = @_;
	return map { $_->{path} =~ /getBlocks/ ? $_->{path} =~ /cids=(\w+)/g : () } $network->log(kind => 'http', host => $host);
}

sub count { my ($what, @of) = @_; return scalar grep { $_ eq $what } @of }

my $rows  = "SELECT md5(string_agg(concat_ws(' ', collection, rkey, cid, value), E'\\n' ORDER BY collection, rkey)), count(*) FROM %s.record WHERE collection = 'exchange.recipe.recipe'";
my $state = "SELECT sync, hold IS NULL, rev IS NOT NULL FROM s.repo";

sub make_target
{
	my ($target, $fetch_as) = @_;

	query("CREATE SCHEMA $target; SELECT atproto.create_tables('$target'); SELECT atproto.subscribe('$target', 'ws://quiet.example.com', target => '$target', allow_insecure => true, backfill => 'repair', collections => '$recipe', fetch_as => '$fetch_as')");
	return $target;
}

make_target(@$_) foreach [ s => 'sparse' ], [ w => 'whole' ], [ a => 'auto' ];

# --- rows as after a fetch of the whole ---

sub is_as_whole
{
	my ($car, $name, $host, $target) = @_;

	query("UPDATE w.repo SET rev = NULL");
	fetch_from(serve($car), 'w');
	wait_for_fetch();
	is(query(sprintf $rows, $target), query(sprintf $rows, 'w'), "P-20: $name: the rows are those of the whole");
	is(query("SELECT r.rev = w.rev AND r.data = w.data AND r.commit = w.commit, r.sync, r.hold FROM $target.repo r, w.repo w"), 't|synchronized|', "P-23: $name: so is the state of the repository");
	return;
}

my $host = serve('first');
fetch_from($host, 's');
wait_for_fetch();
is_as_whole('first', 'into an empty table', $host, 's');
my @asked = requests($host);
is(count('getRecord', @asked), 2, 'P-02: a proof at either end');
is(count('getRepo', @asked), 0, 'never the whole');
cmp_ok(scalar @asked, '<=', 12, 'P-03: few requests');
my %first = map { $_ => 1 } split /\n/, query("SELECT cid FROM s.record");
is(query("SELECT count(*) FROM s.record"), '60', 'P-01: nothing of the collections beside it');

$host = serve('second');
fetch_from($host, 's');
wait_for_fetch();
is_as_whole('second', 'a later commit', $host, 's');
is(query("SELECT count(*) FROM s.record WHERE rev = (SELECT rev FROM s.repo)"), '2', 'P-20: only what differs is written');
my %record = map { $_ => 1 } split /\n/, query("SELECT cid FROM s.record");
is(scalar(grep { $record{$_} } asked_cids($host)), 2, 'P-22: only records are asked for whose CID is not in the table');

$host = serve('older');
fetch_from($host, 's');
wait_for("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE tries = 1 AND state = 'queued')");
like(query("SELECT error FROM atproto.repo_job"), qr/older than the repository's revision/, 'P-21: an older commit is refused');
is(query($state), 'desynchronized|t|t', 'and the events are released');
is(scalar(grep { $first{$_} } asked_cids($host)), 0, 'before its records are fetched');

foreach my $case ([ 'none', 'no recipes', 0 ], [ 'empty', 'an empty repository', 0 ], [ 'letters', 'recipes that cannot be stored', 61 ], [ 'small', 'a small repository', 5 ], [ 'most', 'nearly all', 3000 ])
{
	my ($car, $name, $count) = @$case;

	query("UPDATE s.repo SET rev = NULL");
	$host = serve($car);
	fetch_from($host, 's');
	wait_for_fetch();
	is_as_whole($car, $name, $host, 's');
	is(query("SELECT count(*) FROM s.record"), $count, "$name: so many");
	note(join ' ', requests($host));
	is(scalar(requests($host)), 2, 'P-16: that there are none is proven by the proofs of either end') if $car eq 'none';
}

# --- servers without proofs ---

query("UPDATE s.repo SET rev = NULL");
$host = serve('first', old => JSON::PP::true);
fetch_from($host, 's');
wait_for_fetch();
is_as_whole('first', 'a server that answers RecordNotFound', $host, 's');
cmp_ok(count('getLatestCommit', requests($host)), '>=', 1, 'P-02: the commit comes by getLatestCommit and getBlocks');

# --- P-30: the cheaper way ---

sub fetch_auto
{
	my ($host) = @_;

	query("UPDATE a.repo SET rev = NULL");
	fetch_from($host, 'a');
	wait_for_fetch();
	return requests($host);
}

my $until = "SELECT whole_until > now() + interval '23 hours', whole_reason FROM atproto.stat_host WHERE host = '%s'";

# Host, expected mark in atproto.stat_host, name of the check.
my @marks;

foreach my $case ([ 'small', 0 ], [ 'most', 1 ], [ 'half', 1 ], [ 'first', 0 ], [ 'none', 0 ])
{
	my ($car, $whole) = @$case;

	@asked = fetch_auto(serve($car));
	is(count('getRepo', @asked), $whole, "P-30: $car: " . ($whole ? 'the whole is cheaper' : 'parts are cheaper'));
	is(count('getBlocks', @asked), 0, "... and this is known before nodes are fetched") if $whole;
}

foreach my $case ([ 4, 1 ], [ 2000, 0 ])
{
	my ($remaining, $whole) = @$case;

	$host = serve('first');
	$network->fault({ host => $host, headers => { 'RateLimit-Limit' => '3000', 'RateLimit-Remaining' => "$remaining", 'RateLimit-Reset' => '300' } });
	is(count('getRepo', fetch_auto($host)), $whole, "P-60: a host that answers $remaining more requests" . ($whole ? ' is asked for the whole' : ' is asked for parts'));
}

# --- servers that cannot; limits of one account; answers without an end ---

my $json    = { 'Content-Type' => 'application/json' };
my $private = 'private.example.com';
my @servers;
$network->names({ $private => ['10.0.0.1'] });
foreach my $case (
	[ 'getRecord 501', qr/501/, path => 'getRecord', status => 501, headers => $json, body => '{"error":"MethodNotImplemented"}' ],
	[ 'getBlocks 404', qr/404/, path => 'getBlocks', status => 404, body => 'no' ],
	[ 'getRecord 400 for ever', qr/400/, path => 'getRecord', status => 400, headers => $json, body => '{"error":"InvalidRequest"}' ],
	[ 'getRecord 500 for ever', qr/500/, path => 'getRecord', status => 500 ],
	[ 'getRecord RepoNotFound', qr/RepoNotFound|400/, path => 'getRecord', status => 400, headers => $json, body => '{"error":"RepoNotFound"}' ],
	[ 'getBlocks 400 for ever', qr/refuses block \w+ of its latest commit/, path => 'getBlocks', status => 400, headers => $json, body => '{"error":"InvalidRequest"}' ],
	[ 'getBlocks without the blocks', qr/refuses block/, path => 'getBlocks', status => 200, file => "$files/empty.car" ],
	[ 'a wrong block', qr/invalid CAR file at byte \d+/, path => 'getBlocks', xor => 500 ],
	[ 'no CAR file', qr/invalid CAR file/, path => 'getRecord', status => 200, body => '<html>no</html>' ],
	[ 'a bomb', qr/invalid CAR file/, path => 'getRecord', bomb => 100 ],
	[ 'a late 500', qr/500/, path => 'getBlocks', after => 1, status => 500 ],
	[ 'getLatestCommit 500', qr/500/, path => 'getLatestCommit', status => 500, and => { path => 'getBlocks', status => 400 } ],
	[ 'getRecord 413', undef, path => 'getRecord', status => 413, headers => $json, body => '{"error":"PayloadTooLarge"}' ],
	[ 'getBlocks 413', undef, path => 'getBlocks', status => 413 ],
	[ 'a proof of 10 MB', undef, path => 'getRecord', status => 200, file => "$files/fat.car" ],
	[ 'cut off', undef, path => 'getBlocks', truncate => 300 ],
	[ 'reset', undef, path => 'getRecord', reset => 100 ],
	[ 'a redirect to a private address', undef, path => 'getBlocks', redirect => "https://$private/" ])
{
	my ($name, $why, %fault) = @$case;
	my $and = delete $fault{and};
	my $of  = { name => $name, why => $why, host => serve('first'), target => make_target('a' . @servers, 'auto') };

	$network->fault({ host => $of->{host}, %fault });
	$network->fault({ host => $of->{host}, %$and }) if $and;
	query("UPDATE atproto.subscription SET repo_source = 'https://$of->{host}' WHERE target = '$of->{target}'; SELECT atproto.resync('$me', '$of->{target}')");
	push @servers, $of;
}
wait_for_fetch();
foreach my $of (@servers)
{
	my @of = requests($of->{host});

	$of->{before} = @of;
	is(count('getRepo', @of), 1, "P-61: $of->{name}: the whole is tried");
	is(query("SELECT count(*), (SELECT sync FROM $of->{target}.repo) FROM $of->{target}.record"), '60|synchronized', "$of->{name}: the rows are there");
	push @marks, [ $of->{host}, $of->{why} ? qr/^t\|.*$of->{why}/ : qr/^\|$/, "P-61: $of->{name}: " . ($of->{why} ? 'the host is remembered, with the reason' : 'the host is not blamed') ];
	query("SELECT atproto.resync('$me', '$of->{target}')") if $of->{why};
}
wait_for_fetch();
foreach my $of (grep { $_->{why} } @servers)
{
	my @of = requests($of->{host});
	is(join(' ', @of[ $of->{before} .. $#of ]), 'getRepo', "P-30: $of->{name}: and asked for the whole only");
}

# --- proofs by the whole ---

sub prove
{
	my (@targets) = @_;

	query(join '; ', map { "SELECT atproto.prove('$_')" } @targets);
	$node->safe_psql('postgres', "SET client_min_messages = error; CALL atproto.await_proof('$_', '60 s')") foreach @targets;
	return;
}

my $proof = "SELECT state, equal, missing, extra, other, reason FROM atproto.proof_result WHERE target = '%s'";

query("SELECT atproto.reset_backoff('$_->{host}')") foreach @servers;
wait_for('SELECT NOT bool_or(reset_backoff) FROM atproto.host');
$_->{before} = requests($_->{host}) foreach @servers;
query("DELETE FROM $servers[0]{target}.record WHERE rkey = (SELECT min(rkey) FROM $servers[0]{target}.record)");
prove(map { $_->{target} } @servers);
# what differs is fetched again
wait_for_fetch();
foreach my $of (@servers)
{
	my @of = requests($of->{host});

	@of = @of[ $of->{before} .. $#of ];
	is(query(sprintf $proof, $of->{target}), $of == $servers[0] ? 'done|f|1|0|0|' : 'done|t|0|0|0|', "P-50: $of->{name}: a proof by the whole");
	is(count('getRepo', @of) . ' ' . (@of > 1), $of == $servers[0] ? '2 1' : '1 1', "P-61: $of->{name}: after the parts, the whole is tried once");
}
query("UPDATE atproto.subscription SET fetch_as = 'sparse' WHERE target = '$servers[1]{target}'");
prove($servers[1]{target});
is(query(sprintf $proof, $servers[1]{target}), 'queued|t|0|0|0|its server answers with HTTP status 404', 'P-32: sparse forces, for proofs, too');
query("UPDATE atproto.subscription SET fetch_as = 'auto' WHERE target = '$servers[1]{target}'");

# --- neither parts nor the whole ---

sub fails_at
{
	my ($host, $target) = @_;

	query("UPDATE $target.repo SET rev = NULL");
	fetch_from($host, $target);
	wait_for("SELECT EXISTS (SELECT FROM atproto.repo_job WHERE state = 'queued' AND error IS NOT NULL)");
	is(query("SELECT count(*) FILTER (WHERE hold IS NOT NULL OR sync = 'resyncing') FROM $target.repo"), '0', 'nothing waits for it');
	return query("SELECT error FROM atproto.repo_problem WHERE did = '$me'");
}

$host = serve('first');
$network->fault({ host => $host, path => 'getRecord', status => 500 });
$network->fault({ host => $host, path => 'getRepo\b', status => 502 });
like(fails_at($host, 'a'), qr/502.*; of its collections alone: .*500/, 'P-61: both reasons are visible');
is(query("SELECT whole FROM atproto.repo_job"), 't', 'P-61: and only the whole is tried again');
push @marks, [ $host, qr/^\|$/, 'the host is not remembered: the whole is not good' ];

$host = serve('first');
$network->fault({ host => $host, path => 'getRecord', status => 429, times => 1 });
like(fails_at($host, 'a'), qr/429/, 'R-21: 429 at once: later');
is(query("SELECT whole, tries, put_off FROM atproto.repo_job"), 'f|0|1', 'and then parts again');
$network->fault({ host => $host, path => 'getRecord', status => 429, times => 1 });
query("SELECT atproto.reset_backoff('$host'); UPDATE atproto.repo_job SET put_off = 5, next_try = 'epoch'");
wait_for("SELECT put_off = 6 FROM atproto.repo_job");
is(query("SELECT next_try > now() + interval '40 s' FROM atproto.repo_job"), 't', 'R-24: a job that is put off again and again waits longer each time');

$host = serve('first');
$network->fault({ host => $host, path => 'getBlocks', status => 503, times => 1 });
like(fails_at($host, 'a'), qr/503/, 'R-21: a late 503: later');
is(query("SELECT whole, tries FROM atproto.repo_job"), 't|0', 'and then the whole, which is one request');

$host = serve('first');
$network->fault({ host => $host, path => 'getBlocks', status => 501 });
my $kept = query(sprintf $rows, 's');
like(fails_at($host, 's'), qr/501/, 'P-32: sparse forces: a server that cannot is told of');
is(count('getRepo', requests($host)), 0, 'and not asked for the whole');
is(query(sprintf $rows, 's'), $kept, 'P-15: nothing is applied from a part');

# --- a repository moves on between requests ---

query("UPDATE s.repo SET rev = NULL");
$host = serve('first', every => 2, moves => [ map { "$files/move$_.car" } 0 .. 1 ]);
fetch_from($host, 's');
wait_for_fetch();
is_as_whole('move1', 'P-04: a repository that moves on twice', $host, 's');
is(count('getRepo', requests($host)), 0, 'P-04: with the blocks that are there');
note(join ' ', requests($host));

query("UPDATE a.repo SET rev = NULL");
$host = serve('first', every => 1, moves => [ map { "$files/move$_.car" } (0 .. 7) x 5 ]);
is(count('getRepo', fetch_auto($host)), 1, 'P-05: one that moves on too often is fetched as a whole');
is(query("SELECT sync FROM a.repo"), 'synchronized', 'and is synchronized');
push @marks, [ $host, qr/^\|$/, 'P-05: its host is not blamed' ];

# --- wrong trees ---

my @trees;
foreach my $case (
	[ shifted    => qr/after path|invalid repository/ ],
	[ heights    => qr/invalid repository/ ],
	[ descending => qr/invalid repository/ ],
	[ twice      => qr/invalid repository/ ],
	[ keyless    => qr/invalid repository/ ],
	[ garbage    => qr/invalid repository/ ],
	[ nowhere    => qr/refuses block/ ],
	[ codec      => qr/CID of a record|invalid repository/ ],
	[ other      => qr/of another account/ ],
	[ ahead      => qr/in the future/ ])
{
	my ($car, $why) = @$case;
	my $of = { name => $car, why => $why, host => serve($car), target => make_target("t_$car", 'sparse') };

	query("UPDATE atproto.subscription SET repo_source = 'https://$of->{host}' WHERE target = '$of->{target}'; SELECT atproto.resync('$me', '$of->{target}')");
	push @trees, $of;
}
wait_for("SELECT count(*) = @{[ scalar @trees ]} FROM atproto.repo_job WHERE target::text LIKE 't\\_%' AND state = 'queued' AND error IS NOT NULL");
foreach my $of (@trees)
{
	like(query("SELECT error FROM atproto.repo_problem WHERE target = '$of->{target}'"), $of->{why}, "P-12: $of->{name}: it is told");
	is(query("SELECT (SELECT count(*) FROM $of->{target}.record), sync, hold FROM $of->{target}.repo"), '0|partial|', "P-15: $of->{name}: nothing is taken, and nothing waits");
	cmp_ok(scalar requests($of->{host}), '<', 40, "P-14: $of->{name}: requests are bounded");
	push @marks, [ $of->{host}, qr/^\|$/, "$of->{name}: the host is not blamed" ];
}
query('DELETE FROM atproto.repo_job');
query("UPDATE $_->{target}.repo SET rev = '2222222222222', sync = 'partial'; UPDATE atproto.subscription SET fetch_as = 'auto' WHERE target = '$_->{target}'") foreach @trees;
# only the nodes are compared
my @wrong = grep { $_->{name} !~ /nowhere|codec/ } @trees;
prove(map { $_->{target} } @wrong);
foreach my $of (@wrong)
{
	like(query(sprintf $proof, $of->{target}), qr/^queued\|\|\|\|\|(its repository is not valid|its server's answers are wrong, or lack blocks)$/, "P-12: $of->{name}: nothing is proven");
	like(query("SELECT error FROM atproto.proof_result WHERE target = '$of->{target}'"), qr/; of its collections alone: .*$of->{why}/, 'with both errors');
}
query("UPDATE s.repo SET rev = NULL");
fetch_from(serve('right'), 's');
wait_for_fetch();
is(query('SELECT count(*) FROM s.record'), '1', 'a right tree beside them');

# --- an account that goes on during a long comparison ---

# The rows are read slowly, because of a policy: so slices of the comparison end between two looks at the clock.
make_target('slices', 'auto');
query("SELECT atproto.pause('slices'); SELECT atproto.load_car('$me', pg_read_binary_file('$files/half.car'), 'slices')");
query("CREATE ROLE slow LOGIN; GRANT USAGE ON SCHEMA slices TO slow; GRANT ALL ON ALL TABLES IN SCHEMA slices TO slow; SELECT atproto.grant_to('slow', 'slices', 'subscribe');
	ALTER TABLE slices.record ENABLE ROW LEVEL SECURITY; CREATE POLICY slow ON slices.record USING (pg_sleep(0.001) IS NOT NULL);
	UPDATE atproto.subscription SET owner = 'slow', repo_source = 'https://@{[ serve('half') ]}' WHERE name = 'slices'");
query("UPDATE slices.repo SET sync = 'partial', rev = '2222222222222'");
prove('slices');
is(query(sprintf $proof, 'slices'), 'done|t|0|0|0|', 'P-51: rows are compared in several slices');
my @letters = (2 .. 7, 'a' .. 'z');
my $commits = 0;
sub interrupt
{
	my ($until, $what) = @_;

	wait_until(
	sub {
		query("UPDATE slices.repo SET rev = '2222222222" . join('', @letters[ int(++$commits / 1024), int($commits / 32) % 32, $commits % 32 ]) . "'");
		return query("SELECT state = 'queued' AND $until FROM atproto.proof_result WHERE target = 'slices'") eq 't';
	},
	$what);
	return;
}
query("SELECT atproto.prove('slices')");
interrupt("error IS NULL AND put_off = 1 AND next_try > now() + interval '4 s'", 'P-51: a comparison that an account interrupts again and again to be put off');
query("UPDATE atproto.proof_result SET next_try = 'epoch', put_off = 6 WHERE target = 'slices'");
interrupt("error IS NOT NULL AND next_try > now() + interval '4 min'", 'P-51: such an account to be listed in the end');
is(query(sprintf $proof, 'slices'), 'queued|t|0|0|0|the account goes on while its rows are compared', 'P-52: with the reason');
query("UPDATE atproto.proof_result SET next_try = 'epoch', error = NULL, reason = NULL WHERE target = 'slices'");
$node->safe_psql('postgres', "CALL atproto.await_proof('slices', '60 s')");
is(query(sprintf $proof, 'slices'), 'done|t|0|0|0|', 'P-51: and then the rows are compared');
query("SELECT atproto.unsubscribe('slices'); DROP SCHEMA slices CASCADE");

# --- slow servers while no place is free ---

my $clock = AtprotoTest::Clock->new($node);
query($_) foreach "ALTER SYSTEM SET atproto.fetch_memory = '1MB'", 'SELECT pg_reload_conf()';
wait_for("SELECT setting = '1024' FROM pg_settings WHERE name = 'atproto.fetch_memory'");
my ($slow, $good) = (serve('first'), serve('first'));
$network->fault({ host => $slow, path => 'getBlocks', rate => 1200 });
query("UPDATE s.repo SET rev = NULL; UPDATE w.repo SET rev = NULL; DELETE FROM s.record");
fetch_from($slow, 's');
wait_until(sub { count('getBlocks', requests($slow)) > 0 }, 'the slow answer');
query("UPDATE atproto.subscription SET repo_source = 'https://$good' WHERE target = 'w'; SELECT atproto.resync('$me', 'w')");

# Five minutes pass whenever the slow fetch has the place for which the other fetch waits, until this is so; the slow fetch may
# be tried again before the other one begins.
sub pass_until
{
	my ($sql, $what) = @_;

	wait_until(
		sub {
			return 1 if query("SELECT $sql") eq 't';
			$clock->advance(301) if query("SELECT bool_or(target = 's' AND state = 'running') AND bool_or(target = 'w' AND state = 'queued') FROM atproto.repo_job") eq 't';
			return 0;
		},
		$what);
	return;
}

pass_until("EXISTS (SELECT FROM atproto.repo_job WHERE target = 's' AND error ~ 'too slowly, while others waited for a place')", 'the slow fetch to be given up');
pass_until("NOT EXISTS (SELECT FROM atproto.repo_job WHERE target = 'w')", 'the other fetch');
is(query("SELECT sync FROM w.repo"), 'synchronized', 'a slow server does not keep the places of others');
fetch_from($good, 's');
wait_for_fetch();

# --- prove(): slow servers do not keep the places of others ---

my $revision = '3jzfcijpj2z2a';
make_target('p', 'sparse');
query("UPDATE atproto.subscription SET repo_source = 'pds' WHERE target = 'p'");

# Accounts of a slow server, which are due before all others.
sub add_slow
{
	my ($name) = @_;
	my $host = "$name.example.com";

	$network->fault({ host => $host, path => 'getRecord', status => 200, file => "$files/first.car", rate => 1200 });
	query("INSERT INTO p.repo (did, rev, sync) SELECT 'did:web:$name' || i || '.example.org', '$revision', 'partial' FROM generate_series(1, 70) i");
	query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at) SELECT did, 'good', decode(repeat('02', 35), 'hex'), '$host', now() FROM p.repo WHERE did::text LIKE 'did:web:$name%'");
	return $host;
}

# Ask for proofs; my account comes last.
sub ask_for_proofs
{
	query("BEGIN; DELETE FROM atproto.proof_result; SELECT atproto.prove('p'); UPDATE atproto.proof_result SET next_try = CASE WHEN did = '$me' THEN now() ELSE 'epoch' END; COMMIT");
	return;
}

my $proven = "EXISTS (SELECT FROM atproto.proof_result WHERE did = '$me' AND state <> 'queued')";
my @slow   = map { add_slow("slow$_") } 1 .. 2;
query("INSERT INTO p.repo (did, rev, sync) VALUES ('$me', '$revision', 'partial')");
query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at) VALUES ('$me', 'good', decode(repeat('02', 35), 'hex'), '" . serve('first') . "', now()) ON CONFLICT (did) DO UPDATE SET state = 'good', pds = EXCLUDED.pds, resolved_at = now()");
ask_for_proofs();
wait_for("SELECT $proven");
ok(1, 'P-50: the accounts of two busy servers do not hide those of others');
is(query("SELECT count(*) FROM atproto.proof_result WHERE did <> '$me' AND (error IS NOT NULL OR state <> 'queued')"), '0', '... which are still read');

add_slow('slow3');
ask_for_proofs();
# Two minutes pass whenever more accounts have given up their places.  Two minutes also pass after some seconds in vain: time that passes
# before the fetcher asks for the next accounts counts for no account.
my ($waited, $since) = (-1, 0);
wait_until(
	sub {
		return 1 if query("SELECT $proven") eq 't';
		my $wait = query("SELECT count(*) FROM atproto.proof_result WHERE next_try > 'epoch'");
		return 0 if $wait == $waited && time - $since < 5;
		$clock->advance(121);
		($waited, $since) = ($wait, time);
		return 0;
	},
	'a proof beside slow servers');
is(query("SELECT $proven"), 't', 'P-50: a proof beside slow servers');
is(query("SELECT count(*) > 0 FROM atproto.proof_result WHERE error LIKE '%came too slowly, while others waited for a place%'"), 't', '... which have given up their places');
query("SELECT atproto.unsubscribe('p')");

# --- remembered hosts ---

foreach my $mark (@marks)
{
	my ($of, $expected, $name) = @$mark;
	wait_for("SELECT requests > 0 FROM atproto.host WHERE host = '$of'");
	like(query(sprintf $until, $of), $expected, $name);
}
$host = $marks[0][0];
query("SELECT atproto.reset_backoff('$host')");
is(query("SELECT whole_until IS NULL FROM atproto.stat_host WHERE host = '$host'"), 't', 'until somebody asks');

$node->stop;
done_testing();
