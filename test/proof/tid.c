/*
 * tid.c
 *		TIDs: a text and its number are each other's only form, and order alike (T-01 to T-04).
 *
 * proves: atp_tid_parse atp_tid_format
 * sources: core/syntax/tid.c core/syntax/base32.c
 * short: -DN=14 --unwind 16
 * long: -DN=24 --unwind 26
 */
#include "core/syntax/tid.h"
#include "lib/proof.h"

static void
text_to_number(void)
{
	char		out[ATP_TID_TEXT];
	uint64_t	tid;
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_tid_parse(s, n, &tid, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return;
	atp_tid_format(tid, out);
	LAW(same_bytes(s, n, out, sizeof(out)));
	REACHED("a valid TID");
}

static void
number_to_text(void)
{
	char		a_text[ATP_TID_TEXT];
	char		b_text[ATP_TID_TEXT];
	uint64_t	a = any_u64();
	uint64_t	b = any_u64();
	uint64_t	again;
	size_t		at;
	int			order;

	atp_tid_format(a, a_text);
	LAW(atp_tid_parse(a_text, sizeof(a_text), &again, &at) == ATP_OK && again == a);
	atp_tid_format(b, b_text);
	order = memcmp(a_text, b_text, sizeof(a_text));
	LAW(sign(order) == (a > b) - (a < b));
	REACHED("the order of two TIDs");
}

int
main(void)
{
	text_to_number();
	number_to_text();
	return 0;
}
