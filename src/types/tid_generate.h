/*
 * tid_generate.h
 *		The generator behind tid_generate().
 */
#ifndef ATP_TID_GENERATE_H
#define ATP_TID_GENERATE_H

#include "postgres.h"

/* From _PG_init: when preloaded, asks for the shared memory of the generator. */
extern void atp_tid_init(void);

/* A TID that this server never gave out before. */
extern uint64_t atp_tid_next(void);

#endif							/* ATP_TID_GENERATE_H */
