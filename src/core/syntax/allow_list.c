/*
 * allow_list.c
 *		Parser of the setting atproto.fetch_allow: see allow_list.h.
 */
#include "core/syntax/allow_list.h"
#include "core/syntax/chars.h"

/* One entry of the list: a host with scheme and port, or a network. */
typedef struct AllowEntry
{
	AtpSpan		scheme;			/* ptr NULL: the entry is a network */
	AtpSpan		host;
	unsigned	port;
	AtpAddress	net;
	unsigned	bits;
} AllowEntry;

static AtpSpan
span_of(const char *s, const char *end)
{
	return (AtpSpan) {s, (size_t) (end - s)};
}

/* A decimal number up to max, without leading zeros; false for any other text. */
static bool
parse_number(const char *s, const char *end, unsigned max, unsigned *value)
{
	*value = 0;
	if (s == end || (*s == '0' && end - s > 1))
		return false;
	for (; s < end; s++)
	{
		if (!atp_char_is(*s, ATP_C_DIGIT))
			return false;
		*value = *value * 10 + (unsigned) (*s - '0');
		if (*value > max)
			return false;
	}
	return true;
}

/* A name, an IPv4 address, or an IPv6 address in brackets. */
static bool
is_host(AtpSpan host)
{
	AtpAddress	address;
	unsigned	labels;
	size_t		last,
				at;

	if (host.len > 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
		return memchr(host.ptr, ':', host.len) != NULL &&
			atp_address_parse(host.ptr + 1, host.len - 2, &address, &at) == ATP_OK;
	if (host.len > 253 || atp_labels_check(host.ptr, host.len, &labels, &last, &at) != ATP_OK)
		return false;

	/*
	 * A name whose last label begins with a digit must be an IPv4 address in its one usual spelling:
	 * resolvers read names such as 127.1 as addresses, too.
	 */
	return !atp_char_is(host.ptr[last], ATP_C_DIGIT) ||
		atp_address_parse(host.ptr, host.len, &address, &at) == ATP_OK;
}

static AtpErr
parse_host(const char *s, const char *end, const char *colon, AllowEntry *entry, const char **where)
{
	static const AtpSpan http = {"http", 4};
	static const AtpSpan https = {"https", 5};
	const char *host = colon + 3;
	const char *port = end;

	*where = s;
	entry->scheme = span_of(s, colon);
	if (!atp_span_same_letters(entry->scheme, http) && !atp_span_same_letters(entry->scheme, https))
		return ATP_E_ALLOW_SCHEME;
	entry->port = atp_span_same_letters(entry->scheme, https) ? 443 : 80;
	/* The port follows the last colon, unless this colon is part of an IPv6 address in brackets. */
	while (port > host && port[-1] != ':' && port[-1] != ']')
		port--;
	*where = port;
	if (port == host || port[-1] == ']')
		port = end;
	else if (!parse_number(port, end, 65535, &entry->port) || entry->port == 0)
		return ATP_E_ALLOW_PORT;
	else
		port--;
	*where = host;
	entry->host = span_of(host, port);
	/* Drop a final dot, as atp_host_spell() does with the host of a URL: the two are compared. */
	if (entry->host.len > 1 && entry->host.ptr[entry->host.len - 1] == '.')
		entry->host.len--;
	return is_host(entry->host) ? ATP_OK : ATP_E_ALLOW_HOST;
}

static AtpErr
parse_network(const char *s, const char *end, AllowEntry *entry, const char **where)
{
	const char *slash = memchr(s, '/', (size_t) (end - s));
	unsigned	most;
	size_t		at;

	entry->scheme = (AtpSpan) {NULL, 0};
	*where = s;
	if (slash == NULL || atp_address_parse(s, (size_t) (slash - s), &entry->net, &at) != ATP_OK)
		return ATP_E_ALLOW_NETWORK;

	/*
	 * ::ffff:10.0.0.0/104 is refused: the address became IPv4, but its prefix length counts the bits of IPv6.
	 */
	if (entry->net.v4 && memchr(s, ':', (size_t) (slash - s)) != NULL)
		return ATP_E_ALLOW_NETWORK;
	most = entry->net.v4 ? 32 : 128;
	*where = slash + 1;
	if (!parse_number(slash + 1, end, most, &entry->bits))
		return ATP_E_ALLOW_NETWORK;

	/*
	 * Bits after the prefix must be zero: 10.0.0.1/8 is a mistake, and the list does not guess which network
	 * was meant.
	 */
	for (unsigned bit = entry->bits; bit < most; bit++)
		if (entry->net.bytes[bit / 8] & (0x80 >> bit % 8))
			return ATP_E_ALLOW_NETWORK;
	return ATP_OK;
}

/* The entry at *p; *p moves behind it.  On an error, *where is the faulty place. */
static AtpErr
next_entry(const char **p, const char *end, AllowEntry *entry, const char **where)
{
	const char *s = *p;
	const char *comma = memchr(s, ',', (size_t) (end - s));
	const char *e = comma != NULL ? comma : end;

	*p = comma != NULL ? comma + 1 : end;
	while (s < e && *s == ' ')
		s++;
	while (e > s && e[-1] == ' ')
		e--;
	*where = s;

	/*
	 * An entry is empty: a trailing or doubled comma.  atp_allow_check() accepts a blank list without calling
	 * this.
	 */
	if (s == e)
		return ATP_E_EMPTY;
	for (const char *c = s; e - c >= 3; c++)
		if (memcmp(c, "://", 3) == 0)
			return parse_host(s, e, c, entry, where);
	return parse_network(s, e, entry, where);
}

static bool
is_blank(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] != ' ')
			return false;
	return true;
}

AtpErr
atp_allow_check(const char *s, size_t n, size_t *at)
{
	const char *p = s;
	const char *end = s + n;
	const char *where;
	AllowEntry	entry;
	bool		more = !is_blank(s, n);

	while (more)
	{
		AtpErr		err = next_entry(&p, end, &entry, &where);

		if (err != ATP_OK)
			return atp_fail(err, (size_t) (where - s), at);
		more = p < end || p[-1] == ',';
	}
	return ATP_OK;
}

bool
atp_allow_host(const char *s, size_t n, AtpSpan scheme, AtpSpan host, unsigned port)
{
	const char *p = s;
	const char *where;
	AllowEntry	entry;

	while (p < s + n)
		if (next_entry(&p, s + n, &entry, &where) == ATP_OK && entry.scheme.ptr != NULL &&
			atp_span_same_letters(entry.scheme, scheme) && atp_span_same_letters(entry.host, host) && entry.port == port)
			return true;
	return false;
}

bool
atp_allow_address(const char *s, size_t n, const AtpAddress *address)
{
	const char *p = s;
	const char *where;
	AllowEntry	entry;

	while (p < s + n)
		if (next_entry(&p, s + n, &entry, &where) == ATP_OK && entry.scheme.ptr == NULL &&
			atp_address_in(address, &entry.net, entry.bits))
			return true;
	return false;
}
