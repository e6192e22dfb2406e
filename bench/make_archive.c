/*
 * make_archive.c
 *		The archive of a Jetstream that does not exist: make_archive EVENTS ACCOUNTS HOSTS PLANTED DIR [SUBJECTS] writes it into DIR.
 *
 *	seg_*.jss	segments of 100 blocks of 4,096 rows
 *	index		what bench/archive_server knows of them, a line for each segment and block
 *	stream		a capture with the first event after the archive, for test/server
 *	cars/hN.localhost/DID.car	the accounts' repositories at their hosts, if HOSTS is above 0
 *	planted		DID, what was planted (missing, other, extra), collection and key: where archive and repository differ
 *
 * The first half of the events are the records of one repository after another, as a server reads them when it begins. Then
 * accounts write in random order: 4 of 100 records are deleted by the account's next event, 6 are changed, and 1 event of
 * 100 is about an account or its handle.  With SUBJECTS, records name so many accounts, some much more often than others.  Nothing is compacted.  The same arguments give the same bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/archive/segment_header.h"
#include "core/archive/segment_name.h"
#include "core/syntax/tid.h"
#include "made_block.h"
#include "made_repo.h"

#define BLOCK_ROWS		4096
#define SEGMENT_BLOCKS	100
#define BLOCK_ROOM		(BLOCK_ROWS * 1024)
#define START			INT64_C(1767225600000000)	/* microseconds */
#define IDENTITY_BIT	MADE_COLLECTIONS	/* in the index, after the collections */
#define ACCOUNT_BIT		(MADE_COLLECTIONS + 1)

typedef struct Account
{
	uint32_t	events;
	uint32_t	records;
	uint32_t	pending;		/* the record that the next event deletes or changes, counted from 1; 0: none */
} Account;

typedef enum Fate
{
	KEPT,
	CHANGED,
	DELETED
} Fate;

typedef enum Planted
{
	NOTHING,
	MISSING,					/* in the repository alone */
	OTHER,						/* the archive has a record of other contents */
	EXTRA						/* in the archive alone */
} Planted;

static const char *const planted_words[] = {"", "missing", "other", "extra"};

typedef struct BlockEntry
{
	uint64_t	offset;
	size_t		len;
	size_t		content_len;
	size_t		nrows;
	uint64_t	min_seq;
	uint64_t	max_seq;
	unsigned	mask;
} BlockEntry;

/* Texts of a row. */
typedef struct RowTexts
{
	char		did[MADE_DID_LEN + 1];
	char		rkey[ATP_TID_TEXT];
	char		rev[ATP_TID_TEXT];
	uint8_t		payload[MADE_RECORD_MAX];
} RowTexts;

static uint64_t naccounts;
static uint64_t nplanted;
static uint64_t first_records;	/* records of each account before its own events */
static Account *accounts;
static const char *dir;

static AtpArchiveRow rows[BLOCK_ROWS];
static RowTexts texts[BLOCK_ROWS];
static size_t nrows;
static uint64_t seq;
static unsigned mask;

static FILE *segment;
static uint64_t segment_number;
static BlockEntry blocks[SEGMENT_BLOCKS];
static size_t nblocks;
static FILE *list;
static uint8_t *content;
static uint8_t *frame;

static FILE *
open_file(const char *name)
{
	char		path[4096];
	FILE	   *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "wb");
	if (f == NULL)
		made_die("cannot create a file");
	return f;
}

static void
close_file(FILE *f)
{
	int			failed = ferror(f);

	if (fclose(f) != 0 || failed)
		made_die("cannot write a file");
}

static MadeCollection
collection_of(uint64_t account, uint32_t record)
{
	uint64_t	n = made_mix(account, record) % 100;

	return n < 50 ? MADE_LIKE : n < 75 ? MADE_POST : n < 99 ? MADE_FOLLOW : MADE_RECIPE;
}

static Fate
fate_of(uint64_t account, uint32_t record)
{
	uint64_t	n = record < first_records ? 100 : made_mix(account, record) / 100 % 100;

	return n < 4 ? DELETED : n < 10 ? CHANGED : KEPT;
}

/* The planted changes concern the first record of accounts at equal distances. */
static Planted
planted_at(uint64_t account, uint32_t record)
{
	uint64_t	distance = nplanted > 0 ? naccounts / nplanted : 0;

	if (record > 0 || distance == 0 || account % distance != 0 || account / distance >= nplanted)
		return NOTHING;
	return (Planted) (MISSING + account / distance % 3);
}

static uint64_t
tid(uint64_t n)
{
	return MADE_FIRST_TID + n * MADE_TID_STEP;
}

/* ------------------------------------------------------------------------
 * Segments
 * ------------------------------------------------------------------------
 */

static void
end_segment(void)
{
	uint8_t		header[ATP_SEGMENT_HEADER_LEN] = {'j', 's', 's', '0'};
	char		name[ATP_SEGMENT_NAME_LEN + 1] = {0};
	uint8_t    *out = header + 4;
	uint64_t	footer = blocks[nblocks - 1].offset + 8 + blocks[nblocks - 1].len;
	uint64_t	end = footer + 52 * nblocks;
	uint64_t	total = 0;

	for (size_t i = 0; i < nblocks; i++)
	{
		uint8_t		entry[52];
		uint8_t    *to = entry;

		made_put_le(&to, blocks[i].offset, 8);
		made_put_le(&to, blocks[i].len, 4);
		made_put_le(&to, blocks[i].content_len, 4);
		made_put_le(&to, blocks[i].nrows, 4);
		made_put_le(&to, blocks[i].min_seq, 8);
		made_put_le(&to, blocks[i].max_seq, 8);
		made_put_le(&to, (uint64_t) START + blocks[i].min_seq * 2000, 8);
		made_put_le(&to, (uint64_t) START + blocks[i].max_seq * 2000, 8);
		fwrite(entry, 1, sizeof(entry), segment);
		total += blocks[i].nrows;
	}
	/* no reader that is measured here looks at checksums, filters and the collections of a segment: they are left out */
	made_put_le(&out, segment_number + 1, 8);
	made_put_le(&out, 1, 2);
	made_put_le(&out, nblocks, 4);
	made_put_le(&out, total, 4);
	made_put_le(&out, 0, 4);
	made_put_le(&out, blocks[0].min_seq, 8);
	made_put_le(&out, blocks[nblocks - 1].max_seq, 8);
	made_put_le(&out, (uint64_t) START + blocks[0].min_seq * 2000, 8);
	made_put_le(&out, (uint64_t) START + blocks[nblocks - 1].max_seq * 2000, 8);
	made_put_le(&out, footer, 8);
	made_put_le(&out, end, 8);
	made_put_le(&out, end, 8);
	made_put_le(&out, end, 8);
	made_put_le(&out, footer, 8);
	if (fseek(segment, 0, SEEK_SET) != 0)
		made_die("cannot write a segment");
	fwrite(header, 1, sizeof(header), segment);
	close_file(segment);
	segment = NULL;
	atp_segment_name_format(segment_number, name);
	fprintf(list, "segment %s %zu\n", name, nblocks);
	for (size_t i = 0; i < nblocks; i++)
		fprintf(list, "block %llu %zu %zu %llu %llu %u\n", (unsigned long long) blocks[i].offset, blocks[i].len, blocks[i].nrows,
				(unsigned long long) blocks[i].min_seq, (unsigned long long) blocks[i].max_seq, blocks[i].mask);
	segment_number++;
	nblocks = 0;
}

static void
end_block(void)
{
	BlockEntry *block = &blocks[nblocks];
	uint8_t		len[8];
	uint8_t    *to = len;

	if (nrows == 0)
		return;
	if (segment == NULL)
	{
		char		name[ATP_SEGMENT_NAME_LEN + 1] = {0};
		uint8_t		header[ATP_SEGMENT_HEADER_LEN] = {0};

		atp_segment_name_format(segment_number, name);
		segment = open_file(name);
		fwrite(header, 1, sizeof(header), segment);
	}
	*block = (BlockEntry) {.offset = (uint64_t) ftell(segment), .nrows = nrows, .min_seq = rows[0].seq, .max_seq = rows[nrows - 1].seq, .mask = mask};
	block->content_len = made_block_columns(rows, nrows, content);
	block->len = made_block_frame(content, block->content_len, frame);
	made_put_le(&to, block->len, 8);
	fwrite(len, 1, sizeof(len), segment);
	fwrite(frame, 1, block->len, segment);
	nrows = 0;
	mask = 0;
	if (++nblocks == SEGMENT_BLOCKS)
		end_segment();
}

/* ------------------------------------------------------------------------
 * Events
 * ------------------------------------------------------------------------
 */

/* A row of the account, with its number, time and rev. */
static AtpArchiveRow *
begin_row(uint64_t account, AtpArchiveKind kind)
{
	AtpArchiveRow *row = &rows[nrows];
	RowTexts   *t = &texts[nrows];

	seq++;
	made_spread_did(account, t->did);
	*row = (AtpArchiveRow) {.seq = seq, .witnessed_at = START + (int64_t) seq * 2000, .kind = kind, .did = {t->did, MADE_DID_LEN}};
	return row;
}

static void
end_row(void)
{
	if (++nrows == BLOCK_ROWS)
		end_block();
}

static void
add_record(uint64_t account, uint32_t record, AtpArchiveKind kind, uint64_t rev, uint64_t version)
{
	AtpArchiveRow *row = begin_row(account, kind);
	RowTexts   *t = &texts[nrows];
	MadeCollection collection = collection_of(account, record);
	uint64_t	state = made_mix(account, record) + version;
	AtpCborWriter w = {.buf = t->payload, .cap = sizeof(t->payload)};

	row->collection = (AtpSpan) {made_collections[collection], strlen(made_collections[collection])};
	atp_tid_format(tid(record), t->rkey);
	row->rkey = (AtpSpan) {t->rkey, ATP_TID_TEXT};
	atp_tid_format(rev, t->rev);
	row->rev = (AtpSpan) {t->rev, ATP_TID_TEXT};
	if (kind != ATP_ARCHIVE_DELETE)
	{
		made_record(&w, collection, &state);
		row->payload = (AtpBytes) {t->payload, w.len};
	}
	mask |= 1u << collection;
	end_row();
}

/* #identity or #account, as a message of subscribeRepos. */
static void
add_marker(uint64_t account, bool is_identity)
{
	AtpArchiveRow *row = begin_row(account, is_identity ? ATP_ARCHIVE_IDENTITY : ATP_ARCHIVE_ACCOUNT);
	RowTexts   *t = &texts[nrows];
	AtpCborWriter w = {.buf = t->payload, .cap = sizeof(t->payload)};
	char		handle[64];

	atp_cbor_put_map(&w, 4);
	atp_cbor_put_key(&w, "did");
	atp_cbor_put_key(&w, t->did);
	atp_cbor_put_key(&w, "seq");
	atp_cbor_put_uint(&w, seq);
	atp_cbor_put_key(&w, "time");
	atp_cbor_put_key(&w, "2026-01-01T00:00:00.000Z");
	if (is_identity)
	{
		snprintf(handle, sizeof(handle), "a%llu.example.com", (unsigned long long) account);
		atp_cbor_put_key(&w, "handle");
		atp_cbor_put_key(&w, handle);
	}
	else
	{
		atp_cbor_put_key(&w, "active");
		atp_cbor_put_bool(&w, true);
	}
	row->payload = (AtpBytes) {t->payload, w.len};
	mask |= 1u << (is_identity ? IDENTITY_BIT : ACCOUNT_BIT);
	end_row();
}

/* The records that the account has at first, of one rev. */
static void
add_first_records(uint64_t account, FILE *planted)
{
	Account    *a = &accounts[account];
	uint64_t	rev = tid(first_records);

	for (; a->records < first_records; a->records++)
	{
		Planted		what = planted_at(account, a->records);

		if (what != NOTHING)
		{
			char		did[MADE_DID_LEN + 1];
			char		rkey[ATP_TID_TEXT];

			made_spread_did(account, did);
			atp_tid_format(tid(a->records), rkey);
			fprintf(planted, "%s\t%s\t%s\t%.*s\n", did, planted_words[what], made_collections[collection_of(account, a->records)], ATP_TID_TEXT, rkey);
		}
		if (what != MISSING)
			add_record(account, a->records, ATP_ARCHIVE_CREATE, rev, what == OTHER ? 2 : 0);
	}
}

static void
add_event(uint64_t *state)
{
	uint64_t	account = made_number(state) % naccounts;
	Account    *a = &accounts[account];
	uint64_t	what = made_number(state) % 200;
	uint64_t	rev;

	if (what < 2)
	{
		add_marker(account, what == 0);
		return;
	}
	rev = tid(first_records + ++a->events);
	if (a->pending > 0)
	{
		uint32_t	record = a->pending - 1;

		add_record(account, record, fate_of(account, record) == DELETED ? ATP_ARCHIVE_DELETE : ATP_ARCHIVE_UPDATE, rev, 1);
		a->pending = 0;
		return;
	}
	add_record(account, a->records, ATP_ARCHIVE_CREATE, rev, 0);
	a->records++;
	if (fate_of(account, a->records - 1) != KEPT)
		a->pending = a->records;
}

/* The event after the archive, as the server's stream sends it. */
static void
write_stream(void)
{
	FILE	   *f = open_file("stream");
	char		did[MADE_DID_LEN + 1];
	char		text[1024];
	uint8_t		head[4];
	int			len;

	made_spread_did(0, did);
	len = snprintf(text, sizeof(text),
				   "{\"$type\":\"message\",\"payload\":{\"$type\":\"network.bsky.jetstream.subscribeEvents#identity\",\"seq\":%llu,\"did\":\"%s\","
				   "\"time\":\"2026-11-01T00:00:00.000000Z\",\"identity\":{\"did\":\"%s\",\"handle\":\"a0.example.com\",\"seq\":%llu,\"time\":\"2026-11-01T00:00:00.000Z\"}}}",
				   (unsigned long long) seq + 1, did, did, (unsigned long long) seq + 1);
	for (int i = 0; i < 4; i++)
		head[i] = (uint8_t) (len >> (24 - 8 * i));
	fwrite(head, 1, sizeof(head), f);
	fwrite(text, 1, (size_t) len, f);
	close_file(f);
}

/* ------------------------------------------------------------------------
 * Repositories
 * ------------------------------------------------------------------------
 */

static void
add_to_repo(MadeRepo *repo, uint64_t account, uint32_t record)
{
	bool		is_done = accounts[account].pending != record + 1;
	Fate		fate = is_done ? fate_of(account, record) : KEPT;
	uint64_t	state = made_mix(account, record) + (fate == CHANGED);

	if (fate != DELETED && planted_at(account, record) != EXTRA)
		made_repo_add(repo, collection_of(account, record), tid(record), &state);
}

static void
write_repos(uint64_t hosts)
{
	uint32_t	most = 0;
	MadeRepo   *repo;
	char		cars[4096];

	for (uint64_t account = 0; account < naccounts; account++)
		most = accounts[account].records > most ? accounts[account].records : most;
	repo = made_repo_new(most);
	snprintf(cars, sizeof(cars), "%s/cars", dir);
	(void) mkdir(cars, 0755);
	for (uint64_t account = 0; account < naccounts; account++)
	{
		char		did[MADE_DID_LEN + 1];

		made_repo_begin(repo);
		for (int collection = 0; collection < MADE_COLLECTIONS; collection++)
			for (uint32_t record = 0; record < accounts[account].records; record++)
				if (collection_of(account, record) == (MadeCollection) collection)
					add_to_repo(repo, account, record);
		made_spread_did(account, did);
		made_repo_write(repo, account, did, tid(first_records + accounts[account].events), hosts, cars);
	}
}

int
main(int argc, char **argv)
{
	uint64_t	nevents = argc >= 6 ? strtoull(argv[1], NULL, 10) : 0;
	uint64_t	hosts = argc >= 6 ? strtoull(argv[3], NULL, 10) : 0;
	uint64_t	state = 1;
	FILE	   *planted;

	naccounts = argc >= 6 ? strtoull(argv[2], NULL, 10) : 0;
	nplanted = argc >= 6 ? strtoull(argv[4], NULL, 10) : 0;
	if (nevents == 0 || naccounts == 0)
		made_die("usage: make_archive EVENTS ACCOUNTS HOSTS PLANTED DIR [SUBJECTS]");
	dir = argv[5];
	made_subjects = argc > 6 ? strtoull(argv[6], NULL, 10) : 0;
	first_records = nevents / 2 / naccounts;
	if (nplanted > 0 && (first_records < 2 || nplanted > naccounts))
		made_die("make_archive: so few records of an account cannot have planted changes");
	accounts = made_room(naccounts * sizeof(Account));
	memset(accounts, 0, naccounts * sizeof(Account));
	content = made_room(BLOCK_ROOM);
	frame = made_room(ZSTD_compressBound(BLOCK_ROOM));
	list = open_file("index");
	planted = open_file("planted");
	for (int i = 0; i < MADE_COLLECTIONS; i++)
		fprintf(list, "collection %s\n", made_collections[i]);
	for (uint64_t account = 0; account < naccounts; account++)
		add_first_records(account, planted);
	while (seq < nevents)
		add_event(&state);
	end_block();
	if (nblocks > 0)
		end_segment();
	close_file(list);
	close_file(planted);
	write_stream();
	if (hosts > 0)
		write_repos(hosts);
	return 0;
}
