/*
 * packed_cid.c
 *		The texts of CIDs with SHA-256, and of did:plc, in the packed form.
 *
 * Records have many CIDs, so that eight characters are converted at a time; atp_cid_parse() takes any CID.
 */
#include "core/codec/cid.h"
#include "core/packed/packed_form.h"

#define DID_PLC		"did:plc:"
#define DID_PLC_LEN	(sizeof(DID_PLC) - 1)
#define GROUPS		8			/* of eight characters, or five bytes */
#define DIGITS		(ATP_CID_CHARS - 1)

/* The alphabet of CIDs begins with the letters, the alphabet of base32.h with the six digits. */
#define SORTABLE(cid_value)		(((cid_value) + 6) & 31)

/* 58 characters have 290 bits: 36 bytes and two zero bits. */
size_t
atp_form_put_cid(AtpSpan text, uint8_t out[ATP_FORM_MAX])
{
	uint8_t		bytes[5 * GROUPS];
	char		padded[8 * GROUPS];
	bool		valid = true;

	if (text.len != ATP_CID_CHARS || text.ptr[0] != 'b')
		return 0;
	memset(padded, 'a', sizeof(padded));
	memcpy(padded, text.ptr + 1, DIGITS);
	for (int group = 0; group < GROUPS; group++)
	{
		uint64_t	bits;

		valid &= atp_base32_eight(padded + 8 * group, ATP_BASE32_RFC4648, &bits);
		atp_put_be40(bytes + 5 * group, bits);
	}
	if (!valid || bytes[ATP_CID_BLESSED_LEN] != 0 || !atp_cid_is_blessed(bytes, ATP_CID_BLESSED_LEN))
		return 0;
	out[0] = bytes[1] == ATP_CID_CODEC_DAG_CBOR ? ATP_CODE_CID : ATP_CODE_CID_RAW;
	memcpy(out + 1, bytes + ATP_CID_BLESSED_LEN - ATP_PACKED_DIGEST, ATP_PACKED_DIGEST);
	return 1 + ATP_PACKED_DIGEST;
}

size_t
atp_form_cid_text(const AtpPackedValue *value, char *out)
{
	uint8_t		bytes[5 * GROUPS] = {1, ATP_CID_CODEC_DAG_CBOR, ATP_CID_SHA2_256, ATP_PACKED_DIGEST};
	char		text[8 * GROUPS];

	if (value->code == ATP_CODE_CID_RAW)
		bytes[1] = ATP_CID_CODEC_RAW;
	memcpy(bytes + ATP_CID_BLESSED_LEN - ATP_PACKED_DIGEST, value->content.ptr, ATP_PACKED_DIGEST);
	for (int group = 0; group < GROUPS; group++)
	{
		uint64_t	bits = 0;

		for (int i = 0; i < 5; i++)
			bits = bits << 8 | bytes[5 * group + i];
		for (int i = 0; i < 8; i++)
			text[8 * group + i] = atp_base32_digit[SORTABLE(bits >> (35 - 5 * i))];
	}
	out[0] = 'b';
	memcpy(out + 1, text, DIGITS);
	return ATP_CID_CHARS;
}

size_t
atp_form_put_plc(AtpSpan text, uint8_t out[ATP_FORM_MAX])
{
	if (text.len != DID_PLC_LEN + ATP_PLC_CHARS || !atp_span_begins(text, DID_PLC) ||
		!atp_plc_pack(text.ptr + DID_PLC_LEN, out + 1))
		return 0;
	out[0] = ATP_CODE_PLC;
	return 1 + ATP_PLC_BYTES;
}

size_t
atp_form_plc_text(const AtpPackedValue *value, char *out)
{
	memcpy(out, DID_PLC, DID_PLC_LEN);
	atp_plc_unpack(value->content.ptr, out + DID_PLC_LEN);
	return DID_PLC_LEN + ATP_PLC_CHARS;
}
