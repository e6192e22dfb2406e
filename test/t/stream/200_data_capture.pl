# 200_data_capture.pl
#		Runs the SQL functions of the data model on every block of a real capture: each block becomes the
#		same jsonb as its JSON text, to the byte, and the jsonb becomes the block again (B-11, B-27),
#		wherever jsonb can hold the value (D28).

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use Test::More;

my $node = make_node('data', preload => 0);
$node->safe_psql('postgres', <<'SQL');
CREATE CAST (jsonb AS bytea) WITHOUT FUNCTION;	-- to see the bytes of a jsonb
CREATE TABLE frame (n int, bytes bytea);
-- dagcbor_to_jsonb(), and why it could not
CREATE FUNCTION try(block bytea, OUT j jsonb, OUT state text) LANGUAGE plpgsql AS $$
BEGIN
	j := dagcbor_to_jsonb(block);
	state := 'ok';
EXCEPTION WHEN OTHERS THEN
	state := sqlstate;
END $$;
SQL

my @messages = read_capture(capture('pds.frames.gz'));
my $n = 0;
$node->safe_psql('postgres', join "\n", 'COPY frame FROM STDIN;',
	map({ ++$n . "\t\\\\x" . unpack 'H*', $_ } @messages), "\\.\n");
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE block AS
SELECT DISTINCT b.cid, b.block
FROM (SELECT (atproto.frame(bytes)).payload->'blocks'->>'$bytes' AS base64 FROM frame WHERE (atproto.frame(bytes)).t = '#commit') f,
	car_blocks(decode(rpad(base64, (length(base64) + 3) / 4 * 4, '='), 'base64')) b;
CREATE TABLE made AS SELECT cid, block, t.* FROM block, try(block) t;
SQL

is($node->safe_psql('postgres', 'SELECT count(*) FROM frame'), $PDS_LAST, 'frames loaded');
is($node->safe_psql('postgres', 'SELECT t, count(*), count(payload) FROM frame, atproto.frame(bytes) f GROUP BY t ORDER BY t'),
	"#account|82|82\n#commit|1390|1390\n#identity|70|70\n#sync|58|58", 'atproto.frame');
is($node->safe_psql('postgres', 'SELECT state, count(*) FROM made GROUP BY state ORDER BY state'),
	"22P05|155\nok|8807", 'dagcbor_to_jsonb: all but what has U+0000');
is($node->safe_psql('postgres', q{SELECT count(*) FROM made WHERE state = 'ok' AND j::bytea IS DISTINCT FROM (j::text::jsonb)::bytea}),
	'0', 'B-27: the image is that of jsonb_in');
is($node->safe_psql('postgres', q{SELECT count(*) FROM made WHERE state = 'ok' AND jsonb_to_dagcbor(j) IS DISTINCT FROM block}),
	'0', 'B-11: and back to the same bytes');
is($node->safe_psql('postgres', q{SELECT count(*) FROM made WHERE state = 'ok' AND cidlink_of(jsonb_to_dagcbor(j)) IS DISTINCT FROM cid}),
	'0', 'B-27: and to the same CID');
is($node->safe_psql('postgres', q{SELECT count(*) FROM made WHERE state = 'ok' AND json_to_dagcbor(j::text::json) IS DISTINCT FROM block}),
	'0', 'J-05: the same from a text');
is($node->safe_psql('postgres', 'SELECT action, count(*), count(cid), count(value) FROM frame, atproto.frame_records(bytes) r GROUP BY action ORDER BY action'),
	"create|2945|2945|2792\ndelete|146|0|0\nupdate|150|150|148", 'atproto.frame_records');
is($node->safe_psql('postgres', q{SELECT count(*) FROM frame, atproto.frame_records(bytes) r JOIN made USING (cid) WHERE r.value IS DISTINCT FROM made.j}),
	'0', 'the same values as from the blocks');

# The same through parallel workers, which load the library anew.
is($node->safe_psql('postgres', <<'SQL'), '8807', 'in parallel');
SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
SELECT count(dagcbor_to_jsonb(block)) FROM made WHERE state = 'ok'
SQL

# A database whose encoding cannot hold all of Unicode.
$node->safe_psql('postgres', q{CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0});
$node->safe_psql('latin', 'CREATE EXTENSION atproto');
my ($rc, $out, $err) = $node->psql('latin', q{SELECT dagcbor_to_jsonb('\x6161')}, on_error_stop => 1);
like($err, qr/needs a database with encoding UTF8/, 'another encoding is refused');

$node->stop;
done_testing();
