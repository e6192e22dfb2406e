# 358_links.pl
#		Subscriptions that keep links: the table link must be the image of record with every kind of tables,
#		with several workers, and through updates, deletions, deleted accounts and refills.  The option
#		links decides which sources are kept; the test changes the option and finds the event from which the
#		change holds.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use Test::More;

my ($capture) = simulate(
	'--events' => 6000, '--accounts' => 80, '--history' => 0,
	'--mix' => 'account=4,delete=8,update=6,sync=0,like=40,post=30,profile=3');
my $last   = read_capture($capture);
my $server = AtprotoTest::Server->start($capture);
my $node   = make_node('links', conf => "max_worker_processes = 30\nmax_prepared_transactions = 1\natproto.reconnect_delay = 100ms");

# The table link must be equal to the links of the records, in both directions; returns the number of links.
sub all_is_linked
{
	my ($schema, $name) = @_;

	is(query("SELECT count(*) || ' ' || COALESCE(string_agg(DISTINCT problem, ','), '') FROM atproto.link_problems('$schema')"), '0 ', $name);
	return query("SELECT count(*) FROM $schema.link");
}

# --- whatever the tables are like ---

my %shapes = (
	plain     => '',
	workers   => '',
	raw       => '',
	parts     => 'ALTER TABLE parts.link RENAME TO old; DROP VIEW parts.visible_link; CREATE TABLE parts.link (LIKE parts.old INCLUDING ALL) PARTITION BY HASH (target);'
	  . join('', map { "CREATE TABLE parts.link$_ PARTITION OF parts.link FOR VALUES WITH (MODULUS 3, REMAINDER $_);" } 0 .. 2),
	triggered => 'CREATE FUNCTION triggered.note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN INSERT INTO triggered.n VALUES (TG_OP); RETURN NULL; END$$;'
	  . 'CREATE TABLE triggered.n (op text); CREATE TRIGGER note AFTER INSERT OR DELETE ON triggered.link FOR EACH ROW EXECUTE FUNCTION triggered.note()',
	records   => 'CREATE FUNCTION records.note() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RETURN NEW; END$$;'
	  . 'CREATE TRIGGER note BEFORE INSERT ON records.record FOR EACH ROW EXECUTE FUNCTION records.note()');
foreach my $name (sort keys %shapes)
{
	query("CREATE SCHEMA $name; SELECT atproto.create_tables('$name'); $shapes{$name}");
	query(subscribe_sql($name, $server, cursor => 0, target => "'$name'", links => "'all'",
			($name eq 'workers' ? (workers => 3) : ()), ($name eq 'raw' ? (keep_raw => 'true') : ())));
}
my $links;
foreach my $name (sort keys %shapes)
{
	wait_for_seq($node, $name, $last);
	my $n = all_is_linked($name, "$name: link is what record says");
	$links //= $n;
	is($n, $links, "$name: as many as elsewhere");
	is(query("SELECT stopped FROM atproto.subscription WHERE name = '$name'"), '', "$name: it runs");
}
cmp_ok($links, '>', 1000, "there are links: $links");
cmp_ok(query('SELECT count(*) FROM plain.link_source'), '>', 5, 'from several sources');
is(query("SELECT (SELECT count(*) FROM triggered.n WHERE op = 'INSERT') - (SELECT count(*) FROM triggered.n WHERE op = 'DELETE')"), $links,
	'triggers see each link that comes and goes');
is(query(q{SELECT count(*) FROM plain.link l JOIN plain.link_source s ON s.id = l.source JOIN plain.record r USING (did, rkey)
	WHERE r.collection = s.collection AND s.collection = 'app.bsky.feed.like' AND s.path = 'subject.uri' AND l.target::text = r.value->'subject'->>'uri'}),
	query("SELECT count(*) FROM plain.record WHERE collection = 'app.bsky.feed.like'"), 'each like has its link');
is(query("SELECT count(*) FROM plain.repo WHERE status = 'deleted' AND EXISTS (SELECT FROM plain.link l WHERE l.did = repo.did AND repo.purge_rev IS NOT NULL)"), '0',
	'what has gone with its account has no links');

# --- once more changes nothing ---

query("SELECT atproto.refill('plain')");
wait_for_seq($node, 'plain', $last);
is(all_is_linked('plain', 'refilled'), $links, 'the same links');
query('DELETE FROM plain.record WHERE random() < 0.2; SELECT * FROM atproto.rebuild_links(\'plain\')');
query("SELECT atproto.refill('plain')");
wait_for_seq($node, 'plain', $last);
all_is_linked('plain', 'records that a refill brings back bring their links');
# links exist already, and their records do not
query("BEGIN; CREATE TEMP TABLE kept AS TABLE plain.record; DELETE FROM plain.record; SELECT atproto.refill('plain'); COMMIT");
wait_for_seq($node, 'plain', $last);
all_is_linked('plain', 'records whose links are there already');
query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');

# --- which sources ---

sub source_counts
{
	my ($schema) = @_;
	return query("SELECT s.collection || ':' || s.path || ' ' || count(*) FROM $schema.link l JOIN $schema.link_source s ON s.id = l.source GROUP BY s.collection, s.path ORDER BY 1");
}

my $all   = source_counts('raw');
my %takes = (
	likes  => [ '{app.bsky.feed.like:subject.uri}',             qr/^app\.bsky\.feed\.like:subject\.uri / ],
	graph  => [ '{app.bsky.graph.*}',                           qr/^app\.bsky\.graph\./ ],
	mixed  => [ '{app.bsky.feed.*:subject.uri,app.bsky.graph.follow}', qr/^app\.bsky\.(feed\.\w+:subject\.uri|graph\.follow:.*) / ],
	empty  => [ '{}',                                           qr/^$/ ]);
foreach my $name (sort keys %takes)
{
	query("CREATE SCHEMA $name; " . subscribe_sql($name, $server, cursor => 0, target => "'$name'", links => "'$takes{$name}[0]'"));
}
foreach my $name (sort keys %takes)
{
	wait_for_seq($node, $name, $last);
	is(source_counts($name), join("\n", grep { /$takes{$name}[1]/ } split /\n/, $all), "$takes{$name}[0]: these alone");
	all_is_linked($name, "$name: link is what record says");
	is(query("SELECT added, removed FROM atproto.rebuild_links('$name')"), '0|0', "$name: and nothing else is wanted");
}
is(query("SELECT bool_and(id > 10000) FROM likes.link_source"), 't', 'what a setting names has a place of its own');
query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');

# --- a change while the stream runs ---

my @holds = (2000, 4000);
$server->restart(map { ('--hold-at', $_) } @holds);
query("CREATE SCHEMA live; " . subscribe_sql('live', $server, cursor => 0, target => "'live'", links => "'{app.bsky.feed.like:subject.uri}'"));

sub change_at
{
	my ($seq, $links) = @_;

	wait_for_seq($node, 'live', $seq - 1);
	query("UPDATE atproto.subscription SET links = '$links'");
	$node->poll_query_until('postgres', "SELECT settings_after = $seq - 1 FROM atproto.cursor WHERE subscription = 'live'")
	  or BAIL_OUT("the settings did not change at $seq");
	$server->release;
	return;
}

change_at(2000, 'all');
change_at(4000, '{app.bsky.graph.*}');
wait_for_seq($node, 'live', $last);
# the revision of the last commit before a change shows by which option a record was last written
is(query("SELECT count(*) FROM atproto.link_problems('live') WHERE problem = 'extra'"), '0', 'nothing is left of records that have changed, whatever is kept by now');
is(query("SELECT reconnects FROM atproto.stat_subscription"), '0', 'without a reconnection');
cmp_ok(query("SELECT count(*) FROM live.link JOIN live.link_source s ON s.id = source WHERE s.collection = 'app.bsky.feed.post'"), '>', 0, 'links that were wanted for a while are there');
cmp_ok(query("SELECT removed FROM atproto.rebuild_links('live')"), '>', 0, 'but not when they are rebuilt');
is(source_counts('live'), join("\n", grep { /^app\.bsky\.graph\./ } split /\n/, $all), 'then it is what is wanted now');
all_is_linked('live', 'rebuilt');
query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');

# --- sources refused by a table, and sources that are rolled back ---

$server->restart;
query("CREATE SCHEMA refuses; SELECT atproto.create_tables('refuses'); ALTER TABLE refuses.link_source ADD CONSTRAINT no_likes CHECK (collection <> 'app.bsky.feed.like')");
query(subscribe_sql('refuses', $server, cursor => 0, target => "'refuses'", links => "'all'"));
wait_for("SELECT state = 'stopped' FROM atproto.stat_subscription WHERE name = 'refuses'");
like(query("SELECT stopped FROM atproto.subscription WHERE name = 'refuses'"), qr/violates check constraint "no_likes" \(SQLSTATE 23514\)/, 'a source that the table refuses stops the subscription');
query("ALTER TABLE refuses.link_source DROP CONSTRAINT no_likes; SELECT atproto.resume('refuses')");
wait_for_seq($node, 'refuses', $last);
is(all_is_linked('refuses', 'it goes on when that is gone'), $links, 'with all links');
query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');

query("CREATE SCHEMA back; SELECT atproto.create_tables('back'); ALTER TABLE back.record ADD CONSTRAINT few CHECK (collection <> 'app.bsky.feed.like' OR did::text < 'did:plc:f')");
query(subscribe_sql('back', $server, cursor => 0, target => "'back'"));
wait_for_seq($node, 'back', $last);
query("SELECT atproto.pause('back'); UPDATE atproto.subscription SET links = 'all'; ALTER TABLE back.record DROP CONSTRAINT few");
my $retry = "SELECT atproto.retry(id) FROM atproto.dead_letter WHERE stage = 'apply' ORDER BY id LIMIT 20;";
foreach my $rollback ('ROLLBACK', 'SAVEPOINT more; ROLLBACK TO before; COMMIT', "PREPARE TRANSACTION 'links'; ROLLBACK PREPARED 'links'")
{
	my $said = query("BEGIN; SAVEPOINT before; SELECT * FROM atproto.rebuild_links('back'); $retry $rollback; $retry");

	cmp_ok(scalar(() = $said =~ /^applied$/mg), '>', 20, "$rollback: letters are tried twice");
	is(query("SELECT count(*) FILTER (WHERE s.id IS NULL), count(*) > 0 FROM back.link l LEFT JOIN back.link_source s ON s.id = l.source"), '0|t',
		'what a transaction has added that is rolled back is no source');
	query('TRUNCATE back.link, back.link_source');
}
query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');

# --- links are switched on, and rebuilt, while a batch is written with the old setting ---

$server->restart('--hold-at', 3000);
query("CREATE SCHEMA late; " . subscribe_sql('late', $server, cursor => 0, target => "'late'"));
wait_for_seq($node, 'late', 2999);
my $locks = $node->background_psql('postgres');
$locks->query_safe("SELECT atproto.create_tables('late'); BEGIN; LOCK TABLE late.repo IN SHARE MODE");
$server->release;
wait_for("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'late.repo'::regclass)");
query("UPDATE atproto.subscription SET links = 'all'");
like(($node->psql('postgres', "SELECT * FROM atproto.rebuild_links('late')"))[2], qr/WARNING:  the present settings of subscription "late" do not hold yet\nDETAIL.*\nHINT:  .*settings_after/, 'who rebuilds too early is told');
$locks->query_safe('COMMIT');
$locks->quit;
wait_for_seq($node, 'late', $last);
wait_for("SELECT settings_after >= 3000 FROM atproto.cursor WHERE subscription = 'late'");
is(($node->psql('postgres', "SELECT * FROM atproto.rebuild_links('late')"))[2], '', 'and not when the settings hold');
all_is_linked('late', 'then all is linked');
query('SELECT atproto.unsubscribe(name) FROM atproto.subscription');

# --- values of the option links ---

foreach my $bad (
	[ 'sometimes', qr/invalid value for "links": "sometimes".*HINT:  Use 'none', 'all', or an array/s ],
	[ '{not a collection}', qr/invalid source of links: "not a collection".*DETAIL.*HINT/s ],
	[ '{app.bsky.feed.like:}', qr/invalid source of links: "app.bsky.feed.like:"/ ],
	[ '{app.bsky.feed.like:a b}', qr/invalid source of links: "app.bsky.feed.like:a b"/ ],
	[ '{app.bsky.feed.like:' . 'a' x 257 . '}', qr/invalid source of links.*at most 256 bytes/s ],
	[ '{NULL}', qr/"links" must not contain nulls.*HINT/s ],
	[ '{', qr/malformed array literal/ ])
{
	my ($rc, $out, $err) = $node->psql('postgres', subscribe_sql('bad', $server, links => "'$bad->[0]'"), on_error_stop => 1);
	like($err, $bad->[1], "links => '$bad->[0]'");
}
foreach my $bad ([ { keep_records => 'false' }, qr/links are kept only with records/ ], [ { nsid => 'com.atproto.label.subscribeLabels' }, qr/cannot have "links"/ ])
{
	my ($rc, $out, $err) = $node->psql('postgres', subscribe_sql('bad', $server, links => "'all'", %{ $bad->[0] }), on_error_stop => 1);
	like($err, $bad->[1], join ' ', %{ $bad->[0] });
}
query("CREATE SCHEMA two; " . subscribe_sql('first', $server, target => "'two'", links => "'all'"));
my ($rc, $out, $err) = $node->psql('postgres', subscribe_sql('second', $server, target => "'two'"));
like($err, qr/WARNING.*fill the same tables with different filters/, 'who fills a table with less than another is told');

done_testing();
