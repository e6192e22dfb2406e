/*
 * dns_txt.c
 *		Records of DNS answers, with any names, from any place on: the strings of a TXT record, and aliases.
 *
 * proves: read_record take_strings take_records follow_alias number_at
 * sources: core/syntax/chars.c
 * replaces: read_name:any_name same_name:any_same
 * short: -DN=14 -DCOUNT=1 --unwind 2 --unwindset take_strings.0:5
 * long: -DN=20 -DCOUNT=2 --unwind 3 --unwindset take_strings.0:11
 * assumes: read_name() does what dns_name.c proves; an answer has COUNT records at most
 */
#include "core/wire/dns_txt.c"
#include "lib/proof.h"

static size_t name_at;			/* where the last name was read */

/* Any name of at least a byte, up to the end of the message. */
bool
any_name(const DnsMessage *m, size_t *at, Name *name)
{
	size_t		len = any_size(N);

	name_at = *at;
	if (any_bool())
		return false;
	ASSUME(len > 0 && *at <= m->n && len <= m->n - *at);
	*at += len;
	name->len = 1;
	return true;
}

bool
any_same(const Name *a, const Name *b)
{
	return any_bool();
}

static const uint8_t *begin;
static const uint8_t *end;
static unsigned strings;
static unsigned firsts;

static void
take(void *arg, const char *s, size_t n, bool first)
{
	LAW((const uint8_t *) s > begin && (const uint8_t *) s + n <= end && (uint8_t) s[-1] == n);
	LAW(first || strings > 0);
	/* type 16 and class 1; then the time to live and the length */
	if (first)
		LAW(s[-11] == 0 && s[-10] == 16 && s[-9] == 0 && s[-8] == 1);
	strings++;
	firsts += first;
}

int
main(void)
{
	unsigned	records;
	DnsMessage	m;
	Name		name;
	bool		found;
	bool		read;
	size_t		at;

	ANY_BUFFER(s, n, N);
	/* the number of records is in the header, the records anywhere */
	ASSUME(n >= 8 && s[6] == 0 && s[7] <= COUNT);
	at = any_size(n);
	m = (DnsMessage) {s, n};
	begin = s;
	end = s + n;
	read = take_records(&m, at, &name, take, NULL, &records);
	LAW(records <= COUNT);
	LAW(!read || (records == firsts && strings >= records));
	if (read && records == 1 && strings == 2)
		REACHED("a TXT record of two strings");
	name.len = 0;
	if (follow_alias(&m, at, &name, &found))
	{
		LAW(!found || (name.len == 1 && s[7] > 0));
		if (found)
		{
			LAW(s[name_at - 10] == 0 && s[name_at - 9] == 5 && s[name_at - 8] == 0 && s[name_at - 7] == 1);
			REACHED("an alias");
		}
	}
	return 0;
}
