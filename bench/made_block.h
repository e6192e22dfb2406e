/*
 * made_block.h
 *		Writes blocks of a Jetstream's archive, for measurements.
 */
#ifndef MADE_BLOCK_H
#define MADE_BLOCK_H

#include <zstd.h>

#include "core/archive/archive_block.h"

/* Little-endian; *out moves on. */
extern void made_put_le(uint8_t **out, uint64_t value, unsigned bytes);

/* The columns of n rows; returns their bytes.  The payloads come last, one behind another. */
extern size_t made_block_columns(const AtpArchiveRow *rows, size_t n, uint8_t *out);

/* A zstd frame with a checksum, at libzstd's default level; returns its bytes, at most ZSTD_compressBound(len). */
extern size_t made_block_frame(const uint8_t *content, size_t len, uint8_t *out);

#endif							/* MADE_BLOCK_H */
