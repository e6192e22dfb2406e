/*
 * base64.h
 *		Decoder of base64 (RFC 4648 section 4), in which JSON carries byte
 *		strings ("$bytes"), and decoder and encoder of base64url (section 5), in
 *		which the did:plc directory writes signatures.
 */
#ifndef ATP_BASE64_H
#define ATP_BASE64_H

#include "core/atp.h"

/*
 * Padding may be absent, but must be complete if present. out holds n bytes, or
 * is NULL to compute only the length.  *exact: the unused bits of the last
 * character are zero.
 */
extern bool atp_base64_decode(const char *restrict s, size_t n, uint8_t *restrict out, size_t *on, bool *exact);

/* As atp_base64_decode(), for the alphabet with "-" and "_"; padding is not allowed. */
extern bool atp_base64url_decode(const char *restrict s, size_t n, uint8_t *restrict out, size_t *on, bool *exact);

/* Encodes without padding; returns the number of characters. */
#define ATP_BASE64URL_LEN(n)	(((n) * 4 + 2) / 3)
extern size_t atp_base64url_encode(const uint8_t *restrict bytes, size_t n, char *restrict out);

#endif							/* ATP_BASE64_H */
