/*
 * shapes_codec.c
 *		DAG-CBOR and JSON.
 */
#include "core/codec/json_dagcbor.h"
#include "core/codec/json.h"
#include "core/packed/packed.h"
#include "core/wire/frame.h"
#include "data/jsonb_image.h"
#include "measure.h"
#include "protocol/cbor.h"

#define RECORD_MAX	ATP_FRAME_MAX

/* ------------------------------------------------------------------------
 * DAG-CBOR to jsonb
 * ------------------------------------------------------------------------
 */
static void
make_integers(size_t n)
{
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
		atp_cbor_put_uint(&input, 1);
}

static void
make_large_integers(size_t n)
{
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
		atp_cbor_put_nint(&input, UINT64_MAX);
}

/* Keys of one length, which differ at their ends. */
static void
make_keys(size_t n)
{
	atp_cbor_put_map(&input, n);
	for (size_t i = 0; i < n; i++)
	{
		putf("\x78\x40%064zu", i);
		atp_cbor_put_null(&input);
	}
}

static void
make_nested(size_t n)
{
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
	{
		for (int depth = 2; depth < ATP_CBOR_DEPTH_MAX; depth++)
			atp_cbor_put_array(&input, 1);
		atp_cbor_put_array(&input, 0);
	}
}

static void
make_nested_maps(size_t n)
{
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
	{
		for (int depth = 2; depth < ATP_CBOR_DEPTH_MAX; depth++)
		{
			atp_cbor_put_map(&input, 1);
			put("\x60");
		}
		atp_cbor_put_map(&input, 0);
	}
}

/* One text of characters of three bytes. */
static void
make_text(size_t n)
{
	static char text[RECORD_MAX];

	for (size_t i = 0; i < 3 * n; i++)
		text[i] = "\xe2\x82\xac"[i % 3];
	atp_cbor_put_text(&input, text, 3 * n);
}

static void
make_bytes(size_t n)
{
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
		put("\x41x");
}

static void
make_cids(size_t n)
{
	uint8_t		cid[36] = {1, 0x71, 0x12, 32};

	atp_cbor_put_array(&input, n);
	while (n-- > 0)
		atp_cbor_put_link(&input, cid, sizeof(cid));
}

static void
no_pause(void)
{
}

static bool
run_jsonb(void)
{
	AtpJsonbToken first[1];
	AtpJsonbToken *token;
	size_t		n;
	size_t		room;
	size_t		at;
	void	   *out;
	AtpErr		err = atp_jsonb_scan(input.buf, input.len, first, 1, no_pause, &n, &room, &at);

	if (err != ATP_OK && err != ATP_E_JSON_TOKENS)
		return false;
	token = malloc(n * sizeof(AtpJsonbToken));
	if (atp_jsonb_scan(input.buf, input.len, token, n, no_pause, &n, &room, &at) != ATP_OK)
		return false;
	out = malloc(room);
	n = atp_jsonb_build(token, out);
	free(out);
	free(token);
	return n <= room;
}

static bool
run_cbor(void)
{
	size_t		at;

	return atp_cbor_check(input.buf, input.len, ATP_CBOR_DEPTH_DEFAULT, &at) == ATP_OK;
}

/* ------------------------------------------------------------------------
 * JSON to DAG-CBOR
 * ------------------------------------------------------------------------
 */
static void
put_members(size_t n, bool falling, size_t len)
{
	put("{");
	for (size_t i = 0; i < n; i++)
		putf("%s\"%0*zu\":0", i == 0 ? "" : ",", (int) len, falling ? n - i : i);
	put("}");
}

static void
make_ascending(size_t n)
{
	put_members(n, false, 40);
}

static void
make_falling(size_t n)
{
	put_members(n, true, 40);
}

/* Keys in an order that is no order. */
static void
make_mixed(size_t n)
{
	put("{");
	for (size_t i = 0; i < n; i++)
		putf("%s\"%010u\":0", i == 0 ? "" : ",", (uint32_t) i * UINT32_C(2654435761));
	put("}");
}

/* Equal keys are a fault, which is found after sorting. */
static void
make_equal(size_t n)
{
	put("{\"b\":0,\"a\":0");
	put_times(n, ",\"a\":0");
	put("}");
}

/* Members beside each other in the innermost of 128 objects, in falling order. */
static void
make_inner(size_t n)
{
	put_times(ATP_CBOR_DEPTH_DEFAULT - 1, "{\"b\":0,\"a\":");
	put_members(n, true, 8);
	put_times(ATP_CBOR_DEPTH_DEFAULT - 1, "}");
}

/* So many objects around 4 MB of text, each with its members in falling order. */
static void
make_levels(size_t n)
{
	put_times(n, "{\"b\":0,\"a\":");
	put("\"");
	put_times(n > 0 ? 65536 : 0, "aaaaaaaaaaaaaaaa");
	put("\"");
	put_times(n, "}");
}

/* Pairs of brackets, as deep as they may be, again and again. */
static void
make_brackets(size_t n)
{
	put("[0");
	while (n-- > 0)
	{
		put(",");
		put_times(ATP_CBOR_DEPTH_DEFAULT - 1, "[");
		put_times(ATP_CBOR_DEPTH_DEFAULT - 1, "]");
	}
	put("]");
}

static void
make_escapes(size_t n)
{
	put("\"");
	put_times(n, "\\ud83d\\ude00");
	put("\"");
}

static void
make_numbers(size_t n)
{
	put("[0");
	put_times(n, ",-1e1");
	put("]");
}

static void
make_space(size_t n)
{
	put("[");
	put_times(n, " ");
	put("]");
}

static bool
convert(AtpErr wanted)
{
	size_t		room = atp_json_dagcbor_room(input.len);
	uint8_t    *buf = malloc(room);
	AtpBytes	cbor;
	size_t		at;
	AtpErr		err = atp_json_to_dagcbor(INPUT_TEXT, input.len, buf, room, &cbor, &at);

	free(buf);
	return err == wanted;
}

static bool
run_json(void)
{
	return convert(ATP_OK);
}

static bool
run_json_twice(void)
{
	return convert(parts > 0 ? ATP_E_JSON_TWICE : ATP_OK);
}

/* Exponents are no integers: the first number ends the conversion, so they are only read. */
static bool
run_json_reader(void)
{
	AtpJsonReader r;
	AtpJsonItem item;
	size_t		at;
	AtpErr		err;

	atp_json_init(&r, INPUT_TEXT, input.len, ATP_JSON_DEPTH_MAX);
	while ((err = atp_json_next(&r, &item, &at)) == ATP_OK)
		;
	return err == ATP_E_JSON_END;
}

/* ------------------------------------------------------------------------
 * the packed form
 * ------------------------------------------------------------------------
 */

/* Maps of known keys without a shape: their keys are put between the values at the end. */
static void
make_known_keys(size_t n)
{
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
	{
		atp_cbor_put_map(&input, 2);
		atp_cbor_put_key(&input, "alt");
		atp_cbor_put_uint(&input, 1);
		atp_cbor_put_key(&input, "theme");
		atp_cbor_put_uint(&input, 1);
	}
}

/* In each of many levels, all bytes inside are moved twice: for the keys, and for the length. */
static void
make_moved(size_t n)
{
	for (int depth = 1; depth < ATP_CBOR_DEPTH_MAX; depth++)
	{
		atp_cbor_put_map(&input, 1);
		atp_cbor_put_key(&input, "theme");
	}
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
		atp_cbor_put_key(&input, "app.bsky.feed.post");
}

/* Texts that look like URIs until their ends. */
static void
make_uris(size_t n)
{
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
		atp_cbor_put_key(&input, "at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3k2yihcrp6f2c");
}

/* Texts of the hash of a frequent text, which differ from the frequent text only when all bytes are compared. */
static void
make_alike(size_t n)
{
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
		atp_cbor_put_key(&input, "app.bsky.feed.lkke");
}

/* Times that only their zone, at the end, keeps from being packed. */
static void
make_times(size_t n)
{
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
		atp_cbor_put_key(&input, "2026-07-14T09:08:07.654+01:00");
}

/* Packs, checks, and reads the last member. */
static bool
run_packed(void)
{
	uint8_t    *stored = malloc(ATP_PACKED_ROOM(input.len));
	uint8_t    *scratch = malloc(ATP_PACKED_CHECK_ROOM(input.len + 1, input.len));
	size_t		n;
	size_t		at;
	AtpPackedPart		part;
	bool		found;
	bool		good = atp_packed_store((AtpBytes) {input.buf, input.len}, stored, &n, &at) == ATP_OK &&
		atp_packed_check((AtpBytes) {stored, n}, scratch, ATP_PACKED_CHECK_ROOM(input.len + 1, input.len)) == ATP_OK &&
		atp_part_whole((AtpBytes) {stored, n}, &part) == ATP_OK && atp_part_member(&part, -1, &found) == ATP_OK &&
		atp_part_key(&part, (AtpSpan) {"zzz", 3}, &found) == ATP_OK;

	free(stored);
	free(scratch);
	return good;
}

const Shape codec_shapes[] = {
	{"cbor-integers", RECORD_MAX - 8, 65536, make_integers, run_cbor},
	{"cbor-keys", RECORD_MAX / 67 - 1, 4096, make_keys, run_cbor},
	{"cbor-nested", RECORD_MAX / 127 - 1, 512, make_nested, run_cbor},
	{"cbor-text", RECORD_MAX / 3 - 8, 65536, make_text, run_cbor},
	{"jsonb-integers", RECORD_MAX - 8, 32768, make_integers, run_jsonb},
	{"jsonb-large", RECORD_MAX / 9 - 1, 8192, make_large_integers, run_jsonb},
	{"jsonb-keys", RECORD_MAX / 67 - 1, 4096, make_keys, run_jsonb},
	{"jsonb-nested", RECORD_MAX / 127 - 1, 128, make_nested, run_jsonb},
	{"jsonb-maps", RECORD_MAX / 254 - 1, 64, make_nested_maps, run_jsonb},
	{"jsonb-text", RECORD_MAX / 3 - 8, 65536, make_text, run_jsonb},
	{"jsonb-bytes", RECORD_MAX / 2 - 8, 16384, make_bytes, run_jsonb},
	{"jsonb-links", RECORD_MAX / 41 - 1, 2048, make_cids, run_jsonb},
	{"json-ascending", RECORD_MAX / 45 - 1, 4096, make_ascending, run_json},
	{"json-falling", RECORD_MAX / 45 - 1, 2048, make_falling, run_json},
	{"json-mixed", RECORD_MAX / 15 - 1, 2048, make_mixed, run_json},
	{"json-equal", RECORD_MAX / 6 - 8, 4096, make_equal, run_json_twice},
	{"json-inner", RECORD_MAX / 13 - 128, 2048, make_inner, run_json},
	{"json-levels", ATP_CBOR_DEPTH_DEFAULT, 0, make_levels, run_json},
	{"json-brackets", RECORD_MAX / 255 - 1, 128, make_brackets, run_json},
	{"json-escapes", RECORD_MAX / 12 - 8, 16384, make_escapes, run_json},
	{"json-numbers", RECORD_MAX / 5 - 8, 16384, make_numbers, run_json_reader},
	{"json-space", RECORD_MAX - 8, 131072, make_space, run_json},
	{"packed-integers", RECORD_MAX - 8, 32768, make_integers, run_packed},
	{"packed-keys", RECORD_MAX / 67 - 1, 4096, make_keys, run_packed},
	{"packed-known", RECORD_MAX / 14 - 1, 8192, make_known_keys, run_packed},
	{"packed-nested", RECORD_MAX / 127 - 1, 256, make_nested, run_packed},
	{"packed-maps", RECORD_MAX / 254 - 1, 128, make_nested_maps, run_packed},
	{"packed-moved", RECORD_MAX / 19 - 128, 8192, make_moved, run_packed},
	{"packed-large", RECORD_MAX / 9 - 1, 8192, make_large_integers, run_packed},
	{"packed-alike", RECORD_MAX / 19 - 1, 8192, make_alike, run_packed},
	{"packed-times", RECORD_MAX / 31 - 1, 4096, make_times, run_packed},
	{"packed-text", RECORD_MAX / 3 - 8, 65536, make_text, run_packed},
	{"packed-uris", RECORD_MAX / 72 - 1, 2048, make_uris, run_packed},
	{"packed-bytes", RECORD_MAX / 2 - 8, 16384, make_bytes, run_packed},
	{"packed-links", RECORD_MAX / 41 - 1, 2048, make_cids, run_packed},
	{NULL}
};
