/*
 * list_entries.h
 *		The accounts, or hosts, that a page of a list names, and whether a
 *		list still names new ones.
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
	int64		entries;		/* valid ones */
	int64		skipped;
	int			n;				/* active accounts; once sorted, each once, in the order of their DIDs */
	int			room;
	AtpListedAccount *accounts;
	int64		room_for_hosts; /* so many entries of a list of hosts count; the caller's */
	bool		is_over;		/* there were more */
	List	   *hosts;			/* those of them that may be asked: scheme and host, char *, palloc'd */
	char	   *cursor;			/* of the next page; NULL: none */
	bool		crowded;		/* accounts that are not active are not noted: there are too many already; the caller's */
} AtpListed;

/* The caller fills what is returned, and counts it. */
extern AtpListedAccount *atp_listed_add(AtpListed *listed);
extern void atp_listed_sort(AtpListed *listed);

/* Leave out the accounts that the subscription does not follow. */
extern void atp_listed_keep(AtpListed *listed, const AtpSettings *settings);

/*
 * Which accounts a list has named since this process reads it; a sketch, which
 * notices a new one among millions with some probability, and never an old one.
 */
#define ATP_LIST_REGISTERS	16384

typedef struct AtpListSeen
{
	int			fruitless;		/* pages in a row that named no new one */
	uint8		registers[ATP_LIST_REGISTERS];
} AtpListSeen;

/* Reads a page into one that is all zeros, but for the room, and sorts it.  NULL, or what is wrong with it, palloc'd. */
extern char *atp_listed_read(AtpListed *listed, AtpListKind kind, AtpListSeen *seen, const char *text, size_t n);

#endif							/* ATP_LIST_ENTRIES_H */
