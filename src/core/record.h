/*
 * record.h
 *		Is a block a record of the atproto data model?  Rules B-20 to B-28: on
 *		top of DAG-CBOR, no float, integers in the signed 64-bit range, a
 *		top-level map with a non-empty $type, well-formed blobs, limits.
 */
#ifndef ATP_RECORD_H
#define ATP_RECORD_H

#include "atp.h"

#define ATP_RECORD_MAX		1000000 /* bytes, B-28, D22 */

extern AtpErr atp_record_check(const uint8_t *block, size_t n, size_t *at);

#endif							/* ATP_RECORD_H */
