/*
 * texts.c
 *		How long does a message of Jetstream take, from text to a record with its CID?
 *
 * Reads a capture of version 1 ([u32 big-endian length][text] repeated), keeps the likes that are
 * created, and goes over them many times, one stage further each time: the head, which is all that an event of
 * another slice takes; the record as DAG-CBOR; its CID.  A median of five runs each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/wire/jetstream_message.h"
#include "core/codec/json_dagcbor.h"
#include "core/wire/json_frame.h"
#include "common/sha256.h"

#define RUNS		5
#define TEXTS_MAX	10000
#define ROUNDS		200000
#define STAGES		3

static AtpBytes texts[TEXTS_MAX];
static size_t ntexts;

/* The first stages of the work on one text: parse, make DAG-CBOR, hash.  False: the text is no like, or differs from its CID. */
static bool
take(AtpBytes text, int stages)
{
	static AtpReposMessage msg;
	static AtpJetstream more;
	static uint8_t room[1 << 16];
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	AtpFrame	frame;
	AtpBytes	cbor;
	size_t		at;

	if (atp_json_frame_bare((const char *) text.ptr, text.len, &frame, &at) != ATP_OK ||
		atp_jetstream_parse_v1(frame.payload, &msg, &more, &at) != ATP_OK || msg.kind != ATP_REPOS_COMMIT ||
		msg.ops[0].action != ATP_CREATE || !atp_span_is(msg.ops[0].collection, "app.bsky.feed.like"))
		return false;
	if (stages > 1 && atp_json_to_dagcbor(more.body.ptr, more.body.len, room, sizeof(room), &cbor, &at) != ATP_OK)
		return false;
	if (stages > 2)
		atp_cid_of(ATP_CID_CODEC_DAG_CBOR, cbor.ptr, cbor.len, atp_sha256, NULL, cid);
	return stages < 3 || (msg.ops[0].cid.len == sizeof(cid) && memcmp(msg.ops[0].cid.ptr, cid, sizeof(cid)) == 0);
}

static void
read_texts(FILE *f)
{
	uint8_t		head[4];

	while (ntexts < TEXTS_MAX && fread(head, 1, sizeof(head), f) == sizeof(head))
	{
		size_t		n = (size_t) head[0] << 24 | (size_t) head[1] << 16 | (size_t) head[2] << 8 | head[3];
		uint8_t    *text = malloc(n);

		if (text == NULL || fread(text, 1, n, f) != n)
			exit(1);
		texts[ntexts] = (AtpBytes) {text, n};
		if (take(texts[ntexts], STAGES))
			ntexts++;
		else
			free(text);
	}
}

static int
compare(const void *a, const void *b)
{
	double		d = *(const double *) a - *(const double *) b;

	return (d > 0) - (d < 0);
}

/* Microseconds of CPU time for one text, up to a stage. */
static double
measure(int stages)
{
	double		times[RUNS];

	for (int run = 0; run < RUNS; run++)
	{
		clock_t		start = clock();

		for (size_t i = 0; i < ROUNDS; i++)
			if (!take(texts[i % ntexts], stages))
				exit(1);
		times[run] = (double) (clock() - start) * 1e6 / CLOCKS_PER_SEC / ROUNDS;
	}
	qsort(times, RUNS, sizeof(double), compare);
	return times[RUNS / 2];
}

int
main(int argc, char **argv)
{
	FILE	   *f = argc == 2 ? fopen(argv[1], "rb") : NULL;
	double		us[STAGES + 1] = {0};
	size_t		bytes = 0;

	if (f == NULL)
		return 1;
	read_texts(f);
	if (ntexts == 0)
		return 1;
	for (size_t i = 0; i < ntexts; i++)
		bytes += texts[i].len;
	for (int stages = 1; stages <= STAGES; stages++)
		us[stages] = measure(stages);
	printf("%zu likes as texts of Jetstream, mean %zu bytes: head %.2f us, record to DAG-CBOR %.2f us, its CID %.2f us\n",
		   ntexts, bytes / ntexts, us[1], us[2] - us[1], us[3] - us[2]);
	return 0;
}
