# 240_dead_letters.pl
#		What the database refuses: a failing trigger condemns its record and
#		nothing else; letters can be tried again; they are limited; and what would
#		condemn every record (a missing table, a missing privilege) condemns none,
#		but waits until it is put right.  B-29, E-43.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $last = 1600;
my $node = make_node('dead_letters', conf => 'atproto.reconnect_delay = 100ms');
my $server = AtprotoTest::Server->start($pds);

sub query
{
	my ($sql) = @_;
	return $node->safe_psql('postgres', $sql);
}

# From an empty database through the whole capture.
sub stream
{
	my (%args) = @_;
	query('DELETE FROM atproto.subscription; TRUNCATE atproto.record, atproto.repo');
	query(subscribe_sql('s', $server, cursor => 0, %args));
	wait_for_seq($node, 's', $last);
	return;
}

# A trigger that fails where a condition holds.
sub fail_on
{
	my ($when, $table, $events, $condition) = @_;
	query(<<"SQL");
CREATE OR REPLACE FUNCTION public.fail() RETURNS trigger LANGUAGE plpgsql AS \$\$
BEGIN
	RAISE EXCEPTION 'not this one' USING ERRCODE = 'ZZ001';
END \$\$;
CREATE $when $events ON $table FOR EACH ROW WHEN ($condition) EXECUTE FUNCTION public.fail();
SQL
	return;
}

query("SELECT atproto.create_tables('atproto')");

# --- a trigger that fails on some records ---

my $condition = "new.collection = 'app.bsky.feed.post' AND substr(new.rkey::text, 11, 1) BETWEEN 'a' AND 'e'";
fail_on('TRIGGER fail AFTER', 'atproto.record', 'INSERT OR UPDATE', $condition);
stream();
my @letters = split /\n/, query('SELECT path, seq, stage, sqlstate, message, attempts FROM atproto.dead_letter ORDER BY seq, path');

# One that is removed later, alone or with its repository, needs no letter any more.
my %hit;
my ($events) = oracle('', 'event', $pds);
my ($gone)   = oracle('', 'repo',  $pds);
my %gone = map { /^(\S+)/ => 1 } grep { /\tdeleted\t/ } split /\n/, $gone;
foreach (sort { $a->[0] <=> $b->[0] } map { [ split /\t/ ] } split /\n/, $events)
{
	my ($seq, $action, $did, $collection, $rkey) = @$_;
	my $path = "$collection/$rkey";

	next unless $path =~ m{^app\.bsky\.feed\.post/.{10}[a-e]} && !$gone{$did};
	if ($action eq 'delete') { delete $hit{"$did/$path"} }
	else                     { push @{ $hit{"$did/$path"} }, "$path|$seq|apply|ZZ001|not this one|1" }
}
my @hit = map { @$_ } values %hit;
cmp_ok(scalar @hit, '>', 20, 'there are such records');
cmp_ok(scalar @hit, '<', 600, 'and others');
is_deeply([ sort @letters ], [ sort @hit ], 'each is a dead letter, no other is');
tables_match($node, $pds, 'F-14: every repository is at its last commit', modes => ['repo']);
is(query('SELECT count(*) FROM atproto.record new WHERE ' . $condition), '0', 'none of them is stored');
is(query('SELECT p.events, stopped, drops FROM atproto.stat_subscription p JOIN atproto.subscription USING (name)'),
	"$last||{}", 'the stream went on');

# Tried again too early: it stays, and is counted.
my $id = query('SELECT min(id) FROM atproto.dead_letter');
is(query("SELECT atproto.retry($id)"), 'not this one', 'tried again too early, it fails again');
is(query("SELECT attempts, message, last_at > first_at FROM atproto.dead_letter WHERE id = $id"), '2|not this one|t', 'that is counted');

# With the trigger gone, in the order of the stream: what the oracle says is there,
# and what was changed or removed since does not come back.
query('DROP TRIGGER fail ON atproto.record');
my %results;
$results{$_}++ foreach split /\n/, query('SELECT atproto.retry(id) FROM (SELECT id FROM atproto.dead_letter ORDER BY seq DESC, id) d');
is_deeply([ sort keys %results ], [ 'applied', 'obsolete' ], 'now they are applied, or obsolete');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'and no letters any more');
tables_match($node, $pds, 'the table is what it would have been', modes => [ 'record', 'repo' ]);
my ($rc, $out, $err) = $node->psql('postgres', "SELECT atproto.retry($id)");
like($err, qr/dead letter $id does not exist/, 'a letter that is gone is no more');

# --- triggers on other tables, and at the end of the transaction ---

fail_on('TRIGGER fail BEFORE', 'atproto.repo', 'INSERT', "right(new.did::text, 1) = 'b'");
stream();
my ($repos) = oracle('', 'repo', $pds);
my @never = grep { /^\S+b\t/ } split /\n/, $repos;
cmp_ok(scalar @never, '>', 0, 'there are such repositories');
is(query('SELECT count(*) FROM atproto.repo'), scalar(() = $repos =~ /\n/g) - @never, 'a repository that is refused is the only one');
is(query("SELECT count(*) FROM atproto.record WHERE right(did::text, 1) = 'b'"), '0', 'it has no records');
is(query('SELECT DISTINCT stage, sqlstate, path FROM atproto.dead_letter'), 'apply|ZZ001|', 'its events are dead letters');
query('DROP TRIGGER fail ON atproto.repo');
# in the order of the stream; "obsolete" is what the stream ignores as well (F-03)
query('SELECT atproto.retry(id) FROM (SELECT id FROM atproto.dead_letter ORDER BY seq) d');
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'they are applied later');
tables_match($node, $pds, 'the tables are what they would have been', modes => [ 'record', 'repo' ]);

fail_on('CONSTRAINT TRIGGER fail AFTER', 'atproto.record', "INSERT OR UPDATE", $condition);
query('DROP TRIGGER fail ON atproto.record');
query("CREATE CONSTRAINT TRIGGER fail AFTER INSERT OR UPDATE ON atproto.record DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ($condition) EXECUTE FUNCTION public.fail()");
stream();
@letters = split /\n/, query('SELECT path, seq, stage, sqlstate, message, attempts FROM atproto.dead_letter ORDER BY seq, path');
is_deeply([ sort @letters ], [ sort @hit ], 'a deferred constraint condemns the same records');
query('DROP TRIGGER fail ON atproto.record');

# --- limits ---

# 20 records that are written once, and stay.
my @few = (grep { @{ $hit{$_} } == 1 } sort keys %hit)[ 0 .. 19 ];
fail_on('TRIGGER fail AFTER', 'atproto.record', 'INSERT OR UPDATE',
	"new.did::text || '/' || new.collection::text || '/' || new.rkey::text IN ('" . join("', '", @few) . "')");
query("SELECT atproto.pause('s'); DELETE FROM atproto.dead_letter; TRUNCATE atproto.record, atproto.repo;
	UPDATE atproto.subscription SET max_dead_letters = 7; SELECT atproto.set_cursor('s', 0); SELECT atproto.resume('s')");
$node->poll_query_until('postgres', "SELECT events = 2 * $last FROM atproto.cursor");
is(query('SELECT count(*), (SELECT refused_letters FROM atproto.stat_subscription) FROM atproto.dead_letter'),
	'7|13', 'no more letters than max_dead_letters; the others are counted');
tables_match($node, $pds, 'the stream goes on', modes => ['repo']);

# With room for one more: those that are there count as themselves.
query("SELECT atproto.pause('s'); TRUNCATE atproto.record, atproto.repo;
	UPDATE atproto.subscription SET max_dead_letters = 8; SELECT atproto.set_cursor('s', 0); SELECT atproto.resume('s')");
$node->poll_query_until('postgres', "SELECT events = 3 * $last FROM atproto.cursor");
is(query('SELECT count(*), sum(attempts), (SELECT refused_letters FROM atproto.cursor) FROM atproto.dead_letter'),
	'8|15|25', 'a replay counts attempts, and adds what there is room for');

my $bytes = query('SELECT sum(octet_length(bytes)) FROM (SELECT bytes FROM atproto.dead_letter ORDER BY seq LIMIT 4) d');
query("SELECT atproto.pause('s'); DELETE FROM atproto.dead_letter; TRUNCATE atproto.record, atproto.repo;
	UPDATE atproto.subscription SET max_dead_letters = 10000, max_dead_letter_bytes = $bytes;
	SELECT atproto.set_cursor('s', 0); SELECT atproto.resume('s')");
$node->poll_query_until('postgres', "SELECT events = 4 * $last FROM atproto.cursor");
is(query("SELECT sum(octet_length(bytes)) <= $bytes, count(*) BETWEEN 4 AND 19, count(*) + (SELECT refused_letters FROM atproto.cursor) FROM atproto.dead_letter"),
	't|t|45', 'nor more bytes than max_dead_letter_bytes');
query('DROP TRIGGER fail ON atproto.record');

# --- a record that is invalid stays invalid ---

my $odd = make_capture('synth.py', 'odd');
my $n   = () = read_capture($odd);
my $odd_server = AtprotoTest::Server->start($odd);
query('DELETE FROM atproto.subscription; TRUNCATE atproto.record, atproto.repo');
query(subscribe_sql('odd', $odd_server, cursor => 0));
wait_for_seq($node, 'odd', $n);
my $before = query('SELECT id, stage, message FROM atproto.dead_letter ORDER BY id');
is(query('SELECT count(*) > 20, count(*) FILTER (WHERE atproto.retry(id) = message) = count(*) FROM atproto.dead_letter'), 't|t',
	'an invalid record or commit is refused again, for the same reason');
is(query('SELECT DISTINCT attempts FROM atproto.dead_letter'), '2', 'and stays');
is(query('SELECT id, stage, message FROM atproto.dead_letter ORDER BY id'), $before, 'as it was');
tables_match($node, $odd, 'nothing else changes', modes => [ 'record', 'repo' ]);

# --- keys that no index holds, in the tables or here ---

my $paths = make_capture('streams.py', 'paths');
my $paths_server = AtprotoTest::Server->start($paths, '--hold-at', 4);
query('DELETE FROM atproto.subscription; TRUNCATE atproto.record, atproto.repo');
query(subscribe_sql('paths', $paths_server, cursor => 0));
wait_for_seq($node, 'paths', 3);
is(query('SELECT stage, sqlstate, length(did::text), length(path) FROM atproto.dead_letter'), 'apply|54000|2012|762',
	'a record whose key is too long for the index is a dead letter');
is(query('SELECT string_agg(rkey::text, $$,$$ ORDER BY rkey) FROM atproto.record'), '1,2', 'those beside it are stored');
$paths_server->release;
wait_for_seq($node, 'paths', 4);
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'with its deletion the letter goes');

# --- what would condemn everything ---

sub condemns_nothing
{
	my ($name, $break, $mend, $message) = @_;

	query('DELETE FROM atproto.subscription; TRUNCATE atproto.record, atproto.repo');
	$server->restart('--hold-at', 700);
	query(subscribe_sql('s', $server, cursor => 0));
	wait_for_seq($node, 's', 699);
	my $log = -s $node->logfile;
	query($break);
	$server->release;
	$node->wait_for_log($message, $log);
	is(query('SELECT (SELECT seq FROM atproto.cursor), count(*) FROM atproto.dead_letter'), '699|0', "$name: waits, condemns nothing");
	query($mend);
	query("SELECT atproto.resume('s')");    # a changed row is a fresh start
	wait_for_seq($node, 's', $last);
	is(query('SELECT events, (SELECT count(*) FROM atproto.dead_letter) FROM atproto.cursor'), "$last|0", "$name: put right, it goes on");
	tables_match($node, $pds, "$name: nothing is lost", modes => [ 'record', 'repo' ]);
	return;
}

condemns_nothing('missing table', 'ALTER TABLE atproto.record RENAME TO elsewhere', 'ALTER TABLE atproto.elsewhere RENAME TO record',
	qr/ERROR:  (relation "atproto.record" does not exist|schema "atproto" has no table "record")/);
condemns_nothing('missing column', 'ALTER TABLE atproto.repo RENAME status TO state', 'ALTER TABLE atproto.repo RENAME state TO status',
	qr/ERROR:  column "status" .*does not exist/);
condemns_nothing('missing key', 'ALTER TABLE atproto.record DROP CONSTRAINT record_pkey',
	'ALTER TABLE atproto.record ADD PRIMARY KEY (did, collection, rkey)', qr/ERROR:  there is no unique or exclusion constraint/);

# The consumer has no more rights than its owner.
query('CREATE ROLE keeper LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA atproto TO keeper; GRANT ALL ON ALL FUNCTIONS IN SCHEMA atproto TO keeper');
my $subscribe = \&AtprotoTest::subscribe_sql;
{
	no warnings 'redefine';
	local *main::subscribe_sql = sub { 'SET ROLE keeper;' . $subscribe->(@_) };
	condemns_nothing('missing privilege', 'REVOKE INSERT ON atproto.record FROM keeper', 'GRANT INSERT ON atproto.record TO keeper',
		qr/ERROR:  permission denied for table record/);
}

$node->stop;
done_testing();
