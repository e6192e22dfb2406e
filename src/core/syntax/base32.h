/*
 * base32.h
 *		Sortable base32: the alphabet of TIDs, in ASCII order ('2' = 0 ... '7' =
 *		5, 'a' = 6 ... 'z' = 31), so that packed values compare as their texts
 *		do. did:plc identifiers are packed with the same 32 characters.  Private
 *		to src/core; the base32 of CIDs has another alphabet, and stands in
 *		cid.c.
 */
#ifndef ATP_BASE32_H
#define ATP_BASE32_H

#include "core/atp.h"

#define ATP_PLC_CHARS	24
#define ATP_PLC_BYTES	15

/* 0 to 31; 0xff for a character outside the alphabet. */
extern const uint8_t atp_base32_value[256];
extern const char atp_base32_digit[33];

/* False, with out undefined, if one of the 24 characters is no base32 character. */
extern bool atp_plc_pack(const char *restrict s, uint8_t out[restrict ATP_PLC_BYTES]);
extern void atp_plc_unpack(const uint8_t in[restrict ATP_PLC_BYTES], char *restrict out);

/*
 * atp_abbrev_text() (did.c) computes the sort abbreviation of atp_did_abbrev()
 * and atp_uri_abbrev() from the first ATP_ABBREV_CHARS characters of a text.  A
 * shorter text is padded with zeros.
 */
#define ATP_ABBREV_CHARS	20

extern uint64_t atp_abbrev_text(const uint8_t head[ATP_ABBREV_CHARS]);

/* Are all n characters at s base32 characters? */
static inline bool
atp_is_base32(const char *s, size_t n)
{
	unsigned	seen = 0;

	for (size_t i = 0; i < n; i++)
		seen |= atp_base32_value[(uint8_t) s[i]];
	return seen <= 31;
}

static inline void
atp_put_be64(uint8_t *out, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		out[i] = (uint8_t) (v >> (56 - 8 * i));
}

static inline uint64_t
atp_get_be64(const uint8_t *in)
{
	uint64_t	v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | in[i];
	return v;
}

#endif							/* ATP_BASE32_H */
