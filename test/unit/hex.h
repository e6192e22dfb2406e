/*
 * hex.h
 *		Bytes from hexadecimal text, and vector tables with tabs.
 */
#ifndef HEX_H
#define HEX_H

#include "core/atp.h"
#include "syntax.h"

/* In memory of exactly this length, so that ASan reports a read past the end. */
static inline AtpBytes
unhex(const char *hex)
{
	size_t		n = strlen(hex) / 2;
	uint8_t    *out = malloc(n);

	for (size_t i = 0; i < n; i++)
	{
		unsigned	byte;

		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			exit(2);
		out[i] = (uint8_t) byte;
	}
	return (AtpBytes) {out, n};
}

/* A copy in memory of exactly this length. */
static inline uint8_t *
copy_of(const void *data, size_t n)
{
	uint8_t    *copy = malloc(n);

	if (n > 0)
		memcpy(copy, data, n);
	return copy;
}

/* The next field of a line, cut off at the tab; "-" stands for an empty field. */
static inline char *
field(char **line)
{
	char	   *start = *line;
	size_t		n = strcspn(start, "\t");

	*line = start[n] == '\0' ? start + n : start + n + 1;
	start[n] = '\0';
	return strcmp(start, "-") == 0 ? start + 1 : start;
}

#endif							/* HEX_H */
