/*
 * test_archive.c
 *		Blocks of an archive: rules H-21 (frames), H-22 (columns), H-25 (rows), H-31 (messages of a server's own).
 */
#include <zstd.h>

#include "core/archive/archive_block.h"
#include "core/archive/archive_message.h"
#include "core/archive/segment_blocks.h"
#include "core/syntax/tid.h"
#include "net/unzstd.h"
#include "hex.h"
#include "protocol/record.h"
#include "unit.h"

#define DID		"did:plc:ewvi7nxzyoun6zhxrhs64oiz"
#define NSID	"exchange.recipe.recipe"
#define REV		"3mbzsehb4s22a"
#define SOUP	"\xa1\x65$type\x65" "a.b.c"

static const char *const actions[] = {[ATP_CREATE] = "create", [ATP_UPDATE] = "update", [ATP_DELETE] = "delete"};

/* ------------------------------------------------------------------------
 * The segment of the vectors
 * ------------------------------------------------------------------------
 */
static FILE *table;
static char line[32768];

static bool
is_field(char **rest, const char *text, size_t n)
{
	const char *want = field(rest);

	return strlen(want) == n && memcmp(want, text, n) == 0;
}

static bool
is_number(char **rest, int64_t number)
{
	return strtoll(field(rest), NULL, 10) == number;
}

/* Are the row, and what is wrong with it, those of the table's next line? */
static bool
is_row(uint32_t number, const AtpArchiveBlock *block, const AtpArchiveRow *row)
{
	static AtpReposMessage msg;
	char	   *rest = line;
	bool		same;
	AtpBytes	payload;
	const char *wrong;
	size_t		at = 0;
	AtpErr		err;

	if (fgets(line, sizeof(line), table) == NULL)
		return false;
	line[strcspn(line, "\n")] = '\0';
	same = is_number(&rest, number) && is_number(&rest, (int64_t) row->seq) && is_number(&rest, row->witnessed_at) && is_number(&rest, row->indexed_at) &&
		is_number(&rest, row->kind) && is_field(&rest, row->did.ptr, row->did.len) && is_field(&rest, row->collection.ptr, row->collection.len) &&
		is_field(&rest, row->rkey.ptr, row->rkey.len) && is_field(&rest, row->rev.ptr, row->rev.len);
	payload = unhex(field(&rest));
	same = same && payload.len == row->payload.len && memcmp(payload.ptr, row->payload.ptr, payload.len) == 0;
	free((void *) payload.ptr);
	wrong = field(&rest);
	err = atp_archive_row_check(block, row, &msg, &at);
	if (at > block->bytes.len || msg.seq != (int64_t) row->seq)
		return false;
	/* the record itself is read where jsonb is made of it */
	if (err == ATP_OK && msg.kind == ATP_REPOS_COMMIT && msg.ops[0].action != ATP_DELETE &&
		atp_record_check(row->payload.ptr, row->payload.len, &at) != ATP_OK)
		return same && strcmp(wrong, "record") == 0;
	if (err == ATP_OK)
	{
		char		rev[ATP_TID_TEXT];

		same = same && *wrong == '\0' && msg.did.ptr == row->did.ptr;
		atp_tid_format(msg.rev, rev);
		if (row->rev.len > 0)
			same = same && memcmp(rev, row->rev.ptr, sizeof(rev)) == 0;
	}
	else if (err == ATP_E_PATH)
		same = same && strcmp(wrong, "path") == 0 && at == (size_t) ((const uint8_t *) row->collection.ptr - block->bytes.ptr);
	else if (err == ATP_E_ROW_PAYLOAD)
		same = same && strcmp(wrong, "payload") == 0;
	else if (at >= (size_t) (row->payload.ptr - block->bytes.ptr) && msg.kind != ATP_REPOS_COMMIT)
		same = same && strcmp(wrong, "message") == 0 && msg.did.ptr == row->did.ptr;
	else
		same = same && (strcmp(wrong, "did") == 0 ? msg.did.ptr == NULL : strcmp(wrong, "rev") == 0);
	if (!same)
		printf("# row %lu: %s at %zu; expected: %s\n", (unsigned long) row->seq, atp_err_text(err), at, wrong);
	return same;
}

static void
test_vectors(void)
{
	static uint8_t file[65536];
	static const uint32_t rows[] = {8, 0, 23};
	FILE	   *f = fopen("data/vectors/archive/segment.jss", "rb");
	size_t		n = f != NULL ? fread(file, 1, sizeof(file), f) : 0;
	const uint8_t *in = file;
	AtpSegmentBlocks segment;
	AtpSegmentPart part;
	AtpUnzstd  *z = atp_unzstd_new_for_blocks(1024 * 1024);
	AtpEnd		end = {0};
	uint64_t	after = 0;
	size_t		at;

	table = fopen("data/vectors/archive/rows.tsv", "r");
	if (table == NULL || z == NULL || fgets(line, sizeof(line), table) == NULL)
		exit(2);
	atp_segment_blocks_begin(&segment, n);
	while (atp_segment_blocks_next(&segment, &in, &n, &part, &at) == ATP_OK && part.bytes.len > 0)
	{
		size_t		len = 0;
		const uint8_t *content = atp_unzstd(z, part.bytes.ptr, part.bytes.len, &len, &end);
		uint8_t    *copy = copy_of(content, len);
		AtpArchiveBlock block;
		AtpArchiveRow row;
		int			differ = 0;

		ok(atp_archive_block_open(&block, (AtpBytes) {copy, len}, after, segment.header.min_seq, segment.header.max_seq, &at) == ATP_OK &&
		   block.nrows == rows[part.block], "H-22: block %u: %u rows", part.block, block.nrows);
		while (atp_archive_block_next(&block, &row))
		{
			differ += !is_row(part.block, &block, &row);
			after = row.seq;
		}
		ok(differ == 0, "H-25: its rows, and what is wrong with them");
		free(copy);
	}
	ok(atp_segment_blocks_is_whole(&segment) && fgets(line, sizeof(line), table) == NULL, "all blocks");
	atp_unzstd_free(z);
	(void) fclose(table);
	(void) fclose(f);
}

/* ------------------------------------------------------------------------
 * Columns
 * ------------------------------------------------------------------------
 */
typedef struct Fields
{
	uint64_t	seq;
	uint8_t		kind;
	const char *did;
	const char *collection;
	const char *rkey;
	const char *rev;
	const char *payload;
} Fields;

static uint8_t made[16 * 1024 * 1024];
static size_t made_len;

static void
put_le(uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		made[made_len++] = (uint8_t) (value >> 8 * i);
}

static void
put_texts(const Fields *rows, size_t n, size_t member)
{
	for (size_t i = 0; i < n; i++)
	{
		const char *text;

		memcpy(&text, (const char *) &rows[i] + member, sizeof(text));
		memcpy(made + made_len, text, strlen(text));
		made_len += strlen(text);
	}
}

static void
make_block(const Fields *rows, size_t n)
{
	made_len = 0;
	put_le(n, 4);
	for (size_t i = 0; i < n; i++)
		put_le(rows[i].seq, 8);
	for (size_t i = 0; i < 2 * n; i++)
		put_le(UINT64_MAX, 8);
	for (size_t i = 0; i < n; i++)
		put_le(rows[i].kind, 1);
	for (size_t i = 0; i < n; i++)
		put_le(strlen(rows[i].collection), 1);
	for (size_t i = 0; i < n; i++)
		put_le(strlen(rows[i].did), 2);
	for (size_t i = 0; i < n; i++)
		put_le(strlen(rows[i].rkey), 1);
	for (size_t i = 0; i < n; i++)
		put_le(strlen(rows[i].rev), 1);
	for (size_t i = 0; i < n; i++)
		put_le(strlen(rows[i].payload), 4);
	put_texts(rows, n, offsetof(Fields, collection));
	put_texts(rows, n, offsetof(Fields, did));
	put_texts(rows, n, offsetof(Fields, rkey));
	put_texts(rows, n, offsetof(Fields, rev));
	put_texts(rows, n, offsetof(Fields, payload));
}

static AtpErr
open_made(uint64_t after, uint64_t min_seq, uint64_t max_seq, size_t *at)
{
	AtpArchiveBlock block;
	uint8_t    *copy = copy_of(made, made_len);
	AtpErr		err = atp_archive_block_open(&block, (AtpBytes) {copy, made_len}, after, min_seq, max_seq, at);

	free(copy);
	return *at <= made_len ? err : ATP_ERR_COUNT;
}

/* What becomes of two rows with these numbers and kinds, in a block of these bounds. */
static void
opens(const char *what, uint64_t first, uint64_t second, uint8_t kind, uint64_t after, uint64_t min_seq, uint64_t max_seq, AtpErr expected, size_t expected_at)
{
	const Fields rows[] = {
		{first, ATP_ARCHIVE_CREATE, DID, NSID, "a", REV, SOUP},
		{second, kind, DID, NSID, "b", REV, SOUP}
	};
	size_t		at = 0;
	AtpErr		err;

	make_block(rows, 2);
	err = open_made(after, min_seq, max_seq, &at);
	ok(err == expected && (err == ATP_OK || at == expected_at), "H-22: %s: %s at %zu", what, atp_err_text(err), at);
}

static void
test_columns(void)
{
	const Fields rows[] = {{7, 1, DID, NSID, "a", REV, SOUP}, {9, 3, DID, NSID, "b", REV, ""}, {10, 4, DID, "", "", "", "x"}};
	const uint64_t last = ATP_ARCHIVE_SEQ_LIMIT - 1;
	size_t		whole;
	size_t		at;
	int			differ = 0;

	opens("two rows", 1, 2, 1, 0, 0, last, ATP_OK, 0);
	opens("numbers with a gap", 1, last, 7, 0, 1, last, ATP_OK, 0);
	opens("the same number", 5, 5, 1, 0, 0, last, ATP_E_BLOCK_SEQ_ORDER, 12);
	opens("a number that falls", 5, 4, 1, 0, 0, last, ATP_E_BLOCK_SEQ_ORDER, 12);
	opens("0", 0, 1, 1, 0, 0, last, ATP_E_BLOCK_SEQ_ORDER, 4);
	opens("that of the block before", 5, 6, 1, 5, 0, last, ATP_E_BLOCK_SEQ_ORDER, 4);
	opens("the next after that of the block before", 6, 7, 1, 5, 0, last, ATP_OK, 0);
	opens("the bounds", 5, 8, 1, 0, 5, 8, ATP_OK, 0);
	opens("below the bounds", 4, 8, 1, 0, 5, 8, ATP_E_BLOCK_SEQ_BOUNDS, 4);
	opens("above the bounds", 5, 9, 1, 0, 5, 8, ATP_E_BLOCK_SEQ_BOUNDS, 12);
	opens("a time", 5, last + 1, 1, 0, 0, UINT64_MAX, ATP_E_BLOCK_SEQ_BOUNDS, 12);
	opens("kind 0", 1, 2, 0, 0, 0, last, ATP_E_BLOCK_KIND, 53);
	opens("kind 8", 1, 2, 8, 0, 0, last, ATP_E_BLOCK_KIND, 53);

	make_block(rows, 3);
	whole = made_len;
	ok(open_made(0, 0, last, &at) == ATP_OK, "H-22: three rows in %zu bytes", whole);
	for (made_len = 0; made_len < whole; made_len++)
		differ += open_made(0, 0, last, &at) != ATP_E_BLOCK_COLUMNS;
	made[made_len++] = 0;
	differ += open_made(0, 0, last, &at) != ATP_E_BLOCK_COLUMNS || at != whole;
	ok(differ == 0, "H-22: a byte less, a byte more, and all that is shorter");
	for (size_t i = 4 + 3 * 25; i < 4 + 3 * 34; i++)
	{
		make_block(rows, 3);
		made[i]++;
		differ += open_made(0, 0, last, &at) != ATP_E_BLOCK_COLUMNS;
		made[i] = 0xff;
		differ += open_made(0, 0, last, &at) != ATP_E_BLOCK_COLUMNS;
	}
	ok(differ == 0, "H-22: any length that is another");
	make_block(rows, 3);
	memset(made + 4 + 3 * 30, 0xff, 12);
	ok(open_made(0, 0, last, &at) == ATP_E_BLOCK_COLUMNS, "H-22: payloads of 2^32 - 1 bytes each");
	make_block(NULL, 0);
	ok(made_len == 4 && open_made(0, 0, last, &at) == ATP_OK, "H-22: no rows");
	made_len = 5;
	ok(open_made(0, 0, last, &at) == ATP_E_BLOCK_COLUMNS, "H-22: no rows, and a byte");
}

static void
test_rows_max(void)
{
	static Fields rows[ATP_ARCHIVE_ROWS_MAX + 1];
	size_t		at;

	for (size_t i = 0; i <= ATP_ARCHIVE_ROWS_MAX; i++)
		rows[i] = (Fields) {i + 1, ATP_ARCHIVE_IDENTITY, "", "", "", "", ""};
	make_block(rows, ATP_ARCHIVE_ROWS_MAX);
	ok(open_made(0, 0, ATP_ARCHIVE_SEQ_LIMIT - 1, &at) == ATP_OK, "H-22: %u rows", ATP_ARCHIVE_ROWS_MAX);
	make_block(rows, ATP_ARCHIVE_ROWS_MAX + 1);
	ok(open_made(0, 0, ATP_ARCHIVE_SEQ_LIMIT - 1, &at) == ATP_E_BLOCK_ROWS, "H-22: a row too many");
}

/* ------------------------------------------------------------------------
 * Rows
 * ------------------------------------------------------------------------
 */
static void
test_actions(void)
{
	static const struct
	{
		uint8_t		kind;
		AtpAction	action;
	}			kinds[] = {
		{ATP_ARCHIVE_CREATE, ATP_CREATE}, {ATP_ARCHIVE_UPDATE, ATP_UPDATE}, {ATP_ARCHIVE_DELETE, ATP_DELETE}, {ATP_ARCHIVE_CREATE_RESYNC, ATP_CREATE}
	};
	static AtpReposMessage msg;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
	{
		const Fields fields = {7, kinds[i].kind, DID, NSID, "a", REV, kinds[i].action == ATP_DELETE ? "" : SOUP};
		AtpArchiveBlock block;
		AtpArchiveRow row = {0};
		size_t		at;

		make_block(&fields, 1);
		ok(atp_archive_block_open(&block, (AtpBytes) {made, made_len}, 0, 7, 7, &at) == ATP_OK && atp_archive_block_next(&block, &row) &&
		   row.witnessed_at == -1 && row.indexed_at == -1 && atp_archive_row_check(&block, &row, &msg, &at) == ATP_OK && msg.kind == ATP_REPOS_COMMIT &&
		   msg.nops == 1 && msg.ops[0].action == kinds[i].action && atp_span_is(msg.ops[0].collection, NSID) && atp_span_is(msg.ops[0].rkey, "a") &&
		   !atp_archive_block_next(&block, &row), "H-31: kind %u is %s", kinds[i].kind, actions[kinds[i].action]);
	}
}

/* A message that is longer than messages are is refused before it is read. */
static void
test_long_message(void)
{
	const Fields fields = {7, ATP_ARCHIVE_ACCOUNT, DID, "", "", "", ""};
	static AtpReposMessage msg;
	AtpArchiveBlock block;
	AtpArchiveRow row;
	size_t		at;

	make_block(&fields, 1);
	memcpy(made + 4 + 30, "\x41\x4b\x4c\x00", 4);	/* 5,000,001 bytes */
	made_len += 5000001;
	ok(atp_archive_block_open(&block, (AtpBytes) {made, made_len}, 0, 7, 7, &at) == ATP_OK && atp_archive_block_next(&block, &row) &&
	   atp_archive_row_check(&block, &row, &msg, &at) == ATP_E_FRAME_SIZE, "H-25: a message of 5 MB and a byte");
}

/* ------------------------------------------------------------------------
 * Frames
 * ------------------------------------------------------------------------
 */
#define BIG		(40 * 1024 * 1024)

static uint8_t *content;		/* zeros, and a few other bytes */
static uint8_t *packed;
static AtpUnzstd *unzstd;
static AtpEnd end;

static size_t
pack(size_t n, bool sized, bool checksum, int window)
{
	ZSTD_CCtx  *cctx = ZSTD_createCCtx();
	ZSTD_inBuffer in = {content, n, 0};
	ZSTD_outBuffer out = {packed, ZSTD_compressBound(BIG), 0};

	(void) ZSTD_CCtx_setParameter(cctx, ZSTD_c_checksumFlag, checksum);
	(void) ZSTD_CCtx_setParameter(cctx, ZSTD_c_contentSizeFlag, sized);
	(void) ZSTD_CCtx_setParameter(cctx, ZSTD_c_windowLog, window);
	if (sized)
		(void) ZSTD_CCtx_setPledgedSrcSize(cctx, n);
	else
	{
		ZSTD_inBuffer first = {content, n / 2, 0};

		(void) ZSTD_compressStream2(cctx, &out, &first, ZSTD_e_continue);
		in.pos = first.pos;
	}
	if (ZSTD_compressStream2(cctx, &out, &in, ZSTD_e_end) != 0)
		out.pos = 0;
	(void) ZSTD_freeCCtx(cctx);
	return out.pos;
}

/* The frame in pieces of so many bytes; 0: whole. */
static const uint8_t *
unpack(size_t n, size_t give, size_t *len)
{
	const uint8_t *result;

	end = (AtpEnd) {0};
	*len = 0;
	if (give == 0)
		return atp_unzstd(unzstd, packed, n, len, &end);
	atp_unzstd_begin(unzstd);
	for (size_t at = 0; at < n; at += give)
	{
		size_t		given = give < n - at ? give : n - at;
		uint8_t    *copy = copy_of(packed + at, given);
		bool		good = atp_unzstd_push(unzstd, copy, given, &end);

		free(copy);
		if (!good && (atp_unzstd_push(unzstd, packed, 1, &end) || atp_unzstd_end(unzstd, len, &end) != NULL))
			exit(3);
		if (!good)
			return NULL;
	}
	result = atp_unzstd_end(unzstd, len, &end);
	return result;
}

/* However it comes, the frame gives so many bytes of content; or fails, with a reason. */
static void
unpacks(const char *what, size_t n, size_t expected, const char *why)
{
	static const size_t gives[] = {0, 1, 2, 7, 18, 19, 1000, 65536};
	int			differ = 0;

	for (size_t i = 0; i < sizeof(gives) / sizeof(gives[0]); i++)
	{
		size_t		len;
		const uint8_t *got;

		/* the larger ones byte by byte would take long */
		if (gives[i] > 0 && n / gives[i] > 100000)
			continue;
		got = unpack(n, gives[i], &len);
		if (why == NULL)
			differ += got == NULL || len != expected || memcmp(got, content, len) != 0;
		else
			differ += got != NULL || strstr(end.why, why) == NULL;
	}
	ok(n > 0 && differ == 0, "H-21: %s: %s", what, end.why);
}

static void
test_frames(void)
{
	static const size_t lengths[] = {0, 1, 4, 100, 65535, 65536, 65537, 131072, 300000, 10000000};
	size_t		n;

	packed = malloc(2 * ZSTD_compressBound(BIG));
	content = calloc(1, BIG);
	unzstd = atp_unzstd_new_for_blocks(10000000);
	for (size_t i = 0; i < BIG; i += 1 + i % 5003)
		content[i] = (uint8_t) (i * i >> 7);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
	{
		n = pack(lengths[i], false, true, 0);
		unpacks("a frame that does not say how long its content is", n, lengths[i], NULL);
		n = pack(lengths[i], true, true, 0);
		unpacks("a frame that says it", n, lengths[i], NULL);
	}
	unpacks("a byte too long", pack(10000001, false, true, 0), 0, "longer than 10000000 bytes");
	unpacks("a byte too long, and it says so", pack(10000001, true, true, 0), 0, "longer than 10000000 bytes");
	n = pack(BIG, false, true, 0);
	unpacks("four times too long", n, 0, "longer than 10000000 bytes");
	unpacks("a window of 16 MB", pack(5000, false, true, 24), 5000, NULL);
	unpacks("a window of 32 MB", pack(5000, false, true, 25), 0, "too much memory");
	unpacks("no checksum", pack(5000, true, false, 0), 0, "no checksum");
	n = pack(5000, true, true, 0);
	packed[n - 1] ^= 1;
	unpacks("another checksum", n, 0, "checksum");
	packed[n - 1] ^= 1;
	packed[n] = 0;
	unpacks("a byte behind it", n + 1, 0, "something comes after it");
	memcpy(packed + n, packed, n);
	unpacks("another frame behind it", 2 * n, 0, "something comes after it");
	for (size_t i = 0; i < n; i++)
	{
		size_t		len;

		if (unpack(i, i % 3 == 0 ? 5 : 0, &len) != NULL || end.drop != ATP_DROP_COMPRESSION)
			n = 0;
	}
	ok(n > 0, "H-21: none that is cut short is taken");
	memcpy(packed, "\x50\x2a\x4d\x18\0\0\0\0", 8);
	unpacks("a frame to be skipped", 8, 0, "no zstd frame");
	n = pack(5000, false, true, 0);
	packed[4] |= 3;				/* four bytes of a dictionary's number follow: what was behind */
	unpacks("a frame that wants a dictionary", n, 0, "ictionary");
	atp_unzstd_free(unzstd);

	/* content of 17 MB in one segment is its own window */
	unzstd = atp_unzstd_new_for_blocks(BIG);
	unpacks("20 MB in frames with a window", pack(20000000, false, true, 20), 20000000, NULL);
	n = pack(20000000, true, true, 27);
	ok((packed[4] & 0x20) != 0, "a frame without a window of its own");
	unpacks("20 MB without one", n, 0, "too much memory");
	atp_unzstd_free(unzstd);
	free(packed);
	free(content);
}

/* A row as a message of its own. */
static void
test_message(void)
{
	static uint8_t message[ATP_ARCHIVE_PAYLOAD_MAX + 1000];
	static uint8_t payload[ATP_ARCHIVE_PAYLOAD_MAX + 1];
	AtpArchiveRow row = {.seq = 4711, .witnessed_at = -5, .indexed_at = 9, .kind = ATP_ARCHIVE_UPDATE};
	AtpArchiveRow read;
	size_t		n;

	row.did = (AtpSpan) {DID, strlen(DID)};
	row.collection = (AtpSpan) {NSID, strlen(NSID)};
	row.rkey = (AtpSpan) {"self", 4};
	row.rev = (AtpSpan) {REV, strlen(REV)};
	row.payload = (AtpBytes) {(const uint8_t *) SOUP, strlen(SOUP)};
	n = atp_archive_message_len(&row);
	atp_archive_message_write(&row, message);
	ok(atp_is_archive_message((AtpBytes) {message, n}) && !atp_is_archive_message((AtpBytes) {(const uint8_t *) "{", 1}) &&
	   !atp_is_archive_message((AtpBytes) {message, 0}), "a row's message is no message of a stream");
	ok(atp_archive_message_read((AtpBytes) {message, n}, &read) == ATP_OK && read.seq == 4711 && read.witnessed_at == -5 &&
	   read.kind == ATP_ARCHIVE_UPDATE && read.did.len == strlen(DID) && memcmp(read.did.ptr, DID, read.did.len) == 0 &&
	   read.collection.len == strlen(NSID) && memcmp(read.collection.ptr, NSID, read.collection.len) == 0 && read.rkey.len == 4 &&
	   memcmp(read.rkey.ptr, "self", 4) == 0 && read.rev.len == strlen(REV) && memcmp(read.rev.ptr, REV, read.rev.len) == 0 &&
	   read.payload.len == strlen(SOUP) && memcmp(read.payload.ptr, SOUP, read.payload.len) == 0, "the message has the row");
	for (size_t len = 0; len <= n + 1; len++)
		if (len != n && atp_archive_message_read((AtpBytes) {message, len}, &read) == ATP_OK)
			ok(false, "a message of another length is refused");
	ok(true, "messages of other lengths are refused");
	row.payload = (AtpBytes) {payload, sizeof(payload)};
	ok(atp_archive_message_len(&row) < sizeof(message), "a payload is cut");
	atp_archive_message_write(&row, message);
	ok(atp_archive_message_read((AtpBytes) {message, atp_archive_message_len(&row)}, &read) == ATP_OK &&
	   read.payload.len == ATP_ARCHIVE_PAYLOAD_MAX, "the message has the first bytes of a long payload");
}

int
main(void)
{
	test_vectors();
	test_columns();
	test_rows_max();
	test_actions();
	test_long_message();
	test_frames();
	test_message();
	return done_testing();
}
