/*
 * subscription.h
 *		Rows of atproto.subscription: what the operator wants.
 */
#ifndef ATP_SUBSCRIPTION_H
#define ATP_SUBSCRIPTION_H

#include "postgres.h"

#include "core/syntax/slice.h"
#include "datatype/timestamp.h"
#include "net/endpoint.h"
#include "nodes/pg_list.h"

#define ATP_NAME_MAX	63		/* bytes of a subscription's name */
#define ATP_WORKERS_MAX	32		/* of one subscription */

/* What table record_event is for. */
typedef enum AtpEvents
{
	ATP_EVENTS_NONE,
	ATP_EVENTS_KEEP,
	ATP_EVENTS_HAND				/* inserted for its triggers, then removed */
} AtpEvents;

/* How much of a repository's events is verified (V-01); each level accepts a part of what the one before it does. */
typedef enum AtpVerify
{
	ATP_VERIFY_HASH,			/* what is in the blocks */
	ATP_VERIFY_CHAIN,			/* and that nothing was left out: of a commit, nor between two of them */
	ATP_VERIFY_FULL				/* and that the account has signed it */
} AtpVerify;

/* Which repositories are fetched; each value means what the one before it does, too. */
typedef enum AtpBackfill
{
	ATP_BACKFILL_NONE,
	ATP_BACKFILL_REPAIR,		/* those that are not in step */
	ATP_BACKFILL_SEEN,			/* those of which something came */
	ATP_BACKFILL_COLLECTIONS,	/* those that have records of these collections */
	ATP_BACKFILL_NETWORK
} AtpBackfill;

/* Links that are kept: of records of these collections, at this path. */
typedef struct AtpLinkFilter
{
	char	   *collection;		/* valid pattern (I-06) */
	char	   *path;			/* NULL: any */
} AtpLinkFilter;

/* What becomes of a record that is not what its Lexicon says. */
typedef enum AtpValidate
{
	ATP_VALIDATE_NONE,			/* nobody looks */
	ATP_VALIDATE_FLAG,			/* record.fault has why */
	ATP_VALIDATE_DEAD_LETTER
} AtpValidate;

typedef struct AtpValidateFilter
{
	char	   *collection;		/* valid pattern (I-06) */
	AtpValidate how;
} AtpValidateFilter;

/* Settings that may change while the stream runs. */
typedef struct AtpSettings
{
	int			ncollections;	/* -1: all */
	char	  **collections;	/* valid patterns (I-06) */
	int			ndids;			/* -1: all */
	struct varlena **dids;		/* sorted: atp_compare_did_refs() */
	AtpSlice	slice;
	bool		actions[3];		/* by AtpAction */
	bool		keep_records;
	AtpEvents	events;
	bool		keep_raw;
	bool		has_links;		/* table link is kept in step ... */
	int			nlinks;			/* ... with links from these places; -1: all */
	AtpLinkFilter *links;
	int			nvalidate;		/* records of these collections; the first that fits counts */
	AtpValidateFilter *validate;
	AtpVerify	verify;
	AtpBackfill backfill;
	int			max_letters;
	int64		max_letter_bytes;
	int			max_held;		/* events of a repository that may wait ... */
	int64		max_held_bytes; /* ... and their bytes, of all repositories */
	bool		host_is_pds;	/* V-44: only accounts of the stream's host are followed */
	bool		count_collections;
} AtpSettings;

typedef struct AtpSubscription
{
	char	   *name;
	char	   *id;				/* as text; another name does not change it */
	char	   *url;
	Oid			owner;			/* InvalidOid when the role is gone */
	bool		runnable;		/* enabled and not stopped */
	TransactionId version;		/* changes with every update of the row */

	/* the following only from atp_subscription_get() */
	AtpEndpoint *ep;
	const struct AtpSource *source; /* what kind of stream it is */
	char	   *target;			/* schema of the data tables */
	char	   *ca_file;		/* NULL: the system's */
	char	   *proxy;			/* NULL: from the environment */
	char	   *headers;		/* lines "Name: value\r\n", or "" */
	int			workers;
	TimestampTz created_at;		/* another of this name is another subscription */
	AtpSettings settings;
} AtpSubscription;

/* Do both ask for the same connection and the same tables? */
extern bool atp_subscription_same_stream(const AtpSubscription *a, const AtpSubscription *b);

/* Do both make the same rows of an event that they take, in the same tables? */
extern bool atp_subscription_same_contents(const AtpSubscription *a, const AtpSubscription *b);

/* Do both make the same rows of what they take, of the same accounts, in the same tables, with the same rights? */
extern bool atp_subscription_same_rows(const AtpSubscription *a, const AtpSubscription *b);

/* An element of the column links, "collection:path" or "collection": cuts it. */
extern AtpLinkFilter atp_link_filter(char *text);

/* An element of the column validate, "collection=how": cuts it.  False: it is none. */
extern bool atp_validate_filter(char *text, AtpValidateFilter *filter);

/* All of these: inside a transaction with SPI; results palloc'd in cxt. */
extern List *atp_subscription_list(MemoryContext cxt);
extern AtpSubscription *atp_subscription_get(const char *name, MemoryContext cxt);	/* NULL: none */

/*
 * Names of the subscriptions that fill this target: those of which the condition is true, in
 * this order, but without those whose owners may not fill it (target.h).  Row security
 * holds for the current user.
 */
extern List *atp_subscriptions_filling(const char *target, const char *condition, const char *order);

/* For who acts with the owner's rights: an ERROR unless he is a member of that role. */
extern AtpSubscription *atp_subscription_borrow(const char *name, MemoryContext cxt);

/* The consumer gives up until an operator resumes it.  False: the row has been changed, or is gone. */
extern bool atp_subscription_stop(const AtpSubscription *sub, const char *reason);

#endif							/* ATP_SUBSCRIPTION_H */
