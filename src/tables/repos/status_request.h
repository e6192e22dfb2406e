/*
 * status_request.h
 *		The queue atproto.status_request: requests to ask an account's server whether the account is active
 *		(V-39), deleted (V-47), or newer than the stored repository.
 *
 * Consumers write the requests; the fetcher asks the servers and removes the rows.
 */
#ifndef ATP_STATUS_REQUEST_H
#define ATP_STATUS_REQUEST_H

#include "tables/base/sink.h"

/* Setting atproto.purge_after: seconds after which an unconfirmed deletion takes effect; 0: at once. */
extern int	atp_purge_after_s;

/* From _PG_init(): the setting. */
extern void atp_status_request_init(void);

/*
 * Request the status of these events' accounts; the fetcher is woken at commit.  The events are sorted by DID.  A
 * server that was asked lately is not asked again before its time, but a deletion replaces an earlier request of a
 * different kind.  The caller has SPI connected.
 */
extern void atp_request_statuses(const AtpApply *a, AtpEvent *const *events, int n);

/*
 * Request the revisions of n accounts, with the lowest priority.  An account that has a request already gets no second
 * one.  The DIDs are sorted, without duplicates.  The caller has SPI connected, and wakes the fetcher.
 */
extern void atp_request_revs(const AtpSubscription *sub, struct varlena *const *dids, int n);

/*
 * Before the removal of a subscription: move its requests to a second subscription of the target that may make such
 * requests.  The caller has SPI connected, and will lock no repository any more (lock order).
 */
extern void atp_status_requests_leave(const char *name);

/* The subscription leaves the target: atp_status_requests_leave(), and the requests that no subscription takes over are deleted. */
extern void atp_status_requests_move(const char *name, const char *target);

/*
 * Move the requests of subscriptions whose owners may no longer fill their targets to subscriptions whose owners may.
 * The caller runs as the table's owner, with SPI connected.
 */
extern void atp_status_requests_take_from_unentitled(void);

/*
 * Do as many requests for revisions wait as the owner of this subscription may have (atproto.fetch_queue)?  The requests
 * of one owner must not keep the lists of another from being read.
 */
extern bool atp_status_revs_are_many(const char *name);

/* Has the account's server answered a request for status, and the row with the answer still exists? */
extern bool atp_status_is_answered(const AtpApply *a, struct varlena *did);

/* Is an account's server still to be asked whether the account was deleted (V-47)? */
extern bool atp_status_is_asked(const AtpApply *a, struct varlena *did);

#endif							/* ATP_STATUS_REQUEST_H */
