/*
 * base32.c
 *		Sortable base32, and did:plc identifiers in 15 bytes: see base32.h.
 */
#include "core/syntax/base32.h"

#define VALUE(c) \
	((c) >= '2' && (c) <= '7' ? (c) - '2' : (c) >= 'a' && (c) <= 'z' ? (c) - 'a' + 6 : 0xff)
#define VALUE4(c)	VALUE(c), VALUE((c) + 1), VALUE((c) + 2), VALUE((c) + 3)
#define VALUE16(c)	VALUE4(c), VALUE4((c) + 4), VALUE4((c) + 8), VALUE4((c) + 12)

const uint8_t atp_base32_value[256] = {
	VALUE16(0x00), VALUE16(0x10), VALUE16(0x20), VALUE16(0x30),
	VALUE16(0x40), VALUE16(0x50), VALUE16(0x60), VALUE16(0x70),
	VALUE16(0x80), VALUE16(0x90), VALUE16(0xa0), VALUE16(0xb0),
	VALUE16(0xc0), VALUE16(0xd0), VALUE16(0xe0), VALUE16(0xf0)
};

const char	atp_base32_digit[33] = "234567abcdefghijklmnopqrstuvwxyz";

bool
atp_plc_pack(const char *restrict s, uint8_t out[restrict ATP_PLC_BYTES])
{
	bool		valid = true;

	/* 8 characters of 5 bits make 5 bytes. */
	for (int group = 0; group < ATP_PLC_CHARS / 8; group++)
	{
		uint64_t	bits;

		valid &= atp_base32_eight(s + 8 * group, ATP_BASE32_SORTABLE, &bits);
		atp_put_be40(out + 5 * group, bits);
	}
	return valid;
}

void
atp_plc_unpack(const uint8_t in[restrict ATP_PLC_BYTES], char *restrict out)
{
	for (int group = 0; group < ATP_PLC_CHARS / 8; group++)
	{
		uint64_t	bits = 0;

		for (int i = 0; i < 5; i++)
			bits = bits << 8 | *in++;
		for (int i = 0; i < 8; i++)
			*out++ = atp_base32_digit[bits >> (35 - 5 * i) & 31];
	}
}
