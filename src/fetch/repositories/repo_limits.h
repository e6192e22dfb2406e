/*
 * repo_limits.h
 *		How often repositories are fetched without anybody asking for it.
 *
 * All of it in a transaction of the fetcher, with SPI connected.
 */
#ifndef ATP_REPO_LIMITS_H
#define ATP_REPO_LIMITS_H

#include "fetch/repositories/repo_rows.h"

/*
 * So many repositories of one role's subscriptions have come out of step at once that it is no fault of
 * theirs: for this role none is fetched for a while but those that somebody asks for.  Other roles'
 * repositories are fetched as before.
 */
extern void atp_repo_storms(void);

/* SQL: does the owner of subscription s wait for the end of a storm? */
#define ATP_REPO_STORM	"EXISTS (SELECT FROM atproto.repo_storm t WHERE t.owner::oid = s.owner::oid" \
	" AND t.until > now() AND t.until <= now() + interval '5 min')"

/* SQL: from when on the repository of a row f of atproto.repo_fetched may be fetched; null: at any time. */
#define ATP_REPO_MAY_BE_FETCHED	"greatest(f.at[5] + interval '1 hour', f.at[20] + interval '1 day')"

/* It was fetched too often: it waits until then. */
extern void atp_repo_throttle(const AtpRepoJob *job);

/* Those whose time has come are in the queue again. */
extern void atp_repos_unthrottle(void);

/* It has been fetched, and nobody had asked for it. */
extern void atp_repo_fetched(const AtpRepoJob *job);

/* What no limit needs to know any more is forgotten. */
extern void atp_repos_forget_fetched(void);

#endif							/* ATP_REPO_LIMITS_H */
