/*
 * identity_request.h
 *		Wishes: accounts whose DID document the fetcher is to read.
 */
#ifndef ATP_IDENTITY_REQUEST_H
#define ATP_IDENTITY_REQUEST_H

#include "postgres.h"

typedef enum AtpWishPriority
{
	ATP_WISH_USER,				/* somebody waits for it */
	ATP_WISH_HELD,				/* events are held for it */
	ATP_WISH_REST
} AtpWishPriority;

/* How many wishes a role may have at a time: a setting.  Those of consumers are bounded by what they hold. */
extern int	atp_queue_limit;

/* From _PG_init(): the setting. */
extern void atp_wish_init(void);

/*
 * The fetcher is to read the documents of n DIDs, given in their order, each once; with refresh, also
 * of those that it knows.  One statement, with the rights of the table's owner; SPI is
 * connected.  A wish that is there already changes only where it becomes more urgent.  role:
 * whose wishes they are counted as; InvalidOid: nobody's.  An ERROR when that role has too many.
 * The caller wakes the fetcher.
 */
extern void atp_wishes_add(struct varlena *const *dids, int n, bool refresh, AtpWishPriority priority, Oid role);

#endif							/* ATP_IDENTITY_REQUEST_H */
