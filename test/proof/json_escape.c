/*
 * json_escape.c
 *		An escape of a JSON text, or a pair of them, becomes one character of UTF-8, or is refused as half of a surrogate
 *		pair; a text is never longer than with its escapes, and is not written behind its room.  Eight plain characters at once.
 *
 * proves: atp_json_text read_escape put_utf8 parse_hex4 plain_text
 * sources: core/syntax/chars.c
 * short: -DN=3 --unwind 7 --unwindset memcpy.0:9,plain.0:10,atp_json_text.0:4
 * long: -DN=5 --unwind 10
 * wraps: has_zero plain_text
 * assumes: the escapes are those that atp_json_next() accepts; a whole text has no \u
 */
#include "core/codec/json.c"
#include "lib/grammar.h"

size_t
atp_utf8_valid(const uint8_t *s, size_t n, bool *has_nul)
{
	LAW(false);
	return 0;
}

/* Is c the character that UTF-8 encodes in these n bytes? */
static bool
is_character(const uint8_t *s, size_t n, uint32_t c)
{
	size_t		size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const uint8_t lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};

	if (n < size || (s[0] & (size == 1 ? 0x80 : size == 2 ? 0xe0 : size == 3 ? 0xf0 : 0xf8)) != lead[size])
		return false;
	for (size_t i = 0; i < size; i++)
		if ((i > 0 && (s[i] & 0xc0) != 0x80) ||
			(i > 0 && (s[i] & 0x3f) != (c >> 6 * (size - 1 - i) & 0x3f)))
			return false;
	return (s[0] & (size == 1 ? 0x7f : 0x7f >> size)) == c >> 6 * (size - 1);
}

/* One escape, or two that are a surrogate pair. */
static void
escape(void)
{
	char		text[12];
	uint8_t		out[4];
	const char *p = text + 1;
	uint32_t	unit[2];
	uint32_t	c;
	size_t		n;
	bool		ok;
	bool		pair;

	for (int k = 0; k < 2; k++)
	{
		text[6 * k] = '\\';
		text[6 * k + 1] = 'u';
		unit[k] = 0;
		for (int i = 2; i < 6; i++)
		{
			char		digit = text[6 * k + i];

			ASSUME(grammar_hex(digit));
			unit[k] = unit[k] * 16 + (uint32_t) (grammar_digit(digit) ? digit - '0' : (digit | 0x20) - 'a' + 10);
		}
	}
	pair = unit[0] >> 10 == 0xd800 >> 10 && unit[1] >> 10 == 0xdc00 >> 10;
	ok = read_escape(&p, text + sizeof(text), &c);
	LAW(ok == (pair || unit[0] >> 11 != 0xd800 >> 11));
	if (!ok)
		return;
	LAW(p == text + (pair ? 12 : 6));
	LAW(c == (pair ? 0x10000 + ((unit[0] & 0x3ff) << 10 | (unit[1] & 0x3ff)) : unit[0]));
	n = put_utf8(c, (char *) out);
	LAW(n >= 1 && n <= (pair ? 4 : 3) && is_character(out, n, c));
	if (pair)
		REACHED("a surrogate pair");
}

/* An escape of one character. */
static void
named(void)
{
	char		text[2] = {'\\', (char) any_byte()};
	char		c = text[1];
	const char *p = text + 1;
	uint32_t	decoded;

	ASSUME(c == '"' || c == '\\' || c == '/' || c == 'b' || c == 'f' || c == 'n' || c == 'r' || c == 't');
	LAW(read_escape(&p, text + sizeof(text), &decoded) && p == text + sizeof(text));
	LAW(decoded == (c == 'b' ? 8u : c == 't' ? 9u : c == 'n' ? 10u : c == 'f' ? 12u : c == 'r' ? 13u : (uint8_t) c));
}

/* The whole text, with escapes of one character. */
static void
decode(void)
{
	char		out[N];
	size_t		room = any_size(N);
	AtpJsonItem item = {.kind = ATP_JSON_TEXT, .escaped = true};
	size_t		n;

	ANY_TEXT(text, len, N);
	for (size_t i = 0; i < len; i++)
		if (text[i] == '\\')
			ASSUME(i + 1 < len && text[i + 1] != 'u');
	item.raw = (AtpSpan) {text, len};
	if (atp_json_text(&item, out + N - room, room, &n))
		LAW(n <= room && n <= len);
	else
	{
		LAW(room < len);
		REACHED("too little room");
	}
}

/* Plain text is skipped by eight characters, or not at all. */
static void
plain(size_t n)
{
	char		s[9];
	const char *start = s + sizeof(s) - n;
	uint64_t	bits = 0;
	const char *end = plain_text(start, start + n, &bits);

	LAW(end == start || end == start + 8);
	for (const char *p = start; p < start + n; p++)
		LAW(p >= end || ((uint8_t) *p >= ' ' && *p != '"' && *p != '\\' && ((uint8_t) *p < 0x80 || (bits & EACH(0x80)) != 0)));
	if (end > start)
		REACHED("eight plain characters");
}

int
main(void)
{
	plain(7);
	plain(9);
	escape();
	named();
	decode();
	return 0;
}
