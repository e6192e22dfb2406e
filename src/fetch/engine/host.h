/*
 * host.h
 *		The hosts that are asked: how many requests at a time, how often, and which
 *		of them has to rest (rules ).
 *
 * Errands use fetch.h.  What a host asked for outlives the process: table
 * atproto.host.
 */
#ifndef ATP_HOST_H
#define ATP_HOST_H

#include "postgres.h"

#include "common/clock.h"
#include "fetch/engine/host_limit.h"
#include "net/http.h"

/* From _PG_init(): the settings. */
extern void atp_host_init(void);

/* Once, when the fetcher begins: what the table knows.  In transactions of its own. */
extern void atp_host_begin(void);

/*
 * May a request start at this host now?  True: it counts as started, until
 * atp_host_told() or atp_host_left().  False: not before *wait_ms; -1: when
 * another one ends.
 */
extern bool atp_host_ask(const char *host, const AtpHostLimits *limits, AtpTime now, long *wait_ms);

/* How many may run at a time, at all hosts. */
extern int	atp_host_concurrency(void);

/* A request has ended: learn from it. */
extern void atp_host_told(const char *host, const AtpHttpAnswer *answer, AtpTime now);

/* It was given up: there is nothing to learn. */
extern void atp_host_left(const char *host);

/* It leads to another one, which is asked in its place: may it be?  If not, nothing has changed. */
extern bool atp_host_move(const char *from, const char *to, AtpTime now);

/* Where a name's last two labels begin: what a stranger has had to buy, more or less. */
extern const char *atp_host_suffix(const char *name);

/* Write what changed, once a second at most; returns ms until there is more to write, -1: nothing. */
extern long atp_host_write(AtpTime now);

/* Is everything written?  Who ends before leaves the next one to believe what was true once. */
extern bool atp_host_is_written(void);

#endif							/* ATP_HOST_H */
