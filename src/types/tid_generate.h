/*
 * tid_generate.h
 *		The generator behind tid_generate(): see tid_generate.c for the
 *		guarantees.
 */
#ifndef ATP_TID_GENERATE_H
#define ATP_TID_GENERATE_H

#include "postgres.h"

/* Called from _PG_init; when preloaded, requests the generator's shared memory. */
extern void atp_tid_init(void);

/* A TID greater than all TIDs that this server gave out before (without preloading: this process). */
extern uint64_t atp_tid_next(void);

#endif							/* ATP_TID_GENERATE_H */
