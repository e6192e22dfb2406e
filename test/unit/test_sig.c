/*
 * test_sig.c
 *		The signed bytes of a map, texts that are no signature, and keys as text: V-05 to V-08, V-49, W-09,
 *		W-12.  The curves are tested in SQL.
 */
#include "core/repo/sig.h"
#include "hex.h"
#include "sha.h"

/* --- keys --- */

/* The interoperability suite's did:keys; the bytes were computed from their secret keys. */
static void
did_keys(void)
{
	static const char *const vectors[][2] = {
		{"did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme",
		"e70103874c15c7fda20e539c6e5ba573c139884c351188799f5458b4b41f7924f235cd"},
		{"did:key:zQ3shtxV1FrJfhqE1dvxYRcCknWNjHc3c5X1y3ZSoPDi2aur2",
		"e70103d4b8cf1953bd38ea9f79a51c4fd4be325ff9c103b26db490d121a03201bd5343"},
		{"did:key:zQ3shZc2QzApp2oymGvQbzP8eKheVshBHbU4ZYjeXqwSKEn6N",
		"e70102b52d132694fdf9452926f8cc654c80d02d2823d97b556f1dd800e9b5844955d3"},
		{"did:key:zQ3shadCps5JLAHcZiuX5YUtWHHL8ysBJqFLWvjZDKAWUBGzy",
		"e70102c4561d755268fce5a438cdea327b7b97663ea98c576740a0c3f49925aca46cde"},
		{"did:key:zQ3shptjE6JwdkeKN4fcpnYQY3m9Cet3NiHdAfpvSUZBFoKBj",
		"e701039853d170080b6a03316f471c1fa1afd3257344e5a02e9c4cfdb2c4ab3f49cbc6"},
		{"did:key:zDnaeTiq1PdzvZXUaMdezchcMJQpBdH2VN4pgrrEhMCCbmwSb",
		"80240230e4d86041888fcce87bc49a07f35e25612425a2545aafa08b649c981cfa8104"}
	};

	for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++)
	{
		AtpBytes	expected = unhex(vectors[i][1]);
		const char *text = vectors[i][0];
		uint8_t		key[ATP_MULTIKEY_LEN];
		size_t		at;

		ok(atp_multikey_parse(text, strlen(text), key, &at) == ATP_OK && memcmp(key, expected.ptr, sizeof(key)) == 0,
		   "W-09: %s", text);
		text += strlen("did:key:");
		ok(atp_multikey_parse(text, strlen(text), key, &at) == ATP_OK && memcmp(key, expected.ptr, sizeof(key)) == 0,
		   "W-09: %s", text);
		ok(atp_multikey_curve(key) == (i < 5 ? ATP_K256 : ATP_P256), "V-08: its curve");
	}
}

static AtpErr
parse_key(const char *s, size_t n, size_t *at)
{
	uint8_t		key[ATP_MULTIKEY_LEN];

	return atp_multikey_parse(s, n, key, at);
}

static void
wrong_keys(void)
{
	char		text[ATP_BASE58_MAX + 3];
	size_t		at;

	REFUSED("W-09", parse_key,
			{"", ATP_E_KEY_BASE, 0},
			{"did:key:", ATP_E_KEY_BASE, 8},
			{"did:key:Q3sh", ATP_E_KEY_BASE, 8},
			{"z", ATP_E_KEY_TYPE, 1},
			{"zQ3sh0", ATP_E_KEY_BASE58, 5},
			{"z6MkoZQNgn81vNGh1vw43RmZeQ1RvfAUWuDrFb3dAZRJh4xU", ATP_E_KEY_TYPE, 1},
			{"zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme1", ATP_E_KEY_LENGTH, 49},
			{"zQ3si6yZpvqMT5exBRruSeePxPn2xkpetNQJQRhho5JqV491v", ATP_E_KEY_POINT, 1});
	memset(text, '1', sizeof(text));
	text[0] = 'z';
	ok(parse_key(text, ATP_BASE58_MAX + 1, &at) == ATP_E_KEY_LENGTH && at == 1, "W-12: 128 digits");
	ok(parse_key(text, ATP_BASE58_MAX + 2, &at) == ATP_E_KEY_LONG && at == ATP_BASE58_MAX + 1, "W-12: a digit more");
}

/* --- signatures --- */

#define HALF_K	"7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0"
#define HALF_K1	"7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a1"
#define N_K		"fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
#define LAST_K	"fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364140"
#define HALF_P	"7fffffff800000007fffffffffffffffde737d56d38bcf4279dce5617e3192a8"
#define HALF_P1	"7fffffff800000007fffffffffffffffde737d56d38bcf4279dce5617e3192a9"
#define N_P		"ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"
#define LAST_P	"ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632550"
#define ZERO	"0000000000000000000000000000000000000000000000000000000000000000"
#define ONE		"0000000000000000000000000000000000000000000000000000000000000001"
#define MAX		"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"

static void
ranges(void)
{
	static const struct
	{
		AtpCurve	curve;
		const char *hex;
		AtpErr		err;
	}			table[] = {
		{ATP_K256, ONE ONE, ATP_OK}, {ATP_P256, ONE ONE, ATP_OK},
		{ATP_K256, LAST_K HALF_K, ATP_OK}, {ATP_P256, LAST_P HALF_P, ATP_OK},
		{ATP_K256, ONE HALF_K1, ATP_E_SIG_HIGH}, {ATP_P256, ONE HALF_P1, ATP_E_SIG_HIGH},
		{ATP_K256, ONE LAST_K, ATP_E_SIG_HIGH}, {ATP_P256, ONE LAST_P, ATP_E_SIG_HIGH},
		{ATP_K256, ONE N_K, ATP_E_SIG_HIGH}, {ATP_P256, ONE MAX, ATP_E_SIG_HIGH},
		{ATP_K256, N_K ONE, ATP_E_SIG_RANGE}, {ATP_P256, N_P ONE, ATP_E_SIG_RANGE},
		{ATP_K256, MAX ONE, ATP_E_SIG_RANGE}, {ATP_P256, MAX ONE, ATP_E_SIG_RANGE},
		{ATP_K256, ZERO ONE, ATP_E_SIG_RANGE}, {ATP_P256, ZERO ONE, ATP_E_SIG_RANGE},
		{ATP_K256, ONE ZERO, ATP_E_SIG_RANGE}, {ATP_P256, ONE ZERO, ATP_E_SIG_RANGE},
		{ATP_K256, "", ATP_E_SIG_LENGTH}, {ATP_P256, ONE ONE "00", ATP_E_SIG_LENGTH},
		{ATP_P256, ONE, ATP_E_SIG_LENGTH},
		{ATP_K256, "3045022100" ONE "0220" HALF_K, ATP_E_SIG_LENGTH},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
	{
		AtpErr		err = atp_sig_check(table[i].curve, unhex(table[i].hex));

		ok(err == table[i].err, "V-06, V-07: %s: %s", table[i].hex, atp_err_text(err));
	}
}

/* --- what is signed --- */

static void
cuts(void)
{
	static const struct
	{
		const char *map;
		bool		is_label;
		const char *left;		/* NULL: an error */
	}			table[] = {
		{"a163736967420102", false, "a0"},
		{"a2636e6f7700637369674101", false, "a1636e6f7700"},
		{"a263736967410164646174610a", false, "a164646174610a"},
		/* nested "sig" members stay, as do all further fields and "prev", null included */
		{"a36178a1637369674107637369674101647072657" "6f6", false, "a26178a16373696741076470726576f6"},
		{"a2637369674101652474797065616c", false, "a1652474797065616c"},
		{"a2637369674101652474797065616c", true, "a0"},
		{"a0", false, NULL}, {"a1616101", false, NULL}, {"80", false, NULL}, {"", false, NULL}, {"f6", true, NULL},
		{"a1637369676161", false, NULL},	/* text */
		{"a163736967f6", false, NULL},
		{"a16373696741", false, NULL},
		{"a163736967410100", false, NULL},	/* a byte behind the end */
		{"a2637369674101637369674102", false, NULL},	/* twice */
		{"a2637369674101616101", false, NULL},	/* not canonical: order */
		{"a163736967580101", false, NULL},	/* length */
		{"bf637369674101ff", false, NULL},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
	{
		AtpBytes	map = unhex(table[i].map);
		AtpCborWriter w = {.buf = malloc(map.len), .cap = map.len};
		AtpBytes	sig;
		size_t		at = SIZE_MAX;
		AtpErr		err = atp_sig_cut(map.ptr, map.len, table[i].is_label, &w, &sig, &at);
		AtpBytes	left = unhex(table[i].left != NULL ? table[i].left : "");

		ok(table[i].left == NULL ? err != ATP_OK && at <= map.len :
		   err == ATP_OK && w.len == left.len && memcmp(w.buf, left.ptr, w.len) == 0,
		   "V-05, V-49: %s: %s", table[i].map, atp_err_text(err));
	}
}

static AtpErr
answer(void *ctx, const uint8_t key[ATP_MULTIKEY_LEN], const uint8_t digest[32], const uint8_t sig[ATP_SIG_LEN])
{
	uint8_t		expected[32];

	sha256(NULL, (const uint8_t *) "abc", 3, expected);
	++*(int *) ctx;
	return memcmp(digest, expected, sizeof(expected)) == 0 ? ATP_OK : ATP_E_SIG_WRONG;
}

/* The curve's function is called only for bytes with the form of a signature, and with the digest. */
static void
asks(void)
{
	static const uint8_t key[ATP_MULTIKEY_LEN] = {0x80, 0x24, 2};
	int			asked = 0;

	ok(atp_sig_verify(key, (const uint8_t *) "abc", 3, unhex(ONE ONE), sha256, NULL, answer, &asked) == ATP_OK && asked == 1,
	   "V-05: over the SHA-256 of the bytes");
	ok(atp_sig_verify(key, (const uint8_t *) "abd", 3, unhex(ONE ONE), sha256, NULL, answer, &asked) == ATP_E_SIG_WRONG,
	   "what the curve says");
	ok(atp_sig_verify(key, (const uint8_t *) "abc", 3, unhex(ONE HALF_P1), sha256, NULL, answer, &asked) == ATP_E_SIG_HIGH &&
	   asked == 2, "V-07: it is not asked");
}

int
main(void)
{
	did_keys();
	wrong_keys();
	ranges();
	cuts();
	asks();
	return done_testing();
}
