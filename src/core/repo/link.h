/*
 * link.h
 *		Links between records: what in a record is one, and where it stands.
 *
 * A link is a text that as a whole is an AT URI, in the general syntax, or a DID.  Its path is
 * that of indexes of the field: names joined by '.', "[]" for the elements of an array, with
 * the "$type" of those that have one in it: "subject.uri",
 * "facets[].features[app.bsky.richtext.facet#mention].did".  In a name all but [A-Za-z0-9_$-]
 * is written %HH, and an empty one '%', so that each path has one reading; in a type '.' and
 * '#' stay, too.
 */
#ifndef ATP_LINK_H
#define ATP_LINK_H

#include "core/codec/dagcbor.h"
#include "core/syntax/uri.h"

/* Bytes; strangers choose names, and nothing is linked from a longer path. */
#define ATP_LINK_PATH_MAX	256

/*
 * A link is an entry of an index, with who links: target, its authority once more (where tables are
 * distributed), record key and DID, as they are stored, have so many bytes at most.  Less than an index of
 * pages of 8 kB takes, whatever it can compress.
 */
#define ATP_LINK_ENTRY_MAX	2600

/* To go back to the level before, set len to what it was.  Beyond the maximum it counts what is not there. */
typedef struct AtpLinkPath
{
	size_t		len;
	char		text[ATP_LINK_PATH_MAX];
} AtpLinkPath;

extern void atp_link_path_name(AtpLinkPath *path, AtpSpan name);

/* Could it be written like that? */
extern bool atp_link_path_is_valid(AtpSpan path);

/*
 * The first name of a path that is made of names only, taken off it; path->ptr becomes NULL after
 * the last.  *name is in buf, which has room for the path.  False: what comes first is no name.
 */
extern bool atp_link_path_take(AtpSpan *path, char *buf, AtpSpan *name);

/* type: ptr NULL when the element has none. */
extern void atp_link_path_element(AtpLinkPath *path, AtpSpan type);

/* Texts under these names are about the value that has them, and link to nothing: $type, $link, $bytes. */
extern bool atp_link_is_name_of_model(AtpSpan name);

/*
 * The URI that a text links to; "at://" and the DID, for one.  *target is text itself, or buf,
 * which holds ATP_URI_MAX bytes, and *uri its parts.  False when it is no link.
 */
extern bool atp_link_target(AtpSpan text, char *buf, AtpSpan *target, AtpUri *uri);

/* A walk through a record, in the order of its bytes; found() is told of each link, duplicates too. */
typedef struct AtpLinkWalk
{
	void		(*found) (struct AtpLinkWalk *walk, AtpSpan target, const AtpUri *uri);
	void	   *arg;			/* for found() */
	AtpTickFn	tick;			/* while values in DAG-CBOR are walked; NULL: they are short */
	AtpLinkPath path;			/* of the link */
	uint64_t	deeper;			/* links that were passed over, because their paths are too long */
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

/* A text of the record, at walk->path. */
extern void atp_link_walk_text(AtpLinkWalk *walk, AtpSpan text);

/* The "$type" of an element of an array: where in the value its text is; at 0: there is none. */
typedef struct AtpLinkType
{
	uint32_t	at;
	uint32_t	len;
} AtpLinkType;

/*
 * Those of all elements that are maps, in the order in which these begin: a type may stand
 * behind what is under it, so they are found first, in one go, whoever nests what how deep.
 * *count may be more than cap: then it is to be done again, with so much room.  Other than
 * ATP_OK: it is no value in DAG-CBOR, of less than 4 GB.
 */
extern AtpErr atp_link_types(const uint8_t *buf, size_t n, AtpLinkType *types, size_t cap, AtpTickFn tick, size_t *count, size_t *at);

/* All of that value. */
extern void atp_link_walk_items(AtpLinkWalk *walk, const uint8_t *buf, size_t n, const AtpLinkType *types);

#endif							/* ATP_LINK_H */
