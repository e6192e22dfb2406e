/*
 * car_out.h
 *		Writes a CAR file, as one value or as rows of chunks (O-01).
 */
#ifndef ATP_CAR_OUT_H
#define ATP_CAR_OUT_H

#include "postgres.h"

#include "core/codec/cid.h"
#include "fmgr.h"

typedef struct AtpCarOut AtpCarOut;

/* A single value, in the current memory context. */
extern AtpCarOut *atp_car_out_value(void);

/*
 * Rows of a set-returning function with one column, in a tuplestore that leaves memory for a temporary file early.  Each
 * row has whole blocks, about 256 kB.  No row is seen before the function ends: an ERROR leaves no half file.
 */
extern AtpCarOut *atp_car_out_rows(FunctionCallInfo fcinfo);

extern void atp_car_out_header(AtpCarOut *out, AtpBytes root);
extern void atp_car_out_block(AtpCarOut *out, AtpBytes cid, AtpBytes block);

/* The value; NULL: rows. */
extern bytea *atp_car_out_end(AtpCarOut *out);

#endif							/* ATP_CAR_OUT_H */
