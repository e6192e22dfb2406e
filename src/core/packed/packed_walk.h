/*
 * packed_walk.h
 *		Steps through containers of the packed form.  Private to src/core/packed.
 */
#ifndef ATP_PACKED_WALK_H
#define ATP_PACKED_WALK_H

#include "core/packed/packed_code.h"
#include "core/packed/packed_table.h"

/* Takes the number of members, or pairs, each of which has a byte at least.  An empty container has no number. */
static inline bool
atp_packed_next_count(AtpBytes *rest, uint64_t *count)
{
	*count = 0;
	return rest->len == 0 || (atp_packed_number(rest, count) && *count <= rest->len);
}

/* Takes a key of a map.  *number is ATP_PACKED_NONE if the key is a text. */
static inline bool
atp_packed_next_key(AtpBytes *rest, AtpSpan *key, uint16_t *number)
{
	AtpBytes	bytes;
	uint64_t	n;

	if (!atp_packed_take(rest, 1, &bytes))
		return false;
	*number = bytes.ptr[0];
	if (*number > 0)
	{
		*key = atp_packed_key(*number);
		return key->ptr != NULL;
	}
	*number = ATP_PACKED_NONE;
	if (!atp_packed_number(rest, &n) || !atp_packed_take(rest, n, &bytes))
		return false;
	*key = (AtpSpan) {(const char *) bytes.ptr, bytes.len};
	return true;
}

/* Takes the number of a shape: the numbers of its keys. */
static inline bool
atp_packed_next_shape(AtpBytes *rest, AtpSpan *keys)
{
	AtpBytes	number;

	if (!atp_packed_take(rest, 1, &number))
		return false;
	*keys = atp_packed_shape(number.ptr[0]);
	return keys->ptr != NULL;
}

/* The two values of a strong reference. */
static inline AtpPackedValue
atp_packed_ref_cid(AtpBytes ref)
{
	return (AtpPackedValue) {ATP_CODE_CID, {ref.ptr, ATP_PACKED_DIGEST}};
}

static inline AtpPackedValue
atp_packed_ref_uri(AtpBytes ref)
{
	return (AtpPackedValue) {ATP_CODE_URI, {ref.ptr + ATP_PACKED_DIGEST, ATP_PACKED_URI}};
}

#endif							/* ATP_PACKED_WALK_H */
