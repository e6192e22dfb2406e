/*
 * made_repo.c
 *		Exports of repositories that do not exist: see made_repo.h.
 */
#include <stdio.h>
#include <sys/stat.h>

#include "core/repo/commit.h"
#include "core/syntax/tid.h"
#include "made_repo.h"
#include "core/repo/car_write.h"
#include "core/repo/commit_write.h"
#include "protocol/mst_build.h"

#define KEY_MAX		64
#define NODE_ROOM	(64 * 1024 * 1024)

typedef struct Section
{
	size_t		start;
	size_t		len;
} Section;

struct MadeRepo
{
	AtpCborWriter bytes;		/* blocks in the order in which they were made, one behind another */
	Section    *sections;
	size_t		nblocks;
	AtpMstItem *items;
	char	   *keys;
	uint8_t    *cids;
	size_t		n;				/* records */
	size_t		max;
	uint8_t    *scratch;
	uint64_t	order;			/* of the blocks */
	uint8_t		root[ATP_CID_BLESSED_LEN];
	uint8_t		commit_cid[ATP_CID_BLESSED_LEN];
};

MadeRepo *
made_repo_new(size_t records_max)
{
	MadeRepo   *repo = made_room(sizeof(MadeRepo));

	*repo = (MadeRepo) {.bytes.cap = records_max * MADE_RECORD_MAX + NODE_ROOM, .max = records_max, .order = 1};
	repo->bytes.buf = made_room(repo->bytes.cap);
	repo->sections = made_room((2 * records_max + 2) * sizeof(Section));
	repo->items = made_room(records_max * sizeof(AtpMstItem));
	repo->keys = made_room(records_max * KEY_MAX);
	repo->cids = made_room(records_max * ATP_CID_BLESSED_LEN);
	repo->scratch = made_room(NODE_ROOM);
	return repo;
}

void
made_repo_begin(MadeRepo *repo)
{
	repo->n = repo->nblocks = repo->bytes.len = 0;
}

static void
keep_block(void *ctx, const uint8_t cid[ATP_CID_BLESSED_LEN], const uint8_t *block, size_t n)
{
	MadeRepo   *repo = ctx;
	size_t		start = repo->bytes.len;

	atp_car_put_block(&repo->bytes, (AtpBytes) {cid, ATP_CID_BLESSED_LEN}, block, n);
	repo->sections[repo->nblocks++] = (Section) {start, repo->bytes.len - start};
}

void
made_repo_add(MadeRepo *repo, MadeCollection collection, uint64_t rkey, uint64_t *state)
{
	size_t		i = repo->n++;
	char	   *key = repo->keys + i * KEY_MAX;
	uint8_t    *cid = repo->cids + i * ATP_CID_BLESSED_LEN;
	size_t		len = strlen(made_collections[collection]);
	uint8_t		buf[MADE_RECORD_MAX];
	AtpCborWriter w = {.buf = buf, .cap = sizeof(buf)};

	if (i == repo->max)
		made_die("too many records");
	memcpy(key, made_collections[collection], len);
	key[len] = '/';
	atp_tid_format(rkey, key + len + 1);
	made_record(&w, collection, state);
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, buf, w.len, made_sha256, NULL, cid);
	keep_block(repo, cid, buf, w.len);
	repo->items[i].key = (AtpBytes) {(uint8_t *) key, len + 1 + ATP_TID_TEXT};
	repo->items[i].value = (AtpBytes) {cid, ATP_CID_BLESSED_LEN};
}

static void
write_section(FILE *f, const MadeRepo *repo, Section section)
{
	fwrite(repo->bytes.buf + section.start, 1, section.len, f);
}

/* The commit, which was made last, and then the other blocks. */
static void
write_file(const char *path, MadeRepo *repo, AtpBytes root)
{
	uint8_t		header[128];
	AtpCborWriter w = {.buf = header, .cap = sizeof(header)};
	FILE	   *f = fopen(path, "wb");
	int			failed;

	if (f == NULL)
		made_die("cannot create a file");
	atp_car_put_header(&w, root);
	fwrite(header, 1, w.len, f);
	write_section(f, repo, repo->sections[repo->nblocks - 1]);
	for (size_t left = repo->nblocks - 1; left > 0; left--)
	{
		size_t		i = made_number(&repo->order) % left;

		write_section(f, repo, repo->sections[i]);
		repo->sections[i] = repo->sections[left - 1];
	}
	failed = ferror(f);
	if (fclose(f) != 0 || failed)
		made_die("cannot write a file");
}

void
made_repo_commit(MadeRepo *repo, const char *did, uint64_t rev)
{
	static const uint8_t sig[ATP_COMMIT_SIG_LEN];
	uint8_t		buf[MADE_RECORD_MAX];
	AtpCborWriter w = {.buf = buf, .cap = sizeof(buf)};

	if (atp_mst_build(repo->items, repo->n, made_sha256, NULL, repo->scratch, NODE_ROOM, keep_block, repo, repo->root) != ATP_OK)
		made_die("the tree does not fit");
	atp_commit_put(&w, &(AtpCommit) {.did = {did, strlen(did)}, .data = made_repo_root(repo), .sig = {sig, sizeof(sig)}, .rev = rev});
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, buf, w.len, made_sha256, NULL, repo->commit_cid);
	keep_block(repo, repo->commit_cid, buf, w.len);
	if (repo->bytes.len > repo->bytes.cap)
		made_die("the blocks do not fit");
}

size_t
made_repo_records(const MadeRepo *repo)
{
	return repo->n;
}

size_t
made_repo_blocks(const MadeRepo *repo)
{
	return repo->nblocks;
}

AtpBytes
made_repo_section(const MadeRepo *repo, size_t block)
{
	return (AtpBytes) {repo->bytes.buf + repo->sections[block].start, repo->sections[block].len};
}

AtpMstLeaf
made_repo_record(const MadeRepo *repo, size_t record)
{
	return (AtpMstLeaf) {.key = repo->items[record].key, .value = repo->items[record].value};
}

AtpBytes
made_repo_root(const MadeRepo *repo)
{
	return (AtpBytes) {repo->root, sizeof(repo->root)};
}

AtpBytes
made_repo_commit_cid(const MadeRepo *repo)
{
	return (AtpBytes) {repo->commit_cid, sizeof(repo->commit_cid)};
}

void
made_repo_write(MadeRepo *repo, uint64_t account, const char *did, uint64_t rev, uint64_t hosts, const char *dir)
{
	char		path[4096];

	made_repo_commit(repo, did, rev);
	snprintf(path, sizeof(path), "%s/h%llu.localhost", dir, (unsigned long long) (account % hosts));
	(void) mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/h%llu.localhost/%s.car", dir, (unsigned long long) (account % hosts), did);
	write_file(path, repo, made_repo_commit_cid(repo));
}
