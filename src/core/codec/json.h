/*
 * json.h
 *		A strict pull reader of JSON (RFC 8259) in the caller's memory.  Nothing is allocated, and a text is
 *		decoded only on request.
 *
 * atp_json_next() delivers one item per call.  A text is a span of the input, between its quotes;
 * atp_json_text() decodes it.
 */
#ifndef ATP_JSON_H
#define ATP_JSON_H

#include "core/atp.h"

#define ATP_JSON_DEPTH_DEFAULT	32
/* levels for which a reader has room: a record's (B-10), and a "$link" in its innermost object */
#define ATP_JSON_DEPTH_MAX		129

typedef enum AtpJsonKind
{
	ATP_JSON_OBJECT,			/* followed by the members, each a KEY and a value, then END */
	ATP_JSON_ARRAY,				/* followed by the members, then END */
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
	/* KEY, TEXT: between the quotes; NUMBER, TRUE, FALSE, NULL: its characters; containers: see atp_json_outline() */
	AtpSpan		raw;
	bool		escaped;		/* KEY, TEXT: contains a backslash */
} AtpJsonItem;

typedef struct AtpJsonReader
{
	const char *buf;
	size_t		len;
	size_t		pos;
	unsigned	depth;			/* open containers */
	unsigned	max_depth;
	bool		started;		/* the value has begun: only white space may follow its end */
	bool		first;			/* the innermost container has had no member yet */
	bool		after_key;
	bool		others;			/* atp_json_members(), atp_json_outline(): an object had members with other names */
	bool		is_object[ATP_JSON_DEPTH_MAX];
} AtpJsonReader;

extern void atp_json_init(AtpJsonReader *r, const char *buf, size_t n, unsigned max_depth);

/* The next item; ATP_E_JSON_END after the whole value, if only white space follows. */
extern AtpErr atp_json_next(AtpJsonReader *r, AtpJsonItem *item, size_t *at);

/* Skips the rest of the value whose first item was just read. */
extern AtpErr atp_json_finish(AtpJsonReader *r, const AtpJsonItem *item, size_t *at);

/*
 * As atp_json_finish(), but raw of a container becomes its whole text.  The container is measured, not parsed: its
 * contents may be invalid, and nested to any depth.
 */
extern AtpErr atp_json_measure(AtpJsonReader *r, AtpJsonItem *item, size_t *at);

/*
 * Call after an OBJECT.  Reads the whole object, and the values of up to 32 members by name.  An absent
 * member's value is NULL without a span; for a container only the first item is given.  *repeated: one of these members is
 * repeated, so that another reader could take the other value.
 */
extern AtpErr atp_json_members(AtpJsonReader *r, const char *const *names, unsigned n,
							   AtpJsonItem *values, bool *repeated, size_t *at);

/* As atp_json_members(), but containers are measured, as atp_json_measure() does. */
extern AtpErr atp_json_outline(AtpJsonReader *r, const char *const *names, unsigned n,
							   AtpJsonItem *values, bool *repeated, size_t *at);

/* Decodes a KEY or TEXT.  False when it takes more than room bytes, or contains half of a surrogate pair. */
extern bool atp_json_text(const AtpJsonItem *item, char *out, size_t room, size_t *n);

extern bool atp_json_is(const AtpJsonItem *item, const char *text, size_t n);

#endif							/* ATP_JSON_H */
