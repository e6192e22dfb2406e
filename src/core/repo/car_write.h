/*
 * car_write.h
 *		A writer of CAR version 1 files.
 */
#ifndef ATP_CAR_WRITE_H
#define ATP_CAR_WRITE_H

#include "core/codec/cbor_write.h"

/* Header with one root (ptr NULL: none), then any number of blocks. */
extern void atp_car_put_header(AtpCborWriter *w, AtpBytes root);
extern void atp_car_put_block(AtpCborWriter *w, AtpBytes cid, const uint8_t *block, size_t n);

#endif							/* ATP_CAR_WRITE_H */
