/*
 * syntax_fuzz.h
 *		For the fuzz targets of identifiers and URIs: an assertion that stays,
 *		and the input as two texts.
 */
#ifndef SYNTAX_FUZZ_H
#define SYNTAX_FUZZ_H

#include <stdio.h>
#include <stdlib.h>

#include "core/atp.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(cond) \
	do { \
		if (!(cond)) \
		{ \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
			abort(); \
		} \
	} while (0)

/* The parts before and after the first line feed; the second may be empty. */
static inline void
split(const uint8_t *data, size_t size, AtpSpan *a, AtpSpan *b)
{
	const uint8_t *lf = size > 0 ? memchr(data, '\n', size) : NULL;

	*a = (AtpSpan) {(const char *) data, lf != NULL ? (size_t) (lf - data) : size};
	*b = lf == NULL ? (AtpSpan) {(const char *) data + size, 0} :
		(AtpSpan) {(const char *) lf + 1, size - a->len - 1};
}

static inline int
sign(int c)
{
	return (c > 0) - (c < 0);
}

/* Bytewise, shorter first. */
static inline int
text_order(AtpSpan a, AtpSpan b)
{
	size_t		n = a.len < b.len ? a.len : b.len;
	int			c = n > 0 ? memcmp(a.ptr, b.ptr, n) : 0;

	return c != 0 ? sign(c) : (a.len > b.len) - (a.len < b.len);
}

/* The functions of a type with a stored form, and its laws. */
typedef struct StoredType
{
	AtpErr		(*check) (const char *s, size_t n, size_t *at);
	size_t		(*store) (const char *s, size_t n, uint8_t *out);
	size_t		(*text) (const uint8_t *stored, size_t n, char *out);
	AtpErr		(*check_stored) (const uint8_t *stored, size_t n, size_t *at);
	int			(*cmp) (const uint8_t *a, size_t an, const uint8_t *b, size_t bn);
	uint64_t	(*abbrev) (const uint8_t *stored, size_t n);
	size_t		max;
} StoredType;

static inline void
check_stored_type(const StoredType *type, const uint8_t *data, size_t size)
{
	uint8_t    *stored[2];
	size_t		stored_n[2];
	char	   *text = malloc(type->max);
	AtpSpan		s[2];
	size_t		at = SIZE_MAX;
	bool		valid = true;

	/* the laws of one text, and those of two texts */
	split(data, size, &s[0], &s[1]);
	for (int i = 0; i < 2; i++)
	{
		at = SIZE_MAX;
		/* no larger than the header promises */
		stored[i] = malloc(s[i].len);
		if (type->check(s[i].ptr, s[i].len, &at) != ATP_OK)
		{
			CHECK(at <= s[i].len);
			valid = false;
			continue;
		}
		stored_n[i] = type->store(s[i].ptr, s[i].len, stored[i]);
		CHECK(stored_n[i] <= s[i].len);
		CHECK(type->check_stored(stored[i], stored_n[i], &at) == ATP_OK);
		CHECK(type->text(stored[i], stored_n[i], text) == s[i].len);
		CHECK(memcmp(text, s[i].ptr, s[i].len) == 0);
	}
	if (valid)
	{
		int			order = text_order(s[0], s[1]);
		uint64_t	a = type->abbrev(stored[0], stored_n[0]);
		uint64_t	b = type->abbrev(stored[1], stored_n[1]);

		CHECK(sign(type->cmp(stored[0], stored_n[0], stored[1], stored_n[1])) == order);
		CHECK(sign(type->cmp(stored[1], stored_n[1], stored[0], stored_n[0])) == -order);
		CHECK(!(a < b && order >= 0) && !(a > b && order <= 0));
	}
	free(stored[0]);
	free(stored[1]);

	/* and of the whole as a stored form */
	if (type->check_stored(data, size, &at) == ATP_OK)
	{
		size_t		n = type->text(data, size, text);
		uint8_t    *again = malloc(n);

		CHECK(type->check(text, n, &at) == ATP_OK);
		CHECK(type->store(text, n, again) == size && memcmp(again, data, size) == 0);
		free(again);
	}
	else
		CHECK(at <= size);
	free(text);
}

#endif							/* SYNTAX_FUZZ_H */
