/*
 * names.h
 *		Names of SQL for what a Lexicon calls otherwise.
 *
 *		createdAt				created_at
 *		reply, parent, uri		reply_parent_uri
 *		app.bsky.feed.post		app_bsky_feed_post
 *		postURL, 2nd, a b		post_url, _2nd, a_b
 *		order, end				order_, end_: words that SQL reserves
 *
 * What is longer than a name may be is cut; what is taken gets _2, _3, ...
 */
#ifndef ATP_LEXICON_NAMES_H
#define ATP_LEXICON_NAMES_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/hsearch.h"

/* Append a part of a name, with '_' before all but the first. */
extern void atp_name_append(StringInfo name, const char *part);

/* What becomes of a name at last; palloc'd. */
extern char *atp_name_finish(StringInfo name);

/* Names that are taken. */
extern HTAB *atp_names_make(void);
extern void atp_names_take(HTAB *names, const char *name);

/* Take this name, or the first that is free; palloc'd. */
extern char *atp_names_take_free(HTAB *names, const char *name);

#endif							/* ATP_LEXICON_NAMES_H */
