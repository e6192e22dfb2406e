/*
 * compress.h
 *		zstd with a dictionary: each message is one frame.
 */
#ifndef SRV_COMPRESS_H
#define SRV_COMPRESS_H

#include "buffer.h"

#include <stdbool.h>

typedef struct Dictionary Dictionary;

extern Dictionary *dictionary_load(const char *file);
extern unsigned dictionary_id(const Dictionary *d);
extern const Buffer *dictionary_bytes(const Dictionary *d);
extern void dictionary_free(Dictionary *d);

/* sized: the frame says how long its content is. */
extern void compress_message(Buffer *out, const Dictionary *d, bool sized, const uint8_t *data, size_t len);

/* A frame, without a dictionary, of so many bytes of nothing. */
extern void compress_bomb(Buffer *out, size_t size);

#endif							/* SRV_COMPRESS_H */
