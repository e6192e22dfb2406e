/*
 * car_index.c
 *		The index from CID to block: a sender chooses the CIDs, and whatever they are, a search looks at no more slots than
 *		there are (the unwinding bound of find_slot() is the number of slots), finds each block that was added, and no other.
 *
 * proves: atp_car_index_add atp_car_index_find
 * sources: core/repo/car.c core/codec/dagcbor.c core/codec/cid.c core/syntax/utf8.c test/proof/lib/libcbor.c
 * short: -DBLOCKS=2 -DLEN=4 -DSEED=1 --unwind 6 --unwindset find_slot.0:4
 * long: -DBLOCKS=4 -DLEN=5 -DSEED=any_u64() --unwind 9 --unwindset find_slot.0:8
 * wraps: first_slot secret_number find_slot atp_utf8_unplain atp_fields_next
 * not proved: that the searches are short on average: that rests on the secret seed
 */
#include "core/repo/car.h"
#include "lib/proof.h"

int
main(void)
{
	uint8_t		cids[BLOCKS + 1][LEN];
	size_t		lens[BLOCKS + 1];
	AtpCarBlock blocks[BLOCKS];
	uint32_t	slots[2 * BLOCKS] = {0};
	AtpCarIndex index = {.blocks = blocks, .cap = BLOCKS, .slots = slots, .nslots = 2 * BLOCKS, .seed = SEED};
	const AtpCarBlock *found;
	AtpBytes	stranger;
	bool		added = false;

	for (int i = 0; i <= BLOCKS; i++)
	{
		lens[i] = any_size(LEN);
		ASSUME(lens[i] > 0);
	}
	for (int i = 0; i < BLOCKS; i++)
	{
		AtpCarBlock block = {.cid = {cids[i], lens[i]}, .at = i};

		LAW(atp_car_index_add(&index, &block));
	}
	for (int i = 0; i < BLOCKS; i++)
	{
		found = atp_car_index_find(&index, (AtpBytes) {cids[i], lens[i]});
		LAW(found != NULL && same_bytes(found->cid.ptr, found->cid.len, cids[i], lens[i]));
	}
	stranger = (AtpBytes) {cids[BLOCKS], lens[BLOCKS]};
	for (int i = 0; i < BLOCKS; i++)
		added |= same_bytes(stranger.ptr, stranger.len, cids[i], lens[i]);
	LAW((atp_car_index_find(&index, stranger) != NULL) == added);
	if (index.n == BLOCKS && !added)
		REACHED("a full index, and another CID");
	return 0;
}
