# 345_lists.pl
#		Lists of repositories (R-60 to R-63): the fetcher reads them from hosts and makes jobs of the right
#		entries; cursors of lists survive a crash; lists without end, refusing hosts and limits do no harm.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Network;
use AtprotoTest::Preload;
use Test::More;

my $network = AtprotoTest::Network->start;
my $preload = AtprotoTest::Preload->make(network => $network);
my $node    = make_node(
	'lists',
	start => $preload,
	conf  => $network->settings . <<'EOF');
atproto.fetch_host_rate = 10000
atproto.fetch_retry = '1h'
max_worker_processes = 20
EOF
my $hosts = 0;
my $rev   = '3jqfcqzm3fo2j';
my $later = '3jqfcqzm3fo3j';

# A subscription whose stream no server sends, with the lists of a separate host.
sub follow
{
	my ($name, $backfill, %o) = @_;
	my $host = 'relay' . ++$hosts . '.example.com';

	$network->hosts({ $host => delete $o{host} }) if $o{host};
	$network->fault({ host => $host, %$_ }) foreach @{ delete $o{faults} // [] };
	query("SELECT atproto.subscribe('$name', 'wss://stream.example.com', backfill => '$backfill',"
		  . " list_source => 'https://$host'" . join('', map { ", $_ => $o{$_}" } sort keys %o) . ')');
	return $host;
}

sub forget
{
	my ($name) = @_;
	query("SELECT atproto.unsubscribe('$name')");
	return;
}

# Waits until all lists of a subscription have ended; returns the counts of each.
sub finished
{
	my ($name, %o) = @_;

	wait_for("SELECT count(*) > 0 AND bool_and(finished_at IS NOT NULL) FROM atproto.enumeration WHERE subscription = '$name'");
	my $queued = $o{queued} // 'queued';
	return query("SELECT source, pages, seen, $queued, skipped, tries, cursor IS NULL, error"
		  . " FROM atproto.enumeration WHERE subscription = '$name' ORDER BY source COLLATE \"C\"");
}

sub jobs
{
	my ($name) = @_;
	return query("SELECT string_agg(did::text, ' ' ORDER BY did::text) FROM atproto.repo_job WHERE subscription = '$name' AND state <> 'suspended'");
}

sub dids
{
	return join ' ', sort map { did($_) } @_;
}

# The requests that a host got, without their limit.
sub asked
{
	my ($host) = @_;
	return [ map { $_->{path} =~ s/^\/xrpc\/com\.atproto\.sync\.//r } $network->log(host => $host, kind => 'http') ];
}

sub entry
{
	my ($letter, %o) = @_;
	return { did => did($letter), head => 'bafy', rev => $rev, active => JSON::PP::true, %o };
}

# --- which arguments are allowed ---

sub refused
{
	my ($sql, $error, $what) = @_;
	my (undef, undef, $err) = $node->psql('postgres', $sql);

	like($err, $error, $what);
	return;
}

refused("SELECT atproto.subscribe('x', 'wss://stream.example.com', backfill => 'collections', collections => '{app.example.*}')",
	qr/"backfill" is "collections", but "app\.example\.\*" is a pattern, not a collection/, 'R-01: no list is of a pattern');
refused("SELECT atproto.subscribe('x', 'wss://stream.example.com', backfill => 'collections')",
	qr/"backfill" is "collections", but the subscription names no collections/, 'R-01: nor of all collections');
refused("SELECT atproto.subscribe('x', 'wss://stream.example.com/xrpc/com.atproto.label.subscribeLabels', backfill => 'network')",
	qr/cannot have "backfill"/, 'no repositories, no list of them');
refused("SELECT atproto.subscribe('x', 'wss://stream.example.com', backfill => 'network', list_source => 'https://a\@b/c')",
	qr/invalid value for "list_source"/, 'a list is at a host');

# --- collections ---

query("INSERT INTO atproto.repo (did, rev, sync, active, proved, proved_rev) VALUES ('" . did('b') . "', '$later', 'synchronized', true, 0, '$later'), ('"
	  . did('c') . "', '$rev', 'partial', true, NULL, NULL), ('" . did('d') . "', '$later', 'partial', false, NULL, NULL)");
my $host = follow(
	'collections', 'collections',
	collections => q('{app.example.one, app.example.two}'),
	host        => {
		page        => 2,
		collections => { 'app.example.one' => [ map { did($_) } 'a' .. 'e' ], 'app.example.two' => [ map { did($_) } 'e', 'f' ] } });
is(finished('collections', queued => '(sum(queued) OVER ())::int'), <<"EOF" =~ s/\n\z//r, 'R-60: two lists, the counts of each');
listReposByCollection app.example.one|3|5|4|0|0|t|
listReposByCollection app.example.two|1|2|4|0|0|t|
EOF
is(jobs('collections'), dids(qw(a c e f)), 'R-61: what is synchronized, or not active, is not fetched; what is in two lists, once');
is(query("SELECT DISTINCT target, kind, priority, reason FROM atproto.repo_job"), 'atproto|repo|3|listed', 'the jobs');
is_deeply(
	[ sort @{ asked($host) } ],
	[
		sort map { "listReposByCollection?limit=2000&collection=app.example.$_" } 'one', 'one&cursor=2', 'one&cursor=4', 'two'
	],
	'the pages that were asked for');
query("UPDATE atproto.subscription SET collections = '{app.example.two}' WHERE name = 'collections'");
wait_for("SELECT array_agg(source) = '{listReposByCollection app.example.two}' FROM atproto.enumeration");
pass('a list that is not wanted any more is forgotten');
forget('collections');
is(query('SELECT count(*) FROM atproto.repo_job'), '0', 'jobs go with their subscription');

# --- the whole network ---

$host = follow(
	'network',
	'network',
	host => {
		list => [
			entry('a'), entry('b'), entry('a', rev => ''), entry('c', active => JSON::PP::false, status => 'takendown'),
			{ did => 'did:plc:' }, { did => did('e') }, entry('d', rev => $rev) ] });
is(finished('network'), 'listRepos|1|6|3|1|0|t|', 'R-61, R-62: what is not a DID, or as it is stored');
is(jobs('network'), dids(qw(a c e)), 'is not fetched; of what is active by the tables, its server is asked');
is(query("SELECT string_agg(did::text, ' ' ORDER BY did::text) FROM atproto.repo_job WHERE state = 'suspended'"), dids('d'), 'R-62: what is not active waits until it is');
forget('network');

# --- accounts inactive at the time of the list ---

my $stream = AtprotoTest::Server->start(make_capture('steps.py', 'k active'), '--hold-at', 1);
$network->hosts({ 'later.example.com' => { list => [ (map { entry($_, active => JSON::PP::false, status => 'takendown') } qw(k l)), entry('m', active => JSON::PP::false, status => 'deleted') ] } });
query(subscribe_sql('later', $stream, cursor => 0, verify => "'hash'", backfill => "'network'", list_source => "'https://later.example.com'"));
is(finished('later'), 'listRepos|1|3|0|0|0|t|', 'R-62: nothing of them is to be fetched now');
is(query('SELECT string_agg(did::text, $$ $$ ORDER BY did::text) FROM atproto.repo_job WHERE state = $$suspended$$'), dids(qw(k l)), 'R-62: but what is not deleted, later');
$stream->release;
wait_for("SELECT state <> 'suspended' FROM atproto.repo_job WHERE did = '" . did('k') . "'");
pass('R-62: an #account says that it is active: it is fetched');
$network->hosts({ 'later.example.com' => { list => [ map { entry($_) } qw(k l) ] } });
query("UPDATE atproto.enumeration SET finished_at = '-infinity' WHERE subscription = 'later'; SELECT atproto_internal.wake()");
wait_for("SELECT state <> 'suspended' FROM atproto.repo_job WHERE did = '" . did('l') . "'");
pass('R-62: so does the next list');
forget('later');
# the server of the account is unknown: the stored rows stay unchanged
$host = follow('newer', 'network', repo_source => q('pds'), host => { list => [ entry('b', rev => '3jqfcqzm3fo4j') ] });
is(finished('newer'), 'listRepos|1|1|1|0|0|t|', 'R-61: one that is newer than what is stored');
forget('newer');

# --- DIDs of the subscription ---

follow('dids', 'repair', dids => "'{" . did('a') . ',' . did('b') . "}'");
is(finished('dids'), 'dids|1|2|1|0|0|t|', 'R-01: those that the subscription names');
is(jobs('dids'), dids('a'), 'but what is synchronized');
forget('dids');

# --- a slice ---

my $in_slice = query("SELECT string_agg(did, ' ' ORDER BY did) FROM unnest('{" . join(',', split / /, dids('a', 'd' .. 'i')) . "}'::text[]) did WHERE did_slice(did::did, 2) = 1");
follow('slice', 'network', slice => q('1/2'), host => { page => 3, list => [ map { entry($_) } 'a', 'd' .. 'i' ] });
is(finished('slice'), 'listRepos|3|7|' . scalar(split / /, $in_slice) . '|0|0|t|', 'of a slice, the whole list is read');
is(jobs('slice'), $in_slice, 'and what is in it is fetched');
my ($other) = grep { index($in_slice, $_) < 0 } split / /, dids('a', 'd' .. 'i');
refused("SELECT atproto.resync('$other')", qr/no subscription keeps records of account "$other"/, 'nothing else is, when somebody asks for it');
forget('slice');
follow('slice', 'repair', slice => q('1/2'), dids => "'{" . join(',', split / /, dids('a', 'd' .. 'i')) . "}'");
is(finished('slice'), 'dids|1|7|' . scalar(split / /, $in_slice) . '|0|0|t|', 'nor of the accounts that the subscription names');
is(jobs('slice'), $in_slice, 'those that are in both');
forget('slice');

# --- a crash between two pages ---

$host = follow(
	'crash', 'network',
	host   => { page => 2, list => [ map { entry($_) } 'a' .. 'h' ] },
	faults => [ { path => 'cursor=4', hold => 'gate', times => 1 } ]);
$network->wait_for_log(1, host => $host, path => qr/cursor=4/);
wait_for("SELECT cursor = '4' FROM atproto.enumeration");
$node->stop('immediate');
$preload->start($node);
is(finished('crash'), 'listRepos|4|8|6|0|0|t|', 'R-60: after a crash, the list goes on where it was');
is_deeply(
	asked($host),
	[ map { "listRepos?limit=1000$_" } '', '&cursor=2', '&cursor=4', '&cursor=4', '&cursor=6' ],
	'with the page that was not written');
$network->release('gate');
forget('crash');

# --- lists without end ---

follow('same', 'network', faults => [ { times => 9, status => 200, body => '{"cursor":"7","repos":[{"did":"' . did('a') . '"}]}' } ]);
is(finished('same'), 'listRepos|2|2|1|0|0|t|the list was given up: the server repeats its cursor', 'R-62: a cursor that comes again');
forget('same');
follow('empty', 'network', faults => [ map { { status => 200, body => qq({"cursor":"7$_","repos":[]}), times => 1 } } 1 .. 4 ]);
is(finished('empty'), 'listRepos|3|0|0|0|0|t|the list was given up: three pages in a row have no entry', 'R-62: pages without entries');
forget('empty');
follow('same accounts', 'network', host => { page => 1, list => [ (entry('a')) x 150 ] });
is(finished('same accounts'),
	'listRepos|101|101|1|0|0|t|the list was given up: 100 pages in a row name no other accounts than those before',
	'R-62: pages without other accounts');
forget('same accounts');

# Names that an account can choose, so that of a public hash function each register has a long run of zeros: then no name
# that follows would be longer.  The others have short runs.
my ($chosen, $others) = split /\n/, query(<<'EOSQL');
WITH name AS (SELECT 'did:web:a' || n || '.example.com' AS did, n FROM generate_series(1, 4000000) n),
	hash AS (SELECT did, n, hashtextextended(did COLLATE "C", 0) AS h FROM name),
	chosen AS (SELECT DISTINCT ON (h & 16383) did FROM hash WHERE h >> 60 & 15 = 0 ORDER BY h & 16383)
SELECT string_agg(did, ' ') FROM chosen UNION ALL
SELECT string_agg(did, ' ') FROM (SELECT did FROM hash WHERE h >> 60 & 15 <> 0 AND n > 3900000 LIMIT 15300) o;
EOSQL
is(scalar(split / /, $chosen), 16384, 'a name for each register');
follow('chosen', 'collections', collections => q('{app.example.one}'), slice => q('0/10000'),
	host => { page => 150, collections => { 'app.example.one' => [ split / /, "$chosen $others" ] } });
like(finished('chosen', queued => 0), qr/^listReposByCollection app.example.one\|212\|31684\|.*\|t\|$/, 'R-62: chosen names do not end a list');
forget('chosen');

# --- failures ---

my $good = { list => [ entry('a') ] };

# Waits until the list has failed once: cursor, tries, error.  While the fetcher takes a page, the row has an error of its own,
# in case the page ends the fetcher.
sub failed
{
	my ($name) = @_;
	wait_for("SELECT count(*) = 1 FROM atproto.enumeration WHERE subscription = '$name' AND error !~ 'keep the fetcher from its work'");
	return query("SELECT cursor, tries, next_try > now() + interval '30 min', finished_at, error FROM atproto.enumeration WHERE subscription = '$name'");
}

follow('broken', 'network', host => $good, faults => [ { status => 500, times => 1 } ]);
like(failed('broken'), qr/^\|1\|t\|\|https:\/\/relay\d+\.example\.com\/\S*: HTTP status 500/, 'R-24: an error of the server');
query("UPDATE atproto.enumeration SET next_try = '-infinity'");
is(finished('broken'), 'listRepos|1|1|1|0|0|t|', 'the next try');
forget('broken');
foreach (
	[ 'HTML',     { status => 200, body => '<html>' },                        qr/the page is not valid: The text is not JSON/ ],
	[ 'too long', { status => 200, body => '{"repos":[]', size => 4_000_001 }, qr/too large|larger|body/i ],
	[ 'cut',      { status => 200, body => '{"repos":[{"did":"' . did('a') . '"}' }, qr/the page is not valid/ ])
{
	my ($name, $fault, $error) = @$_;

	follow($name, 'network', faults => [$fault]);
	my $got = failed($name);
	like($got, qr/^\|1\|t\|\|/, "$name: tried again later");
	like($got, $error, "$name: why");
	is(jobs($name), '', "$name: no job");
	forget($name);
}
follow('busy', 'network', host => $good, faults => [ { status => 429, headers => { 'Retry-After' => '1' }, times => 1 } ]);
is(finished('busy'), 'listRepos|1|1|1|0|0|t|', 'R-21: a host that has too much to do is asked again, and that is no failure');
forget('busy');
follow(
	'cursor', 'network',
	host   => { page => 1, list => [ map { entry($_) } 'a', 'e' ] },
	faults => [ { path => 'cursor=1', status => 400, body => '{"error":"InvalidCursor"}', times => 1 } ]);
like(failed('cursor'), qr/^\|1\|t\|/, 'a cursor that the server has forgotten: from the beginning');
query("UPDATE atproto.enumeration SET next_try = '-infinity'");
is(finished('cursor'), 'listRepos|3|3|2|0|0|t|', 'and to the end');
forget('cursor');
my $asked = () = $network->log;
follow(
	'back', 'network',
	host   => { page => 1, list => [ map { entry($_) } 'a', 'e' ] },
	faults => [ { path => 'cursor=1', hold => 'back', times => 1 } ]);
$network->wait_for_log(1, path => qr/listRepos\S*cursor=1/, since => $asked);
query("UPDATE atproto.enumeration SET cursor = NULL WHERE subscription = 'back'");
$network->release('back');
is(finished('back'), 'listRepos|3|3|2|0|0|t|', 'R-60: a page that comes when somebody has put the list back does not count');
forget('back');

# --- an owner without rights; lists of other owners do not wait ---

query("CREATE ROLE poor; CREATE SCHEMA poor; SELECT atproto.create_tables('poor')");
follow('poor', 'network', host => $good, target => q('poor'));
finished('poor');
query("ALTER ROLE poor SUPERUSER; UPDATE atproto.subscription SET owner = 'poor' WHERE name = 'poor'; ALTER ROLE poor NOSUPERUSER;"
	  . " UPDATE atproto.enumeration SET finished_at = '-infinity' WHERE subscription = 'poor'");
like(failed('poor'), qr/^\|1\|t\|\|role "poor" may not fill schema "poor"/, 'the owner reads his own tables');
follow('rich', 'network', host => $good);
is(finished('rich'), 'listRepos|1|1|1|0|0|t|', 'and the fetcher goes on');
forget('rich');
forget('poor');
is(query("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'atproto fetcher'"), '1', 'one fetcher');

# --- sessions without a commit ---

follow('locked', 'network', host => $good);
finished('locked');
query("SELECT atproto.pause('locked'); UPDATE atproto.enumeration SET finished_at = '-infinity' WHERE subscription = 'locked'");
my $session = $node->background_psql('postgres');
$session->query_safe("BEGIN; SELECT FROM atproto.enumeration WHERE subscription = 'locked' FOR UPDATE");
query("SELECT atproto.resume('locked')");
follow('free', 'network', host => $good);
is(finished('free'), 'listRepos|1|1|0|0|0|t|', 'a list that a session has locked is nobody else\'s');
$session->query_safe('COMMIT');
wait_for("SELECT finished_at > now() - interval '1 h' FROM atproto.enumeration WHERE subscription = 'locked'");
pass('and is read when that has ended');
forget('locked');
follow('removed', 'network', host => $good, faults => [ { hold => 'removed', times => 1 } ]);
$network->wait_for_log(1, host => "relay$hosts.example.com");
$session->query_safe("BEGIN; SELECT FROM atproto.subscription WHERE name = 'removed' FOR UPDATE");
$network->release('removed');
$network->wait_for_log(1, host => "relay$hosts.example.com", end => 'sent');
follow('later', 'network', host => $good, target => q('poor'));
finished('later');
is(query("SELECT tries, error FROM atproto.enumeration WHERE subscription = 'removed'"), '0|', 'who is about to remove a subscription is not waited for');
$session->query_safe("SELECT atproto.unsubscribe('removed'); COMMIT");
forget('later');
query('DELETE FROM atproto.repo_job');
$session->query_safe("BEGIN; INSERT INTO atproto.repo_job (target, did, subscription, priority, reason) VALUES ('atproto', '" . did('a') . "', 'free', 0, 'test')");
follow('asked', 'network', host => $good);
wait_for("SELECT error ~ '^cancel' FROM atproto.enumeration WHERE subscription = 'asked'");
pass('nor is a repository that a session asks for');
$session->query_safe('ROLLBACK');
$session->quit;
query("UPDATE atproto.enumeration SET next_try = '-infinity'");
is(finished('asked'), 'listRepos|1|1|1|0|0|t|', 'which is queued when that has ended');
forget('asked');
forget('free');

# --- limits ---

# Jobs that were never tried, or that have failed.
sub fill
{
	my ($n, $tries) = @_;
	query("INSERT INTO atproto.repo_job (target, did, subscription, priority, reason, tries, next_try)"
		  . " SELECT 'atproto', ('did:web:f' || n || '.example.com')::did, 'filling', 3, 'test', $tries, 'infinity' FROM generate_series(1, $n) n");
	return;
}

# Waits until the fetcher has looked for lists again: an unwanted list is removed then.
sub wait_for_look
{
	query("INSERT INTO atproto.enumeration (subscription, source, started_at) VALUES ('filling', 'listReposByCollection of nobody', now())");
	wait_for("SELECT NOT EXISTS (SELECT FROM atproto.enumeration WHERE source = 'listReposByCollection of nobody')");
	return;
}

follow('filling', 'repair', host => $good);
fill(3, 0);
query('ALTER SYSTEM SET atproto.fetch_queue = 3; SELECT pg_reload_conf()');
follow('full', 'network', host => { page => 2, list => [ map { entry($_) } 'e' .. 'l' ] });
wait_for_look();
is(query("SELECT count(*) FROM atproto.enumeration WHERE subscription = 'full'"), '0', 'R-63: with a long queue, no list is read');
query("UPDATE atproto.repo_job SET tries = 1");
is(finished('full'), 'listRepos|4|8|8|0|0|t|', 'but what has failed keeps none from it');
forget('full');
query("DELETE FROM atproto.repo_job");
fill(30, 1);
follow('very full', 'network', host => { list => [ entry('e') ] });
wait_for_look();
is(query("SELECT count(*) FROM atproto.enumeration WHERE subscription = 'very full'"), '0', 'R-63: unless it is ten times as much');
query('ALTER SYSTEM RESET atproto.fetch_queue; SELECT pg_reload_conf()');
is(finished('very full'), 'listRepos|1|1|1|0|0|t|', 'then it goes on');
forget($_) foreach ('very full', 'filling');

$host = follow('again', 'network', host => $good);
finished('again');
query("ALTER SYSTEM SET atproto.enumerate_interval = '1s'; SELECT pg_reload_conf()");
$network->wait_for_log(3, host => $host);
pass('R-60: a list is read again');
query('SELECT atproto.pause($$again$$)');

query("SELECT atproto.unsubscribe('again'); ALTER SYSTEM RESET atproto.enumerate_interval; SELECT pg_reload_conf()");

# --- repositories that are stored, and newer at the server ---

# those that are synchronized are proved for all collections
query("CREATE SCHEMA stored; SELECT atproto.create_tables('stored'); INSERT INTO stored.repo (did, rev, sync, active, proved, proved_rev) VALUES " . join ', ',
	map { sprintf "('%s', %s, '%s', %s, %s)", did($_->[0]), @$_[ 1 .. 3 ], $_->[2] eq 'synchronized' ? "0, $_->[1]" : 'NULL, NULL' }
	[ 'a', "'$later'", 'synchronized', 'true' ], [ 'b', "'$rev'", 'synchronized', 'true' ], [ 'c', "'$rev'", 'partial', 'true' ],
	[ 'd', "'$rev'", 'partial', 'false' ], [ 'e', "'$rev'", 'synchronized', 'true' ], [ 'f', 'NULL', 'partial', 'true' ],
	[ 'h', "'$rev'", 'synchronized', 'true' ], [ 'i', "'$rev'", 'partial', 'false' ], [ 'k', "'$rev'", 'synchronized', 'true' ], [ 'l', 'NULL', 'partial', 'true' ]);
my $upstream = 'stream.example.com';
my $active   = JSON::PP::true;
$network->repos({ $upstream => {
	did('e') => { active => $active, rev => $later }, did('h') => { active => $active, rev => $rev },
	did('k') => { active => JSON::PP::false, rev => $later, status => 'takendown' } } });
$asked = () = $network->log;
$host = follow('stored', 'repair', target => q('stored'),
	host => { page => 3, list => [ (map { entry($_, rev => $later) } 'a' .. 'd'), (map { entry($_, rev => $later) } 'f', 'g'), map { entry($_, rev => '') } 'e', 'h' .. 'l' ] });
query("SELECT atproto.recheck('stored')");
is(finished('stored'), 'recheck|4|12|2|0|0|t|', 'R-64: the list is read');
wait_for("SELECT count(*) = 3 AND bool_and(why = 'rev' AND answered_at IS NOT NULL) FROM atproto.status_request");
is(query("SELECT string_agg(did::text, ' ' ORDER BY did::text) FROM atproto.status_request"), dids(qw(e h k)), 'R-64: of whom the list has no revision, and who is stored and active, is asked for');
is(scalar(() = $network->log(host => $upstream, path => qr/getRepoStatus/, since => $asked)), 3, 'once, at the server that repositories come from');
is(jobs('stored'), dids(qw(b c e)), 'R-64: what is stored, active, and newer at the server is fetched, and nothing else');
is(query("SELECT count(*) FROM stored.repo WHERE active"), '8', 'what else that server says is not believed');
query("SELECT atproto.recheck('stored')");
wait_for("SELECT finished_at > '-infinity' FROM atproto.enumeration WHERE subscription = 'stored'");
is(scalar(() = $network->log(host => $upstream, path => qr/getRepoStatus/, since => $asked)), 3, 'nor is anybody asked again within ten minutes');
is(query("SELECT DISTINCT priority, reason FROM atproto.repo_job WHERE subscription = 'stored'"), '3|recheck', 'after all others');
query("UPDATE atproto.enumeration SET finished_at = '-infinity'; DELETE FROM atproto.repo_job");
$host = follow('read', 'network', host => $good, target => q('poor'));
finished('read');
is(query("SELECT finished_at FROM atproto.enumeration WHERE subscription = 'stored'"), '-infinity', 'R-64: it is read once');
query("SELECT atproto.recheck('stored')");
wait_for("SELECT finished_at > '-infinity' FROM atproto.enumeration WHERE subscription = 'stored'");
is(finished('stored'), 'recheck|4|12|2|0|0|t|', 'R-64: until somebody asks again');
query('DELETE FROM atproto.repo_job');
is(query("SELECT atproto.resync_all('stored')"), '8', 'resync_all: all that are active');
# the server reports an account as inactive: the job may wait by now
is(query("SELECT string_agg(did::text, ' ' ORDER BY did::text) FROM atproto.repo_job WHERE subscription = 'stored'"), dids(qw(a b c e f h k l)), 'are fetched');

# --- accounts without a known revision are asked about last of all ---

$network->fault({ host => $upstream, path => 'getRepoStatus', hold => 'revs' });
query("ALTER SYSTEM SET atproto.fetch_queue = 3; SELECT pg_reload_conf(); DELETE FROM atproto.status_request; DELETE FROM atproto.repo_job");
query("UPDATE stored.repo SET active = true, rev = '$later' WHERE rev IS NOT NULL; UPDATE stored.repo SET proved_rev = rev WHERE proved IS NOT NULL; SELECT atproto.recheck('stored')");
wait_for("SELECT count(*) >= 3 FROM atproto.status_request");
forget('read');
$host = follow('besides', 'network', host => { list => [ entry('a') ] }, target => q('poor'));
finished('besides');
is(query("SELECT count(*) FILTER (WHERE finished_at IS NULL), (SELECT count(*) FROM atproto.status_request WHERE answered_at IS NULL) FROM atproto.enumeration"), '1|3', 'R-63: while many wait, that list is not read on, others are');
query("INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at) VALUES ('" . did('m') . "', 'good', decode(repeat('e7', 35), 'hex'), 'own.example.com', now(), now());"
	  . " INSERT INTO atproto.status_request (target, did, subscription, why, requested_at) VALUES ('stored', '" . did('m') . "', 'stored', 'inactive', now());"
	  . " INSERT INTO atproto.status_request (target, did, subscription, why, requested_at) SELECT 'stored', ('did:web:w' || n || '.example.com')::did, 'stored', 'rev', now() FROM generate_series(1, 50) n");
$network->repos({ 'own.example.com' => { did('m') => { active => $active } } });
wait_for("SELECT answered_at IS NOT NULL FROM atproto.status_request WHERE did = '" . did('m') . "'");
is(query("SELECT count(*) FROM atproto.status_request WHERE answered_at IS NOT NULL"), '1', 'R-64: others are asked before them');
$network->unfault(undef);
$network->release('revs');
query("ALTER SYSTEM RESET atproto.fetch_queue; SELECT pg_reload_conf(); DELETE FROM atproto.status_request");
wait_for("SELECT finished_at IS NOT NULL FROM atproto.enumeration WHERE subscription = 'stored'");
pass('R-64: then the list is read to its end');
forget('besides');
query("UPDATE atproto.subscription SET backfill = 'none' WHERE name = 'stored'");
refused("SELECT atproto.recheck('stored')", qr/subscription "stored" fetches no repositories/, 'R-01: but where none is');
refused("SELECT atproto.resync_all('stored')", qr/no subscription fetches repositories into schema "stored"/, 'R-01: likewise');

ok(!$node->log_contains(qr/PANIC|terminated by signal|TRAP/), 'no process died');
$node->stop;
$network->stop;
done_testing();
