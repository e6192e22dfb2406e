/*
 * chars.c
 *		The table of character classes, and checks that several syntaxes share.
 */
#include "core/syntax/chars.h"

#define LOWER(c)		((c) >= 'a' && (c) <= 'z')
#define UPPER(c)		((c) >= 'A' && (c) <= 'Z')
#define DIGIT(c)		((c) >= '0' && (c) <= '9')
#define HEX(c)			(DIGIT(c) || ((c) >= 'A' && (c) <= 'F') || ((c) >= 'a' && (c) <= 'f'))
#define ALNUM(c)		(LOWER(c) || UPPER(c) || DIGIT(c))
#define LABEL(c)		(ALNUM(c) || (c) == '-')
#define UNRESERVED(c)	(LABEL(c) || (c) == '.' || (c) == '_' || (c) == '~')
#define AUTHORITY(c)	(UNRESERVED(c) || (c) == ':')
#define SUB_DELIM(c) \
	((c) == '!' || (c) == '$' || (c) == '&' || (c) == '\'' || (c) == '(' || (c) == ')' || \
	 (c) == '*' || (c) == '+' || (c) == ',' || (c) == ';' || (c) == '=')
#define PCHAR(c)		(AUTHORITY(c) || SUB_DELIM(c) || (c) == '@')
#define QUERY(c)		(PCHAR(c) || (c) == '/' || (c) == '?')
#define DELIMITER(c)	((c) == '/' || (c) == '?' || (c) == '#')

#define CLASS(c) \
	(LOWER(c) ? ATP_C_LOWER : 0) | (UPPER(c) ? ATP_C_UPPER : 0) | \
	(DIGIT(c) ? ATP_C_DIGIT : 0) | (HEX(c) ? ATP_C_HEX : 0) | \
	(LABEL(c) ? ATP_C_LABEL : 0) | (UNRESERVED(c) ? ATP_C_UNRESERVED : 0) | \
	(AUTHORITY(c) ? ATP_C_AUTHORITY | ATP_C_RKEY : 0) | \
	(PCHAR(c) ? ATP_C_PCHAR : 0) | (QUERY(c) ? ATP_C_QUERY : 0) | \
	(AUTHORITY(c) && (c) != '~' ? ATP_C_DID : 0) | \
	(DELIMITER(c) ? ATP_C_DELIMITER : 0)

#define CLASS4(c)	CLASS(c), CLASS((c) + 1), CLASS((c) + 2), CLASS((c) + 3)
#define CLASS16(c)	CLASS4(c), CLASS4((c) + 4), CLASS4((c) + 8), CLASS4((c) + 12)

/* Bytes above 127 are in no class. */
const uint16_t atp_char_class[256] = {
	CLASS16(0x00), CLASS16(0x10), CLASS16(0x20), CLASS16(0x30),
	CLASS16(0x40), CLASS16(0x50), CLASS16(0x60), CLASS16(0x70)
};

void
atp_lower_encoded(char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		if (s[i] == '%')
			i += 2;
		else
			s[i] = atp_char_lower(s[i]);
	}
}

AtpErr
atp_labels_check(const char *s, size_t n, unsigned *labels, size_t *last, size_t *at)
{
	size_t		start = 0;

	for (*labels = 1;; (*labels)++)
	{
		size_t		i = start;

		while (i < n && atp_char_is(s[i], ATP_C_LABEL))
			i++;
		if (i < n && s[i] != '.')
			return atp_fail(ATP_E_LABEL_CHAR, i, at);
		if (i == start)
			return atp_fail(ATP_E_LABEL_EMPTY, i, at);
		if (s[start] == '-')
			return atp_fail(ATP_E_LABEL_HYPHEN, start, at);
		if (i - start > 63)
			return atp_fail(ATP_E_LABEL_LONG, start + 63, at);
		if (s[i - 1] == '-')
			return atp_fail(ATP_E_LABEL_HYPHEN, i - 1, at);
		if (i == n)
			break;
		start = i + 1;
	}
	*last = start;
	return ATP_OK;
}
