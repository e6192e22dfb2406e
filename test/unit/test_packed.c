/*
 * test_packed.c
 *		The packed form of DAG-CBOR: each code, the boundaries of codes and lengths, the frozen lists by edition, parts, and damaged
 *		values.  derived/packed.tsv has the stored values; test/oracle/packed.py unpacks them by itself.
 */
#include "core/codec/json_dagcbor.h"
#include "core/packed/packed.h"
#include "core/packed/packed_table.h"
#include "core/packed/packed_text.h"
#include "hex.h"
#include "packed_check.h"
#include "sha.h"

#define CID		"bafyreigp7z5bqlv2zsv5tbpxlhhgqvqzj6c7ksl2hg2ze2gv2dydpwzg5i"
#define POST	"at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3k2yihcrp6f2c"
#define REF		"{\"cid\":\"" CID "\",\"uri\":\"" POST "\"}"

/* --- whole values --- */

static bool
same(AtpBytes a, AtpBytes b)
{
	return a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0;
}

static AtpBytes
pack(AtpBytes cbor)
{
	uint8_t    *out = malloc(ATP_PACKED_ROOM(cbor.len));
	AtpBytes	stored = {NULL, 0};
	size_t		n;
	size_t		at;

	if (atp_packed_store(cbor, out, &n, &at) == ATP_OK)
		stored = (AtpBytes) {copy_of(out, n), n};
	free(out);
	return stored;
}

static AtpBytes
pack_json(const char *json)
{
	size_t		size = atp_json_dagcbor_room(strlen(json));
	uint8_t    *room = malloc(size);
	AtpBytes	cbor;
	AtpBytes	stored;
	size_t		at;

	if (atp_json_to_dagcbor(json, strlen(json), room, size, &cbor, &at) != ATP_OK)
		exit(2);
	stored = pack(cbor);
	free(room);
	return stored;
}

/* Has the vector "name stored dagcbor" this form, in both directions? */
static void
test_vector(char *line, size_t n, void *seen)
{
	const char *name = field(&line);
	const char *hex = field(&line);
	AtpBytes	stored;
	AtpBytes	cbor;
	AtpBytes	packed;
	uint8_t    *out;
	size_t		len;

	(void) n;
	if (strcmp(name, "name") == 0)	/* the first line */
		return;
	stored = unhex(hex);
	cbor = unhex(line);
	out = malloc(cbor.len);
	packed = pack(cbor);
	ok(same(packed, stored), "packs: %s", name);
	ok(stored.len <= cbor.len + 1, "is at most a byte longer: %s", name);
	ok(atp_packed_unpack(stored, out, cbor.len, &len) == ATP_OK && same((AtpBytes) {out, len}, cbor), "unpacks: %s", name);
	ok(check_packed(stored) == ATP_OK, "passes the check: %s", name);
	((bool *) seen)[stored.ptr[0] == ATP_PACKED_PLAIN ? 256 : stored.ptr[1]] = true;
	free(out);
	free((void *) stored.ptr);
	free((void *) packed.ptr);
	free((void *) cbor.ptr);
}

static void
test_vectors(void)
{
	bool		seen[257] = {false};
	int			lines = each_line(VECTORS "derived/packed.tsv", test_vector, seen);

	ok(lines >= 150, "the table has %d lines", lines);
	ok(seen[256], "a value that packing would make longer stays as it is");
	/* bytes take more room than in DAG-CBOR, so that their code stands only inside of other values */
	for (int code = 0x40; code <= 0x5b; code++)
		if (code != 0x58)
			ok(seen[code], "a value of the table begins with the code %02x", code);
}

static void
test_refused(void)
{
	static const struct
	{
		const char *cbor;
		AtpErr		err;
		size_t		at;
	}			rows[] = {
		{"", ATP_E_CBOR_TRUNCATED, 0},
		{"82f6", ATP_E_CBOR_LENGTH, 0},
		{"a161", ATP_E_CBOR_LENGTH, 0},
		{"a16161", ATP_E_CBOR_TRUNCATED, 3},
		{"8281f6", ATP_E_CBOR_TRUNCATED, 3},
		{"0000", ATP_E_CBOR_TRAILING, 1},
		{"1800", ATP_E_CBOR_LONG_FORM, 0},
		{"a2616200616100", ATP_E_CBOR_KEY_ORDER, 4},
		{"a2636369640063636964f6", ATP_E_CBOR_KEY_TWICE, 6},
		{"a10000", ATP_E_CBOR_KEY, 1},
		{"62c328", ATP_E_CBOR_UTF8, 1},
		{"f7", ATP_E_CBOR_SIMPLE, 0},
		{"fb8000000000000000", ATP_E_CBOR_FLOAT, 0},
		{"c100", ATP_E_CBOR_TAG, 0},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		AtpBytes	cbor = unhex(rows[i].cbor);
		uint8_t    *out = malloc(ATP_PACKED_ROOM(cbor.len));
		size_t		n;
		size_t		at = SIZE_MAX;
		AtpErr		err = atp_packed_store(cbor, out, &n, &at);

		ok(err == rows[i].err && at == rows[i].at, "B-01 to B-11: %s is refused at %zu: %s", rows[i].cbor, at, atp_err_text(err));
		free(out);
		free((void *) cbor.ptr);
	}
}

/* B-10: the deepest value, and one deeper. */
static void
test_depth(void)
{
	uint8_t		cbor[5 * ATP_CBOR_DEPTH_MAX + 8];
	uint8_t		stored[1 + 5 * (ATP_CBOR_DEPTH_MAX + 1)];
	uint8_t		out[ATP_PACKED_ROOM(sizeof(cbor))];
	size_t		n;
	size_t		at;

	for (int i = 0; i < ATP_CBOR_DEPTH_MAX; i++)
		memcpy(cbor + 5 * i, "\xa1\x63uri", 5);
	cbor[5 * ATP_CBOR_DEPTH_MAX] = 0xf6;
	ok(atp_packed_store((AtpBytes) {cbor, 5 * ATP_CBOR_DEPTH_MAX + 1}, out, &n, &at) == ATP_OK && out[0] == 1, "B-10: 128 levels are packed");
	ok(atp_packed_unpack((AtpBytes) {out, n}, NULL, 0, &at) == ATP_OK && at == 5 * ATP_CBOR_DEPTH_MAX + 1, "B-10: and unpacked");
	cbor[5 * ATP_CBOR_DEPTH_MAX] = 0xa0;
	ok(atp_packed_store((AtpBytes) {cbor, 5 * ATP_CBOR_DEPTH_MAX + 1}, out, &n, &at) == ATP_E_CBOR_DEPTH, "B-10: 129 levels are refused");

	/* from inside to outside, since the lengths come first */
	n = sizeof(stored);
	stored[--n] = 0x50;
	for (int level = 1; level <= ATP_CBOR_DEPTH_MAX + 1; level++)
	{
		size_t		len = sizeof(stored) - n + 1;

		stored[--n] = 0x01;
		if (len >= 128)
			stored[--n] = (uint8_t) (len >> 7);
		stored[--n] = (uint8_t) (len >= 128 ? len | 0x80 : len);
		stored[--n] = 0x59;
		if (level < ATP_CBOR_DEPTH_MAX)
			continue;
		stored[n - 1] = 1;
		ok(atp_packed_unpack((AtpBytes) {stored + n - 1, sizeof(stored) - n + 1}, NULL, 0, &at) ==
		   (level == ATP_CBOR_DEPTH_MAX ? ATP_OK : ATP_E_PACKED), "a damaged value of %d levels", level);
	}
}

/* --- damaged values --- */

static void
test_damaged(void)
{
	static const struct
	{
		const char *stored;
		const char *what;
	}			rows[] = {
		{"", "nothing"},
		{"00", "a plain value without bytes"},
		{"01", "an edition without a value"},
		{"000000", "a plain value with bytes behind"},
		{"001800", "a plain value that is no DAG-CBOR"},
		{"00a2616200616100", "a plain map whose keys are in another order"},
		{"018080", "bytes behind the value"},
		{"0140d1", "a text with a number of two bytes that no text has"},
		{"0140ff", "the last number of a text"},
		{"0140", "a number of two bytes that is cut short"},
		{"014100", "the digest of a CID is cut short"},
		{"0143000000", "a did:plc is cut short"},
		{"01440000", "a URI is cut short"},
		{"014410bc735d2426f6217e187a803a153fd11803ce6a2f522c08", "a URI of a collection that no text is"},
		{"014500", "the parts of a URI, without flags"},
		{"0145120010bc735d2426f6217e187a803a153f20", "the parts of a URI, without a key"},
		{"01451900" "10bc735d2426f6217e187a803a153f20" "1803ce6a2f522c08", "the parts of a URI that has all usual parts"},
		{"0145150c" "10bc735d2426f6217e187a803a153f28" "73656c66", "a flag that has no meaning"},
		{"0145160410bc735d2426f6217e187a803a153f2873656c66", "the parts of a URI are shorter than their length"},
		{"01451e04" "10bc735d2426f6217e187a803a153f" "20336b32796968637270366632", "a key of a URI that is a TID in text"},
		{"014505070161016161", "a URI of texts only"},
		{"01450401800161", "an authority longer than a part may be"},
		{"0146ffffffffffff", "a time after the year 9999"},
		{"01460000000000", "a time is cut short"},
		{"014ac0", "a time of another form is cut short"},
		{"014b0161", "a text of one byte with a length"},
		{"014b20", "a text without its bytes"},
		{"014b80007878", "a length that is not in its shortest form"},
		{"014bffffffffffffffffff01", "a length of too many bytes"},
		{"01627878" "78", "a short text with bytes behind"},
		{"016378", "a short text is cut short"},
		{"0161ff", "a text that is not UTF-8"},
		{"01626465", "a text that has a number"},
		{"014c00", "a strong reference is cut short"},
		{"014d00", "a link is cut short"},
		{"014f2401711220cffe7a182ebaccabd985f759ce6856194f85f5497a39b59268d5d0f037db26ea", "a usual link as another link"},
		{"014f0101", "a link that is no CID"},
		{"01530000", "a float is cut short"},
		{"01537ff8000000000000", "a float that is no number"},
		{"01538000000000000000", "the float -0"},
		{"01547f", "a small integer as a large one"},
		{"015480", "an integer is cut short"},
		{"01560000000000000080", "a large integer with eight bytes"},
		{"0157000000000000", "a negative integer is cut short"},
		{"015802ab", "bytes are cut short"},
		{"0159", "an array without a length"},
		{"01590100", "an empty array with a number"},
		{"0159020280", "an array that has fewer members than its number"},
		{"01590301808080", "an array that is longer than its length"},
		{"015903018080", "an array that has more members than its number"},
		{"0159027f80", "an array with a number larger than its bytes"},
		{"0159ffffffffffffffff7f", "an array with the largest length"},
		{"015a0301c780", "a map with the number of a key that no key has"},
		{"015a0301f080", "a map with a reserved number of a key"},
		{"015a03010361", "a map with a value that is cut short"},
		{"015a020103", "a map with a key without a value"},
		{"015a0501000269" "80", "a map with a key that is cut short"},
		{"015a0601000369646480", "a map with bytes that are missing"},
		{"015a050100026964" "80", "a map with a length too small"},
		{"015a0601000269648081", "a map with a known key as a text"},
		{"015a0501038003" "80", "a map with a key twice"},
		{"015a050204800380", "a map whose keys are in another order"},
		{"015a03010e80", "a map that has a shape"},
		{"015b00", "a shape without a number"},
		{"015b01d0", "a number that no shape has"},
		{"015b0200", "a shape without all values"},
		{"015b04048080" "80", "a shape with a value too many"},
		{"015c", "a reserved code"},
		{"015f00", "another reserved code"},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
	{
		AtpBytes	stored = unhex(rows[i].stored);

		ok(check_packed(stored) == ATP_E_PACKED, "damaged: %s", rows[i].what);
		free((void *) stored.ptr);
	}
	{
		static const uint8_t twice[] = {ATP_PACKED_EDITION, 0x80, 0x80};
		AtpPackedPart part;

		ok(atp_part_whole((AtpBytes) {twice, 3}, &part) == ATP_E_PACKED, "bytes behind the value are no part of a value");
	}
	for (int edition = ATP_PACKED_EDITION + 1; edition < 256; edition += 127)
	{
		const uint8_t stored[] = {(uint8_t) edition, 0x80};
		AtpPackedPart		part;

		ok(atp_part_whole((AtpBytes) {stored, 2}, &part) == ATP_E_PACKED_EDITION, "the edition %d is newer than the library", edition);
		ok(check_packed((AtpBytes) {stored, 2}) == ATP_E_PACKED_EDITION, "and is not unpacked");
	}
}

/* Each cut, and each byte altered in each bit: all functions stay in bounds (ASan), and what passes the check comes back. */
static void
test_altered(void)
{
	AtpBytes	stored = pack_json("{\"$type\":\"app.bsky.feed.post\",\"text\":\"Hello, world: this is a long enough text\",\"langs\":[\"en\"],"
								   "\"reply\":{\"root\":" REF ",\"parent\":" REF "},\"x\":[1,-5000,{},[]],\"y\":{\"$bytes\":\"AAEC\"},"
								   "\"createdAt\":\"2026-07-14T09:08:07.654Z\"}");
	unsigned	passed = 0;
	unsigned	tried = 0;

	for (size_t i = 0; i < 9 * stored.len; i++)
	{
		size_t		len = i < stored.len ? i : stored.len;
		uint8_t    *copy = copy_of(stored.ptr, len);
		AtpBytes	altered = {copy, len};
		bool		found;
		size_t		n;
		AtpPackedPart		part;

		if (i >= stored.len)
			copy[i % stored.len] ^= (uint8_t) (1 << (i / stored.len - 1));
		tried++;
		if (atp_part_whole(altered, &part) == ATP_OK)
		{
			char		buf[ATP_PART_TEXT_MAX];
			AtpSpan		text;
			bool		has_nul;

			if (atp_part_key(&part, (AtpSpan) {"reply", 5}, &found) == ATP_OK && found &&
				atp_part_key(&part, (AtpSpan) {"parent", 6}, &found) == ATP_OK && found &&
				atp_part_key(&part, (AtpSpan) {"uri", 3}, &found) == ATP_OK && found)
				(void) atp_part_text(&part, buf, &text, &has_nul);
		}
		if (atp_packed_unpack(altered, NULL, 0, &n) == ATP_OK)
		{
			uint8_t    *scratch = malloc(ATP_PACKED_CHECK_ROOM(len, n));

			passed += atp_packed_check(altered, scratch, ATP_PACKED_CHECK_ROOM(len, n)) == ATP_OK;
			free(scratch);
		}
		free(copy);
	}
	ok(passed > 0 && passed < tried, "of %u altered values %u are values", tried, passed);
	free((void *) stored.ptr);
}

/* --- the lists --- */

typedef struct Hashed
{
	char	   *lines;
	size_t		len;
} Hashed;

static void
add_entry(Hashed *h, const char *kind, unsigned number, AtpSpan entry)
{
	h->len += (size_t) sprintf(h->lines + h->len, "%s %u ", kind, number);
	for (size_t i = 0; i < entry.len; i++)
		h->len += (size_t) sprintf(h->lines + h->len, "%02x", (uint8_t) entry.ptr[i]);
	h->lines[h->len++] = '\n';
}

/* The entries of an edition never change, since their numbers are on disk. */
static void
test_edition(unsigned edition, unsigned texts, unsigned keys, unsigned shapes, const char *sha)
{
	Hashed		h = {malloc(1 << 20), 0};
	uint8_t		hash[32];
	char		hex[65];

	for (unsigned i = 0; i < texts; i++)
		add_entry(&h, "text", i, atp_packed_text((uint16_t) i));
	for (unsigned i = 1; i < keys; i++)
		add_entry(&h, "key", i, atp_packed_key((uint16_t) i));
	for (unsigned i = 0; i < shapes; i++)
		add_entry(&h, "shape", i, atp_packed_shape((uint16_t) i));
	sha256(NULL, (const uint8_t *) h.lines, h.len, hash);
	for (int i = 0; i < 32; i++)
		sprintf(hex + 2 * i, "%02x", hash[i]);
	ok(strcmp(hex, sha) == 0, "edition %u has the entries with which it was made: %s", edition, hex);
	free(h.lines);
}

static int
canonical(AtpSpan a, AtpSpan b)
{
	return a.len != b.len ? (a.len < b.len ? -1 : 1) : memcmp(a.ptr, b.ptr, a.len);
}

static void
test_lists(void)
{
	unsigned	texts = 0;
	unsigned	keys = 1;
	unsigned	shapes = 0;

	for (; atp_packed_text((uint16_t) texts).ptr != NULL; texts++)
	{
		if (atp_packed_find_text(atp_packed_text((uint16_t) texts), ATP_PACKED_EDITION) != texts)
			ok(false, "the text %u is found", texts);
		else
		{
			uint8_t		out[ATP_FORM_MAX];
			size_t		n = atp_packed_put_text(atp_packed_text((uint16_t) texts), ATP_PACKED_EDITION, out);

			if (n != (texts < ATP_PACKED_ONE_BYTE ? 1 : 2) || out[0] != (n == 1 ? texts : ATP_CODE_LISTED))
				ok(false, "the text %u has no form", texts);
		}
	}
	for (; atp_packed_key((uint16_t) keys).ptr != NULL; keys++)
		if (atp_packed_find_key(atp_packed_key((uint16_t) keys), ATP_PACKED_EDITION) != keys)
			ok(false, "the key %u is found", keys);
	for (AtpSpan shape; (shape = atp_packed_shape((uint16_t) shapes)).ptr != NULL; shapes++)
	{
		if (atp_packed_find_shape(shape, ATP_PACKED_EDITION) != shapes)
			ok(false, "the shape %u is found", shapes);
		for (size_t i = 1; i < shape.len; i++)
			if (canonical(atp_packed_key((uint8_t) shape.ptr[i - 1]), atp_packed_key((uint8_t) shape.ptr[i])) >= 0)
				ok(false, "B-04: the keys of the shape %u are in canonical order", shapes);
		if (shape.len > ATP_PACKED_SHAPE_KEYS)
			ok(false, "the shape %u has more keys than a shape may have", shapes);
	}
	ok(texts == 273 && keys == 199 && shapes == 208, "the lists have %u texts, the number %u after the last key, %u shapes", texts, keys, shapes);
	ok(atp_packed_key(0).ptr == NULL, "no key has the number 0");
	ok(atp_packed_find_text((AtpSpan) {"de", 2}, ATP_PACKED_PLAIN) == ATP_PACKED_NONE, "an edition has only its own texts");
	ok(atp_packed_find_key((AtpSpan) {"text", 4}, ATP_PACKED_PLAIN) == ATP_PACKED_NONE, "and keys");
	ok(atp_packed_find_shape(atp_packed_shape(0), ATP_PACKED_PLAIN) == ATP_PACKED_NONE, "and shapes");
	test_edition(1, 273, 199, 208, "f98ac18cba637a224d13a1037a3115187baa5c26267fb2e1a473a79b06f47613");
}

/* --- parts --- */

static bool
go(AtpPackedPart *part, const char *path)
{
	bool		found = true;

	while (found && *path != '\0')
	{
		size_t		n = strcspn(path, "/");
		char	   *end;
		long		number = strtol(path, &end, 10);
		AtpErr		err = end == path + n ? atp_part_member(part, number, &found) : atp_part_key(part, (AtpSpan) {path, n}, &found);

		if (err != ATP_OK)
		{
			ok(false, "%s: %s", path, atp_err_text(err));
			return false;
		}
		path += n + (path[n] == '/');
	}
	return found;
}

static void
test_path(AtpBytes stored, const char *path, const char *expected)
{
	char		buf[ATP_PART_TEXT_MAX];
	AtpPackedPart		part;
	AtpSpan		text = {NULL, 0};
	bool		has_nul;
	bool		found;

	if (atp_part_whole(stored, &part) != ATP_OK)
		exit(2);
	found = go(&part, path);
	if (expected == NULL)
		ok(!found, "%s leads nowhere", path);
	else
		ok(found && atp_part_text(&part, buf, &text, &has_nul) == ATP_OK && text.ptr != NULL && atp_span_is(text, expected), "%s is %s", path, expected);
}

static void
test_paths(AtpBytes stored)
{
	test_path(stored, "createdAt", "2026-07-14T09:08:07.654Z");
	test_path(stored, "$type", "app.bsky.feed.post");
	test_path(stored, "reply/parent/uri", POST);
	test_path(stored, "reply/root/cid", CID);
	test_path(stored, "reply/root/zzz", NULL);
	test_path(stored, "reply/root/0", NULL);
	test_path(stored, "reply/root/uri/x", NULL);
	test_path(stored, "langs/0", "en");
	test_path(stored, "langs/1", "tlh");
	test_path(stored, "langs/-1", "tlh");
	test_path(stored, "langs/-2", "en");
	test_path(stored, "langs/-3", NULL);
	test_path(stored, "langs/2", NULL);
	test_path(stored, "langs/x", NULL);
	test_path(stored, "other/unknown", "x");
	test_path(stored, "other/text", "y");
	test_path(stored, "other/tex", NULL);
	test_path(stored, "other/alt", NULL);
	test_path(stored, "embed", NULL);
	test_path(stored, "nothing", NULL);
	test_path(stored, "empty/x", NULL);
	test_path(stored, "empty/0", NULL);
	test_path(stored, "none/0", NULL);
	test_path(stored, "none/-1", NULL);
}

static void
test_kind(AtpBytes stored, const char *path, AtpCborKind expected, uint64_t members)
{
	AtpCborKind kind;
	uint64_t	count;
	AtpPackedPart		part;
	AtpBytes	again;
	uint8_t    *out;

	if (atp_part_whole(stored, &part) != ATP_OK || !go(&part, path))
		exit(2);
	ok(atp_part_kind(&part, &kind) == ATP_OK && kind == expected, "the kind of %s", path);
	ok(atp_part_count(&part, &count) == ATP_OK && count == members, "%s has %d members", path, (int) members);
	out = malloc(atp_part_size(&part));
	atp_part_store(&part, out);
	again = (AtpBytes) {out, atp_part_size(&part)};
	ok(check_packed(again) == ATP_OK && out[0] == stored.ptr[0], "%s is a value of its own", path);
	free(out);
}

static void
test_kinds(AtpBytes stored)
{
	test_kind(stored, "", ATP_CBOR_MAP, 9);
	test_kind(stored, "text", ATP_CBOR_TEXT, 0);
	test_kind(stored, "langs", ATP_CBOR_ARRAY, 2);
	test_kind(stored, "none", ATP_CBOR_ARRAY, 0);
	test_kind(stored, "empty", ATP_CBOR_MAP, 0);
	test_kind(stored, "reply", ATP_CBOR_MAP, 2);
	test_kind(stored, "reply/root", ATP_CBOR_MAP, 2);
	test_kind(stored, "reply/root/cid", ATP_CBOR_TEXT, 0);
	test_kind(stored, "reply/root/uri", ATP_CBOR_TEXT, 0);
	test_kind(stored, "other", ATP_CBOR_MAP, 3);
	test_kind(stored, "other/k", ATP_CBOR_ARRAY, 9);
	test_kind(stored, "other/k/0", ATP_CBOR_NULL, 0);
	test_kind(stored, "other/k/1", ATP_CBOR_FALSE, 0);
	test_kind(stored, "other/k/2", ATP_CBOR_TRUE, 0);
	test_kind(stored, "other/k/3", ATP_CBOR_UINT, 0);
	test_kind(stored, "other/k/4", ATP_CBOR_UINT, 0);
	test_kind(stored, "other/k/5", ATP_CBOR_NINT, 0);
	test_kind(stored, "other/k/6", ATP_CBOR_LINK, 0);
	test_kind(stored, "other/k/7", ATP_CBOR_BYTES, 0);
	test_kind(stored, "other/k/8", ATP_CBOR_TEXT, 0);
}

static void
test_parts(void)
{
	static const char json[] = "{\"$type\":\"app.bsky.feed.post\",\"text\":\"Hello\",\"langs\":[\"en\",\"tlh\"],\"none\":[],\"empty\":{},"
		"\"reply\":{\"root\":" REF ",\"parent\":" REF "},\"other\":{\"unknown\":\"x\",\"text\":\"y\","
		"\"k\":[null,false,true,1,100000,-2,{\"$link\":\"" CID "\"},{\"$bytes\":\"AAEC\"},\"\"]},\"created\":1,\"createdAt\":\"2026-07-14T09:08:07.654Z\"}";
	AtpBytes	packed = pack_json(json);
	uint8_t		cbor[2000];
	uint8_t    *plain;
	size_t		n;

	ok(packed.ptr[0] == ATP_PACKED_EDITION && atp_packed_unpack(packed, cbor, sizeof(cbor), &n) == ATP_OK, "a value with parts of each kind");
	plain = malloc(n + 1);
	plain[0] = ATP_PACKED_PLAIN;
	memcpy(plain + 1, cbor, n);
	test_paths(packed);
	test_kinds(packed);
	test_paths((AtpBytes) {plain, n + 1});
	test_kinds((AtpBytes) {plain, n + 1});
	free(plain);
	free((void *) packed.ptr);
}

int
main(void)
{
	test_vectors();
	test_refused();
	test_depth();
	test_damaged();
	test_altered();
	test_lists();
	test_parts();
	return done_testing();
}
