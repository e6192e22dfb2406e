/*
 * repo_again.h
 *		Where a dead letter of subscribeRepos stands, by what is in the tables now.
 */
#ifndef ATP_REPO_AGAIN_H
#define ATP_REPO_AGAIN_H

#include "tables/sink.h"

/* See AtpSink. */
extern AtpAgain atp_again_repos(AtpApply *a, int event);
extern AtpAgain atp_again_repos_row(AtpApply *a, int row);

#endif							/* ATP_REPO_AGAIN_H */
