/*
 * list_hosts.h
 *		Rows of hosts' lists: each host that the server of a subscription names has a list
 *		of repositories to read.  Also checks the entries of such lists.
 *
 * Call in a transaction, as the owner of atproto.enumeration, with SPI connected.
 */
#ifndef ATP_LIST_HOSTS_H
#define ATP_LIST_HOSTS_H

#include "postgres.h"

#include "fetch/repositories/list_rows.h"

/* Called by _PG_init(): define the setting. */
extern void atp_list_hosts_init(void);

/* How many more entries of the list of hosts count. */
extern int64 atp_list_hosts_room(const AtpListing *listing);

/* Add the lists of these hosts; returns how many are new. */
extern int64 atp_list_hosts_add(const AtpListing *listing, const List *urls);

/* The list of hosts was read to its end: delete the lists of hosts that it did not name. */
extern void atp_list_hosts_forget(const AtpListing *listing);

/*
 * check a page of a host's own list.  A host may speak only for accounts whose identity names
 * this host as server: accounts of a different server are dropped, and if an account's server is
 * unknown, the revision is dropped.
 */
extern void atp_list_of_host_judge(const AtpListing *listing, AtpListed *page);

#endif							/* ATP_LIST_HOSTS_H */
