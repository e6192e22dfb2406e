/*
 * unzstd.c
 *		Decompression of zstd frames: see unzstd.h.
 */
#include "net/unzstd.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "core/wire/frame.h"

#define CONTENT_MIN		(64 * 1024)
#define HEAD_MIN		5		/* magic number and descriptor, which says how long the head is */
#define HEAD_MAX		18

#define CHECKSUM_FLAG	0x04	/* of the descriptor */
#define SINGLE_SEGMENT	0x20

/* Limits of a frame. */
typedef struct UnzstdRules
{
	const char *what;			/* name of the frame's contents in error messages */
	size_t		content_max;
	size_t		content_keep;	/* a larger buffer is freed before the next small frame */
	unsigned	window_log_max; /* log2 of the largest window */
	bool		has_checksum;	/* the checksum is required */
	bool		sized;			/* memory is taken at once for the size that the frame states */
} UnzstdRules;

struct AtpUnzstd
{
	UnzstdRules rules;
	ZSTD_DCtx  *dctx;
	ZSTD_DDict *dictionary;		/* NULL: none */
	uint8_t    *content;
	size_t		cap;

	/* the present frame */
	uint8_t		head[HEAD_MAX];
	size_t		nhead;
	size_t		len;			/* bytes in content */
	bool		ended;
	bool		failed;
};

/* a message refers to nothing before its beginning */
#define MESSAGE_WINDOW_LOG_MAX	23

_Static_assert(ATP_FRAME_MAX <= 1 << MESSAGE_WINDOW_LOG_MAX, "a message is its own window");

static const UnzstdRules message_rules = {
	.what = "message", .content_max = ATP_FRAME_MAX, .content_keep = 256 * 1024, .window_log_max = MESSAGE_WINDOW_LOG_MAX, .sized = true
};

/* H-21.  A block has some MB; its frame is not believed about that. */
static const UnzstdRules block_rules = {
	.what = "block of the archive", .content_keep = 16 * 1024 * 1024, .window_log_max = 24, .has_checksum = true
};

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

/* The dictionary is taken over, also after a failure. */
static AtpUnzstd *
make_unzstd(const UnzstdRules *rules, ZSTD_DDict *dictionary)
{
	AtpUnzstd  *z = calloc(1, sizeof(AtpUnzstd));

	if (z == NULL)
	{
		(void) ZSTD_freeDDict(dictionary);
		return NULL;
	}
	z->rules = *rules;
	z->dictionary = dictionary;
	z->dctx = ZSTD_createDCtx();
	if (z->dctx == NULL ||
		ZSTD_isError(ZSTD_DCtx_setParameter(z->dctx, ZSTD_d_windowLogMax, (int) rules->window_log_max)) ||
		ZSTD_isError(ZSTD_DCtx_refDDict(z->dctx, dictionary)))
	{
		atp_unzstd_free(z);
		return NULL;
	}
	atp_unzstd_begin(z);
	return z;
}

AtpUnzstd *
atp_unzstd_new(const uint8_t *dictionary, size_t len)
{
	ZSTD_DDict *made = atp_zstd_dictionary_id(dictionary, len) != 0 ? ZSTD_createDDict(dictionary, len) : NULL;

	return made != NULL ? make_unzstd(&message_rules, made) : NULL;
}

AtpUnzstd *
atp_unzstd_new_for_blocks(size_t content_max)
{
	UnzstdRules rules = block_rules;

	rules.content_max = content_max;
	return make_unzstd(&rules, NULL);
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
fail_frame(AtpUnzstd *z, const char *why, AtpEnd *end)
{
	z->failed = true;
	atp_end(end, ATP_DROP_COMPRESSION, "a compressed %s is broken: %s", z->rules.what, why);
	return false;
}

static bool
fail_size(AtpUnzstd *z, AtpEnd *end)
{
	z->failed = true;
	atp_end(end, ATP_DROP_TOO_LARGE, "a %s is longer than %zu bytes", z->rules.what, z->rules.content_max);
	return false;
}

static bool
make_room(AtpUnzstd *z, size_t cap, AtpEnd *end)
{
	uint8_t    *bigger = realloc(z->content, cap);

	if (bigger == NULL)
	{
		z->failed = true;
		atp_end(end, ATP_DROP_MEMORY, "no memory for a %s of %zu bytes", z->rules.what, cap);
		return false;
	}
	z->content = bigger;
	z->cap = cap;
	return true;
}

/* Prepare the output buffer: of the whole content's size, where the frame states the size and is believed. */
static bool
prepare_output(AtpUnzstd *z, unsigned long long size, AtpEnd *end)
{
	size_t		cap = CONTENT_MIN;

	if (size != ZSTD_CONTENTSIZE_UNKNOWN && size > z->rules.content_max)
		return fail_size(z, end);
	if (size != ZSTD_CONTENTSIZE_UNKNOWN && size > cap && z->rules.sized)
		cap = size;
	/* free the buffer of an earlier large frame */
	if (z->cap > z->rules.content_keep && cap <= z->rules.content_keep)
	{
		free(z->content);
		z->content = NULL;
		z->cap = 0;
	}
	return z->cap >= cap || make_room(z, cap, end);
}

/* Enlarge the output buffer.  One byte more than the longest content shows that there is more. */
static bool
grow_output(AtpUnzstd *z, AtpEnd *end)
{
	size_t		most = z->rules.content_max + 1;

	return z->cap >= most ? fail_size(z, end) : make_room(z, 2 * z->cap < most ? 2 * z->cap : most, end);
}

/* Bytes of the head (RFC 8878, 3.1.1.1) that this descriptor begins. */
static size_t
head_length(uint8_t descriptor)
{
	static const uint8_t dictionary_lengths[] = {0, 1, 2, 4};
	static const uint8_t size_lengths[] = {0, 2, 4, 8};
	bool		single = (descriptor & SINGLE_SEGMENT) != 0;
	size_t		size_length = size_lengths[descriptor >> 6];

	if (single && size_length == 0)
		size_length = 1;
	return HEAD_MIN + !single + dictionary_lengths[descriptor & 3] + size_length;
}

/* The window that the head of a frame asks for; size is the content's. */
static unsigned long long
window_size(const uint8_t *head, unsigned long long size)
{
	unsigned long long base = 1ULL << (10 + (head[HEAD_MIN] >> 3));

	return (head[HEAD_MIN - 1] & SINGLE_SEGMENT) != 0 ? size : base + base / 8 * (head[HEAD_MIN] & 7);
}

/*
 * Checks the head, which is complete.  libzstd would look at the window, too, but not where it decompresses a frame in
 * one go: whether a frame is refused must not depend on the pieces in which it comes.
 */
static bool
check_frame_head(AtpUnzstd *z, AtpEnd *end)
{
	unsigned long long size = ZSTD_getFrameContentSize(z->head, z->nhead);

	if (size == ZSTD_CONTENTSIZE_ERROR)
		return fail_frame(z, "its head is none", end);
	if (z->rules.has_checksum && (z->head[HEAD_MIN - 1] & CHECKSUM_FLAG) == 0)
		return fail_frame(z, "it has no checksum", end);
	if (!prepare_output(z, size, end))
		return false;
	if (window_size(z->head, size) > 1ULL << z->rules.window_log_max)
		return fail_frame(z, "it needs too much memory", end);
	return true;
}

/* Decompresses bytes of the frame. */
static bool
decompress_bytes(AtpUnzstd *z, const uint8_t *bytes, size_t n, AtpEnd *end)
{
	ZSTD_inBuffer in = {bytes, n, 0};

	while (!z->ended)
	{
		ZSTD_outBuffer out = {z->content, z->cap, z->len};
		size_t		rc = ZSTD_decompressStream(z->dctx, &out, &in);

		if (ZSTD_isError(rc))
			return fail_frame(z, ZSTD_getErrorName(rc), end);
		z->len = out.pos;
		z->ended = rc == 0;
		if (z->len > z->rules.content_max)
			return fail_size(z, end);
		if (z->ended)
			break;
		if (out.pos == out.size)
		{
			if (!grow_output(z, end))
				return false;
		}
		else if (in.pos == n)
			return true;
	}
	return in.pos == n || fail_frame(z, "something comes after it", end);
}

void
atp_unzstd_begin(AtpUnzstd *z)
{
	(void) ZSTD_DCtx_reset(z->dctx, ZSTD_reset_session_only);
	z->nhead = 0;
	z->len = 0;
	z->ended = false;
	z->failed = false;
}

/* Takes bytes of the head from the piece; true: the head is complete and allowed. */
static bool
take_frame_head(AtpUnzstd *z, const uint8_t **piece, size_t *n, AtpEnd *end)
{
	static const uint8_t magic[] = {0x28, 0xb5, 0x2f, 0xfd};
	size_t		want = z->nhead < HEAD_MIN ? HEAD_MIN : head_length(z->head[HEAD_MIN - 1]);

	while (*n > 0 && z->nhead < want)
	{
		z->head[z->nhead++] = *(*piece)++;
		--*n;
		/* a skippable frame begins with another magic number: rejected, too */
		if (z->nhead == sizeof(magic) && memcmp(z->head, magic, sizeof(magic)) != 0)
			return fail_frame(z, "it is no zstd frame", end);
		if (z->nhead == HEAD_MIN)
			want = head_length(z->head[HEAD_MIN - 1]);
	}
	return z->nhead == want && check_frame_head(z, end) && decompress_bytes(z, z->head, z->nhead, end);
}

bool
atp_unzstd_push(AtpUnzstd *z, const uint8_t *piece, size_t n, AtpEnd *end)
{
	if (z->failed)
		return false;
	if (z->nhead < HEAD_MIN || z->nhead < head_length(z->head[HEAD_MIN - 1]))
	{
		if (!take_frame_head(z, &piece, &n, end))
			return !z->failed;
	}
	return n == 0 || decompress_bytes(z, piece, n, end);
}

const uint8_t *
atp_unzstd_end(AtpUnzstd *z, size_t *len, AtpEnd *end)
{
	if (z->failed || (!z->ended && !fail_frame(z, "it is cut short", end)))
		return NULL;
	*len = z->len;
	return z->content;
}

const uint8_t *
atp_unzstd(AtpUnzstd *z, const uint8_t *message, size_t n, size_t *len, AtpEnd *end)
{
	atp_unzstd_begin(z);
	return atp_unzstd_push(z, message, n, end) ? atp_unzstd_end(z, len, end) : NULL;
}
