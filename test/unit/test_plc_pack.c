/*
 * test_plc_pack.c
 *		The packed form of directory operations (M-20): what each token stands for, sizes, and that every operation comes
 *		back, whole, cut and altered.
 */
#include "core/codec/json_dagcbor.h"
#include "core/plc/plc_pack.h"
#include "hex.h"
#include "sha.h"

#define KEY_A	"did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme"
#define KEY_B	"did:key:zQ3shtxV1FrJfhqE1dvxYRcCknWNjHc3c5X1y3ZSoPDi2aur2"
#define KEY_C	"did:key:zDnaeTiq1PdzvZXUaMdezchcMJQpBdH2VN4pgrrEhMCCbmwSb"
#define NO_KEY	"did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"
#define SIG		"7QTzqO1BcL3eDzP4P_YBxMmv5U4brHzAItkM9w5o8gZA7ElZkrVYEwsfQCfk5EoWLk58Z1y6fyNP9x1pthJnlw"
#define PREV	"bafyreigp7z5bqlv2zsv5tbpxlhhgqvqzj6c7ksl2hg2ze2gv2dydpwzg5i"
#define PDS		"https://pds.example.com"

/* --- texts with ids --- */

typedef struct Shared
{
	uint32_t	first;			/* id of the first text */
	int			n;
	const char *texts[8];
	bool		packs;			/* each text that is asked for must have been noted */
	int			nnoted;
	AtpSpan		noted[128];
} Shared;

static bool
was_noted(const Shared *shared, AtpSpan text)
{
	for (int i = 0; i < shared->nnoted; i++)
		if (shared->noted[i].ptr == text.ptr && shared->noted[i].len == text.len)
			return true;
	return false;
}

static uint32_t
note_text(void *ctx, AtpSpan text)
{
	Shared	   *shared = ctx;

	if (shared->nnoted == 128)
		exit(2);
	shared->noted[shared->nnoted++] = text;
	return 0;
}

static uint32_t
id_of_text(void *ctx, AtpSpan text)
{
	const Shared *shared = ctx;

	if (shared->packs && !was_noted(shared, text))
		ok(false, "M-20: the text %.*s was not noted", (int) text.len, text.ptr);
	for (int i = 0; i < shared->n; i++)
		if (atp_span_is(text, shared->texts[i]))
			return shared->first + (uint32_t) i;
	return 0;
}

static AtpSpan
text_of_id(void *ctx, uint32_t id)
{
	const Shared *shared = ctx;

	if (id < shared->first || id - shared->first >= (uint32_t) shared->n)
		return (AtpSpan) {NULL, 0};
	return (AtpSpan) {shared->texts[id - shared->first], strlen(shared->texts[id - shared->first])};
}

static AtpBytes
cbor_of(const char *json)
{
	size_t		n = strlen(json);
	size_t		size = atp_json_dagcbor_room(n);
	uint8_t    *room = malloc(size);
	AtpBytes	cbor;
	size_t		at;

	if (atp_json_to_dagcbor_plain(json, n, room, size, &cbor, &at) != ATP_OK)
		exit(2);
	return (AtpBytes) {copy_of(cbor.ptr, cbor.len), cbor.len};
}

static const uint8_t *
cid_of(const char *text)
{
	uint8_t    *cid = malloc(ATP_CID_MAX);
	size_t		n;
	size_t		at;

	if (atp_cid_parse(text, strlen(text), cid, &n, &at) != ATP_OK || n != ATP_CID_BLESSED_LEN)
		exit(2);
	return cid;
}

/* Packs, unpacks and compares, in memory of exactly the sizes that are needed; returns the packed bytes. */
static AtpBytes
packed_of(AtpBytes in, const uint8_t *prev, Shared *shared, const char *what)
{
	const AtpPlcTexts texts = {.id = id_of_text, .text = text_of_id, .ctx = shared};
	uint8_t    *room = malloc(atp_plc_pack_room(in.len));
	const AtpPlcTexts notes = {.id = note_text, .ctx = shared};
	size_t		n;
	AtpBytes	packed;
	uint8_t    *out = malloc(in.len);
	size_t		again;
	bool		same;

	shared->nnoted = 0;
	atp_plc_op_note(in, prev, &notes);
	shared->packs = what != NULL;
	n = atp_plc_op_pack(in, 3, prev, &texts, room);
	packed = (AtpBytes) {copy_of(room, n), n};
	same = atp_plc_op_unpack(packed, prev, &texts, out, in.len, &again) && again == in.len && memcmp(out, in.ptr, in.len) == 0;

	if (what != NULL || !same)
		ok(same && atp_plc_packed_signer(packed) == 3, "M-20: %s comes back", what != NULL ? what : "an altered operation");
	free(room);
	free(out);
	return packed;
}

#define ODD_HANDLE	"\"at://\\u00e4.\"", "\"at://\"", "\"at://.\"", "\"x.\"", "\".com\"", "\"https://\"", "\"http://a.com\""
#define OPERATION(keys, methods, aliases, services, more) \
	"{\"type\":\"plc_operation\",\"rotationKeys\":[" keys "],\"verificationMethods\":{" methods "},\"alsoKnownAs\":[" aliases "],\"services\":{" services "}," more "\"sig\":\"" SIG "\"}"
#define SERVICE(type, endpoint)	"{\"type\":\"" type "\",\"endpoint\":\"" endpoint "\"}"
#define USUAL(prev) OPERATION("\"" KEY_A "\",\"" KEY_B "\"", "\"atproto\":\"" KEY_C "\"", "\"at://alice.example.com\"", \
							  "\"atproto_pds\":" SERVICE("AtprotoPersonalDataServer", PDS), "\"prev\":" prev ",")

static const char *const operations[] = {
	USUAL("null"),
	USUAL("\"" PREV "\""),
	"{\"type\":\"plc_tombstone\",\"prev\":\"" PREV "\",\"sig\":\"" SIG "\"}",
	"{\"type\":\"create\",\"signingKey\":\"" KEY_A "\",\"recoveryKey\":\"" KEY_B "\",\"handle\":\"alice.example.com\",\"service\":\"" PDS "\",\"prev\":null,\"sig\":\"" SIG "\"}",
	"{\"type\":\"create\",\"signingKey\":\"" KEY_C "\",\"recoveryKey\":\"" NO_KEY "\",\"handle\":\"at://x\",\"service\":\"x\",\"prev\":null,\"sig\":\"\"}",
	OPERATION("", "", "", "", "\"prev\":null,\"more\":[1,-1,true,null,{\"$link\":\"x\",\"sig\":\"" SIG "\"},\"" KEY_A "\"],"),
	OPERATION("\"" NO_KEY "\",\"did:key:z\",\"\",\"" KEY_A "x\"", "\"atproto\":\"" NO_KEY "\",\"atproto_label\":\"" KEY_A "\",\"\":\"\"",
			  "\"at://\\u00e4.\",\"at://\",\"at://.\",\"x.\",\".com\",\"https://\",\"at://a.b.example.com\"",
			  "\"atproto_labeler\":" SERVICE("AtprotoLabeler", "https://l.example.com") ",\"bsky_fg\":" SERVICE("BskyFeedGenerator", PDS), "\"prev\":\"" PREV "\","),
};

static Shared nothing = {.first = 1};
static Shared common = {.first = 1, .n = 4, .texts = {KEY_A, KEY_B, PDS, "example.com"}};
static Shared rare = {.first = 0x8000, .n = 4, .texts = {KEY_A, KEY_B, PDS, "example.com"}};

static void
operations_come_back(void)
{
	const uint8_t *prev = cid_of(PREV);

	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
	{
		AtpBytes	cbor = cbor_of(operations[i]);

		(void) packed_of(cbor, prev, &nothing, "an operation without shared texts");
		(void) packed_of(cbor, NULL, &nothing, "an operation of which no operation before is known");
		(void) packed_of(cbor, prev, &common, "an operation with shared texts");
		(void) packed_of(cbor, prev, &rare, "an operation with large ids");
		/* cut anywhere, and with any bit turned round: no operation any more, but the same bytes */
		for (size_t n = 0; n < cbor.len; n++)
			(void) packed_of((AtpBytes) {copy_of(cbor.ptr, n), n}, prev, &common, NULL);
		for (size_t bit = 0; bit < 8 * cbor.len; bit++)
		{
			uint8_t    *altered = copy_of(cbor.ptr, cbor.len);

			altered[bit / 8] ^= (uint8_t) (1 << bit % 8);
			(void) packed_of((AtpBytes) {altered, cbor.len}, prev, &common, NULL);
			free(altered);
		}
	}
}

static void
sizes(void)
{
	const uint8_t *prev = cid_of(PREV);

	/* signer, sig, phrase, server, phrase, handle, phrase, two keys, phrase with key */
	ok(packed_of(cbor_of(operations[1]), prev, &common, "the usual operation").len == 1 + 65 + 1 + 2 + 1 + (3 + 5) + 1 + 4 + (1 + 1 + 33),
	   "M-20: the usual operation has no more bytes than it needs");
	ok(packed_of(cbor_of(operations[2]), prev, &common, "a tombstone").len == 1 + 65 + 1, "M-20: a tombstone");
}

/* Bytes that are no packed operation. */
static void
refused(const char *hex, const char *why)
{
	const AtpPlcTexts texts = {.text = text_of_id, .ctx = &common};
	uint8_t		out[300];
	size_t		n;

	ok(!atp_plc_op_unpack(unhex(hex), NULL, &texts, out, sizeof(out), &n), "M-20: %s", why);
}

static void
unpacks(const char *hex, const char *expected, const char *why)
{
	const AtpPlcTexts texts = {.text = text_of_id, .ctx = &common};
	uint8_t		out[300];
	AtpBytes	want = unhex(expected);
	size_t		n;

	ok(atp_plc_op_unpack(unhex(hex), NULL, &texts, out, sizeof(out), &n) && n == want.len && memcmp(out, want.ptr, n) == 0, "M-20: %s", why);
}

static void
tokens(void)
{
	refused("", "nothing is no packed operation");
	refused("000003616263ff", "an id of 15 bits without its second byte");
	refused("00000461", "a literal with too few bytes");
	refused("0000ffffffffffffffff7f61", "a literal of 2^63 bytes");
	refused("0002", "an unknown token");
	refused("000b000161", "an unknown prefix");
	refused("003d", "an unknown phrase");
	refused("0020ff", "a phrase with a cut signature");
	refused("008005", "an unknown id");
	refused("008000", "no id");
	refused("0001808080808001", "an id of 36 bits");
	refused("0009050161", "an unknown domain");
	refused("00090001", "a label without its bytes");
	refused("000900", "a label without its length");
	unpacks("00", "", "no token stands for no bytes");
	unpacks("0000036162630000", "616263", "literals");
	unpacks("008004", "6b6578616d706c652e636f6d", "a shared text");
	unpacks("000104", "6b6578616d706c652e636f6d", "a shared text by its long id");
	unpacks("0009040161", "7261743a2f2f612e6578616d706c652e636f6d", "a handle");
	unpacks("003a", "60", "without the operation before, its CID is an empty text");
}

int
main(void)
{
	operations_come_back();
	sizes();
	tokens();
	return done_testing();
}
