/*
 * dns_txt.c
 *		The TXT records of a name in a DNS answer: see dns_txt.h.
 */
#include "core/syntax/chars.h"
#include "core/wire/dns_txt.h"

#define HEADER		12
#define NAME_MAX	255			/* bytes of a name, including the labels' lengths and the empty last label */
#define ALIASES_MAX	16			/* aliases in a row, each leading to the next */

/*
 * Compression pointers in a name.  A name has at most 127 labels, and a pointer is needed before a label only.
 * Without this limit each of five thousand names could begin with the same eight thousand pointers.
 */
#define POINTERS_MAX	127

#define TYPE_CNAME	5
#define TYPE_TXT	16
#define CLASS_IN	1

/* A name in wire format, in lower case, and not compressed. */
typedef struct Name
{
	size_t		len;
	uint8_t		bytes[NAME_MAX];
} Name;

typedef struct DnsMessage
{
	const uint8_t *bytes;
	size_t		n;
} DnsMessage;

typedef struct TxtRecord
{
	Name		owner;
	unsigned	type;
	unsigned	class;
	size_t		data;			/* offset of the record's data in the message */
	size_t		len;
} TxtRecord;

static unsigned
number_at(const DnsMessage *m, size_t at)
{
	return (unsigned) m->bytes[at] << 8 | m->bytes[at + 1];
}

static bool
add_label(Name *name, const uint8_t *label, size_t n)
{
	if (n + 1 > NAME_MAX - name->len)
		return false;
	name->bytes[name->len++] = (uint8_t) n;
	for (size_t i = 0; i < n; i++)
		name->bytes[name->len++] = (uint8_t) atp_char_lower((char) label[i]);
	return true;
}

/*
 * Reads the name at *at, and moves *at behind it.  A compression pointer must point before everything read so
 * far, so that pointers cannot form a loop.
 */
static bool
read_name(const DnsMessage *m, size_t *at, Name *name)
{
	size_t		pos = *at;
	size_t		lowest = *at;
	unsigned	pointers = 0;

	name->len = 0;
	for (;;)
	{
		unsigned	n;

		if (pos >= m->n)
			return false;
		n = m->bytes[pos];
		if (n >= 0xc0)
		{
			if (pos + 2 > m->n)
				return false;
			if (pointers++ == 0)
				*at = pos + 2;
			pos = number_at(m, pos) & 0x3fff;
			if (pos >= lowest || pointers > POINTERS_MAX)
				return false;
			lowest = pos;
			continue;
		}
		if (n > 63 || n + 1 > m->n - pos || !add_label(name, m->bytes + pos + 1, n))
			return false;
		pos += n + 1;
		if (n == 0)
			break;
	}
	if (pointers == 0)
		*at = pos;
	return true;
}

static bool
read_record(const DnsMessage *m, size_t *at, TxtRecord *r)
{
	if (!read_name(m, at, &r->owner) || m->n - *at < 10)
		return false;
	r->type = number_at(m, *at);
	r->class = number_at(m, *at + 2);
	r->len = number_at(m, *at + 8);
	r->data = *at + 10;
	if (r->len > m->n - r->data)
		return false;
	*at = r->data + r->len;
	return true;
}

static bool
same_name(const Name *a, const Name *b)
{
	return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

static bool
name_of(const char *text, Name *name)
{
	name->len = 0;
	for (;;)
	{
		size_t		n = strcspn(text, ".");

		if (n == 0 || n > 63 || !add_label(name, (const uint8_t *) text, n))
			return false;
		text += n;
		if (*text == '\0')
			return add_label(name, NULL, 0);
		text++;
	}
}

/* Hands over the strings of one TXT record. */
static bool
take_strings(const DnsMessage *m, const TxtRecord *r, AtpDnsTxtFn take, void *arg)
{
	bool		first = true;

	for (size_t at = r->data; at < r->data + r->len;)
	{
		size_t		n = m->bytes[at];

		if (n > r->data + r->len - at - 1)
			return false;
		if (take != NULL)
			take(arg, (const char *) m->bytes + at + 1, n, first);
		first = false;
		at += n + 1;
	}
	return !first;
}

/*
 * If the name is an alias, replaces it by the alias's target; *found says whether.  False: the answer is
 * malformed.
 */
static bool
follow_alias(const DnsMessage *m, size_t at, Name *name, bool *found)
{
	*found = false;
	for (unsigned i = number_at(m, 6); i > 0 && !*found; i--)
	{
		TxtRecord	r;

		if (!read_record(m, &at, &r))
			return false;
		if (r.type != TYPE_CNAME || r.class != CLASS_IN || !same_name(&r.owner, name))
			continue;
		if (!read_name(m, &r.data, name))
			return false;
		*found = true;
	}
	return true;
}

/*
 * Hands over the TXT records of the name among the answers from at on.  With take NULL, only checks them and
 * counts.
 */
static bool
take_records(const DnsMessage *m, size_t at, const Name *name, AtpDnsTxtFn take, void *arg, unsigned *records)
{
	*records = 0;
	for (unsigned i = number_at(m, 6); i > 0; i--)
	{
		TxtRecord	r;

		if (!read_record(m, &at, &r))
			return false;
		if (r.type != TYPE_TXT || r.class != CLASS_IN || !same_name(&r.owner, name))
			continue;
		if (!take_strings(m, &r, take, arg))
			return false;
		(*records)++;
	}
	return true;
}

bool
atp_dns_txt_read(const uint8_t *message, size_t n, const char *name, AtpDnsTxtFn take, void *arg, unsigned *records)
{
	const DnsMessage m = {message, n};
	size_t		at = HEADER;
	bool		found = true;
	Name		wanted;
	Name		asked;

	*records = 0;
	if (n < HEADER || !name_of(name, &wanted))
		return false;
	for (unsigned i = number_at(&m, 4); i > 0; i--)
	{
		if (!read_name(&m, &at, &asked) || n - at < 4)
			return false;
		at += 4;
	}
	for (int i = 0; found; i++)
		if (i > ALIASES_MAX || !follow_alias(&m, at, &wanted, &found))
			return false;
	return take_records(&m, at, &wanted, NULL, NULL, records) && take_records(&m, at, &wanted, take, arg, records);
}
