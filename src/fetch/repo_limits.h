/*
 * repo_limits.h
 *		How often repositories are fetched without anybody asking for it.
 *
 * All of it in a transaction of the fetcher, with SPI connected.
 */
#ifndef ATP_REPO_LIMITS_H
#define ATP_REPO_LIMITS_H

#include "fetch/repo_rows.h"

/*
 * So many repositories have come out of step at once that it is no fault of theirs: none is
 * fetched for a while but those that somebody asks for.
 */
extern bool atp_repo_storm(void);

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
