/*
 * jsonb_read.h
 *		Converts jsonb to canonical DAG-CBOR.
 */
#ifndef ATP_JSONB_READ_H
#define ATP_JSONB_READ_H

#include "postgres.h"

#include "utils/jsonb.h"

#include "core/atp.h"

/*
 * *result is palloc'd.  Numbers must be integers of the range -2^64 to 2^64 - 1.  B-27: a jsonb that was made of
 * DAG-CBOR gives the same bytes again.
 */
extern AtpErr atp_dagcbor_of_jsonb(Jsonb *jb, bytea **result);

#endif							/* ATP_JSONB_READ_H */
