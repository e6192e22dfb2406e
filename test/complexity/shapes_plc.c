/*
 * shapes_plc.c
 *		Operations, entries and logs of the did:plc directory.
 */
#include "core/plc/plc_entry.h"
#include "core/plc/plc_log.h"
#include "measure.h"
#include "unit/sha.h"

#define KEY	"did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme"
#define SECOND	"did:key:zQ3shtxV1FrJfhqE1dvxYRcCknWNjHc3c5X1y3ZSoPDi2aur2"
#define SIG	"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAQ"

static AtpPlcOp op;

static AtpErr
read_op(AtpSpan json)
{
	size_t		size = atp_plc_op_room(json.len);
	uint8_t    *room = malloc(size);
	size_t		at;
	AtpErr		err = atp_plc_op_read(json, room, size, sha256, NULL, &op, &at);

	free(room);
	return err;
}

static bool
run_op(void)
{
	return read_op((AtpSpan) {INPUT_TEXT, input.len}) == ATP_OK;
}

static void
begin_op(const char *keys)
{
	putf("{\"type\":\"plc_operation\",\"prev\":null,\"sig\":\"" SIG "\",\"rotationKeys\":[%s],", keys);
}

/* Members that no operation has, in the order that sorting likes least. */
static void
make_members(size_t n)
{
	begin_op("");
	put("\"verificationMethods\":{},\"alsoKnownAs\":[],\"services\":{}");
	while (n-- > 0)
		putf(",\"%08zu\":null", n);
	put("}");
}

static void
make_methods(size_t n)
{
	begin_op("");
	put("\"alsoKnownAs\":[],\"services\":{},\"verificationMethods\":{\"\":\"\"");
	while (n-- > 0)
		putf(",\"%08zu\":\"\"", n);
	put("}}");
}

static void
make_services(size_t n)
{
	begin_op("");
	put("\"alsoKnownAs\":[],\"verificationMethods\":{},\"services\":{\"\":{\"type\":\"\",\"endpoint\":\"\"}");
	while (n-- > 0)
		putf(",\"%08zu\":{\"type\":\"\",\"endpoint\":\"\"}", n);
	put("}}");
}

/* Keys as long as they are decoded (W-12). */
static void
make_keys(size_t n)
{
	begin_op("\"\"");
	input.len -= 2;
	while (n-- > 1)
		put(",\"did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBmeQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJw\"");
	put("],\"verificationMethods\":{},\"alsoKnownAs\":[],\"services\":{}}");
}

/* A chain of n operations behind a genesis. */
static void
make_chain(size_t n)
{
	char		cid[ATP_CID_TEXT_MAX];
	char		prev[ATP_CID_TEXT_MAX + 3] = "null";

	for (size_t i = 0; i <= n; i++)
	{
		size_t		at = input.len;
		size_t		len;

		putf("{\"type\":\"plc_operation\",\"prev\":%s,\"sig\":\"" SIG "\",\"rotationKeys\":[\"" KEY "\",\"" SECOND "\"],"
			 "\"verificationMethods\":{},\"alsoKnownAs\":[],\"services\":{}}", prev);
		(void) read_op((AtpSpan) {INPUT_TEXT + at, input.len - at});
		len = atp_cid_format(op.cid, sizeof(op.cid), cid);
		(void) snprintf(prev, sizeof(prev), "\"%.*s\"", (int) len, cid);
		put("\n");
	}
}

/* The second key signs, so that the first may recover. */
static AtpErr
verify(void *ctx, const uint8_t key[ATP_MULTIKEY_LEN], const uint8_t digest[32], const uint8_t sig[ATP_SIG_LEN])
{
	return memcmp(key, op.keys[*(const int *) ctx], ATP_MULTIKEY_LEN) == 0 ? ATP_OK : ATP_E_SIG_WRONG;
}

static AtpErr
read_key(void *ctx, const uint8_t key[ATP_MULTIKEY_LEN])
{
	return ATP_OK;
}

static AtpErr
take(AtpPlcLog *log, int signer)
{
	const AtpVerifier verifier = {.verify = verify, .read = read_key, .ctx = &signer};
	AtpPlcVerdict verdict;
	AtpErr		err = atp_plc_judge(log, &op, log->did, log->n, &verifier, &verdict);

	if (err == ATP_OK)
		atp_plc_log_add(log, &op, log->n, op.keys, &verdict);
	return err;
}

/* Reads the chain; then a recovery nullifies all but the genesis, or each operation is offered again. */
static bool
run_log(bool again)
{
	uint32_t	n = (uint32_t) parts + 2;
	void	   *memory = malloc(atp_plc_log_room(n));
	char		did[ATP_DID_PLC_TEXT];
	AtpPlcLog	log;
	bool		result = true;

	atp_plc_log_init(&log, (AtpSpan) {NULL, 0}, n, memory);
	for (int round = 0; round <= again; round++)
		for (const char *line = INPUT_TEXT, *end = line + input.len; line < end && result;)
		{
			size_t		len = (const char *) memchr(line, '\n', end - line) - line;

			result = read_op((AtpSpan) {line, len}) == ATP_OK;
			if (log.n == 0)
			{
				atp_plc_op_did(&op, did);
				log.did = (AtpSpan) {did, sizeof(did)};
			}
			if (round == 1)
				result &= take(&log, 1) != ATP_OK;
			else
				result &= take(&log, 1) == ATP_OK;
			line += len + 1;
		}
	if (!again && result)
	{
		op.has_prev = true;
		memcpy(op.prev, log.places[0].cid, sizeof(op.prev));
		result = take(&log, 0) == ATP_OK && (parts == 0 || log.places[1].nullified_by == n - 1);
	}
	free(memory);
	return result;
}

static bool
run_recovery(void)
{
	return run_log(false);
}

static bool
run_again(void)
{
	return run_log(true);
}

const Shape plc_shapes[] = {
	{"members", ATP_PLC_OP_MAX / 10 - 64, 4096, make_members, run_op},
	{"methods", ATP_PLC_OP_MAX / 10 - 64, 4096, make_methods, run_op},
	{"services", ATP_PLC_OP_MAX / 27 - 64, 1024, make_services, run_op},
	{"keys", ATP_PLC_KEYS_MAX, 0, make_keys, run_op},
	{"recovery", INPUT_ROOM / 600, 1024, make_chain, run_recovery},
	{"again", INPUT_ROOM / 600, 1024, make_chain, run_again},
	{NULL}
};
