/*
 * link.h
 *		Links between records: the texts that are links, and the paths at which they stand.  Link rows are
 *		made elsewhere (tables/records/link_rows.c).
 *
 * A link is a text that, as a whole, is an AT URI in the general syntax, or a DID.  Its path has the form of
 * the field's indexes: names joined by '.', "[]" for the elements of an array, and in the brackets the
 * element's "$type", if any: "subject.uri", "facets[].features[app.bsky.richtext.facet#mention].did".  In a
 * name all characters but [A-Za-z0-9_$-] are written %HH, and an empty name as '%', so that each path has one
 * reading.  In a type, '.' and '#' are also written as they are.
 */
#ifndef ATP_LINK_H
#define ATP_LINK_H

#include "core/codec/dagcbor.h"
#include "core/syntax/uri.h"

/* Bytes.  Strangers choose the names; a link with a longer path is skipped and counted. */
#define ATP_LINK_PATH_MAX	256

/*
 * A link is an index entry.  Target, the target's authority (repeated where tables are distributed), record
 * key and DID together have at most so many bytes in stored form.  This is less than the limit of an index
 * with pages of 8 kB, even if no compression helps.
 */
#define ATP_LINK_ENTRY_MAX	2600

/*
 * To go back to the outer level, set len to its earlier value.  Beyond ATP_LINK_PATH_MAX, len counts
 * characters that text does not have.
 */
typedef struct AtpLinkPath
{
	size_t		len;
	char		text[ATP_LINK_PATH_MAX];
} AtpLinkPath;

extern void atp_link_path_name(AtpLinkPath *path, AtpSpan name);

/* Could the functions below have written this path? */
extern bool atp_link_path_is_valid(AtpSpan path);

/*
 * Takes the first name off a path that has only names; path->ptr becomes NULL after the last.  *name lies in
 * buf, which has room for the whole path.  False: the path begins with something else.
 */
extern bool atp_link_path_take(AtpSpan *path, char *buf, AtpSpan *name);

/* type.ptr is NULL when the element has no "$type". */
extern void atp_link_path_element(AtpLinkPath *path, AtpSpan type);

/* $type, $link and $bytes: a text under such a name describes the value around it, and is no link. */
extern bool atp_link_is_name_of_model(AtpSpan name);

/*
 * The URI that a text links to; for a DID, "at://" and the DID.  *target is text itself, or lies in buf,
 * which holds ATP_URI_MAX bytes; *uri has its parts.  False: the text is no link.
 */
extern bool atp_link_target(AtpSpan text, char *buf, AtpSpan *target, AtpUri *uri);

/* A walk through a record, in the order of its bytes; calls found() for each link, also for duplicates. */
typedef struct AtpLinkWalk
{
	void		(*found) (struct AtpLinkWalk *walk, AtpSpan target, const AtpUri *uri);
	void	   *arg;			/* for the use of found() */
	AtpTickFn	tick;			/* called while a DAG-CBOR value is walked; NULL: values are short */
	AtpLinkPath path;			/* path of the link */
	uint64_t	deeper;			/* links skipped because their paths are too long */
	char		buf[ATP_URI_MAX];
} AtpLinkWalk;

static inline void
atp_link_walk_begin(AtpLinkWalk *walk, void (*found) (AtpLinkWalk *walk, AtpSpan target, const AtpUri *uri), void *arg)
{
	walk->found = found;
	walk->arg = arg;
	walk->tick = NULL;
	walk->path.len = 0;
	walk->deeper = 0;
}

/* Looks at a text of the record, which stands at walk->path. */
extern void atp_link_walk_text(AtpLinkWalk *walk, AtpSpan text);

/* The "$type" of an element of an array: offset of its text in the value; at 0: no type. */
typedef struct AtpLinkType
{
	uint32_t	at;
	uint32_t	len;
} AtpLinkType;

/*
 * Collects the types of all elements that are maps, in the order in which the maps begin.  "$type" may stand
 * after the members whose path needs it, so that all types are collected first, in one pass: the time does
 * not depend on the nesting.  If *count is greater than cap, call again with room for *count.  An error: buf
 * is no DAG-CBOR value.  A value must have less than 4 GB.
 */
extern AtpErr atp_link_types(const uint8_t *buf, size_t n, AtpLinkType *types, size_t cap, AtpTickFn tick, size_t *count, size_t *at);

/* Walks the value, with the types from atp_link_types(). */
extern void atp_link_walk_items(AtpLinkWalk *walk, const uint8_t *buf, size_t n, const AtpLinkType *types);

#endif							/* ATP_LINK_H */
