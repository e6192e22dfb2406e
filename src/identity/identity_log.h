/*
 * identity_log.h
 *		Identities of did:plc accounts by logs that the database follows (M-30, M-31).
 *
 * A subscription with "identities" keeps the log of a directory, verified, in its target.  The log is believed only while
 * nobody but roles with the rights of the extension's owner may write it (atproto.log_is_believed()), because
 * atproto.identity serves the subscriptions of all roles.  The log is fresh while the stream lags by less than
 * atproto.plc_lag: then look-ups of accounts in the log are answered from the log, and no directory is asked.
 *
 * Invariant: the log says nothing of an account if the directory may have an operation that the log lacks.  So a log says nothing
 * of any account while the subscription has an open gap or a dead letter (stat_directory.complete); nothing of an account that the
 * subscription does not follow, or whose log was asked for and has not come (ATP_LOG_ANSWERS); and nothing of an account whose
 * newest entry was refused, or waits for operations before it (ATP_LOG_IS_DOUBTED).  Then the directory is asked, and what its
 * document says stays.
 *
 * Only these functions read a log as a source of identities; the log is read by the view plc_history alone.  The caller has
 * SPI connected, in a transaction with a snapshot.  Arrays of DIDs are sorted, without duplicates.
 */
#ifndef ATP_IDENTITY_LOG_H
#define ATP_IDENTITY_LOG_H

#include "config/spi.h"
#include "config/subscription.h"
#include "identity/identity.h"

/* Setting: milliseconds that a log may lag behind its directory, and that an event waits for the log. */
extern int	atp_plc_lag_ms;

/* A log may lag at least so many milliseconds, whatever the setting: a process that receives and commits needs some time. */
#define ATP_PLC_LAG_MIN_MS	3000

/* From _PG_init(): the setting. */
extern void atp_identity_log_init(void);

typedef enum AtpLogAnswer
{
	ATP_LOG_SILENT,				/* no log may answer for the account */
	ATP_LOG_LACKS,				/* a fresh log of all accounts does not have the account yet */
	ATP_LOG_HAS
} AtpLogAnswer;

/*
 * Until the end of the transaction, no other transaction may write operations and have the identities follow.  False: such a
 * transaction runs.  The fetcher takes this lock before it reads a log to write rows of atproto.identity: a row by an
 * operation that is outdated at the commit would stay.
 */
extern bool atp_identity_log_try_lock(void);

/* Put what fresh logs say of n DIDs into the identities, which were read from the table. */
extern void atp_identity_log_read(struct varlena *const *dids, int n, AtpIdentity *identities, AtpLogAnswer *answers, TimestampTz now);

/*
 * M-31: for events that are judged: identities that are unknown, due or doubtful are completed by a fresh log (from_log),
 * without a change of the table.
 */
extern void atp_identities_complete(struct varlena *const *dids, int n, AtpIdentity *identities, TimestampTz now);

/*
 * M-30: the transaction has written operations of these accounts into the log of a subscription that is believed; n < 0: compare all
 * accounts.  Updates the rows of atproto.identity, removes look-ups that are done thereby, and returns the accounts whose held
 * events are to be released.
 */
extern List *atp_identity_log_follow(const AtpSubscription *sub, struct varlena *const *dids, int n, TimestampTz now);

/*
 * M-31: doubts the identities of all accounts of which the log of this subscription may lack an operation, because the directory's
 * entry was refused or became a dead letter: that may have been while nobody followed.
 */
extern void atp_identity_log_doubt(const AtpSubscription *sub);

/*
 * For the functions that read logs (here and in former_key.c), as the owner of atproto.identity: the log of a subscription that is
 * believed, fresh and complete; the list of these logs; the SQL text with @ replaced by the quoted schema of our types and
 * operators, and # by the quoted target, palloc'd.
 */
typedef struct AtpIdentityLog
{
	char	   *subscription;
	char	   *target;
	bool		named;			/* the subscription names accounts (dids) */
} AtpIdentityLog;

extern List *atp_identity_fresh_logs(void);
extern char *atp_identity_log_sql(const char *sql, const char *target);

/*
 * SQL: may the log of a subscription answer for an account, as far as requests for the account's log tell?  The consumer makes a row
 * of atproto.plc_log_request for each account in "dids", and removes the rows of other accounts, so that the rows tell which
 * accounts the subscription follows.  Without "dids", a request in vain leaves a row, but then plc_refused has the entry because of
 * which the log was asked for.
 */
#define ATP_LOG_ANSWERS(did, subscription, named) \
	"COALESCE((SELECT q.answer IS NULL AND q.next_try IS NULL AND CASE q.why WHEN 'dids' THEN q.error IS NULL ELSE NOT " named " END" \
	" FROM atproto.plc_log_request q WHERE q.subscription = " subscription " AND q.did OPERATOR(@.=) " did "), NOT " named ")"

/*
 * SQL: M-31: was an entry of the account refused that is not older than the row h of plc_history?  Directories number their entries
 * differently, so the times count, too; an unreadable entry has no time, and an operation from an account's log no number.  An entry
 * that was refused for its time may follow the newest operation, although its time is earlier.  An entry that came again counts by its last
 * number and time.
 */
#define ATP_LOG_IS_DOUBTED \
	"EXISTS (SELECT FROM #.plc_refused f JOIN #.plc_operation o ON o.did OPERATOR(@.=) f.did AND o.n = h.n" \
	" CROSS JOIN LATERAL (SELECT GREATEST(f.created_at, f.again_at) >= o.created_at - CASE f.reason WHEN 'order' THEN interval '1 min' ELSE '0' END AS is_later," \
	"  GREATEST(f.seq, f.again_seq) > o.seq AS has_more) t" \
	" WHERE f.did OPERATOR(@.=) h.did AND COALESCE(t.has_more OR t.is_later, t.has_more, t.is_later, true))"

/* SQL: columns of plc_history h; the function puts these columns of a row into the identity. */
#define ATP_LOG_STATE	"h.since, h.key, h.label_key, h.server, h.handle AS log_handle, h.gone"
extern void atp_identity_take_state(AtpIdentity *identity, AtpTuple row, TimestampTz now);

/* Is the log of this target believed, if a subscription of this owner keeps it? */
extern bool atp_identity_log_is_believed(Oid owner, const char *target);

#endif							/* ATP_IDENTITY_LOG_H */
