/*
 * dns_answer.c
 *		Whole DNS answers, with any names, aliases and records: nothing is handed over of an answer that is malformed.
 *
 * proves: atp_dns_txt_read name_of
 * sources: core/syntax/chars.c
 * replaces: read_name:any_name follow_alias:any_alias take_records:any_records
 * short: -DN=20 -DCOUNT=2 --unwind 3 --unwindset strcspn.0:5,add_label.0:4,name_of.0:4,atp_dns_txt_read.1:18
 * long: -DN=40 -DCOUNT=5 --unwind 6 --unwindset strcspn.0:5,add_label.0:4,name_of.0:4,atp_dns_txt_read.1:18
 * assumes: read_name(), follow_alias() and take_records() do what dns_name.c and dns_txt.c prove
 */
#include "core/wire/dns_txt.c"
#include "lib/proof.h"

static unsigned aliases;
static unsigned taken;
static bool checked;
static uint8_t length;

bool
any_name(const DnsMessage *m, size_t *at, Name *name)
{
	size_t		len = any_size(N);

	if (any_bool())
		return false;
	ASSUME(len > 0 && *at <= m->n && len <= m->n - *at);
	*at += len;
	return true;
}

bool
any_alias(const DnsMessage *m, size_t at, Name *name, bool *found)
{
	LAW(at <= m->n && at >= HEADER);
	*found = any_bool();
	aliases += *found;
	return any_bool();
}

/* The same answer has the same fault each time. */
bool
any_records(const DnsMessage *m, size_t at, const Name *name, AtpDnsTxtFn take, void *arg, unsigned *records)
{
	LAW(at <= m->n && at >= HEADER);
	*records = any_bool();
	if (take != NULL)
	{
		LAW(checked);
		taken++;
		return true;
	}
	length = (uint8_t) name->len;
	checked = any_bool();
	return checked;
}

size_t
strcspn(const char *s, const char *reject)
{
	size_t		n = 0;

	while (s[n] != '\0' && s[n] != reject[0])
		n++;
	return n;
}

static void
take(void *arg, const char *s, size_t n, bool first)
{
}

int
main(void)
{
	char		name[4] = {(char) any_byte(), (char) any_byte(), (char) any_byte(), 0};
	unsigned	records;
	bool		read;

	ANY_BUFFER(s, n, N);
	if (n >= HEADER)
		ASSUME(s[4] == 0 && s[5] <= COUNT);
	read = atp_dns_txt_read(s, n, name, take, NULL, &records);
	LAW(read == (taken == 1));
	LAW(aliases <= ALIASES_MAX + 1);
	if (!read)
		return 0;
	LAW(n >= HEADER && name[0] != '.' && name[0] != 0);
	/* the name in wire format, with the empty label */
	LAW(length >= 3 && length <= 5);
	if (aliases == ALIASES_MAX && length == 5)
		REACHED("as many aliases as can be");
	return 0;
}
