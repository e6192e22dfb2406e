/*
 * fuzz_unzstd.c
 *		Messages packed with zstd: for every input the result is content of at most E-11's length, or a
 *		reason; and properly packed content comes out unchanged.  Blocks of an archive (H-21): the result does not
 *		depend on the pieces in which the frame comes.
 *
 * Input: two bytes with the length of a dictionary, the dictionary, a message; no dictionary: a block's frame.
 */
#include <stdlib.h>

#include "net/drop.c"
#include "net/unzstd.c"

#define BLOCK_MAX	(1 << 20)
#define CHECK(cond)	do { if (!(cond)) abort(); } while (0)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Packs the content as a server would. */
static void
check_packed(AtpUnzstd *z, const uint8_t *dictionary, size_t dictionary_len, const uint8_t *content, size_t n)
{
	size_t		cap = ZSTD_compressBound(n);
	uint8_t    *packed = malloc(cap);
	ZSTD_CCtx  *cctx = ZSTD_createCCtx();
	size_t		len = ZSTD_compress_usingDict(cctx, packed, cap, content, n, dictionary, dictionary_len, 3);
	AtpEnd		end = {0};

	if (!ZSTD_isError(len))
	{
		size_t		got = 0;
		const uint8_t *text = atp_unzstd(z, packed, len, &got, &end);

		CHECK(text != NULL && got == n && memcmp(text, content, n) == 0);
	}
	(void) ZSTD_freeCCtx(cctx);
	free(packed);
}

/* Decompresses a frame in pieces; NULL: the frame is refused. */
static const uint8_t *
unpack_pieces(AtpUnzstd *z, const uint8_t *frame, size_t n, size_t give, size_t *len, AtpEnd *end)
{
	atp_unzstd_begin(z);
	for (size_t at = 0; at < n; at += give)
		if (!atp_unzstd_push(z, frame + at, give < n - at ? give : n - at, end))
			return NULL;
	return atp_unzstd_end(z, len, end);
}

static void
check_block(const uint8_t *frame, size_t n)
{
	AtpUnzstd  *whole = atp_unzstd_new_for_blocks(BLOCK_MAX);
	AtpUnzstd  *pieces = atp_unzstd_new_for_blocks(BLOCK_MAX);
	AtpEnd		end = {0};
	size_t		len = 0;
	const uint8_t *content = atp_unzstd(whole, frame, n, &len, &end);

	CHECK((content != NULL) == (end.drop == ATP_DROP_NONE) && len <= BLOCK_MAX);
	CHECK(content == NULL || (n > 4 && (frame[4] & 4) != 0));
	for (size_t give = 1; give < 64; give += 1 + give / 2)
	{
		size_t		again_len = 0;
		AtpEnd		again_end = {0};
		const uint8_t *again = unpack_pieces(pieces, frame, n, give, &again_len, &again_end);

		CHECK((again == NULL) == (content == NULL) && again_end.drop == end.drop && again_len == len);
		CHECK(content == NULL || memcmp(content, again, len) == 0);
	}
	atp_unzstd_free(whole);
	atp_unzstd_free(pieces);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t		dictionary_len;
	AtpUnzstd  *z;
	const uint8_t *content;
	size_t		len = 0;
	AtpEnd		end = {0};

	if (size < 2 || (dictionary_len = data[0] << 8 | data[1]) > size - 2)
		return 0;
	data += 2;
	size -= 2 + dictionary_len;
	if (dictionary_len == 0)
		check_block(data, size);
	z = atp_unzstd_new(data, dictionary_len);
	if (z == NULL)
		return 0;
	CHECK(atp_zstd_dictionary_id(data, dictionary_len) != 0);
	content = atp_unzstd(z, data + dictionary_len, size, &len, &end);
	CHECK((content != NULL) == (end.drop == ATP_DROP_NONE));
	CHECK(content == NULL ? end.why[0] != '\0' : len <= ATP_FRAME_MAX);
	check_packed(z, data, dictionary_len, data + dictionary_len, size);
	atp_unzstd_free(z);
	return 0;
}
