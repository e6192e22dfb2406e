/*
 * expect.c
 *		Writes what the stream must leave in tables, from the simulator's own
 *		state: it has never looked at a message.  Lines are those of
 *		test/oracle/expect.py: COPY's text format, sorted bytewise.
 */
#include "expect.h"

#include "sign.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static FILE *
open_file(const Network *net, const char *name)
{
	char		path[4096];
	FILE	   *f;

	snprintf(path, sizeof path, "%s/%s", net->options->expect, name);
	if ((f = fopen(path, "w")) == NULL)
		die("cannot write %s", path);
	return f;
}

static void
close_file(const Network *net, FILE *f)
{
	if (ferror(f) || fclose(f) != 0)
		die("cannot write into %s", net->options->expect);
}

static void
put_cid(FILE *f, const uint8_t cid[ATP_CID_BLESSED_LEN])
{
	char		text[ATP_CID_TEXT_MAX];

	fwrite(text, 1, atp_cid_format(cid, ATP_CID_BLESSED_LEN, text), f);
}

static void
put_digest(FILE *f, const uint8_t digest[DIGEST_LEN])
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];

	cid_of_digest(digest, cid);
	put_cid(f, cid);
}

static void
put_tid(FILE *f, uint64_t tid)
{
	char		text[ATP_TID_TEXT];

	atp_tid_format(tid, text);
	fwrite(text, 1, sizeof text, f);
}

/* JSON has no tabs and newlines any more, only backslashes. */
static void
put_json(FILE *f, const char *json)
{
	for (; *json != '\0'; json++)
	{
		if (*json == '\\')
			putc_unlocked('\\', f);
		putc_unlocked(*json, f);
	}
}

static int
by_path(const void *a, const void *b)
{
	return strcmp(((const Record *) a)->path, ((const Record *) b)->path);
}

static int
by_did(const void *a, const void *b)
{
	return strcmp((*(Account *const *) a)->did, (*(Account *const *) b)->did);
}

/* did, collection, rkey, cid, rev, JSON */
static void
put_records(FILE *f, Account *a)
{
	if (a->nrecords > 0)
		qsort(a->records, a->nrecords, sizeof(Record), by_path);
	for (uint32_t i = 0; i < a->nrecords; i++)
	{
		const Record *record = &a->records[i];
		int			len = (int) strcspn(record->path, "/");

		fprintf(f, "%s\t%.*s\t%s\t", a->did, len, record->path, record->path + len + 1);
		put_digest(f, record->digest);
		putc_unlocked('\t', f);
		put_tid(f, record->rev);
		putc_unlocked('\t', f);
		put_json(f, record->json);
		putc_unlocked('\n', f);
	}
}

/* did, rev, commit, data, active, status, handle */
static void
put_repo(FILE *f, const Account *a)
{
	if (!a->is_seen)
		return;
	fprintf(f, "%s\t", a->did);
	if (a->has_commit)
	{
		put_tid(f, a->rev);
		putc_unlocked('\t', f);
		put_cid(f, a->commit);
		putc_unlocked('\t', f);
		put_cid(f, a->data);
	}
	else
		fputs("\\N\t\\N\t\\N", f);
	fprintf(f, "\t%c\t%s\t%s\n", a->active ? 't' : 'f', a->status == NULL ? "\\N" : a->status,
			a->handle[0] == '\0' ? "\\N" : a->handle);
}

/* did, records at the start, key */
static void
put_account(FILE *f, const Account *a)
{
	uint8_t		key[PUBLIC_KEY_LEN];

	public_key(a, key);
	fprintf(f, "%s\t%u\t", a->did, a->history);
	for (size_t i = 0; i < sizeof key; i++)
		fprintf(f, "%02x", key[i]);
	putc_unlocked('\n', f);
}

static void
write_accounts(const Network *net)
{
	FILE	   *records = open_file(net, "record");
	FILE	   *repos = open_file(net, "repo");
	FILE	   *accounts = open_file(net, "account");
	Account   **sorted = xcalloc(net->naccounts, sizeof(Account *));

	for (uint32_t i = 0; i < net->naccounts; i++)
		sorted[i] = &net->accounts[i];
	qsort(sorted, net->naccounts, sizeof *sorted, by_did);
	for (uint32_t i = 0; i < net->naccounts; i++)
	{
		put_records(records, sorted[i]);
		put_repo(repos, sorted[i]);
		put_account(accounts, sorted[i]);
	}
	free(sorted);
	close_file(net, records);
	close_file(net, repos);
	close_file(net, accounts);
}

static void
write_events(const Network *net)
{
	FILE	   *f = open_file(net, "events");
	const struct
	{
		const char *line;
		uint64_t	count;
	}			rows[] = {
		{"message\t#account", net->nmessages[ATP_REPOS_ACCOUNT]},
		{"message\t#commit", net->nmessages[ATP_REPOS_COMMIT]},
		{"message\t#identity", net->nmessages[ATP_REPOS_IDENTITY]},
		{"message\t#sync", net->nmessages[ATP_REPOS_SYNC]},
		{"op\tcreate", net->nops[ATP_CREATE]},
		{"op\tdelete", net->nops[ATP_DELETE]},
		{"op\tupdate", net->nops[ATP_UPDATE]}
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
	{
		if (rows[i].count > 0)
			fprintf(f, "%s\t%llu\n", rows[i].line, (unsigned long long) rows[i].count);
	}
	close_file(net, f);
}

/* path, cid */
static void
write_history(const Network *net)
{
	FILE	   *f = open_file(net, "history");

	for (uint64_t i = 0; i < net->options->history; i++)
	{
		fprintf(f, "%s\t", net->old[i].leaf.path);
		put_digest(f, net->old[i].leaf.value);
		putc_unlocked('\n', f);
	}
	close_file(net, f);
}

void
expect_write(const Network *net)
{
	if (mkdir(net->options->expect, 0777) != 0 && errno != EEXIST)
		die("cannot make %s", net->options->expect);
	write_accounts(net);
	write_events(net);
	write_history(net);
}
