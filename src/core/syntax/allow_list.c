/*
 * allow_list.c
 *		What may be asked beyond https, port 443 and public addresses.
 */
#include "core/syntax/allow_list.h"
#include "core/syntax/chars.h"

/* A word of the list: a host, or a network. */
typedef struct Entry
{
	AtpSpan		scheme;			/* ptr NULL: a network */
	AtpSpan		host;
	unsigned	port;
	AtpAddress	net;
	unsigned	bits;
} Entry;

static bool
same(AtpSpan a, AtpSpan b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (atp_char_lower(a.ptr[i]) != atp_char_lower(b.ptr[i]))
			return false;
	return true;
}

static AtpSpan
span(const char *s, const char *end)
{
	return (AtpSpan) {s, (size_t) (end - s)};
}

/* A decimal number of at most max, without leading zeros; false: none. */
static bool
number(const char *s, const char *end, unsigned max, unsigned *value)
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
	/* what ends in a number is an address, in one way only */
	return !atp_char_is(host.ptr[last], ATP_C_DIGIT) ||
		atp_address_parse(host.ptr, host.len, &address, &at) == ATP_OK;
}

static AtpErr
parse_host(const char *s, const char *end, const char *colon, Entry *entry, const char **where)
{
	static const AtpSpan http = {"http", 4};
	static const AtpSpan https = {"https", 5};
	const char *host = colon + 3;
	const char *port = end;

	*where = s;
	entry->scheme = span(s, colon);
	if (!same(entry->scheme, http) && !same(entry->scheme, https))
		return ATP_E_ALLOW_SCHEME;
	entry->port = same(entry->scheme, https) ? 443 : 80;
	/* the last colon, unless it is one of the address in brackets */
	while (port > host && port[-1] != ':' && port[-1] != ']')
		port--;
	*where = port;
	if (port == host || port[-1] == ']')
		port = end;
	else if (!number(port, end, 65535, &entry->port) || entry->port == 0)
		return ATP_E_ALLOW_PORT;
	else
		port--;
	*where = host;
	entry->host = span(host, port);
	/* as atp_host_spell() has the other one */
	if (entry->host.len > 1 && entry->host.ptr[entry->host.len - 1] == '.')
		entry->host.len--;
	return is_host(entry->host) ? ATP_OK : ATP_E_ALLOW_HOST;
}

static AtpErr
parse_network(const char *s, const char *end, Entry *entry, const char **where)
{
	const char *slash = memchr(s, '/', (size_t) (end - s));
	unsigned	most;
	size_t		at;

	entry->scheme = (AtpSpan) {NULL, 0};
	*where = s;
	if (slash == NULL || atp_address_parse(s, (size_t) (slash - s), &entry->net, &at) != ATP_OK)
		return ATP_E_ALLOW_NETWORK;
	/* an IPv4 network in the clothes of IPv6 has another number of bits */
	if (entry->net.v4 && memchr(s, ':', (size_t) (slash - s)) != NULL)
		return ATP_E_ALLOW_NETWORK;
	most = entry->net.v4 ? 32 : 128;
	*where = slash + 1;
	if (!number(slash + 1, end, most, &entry->bits))
		return ATP_E_ALLOW_NETWORK;
	/* 10.0.0.1/8 is a mistake, whatever was meant */
	for (unsigned bit = entry->bits; bit < most; bit++)
		if (entry->net.bytes[bit / 8] & (0x80 >> bit % 8))
			return ATP_E_ALLOW_NETWORK;
	return ATP_OK;
}

/* The next word from *p on, which moves behind it; of a word that is wrong, where. */
static AtpErr
next_entry(const char **p, const char *end, Entry *entry, const char **where)
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
	/* nothing may follow a comma only if nothing came before it, either */
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
	Entry		entry;
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
	Entry		entry;

	while (p < s + n)
		if (next_entry(&p, s + n, &entry, &where) == ATP_OK && entry.scheme.ptr != NULL &&
			same(entry.scheme, scheme) && same(entry.host, host) && entry.port == port)
			return true;
	return false;
}

bool
atp_allow_address(const char *s, size_t n, const AtpAddress *address)
{
	const char *p = s;
	const char *where;
	Entry		entry;

	while (p < s + n)
		if (next_entry(&p, s + n, &entry, &where) == ATP_OK && entry.scheme.ptr == NULL &&
			atp_address_in(address, &entry.net, entry.bits))
			return true;
	return false;
}
