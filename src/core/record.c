/*
 * record.c
 *		Is a block a record of the atproto data model?  Rules B-20 to B-28.
 *
 * An empty key is no error, though B-24 has it so: the reference server lets
 * such records in and sends them on.
 *
 * The keys "$link" and "$bytes" are no error here: in DAG-CBOR a map that has
 * them is just a map (B-24).  It only cannot be told from a link in JSON, which
 * is the jsonb writer's concern.
 */
#include "cid.h"
#include "dagcbor.h"
#include "record.h"

#define KEY_MAX			8192	/* bytes, B-24 */
#define CONTAINER_MAX	131072	/* members, B-28 */

/* What one open map has shown of itself so far. */
typedef struct Map
{
	size_t		at;
	bool		has_type;
	bool		is_blob;
	bool		ref;			/* the field is there and well-formed */
	bool		mime;
	bool		size;
} Map;

/* B-20, B-21, D21: what DAG-CBOR has and the data model has not */
static AtpErr
check_number(const AtpCborItem *item)
{
	if (item->kind == ATP_CBOR_FLOAT)
		return ATP_E_DATA_FLOAT;
	if ((item->kind == ATP_CBOR_UINT || item->kind == ATP_CBOR_NINT) &&
		item->u > INT64_MAX)
		return ATP_E_DATA_INTEGER;
	return ATP_OK;
}

/* A value stands under a key; only few keys mean anything to the data model. */
static AtpErr
check_field(Map *map, AtpBytes key, const AtpCborItem *value)
{
	const AtpSpan k = {(const char *) key.ptr, key.len};
	bool		is_text = value->kind == ATP_CBOR_TEXT && value->str.len > 0;
	AtpCid		cid;
	size_t		at;

	switch (k.len)
	{
		case 3:
			if (memcmp(k.ptr, "ref", 3) == 0)
				map->ref = value->kind == ATP_CBOR_LINK &&
					atp_cid_check(value->str.ptr, value->str.len, &cid, &at) == ATP_OK &&
					cid.codec == ATP_CID_CODEC_RAW;
			break;
		case 4:
			if (memcmp(k.ptr, "size", 4) == 0)
				map->size = value->kind == ATP_CBOR_UINT;	/* D24: 0 is one */
			break;
		case 5:
			if (memcmp(k.ptr, "$type", 5) == 0)
			{
				if (!is_text)
					return ATP_E_DATA_TYPE;
				map->has_type = true;
				map->is_blob = value->str.len == 4 && memcmp(value->str.ptr, "blob", 4) == 0;
			}
			break;
		case 8:
			if (memcmp(k.ptr, "mimeType", 8) == 0)
				map->mime = is_text;
			break;
	}
	return ATP_OK;
}

/* B-26 */
static AtpErr
check_blob(const Map *map)
{
	if (!map->is_blob)
		return ATP_OK;
	if (!map->ref)
		return ATP_E_BLOB_REF;
	if (!map->mime)
		return ATP_E_BLOB_MIME;
	if (!map->size)
		return ATP_E_BLOB_SIZE;
	return ATP_OK;
}

AtpErr
atp_record_check(const uint8_t *block, size_t n, size_t *at)
{
	AtpCborReader r;
	AtpCborItem item;
	AtpBytes	key = {NULL, 0};
	AtpErr		err;
	Map			maps[ATP_CBOR_DEPTH_DEFAULT + 1];	/* by depth; [0] unused */
	bool		has_type = false;

	*at = 0;
	if (n > ATP_RECORD_MAX)
		return ATP_E_RECORD_SIZE;
	atp_cbor_init(&r, block, n, ATP_CBOR_DEPTH_DEFAULT);
	do
	{
		unsigned	before = r.depth;

		if ((err = atp_cbor_next(&r, &item, at)) != ATP_OK)
			return err == ATP_E_CBOR_END ? ATP_E_CBOR_TRUNCATED : err;
		if (before == 0 && item.kind != ATP_CBOR_MAP)
			return ATP_E_RECORD_MAP;
		if (item.is_key)
		{
			if (item.str.len > KEY_MAX)
				return ATP_E_DATA_KEY_LONG;
			key.ptr = item.str.ptr;
			key.len = item.str.len;
			continue;
		}
		if ((err = check_number(&item)) != ATP_OK)
			return err;
		if (key.ptr != NULL)
		{
			if ((err = check_field(&maps[before], key, &item)) != ATP_OK)
				return err;
			key.ptr = NULL;
		}
		if (item.kind == ATP_CBOR_MAP || item.kind == ATP_CBOR_ARRAY)
		{
			if (item.u > CONTAINER_MAX)
				return ATP_E_DATA_COUNT;
			if (r.depth > before)
			{
				maps[r.depth] = (Map) {.at = item.at};
				continue;
			}
		}
		for (unsigned depth = before; depth > r.depth; depth--)
		{
			if ((err = check_blob(&maps[depth])) != ATP_OK)
			{
				*at = maps[depth].at;
				return err;
			}
			if (depth == 1)		/* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): set on the way in */
				has_type = maps[depth].has_type;
		}
	} while (r.depth > 0);

	if (r.pos != n)
	{
		*at = r.pos;
		return ATP_E_CBOR_TRAILING;
	}
	if (!has_type)
	{
		*at = 0;
		return ATP_E_RECORD_TYPE;
	}
	return ATP_OK;
}
