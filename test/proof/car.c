/*
 * car.c
 *		Sections of a CAR file: each block lies in the file, sections follow each other, and the end is the file's.
 *
 * proves: atp_car_next atp_car_can_verify
 * sources: core/repo/car.c core/codec/dagcbor.c core/codec/cid.c core/syntax/utf8.c test/proof/lib/libcbor.c
 * short: -DN=5 --unwind 7 --unwindset atp_varint_read.0:10,memcmp.0:33
 * long: -DN=12 --unwind 14 --unwindset memcmp.0:33
 * wraps: atp_utf8_unplain atp_fields_next
 * not proved: blocks with a hash of 32 bytes (longer than the bound), and so atp_car_verify()
 */
#include "core/repo/car.h"
#include "lib/proof.h"

int
main(void)
{
	AtpCar		car;
	AtpCarBlock block;
	size_t		last = 0;
	size_t		at;
	AtpErr		err;
	unsigned	blocks = 0;

	ANY_BUFFER(s, n, N);
	car = (AtpCar) {.buf = s, .len = n};
	while ((err = atp_car_next(&car, &block, &at)) == ATP_OK)
	{
		LAW(block.at == last && car.pos > last && car.pos <= n);
		LAW(block.cid.ptr > s + last && block.data.ptr == block.cid.ptr + block.cid.len && block.data.ptr + block.data.len == s + car.pos);
		LAW(!atp_car_can_verify(&block));
		last = car.pos;
		blocks++;
	}
	LAW_OF_ERRORS(err, at, n);
	LAW(err != ATP_E_CAR_END || car.pos == n);
	if (err == ATP_E_CAR_END && blocks > 0)
		REACHED("a file with a block");
	return 0;
}
