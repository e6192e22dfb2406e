/*
 * json_dagcbor.h
 *		JSON to canonical DAG-CBOR (rules J-01 to J-07): what event streams that are
 *		written in JSON say of records becomes the bytes that their CIDs are of.
 */
#ifndef ATP_JSON_DAGCBOR_H
#define ATP_JSON_DAGCBOR_H

#include "core/atp.h"

/* Bytes of memory that n bytes of JSON take to be converted: a small multiple of n. */
extern size_t atp_json_dagcbor_room(size_t n);

/*
 * The whole of s is one value.  *cbor is in room, which has at least so many bytes.  Time is
 * that of reading the text, and sorting each object's keys.
 */
extern AtpErr atp_json_to_dagcbor(const char *restrict s, size_t n, uint8_t *restrict room, size_t size,
								  AtpBytes *cbor, size_t *at);

/* The same of a text that may be long: tick is called now and then. */
extern AtpErr atp_json_to_dagcbor_ticking(const char *restrict s, size_t n, uint8_t *restrict room, size_t size, AtpTickFn tick,
										  AtpBytes *cbor, size_t *at);

#endif							/* ATP_JSON_DAGCBOR_H */
