/*
 * made_block.c
 *		Writes blocks of a Jetstream's archive: see made_block.h.
 */
#include "made.h"
#include "made_block.h"

void
made_put_le(uint8_t **out, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		*(*out)++ = (uint8_t) (value >> 8 * i);
}

static void
put_text(uint8_t **out, const void *text, size_t n)
{
	if (n > 0)
		memcpy(*out, text, n);
	*out += n;
}

size_t
made_block_columns(const AtpArchiveRow *rows, size_t n, uint8_t *out)
{
	uint8_t    *start = out;

	made_put_le(&out, n, 4);
	for (size_t i = 0; i < n; i++)
		made_put_le(&out, rows[i].seq, 8);
	for (size_t i = 0; i < n; i++)
		made_put_le(&out, (uint64_t) rows[i].witnessed_at, 8);
	for (size_t i = 0; i < n; i++)
		made_put_le(&out, (uint64_t) rows[i].indexed_at, 8);
	for (size_t i = 0; i < n; i++)
		made_put_le(&out, rows[i].kind, 1);
	for (size_t i = 0; i < n; i++)
		made_put_le(&out, rows[i].collection.len, 1);
	for (size_t i = 0; i < n; i++)
		made_put_le(&out, rows[i].did.len, 2);
	for (size_t i = 0; i < n; i++)
		made_put_le(&out, rows[i].rkey.len, 1);
	for (size_t i = 0; i < n; i++)
		made_put_le(&out, rows[i].rev.len, 1);
	for (size_t i = 0; i < n; i++)
		made_put_le(&out, rows[i].payload.len, 4);
	for (size_t i = 0; i < n; i++)
		put_text(&out, rows[i].collection.ptr, rows[i].collection.len);
	for (size_t i = 0; i < n; i++)
		put_text(&out, rows[i].did.ptr, rows[i].did.len);
	for (size_t i = 0; i < n; i++)
		put_text(&out, rows[i].rkey.ptr, rows[i].rkey.len);
	for (size_t i = 0; i < n; i++)
		put_text(&out, rows[i].rev.ptr, rows[i].rev.len);
	for (size_t i = 0; i < n; i++)
		put_text(&out, rows[i].payload.ptr, rows[i].payload.len);
	return (size_t) (out - start);
}

size_t
made_block_frame(const uint8_t *content, size_t len, uint8_t *out)
{
	ZSTD_CCtx  *cctx = ZSTD_createCCtx();
	size_t		n;

	if (cctx == NULL)
		made_die("out of memory");
	(void) ZSTD_CCtx_setParameter(cctx, ZSTD_c_checksumFlag, 1);
	n = ZSTD_compress2(cctx, out, ZSTD_compressBound(len), content, len);
	(void) ZSTD_freeCCtx(cctx);
	if (ZSTD_isError(n))
		made_die("a block cannot be compressed");
	return n;
}
