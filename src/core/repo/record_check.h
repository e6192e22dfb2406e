/*
 * record_check.h
 *		Checks that a block is a record of the atproto data model, rules B-20 to B-28: on top of DAG-CBOR, no
 *		float, integers in the signed 64-bit range, a top-level map with a non-empty $type, well-formed blobs,
 *		limits.
 *
 * A reader of a record passes each item to atp_record_see(), so that the record is read once for all
 * purposes.  All functions are inlined into the reader's loop (dagcbor_next.h).
 *
 * Two deviations from B-24 are accepted.  An empty key: the reference server accepts and forwards such
 * records.  The keys "$link" and "$bytes": in DAG-CBOR a map with them is an ordinary map.  In JSON it cannot
 * be told from a link or bytes, which is the concern of the jsonb writer.
 */
#ifndef ATP_RECORD_CHECK_H
#define ATP_RECORD_CHECK_H

#include "core/codec/cid.h"
#include "core/codec/dagcbor.h"

#define ATP_RECORD_MAX			1000000 /* bytes, B-28, D22 */
#define ATP_RECORD_KEY_MAX		8192	/* bytes, B-24 */
#define ATP_RECORD_MEMBERS_MAX	131072	/* of a map or list, B-28 */

/* The state of an open map. */
typedef struct AtpRecordMap
{
	size_t		at;
	bool		has_type;
	bool		is_blob;
	bool		ref;			/* "ref" is present and well-formed; mime and size are of the same kind */
	bool		mime;
	bool		size;
} AtpRecordMap;

typedef struct AtpRecordView
{
	AtpBytes	key;			/* key whose value is next; ptr NULL: no value is */
	bool		has_type;		/* the record itself has a $type */
	AtpRecordMap maps[ATP_CBOR_DEPTH_DEFAULT + 1];	/* by depth; [0] unused */
} AtpRecordView;

/* Begins a record of n bytes. */
static inline AtpErr
atp_record_view(AtpRecordView *view, size_t n)
{
	view->key.ptr = NULL;
	view->has_type = false;
	return n <= ATP_RECORD_MAX ? ATP_OK : ATP_E_RECORD_SIZE;
}

/*
 * Looks at the value of a key: only few keys have a meaning in the data model.
 * B-22: "$type" is a text that is not empty.  B-23: another key may have null.
 */
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
				map->size = value->kind == ATP_CBOR_UINT;	/* D24: 0 is allowed */
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

/*
 * Checks the item just read by a reader that was at depth "before" and now is at "depth".  *at is the offset
 * of a fault.
 */
static inline AtpErr
atp_record_see(AtpRecordView *view, const AtpCborItem *item, unsigned before, unsigned depth, size_t *at)
{
	AtpErr		err;

	if (item->is_key)
	{
		view->key = item->str;
		return item->str.len <= ATP_RECORD_KEY_MAX ? ATP_OK : ATP_E_DATA_KEY_LONG;
	}
	if (before == 0 && item->kind != ATP_CBOR_MAP)	/* B-22 */
		return ATP_E_RECORD_MAP;

	/* B-20, B-21, D21: kinds of values that DAG-CBOR has and the data model does not have. */
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

/* Call after the last item.  B-22: the record itself has a "$type". */
static inline AtpErr
atp_record_seen(const AtpRecordView *view, size_t *at)
{
	if (view->has_type)
		return ATP_OK;
	*at = 0;
	return ATP_E_RECORD_TYPE;
}

#endif							/* ATP_RECORD_CHECK_H */
