/*
 * test_get_blocks.c
 *		Requests for blocks: P-03 and P-10.
 */
#include <stdlib.h>

#include "core/repo/car_push.h"
#include "core/repo/get_blocks.h"
#include "repo.h"
#include "unit.h"

static AtpGetBlocks request;
static uint8_t file[REPO_ROOM];
static size_t taken;

static void
block_number(unsigned i, uint8_t cid[ATP_CID_BLESSED_LEN])
{
	block_cid((uint8_t *) &i, sizeof(i), cid);
}

static AtpErr
ask_for(unsigned i)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];

	block_number(i, cid);
	return atp_get_blocks_add(&request, cid_span(cid));
}

static unsigned
fill_request(size_t url_len)
{
	unsigned	n = 0;

	atp_get_blocks_begin(&request, url_len, ATP_GET_BLOCKS_NODE_MAX);
	while (ask_for(n) == ATP_OK)
		n++;
	return n;
}

static void
limits(void)
{
	char		query[ATP_GET_BLOCKS_QUERY_MAX];
	char		text[ATP_CID_TEXT_MAX];
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	size_t		n;

	ok(fill_request(100) == ATP_GET_BLOCKS_MAX && ask_for(100) == ATP_E_FETCH_FULL && request.n == ATP_GET_BLOCKS_MAX,
	   "P-03: a request asks for 100 blocks");
	ok(ask_for(7) == ATP_OK && request.n == ATP_GET_BLOCKS_MAX && request.missing == ATP_GET_BLOCKS_MAX,
	   "a block that the request asks for already takes no room");
	n = atp_get_blocks_query(&request, query);
	block_number(99, cid);
	atp_cid_format(cid, sizeof(cid), text);
	ok(n == sizeof(query) && memcmp(query, "&cids=bafyrei", 13) == 0 &&
	   memcmp(query + n - 65, "&cids=", 6) == 0 && memcmp(query + n - 59, text, 59) == 0, "the query: %.40s...", query);
	n = fill_request(2100);
	ok(n == 90 && 2100 + atp_get_blocks_query(&request, query) <= ATP_GET_BLOCKS_URL_MAX, "P-03: a URL has at most 8,000 bytes: %zu blocks", n);
	ok(fill_request(7999) == 0 && fill_request(9000) == 0, "no block fits behind a longer URL");

	block_number(1, cid);
	cid[1] = ATP_CID_CODEC_RAW;
	ok(fill_request(0) == 100 && atp_get_blocks_add(&request, cid_span(cid)) == ATP_E_FETCH_CODEC, "P-10: raw bytes are not asked for");
	ok(atp_get_blocks_add(&request, (AtpBytes) {cid, 4}) == ATP_E_FETCH_CODEC, "P-10: nor another hash");
}

static uint8_t *
give_room(void *ctx, size_t n)
{
	static uint8_t room[ATP_CAR_PUSH_ROOM];

	return room;
}

static AtpErr
take_block(void *ctx, const AtpCarBlock *block)
{
	bool		one;
	AtpErr		err = atp_get_blocks_take(&request, block, &one);

	taken += one;
	return err;
}

/* An answer with blocks 0, 1, ... n - 1, and then a block under this codec. */
static AtpErr
answer(unsigned n, uint64_t codec, unsigned last, bool spoil)
{
	const AtpCarTaker taker = {give_room, take_block, NULL, sha256, NULL};
	AtpCborWriter w = {.buf = file, .cap = sizeof(file)};
	AtpCarPush	push;
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	size_t		at;
	AtpErr		err;

	block_number(0, cid);
	atp_car_put_header(&w, cid_span(cid));
	for (unsigned i = 0; i < n; i++)
	{
		block_number(i, cid);
		atp_car_put_block(&w, cid_span(cid), (uint8_t *) &i, sizeof(i));
	}
	atp_cid_of(codec, (uint8_t *) &last, sizeof(last), sha256, NULL, cid);
	cid[20] ^= spoil;
	atp_car_put_block(&w, cid_span(cid), (uint8_t *) &last, sizeof(last));
	taken = 0;
	atp_car_push_begin(&push, &taker);
	err = atp_car_push(&push, file, w.len, &at);
	return err == ATP_OK ? atp_car_push_end(&push, &at) : err;
}

static void
ask_three(size_t block_max)
{
	atp_get_blocks_begin(&request, 100, block_max);
	for (unsigned i = 0; i < 3; i++)
		(void) ask_for(i);
}

static void
answers(void)
{
	ask_three(ATP_GET_BLOCKS_NODE_MAX);
	ok(answer(2, ATP_CID_CODEC_DAG_CBOR, 9, false) == ATP_OK && taken == 2 && request.missing == 1,
	   "P-10: a block that was not asked for is not taken, and an absent block is counted");
	ok(answer(2, ATP_CID_CODEC_DAG_CBOR, 2, false) == ATP_OK && taken == 1 && request.missing == 0,
	   "P-10: no block is taken twice");
	ask_three(ATP_GET_BLOCKS_NODE_MAX);
	ok(answer(2, ATP_CID_CODEC_RAW, 2, false) == ATP_OK && taken == 2 && request.missing == 1, "P-10: the same bytes as another codec");
	ask_three(ATP_GET_BLOCKS_NODE_MAX);
	ok(answer(1, ATP_CID_CODEC_DAG_CBOR, 1, true) == ATP_E_CAR_HASH && taken == 1, "P-10: a wrong hash ends the answer, also of a block that was not asked for");
	ask_three(sizeof(unsigned) - 1);
	ok(answer(1, ATP_CID_CODEC_DAG_CBOR, 1, false) == ATP_E_FETCH_SIZE && taken == 0 && request.missing == 3, "P-14: a block that is too large");
	ask_three(sizeof(unsigned));
	ok(answer(3, ATP_CID_CODEC_DAG_CBOR, 9, false) == ATP_OK && taken == 3, "a block as large as it may be");
}

int
main(void)
{
	limits();
	answers();
	return done_testing();
}
