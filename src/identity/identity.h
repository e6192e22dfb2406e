/*
 * identity.h
 *		The rows of atproto.identity: keys, server and handle of accounts.
 *
 * Consumers read these rows and mark them stale; the fetcher writes them.  All statements run with the
 * rights of the table's owner.  So no subscription's role needs privileges on these tables, and no
 * role can forge an identity on which other subscriptions rely.
 *
 * A transaction that changes rows of several tables locks requests first, then identities; the fixed
 * order avoids deadlocks.  Where the fetcher locks identities first, it does not wait.  The caller has
 * SPI connected, in a transaction with a snapshot.  Arrays of DIDs are sorted, without duplicates.
 */
#ifndef ATP_IDENTITY_H
#define ATP_IDENTITY_H

#include "postgres.h"

#include "config/owner.h"
#include "core/wire/diddoc.h"
#include "datatype/timestamp.h"
#include "nodes/pg_list.h"

typedef enum AtpIdentityState
{
	ATP_IDENTITY_UNKNOWN,		/* the table has no row */
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
	char	   *pds;			/* palloc'd, in the column's form; NULL: no server */
	struct varlena *handle;		/* the handle that the document claims; NULL: no handle */
	bool		handle_is_valid;	/* read only */
	TimestampTz resolved_at;	/* when a document was read last; DT_NOBEGIN: never */
	TimestampTz asked_at;		/* when a look-up ended last; DT_NOBEGIN: never */

	/*
	 * when a look-up first found no valid document, and a second look-up has to confirm this; DT_NOBEGIN: not
	 * denied, or confirmed
	 */
	TimestampTz denied_at;
	TimestampTz next_try;		/* after a failure: no look-up before; DT_NOBEGIN: not put off */
	TimestampTz log_time;		/* M-30: time of the operation by which a followed log has filled the row; DT_NOBEGIN: a document has */
	bool		from_log;		/* M-31: completed by a fresh log, and not what the table has */
	bool		stale;			/* read only */
	List	   *doubted_by;		/* read only: OIDs of roles */
	int			tries;
	char	   *error;			/* why the last look-up failed; NULL: success */
} AtpIdentity;

/*
 * W-30: the age at which a document is read again when the account has an event (a setting), and the age at
 * which its key is no longer trusted.
 */
extern int	atp_identity_ttl_s;
#define ATP_IDENTITY_DEAD_S	(7 * 24 * 3600)

/* From _PG_init(): the setting. */
extern void atp_identity_init(void);

/* Switch to the owner of a table in schema atproto, until atp_owner_end(). */
extern AtpCaller atp_as_table_owner(const char *table);

/* Sort DIDs and remove duplicates; returns the new number. */
extern int	atp_sort_dids(struct varlena **dids, int n);

/* A DID (NULL: no DID), and an array of DIDs, as a parameter for atp_run() and atp_query(). */
struct AtpArg;
extern struct AtpArg atp_did_arg(const struct varlena *did);
extern struct AtpArg atp_dids_arg(struct varlena *const *dids, int n);

/* The SQL text with each @ replaced by the quoted schema of our types and operators; palloc'd. */
extern char *atp_identity_sql(const char *sql);

/* Read the rows of n DIDs in one statement.  A DID without a row gets state ATP_IDENTITY_UNKNOWN. */
extern void atp_identities_read(struct varlena *const *dids, int n, AtpIdentity *identities);

/*
 * Lock the rows of n DIDs, without waiting.  is_free: is the row locked now, or is there none?  A session may have locked
 * the other rows, for example by a change of a subscription's owner; the fetcher, which serves all roles, must not wait for
 * the session.
 */
extern void atp_identities_try_lock(struct varlena *const *dids, int n, bool *is_free);

/*
 * Insert or update the rows of DIDs whose look-up has ended.  Not written are stale, and the results of handle
 * checks, unless the handle changes.  The look-up ends the doubts about #identity events that came before the
 * look-up began: doubted_by keeps only the roles in said_by.
 */
extern void atp_identities_write(struct varlena *const *dids, int n, const AtpIdentity *identities);

/*
 * M-30: like atp_identities_write(), for rows that a log has filled.  A log is no look-up: asked_at of a row stays, because an
 * event whose key does not fit is false only after a look-up (V-41).
 */
extern void atp_identities_write_by_log(struct varlena *const *dids, int n, const AtpIdentity *identities);

/*
 * Is the table empty?  In most databases no subscription uses identities, and #identity events must then cost nothing.
 */
extern bool atp_identities_none(void);

/*
 * W-31: an #identity event of each DID came by a subscription of this role.  A DID without a row gets no row.
 * Every role's look-ups find the row stale.  The key is doubtful for this role alone, until a look-up has ended
 * that began after the event: the event has no signature, so the event makes no other role's events wait.
 */
extern void atp_identities_doubt(struct varlena *const *dids, int n, Oid role);

/*
 * Events that a subscription of role from received are judged for role to from now on: where the key is
 * doubtful for from, the key is doubtful for to, too.  n < 0: for all accounts.
 */
extern void atp_identities_share_doubts(struct varlena *const *dids, int n, Oid from, Oid to);

/* The DIDs are about to be looked up: an #identity that comes from now on asks for another look-up. */
extern void atp_identities_begin_lookup(struct varlena *const *dids, int n);

/* Has an #identity event that a subscription of this role brought made the key doubtful? */
extern bool atp_identity_is_doubtful(const AtpIdentity *identity, Oid role);

/*
 * V-43: is the identity known not to work (no account, no valid document, no key or no server)?  Holds until
 * a newer look-up says otherwise.
 */
extern bool atp_identity_is_broken(const AtpIdentity *identity);

/*
 * W-33: has the directory denied once an account of which nothing was known?  The account may be too new for
 * the directory.  Such an identity counts as broken, but the next look-up follows in a minute.
 */
extern bool atp_identity_is_denied(const AtpIdentity *identity);

/*
 * W-30: does the identity have a key that is recent enough to trust?  A document read at a time that now lies in
 * the future, because the clock was set back, counts as recent.
 */
extern bool atp_identity_is_usable(const AtpIdentity *identity, TimestampTz now);

/* Should an event of the account cause a look-up? */
extern bool atp_identity_is_due(const AtpIdentity *identity, TimestampTz now);

extern const char *atp_identity_state_name(AtpIdentityState state);

#endif							/* ATP_IDENTITY_H */
