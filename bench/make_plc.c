/*
 * make_plc.c
 *		The log of a did:plc directory that does not exist: make_plc OPERATIONS ACCOUNTS FILE [KEYS] writes its lines, as
 *		/export has them.  The accounts begin with the keys in KEYS, the simulator's file, if given.  On standard output: the
 *		signatures of how many operations a second this machine verifies, which is the floor of every consumer.  The server signs,
 *		by the second key, as the servers of the network do.
 *
 * Each account has a key of its own for its commits (k256), and two rotation keys: its server's, of one of 60, and one that
 * all accounts share.  Four of five handles are names below one of three domains.  The accounts begin one after the other;
 * then accounts by chance change handle, server and key, or only the key.  The same arguments give the same bytes.
 */
#include <secp256k1.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/codec/json_dagcbor.h"
#include "core/plc/plc_op.h"
#include "core/syntax/base64.h"
#include "cpu_time.h"
#include "unit/sha.h"

#define SERVERS		60
#define DOMAINS		3
#define LINE_MAX	4096
#define START		1670000000		/* seconds since the Unix epoch */

typedef struct Signer
{
	uint8_t		secret[32];
	char		text[64];		/* did:key */
} Signer;

typedef struct Account
{
	char		did[ATP_DID_PLC_TEXT];
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	unsigned	operations;
	unsigned	server;
	unsigned	handle;
	unsigned	key;
} Account;

/* What is verified at the end. */
typedef struct Signed
{
	uint8_t		digest[32];
	uint8_t		sig[ATP_SIG_LEN];
	unsigned	server;
} Signed;

static secp256k1_context *curve;
static Signer servers[SERVERS];
static Signer recovery;
static FILE *given;				/* the simulator's keys of accounts; NULL: not given */
static uint64_t random_state = 88172645463325252u;

static void
die(const char *what)
{
	fprintf(stderr, "make_plc: %s\n", what);
	exit(1);
}

static unsigned
draw(unsigned n)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (unsigned) (random_state >> 20) % n;
}

static void
public_point(const uint8_t secret[32], uint8_t point[ATP_POINT_LEN])
{
	secp256k1_pubkey key;
	size_t		n = ATP_POINT_LEN;

	if (!secp256k1_ec_pubkey_create(curve, &key, secret) ||
		!secp256k1_ec_pubkey_serialize(curve, point, &n, &key, SECP256K1_EC_COMPRESSED))
		die("no public key");
}

/* The key pair with this name. */
static void
make_signer(Signer *signer, const char *name)
{
	uint8_t		point[ATP_POINT_LEN];
	uint8_t		key[ATP_MULTIKEY_LEN];

	sha256(NULL, (const uint8_t *) name, strlen(name), signer->secret);
	public_point(signer->secret, point);
	atp_multikey_make(ATP_K256, point, key);
	memcpy(signer->text, "did:key:", 8);
	signer->text[8 + atp_multikey_text(key, signer->text + 8)] = 0;
}

/* The next key of the simulator, as did:key; behind the last line the key stays as it is. */
static void
take_given(char text[64])
{
	char		line[LINE_MAX];
	char		hex[2 * ATP_MULTIKEY_LEN + 1];
	uint8_t		key[ATP_MULTIKEY_LEN];

	if (given == NULL || fgets(line, sizeof(line), given) == NULL)
		return;
	if (sscanf(line, "%*s %*s %70s", hex) != 1)
		die("KEYS has a line without a key");
	for (int i = 0; i < ATP_MULTIKEY_LEN; i++)
	{
		unsigned	byte;

		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			die("KEYS has a key that is no hexadecimal number");
		key[i] = (uint8_t) byte;
	}
	text[8 + atp_multikey_text(key, text + 8)] = 0;
}

static void
sign_text(const uint8_t secret[32], const char *json, size_t n, Signed *to)
{
	static uint8_t room[1 << 16];
	secp256k1_ecdsa_signature s;
	AtpBytes	cbor;
	size_t		at;

	if (atp_json_to_dagcbor_plain(json, n, room, sizeof(room), &cbor, &at) != ATP_OK)
		die("the operation has no DAG-CBOR");
	sha256(NULL, cbor.ptr, cbor.len, to->digest);
	if (!secp256k1_ecdsa_sign(curve, &s, to->digest, secret, NULL, NULL) ||
		!secp256k1_ecdsa_signature_serialize_compact(curve, to->sig, &s))
		die("cannot sign");
}

/* The next operation of the account, without its last brace. */
static size_t
write_operation(const Account *account, unsigned number, char *json)
{
	Signer		key;
	char		name[64];
	char		prev[ATP_CID_TEXT_MAX + 2] = "null";
	size_t		n;

	if (account->operations > 0)
	{
		prev[0] = '"';
		n = atp_cid_format(account->cid, sizeof(account->cid), prev + 1);
		memcpy(prev + 1 + n, "\"", 2);
	}
	snprintf(name, sizeof(name), "key %u %u", number, account->key);
	make_signer(&key, name);
	if (account->operations == 0)
		take_given(key.text);
	if (account->handle % 5 == 0)
		snprintf(name, sizeof(name), "www.person%u-%u.org", number, account->handle);
	else
		snprintf(name, sizeof(name), "person%u-%u.handles%u.example", number, account->handle, number % DOMAINS);
	return (size_t) sprintf(json, "{\"type\":\"plc_operation\",\"rotationKeys\":[\"%s\",\"%s\"],\"verificationMethods\":{\"atproto\":\"%s\"},"
							"\"alsoKnownAs\":[\"at://%s\"],\"services\":{\"atproto_pds\":{\"type\":\"AtprotoPersonalDataServer\","
							"\"endpoint\":\"https://host%u.region%u.hosts.example\"}},\"prev\":%s", recovery.text, servers[account->server].text,
							key.text, name, account->server, account->server % 4, prev);
}

static void
change_account(Account *account, unsigned number)
{
	if (account->operations == 0)
	{
		account->server = number % SERVERS;
		account->handle = draw(5);
		return;
	}
	switch (draw(3))
	{
		case 0:
			account->handle += 1 + draw(4);
			break;
		case 1:
			account->server = draw(SERVERS);
			/* fall through */
		default:
			account->key++;
	}
}

static void
write_line(FILE *out, Account *account, unsigned number, unsigned seq, Signed *to)
{
	static AtpPlcOp op;
	static uint8_t room[1 << 17];
	char		json[LINE_MAX];
	char		sig[ATP_BASE64URL_LEN(ATP_SIG_LEN)];
	char		cid[ATP_CID_TEXT_MAX];
	char		when[32];
	time_t		second = START + seq / 50;
	size_t		n;
	size_t		at;

	/* the server before the change signs */
	to->server = account->operations > 0 ? account->server : number % SERVERS;
	change_account(account, number);
	n = write_operation(account, number, json);
	json[n] = '}';
	sign_text(servers[to->server].secret, json, n + 1, to);
	atp_base64url_encode(to->sig, ATP_SIG_LEN, sig);
	n += (size_t) sprintf(json + n, ",\"sig\":\"%.*s\"}", (int) sizeof(sig), sig);
	if (atp_plc_op_read((AtpSpan) {json, n}, room, sizeof(room), sha256, NULL, &op, &at) != ATP_OK)
		die("the operation cannot be read");
	if (account->operations++ == 0)
		atp_plc_op_did(&op, account->did);
	memcpy(account->cid, op.cid, sizeof(op.cid));
	cid[atp_cid_format(op.cid, sizeof(op.cid), cid)] = 0;
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", gmtime(&second));
	fprintf(out, "{\"type\":\"sequenced_op\",\"did\":\"%.*s\",\"operation\":%s,\"cid\":\"%s\",\"createdAt\":\"%s.%03uZ\",\"seq\":%u}\n",
			ATP_DID_PLC_TEXT, account->did, json, cid, when, seq % 50 * 20, seq);
}

static void
verify_all(const Signed *all, unsigned n)
{
	secp256k1_pubkey keys[SERVERS];
	double		begin;

	for (unsigned i = 0; i < SERVERS; i++)
		if (!secp256k1_ec_pubkey_create(curve, &keys[i], servers[i].secret))
			die("no public key");
	begin = seconds();
	for (unsigned i = 0; i < n; i++)
	{
		secp256k1_ecdsa_signature s;

		if (!secp256k1_ecdsa_signature_parse_compact(curve, &s, all[i].sig) ||
			!secp256k1_ecdsa_verify(curve, &s, all[i].digest, &keys[all[i].server]))
			die("a signature is wrong");
	}
	printf("%.0f\n", n / (seconds() - begin));
}

int
main(int argc, char **argv)
{
	bool		is_call = argc == 4 || argc == 5;
	unsigned	operations = is_call ? (unsigned) atoi(argv[1]) : 0;
	unsigned	naccounts = is_call ? (unsigned) atoi(argv[2]) : 0;
	Account    *accounts = calloc(naccounts + 1, sizeof(Account));
	Signed	   *all = calloc(operations + 1, sizeof(Signed));
	FILE	   *out = is_call ? fopen(argv[3], "w") : NULL;

	given = argc == 5 ? fopen(argv[4], "r") : NULL;
	curve = secp256k1_context_create(SECP256K1_CONTEXT_NONE);
	if (out == NULL || naccounts == 0 || accounts == NULL || all == NULL || curve == NULL || (argc == 5 && given == NULL))
		die("OPERATIONS ACCOUNTS FILE [KEYS]");
	make_signer(&recovery, "recovery");
	for (unsigned i = 0; i < SERVERS; i++)
	{
		char		name[16];

		snprintf(name, sizeof(name), "server %u", i);
		make_signer(&servers[i], name);
	}
	for (unsigned i = 0; i < operations; i++)
	{
		unsigned	number = i < naccounts ? i : draw(naccounts);

		write_line(out, &accounts[number], number, i + 1, &all[i]);
	}
	fclose(out);
	verify_all(all, operations);
	return 0;
}
