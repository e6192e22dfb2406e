/*
 * test_slice.c
 *		The text form of slices.
 */
#include "core/syntax/slice.h"
#include "unit.h"

static void
check(const char *s, AtpErr expected, size_t expected_at)
{
	AtpSlice	slice;
	size_t		at;
	AtpErr		err = atp_slice_parse(s, strlen(s), &slice, &at);

	ok(err == expected && (err == ATP_OK || at == expected_at), "\"%s\": %s at byte %zu", s,
	   expected == ATP_OK ? "a slice" : atp_err_text(expected), expected_at);
}

int
main(void)
{
	AtpSlice	slice;
	size_t		at;

	check("0/1", ATP_OK, 0);
	check("15/16", ATP_OK, 0);
	check("2147483646/2147483647", ATP_OK, 0);
	ok(atp_slice_parse("3/160", 4, &slice, &at) == ATP_OK && slice.number == 3 && slice.of == 16, "what follows is not looked at");

	check("", ATP_E_SLICE, 0);
	check("x", ATP_E_SLICE, 0);
	check("3", ATP_E_SLICE, 1);
	check("/", ATP_E_SLICE, 0);
	check("3/", ATP_E_SLICE, 2);
	check("/16", ATP_E_SLICE, 0);
	check("3/16/", ATP_E_SLICE, 4);
	check("3/16 ", ATP_E_SLICE, 4);
	check(" 3/16", ATP_E_SLICE, 0);
	check("-1/16", ATP_E_SLICE, 0);
	check("+1/16", ATP_E_SLICE, 0);
	check("3/1x", ATP_E_SLICE, 3);
	check("03/16", ATP_E_SLICE, 2);
	check("3/016", ATP_E_SLICE, 5);
	check("0/2147483648", ATP_E_SLICE, 12);
	check("0/99999999999999999999999999", ATP_E_SLICE, 12);
	check("0/0", ATP_E_SLICE_NONE, 2);
	check("3/0", ATP_E_SLICE_NONE, 2);
	check("16/16", ATP_E_SLICE_NUMBER, 0);
	check("1/1", ATP_E_SLICE_NUMBER, 0);
	return done_testing();
}
