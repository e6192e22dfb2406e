/*
 * varint.c
 *		Varints: reading and writing are inverse; nothing behind the buffer is read.
 *
 * proves: atp_varint_read atp_varint_write
 * sources: core/errors.c
 * short: -DN=10 --unwind 12
 * long: -DN=16 --unwind 18
 */
#include "core/codec/varint.h"
#include "lib/proof.h"

int
main(void)
{
	uint8_t		out[ATP_VARINT_MAX];
	uint64_t	value = any_u64();
	uint64_t	again;
	size_t		pos = 0;
	size_t		len;
	AtpErr		err;

	ASSUME(value < UINT64_C(1) << 63);
	len = atp_varint_write(value, out);
	LAW(len <= ATP_VARINT_MAX);
	LAW(atp_varint_read(out, len, &pos, &again) == ATP_OK && again == value && pos == len);
	REACHED("a number written and read");

	ANY_BUFFER(s, n, N);
	size_t		start = any_size(n);

	pos = start;
	err = atp_varint_read(s, n, &pos, &value);
	LAW(err == ATP_OK || pos == start);
	if (err != ATP_OK)
		return 0;
	LAW(pos > start && pos <= n);
	LAW(atp_varint_write(value, out) == pos - start && memcmp(out, s + start, pos - start) == 0);
	REACHED("a number read and written");
	return 0;
}
