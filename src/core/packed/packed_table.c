/*
 * packed_table.c
 *		Looks up the texts, keys and shapes of packed_list.h.
 *
 * All three are lists of byte strings by number: a shape is the string of the numbers of its keys.  So one search serves all three.
 */
#include "core/packed/packed.h"
#include "core/packed/packed_code.h"
#include "core/packed/packed_table.h"

static const AtpSpan texts[] = {
#define ATP_PACKED_TEXT(number, text) [number] = {text, sizeof(text) - 1},
#include "core/packed/packed_list.h"
};

static const AtpSpan keys[] = {
#define ATP_PACKED_KEY(number, name, text) [number] = {text, sizeof(text) - 1},
#include "core/packed/packed_list.h"
};

static const AtpSpan shapes[] = {
#define ATP_PACKED_SHAPE(number, ...) \
	[number] = {(const char *) (const uint8_t[]) {__VA_ARGS__}, sizeof((const uint8_t[]) {__VA_ARGS__})},
#include "core/packed/packed_list.h"
};

#define COUNT(list)	(sizeof(list) / sizeof((list)[0]))

_Static_assert(COUNT(texts) <= ATP_PACKED_ONE_BYTE + 256, "two bytes have no number for the last texts");
_Static_assert(COUNT(keys) <= 0xf0, "a byte has no number for the last keys");
_Static_assert(COUNT(shapes) <= 256, "a byte has no number for the last shapes");

/* The first number of each run, and the end of the last run. */
static const uint16_t text_runs[] = {
#define ATP_PACKED_TEXT_RUN(first) first,
#include "core/packed/packed_list.h"
	COUNT(texts)
};

static const uint16_t key_runs[] = {
#define ATP_PACKED_KEY_RUN(first) first,
#include "core/packed/packed_list.h"
	COUNT(keys)
};

static const uint16_t shape_runs[] = {
#define ATP_PACKED_SHAPE_RUN(first) first,
#include "core/packed/packed_list.h"
	COUNT(shapes)
};

/* The next numbers of the lists, by edition. */
static const struct
{
	uint16_t	texts;
	uint16_t	keys;
	uint16_t	shapes;
}			ends[ATP_PACKED_EDITION + 1] = {
#define ATP_PACKED_EDITION_END(edition, texts, keys, shapes) [edition] = {texts, keys, shapes},
#include "core/packed/packed_list.h"
};

/* Most comparisons need only the lengths. */
static int
compare_entries(AtpSpan a, AtpSpan b)
{
	if (a.len != b.len)
		return a.len < b.len ? -1 : 1;
	return memcmp(a.ptr, b.ptr, a.len);
}

static uint16_t
find_in_run(AtpSpan wanted, const AtpSpan *list, size_t from, size_t to)
{
	while (from < to)
	{
		size_t		middle = from + (to - from) / 2;
		int			c = compare_entries(wanted, list[middle]);

		if (c == 0)
			return (uint16_t) middle;
		if (c < 0)
			to = middle;
		else
			from = middle + 1;
	}
	return ATP_PACKED_NONE;
}

/* A run belongs to one edition: the runs of later editions begin at end. */
static uint16_t
find_entry(AtpSpan wanted, const AtpSpan *list, const uint16_t *runs, size_t nruns, uint16_t end)
{
	for (size_t run = 0; run + 1 < nruns && runs[run] < end; run++)
	{
		uint16_t	number = find_in_run(wanted, list, runs[run], runs[run + 1]);

		if (number != ATP_PACKED_NONE)
			return number;
	}
	return ATP_PACKED_NONE;
}

uint16_t
atp_packed_find_text(AtpSpan text, uint8_t edition)
{
	return find_entry(text, texts, text_runs, COUNT(text_runs), ends[edition].texts);
}

uint16_t
atp_packed_find_key(AtpSpan key, uint8_t edition)
{
	return find_entry(key, keys, key_runs, COUNT(key_runs), ends[edition].keys);
}

uint16_t
atp_packed_find_shape(AtpSpan wanted, uint8_t edition)
{
	return find_entry(wanted, shapes, shape_runs, COUNT(shape_runs), ends[edition].shapes);
}

AtpSpan
atp_packed_text(uint16_t number)
{
	return number < COUNT(texts) ? texts[number] : (AtpSpan) {NULL, 0};
}

AtpSpan
atp_packed_key(uint16_t number)
{
	return number < COUNT(keys) ? keys[number] : (AtpSpan) {NULL, 0};
}

AtpSpan
atp_packed_shape(uint16_t number)
{
	return number < COUNT(shapes) ? shapes[number] : (AtpSpan) {NULL, 0};
}
