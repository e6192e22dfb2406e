/*
 * export.c
 *		CAR files of whole repositories: the last commit, all nodes, all records,
 *		those of the start, too.
 */
#include "export.h"

#include "core/repo/car_write.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define SECTION_MAX	(300 * 1024)	/* a node or record, and what is before it */

static void
write_block(void *f, const uint8_t cid[ATP_CID_BLESSED_LEN], const uint8_t *block, size_t n)
{
	static uint8_t section[SECTION_MAX];
	AtpCborWriter w = {.buf = section, .cap = sizeof section};

	atp_car_put_block(&w, cid_span(cid), block, n);
	if (w.len > w.cap)
		die("a block of %zu bytes", n);
	fwrite(section, 1, w.len, f);
}

static void
write_record(FILE *f, const uint8_t digest[DIGEST_LEN], const uint8_t *block, size_t n)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];

	cid_of_digest(digest, cid);
	write_block(f, cid, block, n);
}

static void
write_car(const Network *net, const Account *a, const char *path)
{
	FILE	   *f = fopen(path, "wb");
	uint8_t		buf[512];
	AtpCborWriter w = {.buf = buf, .cap = sizeof buf};

	if (f == NULL)
		die("cannot write %s", path);
	atp_car_put_header(&w, cid_span(a->commit));
	fwrite(buf, 1, w.len, f);
	write_block(f, a->commit, a->commit_block, a->commit_len);
	tree_walk(&a->tree, write_block, f);
	for (uint32_t i = 0; i < a->history; i++)
	{
		const Leaf *old = &net->old[i].leaf;
		const uint8_t *value = tree_find(&a->tree, old);

		if (value == NULL || memcmp(value, old->value, DIGEST_LEN) != 0)
			continue;
		w.len = 0;
		old_record(old->path, &w);
		write_record(f, old->value, buf, w.len);
	}
	for (uint32_t i = 0; i < a->nrecords; i++)
		write_record(f, a->records[i].digest, a->records[i].block, a->records[i].block_len);
	if (ferror(f) || fclose(f) != 0)
		die("cannot write %s", path);
}

static void
make_directory(const char *path)
{
	if (mkdir(path, 0777) != 0 && errno != EEXIST)
		die("cannot make %s", path);
}

void
export_all(Network *net, uint64_t epoch)
{
	char		dir[3072];
	char		path[4096];

	if (net->options->exports == NULL)
		return;
	snprintf(dir, sizeof dir, "%s/%llu", net->options->exports, (unsigned long long) epoch);
	make_directory(net->options->exports);
	make_directory(dir);
	for (uint32_t i = 0; i < net->naccounts; i++)
	{
		const Account *a = &net->accounts[i];

		/* what is deleted has no repository */
		if (!a->has_commit || (a->status != NULL && strcmp(a->status, "deleted") == 0))
			continue;
		snprintf(path, sizeof path, "%s/%s.car", dir, a->did);
		write_car(net, a, path);
	}
}

void
export_if_asked(Network *net, const Account *a)
{
	const char *asked = net->options->export;
	char		rev[ATP_TID_TEXT];

	if (asked == NULL || strncmp(asked, a->did, DID_LEN) != 0)
		return;
	if (strlen(asked) < DID_LEN + ATP_TID_TEXT + 3)
		die("--export: \"%s\" is not DID,REV,FILE", asked);
	atp_tid_format(a->rev, rev);
	if (memcmp(asked + DID_LEN + 1, rev, sizeof rev) == 0)
		write_car(net, a, asked + DID_LEN + ATP_TID_TEXT + 2);
}
