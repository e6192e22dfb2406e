/*
 * made.h
 *		Accounts and records that do not exist, for measurements: the same arguments give the same bytes.
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

/* Sorted. */
extern const char *const made_collections[MADE_COLLECTIONS];

/* So many accounts are named by records, some much more often than others; 0, the default: any account, each once. */
extern uint64_t made_subjects;

/* The next number of a generator (splitmix64). */
extern uint64_t made_number(uint64_t *state);

extern void made_did(uint64_t account, char did[MADE_DID_LEN + 1]);

/* A DID that looks like one of chance: accounts with neighbouring numbers are no neighbours. */
extern void made_spread_did(uint64_t account, char did[MADE_DID_LEN + 1]);

/* A number that follows from two others. */
extern uint64_t made_mix(uint64_t a, uint64_t b);

/* A record of up to MADE_RECORD_MAX bytes. */
extern void made_record(AtpCborWriter *w, MadeCollection collection, uint64_t *state);

extern void made_sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32]);

extern void made_die(const char *what);

/* Memory that is not given back. */
extern void *made_room(size_t n);

#endif							/* MADE_H */
