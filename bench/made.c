/*
 * made.c
 *		Accounts and records that do not exist: see made.h.
 */
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/syntax/tid.h"
#include "made.h"

const char *const made_collections[MADE_COLLECTIONS] = {"app.bsky.feed.like", "app.bsky.feed.post", "app.bsky.graph.follow", "exchange.recipe.recipe"};

uint64_t	made_subjects = 0;

void
made_die(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

void *
made_room(size_t n)
{
	void	   *p = malloc(n);

	if (p == NULL)
		made_die("out of memory");
	return p;
}

uint64_t
made_number(uint64_t *state)
{
	uint64_t	z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

void
made_sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
	SHA256(data, len, out);
}

void
made_did(uint64_t account, char did[MADE_DID_LEN + 1])
{
	static const char alphabet[] = "234567abcdefghijklmnopqrstuvwxyz";

	memcpy(did, "did:plc:", 8);
	for (int i = 8; i < MADE_DID_LEN; i++, account >>= 5)
		did[i] = alphabet[account & 31];
	did[MADE_DID_LEN] = '\0';
}

uint64_t
made_mix(uint64_t a, uint64_t b)
{
	uint64_t	state = a;

	state = made_number(&state) ^ b;
	return made_number(&state);
}

void
made_spread_did(uint64_t account, char did[MADE_DID_LEN + 1])
{
	made_did(made_mix(account, UINT64_C(0xd1d)), did);
}

/* The cube of a random number: an eighth of the accounts gets half of the likes. */
static void
subject_did(uint64_t *state, char did[MADE_DID_LEN + 1])
{
	uint64_t	number = made_number(state);
	double		share = (double) (number >> 11) / (double) (UINT64_C(1) << 53);

	made_did(made_subjects == 0 ? number : (uint64_t) (share * share * share * (double) made_subjects), did);
}

/* What somebody else has written: with made_subjects, one of 16 posts of an account. */
static void
put_subject(AtpCborWriter *w, uint64_t *state)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN] = {1, ATP_CID_CODEC_DAG_CBOR, ATP_CID_SHA2_256, 32};
	char		did[MADE_DID_LEN + 1];
	char		rkey[ATP_TID_TEXT];
	char		uri[128];

	for (int i = 4; i < ATP_CID_BLESSED_LEN; i++)
		cid[i] = (uint8_t) made_number(state);
	subject_did(state, did);
	atp_tid_format(MADE_FIRST_TID + (made_number(state) & (made_subjects == 0 ? 0xffffffff : 15)) * 1024, rkey);
	snprintf(uri, sizeof(uri), "at://%s/app.bsky.feed.post/%.13s", did, rkey);
	atp_cbor_put_key(w, "subject");
	atp_cbor_put_map(w, 2);
	atp_cbor_put_key(w, "cid");
	atp_cbor_put_link(w, cid, sizeof(cid));
	atp_cbor_put_key(w, "uri");
	atp_cbor_put_key(w, uri);
}

static void
put_text(AtpCborWriter *w, uint64_t *state)
{
	static const char sentence[] = "The dog does not mind, for it has seen many of these foxes before, and all of them were brown. ";
	char		text[MADE_RECORD_MAX];
	uint64_t	first = made_number(state);
	int			len = snprintf(text, sizeof(text), "Number %llu: the quick brown fox jumps over the lazy dog. %.*s%s%s",
							   (unsigned long long) first, (int) (made_number(state) % sizeof(sentence)), sentence, sentence, sentence);

	atp_cbor_put_key(w, "text");
	atp_cbor_put_text(w, text, (size_t) len);
}

/* Keys of a map come in the order of their lengths (B-11). */
void
made_record(AtpCborWriter *w, MadeCollection collection, uint64_t *state)
{
	bool		has_text = collection == MADE_POST || collection == MADE_RECIPE;
	char		did[MADE_DID_LEN + 1];

	atp_cbor_put_map(w, has_text ? 4 : 3);
	if (has_text)
		put_text(w, state);
	atp_cbor_put_key(w, "$type");
	atp_cbor_put_key(w, made_collections[collection]);
	if (has_text)
	{
		atp_cbor_put_key(w, "langs");
		atp_cbor_put_array(w, 1);
		atp_cbor_put_key(w, "en");
	}
	else if (collection == MADE_LIKE)
		put_subject(w, state);
	else
	{
		subject_did(state, did);
		atp_cbor_put_key(w, "subject");
		atp_cbor_put_key(w, did);
	}
	atp_cbor_put_key(w, "createdAt");
	atp_cbor_put_key(w, "2026-01-01T00:00:00.000Z");
}
