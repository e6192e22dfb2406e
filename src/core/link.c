/*
 * link.c
 *		Links between records: what in a record is one, and where it stands.
 */
#include "did.h"
#include "link.h"

static inline void
put(AtpLinkPath *path, char c)
{
	if (path->len < ATP_LINK_PATH_MAX)
		path->text[path->len] = c;
	path->len++;
}

static inline bool
is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		c == '_' || c == '$' || c == '-';
}

static void
put_escaped(AtpLinkPath *path, AtpSpan s, bool is_type)
{
	static const char hex[] = "0123456789ABCDEF";

	/* what does not fit is not looked at: names may have a megabyte */
	for (size_t i = 0; i < s.len && path->len <= ATP_LINK_PATH_MAX; i++)
	{
		unsigned char c = (unsigned char) s.ptr[i];

		if (is_plain(s.ptr[i]) || (is_type && (c == '.' || c == '#')))
			put(path, s.ptr[i]);
		else
		{
			put(path, '%');
			put(path, hex[c >> 4]);
			put(path, hex[c & 15]);
		}
	}
}

void
atp_link_path_name(AtpLinkPath *path, AtpSpan name)
{
	if (path->len > 0)
		put(path, '.');
	if (name.len == 0)
		put(path, '%');
	put_escaped(path, name, false);
}

void
atp_link_path_element(AtpLinkPath *path, AtpSpan type)
{
	put(path, '[');
	if (type.ptr != NULL)
		put_escaped(path, type, true);
	put(path, ']');
}

bool
atp_link_path_is_valid(AtpSpan path)
{
	for (size_t i = 0; i < path.len; i++)
		if (!is_plain(path.ptr[i]) && (path.ptr[i] == '\0' || strchr(".#%[]", path.ptr[i]) == NULL))
			return false;
	return path.len > 0 && path.len <= ATP_LINK_PATH_MAX;
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

/* The "$type" of the map that begins here; ptr NULL: it has none.  Shorter keys come before it. */
static AtpSpan
type_of(const uint8_t *buf, size_t n)
{
	AtpCborReader r;
	AtpCborItem item;
	size_t		at;

	atp_cbor_init(&r, buf, n, ATP_CBOR_DEPTH_DEFAULT);
	if (atp_cbor_next(&r, &item, &at) != ATP_OK || r.depth == 0)
		return (AtpSpan) {NULL, 0};
	do
	{
		AtpSpan		name;

		if (atp_cbor_next(&r, &item, &at) != ATP_OK)
			break;
		name = atp_cbor_span(&item);
		if (name.len > 5 || atp_cbor_next(&r, &item, &at) != ATP_OK)
			break;
		if (atp_span_is(name, "$type"))
			return item.kind == ATP_CBOR_TEXT ? atp_cbor_span(&item) : (AtpSpan) {NULL, 0};
	} while (atp_cbor_finish(&r, 1, &at) == ATP_OK && r.depth == 1);
	return (AtpSpan) {NULL, 0};
}

AtpErr
atp_link_walk_dagcbor(AtpLinkWalk *walk, const uint8_t *buf, size_t n, size_t *at)
{
	AtpLinkPath *path = &walk->path;
	size_t		lens[ATP_CBOR_DEPTH_DEFAULT + 1];	/* of open containers' paths, by depth */
	bool		is_array[ATP_CBOR_DEPTH_DEFAULT + 1] = {false};
	bool		of_model = false;	/* the text that follows is under such a name */
	AtpCborReader r;

	atp_cbor_init(&r, buf, n, ATP_CBOR_DEPTH_DEFAULT);
	lens[0] = path->len;
	do
	{
		unsigned	depth = r.depth;
		AtpCborItem item;
		AtpErr		err = atp_cbor_next(&r, &item, at);

		if (err != ATP_OK)
			return err;
		if (item.is_key)
		{
			path->len = lens[depth];
			atp_link_path_name(path, atp_cbor_span(&item));
			of_model = atp_link_is_name_of_model(atp_cbor_span(&item));
			continue;
		}
		if (is_array[depth])
		{
			/* nothing is linked from a path that is too long, whatever stands in it */
			bool		typed = item.kind == ATP_CBOR_MAP && lens[depth] < ATP_LINK_PATH_MAX;

			path->len = lens[depth];
			atp_link_path_element(path, typed ? type_of(buf + item.at, n - item.at) : (AtpSpan) {NULL, 0});
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
	*at = r.pos;
	return r.pos == n ? ATP_OK : ATP_E_CBOR_TRAILING;
}
