/*
 * list_rows.h
 *		Lists of repositories: how far each has been read, and what its entries
 *		become.  What the errand of list.c writes.
 *
 * In a transaction, with SPI connected.
 */
#ifndef ATP_LIST_ROWS_H
#define ATP_LIST_ROWS_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "fetch/repositories/list_entries.h"
#include "nodes/pg_list.h"

/* A list that is to be read on; all of it palloc'd. */
typedef struct AtpListing
{
	char	   *subscription;
	char	   *source;			/* as in atproto.enumeration */
	char	   *server;			/* scheme and host */
	char	   *cursor;			/* of the page that comes; NULL: the first */
	TimestampTz started_at;
} AtpListing;

typedef enum AtpListFault
{
	ATP_LIST_AGAIN,				/* the same page, after a while */
	ATP_LIST_BUSY,				/* ... as soon as the host may be asked: this is not the list's fault */
	ATP_LIST_ANEW,				/* the server does not know the cursor */
	ATP_LIST_NOTED				/* as was noted */
} AtpListFault;

/* From _PG_init(): the setting. */
extern void atp_list_init(void);

/* Sources: R-60: whose page is one of hosts; and with a host's URL after it, the host's own list. */
#define ATP_LIST_HOSTS_SOURCE	"listHosts"
#define ATP_LIST_OF_HOST		"listRepos "
extern bool atp_list_is_of_hosts(const AtpListing *listing);
extern bool atp_list_is_of_host(const AtpListing *listing);

/*
 * atproto.recheck() has the list read, once, for those that are stored and newer there; this is
 * its source.
 */
#define ATP_LIST_RECHECK	"recheck"
extern void atp_list_recheck(const char *subscription);
extern bool atp_list_is_recheck(const AtpListing *listing);

/* Is there one that is due, or soon will be? */
extern bool atp_list_is_wanted(void);

/*
 * Those that are due, at most so many; a list that was not being read is begun.  Each subscription has
 * as many as the others; of its own, those come first that are being read, then those that have waited longest.
 */
extern List *atp_lists_due(int limit);

/*
 * Its owner's tables are about to be looked at, which may be the end of this process (bounded.h):
 * in a transaction before, it is noted as a failure, which what follows revokes.
 */
#define ATP_LIST_NOTE	"the subscription's owner has tables that keep the fetcher from its work"
extern void atp_list_note(const AtpListing *listing);

/* What the page brought.  yields: others that wait come before the next one.  False: it is not wanted any more, or nothing follows. */
extern bool atp_list_take(const AtpListing *listing, const char *page, size_t n, AtpListSeen *seen, bool yields);

/* The list "dids", which is in the subscription. */
extern void atp_list_take_dids(const AtpListing *listing);

extern void atp_list_failed(const AtpListing *listing, const char *why, AtpListFault fault);

/* Its host is not asked for so long: others have its place meanwhile. */
extern void atp_list_rests(const AtpListing *listing, long ms);

#endif							/* ATP_LIST_ROWS_H */
