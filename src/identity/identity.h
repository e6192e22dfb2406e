/*
 * identity.h
 *		What is known of accounts: the rows of atproto.identity.
 *
 * Whoever consumes a stream reads them, and says which are stale; the fetcher writes
 * them.  All of it with the rights of the table's owner: no role of a subscription needs
 * one on these tables, and none can write what others believe.
 *
 * Who changes rows of several tables does so in this order: wishes, identities,
 * repositories.
 *
 * SPI is connected, in a transaction with a snapshot.  DIDs are given in their order,
 * each once.
 */
#ifndef ATP_IDENTITY_H
#define ATP_IDENTITY_H

#include "postgres.h"

#include "config/owner.h"
#include "core/diddoc.h"
#include "datatype/timestamp.h"
#include "nodes/pg_list.h"

typedef enum AtpIdentityState
{
	ATP_IDENTITY_UNKNOWN,		/* there is no row */
	ATP_IDENTITY_WANTED,
	ATP_IDENTITY_GOOD,
	ATP_IDENTITY_GONE,
	ATP_IDENTITY_INVALID,
	ATP_IDENTITY_NO_KEY,
	ATP_IDENTITY_NO_PDS,
	ATP_IDENTITY_UNREACHABLE
} AtpIdentityState;

typedef struct AtpIdentity
{
	AtpIdentityState state;
	bool		has_key;
	bool		has_label_key;
	uint8_t		key[ATP_MULTIKEY_LEN];
	uint8_t		label_key[ATP_MULTIKEY_LEN];
	char	   *pds;			/* palloc'd, as the column; NULL: none */
	struct varlena *handle;		/* the one that is claimed; likewise */
	bool		handle_is_valid;	/* read only */
	TimestampTz resolved_at;	/* DT_NOBEGIN: never */
	TimestampTz asked_at;		/* likewise */
	TimestampTz denied_at;		/* likewise: nobody says that it is gone, or was enough */
	TimestampTz next_try;		/* likewise: not put off */
	bool		stale;			/* read only */
	List	   *doubted_by;		/* read only: OIDs of roles */
	int			tries;
	char	   *error;			/* NULL: none */
} AtpIdentity;

/* W-30: how long a document is believed without a question, a setting; and how long at all. */
extern int	atp_identity_ttl_s;
#define ATP_IDENTITY_DEAD_S	(7 * 24 * 3600)

/* From _PG_init(): the setting. */
extern void atp_identity_init(void);

/* Between these, statements run as the owner of the table (a relation of schema atproto). */
extern AtpCaller atp_as_table_owner(const char *table);

/* Into their order, each once; how many that are. */
extern int	atp_sort_dids(struct varlena **dids, int n);

/* An array of DIDs as a parameter: atp_run() and its like take it. */
struct AtpArg;
extern struct AtpArg atp_dids_arg(struct varlena *const *dids, int n);

/* $SQL with @ for the quoted schema of our types and operators; palloc'd. */
extern char *atp_identity_sql(const char *sql);

/* The rows of n DIDs, in one statement. */
extern void atp_identities_read(struct varlena *const *dids, int n, AtpIdentity *identities);

/* Write them, new ones and others, each whole but for "stale" and what is known of its handle. */
extern void atp_identities_write(struct varlena *const *dids, int n, const AtpIdentity *identities);

/*
 * W-31: an #identity event of each DID came by a subscription of this role.  A DID without a row
 * gets none.  Every role's look-ups find the row stale.  Its key is doubtful for this role alone, until
 * a look-up has ended that began after the event: nobody has signed the event, so it makes no other
 * role's events wait.
 */
extern void atp_identities_doubt(struct varlena *const *dids, int n, Oid role);

/* The DIDs are about to be looked up: an #identity that comes from now on asks for another look-up. */
extern void atp_identities_begin_lookup(struct varlena *const *dids, int n);

/* Has an #identity event that a subscription of this role brought made the key doubtful? */
extern bool atp_identity_is_doubtful(const AtpIdentity *identity, Oid role);

/* V-43: an identity that definitively does not function, as long as nothing newer is known. */
extern bool atp_identity_is_broken(const AtpIdentity *identity);

/*
 * W-33: the directory has said once that there is no such account, of which nothing was known;
 * it may be too new for it.  Such an identity is broken, but another answer comes in a minute.
 */
extern bool atp_identity_is_denied(const AtpIdentity *identity);

/* W-30: has it a key that is to be believed? */
extern bool atp_identity_is_usable(const AtpIdentity *identity, TimestampTz now);

/* Is there reason to ask, because an event of the account came? */
extern bool atp_identity_is_due(const AtpIdentity *identity, TimestampTz now);

extern const char *atp_identity_state_name(AtpIdentityState state);

#endif							/* ATP_IDENTITY_H */
