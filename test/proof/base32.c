/*
 * base32.c
 *		The packed identifier of did:plc: packing and unpacking are inverse, and packed forms order as their texts.
 *
 * proves: atp_plc_pack atp_plc_unpack atp_is_base32 atp_put_be64 atp_get_be64
 * sources: core/syntax/base32.c
 * short: --unwind 26
 * long: --unwind 26
 */
#include "core/syntax/base32.h"
#include "lib/proof.h"

int
main(void)
{
	char		a[ATP_PLC_CHARS];
	char		b[ATP_PLC_CHARS];
	char		text[ATP_PLC_CHARS];
	uint8_t		packed_a[ATP_PLC_BYTES];
	uint8_t		packed_b[ATP_PLC_BYTES];
	uint8_t		again[ATP_PLC_BYTES];
	uint8_t		bytes[8];
	uint64_t	number = any_u64();
	bool		valid = atp_plc_pack(a, packed_a);

	LAW(valid == atp_is_base32(a, sizeof(a)));
	if (valid)
	{
		atp_plc_unpack(packed_a, text);
		LAW(same_bytes(a, sizeof(a), text, sizeof(text)));
		REACHED("a packed identifier");
	}
	if (valid && atp_plc_pack(b, packed_b))
	{
		int			order = memcmp(packed_a, packed_b, sizeof(packed_a));

		LAW(sign(order) == sign(memcmp(a, b, sizeof(a))));
		REACHED("the order of two identifiers");
	}
	/* any 15 bytes are the packed form of a text */
	for (int i = 0; i < ATP_PLC_BYTES; i++)
		packed_b[i] = any_byte();
	atp_plc_unpack(packed_b, text);
	LAW(atp_plc_pack(text, again) && same_bytes(packed_b, sizeof(packed_b), again, sizeof(again)));

	atp_put_be64(bytes, number);
	LAW(atp_get_be64(bytes) == number);
	return 0;
}
