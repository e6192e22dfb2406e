/*
 * list_hosts.h
 *		Lists of hosts: each host that the server of a subscription names has a
 *		list of repositories that is read; and what such a list can say.
 *
 * In a transaction, as the owner of atproto.enumeration, with SPI connected.
 */
#ifndef ATP_LIST_HOSTS_H
#define ATP_LIST_HOSTS_H

#include "postgres.h"

#include "fetch/repositories/list_rows.h"

/* From _PG_init(): the setting. */
extern void atp_list_hosts_init(void);

/* How many entries of the list count that are still to come. */
extern int64 atp_list_hosts_room(const AtpListing *listing);

/* These hosts' lists are to be read.  How many are new. */
extern int64 atp_list_hosts_add(const AtpListing *listing, const List *urls);

/* The list has ended: the hosts that it has not named are no more. */
extern void atp_list_hosts_forget(const AtpListing *listing);

/*
 * A page of a host's own list.  R-61: only what the server of an account's identity says of it counts.
 * What is elsewhere is left out; where that is not known, so is what the host says of the revision.
 */
extern void atp_list_of_host_judge(const AtpListing *listing, AtpListed *page);

#endif							/* ATP_LIST_HOSTS_H */
