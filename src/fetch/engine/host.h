/*
 * host.h
 *		Limits of the hosts that the fetcher sends requests to: how many requests at a time, how
 *		many a second, and which hosts are in backoff (rules ).
 *
 * Tasks do not call these functions: fetch.h does.  A host's backoff outlives the process, in table
 * atproto.host.
 */
#ifndef ATP_HOST_H
#define ATP_HOST_H

#include "postgres.h"

#include "common/clock.h"
#include "fetch/engine/host_limit.h"
#include "net/http.h"

/* Called by _PG_init(): define the settings. */
extern void atp_host_init(void);

/*
 * Called once, when the fetcher begins: read the backoffs from atproto.host.  Opens transactions.
 */
extern void atp_host_begin(void);

/*
 * May a request to this host, shared: for a part of a repository (P-60), start now?  True: the request counts as started, until atp_host_told()
 * or atp_host_left().  False: not before *wait_ms milliseconds have passed; -1: when a running
 * request has ended.
 */
extern bool atp_host_ask(const char *host, const AtpHostLimits *limits, bool shared, AtpTime now, long *wait_ms);

/* How many requests may run at a time, over all hosts. */
extern int	atp_host_concurrency(void);

/* A request has ended: count the answer in the host's limits. */
extern void atp_host_told(const char *host, const AtpHttpAnswer *answer, AtpTime now);

/* A request was given up: its slot is free, and the host's limits learn nothing. */
extern void atp_host_left(const char *host);

/*
 * A redirect leads from one host to another.  True: the request now counts for the new host.
 * False: the new host's limits forbid a request now, and nothing has changed.
 */
extern bool atp_host_move(const char *from, const char *to, AtpTime now);

/*
 * P-30, P-61: the host has refused parts of a repository: for a day, the fetcher asks it only for whole repositories.
 */
extern void atp_host_refuses_parts(const char *host, const char *why, AtpTime now);
extern bool atp_host_has_parts(const char *host, AtpTime now);

/* How many more requests the host has said it answers, before it counts anew; -1: unknown. */
extern int64 atp_host_remaining(const char *host, AtpTime now);

/*
 * The last two labels of a name: roughly the registered domain, the part of a name that costs
 * money.
 */
extern const char *atp_host_suffix(const char *name);

/*
 * Called in a transaction now and then: has a session called atproto.reset_backoff() since the last write?  If so, the next write
 * removes the marks of the rows, also if it has nothing else to write.
 */
extern void atp_host_look(void);

/*
 * Write changed hosts to atproto.host, at most once a second.  Returns the milliseconds until the
 * next write; -1: nothing is left to write.
 */
extern long atp_host_write(AtpTime now);

/*
 * Have all changes been written?  If the fetcher ended before, the next fetcher would start with
 * old backoffs.
 */
extern bool atp_host_is_written(void);

#endif							/* ATP_HOST_H */
