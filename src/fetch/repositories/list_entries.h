/*
 * list_entries.h
 *		Parses a page of a list: the accounts or hosts that the page names, and
 *		whether the list still names new entries.  Reads and writes no table.
 */
#ifndef ATP_LIST_ENTRIES_H
#define ATP_LIST_ENTRIES_H

#include "postgres.h"

#include "config/subscription.h"
#include "core/wire/list_page.h"
#include "nodes/pg_list.h"

typedef struct AtpListedAccount
{
	struct varlena *did;
	bool		has_rev;
	uint64		rev;
	bool		inactive;
} AtpListedAccount;

typedef struct AtpListed
{
	int64		entries;		/* valid entries of the page */
	int64		skipped;
	int			n;				/* accounts; after atp_listed_sort() each account once, in the order
								 * of DIDs */
	int			room;
	AtpListedAccount *accounts;
	int64		room_for_hosts; /* how many entries of a list of hosts count; set by the caller */
	bool		is_over;		/* the page had more hosts than room_for_hosts */
	List	   *hosts;			/* hosts that policy allows: scheme and host, char *, palloc'd */
	char	   *cursor;			/* cursor of the next page; NULL: no next page */
	bool		crowded;		/* accounts that are not active are skipped: the list has named too
								 * many already; set by the caller */
} AtpListed;

/* Append an account.  The caller fills the account that is returned, and sets "entries". */
extern AtpListedAccount *atp_listed_add(AtpListed *listed);
extern void atp_listed_sort(AtpListed *listed);

/* Leave out the accounts that the subscription does not follow. */
extern void atp_listed_keep(AtpListed *listed, const AtpSettings *settings);

/*
 * Sketch of the accounts a list has named since this process began to read the list.  The sketch
 * never takes an old account for new; among millions of accounts a new account is noticed with some
 * probability only.
 */
#define ATP_LIST_REGISTERS	16384

typedef struct AtpListSeen
{
	int			fruitless;		/* pages in a row without a new entry */
	uint8		registers[ATP_LIST_REGISTERS];
} AtpListSeen;

/*
 * Parse a page into a struct that is zero except for room_for_hosts, and sort the accounts.
 * Returns NULL, or the error of an invalid page, palloc'd.
 */
extern char *atp_listed_read(AtpListed *listed, AtpListKind kind, AtpListSeen *seen, const char *text, size_t n);

#endif							/* ATP_LIST_ENTRIES_H */
