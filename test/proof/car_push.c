/*
 * car_push.c
 *		CAR files in pieces: where the file is cut does not matter; no piece is read beyond its end, and a section has no more
 *		than its room.
 *
 * proves: atp_car_push_begin atp_car_push atp_car_push_end
 * sources: core/repo/car_push.c core/repo/car.c core/codec/dagcbor.c core/codec/cid.c core/syntax/utf8.c
 *	test/proof/lib/libcbor.c test/proof/lib/sha256.c
 * short: -DN=5 --unwind 8 --unwindset memcmp.0:33,proof_sha256.0:33,memcpy.0:37
 * long: -DN=9 --unwind 12 --unwindset memcmp.0:33,proof_sha256.0:33,memcpy.0:37
 * wraps: atp_utf8_unplain atp_fields_next
 * assumes: the header was read (car_header.c); the sections have any hash function but SHA-256, so that the first ends
 *	the file
 */
#include "core/repo/car_push.h"
#include "lib/proof.h"
#include "lib/sha256.h"

static uint8_t memory[N];
static size_t wanted;

static uint8_t *
room(void *ctx, size_t n)
{
	wanted = n;
	LAW(n > 0 && n <= ATP_CAR_PUSH_ROOM);
	return n <= sizeof(memory) ? memory + sizeof(memory) - n : NULL;
}

static AtpErr
take_block(void *ctx, const AtpCarBlock *block)
{
	LAW(false);
	return ATP_OK;
}

int
main(void)
{
	const AtpCarTaker taker = {.room = room, .block = take_block, .sha256 = proof_sha256};
	AtpCarPush	whole;
	AtpCarPush	cut;
	size_t		at;
	size_t		cut_at;
	AtpErr		err;

	ANY_BUFFER(s, n, N);
	size_t		first = any_size(n);

	atp_car_push_begin(&whole, &taker);
	atp_car_push_begin(&cut, &taker);
	whole.nroots = cut.nroots = 1;
	err = atp_car_push(&whole, s, n, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(whole.bytes <= n);
	if (err == ATP_E_CAR_ROOM)
		return 0;
	atp_car_push(&cut, s, first, &cut_at);
	LAW(atp_car_push(&cut, s + first, n - first, &cut_at) == err || cut.err == ATP_E_CAR_ROOM);
	if (err == ATP_E_CAR_HASH_FUNCTION && cut.err == err && cut.buf != NULL)
		REACHED("a section in two pieces");
	if (err == ATP_OK)
	{
		LAW(atp_car_push_end(&whole, &at) == atp_car_push_end(&cut, &cut_at) && at == cut_at);
		if (whole.counted)
			REACHED("a section that is not complete");
	}
	return 0;
}
