/*
 * slice.c
 *		Slices such as 3/16.
 *
 * proves: atp_slice_parse
 * sources: core/syntax/slice.c core/syntax/chars.c
 * short: -DN=13 --unwind 15
 * long: -DN=24 --unwind 26
 */
#include "core/syntax/slice.h"
#include "lib/proof.h"

int
main(void)
{
	AtpSlice	slice;
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_slice_parse(s, n, &slice, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return 0;
	LAW(slice.number < slice.of && slice.of <= ATP_SLICES_MAX);
	if (slice.of > 1000000000)
		REACHED("a large number of slices");
	return 0;
}
