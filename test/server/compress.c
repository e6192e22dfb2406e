/*
 * compress.c
 *		Makes zstd frames.
 */
#include "compress.h"

#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

#define LEVEL	1

struct Dictionary
{
	Buffer		bytes;
	ZSTD_CDict *prepared;
	ZSTD_CCtx  *context;
};

Dictionary *
dictionary_load(const char *file)
{
	Dictionary *d = xcalloc(1, sizeof *d);
	FILE	   *f = fopen(file, "rb");
	uint8_t		chunk[65536];
	size_t		n;

	if (f == NULL)
		die("cannot open %s", file);
	while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
		buffer_add(&d->bytes, chunk, n);
	fclose(f);
	d->prepared = ZSTD_createCDict(buffer_bytes(&d->bytes), buffer_len(&d->bytes), LEVEL);
	d->context = ZSTD_createCCtx();
	if (d->prepared == NULL || d->context == NULL || dictionary_id(d) == 0)
		die("%s is not a zstd dictionary", file);
	return d;
}

unsigned
dictionary_id(const Dictionary *d)
{
	return ZSTD_getDictID_fromDict(buffer_bytes(&d->bytes), buffer_len(&d->bytes));
}

const Buffer *
dictionary_bytes(const Dictionary *d)
{
	return &d->bytes;
}

void
dictionary_free(Dictionary *d)
{
	if (d == NULL)
		return;
	ZSTD_freeCDict(d->prepared);
	ZSTD_freeCCtx(d->context);
	buffer_free(&d->bytes);
	free(d);
}

static void
finish(Buffer *out, ZSTD_CCtx *context, const void *data, size_t len)
{
	size_t		room = ZSTD_compressBound(len);
	uint8_t    *frame = xcalloc(1, room);
	size_t		n = ZSTD_compress2(context, frame, room, data, len);

	if (ZSTD_isError(n))
		die("zstd: %s", ZSTD_getErrorName(n));
	buffer_add(out, frame, n);
	free(frame);
}

void
compress_message(Buffer *out, const Dictionary *d, bool sized, const uint8_t *data, size_t len)
{
	ZSTD_CCtx_refCDict(d->context, d->prepared);
	ZSTD_CCtx_setParameter(d->context, ZSTD_c_contentSizeFlag, sized);
	finish(out, d->context, data, len);
}

void
compress_bomb(Buffer *out, size_t size)
{
	ZSTD_CCtx  *context = ZSTD_createCCtx();
	uint8_t    *zeros = xcalloc(1, size);

	if (context == NULL)
		die("out of memory");
	finish(out, context, zeros, size);
	free(zeros);
	ZSTD_freeCCtx(context);
}
