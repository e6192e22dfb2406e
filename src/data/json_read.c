/*
 * json_read.c
 *		Converts the text of JSON to canonical DAG-CBOR: see json_read.h.
 */
#include "postgres.h"

#include "core/codec/json_dagcbor.h"
#include "data/error.h"
#include "data/json_read.h"

AtpErr
atp_dagcbor_of_json(AtpSpan json, uint8_t **room, AtpBytes *cbor, size_t *at)
{
	size_t		size = atp_json_dagcbor_room(json.len);

	*room = MemoryContextAllocHuge(CurrentMemoryContext, size);
	return atp_json_to_dagcbor_ticking(json.ptr, json.len, *room, size, atp_data_tick, cbor, at);
}
