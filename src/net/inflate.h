/*
 * inflate.h
 *		A gzip decoder with bounded output: a call returns at most the bytes asked for,
 *		however high the compression ratio.  Needs no PostgreSQL header.
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
 * Decode from *in, which is advanced, into out; returns the number of bytes written.  Fewer than size means:
 * all of *in was read, or the data is broken.
 */
extern size_t atp_inflate(AtpInflate *z, const uint8_t **in, size_t *n, void *out, size_t size);

/* Is the input not gzip, or damaged?  Once true, stays true. */
extern bool atp_inflate_is_broken(const AtpInflate *z);

/* Does the input so far end at the end of a gzip member, or is it empty? */
extern bool atp_inflate_is_whole(const AtpInflate *z);

#endif							/* ATP_INFLATE_H */
