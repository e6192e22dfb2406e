# 362_link_counts.pl
#		count_links(): link_count must have the number of links, by whatever way links come and go: whatever the
#		tables are like, with several workers, by exports and dead letters, in pieces, by rebuild_links(), and when a
#		source becomes counted while a stream fills the tables.  backlink_count() gives the same number with
#		and without counts.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use IPC::Run;
use PostgreSQL::Test::Utils;
use Test::More;

my ($capture) = simulate(
	'--events' => 4000, '--accounts' => 60, '--history' => 0,
	'--mix' => 'account=4,delete=8,update=6,sync=0,like=40,post=30,profile=3');
my $last   = read_capture($capture);
my $server = AtprotoTest::Server->start($capture);
my $node   = make_node('link_counts', conf => "max_worker_processes = 30\natproto.reconnect_delay = 100ms");
my $named  = q{'{app.bsky.feed.like:subject.uri,app.bsky.feed.repost:subject.uri,app.bsky.graph.follow:subject}'};

# The counts that differ from the links.
sub wrong
{
	my ($schema) = @_;
	return query("SELECT count(*) FROM (SELECT target, source, count(*) AS n FROM $schema.link JOIN $schema.link_source s ON s.id = source AND counted GROUP BY 1, 2) l"
		. " FULL JOIN $schema.link_count c USING (target, source) WHERE l.n IS DISTINCT FROM c.n");
}

# Returns the sum of all counts.
sub exact
{
	my ($schema, $name) = @_;

	local $Test::Builder::Level = $Test::Builder::Level + 1;
	is(wrong($schema), '0', $name);
	return query("SELECT sum(n) FROM $schema.link_count");
}

# --- whatever the tables are like ---

my %shapes = (
	plain     => '',
	ids       => q{UPDATE ids.link_source SET id = CASE path WHEN 'subject.uri' THEN -id ELSE 2147483647 END},
	workers   => '',
	parts     => join('', map { my ($t, $k) = @$_; "ALTER TABLE parts.$t RENAME TO old_$t; CREATE TABLE parts.$t (LIKE parts.old_$t INCLUDING ALL) PARTITION BY HASH ($k);"
		  . join('', map { "CREATE TABLE parts.${t}_$_ PARTITION OF parts.$t FOR VALUES WITH (MODULUS 3, REMAINDER $_);" } 0 .. 2) } [qw(link target)], [qw(link_count target)]),
	triggered => 'CREATE FUNCTION triggered.note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$;'
	  . 'CREATE TRIGGER note BEFORE INSERT ON triggered.link FOR EACH ROW EXECUTE FUNCTION triggered.note()',
	pieces    => 'CREATE FUNCTION pieces.refuse() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN IF hashtext(NEW.rkey::text) % 20 = 0 THEN RAISE $x$not this one$x$; END IF; RETURN NEW; END$$;'
	  . 'CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON pieces.record FOR EACH ROW EXECUTE FUNCTION pieces.refuse()');
foreach my $name (sort keys %shapes)
{
	query("CREATE SCHEMA $name; SELECT atproto.create_tables('$name'); " . ($name eq 'ids' ? '' : $shapes{$name}) . "; SELECT atproto.count_links($named, '$name')");
	# no source is known before
	query($shapes{ids}) if $name eq 'ids';
	query(subscribe_sql($name, $server, cursor => 0, target => "'$name'", links => "'all'", ($name eq 'workers' ? (workers => 3) : ())));
}
my $counts;
foreach my $name (sort grep { $_ ne 'pieces' } keys %shapes)
{
	wait_for_seq($node, $name, $last);
	my $n = exact($name, "$name: each count is the number of links");
	$counts //= $n;
	is($n, $counts, "$name: as many as elsewhere");
}
cmp_ok($counts, '>', 1000, "there are counts: $counts");
is(query("SELECT count(DISTINCT source), min(n) > 0, max(n) > 10 FROM plain.link_count"), '3|t|t', 'of the named sources, and of targets with links only');

# --- dead letters ---

wait_for_seq($node, 'pieces', $last);
cmp_ok(query('SELECT count(*) FROM atproto.dead_letter'), '>', 20, 'some records are refused');
my $before = exact('pieces', 'a link of a refused record is not counted');
query('DROP TRIGGER refuse ON pieces.record');
query('SELECT atproto.retry(id) FROM atproto.dead_letter ORDER BY id');
cmp_ok(exact('pieces', 'and is when the record is tried again'), '>', $before, 'more than before');

# --- the function beside the links ---

my $popular = query('SELECT target FROM plain.link_count ORDER BY n DESC, target LIMIT 1');
my $ask = "SELECT string_agg(s.collection || ':' || s.path || ' ' || atproto.backlink_count('$popular', s.collection || ':' || s.path, 'plain'), ',' ORDER BY s.id) FROM plain.link_source s";
my $answer = query($ask);
query("SELECT atproto.count_links('{}', 'plain')");
is(query('SELECT count(*) FROM plain.link_count'), '0', 'an empty list ends the counts');
is(query($ask), $answer, 'backlink_count() gives the same number without counts');
query("UPDATE plain.link_source SET counted = true WHERE collection = 'app.bsky.graph.follow'");
isnt(query($ask), $answer, 'and reads the counts of a source that is marked as counted');
query("SELECT atproto.count_links($named, 'plain')");
is(query($ask), $answer, 'the links that exist are counted');
is(exact('plain', 'all of them'), $counts, 'as before');

# --- a purge that a former process has not finished ---

my $busy = query('SELECT did FROM triggered.link JOIN triggered.link_source s ON s.id = source AND counted JOIN triggered.repo USING (did) WHERE active GROUP BY did ORDER BY count(*) DESC, did LIMIT 1');
query("SELECT atproto.pause('triggered')");
wait_for(q{SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'atproto triggered'});
query("UPDATE triggered.repo SET active = false, purge_rev = rev WHERE did = '$busy'; SELECT atproto.resume('triggered')");
wait_for("SELECT purge_rev IS NULL FROM triggered.repo WHERE did = '$busy'");
cmp_ok(exact('triggered', 'a purge takes counts back'), '<', $counts, 'less than before');
query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');

# --- by hand ---

query("DELETE FROM plain.link WHERE target = '$popular'");
is(query("SELECT string_agg(DISTINCT what, ',') FROM atproto.check('plain') WHERE what LIKE '%count%'"), 'count of links is wrong', 'check() finds links that a user has removed');
query("DELETE FROM plain.link_count WHERE target <> '$popular'");
is(query("SELECT string_agg(DISTINCT what, ',' ORDER BY what) FROM atproto.check('plain') WHERE what LIKE '%count%'"), 'count of links is wrong,links without their count', 'and counts');
query("SELECT atproto.rebuild_links('plain')");
is(exact('plain', 'rebuild_links() repairs the counts'), $counts, 'all of them');

# --- exports ---

my $files = PostgreSQL::Test::Utils::tempdir('exports');
IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', test_dir() . '/oracle/links.py', 'exports', $files ]) or BAIL_OUT('no exports were made');
my $who = did('a');
query('CREATE SCHEMA loaded; ' . subscribe_sql('loaded', $server, target => "'loaded'", links => "'all'"));
query("SELECT atproto.load_car('$who', pg_read_binary_file('$files/one.car'), 'loaded')");
query(q{SELECT atproto.count_links((SELECT array_agg(collection || ':' || path) FROM loaded.link_source), 'loaded'); TRUNCATE loaded.record, loaded.repo, loaded.link, loaded.link_count});
foreach my $export (qw(one two two))
{
	query("SELECT atproto.load_car('$who', pg_read_binary_file('$files/$export.car'), 'loaded')");
	cmp_ok(exact('loaded', "$export: each count is the number of links"), '>', 100, "$export: there are counts");
}
query("SELECT atproto.unsubscribe('loaded')");

# --- a source becomes counted, and is not any more, while a stream fills the tables ---

$server->restart('--rate', 1000);
query('CREATE SCHEMA live; ' . subscribe_sql('live', $server, cursor => 0, target => "'live'", links => "'all'", workers => 3));
foreach my $i (1 .. 10)
{
	wait_for_seq($node, 'live', $i * 350);
	query('SELECT atproto.count_links(' . ($i % 3 == 0 ? q{'{}'} : $i % 3 == 1 ? $named : q{'{app.bsky.feed.like:subject.uri}'}) . ", 'live')");
	is(wrong('live'), '0', "$i: at each moment each count is the number of links");
}
wait_for_seq($node, 'live', $last);
is(exact('live', 'and at the end'), $counts, 'all are counted');
is(query("SELECT drops FROM atproto.stat_subscription WHERE name = 'live'"), '{}', 'nobody was in the way');
query("SELECT atproto.unsubscribe('live')");

# --- a session that remembers its sources, and a snapshot from before count_links() ---

query("CREATE SCHEMA late; SELECT atproto.create_tables('late'); ALTER TABLE late.record ADD CONSTRAINT few CHECK (collection <> 'app.bsky.feed.like' OR did::text < 'did:plc:f')");
$server->restart;
query(subscribe_sql('late', $server, cursor => 0, target => "'late'", links => "'all'"));
wait_for_seq($node, 'late', $last);
query("SELECT atproto.pause('late'); ALTER TABLE late.record DROP CONSTRAINT few");
my $session = $node->background_psql('postgres');
my $retry = "SELECT count(*) FILTER (WHERE atproto.retry(id) = 'applied') FROM (SELECT id FROM atproto.dead_letter WHERE subscription = 'late' ORDER BY id LIMIT 20) d";
$session->query_safe($retry);
query("SELECT atproto.count_links($named, 'late')");
$session->query_safe($retry);
exact('late', 'a session learns that a source is counted now');

# Links that are not committed yet, of a transaction that has found that their source is not counted.
query("SELECT atproto.count_links('{}', 'late')");
$session->query_safe("BEGIN; $retry");
my $count = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', "SELECT atproto.count_links($named, 'late')" ], '>', \my $done, '2>&1');
wait_for(q{SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'late.link'::regclass AND mode = 'ShareRowExclusiveLock' AND NOT granted)}
	. q{ OR EXISTS (SELECT FROM late.link_source WHERE counted)});
$session->query_safe('COMMIT');
$count->finish;
exact('late', 'count_links() waits for links that are not committed');

query("SELECT atproto.count_links('{}', 'late')");
my $early = $node->background_psql('postgres', on_error_stop => 0);
$early->query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1');
query("SELECT atproto.count_links($named, 'late')");
$early->query($retry);
like($early->{stderr}, qr/could not serialize access due to concurrent update/, 'a snapshot from before count_links() is refused');
$early->query('ROLLBACK');
$_->quit foreach $session, $early;
exact('late', 'and nothing is wrong');

# --- a transaction with more differences than the limit ---

query($_) foreach 'ALTER SYSTEM SET atproto.test_link_counts = 3', 'SELECT pg_reload_conf()';
foreach my $direct (qw(on off))
{
	my $name = "many_$direct";

	query($_) foreach "ALTER SYSTEM SET atproto.direct_writes = $direct", 'SELECT pg_reload_conf()';
	$server->restart;
	query("CREATE SCHEMA $name; SELECT atproto.create_tables('$name'); SELECT atproto.count_links($named, '$name')");
	query(subscribe_sql($name, $server, cursor => 0, target => "'$name'", links => "'all'"));
	wait_for_seq($node, $name, $last);
	is(exact($name, "$name: each count is the number of links"), $counts, "$name: as many as elsewhere");
	query("SELECT atproto.unsubscribe('$name')");
}
query($_) foreach 'ALTER SYSTEM RESET atproto.test_link_counts', 'ALTER SYSTEM RESET atproto.direct_writes', 'SELECT pg_reload_conf()';

# --- two transactions with the same targets, in opposite orders ---

my @ids = split /\n/, query("SELECT id FROM atproto.dead_letter WHERE subscription = 'late' ORDER BY id");
cmp_ok(scalar(@ids), '>', 100, 'letters to try again');
my @sessions = map {
	my $order = $_;
	IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), (map { ('-c', "SELECT atproto.retry($_)") } $order ? @ids[ $#ids / 2 + 1 .. $#ids ] : reverse @ids[ 0 .. $#ids / 2 ]) ], '>', \my $out, '2>', \my $err);
} 0, 1;
$_->finish foreach @sessions;
exact('late', 'two writers of the same counts');
unlike(slurp_file($node->logfile), qr/deadlock detected/, 'nobody has waited for ever');

$node->stop;
done_testing();
