/*
 * list_rows.h
 *		Rows of atproto.enumeration: how far each list was read, and how the entries of a page
 *		become jobs.  list.c sends the requests.
 *
 * Call in a transaction, with SPI connected.
 */
#ifndef ATP_LIST_ROWS_H
#define ATP_LIST_ROWS_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "fetch/repositories/list_entries.h"
#include "nodes/pg_list.h"

/* A list to read; all members are palloc'd. */
typedef struct AtpListing
{
	char	   *subscription;
	char	   *source;			/* as in atproto.enumeration */
	char	   *server;			/* scheme and host */
	char	   *cursor;			/* cursor of the page to request; NULL: the first page */
	TimestampTz started_at;
} AtpListing;

typedef enum AtpListFault
{
	ATP_LIST_AGAIN,				/* request the same page again, after a while */
	ATP_LIST_BUSY,				/* ... as soon as the host may be asked: the list has not failed */
	ATP_LIST_ANEW,				/* the server does not know the cursor: begin with the first page */
	ATP_LIST_NOTED				/* atp_list_note() has counted the failure already */
} AtpListFault;

/* Called by _PG_init(): define the setting. */
extern void atp_list_init(void);

/* sources of a list of hosts, and (followed by the host's URL) of a host's own list. */
#define ATP_LIST_HOSTS_SOURCE	"listHosts"
#define ATP_LIST_OF_HOST		"listRepos "
extern bool atp_list_is_of_hosts(const AtpListing *listing);
extern bool atp_list_is_of_host(const AtpListing *listing);

/*
 * source of the list that atproto.recheck() has read once, to find stored repositories of
 * which the server has a newer revision.
 */
#define ATP_LIST_RECHECK	"recheck"
extern void atp_list_recheck(const char *subscription);
extern bool atp_list_is_recheck(const AtpListing *listing);

/*
 * Make lists of the subscription due at once: those that are being read, and those given up; with "again" also those read
 * to their end, from the first page on.  Returns how many lists are to be read now.  *resting: hosts of these lists that are
 * in backoff, with the times; NULL: none.
 */
extern int64 atp_lists_hasten(const char *subscription, bool again, char **resting);

/* Is any list due within a minute? */
extern bool atp_list_is_wanted(void);

/*
 * Lists that are due, at most "limit"; a list that was not being read is begun.  Owners take turns,
 * and so do the subscriptions of an owner.  Within a subscription, lists being read come first,
 * then the lists that have waited longest.
 */
extern List *atp_lists_due(int limit);

/*
 * Called in a transaction before the owner's tables are touched, since code in these tables may end
 * the process (run_as_owner.h).  Notes a failure with this error; writing the page revokes the
 * note.
 */
#define ATP_LIST_NOTE	"the subscription's owner has tables that keep the fetcher from its work"
extern void atp_list_note(const AtpListing *listing);

/*
 * Write a page.  yields: lists that wait come before the next page of this list.  False: the list
 * no longer waits for this page, or no page follows.
 */
extern bool atp_list_take(const AtpListing *listing, const char *page, size_t n, AtpListSeen *seen, bool yields);

/* Queue the accounts of a list of source "dids", which the subscription itself names. */
extern void atp_list_take_dids(const AtpListing *listing);

extern void atp_list_failed(const AtpListing *listing, const char *why, AtpListFault fault);

/* The host is not asked for so long: the list frees its place. */
extern void atp_list_put_off(const AtpListing *listing, long ms);

#endif							/* ATP_LIST_ROWS_H */
