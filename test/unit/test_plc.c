/*
 * test_plc.c
 *		Operations, entries and logs of the did:plc directory: M-01 to M-09.  The curves are tested in SQL; here a
 *		signature consists of a part of the key and a part of the digest.
 */
#include "core/plc/plc_entry.h"
#include "core/plc/plc_log.h"
#include "hex.h"
#include "sha.h"

#define KEY_A	"did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme"
#define KEY_B	"did:key:zQ3shtxV1FrJfhqE1dvxYRcCknWNjHc3c5X1y3ZSoPDi2aur2"
#define KEY_C	"did:key:zDnaeTiq1PdzvZXUaMdezchcMJQpBdH2VN4pgrrEhMCCbmwSb"
#define KEY_HIGH	"did:key:zQ3shee78LWigF4Ts7WPKAU8jYxezfqFXLgjiecpo2UFCEtrA"	/* k256, x is above the order of P-256 */
#define NO_KEY	"did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp"
#define MS		INT64_C(1000)
#define HOUR	(3600 * 1000 * MS)

static const char filler[] = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/* --- operations --- */

/* Reads an operation in memory of exactly the size that it needs. */
static AtpErr
read_op(const char *json, AtpPlcOp *op)
{
	size_t		n = strlen(json);
	size_t		size = atp_plc_op_room(n);
	char	   *text = (char *) copy_of(json, n);
	size_t		at;
	AtpErr		err = atp_plc_op_read((AtpSpan) {text, n}, malloc(size), size, sha256, NULL, op, &at);

	ok(at <= n, "the fault lies in the text");
	return err;
}

static void
is_error(const char *json, AtpErr expected, const char *reason)
{
	AtpPlcOp	op;
	AtpErr		err = read_op(json, &op);

	ok(err == expected && (reason == NULL || strcmp(atp_plc_reason(err), reason) == 0), "M-06: %.160s: %s", json, atp_err_text(err));
}

#define OP(members, sig) \
	"{\"type\":\"plc_operation\",\"rotationKeys\":[\"" KEY_A "\"],\"verificationMethods\":{},\"alsoKnownAs\":[],\"services\":{}," members "\"sig\":\"" sig "\"}"

/* The server and the handle that an operation with these aliases and services names. */
static void
names(const char *aliases, const char *services, const char *server, const char *handle)
{
	char		json[1000];
	AtpPlcOp	op;
	AtpPlcState state;

	snprintf(json, sizeof(json), "{\"type\":\"plc_operation\",\"rotationKeys\":[],\"verificationMethods\":{},\"alsoKnownAs\":[%s],\"services\":{%s},\"prev\":null,\"sig\":\"\"}",
			 aliases, services);
	ok(read_op(json, &op) == ATP_OK && atp_plc_op_state(op.cbor, &state), "%s", json);
	ok(server == NULL ? state.server.ptr == NULL : atp_span_is(state.server, server), "M-30: the server is that of the document");
	ok(handle == NULL ? state.handle.ptr == NULL : atp_span_is(state.handle, handle), "M-30: so is the handle");
}

#define PDS(name, url) "\"" name "\":{\"type\":\"AtprotoPersonalDataServer\",\"endpoint\":\"" url "\"}"

static void
states(void)
{
	names("\"at://a.example\",\"at://b.example\"", PDS("atproto_pds", "https://a"), "https://a", "a.example");
	names("\"https://x\",\"at://no handle\",\"at://b.example\"", PDS("a", "https://b") "," PDS("atproto_pds", "https://a"), "https://a", "b.example");
	names("\"at://no handle\",\"at://none\"", PDS("a", "https://b"), NULL, "no handle");
	names("", "\"atproto_pds\":{\"type\":\"x\",\"endpoint\":\"https://a\"}," PDS("b", "https://b"), NULL, NULL);
}

static void
forms(void)
{
	AtpPlcOp	op;
	char		many[65 * 5 + 1000];
	char	   *p;

	is_error(OP("\"prev\":null,", ""), ATP_OK, NULL);
	is_error("[]", ATP_E_PLC_OBJECT, "form");
	is_error("{}", ATP_E_PLC_TYPE, "form");
	is_error("{\"type\":1}", ATP_E_PLC_TYPE, "form");
	is_error("{\"type\":\"plc\"}", ATP_E_PLC_TYPE, "form");
	is_error(OP("", ""), ATP_E_PLC_MEMBER, "form");
	is_error(OP("\"prev\":1,", ""), ATP_E_PLC_PREV_TYPE, "form");
	is_error("{\"type\":\"plc_tombstone\",\"prev\":null,\"sig\":\"\"}", ATP_E_PLC_PREV_TYPE, "form");
	is_error("{\"type\":\"plc_tombstone\",\"prev\":\"x\",\"sig\":1}", ATP_E_PLC_SIG_TYPE, "form");
	is_error("{\"type\":\"create\",\"signingKey\":\"\",\"recoveryKey\":\"\",\"handle\":\"\",\"service\":\"\",\"prev\":\"x\",\"sig\":\"\"}", ATP_E_PLC_CREATE, "form");
	is_error("{\"type\":\"create\",\"signingKey\":\"\",\"recoveryKey\":\"\",\"handle\":null,\"service\":\"\",\"prev\":null,\"sig\":\"\"}", ATP_E_PLC_CREATE, "form");

	/* a fault of the form comes before one of the encoding */
	is_error("{\"type\":\"plc_tombstone\",\"prev\":null,\"sig\":\"=\"}", ATP_E_PLC_PREV_TYPE, "form");
	is_error(OP("\"prev\":null,", "="), ATP_E_PLC_SIG_TEXT, "encoding");
	is_error(OP("\"prev\":\"x\",", ""), ATP_E_PLC_PREV_TEXT, "encoding");
	is_error(OP("\"prev\":null,\"x\":0.5,", ""), ATP_E_JSON_NUMBER, "encoding");
	is_error(OP("\"prev\":null,\"x\":\"\\ud800\",", ""), ATP_E_JSON_SURROGATE, "encoding");
	is_error(OP("\"prev\":null,\"x\":\"\\u0000\",", ""), ATP_E_MSG_NUL, "encoding");
	is_error(OP("\"prev\":null,\"\\u0000\":1,", ""), ATP_E_MSG_NUL, "encoding");
	is_error(OP("\"prev\":null,\"x\":[{\"a\":[\"\\u0000\"]}],", ""), ATP_E_MSG_NUL, "encoding");
	is_error(OP("\"prev\":null,\"prev\":null,", ""), ATP_E_JSON_TWICE, "encoding");
	is_error(OP("\"prev\":null,\"x\":0.5,\"y\":\"\\ud800\",", ""), ATP_E_JSON_NUMBER, "encoding");
	is_error(OP("\"prev\":null,\"\\ud800\":[{\"\\udc00\":1e2}],", ""), ATP_E_JSON_SURROGATE, "encoding");
	is_error(OP("\"prev\":0.5,", ""), ATP_E_PLC_PREV_TYPE, "form");
	is_error(OP("\"prev\":18446744073709551616,", ""), ATP_E_PLC_PREV_TYPE, "form");
	is_error(OP("\"x\":[0.5],\"\\ud800\":\"\\ud800\",", ""), ATP_E_PLC_MEMBER, "form");
	is_error("{\"type\":\"plc_operation\\ud800\"}", ATP_E_PLC_TYPE, "form");
	is_error("{\"type\":0.5}", ATP_E_PLC_TYPE, "form");
	is_error("{\"type\":0.5", ATP_E_JSON_SYNTAX, "encoding");
	is_error(OP("\"prev\":null", ""), ATP_E_JSON_SYNTAX, "encoding");
	is_error(OP("\"x\":1,\"x\":1,", ""), ATP_E_JSON_TWICE, "encoding");

	ok(read_op(OP("\"prev\":null,", ""), &op) == ATP_OK && op.others == 0 && !op.has_sig && !op.has_prev, "M-01: no unknown member");
	ok(read_op(OP("\"prev\":null,\"handle\":1,\"x\":{\"$link\":1},", ""), &op) == ATP_OK && op.others == 2, "M-01: unknown members are counted");

	/* M-06: 64 keys and no more */
	for (int n = 64; n <= 65; n++)
	{
		p = many + sprintf(many, "{\"type\":\"plc_operation\",\"rotationKeys\":[\"\"");
		for (int i = 1; i < n; i++)
			p += sprintf(p, ",\"\"");
		sprintf(p, "],\"verificationMethods\":{},\"alsoKnownAs\":[],\"services\":{},\"prev\":null,\"sig\":\"\"}");
		is_error(many, n == 64 ? ATP_OK : ATP_E_PLC_KEYS, n == 64 ? NULL : "form");
	}
}

/* M-06: 65,536 bytes of DAG-CBOR and no more. */
static void
sizes(void)
{
	static const char head[] = "{\"type\":\"plc_tombstone\",\"prev\":\"x\",\"sig\":\"\",\"a\":\"";
	char	   *json = malloc(sizeof(head) + ATP_PLC_OP_MAX + 3);
	size_t		other = 1 + 5 + 14 + 5 + 2 + 4 + 1 + 2 + 3 /* the head of "a"'s text */ ;

	for (size_t n = ATP_PLC_OP_MAX; n <= ATP_PLC_OP_MAX + 1; n++)
	{
		size_t		len = sizeof(head) - 1;

		memcpy(json, head, len);
		memset(json + len, 'a', n - other);
		strcpy(json + len + n - other, "\"}");
		is_error(json, n > ATP_PLC_OP_MAX ? ATP_E_PLC_SIZE : ATP_E_PLC_PREV_TEXT, NULL);
	}
	free(json);
	ok(strcmp(atp_plc_reason(ATP_E_JSON_LARGE), "form") == 0, "M-06: so is JSON that is too long to be converted");
}

/* M-03: numbers have 64 bits with sign, containers nest 128 levels, the operation included. */
static void
numbers(void)
{
	char		json[1000];
	char	   *p;

	is_error(OP("\"prev\":null,\"x\":[9223372036854775807,-9223372036854775808,1.0,-2.00],", ""), ATP_OK, NULL);
	is_error(OP("\"prev\":null,\"x\":9223372036854775808,", ""), ATP_E_DATA_INTEGER, "encoding");
	is_error(OP("\"prev\":null,\"x\":-9223372036854775809,", ""), ATP_E_DATA_INTEGER, "encoding");
	is_error(OP("\"prev\":null,\"x\":1e3,", ""), ATP_E_JSON_NUMBER, "encoding");
	is_error(OP("\"prev\":null,\"x\":-0,", ""), ATP_E_JSON_NUMBER, "encoding");
	for (int depth = 128; depth <= 129; depth++)
	{
		p = json + sprintf(json, "{\"type\":\"plc_tombstone\",\"prev\":null,\"x\":");
		for (int i = 1; i < depth; i++)
			*p++ = '[';
		for (int i = 1; i < depth; i++)
			*p++ = ']';
		strcpy(p, "}");
		/* JSON that cannot be read has no form */
		is_error(json, depth == 128 ? ATP_E_PLC_MEMBER : ATP_E_JSON_DEPTH, depth == 128 ? "form" : "encoding");
	}
}

/* M-03: keys by length, then by bytes; "$link" is a key like others.  The bytes were written by hand. */
static void
encoding(void)
{
	AtpPlcOp	op;
	AtpBytes	expected = unhex("a4" "6161" "a1" "65246c696e6b" "61" "78" "63736967" "60" "6470726576" "783b"
								 "6261667972656961616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161616161"
								 "6474797065" "6d706c635f746f6d6273746f6e65");

	ok(read_op("{\"type\":\"plc_tombstone\",\"prev\":\"bafyreiaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\","
			   "\"a\":{\"$link\":\"x\"},\"sig\":\"\"}", &op) == ATP_OK && op.cbor.len == expected.len &&
	   memcmp(op.cbor.ptr, expected.ptr, expected.len) == 0, "M-03: the encoding");
}

/* --- entries --- */

static AtpErr
read_entry(const char *json, AtpPlcEntry *entry)
{
	size_t		n = strlen(json);
	size_t		at;
	AtpErr		err = atp_plc_entry_read((AtpSpan) {(char *) copy_of(json, n), n}, entry, &at);

	ok(at <= n, "the fault lies in the text");
	return err;
}

#define ENTRY(cid, time) \
	"{\"did\":\"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa\",\"operation\":{},\"cid\":\"" cid "\",\"createdAt\":\"" time "\"}"

static void
entries(void)
{
	static AtpPlcEntry entry;
	static const char whole[] = "{\"seq\":1,\"did\":\"did:plc:aaaaaaaaaaaaaaaaaaaaaa\\u0061a\",\"operation\":{\"a\":[1,]},\"cid\":\"x\",\"createdAt\":\"1970-01-01T00:00:01.002Z\"}";
	static const struct
	{
		const char *json;
		AtpErr		err;
	}			faults[] = {
		{"1", ATP_E_PLC_ENTRY},
		{"{}", ATP_E_PLC_ENTRY},
		{"{\"did\":\"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa\",\"operation\":1,\"cid\":\"x\",\"createdAt\":\"\"}", ATP_E_PLC_ENTRY},
		{"{\"did\":\"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa\",\"operation\":{},\"createdAt\":\"\"}", ATP_E_PLC_ENTRY},
		{"{\"did\":\"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa\",\"did\":\"\",\"operation\":{},\"cid\":\"x\",\"createdAt\":\"\"}", ATP_E_PLC_ENTRY},
		{"{\"did\":\"did:plc:aaaaaaaaaaaaaaaaaaaaaaa\",\"operation\":{},\"cid\":\"x\",\"createdAt\":\"\"}", ATP_E_PLC_ENTRY_DID},
		{"{\"did\":\"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa\",\"operation\":{},\"cid\":\"x\",\"createdAt\":\"\"}", ATP_E_PLC_ENTRY_TIME},
		{"{\"did\":\"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa\",\"operation\":{},\"cid\":\"x\",\"createdAt\":\"1970-01-01T00:00:01.002Z\",\"nullified\":null}", ATP_E_PLC_ENTRY_MARK},
		{"{\"did\":\"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa\"} ,", ATP_E_JSON_SYNTAX},
		{ENTRY("x\",\"cid\":\"y", "1970-01-01T00:00:00Z"), ATP_E_PLC_ENTRY},
		{ENTRY("x", "0001-01-01T23:59:59.999999Z"), ATP_E_PLC_ENTRY_TIME},
		{ENTRY("x", "0001-01-02T00:00:00Z"), ATP_OK},
		{ENTRY("x", "9999-12-30T23:59:59.9999999Z"), ATP_OK},
		{ENTRY("x", "9999-12-30T23:59:60Z"), ATP_E_PLC_ENTRY_TIME},
		{ENTRY("\\ud800", "1970-01-01T00:00:00Z"), ATP_OK},
		{ENTRY("x", "\\ud800"), ATP_E_PLC_ENTRY}
	};
	char		long_cid[3 * ATP_JSON_TEXTS_MAX];
	size_t		len = sprintf(long_cid, "{\"did\":\"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa\",\"operation\":{},\"createdAt\":\"1970-01-01T00:00:00\\u005a\",\"cid\":\"");

	ok(read_entry(whole, &entry) == ATP_OK && atp_span_is(entry.did, "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa") && atp_span_is(entry.cid, "x") &&
	   atp_span_is(entry.operation, "{\"a\":[1,]}") && entry.created_at == 1002 * MS && !entry.has_mark, "an entry");
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		ok(read_entry(faults[i].json, &entry) == faults[i].err, "%s", faults[i].json);
	ok(read_entry(faults[6].json, &entry) == ATP_E_PLC_ENTRY_TIME && entry.did.ptr != NULL, "a refused entry names its account");
	for (int i = 0; i <= ATP_JSON_TEXTS_MAX; i++)
		len += sprintf(long_cid + len, "\\n");
	strcpy(long_cid + len, "\"}");
	ok(read_entry(long_cid, &entry) == ATP_OK && entry.created_at == 0, "M-02: a CID of any length is a text");
}

/* --- logs --- */

static uint8_t no_point[ATP_MULTIKEY_LEN];	/* KEY_C, in a test where KEY_C is no point of a curve */

static AtpErr
read_key(void *ctx, const uint8_t key[ATP_MULTIKEY_LEN])
{
	return memcmp(key + 2, no_point + 2, ATP_POINT_LEN) == 0 ? ATP_E_KEY_POINT : ATP_OK;
}

static AtpErr
verify(void *ctx, const uint8_t key[ATP_MULTIKEY_LEN], const uint8_t digest[32], const uint8_t sig[ATP_SIG_LEN])
{
	++*(int *) ctx;
	if (memcmp(key + 2, no_point + 2, ATP_POINT_LEN) == 0)
		return ATP_E_KEY_POINT;
	return memcmp(sig, key + 3, 32) == 0 && memcmp(sig + 33, digest, 31) == 0 ? ATP_OK : ATP_E_SIG_WRONG;
}

static void
put_base64url(const uint8_t *in, size_t n, char *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	uint32_t	bits = 0;
	unsigned	nbits = 0;

	for (size_t i = 0; i < n; i++)
		for (bits = bits << 8 | in[i], nbits += 8; nbits >= 6; nbits -= 6)
			*out++ = digits[bits >> (nbits - 6) & 63];
	if (nbits > 0)
		*out++ = digits[bits << (6 - nbits) & 63];
	*out = '\0';
}

/* An operation with these keys, JSON between quotes and commas; prev NULL: a genesis; keys NULL: a tombstone. */
static void
make_op(AtpPlcOp *op, const char *keys, const AtpPlcOp *prev, const char *signer)
{
	char		json[2000];
	char		cid[ATP_CID_TEXT_MAX + 1];
	char		sig[100];
	uint8_t		key[ATP_MULTIKEY_LEN];
	uint8_t		bytes[ATP_SIG_LEN];
	size_t		at;
	const char *before = "";

	strcpy(sig, filler);
	if (prev != NULL)
	{
		cid[atp_cid_format(prev->cid, sizeof(prev->cid), cid)] = '\0';
		before = "\"";
	}
	for (int round = 0; round < 2; round++)
	{
		if (keys == NULL)
			sprintf(json, "{\"type\":\"plc_tombstone\",\"prev\":\"%s\",\"sig\":\"%s\"}", cid, sig);
		else
			sprintf(json, "{\"type\":\"plc_operation\",\"rotationKeys\":[%s],\"verificationMethods\":{},\"alsoKnownAs\":[],"
					"\"services\":{},\"prev\":%s%s%s,\"sig\":\"%s\"}", keys, before, prev != NULL ? cid : "null", before, sig);
		if (read_op(json, op) != ATP_OK || atp_multikey_parse(signer, strlen(signer), key, &at) != ATP_OK)
			exit(2);
		memcpy(bytes, key + 3, 32);
		bytes[32] = 1;
		memcpy(bytes + 33, op->digest, 31);
		put_base64url(bytes, sizeof(bytes), sig);
	}
}

static AtpPlcLog log_of;
static char log_did[ATP_DID_PLC_TEXT];
static int	verified;
static const AtpVerifier verifier = {.verify = verify, .read = read_key, .ctx = &verified};

static void
begin_log(const AtpPlcOp *genesis)
{
	static void *memory = NULL;

	free(memory);
	memory = malloc(atp_plc_log_room(8));
	atp_plc_op_did(genesis, log_did);
	atp_plc_log_init(&log_of, (AtpSpan) {log_did, sizeof(log_did)}, 8, memory);
}

/* Judges the operation, and adds it where it may follow. */
static AtpErr
take(const AtpPlcOp *op, int64_t at)
{
	AtpPlcVerdict verdict;
	AtpErr		err = atp_plc_judge(&log_of, op, log_of.did, at, &verifier, &verdict);

	if (err == ATP_OK)
		atp_plc_log_add(&log_of, op, at, (const AtpPlcKey *) copy_of(op->keys, op->nkeys * sizeof(AtpPlcKey)), &verdict);
	return err;
}

static void
takes(const AtpPlcOp *op, int64_t at, AtpErr expected, const char *name)
{
	AtpErr		err = take(op, at);

	ok(err == expected, "%s: %s", name, atp_err_text(err));
}

#define Q(key)	"\"" key "\""
#define ABC		Q(KEY_A) "," Q(KEY_B) "," Q(KEY_C)

static void
chains(void)
{
	AtpPlcOp	genesis,
				other,
				one,
				two,
				three,
				four;
	AtpPlcVerdict verdict;

	make_op(&genesis, ABC, NULL, KEY_B);
	make_op(&other, ABC, NULL, KEY_A);
	make_op(&one, ABC, &genesis, KEY_C);
	make_op(&two, ABC, &one, KEY_B);
	begin_log(&genesis);
	takes(&one, 1, ATP_E_PLC_PREV, "M-08: a log begins with a genesis");
	takes(&other, 1, ATP_E_PLC_DID, "M-02: the genesis of another account");
	takes(&genesis, 100, ATP_OK, "M-08: a genesis");
	takes(&genesis, 200, ATP_E_PLC_GENESIS, "M-08: a second genesis");
	takes(&two, 200, ATP_E_PLC_PREV, "M-08: prev is not there");
	takes(&one, 100, ATP_E_PLC_ORDER, "M-04: no operation comes at the time of the one before");
	takes(&one, 101, ATP_OK, "M-07: signed by the third key");
	ok(atp_plc_judge(&log_of, &two, (AtpSpan) {"did:plc:aaaaaaaaaaaaaaaaaaaaaaaa", 32}, 200, &verifier, &verdict) == ATP_E_PLC_DID,
	   "M-02: the directory's word for another account");
	takes(&two, 200, ATP_OK, "M-07: signed by the second key");
	ok(atp_plc_log_find(&log_of, two.cid) == 2 && log_of.places[2].prev == 1 && log_of.places[2].signer == 1, "the place of an operation");
	make_op(&three, ABC, &two, KEY_B);
	three.sig[40] ^= 1;
	takes(&three, 300, ATP_E_PLC_SIGNATURE, "M-07: a wrong signature");
	three.has_sig = false;
	verified = 0;
	takes(&three, 300, ATP_E_PLC_SIGNATURE, "M-07: a signature of another length");
	ok(verified == 0, "M-07: nothing is verified then");
	make_op(&three, ABC, &two, KEY_B);
	three.sig[32] = 0x80;
	takes(&three, 300, ATP_E_PLC_SIGNATURE, "M-07: s in the upper half");

	/* the number of operations is bounded by the room */
	begin_log(&genesis);
	takes(&genesis, 1, ATP_OK, "a genesis");
	four = genesis;
	for (int i = 2; i <= 9; i++)
	{
		make_op(&one, ABC, &four, KEY_A);
		takes(&one, i, i < 9 ? ATP_OK : ATP_E_PLC_FULL, "a log for eight operations");
		four = one;
	}
}

/* M-07: a key that cannot be read, before the signer and behind. */
static void
unreadable(void)
{
	AtpPlcOp	genesis;
	AtpPlcOp	next;

	make_op(&genesis, Q(NO_KEY) "," Q(KEY_A), NULL, KEY_A);
	begin_log(&genesis);
	takes(&genesis, 1, ATP_E_PLC_KEY_TEXT, "M-07: before the signer");
	make_op(&genesis, Q(KEY_A) "," Q(NO_KEY) "," Q(KEY_B), NULL, KEY_A);
	begin_log(&genesis);
	takes(&genesis, 1, ATP_OK, "M-07: behind the signer");
	make_op(&next, "", &genesis, KEY_B);
	takes(&next, 2, ATP_E_PLC_KEY_TEXT, "M-07: before another signer");
	make_op(&next, "", &genesis, KEY_A);
	takes(&next, 2, ATP_OK, "M-06: no rotation keys");
	make_op(&genesis, "", &next, KEY_A);
	takes(&genesis, 3, ATP_E_PLC_SIGNATURE, "M-07: nobody may follow then");
}

/* M-07: number of verifications; the result is the first key that verifies. */
static void
guesses(void)
{
	static const char *const keys[] = {KEY_A, KEY_B, KEY_C};
	AtpPlcOp	genesis,
				one,
				two;
	size_t		at;

	for (int before = 0; before < 3; before++)
		for (int now = 0; now < 3; now++)
		{
			make_op(&genesis, ABC, NULL, KEY_C);
			make_op(&one, ABC, &genesis, keys[before]);
			make_op(&two, ABC, &one, keys[now]);
			begin_log(&genesis);
			verified = 0;
			takes(&genesis, 1, ATP_OK, "M-07: a genesis signed by its last key");
			ok(verified == 1, "... with one verification");
			takes(&one, 2, ATP_OK, "M-07: the next operation");
			verified = 0;
			takes(&two, 3, ATP_OK, "M-07: an operation");
			ok(verified == (now == before ? 1 : now < before ? now + 2 : now + 1), "M-07: signed by key %d after key %d: %d verifications", now, before, verified);
			ok(log_of.places[1].signer == before && log_of.places[2].signer == now, "... and the signer is known");
		}

	/* A stands twice, and counts by its first place */
	make_op(&genesis, Q(KEY_A) "," Q(KEY_B) "," Q(KEY_A), NULL, KEY_A);
	make_op(&one, Q(KEY_B) "," Q(KEY_B) "," Q(KEY_B), &genesis, KEY_B);
	make_op(&two, "", &one, KEY_A);
	begin_log(&genesis);
	verified = 0;
	takes(&genesis, 1, ATP_OK, "M-07: the last key is the first, too");
	ok(verified == 1 && log_of.places[0].signer == 0, "M-07: a key that stands twice counts by its first place");
	takes(&one, 2, ATP_OK, "M-07: another key");
	verified = 0;
	takes(&two, 3, ATP_E_PLC_SIGNATURE, "M-07: none of the keys");
	ok(verified == 1, "M-07: a key that stands thrice is tried once");

	/* no point of a curve, before the guessed signer and behind the signer */
	(void) atp_multikey_parse(KEY_C, strlen(KEY_C), no_point, &at);
	make_op(&genesis, Q(KEY_C) "," Q(KEY_HIGH), NULL, KEY_HIGH);
	begin_log(&genesis);
	takes(&genesis, 1, ATP_E_PLC_KEY_TEXT, "M-07: no point, although no key of this curve has such a signature");
	make_op(&genesis, Q(KEY_C) "," Q(KEY_HIGH) "," Q(KEY_A), NULL, KEY_HIGH);
	begin_log(&genesis);
	takes(&genesis, 1, ATP_E_PLC_KEY_TEXT, "M-07: ... and another key was guessed");
	make_op(&genesis, Q(KEY_HIGH) "," Q(KEY_C), NULL, KEY_HIGH);
	begin_log(&genesis);
	takes(&genesis, 1, ATP_OK, "M-07: ... behind the signer");
	make_op(&genesis, Q(KEY_C) "," Q(KEY_B), NULL, KEY_B);
	begin_log(&genesis);
	takes(&genesis, 1, ATP_E_PLC_KEY_TEXT, "M-07: no point, before the signer that was guessed");
	make_op(&genesis, Q(KEY_A) "," Q(KEY_C), NULL, KEY_A);
	begin_log(&genesis);
	takes(&genesis, 1, ATP_OK, "M-07: no point, guessed, behind the signer");
	make_op(&genesis, Q(NO_KEY) "," Q(KEY_B), NULL, KEY_B);
	begin_log(&genesis);
	takes(&genesis, 1, ATP_E_PLC_KEY_TEXT, "M-07: no key, before the signer that was guessed");

	/* s lies in the upper half of p256, the curve of C, and in the lower half of k256, the curve of A and B */
	for (int second = 0; second < 2; second++)
	{
		make_op(&genesis, second ? Q(KEY_C) "," Q(KEY_A) "," Q(KEY_B) : Q(KEY_C) "," Q(KEY_A), NULL, KEY_A);
		memset(genesis.digest, 0xff, 3);
		genesis.digest[3] = 0x90;
		genesis.sig[32] = 0x7f;
		memcpy(genesis.sig + 33, genesis.digest, 31);
		begin_log(&genesis);
		takes(&genesis, 1, ATP_E_PLC_KEY_TEXT, "M-07: no point of a curve on which s lies in the upper half");
		memset(no_point, 0, sizeof(no_point));
		takes(&genesis, 1, ATP_OK, "... a point of this curve is passed over");
		(void) atp_multikey_parse(KEY_C, strlen(KEY_C), no_point, &at);
	}
	memset(no_point, 0, sizeof(no_point));
}

static void
recoveries(void)
{
	AtpPlcOp	genesis,
				one,
				two,
				recovery,
				again,
				end,
				last;
	uint32_t	n;

	make_op(&genesis, Q(KEY_A) "," Q(KEY_B) "," Q(KEY_C) "," Q(KEY_A), NULL, KEY_C);
	make_op(&one, ABC, &genesis, KEY_C);
	make_op(&two, ABC, &one, KEY_C);
	begin_log(&genesis);
	take(&genesis, 1);
	take(&one, 2);
	take(&two, 3);
	make_op(&recovery, Q(KEY_B), &genesis, KEY_C);
	takes(&recovery, 4, ATP_E_PLC_KEY, "M-09: the key that signed what is replaced");
	make_op(&recovery, Q(KEY_B), &genesis, KEY_B);
	takes(&recovery, 3, ATP_E_PLC_ORDER, "M-09: not later than the newest");
	takes(&recovery, 2 + ATP_PLC_WINDOW + 1, ATP_E_PLC_LATE, "M-09: later than 72 hours after the first that is replaced");
	takes(&recovery, 2 + ATP_PLC_WINDOW, ATP_OK, "M-09: exactly 72 hours");
	ok(log_of.places[1].nullified_by == 3 && log_of.places[2].nullified_by == 3 && log_of.places[0].nullified_by == ATP_PLC_NONE, "M-05: both are nullified");
	make_op(&again, Q(KEY_B), &two, KEY_A);
	takes(&again, 3 + ATP_PLC_WINDOW, ATP_E_PLC_NULLIFIED, "M-08: what is nullified is no prev");

	/* a recovery of the recovery: key and window begin anew; A stands twice, and counts by its first place */
	make_op(&end, NULL, &recovery, KEY_B);
	takes(&end, 3 + ATP_PLC_WINDOW, ATP_OK, "a tombstone");
	make_op(&again, Q(KEY_C), &end, KEY_B);
	takes(&again, 4 + ATP_PLC_WINDOW, ATP_E_PLC_TOMBSTONE, "M-08: a tombstone is no prev");
	make_op(&again, Q(KEY_C), &genesis, KEY_B);
	takes(&again, 4 + ATP_PLC_WINDOW, ATP_E_PLC_KEY, "M-09: the key of the recovery");
	make_op(&again, Q(KEY_C), &genesis, KEY_A);
	takes(&again, 2 + 2 * ATP_PLC_WINDOW, ATP_OK, "M-09: a recovery of the recovery, after the tombstone");
	ok(log_of.places[3].nullified_by == 5 && log_of.places[4].nullified_by == 5 && log_of.places[1].nullified_by == 3, "M-05: each is nullified once");
	n = log_of.n;
	make_op(&last, Q(KEY_C), &again, KEY_C);
	takes(&last, 3 + 2 * ATP_PLC_WINDOW, ATP_OK, "the chain goes on");
	ok(log_of.places[n].prev == 5 && log_of.places[0].next == 5 && log_of.places[5].next == n, "the present chain");
}

int
main(void)
{
	forms();
	states();
	sizes();
	numbers();
	encoding();
	entries();
	chains();
	unreadable();
	guesses();
	recoveries();
	return done_testing();
}
