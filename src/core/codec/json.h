/*
 * json.h
 *		A strict pull reader of JSON (RFC 8259) in memory of the caller's: nothing is
 *		allocated, nothing converted that nobody asks for.
 *
 * atp_json_next() delivers one item after the other.  Text is a span of the
 * input, as it is between its quotes; atp_json_text() decodes it.
 */
#ifndef ATP_JSON_H
#define ATP_JSON_H

#include "core/atp.h"

#define ATP_JSON_DEPTH_DEFAULT	32
#define ATP_JSON_DEPTH_MAX		129 /* what a reader has room for: a record (B-10), and a link in its lowest object */

typedef enum AtpJsonKind
{
	ATP_JSON_OBJECT,			/* its members follow, each a KEY and a value, then END */
	ATP_JSON_ARRAY,				/* its members follow, then END */
	ATP_JSON_END,
	ATP_JSON_KEY,
	ATP_JSON_TEXT,
	ATP_JSON_NUMBER,
	ATP_JSON_TRUE,
	ATP_JSON_FALSE,
	ATP_JSON_NULL
} AtpJsonKind;

typedef struct AtpJsonItem
{
	AtpJsonKind kind;
	AtpSpan		raw;			/* KEY, TEXT: between the quotes; NUMBER; see atp_json_outline() */
	bool		escaped;		/* KEY, TEXT: there is a backslash in it */
} AtpJsonItem;

typedef struct AtpJsonReader
{
	const char *buf;
	size_t		len;
	size_t		pos;
	unsigned	depth;			/* containers that are open */
	unsigned	max_depth;
	bool		started;		/* the value has begun, so that after it comes nothing */
	bool		first;			/* nothing of the lowest container has come */
	bool		after_key;
	bool		is_object[ATP_JSON_DEPTH_MAX];
} AtpJsonReader;

extern void atp_json_init(AtpJsonReader *r, const char *buf, size_t n, unsigned max_depth);

/* ATP_E_JSON_END after the whole value, when nothing but white space follows. */
extern AtpErr atp_json_next(AtpJsonReader *r, AtpJsonItem *item, size_t *at);

/* After the first item of a value: past the rest of it. */
extern AtpErr atp_json_finish(AtpJsonReader *r, const AtpJsonItem *item, size_t *at);

/*
 * After an OBJECT: all of it, and the values of these members (32 at most), of which those
 * that are absent are NULL.  Of a container only its first item is given.
 * *repeated: one of them comes twice, and others could read it otherwise.
 */
extern AtpErr atp_json_members(AtpJsonReader *r, const char *const *names, unsigned n,
							   AtpJsonItem *values, bool *repeated, size_t *at);

/*
 * The same, and of a container raw is all of it.  It is not read, but measured: what is in it
 * may be no JSON, and nested as deep as it likes.
 */
extern AtpErr atp_json_outline(AtpJsonReader *r, const char *const *names, unsigned n,
							   AtpJsonItem *values, bool *repeated, size_t *at);

/*
 * The text of a KEY or TEXT.  False when it takes more than room bytes, or is no
 * text: half of a surrogate pair.
 */
extern bool atp_json_text(const AtpJsonItem *item, char *out, size_t room, size_t *n);

extern bool atp_json_is(const AtpJsonItem *item, const char *text, size_t n);

#endif							/* ATP_JSON_H */
