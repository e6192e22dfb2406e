/*
 * status_request.h
 *		The table status_wish: accounts whose server is asked whether they are active (V-39),
 *		deleted (V-47), or newer than what is stored.
 */
#ifndef ATP_STATUS_REQUEST_H
#define ATP_STATUS_REQUEST_H

#include "tables/base/sink.h"

/* How long nobody need agree that an account was deleted, before its records go: a setting; 0: at once. */
extern int	atp_purge_after_s;

/* From _PG_init(): the setting. */
extern void atp_status_wish_init(void);

/*
 * The servers of these events' accounts are to be asked, once the transaction commits:
 * the events are sorted by DID.  Who was asked lately is not asked again before it is time; but
 * a deletion is another question than what was asked before.  SPI is connected.
 */
extern void atp_status_wish(const AtpApply *a, AtpEvent *const *events, int n);

/*
 * So are those of n DIDs, given in their order, each once, for their revisions, after all others; who is
 * to be asked already is not asked for this.  SPI is connected.  The caller wakes the fetcher.
 */
extern void atp_status_wish_revs(const AtpSubscription *sub, struct varlena *const *dids, int n);

/* The subscription is about to be removed: what another one would ask for, it goes on to ask for.  SPI is connected. */
extern void atp_status_wishes_leave(const char *name);

/* What subscriptions ask for whose owners may not fill their targets any more, others ask for.  As the table's owner, with SPI. */
extern void atp_status_wishes_take_from_unentitled(void);

/* Are there as many of those for revisions as there should be? */
extern bool atp_status_revs_are_many(void);

/* Has the account's server answered, and would not be asked again now? */
extern bool atp_status_is_answered(const AtpApply *a, struct varlena *did);

#endif							/* ATP_STATUS_REQUEST_H */
