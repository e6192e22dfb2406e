/*
 * waiting.h
 *		What procedures have in common that wait for the fetcher: they commit what was
 *		asked for, and look now and then; between two looks they have no snapshot.
 */
#ifndef ATP_WAITING_H
#define ATP_WAITING_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "fmgr.h"

/* Connect to SPI; an ERROR, with this detail, where the procedure may not commit. */
extern void atp_waiting_begin(FunctionCallInfo fcinfo, const char *name, const char *detail);

/* Names mean the same whatever the caller's search_path is, until AtEOXact_GUC() ends this level. */
extern int	atp_waiting_step(void);

/* Commit, and wait so long; may be cancelled. */
extern void atp_waiting_pause(long ms);

/* Not less than 0, nor more than a timeout may be. */
extern int	atp_interval_ms(const Interval *interval);

#endif							/* ATP_WAITING_H */
