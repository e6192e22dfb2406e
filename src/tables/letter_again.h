/*
 * letter_again.h
 *		Dead letters once more: atproto.retry().
 */
#ifndef ATP_LETTER_AGAIN_H
#define ATP_LETTER_AGAIN_H

#include "stream/family.h"

/* What subscribeRepos has to say of a letter: see AtpFamily. */
extern AtpAgain atp_again_repos(Apply *a, int event);
extern AtpAgain atp_again_repos_row(Apply *a, int row);

#endif							/* ATP_LETTER_AGAIN_H */
