/*
 * host_private.h
 *		Shared by host.c, which has the hosts in memory, and host_table.c, which reads and writes
 *		atproto.host.
 */
#ifndef ATP_HOST_PRIVATE_H
#define ATP_HOST_PRIVATE_H

#include "postgres.h"

#include "fetch/engine/host.h"
#include "lib/ilist.h"

#define ATP_HOST_NAME	261		/* a name, a colon, a port, and a zero byte */

typedef struct AtpHost
{
	char		name[ATP_HOST_NAME];	/* the key of the hash table */
	dlist_node	node;			/* in the list of recently used hosts */
	AtpHostLimiter limiter;
	char		reason[256];	/* why the host is in backoff */
	AtpTime		whole_until;	/* P-30: only whole repositories are fetched before; 0: parts, too */
	char		whole_reason[256];

	/* counted since the row was last written */
	bool		dirty;
	int64		requests;
	int64		bytes;
	int64		refused;
	bool		answered;
	/* rate-limit headers of the last answer */
	int64		limit;			/* -1: no answer had the header */
	int64		remaining;
	AtpTime		remaining_until;	/* until when remaining holds */
} AtpHost;

/* Find or add the host of this name; NULL: no host can be forgotten to make room. */
extern AtpHost *atp_host_get(const char *name);

/* Find a host without adding it; NULL if the host is unknown. */
extern AtpHost *atp_host_known(const char *name);

/* The next host with unwritten changes after this host (NULL: from the first); NULL: no more. */
extern AtpHost *atp_host_dirty(AtpHost *after);

/* Is any host in backoff, or asked for whole repositories only? */
extern bool atp_host_any_in_backoff(AtpTime now);
extern bool atp_host_any_refuses_parts(AtpTime now);

#endif							/* ATP_HOST_PRIVATE_H */
