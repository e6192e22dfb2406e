/*
 * fuzz_invert.c
 *		Undoes true and invented operations on a part of a tree's nodes: a verdict of proven or mismatch
 *		must be the verdict of the whole trees.
 *
 * Input: a byte for each key: its value before (two bits), its value after, whether an operation names the
 * key, and the previous value that the operation claims.  The first byte chooses the keys, and which nodes
 * are absent.
 */
#include "agree.h"
#include "core/repo/invert.h"
#include "core/repo/mst.h"
#include "protocol/mst_build.h"
#include "syntax_fuzz.h"

#define KEYS_MAX	64
#define NODES_MAX	(4 * KEYS_MAX)
#define ROOM		(64 * 1024)

static uint8_t nodes[ROOM];
static size_t nodes_len;
static AtpCarBlock blocks[NODES_MAX];
static size_t nblocks;

static void
keep_block(void *ctx, const uint8_t *cid, const uint8_t *block, size_t n)
{
	uint8_t    *p = nodes + nodes_len;

	CHECK(nblocks < NODES_MAX && nodes_len + n + ATP_CID_BLESSED_LEN <= ROOM);
	memcpy(p, cid, ATP_CID_BLESSED_LEN);
	memcpy(p + ATP_CID_BLESSED_LEN, block, n);
	blocks[nblocks++] = (AtpCarBlock) {{p, ATP_CID_BLESSED_LEN}, {p + ATP_CID_BLESSED_LEN, n}, 0};
	nodes_len += n + ATP_CID_BLESSED_LEN;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t scratch[ROOM];
	static AtpMstWalk walk;
	static AtpInversion inversion;
	char		keys[KEYS_MAX][16];
	uint8_t		values[4][ATP_CID_BLESSED_LEN];
	AtpMstItem	items[KEYS_MAX];
	AtpMstLookup list[KEYS_MAX];
	uint8_t		before[ATP_CID_BLESSED_LEN];
	uint8_t		after[ATP_CID_BLESSED_LEN];
	AtpCarBlock present[NODES_MAX];
	uint32_t	slots[2 * NODES_MAX] = {0};
	AtpCarIndex index = {.blocks = present, .cap = NODES_MAX, .slots = slots, .nslots = 2 * NODES_MAX};
	size_t		nkeys = size > KEYS_MAX ? KEYS_MAX : size > 0 ? size - 1 : 0;
	size_t		nops = 0;
	size_t		room;
	size_t		at;
	uint8_t    *buf;
	bool		truth = true;
	uint64_t	absent = size > 0 ? (data[0] >> 2) * UINT64_C(0x9e3779b97f4a7c15) : 0;

	for (unsigned i = 1; i < 4; i++)
		atp_cid_of(ATP_CID_CODEC_DAG_CBOR, (const uint8_t *) &i, sizeof(i), sha256, NULL, values[i]);
	for (int time = 0; time < 2; time++)
	{
		size_t		n = 0;

		nblocks = nodes_len = 0;
		for (size_t i = 0; i < nkeys; i++)
		{
			unsigned	state = data[i + 1] >> 2 * time & 3;

			sprintf(keys[i], "c.d/%02zu%02x", i, data[0] & 3);
			if (state != 0)
				items[n++] = (AtpMstItem) {
					.key = {(uint8_t *) keys[i], strlen(keys[i])}, .value = {values[state], ATP_CID_BLESSED_LEN}
				};
		}
		CHECK(atp_mst_build(items, n, sha256, NULL, scratch, sizeof(scratch), keep_block, NULL,
							time == 0 ? before : after) == ATP_OK);
	}
	for (size_t i = 0; i < nkeys; i++)
	{
		unsigned	was = data[i + 1] & 3;
		unsigned	is = data[i + 1] >> 2 & 3;
		unsigned	said = data[i + 1] >> 5 & 3;

		truth = truth && was == ((data[i + 1] & 16) ? said : is);
		if (data[i + 1] & 16)
			list[nops++] = (AtpMstLookup) {
				.key = {(uint8_t *) keys[i], strlen(keys[i])},
				.before = {said != 0 ? values[said] : NULL, said != 0 ? ATP_CID_BLESSED_LEN : 0}
			};
	}
	for (size_t i = 0; i < nblocks; i++)
	{
		if (data[0] < 64 || (absent >> i % 64 & 1) == 0)
			CHECK(atp_car_index_add(&index, &blocks[i]));
	}

	room = atp_invert_room(nodes_len, nops);
	buf = malloc(room);
	atp_invert_begin(&inversion, buf, room, sha256, NULL);
	CHECK(atp_mst_lookup(&walk, &(AtpMstTree) {&index, nodes, {after, sizeof(after)}, sha256, NULL},
						 list, nops, &inversion.builder, &at) == ATP_OK);
	CHECK(atp_invert_end(&inversion, (AtpBytes) {before, sizeof(before)}, true) == ATP_OK);
	free(buf);
	CHECK(inversion.verdict != ATP_PROVEN || truth);
	CHECK(inversion.verdict != ATP_MISMATCH || !truth);
	CHECK(inversion.verdict != ATP_INCOMPLETE || index.n < nblocks);
	return 0;
}
