# 015_draft_vectors.pl
#		Runs each vector of test/data/vectors/drafts, and compares the files with what make.py writes there.
#		doc/develop/drafts.md has the table of requirements.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use JSON::PP;
use PostgreSQL::Test::Utils;
use Test::More;

my $dir  = test_dir() . '/data/vectors/drafts';
my $node = make_node('vectors');

is(join(' ', split /\n/, `$dir/make.py --check 2>&1`), '', 'the files are what make.py writes');

query(<<'EOQ');
CREATE TABLE vector (file text, v jsonb);
-- The result of an expression with the text or bytes $1; NULL: an error of input.
CREATE FUNCTION result(expression text, v jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE 'SELECT (' || expression || ')::text' INTO result USING v;
	RETURN result;
EXCEPTION WHEN data_exception OR data_corrupted THEN
	RETURN NULL;
END $$;
CREATE FUNCTION records(car bytea) RETURNS jsonb LANGUAGE sql AS
	'SELECT coalesce(jsonb_object_agg(substr(aturi_path(uri), 2), cid), ''{}'') FROM car_records(car)';
CREATE FUNCTION root(records jsonb) RETURNS cidlink LANGUAGE sql AS
	'SELECT atproto.repo_root(key, value::cidlink ORDER BY key COLLATE "C") FROM jsonb_each_text(records)';
EOQ

# Of each file: an expression of $1, the vector, and the expression that its result must be equal to, as texts.
my %runs = (
	# A-01, A-02, A-03, A-13, A-17, A-30, A-31, A-33, A-34, A-36, N5
	aturi => [
		[ q{CASE WHEN aturi_is_strict(($1->>'text')::aturi) THEN 'strict' WHEN aturi_is_lexicon(($1->>'text')::aturi) THEN 'lexicon' ELSE 'general' END}, q{$1->>'level'} ],
		[ q{aturi_normalize($1->>'text')}, q{$1->>'normal'} ] ],
	# A-42
	aturi_from => [ [ q{aturi_from($1->>'text')}, q{$1->>'uri'} ] ],
	# I-01, I-10, I-20, K-01, K-02, K-03
	identifiers => [
		[ q{CASE $1->>'type' WHEN 'did' THEN ($1->>'text')::did::text WHEN 'handle' THEN ($1->>'text')::handle::text
			WHEN 'nsid' THEN ($1->>'text')::nsid::text WHEN 'recordkey' THEN ($1->>'text')::recordkey::text END},
			q{CASE WHEN ($1->>'valid')::boolean THEN CASE WHEN $1->>'type' = 'handle' THEN lower($1->>'text') ELSE $1->>'text' END END} ] ],
	# T-01, T-03
	tid => [
		[ q{($1->>'text')::atproto.tid::bigint}, q{$1->>'integer'} ],
		[ q{tid_clock_id(($1->>'text')::atproto.tid)}, q{$1->>'clock'} ],
		[ q{($1->>'text')::atproto.tid::bigint >> 10}, q{$1->>'microseconds'} ],
		[ q{($1->>'text')::atproto.tid}, q{CASE WHEN ($1->>'valid')::boolean THEN $1->>'text' END} ] ],
	# B-40, B-41, B-44
	cid => [
		[ q{encode(($1->>'text')::cidlink::bytea, 'hex')}, q{$1->>'binary'} ],
		[ q{cidlink_of(decode($1->>'data', 'hex'), $1->>'codec')}, q{CASE WHEN ($1->>'valid')::boolean THEN $1->>'text' END} ] ],
	# B-01, B-02, B-03, B-04, B-05, B-25, J-03
	dagcbor => [
		[ q{dagcbor_to_jsonb(decode($1->>'bytes', 'hex'))}, q{CASE WHEN ($1->>'valid')::boolean THEN $1->'json' END} ],
		[ q{encode(jsonb_to_dagcbor($1->'json'), 'hex')}, q{CASE WHEN ($1->>'valid')::boolean THEN $1->>'bytes' END} ],
		[ q{encode(json_to_dagcbor(($1->'json')::text::json), 'hex')}, q{CASE WHEN ($1->>'valid')::boolean THEN $1->>'bytes' END} ],
		[ q{CASE WHEN ($1->>'valid')::boolean THEN cidlink_of(decode($1->>'bytes', 'hex')) END}, q{$1->>'cid'} ] ],
	# B-63, V-21
	mst => [ [ q{root($1->'records')}, q{$1->>'root'} ] ],
	# B-60, B-61, V-05, V-06, V-07, V-08
	commit => [ [ q{coalesce(result('atproto.verify_commit(decode($1->>''car'', ''base64''), $1->>''key'')', $1), 'invalid')}, q{$1->>'result'} ] ],
	# B-50, B-52, B-53, R-40, R-43
	car => [ [ q{records(decode($1->>'car', 'base64'))}, q{NULLIF($1->'records', 'null')} ] ],
	# E-20, E-21, E-23, E-26, E-27
	frame => [
		[ q{(SELECT jsonb_build_array(f.op, f.t, f.payload) FROM atproto.frame(decode($1->>'bytes', 'hex')) f)},
			q{CASE WHEN ($1->>'valid')::boolean THEN jsonb_build_array($1->'op', $1->'t', $1->'payload') END} ] ],
	# V-18, V-26
	inversion => [
		[ q{CASE WHEN coalesce(result('atproto.invert(decode($1->>''car'', ''base64''), $1->''ops'')', $1), '-') = $1->>'prevData' THEN $1->>'prevData' ELSE 'other' END},
			q{$1->>'before'} ] ],
);

# mst_layer.json is for test_mst.c: no function of SQL tells the layer of a key.
my @files = grep { $_ ne 'mst_layer' } map { m{([^/]+)\.json$} } glob "$dir/*.json";
is("@files", join(' ', sort keys %runs), 'each file is run');
foreach my $file (@files)
{
	my $vectors = @{ decode_json(slurp_file("$dir/$file.json"))->{vectors} };

	cmp_ok($vectors, '>', 5, "$file: $vectors vectors");
	query("INSERT INTO vector SELECT '$file', jsonb_array_elements(pg_read_file('$dir/$file.json')::jsonb->'vectors')");
	foreach my $run (@{ $runs{$file} })
	{
		my ($expression, $expected) = map { "\$e\$$_\$e\$" } @$run;

		is(query("SELECT count(*), coalesce(string_agg(format('%s: %s', left(v::text, 300), got), E'\\n') FILTER (WHERE got IS DISTINCT FROM wanted), '')"
				. " FROM (SELECT v, result($expression, v) AS got, result($expected, v) AS wanted FROM vector WHERE file = '$file') r"),
			"$vectors|", "$file: $run->[0]");
	}
}

$node->stop;
done_testing();
