/*
 * waiting.h
 *		Common parts of procedures that wait for the fetcher.  Such a procedure commits its
 *		request, so that the fetcher sees the request, and then polls.  Between two polls the
 *		procedure holds no snapshot, so that VACUUM is not held back.
 */
#ifndef ATP_WAITING_H
#define ATP_WAITING_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "fmgr.h"

/* Connect to SPI.  An ERROR with this detail if the procedure is called where it cannot commit. */
extern void atp_waiting_begin(FunctionCallInfo fcinfo, const char *name, const char *detail);

/*
 * Set a safe search_path, so that names mean the same for every caller; AtEOXact_GUC() with the
 * returned level ends it.
 */
extern int	atp_waiting_step(void);

/* Commit, and sleep for so many milliseconds; a cancel request ends the sleep. */
extern void atp_waiting_pause(long ms);

/* The interval in milliseconds, limited to 0 .. INT32_MAX. */
extern int	atp_interval_ms(const Interval *interval);

#endif							/* ATP_WAITING_H */
