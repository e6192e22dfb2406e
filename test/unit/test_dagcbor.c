/*
 * test_dagcbor.c
 *		The DAG-CBOR reader and writer: rules B-01 to B-11.
 */
#include "../fuzz/tiny_cbor.h"
#include "core/codec/cbor_write.h"
#include "core/codec/dagcbor.h"
#include "protocol/cbor.h"
#include "hex.h"

#define CID_LINK	"d82a582500015512200000000000000000000000000000000000000000000000000000000000000000"

static void
check(const char *rule, const char *hex, AtpErr expected, size_t expected_at)
{
	AtpBytes	b = unhex(hex);
	size_t		at = 0;
	AtpErr		err = atp_cbor_check(b.ptr, b.len, ATP_CBOR_DEPTH_DEFAULT, &at);
	uint64_t	hash;

	ok(err == expected && (err == ATP_OK || at == expected_at),
	   "%s: %s: %s at %zu", rule, show(hex, strlen(hex)), atp_err_text(err), at);
	ok(tiny_read(b.ptr, b.len, ATP_CBOR_DEPTH_DEFAULT, &hash) == (expected == ATP_OK),
	   "the second reader agrees");
	free((void *) b.ptr);
}

static void
rules(void)
{
	check("B-01", "17", ATP_OK, 0);
	check("B-01", "1818", ATP_OK, 0);
	check("B-01, D15", "1817", ATP_E_CBOR_LONG_FORM, 0);
	check("B-01", "1801", ATP_E_CBOR_LONG_FORM, 0);
	check("B-01", "190001", ATP_E_CBOR_LONG_FORM, 0);
	check("B-01", "1900ff", ATP_E_CBOR_LONG_FORM, 0);
	check("B-01", "190100", ATP_OK, 0);
	check("B-01", "1a0000ffff", ATP_E_CBOR_LONG_FORM, 0);
	check("B-01", "1a00010000", ATP_OK, 0);
	check("B-01", "1b0000000000000001", ATP_E_CBOR_LONG_FORM, 0);
	check("B-01", "1b00000000ffffffff", ATP_E_CBOR_LONG_FORM, 0);
	check("B-01", "1b0000000100000000", ATP_OK, 0);
	check("B-01", "3bffffffffffffffff", ATP_OK, 0);
	check("B-01", "3817", ATP_E_CBOR_LONG_FORM, 0);
	check("B-02", "b801616100", ATP_E_CBOR_LONG_FORM, 0);
	check("B-02", "7803616263", ATP_E_CBOR_LONG_FORM, 0);
	check("B-02", "5803616263", ATP_E_CBOR_LONG_FORM, 0);
	check("B-02", "980100", ATP_E_CBOR_LONG_FORM, 0);
	check("B-03", "bfff", ATP_E_CBOR_INDEFINITE, 0);
	check("B-03", "9fff", ATP_E_CBOR_INDEFINITE, 0);
	check("B-03", "5fff", ATP_E_CBOR_INDEFINITE, 0);
	check("B-03", "7fff", ATP_E_CBOR_INDEFINITE, 0);
	check("B-03", "ff", ATP_E_CBOR_INDEFINITE, 0);
	check("B-03", "81ff", ATP_E_CBOR_INDEFINITE, 1);
	check("B-04", "a10000", ATP_E_CBOR_KEY, 1);
	check("B-04", "a14000", ATP_E_CBOR_KEY, 1);
	check("B-04", "a1" CID_LINK "00", ATP_E_CBOR_KEY, 1);
	check("B-04", "a2616100616101", ATP_E_CBOR_KEY_TWICE, 4);
	check("B-04", "a2616201616100", ATP_E_CBOR_KEY_ORDER, 4);
	check("B-04", "a262616100616200", ATP_E_CBOR_KEY_ORDER, 5);
	check("B-04", "a361610161620262616103", ATP_OK, 0);
	check("B-04", "a2616200626161a0", ATP_OK, 0);
	check("B-04", "a2616182a2616100616200f6616200", ATP_OK, 0);
	check("B-05", CID_LINK, ATP_OK, 0);
	check("B-05", "d82a" CID_LINK, ATP_E_CBOR_LINK, 0);
	check("B-05", "d82a582500015513200000000000000000000000000000000000000000000000000000000000000000", ATP_OK, 0);
	check("B-05", "d82a5825000155121f0000000000000000000000000000000000000000000000000000000000000000", ATP_E_CBOR_LINK, 0);
	check("B-05", "d82a5825000155122000000000000000000000000000000000000000000000000000000000000000", ATP_E_CBOR_TRUNCATED, 0);
	check("B-05", "d82a4100", ATP_E_CBOR_LINK, 0);
	check("B-05", "d82a40", ATP_E_CBOR_LINK, 0);
	check("B-05", "d82a00", ATP_E_CBOR_LINK, 0);
	check("B-05", "d82a6100", ATP_E_CBOR_LINK, 0);
	check("B-05", "d82ad82a4100", ATP_E_CBOR_LINK, 0);
	check("B-05", "d82a450101550000", ATP_E_CBOR_LINK, 0);
	check("B-05", "d82a450001550000", ATP_OK, 0);
	check("B-05", "d82a46000155000000", ATP_E_CBOR_LINK, 0);
	check("B-05", "d9002a4100", ATP_E_CBOR_LONG_FORM, 0);
	check("B-05", "c000", ATP_E_CBOR_TAG, 0);
	check("B-05", "d82b450001550000", ATP_E_CBOR_TAG, 0);
	check("B-05", "d82a", ATP_E_CBOR_TRUNCATED, 0);
	check("B-06", "f4", ATP_OK, 0);
	check("B-06", "f5", ATP_OK, 0);
	check("B-06", "f6", ATP_OK, 0);
	check("B-06", "f7", ATP_E_CBOR_SIMPLE, 0);
	check("B-06", "e0", ATP_E_CBOR_SIMPLE, 0);
	check("B-06", "f3", ATP_E_CBOR_SIMPLE, 0);
	check("B-06", "f818", ATP_E_CBOR_SIMPLE, 0);
	check("B-06", "f8ff", ATP_E_CBOR_SIMPLE, 0);
	check("B-07", "fb3ff8000000000000", ATP_OK, 0);
	check("B-07", "fb0000000000000000", ATP_OK, 0);
	check("B-07", "fb0000000000000001", ATP_OK, 0);
	check("B-07", "fb8000000000000000", ATP_E_CBOR_FLOAT, 0);
	check("B-07", "fb7ff0000000000000", ATP_E_CBOR_FLOAT, 0);
	check("B-07", "fbfff0000000000000", ATP_E_CBOR_FLOAT, 0);
	check("B-07", "fb7ff8000000000000", ATP_E_CBOR_FLOAT, 0);
	check("B-07", "f93e00", ATP_E_CBOR_FLOAT_WIDTH, 0);
	check("B-07", "fa3fc00000", ATP_E_CBOR_FLOAT_WIDTH, 0);
	check("B-08", "62c3a9", ATP_OK, 0);
	check("B-08", "62c328", ATP_E_CBOR_UTF8, 1);
	check("B-08", "62c0af", ATP_E_CBOR_UTF8, 1);
	check("B-08", "63e0809f", ATP_E_CBOR_UTF8, 1);
	check("B-08", "63eda080", ATP_E_CBOR_UTF8, 1);
	check("B-08", "64f0808080", ATP_E_CBOR_UTF8, 1);
	check("B-08", "64f48fbfbf", ATP_OK, 0);
	check("B-08", "64f4908080", ATP_E_CBOR_UTF8, 1);
	check("B-08", "61ff", ATP_E_CBOR_UTF8, 1);
	check("B-08", "6a6162636465666768c3", ATP_E_CBOR_TRUNCATED, 0);
	check("B-08", "696162636465666768c3", ATP_E_CBOR_UTF8, 9);
	check("B-08", "a162c32800", ATP_E_CBOR_UTF8, 2);
	check("B-09", "0000", ATP_E_CBOR_TRAILING, 1);
	check("B-09", "a000", ATP_E_CBOR_TRAILING, 1);
	check("B-09", "", ATP_E_CBOR_END, 0);
	check("B-10", "9b7fffffffffffffff", ATP_E_CBOR_LENGTH, 0);
	check("B-10", "bb7fffffffffffffff", ATP_E_CBOR_LENGTH, 0);
	check("B-10", "9bffffffffffffffff", ATP_E_CBOR_LENGTH, 0);
	check("B-10", "bbffffffffffffffff", ATP_E_CBOR_LENGTH, 0);
	check("B-10", "5bffffffffffffffff", ATP_E_CBOR_LENGTH, 0);
	check("B-10", "7bffffffffffffffff", ATP_E_CBOR_LENGTH, 0);
	check("B-10", "7b00000001000000" "00", ATP_E_CBOR_LENGTH, 0);
	check("B-10", "9a05f5e100", ATP_E_CBOR_LENGTH, 0);
	check("B-10", "ba80000000", ATP_E_CBOR_LENGTH, 0);
	check("B-10", "8200", ATP_E_CBOR_LENGTH, 0);
	check("B-10", "a2616100", ATP_E_CBOR_LENGTH, 0);
	check("B-10", "a16161", ATP_E_CBOR_TRUNCATED, 3);
	check("B-10", "818100", ATP_OK, 0);
	check("B-10", "4200", ATP_E_CBOR_TRUNCATED, 0);
	check("B-10", "1c", ATP_E_CBOR_RESERVED, 0);
	check("B-10", "5e", ATP_E_CBOR_RESERVED, 0);
	check("B-10", "19", ATP_E_CBOR_TRUNCATED, 0);
}

/* n nested arrays or maps. */
static void
depth(unsigned n, bool map, AtpErr expected)
{
	uint8_t    *b = malloc(4 * n + 1);
	size_t		len = 0;
	size_t		at = 0;
	AtpErr		err;

	for (unsigned i = 0; i < n; i++)
	{
		b[len++] = map ? 0xa1 : 0x81;
		if (map)
		{
			b[len++] = 0x61;
			b[len++] = 'a';
		}
	}
	b[len++] = 0xf6;
	b = realloc(b, len);
	err = atp_cbor_check(b, len, ATP_CBOR_DEPTH_DEFAULT, &at);
	ok(err == expected, "B-10: %u %s in each other: %s", n, map ? "maps" : "arrays",
	   atp_err_text(err));
	free(b);
}

/* Every cut and every flipped bit of a value: the second reader says the same. */
static void
mutilate(char *line, size_t n, void *arg)
{
	AtpBytes	b;
	unsigned	cuts = 0;
	unsigned	flips = 0;

	field(&line);
	if (strspn(line, "0123456789abcdef") != strlen(line))
		return;					/* the first line names the columns */
	b = unhex(line);
	for (size_t len = 0; len < b.len; len++)
	{
		uint8_t    *cut = copy_of(b.ptr, len);
		size_t		at = 0;
		AtpErr		err = atp_cbor_check(cut, len, ATP_CBOR_DEPTH_DEFAULT, &at);

		cuts += err == ATP_OK || at > len;
		free(cut);
	}
	ok(cuts == 0, "no cut of it is a value (%zu bytes)", b.len);
	for (size_t bit = 0; bit < 8 * b.len; bit++)
	{
		uint8_t    *flipped = copy_of(b.ptr, b.len);
		size_t		at = 0;
		uint64_t	hash;
		AtpErr		err;

		flipped[bit / 8] ^= 1 << bit % 8;
		err = atp_cbor_check(flipped, b.len, ATP_CBOR_DEPTH_DEFAULT, &at);
		flips += at > b.len ||
			tiny_read(flipped, b.len, ATP_CBOR_DEPTH_DEFAULT, &hash) != (err == ATP_OK);
		free(flipped);
	}
	ok(flips == 0, "both readers agree on every flipped bit");
	free((void *) b.ptr);
}

static void
written(const char *name, const AtpCborWriter *w, const char *hex)
{
	AtpBytes	b = unhex(hex);

	ok(w->len == b.len && memcmp(w->buf, b.ptr, b.len) == 0, "B-11: %s is %s", name, hex);
	free((void *) b.ptr);
}

static void
writer(void)
{
	static const struct
	{
		int64_t		value;
		const char *hex;
	}			integers[] = {
		{0, "00"}, {23, "17"}, {24, "1818"}, {255, "18ff"}, {256, "190100"}, {65535, "19ffff"},
		{65536, "1a00010000"}, {UINT32_MAX, "1affffffff"}, {INT64_C(1) << 32, "1b0000000100000000"},
		{INT64_MAX, "1b7fffffffffffffff"}, {-1, "20"}, {-24, "37"}, {-25, "3818"},
		{INT64_MIN, "3b7fffffffffffffff"}
	};
	uint8_t		buf[64];
	uint8_t		cid[] = {1, 0x55, 0, 0};

	for (size_t i = 0; i < sizeof(integers) / sizeof(integers[0]); i++)
	{
		AtpCborWriter w = {.buf = buf, .cap = sizeof(buf)};

		atp_cbor_put_int(&w, integers[i].value);
		written("integer", &w, integers[i].hex);
	}
#define WRITTEN(call, hex) \
	do { \
		AtpCborWriter w = {.buf = buf, .cap = sizeof(buf)}; \
		call; \
		written(#call, &w, hex); \
	} while (0)
	WRITTEN(atp_cbor_put_uint(&w, UINT64_MAX), "1bffffffffffffffff");
	WRITTEN(atp_cbor_put_nint(&w, UINT64_MAX), "3bffffffffffffffff");
	WRITTEN(atp_cbor_put_float(&w, 1.5), "fb3ff8000000000000");
	WRITTEN(atp_cbor_put_null(&w), "f6");
	WRITTEN(atp_cbor_put_bool(&w, true), "f5");
	WRITTEN(atp_cbor_put_bool(&w, false), "f4");
	WRITTEN(atp_cbor_put_text(&w, "ab", 2), "626162");
	WRITTEN(atp_cbor_put_bytes(&w, cid, 0), "40");
	WRITTEN(atp_cbor_put_link(&w, cid, 4), "d82a450001550000");
	WRITTEN(atp_cbor_put_array(&w, 24), "9818");
	WRITTEN(atp_cbor_put_map(&w, 1), "a1");
#undef WRITTEN
}

/* The writer stays within a buffer that is too small, and returns the right length. */
static void
small_buffer(void)
{
	uint8_t    *buf = malloc(3);
	AtpCborWriter w = {.buf = buf, .cap = 3};

	atp_cbor_put_text(&w, "abcdef", 6);
	atp_cbor_put_null(&w);
	ok(w.len == 8, "B-11: what did not fit is counted");
	free(buf);
}

/* The length of the character at s, by Unicode's ranges of code points; 0: no valid character. */
static size_t
character(const uint8_t *s, size_t n)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t		len = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3 : s[0] >> 3 == 30 ? 4 : 0;
	uint32_t	code = len == 1 ? s[0] : s[0] & 0x7f >> len;

	if (len == 0 || len > n)
		return 0;
	for (size_t i = 1; i < len; i++)
	{
		if (s[i] >> 6 != 2)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	return code >= least[len] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? len : 0;
}

/* Reads a text of n bytes as an item: is the validity right, and the answer about U+0000? */
static bool
is_read_right(const uint8_t *s, size_t n)
{
	uint8_t    *buf = malloc(n + 3);	/* exact size: sanitizers find a read past the end */
	AtpCborWriter w = {.buf = buf, .cap = n + 3};
	AtpCborReader r;
	AtpCborItem item;
	AtpErr		err;
	size_t		valid = 0;
	size_t		at;
	bool		right;

	atp_cbor_put_text(&w, (const char *) s, n);
	w.buf = realloc(buf, w.len);
	while (valid < n && character(s + valid, n - valid) > 0)
		valid += character(s + valid, n - valid);
	atp_cbor_init(&r, w.buf, w.len, 1);
	err = atp_cbor_next(&r, &item, &at);
	if (valid == n)
		right = err == ATP_OK && item.str.len == n && item.has_nul == (memchr(s, 0, n) != NULL);
	else
		right = err == ATP_E_CBOR_UTF8 && at == w.len - n + valid;
	free(w.buf);
	return right;
}

/* B-08, B-30: each byte at each place, and whatever four bytes may be about a character. */
static void
texts(void)
{
	static const uint8_t tails[] = {0x00, 0x01, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc2, 0xff};
	const size_t ntails = sizeof(tails);
	unsigned	wrong = 0;

	for (size_t n = 1; n <= 40; n++)
	{
		for (size_t i = 0; i < n; i++)
		{
			for (unsigned byte = 0; byte < 256; byte++)
			{
				uint8_t		s[40];

				memset(s, 'a', n);
				s[n / 2] = 1;
				s[i] = (uint8_t) byte;
				wrong += !is_read_right(s, n);
			}
		}
	}
	ok(wrong == 0, "one strange byte in texts of 1 to 40: %u read wrong", wrong);

	wrong = 0;
	for (size_t k = 0; k < 256 * ntails * ntails * ntails; k++)
	{
		uint8_t		s[12] = "abcdefghijk";
		size_t		from = k % 3 * 4;

		s[from] = (uint8_t) (k / (ntails * ntails * ntails));
		s[from + 1] = tails[k / (ntails * ntails) % ntails];
		s[from + 2] = tails[k / ntails % ntails];
		s[from + 3] = tails[k % ntails];
		wrong += !is_read_right(s, sizeof(s));
	}
	ok(wrong == 0, "any four bytes: %u read wrong", wrong);

	wrong = 0;
	for (size_t tail = 3; tail < 80; tail++)
	{
		for (size_t head = 2; head < tail; head++)
		{
			uint8_t		s[80];

			memset(s, 'a', sizeof(s));
			memcpy(s, "\xc3\xa9", 2);
			s[head] = 0xc3;
			s[tail] = 0xa9;
			wrong += !is_read_right(s, sizeof(s));
		}
	}
	ok(wrong == 0, "two halves of a character, together or not: %u read wrong", wrong);
}

static void
items(void)
{
	AtpBytes	b = unhex("a261618101616200");
	AtpCborReader r;
	AtpCborItem item;
	size_t		at;

	atp_cbor_init(&r, b.ptr, b.len, 2);
	ok(atp_cbor_next(&r, &item, &at) == ATP_OK && item.kind == ATP_CBOR_MAP && item.u == 2 &&
	   !item.is_key && r.depth == 1, "a map's head");
	ok(atp_cbor_next(&r, &item, &at) == ATP_OK && item.is_key && item.at == 1, "its first key");
	ok(atp_cbor_next(&r, &item, &at) == ATP_OK && item.kind == ATP_CBOR_ARRAY && r.depth == 2,
	   "an array in it");
	ok(atp_cbor_finish(&r, 1, &at) == ATP_OK && r.depth == 1 && r.pos == 5, "the array's end");
	ok(atp_cbor_next(&r, &item, &at) == ATP_OK && item.is_key && item.str.ptr[0] == 'b',
	   "the next key");
	ok(atp_cbor_skip(&r, &at) == ATP_OK && r.depth == 0, "its value");
	ok(atp_cbor_next(&r, &item, &at) == ATP_E_CBOR_END && at == b.len, "the end");
	atp_cbor_init(&r, b.ptr, b.len, 1);
	ok(atp_cbor_skip(&r, &at) == ATP_E_CBOR_DEPTH && at == 3, "B-10: limit of 1 level");
	free((void *) b.ptr);
}

int
main(void)
{
	rules();
	depth(128, false, ATP_OK);
	depth(128, true, ATP_OK);
	depth(129, false, ATP_E_CBOR_DEPTH);
	depth(129, true, ATP_E_CBOR_DEPTH);
	depth(1000000, false, ATP_E_CBOR_DEPTH);
	each_line(VECTORS "derived/data_model.tsv", mutilate, NULL);
	writer();
	small_buffer();
	items();
	texts();
	return done_testing();
}
