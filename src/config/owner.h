/*
 * owner.h
 *		Owners of subscriptions: who may be one, and what keeps them from being
 *		dropped.
 */
#ifndef ATP_OWNER_H
#define ATP_OWNER_H

#include "postgres.h"

/* An ERROR unless the current user may lend this role's rights to a consumer. */
extern void atp_owner_check(Oid role);

/* See to it that the role has been noted as an owner; for what came without triggers. */
extern void atp_owner_note(Oid role);

#endif							/* ATP_OWNER_H */
