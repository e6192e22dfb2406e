/*
 * car_index.c
 *		The index from CID to block, with keys that a stranger has chosen: an addition to any index, and a search.  No
 *		search looks at more slots than there are blocks, and one: so bad luck, too, has an end.
 *
 * proves: atp_car_index_add atp_car_index_find find_slot
 * replaces: first_slot:any_slot keep_secrets:no_secrets
 * short: -DBLOCKS=2 -DSLOTS=4 --unwind 5 --unwindset find_slot.0:4,memcmp.0:2
 * long: -DBLOCKS=7 -DSLOTS=16 --unwind 17 --unwindset find_slot.0:9,memcmp.0:2
 * assumes: first_slot() gives any slot of the table for a CID (car_slot.c); a CID has one byte, whose lowest bits are its slot
 */
#include "core/repo/car.c"
#include "lib/proof.h"

/* The CID's lowest bits: so that the stranger puts as many as he likes into one slot. */
size_t
any_slot(const AtpCarIndex *index, AtpBytes cid)
{
	return cid.ptr[0] % SLOTS;
}

/* In place of the secret numbers of a seed: any_slot() chooses slots without secret numbers. */
void
no_secrets(AtpCarIndex *index)
{
	(void) index;
}

int
main(void)
{
	uint8_t		cids[BLOCKS + 1];
	uint8_t		wanted = any_byte();
	AtpCarBlock blocks[BLOCKS];
	uint32_t	slots[SLOTS] = {0};
	AtpCarIndex index = {.blocks = blocks, .cap = any_size(BLOCKS), .slots = slots, .nslots = SLOTS};
	const AtpCarBlock *found;
	bool		has = false;

	for (size_t i = 0; i <= BLOCKS; i++)
	{
		AtpCarBlock block = {.cid = {&cids[i], 1}, .at = i};
		const size_t before = index.n;
		bool		full = index.n >= index.cap;
		bool		twice = false;

		cids[i] = any_byte();
		for (size_t j = 0; j < i; j++)
			twice |= cids[j] == cids[i];
		LAW(atp_car_index_add(&index, &block) == !full);
		LAW(index.n == before + (!full && !twice));
		has |= !full && cids[i] == wanted;
	}
	found = atp_car_index_find(&index, (AtpBytes) {&wanted, 1});
	LAW((found != NULL) == has);
	if (found != NULL)
	{
		LAW(found >= blocks && found < blocks + index.n && *found->cid.ptr == wanted);
		REACHED("a block is found");
	}
	return 0;
}
