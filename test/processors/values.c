/*
 * values.c
 *		Prints what src/core computes of the test vectors and of the fuzzers' inputs: stored forms, sort keys,
 *		orders, images of jsonb.  test/processors/run compares the lines of two processors.
 *
 * A line that begins with "native" may differ on a processor with another byte order: jsonb is stored in the
 * processor's order by PostgreSQL, too.
 */
#include <inttypes.h>

#include "core/codec/cid.h"
#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/tid.h"
#include "core/syntax/uri.h"
#include "data/jsonb_image.h"
#include "unit.h"

#define INTEROP		"data/vectors/interop/"
#define DERIVED		"data/vectors/derived/"
#define VALUES_MAX	4096

typedef struct Value
{
	uint8_t		bytes[ATP_URI_MAX + 1];
	size_t		len;
} Value;

typedef int (*Compare) (const uint8_t *a, size_t an, const uint8_t *b, size_t bn);

static Value *values;
static size_t nvalues;
static size_t lines;

static void
say(const char *kind, const char *text, size_t n, const uint8_t *stored, size_t len, uint64_t key)
{
	printf("%s %.*s ", kind, (int) n, text);
	for (size_t i = 0; i < len; i++)
		printf("%02x", stored[i]);
	printf(" %016" PRIx64 "\n", key);
	lines++;
}

/* Also remembers the value for its place in the order. */
static Value *
new_value(void)
{
	if (nvalues == VALUES_MAX)
	{
		fprintf(stderr, "too many values\n");
		exit(2);
	}
	return &values[nvalues++];
}

/* How many of the values are less than each of them. */
static void
say_order(const char *kind, Compare compare)
{
	for (size_t i = 0; i < nvalues; i++)
	{
		size_t		less = 0;

		for (size_t k = 0; k < nvalues; k++)
			less += compare(values[k].bytes, values[k].len, values[i].bytes, values[i].len) < 0;
		printf("order of %s %zu: %zu\n", kind, i, less);
	}
	nvalues = 0;
}

static void
tid(const char *s, size_t n)
{
	uint64_t	tid;
	size_t		at;

	if (atp_tid_parse(s, n, &tid, &at) == ATP_OK)
		say("tid", s, n, NULL, 0, tid);
}

static void
did(const char *s, size_t n)
{
	size_t		at;
	Value	   *v;

	if (atp_did_check(s, n, &at) != ATP_OK)
		return;
	v = new_value();
	v->len = atp_did_store(s, n, v->bytes);
	say("did", s, n, v->bytes, v->len, atp_did_abbrev(v->bytes, v->len));
}

static void
rkey(const char *s, size_t n)
{
	size_t		at;
	Value	   *v;

	if (atp_rkey_check(s, n, &at) != ATP_OK)
		return;
	v = new_value();
	v->len = atp_rkey_store(s, n, v->bytes);
	say("rkey", s, n, v->bytes, v->len, atp_rkey_abbrev(v->bytes, v->len));
}

static void
uri(AtpScheme scheme, const char *kind, const char *s, size_t n)
{
	char		text[ATP_URI_MAX];
	size_t		len;
	size_t		at;
	Value	   *v;

	if (n > ATP_URI_MAX || atp_uri_normalize(scheme, s, n, text, &len, &at) != ATP_OK)
		return;
	v = new_value();
	v->len = atp_uri_store(scheme, text, len, v->bytes);
	say(kind, text, len, v->bytes, v->len, atp_uri_abbrev(v->bytes, v->len));
}

static void
aturi(const char *s, size_t n)
{
	uri(ATP_SCHEME_AT, "aturi", s, n);
}

static void
noshuri(const char *s, size_t n)
{
	uri(ATP_SCHEME_NOSH, "noshuri", s, n);
}

static void
handle(const char *s, size_t n)
{
	char		text[ATP_HANDLE_MAX];
	size_t		at;

	if (atp_handle_check(s, n, &at) != ATP_OK)
		return;
	atp_handle_normalize(s, n, text);
	say("handle", s, n, (uint8_t *) text, n, 0);
}

static void
nsid(const char *s, size_t n)
{
	char		text[ATP_NSID_MAX];
	size_t		at;

	if (atp_nsid_check(s, n, &at) != ATP_OK)
		return;
	atp_nsid_normalize(s, n, text);
	say("nsid", s, n, (uint8_t *) text, n, 0);
}

static void
cid(const char *s, size_t n)
{
	uint8_t		bytes[ATP_CID_MAX];
	size_t		len;
	size_t		at;

	if (atp_cid_parse(s, n, bytes, &len, &at) == ATP_OK)
		say("cid", s, n, bytes, len, 0);
}

/* Each line of a file, up to the first tab. */
static void
each_text(const char *file, void (*of) (const char *s, size_t n))
{
	static char line[1 << 18];
	FILE	   *f = fopen(file, "rb");

	if (f == NULL)
	{
		perror(file);
		exit(2);
	}
	while (fgets(line, sizeof(line), f) != NULL)
		if (line[0] != '#')
			of(line, strcspn(line, "\t\n"));
	fclose(f);
}

/* The image of each DAG-CBOR value among the fuzzer's inputs, which replay.c describes. */
static void
say_images(const char *file)
{
	FILE	   *f = fopen(file, "rb");
	uint8_t		head[4];

	if (f == NULL)
	{
		perror(file);
		exit(2);
	}
	for (int number = 0; fread(head, 1, 4, f) == 4; number++)
	{
		size_t		length = (size_t) head[0] << 24 | (size_t) head[1] << 16 | (size_t) head[2] << 8 | head[3];
		uint8_t    *data = malloc(length + 1);
		AtpJsonbToken *tokens = malloc((length + 1) * sizeof(AtpJsonbToken));
		size_t		n;
		size_t		room;
		size_t		at;

		if (fread(data, 1, length, f) != length)
			exit(2);
		if (atp_jsonb_scan(data, length, tokens, length + 1, NULL, &n, &room, &at) == ATP_OK)
		{
			uint8_t    *image = malloc(room);
			char		name[32];

			snprintf(name, sizeof(name), "%d", number);
			say("native jsonb", name, strlen(name), image, atp_jsonb_build(tokens, image), 0);
			free(image);
		}
		free(tokens);
		free(data);
	}
	fclose(f);
}

int
main(void)
{
	values = malloc(VALUES_MAX * sizeof(Value));
	each_text(INTEROP "tid_syntax_valid.txt", tid);
	each_text(DERIVED "tid.tsv", tid);
	each_text(INTEROP "did_syntax_valid.txt", did);
	say_order("did", atp_did_cmp);
	each_text(INTEROP "recordkey_syntax_valid.txt", rkey);
	each_text(INTEROP "tid_syntax_valid.txt", rkey);
	say_order("rkey", atp_rkey_cmp);
	each_text(INTEROP "aturi_syntax_valid.txt", aturi);
	each_text(DERIVED "aturi_normalize.tsv", aturi);
	say_order("aturi", atp_uri_cmp);
	each_text(DERIVED "noshuri_classify.tsv", noshuri);
	say_order("noshuri", atp_uri_cmp);
	each_text(INTEROP "handle_syntax_valid.txt", handle);
	each_text(INTEROP "nsid_syntax_valid.txt", nsid);
	each_text(INTEROP "cid_syntax_valid.txt", cid);
	say_images("fuzz/corpus/jsonb.inputs");
	printf("%zu values\n", lines);
	return 0;
}
