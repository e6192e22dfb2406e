/*
 * test_dns_txt.c
 *		The TXT records of a name in a name server's answer: rule W-20.
 */
#include "core/wire/dns_txt.h"
#include "unit.h"

#define IN			1
#define CHAOS		3
#define CNAME		5
#define TXT			16

static uint8_t message[4096];
static size_t used;
static char got[4096];

static void
put(const void *bytes, size_t n)
{
	memcpy(message + used, bytes, n);
	used += n;
}

static void
put_number(unsigned n)
{
	put((uint8_t[2]) {n >> 8, n}, 2);
}

/* Writes a name; "@" stands for the name of the question, written as a pointer. */
static void
put_name(const char *name)
{
	if (strcmp(name, "@") == 0)
	{
		put_number(0xc00c);
		return;
	}
	while (*name != '\0')
	{
		size_t		n = strcspn(name, ".");

		put((uint8_t[1]) {n}, 1);
		put(name, n);
		name += n + (name[n] == '.');
	}
	put("", 1);
}

static void
begin(const char *name)
{
	used = 0;
	put_number(1);
	put_number(0x8180);
	put_number(1);
	for (int i = 0; i < 3; i++)
		put_number(0);
	put_name(name);
	put_number(TXT);
	put_number(IN);
}

/* Writes a record; value is the only string of a TXT record, or the target of an alias. */
static void
record(const char *owner, unsigned type, unsigned class, const char *value)
{
	size_t		len_at;

	message[7]++;
	put_name(owner);
	put_number(type);
	put_number(class);
	put_number(0);
	put_number(0);
	len_at = used;
	put_number(0);
	if (type == CNAME)
		put_name(value);
	else
	{
		put((uint8_t[1]) {strlen(value)}, 1);
		put(value, strlen(value));
	}
	message[len_at + 1] = used - len_at - 2;
}

static void
take(void *arg, const char *s, size_t n, bool first)
{
	snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%.*s", first ? "|" : "+", (int) n, s);
}

static bool
reads(size_t n, unsigned *records)
{
	uint8_t    *copy = malloc(n > 0 ? n : 1);	/* exact size: ASan finds a read past the end */
	bool		good;

	memcpy(copy, message, n);
	got[0] = '\0';
	good = atp_dns_txt_read(copy, n, "_atproto.a.example", take, NULL, records);
	free(copy);
	return good;
}

static void
check(const char *what, bool good, const char *want)
{
	unsigned	records;
	bool		is = reads(used, &records);

	ok(is == good && strcmp(got, want) == 0, "W-20: %s: %s", what, got);
	/* W-20: a cut answer gives no text at all */
	for (size_t n = 0; good && n < used; n++)
		if (reads(n, &records) || got[0] != '\0')
			ok(false, "W-20: %s: cut after %zu bytes", what, n);
}

/* A record of the name at the end of a chain of pointers, which lies in the record before. */
static void
chain(unsigned pointers)
{
	size_t		first;

	begin("_atproto.a.example");
	message[7] = 2;
	put_name("@");
	put_number(99);
	put_number(IN);
	put_number(0);
	put_number(0);
	put_number(2 * pointers);
	first = used;
	for (unsigned i = 0; i < pointers; i++)
		put_number(0xc000 | (i == 0 ? 12 : first + 2 * (i - 1)));
	put_number(0xc000 | (used - 2));
	put_number(TXT);
	put_number(IN);
	put_number(0);
	put_number(0);
	put_number(4);
	put("\3own", 4);
}

int
main(void)
{
	begin("_atproto.a.example");
	check("no record", true, "");
	record("@", TXT, IN, "one");
	record("_ATPROTO.A.example", TXT, IN, "two");
	check("two records, the name in full and by a pointer", true, "|one|two");
	begin("_atproto.a.example");
	record("_atproto.b.example", TXT, IN, "other");
	record("a.example", TXT, IN, "other");
	record("@", TXT, IN, "own");
	record("", TXT, IN, "other");
	record("_atproto.a.example.example", TXT, IN, "other");
	check("records of other names", true, "|own");
	begin("_atproto.a.example");
	record("@", TXT, CHAOS, "other");
	record("@", 99, IN, "other");
	check("another class, another type", true, "");
	begin("_atproto.a.example");
	record("c.example", TXT, IN, "end");
	record("b.example", CNAME, IN, "c.example");
	record("@", CNAME, IN, "B.example");
	record("@", TXT, IN, "not here");
	record("b.example", TXT, IN, "nor here");
	check("aliases, in any order", true, "|end");
	begin("_atproto.a.example");
	record("@", CNAME, CHAOS, "b.example");
	record("b.example", TXT, IN, "other");
	check("an alias of another class", true, "");
	begin("_atproto.a.example");
	record("@", CNAME, IN, "b.example");
	record("b.example", CNAME, IN, "_atproto.a.example");
	check("aliases in a circle", false, "");
	begin("_atproto.a.example");
	record("@", TXT, IN, "own");
	message[used - 4] = 9;
	check("a string that is longer than its record", false, "");
	begin("_atproto.a.example");
	record("@", TXT, IN, "own");
	message[36]++;
	check("a pointer forward", false, "");
	begin("_atproto.a.example");
	message[12] = 0xc0;
	message[13] = 12;
	check("a pointer to itself", false, "");
	chain(126);
	check("as many pointers as a name can need, one to the next", true, "|own");
	chain(127);
	check("more pointers than that", false, "");
	return done_testing();
}
