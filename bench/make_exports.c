/*
 * make_exports.c
 *		Exports of repositories that do not exist: make_exports FIRST COUNT RECORDS
 *		HOSTS DIR writes those of COUNT accounts, from the FIRST on, as
 *		DIR/hN.localhost/DID.car, N from 0 to HOSTS - 1.
 *
 * Half of the records are likes, the others posts and follows: 350 bytes each with
 * its part of the tree.  Blocks come in random order after the commit, which is
 * not signed.  The same arguments give the same bytes.
 */
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/repo/commit.h"
#include "core/syntax/tid.h"
#include "protocol/car_write.h"
#include "protocol/commit_write.h"
#include "protocol/mst_build.h"

#define DID_LEN		32
#define KEY_MAX		64
#define RECORD_MAX	512
#define FIRST_TID	UINT64_C(0x18a0000000000000)
#define TID_STEP	(UINT64_C(977) << 20)
#define NODE_ROOM	(64 * 1024 * 1024)

typedef struct Section
{
	size_t		start;
	size_t		len;
} Section;

/* Sections in the order in which they were made, one behind the other. */
typedef struct Blocks
{
	AtpCborWriter bytes;
	Section    *list;
	size_t		n;
} Blocks;

static uint64_t state = 1;

static void
die(const char *what)
{
	fprintf(stderr, "make_exports: %s\n", what);
	exit(1);
}

static void *
room(size_t n)
{
	void	   *p = malloc(n);

	if (p == NULL)
		die("out of memory");
	return p;
}

/* splitmix64 */
static uint64_t
number(void)
{
	uint64_t	z = state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static void
sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
	SHA256(data, len, out);
}

static void
keep_block(void *ctx, const uint8_t cid[ATP_CID_BLESSED_LEN], const uint8_t *block, size_t n)
{
	Blocks	   *b = ctx;
	size_t		start = b->bytes.len;

	atp_car_put_block(&b->bytes, (AtpBytes) {cid, ATP_CID_BLESSED_LEN}, block, n);
	b->list[b->n++] = (Section) {start, b->bytes.len - start};
}

static void
write_did(uint64_t account, char did[DID_LEN + 1])
{
	static const char alphabet[] = "234567abcdefghijklmnopqrstuvwxyz";

	memcpy(did, "did:plc:", 8);
	for (int i = 8; i < DID_LEN; i++, account >>= 5)
		did[i] = alphabet[account & 31];
	did[DID_LEN] = '\0';
}

/* What somebody else has written, or is. */
static void
put_subject(AtpCborWriter *w)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN] = {1, ATP_CID_CODEC_DAG_CBOR, ATP_CID_SHA2_256, 32};
	char		did[DID_LEN + 1];
	char		rkey[ATP_TID_TEXT];
	char		uri[128];

	for (int i = 4; i < ATP_CID_BLESSED_LEN; i++)
		cid[i] = (uint8_t) number();
	write_did(number(), did);
	atp_tid_format(FIRST_TID + (number() & 0xffffffff) * 1024, rkey);
	snprintf(uri, sizeof(uri), "at://%s/app.bsky.feed.post/%.13s", did, rkey);
	atp_cbor_put_key(w, "subject");
	atp_cbor_put_map(w, 2);
	atp_cbor_put_key(w, "cid");
	atp_cbor_put_link(w, cid, sizeof(cid));
	atp_cbor_put_key(w, "uri");
	atp_cbor_put_key(w, uri);
}

static void
put_text(AtpCborWriter *w)
{
	static const char sentence[] = "The dog does not mind, for it has seen many of these foxes before, and all of them were brown. ";
	char		text[RECORD_MAX];
	int			len = snprintf(text, sizeof(text), "Number %llu: the quick brown fox jumps over the lazy dog. %.*s%s%s",
							   (unsigned long long) number(), (int) (number() % sizeof(sentence)), sentence, sentence, sentence);

	atp_cbor_put_key(w, "text");
	atp_cbor_put_text(w, text, (size_t) len);
}

static const char *const collections[] = {"app.bsky.feed.like", "app.bsky.feed.post", "app.bsky.graph.follow"};

/* Of the n-th collection.  Keys of a map come in the order of their lengths (B-11). */
static void
put_record(Blocks *b, int n, uint8_t cid[ATP_CID_BLESSED_LEN])
{
	uint8_t		buf[RECORD_MAX];
	AtpCborWriter w = {.buf = buf, .cap = sizeof(buf)};
	char		did[DID_LEN + 1];

	atp_cbor_put_map(&w, n == 1 ? 4 : 3);
	if (n == 1)
		put_text(&w);
	atp_cbor_put_key(&w, "$type");
	atp_cbor_put_key(&w, collections[n]);
	if (n == 0)
		put_subject(&w);
	else if (n == 1)
	{
		atp_cbor_put_key(&w, "langs");
		atp_cbor_put_array(&w, 1);
		atp_cbor_put_key(&w, "en");
	}
	else
	{
		write_did(number(), did);
		atp_cbor_put_key(&w, "subject");
		atp_cbor_put_key(&w, did);
	}
	atp_cbor_put_key(&w, "createdAt");
	atp_cbor_put_key(&w, "2026-01-01T00:00:00.000Z");
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, buf, w.len, sha256, NULL, cid);
	keep_block(b, cid, buf, w.len);
}

static void
write_section(FILE *f, const Blocks *b, Section section)
{
	fwrite(b->bytes.buf + section.start, 1, section.len, f);
}

/* The commit, which was made last, and then the others in random order. */
static void
write_file(const char *path, const Blocks *b, AtpBytes root)
{
	uint8_t		header[128];
	AtpCborWriter w = {.buf = header, .cap = sizeof(header)};
	FILE	   *f = fopen(path, "wb");
	int			failed;

	if (f == NULL)
		die("cannot create a file");
	atp_car_put_header(&w, root);
	fwrite(header, 1, w.len, f);
	write_section(f, b, b->list[b->n - 1]);
	for (size_t left = b->n - 1; left > 0; left--)
	{
		size_t		i = number() % left;

		write_section(f, b, b->list[i]);
		b->list[i] = b->list[left - 1];
	}
	failed = ferror(f);
	if (fclose(f) != 0 || failed)
		die("cannot write a file");
}

static void
make(uint64_t account, size_t nrecords, const char *dir, Blocks *b, AtpMstItem *items, char *keys, uint8_t *cids, uint8_t *scratch)
{
	static const uint8_t sig[ATP_COMMIT_SIG_LEN];
	uint8_t		root[ATP_CID_BLESSED_LEN];
	uint8_t		commit_cid[ATP_CID_BLESSED_LEN];
	uint8_t		buf[RECORD_MAX];
	AtpCborWriter w = {.buf = buf, .cap = sizeof(buf)};
	char		did[DID_LEN + 1];
	char		path[4096];

	b->n = b->bytes.len = 0;
	for (size_t i = 0; i < nrecords; i++)
	{
		int			n = i < nrecords / 2 ? 0 : i < nrecords / 4 * 3 ? 1 : 2;
		char	   *key = keys + i * KEY_MAX;
		size_t		len = strlen(collections[n]);

		memcpy(key, collections[n], len);
		key[len] = '/';
		atp_tid_format(FIRST_TID + i * TID_STEP, key + len + 1);
		put_record(b, n, cids + i * ATP_CID_BLESSED_LEN);
		items[i].key = (AtpBytes) {(uint8_t *) key, len + 1 + ATP_TID_TEXT};
		items[i].value = (AtpBytes) {cids + i * ATP_CID_BLESSED_LEN, ATP_CID_BLESSED_LEN};
	}
	if (atp_mst_build(items, nrecords, sha256, NULL, scratch, NODE_ROOM, keep_block, b, root) != ATP_OK)
		die("the tree does not fit");
	write_did(account, did);
	atp_commit_put(&w, &(AtpCommit) {
				   .did = {did, DID_LEN}, .data = {root, sizeof(root)}, .sig = {sig, sizeof(sig)},
				   .rev = FIRST_TID + nrecords * TID_STEP
				   });
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, buf, w.len, sha256, NULL, commit_cid);
	keep_block(b, commit_cid, buf, w.len);
	if (b->bytes.len > b->bytes.cap)
		die("the blocks do not fit");
	snprintf(path, sizeof(path), "%s/%s.car", dir, did);
	write_file(path, b, (AtpBytes) {commit_cid, sizeof(commit_cid)});
}

int
main(int argc, char **argv)
{
	uint64_t	first = argc == 6 ? strtoull(argv[1], NULL, 10) : 0;
	uint64_t	count = argc == 6 ? strtoull(argv[2], NULL, 10) : 0;
	size_t		nrecords = argc == 6 ? strtoul(argv[3], NULL, 10) : 0;
	uint64_t	hosts = argc == 6 ? strtoull(argv[4], NULL, 10) : 0;
	Blocks		b = {.bytes = {.cap = nrecords * RECORD_MAX + NODE_ROOM}};
	AtpMstItem *items;
	char	   *keys;
	uint8_t    *cids;
	uint8_t    *scratch = room(NODE_ROOM);

	if (hosts == 0 || nrecords == 0)
		die("usage: make_exports FIRST COUNT RECORDS HOSTS DIR");
	b.bytes.buf = room(b.bytes.cap);
	b.list = room((2 * nrecords + 2) * sizeof(Section));
	items = room(nrecords * sizeof(AtpMstItem));
	keys = room(nrecords * KEY_MAX);
	cids = room(nrecords * ATP_CID_BLESSED_LEN);
	for (uint64_t i = first; i < first + count; i++)
	{
		char		dir[4000];

		snprintf(dir, sizeof(dir), "%s/h%llu.localhost", argv[5], (unsigned long long) (i % hosts));
		(void) mkdir(dir, 0755);
		make(i, nrecords, dir, &b, items, keys, cids, scratch);
	}
	return 0;
}
