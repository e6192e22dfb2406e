/*
 * fuzz_list_page.c
 *		Pages of lists, and answers about repositories: a page that is read to its end
 *		is JSON, its entries are valid, and a byte behind the end is a fault.
 *
 * Input: a byte that chooses the kind, and the text.
 */
#include <stdlib.h>

#include "core/wire/list_page.h"
#include "whole_json.h"

#define CHECK(cond)	do { if (!(cond)) abort(); } while (0)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static AtpErr
read_page(AtpListKind kind, const char *s, size_t n, size_t *entries)
{
	static AtpListPage page;
	static AtpListEntry entry;
	char		host[ATP_HOST_MAX];
	size_t		len;
	uint16_t	port;
	size_t		at = 0;
	AtpErr		err = atp_list_open(&page, kind, s, n, &at);

	*entries = 0;
	while (err == ATP_OK && (err = atp_list_next(&page, &entry, &at)) == ATP_OK)
	{
		++*entries;
		if (kind == ATP_LIST_REPOS)
			CHECK(atp_did_check(entry.name, entry.name_len, &at) == ATP_OK);
		else
			CHECK(atp_host_port_parse(entry.name, entry.name_len, host, &len, &port) &&
				  len == entry.name_len && memcmp(host, entry.name, len) == 0);
		CHECK(entry.status.len <= ATP_STATUS_MAX);
	}
	CHECK(at <= n);
	if (err == ATP_E_JSON_END)
		CHECK(page.cursor_len <= ATP_LIST_CURSOR_MAX && memchr(page.cursor, '\0', page.cursor_len) == NULL);
	return err;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char did[] = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa";
	const char *s = (const char *) data + 1;
	size_t		n = size - 1;
	size_t		entries;
	size_t		at;
	AtpRepoStatus status;
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	uint64_t	rev;
	AtpErr		err;

	if (size == 0)
		return 0;
	switch (data[0] % 4)
	{
		case 0:
		case 1:
			err = read_page(data[0] % 4 == 0 ? ATP_LIST_REPOS : ATP_LIST_HOSTS, s, n, &entries);
			if (err == ATP_E_JSON_END)
			{
				char	   *more = malloc(n + 1);
				size_t		again;

				CHECK(read_json(s, n, ATP_JSON_DEPTH_DEFAULT) == ATP_E_JSON_END);
				memcpy(more, s, n);
				more[n] = '{';
				CHECK(read_page(data[0] % 4 == 0 ? ATP_LIST_REPOS : ATP_LIST_HOSTS, more, n + 1, &again) == ATP_E_JSON_SYNTAX &&
					  again == entries);
				free(more);
			}
			break;
		case 2:
			err = atp_repo_status_parse(s, n, (AtpSpan) {did, sizeof(did) - 1}, &status, &at);
			CHECK(at <= n && (err != ATP_OK || read_json(s, n, ATP_JSON_DEPTH_DEFAULT) == ATP_E_JSON_END));
			break;
		default:
			err = atp_latest_commit_parse(s, n, cid, &rev, &at);
			CHECK(at <= n && (err != ATP_OK || read_json(s, n, ATP_JSON_DEPTH_DEFAULT) == ATP_E_JSON_END));
			CHECK(atp_repo_refusal(s, n) == ATP_REPO_REFUSED || read_json(s, n, ATP_JSON_DEPTH_DEFAULT) == ATP_E_JSON_END);
	}
	return 0;
}
