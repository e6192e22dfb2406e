/*
 * repo_limits.h
 *		Limits of fetches that no user asked for.
 *
 * Call in a transaction of the fetcher, with SPI connected.
 */
#ifndef ATP_REPO_LIMITS_H
#define ATP_REPO_LIMITS_H

#include "fetch/repositories/repo_rows.h"

/*
 * Begin storms.  If many repositories of a role's subscriptions break at the same time, the cause
 * is not the repositories (a gap of the stream, for example).  Until the storm ends, only
 * repositories that a session asked for are fetched for this role; repositories of all remaining
 * roles are fetched as before.
 *
 * If the repositories are of one host, only the repositories of this host wait: the operator of a
 * host can break any number of repositories, which must not stop the repairs of other accounts.
 */
extern void atp_repo_storms(void);

/* SQL: is the owner of subscription s in a storm that stops the job j? */
#define ATP_REPO_STORM	"EXISTS (SELECT FROM atproto.repo_storm t WHERE t.owner::oid = s.owner::oid" \
	" AND (t.host = '' OR t.host = " ATP_REPO_HOST ")" \
	" AND t.until > now() AND t.until <= now() + interval '5 min')"

/*
 * SQL: when the repository of a row f of atproto.repo_fetched may be fetched again; null: at any
 * time.
 */
#define ATP_REPO_MAY_BE_FETCHED	"greatest(f.at[5] + interval '1 hour', f.at[20] + interval '1 day')"

/* The repository was fetched too often: its job waits until ATP_REPO_MAY_BE_FETCHED. */
extern void atp_repo_throttle(const AtpRepoJob *job);

/* Queue throttled jobs again whose time has come. */
extern void atp_repos_unthrottle(void);

/* Count a fetch that no user asked for. */
extern void atp_repo_fetched(const AtpRepoJob *job);

/* Delete rows older than the longest limit, a day. */
extern void atp_repos_forget_fetched(void);

#endif							/* ATP_REPO_LIMITS_H */
