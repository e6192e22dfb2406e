/*
 * names.h
 *		Converts names of Lexicons to SQL names: lower-case words joined by '_'.
 *
 *		createdAt				created_at
 *		reply, parent, uri		reply_parent_uri
 *		app.bsky.feed.post		app_bsky_feed_post
 *		postURL, 2nd, a b		post_url, _2nd, a_b
 *		order, end				order_, end_: words that SQL reserves
 *
 * A name that is too long is cut; a name that is already taken gets _2, _3, ...
 */
#ifndef ATP_LEXICON_NAMES_H
#define ATP_LEXICON_NAMES_H

#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/hsearch.h"

/* Appends a part of a name, after '_' unless it is the first part. */
extern void atp_name_append(StringInfo name, const char *part);

/* The final name, palloc'd: cut, and changed if it is a reserved word or begins with a digit. */
extern char *atp_name_finish(StringInfo name);

/* The set of names that are taken. */
extern HTAB *atp_names_make(void);
extern void atp_names_take(HTAB *names, const char *name);

/* Takes this name, or the first free name with a number; palloc'd. */
extern char *atp_names_take_free(HTAB *names, const char *name);

#endif							/* ATP_LEXICON_NAMES_H */
