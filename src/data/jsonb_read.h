/*
 * jsonb_read.h
 *		jsonb to canonical DAG-CBOR.
 */
#ifndef ATP_JSONB_READ_H
#define ATP_JSONB_READ_H

#include "postgres.h"

#include "utils/jsonb.h"

#include "core/cbor_write.h"

/*
 * Write the value; numbers must be integers of the range -2^64 to 2^64 - 1.
 * When w is too small, w->len tells how much it takes.
 */
extern AtpErr atp_dagcbor_from_jsonb(Jsonb *jb, AtpCborWriter *w);

/* The value in memory of its own. */
extern AtpErr atp_dagcbor_of_jsonb(Jsonb *jb, AtpBytes *bytes);

#endif							/* ATP_JSONB_READ_H */
