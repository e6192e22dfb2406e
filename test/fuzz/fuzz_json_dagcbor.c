/*
 * fuzz_json_dagcbor.c
 *		JSON to DAG-CBOR (J-01 to J-07): the output is canonical, in the data model, no longer than its
 *		memory, and gives the same JSON again; a DAG-CBOR value that has JSON comes back unchanged.
 *
 * Input: a byte that chooses the direction, and the value.
 */
#include <stdlib.h>

#include "core/codec/cbor_write.h"
#include "core/codec/dagcbor.h"
#include "core/codec/json_dagcbor.h"
#include "protocol/cbor.h"
#include "protocol/json_write.h"

#define CHECK(cond)	do { if (!(cond)) abort(); } while (0)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static AtpErr
convert(const char *s, size_t n, AtpBytes *cbor)
{
	size_t		room = atp_json_dagcbor_room(n);
	uint8_t    *memory = malloc(room);
	uint8_t    *copy;
	size_t		at;
	AtpErr		err = atp_json_to_dagcbor(s, n, memory, room, cbor, &at);

	CHECK(at <= n);
	/* JSON is always longer, but for texts of 64 kB */
	CHECK(err != ATP_E_JSON_LARGE);
	if (err == ATP_OK)
	{
		copy = malloc(cbor->len);
		memcpy(copy, cbor->ptr, cbor->len);
		cbor->ptr = copy;
	}
	free(memory);
	return err;
}

/* Writes the value as JSON in this way and reads it back: must be unchanged; false: the value has no JSON. */
static bool
comes_back(AtpBytes cbor, bool reversed)
{
	size_t		room = 6 * cbor.len + 64 + cbor.len * 12;
	char	   *json = malloc(room);
	size_t		n;
	AtpBytes	again;
	bool		has = atp_json_write(cbor.ptr, cbor.len, reversed, json, room, &n);

	if (has)
	{
		CHECK(convert(json, n, &again) == ATP_OK);
		CHECK(again.len == cbor.len && memcmp(again.ptr, cbor.ptr, cbor.len) == 0);
		free((void *) again.ptr);
	}
	free(json);
	return has;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AtpBytes	cbor;
	size_t		at;

	if (size == 0)
		return 0;
	if (data[0] % 2 == 1)
	{
		cbor = (AtpBytes) {data + 1, size - 1};
		CHECK(!comes_back(cbor, false) || comes_back(cbor, true));
		return 0;
	}
	if (convert((const char *) data + 1, size - 1, &cbor) == ATP_OK)
	{
		CHECK(atp_cbor_check(cbor.ptr, cbor.len, ATP_CBOR_DEPTH_DEFAULT, &at) == ATP_OK);
		CHECK(comes_back(cbor, false) && comes_back(cbor, true));
		free((void *) cbor.ptr);
	}
	return 0;
}
