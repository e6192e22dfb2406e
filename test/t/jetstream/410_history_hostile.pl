# 410_history_hostile.pl
#		An archive's server that lies about numbers, sends frames that decompress for ever, refuses in the phase of the seam, or
#		has an empty archive: the consumer goes on or says why not, answers to a shutdown, and needs little memory (H-21, H-22,
#		H-41, H-51, H-53, H-61).
#
#		ATPROTO_SEED is the seed of the run.

use strict;
use warnings FATAL => 'all';

use FindBin;
use lib "$FindBin::RealBin/../../lib";

use AtprotoTest;
use AtprotoTest::Archive;
use AtprotoTest::Jetstream;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $archive = AtprotoTest::Archive->begin('--events' => 300, '--accounts' => 20);
my $node    = make_node('hostile', start => $archive->preload, conf => $archive->settings . "atproto.history_interval = 1s\n");
my $last    = $archive->last_seq;
my $network = $archive->network;
my $only    = $ENV{ONLY};
my $dir     = PostgreSQL::Test::Utils::tempdir('frames');

sub history { my ($name, $what) = @_; return query("SELECT $what FROM atproto.history_progress WHERE subscription = '$name'") }

sub begin_case
{
	my ($name, $options, %o) = @_;

	return 0 if $only && $only ne $name;
	$archive->serve({ block_rows => 20, segment_blocks => 5, %$options }, seal => $o{seal} // 0, stream => $o{stream} // [], texts => $o{texts});
	$o{before}->() if $o{before};
	query("CREATE SCHEMA $name");
	query($archive->subscription_sql($name, target => "'$name'", %{ $o{with} // {} }));
	return 1;
}

sub end_case { my ($name) = @_; query("SELECT atproto.unsubscribe('$name')"); $network->unfault(undef); return }

# --- H-61: a plan says how many blocks it names ---

if (begin_case('numbers', { matched => 999999999999999, page => 1 }, before => sub { $network->fault({ host => $AtprotoTest::Archive::HOST, path => 'getSegment', rate => 40000 }) }))
{
	wait_for(q{SELECT blocks > 0 AND planned_blocks > 1e12 FROM atproto.history WHERE subscription = 'numbers'});
	ok(defined try_query(q{SELECT count(ends_at) FROM atproto.history_progress}), 'H-61: numbers of a plan that cannot be true: the view can be read');
	$network->unfault(undef);
	$archive->wait_for_end('numbers');
	wait_for(q{SELECT phase IN ('seam', 'live') FROM atproto.history WHERE subscription = 'numbers'});
	is(query(q{SELECT count(*) FROM atproto.subscription_log WHERE subscription = 'numbers' AND event = 'crashed'}), '0', '... and they hinder nothing');
	is(query(q{BEGIN; UPDATE atproto.history SET phase = 'rows', planned_bytes = 1e18, bytes = 100, started_at = now() - interval '1 hour' WHERE subscription = 'numbers';
		SELECT count(ends_at) FROM atproto.history_progress; ROLLBACK}), '0', '... and a time beyond all times is no estimate');
	end_case('numbers');
}

# --- H-21: bombs ---

# Segments of $blocks frames: each has one row, of $mb MB, of an unwanted collection.
sub make_bombs
{
	my ($file, $blocks, $mb) = @_;

	IPC::Run::run([ $ENV{PYTHON} || '/usr/bin/python3', '-B', '-', test_dir(), $file, $blocks, $mb ], '<', \<<'EOP') or BAIL_OUT('no bombs');
import ctypes, struct, sys
test, file, blocks, mb = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
sys.path[:0] = [test + "/network"]
from segment import *
z = ctypes.CDLL("libzstd.so.1")
z.ZSTD_createCCtx.restype = ctypes.c_void_p
z.ZSTD_compress2.restype = z.ZSTD_compressBound.restype = ctypes.c_size_t
z.ZSTD_CCtx_setParameter.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
z.ZSTD_compress2.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
c = z.ZSTD_createCCtx()
z.ZSTD_CCtx_setParameter(c, 201, 1)
def frame(data):
    out = ctypes.create_string_buffer(len(data) // 100 + 65536)
    z.ZSTD_CCtx_setParameter(c, 200, 0)
    n = z.ZSTD_compress2(c, out, len(out), data, len(data))
    return out.raw[:n]
payload = bytes(mb * 1024 * 1024)
frames = []
for i in range(blocks):
    frames.append(frame(block_of([Row(i + 1, 1767225600000000, CREATE, b"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", b"com.example.bomb", b"a", b"3mdzzzzzzzz2a", payload)])))
body = b"".join(struct.pack("<Q", len(f)) + f for f in frames)
footer = HEADER_LEN + len(body)
head = bytearray(HEADER_LEN)
head[0:4] = b"jss0"
struct.pack_into("<QHIIIQQqqQQQQQ", head, 4, 1, 1, blocks, blocks, 1, 1, blocks, 0, 0, footer, footer, footer, footer, footer)
open(file, "wb").write(bytes(head) + body)
print(len(frames[0]), len(head) + len(body), file=sys.stderr)
EOP
	return;
}

# ATPROTO_BOMBS: so many blocks of 255 MB each, 8 kB of the wire; then the consumer is ended meanwhile.
if (!$only || $only eq 'bombs')
{
	my $blocks = $ENV{ATPROTO_BOMBS} // 2;

	make_bombs("$dir/bombs", $blocks, 255);
	my $plan = qq({"sealedTipSeq": $blocks, "plannedThroughSeq": $blocks, "segments": [{"name": "seg_0000000000.jss", "index": 0, "checksum": "0000000000000001", "minSeq": 1, "maxSeq": $blocks, "mode": "segment"}], "stats": {"blocksMatched": $blocks}});
	my $most = 0;

	begin_case('bombs', {}, with => { collections => "'{app.bsky.feed.post}'" }, before => sub {
		$network->fault({ host => $AtprotoTest::Archive::HOST, path => 'getSegment', status => 200, file => "$dir/bombs" });
		$network->fault({ host => $AtprotoTest::Archive::HOST, path => 'planSnapshot', status => 200, body => $plan });
	});
	wait_for(q{SELECT phase = 'rows' FROM atproto.history WHERE subscription = 'bombs'}) if $ENV{ATPROTO_BOMBS};
	my $begun = time;
	query(q{SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE backend_type = 'atproto consumer'}) if $ENV{ATPROTO_BOMBS};
	cmp_ok(time - $begun, '<', 2, 'H-02: a consumer that decompresses answers to a shutdown') if $ENV{ATPROTO_BOMBS};
	wait_until(
		sub {
			my $kb = private_memory(query(q{SELECT COALESCE((SELECT pid FROM pg_stat_activity WHERE backend_type = 'atproto consumer'), 0)}) || $$);
			$most = $kb if $kb > $most;
			return query(q{SELECT phase IN ('seam', 'live') FROM atproto.history WHERE subscription = 'bombs'}) eq 't';
		},
		'the end of the bombs');
	cmp_ok($most, '<', $MEMORY_MAX + 256 * 1024, "H-41: memory for a block that decompresses to 255 MB ($most kB)");
	is(query(q{SELECT count(*) FROM bombs.record WHERE collection = 'com.example.bomb'}), '0', '... of which no row is wanted');
	end_case('bombs');
}

# --- H-21: a frame without an end ---

if (begin_case('endless', { whole => 2 }, before => sub {
	$network->fault({ host => $AtprotoTest::Archive::HOST, path => 'getBlock', status => 200, base64 => 'KLUv/QQ4', repeat => 'A' x 40000, headers => { 'Content-Length' => undef } }) }))
{
	wait_for(q{SELECT error LIKE '%too large%' FROM atproto.history WHERE subscription = 'endless'});
	ok(1, 'H-21: a frame without an end is refused');
	end_case('endless');
}

# --- H-11: a server that cuts off whole files, and sends less than the range that was asked for ---

if (begin_case('ranges', { part => 4000 }, before => sub { $network->fault({ host => $AtprotoTest::Archive::HOST, path => 'getSegment', truncate => 9000 }) }))
{
	$archive->wait_for_end('ranges');
	wait_for(q{SELECT phase IN ('seam', 'live') FROM atproto.history WHERE subscription = 'ranges'});
	ok(1, 'H-11: a range that is shorter than asked for is followed by the next one');
	end_case('ranges');
}

# --- H-61: what the seam waits for ---

my @texts = read_capture($archive->texts_of);
if (begin_case('seam', {}, seal => 1, texts => write_capture("$dir/texts", @texts[ 130 .. $#texts ])))
{
	$archive->wait_for_end('seam');
	wait_for(q{SELECT NOT isempty(seams) FROM atproto.history WHERE subscription = 'seam'});
	is(history('seam', 'phase'), 'seam', 'not all is sealed');
	$archive->do(set => { token => 'other' });
	wait_for(q{SELECT waits_for LIKE '%401%' FROM atproto.history_progress WHERE subscription = 'seam'});
	$archive->do(set => { token => undef });
	$archive->do(seal => 0);
	wait_for(q{SELECT phase = 'live' AND waits_for IS NULL FROM atproto.history_progress WHERE subscription = 'seam'});
	end_case('seam');
}

# --- H-51: an archive that is empty ---

if (begin_case('empty', { block_rows => 1000 }, seal => 1, stream => [ '--oldest' => 100 ], with => { cursor => 50 }))
{
	$archive->wait_for_end('empty');
	is(query(q{SELECT seams @> 60::bigint, settled, cycles < 10 FROM atproto.history WHERE subscription = 'empty'}), 't|50|t', 'H-51: the cursor is too old, and the archive is empty: the stream goes on behind a seam');
	$archive->do(seal => 0);
	wait_for(q{SELECT phase = 'live' FROM atproto.history_progress WHERE subscription = 'empty'});
	is(query(q{SELECT seam_missing > 0 FROM atproto.history WHERE subscription = 'empty'}), 't', '... which the archive fills later');
	end_case('empty');
}

done_testing();
