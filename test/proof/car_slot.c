/*
 * car_slot.c
 *		Where the search for a CID begins: a slot of the table, whatever the CID and the secret are.
 *
 * proves: first_slot
 * replaces: secret_number:any_secret
 * short: -DN=6 --unwind 34 --unwindset first_slot.0:3,memcpy.0:5
 * long: -DN=36 --unwind 34 --unwindset first_slot.0:10,memcpy.0:5
 * wraps: first_slot
 */
#include "core/repo/car.c"
#include "lib/proof.h"

uint64_t
any_secret(uint64_t seed, uint64_t i)
{
	/* a multiplication costs the solver too much: a secret is a power of two, or nothing */
	return any_bool() ? UINT64_C(1) << any_size(63) : 0;
}

int
main(void)
{
	ANY_BUFFER(s, n, N);
	for (unsigned bits = 0; bits <= 32; bits++)
	{
		AtpCarIndex index = {.nslots = (size_t) 1 << bits};

		LAW(first_slot(&index, (AtpBytes) {s, n}) < index.nslots);
	}
	REACHED("a slot");
	return 0;
}
