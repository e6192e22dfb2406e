/*
 * shapes_answer.c
 *		Answers of hosts: lists, DID documents, name servers' answers, HTTP.
 */
#include "core/syntax/handle_txt.h"
#include "core/wire/chunked.h"
#include "core/wire/diddoc.h"
#include "core/wire/dns_txt.h"
#include "core/wire/http_head.h"
#include "core/wire/list_page.h"
#include "core/wire/repo_status.h"
#include "measure.h"

/* ------------------------------------------------------------------------
 * Answers about one repository
 * ------------------------------------------------------------------------
 */
static void
make_status(size_t n)
{
	put("{\"did\":\"" DID "\",\"active\":true,\"rev\":\"3jzfcijpj2z2a\"");
	put_times(n, ",\"st\\u0061tu\":[]");
	put("}");
}

static bool
run_status(void)
{
	AtpRepoStatus status;
	size_t		at;

	return atp_repo_status_parse(INPUT_TEXT, input.len, (AtpSpan) {DID, strlen(DID)}, &status, &at) == ATP_OK && status.has_rev;
}

/* The name of an error has escapes, and is no name that is known. */
static void
make_error(size_t n)
{
	put("{\"error\":\"");
	put_times(n, "\\u0052");
	put("\"}");
}

static bool
run_error(void)
{
	return atp_repo_refusal(INPUT_TEXT, input.len) == ATP_REPO_REFUSED;
}

/* ------------------------------------------------------------------------
 * Lists
 * ------------------------------------------------------------------------
 */
static void
make_repos(size_t n)
{
	put("{\"cursor\":\"a\",\"repos\":[{}");
	for (size_t i = 0; i < n; i++)
		put(",{\"did\":\"did:web:a.b\"}");
	put("]}");
}

/* Entries without a name are skipped. */
static void
make_repos_skipped(size_t n)
{
	put("{\"cursor\":\"a\",\"repos\":[{}");
	put_times(n, ",0");
	put("]}");
}

/* An entry with unknown members. */
static void
make_repos_members(size_t n)
{
	put("{\"cursor\":\"a\",\"repos\":[{\"did\":\"did:web:a.b\"");
	put_times(n, ",\"\\u0061\":[[]]");
	put("}]}");
}

/* Members of the page, before the list. */
static void
make_repos_page(size_t n)
{
	put("{\"cursor\":\"a\"");
	put_times(n, ",\"r\\u0065p\":[]");
	put(",\"repos\":[]}");
}

static bool
read_list(AtpListKind kind)
{
	static AtpListPage page;
	AtpListEntry entry;
	size_t		at;
	AtpErr		err = atp_list_open(&page, kind, INPUT_TEXT, input.len, &at);

	while (err == ATP_OK)
		err = atp_list_next(&page, &entry, &at);
	return err == ATP_E_JSON_END;
}

static bool
run_repos(void)
{
	return read_list(ATP_LIST_REPOS);
}

static void
make_hosts(size_t n)
{
	put("{\"hosts\":[{}");
	for (size_t i = 0; i < n; i++)
		put(",{\"hostname\":\"a.example.com:1234\",\"status\":\"active\"}");
	put("]}");
}

static bool
run_hosts(void)
{
	return read_list(ATP_LIST_HOSTS);
}

/* ------------------------------------------------------------------------
 * DID documents
 * ------------------------------------------------------------------------
 */
static void
begin_doc(const char *array)
{
	putf("{\"id\":\"%s\",\"%s\":[", DID, array);
}

static void
end_doc(bool any)
{
	input.len -= any;			/* the last comma */
	put("]}");
}

/* Keys that are no points of the curve: each is tried. */
static void
make_doc_keys(size_t n)
{
	begin_doc("verificationMethod");
	for (size_t i = 0; i < n; i++)
		put("{\"id\":\"#atproto\",\"type\":\"Multikey\",\"controller\":\"" DID
			"\",\"publicKeyMultibase\":\"zQ3shunBKsXixLxKtC5qeSG9E4J5RkGN57im31pcTzbNQnm5w\"},");
	end_doc(n > 0);
}

static void
make_doc_services(size_t n)
{
	begin_doc("service");
	put_times(n, "{\"id\":\"\\u0023atproto_pds\",\"type\":\"\"},");
	end_doc(n > 0);
}

static void
make_doc_empty_services(size_t n)
{
	begin_doc("service");
	put_times(n, "{},");
	end_doc(n > 0);
}

static void
make_doc_aliases(size_t n)
{
	begin_doc("alsoKnownAs");
	put_times(n, "\"at://\\u0061.1\",");
	end_doc(n > 0);
}

static void
make_doc_members(size_t n)
{
	begin_doc("\\u0069d_");
	put("0]");
	put_times(n, ",\"\\u0069D\":0");
	put("}");
}

static bool
no_point(void *ctx, AtpCurve curve, const uint8_t *point, size_t n)
{
	return false;
}

static bool
run_doc(void)
{
	AtpDidDoc	doc;
	size_t		at;

	return atp_diddoc_parse(INPUT_TEXT, input.len, (AtpSpan) {DID, strlen(DID)}, no_point, NULL, &doc, &at) == ATP_OK;
}

/* ------------------------------------------------------------------------
 * Answers of name servers
 * ------------------------------------------------------------------------
 */
#define DNS_MAX		65535
#define POINTERS	8000		/* a pointer reaches the first 16 kB */

static void
put_number(unsigned n)
{
	atp_cbor_put_raw(&input, (uint8_t[2]) {(uint8_t) (n >> 8), (uint8_t) n}, 2);
}

/* The head, with one question, for "a.b". */
static void
begin_dns(size_t records)
{
	put_number(1);
	put_number(0x8180);
	put_number(1);
	put_number((unsigned) records);
	put_number(0);
	put_number(0);
	atp_cbor_put_raw(&input, (const uint8_t *) "\1a\1b", 5);
	put_number(16);
	put_number(1);
}

/* name: the offset of the record's name. */
static void
put_record(unsigned name, unsigned type, const void *data, size_t n)
{
	put_number(0xc000 | name);
	put_number(type);
	put_number(1);
	put_number(0);
	put_number(0);
	put_number((unsigned) n);
	atp_cbor_put_raw(&input, data, n);
}

static void
make_dns_records(size_t n)
{
	begin_dns(n);
	while (n-- > 0)
		put_record(12, 16, "", 1);
}

/* One record of empty strings. */
static void
make_dns_strings(size_t n)
{
	static const uint8_t strings[DNS_MAX];

	begin_dns(1);
	put_record(12, 16, strings, n + 1);
}

/* Names of other records, of 127 labels each. */
static void
make_dns_names(size_t n)
{
	begin_dns(n);
	while (n-- > 0)
	{
		for (int i = 0; i < 126; i++)
			put("\1x");
		atp_cbor_put_raw(&input, (const uint8_t *) "\0\0\20\0\1\0\0\0\0\0\1", 12);
	}
}

/*
 * A record has a chain of n pointers, each to the one before; the names of all other records begin at the end of the
 * chain.
 */
static void
put_pointers(size_t n, size_t records)
{
	uint8_t		chain[2 * POINTERS];
	size_t		first;

	begin_dns(1 + records);
	first = input.len + 12;
	for (size_t i = 0; i < n; i++)
	{
		size_t		to = i == 0 ? 12 : first + 2 * (i - 1);

		chain[2 * i] = (uint8_t) (0xc0 | to >> 8);
		chain[2 * i + 1] = (uint8_t) to;
	}
	put_record(12, 99, chain, 2 * n);
	while (records-- > 0)
		put_record((unsigned) (n == 0 ? 12 : first + 2 * (n - 1)), 16, "", 1);
}

static void
make_dns_pointers(size_t n)
{
	put_pointers(n, n * 3990 / POINTERS);
}

/* As many pointers as a name may have. */
static void
make_dns_chain(size_t n)
{
	put_pointers(n > 0 ? 126 : 0, n);
}

/* Aliases that lead from one to the next, the last first: each is found in a walk of its own. */
static void
make_dns_aliases(size_t n)
{
	size_t		aliases = n < 16 ? n : 16;

	begin_dns(n);
	for (size_t i = 0; i < n - aliases; i++)
		put_record(12, 99, "", 1);
	while (aliases-- > 0)
	{
		uint8_t		target[] = {1, (uint8_t) ('A' + aliases), 0};

		if (aliases == 0)
			put_record(12, 5, target, 3);
		else
		{
			atp_cbor_put_raw(&input, (uint8_t[]) {1, (uint8_t) ('A' + aliases - 1), 0, 0, 5, 0, 1, 0, 0, 0, 0, 0, 3}, 13);
			atp_cbor_put_raw(&input, target, 3);
		}
	}
}

static AtpHandleTxt txt;

static void
take_txt(void *arg, const char *s, size_t n, bool first)
{
	atp_handle_txt_string(&txt, s, n, first);
}

static void
read_dns(bool *good)
{
	unsigned	records;

	atp_handle_txt_begin(&txt);
	*good = atp_dns_txt_read(input.buf, input.len, "a.b", take_txt, NULL, &records) && input.len <= DNS_MAX;
	(void) atp_handle_txt_end(&txt);
}

static bool
run_dns(void)
{
	bool		good;

	read_dns(&good);
	return good;
}

/* Long chains of pointers may be refused. */
static bool
run_dns_any(void)
{
	bool		good;

	read_dns(&good);
	return true;
}

/* ------------------------------------------------------------------------
 * HTTP
 * ------------------------------------------------------------------------
 */
static void
make_head(size_t n)
{
	put("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n");
	put_times(n, "connection:,\n");
	put("Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
}

/* One field with many words. */
static void
make_head_words(size_t n)
{
	put("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: ");
	put_times(n, ",");
	put("Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n");
}

static bool
run_head(void)
{
	AtpHttpHead head;
	size_t		at;

	return atp_http_head_parse(INPUT_TEXT, input.len, &head, &at) == ATP_OK &&
		atp_http_is_websocket(&head, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", NULL);
}

/* A body in chunks of a single byte. */
static void
make_chunks(size_t n)
{
	put_times(n, "1\r\na\r\n");
	put("0\r\n\r\n");
}

/* in one piece, or byte by byte */
static bool
read_chunks(bool trickle)
{
	AtpChunked	c = {0};
	const uint8_t *in = input.buf;
	AtpBytes	piece;

	while (in < input.buf + input.len)
	{
		size_t		n = trickle ? 1 : (size_t) (input.buf + input.len - in);
		AtpErr		err;

		do
			err = atp_chunked_next(&c, &in, &n, &piece);
		while (err == ATP_OK && piece.len > 0);
		if (err != ATP_OK)
			return err == ATP_E_CHUNK_PADDED;	/* more framing than contents: the body is refused at its limit */
	}
	return atp_chunked_is_whole(&c);
}

static bool
run_chunks(void)
{
	return read_chunks(false);
}

static bool
run_chunks_trickle(void)
{
	return read_chunks(true);
}

const Shape answer_shapes[] = {
	{"list-repos", ATP_LIST_PAGE_MAX / 22 - 2, 4096, make_repos, run_repos},
	{"list-skipped", ATP_LIST_PAGE_MAX / 2 - 16, 32768, make_repos_skipped, run_repos},
	{"list-members", ATP_LIST_PAGE_MAX / 14 - 8, 4096, make_repos_members, run_repos},
	{"list-page", ATP_LIST_PAGE_MAX / 14 - 4, 4096, make_repos_page, run_repos},
	{"list-hosts", ATP_LIST_PAGE_MAX / 53 - 2, 2048, make_hosts, run_hosts},
	{"status-members", ATP_ANSWER_MAX / 16 - 8, 0, make_status, run_status},
	{"status-error", ATP_ANSWER_MAX / 6 - 4, 0, make_error, run_error},
	{"did-keys", ATP_DIDDOC_ENTRIES, 0, make_doc_keys, run_doc},
	{"did-services", ATP_DIDDOC_MAX / 40 - 3, 0, make_doc_services, run_doc},
	{"did-services-empty", ATP_DIDDOC_MAX / 3 - 32, 0, make_doc_empty_services, run_doc},
	{"did-aliases", ATP_DIDDOC_MAX / 16 - 8, 0, make_doc_aliases, run_doc},
	{"did-members", ATP_DIDDOC_MAX / 12 - 8, 0, make_doc_members, run_doc},
	{"dns-records", DNS_MAX / 13 - 4, 0, make_dns_records, run_dns},
	{"dns-strings", DNS_MAX - 64, 0, make_dns_strings, run_dns},
	{"dns-names", DNS_MAX / 264 - 1, 0, make_dns_names, run_dns},
	{"dns-pointers", POINTERS, 2000, make_dns_pointers, run_dns_any},
	{"dns-chain", DNS_MAX / 13 - 32, 1024, make_dns_chain, run_dns},
	{"dns-aliases", DNS_MAX / 13 - 8, 2048, make_dns_aliases, run_dns},
	{"http-fields", ATP_HTTP_HEAD_MAX / 13 - 12, 0, make_head, run_head},
	{"http-words", ATP_HTTP_HEAD_MAX - 160, 0, make_head_words, run_head},
	{"http-chunks", ATP_LIST_PAGE_MAX / 6 - 2, 32768, make_chunks, run_chunks},
	{"http-chunks-trickle", ATP_LIST_PAGE_MAX / 6 - 2, 16384, make_chunks, run_chunks_trickle},
	{NULL}
};
