/*
 * dns_name.c
 *		Names in DNS answers: one label behind an empty name or a long one, and any name in a message of N bytes.
 *
 * proves: add_label read_name
 * sources: core/syntax/chars.c
 * short: -DN=3 --unwind 4 --unwindset read_name.0:7,main.0:6
 * long: -DN=5 --unwind 6 --unwindset read_name.0:11,main.0:6
 */
#include "core/wire/dns_txt.c"
#include "lib/proof.h"

/* Any label of at most three bytes, behind a name of this length. */
static void
label(size_t before)
{
	Name		name = {.len = before};
	uint8_t		bytes[3];
	size_t		n = any_size(3);
	bool		added;

	added = add_label(&name, bytes, n);
	LAW(added == (before + 1 + n <= NAME_MAX));
	LAW(name.len == (added ? before + 1 + n : before));
	if (added && name.len == NAME_MAX)
		REACHED("the longest name");
}

/* Any bytes, read from any place. */
static void
name(void)
{
	DnsMessage	m;
	Name		name;
	size_t		at;
	size_t		from;

	ANY_BUFFER(s, n, N);
	m = (DnsMessage) {s, n};
	at = from = any_size(n);
	if (!read_name(&m, &at, &name))
		return;
	LAW(at > from && at <= n);
	LAW(name.len >= 1 && name.len <= NAME_MAX && name.bytes[name.len - 1] == 0);
	/* the end is an empty label or a pointer */
	LAW(s[at - 1] == 0 || (at - from >= 2 && s[at - 2] >= 0xc0));
	if (at - from == 2 && s[from] >= 0xc0)
		REACHED("a compressed name");
}

int
main(void)
{
	label(0);
	for (size_t n = NAME_MAX - 4; n <= NAME_MAX; n++)
		label(n);
	name();
	return 0;
}
