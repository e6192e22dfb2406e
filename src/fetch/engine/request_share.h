/*
 * request_share.h
 *		How the kinds of requests of the fetcher share atproto.fetch_concurrency.  No PostgreSQL
 *		header is needed here.  Times are microseconds of any monotonic clock.
 *
 * Half of the concurrent requests is reserved, the same number for each kind; the other half goes to
 * the kind that asks first.  With fewer concurrent requests than twice the number of kinds the
 * reserves are not all there at the same time: then a kind below its reserve waits in a queue, and
 * the next request that may start is its own.  So no kind starves, however slow the hosts of the
 * remaining kinds are.
 */
#ifndef ATP_REQUEST_SHARE_H
#define ATP_REQUEST_SHARE_H

#include <stdbool.h>
#include <stdint.h>

/* A kind of requests.  All zeros: a kind that never asked. */
typedef struct AtpShare
{
	int			running;
	int64_t		ticket;			/* place in the queue, lowest first; 0: not in the queue */
	int64_t		asked;			/* when the kind was refused last */
} AtpShare;

/* What each of n kinds may have running, whatever the remaining kinds do. */
extern int	atp_share_reserve(int concurrency, int n);

/* How many more requests of this kind may run beside what runs now. */
extern int	atp_share_free(const AtpShare *shares, int n, int concurrency, int kind);

/* Is it worth looking for work of this kind?  False: the kind has its reserve, and all that is shared is taken. */
extern bool atp_share_has_place(const AtpShare *shares, int n, int concurrency, int kind);

/*
 * May this kind start a request now?  False: the kind asks again when a running request has ended.
 * True: the caller increments running, if the limits of the host allow the request, too.
 */
extern bool atp_share_ask(AtpShare *shares, int n, int concurrency, int kind, int64_t now);

#endif							/* ATP_REQUEST_SHARE_H */
