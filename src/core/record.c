/*
 * record.c
 *		Is a block a record of the atproto data model?  The few fields that the
 *		data model knows.
 */
#include "cid.h"
#include "record.h"

AtpErr
atp_record_known_field(AtpRecordMap *map, AtpBytes key, const AtpCborItem *value)
{
	bool		is_text = value->kind == ATP_CBOR_TEXT && value->str.len > 0;
	AtpCid		cid;
	size_t		at;

	switch (key.ptr[0])
	{
		case 'r':
			map->ref = value->kind == ATP_CBOR_LINK &&
				atp_cid_check(value->str.ptr, value->str.len, &cid, &at) == ATP_OK &&
				cid.codec == ATP_CID_CODEC_RAW;
			break;
		case 's':
			map->size = value->kind == ATP_CBOR_UINT;	/* D24: 0 is one */
			break;
		case '$':
			if (!is_text)
				return ATP_E_DATA_TYPE;
			map->has_type = true;
			map->is_blob = value->str.len == 4 && memcmp(value->str.ptr, "blob", 4) == 0;
			break;
		case 'm':
			map->mime = is_text;
			break;
	}
	return ATP_OK;
}

AtpErr
atp_record_blob_end(const AtpRecordMap *map)
{
	if (!map->ref)
		return ATP_E_BLOB_REF;
	if (!map->mime)
		return ATP_E_BLOB_MIME;
	if (!map->size)
		return ATP_E_BLOB_SIZE;
	return ATP_OK;
}
