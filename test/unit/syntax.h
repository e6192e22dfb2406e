/*
 * syntax.h
 *		For the tests of identifiers and URIs: vector files, tables of values
 *		with the error that each should give, and seeded random numbers.
 */
#ifndef SYNTAX_H
#define SYNTAX_H

#include "core/atp.h"
#include "unit.h"

#define VECTORS "data/vectors/"

typedef AtpErr (*SyntaxCheck) (const char *s, size_t n, size_t *at);

/* A value whose parse must fail with this error at this byte. */
typedef struct Refused
{
	const char *text;
	AtpErr		err;
	size_t		at;
} Refused;

/* s, made safe for the name of a TAP test. */
static inline const char *
show(const char *s, size_t n)
{
	static char buffers[4][256];
	static int	next;
	char	   *out = buffers[next++ % 4];
	size_t		o = 0;

	for (size_t i = 0; i < n && o < 100; i++)
	{
		uint8_t		c = (uint8_t) s[i];

		if (c <= ' ' || c > '~' || c == '#' || c == '\\')
			o += sprintf(out + o, "\\x%02x", c);
		else
			out[o++] = (char) c;
	}
	out[o] = '\0';
	if (n > 100)
		sprintf(out + o, "... (%zu bytes)", n);
	return out;
}

/* Calls fn for each line of a vector file: comments left out, nothing trimmed. */
static inline int
each_line(const char *file, void (*fn) (char *line, size_t n, void *arg), void *arg)
{
	FILE	   *f = fopen(file, "rb");
	static char line[1 << 18];
	int			lines = 0;

	ok(f != NULL, "%s is there", file);
	if (f == NULL)
		return 0;
	while (fgets(line, sizeof(line), f) != NULL)
	{
		size_t		n = strlen(line);

		if (n > 0 && line[n - 1] == '\n')
			line[--n] = '\0';
		if (n == 0 || line[0] == '#')
			continue;
		fn(line, n, arg);
		lines++;
	}
	fclose(f);
	return lines;
}

static inline void
expect_valid(char *line, size_t n, void *check)
{
	size_t		at = 0;
	AtpErr		err = (*(SyntaxCheck *) check) (line, n, &at);

	ok(err == ATP_OK, "valid: %s (%s)", show(line, n), atp_err_text(err));
}

static inline void
expect_invalid(char *line, size_t n, void *check)
{
	size_t		at = SIZE_MAX;
	AtpErr		err = (*(SyntaxCheck *) check) (line, n, &at);

	ok(err != ATP_OK && at <= n, "invalid: %s (%s)", show(line, n), atp_err_text(err));
}

/* Reads interop/NAME_syntax_valid.txt and NAME_syntax_invalid.txt, which must have so many lines. */
static inline void
check_interop(const char *name, SyntaxCheck check, int valid, int invalid)
{
	char		file[200];
	int			lines;

	snprintf(file, sizeof(file), VECTORS "interop/%s_syntax_valid.txt", name);
	lines = each_line(file, expect_valid, &check);
	ok(lines == valid, "%s has %d lines", file, lines);
	snprintf(file, sizeof(file), VECTORS "interop/%s_syntax_invalid.txt", name);
	lines = each_line(file, expect_invalid, &check);
	ok(lines == invalid, "%s has %d lines", file, lines);
}

static inline void
check_refused(const char *rule, SyntaxCheck check, const Refused *table, size_t rows)
{
	for (size_t i = 0; i < rows; i++)
	{
		size_t		n = strlen(table[i].text);
		size_t		at = SIZE_MAX;
		AtpErr		err = check(table[i].text, n, &at);

		ok(err == table[i].err && at == table[i].at, "%s: %s at %zu: %s", rule,
		   show(table[i].text, n), at, atp_err_text(err));
	}
}

static inline void
check_accepted(const char *rule, SyntaxCheck check, const char *const *table, size_t rows)
{
	for (size_t i = 0; i < rows; i++)
	{
		size_t		n = strlen(table[i]);
		size_t		at;
		AtpErr		err = check(table[i], n, &at);

		ok(err == ATP_OK, "%s: %s (%s)", rule, show(table[i], n), atp_err_text(err));
	}
}

#define REFUSED(rule, check, ...) \
	do { \
		static const Refused table_[] = {__VA_ARGS__}; \
		check_refused(rule, check, table_, sizeof(table_) / sizeof(table_[0])); \
	} while (0)

#define ACCEPTED(rule, check, ...) \
	do { \
		static const char *const table_[] = {__VA_ARGS__}; \
		check_accepted(rule, check, table_, sizeof(table_) / sizeof(table_[0])); \
	} while (0)

/*
 * Each byte in turn at the place of '*' in a template: exactly those in allowed
 * may be accepted.
 */
static inline void
check_charset(const char *rule, SyntaxCheck check, const char *template, const char *allowed)
{
	const char *star = strchr(template, '*');
	size_t		n = strlen(template);
	char		text[100];
	int			wrong = 0;

	memcpy(text, template, n);
	for (int c = 0; c < 256; c++)
	{
		size_t		at = SIZE_MAX;
		bool		accepted;

		text[star - template] = (char) c;
		accepted = check(text, n, &at) == ATP_OK;
		if (accepted != (c != 0 && strchr(allowed, c) != NULL) || (!accepted && at > n))
			wrong++;
	}
	ok(wrong == 0, "%s: the bytes that %s may have", rule, show(template, n));
}

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define ALNUM LOWER UPPER DIGITS

/* prefix followed by c up to n bytes, in a static buffer. */
static inline char *
filled(const char *prefix, char c, size_t n)
{
	static char buffers[4][16384];
	static int	next;
	char	   *out = buffers[next++ % 4];

	memset(out, c, n);
	memcpy(out, prefix, strlen(prefix));
	out[n] = '\0';
	return out;
}

/* xorshift64*: the same numbers in every run. */
static uint64_t random_state = UINT64_C(0x9e3779b97f4a7c15);

static inline uint64_t
random64(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * UINT64_C(0x2545f4914f6cdd1d);
}

static inline unsigned
random_below(unsigned n)
{
	return (unsigned) ((random64() >> 32) % n);
}

/* Appends n characters of set. */
static inline char *
random_chars(char *out, const char *set, size_t n)
{
	size_t		choices = strlen(set);

	for (size_t i = 0; i < n; i++)
		*out++ = set[random_below((unsigned) choices)];
	return out;
}

static inline int
sign(int c)
{
	return (c > 0) - (c < 0);
}

/* Bytewise order of texts, shorter first. */
static inline int
text_order(const char *a, size_t an, const char *b, size_t bn)
{
	int			c = memcmp(a, b, an < bn ? an : bn);

	return c != 0 ? sign(c) : (an > bn) - (an < bn);
}

#endif							/* SYNTAX_H */
