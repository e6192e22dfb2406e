/*
 * test_diddoc.c
 *		DID documents and keys: W-06 to W-15, and the reader of JSON below them.
 */
#include <openssl/x509.h>
#include <secp256k1.h>

#include "core/wire/diddoc.h"
#include "core/codec/json.h"
#include "hex.h"

#define DID		"did:plc:ewvi7nxzyoun6zhxrhs64oiz"
#define K256	"zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme"
#define P256	"zDnaembgSGUhZULN2Caob4HLJPaxBh92N7rtH21TErzqf8HQo"

/* --- curves --- */

static bool
is_point(void *ctx, AtpCurve curve, const uint8_t *point, size_t n)
{
	static const uint8_t head[] = {
		0x30, 0x39, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01,
		0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x22, 0x00
	};
	uint8_t		info[sizeof(head) + ATP_POINT_LONG_LEN];
	const uint8_t *p = info;
	EVP_PKEY   *key;
	secp256k1_pubkey parsed;

	if (curve == ATP_K256)
		return secp256k1_ec_pubkey_parse(ctx, &parsed, point, n);
	memcpy(info, head, sizeof(head));
	info[1] += (uint8_t) (n - ATP_POINT_LEN);
	info[sizeof(head) - 2] += (uint8_t) (n - ATP_POINT_LEN);
	memcpy(info + sizeof(head), point, n);
	key = d2i_PUBKEY(NULL, &p, (long) (sizeof(head) + n));
	EVP_PKEY_free(key);
	return key != NULL;
}

static secp256k1_context *secp;

/* In memory of exactly this length. */
static AtpErr
parse(const char *s, size_t n, AtpDidDoc *doc)
{
	char	   *copy = (char *) copy_of(s, n);
	size_t		at = SIZE_MAX;
	AtpErr		err = atp_diddoc_parse(copy, n, (AtpSpan) {DID, strlen(DID)}, is_point, secp, doc, &at);

	if (err != ATP_OK && at > n)
		exit(2);
	free(copy);
	return err;
}

static char *
hex_of(const uint8_t key[ATP_MULTIKEY_LEN])
{
	static char text[2 * ATP_MULTIKEY_LEN + 1];

	for (size_t i = 0; i < ATP_MULTIKEY_LEN; i++)
		sprintf(text + 2 * i, "%02x", key[i]);
	return text;
}

/* --- JSON --- */

static AtpErr
read_json(const char *s, size_t n)
{
	char	   *copy = (char *) copy_of(s, n);
	AtpJsonReader r;
	AtpJsonItem item;
	size_t		at;
	AtpErr		err;

	atp_json_init(&r, copy, n, ATP_JSON_DEPTH_DEFAULT);
	while ((err = atp_json_next(&r, &item, &at)) == ATP_OK)
		;
	if (at > n)
		exit(2);
	free(copy);
	return err;
}

static void
json(void)
{
	static const char *const right[] = {
		"{}", "[]", " [ ] ", "1", "-0", "0.5e-3", "1E+9", "true", "false", "null", "\"\"", "[1,2]", "{\"a\":{\"b\":[]}}",
		"\"\\u0000\\ud800\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\t\r\n[1 , 2 ]\n", "\"\xf0\x9f\x98\x80\"", "{\"a\":1,\"a\":2}",
	};
	static const char *const wrong[] = {
		"", " ", "{", "[", "]", "}", "[1,]", "[,1]", "[1 2]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{1:1}", "{,}", "[}", "{]",
		"01", "1.", ".5", "+1", "1e", "1e+", "-", "0x1", "NaN", "Infinity", "tru", "nul", "truefalse", "1 1", "{}{}", "[1]x",
		"\"", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "'a'", "\"\n\"", "\"\xc3\x28\"", "\"\xed\xa0\x80\"",
		"\xef\xbb\xbf{}", "// x\n1", "[1]/**/",
	};
	char		deep[2 * 100 + 1];
	AtpJsonItem item = {.kind = ATP_JSON_TEXT};
	char		text[16];
	size_t		n;

	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
		ok(read_json(right[i], strlen(right[i])) == ATP_E_JSON_END, "JSON: %s", show(right[i], strlen(right[i])));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ok(read_json(wrong[i], strlen(wrong[i])) == ATP_E_JSON_SYNTAX, "not JSON: %s", show(wrong[i], strlen(wrong[i])));
	ok(read_json("[1,\0 2]", 7) == ATP_E_JSON_SYNTAX && read_json("\"\0\"", 3) == ATP_E_JSON_SYNTAX &&
	   read_json("\"\\\0\"", 4) == ATP_E_JSON_SYNTAX, "not JSON: a byte 0");
	ok(read_json("{\0}\0", 4) == ATP_E_JSON_SYNTAX, "not JSON: UTF-16");
	memset(deep, '[', 100);
	memset(deep + 100, ']', 100);
	ok(read_json(deep + 68, 64) == ATP_E_JSON_END, "W-07: 32 deep");
	ok(read_json(deep + 67, 66) == ATP_E_JSON_DEPTH, "W-07: 33 deep");

	item.raw = (AtpSpan) {"\\u00e9\\ud83d\\ude00", 18};
	ok(atp_json_text(&item, text, 6, &n) && n == 6 && memcmp(text, "\xc3\xa9\xf0\x9f\x98\x80", 6) == 0, "escapes are decoded");
	ok(!atp_json_text(&item, text, 5, &n), "and not into too little room");
	item.raw = (AtpSpan) {"\\ud83dx", 7};
	ok(!atp_json_text(&item, text, sizeof(text), &n), "half of a pair is no text");
	item.raw = (AtpSpan) {"\\ude00\\ud83d", 12};
	ok(!atp_json_text(&item, text, sizeof(text), &n), "nor is one turned round");
}

/* --- documents --- */

#define METHOD(id, type, controller, key) \
	"{\"id\":\"" id "\",\"type\":\"" type "\",\"controller\":\"" controller "\",\"publicKeyMultibase\":\"" key "\"}"
#define SERVICE(id, type, url) \
	"{\"id\":\"" id "\",\"type\":\"" type "\",\"serviceEndpoint\":\"" url "\"}"
#define DOC(methods, services, aliases) \
	"{\"@context\":[\"https://www.w3.org/ns/did/v1\"],\"id\":\"" DID "\",\"alsoKnownAs\":[" aliases "]," \
	"\"verificationMethod\":[" methods "],\"service\":[" services "]}"
#define GOOD	METHOD(DID "#atproto", "Multikey", DID, K256)
#define OTHER	METHOD(DID "#atproto", "Multikey", DID, P256)
#define PDS		SERVICE("#atproto_pds", "AtprotoPersonalDataServer", "https://pds.example.com")

static void
whole(void)
{
	static const char text[] = DOC(GOOD "," METHOD("#atproto_label", "Multikey", DID, P256), PDS, "\"at://Alice.Example.com\"");
	AtpDidDoc	doc;
	unsigned	accepted = 0;

	ok(parse(text, sizeof(text) - 1, &doc) == ATP_OK, "W-06: a document");
	ok(doc.has_key && strncmp(hex_of(doc.key), "e70102", 5) == 0, "W-08: its key: %s", hex_of(doc.key));
	ok(doc.has_label_key && strncmp(hex_of(doc.label_key), "8024", 4) == 0, "V-49: the key of its labels");
	ok(doc.has_pds && doc.pds_len == 15 && memcmp(doc.pds, "pds.example.com", 15) == 0 && !doc.pds_is_plain &&
	   doc.pds_port == 443, "W-13: its PDS");
	ok(doc.handle_len == 17 && memcmp(doc.handle, "alice.example.com", 17) == 0, "W-15: its handle, in lower case");
	for (size_t n = 0; n < sizeof(text) - 1; n++)
		accepted += parse(text, n, &doc) == ATP_OK;
	ok(accepted == 0, "W-07: cut anywhere, it is none");
}

static void
refused(void)
{
	static const struct
	{
		const char *text;
		AtpErr		err;
	}			table[] = {
		{"", ATP_E_JSON_SYNTAX},
		{"<!DOCTYPE html><html></html>", ATP_E_JSON_SYNTAX},
		{"[]", ATP_E_DOC_OBJECT},
		{"\"" DID "\"", ATP_E_DOC_OBJECT},
		{"{}", ATP_E_DOC_ID},
		{"{\"id\":null}", ATP_E_DOC_ID},
		{"{\"id\":\"did:plc:ewvi7nxzyoun6zhxrhs64oia\"}", ATP_E_DOC_ID},
		{"{\"id\":\"" DID " \"}", ATP_E_DOC_ID},
		{"{\"id\":\"" DID "\\u0000\"}", ATP_E_DOC_ID},
		{"{\"id\":\"DID:PLC:ewvi7nxzyoun6zhxrhs64oiz\"}", ATP_E_DOC_ID},
		{"{\"id\":\"" DID "\",\"id\":\"" DID "\"}", ATP_E_DOC_TWICE},
		{"{\"id\":\"" DID "\",\"\\u0069d\":\"did:plc:x\"}", ATP_E_DOC_TWICE},
		{"{\"id\":\"" DID "\",\"service\":[],\"service\":[]}", ATP_E_DOC_TWICE},
		{"{\"id\":\"" DID "\",\"service\":[{\"id\":\"a\",\"id\":\"b\"}]}", ATP_E_DOC_TWICE},
		{"{\"id\":\"" DID "\"}x", ATP_E_JSON_SYNTAX},
		{"\xef\xbb\xbf{\"id\":\"" DID "\"}", ATP_E_JSON_SYNTAX},
	};
	AtpDidDoc	doc;
	char	   *large = malloc(200000);
	int			len;

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
	{
		AtpErr		err = parse(table[i].text, strlen(table[i].text), &doc);

		ok(err == table[i].err, "W-06, W-07: %s: %s", show(table[i].text, strlen(table[i].text)), atp_err_text(err));
	}
	len = sprintf(large, "{\"id\":\"" DID "\"%*s", (int) (ATP_DIDDOC_MAX - strlen("{\"id\":\"" DID "\"")), "}");
	ok(len == ATP_DIDDOC_MAX && parse(large, len, &doc) == ATP_OK, "W-07: 64 kB");
	large[len] = ' ';
	ok(parse(large, len + 1, &doc) == ATP_E_DOC_SIZE, "W-07: a byte more");
	memset(large, '[', 200000);
	memcpy(large, "{\"x\":", 5);
	ok(parse(large, 60000, &doc) == ATP_E_JSON_DEPTH, "W-07: 60,000 deep");
	free(large);
}

/* The values found in a document: kind of the key ("k", "p" or "-"); host and port of the PDS; the handle. */
static void
found(void)
{
	static const struct
	{
		const char *rule;
		const char *text;
		char		key;
		const char *pds;
		const char *handle;
	}			table[] = {
		{"W-08", DOC("", "", ""), '-', "", ""},
		{"W-08: first of two", DOC(GOOD "," OTHER, "", ""), 'k', "", ""},
		{"W-08: passed over", DOC(METHOD("#atproto", "Multikey", DID, "zQ3sh") "," OTHER, "", ""), 'p', "", ""},
		{"W-08: of another", DOC(METHOD(DID "#atproto", "Multikey", "did:plc:x", K256) "," OTHER, "", ""), 'p', "", ""},
		{"W-08: another's id", DOC(METHOD("did:plc:x#atproto", "Multikey", DID, K256), "", ""), '-', "", ""},
		{"W-08: fragment", DOC(METHOD("#atproto", "Multikey", DID, K256), "", ""), 'k', "", ""},
		{"W-08: another fragment", DOC(METHOD("#atprot", "Multikey", DID, K256), "", ""), '-', "", ""},
		{"W-08: controller is a fragment", DOC(METHOD("#atproto", "Multikey", "", K256), "", ""), '-', "", ""},
		{"W-08: null", DOC("null,1,[]," GOOD, "", ""), 'k', "", ""},
		{"W-09: another type", DOC(METHOD("#atproto", "JsonWebKey2020", DID, K256), "", ""), '-', "", ""},
		{"W-09: did:key", DOC(METHOD("#atproto", "Multikey", DID, "did:key:" K256), "", ""), '-', "", ""},
		{"W-09: Ed25519", DOC(METHOD("#atproto", "Multikey", DID, "z6MkoZQNgn81vNGh1vw43RmZeQ1RvfAUWuDrFb3dAZRJh4xU"), "", ""), '-', "", ""},
		{"W-10: 33 bytes", DOC(METHOD("#atproto", "EcdsaSecp256k1VerificationKey2019", DID, "z25z9DTpsiYYJKGsWmSPJK2NFN8PcJtZig12K59UgW7q5t"), "", ""), 'k', "", ""},
		{"W-10: 33 bytes", DOC(METHOD("#atproto", "EcdsaSecp256r1VerificationKey2019", DID, "zxdM8dSstjrpZaRUwBmDvjGXweKuEMVN95A9oJBFjkWMh"), "", ""), 'p', "", ""},
		{"W-10: another curve", DOC(METHOD("#atproto", "EcdsaSecp256r1VerificationKey2019", DID, "z25z9DTpsiYYJKGsWmSPJK2NFN8PcJtZig12K59UgW7q5t"), "", ""), '-', "", ""},
		{"W-11: no point", DOC(METHOD("#atproto", "Multikey", DID, "zQ3shMQnkqiyfujhRPGFFqSEeD2yV9kUcmyBiu2fT2BXfFPMN"), "", ""), '-', "", ""},
		{"W-13", DOC("", PDS, ""), '-', "pds.example.com:443", ""},
		{"W-13: first of two", DOC("", PDS "," SERVICE("#atproto_pds", "AtprotoPersonalDataServer", "https://b.example"), ""), '-', "pds.example.com:443", ""},
		{"W-13: a bad one first", DOC("", SERVICE("#atproto_pds", "AtprotoPersonalDataServer", "ftp://b.example") "," PDS, ""), '-', "", ""},
		{"W-13: another type first", DOC("", SERVICE("#atproto_pds", "Other", "https://b.example") "," PDS, ""), '-', "pds.example.com:443", ""},
		{"W-13: an object", DOC("", "{\"id\":\"#atproto_pds\",\"type\":\"AtprotoPersonalDataServer\",\"serviceEndpoint\":{}}", ""), '-', "", ""},
#define A9 "aaaaaaaaa"
#define A54 A9 A9 A9 A9 A9 A9
#define HOST_252 A54 A9 "." A54 A9 "." A54 A9 "." A54 "aaaaaa"
#define ENDPOINT(url, pds) {"W-14: " url, DOC("", SERVICE(DID "#atproto_pds", "AtprotoPersonalDataServer", url), ""), '-', pds, ""}
		ENDPOINT("https://PDS.Example.com/", "pds.example.com:443"),
		ENDPOINT("https://pds.example.com:8443", "pds.example.com:8443"),
		ENDPOINT("http://localhost:2583", "http localhost:2583"),
		ENDPOINT("https://pds.example.com:65536", ""),
		ENDPOINT("https://pds.example.com:0", ""),
		ENDPOINT("https://pds.example.com:4294967739", ""),
		ENDPOINT("https://" HOST_252 "a", HOST_252 "a:443"),
		ENDPOINT("https://" HOST_252 "aa", ""),
		ENDPOINT("https://pds.example.com.", "pds.example.com:443"),
		ENDPOINT("https://PDS.example.com.:443/", "pds.example.com:443"),
		ENDPOINT("https://pds.example.com..", ""),
		ENDPOINT("https://.", ""),
		ENDPOINT("https://pds.example.com:22x", ""),
		ENDPOINT("https://pds.example.com/x", ""),
		ENDPOINT("https://pds.example.com//", ""),
		ENDPOINT("https://pds.example.com?x", ""),
		ENDPOINT("https://pds.example.com#x", ""),
		ENDPOINT("https://user@pds.example.com", ""),
		ENDPOINT("https://", ""),
		ENDPOINT("https:///", ""),
		ENDPOINT("HTTPS://pds.example.com", ""),
		ENDPOINT("https://127.0.0.1", ""),
		ENDPOINT("https://2130706433", ""),
		ENDPOINT("https://0x7f.1", ""),
		ENDPOINT("https://[::1]", ""),
		ENDPOINT("https://pds.example.com.", "pds.example.com:443"),
		ENDPOINT("https://PDS.example.com.:443/", "pds.example.com:443"),
		ENDPOINT("https://pds.example.com..", ""),
		ENDPOINT("https://.", ""),
		ENDPOINT("https://pds..example.com", ""),
		ENDPOINT("https://-pds.example.com", ""),
		ENDPOINT("https://p\\u00e4s.example.com", ""),
		ENDPOINT("https://pds.example.com\\u0000.b.example", ""),
		{"W-15: none valid", DOC("", "", "\"https://a.example\",\"at://x\",1,null,\"at://a_b.example\""), '-', "", ""},
		{"W-15: the first", DOC("", "", "\"at://x\",[\"at://n.example\"],\"at://B.example\",\"at://c.example\""), '-', "", "b.example"},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
	{
		AtpDidDoc	doc;
		AtpErr		err = parse(table[i].text, strlen(table[i].text), &doc);
		char		pds[300] = "";
		char		key = !doc.has_key ? '-' : atp_multikey_curve(doc.key) == ATP_K256 ? 'k' : 'p';

		if (doc.has_pds)
			sprintf(pds, "%s%.*s:%u", doc.pds_is_plain ? "http " : "", (int) doc.pds_len, doc.pds, doc.pds_port);
		ok(err == ATP_OK && key == table[i].key && strcmp(pds, table[i].pds) == 0 &&
		   doc.handle_len == strlen(table[i].handle) && memcmp(doc.handle, table[i].handle, doc.handle_len) == 0,
		   "%s: %c %s %.*s", table[i].rule, key, pds, (int) doc.handle_len, doc.handle);
	}
}

/* W-07: of an array, 64 entries are read. */
static void
many(void)
{
	char	   *text = malloc(ATP_DIDDOC_MAX);
	AtpDidDoc	doc;

	for (int before = 63; before <= 64; before++)
	{
		size_t		n = (size_t) sprintf(text, "{\"id\":\"" DID "\",\"verificationMethod\":[");

		for (int i = 0; i < before; i++)
			n += (size_t) sprintf(text + n, "{\"id\":\"#x\"},");
		n += (size_t) sprintf(text + n, GOOD "]}");
		ok(parse(text, n, &doc) == ATP_OK && doc.has_key == (before < 64), "W-07: a key after %d others", before);
	}
	free(text);
}

/* A number in base 58, of point bytes. */
static void
base58(const uint8_t *bytes, size_t n, char *out)
{
	static const char digits[] = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
	uint8_t		number[ATP_POINT_LONG_LEN];
	char		reversed[100];
	size_t		len = 0;

	memcpy(number, bytes, n);
	for (bool any = true; any;)
	{
		unsigned	rest = 0;

		any = false;
		for (size_t i = 0; i < n; i++)
		{
			rest = rest << 8 | number[i];
			number[i] = (uint8_t) (rest / 58);
			rest %= 58;
			any = any || number[i] != 0;
		}
		reversed[len++] = digits[rest];
	}
	*out++ = 'z';
	while (len > 0)
		*out++ = reversed[--len];
	*out = '\0';
}

/* W-10, W-11: a key of 65 bytes is valid only as a point, with the right y. */
static void
long_keys(void)
{
	uint8_t		secret[32] = {0};
	uint8_t		point[ATP_POINT_LONG_LEN];
	size_t		n = sizeof(point);
	secp256k1_pubkey key;
	char		text[200];
	char		json_text[1000];
	AtpDidDoc	doc;

	/* a point whose x and y differ in parity */
	do
	{
		secret[31]++;
		n = sizeof(point);
		if (!secp256k1_ec_pubkey_create(secp, &key, secret))
			exit(2);
		secp256k1_ec_pubkey_serialize(secp, point, &n, &key, SECP256K1_EC_UNCOMPRESSED);
	} while (((point[32] ^ point[64]) & 1) == 0);
	for (int fault = 0; fault < 5; fault++)
	{
		/* unchanged, hybrid, y of the same parity, y of the opposite parity, too short */
		static const char *const names[] = {"a point", "a hybrid form", "another y", "y less 1", "64 bytes"};
		uint8_t		bytes[ATP_POINT_LONG_LEN];

		memcpy(bytes, point, sizeof(bytes));
		if (fault == 1)
			bytes[0] = 6 | (bytes[64] & 1);
		else if (fault == 2)
			bytes[64] ^= 2;
		else if (fault == 3)
			bytes[64] ^= 1;
		base58(bytes, sizeof(bytes) - (fault == 4), text);
		sprintf(json_text, "{\"id\":\"" DID "\",\"verificationMethod\":[{\"id\":\"#atproto\",\"controller\":\"" DID "\","
				"\"type\":\"EcdsaSecp256k1VerificationKey2019\",\"publicKeyMultibase\":\"%s\"}]}", text);
		ok(parse(json_text, strlen(json_text), &doc) == ATP_OK && doc.has_key == (fault == 0), "W-10, W-11: 65 bytes, %s",
		   names[fault]);
		if (fault == 0)
			ok(doc.key[2] == (2 | (point[64] & 1)) && memcmp(doc.key + 3, point + 1, 32) == 0, "W-11: kept compressed");
	}
}

int
main(void)
{
	secp = secp256k1_context_create(SECP256K1_CONTEXT_SIGN);
	json();
	whole();
	refused();
	found();
	many();
	long_keys();
	secp256k1_context_destroy(secp);
	return done_testing();
}
