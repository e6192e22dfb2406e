/*
 * car_header.c
 *		The header of a CAR file.
 *
 * proves: atp_car_open atp_car_header
 * sources: core/repo/car.c core/codec/dagcbor.c core/codec/cid.c core/syntax/utf8.c test/proof/lib/libcbor.c
 * short: -DN=4 --unwind 12
 * long: -DN=8 --unwind 15
 * wraps: atp_utf8_unplain atp_fields_next
 * assumes: the header begins with {"roots": …; libcbor does what lib/libcbor.c says
 */
#include "core/repo/car.h"
#include "lib/proof.h"

#define HEAD	"\x0f\xa2\x65roots"
#define VERSION	"\x67version"

int
main(void)
{
	uint8_t		s[8 + 1 + 8 + N];
	size_t		n = sizeof(s) - N + any_size(N);
	uint8_t    *text = s + sizeof(s) - n;
	AtpCar		car;
	size_t		at;
	AtpErr		err;

	memcpy(text, HEAD, 8);
	memcpy(text + 9, VERSION, 8);
	text[0] = any_byte();
	text[8] = any_bool() ? 0x80 : 0x81;
	err = atp_car_open(&car, text, n, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return 0;
	LAW(car.pos <= n && car.nroots == 0 && car.root.ptr == NULL && car.roots_at == 9);
	REACHED("a header without roots");
	return 0;
}
