/*
 * test_json_dagcbor.c
 *		JSON to canonical DAG-CBOR (J-01 to J-07).  What records of a real server
 *		become through JSON, test_capture.c says.
 */
#include "core/codec/dagcbor.h"
#include "core/codec/json_dagcbor.h"
#include "hex.h"
#include "protocol/cbor.h"

/* In memory of exactly the requested lengths.  *cbor is malloc'd. */
static AtpErr
convert(const char *s, size_t n, AtpBytes *cbor, size_t *at)
{
	char	   *copy = (char *) copy_of(s, n);
	size_t		size = atp_json_dagcbor_room(n);
	uint8_t    *room = malloc(size);
	AtpErr		err = atp_json_to_dagcbor(copy, n, room, size, cbor, at);

	if (err == ATP_OK)
		*cbor = (AtpBytes) {copy_of(cbor->ptr, cbor->len), cbor->len};
	free(room);
	free(copy);
	return err;
}

static void
gives(const char *json, const char *hex)
{
	AtpBytes	expected = unhex(hex);
	AtpBytes	cbor = {NULL, 0};
	size_t		at;
	AtpErr		err = convert(json, strlen(json), &cbor, &at);

	ok(err == ATP_OK && cbor.len == expected.len && memcmp(cbor.ptr, expected.ptr, cbor.len) == 0,
	   "%s", show(json, strlen(json)));
	free((void *) cbor.ptr);
	free((void *) expected.ptr);
}

static void
refused(const char *rule, const char *json, AtpErr expected, size_t expected_at)
{
	AtpBytes	cbor;
	size_t		at = 99;
	AtpErr		err = convert(json, strlen(json), &cbor, &at);

	ok(err == expected && at == expected_at, "%s: %s: %s (%zu)", rule, show(json, strlen(json)), atp_err_text(err), at);
}

static void
numbers(void)
{
	gives("0", "00");
	gives("23", "17");
	gives("24", "1818");
	gives("65536", "1a00010000");
	gives("4294967296", "1b0000000100000000");
	gives("9223372036854775807", "1b7fffffffffffffff");
	gives("-1", "20");
	gives("-9223372036854775808", "3b7fffffffffffffff");
	gives("123.0", "187b");
	gives("-5.000", "24");
	gives("0.0", "00");
	refused("J-02", "9223372036854775808", ATP_E_DATA_INTEGER, 0);
	refused("J-02", "-9223372036854775809", ATP_E_DATA_INTEGER, 0);
	refused("J-02", "99999999999999999999999999", ATP_E_DATA_INTEGER, 0);
	refused("J-02", "184467440737095516160", ATP_E_DATA_INTEGER, 0);
	refused("J-01", "[1.5]", ATP_E_JSON_NUMBER, 1);
	refused("J-01", "1.01", ATP_E_JSON_NUMBER, 0);
	refused("J-01", "-0", ATP_E_JSON_NUMBER, 0);
	refused("J-01", "-0.0", ATP_E_JSON_NUMBER, 0);
	refused("J-01", "1e3", ATP_E_JSON_NUMBER, 0);
	refused("J-01", "1E0", ATP_E_JSON_NUMBER, 0);
	refused("J-01", "10e-1", ATP_E_JSON_NUMBER, 0);
}

static void
texts(void)
{
	AtpBytes	cbor = {NULL, 0};
	size_t		at;
	char	   *large = malloc(70002);

	gives("\"\"", "60");
	gives("\"\\u00e9\\n\\/\\\"\"", "65c3a90a2f22");
	gives("\"\\ud83d\\ude00\"", "64f09f9880");
	gives("\"a\\u0000b\"", "63610062");
	gives("\"\xf0\x9f\x98\x80 and 20 bytes of text\"", "7819f09f988020616e64203230206279746573206f662074657874");
	/* 26 bytes escaped, 24 are left */
	gives("\"\\u0061bcdefghijklmnopqrstuvwx\"", "78186162636465666768696a6b6c6d6e6f707172737475767778");
	gives("{\"\\u0062\":1,\"a\":2}", "a2616102616201");
	refused("J-04", "{\"a\":\"\\ud83d\"}", ATP_E_JSON_SURROGATE, 6);
	refused("J-04", "\"\\udc00\\ud800\"", ATP_E_JSON_SURROGATE, 1);
	refused("J-04", "{\"\\ud800x\":1}", ATP_E_JSON_SURROGATE, 2);
	memset(large, 'x', 70002);
	large[0] = large[70001] = '"';
	ok(convert(large, 70002, &cbor, &at) == ATP_OK && cbor.len == 70005 && memcmp(cbor.ptr, "\x7a\x00\x01\x11\x70x", 6) == 0,
	   "a head that is longer than two quotes");
	free((void *) cbor.ptr);
	free(large);
}

static void
containers(void)
{
	AtpBytes	cbor = {NULL, 0};
	size_t		at;
	char		json[4096];
	size_t		n = 0;

	gives(" {} ", "a0");
	gives("[]", "80");
	gives("[null, true, false]", "83f6f5f4");
	gives("{\"a\":[1,{}],\"b\":{}}", "a261618201a06162a0");
	gives("{\"bb\":1,\"c\":2,\"aa\":3}", "a36163026261610362626201");
	gives("{\"z\":{\"y\":1,\"x\":2},\"\":0}", "a26000617aa2617802617901");
	refused("J-05", "{\"a\":1,\"a\":1}", ATP_E_JSON_TWICE, 13);
	refused("J-05", "{\"a\":1,\"b\":2,\"\\u0061\":3}", ATP_E_JSON_TWICE, 24);
	refused("J-05", "{\"b\":1,\"a\":1,\"b\":2}", ATP_E_JSON_TWICE, 19);

	/* 300 keys from the last to the first, and a list of as many elements */
	json[n++] = '[';
	for (int i = 0; i < 300; i++)
		n += sprintf(json + n, "%s%d", i > 0 ? "," : "", i % 10);
	json[n++] = ']';
	ok(convert(json, n, &cbor, &at) == ATP_OK && cbor.len == 303 && memcmp(cbor.ptr, "\x99\x01\x2c\x00\x01", 5) == 0,
	   "a list of 300");
	free((void *) cbor.ptr);
	n = 0;
	json[n++] = '{';
	for (int i = 300; i-- > 0;)
		n += sprintf(json + n, "\"%d\":0%s", i, i > 0 ? "," : "");
	json[n++] = '}';
	ok(convert(json, n, &cbor, &at) == ATP_OK && cbor.ptr[0] == 0xb9 && memcmp(cbor.ptr + 1, "\x01\x2c\x61" "0\x00\x61" "1", 7) == 0 &&
	   atp_cbor_check(cbor.ptr, cbor.len, 1, &at) == ATP_OK, "J-05: an object of 300");
	free((void *) cbor.ptr);
}

/* J-05: some orders of so many keys. */
static void
orders(void)
{
	unsigned	right = 0;
	unsigned	n = 0;

	for (unsigned keys = 2; keys < 13; keys++)
	{
		for (unsigned seed = 0; seed < 50; seed++, n++)
		{
			AtpBytes	cbor;
			char		json[128];
			char		left[16];
			size_t		len = 0;
			size_t		at;

			for (unsigned i = 0; i < keys; i++)
				left[i] = (char) ('a' + i);
			srand(seed);
			for (unsigned i = keys; i-- > 0;)
			{
				unsigned	which = (unsigned) rand() % (i + 1);

				len += sprintf(json + len, "%c\"%c\":0", i == keys - 1 ? '{' : ',', left[which]);
				left[which] = left[i];
			}
			json[len++] = '}';
			if (convert(json, len, &cbor, &at) != ATP_OK)
				continue;
			right += atp_cbor_check(cbor.ptr, cbor.len, 1, &at) == ATP_OK;
			free((void *) cbor.ptr);
		}
	}
	ok(right == n, "J-05: %u of %u orders", right, n);
}

static void
links(void)
{
	gives("{\"$link\":\"bafkreias7oxbr6swsuggccmtnqpoeami4jza5x4w3urltn6gzhqf4k6k2e\"}",
		  "d82a5825000155122012fbae18fa56950c6109936c1ee20188e2720edf96dd22b9b7c6c9e05e2bcad1");
	gives("{\"$bytes\":\"AQID\"}", "43010203");
	gives("{\"$bytes\":\"AQ==\"}", "4101");
	gives("{\"$bytes\":\"AQ\"}", "4101");
	gives("{\"$bytes\":\"\"}", "40");
	gives("[{\"\\u0024bytes\":\"AQ\"}]", "814101");
	refused("J-03", "{\"$link\":\"x\"}", ATP_E_JSON_LINK, 13);
	refused("J-03", "{\"$link\":1}", ATP_E_JSON_LINK, 11);
	refused("J-03", "{\"$link\":{}}", ATP_E_JSON_LINK, 12);
	refused("J-03", "{\"$link\":\"bafkreias7oxbr6swsuggccmtnqpoeami4jza5x4w3urltn6gzhqf4k6k2e\",\"a\":1}", ATP_E_JSON_LINK, 77);
	refused("J-03", "{\"$bytes\":\"AR\"}", ATP_E_JSON_BYTES, 15);
	refused("J-03", "{\"$bytes\":\"A\"}", ATP_E_JSON_BYTES, 14);
	refused("J-03", "{\"$bytes\":\"A-_A\"}", ATP_E_JSON_BYTES, 17);
	refused("J-03", "{\"a\":1,\"$bytes\":\"AQ\"}", ATP_E_JSON_BYTES, 21);
	refused("J-03", "{\"$bytes\":\"AQ\",\"$link\":\"\"}", ATP_E_JSON_BYTES, 26);
}

/* Lists in lists, so many, around a value. */
static AtpErr
nested(unsigned depth, const char *value, AtpBytes *cbor)
{
	static char json[1024];
	size_t		n = strlen(value);
	size_t		at;

	memset(json, '[', depth);
	memcpy(json + depth, value, n);
	memset(json + depth + n, ']', depth);
	return convert(json, 2 * depth + n, cbor, &at);
}

static void
depths(void)
{
	AtpBytes	cbor = {NULL, 0};
	size_t		at;

	ok(nested(128, "1", &cbor) == ATP_OK && atp_cbor_check(cbor.ptr, cbor.len, ATP_CBOR_DEPTH_DEFAULT, &at) == ATP_OK, "J-06: 128 deep");
	free((void *) cbor.ptr);
	ok(nested(128, "{\"$bytes\":\"AQ\"}", &cbor) == ATP_OK && atp_cbor_check(cbor.ptr, cbor.len, ATP_CBOR_DEPTH_DEFAULT, &at) == ATP_OK,
	   "J-06: bytes are no level");
	free((void *) cbor.ptr);
	ok(nested(128, "{}", &cbor) == ATP_E_JSON_DEPTH && nested(128, "{\"a\":\"AQ\"}", &cbor) == ATP_E_JSON_DEPTH &&
	   nested(129, "1", &cbor) == ATP_E_JSON_DEPTH && nested(400, "1", &cbor) == ATP_E_JSON_DEPTH, "J-06: 129 deep");
}

static void
wrong(void)
{
	uint8_t		room[64];
	AtpBytes	cbor;
	size_t		at;

	refused("J-07", "", ATP_E_JSON_SYNTAX, 0);
	refused("J-07", "{\"a\":tru}", ATP_E_JSON_SYNTAX, 5);
	refused("J-07", "{\"a\":1}{", ATP_E_JSON_SYNTAX, 7);
	refused("J-07", "[1,]", ATP_E_JSON_SYNTAX, 3);
	refused("J-07", "\"\xed\xa0\x80\"", ATP_E_JSON_SYNTAX, 1);
	refused("J-07", "\"a line that is longer\nthan a word\"", ATP_E_JSON_SYNTAX, 22);
	refused("J-07", "\"12345678\xc3(345678\"", ATP_E_JSON_SYNTAX, 9);
	refused("J-07", "\"\xc3(345678\"", ATP_E_JSON_SYNTAX, 1);
	ok(atp_json_to_dagcbor("1", 1, room, sizeof(room), &cbor, &at) == ATP_E_JSON_LARGE, "too little memory");
}

int
main(void)
{
	numbers();
	texts();
	containers();
	orders();
	links();
	depths();
	wrong();
	return done_testing();
}
