/*
 * grammar.h
 *		Grammars of short texts, written a second time and otherwise than in src/core: for laws that say which texts
 *		a check accepts.  No text of a proof is as long as a label's limit.
 */
#ifndef PROOF_GRAMMAR_H
#define PROOF_GRAMMAR_H

#include "proof.h"

static inline bool
grammar_digit(char c)
{
	return c >= '0' && c <= '9';
}

static inline bool
grammar_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline bool
grammar_hex(char c)
{
	return grammar_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/*
 * Labels between dots: letters, digits, and hyphens that are not at an end.  *last is the offset of the last label.
 */
static inline bool
grammar_labels(const char *s, size_t n, unsigned *dots, size_t *last)
{
	char		before = '.';

	*dots = 0;
	*last = 0;
	for (size_t i = 0; i < n; i++)
	{
		char		c = s[i];

		if (c == '.')
		{
			if (before == '.' || before == '-')
				return false;
			(*dots)++;
			*last = i + 1;
		}
		else if (c == '-')
		{
			if (before == '.')
				return false;
		}
		else if (!grammar_letter(c) && !grammar_digit(c))
			return false;
		before = c;
	}
	return before != '.' && before != '-';
}

#endif							/* PROOF_GRAMMAR_H */
