/*
 * language.c
 *		Syntax of language tags: see language.h.
 */
#include "core/syntax/chars.h"
#include "core/lexicon/language.h"

/* The parts of a tag, in the order of the grammar: a part may follow any part that stands before it here. */
typedef enum TagPart
{
	PART_LANGUAGE,
	PART_EXTENDED,				/* extended language subtag; at most three */
	PART_SCRIPT,
	PART_REGION,
	PART_VARIANT,
	PART_SINGLETON,				/* a letter or digit that begins an extension, ... */
	PART_EXTENSION,				/* ... and the extension's parts */
	PART_PRIVATE_X,
	PART_PRIVATE,
	PART_NONE
} TagPart;

/* Valid tags from before RFC 4646, which do not follow the grammar of RFC 5646. */
static const char *const irregular[] = {
	"en-gb-oed", "i-ami", "i-bnn", "i-default", "i-enochian", "i-hak", "i-klingon", "i-lux", "i-mingo",
	"i-navajo", "i-pwn", "i-tao", "i-tay", "i-tsu", "sgn-be-fr", "sgn-be-nl", "sgn-ch-de"
};

static bool
is_irregular(const char *s, size_t n)
{
	for (size_t i = 0; i < sizeof(irregular) / sizeof(irregular[0]); i++)
	{
		size_t		j = 0;

		if (strlen(irregular[i]) != n)
			continue;
		while (j < n && atp_char_lower(s[j]) == irregular[i][j])
			j++;
		if (j == n)
			return true;
	}
	return false;
}

static bool
all_of_class(AtpSpan s, unsigned classes)
{
	for (size_t i = 0; i < s.len; i++)
		if (!atp_char_is(s.ptr[i], classes))
			return false;
	return true;
}

/* The first part: a language, or "x", after which everything is private. */
static TagPart
first_part(AtpSpan s)
{
	if (s.len == 1 && atp_char_lower(s.ptr[0]) == 'x')
		return PART_PRIVATE_X;
	return (s.len == 2 || s.len == 3) && all_of_class(s, ATP_C_LOWER) ? PART_LANGUAGE : PART_NONE;
}

/*
 * The kind of the part s, which has 1 to 8 letters and digits; last is the kind of the part before it.
 * PART_NONE: not allowed here.
 */
static TagPart
next_part(AtpSpan s, TagPart last, unsigned *extended)
{
	bool		letters = all_of_class(s, ATP_C_LETTER);

	if (last >= PART_PRIVATE_X)
		return PART_PRIVATE;
	if (s.len == 1)
	{
		if (last == PART_SINGLETON)
			return PART_NONE;
		return atp_char_lower(s.ptr[0]) == 'x' ? PART_PRIVATE_X : PART_SINGLETON;
	}
	if (last >= PART_SINGLETON)
		return PART_EXTENSION;
	if (s.len == 3 && letters && last <= PART_EXTENDED)
		return ++* extended <= 3 ? PART_EXTENDED : PART_NONE;
	if (s.len == 4 && letters && last < PART_SCRIPT)
		return PART_SCRIPT;
	if (last < PART_REGION && ((s.len == 2 && letters) || (s.len == 3 && all_of_class(s, ATP_C_DIGIT))))
		return PART_REGION;
	return s.len >= 5 || (s.len == 4 && atp_char_is(s.ptr[0], ATP_C_DIGIT)) ? PART_VARIANT : PART_NONE;
}

AtpErr
atp_language_check(const char *s, size_t n, size_t *at)
{
	TagPart		last = PART_NONE;
	unsigned	extended = 0;

	if (n == 0)
		return atp_fail(ATP_E_EMPTY, 0, at);
	if (n > ATP_LANGUAGE_MAX)
		return atp_fail(ATP_E_TOO_LONG, ATP_LANGUAGE_MAX, at);
	if (is_irregular(s, n))
		return ATP_OK;
	for (size_t i = 0; i <= n; i++)
	{
		AtpSpan		part = {s + i, 0};

		while (i + part.len < n && atp_char_is(part.ptr[part.len], ATP_C_LETTER | ATP_C_DIGIT))
			part.len++;
		if (i + part.len < n && part.ptr[part.len] != '-')
			return atp_fail(ATP_E_CHAR, i + part.len, at);
		if (part.len == 0 || part.len > 8)
			return atp_fail(ATP_E_LANGUAGE, i, at);
		last = i == 0 ? first_part(part) : next_part(part, last, &extended);
		if (last == PART_NONE)
			return atp_fail(ATP_E_LANGUAGE, i, at);
		i += part.len;
	}
	/* A part must follow "x" and the letter of an extension. */
	if (last == PART_SINGLETON || last == PART_PRIVATE_X)
		return atp_fail(ATP_E_LANGUAGE, n, at);
	return ATP_OK;
}
