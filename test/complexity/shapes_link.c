/*
 * shapes_link.c
 *		What is read of a single block: a commit's signature, a record's links.
 */
#include "core/repo/car_push.h"
#include "core/repo/link.h"
#include "core/repo/sig.h"
#include "core/wire/repos_message.h"
#include "measure.h"

static const uint8_t signature[32];

static void
make_signed(size_t n)
{
	atp_cbor_put_map(&input, 1 + n);
	atp_cbor_put_key(&input, "sig");
	atp_cbor_put_bytes(&input, signature, sizeof(signature));
	for (size_t i = 0; i < n; i++)
	{
		putf("\x68%08zu", i);
		atp_cbor_put_null(&input);
	}
}

static bool
run_signed(void)
{
	uint8_t    *buf = malloc(input.len);
	AtpCborWriter w = {.buf = buf, .cap = input.len};
	AtpBytes	sig;
	size_t		at;
	bool		good = atp_sig_cut(input.buf, input.len, true, &w, &sig, &at) == ATP_OK && sig.len == 32;

	free(buf);
	return good;
}

static void
make_links(size_t n)
{
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
		atp_cbor_put_key(&input, "did:web:a.b");
}

/* Elements with types. */
static void
make_links_types(size_t n)
{
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
	{
		atp_cbor_put_map(&input, 2);
		atp_cbor_put_key(&input, "a");
		atp_cbor_put_key(&input, "did:web:a.b");
		atp_cbor_put_key(&input, "$type");
		atp_cbor_put_key(&input, "a.b.c#d");
	}
}

/* Elements in elements, whose types stand behind their members. */
static void
make_links_nested(size_t n)
{
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
	{
		for (int depth = 1; depth < ATP_CBOR_DEPTH_MAX - 2; depth += 2)
		{
			atp_cbor_put_map(&input, 2);
			atp_cbor_put_key(&input, "a");
			atp_cbor_put_array(&input, 1);
		}
		atp_cbor_put_key(&input, "did:web:a.b");
		for (int depth = 1; depth < ATP_CBOR_DEPTH_MAX - 2; depth += 2)
		{
			atp_cbor_put_key(&input, "$type");
			atp_cbor_put_key(&input, "b");
		}
	}
}

/* A long name, with many links below. */
static void
make_links_name(size_t n)
{
	static char slashes[ATP_CAR_BLOCK_MAX];

	memset(slashes, '/', sizeof(slashes));
	atp_cbor_put_map(&input, 1);
	atp_cbor_put_text(&input, slashes, n);
	make_links(n / 16);
}

static void
count_link(AtpLinkWalk *walk, AtpSpan target, const AtpUri *uri)
{
	++*(size_t *) walk->arg;
}

static bool
run_links(void)
{
	static AtpLinkWalk walk;
	AtpLinkType *types;
	size_t		found = 0;
	size_t		count;
	size_t		at;
	AtpErr		err = atp_link_types(input.buf, input.len, NULL, 0, NULL, &count, &at);

	types = malloc(count * sizeof(AtpLinkType) + 1);
	if (err == ATP_OK)
		err = atp_link_types(input.buf, input.len, types, count, NULL, &count, &at);
	atp_link_walk_begin(&walk, count_link, &found);
	if (err == ATP_OK)
		atp_link_walk_items(&walk, input.buf, input.len, types);
	free(types);
	return (err == ATP_OK || parts == 0) && found + walk.deeper <= parts;
}

const Shape link_shapes[] = {
	{"signed", (ATP_BLOCKS_MAX - 64) / 10, 8192, make_signed, run_signed},
	{"links", ATP_CAR_BLOCK_MAX / 12 - 1, 4096, make_links, run_links},
	{"links-types", ATP_CAR_BLOCK_MAX / 30, 2048, make_links_types, run_links},
	{"links-nested", ATP_CAR_BLOCK_MAX / 840, 64, make_links_nested, run_links},
	{"links-name", ATP_CAR_BLOCK_MAX / 2, 65536, make_links_name, run_links},
	{NULL}
};
