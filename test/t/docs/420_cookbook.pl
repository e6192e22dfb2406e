# 420_cookbook.pl
#		Runs every statement of doc/use/cookbook.md on a network with many hostile records.  Each recipe
#		gives the rows that test/oracle/recipes.py computes from all events, and uses the plan that the page
#		names.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Clients;
use AtprotoTest::Pages;
use File::Copy;
use IPC::Run;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $page   = 'doc/use/cookbook.md';
my $python = $ENV{PYTHON} || '/usr/bin/python3';
my $files  = PostgreSQL::Test::Utils::tempdir('cookbook');
my ($simulated, $expected) = simulate(
	'--events' => 3000, '--accounts' => 60, '--history' => 0, '--exports' => "$files/exports",
	'--mix' => 'account=4,delete=8,update=6,sync=0,like=40,post=30,profile=3');
my $now     = time . '000000';
my $capture = make_capture('recipes.py', 'make', $now, $simulated);
my $last    = read_capture($capture);
my $server  = AtprotoTest::Server->start($capture, '--hold-at', $last - 1000);
my $node    = make_node('cookbook', conf => "timezone = 'UTC'\n");

IPC::Run::run([ $python, '-B', test_dir() . '/oracle/recipes.py', 'answer', $now, $capture ], '>', \my $answers) or BAIL_OUT('no answers');
$answers = decode_json($answers);

# The rows of a query, each as an array.
sub rows
{
	my ($sql) = @_;
	my $rows = query("SELECT json_agg((SELECT json_agg(value ORDER BY n) FROM json_each(to_json(q)) WITH ORDINALITY j (key, value, n))) FROM ("
		  . ($sql =~ s/;\s*\z//r) . "\n) q");

	return $rows eq '' ? [] : decode_json($rows);
}

# Tests that the query gives these rows; in this order if the query has ORDER BY.
sub answers
{
	my ($sql, $answer, $name) = @_;
	my @both = (rows($sql), $answer);

	@both = map { [ sort { "@$a[0, 1]" cmp "@$b[0, 1]" } @$_ ] } map { [ map { [ @$_, '' ] } @$_ ] } @both if $sql !~ /ORDER BY [^()]*\z/;
	cmp_ok(scalar @$answer, '>', 0, "$name: there is something to find");
	my @texts = map { [ map { join('|', map { substr $_ // '', 0, 100 } @$_) } @$_ ] } @both;
	my %in = map { my $i = $_; map { $_ => $i } @{ $texts[$i] } } 0, 1;
	my %two = map { $_ => 1 } grep { my $t = $_; grep { $_ eq $t } @{ $texts[0] } } @{ $texts[1] };
	is_deeply(@both, $name) or diag(join("\n", map { ('found: ', 'expected: ')[ $in{$_} ] . $_ } grep { !$two{$_} } sort keys %in));
	return;
}

# Planner settings that give the plans of a large table, in which few rows belong to one account.
my $large = 'SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET random_page_cost = 1.1;';

sub plan_is
{
	my ($recipe, $name) = @_;
	my $settings = $recipe->{plan} =~ /Bitmap/ ? $large =~ s/SET enable_bitmapscan = off;//r : $large;
	my $plan = query("$settings EXPLAIN (COSTS OFF) $recipe->{text}");
	my %scans;

	# the planner may reorder joins
	$scans{"`$_`"} = 1 foreach $plan =~ /((?:Index |Bitmap Heap |Seq )[^\n]*Scan[^\n]* on (?:link|record|repo|post_likes)\b)(?!_)/g;
	is(join(', ', sort keys %scans), join(', ', sort split /, /, $recipe->{plan}), "$name: its plan") or diag($plan);
	return;
}

# --- the expected answers of the page's recipes, by section, in order ---

my %recipes;
push @{ $recipes{ $_->{heading} } }, $_ foreach recipes($page);

sub next_of
{
	my ($heading) = @_;
	my $recipe = shift @{ $recipes{$heading} } // BAIL_OUT("$heading: there are not so many recipes");

	delete $recipes{$heading} unless @{ $recipes{$heading} };
	return $recipe;
}

my $url = $server->url;
query(next_of('Preparation')->{text} =~ s{'wss://bsky\.network'}{'$url', cursor => 0}r);
wait_for_seq($node, 'network', $last - 1001);
query(next_of('A feed with like counts')->{text});
query(next_of('Full-text search')->{text});
$server->release;
wait_for_seq($node, 'network', $last);
is(query("SELECT string_agg(concat_ws(' ', path, message), E'\\n') FROM atproto.dead_letter"), '', 'no record is refused, whatever is in it');
tables_match($node, $capture, 'the records are those of the stream');
query('VACUUM (ANALYZE) atproto.record, atproto.link, atproto.repo, post_likes');

my @asked = (
	[ 'The posts of an account' => 'account' ],
	[ 'A timeline'              => 'home' ],
	[ 'Followers and follows'   => 'followers', 'following', 'numbers', 'mutual' ],
	[ 'A thread'                => 'thread' ],
	[ 'Notifications'           => 'notifications' ],
	[ 'A feed with like counts' => 'popular' ],
	[ 'Hashtags and languages'  => 'hashtags', 'languages' ],
	[ 'Full-text search'          => 'words' ]);
foreach (@asked)
{
	my ($heading, @names) = @$_;

	foreach my $name (@names)
	{
		my $recipe = next_of($heading);

		answers($recipe->{text}, $answers->{$name}, "$heading: $name");
		plan_is($recipe, "$heading: $name");
	}
}

# From any answer up; the first post of the page answers itself.
my $above = next_of('A thread');
my ($did, $rkey) = $answers->{deepest} =~ m{^at://([^/]+)/[^/]+/(.*)} or BAIL_OUT('no thread');
answers($above->{text}, $answers->{itself}, 'A thread: above a post that answers itself');
plan_is($above, 'A thread: above');
answers($above->{text} =~ s/WHERE did = '[^']*' AND rkey = '[^']*'/WHERE did = '$did' AND rkey = '$rkey'/r, $answers->{above}, 'A thread: above an answer');

my $names = next_of('Names and avatars');
plan_is($names, 'Names and avatars');
my $named = query("SELECT min(r.did::text) FROM atproto.repo r JOIN atproto.record p ON p.did = r.did AND p.collection = 'app.bsky.actor.profile' AND p.rkey = 'self'");
query("UPDATE atproto.record SET value = value || '{\"displayName\": \"Alice\", \"avatar\": {\"ref\": {\"\$link\": \"bafy\"}}}' WHERE did = '$named' AND collection = 'app.bsky.actor.profile' AND rkey = 'self';"
	. " UPDATE atproto.repo SET handle = 'announced.example.com' WHERE did = '$named'");
my $of = $names->{text} =~ s/IN \('[^)]*'\)/IN ('$named')/r;
is(query($of), "$named|announced.example.com|f|Alice|", 'Names and avatars: a handle that is announced');
query("INSERT INTO atproto.identity (did, state, key, pds, handle_claimed, handle_state) VALUES ('$named', 'good', decode(repeat('00', 35), 'hex'), 'pds.example.com', 'alice.example.com', 'valid')");
is(query($of), "$named|alice.example.com|t|Alice|https://pds.example.com/xrpc/com.atproto.sync.getBlob?did=$named&cid=bafy", 'Names and avatars: a handle that is verified');
query('DELETE FROM atproto.identity');

my $likes = 'SELECT did, rkey, likes FROM post_likes WHERE likes <> 0';
answers($likes, $answers->{likes}, 'A feed with like counts: all numbers');

# row by row, so that the table's page has room for new versions
query("INSERT INTO atproto.record (did, collection, rkey, cid, rev, value)
	VALUES ('$did', 'app.bsky.feed.like', 'like$_', cidlink_of(''), '3jwdwj2ctlk26', '{\"subject\": {\"uri\": \"$answers->{deepest}\"}}')") foreach 1 .. 20;
query("DELETE FROM atproto.record WHERE did = '$did' AND rkey = 'like$_'") foreach 1 .. 20;
wait_for(q{SELECT n_tup_hot_upd > 30 FROM pg_stat_user_tables WHERE relname = 'post_likes'});
answers($likes, $answers->{likes}, 'A feed with like counts: numbers that were changed in place');

# --- files ---

my $copy = next_of('CSV and Parquet')->{text};
append_to_file("$files/posts.sql", $copy);
IPC::Run::run([ 'psql', '-Xq', '-d', $node->connstr, '-f', "$files/posts.sql" ], '>', "$files/posts.csv") or BAIL_OUT('no CSV');
my $read = 'import csv, json, sys; csv.field_size_limit(10**7); json.dump(list(csv.reader(open(sys.argv[1], encoding="utf-8", newline=""))), sys.stdout)';
IPC::Run::run([ $python, '-c', $read, "$files/posts.csv" ], '>', \my $csv) or BAIL_OUT('the CSV is none');
$csv = decode_json($csv);
is_deeply(shift @$csv, [qw(uri did time text)], 'CSV: its first line');
# csv.reader knows no NULL
is_deeply([ sort { $a->[0] cmp $b->[0] } @$csv ], [ map { [ map { $_ // '' } @$_ ] } @{ $answers->{export} } ], 'CSV: the posts');

SKIP:
{
	my ($script) = page_text($page) =~ /^```js\n(.*?)^```/ms;
	my $where = npm_directory();
	my $duckdb = sub {
		my ($text) = @_;
		my ($out, $err) = ('', '');

		unlink "$where/parquet.mjs";
		append_to_file("$where/parquet.mjs", $text);
		IPC::Run::run([ 'node', 'parquet.mjs' ], init => sub { chdir $where }, '>', \$out, '2>', \$err) or BAIL_OUT("DuckDB: $err");
		return $out;
	};

	skip 'test/clients/node_modules has no DuckDB (npm install in test/clients)', 1 unless defined $where && -d "$where/../node_modules/\@duckdb";
	copy("$files/posts.csv", $where) or BAIL_OUT("no copy: $!");
	$duckdb->($script);
	my $rows = $duckdb->(<<'JS');
import { DuckDBInstance } from '@duckdb/node-api';
const duckdb = await (await DuckDBInstance.create()).connect();
const rows = await duckdb.runAndReadAll(`SELECT uri, did, strftime(time AT TIME ZONE 'UTC', '%Y-%m-%d %H:%M:%S.%f+00') AS time, text FROM 'posts.parquet'`);
console.log(JSON.stringify(rows.getRowsJson()));
JS
	is_deeply([ sort { $a->[0] cmp $b->[0] } @{ decode_json($rows) } ],
		[ map { my @row = @$_; $row[2] = full_time($row[2]); \@row } @{ $answers->{export} } ], 'Parquet: the posts');
}

# A time as PostgreSQL writes it, with all six digits of its fraction.
sub full_time
{
	my ($time) = @_;
	return undef unless defined $time;
	my ($seconds, $fraction) = $time =~ /^([^.]*)\.?(\d*)\+00$/ or BAIL_OUT("no time: $time");
	return "$seconds." . substr("${fraction}000000", 0, 6) . '+00';
}

# The repository with most records.
my %records;
foreach (split /\n/, slurp_file("$expected/record"))
{
	my ($who, $collection) = split /\t/;
	$records{$who}{$collection}++;
}
my ($most) = sort { ($records{$b}{'app.bsky.feed.post'} // 0) <=> ($records{$a}{'app.bsky.feed.post'} // 0) } grep { -e "$files/exports/1/$_.car" } sort keys %records;
my %of = %{ $records{$most} };
rename "$files/exports/1/$most.car", "$files/repo.car" or BAIL_OUT("no export: $!");
my $load = next_of('A repository from a file')->{text};
my ($counted, $errors) = ('', '');
IPC::Run::run([ 'psql', '-XqAt', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr ], '<', \$load, init => sub { chdir $files }, '>', \$counted, '2>', \$errors) or BAIL_OUT($errors);
is($counted, join('', map { "$_|$of{$_}\n" } sort { $of{$b} <=> $of{$a} || $a cmp $b } keys %of), 'a repository from a file: its records');
is(query('SELECT count(*) FROM pg_largeobject_metadata'), '0', 'a repository from a file: nothing else is left');

# --- old records are removed, with the rows derived from them ---

my $old = "collection = 'app.bsky.feed.like' AND indexed_at < now() - interval '30 days'";
query("UPDATE atproto.record SET indexed_at = now() - interval '31 days' WHERE hashtext(rkey::text) % 2 = 0");
my ($others, $going) = split /\|/, query("SELECT count(*) FILTER (WHERE NOT ($old)), count(*) FILTER (WHERE $old) FROM atproto.record");
cmp_ok($going, '>', 100, 'some likes are old');
my ($brin) = page_text($page) =~ /`(CREATE INDEX [^`]*USING brin [^`]*)`/;
my $retention = next_of('Retention')->{text};
query($brin);
like(query("SET enable_seqscan = off; SET enable_indexscan = off; EXPLAIN $retention"), qr/Bitmap Index Scan on record_indexed_at_idx/, 'Retention: the index on indexed_at is used');
is(query($retention), $going, 'as many as it says are removed');
is(query("SELECT count(*) FILTER (WHERE NOT ($old)), count(*) FILTER (WHERE $old) FROM atproto.record"), "$others|0", 'old likes are gone, and nothing else');
is(query('SELECT count(*), (SELECT count(*) > 1000 FROM atproto.link) FROM atproto.link_problems()'), '0|t', 'and so are their links');
my $counts = "SELECT aturi_did(u), aturi_rkey(u), count(*) FROM (SELECT atproto.record_field(value, '{subject,uri}', NULL::aturi) AS u FROM atproto.record WHERE collection = 'app.bsky.feed.like') l
	WHERE aturi_collection(u) = 'app.bsky.feed.post' AND aturi_did(u) IS NOT NULL AND aturi_rkey(u) IS NOT NULL GROUP BY 1, 2";
is(query("SELECT count(*) FROM (($likes EXCEPT ALL $counts) UNION ALL ($counts EXCEPT ALL $likes)) d"), '0', 'and the numbers are those of the likes that are left');

# records without any link count, too
query("INSERT INTO atproto.record (did, collection, rkey, cid, rev, indexed_at, value) VALUES
	('$did', 'app.bsky.feed.like', 'foul', cidlink_of(''), '3jwdwj2ctlk26', now() - interval '31 days', '{}')");
is(query($retention), '1', 'a like of nothing is removed, and counted');
is(query($retention), '0', 'then there is none that is old');

# a record is rewritten while the statement waits for its lock, with and without the recipe's lock
foreach my $turns (1, 0)
{
	query("INSERT INTO atproto.record (did, collection, rkey, cid, rev, indexed_at, value) VALUES
		('$did', 'app.bsky.feed.like', 'anew', cidlink_of(''), '3jwdwj2ctlk26', now() - interval '31 days', '{\"subject\": {\"uri\": \"$answers->{deepest}\"}}')");
	my ($writer, $remover) = map { $node->background_psql('postgres') } 1, 2;
	$writer->query_safe("BEGIN; UPDATE atproto.record SET indexed_at = now() WHERE did = '$did' AND rkey = 'anew';
		INSERT INTO atproto.link SELECT '$answers->{deepest}', id, 'anew', '$did' FROM atproto.link_source WHERE (collection, path) = ('app.bsky.feed.like', 'subject.uri')");
	if ($turns)
	{
		$remover->query_until(qr/begun/, "\\echo begun\n$retention");
		wait_for(q{SELECT count(*) = 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%AS removed%'});
	}
	else
	{
		is($remover->query_safe("SET lock_timeout = '${AtprotoTest::TIMEOUT}s'; $retention"), '0', 'a like that is being written anew is not waited for');
	}
	$writer->query_safe('COMMIT');
	$remover->query_safe('SELECT 1');
	$_->quit foreach $writer, $remover;
	is(query("SELECT count(*) FROM atproto.record WHERE did = '$did' AND rkey = 'anew'"), '1', 'a like that was written anew meanwhile is young, and stays');
	is(query('SELECT count(*) FROM atproto.link_problems()'), '0', 'and its link belongs to it');
	query("DELETE FROM atproto.record WHERE did = '$did' AND rkey = 'anew'; DELETE FROM atproto.link WHERE did = '$did' AND rkey = 'anew'; DROP TRIGGER IF EXISTS likes_turns ON atproto.record");
}

is(join(', ', sort keys %recipes), '', 'every recipe is tested');

# --- "the newest" is said in the same way on all pages ---

my (@newest, @otherwise);
foreach my $block (map { blocks($_, 'sql') } pages())
{
	foreach my $sql (grep { /\bORDER BY [^()]*\b(?:rkey|tid|created_at) DESC/ } split /;\n/, $block->{text})
	{
		push @{ $sql =~ /\brkey <= tid_ceil\(now\(\)\)(?!::)/ ? \@newest : \@otherwise }, "$block->{page}:$block->{line}";
	}
}
cmp_ok(scalar @newest, '>', 10, 'many statements ask for the newest');
is("@otherwise", '', 'none forgets the year 2100');
$node->stop;
done_testing();
