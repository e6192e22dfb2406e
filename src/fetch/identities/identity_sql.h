/*
 * identity_sql.h
 *		Common parts of the SQL functions that ask for look-ups.  The caller has SPI connected, in a transaction with a
 *		snapshot.
 */
#ifndef ATP_IDENTITY_SQL_H
#define ATP_IDENTITY_SQL_H

#include "postgres.h"

/* An ERROR for a DID whose method has no documents here (W-01). */
extern void atp_identity_check_method(struct varlena *did);

/* Queue a look-up for the current role, and wake the fetcher. */
extern void atp_identity_request_lookup(struct varlena *did, bool refresh);

/* Has the fetcher done all look-ups of this account that the current role has queued? */
extern bool atp_identity_is_settled(struct varlena *did);

#endif							/* ATP_IDENTITY_SQL_H */
