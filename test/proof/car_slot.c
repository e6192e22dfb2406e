/*
 * car_slot.c
 *		Where the search for a CID begins: a slot of the table, whatever sum the CID and the secret give.
 *
 * proves: first_slot
 * short: -DN=6 --unwind 34 --unwindset first_slot.0:3,memcpy.0:5
 * long: -DN=36 --unwind 34 --unwindset first_slot.0:10,memcpy.0:5
 * wraps: first_slot
 */
#include "core/repo/car.c"
#include "lib/proof.h"

int
main(void)
{
	ANY_BUFFER(s, n, N);
	/* Of a CID without bytes the sum is the first secret: any number. */
	for (unsigned bits = 0; bits <= 32; bits++)
	{
		AtpCarIndex index = {.nslots = (size_t) 1 << bits, .secrets = {any_u64()}};

		LAW(first_slot(&index, (AtpBytes) {s, 0}) < index.nslots);
	}
	/* All bytes of a CID can be read, and none behind it.  A product with any secret costs the solver too much. */
	{
		AtpCarIndex index = {.nslots = 2};

		for (size_t i = 0; i < ATP_CAR_SECRETS; i++)
			index.secrets[i] = UINT64_C(1) << 32;
		if (first_slot(&index, (AtpBytes) {s, n}) == 1)
			REACHED("the second slot");
	}
	return 0;
}
