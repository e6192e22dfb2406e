/*
 * key_range.c
 *		Ranges of keys in a repository's tree: see key_range.h.
 *
 * The keys of a collection begin with its name and '/', the keys of "a.b.*" with "a.b.".  The first key after
 * such a range has the next character, '0' or '/', in this place.  If the end were 0xff instead, the range of
 * "a.b.c" would also include the records of "a.b.c0d" or "a.b.cd".
 */
#include "core/repo/key_range.h"

AtpKeyRange
atp_key_range(AtpSpan pattern)
{
	if (pattern.ptr[pattern.len - 1] != '*')
		return (AtpKeyRange) {{pattern, '/'}, {pattern, '/' + 1}};
	if (pattern.len == 1)
		return (AtpKeyRange) {{{pattern.ptr, 0}, 0}, {{NULL, 0}, 0}};
	pattern.len -= 2;
	return (AtpKeyRange) {{pattern, '.'}, {pattern, '.' + 1}};
}

int
atp_key_compare(AtpBytes key, AtpKeyBound bound)
{
	size_t		n = bound.text.len;
	int			cmp;

	if (bound.text.ptr == NULL)
		return -1;
	cmp = memcmp(key.ptr, bound.text.ptr, key.len < n ? key.len : n);
	if (cmp == 0 && key.len > n)
		cmp = key.ptr[n] != bound.last ? key.ptr[n] - bound.last : key.len > n + 1;
	else if (cmp == 0)
		cmp = -1;
	return cmp;
}

bool
atp_key_is_before(AtpBytes key, AtpKeyBound bound)
{
	return bound.text.ptr != NULL && bound.last == 0 && bound.text.len == key.len && memcmp(bound.text.ptr, key.ptr, key.len) == 0;
}

static inline uint8_t
byte_of_bound(AtpKeyBound bound, size_t i)
{
	return i < bound.text.len ? (uint8_t) bound.text.ptr[i] : bound.last;
}

static int
compare_bounds(AtpKeyBound a, AtpKeyBound b)
{
	if (a.text.ptr == NULL || b.text.ptr == NULL)
		return (a.text.ptr == NULL) - (b.text.ptr == NULL);
	for (size_t i = 0; i <= a.text.len && i <= b.text.len; i++)
	{
		int			cmp = byte_of_bound(a, i) - byte_of_bound(b, i);

		if (cmp != 0)
			return cmp;
	}
	return (a.text.len > b.text.len) - (a.text.len < b.text.len);
}

int
atp_key_range_compare(const AtpKeyRange *a, const AtpKeyRange *b)
{
	return compare_bounds(a->first, b->first);
}

size_t
atp_key_ranges_join(AtpKeyRange *ranges, size_t n)
{
	size_t		joined = 0;

	for (size_t i = 0; i < n; i++)
	{
		AtpKeyRange *before = joined > 0 ? &ranges[joined - 1] : NULL;

		if (before == NULL || compare_bounds(ranges[i].first, before->end) > 0)
			ranges[joined++] = ranges[i];
		else if (compare_bounds(ranges[i].end, before->end) > 0)
			before->end = ranges[i].end;
	}
	return joined;
}

bool
atp_key_ranges_ascend(const AtpKeyRange *ranges, size_t n)
{
	for (size_t i = 1; i < n; i++)
	{
		if (compare_bounds(ranges[i - 1].end, ranges[i].first) >= 0)
			return false;
	}
	return true;
}

static void
add_segment(AtpKeyProbe *probe, AtpSpan text)
{
	size_t		room = sizeof(probe->collection) - probe->collection_len;
	size_t		n = text.len < room ? text.len : room;

	memcpy(probe->collection + probe->collection_len, text.ptr, n);
	probe->collection_len += n;
}

/* The bound of a pattern is no collection yet: an NSID has three segments or more. */
static void
add_segments(AtpKeyProbe *probe, AtpSpan segment, AtpSpan name)
{
	unsigned	segments = 1;

	for (size_t i = 0; i < probe->collection_len; i++)
		segments += probe->collection[i] == '.';
	for (; segments < 2; segments++)
		add_segment(probe, segment);
	add_segment(probe, name);
}

#define SPAN(literal)	((AtpSpan) {literal, sizeof(literal) - 1})

void
atp_key_probe_first(const AtpKeyRange *range, AtpKeyProbe *probe)
{
	AtpKeyBound bound = range->first;

	probe->collection_len = 0;
	add_segment(probe, bound.text.len > 0 ? bound.text : SPAN("a"));
	if (bound.last != '/')
		add_segments(probe, SPAN(".0"), SPAN(".A"));
	probe->rkey = SPAN("-");
}

void
atp_key_probe_last(const AtpKeyRange *range, AtpKeyProbe *probe)
{
	AtpKeyBound bound = range->end;

	probe->collection_len = 0;
	add_segment(probe, bound.text.ptr != NULL ? bound.text : SPAN("z"));
	if (bound.last != '/' + 1)
		add_segments(probe, SPAN(".zzzzzzzzzzzzz"), SPAN(".zzzzzzzzzzzzz"));
	probe->rkey = SPAN("zzzzzzzzzzzzz~");
}
