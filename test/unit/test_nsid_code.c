/*
 * test_nsid_code.c
 *		The stored form of NSIDs: the list of codes, which only grows, and the order of texts and codes.
 */
#include "core/syntax/nsid.h"
#include "core/syntax/nsid_code.h"
#include "sha.h"
#include "unit.h"

/* The numbers and names of the list, without the library's lookups. */
static const struct
{
	unsigned	number;
	const char *name;
}			list[] = {
#define ATP_NSID_RUN(first)
#define ATP_NSID(number, name) {number, name},
#include "core/syntax/nsid_list.h"
#undef ATP_NSID
#undef ATP_NSID_RUN
};

#define N		(sizeof(list) / sizeof(list[0]))

/*
 * The codes are on disk: so many first entries have this SHA-256, of a line "number name" for each.  A release that
 * appends names adds a row here; a row is never changed.
 */
static const struct
{
	unsigned	n;
	const char *sha256;
}			released[] = {
	{152, "4247c49d7a03dd98322f9670f8cf3ae7d7eca5699fd66fda28be476da40c74dd"},
};

/* The code that nsid_code.h describes. */
static size_t
expected_code(unsigned number, uint8_t *code)
{
	if (number < 112)
	{
		code[0] = (uint8_t) (0x80 + number);
		return 1;
	}
	code[0] = (uint8_t) ((0xF000 + number - 112) >> 8);
	code[1] = (uint8_t) (0xF000 + number - 112);
	return 2;
}

static void
check_released(unsigned n, const char *sha)
{
	char	   *lines = malloc(N * (ATP_NSID_MAX + 16));
	size_t		len = 0;
	uint8_t		hash[32];
	char		hex[65];

	for (unsigned i = 0; i < n && i < N; i++)
		len += sprintf(lines + len, "%u %s\n", list[i].number, list[i].name);
	sha256(NULL, (const uint8_t *) lines, len, hash);
	for (int i = 0; i < 32; i++)
		sprintf(hex + 2 * i, "%02x", hash[i]);
	ok(n <= N && strcmp(hex, sha) == 0, "the first %u entries are those that were released: %s", n, hex);
	free(lines);
}

static void
check_entry(unsigned i)
{
	const char *name = list[i].name;
	size_t		n = strlen(name);
	uint8_t		code[2];
	uint8_t		stored[ATP_NSID_MAX];
	size_t		len = expected_code(list[i].number, code);
	AtpSpan		text = {NULL, 0};
	size_t		at;

	ok(list[i].number == i, "number %u follows the number before", list[i].number);
	ok(atp_nsid_check(name, n, &at) == ATP_OK, "%s is an NSID", name);
	ok(atp_nsid_store(name, n, stored) == len && memcmp(stored, code, len) == 0, "%s has the code of its number", name);
	ok(atp_nsid_text(code, len, &text) && atp_span_is(text, name), "%s is the code's text", name);
}

static void
check_text(const char *s)
{
	uint8_t		stored[ATP_NSID_MAX];
	size_t		n = atp_nsid_store(s, strlen(s), stored);
	AtpSpan		text;

	ok(n == strlen(s) && memcmp(stored, s, n) == 0 && atp_nsid_text(stored, n, &text) && atp_span_is(text, s),
	   "%s is stored as text", s);
}

static void
check_unknown(const char *bytes, size_t n)
{
	AtpSpan		text;

	ok(!atp_nsid_text((const uint8_t *) bytes, n, &text) && atp_nsid_is_code((const uint8_t *) bytes, n),
	   "%zu bytes from %02x on are a code that nobody has given", n, (uint8_t) bytes[0]);
}

/* -1, 0 or 1 of the order of these texts, and the abbreviations do not contradict. */
static int
order(const char *a, const char *b)
{
	AtpSpan		x = {a, strlen(a)};
	AtpSpan		y = {b, strlen(b)};
	int			c = atp_nsid_text_cmp(x, y);
	uint64_t	i = atp_nsid_text_abbrev(x);
	uint64_t	k = atp_nsid_text_abbrev(y);

	return (i < k && c >= 0) || (i > k && c <= 0) ? 2 : (c > 0) - (c < 0);
}

int
main(void)
{
	for (size_t i = 0; i < sizeof(released) / sizeof(released[0]); i++)
		check_released(released[i].n, released[i].sha256);
	for (unsigned i = 0; i < N; i++)
		check_entry(i);

	/* names beside those of the list, and an older library's form of a name that has a code now */
	check_text("app.bsky.feed.lik");
	check_text("app.bsky.feed.likes");
	check_text("app.bsky.feed.Like");
	check_text("a.b.c");
	check_text("zz.example.record");
	{
		AtpSpan		text;

		ok(atp_nsid_text((const uint8_t *) "app.bsky.feed.like", 18, &text) && atp_span_is(text, "app.bsky.feed.like"),
		   "the text of a name with a code is its stored form, too");
	}

	check_unknown("\x84x", 2);
	check_unknown("\xf0", 1);
	check_unknown("\xf0\x01\x02", 3);
	check_unknown("\xf0\xff", 2);
	check_unknown("\xff\xff", 2);

	ok(order("app.bsky.feed.like", "app.bsky.feed.post") == -1, "the order of two names");
	ok(order("app.bsky.feed.post", "app.bsky.feed.postgate") == -1, "a name before a longer one");
	ok(order("b.c.d", "app.bsky.feed.post") == 1, "the order in the first byte");
	ok(order("a.b", "a.b.c") == -1 && order("", "a") == -1, "a name before what begins with the name");
	ok(order("app.bsky.feed.post", "app.bsky.feed.post") == 0, "equal names");
	return done_testing();
}
