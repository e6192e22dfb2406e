/*
 * inflate.h
 *		gzip, decoded as far as there is room: whoever asks for so many bytes gets no
 *		more, however many a stranger has packed into few.  Needs no PostgreSQL header.
 */
#ifndef ATP_INFLATE_H
#define ATP_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct AtpInflate AtpInflate;

/* malloc'ed; NULL: out of memory. */
extern AtpInflate *atp_inflate_new(void);

/* NULL is allowed. */
extern void atp_inflate_free(AtpInflate *z);

/*
 * Decode of *in, which moves, as much as fits into out; returns how much that is.
 * Fewer than size: all of *in was taken, or it is broken.
 */
extern size_t atp_inflate(AtpInflate *z, const uint8_t **in, size_t *n, void *out, size_t size);

/* It is no gzip, or damaged; it stays so. */
extern bool atp_inflate_is_broken(const AtpInflate *z);

/* What came is whole: some members, or nothing at all. */
extern bool atp_inflate_is_whole(const AtpInflate *z);

#endif							/* ATP_INFLATE_H */
