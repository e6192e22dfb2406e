/*
 * record.h
 *		Is a block a record of the atproto data model?  Rules B-20 to B-28: on
 *		top of DAG-CBOR, no float, integers in the signed 64-bit range, a
 *		top-level map with a non-empty $type, well-formed blobs, limits.
 *
 * Who reads a record shows each item to atp_record_see(), so that it is read once
 * whatever else is made of it.
 *
 * An empty key is no error, though B-24 has it so: the reference server lets
 * such records in and sends them on.
 *
 * The keys "$link" and "$bytes" are no error here: in DAG-CBOR a map that has
 * them is just a map (B-24).  It only cannot be told from a link in JSON, which
 * is the jsonb writer's concern.
 */
#ifndef ATP_RECORD_H
#define ATP_RECORD_H

#include "dagcbor.h"

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

/* Only few keys mean anything to the data model. */
static inline bool
atp_record_knows(AtpBytes key)
{
	switch (key.len)
	{
		case 3:
			return memcmp(key.ptr, "ref", 3) == 0;
		case 4:
			return memcmp(key.ptr, "size", 4) == 0;
		case 5:
			return memcmp(key.ptr, "$type", 5) == 0;
		case 8:
			return memcmp(key.ptr, "mimeType", 8) == 0;
		default:
			return false;
	}
}

/* The value of one of these. */
extern AtpErr atp_record_known_field(AtpRecordMap *map, AtpBytes key, const AtpCborItem *value);

/* B-26, at the end of a map that is a blob. */
extern AtpErr atp_record_blob_end(const AtpRecordMap *map);

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
		if (atp_record_knows(view->key) &&
			(err = atp_record_known_field(&view->maps[before], view->key, item)) != ATP_OK)
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

		if (map->is_blob && (err = atp_record_blob_end(map)) != ATP_OK)
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

#endif							/* ATP_RECORD_H */
