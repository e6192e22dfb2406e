# 240_dead_letters.pl
#		A failing trigger makes its record a dead letter and nothing else, and retry() applies the letter
#		later.  When the dead letters have no more room, and when the schema is at fault (a missing table, a
#		missing privilege), the subscription stops and condemns no event.  B-29, E-43.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my $pds  = capture('pds.frames.gz');
my $node = make_node('dead_letters', conf => 'atproto.reconnect_delay = 100ms');
my $server = AtprotoTest::Server->start($pds);

# From an empty database through the whole capture.
sub stream
{
	my (%args) = @_;
	start_over();
	query(subscribe_sql('s', $server, cursor => 0, %args));
	wait_for_seq($node, 's', $PDS_LAST);
	return;
}

# A trigger with failures under a condition.
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

# --- a trigger with failures on some records ---

my $condition = "new.collection = 'app.bsky.feed.post' AND substr(new.rkey::text, 11, 1) BETWEEN 'a' AND 'e'";
fail_on('TRIGGER fail AFTER', 'atproto.record', 'INSERT OR UPDATE', $condition);
stream();
my @letters = split /\n/, query('SELECT path, seq, stage, sqlstate, message, attempts FROM atproto.dead_letter ORDER BY seq, path');

# A record that is removed later, alone or with its repository, needs no letter any more.
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
	"$PDS_LAST||{}", 'the stream went on');

# Retried while the trigger still fails: the letter stays, and the attempt is counted.
my $id = query('SELECT min(id) FROM atproto.dead_letter');
is(query("SELECT atproto.retry($id)"), 'not this one', 'tried again too early, it fails again');
is(query("SELECT attempts, message, last_at > first_at FROM atproto.dead_letter WHERE id = $id"), '2|not this one|t', 'that is counted');

# Without the trigger, in the order of the stream: the records are those of the oracle, and records that were
# changed or removed since do not come back.
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
is(query("SELECT stage, sqlstate, string_agg(DISTINCT path, ',' ORDER BY path) FROM atproto.dead_letter GROUP BY 1, 2"), 'apply|ZZ001|,#account,#identity',
	'its events are dead letters');
query('DROP TRIGGER fail ON atproto.repo');
# in the order of the stream; a letter is "obsolete" where the stream ignores the event as well (F-03)
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

# 20 records that are written once and never removed, each of a different repository.
my %repos;
my @few = (grep { @{ $hit{$_} } == 1 && m{^(.*?)/} && !$repos{$1}++ } sort keys %hit)[ 0 .. 19 ];
fail_on('TRIGGER fail AFTER', 'atproto.record', 'INSERT OR UPDATE',
	"new.did::text || '/' || new.collection::text || '/' || new.rkey::text IN ('" . join("', '", @few) . "')");

# The whole stream again with these limits, into empty tables.
sub from_the_start
{
	my ($limits) = @_;
	query("SELECT atproto.pause('s'); DELETE FROM atproto.dead_letter; TRUNCATE atproto.record, atproto.repo;
		UPDATE atproto.subscription SET $limits; SELECT atproto.set_cursor('s', 0); UPDATE atproto.cursor SET events = 0; SELECT atproto.resume('s')");
	return;
}

# Without room for letters the subscription stops; with room it goes on, and no event is lost.
sub stops_without_room
{
	my ($name, $limits, $kept) = @_;

	from_the_start($limits);
	$node->poll_query_until('postgres', "SELECT state = 'stopped' FROM atproto.stat_subscription");
	is(query('SELECT last_error FROM atproto.stat_subscription'), 'there is no room for another dead letter', "$name: it stops");
	is(query("SELECT $kept, (SELECT coalesce(seq, 0) < $PDS_LAST FROM atproto.cursor)"), 't|t', "$name: no more are kept");
	query("UPDATE atproto.subscription SET max_dead_letters = 10000, max_dead_letter_bytes = 268435456; SELECT atproto.resume('s')");
	wait_for_seq($node, 's', $PDS_LAST);
	is(query("SELECT count(*), count(DISTINCT digest), (SELECT events FROM atproto.cursor) FROM atproto.dead_letter"),
		"20|20|$PDS_LAST", "$name: with room it goes on, and none is missing");
	tables_match($node, $pds, "$name: every event was applied", modes => ['repo']);
	return;
}

stops_without_room('max_dead_letters', 'max_dead_letters = 7', '(SELECT count(*) <= 7 FROM atproto.dead_letter)');
stops_without_room('one more than max_dead_letters', 'max_dead_letters = 19', '(SELECT count(*) <= 19 FROM atproto.dead_letter)');
my $bytes = query('SELECT sum(octet_length(bytes)) FROM (SELECT bytes FROM atproto.dead_frame LIMIT 4) f');
stops_without_room('max_dead_letter_bytes', "max_dead_letter_bytes = $bytes",
	"(SELECT coalesce(sum(octet_length(bytes)), 0) FROM atproto.dead_frame) <= $bytes");

# Existing letters count once.
query("SELECT atproto.pause('s'); TRUNCATE atproto.record, atproto.repo;
	UPDATE atproto.subscription SET max_dead_letters = 20; SELECT atproto.set_cursor('s', 0); SELECT atproto.resume('s')");
wait_for_seq($node, 's', $PDS_LAST);
is(query('SELECT count(*), sum(attempts) FROM atproto.dead_letter'), '20|40', 'a replay counts attempts, and needs no room');
query('DROP TRIGGER fail ON atproto.record');

# --- an invalid record stays invalid ---

my $odd = make_capture('synth.py', 'odd');
my $n   = () = read_capture($odd);
my $odd_server = AtprotoTest::Server->start($odd);
start_over();
query(subscribe_sql('odd', $odd_server, cursor => 0));
wait_for_seq($node, 'odd', $n);
my $before = query('SELECT id, stage, message FROM atproto.dead_letter ORDER BY id');
is(query('SELECT count(*) > 20, count(*) FILTER (WHERE atproto.retry(id) = message) = count(*) FROM atproto.dead_letter'), 't|t',
	'an invalid record or commit is refused again, for the same reason');
is(query('SELECT DISTINCT attempts FROM atproto.dead_letter'), '2', 'and stays');
is(query('SELECT id, stage, message FROM atproto.dead_letter ORDER BY id'), $before, 'as it was');
tables_match($node, $odd, 'nothing else changes', modes => [ 'record', 'repo' ]);

# --- keys too long for any index ---

my $paths = make_capture('streams.py', 'paths');
my $paths_server = AtprotoTest::Server->start($paths, '--hold-at', 4);
start_over();
query(subscribe_sql('paths', $paths_server, cursor => 0));
wait_for_seq($node, 'paths', 3);
is(query('SELECT stage, sqlstate, length(did::text), length(path) FROM atproto.dead_letter'), 'apply|54000|2012|762',
	'a record whose key is too long for the index is a dead letter');
is(query('SELECT string_agg(rkey::text, $$,$$ ORDER BY rkey) FROM atproto.record'), '1,2', 'those beside it are stored');
$paths_server->release;
wait_for_seq($node, 'paths', 4);
is(query('SELECT count(*) FROM atproto.dead_letter'), '0', 'with its deletion the letter goes');

# --- faults at the expense of every event ---

sub condemns_nothing
{
	my ($name, $break, $mend, $message, %args) = @_;

	start_over();
	$server->restart('--hold-at', 700);
	query(subscribe_sql('s', $server, cursor => 0, %args));
	wait_for_seq($node, 's', 699);
	query($break);
	$server->release;
	$node->poll_query_until('postgres', "SELECT state = 'stopped' FROM atproto.stat_subscription");
	like(query('SELECT last_error FROM atproto.stat_subscription'), $message, "$name: stops, and says why");
	is(query('SELECT (SELECT min(seq) FROM atproto.cursor), count(*) FROM atproto.dead_letter'), '699|0', "$name: condemns nothing");
	query($mend);
	query("SELECT atproto.resume('s')");
	wait_for_seq($node, 's', $PDS_LAST);
	is(query('SELECT sum(events), (SELECT count(*) FROM atproto.dead_letter) FROM atproto.cursor'), "$PDS_LAST|0", "$name: put right, it goes on");
	tables_match($node, $pds, "$name: nothing is lost", modes => [ 'record', 'repo' ]);
	return;
}

condemns_nothing('missing table', 'ALTER TABLE atproto.record RENAME TO elsewhere', 'ALTER TABLE atproto.elsewhere RENAME TO record',
	qr/^(relation "atproto.record" does not exist|schema "atproto" has no table "record").* \(SQLSTATE 42P01\)$/);
condemns_nothing('missing column', 'ALTER TABLE atproto.repo RENAME status TO state', 'ALTER TABLE atproto.repo RENAME state TO status',
	qr/^(column "status" .*does not exist|schema "atproto" has no table "repo" with a column "status") \(SQLSTATE 42(703|P01)\)$/);
condemns_nothing('missing key', 'ALTER TABLE atproto.record DROP CONSTRAINT record_pkey',
	'ALTER TABLE atproto.record ADD PRIMARY KEY (did, collection, rkey)', qr/^there is no unique or exclusion constraint.* \(SQLSTATE 42P10\)$/);

condemns_nothing('workers', 'ALTER TABLE atproto.record RENAME rkey TO key', 'ALTER TABLE atproto.record RENAME key TO rkey',
	qr/"rkey".*does not exist|has no table "record" with a column "rkey"/, workers => 2);

# A trigger that is at odds with the schema, and fails for every row, is no better.  (245_strangers_values: for some rows.)
query('CREATE FUNCTION public.misses() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM public.missing(1); RETURN new; END $$');
condemns_nothing('missing function', 'CREATE TRIGGER misses BEFORE INSERT ON atproto.record FOR EACH ROW EXECUTE FUNCTION public.misses()',
	'CREATE FUNCTION public.missing(integer) RETURNS void LANGUAGE sql AS \'\'', qr/^function public.missing\(integer\) does not exist \(SQLSTATE 42883\)$/);
query('DROP TRIGGER misses ON atproto.record');

# The consumer has only the rights of its owner.
query('CREATE ROLE keeper LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA atproto TO keeper; GRANT ALL ON ALL FUNCTIONS IN SCHEMA atproto TO keeper');
my $subscribe = \&AtprotoTest::subscribe_sql;
{
	no warnings 'redefine';
	local *main::subscribe_sql = sub { 'SET ROLE keeper;' . $subscribe->(@_) };
	condemns_nothing('missing privilege', 'REVOKE INSERT ON atproto.record FROM keeper', 'GRANT INSERT ON atproto.record TO keeper',
		qr/^role "keeper" may not fill schema "atproto": the role lacks INSERT on table atproto.record$/);
}

$node->stop;
done_testing();
