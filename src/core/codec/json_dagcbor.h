/*
 * json_dagcbor.h
 *		Converts JSON to canonical DAG-CBOR (rules J-01 to J-07), so that a record sent as JSON by an event stream
 *		becomes the bytes of its CID.
 */
#ifndef ATP_JSON_DAGCBOR_H
#define ATP_JSON_DAGCBOR_H

#include "core/atp.h"

/* Bytes of memory needed to convert n bytes of JSON: a small multiple of n. */
extern size_t atp_json_dagcbor_room(size_t n);

/*
 * Converts s, which must be exactly one JSON value.  *cbor lies in room, whose size must be at least
 * atp_json_dagcbor_room(n).  Takes the time to read the text and to sort each object's keys.
 */
extern AtpErr atp_json_to_dagcbor(const char *restrict s, size_t n, uint8_t *restrict room, size_t size,
								  AtpBytes *cbor, size_t *at);

/* As atp_json_to_dagcbor(), for a text that may be long: calls tick now and then. */
extern AtpErr atp_json_to_dagcbor_ticking(const char *restrict s, size_t n, uint8_t *restrict room, size_t size, AtpTickFn tick,
										  AtpBytes *cbor, size_t *at);

/*
 * As atp_json_to_dagcbor(), for JSON outside of the data model: "$link" and "$bytes" have no meaning.  So are
 * the did:plc directory's operations encoded (M-03).  After the error of a number or text that DAG-CBOR cannot hold, *cbor has
 * another value of the same type in this place, so that the form can still be judged; after other errors *cbor.ptr is NULL.
 */
extern AtpErr atp_json_to_dagcbor_plain(const char *restrict s, size_t n, uint8_t *restrict room, size_t size,
										AtpBytes *cbor, size_t *at);

#endif							/* ATP_JSON_DAGCBOR_H */
