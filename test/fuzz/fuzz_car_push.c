/*
 * fuzz_car_push.c
 *		CAR files in pieces: however the input is cut, the blocks and the verdict are those of the
 *		reader of whole files.
 *
 * Input: a byte that chooses the pieces, and the file.  Each block's hash is the digest of its CID, except
 * for blocks that begin with 0xff.
 */
#include <stdlib.h>

#include "core/repo/car_push.h"

#define BLOCKS_MAX	128

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Seen
{
	size_t		n;
	size_t		at[BLOCKS_MAX];
	size_t		len[BLOCKS_MAX];
	uint8_t	   *room;
} Seen;

static void
claimed(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
	memcpy(out, data - 32, 32);
	if (len > 0 && data[0] == 0xff)
		out[0]++;
}

static uint8_t *
room(void *ctx, size_t n)
{
	Seen	   *seen = ctx;

	if (n > ATP_CAR_PUSH_ROOM)
		abort();
	free(seen->room);
	seen->room = malloc(n);
	return seen->room;
}

static AtpErr
take(void *ctx, const AtpCarBlock *block)
{
	Seen	   *seen = ctx;

	if (seen->n == BLOCKS_MAX)
		return ATP_E_CAR_BLOCKS;
	seen->at[seen->n] = block->at;
	seen->len[seen->n++] = block->data.len;
	return ATP_OK;
}

static AtpErr
whole(const uint8_t *file, size_t n, Seen *seen, size_t *at)
{
	AtpCar		car;
	AtpCarBlock block;
	AtpErr		err = atp_car_open(&car, file, n, at);

	if (err == ATP_OK && car.nroots == 0)
		return ATP_E_CAR_NO_ROOT;
	if (err == ATP_OK && !atp_cid_is_node(car.root))
		return ATP_E_COMMIT_ROOT;
	while (err == ATP_OK && (err = atp_car_next(&car, &block, at)) == ATP_OK)
	{
		err = atp_car_verify(&block, claimed, NULL);
		if (err == ATP_OK && !atp_cid_is_blessed(block.cid.ptr, block.cid.len))
			err = ATP_E_CID_NOT_BLESSED;
		if (err == ATP_OK)
			err = take(seen, &block);
	}
	return err == ATP_E_CAR_END ? ATP_OK : err;
}

static AtpErr
pieces(const uint8_t *file, size_t n, unsigned state, Seen *seen, size_t *at)
{
	AtpCarPush	push;
	AtpErr		err = ATP_OK;

	atp_car_push_begin(&push, &(AtpCarTaker) {room, take, seen, claimed, NULL});
	while (n > 0 && err == ATP_OK)
	{
		size_t		len = 1 + (state >> 16) % (state & 15 ? 50 : 5);
		uint8_t    *copy;

		if (len > n)
			len = n;
		copy = malloc(len);
		memcpy(copy, file, len);
		err = atp_car_push(&push, copy, len, at);
		free(copy);
		state = state * 1103515245 + 12345;
		file += len;
		n -= len;
	}
	if (err == ATP_OK)
		err = atp_car_push_end(&push, at);
	if (push.blocks != seen->n || push.err != err)
		abort();
	return err;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Seen		a = {0};
	Seen		b = {0};
	size_t		at_a = 0;
	size_t		at_b = 0;
	AtpErr		err_a;
	AtpErr		err_b;

	if (size == 0)
		return 0;
	err_a = whole(data + 1, size - 1, &a, &at_a);
	err_b = pieces(data + 1, size - 1, data[0] * 40503u, &b, &at_b);
	free(b.room);
	if (at_b > size || a.n != b.n || memcmp(a.at, b.at, a.n * sizeof(a.at[0])) != 0 ||
		memcmp(a.len, b.len, a.n * sizeof(a.len[0])) != 0)
		abort();
	/* a section may be both too long and cut short */
	if (err_a != err_b && !(err_a == ATP_E_CAR_TRUNCATED &&
							(err_b == ATP_E_CAR_SECTION_SIZE || err_b == ATP_E_CAR_HEADER_SIZE)))
		abort();
	return 0;
}
