/*
 * stored_uri.h
 *		Any URI of a shape, as text without scheme, and as the stored form that uri.h describes.
 *
 * A shape is a pattern: D a packed DID, 0 to 2 a listed beginning of a path, T a '/' and a TID, x and the delimiters
 * themselves, and a any character that is no delimiter.  The lengths are constants and only the characters vary:
 * so all offsets are constants, and the formula stays small.
 */
#ifndef PROOF_STORED_URI_H
#define PROOF_STORED_URI_H

#include "core/syntax/base32.h"
#include "core/syntax/did.h"
#include "core/syntax/tid.h"
#include "core/syntax/uri_private.h"
#include "proof.h"

#define ROOM	64

typedef struct Uri
{
	char		text[ROOM];
	size_t		n;
	uint8_t		stored[ROOM];
	size_t		stored_n;
	bool		packed;			/* the authority is a packed DID */
	size_t		tid;			/* where the TID is in the text; 0: nowhere */
	size_t		tid_stored;		/* where its tag is in the stored form */
} Uri;

static Uri	uris[2];

/*
 * Contracts: a packed DID or a TID, and its stored form, are each other's only form, and order alike.  did_plc.c
 * and tid.c prove both.
 */
static char dids[2][ATP_DID_PLC_TEXT];
static uint8_t packed_dids[2][ATP_DID_PLC_STORED];
static char tids[2][ATP_TID_TEXT];
static uint64_t numbers[2];

static inline char
any_base32(void)
{
	char		c = (char) any_byte();

	ASSUME((c >= '2' && c <= '7') || (c >= 'a' && c <= 'z'));
	return c;
}

static inline void
any_packed(void)
{
	for (int k = 0; k < 2; k++)
	{
		memcpy(dids[k], "did:plc:", 8);
		for (int i = 8; i < ATP_DID_PLC_TEXT; i++)
			dids[k][i] = any_base32();
		packed_dids[k][0] = ATP_DID_TAG;
		for (int i = 1; i < ATP_DID_PLC_STORED; i++)
			packed_dids[k][i] = any_byte();
		for (int i = 0; i < ATP_TID_TEXT; i++)
			tids[k][i] = any_base32();
		numbers[k] = any_u64();
	}
	ASSUME(sign(memcmp(dids[0], dids[1], ATP_DID_PLC_TEXT)) == sign(memcmp(packed_dids[0], packed_dids[1], ATP_DID_PLC_STORED)));
	ASSUME(sign(memcmp(tids[0], tids[1], ATP_TID_TEXT)) == (numbers[0] > numbers[1]) - (numbers[0] < numbers[1]));
}

size_t
atp_did_text(const uint8_t *restrict stored, size_t n, char *restrict out)
{
	bool		first = memcmp(stored, packed_dids[0], ATP_DID_PLC_STORED) == 0;

	LAW(n == ATP_DID_PLC_STORED);
	LAW(first || memcmp(stored, packed_dids[1], ATP_DID_PLC_STORED) == 0);
	for (int i = 0; i < ATP_DID_PLC_TEXT; i++)
		out[i] = first ? dids[0][i] : dids[1][i];
	return ATP_DID_PLC_TEXT;
}

void
atp_tid_format(uint64_t tid, char out[ATP_TID_TEXT])
{
	LAW(tid == numbers[0] || tid == numbers[1]);
	for (int i = 0; i < ATP_TID_TEXT; i++)
		out[i] = tid == numbers[0] ? tids[0][i] : tids[1][i];
}

static inline bool
is_delimiter(char c)
{
	return c == '/' || c == '?' || c == '#';
}

static inline void
add_char(Uri *u, char pattern)
{
	char		c = pattern;

	if (pattern == 'a')
	{
		c = (char) any_byte();
		ASSUME(c > ' ' && c <= '~' && !is_delimiter(c));
	}
	u->text[u->n++] = c;
	u->stored[u->stored_n++] = (uint8_t) c;
}

static inline void
add_did(Uri *u, int k)
{
	memcpy(u->text, dids[k], ATP_DID_PLC_TEXT);
	memcpy(u->stored, packed_dids[k], ATP_DID_PLC_STORED);
	u->n = ATP_DID_PLC_TEXT;
	u->stored_n = ATP_DID_PLC_STORED;
	u->packed = true;
}

static inline void
add_tid(Uri *u, int k)
{
	u->text[u->n++] = '/';
	u->tid = u->n;
	u->tid_stored = u->stored_n;
	memcpy(u->text + u->n, tids[k], ATP_TID_TEXT);
	u->n += ATP_TID_TEXT;
	u->stored[u->stored_n++] = ATP_URI_TAG_TID;
	atp_put_be64(u->stored + u->stored_n, numbers[k]);
	u->stored_n += 8;
}

static inline void
add_path(Uri *u, int path)
{
	const AtpSpan *prefix = &atp_uri_path[path];

	memcpy(u->text + u->n, prefix->ptr, prefix->len);
	u->n += prefix->len;
	u->stored[u->stored_n++] = (uint8_t) (ATP_URI_TAG_PATH + path);
}

static inline void
any_uri(int k, const char *pattern)
{
	Uri		   *u = &uris[k];

	u->n = 0;
	u->stored_n = 0;
	u->packed = false;
	u->tid = 0;
	for (; *pattern != '\0'; pattern++)
	{
		if (*pattern == 'D')
			add_did(u, k);
		else if (*pattern == 'T')
			add_tid(u, k);
		else if (*pattern >= '0' && *pattern <= '2')
			add_path(u, *pattern - '0');
		else
			add_char(u, *pattern);
	}
	/* what stands behind the end must not count */
	u->stored[u->stored_n] = any_byte();
}

/* The length of the authority in the text. */
static inline size_t
authority_len(const Uri *u, const char *pattern)
{
	size_t		n = 0;

	if (u->packed)
		return ATP_DID_PLC_TEXT;
	while (pattern[n] != '\0' && pattern[n] != 'T' && !is_delimiter(pattern[n]) && !(pattern[n] >= '0' && pattern[n] <= '2'))
		n++;
	return n;
}

/* Has the text no other stored form: is everything packed that can be? */
static inline bool
is_canonical(const Uri *u, const char *pattern)
{
	size_t		authority = authority_len(u, pattern);
	int			path = -1;

	for (int k = 0; k < 2; k++)
		if (!u->packed && authority == ATP_DID_PLC_TEXT && memcmp(u->text, dids[k], ATP_DID_PLC_TEXT) == 0)
			return false;
	for (; *pattern != '\0'; pattern++)
		if (path < 0 && *pattern >= '0' && *pattern <= '2')
			path = *pattern - '0';
	while (++path < ATP_URI_PATHS)
		if (u->n - authority >= atp_uri_path[path].len &&
			memcmp(u->text + authority, atp_uri_path[path].ptr, atp_uri_path[path].len) == 0)
			return false;
	return true;
}

/* Is the second segment, which begins behind the text's second '/', one of the TIDs, though it is not packed? */
static inline bool
has_loose_tid(const Uri *u, size_t segment, size_t end)
{
	return u->tid == 0 && end == segment + ATP_TID_TEXT &&
		(memcmp(u->text + segment, tids[0], ATP_TID_TEXT) == 0 || memcmp(u->text + segment, tids[1], ATP_TID_TEXT) == 0);
}

/* The place in the order: the end, then '#', '?', '/', then all other characters. */
static inline int
weight(const Uri *u, size_t i)
{
	char		c;

	if (i >= u->n)
		return 0;
	c = u->text[i];
	return c == '#' ? 1 : c == '?' ? 2 : c == '/' ? 3 : c;
}

/* The order of the texts of uris[0] and uris[1], by their first difference. */
static inline int
order_of_texts(void)
{
	int			result = 0;

	for (size_t i = uris[0].n > uris[1].n ? uris[0].n : uris[1].n; i > 0; i--)
	{
		int			c = weight(&uris[0], i - 1) - weight(&uris[1], i - 1);

		if (c != 0)
			result = c < 0 ? -1 : 1;
	}
	return result;
}

#endif							/* PROOF_STORED_URI_H */
