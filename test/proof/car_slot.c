/*
 * car_slot.c
 *		Where the search for a CID begins: a slot of the table, whatever sum the CID and the secret give.
 *
 * proves: first_slot
 * replaces: secret_number:any_secret
 * short: -DN=6 --unwind 34 --unwindset first_slot.0:3,memcpy.0:5
 * long: -DN=36 --unwind 34 --unwindset first_slot.0:10,memcpy.0:5
 * wraps: first_slot
 */
#include "core/repo/car.c"
#include "lib/proof.h"

static bool any_sum;

/* Of a CID without bytes the sum is the first secret: any number.  Otherwise a product costs the solver too much. */
uint64_t
any_secret(uint64_t seed, uint64_t i)
{
	return any_sum ? any_u64() : UINT64_C(1) << 32;
}

int
main(void)
{
	ANY_BUFFER(s, n, N);
	any_sum = true;
	for (unsigned bits = 0; bits <= 32; bits++)
	{
		AtpCarIndex index = {.nslots = (size_t) 1 << bits};

		LAW(first_slot(&index, (AtpBytes) {s, 0}) < index.nslots);
	}
	/* all bytes of a CID can be read, and none behind it */
	any_sum = false;
	{
		AtpCarIndex index = {.nslots = 2};

		if (first_slot(&index, (AtpBytes) {s, n}) == 1)
			REACHED("the second slot");
	}
	return 0;
}
