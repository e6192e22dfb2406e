/*
 * subscription.h
 *		Rows of atproto.subscription: the settings that the operator has
 *		written, as structs.
 */
#ifndef ATP_SUBSCRIPTION_H
#define ATP_SUBSCRIPTION_H

#include "postgres.h"

#include "core/syntax/slice.h"
#include "net/endpoint.h"
#include "nodes/pg_list.h"

#define ATP_NAME_MAX	63		/* bytes of a subscription's name */
#define ATP_WORKERS_MAX	32		/* apply workers of a subscription */

/* The use of table record_event. */
typedef enum AtpEvents
{
	ATP_EVENTS_NONE,
	ATP_EVENTS_KEEP,
	ATP_EVENTS_HAND				/* inserted, so that its triggers see the row, and removed in the same transaction */
} AtpEvents;

/*
 * How much of a repository's events is verified (V-01).  Each level also makes the checks of the levels
 * before.
 */
typedef enum AtpVerify
{
	ATP_VERIFY_HASH,			/* the hashes of the blocks */
	ATP_VERIFY_CHAIN,			/* the chain: no operation of a commit and no commit is missing */
	ATP_VERIFY_FULL				/* the account's signature */
} AtpVerify;

/* Which repositories are fetched.  Each value includes the values before. */
typedef enum AtpBackfill
{
	ATP_BACKFILL_NONE,
	ATP_BACKFILL_REPAIR,		/* repositories that are not in step with the stream */
	ATP_BACKFILL_SEEN,			/* repositories with an event */
	ATP_BACKFILL_COLLECTIONS,	/* repositories with records in the subscription's collections */
	ATP_BACKFILL_NETWORK
} AtpBackfill;

/* How a repository is fetched if the subscription names collections (P-30). */
typedef enum AtpFetchAs
{
	ATP_FETCH_AUTO,				/* as parts where that is cheaper */
	ATP_FETCH_WHOLE,
	ATP_FETCH_SPARSE			/* as parts */
} AtpFetchAs;

/* A selection of links to store: of records in these collections, at this path. */
typedef struct AtpLinkFilter
{
	char	   *collection;		/* valid pattern (I-06) */
	char	   *path;			/* NULL: any */
} AtpLinkFilter;

/* The treatment of a record in violation of a Lexicon. */
typedef enum AtpValidate
{
	ATP_VALIDATE_NONE,			/* records are not validated */
	ATP_VALIDATE_FLAG,			/* stored, with the reason in record.fault */
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
	bool		packs;			/* no option: values in the target's tables are of the type dagcbor (target.h) */
	bool		has_links;		/* table link is kept in step ... */
	int			nlinks;			/* ... with links from these sources; -1: all */
	AtpLinkFilter *links;
	int			nvalidate;		/* treatment by collection; the first matching element counts */
	AtpValidateFilter *validate;
	AtpVerify	verify;
	AtpBackfill backfill;
	AtpFetchAs	fetch_as;
	int			max_dead_letters;
	int64		max_dead_letter_bytes;
	int			max_held;		/* limit of the held events of a repository ... */
	int64		max_held_bytes; /* ... and their bytes, of all repositories */
	bool		identities;		/* M-30: the identities follow the log of this directory */
	bool		host_is_pds;	/* V-44: only accounts of the stream's host are followed */
	bool		count_collections;
	int64		archived_until; /* events up to here are read again, as rows of an archive (history.h) */
} AtpSettings;

/* Bytes of a subscription's id, as text. */
#define ATP_ID_LEN	36

typedef struct AtpSubscription
{
	char	   *name;
	char	   *id;				/* as text; stays the same when the subscription is renamed, and differs between successive subscriptions of a name */
	char	   *url;
	Oid			owner;			/* InvalidOid when the role is gone */
	bool		runnable;		/* enabled and not stopped */
	TransactionId version;		/* changes with every update of the row */

	/* The following fields are set by atp_subscription_get() only. */
	AtpEndpoint *ep;
	const struct AtpStreamKind *source; /* the kind of stream */
	char	   *target;			/* schema of the data tables */
	Oid			target_owner;	/* the schema's owner when the target was named; InvalidOid: there was no such schema */
	char	   *ca_file;		/* NULL: the system's */
	char	   *proxy;			/* NULL: from the environment */
	char	   *headers;		/* lines "Name: value\r\n", or "" */
	bool		has_archive;	/* the server's archive is read before the stream ... */
	char	   *archive;		/* ... at this server, "https://host" ... */
	char	   *archive_headers;	/* ... with the headers of request_header that are marked archive */
	int			workers;
	bytea	   *digest;			/* ATP_SETTINGS_DIGEST of the row */
	AtpSettings settings;
} AtpSubscription;

/* SQL: the digest of the settings in a row of atproto.subscription. */
#define ATP_SETTINGS_DIGEST ATP_SETTINGS_DIGEST_OF("target")
#define ATP_SETTINGS_DIGEST_OF(target) \
	"sha256(convert_to(ROW(" target ", collections, dids, slice, actions, keep_records," \
	" events, keep_raw, verify, host_is_pds, count_collections, links, validate)::text, 'UTF8'))"

/* Do both have the same connection, target, owner and number of workers? */
extern bool atp_subscription_same_stream(const AtpSubscription *a, const AtpSubscription *b);

/*
 * Do both store and count the same rows in the same tables, for an event that both accept?  Filters by account, and
 * the level of verification, are not compared.
 */
extern bool atp_subscription_same_contents(const AtpSubscription *a, const AtpSubscription *b);

/*
 * Do both store the same rows, for the same accounts, in the same tables, verified at the same level, and with
 * the same rights?
 */
extern bool atp_subscription_same_rows(const AtpSubscription *a, const AtpSubscription *b);

/* Parse an element of the column links, "collection:path" or "collection", cutting the text in place. */
extern AtpLinkFilter atp_link_filter(char *text);

/* Parse an element of the column validate, "collection=how", cutting the text in place.  False: invalid. */
extern bool atp_validate_filter(char *text, AtpValidateFilter *filter);

/* The following functions need a transaction with SPI; results are palloc'd in cxt. */
extern List *atp_subscription_list(MemoryContext cxt);
extern AtpSubscription *atp_subscription_get(const char *name, MemoryContext cxt);	/* NULL: the name is unknown */

/*
 * Names of the subscriptions with this target that satisfy an SQL condition, in this order; without those
 * whose owner may not fill the target (target.h).  Row security of the current user applies.
 */
extern List *atp_subscriptions_filling(const char *target, const char *condition, const char *order);

/*
 * For functions that act with the owner's rights: an ERROR unless the current user has the privileges of the
 * owner.
 */
extern AtpSubscription *atp_subscription_borrow(const char *name, MemoryContext cxt);

/* Has no session changed the row since the row was read? */
extern bool atp_subscription_is_present(const AtpSubscription *sub);

/*
 * Stop the subscription until an operator resumes it.  False: the row was changed since it was read, or is
 * gone.
 */
extern bool atp_subscription_stop(const AtpSubscription *sub, const char *reason);

#endif							/* ATP_SUBSCRIPTION_H */
