/*
 * test_tid.c
 *		TIDs: rules T-01 to T-12.
 */
#include "core/syntax/tid.h"
#include "syntax.h"

static AtpErr
check(const char *s, size_t n, size_t *at)
{
	uint64_t	tid;

	return atp_tid_parse(s, n, &tid, at);
}

/* derived/tid.tsv: uint64, tid, regex_ok, top_bit_zero, unix_micros, clock_id */
static void
derived_row(char *line, size_t n, void *arg)
{
	unsigned long long value;
	unsigned long long micros;
	unsigned	clock;
	char		text[ATP_TID_TEXT + 1] = "";
	char		formatted[ATP_TID_TEXT + 1] = "";
	char		regex;
	char		top;
	uint64_t	tid = 0;
	size_t		at;

	ok(sscanf(line, "%llu\t%13s\t%c\t%c\t%llu\t%u", &value, text, &regex, &top, &micros,
			  &clock) == 6, "row can be read: %s", text);
	ok((atp_tid_parse(text, strlen(text), &tid, &at) == ATP_OK) == (regex == 't'),
	   "T-01, D3: %s", text);
	ok(tid == value, "T-03: %s is %llu", text, value);
	ok((tid <= ATP_TID_MAX_CANONICAL) == (top == 't'), "T-03: top bit of %s", text);
	ok((atp_tid_micros(tid) & ATP_TID_MAX_MICROS) == micros && atp_tid_clock(tid) == clock,
	   "T-06, T-08: parts of %s", text);
	ok((atp_tid_micros(tid) > ATP_TID_MAX_MICROS) == (top != 't'),
	   "F-03: the top bit of %s puts it after all times", text);
	atp_tid_format(value, formatted);
	ok(strcmp(formatted, text) == 0, "T-05: format of %llu is %s", value, formatted);
	if (top == 't')
		ok(atp_tid_make(micros, clock) == value, "T-08: %s made from its parts", text);
}

int
main(void)
{
	int			bad = 0;

	check_interop("tid", check, 4, 9);
	ok(each_line(VECTORS "derived/tid.tsv", derived_row, NULL) == 15, "15 rows");

	ACCEPTED("T-01", check, "3jzfcijpj2z2a", "2222222222222", "jzzzzzzzzzzzz", "j222222222222");
	REFUSED("T-01", check,
			{"", ATP_E_TID_LENGTH, 0},
			{"3jzfcijpj2z2", ATP_E_TID_LENGTH, 12},
			{"3jzfcijpj2z2aa", ATP_E_TID_LENGTH, 13},
			{"3jzfcijpj2z21", ATP_E_TID_CHAR, 12},
			{"3jzfcijpj2z2 ", ATP_E_TID_CHAR, 12},
			{"3jzf\xc3\xa9jpj2z2a", ATP_E_TID_CHAR, 4},
			{"0000000000000", ATP_E_TID_CHAR, 0});
	ACCEPTED("T-11", check, "jzzzzzzzzzzzz", "bzzzzzzzzzzzz", "2222222222223");
	check_charset("T-01", check, "*jzfcijpj2z2a", "234567abcdefghij");
	check_charset("T-01", check, "3jzfcijpj2z2*", "234567" LOWER);
	REFUSED("T-02", check,
			{"3jzf-cij-pj2z-2a", ATP_E_TID_LENGTH, 13},
			{"3jzf-cijpj2z2", ATP_E_TID_CHAR, 4},
			{"3jzFcijpj2z2a", ATP_E_TID_CHAR, 3});
	REFUSED("T-07", check,
			{"zzzzzzzzzzzzz", ATP_E_TID_FIRST, 0},
			{"kjzfcijpj2z2a", ATP_E_TID_FIRST, 0});
	ok(ATP_TID_MAX_MICROS == UINT64_C(9007199254740991), "T-03: 53 bits of microseconds");

	for (int i = 0; i < 200000 && bad < 3; i++)
	{
		uint64_t	a = random64() >> random_below(64);
		uint64_t	b = random_below(2) ? random64() : a ^ (UINT64_C(1) << random_below(64));
		uint64_t	again = ~a;
		char		at[ATP_TID_TEXT];
		char		bt[ATP_TID_TEXT];
		size_t		unused;

		atp_tid_format(a, at);
		atp_tid_format(b, bt);
		if (atp_tid_parse(at, sizeof(at), &again, &unused) != ATP_OK || again != a)
		{
			bad++;
			ok(false, "%llu is read back", (unsigned long long) a);
		}
		if (sign(memcmp(at, bt, sizeof(at))) != (a > b) - (a < b))
		{
			bad++;
			ok(false, "T-04: order of %.13s and %.13s", at, bt);
		}
		if (a < b && atp_tid_micros(a) > atp_tid_micros(b))
		{
			bad++;
			ok(false, "F-03: times of %.13s and %.13s", at, bt);
		}
	}
	ok(bad == 0, "T-04, T-12, F-03: 200000 random TIDs are read back, ordered as their texts, and so are their times");
	return done_testing();
}
