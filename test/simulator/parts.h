/*
 * parts.h
 *		What records of several kinds contain.
 */
#ifndef SIM_PARTS_H
#define SIM_PARTS_H

#include "network.h"
#include "value.h"

extern void put_now(const Network *net, Values *v, Value *parent);	/* createdAt */

/* A strong reference to a record: its URI and CID. */
extern void put_strong_ref(Values *v, Value *parent, const char *key, const char *did, Kind kind, const char *rkey,
						   const uint8_t digest[DIGEST_LEN]);
extern void put_ref(const Network *net, Values *v, Value *parent, const char *key, const PostRef *post);

/* A blob of a picture; no server of the simulated network has the bytes. */
extern void put_blob(Network *net, Values *v, Value *parent, const char *key);
extern void put_aspect(Network *net, Values *v, Value *image);

#endif							/* SIM_PARTS_H */
