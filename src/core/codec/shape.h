/*
 * shape.h
 *		Fast readers for structures of a fixed layout: fixed bytes are compared with a literal, and values are
 *		taken from their places.  Private to src/core.
 *
 * DAG-CBOR has one encoding for everything, so that in a message with known fields only the values vary.
 * False always means: the bytes have another layout or are invalid, and the general reader must decide which.
 * So nothing here may accept what the general reader refuses.
 */
#ifndef ATP_SHAPE_H
#define ATP_SHAPE_H

#include "core/codec/cid.h"

/* The bytes not read yet. */
typedef struct AtpShape
{
	const uint8_t *p;
	const uint8_t *end;
} AtpShape;

static inline bool
atp_shape_bytes(AtpShape *s, const char *literal, size_t n)
{
	if ((size_t) (s->end - s->p) < n || memcmp(s->p, literal, n) != 0)
		return false;
	s->p += n;
	return true;
}

/* Are the next bytes this string literal? */
#define ATP_SHAPE_IS(s, literal)	atp_shape_bytes(s, literal, sizeof(literal) - 1)

/* Reads a head of this major type, in the shortest form. */
static inline bool
atp_shape_head(AtpShape *s, unsigned major, uint64_t *u)
{
	/* the smallest argument that needs 1, 2, 4, 8 more bytes */
	static const uint64_t least[4] = {24, 0x100, 0x10000, UINT64_C(0x100000000)};
	unsigned	info;
	size_t		n;
	uint64_t	v = 0;

	if (s->p == s->end || s->p[0] >> 5 != major)
		return false;
	info = s->p[0] & 0x1f;
	if (info < 24)
	{
		*u = info;
		s->p++;
		return true;
	}
	if (info > 27)
		return false;
	n = (size_t) 1 << (info - 24);
	if ((size_t) (s->end - s->p) <= n)
		return false;
	for (size_t i = 1; i <= n; i++)
		v = v << 8 | s->p[i];
	*u = v;
	s->p += 1 + n;
	return v >= least[info - 24];
}

/* Reads bytes (major type 2) or text (3).  Text is not checked for UTF-8. */
static inline bool
atp_shape_string(AtpShape *s, unsigned major, AtpBytes *out)
{
	uint64_t	n;

	if (!atp_shape_head(s, major, &n) || n > (size_t) (s->end - s->p))
		return false;
	*out = (AtpBytes) {s->p, (size_t) n};
	s->p += n;
	return true;
}

static inline bool
atp_shape_text(AtpShape *s, AtpSpan *out)
{
	AtpBytes	text;

	if (!atp_shape_string(s, 3, &text))
		return false;
	*out = (AtpSpan) {(const char *) text.ptr, text.len};
	return true;
}

/* Reads a link with SHA-256, and a codec of a single byte. */
static inline bool
atp_shape_link(AtpShape *s, AtpBytes *cid)
{
	const uint8_t *p = s->p;

	if (s->end - p < 5 + ATP_CID_BLESSED_LEN || memcmp(p, "\xd8\x2a\x58\x25\x00\x01", 6) != 0 ||
		p[6] >= 0x80 || p[7] != ATP_CID_SHA2_256 || p[8] != 32)
		return false;
	*cid = (AtpBytes) {p + 5, ATP_CID_BLESSED_LEN};
	s->p += 5 + ATP_CID_BLESSED_LEN;
	return true;
}

/* Reads a link to DAG-CBOR with SHA-256: B-42. */
static inline bool
atp_shape_node_link(AtpShape *s, AtpBytes *cid)
{
	return atp_shape_link(s, cid) && cid->ptr[1] == ATP_CID_CODEC_DAG_CBOR;
}

#endif							/* ATP_SHAPE_H */
