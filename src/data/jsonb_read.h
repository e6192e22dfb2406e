/*
 * jsonb_read.h
 *		jsonb to canonical DAG-CBOR.
 */
#ifndef ATP_JSONB_READ_H
#define ATP_JSONB_READ_H

#include "postgres.h"

#include "utils/jsonb.h"

#include "core/atp.h"

/* The value, palloc'd; numbers must be integers of the range -2^64 to 2^64 - 1. */
extern AtpErr atp_dagcbor_of_jsonb(Jsonb *jb, bytea **result);

#endif							/* ATP_JSONB_READ_H */
