/*
 * memory.c
 *		The functions of <string.h> as loops, with the demands of the C standard as laws.  CBMC's own treat lengths
 *		that are not constant as arrays of unknown size, which costs the solver more, and CBMC has no memchr().
 */
#include "proof.h"

/* The demands at the head of each function speak of all n bytes: a check of each byte again would only cost time. */
#pragma CPROVER check push
#pragma CPROVER check disable "bounds"
#pragma CPROVER check disable "pointer"
#pragma CPROVER check disable "pointer-overflow"
#pragma CPROVER check disable "pointer-primitive"

void *
memcpy(void *to, const void *from, size_t n)
{
	LAW(to != NULL && from != NULL);
	LAW(n == 0 || (__CPROVER_w_ok(to, n) && __CPROVER_r_ok(from, n)));
	LAW(!__CPROVER_same_object(to, from) || (char *) to + n <= (char *) from || (char *) from + n <= (char *) to);
	for (size_t i = 0; i < n; i++)
		((char *) to)[i] = ((const char *) from)[i];
	return to;
}

void *
memmove(void *to, const void *from, size_t n)
{
	LAW(to != NULL && from != NULL);
	LAW(n == 0 || (__CPROVER_w_ok(to, n) && __CPROVER_r_ok(from, n)));
	if (__CPROVER_same_object(to, from) && (char *) to > (char *) from)
		for (size_t i = n; i > 0; i--)
			((char *) to)[i - 1] = ((const char *) from)[i - 1];
	else
		for (size_t i = 0; i < n; i++)
			((char *) to)[i] = ((const char *) from)[i];
	return to;
}

void *
memset(void *to, int c, size_t n)
{
	LAW(to != NULL);
	LAW(n == 0 || __CPROVER_w_ok(to, n));
	for (size_t i = 0; i < n; i++)
		((char *) to)[i] = (char) c;
	return to;
}

/* All n bytes must be readable, also behind the first difference. */
int
memcmp(const void *a, const void *b, size_t n)
{
	LAW(a != NULL && b != NULL);
	LAW(n == 0 || (__CPROVER_r_ok(a, n) && __CPROVER_r_ok(b, n)));
	for (size_t i = 0; i < n; i++)
	{
		int			c = ((const uint8_t *) a)[i] - ((const uint8_t *) b)[i];

		if (c != 0)
			return c;
	}
	return 0;
}

void *
memchr(const void *s, int c, size_t n)
{
	LAW(s != NULL);
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	for (size_t i = 0; i < n; i++)
		if (((const uint8_t *) s)[i] == (uint8_t) c)
			return (void *) ((const uint8_t *) s + i);
	return NULL;
}

#pragma CPROVER check pop

size_t
strlen(const char *s)
{
	size_t		n = 0;

	while (s[n] != '\0')
		n++;
	return n;
}

char *
strchr(const char *s, int c)
{
	for (;; s++)
	{
		if (*s == (char) c)
			return (char *) s;
		if (*s == '\0')
			return NULL;
	}
}

int
strncmp(const char *a, const char *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		int			c = (uint8_t) a[i] - (uint8_t) b[i];

		if (c != 0 || a[i] == '\0')
			return c;
	}
	return 0;
}
