/*
 * link.c
 *		Links between records: the texts that are links, and the paths at which
 *		they stand.  See link.h.
 */
#include "core/syntax/chars.h"
#include "core/syntax/did.h"
#include "core/repo/link.h"

static inline void
put_char(AtpLinkPath *path, char c)
{
	if (path->len < ATP_LINK_PATH_MAX)
		path->text[path->len] = c;
	path->len++;
}

static inline bool
is_plain_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		c == '_' || c == '$' || c == '-';
}

static void
put_escaped(AtpLinkPath *path, AtpSpan s, bool is_type)
{
	static const char hex[] = "0123456789ABCDEF";

	/* Stop at the maximum: a stranger's name may have a megabyte. */
	for (size_t i = 0; i < s.len && path->len <= ATP_LINK_PATH_MAX; i++)
	{
		unsigned char c = (unsigned char) s.ptr[i];

		if (is_plain_char(s.ptr[i]) || (is_type && (c == '.' || c == '#')))
			put_char(path, s.ptr[i]);
		else
		{
			put_char(path, '%');
			put_char(path, hex[c >> 4]);
			put_char(path, hex[c & 15]);
		}
	}
}

void
atp_link_path_name(AtpLinkPath *path, AtpSpan name)
{
	if (path->len > 0)
		put_char(path, '.');
	if (name.len == 0)
		put_char(path, '%');
	put_escaped(path, name, false);
}

void
atp_link_path_element(AtpLinkPath *path, AtpSpan type)
{
	put_char(path, '[');
	if (type.ptr != NULL)
		put_escaped(path, type, true);
	put_char(path, ']');
}

bool
atp_link_path_is_valid(AtpSpan path)
{
	for (size_t i = 0; i < path.len; i++)
		if (!is_plain_char(path.ptr[i]) && (path.ptr[i] == '\0' || strchr(".#%[]", path.ptr[i]) == NULL))
			return false;
	return path.len > 0 && path.len <= ATP_LINK_PATH_MAX;
}

bool
atp_link_path_take(AtpSpan *path, char *buf, AtpSpan *name)
{
	const char *s = path->ptr;
	const char *end = s + path->len;
	size_t		n = 0;

	for (; s < end && *s != '.'; s++)
	{
		if (*s == '[' || *s == ']')
			return false;
		if (*s != '%')
			buf[n++] = *s;
		else if (atp_is_triplet(s, end))
		{
			buf[n++] = (char) (atp_hex_value(s[1]) << 4 | atp_hex_value(s[2]));
			s += 2;
		}
		/* '%' that is not %HH stands for an empty name. */
		else if (s != path->ptr || (s + 1 < end && s[1] != '.'))
			return false;
	}
	if (s == path->ptr)
		return false;
	*name = (AtpSpan) {buf, n};
	*path = s < end ? (AtpSpan) {s + 1, (size_t) (end - s - 1)} : (AtpSpan) {NULL, 0};
	return true;
}

bool
atp_link_is_name_of_model(AtpSpan name)
{
	return atp_span_is(name, "$type") || atp_span_is(name, "$link") || atp_span_is(name, "$bytes");
}

bool
atp_link_target(AtpSpan text, char *buf, AtpSpan *target, AtpUri *uri)
{
	static const char scheme[] = "at://";
	const size_t n = sizeof(scheme) - 1;
	size_t		at;

	if (text.len > n && memcmp(text.ptr, scheme, n) == 0)
	{
		*target = text;
		return atp_uri_parse(ATP_SCHEME_AT, text.ptr, text.len, uri, &at) == ATP_OK;
	}
	if (text.len < 4 || text.len > ATP_URI_MAX - n || memcmp(text.ptr, "did:", 4) != 0 ||
		atp_did_check(text.ptr, text.len, &at) != ATP_OK)
		return false;
	memcpy(buf, scheme, n);
	memcpy(buf + n, text.ptr, text.len);
	*target = (AtpSpan) {buf, n + text.len};
	return atp_uri_parse(ATP_SCHEME_AT, buf, n + text.len, uri, &at) == ATP_OK;
}

/* ------------------------------------------------------------------------
 * A record
 * ------------------------------------------------------------------------
 */
void
atp_link_walk_text(AtpLinkWalk *walk, AtpSpan text)
{
	AtpSpan		target;
	AtpUri		uri;

	if (!atp_link_target(text, walk->buf, &target, &uri))
		return;
	if (walk->path.len > ATP_LINK_PATH_MAX)
		walk->deeper++;
	else
		walk->found(walk, target, &uri);
}

#define NO_TYPE		SIZE_MAX	/* type of a map that is no element of an array */

AtpErr
atp_link_types(const uint8_t *buf, size_t n, AtpLinkType *types, size_t cap, AtpTickFn tick, size_t *count, size_t *at)
{
	uint64_t	ticks = 0;
	bool		is_array[ATP_CBOR_DEPTH_DEFAULT + 1] = {false};
	size_t		type[ATP_CBOR_DEPTH_DEFAULT + 1];	/* index in types of the open elements, by depth */
	bool		under_type = false;
	AtpCborReader r;

	*count = 0;
	type[0] = NO_TYPE;
	atp_cbor_init(&r, buf, n, ATP_CBOR_DEPTH_DEFAULT);
	do
	{
		unsigned	depth = r.depth;
		size_t		element = NO_TYPE;
		AtpCborItem item;
		AtpErr		err = atp_cbor_next(&r, &item, at);

		atp_tick(tick, ++ticks);
		if (err != ATP_OK)
			return err == ATP_E_CBOR_END ? ATP_E_CBOR_TRUNCATED : err;
		if (item.is_key)
		{
			under_type = atp_span_is(atp_cbor_span(&item), "$type");
			continue;
		}
		if (under_type && item.kind == ATP_CBOR_TEXT && type[depth] < cap)
			types[type[depth]] = (AtpLinkType) {(uint32_t) (item.str.ptr - buf), (uint32_t) item.str.len};
		under_type = false;
		if (is_array[depth] && item.kind == ATP_CBOR_MAP)
		{
			element = (*count)++;
			if (element < cap)
				types[element] = (AtpLinkType) {0, 0};
		}
		if (r.depth > depth)
		{
			is_array[r.depth] = item.kind == ATP_CBOR_ARRAY;
			type[r.depth] = element;
		}
	} while (r.depth > 0);
	*at = r.pos;
	return r.pos == n ? ATP_OK : ATP_E_CBOR_TRAILING;
}

static AtpSpan
type_text(const uint8_t *buf, AtpLinkType type)
{
	/* at 0 stands the value's head, never a text */
	return (AtpSpan) {type.at == 0 ? NULL : (const char *) buf + type.at, type.len};
}

void
atp_link_walk_items(AtpLinkWalk *walk, const uint8_t *buf, size_t n, const AtpLinkType *types)
{
	AtpLinkPath *path = &walk->path;
	size_t		lens[ATP_CBOR_DEPTH_DEFAULT + 1];	/* path lengths of open containers, by depth */
	bool		is_array[ATP_CBOR_DEPTH_DEFAULT + 1] = {false};
	bool		of_model = false;	/* the next value belongs to $type, $link or $bytes */
	uint64_t	ticks = 0;
	AtpCborReader r;

	atp_cbor_init(&r, buf, n, ATP_CBOR_DEPTH_DEFAULT);
	lens[0] = path->len;
	do
	{
		unsigned	depth = r.depth;
		AtpCborItem item;
		size_t		at;

		atp_tick(walk->tick, ++ticks);
		if (atp_cbor_next(&r, &item, &at) != ATP_OK)
			return;
		if (item.is_key)
		{
			path->len = lens[depth];
			atp_link_path_name(path, atp_cbor_span(&item));
			of_model = atp_link_is_name_of_model(atp_cbor_span(&item));
			continue;
		}
		if (is_array[depth])
		{
			path->len = lens[depth];
			atp_link_path_element(path, item.kind == ATP_CBOR_MAP ? type_text(buf, *types++) : (AtpSpan) {NULL, 0});
			of_model = false;
		}
		if (item.kind == ATP_CBOR_TEXT && !of_model)
			atp_link_walk_text(walk, atp_cbor_span(&item));
		if (r.depth > depth)
		{
			lens[r.depth] = path->len;
			is_array[r.depth] = item.kind == ATP_CBOR_ARRAY;
			of_model = false;
		}
	} while (r.depth > 0);
}
