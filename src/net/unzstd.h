/*
 * unzstd.h
 *		Messages that are compressed with zstd (RFC 8878), each one frame, with a dictionary
 *		that both sides have: no more memory than the longest message needs, whatever a
 *		stranger has packed into a few bytes.  Needs no PostgreSQL header.
 */
#ifndef ATP_UNZSTD_H
#define ATP_UNZSTD_H

#include <stddef.h>
#include <stdint.h>

#include "net/drop.h"

#define ATP_ZSTD_DICTIONARY_MAX	(1024 * 1024)	/* bytes; Jetstream's have 64 and 110 kB */

typedef struct AtpUnzstd AtpUnzstd;

/* The number that a dictionary has, by which its frames name it; 0: it is none. */
extern uint32_t atp_zstd_dictionary_id(const uint8_t *dictionary, size_t len);

/* Can messages be unpacked by it?  One that is cut in its tables has a number, too. */
extern bool atp_zstd_is_dictionary(const uint8_t *dictionary, size_t len);

/* For messages that were packed with this dictionary, which is copied.  NULL: it is none, or there is no memory. */
extern AtpUnzstd *atp_unzstd_new(const uint8_t *dictionary, size_t len);

/* NULL is allowed. */
extern void atp_unzstd_free(AtpUnzstd *z);

/*
 * A message's content, valid until the next call, and its length; NULL: why it has
 * none is in *end.
 */
extern const uint8_t *atp_unzstd(AtpUnzstd *z, const uint8_t *message, size_t n, size_t *len, AtpEnd *end);

#endif							/* ATP_UNZSTD_H */
