/*
 * test_capture.c
 *		Captures of real servers, message by message: every frame, block, commit, operation and record is valid
 *		(data/README.md lists the contents).
 */
#include "core/codec/cbor_write.h"
#include "core/codec/dagcbor.h"
#include "core/codec/json_dagcbor.h"
#include "protocol/cbor.h"
#include "protocol/json_write.h"
#include "protocol/one_go.h"
#include "hex.h"
#include "protocol/record.h"
#include "repo.h"

typedef struct Count
{
	unsigned	frames;
	unsigned	errors;
	unsigned	kinds[ATP_REPOS_INFO + 1];
	unsigned	ops[3];
	unsigned	records;
	unsigned	from_json;		/* records that come back from their JSON, however the JSON is written */
	unsigned	faults;
	unsigned	proven;			/* commits whose operations lead from prevData to data */
	unsigned	first;			/* proven commits whose prevData is the empty tree */
	unsigned	continued;		/* commits that continue the previous commit */
	unsigned	rewritten;		/* blocks that the writer reproduces */
	unsigned	blocks;
	unsigned	in_one_go;		/* frames read in one go */
	unsigned	changed;		/* damaged frames (a byte or a few) read in one go */
	unsigned	disagree;		/* and are something else then */
} Count;

#define CHANGES		20			/* of each frame */

/*
 * Reads the frame, and copies of the frame with a few bytes changed, left out or doubled.  Reading in one go
 * must give the result of the general readers, or decline.
 */
static void
in_one_go(const uint8_t *data, size_t len, Count *count)
{
	static uint64_t state = 1;
	uint8_t    *copy = memcpy(malloc(len + 1), data, len);
	size_t		create = 0;
	bool		taken;

	/* F-07: a deletion with a CID */
	while (create + 6 < len && memcmp(copy + create, "create", 6) != 0)
		create++;
	if (create + 6 < len)
	{
		memcpy(copy + create, "delete", 6);
		count->disagree += !one_go_agrees(copy, len, &taken);
	}
	count->disagree += !one_go_agrees(data, len, &taken);
	count->in_one_go += taken;
	for (int i = 0; taken && i < CHANGES; i++)
	{
		/* mostly before or behind the blocks */
		size_t		place;
		size_t		n = len;

		state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
		place = (size_t) (state >> 33) % (len < 600 ? len : 600);
		if (place >= 400)
			place = len - 1 - (place - 400) % len;
		memcpy(copy, data, len);
		switch (state >> 60 & 3)
		{
			case 0:
				copy[place] ^= (uint8_t) (1 << (state >> 57 & 7));
				break;
			case 1:
				copy[place] = state >> 48 & 1 ? 0 : (uint8_t) (state >> 49);
				break;
			case 2:
				memmove(copy + place, copy + place + 1, --n - place);
				break;
			default:
				memmove(copy + place + 1, copy + place, n++ - place);
		}
		count->disagree += !one_go_agrees(copy, n, &taken);
		count->changed += taken;
		taken = true;
	}
	free(copy);
}

/* B-11: items read and written again are the same bytes. */
static bool
rewrites(AtpBytes block)
{
	static uint8_t buf[1 << 21];
	AtpCborWriter w = {.buf = buf, .cap = sizeof(buf)};
	AtpCborReader r;
	AtpCborItem item;
	size_t		at;
	AtpErr		err;

	atp_cbor_init(&r, block.ptr, block.len, ATP_CBOR_DEPTH_DEFAULT);
	while ((err = atp_cbor_next(&r, &item, &at)) == ATP_OK)
	{
		switch (item.kind)
		{
			case ATP_CBOR_UINT:
				atp_cbor_put_uint(&w, item.u);
				break;
			case ATP_CBOR_NINT:
				atp_cbor_put_nint(&w, item.u);
				break;
			case ATP_CBOR_BYTES:
				atp_cbor_put_bytes(&w, item.str.ptr, item.str.len);
				break;
			case ATP_CBOR_TEXT:
				atp_cbor_put_text(&w, (const char *) item.str.ptr, item.str.len);
				break;
			case ATP_CBOR_ARRAY:
				atp_cbor_put_array(&w, item.u);
				break;
			case ATP_CBOR_MAP:
				atp_cbor_put_map(&w, item.u);
				break;
			case ATP_CBOR_LINK:
				atp_cbor_put_link(&w, item.str.ptr, item.str.len);
				break;
			case ATP_CBOR_NULL:
				atp_cbor_put_null(&w);
				break;
			case ATP_CBOR_FLOAT:
				atp_cbor_put_float(&w, item.d);
				break;
			default:
				atp_cbor_put_bool(&w, item.kind == ATP_CBOR_TRUE);
				break;
		}
	}
	return err == ATP_E_CBOR_END && w.len == block.len && memcmp(buf, block.ptr, w.len) == 0;
}

/* B-27, J-05: the same through JSON, with keys in whatever order. */
static bool
comes_back(AtpBytes block)
{
	static char json[8 << 20];
	static uint8_t room[40 << 20];
	bool		same = true;

	for (int reversed = 0; reversed < 2; reversed++)
	{
		AtpBytes	cbor;
		size_t		n;
		size_t		at;

		if (!atp_json_write(block.ptr, block.len, reversed, json, sizeof(json), &n) ||
			atp_json_to_dagcbor(json, n, room, sizeof(room), &cbor, &at) != ATP_OK)
			return false;
		same = same && cbor.len == block.len && memcmp(cbor.ptr, block.ptr, cbor.len) == 0;
	}
	return same;
}

#define ACCOUNTS_MAX	100

typedef struct Account
{
	char		did[64];
	uint8_t		data[ATP_CID_BLESSED_LEN];	/* all zeros: unknown */
} Account;

/* The account's last data. */
static uint8_t *
data_of(AtpSpan did)
{
	static Account accounts[ACCOUNTS_MAX];
	size_t		i = 0;

	while (accounts[i].did[0] != '\0' && !atp_span_is(did, accounts[i].did))
		i++;
	if (i == ACCOUNTS_MAX - 1 || did.len >= sizeof(accounts[i].did))
		exit(2);
	memcpy(accounts[i].did, did.ptr, did.len);
	return accounts[i].data;
}

static AtpErr
one_message(const AtpFrame *frame, Count *count, size_t *at)
{
	static AtpReposMessage msg;
	static Index ix;
	static AtpInversion inversion;
	static uint8_t before[2 * ATP_BLOCKS_MAX];
	static const uint8_t unknown[ATP_CID_BLESSED_LEN];
	uint8_t    *data;
	AtpErr		err;

	if ((err = atp_repos_parse(frame, &msg, at)) != ATP_OK)
		return err;
	count->kinds[msg.kind]++;
	if (msg.kind != ATP_REPOS_COMMIT && msg.kind != ATP_REPOS_SYNC)
		return ATP_OK;
	index_clear(&ix);
	atp_invert_begin(&inversion, before, sizeof(before), sha256, NULL);
	if ((err = atp_commit_invert(&msg, &ix.index, &inversion, sha256, NULL, at)) != ATP_OK)
		return err;
	data = data_of(msg.did);
	if (msg.kind == ATP_REPOS_COMMIT)
	{
		bool		is_first = inversion.known && inversion.first && !msg.has_since;

		count->proven += inversion.verdict == ATP_PROVEN || is_first;
		count->first += is_first;
		count->continued += is_first ? memcmp(data, unknown, sizeof(unknown)) == 0 :
			memcmp(data, inversion.root, sizeof(inversion.root)) == 0;
	}
	memcpy(data, msg.data.ptr, msg.data.len);
	for (size_t i = 0; i < ix.index.n; i++)
	{
		count->blocks++;
		count->rewritten += rewrites(ix.blocks[i].data);
	}
	for (unsigned i = 0; i < msg.nops; i++)
	{
		const AtpCarBlock *block = msg.ops[i].block;

		count->ops[msg.ops[i].action]++;
		if (block == NULL)
			continue;
		count->records++;
		if ((err = atp_record_check(block->data.ptr, block->data.len, at)) != ATP_OK)
			return err;
		count->from_json += comes_back(block->data);
	}
	return ATP_OK;
}

static Count
read_capture(const char *command)
{
	Count		count = {0};
	FILE	   *f = popen(command, "r");
	uint8_t		head[4];

	ok(f != NULL, "%s", command);
	while (f != NULL && fread(head, 1, 4, f) == 4)
	{
		size_t		len = (size_t) head[0] << 24 | (size_t) head[1] << 16 | head[2] << 8 | head[3];
		uint8_t    *data = malloc(len);
		AtpFrame	frame;
		size_t		at;
		AtpErr		err;

		if (fread(data, 1, len, f) != len)
			exit(2);
		count.frames++;
		in_one_go(data, len, &count);
		err = atp_frame_parse(data, len, &frame, &at);
		if (err == ATP_OK && frame.kind == ATP_FRAME_ERROR)
			count.errors++;
		else if (err == ATP_OK)
			err = one_message(&frame, &count, &at);
		if (err != ATP_OK)
		{
			printf("# frame %u: %s at %zu\n", count.frames, atp_err_text(err), at);
			count.faults++;
		}
		free(data);
	}
	ok(f != NULL && pclose(f) == 0, "to its end");
	return count;
}

int
main(void)
{
	Count		c = read_capture("gzip -dc data/pds.frames.gz");

	ok(c.frames == 1600 && c.faults == 0, "%u frames, %u faults", c.frames, c.faults);
	ok(c.kinds[ATP_REPOS_COMMIT] == 1390 && c.kinds[ATP_REPOS_SYNC] == 58 &&
	   c.kinds[ATP_REPOS_IDENTITY] == 70 && c.kinds[ATP_REPOS_ACCOUNT] == 82, "their types");
	ok(c.ops[ATP_CREATE] == 2945 && c.ops[ATP_UPDATE] == 150 && c.ops[ATP_DELETE] == 146,
	   "operations: %u create, %u update, %u delete", c.ops[ATP_CREATE], c.ops[ATP_UPDATE],
	   c.ops[ATP_DELETE]);
	ok(c.proven == 1390 && c.first == 52, "V-18, V-28: %u commits proven, of which %u the first", c.proven, c.first);
	ok(c.in_one_go == c.kinds[ATP_REPOS_COMMIT], "each commit is read in one go");
	ok(c.disagree == 0, "as what it is otherwise, and so are %u frames with a fault", c.changed);
	ok(c.continued == 1390, "V-31: %u follow the one before", c.continued);
	ok(c.records == 3095, "%u records", c.records);
	ok(c.from_json == c.records, "B-27, J-05: %u of them are the same through JSON", c.from_json);
	ok(c.blocks > 9000 && c.rewritten == c.blocks, "B-11: %u of %u blocks are written as they were",
	   c.rewritten, c.blocks);

	c = read_capture("gzip -dc data/labels.frames.gz");
	ok(c.frames == 400 && c.faults == 0 && c.kinds[ATP_REPOS_UNKNOWN] == 400,
	   "labels: well-formed, and unknown to subscribeRepos");

	c = read_capture("cat data/special.frames");
	ok(c.frames == 9 && c.faults == 0 && c.errors == 5 && c.kinds[ATP_REPOS_INFO] == 4,
	   "errors and infos");
	return done_testing();
}
