/*
 * unzstd.c
 *		Decompression of zstd messages: see unzstd.h.
 */
#include "net/unzstd.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "core/wire/frame.h"

#define CONTENT_MIN		(64 * 1024)
#define CONTENT_KEEP	(256 * 1024)	/* a larger buffer is freed before the next small message */
#define WINDOW_LOG_MAX	23		/* log2 of the largest window: a message refers to nothing before its beginning */

struct AtpUnzstd
{
	ZSTD_DCtx  *dctx;
	ZSTD_DDict *dictionary;
	uint8_t    *content;
	size_t		cap;
};

_Static_assert(ATP_FRAME_MAX <= 1 << WINDOW_LOG_MAX, "a message is its own window");

uint32_t
atp_zstd_dictionary_id(const uint8_t *dictionary, size_t len)
{
	return len <= ATP_ZSTD_DICTIONARY_MAX ? ZSTD_getDictID_fromDict(dictionary, len) : 0;
}

bool
atp_zstd_is_dictionary(const uint8_t *dictionary, size_t len)
{
	ZSTD_DDict *made = atp_zstd_dictionary_id(dictionary, len) != 0 ? ZSTD_createDDict(dictionary, len) : NULL;

	(void) ZSTD_freeDDict(made);
	return made != NULL;
}

AtpUnzstd *
atp_unzstd_new(const uint8_t *dictionary, size_t len)
{
	AtpUnzstd  *z;

	if (atp_zstd_dictionary_id(dictionary, len) == 0 || (z = calloc(1, sizeof(AtpUnzstd))) == NULL)
		return NULL;
	z->dctx = ZSTD_createDCtx();
	z->dictionary = ZSTD_createDDict(dictionary, len);
	if (z->dctx == NULL || z->dictionary == NULL ||
		ZSTD_isError(ZSTD_DCtx_setParameter(z->dctx, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)) ||
		ZSTD_isError(ZSTD_DCtx_refDDict(z->dctx, z->dictionary)))
	{
		atp_unzstd_free(z);
		return NULL;
	}
	return z;
}

void
atp_unzstd_free(AtpUnzstd *z)
{
	if (z == NULL)
		return;
	(void) ZSTD_freeDCtx(z->dctx);
	(void) ZSTD_freeDDict(z->dictionary);
	free(z->content);
	free(z);
}

static bool
make_room(AtpUnzstd *z, size_t cap)
{
	uint8_t    *bigger = realloc(z->content, cap);

	if (bigger == NULL)
		return false;
	z->content = bigger;
	z->cap = cap;
	return true;
}

/* Prepare the output buffer: of the whole content's size, where the frame states it. */
static bool
prepare_output(AtpUnzstd *z, unsigned long long size, AtpEnd *end)
{
	size_t		cap = CONTENT_MIN;

	if (size != ZSTD_CONTENTSIZE_UNKNOWN && size > ATP_FRAME_MAX)
	{
		atp_end(end, ATP_DROP_TOO_LARGE, "a message is longer than %d bytes", ATP_FRAME_MAX);
		return false;
	}
	if (size != ZSTD_CONTENTSIZE_UNKNOWN && size > cap)
		cap = size;
	/* free the buffer of an earlier large message */
	if (z->cap > CONTENT_KEEP && cap <= CONTENT_KEEP)
	{
		free(z->content);
		z->content = NULL;
		z->cap = 0;
	}
	if (z->cap >= cap || make_room(z, cap))
		return true;
	atp_end(end, ATP_DROP_MEMORY, "no memory for a message of %zu bytes", cap);
	return false;
}

/* Enlarge the output buffer for a frame that does not state its content's size. */
static bool
grow_output(AtpUnzstd *z, AtpEnd *end)
{
	size_t		cap = 2 * z->cap < ATP_FRAME_MAX ? 2 * z->cap : ATP_FRAME_MAX;

	if (z->cap >= ATP_FRAME_MAX)
		atp_end(end, ATP_DROP_TOO_LARGE, "a message is longer than %d bytes", ATP_FRAME_MAX);
	else if (make_room(z, cap))
		return true;
	else
		atp_end(end, ATP_DROP_MEMORY, "no memory for a message of %zu bytes", cap);
	return false;
}

static const uint8_t *
fail_frame(const char *why, AtpEnd *end)
{
	atp_end(end, ATP_DROP_COMPRESSION, "a compressed message is broken: %s", why);
	return NULL;
}

const uint8_t *
atp_unzstd(AtpUnzstd *z, const uint8_t *message, size_t n, size_t *len, AtpEnd *end)
{
	static const uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd};
	ZSTD_inBuffer in = {message, n, 0};
	ZSTD_outBuffer out;
	unsigned long long size;

	/* a skippable frame begins with another magic number: rejected, too */
	if (n < sizeof(magic) || memcmp(message, magic, sizeof(magic)) != 0)
		return fail_frame("it is no zstd frame", end);
	size = ZSTD_getFrameContentSize(message, n);
	if (size == ZSTD_CONTENTSIZE_ERROR)
		return fail_frame("its head is none", end);
	if (!prepare_output(z, size, end))
		return NULL;
	(void) ZSTD_DCtx_reset(z->dctx, ZSTD_reset_session_only);
	out = (ZSTD_outBuffer) {z->content, z->cap, 0};
	for (;;)
	{
		size_t		rc = ZSTD_decompressStream(z->dctx, &out, &in);

		if (ZSTD_isError(rc))
			return fail_frame(ZSTD_getErrorName(rc), end);
		if (rc == 0)
			break;
		if (out.pos < out.size)
		{
			if (in.pos == n)
				return fail_frame("it is cut short", end);
			continue;
		}
		if (!grow_output(z, end))
			return NULL;
		out.dst = z->content;
		out.size = z->cap;
	}
	if (in.pos < n)
		return fail_frame("something comes after it", end);
	*len = out.pos;
	return z->content;
}
