/*
 * uri_store.c
 *		The stored form of a URI is the one that uri.h describes, and becomes the text again: so each text has one stored
 *		form, and two texts never have the same.
 *
 * The searches for a delimiter, a listed beginning and a tag are replaced by their results, which the shape of the URI tells, and which
 * are checked; uri_search.c proves that the functions find the same.
 *
 * proves: atp_uri_store atp_uri_text
 * sources: core/syntax/uri_store.c core/syntax/chars.c
 * replaces: find_delimiter:proof_find_delimiter find_path:proof_find_path
 *	atp_uri_path_tag:proof_path_tag memchr:proof_memchr
 * short: --unwind 70 --max-field-sensitivity-array-size 80
 * long: --unwind 70 --max-field-sensitivity-array-size 80
 * assumes: packed DIDs and TIDs are as lib/stored_uri.h says; the shapes of main()
 */
#include "lib/stored_uri.h"

#define PREFIX	5				/* "at://" */

static char text[PREFIX + ROOM] = "at://";
static char again[PREFIX + ROOM];
static uint8_t stored[ROOM];
static const char *shape;

/* A DID of this length is the packed one, or none that can be packed. */
size_t
atp_did_store(const char *restrict s, size_t n, uint8_t *restrict out)
{
	LAW(s == text + PREFIX);
	if (!uris[0].packed)
	{
		memcpy(out, s, n);
		return n;
	}
	LAW(same_bytes(s, n, dids[0], ATP_DID_PLC_TEXT));
	memcpy(out, packed_dids[0], ATP_DID_PLC_STORED);
	return ATP_DID_PLC_STORED;
}

/* The second segment is the TID, or none. */
AtpErr
atp_tid_parse(const char *s, size_t n, uint64_t *tid, size_t *at)
{
	*at = 0;
	if (uris[0].tid == 0)
		return ATP_E_TID_CHAR;
	LAW(s == text + PREFIX + uris[0].tid);
	LAW(same_bytes(s, n, tids[0], ATP_TID_TEXT));
	*tid = numbers[0];
	return ATP_OK;
}

/* The offset of the next delimiter in the text, by the shape. */
static size_t
next_delimiter(size_t from)
{
	size_t		at = 0;

	for (const char *p = shape; *p != '\0'; p++)
	{
		bool		path = *p >= '0' && *p <= '2';

		if (at >= from && (is_delimiter(*p) || path || *p == 'T'))
			return at;
		at += *p == 'D' ? ATP_DID_PLC_TEXT : *p == 'T' ? 1 + ATP_TID_TEXT : path ? atp_uri_path[*p - '0'].len : 1;
	}
	return at;
}

const char *
proof_find_delimiter(const char *p, const char *end)
{
	size_t		from = p - text - PREFIX;
	size_t		to = next_delimiter(from);

	LAW(end == text + PREFIX + uris[0].n);
	for (size_t i = from; i < to; i++)
		LAW(!is_delimiter(text[PREFIX + i]));
	LAW(to == uris[0].n || is_delimiter(text[PREFIX + to]));
	return text + PREFIX + to;
}

/* The listed beginning of the path, or -1. */
int
proof_find_path(const char *p, size_t n)
{
	const char *beginning = shape;

	LAW(p + n == text + PREFIX + uris[0].n);
	LAW(p == text + PREFIX + (uris[0].packed ? ATP_DID_PLC_TEXT : next_delimiter(0)));
	while (*beginning != '\0' && *beginning != '/' && !(*beginning >= '0' && *beginning <= '2'))
		beginning++;
	return *beginning >= '0' && *beginning <= '2' ? *beginning - '0' : -1;
}

/* The offset in the stored form of the byte that stands for a beginning of a path; the length if there is none. */
static size_t
path_tag(void)
{
	size_t		at = 0;

	for (const char *p = shape; *p != '\0' && *p != 'T'; p++)
	{
		if (*p >= '0' && *p <= '2')
			return at;
		at += *p == 'D' ? ATP_DID_PLC_STORED : 1;
	}
	return uris[0].stored_n;
}

const uint8_t *
proof_path_tag(const uint8_t *p, const uint8_t *end)
{
	size_t		at = path_tag();

	LAW(p == uris[0].stored && end == uris[0].stored + uris[0].stored_n);
	return at < uris[0].stored_n ? p + at : NULL;
}

void *
proof_memchr(const void *s, int c, size_t n)
{
	const uint8_t *p = s;
	size_t		at = uris[0].tid > 0 ? uris[0].tid_stored : uris[0].stored_n;

	LAW(c == ATP_URI_TAG_TID && p + n == uris[0].stored + uris[0].stored_n);
	for (; p < uris[0].stored + at; p++)
		LAW(*p != ATP_URI_TAG_TID);
	LAW(p == uris[0].stored + at);
	return uris[0].tid > 0 ? uris[0].stored + at : NULL;
}

static void
store(const char *pattern)
{
	Uri		   *u = &uris[0];

	shape = pattern;
	any_uri(0, pattern);
	memcpy(text + PREFIX, u->text, u->n);
	LAW(atp_uri_store(ATP_SCHEME_AT, text, PREFIX + u->n, stored) == u->stored_n);
	LAW(u->stored_n <= u->n);
	LAW(memcmp(stored, u->stored, u->stored_n) == 0);
	LAW(atp_uri_text(ATP_SCHEME_AT, u->stored, u->stored_n, again) == PREFIX + u->n);
	LAW(memcmp(again, text, PREFIX + u->n) == 0);
	if (u->packed && u->tid > 0)
		REACHED("a packed DID and a TID");
}

int
main(void)
{
	any_packed();
	store("D1aT");
	store("D/aa/a#/a");
	store("xa0aT?a#/a");
	store("xa/aT/aa?");
	store("x?a");
	return 0;
}
