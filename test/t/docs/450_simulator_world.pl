# 450_simulator_world.pl
#		The network of test/simulator --social, as a consumer stores it, looks like the real one: people
#		have handles, profiles and follows; a reply names the right root and parent; the byte offsets of
#		facets hit a hashtag, mention or link; likes name existing posts, once each; the bundled Lexicons
#		allow the records; every commit is verified at level full.  The same options give the same bytes, and
#		no event lies outside --start and --span.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Lookups;
use File::Compare;
use PostgreSQL::Test::Utils;
use Test::More;

my $last   = 6000;
my $people = 120;

# Every kind of event except accounts that are deactivated and come back: these have a separate network below.
my $directory = PostgreSQL::Test::Utils::tempdir('directory');
my @world     = ('--social', '--events', $last, '--accounts', $people, '--batches', 3);
my $mix       = 'post=40,delete=6,list=2,listitem=4,threadgate=2,profile=1,update=1,account=0,sync=0';
my ($capture) = simulate(@world, '--p256', 20, '--mix', $mix, '--start', '2026-03-01T12:00:00Z', '--span', '30d', '--directory', $directory);

my $node   = make_node('world', databases => '');
my $server = AtprotoTest::Server->start($capture);

# did, seq, key, secret, host, handle
foreach (split /\n/, slurp_file("$directory/keys"))
{
	my ($did, undef, $key) = split /\t/;
	know($did, $key);
}
query("CREATE SCHEMA w; " . subscribe_sql('w', $server, cursor => 0, target => "'w'", verify => "'full'", validate => "'flag'", events => "'keep'", links => "'all'"));
wait_for_seq($node, 'w', $last);

# V-41: each account begins with an #identity, after which only a newly read key counts
looked_up(', stale = false, said_by = $${}$$, doubted_by = $${}$$, tries = 0, resolved_at = now()', 'true');
wait_for('SELECT count(*) = 0 FROM atproto.held_event');

# --- the network is valid by the protocol ---

is(query('SELECT count(*), count(*) FILTER (WHERE verified) FROM w.repo'), "$people|$people", 'V-10: each repository is verified');
is(query('SELECT (SELECT count(*) FROM atproto.dead_letter), (SELECT count(*) FROM atproto.held_event), (SELECT count(*) FROM atproto.gap)'), '0|0|0', 'nothing is refused, waits, or is missing');
is(query("SELECT string_agg(p.did || a.reason, ',') FROM w.repo p, LATERAL atproto.audit(p.did, 'w') a WHERE NOT a.equal"), '', 'V-46: audits find what accounts have signed');
is(query("SELECT string_agg(collection || ' ' || fault, E'\\n') FROM w.record WHERE fault IS NOT NULL"), '', 'the Lexicons allow all records');
is(query("SELECT string_agg(DISTINCT collection || ' ' || f, E'\\n') FROM w.record r, LATERAL atproto.lexicon_valid(value, collection, rkey) f WHERE f IS NOT NULL AND collection <> 'com.example.note'"),
	'', 'so says the function, which judges nine collections');
is(query("SELECT count(DISTINCT collection) FROM w.record WHERE collection IN (SELECT id FROM atproto.lexicon)"), '9', 'all of them');

# --- people ---

is(query("SELECT count(*), count(DISTINCT handle) FROM w.repo WHERE handle::text LIKE '%_-_%.example.com'"), "$people|$people", 'everybody has a handle of their own');
is(query("SELECT count(*) FROM w.record WHERE collection = 'app.bsky.actor.profile' AND value->>'displayName' ~ '^\\w+ \\w+'"),
	query("SELECT count(DISTINCT did) FROM w.record WHERE collection = 'app.bsky.actor.profile'"), 'profiles have names');
is(query("SELECT count(*) FROM w.record WHERE collection = 'app.bsky.actor.profile'"), $people, 'everybody has one');
is(query("SELECT count(*) FROM w.record r JOIN w.repo p USING (did) WHERE collection = 'app.bsky.actor.profile'
	AND replace(handle::text, '.example.com', '') !~ ('^' || replace(lower(value->>'displayName'), ' ', '-'))"), '0', 'their handles say the same');
is(query("SELECT count(*) FROM w.record f WHERE collection IN ('app.bsky.graph.follow', 'app.bsky.graph.block', 'app.bsky.graph.listitem')
	AND (value->>'subject' = did::text OR NOT EXISTS (SELECT FROM w.repo p WHERE p.did::text = f.value->>'subject'))"), '0', 'who is followed, blocked or listed is somebody else');
is(query("SELECT count(*) FROM (SELECT FROM w.record WHERE collection IN ('app.bsky.graph.follow', 'app.bsky.graph.block', 'app.bsky.graph.listitem')
	GROUP BY did, collection, value->>'subject', value->>'list' HAVING count(*) > 1) x"), '0', 'once');
cmp_ok(query("SELECT count(DISTINCT langs) FROM w.record, jsonb_array_elements_text(value->'langs') langs WHERE collection = 'app.bsky.feed.post'"), '>=', 5, 'posts have languages');
cmp_ok(query("SELECT max(n) / avg(n) FROM (SELECT count(*) AS n FROM w.record WHERE collection = 'app.bsky.feed.like' GROUP BY value->'subject'->>'uri') x"),
	'>', 4, 'some posts have far more likes than others');

# --- references: made before, with this CID, and not deleted then ---

# Views in the schema of a subscription that keeps the operations: op, made (posts), gone, and ref (references
# to posts).
sub references_are_right
{
	my ($schema) = @_;

	query("SET search_path = $schema, public;" . q{
		CREATE VIEW op AS SELECT seq, action, aturi(did, collection, rkey)::text AS uri, did, collection, cid, value FROM record_event;
		CREATE TABLE made AS SELECT uri, seq, cid::text AS cid, value FROM op WHERE action = 'create' AND collection = 'app.bsky.feed.post';
		CREATE UNIQUE INDEX ON made (uri);
		CREATE TABLE gone AS SELECT uri, seq FROM op WHERE action = 'delete';
		CREATE TABLE ref AS
			SELECT op.seq, op.uri, op.did, what, r->>'uri' AS target, r->>'cid' AS cid FROM op,
				LATERAL (VALUES ('subject', value->'subject'), ('parent', value->'reply'->'parent'), ('root', value->'reply'->'root'),
					('quote', coalesce(value->'embed'->'record'->'record', value->'embed'->'record'))) x (what, r)
			WHERE action <> 'delete' AND jsonb_typeof(r) = 'object' AND r ? 'uri'});
	is(query("SELECT string_agg(DISTINCT what, ' ' ORDER BY what) FROM $schema.ref"), 'parent quote root subject', "$schema: records name others");
	is(query("SELECT count(*) FROM $schema.ref WHERE NOT EXISTS (SELECT FROM $schema.made WHERE made.uri = ref.target AND made.cid = ref.cid AND made.seq <= ref.seq)"), '0',
		"$schema: each names a post that was made before, and its CID");
	is(query("SELECT count(*) FROM $schema.ref JOIN $schema.gone ON gone.uri = target WHERE gone.seq < ref.seq AND what <> 'root'"), '0', "$schema: and that is not deleted");
	return;
}

my ($changing) = simulate('--social', '--events', $last, '--accounts', 60, '--mix', 'post=40,delete=6,account=3,sync=0');
my $others     = AtprotoTest::Server->start($changing);
query("CREATE SCHEMA g; " . subscribe_sql('g', $others, cursor => 0, target => "'g'", events => "'keep'"));
wait_for_seq($node, 'g', $last);
references_are_right('g');
cmp_ok(query("SELECT count(*) FROM g.repo WHERE status = 'deleted'"), '>', 5, 'there, accounts were deleted');
references_are_right('w');
query("SELECT atproto.unsubscribe(name) FROM atproto.subscription; ALTER DATABASE postgres SET search_path = w, public");
is(query("SELECT count(*) FROM made m JOIN made p ON p.uri = m.value->'reply'->'parent'->>'uri'
	WHERE m.value->'reply'->'root' IS DISTINCT FROM coalesce(p.value->'reply'->'root', jsonb_build_object('uri', p.uri, 'cid', p.cid))"), '0',
	'the root of a reply is that of its parent, or the parent, when that begins the thread');
cmp_ok(query("SELECT count(*) FROM ref p JOIN ref r USING (uri) WHERE p.what = 'parent' AND r.what = 'root' AND p.target <> r.target"), '>', 50, 'threads have several levels');
is(query("SELECT count(*) FROM (SELECT FROM op WHERE collection IN ('app.bsky.feed.like', 'app.bsky.feed.repost') AND action = 'create'
	GROUP BY did, collection, value->'subject'->>'uri' HAVING count(*) > 1) x"), '0', 'nobody likes or reposts a post twice');
is(query("SELECT count(*) FROM op WHERE collection = 'app.bsky.graph.listitem' AND action = 'create'
	AND (value->>'list' NOT LIKE 'at://' || did || '/app.bsky.graph.list/%' OR NOT EXISTS (SELECT FROM op l WHERE l.uri = op.value->>'list' AND l.seq <= op.seq))"), '0',
	'what is listed is in a list of the account');
is(query("SELECT count(*) FROM op g WHERE collection = 'app.bsky.feed.threadgate' AND action = 'create'
	AND NOT EXISTS (SELECT FROM made m WHERE m.uri = g.value->>'post' AND m.value->'reply' IS NULL AND m.seq <= g.seq)"), '0', 'a gate belongs to the first post of a thread');

# --- facets and embeds ---

query(q{
	CREATE TABLE facet AS
		SELECT uri, made.value->>'text' AS text, x->>'$type' AS type, x->>'tag' AS tag, x->>'did' AS did, x->>'uri' AS link,
			(f->'index'->>'byteStart')::int AS a, (f->'index'->>'byteEnd')::int AS b
		FROM made, jsonb_array_elements(made.value->'facets') f, jsonb_array_elements(f->'features') x;
	ALTER TABLE facet ADD words text;
	UPDATE facet SET words = convert_from(substring(convert_to(text, 'UTF8') FROM a + 1 FOR b - a), 'UTF8')});
is(query("SELECT string_agg(DISTINCT type, ' ' ORDER BY type) FROM facet"), join(' ', map { "app.bsky.richtext.facet#$_" } qw(link mention tag)), 'there are three kinds of facets');
is(query("SELECT count(*) FROM facet WHERE type LIKE '%#tag' AND words <> '#' || tag"), '0', 'the bytes of a hashtag are its words');
is(query("SELECT count(*) FROM facet LEFT JOIN w.repo ON repo.did::text = facet.did WHERE type LIKE '%#mention' AND words IS DISTINCT FROM '\@' || handle::text"), '0', 'those of a mention the handle');
is(query("SELECT count(*) FROM facet WHERE type LIKE '%#link' AND link NOT LIKE 'https://' || rtrim(words, '…') || '%'"), '0', 'those of a link its beginning');
cmp_ok(query("SELECT count(*) FROM facet WHERE a > position(words IN text) - 1"), '>', 50, 'offsets count bytes, not characters');
is(query("SELECT count(*) FROM facet x JOIN facet y USING (uri) WHERE x.ctid <> y.ctid AND x.a < y.b AND y.a < x.b"), '0', 'no two of them overlap');
cmp_ok(query("SELECT min(n) FROM (SELECT count(*) AS n FROM (SELECT value->'embed'->>'\$type' AS type FROM made) x WHERE type IS NOT NULL GROUP BY type HAVING count(*) > 0) x"),
	'>', 5, 'each kind of embed comes several times');
is(query("SELECT string_agg(DISTINCT value->'embed'->>'\$type', ' ' ORDER BY value->'embed'->>'\$type') FROM made"),
	join(' ', map { "app.bsky.embed.$_" } qw(external images record recordWithMedia)), 'pictures, cards, quotes, and quotes with pictures');
$node->stop;

# --- --start and --span, and the same bytes for the same options ---

my $files = PostgreSQL::Test::Utils::tempdir('again');

# The times of the records of a network; the capture is kept under this name.
sub times_of
{
	my ($name, @options) = @_;
	my ($file, $expect) = simulate('--social', '--events', 500, '--accounts', 40, @options);

	rename $file, "$files/$name" or BAIL_OUT("cannot rename $file: $!");
	my @times = slurp_file("$expect/record") =~ /"createdAt":"([^"]+)"/g;
	return sort @times;
}

my @march = times_of('one', '--start', '2026-03-01', '--span', '24h');
cmp_ok($march[0], 'ge', '2026-03-01T00:00:00.000Z', 'nothing is before the start');
cmp_ok($march[-1], 'lt', '2026-03-02T00:00:01.000Z', 'nor after the end');
cmp_ok($march[-1], 'gt', '2026-03-01T23:00:00.000Z', 'but until shortly before it');
times_of('two', '--start', '2026-03-01', '--span', '1d');
is(compare("$files/one", "$files/two"), 0, 'the same options, the same bytes');
times_of('two', '--start', '2026-03-01', '--span', '1d', '--seed', 2);
isnt(compare("$files/one", "$files/two"), 0, 'another seed, others');

my @year = times_of('year', '--start', '-1y', '--span', '1y');
my @now  = gmtime(time + 1);
cmp_ok($year[-1], 'lt', sprintf('%04d-%02d-%02dT%02d:%02d:%02d', $now[5] + 1900, $now[4] + 1, @now[ 3, 2, 1, 0 ]), 'a year until now: nothing is in the future');
cmp_ok(substr($year[0], 0, 4), '<', substr($year[-1], 0, 4), 'it begins in the year before');

my ($plain) = simulate('--events' => 500, '--history' => 100);
my ($again) = simulate('--events' => 500, '--history' => 100, '--start' => '2024-01-01');
is(compare($plain, $again), 0, 'without --start it begins on 2024-01-01');

done_testing();
