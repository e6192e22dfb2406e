# 014_try.pl
#		try_did(text) and the corresponding functions of the other types return the value that the type's
#		input returns, and NULL where the input raises an error.  Tried with every line of the published
#		vectors, with whole tables of vectors and their columns, as a text for each of the types.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use PostgreSQL::Test::Utils;
use Test::More;

my @types = qw(did handle nsid recordkey atproto.tid cidlink aturi noshuri);
# The published files of a type's values, by the beginning of their names.
my %vectors = (did => 'did', handle => 'handle', nsid => 'nsid', recordkey => 'recordkey', 'atproto.tid' => 'tid', aturi => 'aturi');

my $node = make_node('try');
my $dir  = test_dir() . '/data/vectors';

$node->safe_psql('postgres', <<'EOQ');
CREATE TABLE vector (file text, v text);
CREATE FUNCTION taken(type text, v text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT %L::%s::text', v, type) INTO result;
	RETURN result;
EXCEPTION WHEN invalid_text_representation THEN
	RETURN NULL;
END $$;
CREATE FUNCTION tried(type text, v text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
BEGIN
	EXECUTE format('SELECT try_%s(%L)::text', replace(type, 'atproto.', ''), v) INTO result;
	RETURN result;
END $$;
EOQ

foreach my $path (glob "$dir/interop/*.txt $dir/derived/*.tsv")
{
	my ($file) = $path =~ m{([^/]+)$};

	$node->safe_psql('postgres', "INSERT INTO vector SELECT DISTINCT '$file', v FROM string_to_table(pg_read_file('$path'), E'\\n') line, string_to_table(line, E'\\t') v");
}
cmp_ok($node->safe_psql('postgres', 'SELECT count(*) FROM vector'), '>', 1000, 'there are vectors');

foreach my $type (@types)
{
	my ($valid, $wrong) = split /\|/, $node->safe_psql('postgres', qq{
		SELECT count(taken), coalesce(string_agg(format('%L', v), ' ') FILTER (WHERE tried IS DISTINCT FROM taken), '')
		FROM (SELECT v, taken('$type', v), tried('$type', v) FROM (SELECT DISTINCT v FROM vector) d) t}), -1;

	cmp_ok($valid, '>', 5, "$type: values among the vectors");
	is($wrong, '', 'each text gives what input gives');
}
foreach my $type (sort keys %vectors)
{
	is($node->safe_psql('postgres', "SELECT count(*) > 2, bool_and(tried('$type', v) IS NOT NULL) FROM vector WHERE file = '$vectors{$type}_syntax_valid.txt' AND v !~ '^(#|\$)'"),
		't|t', "$type: what is published as valid");
}
is($node->safe_psql('postgres', q{SELECT count(*) > 2, bool_and(try_datetime(v) IS NOT NULL OR v ~ '^(0000-|0001-01-01|9999-12-31)') FROM vector WHERE file = 'datetime_syntax_valid.txt' AND v !~ '^(#|$)'}), 't|t', 'datetimes within the limits of drivers');
is($node->safe_psql('postgres', q{SELECT count(*) > 2, count(try_datetime(v)) FROM vector WHERE file IN ('datetime_syntax_invalid.txt', 'datetime_parse_invalid.txt') AND v !~ '^#'}), 't|0', 'and what are none');

$node->stop;
done_testing();
