/*
 * nsid_code.c
 *		The stored form of NSIDs: see nsid_code.h.
 */
#include "core/syntax/base32.h"
#include "core/syntax/nsid_code.h"

#define LEAD_ONE	0x80
#define LEAD_TWO	(LEAD_ONE + ATP_NSID_ONE_BYTE)

/* The names, by number. */
static const AtpSpan names[] = {
#define ATP_NSID_RUN(first)
#define ATP_NSID(number, name) [number] = {name, sizeof(name) - 1},
#include "core/syntax/nsid_list.h"
#undef ATP_NSID
#undef ATP_NSID_RUN
};

#define NNAMES	(sizeof(names) / sizeof(names[0]))

_Static_assert(NNAMES <= ATP_NSID_CODES_MAX, "two bytes have no code for the last names");

/* The first number of each run of names in order, and the end of the last run. */
static const size_t runs[] = {
#define ATP_NSID_RUN(first) first,
#define ATP_NSID(number, name)
#include "core/syntax/nsid_list.h"
#undef ATP_NSID
#undef ATP_NSID_RUN
	NNAMES
};

int
atp_nsid_text_cmp(AtpSpan a, AtpSpan b)
{
	int			c = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);

	return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

uint64_t
atp_nsid_text_abbrev(AtpSpan text)
{
	uint8_t		head[8] = {0};

	memcpy(head, text.ptr, text.len < sizeof(head) ? text.len : sizeof(head));
	return atp_get_be64(head);
}

/* The order of the names in a run: most comparisons need only the lengths. */
static int
compare_names(AtpSpan a, AtpSpan b)
{
	if (a.len != b.len)
		return a.len < b.len ? -1 : 1;
	return memcmp(a.ptr, b.ptr, a.len);
}

/* The name's number; NNAMES: the list has no such name. */
static size_t
find_name(AtpSpan name)
{
	for (size_t run = 0; run + 1 < sizeof(runs) / sizeof(runs[0]); run++)
	{
		size_t		from = runs[run];
		size_t		to = runs[run + 1];

		while (from < to)
		{
			size_t		middle = from + (to - from) / 2;
			int			c = compare_names(name, names[middle]);

			if (c == 0)
				return middle;
			if (c < 0)
				to = middle;
			else
				from = middle + 1;
		}
	}
	return NNAMES;
}

size_t
atp_nsid_store(const char *restrict s, size_t n, uint8_t *restrict out)
{
	size_t		number = find_name((AtpSpan) {s, n});

	if (number == NNAMES)
	{
		memcpy(out, s, n);
		return n;
	}
	if (number < ATP_NSID_ONE_BYTE)
	{
		out[0] = (uint8_t) (LEAD_ONE + number);
		return 1;
	}
	number -= ATP_NSID_ONE_BYTE;
	out[0] = (uint8_t) (LEAD_TWO + (number >> 8));
	out[1] = (uint8_t) number;
	return 2;
}

bool
atp_nsid_text(const uint8_t *stored, size_t n, AtpSpan *text)
{
	size_t		number;

	if (!atp_nsid_is_code(stored, n))
	{
		*text = (AtpSpan) {(const char *) stored, n};
		return true;
	}
	if (stored[0] < LEAD_TWO)
		number = n == 1 ? stored[0] - (size_t) LEAD_ONE : NNAMES;
	else
		number = n == 2 ? ((stored[0] - (size_t) LEAD_TWO) << 8 | stored[1]) + ATP_NSID_ONE_BYTE : NNAMES;
	if (number >= NNAMES)
		return false;
	*text = names[number];
	return true;
}
