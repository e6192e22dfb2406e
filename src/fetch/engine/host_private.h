/*
 * host_private.h
 *		What host.c, which has the hosts in memory, and host_table.c, which has
 *		them in atproto.host, share.
 */
#ifndef ATP_HOST_PRIVATE_H
#define ATP_HOST_PRIVATE_H

#include "postgres.h"

#include "fetch/engine/host.h"
#include "lib/ilist.h"

#define ATP_HOST_NAME	261		/* a name, a colon, a port, and a zero byte */

typedef struct AtpHost
{
	char		name[ATP_HOST_NAME];	/* the key */
	dlist_node	node;			/* in the order of their use */
	AtpManners	manners;
	char		reason[256];	/* why it rests */

	/* since they were written */
	bool		dirty;
	int64		requests;
	int64		bytes;
	int64		refused;
	bool		answered;
	/* as the host said it last */
	int64		limit;			/* -1: it never did */
	int64		remaining;
} AtpHost;

/* The host of this name, known from now on; NULL: there is no room. */
extern AtpHost *atp_host_get(const char *name);

/* If it is known; else NULL. */
extern AtpHost *atp_host_known(const char *name);

/* The next that has something to write, after one, or the first; NULL: no more. */
extern AtpHost *atp_host_dirty(AtpHost *after);

/* Does any rest? */
extern bool atp_host_any_rests(AtpTime now);

#endif							/* ATP_HOST_PRIVATE_H */
