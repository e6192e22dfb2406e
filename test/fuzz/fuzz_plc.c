/*
 * fuzz_plc.c
 *		Logs of the did:plc directory (M-01 to M-09): an operation that is read is canonical DAG-CBOR; the present
 *		chain leads from the genesis to the operation that was added last, over no nullified one.
 *
 * Input: a byte, by which signatures are verified or not, and JSON: an array of entries.
 */
#include <stdlib.h>

#include "core/codec/dagcbor.h"
#include "core/plc/plc_entry.h"
#include "core/plc/plc_log.h"
#include "protocol/cbor.h"
#include "unit/sha.h"

#define CHECK(cond)	do { if (!(cond)) abort(); } while (0)
#define MOST		64

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static AtpErr
read_key(void *ctx, const uint8_t key[ATP_MULTIKEY_LEN])
{
	return *(const uint8_t *) ctx == 0xff ? ATP_E_KEY_POINT : ATP_OK;
}

/* The byte says which of the last bits of a key verify: so keys of each rank sign, without any cryptography. */
static AtpErr
verify(void *ctx, const uint8_t key[ATP_MULTIKEY_LEN], const uint8_t digest[32], const uint8_t sig[ATP_SIG_LEN])
{
	uint8_t		mask = *(const uint8_t *) ctx;

	if (mask == 0xff)
		return ATP_E_KEY_POINT;
	return ((key[34] ^ sig[63]) & mask) == 0 ? ATP_OK : ATP_E_SIG_WRONG;
}

static void
check_log(const AtpPlcLog *log)
{
	uint32_t	in_chain = 0;

	for (uint32_t i = 0; i < log->n; i++)
	{
		const AtpPlcPlace *place = &log->places[i];

		CHECK(atp_plc_log_find(log, place->cid) == i);
		CHECK((place->prev == ATP_PLC_NONE) == (i == 0) && (i == 0 || place->prev < i));
		CHECK(place->nullified_by == ATP_PLC_NONE || (place->nullified_by > i && place->nullified_by < log->n && place->next == ATP_PLC_NONE));
		CHECK(i == 0 || place->created_at > log->places[i - 1].created_at);
		CHECK(i == 0 || log->places[place->prev].kind != ATP_PLC_TOMBSTONE);
		in_chain += place->nullified_by == ATP_PLC_NONE;
	}
	if (log->n == 0)
		return;
	for (uint32_t i = 0;; i = log->places[i].next)
	{
		CHECK(log->places[i].nullified_by == ATP_PLC_NONE && in_chain-- > 0);
		if (log->places[i].next == ATP_PLC_NONE)
		{
			CHECK(i == log->n - 1 && in_chain == 0);
			return;
		}
		CHECK(log->places[log->places[i].next].prev == i);
	}
}

static void
take_entry(AtpPlcLog *log, AtpSpan json, uint8_t *mask, AtpPlcKey (*keys)[ATP_PLC_KEYS_MAX])
{
	static AtpPlcEntry entry;
	static AtpPlcOp op;
	static char did[ATP_DID_PLC_TEXT];
	const AtpVerifier verifier = {.verify = verify, .read = read_key, .ctx = mask};
	AtpPlcVerdict verdict;
	uint8_t    *room;
	size_t		size;
	size_t		at;
	AtpErr		err = atp_plc_entry_read(json, &entry, &at);

	CHECK(at <= json.len);
	if (err != ATP_OK)
		return;
	size = atp_plc_op_room(entry.operation.len);
	room = malloc(size);
	err = atp_plc_op_read(entry.operation, room, size, sha256, NULL, &op, &at);
	CHECK(at <= entry.operation.len && (err == ATP_OK || atp_plc_reason(err) != NULL));
	if (err == ATP_OK)
	{
		CHECK(op.cbor.len <= ATP_PLC_OP_MAX && atp_cbor_check(op.cbor.ptr, op.cbor.len, ATP_CBOR_DEPTH_DEFAULT, &at) == ATP_OK);
		CHECK(op.nkeys <= ATP_PLC_KEYS_MAX && (op.has_prev || op.kind != ATP_PLC_TOMBSTONE));
		CHECK(!op.has_prev || op.kind != ATP_PLC_CREATE);
		if (log->did.ptr == NULL)
		{
			/* a fuzzer finds no hash: the log is of the account that its first operation makes */
			atp_plc_op_did(&op, did);
			log->did = (AtpSpan) {did, sizeof(did)};
		}
		err = atp_plc_judge(log, &op, log->did, entry.created_at, &verifier, &verdict);
		CHECK(err == ATP_OK || atp_plc_reason(err) != NULL);
		if (err == ATP_OK)
		{
			memcpy(keys[log->n], op.keys, sizeof(op.keys));
			atp_plc_log_add(log, &op, entry.created_at, (const AtpPlcKey *) keys[log->n], &verdict);
		}
	}
	free(room);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static AtpPlcKey keys[MOST][ATP_PLC_KEYS_MAX];
	AtpPlcLog	log;
	AtpJsonReader r;
	AtpJsonItem item;
	size_t		at;
	uint8_t		mask;
	void	   *memory;

	if (size == 0)
		return 0;
	mask = data[0];
	memory = malloc(atp_plc_log_room(MOST));
	atp_plc_log_init(&log, (AtpSpan) {NULL, 0}, MOST, memory);
	atp_json_init(&r, (const char *) data + 1, size - 1, ATP_JSON_DEPTH_DEFAULT);
	if (atp_json_next(&r, &item, &at) == ATP_OK && item.kind == ATP_JSON_ARRAY)
		while (atp_json_next(&r, &item, &at) == ATP_OK && item.kind == ATP_JSON_OBJECT && atp_json_measure(&r, &item, &at) == ATP_OK)
			take_entry(&log, item.raw, &mask, keys);
	check_log(&log);
	free(memory);
	return 0;
}
