/*
 * uri_order.c
 *		The order of URIs, and which URI lies inside which, computed on stored
 *		forms.  The order must be that of the texts (uri.h): indexes on disk
 *		depend on it.
 */
#include "core/syntax/base32.h"
#include "core/syntax/did.h"
#include "core/syntax/tid.h"
#include "core/syntax/uri_private.h"

/*
 * the weight of a byte of a stored form in the order.  The delimiters come
 * before all characters of components, and the end comes before the delimiters.
 * A TID's tag and a path's tag stand for text that begins with '/'.
 */
static inline int
byte_weight(uint8_t c)
{
	switch (c)
	{
		case '#':
			return 1;
		case '?':
			return 2;
		case '/':
		case ATP_URI_TAG_TID:
			return 3;
		default:
			return atp_is_path_tag(c) ? 3 : c;
	}
}

static inline int
weight_at(const uint8_t *p, const uint8_t *end)
{
	return p < end ? byte_weight(*p) : 0;
}

/* Compares an unpacked text, followed by the rest of a, with b, which has nothing packed at this place. */
static int
compare_unpacked(const char *text, int n, const uint8_t *a, const uint8_t *a_end,
				 const uint8_t *b, const uint8_t *b_end)
{
	for (int i = 0; i < n; i++, b++)
	{
		int			c = byte_weight((uint8_t) text[i]) - weight_at(b, b_end);

		if (c != 0)
			return c;
	}
	return weight_at(a, a_end) - weight_at(b, b_end);
}

/* Compares a packed TID, at its tag, with a text segment, at its '/'. */
static int
compare_tid(const uint8_t *a, const uint8_t *a_end, const uint8_t *b, const uint8_t *b_end)
{
	char		text[ATP_TID_TEXT];

	atp_tid_format(atp_get_be64(a + 1), text);
	return compare_unpacked(text, ATP_TID_TEXT, a + ATP_URI_TID_STORED, a_end, b + 1, b_end);
}

/* Compares a packed DID with a text authority: the two are never the same DID. */
static int
compare_plc(const uint8_t *a, const uint8_t *a_end, const uint8_t *b, const uint8_t *b_end)
{
	char		text[ATP_DID_PLC_TEXT];

	atp_did_text(a, ATP_DID_PLC_STORED, text);
	return compare_unpacked(text, ATP_DID_PLC_TEXT, a + ATP_DID_PLC_STORED, a_end, b, b_end);
}

/* Unpacks the beginning of a path; zeros follow its end, or the '/' before a packed TID. */
static void
unpack_path(const uint8_t *p, const uint8_t *end, uint8_t head[ATP_URI_PATH_MAX])
{
	size_t		n = 0;

	memset(head, 0, ATP_URI_PATH_MAX);
	if (p < end && atp_is_path_tag(*p))
	{
		const AtpSpan *prefix = &atp_uri_path[*p++ - ATP_URI_TAG_PATH];

		memcpy(head, prefix->ptr, prefix->len);
		n = prefix->len;
	}
	while (n < ATP_URI_PATH_MAX && p < end && *p != ATP_URI_TAG_TID)
		head[n++] = *p++;
	if (n < ATP_URI_PATH_MAX && p < end)
		head[n] = '/';
}

/*
 * Compares two paths of which at least one begins with a tag, and not both with
 * the same tag.  So their texts differ within the length of the longest prefix.
 */
static int
compare_path(const uint8_t *a, const uint8_t *a_end, const uint8_t *b, const uint8_t *b_end)
{
	uint8_t		a_head[ATP_URI_PATH_MAX];
	uint8_t		b_head[ATP_URI_PATH_MAX];
	size_t		i = 0;

	unpack_path(a, a_end, a_head);
	unpack_path(b, b_end, b_head);
	while (i < ATP_URI_PATH_MAX - 1 && a_head[i] == b_head[i])
		i++;
	return byte_weight(a_head[i]) - byte_weight(b_head[i]);
}

/* The index of the first byte that differs, in the order of memory; x and y differ. */
static inline size_t
first_difference(uint64_t x, uint64_t y)
{
#if defined(__GNUC__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (size_t) __builtin_ctzll(x ^ y) / 8;
#else
	uint8_t		a[8];
	uint8_t		b[8];
	size_t		i = 0;

	memcpy(a, &x, 8);
	memcpy(b, &y, 8);
	while (a[i] == b[i])
		i++;
	return i;
#endif
}

/* The length of the common beginning of a and b; n is the shorter length. */
static inline size_t
common_prefix(const uint8_t *a, const uint8_t *b, size_t n)
{
	size_t		i = 0;
	uint64_t	x;
	uint64_t	y;

	for (; i + 8 <= n; i += 8)
	{
		memcpy(&x, a + i, 8);
		memcpy(&y, b + i, 8);
		if (x != y)
			return i + first_difference(x, y);
	}
	/* The last eight bytes: some of them are already known to be equal. */
	if (i < n && n >= 8)
	{
		i = n - 8;
		memcpy(&x, a + i, 8);
		memcpy(&y, b + i, 8);
		return x == y ? n : i + first_difference(x, y);
	}
	while (i < n && a[i] == b[i])
		i++;
	return i;
}

int
atp_uri_cmp(const uint8_t *a, size_t an, const uint8_t *b, size_t bn)
{
	const uint8_t *tag;
	size_t		common = common_prefix(a, b, an < bn ? an : bn);
	size_t		start = 0;

	if (common == an || common == bn)
		return (an > bn) - (an < bn);

	/* Bytes within a packed DID have no weights. */
	if (a[0] == ATP_URI_TAG_PLC)
	{
		if (b[0] != ATP_URI_TAG_PLC)
			return compare_plc(a, a + an, b, b + bn);
		if (common < ATP_DID_PLC_STORED)
			return a[common] - b[common];
		start = ATP_DID_PLC_STORED;
	}
	else if (b[0] == ATP_URI_TAG_PLC)
		return -compare_plc(b, b + bn, a, a + an);

	/* Bytes within a packed TID have no weights either, although they can look like delimiters. */
	if (byte_weight(a[common]) == a[common] && byte_weight(b[common]) == b[common])
		return a[common] - b[common];
	tag = memchr(a + start, ATP_URI_TAG_TID, common - start);
	if (tag != NULL && a + common - tag < ATP_URI_TID_STORED)
		return a[common] - b[common];

	an -= common;
	bn -= common;
	a += common;
	b += common;
	if (atp_is_path_tag(*a) || atp_is_path_tag(*b))
		return compare_path(a, a + an, b, b + bn);
	if (*a == ATP_URI_TAG_TID && *b == '/')
		return compare_tid(a, a + an, b, b + bn);
	if (*b == ATP_URI_TAG_TID && *a == '/')
		return -compare_tid(b, b + bn, a, a + an);
	return byte_weight(*a) - byte_weight(*b);
}

/* The part in which a stored URI ends: '/' for authority or path, '?' or '#'. */
static char
last_part(const uint8_t *stored, size_t n)
{
	const uint8_t *p = stored;
	const uint8_t *end = stored + n;
	char		part = '/';

	if (*p == ATP_URI_TAG_PLC)
		p += ATP_DID_PLC_STORED;
	for (; p < end && part != '#'; p++)
	{
		if (*p == ATP_URI_TAG_TID)
			p += ATP_URI_TID_STORED - 1;
		else if (*p == '#' || *p == '?')
			part = (char) *p;
	}
	return part;
}

bool
atp_uri_is_inside(const uint8_t *a, size_t an, const uint8_t *b, size_t bn)
{
	if (an < bn || memcmp(a, b, bn) != 0)
		return false;
	if (an == bn)
		return true;
	switch (a[bn])
	{
		case ATP_URI_TAG_TID:
		case ATP_URI_TAG_PATH:
		case ATP_URI_TAG_PATH + 1:
		case ATP_URI_TAG_PATH + 2:
			return true;
		case '/':
			return last_part(b, bn) != '?';
		case '?':
			return last_part(b, bn) == '/';
		case '#':
			return last_part(b, bn) != '#';
		default:
			return false;
	}
}

bool
atp_uri_upper_bound(AtpScheme scheme, const uint8_t *restrict stored, size_t n,
					uint8_t *restrict out, size_t *on)
{
	bool		plc = stored[0] == ATP_URI_TAG_PLC;
	size_t		authority = plc ? ATP_DID_PLC_STORED : 0;
	size_t		text = atp_uri_prefix_len(scheme) + n;
	const uint8_t *tid;

	if (last_part(stored, n) != '/')
		return false;
	while (authority < n && byte_weight(stored[authority]) != 3)
		authority++;

	/* The lowest continuation of an authority is "%00". */
	if (authority >= n)
	{
		if (plc)
			n = atp_did_text(stored, n, (char *) out);
		else
			memcpy(out, stored, n);
		memcpy(out + n, "%00", 3);
		*on = n + 3;
		return atp_uri_prefix_len(scheme) + *on <= ATP_URI_MAX &&
			(scheme != ATP_SCHEME_AT || *on <= ATP_DID_MAX || memcmp(out, "did:", 4) != 0);
	}

	/* The lowest continuation of a segment is '!'. */
	tid = memchr(stored + authority, ATP_URI_TAG_TID, n - authority);
	if (plc)
		text += ATP_DID_PLC_TEXT - ATP_DID_PLC_STORED;
	if (atp_is_path_tag(stored[authority]))
		text += atp_uri_path[stored[authority] - ATP_URI_TAG_PATH].len - 1;
	if (tid != NULL)
		text += 1 + ATP_TID_TEXT - ATP_URI_TID_STORED;
	if (text + 1 > ATP_URI_MAX)
		return false;

	/* A TID followed by '!' is no TID: unpack it. */
	if (tid != NULL && tid + ATP_URI_TID_STORED == stored + n)
	{
		n -= ATP_URI_TID_STORED;
		memcpy(out, stored, n);
		out[n] = '/';
		atp_tid_format(atp_get_be64(tid + 1), (char *) out + n + 1);
		n += 1 + ATP_TID_TEXT;
	}
	else
		memcpy(out, stored, n);
	out[n] = '!';
	*on = n + 1;
	return true;
}

/* The first delimiter from p on, or the end. */
static size_t
component_end(const uint8_t *stored, size_t p, size_t n)
{
	while (p < n && byte_weight(stored[p]) > 3)
		p++;
	return p;
}

size_t
atp_uri_repo_len(const uint8_t *stored, size_t n)
{
	return stored[0] == ATP_URI_TAG_PLC ? ATP_DID_PLC_STORED : component_end(stored, 0, n);
}

size_t
atp_uri_collection_len(const uint8_t *stored, size_t n)
{
	size_t		repo = atp_uri_repo_len(stored, n);

	return repo < n && byte_weight(stored[repo]) == 3 ? component_end(stored, repo + 1, n) : repo;
}

uint64_t
atp_uri_abbrev(const uint8_t *stored, size_t n)
{
	uint8_t		head[ATP_ABBREV_CHARS] = {0};
	char		text[ATP_TID_TEXT];
	size_t		i;
	size_t		p;

	if (stored[0] == ATP_URI_TAG_PLC)
		return atp_did_abbrev(stored, n);
	for (i = 0, p = 0; p < n && i < sizeof(head) && stored[p] != ATP_URI_TAG_TID; p++)
	{
		const AtpSpan *prefix;

		if (!atp_is_path_tag(stored[p]))
		{
			head[i++] = (uint8_t) byte_weight(stored[p]);
			continue;
		}
		prefix = &atp_uri_path[stored[p] - ATP_URI_TAG_PATH];
		for (size_t j = 0; j < prefix->len && i < sizeof(head); j++)
			head[i++] = (uint8_t) byte_weight((uint8_t) prefix->ptr[j]);
	}
	if (p < n && i < sizeof(head))
	{
		atp_tid_format(atp_get_be64(stored + p + 1), text);
		head[i++] = (uint8_t) byte_weight('/');
		for (int j = 0; j < ATP_TID_TEXT && i < sizeof(head); j++)
			head[i++] = (uint8_t) text[j];
	}
	return atp_abbrev_text(head);
}
