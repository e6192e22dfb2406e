/*
 * unzstd.h
 *		Decompression of zstd frames (RFC 8878): of messages, with a dictionary
 *		known to both sides, and of the blocks of an archive.  Memory is bounded by
 *		the longest content allowed, whatever the compression ratio.  Needs no
 *		PostgreSQL header.
 */
#ifndef ATP_UNZSTD_H
#define ATP_UNZSTD_H

#include <stddef.h>
#include <stdint.h>

#include "net/drop.h"

#define ATP_ZSTD_DICTIONARY_MAX	(1024 * 1024)	/* bytes; Jetstream's have 64 and 110 kB */

typedef struct AtpUnzstd AtpUnzstd;

/* The id in a dictionary, by which frames refer to it; 0: not a dictionary. */
extern uint32_t atp_zstd_dictionary_id(const uint8_t *dictionary, size_t len);

/* Is the dictionary complete and usable?  A dictionary cut off in its tables still has an id. */
extern bool atp_zstd_is_dictionary(const uint8_t *dictionary, size_t len);

/* A decompressor with this dictionary, which is copied.  NULL: not a dictionary, or out of memory. */
extern AtpUnzstd *atp_unzstd_new(const uint8_t *dictionary, size_t len);

/*
 * A decompressor of the blocks of an archive (H-21): no dictionary, content of at most content_max bytes, a checksum,
 * a window of at most 16 MB.  Memory grows with the content, and is never taken for what a frame says of itself.
 * NULL: out of memory.
 */
extern AtpUnzstd *atp_unzstd_new_for_blocks(size_t content_max);

/* NULL is allowed. */
extern void atp_unzstd_free(AtpUnzstd *z);

/*
 * Decompress a message.  Returns the content, valid until the next call, and its length; NULL on failure,
 * with the reason in *end.
 */
extern const uint8_t *atp_unzstd(AtpUnzstd *z, const uint8_t *message, size_t n, size_t *len, AtpEnd *end);

/*
 * Decompress a frame that comes in pieces: begin, push each piece, end.  The result is that of atp_unzstd(), and does
 * not depend on the pieces.  After a failure nothing is read until the next begin.  The content is whole only at the
 * end, when its checksum has been compared.
 */
extern void atp_unzstd_begin(AtpUnzstd *z);
extern bool atp_unzstd_push(AtpUnzstd *z, const uint8_t *piece, size_t n, AtpEnd *end);
extern const uint8_t *atp_unzstd_end(AtpUnzstd *z, size_t *len, AtpEnd *end);

#endif							/* ATP_UNZSTD_H */
