/*
 * chars.h
 *		Classes of ASCII characters for the syntaxes of src/core: one table of
 *		256 entries, so that testing a byte is one load and depends on no
 *		locale.  Private to src/core.
 */
#ifndef ATP_CHARS_H
#define ATP_CHARS_H

#include "core/atp.h"

/* '%' is in no class: a syntax that allows %HH must also check the two bytes after '%'. */
#define ATP_C_LOWER			0x0001	/* a-z */
#define ATP_C_UPPER			0x0002	/* A-Z */
#define ATP_C_DIGIT			0x0004	/* 0-9 */
#define ATP_C_HEX			0x0008	/* 0-9 A-F a-f */
#define ATP_C_LABEL			0x0010	/* letters, digits, '-' */
#define ATP_C_UNRESERVED	0x0020	/* RFC 3986: letters, digits, - . _ ~ */
#define ATP_C_AUTHORITY		0x0040	/* unreserved and ':' */
#define ATP_C_PCHAR			0x0080	/* RFC 3986: also : @ and the sub-delims */
#define ATP_C_QUERY			0x0100	/* pchar, '/' and '?' */
#define ATP_C_RKEY			0x0200	/* K-01 and D2: unreserved and ':' */
#define ATP_C_DID			0x0400	/* I-20: letters, digits, . _ : - */
#define ATP_C_DELIMITER		0x0800	/* ends an authority: / ? # */
#define ATP_C_LETTER		(ATP_C_LOWER | ATP_C_UPPER)

extern const uint16_t atp_char_class[256];

/* Does c belong to one of the classes at least? */
static inline bool
atp_char_is(char c, unsigned classes)
{
	return (atp_char_class[(uint8_t) c] & classes) != 0;
}

static inline char
atp_char_lower(char c)
{
	return atp_char_is(c, ATP_C_UPPER) ? c + ('a' - 'A') : c;
}

/* Are the texts equal, without regard to the case of ASCII letters? */
static inline bool
atp_span_same_letters(AtpSpan a, AtpSpan b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
	{
		if (atp_char_lower(a.ptr[i]) != atp_char_lower(b.ptr[i]))
			return false;
	}
	return true;
}

/* The value of a hexadecimal digit. */
static inline unsigned
atp_hex_value(char c)
{
	return atp_char_is(c, ATP_C_DIGIT) ? c - '0' : atp_char_lower(c) - 'a' + 10;
}

/* Are there two hexadecimal digits after the '%' at p?  */
static inline bool
atp_is_triplet(const char *p, const char *end)
{
	return end - p >= 3 && atp_char_is(p[1], ATP_C_HEX) && atp_char_is(p[2], ATP_C_HEX);
}

/*
 * Must the normal form of a URI write c itself rather than %HH?  So for all
 * unreserved characters, except '~' in a DID, where '~' is not allowed.
 */
static inline bool
atp_is_needless_encoding(char c, bool in_did)
{
	return atp_char_is(c, ATP_C_UNRESERVED) && !(in_did && c == '~');
}

/* The byte that the %HH at p stands for. */
static inline char
atp_triplet_value(const char *p)
{
	return (char) (atp_hex_value(p[1]) << 4 | atp_hex_value(p[2]));
}

/* Writes c as %HH, in upper case; returns the end. out may be the place that c was read from. */
static inline char *
atp_put_triplet(char *out, char c)
{
	static const char digit[] = "0123456789ABCDEF";

	*out++ = '%';
	*out++ = digit[(uint8_t) c >> 4];
	*out++ = digit[(uint8_t) c & 15];
	return out;
}

/* Skips characters of class and well-formed %HH.  If the result points at '%', this '%' is malformed. */
static inline const char *
atp_scan_encoded(const char *p, const char *end, unsigned class)
{
	for (;;)
	{
		while (p < end && atp_char_is(*p, class))
			p++;
		if (p == end || *p != '%' || !atp_is_triplet(p, end))
			return p;
		p += 3;
	}
}

/* Lower-cases n bytes in place, except the digits of a %HH. */
extern void atp_lower_encoded(char *s, size_t n);

/*
 * Labels between dots, as in host names, handles and NSIDs: each has 1 to 63
 * letters, digits and hyphens, with no hyphen at its ends.  Stores the number
 * of labels and the offset of the last label.
 */
extern AtpErr atp_labels_check(const char *s, size_t n, unsigned *labels, size_t *last,
							   size_t *at);

static inline AtpErr
atp_fail(AtpErr err, size_t offset, size_t *at)
{
	*at = offset;
	return err;
}

#endif							/* ATP_CHARS_H */
