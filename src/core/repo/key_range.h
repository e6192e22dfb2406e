/*
 * key_range.h
 *		Ranges of keys in a repository's tree: the records of the collections that a filter names (P-01), and
 *		keys at the ends of the ranges (P-02).
 *
 * A range points into the filter's texts.
 */
#ifndef ATP_KEY_RANGE_H
#define ATP_KEY_RANGE_H

#include "core/atp.h"
#include "core/syntax/nsid.h"

/* The key that consists of these bytes and one more byte.  text.ptr NULL: greater than every key. */
typedef struct AtpKeyBound
{
	AtpSpan		text;
	uint8_t		last;
} AtpKeyBound;

typedef struct AtpKeyRange
{
	AtpKeyBound first;			/* the least key of the range, in a tree or not */
	AtpKeyBound end;			/* the least key after the range */
} AtpKeyRange;

/* P-01: the range of a collection, of "a.b.*", or of "*": a pattern that atp_nsid_pattern_check() accepts. */
extern AtpKeyRange atp_key_range(AtpSpan pattern);

/* The order of ranges, for the caller's sort: by first. */
extern int	atp_key_range_compare(const AtpKeyRange *a, const AtpKeyRange *b);

/* P-01: joins sorted ranges that touch or overlap, in place; returns how many are left. */
extern size_t atp_key_ranges_join(AtpKeyRange *ranges, size_t n);

/* Do the ranges ascend without touching each other?  Otherwise a walk would leave some out. */
extern bool atp_key_ranges_ascend(const AtpKeyRange *ranges, size_t n);

/* The order of a key and a bound: bytewise. */
extern int	atp_key_compare(AtpBytes key, AtpKeyBound bound);

/* Is the bound the least key behind this key?  Then no key lies between. */
extern bool atp_key_is_before(AtpBytes key, AtpKeyBound bound);

/*
 * P-02: a collection and a record key just inside a range: proofs that the tree has this record, or does not
 * have it, contain the nodes at this end of the range.
 */
typedef struct AtpKeyProbe
{
	char		collection[ATP_NSID_MAX];
	size_t		collection_len;
	AtpSpan		rkey;
} AtpKeyProbe;

extern void atp_key_probe_first(const AtpKeyRange *range, AtpKeyProbe *probe);
extern void atp_key_probe_last(const AtpKeyRange *range, AtpKeyProbe *probe);

#endif							/* ATP_KEY_RANGE_H */
