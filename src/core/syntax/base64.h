/*
 * base64.h
 *		Base64 (RFC 4648 section 4), as JSON has byte strings.
 */
#ifndef ATP_BASE64_H
#define ATP_BASE64_H

#include "core/atp.h"

/*
 * Padding is optional, but whole if there.  out holds n bytes, or is NULL when only
 * the number of bytes is asked for.  *exact: the bits that no byte uses are zero.
 */
extern bool atp_base64_decode(const char *restrict s, size_t n, uint8_t *restrict out, size_t *on, bool *exact);

#endif							/* ATP_BASE64_H */
