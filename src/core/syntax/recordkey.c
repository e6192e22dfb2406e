/*
 * recordkey.c
 *		Record keys: syntax, types, stored form and order.  The order of stored
 *		forms must be the order of the texts: indexes on disk depend on it.
 */
#include "core/syntax/base32.h"
#include "core/syntax/chars.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/tid.h"

#define LITERAL			"literal:"
#define LITERAL_LEN		(sizeof(LITERAL) - 1)

/*
 * K-01, D2: the characters; K-02, K-10: 1 to 512 bytes, however unusual a long
 * key is; K-03: not "." and not "..".  The published examples are valid (K-05)
 * or not (K-06) by these rules.
 */
AtpErr
atp_rkey_check(const char *s, size_t n, size_t *at)
{
	if (n == 0)
		return atp_fail(ATP_E_EMPTY, 0, at);
	if (n > ATP_RKEY_MAX)
		return atp_fail(ATP_E_RKEY_LONG, ATP_RKEY_MAX, at);
	for (size_t i = 0; i < n; i++)
	{
		if (!atp_char_is(s[i], ATP_C_RKEY))
			return atp_fail(ATP_E_RKEY_CHAR, i, at);
	}
	if (s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.')))
		return atp_fail(ATP_E_RKEY_DOTS, 0, at);
	return ATP_OK;
}

AtpErr
atp_rkey_check_strict(const char *s, size_t n, size_t *at)
{
	AtpErr		err = atp_rkey_check(s, n, at);
	const char *colon;

	if (err != ATP_OK)
		return err;
	colon = memchr(s, ':', n);
	if (colon != NULL)
		return atp_fail(ATP_E_RKEY_COLON, colon - s, at);
	return ATP_OK;
}

AtpErr
atp_rkey_type_check(const char *type, size_t n, size_t *at)
{
	AtpSpan		span = {type, n};
	AtpErr		err;

	if (atp_span_is(span, "any") || atp_span_is(span, "tid") || atp_span_is(span, "nsid"))
		return ATP_OK;
	if (n < LITERAL_LEN || memcmp(type, LITERAL, LITERAL_LEN) != 0)
		return atp_fail(ATP_E_RKEY_TYPE, 0, at);
	err = atp_rkey_check(type + LITERAL_LEN, n - LITERAL_LEN, at);
	if (err != ATP_OK)
		*at += LITERAL_LEN;
	return err;
}

bool
atp_rkey_matches(const char *s, size_t n, const char *type, size_t tn)
{
	AtpSpan		span = {type, tn};
	uint64_t	tid;
	size_t		at;

	if (atp_span_is(span, "any"))
		return true;
	if (atp_span_is(span, "tid"))
		return atp_tid_parse(s, n, &tid, &at) == ATP_OK;
	if (atp_span_is(span, "nsid"))
		return atp_nsid_check(s, n, &at) == ATP_OK;
	return n == tn - LITERAL_LEN && memcmp(s, type + LITERAL_LEN, n) == 0;
}

/*
 * K-04: the text comes back unchanged, so case counts.  A TID is stored as a tag and a number, any other text as it
 * is.
 */
size_t
atp_rkey_store(const char *restrict s, size_t n, uint8_t *restrict out)
{
	uint64_t	tid;
	size_t		at;

	if (atp_tid_parse(s, n, &tid, &at) != ATP_OK)
	{
		memcpy(out, s, n);
		return n;
	}
	out[0] = ATP_RKEY_TAG;
	atp_put_be64(out + 1, tid);
	return ATP_RKEY_TID_STORED;
}

bool
atp_rkey_fits(const uint8_t *stored, size_t n)
{
	return n > 0 && n <= ATP_RKEY_MAX && (stored[0] != ATP_RKEY_TAG || n == ATP_RKEY_TID_STORED);
}

size_t
atp_rkey_text(const uint8_t *restrict stored, size_t n, char *restrict out)
{
	if (stored[0] != ATP_RKEY_TAG)
	{
		memcpy(out, stored, n);
		return n;
	}
	atp_tid_format(atp_get_be64(stored + 1), out);
	return ATP_TID_TEXT;
}

/* K-09: the order is that of the texts, also where a key is stored as a TID's number. */
int
atp_rkey_cmp(const uint8_t *a, size_t an, const uint8_t *b, size_t bn)
{
	char		text[ATP_TID_TEXT];
	int			c;

	/*
	 * Two packed keys compare by their bytes, two texts as texts; of a mixed
	 * pair the packed key is unpacked.
	 */
	if (a[0] == ATP_RKEY_TAG && b[0] != ATP_RKEY_TAG)
	{
		an = atp_rkey_text(a, an, text);
		a = (const uint8_t *) text;
	}
	else if (b[0] == ATP_RKEY_TAG && a[0] != ATP_RKEY_TAG)
	{
		bn = atp_rkey_text(b, bn, text);
		b = (const uint8_t *) text;
	}
	c = memcmp(a, b, an < bn ? an : bn);
	return c != 0 ? c : (an > bn) - (an < bn);
}

uint64_t
atp_rkey_abbrev(const uint8_t *stored, size_t n)
{
	uint8_t		head[ATP_TID_TEXT] = {0};

	if (stored[0] == ATP_RKEY_TAG)
		atp_rkey_text(stored, n, (char *) head);
	else
		memcpy(head, stored, n < sizeof(head) ? n : sizeof(head));
	return atp_get_be64(head);
}
