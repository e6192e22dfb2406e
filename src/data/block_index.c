/*
 * block_index.c
 *		Memory for an index over the blocks of a CAR file: see block_index.h.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"

#include "data/block_index.h"
#include "data/error.h"

void
atp_block_index_clear(AtpCarIndex *index, MemoryContext cxt, size_t nblocks)
{
	size_t		cap = Max(nblocks, 1);
	size_t		nslots = pg_nextpower2_64(2 * cap);

	if (cap > index->cap)
	{
		AtpCarBlock *blocks = index->blocks;
		uint32_t   *slots = index->slots;

		/*
		 * Forget the old memory before it is freed: if an allocation below
		 * fails, the index must not point to freed memory.
		 */
		*index = (AtpCarIndex) {.seed = index->seed};
		if (blocks != NULL)
			pfree(blocks);
		if (slots != NULL)
			pfree(slots);
		index->blocks = MemoryContextAllocExtended(cxt, cap * sizeof(AtpCarBlock), MCXT_ALLOC_HUGE);
		index->slots = MemoryContextAllocExtended(cxt, nslots * sizeof(uint32_t), MCXT_ALLOC_HUGE);
		index->cap = cap;
	}
	/* The seed must be secret: see first_slot() in core/repo/car.c. */
	if (index->seed == 0 && !pg_strong_random(&index->seed, sizeof(index->seed)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random numbers")));

	/*
	 * Clear only the slots that this file needs: a small file must not cost as
	 * much as the largest file so far.
	 */
	index->nslots = nslots;
	index->n = 0;
	memset(index->slots, 0, nslots * sizeof(uint32_t));
}

void
atp_block_index_init(AtpCarIndex *index, const uint8_t *buf, size_t len)
{
	AtpCar		car;
	AtpCarBlock block;
	size_t		at;
	AtpErr		err;
	size_t		n = 0;

	if ((err = atp_car_open(&car, buf, len, &at)) != ATP_OK)
		atp_data_error("invalid CAR file", err, at);
	while ((err = atp_car_next(&car, &block, &at)) == ATP_OK)
	{
		CHECK_FOR_INTERRUPTS();
		if (!atp_car_can_verify(&block))
			atp_data_error("invalid CAR file", ATP_E_CAR_HASH_FUNCTION, at);
		n++;
	}
	if (err != ATP_E_CAR_END)
		atp_data_error("invalid CAR file", err, at);

	*index = (AtpCarIndex) {0};
	atp_block_index_clear(index, CurrentMemoryContext, n);
}
