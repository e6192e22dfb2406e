/*
 * packed_table.c
 *		Looks up the texts, keys and shapes of packed_list.h.
 *
 * All three are lists of byte strings by number: a shape is the string of the numbers of its keys.  So one search serves all three:
 * a hash table that stands in packed_index.h.
 */
#include "core/packed/packed.h"
#include "core/packed/packed_code.h"
#include "core/packed/packed_index.h"
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
#define LONGEST		44			/* bytes of the longest entry */

_Static_assert(COUNT(texts) <= ATP_PACKED_ONE_BYTE + 256, "two bytes have no number for the last texts");
_Static_assert(COUNT(keys) <= 0xf0, "a byte has no number for the last keys");
_Static_assert(COUNT(shapes) <= 256, "a byte has no number for the last shapes");

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

/* Few bytes of an entry tell it from all others; only their order in the entry counts, so that all processors have one index. */
static unsigned
slot_of_entry(AtpSpan entry)
{
	const uint8_t *bytes = (const uint8_t *) entry.ptr;
	size_t		n = entry.len;
	uint32_t	mixed = (uint32_t) n * factors[0] + bytes[0] * factors[1] + bytes[n / 2] * factors[2] +
		bytes[n - 1] * factors[3] + bytes[n - 1 - n / 4] * factors[4];

	return (mixed >> 8) % ATP_PACKED_SLOTS;
}

/* An entry belongs to the editions whose list ends behind it. */
static uint16_t
find_entry(AtpSpan wanted, const AtpSpan *list, const uint16_t index[ATP_PACKED_SLOTS], uint16_t end)
{
	uint16_t	number;

	if (wanted.len == 0 || wanted.len > LONGEST)
		return ATP_PACKED_NONE;
	for (unsigned slot = slot_of_entry(wanted); (number = index[slot]) != ATP_PACKED_NONE; slot = (slot + 1) % ATP_PACKED_SLOTS)
		if (list[number].len == wanted.len && memcmp(list[number].ptr, wanted.ptr, wanted.len) == 0)
			return number < end ? number : ATP_PACKED_NONE;
	return ATP_PACKED_NONE;
}

uint16_t
atp_packed_find_text(AtpSpan text, uint8_t edition)
{
	return find_entry(text, texts, text_index, ends[edition].texts);
}

uint16_t
atp_packed_find_key(AtpSpan key, uint8_t edition)
{
	return find_entry(key, keys, key_index, ends[edition].keys);
}

uint16_t
atp_packed_find_shape(AtpSpan wanted, uint8_t edition)
{
	return find_entry(wanted, shapes, shape_index, ends[edition].shapes);
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
