/*
 * list_page.h
 *		The pages of com.atproto.sync.listRepos, listReposByCollection and
 *		listHosts: JSON that any server may have written.
 *
 * A pull reader: one entry per call.  Whether the page is complete, and which
 * page follows, is known only at its end.
 */
#ifndef ATP_LIST_PAGE_H
#define ATP_LIST_PAGE_H

#include "core/syntax/did.h"
#include "core/syntax/host_port.h"
#include "core/codec/json.h"
#include "core/wire/repo_status.h"

#define ATP_LIST_PAGE_MAX	4000000 /* bytes (W-55) */
#define ATP_LIST_CURSOR_MAX	4096

typedef enum AtpListKind
{
	ATP_LIST_REPOS,				/* listRepos and listReposByCollection */
	ATP_LIST_HOSTS
} AtpListKind;

typedef struct AtpListEntry
{
	size_t		name_len;
	char		name[ATP_DID_MAX];	/* a DID, or a host's name in lower case */
	uint16_t	port;			/* port of a host; 0: the default port */
	bool		active;			/* false only where the list says so */
	bool		has_rev;
	uint64_t	rev;
	AtpStatusText status;
} AtpListEntry;

typedef struct AtpListPage
{
	AtpJsonReader r;
	AtpListKind kind;
	bool		started;
	bool		has_list;
	bool		in_list;
	bool		has_cursor;
	size_t		cursor_len;		/* at the end of the page; 0: no page follows */
	char		cursor[ATP_LIST_CURSOR_MAX];
	uint64_t	skipped;		/* entries without a valid name */
} AtpListPage;

extern AtpErr atp_list_open(AtpListPage *page, AtpListKind kind, const char *s, size_t n, size_t *at);

/* The next entry; ATP_E_JSON_END after the last, if the whole page is valid. */
extern AtpErr atp_list_next(AtpListPage *page, AtpListEntry *entry, size_t *at);

#endif							/* ATP_LIST_PAGE_H */
