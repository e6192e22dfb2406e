/*
 * made.h
 *		Invented accounts and records for the programs of bench.  Equal arguments give equal bytes, so two runs measure the same data.
 */
#ifndef MADE_H
#define MADE_H

#include "core/codec/cbor_write.h"
#include "core/codec/cid.h"

#define MADE_DID_LEN	32
#define MADE_RECORD_MAX	512
#define MADE_FIRST_TID	UINT64_C(0x18a0000000000000)
#define MADE_TID_STEP	(UINT64_C(977) << 20)

typedef enum MadeCollection
{
	MADE_LIKE,
	MADE_POST,
	MADE_FOLLOW,
	MADE_RECIPE,
	MADE_COLLECTIONS
} MadeCollection;

/* The names of MadeCollection, in the order of the alphabet. */
extern const char *const made_collections[MADE_COLLECTIONS];

/*
 * The number of accounts that the records of made_record() name as subject; a few of these accounts are named much more often than the
 * rest, as in the network.  0, the default: each record names a different account.
 */
extern uint64_t made_subjects;

/* The next number of a generator (splitmix64). */
extern uint64_t made_number(uint64_t *state);

/* The DID of an account; neighbouring numbers give similar DIDs. */
extern void made_did(uint64_t account, char did[MADE_DID_LEN + 1]);

/* A DID that looks like a random DID: neighbouring numbers of accounts give DIDs that are not neighbours in the order of the tables. */
extern void made_spread_did(uint64_t account, char did[MADE_DID_LEN + 1]);

/* Mixes two numbers to a third number. */
extern uint64_t made_mix(uint64_t a, uint64_t b);

/* Writes a record of the collection, of up to MADE_RECORD_MAX bytes. */
extern void made_record(AtpCborWriter *w, MadeCollection collection, uint64_t *state);

extern void made_sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32]);

extern void made_die(const char *what);

/* Memory that is never freed; exits if memory is lacking. */
extern void *made_room(size_t n);

#endif							/* MADE_H */
