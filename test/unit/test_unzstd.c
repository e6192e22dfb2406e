/*
 * test_unzstd.c
 *		Messages that a stranger has packed with zstd: E-11, and nothing but whole frames.
 */
#include "net/unzstd.h"

#include <zdict.h>
#include <zstd.h>

#include "core/wire/frame.h"
#include "unit.h"

#define BIG		(64 * 1024 * 1024)

static uint8_t dictionary[8192];
static size_t dictionary_len;
static uint8_t other[8192];		/* another dictionary */
static size_t other_len;
static uint8_t *big;			/* zeros */
static uint8_t *packed;
static size_t packed_cap;
static AtpUnzstd *z;
static AtpEnd end;

static size_t
train(uint8_t *out, size_t size, const char *word, unsigned id)
{
	static char samples[2000 * 100];
	static size_t lengths[2000];
	size_t		n = 0;
	ZDICT_params_t params = {.dictID = id};
	size_t		made;

	for (int i = 0; i < 2000; i++)
	{
		lengths[i] = sprintf(samples + n, "{\"%s\":{\"number\":%d,\"%s\":\"%x\"}}", word, i, word, i * 7919);
		n += lengths[i];
	}
	made = ZDICT_trainFromBuffer(out, size, samples, lengths, 2000);
	if (ZDICT_isError(made))
		return 0;
	return ZDICT_finalizeDictionary(out, size, out + made / 2, made - made / 2, samples, lengths, 2000, params);
}

/*
 * How a server packs: with which dictionary, with or without the length, with a window of so many bits (0: the
 * library's default).
 */
static size_t
pack(const void *content, size_t n, const uint8_t *dict, size_t dict_len, bool sized, int window)
{
	ZSTD_CCtx  *cctx = ZSTD_createCCtx();
	ZSTD_inBuffer in = {content, n, 0};
	ZSTD_outBuffer out = {packed, packed_cap, 0};

	(void) ZSTD_CCtx_setParameter(cctx, ZSTD_c_checksumFlag, 1);
	(void) ZSTD_CCtx_setParameter(cctx, ZSTD_c_contentSizeFlag, sized);
	if (window > 0)
		(void) ZSTD_CCtx_setParameter(cctx, ZSTD_c_windowLog, window);
	if (dict != NULL)
		(void) ZSTD_CCtx_loadDictionary(cctx, dict, dict_len);
	if (sized)
		(void) ZSTD_CCtx_setPledgedSrcSize(cctx, n);
	else
	{
		/* in two steps, or the library learns the length and writes it */
		ZSTD_inBuffer first = {content, n / 2, 0};

		(void) ZSTD_compressStream2(cctx, &out, &first, ZSTD_e_continue);
		in.pos = first.pos;
	}
	if (ZSTD_compressStream2(cctx, &out, &in, ZSTD_e_end) != 0)
		out.pos = 0;
	(void) ZSTD_freeCCtx(cctx);
	return out.pos;
}

/* The message from n bytes of packed, copied to exact memory so that ASan reports a read past the end. */
static const uint8_t *
unpack(size_t n, size_t *len)
{
	uint8_t    *copy = malloc(n > 0 ? n : 1);
	const uint8_t *content;

	memcpy(copy, packed, n);
	memset(&end, 0, sizeof(end));
	content = atp_unzstd(z, copy, n, len, &end);
	free(copy);
	return content;
}

static bool
gives(size_t n, const void *content, size_t len)
{
	size_t		got;
	const uint8_t *text = unpack(n, &got);

	return text != NULL && end.drop == ATP_DROP_NONE && got == len && memcmp(text, content, len) == 0;
}

static bool
fails(size_t n, AtpDrop drop, const char *why)
{
	size_t		got;

	return unpack(n, &got) == NULL && end.drop == drop && strstr(end.why, why) != NULL;
}

static void
test_contents(void)
{
	static const char text[] = "{\"like\":{\"number\":1,\"like\":\"0\"}}";
	size_t		plain = pack(text, strlen(text), NULL, 0, true, 0);
	size_t		n = pack(text, strlen(text), dictionary, dictionary_len, true, 0);

	ok(n > 0 && n < plain, "a message with the dictionary is shorter: %zu, not %zu bytes", n, plain);
	ok(gives(n, text, strlen(text)), "a message");
	ok(gives(pack(text, strlen(text), dictionary, dictionary_len, false, 0), text, strlen(text)), "one that does not say how long it is");
	ok(gives(pack(text, strlen(text), NULL, 0, true, 0), text, strlen(text)), "one without a dictionary");
	ok(gives(pack("", 0, dictionary, dictionary_len, true, 0), "", 0), "nothing");
	ok(gives(pack(big, 300000, dictionary, dictionary_len, false, 0), big, 300000) &&
	   gives(pack(text, strlen(text), dictionary, dictionary_len, true, 0), text, strlen(text)), "a large one, and a small one after it");
	ok(gives(pack(big, ATP_FRAME_MAX, dictionary, dictionary_len, true, 0), big, ATP_FRAME_MAX), "E-11: the longest");
	ok(gives(pack(big, ATP_FRAME_MAX, dictionary, dictionary_len, false, 0), big, ATP_FRAME_MAX), "E-11: the longest, that does not say so");
}

static void
test_bombs(void)
{
	size_t		n;

	ok(fails(pack(big, ATP_FRAME_MAX + 1, dictionary, dictionary_len, true, 0), ATP_DROP_TOO_LARGE, "longer than 5000000 bytes"),
	   "E-11: one byte too long");
	ok(fails(pack(big, ATP_FRAME_MAX + 1, dictionary, dictionary_len, false, 0), ATP_DROP_TOO_LARGE, "longer than 5000000 bytes"),
	   "E-11: one byte too long, that does not say so");
	n = pack(big, BIG, dictionary, dictionary_len, true, 0);
	ok(n < 20000 && fails(n, ATP_DROP_TOO_LARGE, "longer"), "E-11: %d MB in %zu bytes", BIG / 1024 / 1024, n);
	n = pack(big, BIG, dictionary, dictionary_len, false, 0);
	ok(n < 20000 && fails(n, ATP_DROP_TOO_LARGE, "longer"), "E-11: likewise, and it does not say so");
	ok(fails(pack(big, BIG, dictionary, dictionary_len, false, 27), ATP_DROP_COMPRESSION, "too much memory"), "a window of 128 MB");
	ok(gives(pack(big, 1000, dictionary, dictionary_len, false, 23), big, 1000), "a window of 8 MB");
	ok(fails(pack(big, 1000, dictionary, dictionary_len, false, 24), ATP_DROP_COMPRESSION, "too much memory"), "one of 16 MB");
}

static void
test_broken(void)
{
	static const uint8_t skipped[] = {0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 'x'};
	char		text[3000];
	size_t		n;
	int			whole = 0;
	int			wrong = 0;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = 'a' + i * i % 23;
	n = pack(text, sizeof(text), dictionary, dictionary_len, true, 0);
	for (size_t i = 0; i < n; i++)
		whole += !fails(i, ATP_DROP_COMPRESSION, "broken");
	ok(whole == 0, "none that is cut short is taken");
	for (size_t i = 0; i < n; i++)
		for (int bit = 0; bit < 8; bit++)
		{
			size_t		len;
			const uint8_t *content;

			packed[i] ^= 1 << bit;
			content = unpack(n, &len);
			wrong += content != NULL ? len != sizeof(text) || memcmp(content, text, len) != 0 : end.drop == ATP_DROP_NONE;
			packed[i] ^= 1 << bit;
		}
	ok(wrong == 0, "of none with a bit turned there comes anything else");
	ok(gives(n, text, sizeof(text)), "what was broken before harms none after it");

	packed[n] = 0;
	ok(fails(n + 1, ATP_DROP_COMPRESSION, "something comes after it"), "a byte after it");
	memcpy(packed + n, packed, n);
	ok(fails(2 * n, ATP_DROP_COMPRESSION, "something comes after it"), "two in one message");
	memcpy(packed, skipped, sizeof(skipped));
	ok(fails(sizeof(skipped), ATP_DROP_COMPRESSION, "no zstd frame"), "a frame to be skipped");
	memcpy(packed, text, sizeof(text));
	ok(fails(sizeof(text), ATP_DROP_COMPRESSION, "no zstd frame"), "a text");
	ok(fails(pack(text, sizeof(text), other, other_len, true, 0), ATP_DROP_COMPRESSION, "ictionary"), "packed with another dictionary: %s", end.why);
}

static void
test_dictionaries(void)
{
	ok(atp_zstd_dictionary_id(dictionary, dictionary_len) == 4711, "a dictionary's number");
	ok(atp_zstd_is_dictionary(dictionary, dictionary_len) && !atp_zstd_is_dictionary(big, 65536), "it is one");
	ok(atp_zstd_dictionary_id(dictionary, 20) == 4711 && !atp_zstd_is_dictionary(dictionary, 20), "its beginning is none");
	ok(atp_zstd_dictionary_id((const uint8_t *) "", 0) == 0 && atp_unzstd_new((const uint8_t *) "", 0) == NULL, "nothing is none");
	ok(atp_zstd_dictionary_id(big, 65536) == 0 && atp_unzstd_new(big, 65536) == NULL, "zeros are none");
	memcpy(packed, dictionary, dictionary_len);
	memset(packed + dictionary_len, 'x', ATP_ZSTD_DICTIONARY_MAX);
	ok(atp_zstd_dictionary_id(packed, ATP_ZSTD_DICTIONARY_MAX) == 4711 && atp_zstd_dictionary_id(packed, ATP_ZSTD_DICTIONARY_MAX + 1) == 0,
	   "nor is one of more than %d bytes", ATP_ZSTD_DICTIONARY_MAX);
	ok(atp_unzstd_new(packed, ATP_ZSTD_DICTIONARY_MAX + 1) == NULL, "which is not taken");
	ok(atp_unzstd_new(dictionary, 8) == NULL && atp_unzstd_new(dictionary, 40) == NULL, "nor is the beginning of one");
}

int
main(void)
{
	packed_cap = ZSTD_compressBound(BIG);
	packed = malloc(packed_cap);
	big = calloc(1, BIG);
	dictionary_len = train(dictionary, sizeof(dictionary), "like", 4711);
	other_len = train(other, sizeof(other), "post", 815);
	z = atp_unzstd_new(dictionary, dictionary_len);
	ok(z != NULL, "a dictionary of %zu bytes", dictionary_len);
	test_contents();
	test_bombs();
	test_broken();
	test_dictionaries();
	atp_unzstd_free(z);
	atp_unzstd_free(NULL);
	free(packed);
	free(big);
	return done_testing();
}
