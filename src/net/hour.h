/*
 * hour.h
 *		How many requests a database has sent to other hosts within an hour, and how many bytes have come:
 *		bounds for the whole database, beside the limits of each host.
 *
 * The counts are in shared memory, so a process that ends takes no count away, and the processes of a
 * database, which are the fetcher and consumers that read archives, share the bounds.  A server that starts
 * counts from zero.  Event streams are not counted: their bytes come once, and cannot be put off.
 */
#ifndef ATP_HOUR_H
#define ATP_HOUR_H

#include "postgres.h"

/* From _PG_init(): the settings and the shared memory. */
extern void atp_hour_init(void);

/* A request is being sent by this process, also to the target of a redirect. */
extern void atp_hour_request(void);

/* Bytes have come.  May be called inside libcurl: takes no lock. */
extern void atp_hour_bytes(int64 n);

/* Add the bytes that have come since the last call to the counts of the database. */
extern void atp_hour_write(void);

/*
 * NULL: another request may begin.  Otherwise the reason why not, for people; lives until the next call.  bulk: a request that
 * may wait, as for an export or a list: the last tenth of the bounds is for look-ups of accounts, on which all else depends.
 */
extern const char *atp_hour_fault(bool bulk);

/* What the current database has used within the last hour, and the bounds; 0: no bound. */
typedef struct AtpHourUse
{
	int64		requests;
	int64		requests_max;
	int64		bytes;
	int64		bytes_max;
} AtpHourUse;

extern AtpHourUse atp_hour_use(void);

#endif							/* ATP_HOUR_H */
