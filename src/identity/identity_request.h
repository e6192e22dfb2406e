/*
 * identity_request.h
 *		Requests for look-ups: accounts whose DID document the fetcher is to read.  This
 *		file only queues rows in atproto.identity_request; only the fetcher removes them.
 */
#ifndef ATP_IDENTITY_REQUEST_H
#define ATP_IDENTITY_REQUEST_H

#include "postgres.h"

typedef enum AtpRequestPriority
{
	ATP_REQUEST_USER,			/* a user's session waits for the result */
	ATP_REQUEST_HELD,			/* events are held until the result */
	ATP_REQUEST_OTHER
} AtpRequestPriority;

/*
 * Setting: the number of pending requests a role may have.  Consumers' requests are not counted: the limit of
 * held events bounds them.
 */
extern int	atp_queue_limit;

/* From _PG_init(): the setting. */
extern void atp_identity_request_init(void);

/*
 * Request look-ups of n DIDs (sorted, without duplicates); with refresh, also of documents already known.
 * One statement, with the rights of the table's owner; SPI must be connected.  An existing request changes
 * only when its priority rises.  owner: the owner of the subscription that needs the identities, or the role of the
 * session; the fetcher takes the requests in turn from the owners.  limited: the requests count against the owner's limit.
 * Raises an ERROR when the role has too many requests.  The caller must wake the fetcher.
 */
extern void atp_identity_requests_add(struct varlena *const *dids, int n, bool refresh, AtpRequestPriority priority, Oid owner, bool limited);

#endif							/* ATP_IDENTITY_REQUEST_H */
