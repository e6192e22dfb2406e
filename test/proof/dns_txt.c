/*
 * dns_txt.c
 *		TXT records of a DNS answer: no byte outside of the message is read, compression pointers end, and what is handed
 *		over lies in the message.
 *
 * proves: atp_dns_txt_read
 * sources: core/wire/dns_txt.c core/syntax/chars.c
 * short: -DN=14 --unwind 5 --unwindset read_name.0:12,add_label.0:12,memcmp.0:12,strcspn.0:3,strcspn.1:3,atp_dns_txt_read.1:3
 * long: -DN=20 --unwind 8 --unwindset read_name.0:24,add_label.0:24,memcmp.0:24,atp_dns_txt_read.1:4
 * assumes: no question and at most two records: the counts of the header are below that; the name is "a"
 */
#include "core/wire/dns_txt.h"
#include "lib/proof.h"

#define HEADER	12

size_t
strcspn(const char *s, const char *reject)
{
	size_t		n = 0;

	while (s[n] != '\0' && strchr(reject, s[n]) == NULL)
		n++;
	return n;
}

static void
take(void *arg, const char *s, size_t n, bool first)
{
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	if (n == 1)
		REACHED("a string of a record");
}

int
main(void)
{
	unsigned	records;

	ANY_BUFFER(s, n, HEADER + N);
	ASSUME(n < HEADER || (s[4] == 0 && s[5] == 0 && s[6] == 0 && s[7] <= 1));
	if (atp_dns_txt_read(s, n, "a", take, NULL, &records))
		LAW(records <= 1);
	return 0;
}
