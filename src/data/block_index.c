/*
 * block_index.c
 *		Memory for an index over the blocks of a CAR file.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/pg_bitutils.h"

#include "data/block_index.h"
#include "data/error.h"

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

	*index = (AtpCarIndex) {.cap = n, .nslots = pg_nextpower2_64(2 * Max(n, 1))};
	index->blocks = palloc_extended(Max(n, 1) * sizeof(AtpCarBlock), MCXT_ALLOC_HUGE);
	index->slots = palloc_extended(index->nslots * sizeof(uint32_t),
								   MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	if (!pg_strong_random(&index->seed, sizeof(index->seed)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random numbers")));
}
