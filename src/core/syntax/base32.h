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

/* Written out, these are one instruction or two: compilers do not see that in loops. */
static inline void
atp_put_be32(uint8_t *out, uint32_t v)
{
	out[0] = (uint8_t) (v >> 24);
	out[1] = (uint8_t) (v >> 16);
	out[2] = (uint8_t) (v >> 8);
	out[3] = (uint8_t) v;
}

static inline void
atp_put_be64(uint8_t *out, uint64_t v)
{
	atp_put_be32(out, (uint32_t) (v >> 32));
	atp_put_be32(out + 4, (uint32_t) v);
}

static inline uint64_t
atp_get_be64(const uint8_t *in)
{
	return (uint64_t) in[0] << 56 | (uint64_t) in[1] << 48 | (uint64_t) in[2] << 40 | (uint64_t) in[3] << 32 |
		(uint64_t) in[4] << 24 | (uint64_t) in[5] << 16 | (uint64_t) in[6] << 8 | (uint64_t) in[7];
}

/* The two alphabets of base32: the values of 'a' and of '2'. */
typedef struct AtpBase32
{
	uint8_t		a;
	uint8_t		two;
} AtpBase32;

#define ATP_BASE32_SORTABLE	((AtpBase32) {.a = 6, .two = 0})
#define ATP_BASE32_RFC4648	((AtpBase32) {.a = 0, .two = 26})

/*
 * The 40 bits of eight characters, all at once: each character is a byte of a word.  False, with no bits, if one of the
 * characters is no base32 character.
 */
static inline bool
atp_base32_eight(const char *s, AtpBase32 alphabet, uint64_t *bits)
{
	const uint64_t each = UINT64_C(0x0101010101010101);
	uint64_t	word = atp_get_be64((const uint8_t *) s);
	uint64_t	low = word & each * 0x7f;

	/* the top bit of each byte of which low is at least '2', and so on */
	uint64_t	from_2 = low + each * (0x80 - '2');
	uint64_t	from_8 = low + each * (0x80 - '8');
	uint64_t	from_a = low + each * (0x80 - 'a');
	uint64_t	from_brace = low + each * (0x80 - '{');
	uint64_t	good = ((from_2 & ~from_8) | (from_a & ~from_brace)) & ~word;
	uint64_t	letters;
	uint64_t	values;

	/* first: a byte of a wrong character would borrow from the next */
	*bits = 0;
	if ((good & each * 0x80) != each * 0x80)
		return false;
	/* bit 6 tells letters from digits */
	letters = word >> 6 & each;
	values = word - each * (uint8_t) ('2' - alphabet.two) - letters * (uint8_t) ('a' - alphabet.a - ('2' - alphabet.two));
	values &= each * 31;
	values = (values >> 3 & UINT64_C(0x03e003e003e003e0)) | (values & UINT64_C(0x001f001f001f001f));
	values = (values >> 6 & UINT64_C(0x000ffc00000ffc00)) | (values & UINT64_C(0x000003ff000003ff));
	*bits = (values >> 12 & UINT64_C(0xfffff00000)) | (values & 0xfffff);
	return true;
}

/* Five bytes of the 40 bits. */
static inline void
atp_put_be40(uint8_t *out, uint64_t bits)
{
	out[0] = (uint8_t) (bits >> 32);
	atp_put_be32(out + 1, (uint32_t) bits);
}

#endif							/* ATP_BASE32_H */
