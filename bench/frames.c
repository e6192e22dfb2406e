/*
 * frames.c
 *		How many frames a second does one core take from bytes to checked records?
 *
 * Reads a capture ([u32 big-endian length][message] repeated), keeps the
 * #commit frames between two sizes, and goes over them many times, one stage
 * further each time: the frame and the message's fields, the blocks
 * indexed with their hashes checked and the operations found in the tree, the
 * records checked, the records checked and made jsonb in one go; once the hashes alone, and once the
 * operations undone (V-18), and then the signature verified, when a file says the keys
 * (the simulator's --directory).  What a stage takes is the difference between two medians of five runs.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cpu_time.h"
#include "core/wire/commit_check.h"
#include "core/wire/frame.h"
#include "core/wire/repos_message.h"
#include "data/jsonb_image.h"
#include "protocol/record.h"
#include "common/sha256.h"
#include "common/signature.h"

#define RUNS		5
#define BLOCKS_CAP	4096
#define TOKENS_CAP	65536

typedef struct Frame
{
	uint8_t    *data;
	size_t		len;
	uint8_t		key[ATP_MULTIKEY_LEN];	/* of its account */
} Frame;

typedef enum Stage
{
	HASH_ONLY,
	MESSAGE,
	BLOCKS,
	RECORDS,
	JSONB,
	INVERSION,					/* BLOCKS, and the tree before the commit */
	SIGNATURE,					/* and the account's signature */
	NSTAGES
} Stage;

static Frame *frames;
static size_t nframes;
static AtpReposMessage msg;
static AtpCarBlock blocks[BLOCKS_CAP];
static uint32_t slots[2 * BLOCKS_CAP];
static AtpJsonbToken tokens[TOKENS_CAP];
static uint32_t image[1 << 20];
static size_t nblocks;
static size_t nrecords;
static size_t nproven;
static AtpInversion inversion;
static uint8_t *nodes;			/* of the tree before */

static void
die(const char *what)
{
	fprintf(stderr, "frames: %s\n", what);
	exit(1);
}

/* The frame, and its message's fields. */
static void
read_message(const Frame *f)
{
	AtpFrame	frame;
	size_t		at;

	if (!atp_repos_read_commit(f->data, f->len, &frame, &msg) &&
		(atp_frame_parse(f->data, f->len, &frame, &at) != ATP_OK || atp_repos_parse(&frame, &msg, &at) != ATP_OK))
		die("invalid frame");
}

static void
run_hashes(const Frame *f)
{
	AtpCar		car;
	AtpCarBlock block;
	size_t		at;

	read_message(f);
	if (atp_car_open(&car, msg.blocks.ptr, msg.blocks.len, &at) != ATP_OK)
		die("invalid frame");
	while (atp_car_next(&car, &block, &at) == ATP_OK)
	{
		uint8_t		out[32];

		atp_sha256(NULL, block.data.ptr, block.data.len, out);
		nblocks++;
	}
}

/* The commit is signed by the key. */
static void
verify(const AtpCarIndex *index, const uint8_t key[ATP_MULTIKEY_LEN])
{
	const AtpCarBlock *block = atp_car_index_find(index, msg.commit);
	uint8_t		bytes[512];
	AtpCborWriter w = {.buf = bytes, .cap = sizeof bytes};
	AtpBytes	sig;
	size_t		at;

	if (block == NULL || block->data.len > sizeof bytes ||
		atp_sig_cut(block->data.ptr, block->data.len, false, &w, &sig, &at) != ATP_OK ||
		atp_sig_verify(key, w.buf, w.len, sig, atp_sha256, NULL, atp_signature_verify, NULL) != ATP_OK)
		die("a signature is wrong");
}

static void
run_stages(const Frame *f, Stage last)
{
	AtpCarIndex index = {.blocks = blocks, .cap = BLOCKS_CAP, .slots = slots};
	size_t		at;

	read_message(f);
	if (last == MESSAGE)
		return;

	/* a table no larger than the frame can fill: it has to be cleared */
	index.nslots = 64;
	while (index.nslots < 2 * (msg.blocks.len / 100 + 1) && index.nslots < 2 * BLOCKS_CAP)
		index.nslots *= 2;
	index.cap = index.nslots / 2;
	memset(slots, 0, index.nslots * sizeof(slots[0]));
	if (last >= INVERSION)
		atp_invert_begin(&inversion, nodes, atp_invert_room(msg.blocks.len, msg.nops), atp_sha256, NULL);
	if (atp_commit_invert(&msg, &index, last >= INVERSION ? &inversion : NULL, atp_sha256, NULL, &at) != ATP_OK)
		die("invalid commit");
	if (last == SIGNATURE)
		verify(&index, f->key);
	if (last == INVERSION)
		nproven += inversion.verdict == ATP_PROVEN;
	if (last >= INVERSION)
		return;
	for (unsigned i = 0; i < msg.nops && last > BLOCKS; i++)
	{
		const AtpCarBlock *block = msg.ops[i].block;
		size_t		ntokens;
		size_t		room;

		if (block == NULL)
			continue;
		nrecords++;
		if (last == RECORDS)
		{
			if (atp_record_check(block->data.ptr, block->data.len, &at) != ATP_OK)
				die("invalid record");
		}
		else if (atp_jsonb_scan_record(block->data.ptr, block->data.len, tokens, TOKENS_CAP, atp_no_pause,
									   &ntokens, &room, &at) == ATP_OK)
		{
			if (room > sizeof(image))
				die("large record");
			atp_jsonb_build(tokens, (uint8_t *) image);
		}
	}
}

/* Microseconds of CPU time a frame. */
static double
measure(Stage stage, unsigned rounds)
{
	double		times[RUNS];

	for (int run = 0; run < RUNS; run++)
	{
		double		start = seconds();

		for (unsigned round = 0; round < rounds; round++)
		{
			for (size_t i = 0; i < nframes; i++)
			{
				if (stage == HASH_ONLY)
					run_hashes(&frames[i]);
				else
					run_stages(&frames[i], stage);
			}
		}
		times[run] = (seconds() - start) * 1e6 / ((double) rounds * (double) nframes);
	}
	qsort(times, RUNS, sizeof(times[0]), compare_doubles);
	return times[RUNS / 2];
}

/* Keep the #commit frames of a size between min and max. */
static size_t
load(const char *path, size_t min, size_t max)
{
	FILE	   *f = fopen(path, "rb");
	uint8_t		head[4];
	size_t		total = 0;

	if (f == NULL)
		die("cannot open the capture");
	while (fread(head, 1, 4, f) == 4)
	{
		size_t		len = (size_t) head[0] << 24 | (size_t) head[1] << 16 | head[2] << 8 | head[3];
		uint8_t    *data = malloc(len);
		AtpFrame	frame;
		size_t		at;

		if (data == NULL || fread(data, 1, len, f) != len)
			die("the capture is cut short");
		if (len < min || len > max ||
			atp_frame_parse(data, len, &frame, &at) != ATP_OK ||
			!atp_span_is(frame.t, "#commit"))
		{
			free(data);
			continue;
		}
		frames = realloc(frames, (nframes + 1) * sizeof(Frame));
		if (frames == NULL)
			die("out of memory");
		frames[nframes++] = (Frame) {data, len};
		total += len;
	}
	fclose(f);
	if (nframes == 0)
		die("no frame of that size");
	return total;
}

/* Each frame's account has a key in the file: did, seq, key, ... */
static void
load_keys(const char *path)
{
	FILE	   *f = fopen(path, "r");
	char		did[64];
	char		hex[2 * ATP_MULTIKEY_LEN + 1];

	if (f == NULL)
		die("cannot open the keys");
	while (fscanf(f, "%63s %*s %70s %*[^\n]", did, hex) == 2)
	{
		for (size_t i = 0; i < nframes; i++)
		{
			read_message(&frames[i]);
			for (int k = 0; k < ATP_MULTIKEY_LEN && atp_span_is(msg.did, did); k++)
				sscanf(hex + 2 * k, "%2hhx", &frames[i].key[k]);
		}
	}
	fclose(f);
}

static void
row(const char *what, double us, double all)
{
	printf("  %-32s %6.2f us %4.0f %%\n", what, us, 100 * us / all);
}

int
main(int argc, char **argv)
{
	double		us[NSTAGES];
	double		hashes;
	size_t		total;
	unsigned	rounds;

	if (argc != 4 && argc != 5)
		die("usage: frames CAPTURE MIN MAX [KEYS]");
	nodes = malloc(atp_invert_room(ATP_BLOCKS_MAX, ATP_OPS_MAX));
	if (nodes == NULL)
		die("out of memory");
	total = load(argv[1], strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
	if (argc == 5)
		load_keys(argv[4]);
	rounds = (unsigned) (20000 / nframes) + 1;
	for (Stage stage = 0; stage < (argc == 5 ? NSTAGES : SIGNATURE); stage++)
		us[stage] = measure(stage, rounds);

	printf("%zu #commit frames, mean %zu bytes, %.1f blocks, %.2f records\n",
		   nframes, total / nframes,
		   (double) nblocks / ((double) RUNS * rounds * (double) nframes),
		   (double) nrecords / (2.0 * RUNS * rounds * (double) nframes));
	printf("frames to checked records: %.2f us, %.0f frames/s; of which\n", us[RECORDS], 1e6 / us[RECORDS]);

	/* a run of the hashes had to find the blocks first */
	hashes = us[HASH_ONLY] - us[MESSAGE];
	row("SHA-256 of the blocks", hashes, us[RECORDS]);
	row("the frame and its fields", us[MESSAGE], us[RECORDS]);
	row("sections, index, commit, tree", us[BLOCKS] - us[MESSAGE] - hashes, us[RECORDS]);
	row("the records", us[RECORDS] - us[BLOCKS], us[RECORDS]);
	printf("of another slice, or another account than is followed: %.2f us, and the hash of its DID\n", us[MESSAGE]);
	printf("and then to jsonb: %.2f us\n", us[JSONB] - us[RECORDS]);
	printf("the operations undone: %.2f us; proven: %.0f %%\n", us[INVERSION] - us[BLOCKS],
		   100.0 * (double) nproven / (RUNS * (double) rounds * (double) nframes));
	if (argc == 5)
		printf("the signature: %.2f us; all that is verified: %.2f us, %.0f commits/s\n",
			   us[SIGNATURE] - us[INVERSION], us[SIGNATURE], 1e6 / us[SIGNATURE]);
	return 0;
}
