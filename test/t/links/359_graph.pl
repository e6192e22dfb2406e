# 359_graph.pl
#		Every recipe of doc/use/graph.md runs, gives the rows that test/oracle computes from all records,
#		and uses the plan that the page names.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Pages;
use Test::More;

my $node = make_node('graph');

my $me   = 'did:plc:44ybard66vv44zksje25o7dz';
my $post = "at://$me/app.bsky.feed.post/3jwdwj2ctlk26";
my $list = "at://$me/app.bsky.graph.list/3jwdwj2ctlk29";

# --- 500 accounts, one in ten inactive, with the records that the recipes ask for, and more of the same to other accounts ---

query(<<"SQL");
SELECT atproto.create_tables('atproto');
CREATE FUNCTION who(n bigint) RETURNS did LANGUAGE sql IMMUTABLE RETURN CASE WHEN n = 0 THEN '$me' ELSE 'did:web:user' || n || '.example' END::did;
-- within the last two days
CREATE FUNCTION key(n bigint) RETURNS recordkey LANGUAGE sql STABLE RETURN tid_floor(now() - n * interval '15 seconds')::recordkey;
CREATE FUNCTION put(did, nsid, recordkey, jsonb) RETURNS void LANGUAGE sql
	AS \$\$ INSERT INTO atproto.record (did, collection, rkey, cid, rev, value) VALUES (\$1, \$2, \$3, cidlink_of(''), '3jwdwj2ctlk26', \$4) ON CONFLICT DO NOTHING \$\$;
CREATE FUNCTION subject(n bigint) RETURNS jsonb LANGUAGE sql STABLE
	RETURN jsonb_build_object('uri', CASE n % 5 WHEN 0 THEN '$post' WHEN 1 THEN left('$post', -1) || '7' ELSE aturi(who(n % 431), 'app.bsky.feed.post'::nsid, key(n))::text END);
INSERT INTO atproto.repo (did, rev, active) SELECT who(n), '3jwdwj2ctlk26', n % 10 > 0 OR n = 0 FROM generate_series(0, 499) n;

SELECT count(put(who(n % 499 + 1), 'app.bsky.feed.like', key(n), jsonb_build_object('subject', subject(n)))) FROM generate_series(1, 10000) n;
SELECT count(put(who(n % 499 + 1), 'app.bsky.feed.repost', key(n), jsonb_build_object('subject', subject(n)))) FROM generate_series(1, 2000) n;
SELECT count(put(who(n / 20), 'app.bsky.graph.follow', key(n), jsonb_build_object('subject', who(n % 20 * (n % 7 + 1))))) FROM generate_series(0, 9999) n;
SELECT count(put(who(n / 2), 'app.bsky.graph.block', key(n), jsonb_build_object('subject', who((ARRAY[0, 7, 8, 9, 10, n % 300])[n % 6 + 1])))) FROM generate_series(0, 999) n;
SELECT put(who(7), 'app.bsky.graph.block', 'nobody', '{"subject": "nobody"}');
SELECT count(put(who(n / 50), 'app.bsky.graph.listitem', key(n), jsonb_build_object('list', CASE WHEN n % 3 = 0 THEN '$list' ELSE 'at://' || who(n) || '/app.bsky.graph.list/x' END, 'subject', who(n % 100))))
FROM generate_series(0, 999) n;
-- answers to the post, to these, and so on
SELECT count(put(who(n), 'app.bsky.feed.post', key(n), jsonb_build_object('text', 'no. ' || n, 'reply',
	jsonb_build_object('root', jsonb_build_object('uri', '$post'), 'parent', jsonb_build_object('uri', CASE WHEN n < 8 THEN '$post' ELSE aturi(who(n / 4), 'app.bsky.feed.post'::nsid, key(n / 4))::text END)),
	'facets', jsonb_build_array(jsonb_build_object('features', jsonb_build_array(jsonb_build_object('\$type', 'app.bsky.richtext.facet#mention', 'did', who(n % 9))))))))
FROM generate_series(1, 150) n;
SELECT count(put(who(n), 'app.bsky.feed.post', key(n), jsonb_build_object('text', 'no. ' || n, 'reply',
	jsonb_build_object('root', subject(5 * n + 2), 'parent', subject(5 * n + 2))))) FROM generate_series(151, 490) n;
SQL

# --- the blocks of the page, each with the plan after it ---

my %recipes;
push @{ $recipes{ $_->{heading} } }, $_ foreach recipes('doc/use/graph.md');
my @filling = map { $_->{text} } (grep { $_->{text} !~ /subscribe/ } @{ delete $recipes{'Filling it'} }), shift @{ $recipes{Counts} };
delete $recipes{Functions};

foreach my $sql (@filling)
{
	is($node->psql('postgres', $_), 0, 'runs: ' . (split /\n/)[0]) foreach split /(?<=;)\n/, $sql;
}
query('VACUUM (ANALYZE) atproto.record; ANALYZE atproto.repo');
is(query('SELECT count(*) FROM atproto.link_problems()'), '0', 'the links are those of the records');
cmp_ok(query('SELECT count(*) FROM atproto.link'), '>', 20000, 'they are many');

# --- the rows expected of each recipe, from a reading of all records, in any order ---

my $likes   = "FROM atproto.record WHERE collection = 'app.bsky.feed.like' AND value->'subject'->>'uri'";
my $both    = "IN ('$post', left('$post', -1) || '7')";
my $blocked = "SELECT did FROM atproto.record WHERE collection = 'app.bsky.graph.block' AND value->>'subject' = 'did:web:user7.example'
	UNION ALL SELECT (value->>'subject')::did FROM atproto.record WHERE collection = 'app.bsky.graph.block' AND did = 'did:web:user7.example' AND value->>'subject' <> 'nobody'";
my %slow = (
	Counts => [ "SELECT value->'subject'->>'uri', count(*) $likes $both GROUP BY 1" ],
	Likes => [
		"SELECT count(*) $likes = '$post'",
		"SELECT aturi(did, collection, rkey), did $likes = '$post' ORDER BY rkey DESC, did DESC LIMIT 20",
		"SELECT did, rkey $likes = '$post' ORDER BY rkey DESC, did DESC LIMIT 20",
		"SELECT value->'subject'->>'uri', count(*) $likes $both GROUP BY 1",
		"SELECT value->'subject'->>'uri', rkey $likes $both AND did = 'did:web:user7.example'"
	],
	Blocks => [
		"SELECT did FROM atproto.record WHERE collection = 'app.bsky.graph.block' AND value->>'subject' = '$me'",
		"SELECT did, rkey $likes = '$post' AND did NOT IN ($blocked) ORDER BY rkey DESC, did DESC LIMIT 50"
	],
	Lists => [
		"SELECT value->>'subject' FROM atproto.record WHERE collection = 'app.bsky.graph.listitem' AND did = '$me' AND value->>'list' = '$list' ORDER BY rkey DESC LIMIT 50",
		"SELECT DISTINCT value->>'list' FROM atproto.record WHERE collection = 'app.bsky.graph.listitem' AND value->>'subject' = 'did:web:user7.example'"
	],
	'Active accounts only' => [ "SELECT did, rkey $likes = '$post' AND did IN (SELECT did FROM atproto.repo WHERE active) ORDER BY rkey DESC, did DESC LIMIT 50" ]
);

# Planner settings that give the plans of a large table, in which few rows belong to one account.
my $large = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET random_page_cost = 1.1;';

is(join(' ', sort keys %recipes), join(' ', sort keys %slow), 'each section is tested');
foreach my $heading (sort keys %recipes)
{
	my @recipes = @{ $recipes{$heading} };

	is(scalar @recipes, scalar @{ $slow{$heading} }, "$heading: each recipe is tested");
	foreach my $i (0 .. $#recipes)
	{
		my ($sql, $plan) = @{ $recipes[$i] }{qw(text plan)};
		my $name  = "$heading, no. " . ($i + 1);
		my $found = join "\n", sort split /\n/, query($sql);

		ok($found ne '' && $found ne '0', "$name: finds something");
		is($found, join("\n", sort split /\n/, query($slow{$heading}[$i])), "$name: what records say");
		next unless defined $plan;
		is(join(', ', map { "`$_`" } query("$large EXPLAIN (COSTS OFF) $sql") =~ /((?:Index |Bitmap |Seq )[^\n]*Scan[^\n]* on (?:link_count|link|record|repo)\b)(?!_)/g),
			$plan, "$name: its plan");
	}
}

$node->stop;
done_testing();
