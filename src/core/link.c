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
atp_link_is_name_of_model(AtpSpan name)
{
	return atp_span_is(name, "$type") || atp_span_is(name, "$link") || atp_span_is(name, "$bytes");
}

bool
atp_link_target(AtpSpan text, char *buf, AtpSpan *target)
{
	static const char scheme[] = "at://";
	const size_t n = sizeof(scheme) - 1;
	AtpUri		uri;
	size_t		at;

	if (text.len > n && memcmp(text.ptr, scheme, n) == 0)
	{
		*target = text;
		return atp_uri_parse(ATP_SCHEME_AT, text.ptr, text.len, &uri, &at) == ATP_OK;
	}
	if (text.len < 4 || text.len > ATP_URI_MAX - n || memcmp(text.ptr, "did:", 4) != 0 ||
		atp_did_check(text.ptr, text.len, &at) != ATP_OK)
		return false;
	memcpy(buf, scheme, n);
	memcpy(buf + n, text.ptr, text.len);
	*target = (AtpSpan) {buf, n + text.len};
	return atp_uri_parse(ATP_SCHEME_AT, buf, n + text.len, &uri, &at) == ATP_OK;
}
