/*
 * record_check.h
 *		Is a block a record of the atproto data model?  Rules B-20 to B-28: on
 *		top of DAG-CBOR, no float, integers in the signed 64-bit range, a
 *		top-level map with a non-empty $type, well-formed blobs, limits.
 *
 * Who reads a record shows each item to atp_record_see(), so that it is read once
 * whatever else is made of it; all is put into that loop (dagcbor_next.h).
 *
 * An empty key is no error, though B-24 has it so: the reference server lets
 * such records in and sends them on.
 *
 * The keys "$link" and "$bytes" are no error here: in DAG-CBOR a map that has
 * them is just a map (B-24).  It only cannot be told from a link in JSON, which
 * is the jsonb writer's concern.
 */
#ifndef ATP_RECORD_CHECK_H
#define ATP_RECORD_CHECK_H

#include "core/codec/cid.h"
#include "core/codec/dagcbor.h"

#define ATP_RECORD_MAX			1000000 /* bytes, B-28, D22 */
#define ATP_RECORD_KEY_MAX		8192	/* bytes, B-24 */
#define ATP_RECORD_MEMBERS_MAX	131072	/* of a map or list, B-28 */

/* What one open map has shown of itself so far. */
typedef struct AtpRecordMap
{
	size_t		at;
	bool		has_type;
	bool		is_blob;
	bool		ref;			/* the field is there and well-formed */
	bool		mime;
	bool		size;
} AtpRecordMap;

typedef struct AtpRecordView
{
	AtpBytes	key;			/* whose value is next; ptr is NULL: none is */
	bool		has_type;		/* the record itself */
	AtpRecordMap maps[ATP_CBOR_DEPTH_DEFAULT + 1];	/* by depth; [0] unused */
} AtpRecordView;

/* Before the first item of n bytes. */
static inline AtpErr
atp_record_view(AtpRecordView *view, size_t n)
{
	view->key.ptr = NULL;
	view->has_type = false;
	return n <= ATP_RECORD_MAX ? ATP_OK : ATP_E_RECORD_SIZE;
}

/* A value stands under a key; only few keys mean anything to the data model. */
static inline AtpErr
atp_record_value_of(AtpRecordMap *map, AtpBytes key, const AtpCborItem *value)
{
	bool		is_text = value->kind == ATP_CBOR_TEXT && value->str.len > 0;

	switch (key.len)
	{
		case 3:
			if (memcmp(key.ptr, "ref", 3) == 0)
				map->ref = value->kind == ATP_CBOR_LINK && atp_cid_is_raw(value->str);
			break;
		case 4:
			if (memcmp(key.ptr, "size", 4) == 0)
				map->size = value->kind == ATP_CBOR_UINT;	/* D24: 0 is one */
			break;
		case 5:
			if (memcmp(key.ptr, "$type", 5) == 0)
			{
				if (!is_text)
					return ATP_E_DATA_TYPE;
				map->has_type = true;
				map->is_blob = value->str.len == 4 && memcmp(value->str.ptr, "blob", 4) == 0;
			}
			break;
		case 8:
			if (memcmp(key.ptr, "mimeType", 8) == 0)
				map->mime = is_text;
			break;
	}
	return ATP_OK;
}

/* B-26 */
static inline AtpErr
atp_record_blob(const AtpRecordMap *map)
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

/* The item that a reader, which was at depth "before", has just read.  *at is where its fault is. */
static inline AtpErr
atp_record_see(AtpRecordView *view, const AtpCborItem *item, unsigned before, unsigned depth, size_t *at)
{
	AtpErr		err;

	if (item->is_key)
	{
		view->key = item->str;
		return item->str.len <= ATP_RECORD_KEY_MAX ? ATP_OK : ATP_E_DATA_KEY_LONG;
	}
	if (before == 0 && item->kind != ATP_CBOR_MAP)
		return ATP_E_RECORD_MAP;

	/* B-20, B-21, D21: what DAG-CBOR has and the data model has not */
	if (item->kind == ATP_CBOR_FLOAT)
		return ATP_E_DATA_FLOAT;
	if ((item->kind == ATP_CBOR_UINT || item->kind == ATP_CBOR_NINT) && item->u > INT64_MAX)
		return ATP_E_DATA_INTEGER;
	if (view->key.ptr != NULL)
	{
		if ((err = atp_record_value_of(&view->maps[before], view->key, item)) != ATP_OK)
			return err;
		view->key.ptr = NULL;
	}
	if (item->kind == ATP_CBOR_MAP || item->kind == ATP_CBOR_ARRAY)
	{
		if (item->u > ATP_RECORD_MEMBERS_MAX)
			return ATP_E_DATA_COUNT;
		if (depth > before)
		{
			view->maps[depth] = (AtpRecordMap) {.at = item->at};
			return ATP_OK;
		}
	}
	for (; before > depth; before--)
	{
		const AtpRecordMap *map = &view->maps[before];

		if ((err = atp_record_blob(map)) != ATP_OK)
		{
			*at = map->at;
			return err;
		}
		view->has_type = map->has_type;
	}
	return ATP_OK;
}

/* After the last item. */
static inline AtpErr
atp_record_seen(const AtpRecordView *view, size_t *at)
{
	if (view->has_type)
		return ATP_OK;
	*at = 0;
	return ATP_E_RECORD_TYPE;
}

#endif							/* ATP_RECORD_CHECK_H */
