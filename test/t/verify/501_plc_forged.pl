# 501_plc_forged.pl
#		atproto.plc_check() judges logs of did:plc accounts as the second verifier, test/oracle/plc_chain.py, does: honest
#		logs, forged logs of all kinds of plc_forge.py, a fifth of them wrong for two reasons (M-01 to M-09), and logs with
#		a few random changes.
#
#		ATPROTO_SEED is the seed, ATPROTO_PLC_HONEST the number of honest operations, ATPROTO_PLC_CHAINS the number of forged
#		logs, ATPROTO_PLC_MUTATED the number of changed logs.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Plc;
use Test::More;

my $seed = seed();
my $node = make_node('plc_forged');
my %made = (
	honest => [ operations => $ENV{ATPROTO_PLC_HONEST} // 2000 ],
	forged => [ chains => $ENV{ATPROTO_PLC_CHAINS} // 1000 ],
	mutated => [ chains => $ENV{ATPROTO_PLC_MUTATED} // 500 ]);

foreach my $what (sort keys %made)
{
	my $file = plc_chains_file($what, @{ $made{$what} }, seed => $seed);

	# expect and judged of a log: [[reason, nullified_by from 1], ...]
	query(<<"EOSQL");
CREATE TABLE plc_$what AS
SELECT l ->> 'kind' AS kind, l -> 'log' AS log, (l ->> 'at')::integer AS at, e.expect, j.judged
FROM regexp_split_to_table(trim(pg_read_file('$file'), E'\\n'), E'\\n') AS t, LATERAL (SELECT t::jsonb) AS p(l),
	LATERAL (SELECT jsonb_agg(jsonb_build_array(x -> 0, (x ->> 1)::integer + 1) ORDER BY n) FROM jsonb_array_elements(l -> 'expect') WITH ORDINALITY AS x(x, n)) AS e(expect),
	LATERAL (SELECT jsonb_agg(jsonb_build_array(reason, nullified_by) ORDER BY n) FROM atproto.plc_check(l -> 'log')) AS j(judged)
EOSQL
	is(query("SELECT coalesce(string_agg(DISTINCT kind || ': ' || (expect -> at) || ', not ' || (judged -> at), E'\\n'), '') FROM plc_$what WHERE (expect -> at) <> (judged -> at)"),
		'', "$what: the forged operation is refused for its reason");
	is(query(<<"EOSQL"), '', "$what: all operations have the verdict of the second verifier");
SELECT coalesce(string_agg(text, E'\\n' ORDER BY text), '') FROM (
	SELECT format('%s logs: %s, not %s: %s', count(*), e, j, min((log -> (n - 1)::integer)::text)) AS text
	FROM plc_$what, ROWS FROM (jsonb_array_elements(expect), jsonb_array_elements(judged)) WITH ORDINALITY AS v(e, j, n)
	WHERE expect <> judged AND e IS DISTINCT FROM j GROUP BY e, j LIMIT 9) AS t
EOSQL
}

cmp_ok(query('SELECT sum(jsonb_array_length(log)) FROM plc_honest'), '>=', $made{honest}[1], 'honest: so many operations');
is(query("SELECT count(*) FROM plc_honest, jsonb_array_elements(judged) AS j WHERE j ->> 0 IS NOT NULL"), '0', 'honest: none is refused');
cmp_ok(query("SELECT count(*) FROM plc_honest, jsonb_array_elements(judged) AS j WHERE j ->> 1 IS NOT NULL"), '>', 100, 'honest: recoveries nullify operations');
is(query('SELECT count(*) FROM plc_forged'), $made{forged}[1], 'forged: so many logs');
is(query("SELECT string_agg(DISTINCT judged -> at ->> 0, ' ' ORDER BY judged -> at ->> 0) FROM plc_forged"),
	'cid did encoding form genesis key late nullified order prev signature tombstone', 'forged: of all reasons');

# M-50: exactly the entry with the wrong mark is refused.
is(query(<<'EOSQL'), '0', 'honest: a wrong mark of any operation is refused');
SELECT count(*) FROM plc_honest, LATERAL (SELECT count(*)::integer FROM jsonb_array_elements(log)) AS s(size), LATERAL (SELECT length(kind || log::text) % size) AS w(which),
	atproto.plc_check(jsonb_set(log, ARRAY[which::text, 'nullified'], to_jsonb(NOT (log -> which ->> 'nullified')::boolean))) AS c
WHERE (c.reason IS NOT DISTINCT FROM 'nullified') <> (c.n = which + 1)
EOSQL

done_testing();
