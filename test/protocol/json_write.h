/*
 * json_write.h
 *		DAG-CBOR as JSON, as servers write it (B-25): for tests of the way back.
 */
#ifndef ATP_TEST_JSON_WRITE_H
#define ATP_TEST_JSON_WRITE_H

#include "core/atp.h"

/*
 * The JSON of one value, or false: JSON has none for it (floats, integers of more than 64 bits with their
 * sign, and maps that could be taken for links or bytes), or it takes more than room bytes.
 * reversed: with the members of a map from the last to the first, and every character of texts escaped.
 */
extern bool atp_json_write(const uint8_t *cbor, size_t n, bool reversed, char *out, size_t room, size_t *len);

#endif							/* ATP_TEST_JSON_WRITE_H */
