/*
 * test_inflate.c
 *		gzip from a hostile server: rule W-55.
 */
#include <zlib.h>

#include "net/inflate.h"
#include "unit.h"

#define MB	(1024 * 1024)

static uint8_t packed[2 * MB];

/* Packs n equal bytes as one member; returns the packed length. */
static size_t
pack(uint8_t *out, size_t room, int byte, size_t n)
{
	static uint8_t piece[65536];
	z_stream	z = {0};

	memset(piece, byte, sizeof(piece));
	(void) deflateInit2(&z, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
	z.next_out = out;
	z.avail_out = (uInt) room;
	while (n > 0)
	{
		z.next_in = piece;
		z.avail_in = (uInt) (n < sizeof(piece) ? n : sizeof(piece));
		n -= z.avail_in;
		(void) deflate(&z, Z_NO_FLUSH);
	}
	(void) deflate(&z, Z_FINISH);
	(void) deflateEnd(&z);
	return room - z.avail_out;
}

/*
 * Unpacks everything, with input in steps of one size and output in steps of a second size; returns the number
 * of bytes.
 */
static size_t
unpack(AtpInflate *z, const uint8_t *in, size_t n, size_t give, size_t take)
{
	uint8_t    *out = malloc(take);
	size_t		total = 0;

	while (n > 0)
	{
		size_t		given = give < n ? give : n;
		size_t		left = given;
		size_t		got;

		do
		{
			got = atp_inflate(z, &in, &left, out, take);
			total += got;
		} while (got == take);
		n -= given;
		if (atp_inflate_is_broken(z))
			break;
	}
	free(out);
	return total;
}

int
main(void)
{
	AtpInflate *z;
	size_t		n,
				m;
	const uint8_t *in;
	size_t		left;
	uint8_t		out[1000];

	n = pack(packed, sizeof(packed), 'a', 100000);
	for (size_t give = 1; give <= 1000; give *= 10)
		for (size_t take = 1; take <= 100000; take *= 100)
		{
			z = atp_inflate_new();
			ok(unpack(z, packed, n, give, take) == 100000 && atp_inflate_is_whole(z),
			   "W-55: %zu bytes given, %zu taken at a time", give, take);
			atp_inflate_free(z);
		}

	/* no more output than requested, and no more input read than necessary */
	n = pack(packed, sizeof(packed), 0, (size_t) 10 * MB);
	ok(n < sizeof(packed), "a bomb of %zu bytes", n);
	z = atp_inflate_new();
	in = packed;
	left = n;
	ok(atp_inflate(z, &in, &left, out, sizeof(out)) == sizeof(out) && left > n / 2, "W-55: a bomb gives what was asked for");
	ok(!atp_inflate_is_whole(z), "W-55: and is not whole");
	atp_inflate_free(z);

	/* members */
	n = pack(packed, sizeof(packed), 'a', 10);
	m = pack(packed + n, sizeof(packed) - n, 'b', 10);
	z = atp_inflate_new();
	ok(unpack(z, packed, n + m, 7, 3) == 20 && atp_inflate_is_whole(z), "two members");
	atp_inflate_free(z);

	/* cut, damaged, none */
	n = pack(packed, sizeof(packed), 'a', 100000);
	for (size_t cut = 0; cut < n; cut++)
	{
		z = atp_inflate_new();
		(void) unpack(z, packed, cut, 100, 100);
		if (atp_inflate_is_whole(z) != (cut == 0))
			ok(false, "W-55: whole after %zu of %zu bytes", cut, n);
		atp_inflate_free(z);
	}
	ok(true, "W-55: what is cut is not whole");
	packed[n - 5] ^= 1;
	z = atp_inflate_new();
	(void) unpack(z, packed, n, 100, 100);
	ok(atp_inflate_is_broken(z) && !atp_inflate_is_whole(z), "W-55: a wrong check sum");
	left = 1;
	in = packed;
	ok(atp_inflate(z, &in, &left, out, sizeof(out)) == 0 && atp_inflate_is_broken(z), "what is broken stays so");
	atp_inflate_free(z);
	z = atp_inflate_new();
	ok(unpack(z, (const uint8_t *) "hello, this is text", 19, 19, 100) == 0 && atp_inflate_is_broken(z), "no gzip");
	atp_inflate_free(z);
	return done_testing();
}
